"""Jobs that the sequencer of the row-stationary engine hands out, and sizes that follow from a die's parameters.

A *round* is a load of the ifmap buffer: one block of channels, fold of kernel rows and segment of kernel columns,
for one *batch* of filters: ``filter_groups`` groups of ``filter_step``, or what is left of them. Each group of a round
is a pass of the array. Jobs say what changes from round to round; what does not is read from the task's fields, which
are stable while jobs are offered, and copied when a job is taken.
"""

from typing import Any

from amaranth.hdl import Module, Signal, Value, signed, unsigned
from amaranth.lib import data
from amaranth.utils import bits_for, ceil_log2

from plinth_hw.isa.limits import field_bits
from plinth_hw.isa.matrix_bodies import RowStationaryBody
from plinth_hw.isa.operations import ErrorCode
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.matrix.geometry import element_log2
from plinth_hw.matrix.row_stationary.interface import ArrayShape
from plinth_hw.memory.port import TASK_BITS
from plinth_hw.shapes import shape_of

#: Widths of counts in a task, of its channels, and of rows and columns of the map as walks add them up.
COUNT_BITS, CHANNEL_BITS = (field_bits(RowStationaryBody, name) for name in ("filters", "channels"))
ROW_SHAPE, COLUMN_SHAPE = signed(COUNT_BITS + 3), signed(CHANNEL_BITS + 3)
#: Width of a number of filter groups.
GROUP_BITS = field_bits(RowStationaryBody, "filter_groups")


