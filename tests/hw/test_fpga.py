# amaranth: UnusedElaboratable=no
"""FPGA figures: what is counted, what is replaced, and one unit through synthesis."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from tests.support.refusal import refused

from plinth_hw import emit, tools
from plinth_hw.arith.convert import FloatConverter
from plinth_hw.arith.multiplier import FloatMultiplier
from plinth_hw.arith.significand import SignificandMultiplier
from plinth_hw.die import Die
from plinth_hw.fpga import area, measure
from plinth_hw.fpga.synthesis import FAMILY, Size, digest, replace_table, synthesise, total
from plinth_hw.isa.formats import FP16, FP32
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import preset
from plinth_hw.memory.scratchpad import VectorMemory

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_cells_are_counted() -> None:
    cells = Counter({"LUT4": 10, "CCU2C": 3, "PFUMX": 2, "TRELLIS_FF": 7, "MULT18X18D": 1, "DP16KD": 4})
    assert Size.of(cells) == Size(lut4=16, lut_ram=0, ff=7, dsp=1, block_ram=4)
    assert total({"top": Counter({"block": 2, "LUT4": 1}), "block": Counter({"LUT4": 5})},
                       "top") == Counter({"LUT4": 11})


def test_table_is_replaced(tmp_path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- x -->\nold\n<!-- /x -->\nafter\n")
    for _ in range(2):
        replace_table(page, "x", ["| a |", "| - |"])
        assert page.read_text() == "before\n<!-- x -->\n| a |\n| - |\n<!-- /x -->\nafter\n"
    with pytest.raises(tools.ToolError, match="has no lines <!-- y -->, which should stand once"):
        replace_table(page, "y", [])


def test_every_table_has_its_page() -> None:
    for page, marker in (("arith", "fpga-arith"), *(("area", f"fpga-{name}") for name in area.TABLES),
                         *((page.removesuffix(".md"), f"fpga-{name}") for name, (page, *_) in area.PARTS.items()),
                         *(("area", f"fpga-area-{name}") for name in area.DIES)):
        assert f"<!-- {marker} -->\n|" in (DOCS / f"{page}.md").read_text()


@pytest.mark.long
def test_area_is_that_of_todays_die() -> None:
    """`make fpga-area` takes a quarter of an hour, `make fpga-timing` more than one; so they are done for a state that
    is to be published."""
    assert measure.main(["check"]) == 0


@pytest.mark.slow
def test_an_area_of_other_verilog_is_told(tmp_path) -> None:
    page = tmp_path / "area.md"
    parameters = preset("ndp-tiny", engines=frozenset({Engine.TRANSFER}))
    page.write_text(f"{area.DIGEST}`{digest(emit.verilog(Die(parameters), 'die', family=FAMILY))}`.")
    assert area.is_current(page, parameters)
    assert not area.is_current(page, replace(parameters, counters=32))


def test_no_name_for_synthesis_looks_like_a_bit_of_another() -> None:
    """Yosys' ABC9 takes a net ``a[2]`` for bit 2 of ``a``."""
    text = emit.verilog(VectorMemory(4, 16, 32), "memory", family="ecp5")
    assert "read_data" in text and not re.search(r"\\\S*\[", text)
    assert re.search(r"\\\S*\[", emit.verilog(VectorMemory(4, 16, 32), "memory"))


def test_resets_of_rooms_stay_apart_in_synthesis() -> None:
    """Synthesis joins registers that do the same, unless what assigns them is to be kept."""
    class Rooms(wiring.Component):
        def __init__(self) -> None:
            super().__init__({"reset": In(1)})

        def elaborate(self, platform: object) -> Module:
            m = Module()
            for name in ("left", "right"):
                emit.place(m, platform, VectorMemory(4, 16, 32), name=name, module="memory",
                           reset=self.reset, room=True)
            emit.place(m, platform, VectorMemory(4, 16, 32), name="other", module="memory")
            return m

    kept = r"\(\* keep \*\) always @\(posedge clk\)\n *(\w+) <="
    text = emit.verilog(Rooms(), "rooms", family="ecp5")
    assert sorted(re.findall(kept, text)) == ["left_room_reset", "right_room_reset"]
    assert "keep" not in emit.verilog(Rooms(), "rooms")


def test_family_decides_the_multiplier() -> None:
    assert "MULT18X18D" in emit.verilog(FloatMultiplier(FP32, FP32), "unit", family="ecp5")
    assert "MULT18X18D" not in emit.verilog(FloatMultiplier(FP32, FP32), "unit")
    unit = SignificandMultiplier(4)
    with refused(ValueError, match="Only portable Verilog can be flattened, not that for 'ecp5'"):
        emit.verilog(unit, "unit", flatten=True, family="ecp5")
    emit.verilog(unit, "unit")


@pytest.mark.long
def test_a_unit_is_measured(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path))
    size = Size.of(synthesise(FloatConverter(FP16, FP32), "unit")["unit"])
    assert 20 < size.lut4 < 200 and 20 < size.ff < 100 and size.dsp == 0


def test_wrong_arguments(capsys) -> None:
    assert measure.main(["speed"]) == 2
    assert ("say arith, area (of ndp-demo or fpga-demo), link, codes, tiles, host, optimiser, "
            "transforms-small, transforms-all, timing (of router, router-tiles, ") in capsys.readouterr().err
