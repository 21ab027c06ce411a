# amaranth: UnusedElaboratable=no
"""Times of blocks: what a path is called, which rows are stale, and where a row goes."""

import re
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from plinth_hw import emit, tools
from plinth_hw.arith.convert import FloatConverter
from plinth_hw.fpga import measure, timing
from plinth_hw.fpga.synthesis import Bench, clock_mhz, placed, synthesise
from plinth_hw.isa.formats import FP16, FP32
from plinth_hw.isa.parameters import preset

PAGE = f"before\n<!-- {timing.MARKER} -->\n| old |\n<!-- /{timing.MARKER} -->\nafter\n"


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> dict[str, timing.TimedBlock]:
    """Two small ones instead of the table's."""
    small = {name: timing.TimedBlock(name, "FP16", partial(FloatConverter, source, target))
             for name, source, target in (("widen", FP16, FP32), ("narrow", FP32, FP16))}
    monkeypatch.setattr(timing, "BLOCKS", small)
    return small


@pytest.mark.parametrize(("cell", "name"), [
    ("unit.input_1.taken.3_TRELLIS_FF_Q", "input_1.taken"),
    ("unit.a.address$5_TRELLIS_FF_Q_DI_LUT4_Z_C_PFUMX_Z_BLUT_LUT4_Z", "a.address"),
    ("unit.bases.0.31$DPRAM_COMB3", "bases"), ("unit.counters.bases.0.31$RAMW_SLICE$conn$WDO3", "counters.bases"),
    ("unit.flits.0.1", "flits"), ("unit.sum_LUT4_Z", "sum"), ("input_bits_TRELLIS_FF_Q_7", "input_bits"),
])
def test_a_cell_is_called_after_its_register(cell: str, name: str) -> None:
    assert timing.signal_of(cell) == name


def _part(kind: str, delay: float, begin: str, end: str) -> dict[str, Any]:
    ends = (dict(zip(("cell", "port"), place.split(":"), strict=True)) for place in (begin, end))
    return {"type": kind, "delay": delay, **dict(zip(("from", "to"), ends, strict=True))}


def test_a_path_is_told() -> None:
    path = [_part("clk-to-q", 0.5, "unit.a_TRELLIS_FF_Q:Q", "unit.a_TRELLIS_FF_Q:Q"),
            _part("routing", 1.0, "unit.a_TRELLIS_FF_Q:Q", "x$COMB0:B"),
            _part("logic", 0.5, "x$COMB0:B", "x$COMB0:FCO"),
            _part("routing", 0.0, "x$COMB0:FCO", "x$COMB1:FCI"), _part("logic", 0.1, "x$COMB1:FCI", "x$COMB1:FCO"),
            _part("routing", 0.0, "x$COMB1:FCO", "y$COMB0:FCI"), _part("logic", 0.4, "y$COMB0:FCI", "y$COMB0:F"),
            _part("routing", 1.0, "y$COMB0:F", "unit.b_TRELLIS_FF_Q:DI"),
            _part("setup", 0.5, "unit.b_TRELLIS_FF_Q:DI", "unit.b_TRELLIS_FF_Q:DI")]
    assert timing.path_in_words(path) == "`a` to `b`: 2 wires, 1 carry chain, 50 % of the time on wires"
    del path[1:7]
    assert timing.path_in_words(path) == "`a` to `b`: 1 wire, 50 % of the time on wires"


def test_rows_stand_in_their_order_and_are_kept(blocks: dict[str, timing.TimedBlock], tmp_path: Path) -> None:
    page = tmp_path / "timing.md"
    page.write_text(PAGE)
    assert timing.stale(page) == ["widen", "narrow"]
    rows = {name: f"| {name} | FP16 | 1 | 1, 1, 1 | `a` to `b` | `{timing._digest(block)}` |"
            for name, block in blocks.items()}
    timing._put(page, "narrow", rows["narrow"])
    assert timing.stale(page) == ["widen"]
    timing._put(page, "widen", rows["widen"])
    timing._put(page, "narrow", rows["narrow"])
    assert timing.stale(page) == [] and page.read_text().splitlines()[4:6] == [rows["widen"], rows["narrow"]]
    with pytest.raises(tools.ToolError, match="has no lines <!-- fpga-timing -->"):
        page.write_text("nothing")
        timing._put(page, "widen", rows["widen"])


