"""The walk of an instruction over its groups, and where their elements lie in the scratchpad.

A group is W elements side by side along the lanes' direction; along the other one an instruction goes over
``depth`` of them. Groups go in batches of four, for batch, for k in 0 .. depth - 1, for group in batch::

    slot      0  0  1  1  2  2  3  3  0  0  ...        a reduction adds slot s of step k - 1 to slot s of
    step      a  b  a  b  a  b  a  b  a  b             step k, 8 cycles after it

Element-wise instructions leave missing slots out, reductions wait them out. Functions take a step for each
element of a group instead of two. All lines come by additions::

    lanes along columns:  line = g rows + k                    (g group, k row)
    lanes along rows:     line = (k div W) rows + g W          (g group, k column)
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.isa.tasks import VectorOp, VectorRegion
from plinth_hw.memory.banks import line_bits
from plinth_hw.shapes import shape_of
from plinth_hw.vector.body import REDUCTIONS
from plinth_hw.vector.instructions import Decoded
from plinth_hw.vector.moves import COUNT_BITS

#: Groups in a batch: two cycles for each are the way of a sum from and to the adder.
BATCH = 4


def _extent_bits(banks: int, lines: int) -> int:
    """Bits of the rows or columns of a region that fits the scratchpad; others are refused."""
    return min(COUNT_BITS, (banks * lines).bit_length())


def _group_bits(lines: int) -> int:
    """Bits of a number of groups, and of those that a batch has too many."""
    return (lines + BATCH).bit_length()


class Position(data.StructLayout):
    """What a step works on, with W = ``banks`` lanes and that many lines of the scratchpad."""

    def __init__(self, banks: int, lines: int):
        super().__init__({
            #: A step that does something; not so in the missing slots of a reduction.
            "valid": unsigned(1),
            #: Group and place along the other direction.
            "group": unsigned(_group_bits(lines)), "k": unsigned(_extent_bits(banks, lines)),
            #: Lines from the start of a full region, along rows to the element.
            "lines": unsigned(line_bits(lines)),
            #: Element of the group, for functions.
            "element": unsigned(exact_log2(banks)),
            #: Second step of a group: the upper half of the lanes.
            "upper": unsigned(1),
            #: First and last step of a sum.
            "first": unsigned(1), "last": unsigned(1),
            #: Last group, which may have fewer elements.
            "tail": unsigned(1),
        })


class GroupWalk(wiring.Component):
    """Walks over the groups of an instruction, one step a cycle.

    Members
    -------
    instruction : In(Decoded), rows, columns : In
        Stable from two cycles before ``run`` on.
    run : In(1)
        The walk goes on; it starts over once it is done.
    o : Out(Position)
        Of the step at hand, with ``run``.
    done : Out(1)
        The step at hand is the last one.
    along_rows : Out(1)
        The lanes run along rows. Reductions choose for themselves, so that lanes are independent.
    reduces : Out(1)
    tail : Out
        Elements of the last group, 1 .. W.
    """

    def __init__(self, banks: int, lines: int):
        self.banks = banks
        self.lines = lines
        super().__init__({
            "instruction": In(Decoded), "rows": In(COUNT_BITS), "columns": In(COUNT_BITS), "run": In(1),
            "o": Out(Position(banks, lines)), "done": Out(1), "along_rows": Out(1), "reduces": Out(1),
            "tail": Out(range(banks + 1)),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        lane_bits = exact_log2(self.banks)
        instruction = self.instruction
        extents = []
        for dimension, count in (("is_row", self.rows), ("is_column", self.columns)):
            lacks = Mux(self.reduces, getattr(instruction.a, dimension), getattr(instruction.dst, dimension))
            extents.append(Mux(lacks, 1, count))
        extent_bits, group_bits = _extent_bits(self.banks, self.lines), _group_bits(self.lines)
        lanes, depth = Signal(extent_bits, name="lanes"), Signal(extent_bits, name="depth")
        groups = Signal(group_bits)
        is_function = Signal()
        m.d.comb += [
            self.reduces.eq(Cat(instruction.op == op for op in REDUCTIONS).any()),
            is_function.eq(instruction.op == VectorOp.FUNCTION),
            self.along_rows.eq(Mux(self.reduces, instruction.dst.is_column & ~instruction.a.is_column,
                                   instruction.lanes_along_rows)),
            groups.eq((lanes + (self.banks - 1)) >> lane_bits),
            self.tail.eq(((lanes - 1)[:lane_bits]) + 1),
        ]
        m.d.sync += [lanes.eq(Mux(self.along_rows, extents[0], extents[1])),
                     depth.eq(Mux(self.along_rows, extents[1], extents[0]))]

        group, batch = Signal(group_bits, name="group"), Signal(group_bits, name="batch")
        k, slot = Signal(extent_bits, name="k"), Signal(range(BATCH), name="slot")
        step = Signal(lane_bits)
        # A multiple of rows: of the group, of the first one of the batch; along rows that of k div W.
        lines = Signal(line_bits(self.lines))
        batch_lines = Signal(line_bits(self.lines))
        step_last, slot_last, k_last = Signal(name="step_last"), Signal(name="slot_last"), Signal(name="k_last")
        batch_last = Signal()
        following, following_lines = Signal(group_bits, name="following"), Signal.like(lines, name="following_lines")
        o = self.o
        m.d.comb += [
            o.valid.eq(self.run & (group < groups)), o.group.eq(group), o.k.eq(k),
            o.element.eq(Mux(is_function, step, 0)), o.upper.eq(~is_function & step[0]),
            o.first.eq(k == 0), o.last.eq(k_last), o.tail.eq(following == groups),
            o.lines.eq(lines + Mux(self.along_rows, Cat(o.element, group), k)),

            following.eq(group + 1), following_lines.eq(lines + self.rows),
            step_last.eq(step == Mux(is_function, Mux(o.tail, self.tail, self.banks) - 1, 1)[:lane_bits]),
            slot_last.eq((slot == BATCH - 1) | (~self.reduces & o.tail)),
            k_last.eq(k + 1 == depth),
            batch_last.eq(following >= groups),
            self.done.eq(self.run & step_last & slot_last & k_last & batch_last),
        ]
        with m.If(self.run):
            m.d.sync += step.eq(step + 1)
        with m.If(self.run & step_last):
            m.d.sync += [step.eq(0), slot.eq(slot + 1), group.eq(following)]
            with m.If(~self.along_rows):
                m.d.sync += lines.eq(following_lines)
            with m.If(slot_last):
                m.d.sync += [slot.eq(0), group.eq(batch), k.eq(k + 1)]
                with m.If(~self.along_rows):
                    m.d.sync += lines.eq(batch_lines)
                with m.Elif(k[:lane_bits].all()):
                    m.d.sync += lines.eq(following_lines)
            with m.If(slot_last & k_last):
                m.d.sync += [group.eq(following), batch.eq(following), k.eq(0)]
                with m.If(self.along_rows):
                    m.d.sync += lines.eq(0)
                with m.Else():
                    m.d.sync += [lines.eq(following_lines), batch_lines.eq(following_lines)]
        with m.If(self.done):
            m.d.sync += [group.eq(0), batch.eq(0), lines.eq(0), batch_lines.eq(0)]
        return m


class Operand(data.StructLayout):
    """Scratchpad command of an operand: ``line`` and ``skew`` of lane 0, and whether lanes run along rows
    there."""

    def __init__(self, banks: int, lines: int):
        super().__init__({"line": unsigned(line_bits(lines)), "skew": unsigned(exact_log2(banks)),
                          "along_rows": unsigned(1)})


def broadcast(region: Any, along_rows: Any) -> Any:
    """Whether the region lacks the lanes' direction: its element is in lane 0 for all lanes."""
    return Mux(along_rows, region.is_row, region.is_column)


