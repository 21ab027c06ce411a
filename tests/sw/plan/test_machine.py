"""Cycles of tasks: formulas, tables of measurements, and what a damaged table gives."""

import re
from dataclasses import replace
from fractions import Fraction

import pytest

from plinth import backends
from plinth.bench import calibrate
from plinth.errors import UserError
from plinth.model.files import dump_yaml
from plinth.partition.graph import square
from plinth.plan.cost.copies import Copy
from plinth.plan.cost.machine import (
    CONTROL,
    COPIES,
    PRODUCTS,
    PROGRAMS,
    Calibration,
    Machine,
    Work,
    full_words,
    load_calibration,
    machine,
    matrix_formula,
    matrix_memory,
    moved_words,
    vector_formula,
)
from plinth.plan.cost.products import DIRECTIONS, Product
from plinth_hw.isa.parameters import PRESETS, SYSTOLIC, preset

TINY = preset("ndp-tiny")
#: Before a test puts fewer in their place.
shapes = calibrate.convolution_shapes


def table(ratio: float) -> Calibration:
    """Every task ``ratio`` times as long as its formula says."""
    shapes = [(4, 4, 16), (32, 32, 64), (64, 64, 500)]
    return Calibration(
        preset="ndp-tiny", number_format="fp32", verilog_sha256="0" * 64,
        matrix=tuple((product, *shape, 0, *(round(ratio * cycles) for cycles in matrix_formula(TINY, *shape)))
                     for shape in shapes for product in PRODUCTS),
        vector=tuple((program, *shape, *2 * (round(ratio * sum(vector_formula(TINY, work, *shape))),))
                     for shape in ((2, 10), (32, 64)) for program, work in PROGRAMS.items()),
        transfer=tuple((kind, *shape, *(round(ratio * cycles) for cycles in Machine(TINY).copy(
            kind, Copy.part(*shape)))) for shape in ((4, 4), (100, 16)) for kind in COPIES),
        control=(("fetch", 300), ("issue", 12), ("arrival", 100), ("ring", 300), ("hop", 20), ("reduce", 100)))


@pytest.mark.parametrize("name", [die.name for die in PRESETS.values() if die.machine == SYSTOLIC])
def test_a_large_product_takes_its_multiplications(name: str) -> None:
    parameters = PRESETS[name]
    pes = parameters.rows * parameters.columns
    size = 32 * parameters.rows
    alone, row = matrix_formula(parameters, size, size, size)
    assert size ** 3 / pes <= row < alone < 1.2 * size ** 3 / pes
    assert matrix_formula(parameters, 1, 1, 1)[1] >= parameters.interleave


def test_measurements_scale_the_formulas_between_and_beyond_them() -> None:
    plain, scaled = Machine(TINY), Machine(TINY, table(1.5))
    for shape in ((1, 1, 1), (20, 20, 20), (300, 200, 1000)):
        for one, two in zip(scaled.matrix("update", *shape), plain.matrix("update", *shape), strict=True):
            assert one == pytest.approx(1.5 * two, rel=0.02)
    assert sum(scaled.vector("forward", 8, 30)) == pytest.approx(1.5 * sum(plain.vector("forward", 8, 30)), rel=0.01)
    copy = Copy.part(50, 8)
    assert scaled.copy("remote", copy)[0] == pytest.approx(1.5 * plain.copy("remote", copy)[0], rel=0.01)
    assert not any((*plain.matrix("fprop", 0, 5, 5), *plain.vector("forward", 0, 5),
                    *plain.copy("local", Copy.part(0, 5))))
    assert "efficiency of 1" in plain.source and "tasks measured" in scaled.source
    assert scaled.control["fetch"] == 300 and plain.control["fetch"] != 300


def test_a_measured_shape_takes_what_was_measured() -> None:
    found = table(1)
    matrix = list(found.matrix)
    matrix[0] = (*matrix[0][:5], 777, 555)
    assert Machine(TINY, replace(found, matrix=tuple(matrix))).matrix(*matrix[0][:4]) == pytest.approx((777, 555), 1e-2)


def test_short_runs_and_words_in_memory_cost() -> None:
    assert matrix_formula(TINY, 64, 4, 64, 1)[1] > 2 * matrix_formula(TINY, 64, 4, 64)[1]
    words, share = matrix_memory(TINY, 64, 4, 64)
    assert words >= 64 * 64 + 64 * 4 and 0 < share <= 1
    assert matrix_memory(TINY, 0, 4, 64) == (0, 0)


def test_a_table_comes_back_from_its_file(tmp_path) -> None:
    (tmp_path / "ndp-tiny.yaml").write_text(dump_yaml(table(2).to_data()))
    assert load_calibration(tmp_path / "ndp-tiny.yaml") == table(2)
    assert machine(TINY, tmp_path).calibration == table(2)
    assert machine(preset("ndp-demo"), tmp_path).calibration is None


