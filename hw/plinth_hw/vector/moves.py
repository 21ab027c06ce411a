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
from plinth_hw.isa.vector_body import VECTOR_LOADS, VECTOR_STORES, VectorMove, VectorRegion
from plinth_hw.lib.fifo import FIFO
from plinth_hw.memory.banks import line_bits
from plinth_hw.memory.line_tracker import LineTracker
from plinth_hw.memory.port import TASK_BITS
from plinth_hw.memory.rows import command_layout, near_column_bits
from plinth_hw.memory.scratchpad import vector_command
from plinth_hw.shapes import shape_of
from plinth_hw.vector.body import BODY_BITS, BodyReadPort, EntryReader
from plinth_hw.vector.checks import MOVE_WORDS, REGION_BASE, Summary
from plinth_hw.vector.units import units

#: Bits of rows and columns of a region.
COUNT_BITS = 16


class MoveTask(data.StructLayout):
    """A task on its way through the stages."""

    def __init__(self, parameters: DieParameters):
        # No region is larger than the half.
        most = (VECTOR_LOADS + VECTOR_STORES) * parameters.vector_buffer_words
        super().__init__({
            "summary": Summary,
            #: Its number in requests to memory.
            "number": unsigned(TASK_BITS),
            #: Place of its body.
            "body": unsigned(BODY_BITS),
            #: Half of the scratchpad that it works in.
            "half": unsigned(1),
            #: Words loaded and stored.
            "words": unsigned(most.bit_length()),
        })


class RegionPlace(data.StructLayout):
    """A region in a scratchpad of ``lines`` lines, as the rows and elements that its move transfers."""

    def __init__(self, lines: int):
        super().__init__({
            #: First line, and lines from one group of columns to the next, modulo a power of two.
            "line": unsigned(line_bits(lines)), "capacity": unsigned(line_bits(lines)),
            #: Numbers of 16 bits in memory, two to a word; and then, whether the last word of a row has but one.
            "packed": unsigned(1), "odd": unsigned(1),
        })


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
    command : Out stream of :func:`~plinth_hw.memory.rows.command_layout`
        One a move, for the memory channel.
    place : Out stream of Place
        One a move, in the same order; all of a task's may wait, and are taken before the next ``start``.
    """

    def __init__(self, parameters: DieParameters, base: int):
        self.parameters = parameters
        self.base = base
        super().__init__({
            "start": In(1), "task": In(MoveTask(parameters)), "count": In(3),
            "read": Out(BodyReadPort()),
            "command": Out(stream.Signature(command_layout(parameters, COUNT_BITS, COUNT_BITS))),
            "place": Out(stream.Signature(RegionPlace(scratchpad_lines(parameters)))),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        summary = self.task.summary
        m.submodules.entries = entries = EntryReader(MOVE_WORDS + 1, VECTOR_LOADS)
        wiring.connect(m, entries.read, wiring.flipped(self.read))
        index = Signal.like(entries.index)
        number = Signal(3)
        shape = RegionPlace(scratchpad_lines(self.parameters))
        m.submodules.places = places = FIFO(shape, VECTOR_LOADS)
        command, place = self.command.payload, places.i.payload
        move, region = Signal(shape_of(VectorMove), name="move"), Signal(shape_of(VectorRegion), name="region")
        packed = Signal()
        word = self.read.data
        elements, rows = Signal(COUNT_BITS, name="elements"), Signal(COUNT_BITS, name="rows")
        m.d.comb += [
            entries.start.eq(self.start), entries.count.eq(self.count), entries.place.eq(self.task.body),
            entries.taken.eq(self.command.ready), entries.index.eq(index), self.command.valid.eq(entries.offers),
            move.eq(Cat(Const(0, 64), word)),
            rows.eq(Mux(region.is_row | region.is_column, 1, summary.rows)),
            elements.eq(Mux(region.is_column, Mux(region.is_row, 1, summary.rows), summary.columns)),
            command.rows.eq(rows), command.columns.eq(Mux(packed, (elements + 1) >> 1, elements)),
            command.task.eq(self.task.number),
            place.line.eq(region.line), place.capacity.eq(rows), place.packed.eq(packed),
            place.odd.eq(packed & elements[0]),
        ]
        # Of a move that is taken the place stays for cycles; its beats come later.
        m.d.sync += places.i.valid.eq(self.command.valid & self.command.ready)

        wiring.connect(m, places.o, wiring.flipped(self.place))

        # The words of a move, then its region.
        with m.If(entries.comes):
            m.d.sync += index.eq(index + (entries.word != MOVE_WORDS))
            with m.Switch(entries.word):
                with m.Case(0):
                    m.d.sync += command.address.eq(word)
                with m.Case(1):
                    m.d.sync += command.stride.eq(word)
                with m.Case(2):
                    m.d.sync += number.eq(move.region)
                    if units(self.parameters).packs:
                        m.d.sync += packed.eq(move.packed)
                with m.Case(MOVE_WORDS):
                    m.d.sync += region.eq(word)
        with m.If(entries.word == MOVE_WORDS):
            m.d.comb += entries.index.eq(REGION_BASE + number)
        with m.If(self.start):
            m.d.sync += index.eq(self.base)
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
            "place": In(RegionPlace(lines)), "row": In(COUNT_BITS), "column": In(signed(near_column_bits(banks))),
            "mask": In(banks), "row_last": In(1), "take": In(1),
            "command": Out(wiring.Signature(vector_command(banks, lines))),
            "inside": Out(banks), "upper": Out(1), "final": Out(1),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        banks, lines = self.parameters.beat_words, scratchpad_lines(self.parameters)
        column = Signal(signed(near_column_bits(banks) + 2))
        m.submodules.tracker = tracker = LineTracker(banks, lines, COUNT_BITS, len(column))
        packed = self.place.packed if units(self.parameters).packs else Const(0, 1)
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
            odd_end.eq(self.row_last & self.place.odd),
            elements.eq(Cat(Cat(word, word & (next_word | ~odd_end))
                            for word, next_word in zip(self.mask, Cat(self.mask[1:], Const(0, 1)), strict=True))),
            self.inside.eq(Mux(packed, elements.word_select(self.upper, banks), self.mask)),
        ]
        wiring.connect(m, tracker.command, wiring.flipped(self.command))
        with m.If(self.take):
            m.d.sync += second.eq(~self.final)
        return m
