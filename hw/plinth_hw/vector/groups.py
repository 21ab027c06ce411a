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

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.arith.carry import Digits, chosen_sum, loaded_sum, table_sum
from plinth_hw.isa.vector_body import VectorOp, VectorRegion
from plinth_hw.memory.banks import line_bits
from plinth_hw.shapes import shape_of
from plinth_hw.vector.checks import REDUCTIONS
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
    instruction : In(Decoded), load : In(1)
        The next one, taken with ``load``, two cycles before ``run`` or earlier.
    rows, columns : In
        Stable from a cycle before ``run`` on.
    run : In(1)
        The walk goes on; it starts over once it is done.
    o : Out(Position)
        Of the step at hand, with ``run``.
    done : Out(1)
        The step at hand is the last one.
    along_rows : Out(1)
        The lanes run along rows. Reductions choose for themselves, so that lanes are independent.
    reduces : Out(1)
        As ``along_rows`` from the cycle after ``load`` on.
    last_lane : Out
        Last lane of the last group, with ``run`` and until the next instruction comes.
    """

    def __init__(self, banks: int, lines: int):
        self.banks = banks
        self.lines = lines
        super().__init__({
            "instruction": In(Decoded), "load": In(1), "rows": In(COUNT_BITS), "columns": In(COUNT_BITS), "run": In(1),
            "o": Out(Position(banks, lines)), "done": Out(1), "along_rows": Out(1), "reduces": Out(1),
            "last_lane": Out(range(banks)),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        lane_bits, slot_bits = exact_log2(self.banks), exact_log2(BATCH)
        extent_bits = _extent_bits(self.banks, self.lines)
        last_slot = Signal(slot_bits, name="last_slot")
        # Batches, and values of k in this batch, that come after the next one: negative at the last one. A group is a
        # slot of a batch, and past the last one if there is no such group.
        batch = Signal(_group_bits(self.lines) - slot_bits)
        batches_left = Signal(signed(1 + max(1, extent_bits - lane_bits - slot_bits)))
        depth_left = Signal(signed(1 + extent_bits))
        slot, past = Signal(slot_bits, name="slot"), Signal(name="past")
        k, first = Signal(extent_bits, name="k"), Signal(init=1)
        step = Signal(lane_bits)
        # A multiple of rows: of the group, of the first one of the batch; along rows that of k div W.
        lines, batch_lines = (Signal(line_bits(self.lines), name=name) for name in ("lines", "batch_lines"))

        is_function, group, tail = Signal(name="is_function"), Signal(_group_bits(self.lines)), Signal(name="tail")
        step_last, slot_last, k_last = Signal(name="step_last"), Signal(name="slot_last"), Signal(name="k_last")
        batch_last, turns = Signal(name="batch_last"), Signal(name="turns")
        o, along_rows = self.o, self.along_rows
        instruction = self.instruction
        reduces, lanes_along_rows = Signal(name="next_reduces"), Signal(name="next_along_rows")
        one_lane, one_deep = Signal(name="one_lane"), Signal(name="one_deep")
        lacks_row, lacks_column = (Mux(reduces, getattr(instruction.a, dimension), getattr(instruction.dst, dimension))
                                   for dimension in ("is_row", "is_column"))
        m.d.comb += [
            reduces.eq(Cat(instruction.op == op for op in REDUCTIONS).any()),
            lanes_along_rows.eq(Mux(reduces, instruction.dst.is_column & ~instruction.a.is_column,
                                    instruction.lanes_along_rows)),
        ]
        with m.If(self.load):
            m.d.sync += [
                self.reduces.eq(reduces), along_rows.eq(lanes_along_rows),
                is_function.eq(instruction.op == VectorOp.FUNCTION),
                one_lane.eq(Mux(lanes_along_rows, lacks_row, lacks_column)),
                one_deep.eq(Mux(lanes_along_rows, lacks_column, lacks_row)),
            ]
        m.d.comb += [
            o.valid.eq(self.run & ~past), group.eq(Cat(slot, batch)), o.group.eq(group), o.k.eq(k),
            o.element.eq(Mux(is_function, step, 0)), o.upper.eq(~is_function & step[0]),
            o.first.eq(first), o.last.eq(k_last), o.tail.eq(tail),
            o.lines.eq(chosen_sum(m, platform, "line", along_rows, Cat(o.element, group)[:len(lines)], k[:len(lines)],
                                  lines)),

            batch_last.eq(batches_left[-1]), tail.eq(batch_last & (slot == last_slot)),
            step_last.eq(Mux(is_function, step == (self.last_lane | (~tail).replicate(lane_bits)), step[0])),
            slot_last.eq(slot.all() | (~self.reduces & tail)),
            k_last.eq(depth_left[-1]),
            turns.eq(self.run & step_last & slot_last),
            self.done.eq(turns & k_last & batch_last),
        ]
        self._extents(m, platform, Cat(self.last_lane, last_slot), batches_left, depth_left, turns, one_lane, one_deep)

        following = loaded_sum(m, platform, "following", turns & ~k_last & ~along_rows, batch_lines, lines,
                               self.rows[:len(lines)])
        with m.If(self.run):
            m.d.sync += step.eq(step + 1)
        with m.If(self.run & step_last):
            m.d.sync += [step.eq(0), slot.eq(slot + 1), past.eq(past | tail)]
            with m.If(~along_rows | (slot_last & k[:lane_bits].all())):
                m.d.sync += lines.eq(following)
        with m.If(turns):
            m.d.sync += [slot.eq(0), past.eq(0), k.eq(k + 1), first.eq(0)]
            with m.If(k_last):
                m.d.sync += [batch.eq(batch + 1), k.eq(0), first.eq(1), batch_lines.eq(following)]
                with m.If(along_rows):
                    m.d.sync += lines.eq(0)
        with m.If(self.done):
            m.d.sync += [batch.eq(0), lines.eq(0), batch_lines.eq(0)]
        return m

    def _extents(self, m: Module, platform: Any, last: Value, batches_left: Signal, depth_left: Signal, turns: Value,
                 one_lane: Value, one_deep: Value) -> None:
        """The last lane and slot of the direction of lanes, and batches to come; values of k to come."""
        bits = len(depth_left) - 1
        rows, columns = self.rows[:bits], self.columns[:bits]
        k_last = depth_left[-1]
        signs = Const(0, 1 + max(0, len(last) - bits))
        lanes_after, depth_after = (
            chosen_sum(m, platform, name, self.along_rows, Cat(high, signs), Cat(low, signs),
                       Const(-gone, bits + len(signs)))
            for name, high, low, gone in (("lanes", rows, columns, 1 + (1 << len(last))), ("deep", columns, rows, 2)))
        again = Signal.like(depth_left, name="depth_again")
        m.d.sync += batches_left.eq(loaded_sum(m, platform, "left", ~self.run, lanes_after[len(last):].as_signed(),
                                               batches_left, (turns & k_last).replicate(len(batches_left))))
        with m.If(turns):
            m.d.sync += depth_left.eq(loaded_sum(m, platform, "depth", k_last, again, depth_left, Const(-1, signed(1))))
        with m.If(~self.run):
            m.d.sync += [last.eq(lanes_after[:len(last)]), again.eq(depth_after), depth_left.eq(depth_after)]
            with m.If(one_deep):
                m.d.sync += [again.eq(-1), depth_left.eq(-1)]
            with m.If(one_lane):
                m.d.sync += [last.eq(0), batches_left.eq(-1)]


class Operand(data.StructLayout):
    """Scratchpad command of an operand: ``line`` and ``skew`` of lane 0, and whether lanes run along rows
    there."""

    def __init__(self, banks: int, lines: int):
        super().__init__({"line": unsigned(line_bits(lines)), "skew": unsigned(exact_log2(banks)),
                          "along_rows": unsigned(1)})


def broadcast(region: Any, along_rows: Any) -> Any:
    """Whether the region lacks the lanes' direction: its element is in lane 0 for all lanes."""
    return Mux(along_rows, region.is_row, region.is_column)


