"""Random vector tasks that the golden model can run: every region is written before it is read."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plinth_hw.isa.formats import FP32, Fixed, Format, word_type
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.vector_body import (
    VECTOR_IMMEDIATES,
    VECTOR_INSTRUCTIONS,
    VECTOR_LOADS,
    VECTOR_REGIONS,
    VECTOR_STORES,
    VectorOp,
)
from plinth_sim.golden.lanes import lanes_of
from plinth_sim.golden.vector import ScratchpadRegion

#: (is_row, is_column)
SHAPES = {"full": (0, 0), "row": (1, 0), "column": (0, 1), "single": (1, 1)}
REDUCTIONS = (VectorOp.SUM, VectorOp.MAXIMUM)
TWO_SOURCES = (VectorOp.ADD, VectorOp.SUB, VectorOp.MUL, VectorOp.MAX, VectorOp.RELU_MASK)


@dataclass
class ProgramWriter:
    """Writes one task over ``rows`` x ``columns``; regions lie one after another, in shuffled order."""

    parameters: DieParameters
    rows: int
    columns: int
    shapes: list[str]
    rng: np.random.Generator
    body: dict[str, Any] = field(init=False)
    written: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        lines = [0] * len(self.shapes)
        line = 0
        for number in self.rng.permutation(len(self.shapes)):
            lines[number] = line
            line += self.lines(int(number)) + int(self.rng.integers(0, 3))
        self.end = line
        self.body = {
            "rows": self.rows, "columns": self.columns, "loads": 0, "stores": 0, "instructions": 0,
            "regions": [{"line": lines[n], "is_row": SHAPES[shape][0], "is_column": SHAPES[shape][1]}
                        for n, shape in enumerate(self.shapes)],
            "load": [], "store": [], "immediates": [0] * VECTOR_IMMEDIATES, "program": [],
        }

    def lines(self, number: int) -> int:
        """Lines of a region."""
        is_row, is_column = SHAPES[self.shapes[number]]
        return ScratchpadRegion(0, bool(is_row), bool(is_column)).lines(self.rows, self.columns,
                                                                        self.parameters.beat_words)

    def words(self, number: int, packed: bool) -> tuple[int, int]:
        """Rows, and words a row, of a region in memory."""
        shape = self.shapes[number]
        rows, elements = {"full": (self.rows, self.columns), "row": (1, self.columns),
                          "column": (1, self.rows), "single": (1, 1)}[shape]
        return rows, -(-elements // 2) if packed else elements

    def move(self, kind: str, number: int, base: int, offset: int, stride: int, packed: bool) -> None:
        """Append a load or a store."""
        self.body[kind].append({"pointer": {"base": base, "offset": offset}, "stride": stride,
                                "region": number, "packed": int(packed)})
        self.body[f"{kind}s"] += 1
        if kind == "load":
            self.written.append(number)

    def run(self, op: VectorOp, dst: int, a: int, b: int = 0, immediate: int = 0,
            lanes_along_rows: bool = False) -> None:
        """Append an instruction."""
        self.body["program"].append({"op": op, "dst": dst, "a": a, "b": b, "immediate": immediate,
                                     "lanes_along_rows": int(lanes_along_rows)})
        self.body["instructions"] += 1
        self.written.append(dst)

    def covers(self, dst: int, source: int) -> bool:
        """Whether an element-wise instruction may read ``source`` into ``dst``."""
        return all(not lost or lacks for lost, lacks in zip(SHAPES[self.shapes[dst]],
                                                            SHAPES[self.shapes[source]], strict=True))

    def random_instruction(self) -> None:
        """Append one that reads what has been written."""
        rng, lanes = self.rng, lanes_of(self.parameters.memory_format)
        ops = [op for op in VectorOp if op not in lanes.lacking]
        while True:
            op = ops[int(rng.integers(0, len(ops)))]
            dst, a, b = int(rng.integers(0, len(self.shapes))), *map(int, rng.choice(self.written, 2))
            if op in REDUCTIONS:
                (dst_row, dst_column), (a_row, a_column) = SHAPES[self.shapes[dst]], SHAPES[self.shapes[a]]
                fits = (dst_row - a_row, dst_column - a_column) in ((0, 1), (1, 0))
            else:
                fits = self.covers(dst, a) and (op not in TWO_SOURCES or self.covers(dst, b))
            if fits:
                break
        if op is VectorOp.FUNCTION:
            b = int(rng.choice(sorted(function.value for function in lanes.functions)))
        self.run(op, dst, a, b, int(rng.integers(0, VECTOR_IMMEDIATES)), bool(rng.integers(0, 2)))


def random_task(parameters: DieParameters, rng: np.random.Generator, source: tuple[int, int],
                destination: tuple[int, int], bases: list[int], largest: int = 20,
                instructions: int = VECTOR_INSTRUCTIONS) -> dict[str, Any]:
    """Fields of a task that loads from ``source`` and stores to ``destination``, both (start, end) in words.

    Raises
    ------
    ValueError
        If the areas are too small.
    """
    while True:
        rows, columns = (int(rng.integers(1, largest + 1)) for _ in range(2))
        shapes = ["full", *map(str, rng.choice(list(SHAPES), VECTOR_REGIONS - 1))]
        writer = ProgramWriter(parameters, rows, columns, shapes, rng)
        if writer.end <= parameters.vector_buffer_words // parameters.beat_words:
            break
    base, packs = int(rng.integers(0, 16)), parameters.word_bits == 32
    for _ in range(int(rng.integers(1, VECTOR_LOADS + 1))):
        number, packed = int(rng.integers(0, VECTOR_REGIONS)), bool(rng.integers(0, 2)) and packs
        lines, words = writer.words(number, packed)
        stride = words + int(rng.integers(0, 10))
        room = source[1] - source[0] - lines * stride
        at = source[0] + int(rng.integers(0, room))
        writer.move("load", number, base, at - bases[base], stride, packed)
    for _ in range(int(rng.integers(0, instructions + 1))):
        writer.random_instruction()
    at = destination[0]
    for _ in range(int(rng.integers(0, VECTOR_STORES + 1))):
        number, packed = int(rng.choice(writer.written)), bool(rng.integers(0, 2)) and packs
        lines, words = writer.words(number, packed)
        stride = words + int(rng.integers(0, 10))
        at += int(rng.integers(0, 10))
        writer.move("store", number, base, at - bases[base], stride, packed)
        at += lines * stride
    if at > destination[1]:
        raise ValueError(f"the destination must end at {at} or later, not at {destination[1]}")
    writer.body["immediates"] = random_image(rng, VECTOR_IMMEDIATES).tolist()
    return writer.body


#: Bits of numbers that come up seldom otherwise: zeros, infinities, NaNs, subnormals, one.
SPECIAL = np.array([0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFF812345, 1, 0x80000001, 0x3F800000],
                   np.uint32)


def random_image(rng: np.random.Generator, words: int, fmt: Format = FP32) -> np.ndarray:
    """FP32 bits: plain numbers, any pattern, special values; or fixed point of all magnitudes, and the ends."""
    if isinstance(fmt, Fixed):
        numbers = rng.integers(fmt.least, fmt.most, words, endpoint=True) >> rng.integers(0, fmt.bits, words)
        ends = rng.choice([fmt.least, fmt.least + 1, -1, 0, 1, fmt.most], words)
        return np.where(rng.random(words) < 0.1, ends, numbers).astype(np.int16).view(word_type(fmt))
    plain = (rng.standard_normal(words) * 4).astype(np.float32).view(np.uint32)
    any_bits = rng.integers(0, 1 << 32, words, dtype=np.uint64).astype(np.uint32)
    kind = rng.random(words)
    return np.where(kind < 0.75, plain, np.where(kind < 0.95, any_bits, rng.choice(SPECIAL, words)))
