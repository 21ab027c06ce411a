"""What loads and stores share: reading moves from the body, and the walk over a region.

::

    body --> address, stride, region --> command for the memory channel
                                    \\-> places of regions in the scratchpad --> FIFO --> RegionWalk

A move takes 9 cycles to read, while the one before it moves data.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.tasks import VECTOR_LOADS, VectorMove, VectorRegion
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.memory.channel import command_layout, near_column_bits
from plinth_hw.memory.line_tracker import LineTracker
from plinth_hw.memory.port import TASK_BITS
from plinth_hw.memory.scratchpad import vector_command
from plinth_hw.shapes import shape_of
from plinth_hw.vector.body import BODY_BITS, REGION_BASE, BodyReadPort, Summary, next_of, read_word
from plinth_hw.vector.units import units

#: Bits of rows and columns of a region.
COUNT_BITS = 16


class Task(data.Struct):
    """A task on its way through the stages."""

    summary: Summary
    #: Its number in requests to memory.
    number: unsigned(TASK_BITS)
    #: Place of its body.
    body: unsigned(BODY_BITS)
    #: Half of the scratchpad that it works in.
    half: unsigned(1)
    #: Words loaded.
    words: unsigned(32)


class Place(data.Struct):
    """A region in the scratchpad, as the rows and elements that its move transfers."""

    #: First line.
    line: unsigned(16)
    #: Lines from one group of columns to the next.
    capacity: unsigned(16)
    #: Elements a row; a column lies as a row does.
    elements: unsigned(COUNT_BITS)
    #: Numbers of 16 bits in memory, two to a word.
    packed: unsigned(1)


def scratchpad_lines(parameters: DieParameters) -> int:
    """Lines in one half of the scratchpad."""
    return parameters.vector_buffer_words // parameters.beat_words


class MoveFetch(wiring.Component):
    """Reads the loads or the stores of a task.

    Parameters
    ----------
    parameters : DieParameters
    base : int
        Word of the body in which the first move starts.

    Members
    -------
    start : In(1)
        Read ``count`` moves of ``task``, which both hold until the last one is taken.
    task : In(Task)
    count : In
    read : Out(BodyReadPort)
    command : Out stream of :func:`~plinth_hw.memory.channel.command_layout`
        One a move, for the memory channel.
    place : Out stream of Place
        One a move, in the same order; up to ``VECTOR_LOADS`` wait.
    """

    def __init__(self, parameters: DieParameters, base: int):
        self.parameters = parameters
        self.base = base
        super().__init__({
            "start": In(1), "task": In(Task), "count": In(3),
            "read": Out(BodyReadPort()),
            "command": Out(stream.Signature(command_layout(parameters, COUNT_BITS, COUNT_BITS))),
            "place": Out(stream.Signature(Place)),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        summary = self.task.summary
        index = Signal.like(self.read.index)
        left = Signal.like(self.count)
        number = Signal(3)
        m.submodules.places = places = FIFO(Place, VECTOR_LOADS, Storage.HEAD)
        command, place = self.command.payload, Signal(Place, name="place")
        move, region = Signal(shape_of(VectorMove), name="move"), Signal(shape_of(VectorRegion), name="region")
        word = self.read.data
        elements = Signal(COUNT_BITS)
        m.d.comb += [
            self.read.place.eq(self.task.body),
            move.eq(Cat(Const(0, 64), word)), region.eq(word),
            elements.eq(Mux(region.is_column, Mux(region.is_row, 1, summary.rows), summary.columns)),
            places.i.payload.eq(place), places.i.valid.eq(self.command.valid & self.command.ready),
        ]

        wiring.connect(m, places.o, wiring.flipped(self.place))

        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [index.eq(self.base), left.eq(self.count), command.task.eq(self.task.number)]
                with m.If(self.start & (self.count != 0)):
                    m.next = "ADDRESS"
            read_word(m, self.read, "ADDRESS", index, [index.eq(index + 1), command.address.eq(word)], "STRIDE")
            read_word(m, self.read, "STRIDE", index, [index.eq(index + 1), command.stride.eq(word)], "NUMBER")
            read_word(m, self.read, "NUMBER", index, [
                index.eq(index + 1), number.eq(move.region),
                place.packed.eq(move.packed if units(self.parameters).packs else 0),
            ], "REGION")
            read_word(m, self.read, "REGION", REGION_BASE + number, [
                place.line.eq(region.line), place.elements.eq(elements),
                place.capacity.eq(Mux(region.is_row | region.is_column, 1, summary.rows)),
                command.rows.eq(Mux(region.is_row | region.is_column, 1, summary.rows)),
                command.columns.eq(Mux(place.packed, (elements + 1) >> 1, elements)),
            ], "OFFER")
            with m.State("OFFER"):
                m.d.comb += self.command.valid.eq(places.i.ready)
                next_of(m, self.command.valid & self.command.ready, left, "ADDRESS")
        return m


class RegionWalk(wiring.Component):
    """Places in the scratchpad for the beats of a move, in their order.

    A beat of packed numbers holds twice the elements of a scratchpad group: it is taken in two steps, lower
    half first; a lower half wholly left of the row is skipped.

    Members
    -------
    place : In(Place)
        Stable during a walk.
    row, column : In
        Element, or with ``packed`` word, in lane 0 of the beat at hand.
    mask, row_last : In
        Words of that beat that belong to the row, and whether it is the row's last.
    take : In(1)
        The step at hand is used up in this cycle.
    command : Out, :func:`~plinth_hw.memory.scratchpad.vector_command`
        For the scratchpad, ``LineTracker.latency`` cycles after the step.
    inside : Out
        The lanes that belong to the row.
    upper : Out(1)
        The step takes the upper half of the beat.
    final : Out(1)
        The step is the last one of the beat.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        banks, lines = parameters.beat_words, scratchpad_lines(parameters)
        super().__init__({
            "place": In(Place), "row": In(COUNT_BITS), "column": In(signed(near_column_bits(banks))),
            "mask": In(banks), "row_last": In(1), "take": In(1),
            "command": Out(wiring.Signature(vector_command(banks, lines))),
            "inside": Out(banks), "upper": Out(1), "final": Out(1),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        banks, lines = self.parameters.beat_words, scratchpad_lines(self.parameters)
        column = Signal(signed(near_column_bits(banks) + 2))
        m.submodules.tracker = tracker = LineTracker(banks, lines, COUNT_BITS, len(column))
        packed = self.place.packed
        second = Signal()
        odd_end = Signal()
        elements = Signal(2 * banks)
        m.d.comb += [
            self.upper.eq(packed & (second | ~self.mask[:banks // 2].any())),
            self.final.eq(~packed | self.upper),
            column.eq(Mux(packed, (self.column << 1) + Mux(self.upper, banks, 0), self.column)),
            tracker.base.eq(self.place.line), tracker.capacity.eq(self.place.capacity),
            tracker.row.eq(self.row), tracker.column.eq(column), tracker.take.eq(self.take),
            # The second element of the row's last word may be none.
            odd_end.eq(self.row_last & self.place.elements[0]),
            elements.eq(Cat(Cat(word, word & (next_word | ~odd_end))
                            for word, next_word in zip(self.mask, Cat(self.mask[1:], Const(0, 1)), strict=True))),
            self.inside.eq(Mux(packed, elements.word_select(self.upper, banks), self.mask)),
        ]
        wiring.connect(m, tracker.command, wiring.flipped(self.command))
        with m.If(self.take):
            m.d.sync += second.eq(~self.final)
        return m
