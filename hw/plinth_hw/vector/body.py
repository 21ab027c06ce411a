"""Task bodies of the vector engine: staging, checks, and the memory that the stages read them from.

::

    body words --> place S mod 4 of a memory --> one read port, shared by the stages
              \\-> checks, on the fly --> summary of the body (error, counts), with ``started``

The words of a body come in ascending order, one a cycle at most. Everything that makes a body unfit is
known when its last word has come; nothing of an unfit task is run. Reads have one
cycle latency.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.arith.common import at_least
from plinth_hw.control.engine import BodyWord
from plinth_hw.isa.layout import WORD_BITS
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.tasks import (
    BODY_WORDS,
    VECTOR_IMMEDIATES,
    VECTOR_INSTRUCTIONS,
    VECTOR_LOADS,
    VECTOR_REGIONS,
    VECTOR_STORES,
    ErrorCode,
    VectorBody,
    VectorInstruction,
    VectorMove,
    VectorOp,
    VectorOperation,
    VectorRegion,
)
from plinth_hw.lib.ram import UNCHECKED
from plinth_hw.memory.port import TASK_BITS
from plinth_hw.shapes import shape_of
from plinth_hw.vector.units import units

#: Stages that read bodies: load, compute, store.
READERS = 3
#: Bodies held: one in each stage, so that the place of the body that comes is always unused.
BODIES = READERS + 1
BODY_BITS = 2
#: First word of each part of a body.
REGION_BASE = 2
LOAD_BASE = REGION_BASE + VECTOR_REGIONS
MOVE_WORDS = VectorMove.BITS // WORD_BITS
STORE_BASE = LOAD_BASE + MOVE_WORDS * VECTOR_LOADS
IMMEDIATE_BASE = STORE_BASE + MOVE_WORDS * VECTOR_STORES
PROGRAM_BASE = IMMEDIATE_BASE + VECTOR_IMMEDIATES
assert PROGRAM_BASE + VECTOR_INSTRUCTIONS == BODY_WORDS
assert VectorBody.FIELDS["program"].offset == 32 * PROGRAM_BASE

#: Instructions with two source regions.
TWO_SOURCES = (VectorOp.ADD, VectorOp.SUB, VectorOp.MUL, VectorOp.MAX, VectorOp.RELU_MASK)
#: Instructions that reduce.
REDUCTIONS = (VectorOp.SUM, VectorOp.MAXIMUM)


class Summary(data.Struct):
    """What the stages need of a task beside its words."""

    error: shape_of(ErrorCode)
    rows: unsigned(16)
    columns: unsigned(16)
    loads: unsigned(3)
    stores: unsigned(2)
    instructions: unsigned(5)


class BodyReadPort(wiring.Signature):
    """Seen from a reader: ``place`` and ``index`` Out with ``enable`` Out; ``data`` In one cycle later, if
    ``grant`` In was set with ``enable``."""

    def __init__(self) -> None:
        super().__init__({"enable": Out(1), "grant": In(1), "place": Out(BODY_BITS), "index": Out(6),
                          "data": In(32)})


def read_word(m: Module, port: Any, state: str, index: Any, taken: list[Any], following: str) -> None:
    """States ``state`` and ``state_DATA`` of the FSM at hand: read a word through a
    :class:`BodyReadPort`, do ``taken`` with it, go on to ``following``."""
    with m.State(state):
        m.d.comb += [port.enable.eq(1), port.index.eq(index)]
        with m.If(port.grant):
            m.next = f"{state}_DATA"
    with m.State(f"{state}_DATA"):
        m.d.sync += taken
        m.next = following


def next_of(m: Module, taken: Any, left: Signal, first: str) -> None:
    """In the state that offers what has been read: once ``taken``, go on to ``first``, or to IDLE after the
    last of ``left``."""
    with m.If(taken):
        m.d.sync += left.eq(left - 1)
        m.next = "IDLE"
        with m.If(left != 1):
            m.next = first


class BodyStore(wiring.Component):
    """Stages, checks and keeps task bodies.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    body, operation, start
        As of ``EngineSignature``. ``start`` is taken once the body is complete.
    started : Out(1)
        Pulse: the task of the body at ``place`` starts; ``summary`` tells of it. Of an unfit task it says the error
        and that there is nothing to do.
    place : Out
    summary : Out(Summary)
    read : In(BodyReadPort), one a reader
        The first has priority.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({
            "body": In(stream.Signature(BodyWord)), "operation": In(4),
            "start": In(stream.Signature(unsigned(TASK_BITS))),
            "started": Out(1), "place": Out(BODY_BITS), "summary": Out(Summary),
            "read": In(BodyReadPort()).array(READERS),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.words = words = Memory(shape=unsigned(32), depth=BODIES * 64, init=[], attrs=UNCHECKED)
        write, read = words.write_port(), words.read_port()
        complete, comes, word = Signal(name="complete"), Signal(name="comes"), self.body.payload
        m.d.comb += [
            self.body.ready.eq(~complete), comes.eq(self.body.valid & self.body.ready),
            write.en.eq(comes), write.addr.eq(Cat(word.index, self.place)), write.data.eq(word.word),
            read.en.eq(Cat(reader.enable for reader in self.read).any()),
            self.start.ready.eq(complete),
            self.started.eq(self.start.valid & complete),
        ]
        taken = Const(0, 1)
        for reader in self.read:
            m.d.comb += [reader.data.eq(read.data), reader.grant.eq(~taken)]
            with m.If(reader.enable & ~taken):
                m.d.comb += read.addr.eq(Cat(reader.index, reader.place))
            taken = taken | reader.enable
        error = Signal()
        counts = Signal(Summary)
        with m.If(comes):
            self._check(m, word, counts, error)
            with m.If(word.last):
                m.d.sync += complete.eq(1)
        with m.If(self.started):
            m.d.sync += [complete.eq(0), self.place.eq(self.place + 1)]
        with m.If(self.operation != VectorOperation.PROGRAM.value):
            m.d.comb += self.summary.error.eq(ErrorCode.BAD_OPERATION)
        with m.Elif(error):
            m.d.comb += self.summary.error.eq(ErrorCode.BAD_OPERAND)
        with m.Else():
            m.d.comb += self.summary.eq(counts)
        return m

    def _check(self, m: Module, word: Any, counts: Any, error: Any) -> None:
        beat_words = self.parameters.beat_words
        lane_bits = exact_log2(beat_words)
        capacity = self.parameters.vector_buffer_words // beat_words

        rows, columns = counts.rows, counts.columns
        row_groups, column_groups = (Signal(17 - lane_bits, name=f"{name}_groups") for name in ("row", "column"))
        m.d.comb += [groups.eq((count + (beat_words - 1))[lane_bits:])
                     for groups, count in ((row_groups, rows), (column_groups, columns))]
        full_lines = Signal(len(rows) + len(column_groups))
        m.d.sync += full_lines.eq(rows * column_groups)
        is_row, is_column = Signal(VECTOR_REGIONS, name="is_row"), Signal(VECTOR_REGIONS, name="is_column")
        unfit = Signal(VECTOR_REGIONS)
        region = Signal(shape_of(VectorRegion))
        # Lines of the region, and whether it has far too many; a line beyond the last one.
        lines, far, end = Signal(16, name="lines"), Signal(name="far"), Signal(17, name="end")
        m.d.comb += [
            region.as_value().eq(word.word), end.eq(region.line + lines),
            far.eq(~region.is_row & ~region.is_column & full_lines[len(lines):].any()),
        ]
        with m.If(region.is_row & region.is_column):
            m.d.comb += lines.eq(1)
        with m.Elif(region.is_row):
            m.d.comb += lines.eq(column_groups)
        with m.Elif(region.is_column):
            m.d.comb += lines.eq(row_groups)
        with m.Else():
            m.d.comb += lines.eq(full_lines)
        with m.If(word.index == 0):
            m.d.sync += [rows.eq(word.word[:16]), columns.eq(word.word[16:]),
                         error.eq(~word.word[:16].any() | ~word.word[16:].any())]
        with m.If(word.index == 1):
            loads, stores, instructions = word.word[:4], word.word[4:8], word.word[8:16]
            m.d.sync += [counts.loads.eq(loads), counts.stores.eq(stores),
                         counts.instructions.eq(instructions)]
            with m.If((loads > VECTOR_LOADS) | (stores > VECTOR_STORES)
                      | (instructions > VECTOR_INSTRUCTIONS)):
                m.d.sync += error.eq(1)
        for number in range(VECTOR_REGIONS):
            with m.If(word.index == REGION_BASE + number):
                m.d.sync += [is_row[number].eq(region.is_row), is_column[number].eq(region.is_column),
                             unfit[number].eq(far | at_least(end, capacity + 1))]

        move_used = Signal()
        for count, base, most in ((counts.loads, LOAD_BASE, VECTOR_LOADS),
                                  (counts.stores, STORE_BASE, VECTOR_STORES)):
            for number in range(most):
                with m.If((word.index == base + MOVE_WORDS * number + 2) & (count > number)):
                    m.d.comb += move_used.eq(1)
        own = units(self.parameters)
        packed = Const(0) if own.packs else word.word[4]
        with m.If(move_used & (word.word[3] | packed | unfit.bit_select(word.word[:3], 1))):
            m.d.sync += error.eq(1)

        bad = Signal()
        self._check_instruction(m, word.word, is_row, is_column, unfit, bad)
        with m.If((word.index >= PROGRAM_BASE) & bad
                  & (word.index < PROGRAM_BASE + counts.instructions)):
            m.d.sync += error.eq(1)

    def _check_instruction(self, m: Module, word: Any, is_row: Any, is_column: Any, unfit: Any,
                           bad: Any) -> None:
        own = units(self.parameters)
        instruction = Signal(shape_of(VectorInstruction))
        code = Signal(5)
        two_sources = Signal()
        known = Signal()
        shape_bad = Signal()
        m.d.comb += [
            instruction.as_value().eq(word), code.eq(word[:5]),
            known.eq((code < len(VectorOp)) & ~Cat(code == op.value for op in own.lacking).any()
                     & ((code != VectorOp.FUNCTION.value)
                        | Cat(instruction.b == function.value for function in own.functions).any())),
            two_sources.eq(Cat(code == op.value for op in TWO_SOURCES).any()),
        ]

        def flag(flags: Any, number: Any) -> Any:
            value = Signal()
            m.d.comb += value.eq(flags.bit_select(number, 1))
            return value

        dst, a, b = instruction.dst, instruction.a, instruction.b
        dst_row, a_row, b_row = (flag(is_row, number) for number in (dst, a, b))
        dst_column, a_column, b_column = (flag(is_column, number) for number in (dst, a, b))
        lost_row, lost_column = dst_row & ~a_row, dst_column & ~a_column
        with m.If(Cat(code == op.value for op in REDUCTIONS).any()):
            # Exactly one dimension less, and none gained.
            m.d.comb += shape_bad.eq((lost_row == lost_column) | (a_row & ~dst_row)
                                     | (a_column & ~dst_column))
        with m.Else():
            m.d.comb += shape_bad.eq(lost_row | lost_column
                                     | (two_sources & ((dst_row & ~b_row) | (dst_column & ~b_column))))
        m.d.comb += bad.eq(~known | shape_bad | flag(unfit, dst) | flag(unfit, a)
                           | (two_sources & flag(unfit, b)))
