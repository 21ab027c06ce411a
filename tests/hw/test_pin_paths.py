"""Paths through modules and the instances in them."""

from typing import Any

import pytest
from amaranth.hdl import ClockDomain, Instance, Module, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw import emit
from plinth_hw.pin_paths import Paths


class _Part(wiring.Component):
    """``sum`` depends on both inputs, ``held`` on none."""

    a: In(4)
    b: In(1)
    sum: Out(4)
    held: Out(4)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.sum.eq(self.a + self.b)
        m.d.sync += self.held.eq(self.a)
        return m


class _Whole(wiring.Component):
    """``through`` goes through two parts, ``kept`` through the register of one, ``own`` through one here."""

    x: In(4)
    y: In(1)
    z: In(1)
    through: Out(4)
    kept: Out(4)
    own: Out(4)
    constant: Out(2)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        parts = [_Part(), _Part()]
        for number, part in enumerate(parts):
            emit.place(m, platform, part, name=f"part_{number}", module="part")
        held = Signal(4)
        m.d.sync += held.eq(parts[1].sum)
        m.d.comb += [
            parts[0].a.eq(self.x), parts[0].b.eq(self.y), parts[1].a.eq(parts[0].sum), parts[1].b.eq(parts[0].held[0]),
            self.through.eq(parts[1].sum), self.kept.eq(parts[1].held), self.own.eq(~held), self.constant.eq(2),
        ]
        return m


class _Others(wiring.Component):
    """Of a memory that is read without a clock, a register with an asynchronous reset, and an instance of which nothing
    is known."""

    address: In(2)
    clears: In(1)
    x: In(1)
    y: In(1)
    read: Out(4)
    cleared: Out(1)
    unknown: Out(1)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.domains.other = domain = ClockDomain(async_reset=True, local=True)
        m.submodules.table = table = memory.Memory(shape=4, depth=4, init=[1, 2, 3])
        port = table.read_port(domain="comb")
        held = Signal()
        m.d.other += held.eq(1)
        m.submodules.black_box = Instance("black_box", i_x=self.x, o_z=self.unknown)
        m.d.comb += [domain.clk.eq(self.y), domain.rst.eq(self.clears), port.addr.eq(self.address),
                     self.read.eq(port.data), self.cleared.eq(held)]
        return m


class _Around(wiring.Component):
    """The same, from inside an instance."""

    def __init__(self) -> None:
        super().__init__({name: Out(bits) if name in ("read", "cleared", "unknown") else In(bits) for name, bits in (
            ("address", 2), ("clears", 1), ("x", 1), ("y", 1), ("read", 4), ("cleared", 1), ("unknown", 1))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        inner = _Others()
        emit.place(m, platform, inner, name="inner", module="others")
        wiring.connect(m, wiring.flipped(self), inner)
        return m


def _paths(component: wiring.Component) -> Any:
    platform = emit.Emission(top="whole", paths=Paths())
    emit.netlist(component, "whole", platform)
    platform.texts()
    return platform.paths


def test_paths() -> None:
    paths = _paths(_Whole())
    assert paths.through("whole") == {"through": {"x", "y"}, "kept": set(), "own": set(), "constant": set()}
    assert {output: paths.is_register("whole", output) for output in paths.through("whole")} == {
        "through": False, "kept": True, "own": False, "constant": True}


def test_paths_through_what_is_no_logic() -> None:
    assert _paths(_Around()).through("whole") == {"read": {"address"}, "cleared": {"clears"}, "unknown": {"x"}}


def test_what_is_no_register_is_refused() -> None:
    with pytest.raises(ValueError, match=r"output 'through' of 'whole' depends on 'x' in the same cycle; put a"):
        emit.verilog(_Whole(), "whole", registered="kept")

    class Own(_Whole):
        def elaborate(self, platform: Any) -> Module:
            m = Module()
            held = Signal(4)
            m.d.sync += held.eq(self.x)
            m.d.comb += [self.kept.eq(held), self.own.eq(~held)]
            return m

    assert "module whole" in emit.verilog(Own(), "whole", registered="kept")
    with pytest.raises(ValueError, match="output 'own' of 'whole' comes from logic; put a register behind it"):
        emit.verilog(Own(), "whole", registered="kept|own")
    with pytest.raises(ValueError, match="Outputs of flattened Verilog are not looked at"):
        emit.verilog(Own(), "whole", registered="kept", flatten=True)
    assert "module whole" in emit.verilog(_Whole(), "whole")
