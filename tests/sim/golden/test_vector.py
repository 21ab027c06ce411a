"""The vector engine's golden model: instructions number by number, moves word by word, and what it refuses."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from plinth_hw.isa.layout import pack
from plinth_hw.isa.vector_body import VectorBody, VectorOp
from plinth_sim.golden import vector
from plinth_sim.golden.vector import BadOperandError, ScratchpadRegion

NAN = 0x7FC00000
ROWS, COLUMNS = 3, 5
#: Regions by number: full, row, column, single.
SHAPES = [(0, 0), (1, 0), (0, 1), (1, 1)]
FULL, ROW, COLUMN, SINGLE, OTHER, OTHER_ROW, OTHER_COLUMN = range(7)
REGIONS = [{"line": 4 * number, "is_row": shape[0], "is_column": shape[1]}
           for number, shape in enumerate([*SHAPES, *SHAPES[:3], SHAPES[0]])]


def move(region: int, offset: int, stride: int = 0, packed: int = 0) -> dict[str, Any]:
    return {"pointer": {"base": 2, "offset": offset}, "stride": stride, "region": region, "packed": packed}


def body(program: list[tuple[int, ...]], load: list[dict[str, Any]], store: list[dict[str, Any]], **fields: Any,
         ) -> dict[str, Any]:
    """Fields of a task; an instruction is (op, dst, a, b, immediate)."""
    return {"rows": ROWS, "columns": COLUMNS, "loads": len(load), "stores": len(store), "instructions": len(program),
            "regions": REGIONS, "load": load, "store": store, "immediates": [0x40200000, 0xBF000000, 0, 0],
            "program": [dict(zip(("op", "dst", "a", "b", "immediate"), instruction, strict=False))
                        for instruction in program],
            **fields}


def bits(values: Any) -> np.ndarray:
    return np.asarray(values, dtype=np.float32).view(np.uint32)


def value(pattern: int) -> float:
    return float(np.array([pattern], dtype=np.uint32).view(np.float32)[0])


def pattern(number: float) -> int:
    with np.errstate(over="ignore"):
        return NAN if math.isnan(number) else int(bits([number])[0])


def larger(a: int, b: int) -> int:
    if math.isnan(value(a)) or math.isnan(value(b)):
        return NAN
    if value(a) == value(b) == 0:
        return a & b
    return a if value(a) > value(b) else b


ELEMENTWISE: dict[VectorOp, Callable[[int, int], int]] = {
    VectorOp.ADD: lambda a, b: pattern(value(a) + value(b)),
    VectorOp.SUB: lambda a, b: pattern(value(a) - value(b)),
    VectorOp.MUL: lambda a, b: pattern(value(a) * value(b)),
    VectorOp.MAX: larger,
    VectorOp.RELU: lambda a, b: pattern(value(a)) if math.isnan(value(a)) or value(a) > 0 else 0,
    VectorOp.RELU_MASK: lambda a, b: pattern(value(a)) if value(b) > 0 else 0,
    VectorOp.ADD_IMMEDIATE: lambda a, b: pattern(value(a) + 2.5),
    VectorOp.SCALE: lambda a, b: pattern(value(a) * 2.5),
    VectorOp.COPY: lambda a, b: pattern(value(a)),
}
SPECIAL = [0, 0x80000000, 1, 0x80000001, 0x3F800000, 0xBF800000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7F800001,
           0xFFC12345, 0x40490FDB, 0xC0490FDB]


def run_one(op: VectorOp, a: np.ndarray, b: np.ndarray, dst: int = FULL, sources: tuple[int, int] = (FULL, OTHER),
            immediate: int = 0) -> np.ndarray:
    """Result of one instruction on regions of a task as large as ``a``."""
    rows, columns = (max(x, y) for x, y in zip(a.shape, b.shape, strict=True))
    task = vector.decode(body([(op, dst, *sources, immediate)], [], [], rows=rows, columns=columns))
    regions = {sources[1]: b, sources[0]: a}
    vector.run(task, regions)
    return regions[dst]


@pytest.mark.parametrize("op", list(ELEMENTWISE))
def test_elementwise(op: VectorOp) -> None:
    a = np.repeat(np.array(SPECIAL, dtype=np.uint32), len(SPECIAL)).reshape(13, 13)
    b = np.tile(np.array(SPECIAL, dtype=np.uint32), len(SPECIAL)).reshape(13, 13)
    computed = run_one(op, a, b)
    for x, y, result in zip(a.flat, b.flat, computed.flat, strict=True):
        assert int(result) == ELEMENTWISE[op](int(x), int(y)), f"{op.name} of {x:#x}, {y:#x}: {result:#x}"


def test_operands_are_broadcast() -> None:
    row, column = bits([[1, 2, 3, 4, 5]]), bits([[10], [20], [30]])
    computed = run_one(VectorOp.ADD, row, column, FULL, (ROW, COLUMN))
    assert computed.view(np.float32).tolist() == [[11, 12, 13, 14, 15], [21, 22, 23, 24, 25], [31, 32, 33, 34, 35]]
    assert run_one(VectorOp.SCALE, row, column, FULL, (ROW, COLUMN), immediate=1).view(np.float32).tolist() == [
        [-0.5, -1, -1.5, -2, -2.5]] * 3


@pytest.mark.parametrize("dst, axis", [(ROW, 0), (COLUMN, 1)])
def test_reductions_go_up(dst: int, axis: int) -> None:
    values = np.random.default_rng(5).normal(size=(ROWS, COLUMNS)).astype(np.float32) * np.float32(1e7) ** np.arange(
        COLUMNS, dtype=np.float32)
    lines = values if axis else values.T
    wanted = []
    for line in lines:
        total = line[0]
        for term in line[1:]:
            total = np.float32(total + term)
        wanted.append(float(total))
    other = np.zeros((1, 1), np.uint32)
    reduced = run_one(VectorOp.SUM, values.view(np.uint32), other, dst, (FULL, SINGLE))
    assert reduced.shape == ((1, COLUMNS), (ROWS, 1))[axis]
    assert reduced.view(np.float32).reshape(-1).tolist() == wanted
    reduced = run_one(VectorOp.MAXIMUM, values.view(np.uint32), other, dst, (FULL, SINGLE))
    assert reduced.view(np.float32).reshape(-1).tolist() == values.max(axis=axis).tolist()


def test_maxima_of_special_numbers() -> None:
    rows = [[0x80000000, 0, 0x80000000], [0xBF800000, 0xC0000000, 0xBF800001], [0x3F800000, 0x7F800001, 0x40000000],
            [0xFF800000, 0x80000000, 0xFF7FFFFF], [0xFFC12345, 0, 0]]
    maxima = run_one(VectorOp.MAXIMUM, np.array(rows, dtype=np.uint32), np.zeros((1, 1), np.uint32), COLUMN,
                     (FULL, SINGLE))
    assert maxima.reshape(-1).tolist() == [0, 0xBF800000, NAN, 0x80000000, NAN]
    assert run_one(VectorOp.SUM, np.array([[0x7F800001, 0]], dtype=np.uint32), np.zeros((1, 1), np.uint32), COLUMN,
                   (FULL, SINGLE)).tolist() == [[NAN]]


def test_a_row_is_reduced_to_a_single_number() -> None:
    row, column = bits([[1, 2, 4, 8, 16]]), bits([[1], [2], [4]])
    assert run_one(VectorOp.SUM, row, column, SINGLE, (ROW, COLUMN)).view(np.float32).tolist() == [[31]]
    assert run_one(VectorOp.SUM, column, row, SINGLE, (COLUMN, ROW)).view(np.float32).tolist() == [[7]]


def test_narrow_numbers() -> None:
    narrow = run_one(VectorOp.NARROW, bits([[1, -2.5, 2**-24, 1e9]]), np.zeros((1, 1), np.uint32))
    assert narrow.tolist() == [[0x3C00, 0xC100, 0x0001, 0x7C00]]
    back = run_one(VectorOp.WIDEN, narrow | np.uint32(0xABCD0000), np.zeros((1, 1), np.uint32))
    assert back.view(np.float32)[0, :2].tolist() == [1, -2.5]


def test_loads_and_stores_word_by_word() -> None:
    memory = np.random.default_rng(2).integers(0, 1 << 32, 300, dtype=np.uint32)
    before = memory.copy()
    bases = [0, 0, 20, *[0] * 13]
    task = body([], [move(FULL, 3, 9), move(ROW, 50), move(COLUMN, 60), move(OTHER, 100, 4, packed=1)],
                [move(OTHER, 150, 6), move(FULL, 200, 8, packed=1), move(COLUMN, 230)])
    vector.execute(memory, task, bases)
    wanted = before.copy()
    halves = before.astype("<u4").view("<u2")
    for row in range(ROWS):
        for column in range(COLUMNS):
            wanted[170 + 6 * row + column] = halves[2 * (120 + 4 * row) + column]
        low = before[23 + 9 * row:28 + 9 * row] & 0xFFFF
        wanted[220 + 8 * row:223 + 8 * row] = [low[0] | low[1] << 16, low[2] | low[3] << 16, low[4]]
    wanted[250:253] = before[80:83]
    assert memory.tolist() == wanted.tolist()


@pytest.mark.parametrize("load, store", [(move(FULL, 272, 9), None), (None, move(FULL, 272, 9))])
def test_moves_end_with_the_memory(load: dict[str, Any] | None, store: dict[str, Any] | None) -> None:
    memory, bases = np.zeros(300 + 15, dtype=np.uint32), [0] * 16
    task = body([], [load or move(FULL, 0, 5)], [store] if store else [])
    vector.execute(memory[:295], task, bases)
    with pytest.raises(IndexError, match="the block from 272 to 295 lies beyond the memory of 294 words"):
        vector.execute(memory[:294], task, bases)


def test_a_scratchpad_has_a_size_if_beats_and_words_are_given() -> None:
    memory, task = np.zeros(100, dtype=np.uint32), body([], [move(FULL, 0, 5)], [])
    vector.execute(memory, task, [0] * 16, beat_words=4)
    vector.execute(memory, task, [0] * 16, buffer_words=4)
    with pytest.raises(BadOperandError):
        vector.execute(memory, task, [0] * 16, beat_words=4, buffer_words=4)


def test_a_region_is_written_before_it_is_read_or_stored() -> None:
    memory, bases = np.zeros(100, dtype=np.uint32), [0] * 16
    with pytest.raises(BadOperandError, match="region 4 is read before it is written"):
        vector.execute(memory, body([(VectorOp.ADD, FULL, FULL, OTHER)], [move(FULL, 0, 5)], []), bases)
    with pytest.raises(BadOperandError, match="region 1 is stored before it is written"):
        vector.execute(memory, body([], [move(FULL, 0, 5)], [move(ROW, 0)]), bases)


@pytest.mark.parametrize("fields", [
    {"rows": 0}, {"columns": 0}, {"loads": 5}, {"stores": 4}, {"instructions": 22},
    {"loads": 1, "load": [move(8, 0)]}, {"instructions": 1, "program": [{"op": 14}]},
    {"instructions": 1, "program": [{"op": VectorOp.FUNCTION, "b": 5}]}])
def test_bad_bodies_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(BadOperandError):
        vector.decode(pack(VectorBody, {**body([], [], []), **fields}))


def test_a_body_has_its_words() -> None:
    with pytest.raises(ValueError, match="A body has 56 words, not 55"):
        vector.decode([0] * 55)


@pytest.mark.parametrize("op, dst, a, b, fits", [
    (VectorOp.ADD, FULL, FULL, ROW, True), (VectorOp.ADD, ROW, ROW, SINGLE, True),
    (VectorOp.ADD, ROW, ROW, OTHER, False), (VectorOp.ADD, ROW, FULL, OTHER_ROW, False),
    (VectorOp.ADD, COLUMN, COLUMN, FULL, False), (VectorOp.ADD, COLUMN, OTHER_COLUMN, SINGLE, True),
    (VectorOp.SCALE, ROW, ROW, FULL, True), (VectorOp.SCALE, ROW, FULL, ROW, False),
    (VectorOp.COPY, SINGLE, COLUMN, FULL, False), (VectorOp.COPY, COLUMN, ROW, FULL, False),
    (VectorOp.SUM, ROW, FULL, 0, True), (VectorOp.SUM, COLUMN, FULL, 0, True), (VectorOp.SUM, SINGLE, ROW, 0, True),
    (VectorOp.SUM, SINGLE, COLUMN, 0, True), (VectorOp.SUM, SINGLE, FULL, 0, False),
    (VectorOp.MAXIMUM, ROW, OTHER_ROW, 0, False), (VectorOp.MAXIMUM, OTHER, FULL, 0, False),
    (VectorOp.SUM, SINGLE, SINGLE, 0, False), (VectorOp.SUM, COLUMN, ROW, 0, False)])
def test_shapes(op: VectorOp, dst: int, a: int, b: int, fits: bool) -> None:
    task = body([(op, dst, a, b)], [], [])
    if fits:
        vector.decode(task)
    else:
        with pytest.raises(BadOperandError, match=op.name):
            vector.decode(task)


@pytest.mark.parametrize("is_row, is_column, lines", [(0, 0, 9), (1, 0, 3), (0, 1, 1), (1, 1, 1)])
def test_regions_fit_to_the_line(is_row: int, is_column: int, lines: int) -> None:
    """Three rows of nine words in lines of four, from line 7 on."""
    flags = {name: True for name, flag in (("is_row", is_row), ("is_column", is_column)) if flag}
    assert ScratchpadRegion(0, **flags).lines(3, 9, 4) == lines
    region = {"line": 7, "is_row": is_row, "is_column": is_column}
    spare = {**region, "line": 0}
    for number, program, load in ((3, [(VectorOp.COPY, 3, 0)], []), (3, [(VectorOp.COPY, 0, 3)], []),
                                  (3, [(VectorOp.ADD, 0, 0, 3)], []), (3, [], [move(3, 0)]),
                                  (0, [(VectorOp.COPY, 0, 0, 3)], [])):
        regions = [region if other == number else spare for other in range(8)]
        task = vector.decode(body(program, load, [], columns=9, regions=regions))
        vector.check_fit(task, 4, 4 * (7 + lines))
        with pytest.raises(BadOperandError, match=f"region {number} ends at line {7 + lines}, beyond {6 + lines}"):
            vector.check_fit(task, 4, 4 * (7 + lines) - 1)