def operand(m: Module, platform: Any, name: str, shape: Operand, region: Any, position: Any, along_rows: Any) -> Any:
    """Command for the element or group of ``region`` at ``position``, both of the cycle before, in the form ``shape``.

    With an ``element`` lane 0 gets that element of the group. Lanes 1 .. of an operand that lacks the lanes'
    direction, or for which an element is wanted, carry junk.
    """
    view = Signal(shape_of(VectorRegion), name=f"{name}_region")
    command = Signal(shape, name=f"{name}_command")
    across, full = Signal(name=f"{name}_across"), Signal(name=f"{name}_full")
    # Lines from the region's first one on: of a full region, of another one; zero if it is not the kind, or an element.
    line, far, near = (Signal.like(command.line, name=f"{name}_{kind}") for kind in ("line", "far", "near"))
    skewed, moves = Signal.like(command.skew, name=f"{name}_skewed"), Signal.like(command.skew, name=f"{name}_moves")
    m.d.comb += [
        view.eq(region), across.eq(broadcast(view, along_rows)), full.eq(~view.is_row & ~view.is_column),
        skewed.eq(Mux(full | across, position.k, 0)), moves.eq(Mux(full | ~across, position.element, 0)),
    ]
    m.d.sync += [
        line.eq(view.line), command.along_rows.eq(along_rows & full), command.skew.eq(skewed + moves),
        far.eq(Mux(full, position.lines, 0)),
        near.eq(Mux(across, position.k[len(command.skew):], position.group)),
    ]
    with m.If(full | (view.is_row & view.is_column)):
        m.d.sync += near.eq(0)
    with m.If(view.is_row & view.is_column):
        m.d.sync += command.skew.eq(0)
    m.d.comb += command.line.eq(table_sum(m, platform, f"{name}_sum", [
        Digits((line, far, near), lambda x, f, n: x, lambda x, f, n: f | n)]))
    return command
