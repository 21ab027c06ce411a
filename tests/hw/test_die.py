# amaranth: UnusedElaboratable=no
"""The whole die: its Verilog does not change from run to run, parts may be left out, its ports are the list's."""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from tests.support.refusal import refused

from plinth_hw import emit
from plinth_hw.die import Die
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import PRESETS, DieParameters, preset
from plinth_sim.rtl import verilator
from plinth_sim.rtl.elaborate import die_verilog
from plinth_sim.rtl.lint import WAIVERS

SLOW = pytest.mark.slow
MATRIX, VECTOR, COLLECTIVE, TRANSFER, OPTIMISER = Engine


@SLOW
def test_verilog_is_byte_identical() -> None:
    """Two processes that hash strings and sets differently write the same text."""
    code = ("from plinth_hw import emit; from plinth_hw.die import Die; from plinth_hw.isa.parameters import preset; "
            "print(emit.verilog(Die(preset('ndp-tiny')), 'ndp_tiny'))")
    runs = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE,
                             env={**os.environ, "PYTHONHASHSEED": seed}) for seed in ("1", "2")]
    first, second = (run.communicate()[0] for run in runs)
    assert [run.returncode for run in runs] == [0, 0]
    assert first.count(b"module ndp_tiny(") == 1
    assert first == second


@pytest.mark.parametrize("parameters", [
    pytest.param(preset("ndp-tiny", engines=frozenset({VECTOR, COLLECTIVE, TRANSFER})), id="no matrix engine",
                 marks=SLOW),
    pytest.param(preset("ndp-tiny", engines=frozenset({MATRIX, VECTOR}), ports=0), id="no network", marks=SLOW),
    pytest.param(preset("fpga-tiny", engines=frozenset({OPTIMISER})), id="optimiser", marks=SLOW),
    pytest.param(preset("ndp-tiny", engines=frozenset({TRANSFER}), transforms=((2, 3), (4, 3), (2, 5))),
                 id="transfer engine, transforms", marks=SLOW),
    pytest.param(preset("ndp-tiny-routes", engines=frozenset({COLLECTIVE})), id="collective engine, routes",
                 marks=SLOW),
    pytest.param(preset("ndp-tiny", rows=3, columns=5, beat_words=8, interleave=16, axi_ports=2, ports=4,
                        reduce_blocks=4, counters=16, die_bits=4, operand_buffer_words=512, output_buffer_words=240),
                 id="other sizes", marks=SLOW),
    pytest.param(preset("ndp-tiny", engines=frozenset({TRANSFER}), block_ram_words=512, axi_ports=0), id="block RAM",
                 marks=SLOW),
    pytest.param(preset("ndp-tiny", engines=frozenset({TRANSFER}), block_ram_words=512), id="block RAM and AXI4",
                 marks=SLOW)])
def test_parts_and_sizes(parameters: DieParameters, tmp_path: Path) -> None:
    """Dies with some of the engines, or of other sizes than a preset's, elaborate and lint."""
    ((name, text),) = die_verilog(parameters, "cells").items()
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    verilator.lint([path], path.stem, [WAIVERS])


class HalfConstant(wiring.Component):
    """A signal with a constant bit and one that an If assigns."""

    i: In(1)
    o: Out(2)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += [self.o[0].eq(1), self.o[1].eq(0)]
        with m.If(self.i):
            m.d.comb += self.o[1].eq(1)
        return m


def test_processes_that_never_run_are_refused() -> None:
    with refused(ValueError, r"module 'half' assigns a constant to o\[0\] in a process that no simulator runs"):
        emit.verilog(HalfConstant(), "half")


@SLOW
def test_the_verilog_holds_its_digest() -> None:
    """Of all of it but the module with the digest; a die of another parameter has another one."""
    digests = []
    for words in (256, 512):
        die = preset("ndp-tiny", engines=frozenset({TRANSFER}), block_ram_words=words, axi_ports=0)
        text = emit.verilog(Die(die), "top")
        rest, module, end = text.partition("\nmodule top_digest(")
        (digest,) = re.findall(r"32'h([0-9a-f]{8});", end)
        assert module and "top_digest" in rest
        assert digest == hashlib.sha256(rest.encode()).hexdigest()[:8] == f"{emit.held_digest(text, 'top'):08x}"
        digests.append(digest)
    assert digests[0] != digests[1]


@pytest.mark.parametrize("name", PRESETS)
def test_ports(name: str) -> None:
    """The ports that docs/die.md lists."""
    parameters = preset(name)
    die = Die(parameters)
    names = {port.name for port in emit.ports(die)}
    lite = [f"{channel}{signal}" for channel, signals in (
        ("aw", "addr prot valid ready"), ("w", "data strb valid ready"), ("b", "resp valid ready"),
        ("ar", "addr prot valid ready"), ("r", "data resp valid ready")) for signal in signals.split()]
    burst = [f"{channel}{signal}" for channel in ("aw", "ar")
             for signal in ("id", "addr", "len", "size", "burst", "cache", "prot", "valid", "ready")]
    full = [*burst, "wdata", "wstrb", "wlast", "wvalid", "wready", "bid", "bresp", "bvalid", "bready", "rid",
            "rdata", "rresp", "rlast", "rvalid", "rready"]
    assert names == {
        *(f"axil_{signal}" for signal in lite),
        *(f"axi_{port}_{signal}" for port in range(parameters.axi_ports) for signal in full),
        *(f"link_{way}_{port}_{signal}" for way in ("in", "out") for port in range(parameters.ports)
          for signal in (("phit", "start") if parameters.link_phits else ("valid", "flit", "credit"))),
        "irq", "busy", "done", "error"}
    # AMBA AXI4, tables A2-2 to A2-6; AXI4-Lite has the widths of its data alone.
    widths = {"len": 8, "size": 3, "burst": 2, "cache": 4, "prot": 3, "resp": 2, "last": 1, "valid": 1, "ready": 1}
    for path, _, value in die.signature.flatten(die):
        if str(path[0]).startswith("axi"):
            for end, width in widths.items():
                assert not str(path[-1]).endswith(end) or len(value) == width, path
    if parameters.axi_ports:
        assert len(die.axi_0.rdata) == parameters.beat_bits // parameters.axi_ports
