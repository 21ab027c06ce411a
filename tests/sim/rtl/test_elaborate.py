"""Verilog of modules is made once, whichever die they are in."""

from collections.abc import Callable
from pathlib import Path

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from plinth_hw import emit
from plinth_sim.rtl import elaborate


class Part(wiring.Component):
    """A register."""

    i: In(4)
    o: Out(4)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.sync += self.o.eq(self.i)
        return m


class Whole(wiring.Component):
    """A placed part, and a constant added to what it gives."""

    i: In(4)
    o: Out(4)

    def __init__(self, added: int) -> None:
        self._added = added
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        part = Part()
        emit.place(m, platform, part, name="part", module="part")
        m.d.comb += [part.i.eq(self.i), self.o.eq(part.o + self._added)]
        return m


def test_yosys_runs_once_for_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path))
    converted: list[str] = []

    def counted(make: Callable[[str], str], netlist: str) -> str:
        def once(text: str) -> str:
            converted.append(text)
            return make(text)
        return elaborate.module_text(once, netlist)

    texts = [emit.verilog(Whole(added), "whole", cache=counted) for added in (1, 1, 2)]
    assert [text.count("module \\whole") + text.count("module \\part") for text in converted] == [1, 1, 1]
    assert texts[0] == texts[1] == emit.verilog(Whole(1), "whole")
    assert texts[2] == emit.verilog(Whole(2), "whole") != texts[0]
