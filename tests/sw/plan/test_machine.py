"""Cycles of tasks: formulas, tables of measurements, and what a damaged table gives."""

import re

import pytest

from plinth import backends
from plinth.bench import calibrate
from plinth.errors import UserError
from plinth.model.files import dump_yaml
from plinth.plan.cost.machine import (
    Calibration,
    Machine,
    load_calibration,
    machine,
    matrix_formula,
    vector_formula,
)
from plinth_hw.isa.parameters import PRESETS, preset

TINY = preset("ndp-tiny")


def table(ratio: float) -> Calibration:
    """Every task ``ratio`` times as long as its formula says."""
    shapes = [(4, 4, 16), (32, 32, 64), (64, 64, 500)]
    return Calibration(
        preset="ndp-tiny", number_format="fp32", verilog_sha256="0" * 64,
        matrix=tuple((product, *shape, round(ratio * matrix_formula(TINY, *shape)))
                     for shape in shapes for product in ("fprop", "bprop", "update")),
        vector=tuple((program, *shape, round(ratio * vector_formula(TINY, program, *shape)))
                     for shape in ((2, 10), (32, 64)) for program in ("forward", "backward")))


@pytest.mark.parametrize("name", PRESETS)
def test_a_large_product_takes_its_multiplications(name: str) -> None:
    parameters = PRESETS[name]
    pes = parameters.rows * parameters.columns
    size = 32 * parameters.rows
    assert size ** 3 / pes <= matrix_formula(parameters, size, size, size) < 1.2 * size ** 3 / pes
    assert matrix_formula(parameters, 1, 1, 1) >= parameters.interleave


def test_measurements_scale_the_formulas_between_and_beyond_them() -> None:
    plain, scaled = Machine(TINY), Machine(TINY, table(1.5))
    for shape in ((1, 1, 1), (20, 20, 20), (300, 200, 1000)):
        assert scaled.matrix("update", *shape) == pytest.approx(1.5 * plain.matrix("update", *shape), rel=0.01)
    assert scaled.vector("forward", 8, 30) == pytest.approx(1.5 * plain.vector("forward", 8, 30), rel=0.01)
    assert plain.matrix("fprop", 0, 5, 5) == plain.vector("forward", 0, 5) == 0
    assert "efficiency of 1" in plain.source and "13 tasks measured" in scaled.source


def test_a_table_comes_back_from_its_file(tmp_path) -> None:
    (tmp_path / "ndp-tiny.yaml").write_text(dump_yaml(table(2).to_data()))
    assert load_calibration(tmp_path / "ndp-tiny.yaml") == table(2)
    assert machine(TINY, tmp_path).calibration == table(2)
    assert machine(preset("ndp-demo"), tmp_path).calibration is None


@pytest.mark.parametrize(("change", "message"), [
    ({"version": 9}, "version must be 1"), ({"matrix": []}, "list of measurements"),
    ({"matrix": [{"m": 1}]}, "'product' is missing"), ({"preset": 1}, "preset must be text"),
    ({"vector": [{"program": "x", "rows": 1, "columns": 1, "cycles": 1}]}, "program cannot be"),
    ({"vector": [{"program": "forward", "rows": 0, "columns": 1, "cycles": 1}]}, "rows cannot be 0")])
def test_a_damaged_table_is_refused(change, message, tmp_path) -> None:
    path = tmp_path / "table.yaml"
    path.write_text(dump_yaml(table(1).to_data() | change))
    with pytest.raises(UserError, match=message):
        load_calibration(path)


@pytest.mark.slow
def test_tasks_are_measured_on_the_rtl(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(calibrate, "matrix_shapes", lambda parameters: [(4, 4, 16), (32, 32, 64)])
    monkeypatch.setattr(calibrate, "vector_shapes", lambda parameters: [(2, 10), (8, 10_000)])
    found = load_calibration(calibrate.calibrate("ndp-tiny", tmp_path))
    assert found.verilog_sha256 == backends.cosim_array(TINY, 1, 1 << 12)[1]
    assert re.fullmatch("[0-9a-f]{64}", found.verilog_sha256)
    for _, m, n, k, cycles in found.matrix:
        assert 1 <= cycles / matrix_formula(TINY, m, n, k) < 1.5
    # The second shape does not fit the scratchpad.
    assert [(program, rows, columns) for program, rows, columns, _ in found.vector] == [
        ("forward", 2, 10), ("backward", 2, 10)]