class Sizes:
    """What blocks of the engine need of the parameters.

    Parameters
    ----------
    parameters : DieParameters
        Of a row-stationary die.

    Attributes
    ----------
    array : ArrayShape
    element_log2 : int
        Logarithm of the operands in a word of memory.
    beat_words : int
        Words of a beat, B.
    lanes : int
        Operands of a beat, E.
    feed : int
        Operands, or psums, of a line, F.
    half_words : int
        Operands of a half of the ifmap buffer.
    bank_words : int
        Words of a region of a bank of the psum buffer.

    Raises
    ------
    ValueError
        If a size of the array is not positive, its ifmaps or a line not a power of two of words, a scratchpad, beat,
        half or region not whole lines, or half the filters of a PE less than a beat of lines.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        self.array = ArrayShape(
            multiply_format=parameters.multiply_format, accumulate_format=parameters.sum_format,
            rows=parameters.rows, columns=parameters.columns, filter_words=parameters.filter_words,
            ifmap_words=parameters.ifmap_words, psum_words=parameters.psum_words, feed_words=parameters.feed_words)
        self.element_log2 = element_log2(parameters)
        self.beat_words = parameters.beat_words
        self.lanes = parameters.beat_words << self.element_log2
        self.feed = parameters.feed_words
        self.half_words = parameters.operand_buffer_words << self.element_log2
        self.bank_words = parameters.bank_words
        if self.beat_words % self.feed:
            raise ValueError(f"beat_words = {self.beat_words} must be a multiple of feed_words = {self.feed}")
        if self.half_words % self.lanes:
            raise ValueError(f"operand_buffer_words = {parameters.operand_buffer_words} must be a multiple of "
                             f"beat_words = {self.beat_words}")
        if self.bank_words % self.feed:
            raise ValueError(f"half a bank of psums, {self.bank_words} words, must be a multiple of "
                             f"feed_words = {self.feed}")
        if 2 * self.array.filter_lines < self.lanes:
            raise ValueError(f"filter_words = {parameters.filter_words} must have at least half as many lines of "
                             f"{self.feed} words as a beat has operands, {self.lanes}")

    @property
    def address_bits(self) -> int:
        """Width of a word's address."""
        return self.parameters.address_bits

    @property
    def operand_address_bits(self) -> int:
        """Width of an operand's address."""
        return self.address_bits + self.element_log2

    @property
    def operand_bits(self) -> int:
        """Width of an operand."""
        return self.array.multiply_format.bits

    @property
    def word_bits(self) -> int:
        """Width of a sum."""
        return self.array.accumulate_format.bits

    def step(self, operands: Value) -> Value:
        """A step of a task, in operands modulo 2^32, to be added to an operand's address."""
        return operands.as_signed() if self.operand_address_bits > len(operands) else operands

    def words(self, operands: Value) -> Value:
        """Words that so many operands of a beat are counted as."""
        return operands + (1 << self.element_log2) - 1 >> self.element_log2 if self.element_log2 else operands

    @property
    def lane_bits(self) -> int:
        """Width of an operand's place in a beat."""
        return ceil_log2(self.lanes)

    @property
    def feed_bits(self) -> int:
        """Width of a word of a line."""
        return ceil_log2(self.feed)

    @property
    def stream_bits(self) -> int:
        """Width of a number of operands in the ifmap buffer."""
        return bits_for(2 * self.half_words)

    @property
    def filter_bits(self) -> int:
        """Width of a number of filters of a group."""
        return bits_for(self.parameters.psum_words)

    @property
    def tap_bits(self) -> int:
        """Width of a number of taps; a tap takes at least a line."""
        return bits_for(self.array.filter_lines)

    @property
    def psum_bits(self) -> int:
        """Width of a word's place in a bank of the psum buffer."""
        return bits_for(2 * self.bank_words - 1)

    @property
    def ifmap_job(self) -> data.StructLayout:
        """A round: address of the first operand, which may lie outside the map; channels from there to the last;
        row and column of the map of the first stream's first column; ``number`` is the ``task`` of requests."""
        return data.StructLayout({"address": unsigned(self.operand_address_bits), "channels": unsigned(CHANNEL_BITS),
                                  "row": ROW_SHAPE, "column": COLUMN_SHAPE, "number": unsigned(TASK_BITS)})

    @property
    def feed_job(self) -> data.StructLayout:
        """A round of ``groups`` passes; ``first`` of its task."""
        return data.StructLayout({"groups": unsigned(GROUP_BITS), "first": unsigned(1)})

    @property
    def filter_job(self) -> data.StructLayout:
        """A round: address of its first filter's first operand; channels, kernel rows, kernel columns and filters from
        there to the last ones; and groups; ``number`` is the ``task`` of requests."""
        return data.StructLayout({
            "address": unsigned(self.operand_address_bits), "channels": unsigned(CHANNEL_BITS),
            "rows": unsigned(COUNT_BITS), "columns": unsigned(COUNT_BITS), "filters": unsigned(COUNT_BITS),
            "groups": unsigned(GROUP_BITS), "number": unsigned(TASK_BITS)})

    @property
    def psum_job(self) -> data.StructLayout:
        """A round: groups, whether it is the first or the final one of its batch, and which region it uses."""
        return data.StructLayout({"groups": unsigned(GROUP_BITS), "first": unsigned(1), "final": unsigned(1),
                                  "region": unsigned(1)})

    @property
    def batch_job(self) -> data.StructLayout:
        """Psums of a batch between memory and a region: address of the first one, filters from there to the last,
        groups; whether it is the task's last batch; ``number`` is the ``task`` of requests. With ``error`` there is
        nothing to move, the task is only to be reported."""
        return data.StructLayout({
            "address": unsigned(self.address_bits), "filters": unsigned(COUNT_BITS), "groups": unsigned(GROUP_BITS),
            "region": unsigned(1), "task_last": unsigned(1), "error": shape_of(ErrorCode),
            "number": unsigned(TASK_BITS)})


def copied(m: Module, task: Any, names: str, when: Value) -> data.View:
    """Registers for some fields of a task, copied when ``when`` is set."""
    fields = {name: task[name].shape() for name in names.split()}
    copy = Signal(data.StructLayout(fields), name="task")
    with m.If(when):
        m.d.sync += [copy[name].eq(task[name]) for name in fields]
    return copy


def copied_less(m: Module, task: Any, names: str, when: Value) -> data.View:
    """Registers for some fields of a task less 1, copied when ``when`` is set: what a count from 0 on ends at."""
    fields = {name: task[name].shape() for name in names.split()}
    copy = Signal(data.StructLayout(fields), name="task_less")
    with m.If(when):
        m.d.sync += [copy[name].eq(task[name] - 1) for name in fields]
    return copy
