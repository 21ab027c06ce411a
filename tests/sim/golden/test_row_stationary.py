"""The row-stationary golden model against loops over single numbers, and what it refuses."""

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.refusal import refused
from tests.support.row_stationary import memory as operands
from tests.support.row_stationary import random_body

from plinth_hw.isa.formats import FP16, Q3_12
from plinth_hw.isa.operations import Engine, ErrorCode, MatrixOperation
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.isa.row_stationary import COUNTS, derived, signed
from plinth_sim.golden import row_stationary
from plinth_sim.golden.array import GoldenArray
from plinth_sim.golden.matrix import storage, stored
from plinth_sim.golden.vector import BadOperandError

TINY = preset("hypar-tiny")
MIXED, FIXED = (preset("hypar-tiny", multiply_format=fmt) for fmt in (FP16, Q3_12))
MEMORY = 1 << 16


def loops(memory: np.ndarray, body: Any, die: DieParameters) -> tuple[np.ndarray, int]:
    """The memory after a task, sum by sum in the order of the specification; fixed-point ones are whole numbers. And
    how many products are of a place of the map and a term that exists."""
    useful = 0
    target, number = memory.copy(), int if die is FIXED else np.float32
    words, result = (of.view(stored(die.multiply_format)) for of in (memory, target))
    packing, unit = die.packing, Q3_12.fraction_bits
    operand = memory.view(storage(die.multiply_format)).astype(np.int64 if die is FIXED else np.float32)
    zero = number(0)
    step = {name: signed(getattr(body, name)) for name in vars(body) if name[:2] in ("x_", "w_", "c_")}
    for image, y, w, f in np.ndindex(body.images, body.rows, body.windows, body.filters):
        v, u = divmod(w, body.window_run)
        at = (body.c.offset + image * step["c_image"] + y * step["c_row"] + v * step["c_column"] + u * step["c_run"]
              + f)
        total = number(words[at]) if body.accumulate else zero
        if die is FIXED:
            total <<= unit
        for block, fold, segment, group, r, s, c in np.ndindex(
                body.blocks, body.folds, body.segments, body.sets, body.set_rows, body.tap_columns, body.tap_channels):
            channel = (block * body.sets + group) * body.tap_channels + c
            krow, kcol = fold * body.set_rows + r, segment * body.tap_columns + s
            left = right = zero
            if channel < body.channels:
                if krow < body.kernel_rows and kcol < body.kernel_columns:
                    right = operand[packing * body.w.offset + channel * step["w_channel"] + krow * step["w_row"]
                                   + kcol * step["w_column"] + f * step["w_filter"]]
                row = body.row_origin + y * body.row_stride + krow * body.row_dilation
                column = body.column_origin + v * body.column_stride + kcol * body.column_dilation
                if 0 <= row < body.map_rows and 0 <= column < body.map_columns:
                    useful += channel < body.channels and krow < body.kernel_rows and kcol < body.kernel_columns
                    left = operand[packing * body.x.offset + image * step["x_image"] + row * step["x_row"]
                                  + column * step["x_column"] + channel * step["x_channel"] + u]
            total = number(total + number(left * right))
        if die is FIXED:
            total = min(max(round(Fraction(int(total), 1 << unit)), Q3_12.least), Q3_12.most)
        result[at] = total
    return target, useful


@pytest.mark.parametrize("die", [TINY, MIXED, FIXED], ids=["fp32", "mixed", "fixed"])
@pytest.mark.parametrize("seed", range(40))
def test_every_sum_is_that_of_the_loops(seed: int, die: DieParameters) -> None:
    """Bit for bit, for tasks of any folds, segments, blocks, sets, runs and remainders."""
    rng = np.random.default_rng(seed)
    body = random_body(rng, die)
    memory = operands(rng, "plain", die, MEMORY)
    expected, products = loops(memory, body, die)
    computed = memory.copy()
    useful = row_stationary.execute(computed, body, [0] * 16, die).useful_macs
    assert np.array_equal(computed, expected)
    assert useful == products
    assert np.array_equal(computed, memory) != bool(useful) or not body.accumulate


def _plain_body(**changes: Any) -> Any:
    """One multiply-add, or what the changes make of it."""
    body = SimpleNamespace(
        x=SimpleNamespace(offset=0, base=0), w=SimpleNamespace(offset=100, base=0),
        c=SimpleNamespace(offset=200, base=0), **dict.fromkeys(COUNTS, 1),
        **dict.fromkeys(("x_image", "x_row", "x_column", "x_channel", "w_row", "w_column", "w_channel", "w_filter",
                         "c_image", "c_row", "c_column", "c_run", "row_stride", "column_stride", "row_dilation",
                         "column_dilation"), 1), row_origin=0, column_origin=0, accumulate=0)
    body.__dict__.update(changes)
    body.__dict__.update({name: value for name, value in derived(body, TINY).items() if name not in changes})
    return body