def operand(m: Module, name: str, shape: Operand, region: Any, position: Any, along_rows: Any) -> Any:
    """Command for the element or group of ``region`` at ``position``, in the form ``shape``.

    With an ``element`` lane 0 gets that element of the group. Lanes 1 .. of an operand that lacks the lanes'
    direction, or for which an element is wanted, carry junk.
    """
    given = Signal(shape_of(VectorRegion), name=f"{name}_region")
    command = Signal(shape, name=f"{name}_command")
    across = Signal(name=f"{name}_across")
    m.d.comb += [
        given.eq(region), across.eq(broadcast(given, along_rows)),
        command.along_rows.eq(along_rows & ~given.is_row & ~given.is_column),
    ]
    lines = Signal.like(command.line, name=f"{name}_lines")
    m.d.comb += command.line.eq(given.line + lines)
    with m.If(given.is_row & given.is_column):
        m.d.comb += lines.eq(0)
    with m.Elif(across):
        m.d.comb += [lines.eq(position.k[len(command.skew):]), command.skew.eq(position.k)]
    with m.Elif(given.is_row | given.is_column):
        m.d.comb += [lines.eq(position.group), command.skew.eq(position.element)]
    with m.Else():
        m.d.comb += [lines.eq(position.lines), command.skew.eq(position.k + position.element)]
    return command