@pytest.mark.parametrize(("change", "message"), [
    ({"version": 9}, "version must be 2"), ({"matrix": []}, "list of measurements"),
    ({"matrix": [{"m": 1}]}, "'product' is missing"), ({"preset": 1}, "preset must be text"),
    ({"vector": [{"program": "x", "rows": 1, "columns": 1, "cycles": 1, "period": 1}]}, "program cannot be"),
    ({"vector": [{"program": "forward", "rows": 0, "columns": 1, "cycles": 1, "period": 1}]}, "rows cannot be 0"),
    ({"control": [{"what": "fetch", "cycles": -1}]}, "cycles cannot be -1")])
def test_a_damaged_table_is_refused(change, message, tmp_path) -> None:
    path = tmp_path / "table.yaml"
    path.write_text(dump_yaml(table(1).to_data() | change))
    with pytest.raises(UserError, match=message):
        load_calibration(path)


@pytest.mark.parametrize(("columns", "beats", "cycles"), [
    # A word a beat of 8: rows of whole beats; rows that begin in either half; rows of 10 words, which begin at even
    # words; and of an odd number of words.
    (32, 2, 4), (16, 1, 2), (8, 1, 1.5), (20, 2, 3.5), (7, 1, 1.5), (6, 10 / 8, 2.0)])
def test_packed_rows_take_two_cycles_a_beat(columns: int, beats: float, cycles: float) -> None:
    die, rows = preset("ndp-demo-mixed"), 48
    load, compute, store = vector_formula(die, Work(1, 1), rows, columns)
    full = rows * moved_words(die, 1, columns)
    more = rows * cycles - full / die.beat_words
    _, one_more, _ = vector_formula(die, Work(1, 1, wise=1), rows, columns)
    assert one_more > compute
    words = rows * beats * die.beat_words
    loaded, stored = Work(1, 1).packed(1, 0), Work(1, 1).packed(0, 1)
    assert vector_formula(die, loaded, rows, columns) == pytest.approx((load + more, one_more, store))
    assert vector_formula(die, stored, rows, columns) == pytest.approx((load, one_more, store + more))
    assert full_words(die, loaded, rows, columns) == pytest.approx((words, full))
    assert full_words(die, stored, rows, columns) == pytest.approx((full, words))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_packed_maps_of_an_odd_number_of_channels_have_gaps(direction: str) -> None:
    for channels, packing, run in ((6, 1, 18), (6, 2, 18), (5, 1, 15), (5, 2, 5), (1, 2, 1)):
        assert Product(direction, 4, channels, channels, square(8, 3, 1, 1)).run(packing) == run
    assert Product(direction, 4, 5, 5).run(2) == 0


@pytest.mark.slow
@pytest.mark.xdist_group("tiny-dies")
@pytest.mark.parametrize("name", ["ndp-tiny", "hypar-tiny"])
def test_tasks_are_measured_on_the_rtl(name: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(calibrate, "matrix_shapes", lambda parameters: [(4, 4, 16), (32, 32, 64)])
    monkeypatch.setattr(calibrate, "convolution_shapes", lambda parameters: shapes(parameters)[:1])
    monkeypatch.setattr(calibrate, "vector_shapes", lambda parameters: [(2, 10), (8, 10_000)])
    monkeypatch.setattr(calibrate, "copy_shapes", lambda parameters: [(4, 8), (64, 16)])
    parameters = preset(name)
    found = load_calibration(calibrate.calibrate(name, tmp_path))
    assert found.verilog_sha256 == backends.cosim_array(parameters, 1, 1 << 12)[1]
    assert re.fullmatch("[0-9a-f]{64}", found.verilog_sha256)
    assert {row[0] for row in found.matrix} == set(PRODUCTS) and {row[0] for row in found.transfer} == set(COPIES)
    for measured in found.matrix:
        _, (alone, row) = Machine(parameters)._measured(measured)
        *_, cycles, period = measured
        assert 0.5 <= cycles / alone < 1.5 and 0.5 <= period / row < 1.7, measured
    for program, rows, columns, cycles, _ in found.vector:
        assert cycles == pytest.approx(sum(vector_formula(parameters, PROGRAMS[program], rows, columns)), rel=0.2)
    assert dict(found.control).keys() == CONTROL.keys()


def test_tiles_over_slow_links_take_what_the_links_take() -> None:
    """Tables are measured at the preset's own link rate."""
    slow = machine(preset("ndp-demo", link_rate=Fraction(1, 16)))
    assert slow.calibration is not None
    copy = Copy(128, 20, 20, 20)
    _, row = slow.copy(COPIES[1], copy)
    assert row == pytest.approx(16 * copy.flits(slow.parameters), rel=0.05)