def test_what_is_measured(blocks: dict[str, timing.TimedBlock], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                          capsys: pytest.CaptureFixture[str]) -> None:
    """Each block is synthesised once and placed from each seed; its row has the median, and that seed's path."""
    page = tmp_path / "timing.md"
    page.write_text(PAGE)
    made = []

    def place(name: str, seed: int) -> dict[str, Any]:
        path = [_part("clk-to-q", 1.0, f"unit.r{seed}_TRELLIS_FF_Q:Q", "unit.q_TRELLIS_FF_Q:DI")]
        return {"fmax": {"clk": {"achieved": {1: 90.0, 2: 80.0, 3: 100.0}[seed]}}, "critical_paths": [
            {"from": "<async>", "to": "posedge clk", "path": [*path, *path]},
            {"from": "posedge clk", "to": "posedge clk", "path": path}]}

    monkeypatch.setattr(timing, "synthesise", lambda bench, name: made.append(name))
    monkeypatch.setattr(timing, "placed", place)
    timing.timing(page, ["widen", "widen"])
    assert made == ["widen-bench"]
    assert "| widen | FP16 | 90 | 90, 80, 100 | `r1` to `q`: 0 wires, 0 % of the time on wires |" in page.read_text()
    assert "| widen | FP16 | 90 |" in capsys.readouterr().out
    timing.timing(page)
    timing.timing(page)
    assert made == ["widen-bench", "narrow-bench"]
    assert "all rows are of today's Verilog" in capsys.readouterr().out
    timing.timing(page, ["widen"])
    assert made == ["widen-bench", "narrow-bench", "widen-bench"]
    # Of other tools rows are made anew.
    monkeypatch.setattr(timing, "SEEDS", (1, 2))
    assert timing.stale(page) == ["widen", "narrow"]


def test_where_one_fails_the_others_are_written(blocks: dict[str, timing.TimedBlock], tmp_path: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "timing.md"
    page.write_text(PAGE)

    def place(name: str, seed: int) -> dict[str, Any]:
        if name == "widen-bench":
            raise tools.ToolError("nextpnr failed")
        path = [_part("clk-to-q", 1.0, "unit.r_TRELLIS_FF_Q:Q", "unit.q_TRELLIS_FF_Q:DI")]
        return {"fmax": {"clk": {"achieved": 90.0}}, "critical_paths": [
            {"from": "posedge clk", "to": "posedge clk", "path": path}]}

    monkeypatch.setattr(timing, "synthesise", lambda bench, name: None)
    monkeypatch.setattr(timing, "placed", place)
    with pytest.raises(tools.ToolError, match="nextpnr failed"):
        timing.timing(page)
    assert timing.stale(page) == ["widen"]
    page.write_text("nothing")
    with pytest.raises(tools.ToolError, match="has no lines <!-- fpga-timing -->"):
        timing.timing(page)


def test_an_interruption_leaves_the_rest(blocks: dict[str, timing.TimedBlock], tmp_path: Path,
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    page, placements = tmp_path / "timing.md", []
    page.write_text(PAGE)
    stopped = threading.Event()

    def interrupted(rows: Any) -> Any:
        stopped.set()
        raise KeyboardInterrupt

    def place(name: str, seed: int) -> dict[str, Any]:
        placements.append(name)
        stopped.wait()
        return {}

    monkeypatch.setattr(timing, "JOBS", 1)
    monkeypatch.setattr(timing, "synthesise", lambda bench, name: None)
    monkeypatch.setattr(timing, "placed", place)
    monkeypatch.setattr(timing, "as_completed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        timing.timing(page)
    assert len(placements) <= 2 and page.read_text() == PAGE


@pytest.mark.long
def test_the_page_has_a_row_of_every_block() -> None:
    """Of today's Verilog: `make fpga-timing` takes more than an hour, so it is done for a state that is to be
    published."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "timing.md").read_text()
    for block in timing.BLOCKS.values():
        assert page.count(f"\n| {block.title} | {block.of} |") == 1, block


def test_memory_path_has_all_clients_and_pins() -> None:
    members = timing.MemoryPath(preset("ndp-demo")).signature.members
    assert {"fetch", "record", "matrix_a_memory", "vector_store_memory", "axi_0", "limit"} <= members.keys()
    assert not {"memory_read", "memory_write", "read_stray"} & members.keys()
    emit.verilog(timing.MemoryPath(preset("ndp-demo")), "memory")


def test_stale_rows_are_told(blocks: dict[str, timing.TimedBlock], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                             capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "timing.md"
    page.write_text(PAGE)
    monkeypatch.setattr(measure.area, "DIES", ())
    assert measure._check(tmp_path / "area.md", page) == 1
    assert "docs/timing.md is of other Verilog, of widen, narrow: run make fpga-timing" in capsys.readouterr().err


@pytest.mark.long
def test_a_block_is_placed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path))
    synthesise(Bench(FloatConverter(FP16, FP32)), "unit-bench")
    report = placed("unit-bench", 1)
    assert 60 < clock_mhz(report) < 400
    assert re.fullmatch("`a` to `[a-z_0-9]+`: [1-9].*", timing.path_in_words(timing.slowest(report)))