@pytest.mark.parametrize(("changes", "message"), [
    *(({name: 0}, f"{name} must not be 0") for name in ("images", "filters", "channels", "map_columns")),
    ({"window_run": 2, "windows": 2, "tap_channels": 2, "channels": 2}, "window_run above 1 needs"),
    ({"window_run": 2, "windows": 4, "column_stride": 2}, "window_run above 1 needs"),
    ({"tap_channels": 2, "x_channel": 5}, "tap_channels above 1 needs x_channel = 1"),
    ({"x_origin": 3}, "x_origin must be 0, not 3"), ({"blocks": 2}, "blocks must be 1, not 2"),
    ({"rows": 5}, "the task needs 5 array columns, there are 4"),
    ({"sets": 2, "set_rows": 2}, "the task needs 4 array rows, there are 3"),
    ({"tap_columns": 57}, "the task needs 228 words of a PE's filter scratchpad, there are 224"),
    ({"filter_step": 17}, "the task needs 17 psums of a PE, there are 16"),
    ({"tap_columns": 40, "column_dilation": 4}, "words of a PE's ifmap scratchpad, there are 128"),
    ({"windows": 600}, "words of the ifmap buffer, there are 512"),
    ({"windows": 33, "filter_step": 2}, "the task needs 66 words of a bank of psums, there are 64")])
def test_what_a_machine_cannot_run(changes: dict[str, int], message: str) -> None:
    memory = np.zeros(1000, dtype=np.uint32)
    with refused(BadOperandError, message):
        row_stationary.execute(memory, _plain_body(**changes), [0] * 16, TINY)


@pytest.mark.parametrize("changes", [{"map_columns": 5000, "column_origin": 2000}, {"w_filter": 900, "filters": 2},
                                     {"c_row": -300 & 0xFFFFFFFF, "rows": 2, "x_row": 0}])
def test_words_outside_the_memory(changes: dict[str, int]) -> None:
    memory = np.zeros(1000, dtype=np.uint32)
    with pytest.raises(IndexError):
        row_stationary.execute(memory, _plain_body(**changes), [0] * 16, TINY)
    assert not memory.any()


@pytest.mark.parametrize(("die", "offset"), [(TINY, 1 << 31), (MIXED, 1 << 30), (MIXED, 1 << 31)])
@pytest.mark.parametrize("pointer", ["x", "w"])
def test_addresses_wrap_behind_all_words_alone(pointer: str, die: DieParameters, offset: int) -> None:
    """Two numbers of 16 bits are a word: there are twice as many of them as words."""
    memory = np.zeros(1000, dtype=np.uint32)
    with pytest.raises(IndexError):
        row_stationary.execute(memory, _plain_body(**{pointer: SimpleNamespace(offset=offset, base=0)}), [0] * 16, die)
    row_stationary.execute(memory, _plain_body(**{pointer: SimpleNamespace(offset=1 << 32, base=0)}), [0] * 16, die)


@pytest.mark.parametrize(("words", "fits"), [(205, True), (204, False)])
def test_rows_of_sums_end_with_the_memory(words: int, fits: bool) -> None:
    body, memory = _plain_body(filters=5), np.zeros(words, dtype=np.uint32)
    if fits:
        assert row_stationary.operands(memory, body, [0] * 16, TINY).c.tolist() == [200]
    else:
        with pytest.raises(IndexError, match="a row of sums lies outside a memory of 204 words"):
            row_stationary.operands(memory, body, [0] * 16, TINY)


def test_a_die_looks_for_ends_among_the_sums_that_it_stored() -> None:
    """Those of fixed-point formats are counted."""
    die = GoldenArray(TINY, 1, 1024).dies[0]
    for address, values in ((0, [3]), (100, [1, 2, 4])):
        die.write_memory(address, np.array(values, dtype=np.float32).view(np.uint32))
    assert die._multiply(MatrixOperation.ROW_STATIONARY, _plain_body(filters=3)).tolist() == [[3, 6, 12]]


@pytest.mark.parametrize(("name", "operation"), [
    ("ndp-tiny", MatrixOperation.ROW_STATIONARY), ("hypar-tiny", MatrixOperation.GEMM),
    ("hypar-tiny", MatrixOperation.CONVOLUTION)])
def test_each_machine_has_its_operations(name: str, operation: MatrixOperation) -> None:
    array = GoldenArray(preset(name), 1, 1024)
    task = SimpleNamespace(engine=Engine.MATRIX, operation=operation, body=_plain_body())
    with pytest.raises(Exception, match="BAD_OPERATION") as caught:
        array.dies[0].run(task)  # type: ignore[arg-type]
    assert caught.value.code is ErrorCode.BAD_OPERATION
