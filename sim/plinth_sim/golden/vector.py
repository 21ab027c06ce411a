"""Golden model of the vector engine: runs a task body on an image of die memory.

What instructions do with elements is that of the lanes (:mod:`~plinth_sim.golden.lanes`). Reductions go, for every
index that dst keeps, over the index that it lacks, ascending. Loads and stores keep all bits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth_hw.isa import layout
from plinth_hw.isa.descriptors import BODY_WORDS
from plinth_hw.isa.formats import FP32, Format
from plinth_hw.isa.vector_body import (
    VECTOR_INSTRUCTIONS,
    VECTOR_LOADS,
    VECTOR_REGIONS,
    VECTOR_STORES,
    VectorBody,
    VectorFunction,
    VectorOp,
)
from plinth_sim.golden.blocks import window
from plinth_sim.golden.lanes import Counted, Lanes, lanes_of

Words = NDArray[np.unsignedinteger]

_TWO_SOURCES = frozenset({VectorOp.ADD, VectorOp.SUB, VectorOp.MUL, VectorOp.MAX, VectorOp.RELU_MASK})
_REDUCTIONS = frozenset({VectorOp.SUM, VectorOp.MAXIMUM})


class BadOperandError(ValueError):
    """The engine answers this body with ``ErrorCode.BAD_OPERAND``."""


@dataclass(frozen=True)
class ScratchpadRegion:
    """Place and shape of a region of the scratchpad; both flags make it a single word."""

    line: int
    is_row: bool = False
    is_column: bool = False

    def shape(self, rows: int, columns: int) -> tuple[int, int]:
        """Rows and columns within a task of ``rows`` x ``columns``."""
        return (1 if self.is_row else rows, 1 if self.is_column else columns)

    def lines(self, rows: int, columns: int, beat_words: int) -> int:
        """Lines that the region takes: a column lies in the scratchpad as a row does."""
        if self.is_row or self.is_column:
            return -(-(1 if self.is_row and self.is_column else
                       columns if self.is_row else rows) // beat_words)
        return rows * -(-columns // beat_words)


@dataclass(frozen=True)
class DecodedMove:
    """One load or store."""

    base: int
    offset: int
    stride: int
    region: int
    packed: bool


@dataclass(frozen=True)
class DecodedInstruction:
    """One decoded instruction."""

    op: VectorOp
    dst: int
    a: int
    b: int
    immediate: int
    lanes_along_rows: bool


@dataclass(frozen=True)
class DecodedBody:
    """A decoded body."""

    rows: int
    columns: int
    regions: tuple[ScratchpadRegion, ...]
    loads: tuple[DecodedMove, ...]
    stores: tuple[DecodedMove, ...]
    immediates: tuple[int, ...]
    instructions: tuple[DecodedInstruction, ...]


def decode(body: Any) -> DecodedBody:
    """A body as data: from its 56 words, or a mapping of its fields.

    Raises
    ------
    BadOperandError
        If the engine would refuse the body, whatever its scratchpad's size.
    """
    if isinstance(body, Mapping):
        body = layout.pack(VectorBody, body)
    raw = np.asarray(body, dtype="<u4").tobytes()
    if len(raw) != 4 * BODY_WORDS:
        raise ValueError(f"A body has {BODY_WORDS} words, not {len(raw) // 4}")
    return _decode(raw)


@lru_cache(maxsize=4096)
def _decode(raw: bytes) -> DecodedBody:
    body = layout.unpack(VectorBody, np.frombuffer(raw, dtype="<u4"))
    counts = (("loads", body.loads, VECTOR_LOADS), ("stores", body.stores, VECTOR_STORES),
              ("instructions", body.instructions, VECTOR_INSTRUCTIONS))
    for name, count, most in counts:
        if count > most:
            raise BadOperandError(f"{name} must be at most {most}, not {count}")
    rows, columns = body.rows, body.columns
    if rows == 0 or columns == 0:
        raise BadOperandError(f"rows and columns must not be zero, not {rows} and {columns}")
    regions = tuple(ScratchpadRegion(r.line, bool(r.is_row), bool(r.is_column))
                    for r in (body.regions[i] for i in range(VECTOR_REGIONS)))

    def moves(array: Any, count: int) -> tuple[DecodedMove, ...]:
        decoded = []
        for move in (array[i] for i in range(count)):
            if move.region >= VECTOR_REGIONS:
                raise BadOperandError(f"a region number must be below {VECTOR_REGIONS}, "
                                      f"not {move.region}")
            decoded.append(DecodedMove(move.pointer.base, move.pointer.offset, move.stride, move.region,
                                       bool(move.packed)))
        return tuple(decoded)

    instructions = []
    for word in (body.program[i] for i in range(body.instructions)):
        try:
            op = VectorOp(word.op)
            if op is VectorOp.FUNCTION:
                VectorFunction(word.b)
        except ValueError as error:
            raise BadOperandError(str(error)) from None
        instruction = DecodedInstruction(op, word.dst, word.a, word.b, word.immediate,
                                         bool(word.lanes_along_rows))
        _check_shapes(instruction, regions)
        instructions.append(instruction)
    return DecodedBody(rows, columns, regions, moves(body.load, body.loads), moves(body.store, body.stores),
                       tuple(body.immediates[i] for i in range(4)), tuple(instructions))


def _check_shapes(instruction: DecodedInstruction, regions: Sequence[ScratchpadRegion]) -> None:
    dst, a, b = (regions[i] for i in (instruction.dst, instruction.a, instruction.b))
    if instruction.op in _REDUCTIONS:
        if (dst.is_row, dst.is_column) not in ((a.is_row, True), (True, a.is_column)) or dst == ScratchpadRegion(
                dst.line, a.is_row, a.is_column):
            raise BadOperandError(f"{instruction.op.name} needs a destination with exactly one "
                                  "dimension less than its source")
        return
    sources = (a, b) if instruction.op in _TWO_SOURCES else (a,)
    if any((dst.is_row and not s.is_row) or (dst.is_column and not s.is_column) for s in sources):
        raise BadOperandError(f"{instruction.op.name} has a destination without a dimension of a source")


def check_fit(program: DecodedBody, beat_words: int, buffer_words: int) -> None:
    """Refuse regions, used by a move or an instruction, that end beyond the scratchpad half.

    Raises
    ------
    BadOperandError
        If one does; the message names region and sizes.
    """
    used = {move.region for move in program.loads + program.stores}
    for instruction in program.instructions:
        used |= {instruction.dst, instruction.a}
        if instruction.op in _TWO_SOURCES:
            used.add(instruction.b)
    capacity = buffer_words // beat_words
    for number in sorted(used):
        region = program.regions[number]
        end = region.line + region.lines(program.rows, program.columns, beat_words)
        if end > capacity:
            raise BadOperandError(f"region {number} ends at line {end}, beyond {capacity}")


def check_written(program: DecodedBody) -> None:
    """Refuse what would read a region of the scratchpad that nothing in the task has written before.

    Raises
    ------
    BadOperandError
        If an instruction or a store does; the message names the region.
    """
    written = {move.region for move in program.loads}
    for instruction in program.instructions:
        sources = (instruction.a, instruction.b) if instruction.op in _TWO_SOURCES else (instruction.a,)
        for number in sources:
            if number not in written:
                raise BadOperandError(f"region {number} is read before it is written")
        written.add(instruction.dst)
    for move in program.stores:
        if move.region not in written:
            raise BadOperandError(f"region {move.region} is stored before it is written")


def compute(lanes: Lanes, instruction: DecodedInstruction, a: Words, b: Words | None, immediate: int,
            shape: tuple[int, int], reduce_rows: bool) -> Counted:
    """Result of one instruction, and the ends that came up; ``reduce_rows`` says which dimension a reduction takes
    away."""
    op, axis = instruction.op, 0 if reduce_rows else 1
    if op is VectorOp.SUM:
        return lanes.sums(a, axis)
    if op is VectorOp.MAXIMUM:
        return lanes.largest(a, axis), 0
    a = np.ascontiguousarray(np.broadcast_to(a, shape))
    if op is VectorOp.FUNCTION:
        return lanes.function(VectorFunction(instruction.b), a), 0
    return lanes.apply(op, a, None if b is None else np.ascontiguousarray(np.broadcast_to(b, shape)), immediate)


def run(program: DecodedBody, regions: dict[int, Words], fmt: Format = FP32) -> int:
    """Run the instructions on region contents, ``[rows, columns]`` words, in place; ``fmt`` is the die's
    memory format. Returns how many ends came up (:mod:`~plinth_sim.golden.lanes`).

    Raises
    ------
    KeyError
        If an instruction reads a region that nothing has written: :func:`check_written` refuses it.
    """
    lanes = lanes_of(fmt)
    ends = 0
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for instruction in program.instructions:
            dst = program.regions[instruction.dst]
            a = regions[instruction.a]
            b = regions[instruction.b] if instruction.op in _TWO_SOURCES else None
            regions[instruction.dst], more = compute(
                lanes, instruction, a, b, program.immediates[instruction.immediate],
                dst.shape(program.rows, program.columns),
                dst.is_row and not program.regions[instruction.a].is_row)
            ends += more
    return ends


def _memory_rows(program: DecodedBody, move: DecodedMove) -> tuple[int, int]:
    """Rows and elements a row as the region lies in memory."""
    region = program.regions[move.region]
    rows, columns = region.shape(program.rows, program.columns)
    return (1, rows) if region.is_column else (rows, columns)


def check_lanes(program: DecodedBody, lanes: Lanes) -> None:
    """Refuse what the lanes of a format of memory do not have.

    Raises
    ------
    BadOperandError
        If there is such an instruction, function, or move.
    """
    for instruction in program.instructions:
        if instruction.op in lanes.lacking:
            raise BadOperandError(f"{instruction.op.name} is no instruction of these lanes")
        if instruction.op is VectorOp.FUNCTION and VectorFunction(instruction.b) not in lanes.functions:
            raise BadOperandError(f"{VectorFunction(instruction.b).name} is no function of these lanes")
    if not lanes.packs and any(move.packed for move in program.loads + program.stores):
        raise BadOperandError("words of these lanes hold one number")


def execute(memory: Words, body: Any, bases: Sequence[int], *, beat_words: int | None = None,
            buffer_words: int | None = None, fmt: Format = FP32) -> int:
    """Run a task body on a die's memory, in place; returns what :func:`run` does.

    Parameters
    ----------
    memory : contiguous array of words
        The die's memory.
    body : 56 words, or a mapping of fields
        The task's body.
    bases : sequence of 16 int
        The base registers.
    beat_words, buffer_words : int, optional
        Size of the scratchpad; with both given, regions that do not fit are refused.
    fmt : Format
        The die's ``memory_format``.

    Raises
    ------
    BadOperandError
        If the engine would refuse the body.
    IndexError
        If a move leaves the memory.
    """
    program = decode(body)
    check_lanes(program, lanes_of(fmt))
    if beat_words is not None and buffer_words is not None:
        check_fit(program, beat_words, buffer_words)
    check_written(program)
    regions: dict[int, Words] = {}
    for move in program.loads:
        shape = program.regions[move.region].shape(program.rows, program.columns)
        rows, columns = _memory_rows(program, move)
        start = bases[move.base] + move.offset
        words = -(-columns // 2) if move.packed else columns
        block = np.array(window(memory, start, move.stride, rows, words))
        if move.packed:
            block = block.astype("<u4").view("<u2")[:, :columns].astype(np.uint32)
        regions[move.region] = block.reshape(shape)
    ends = run(program, regions, fmt)
    for move in program.stores:
        rows, columns = _memory_rows(program, move)
        block = regions[move.region].reshape(rows, columns)
        start = bases[move.base] + move.offset
        words = -(-columns // 2) if move.packed else columns
        if move.packed:
            halves = np.zeros((rows, 2 * words), dtype="<u2")
            halves[:, :columns] = block & np.uint32(0xFFFF)
            block = halves.view("<u4")
        place = window(memory, start, move.stride, rows, words)
        for row in range(rows):
            place[row] = block[row]
    return ends
