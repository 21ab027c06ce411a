"""Limits of a row-stationary task, as :func:`plinth_hw.isa.row_stationary.needs` says them, and counts that follow.

::

    step --> a, b of the body --> a x b --> + or - the one before --> in its range?  --> bad
                     ^                              |
                     +--- a product that is kept <--+--> passes of a bank's half: divided, a bit a cycle

One multiplier for all products: a step a cycle, what the machine has is compared three cycles later. With u =
``window_run``, run = u or, if that is 1, ``tap_channels``, the streams are right if

    ``stream_columns`` run = (``windows`` - 1) ``window_step`` + (``tap_columns`` - 1) ``tap_step`` + run

or, where the last column has fewer windows than u, the right side is so much less. Steps of addresses that follow from
others are not checked: with wrong ones a task reads other words, or is stopped as one beyond memory.

Latency: 28 cycles from ``start``. Source: docs/row_mapping.md.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from plinth_hw.isa.matrix_bodies import RowStationaryBody
from plinth_hw.isa.row_stationary import COUNTS
from plinth_hw.lib.choice import one_of
from plinth_hw.matrix.row_stationary.jobs import Sizes
from plinth_hw.shapes import shape_of

#: Fields that count something and follow from others.
DERIVED_COUNTS = ("stream_columns", "stream_lines", "id_rows", "ids", "blocks", "folds", "segments")
#: Width of a factor, and of a signed sum of three products.
FACTOR_BITS = 16
_SUM = signed(2 * FACTOR_BITS + 3)


@dataclass(frozen=True)
class BoundedProduct:
    """A product, what it is to lie between, and what becomes of it."""

    a: Value
    b: Value
    #: Least of the sum, and the least that is too much; None: it is not compared. Of fields at most one addition each.
    low: Any = 0
    end: Any = None
    #: Added to the next product; or the one before is subtracted from this one.
    adds: bool = False
    subtracts: bool = False
    #: A factor of a later product, from the third step on.
    kept: bool = False
    #: Words of a half of a bank that the windows of a pass take.
    divides: bool = False


class LimitCheck(wiring.Component):
    """Whether a die can run a task.

    Parameters
    ----------
    sizes : Sizes

    Members
    -------
    task : In(RowStationaryBody)
        Stable from ``start`` until ``done``.
    start : In(1)
        Pulse.
    done : Out(1)
        From the end of a check until the next ``start``; ``bad`` is valid.
    bad : Out(1)
        The task is beyond a limit.
    """

    def __init__(self, sizes: Sizes):
        self.sizes = sizes
        super().__init__({"task": In(shape_of(RowStationaryBody)), "start": In(1), "done": Out(1), "bad": Out(1)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        task = self.task
        kept = Signal(FACTOR_BITS)
        steps = self._steps(kept)
        # The step whose factors are chosen, multiplied, added and compared.
        busy = Signal()
        a, b = Signal(FACTOR_BITS, name="a"), Signal(FACTOR_BITS, name="b")
        product = Signal(2 * FACTOR_BITS)
        low, end, before, total, reached = (Signal(_SUM, name=name) for name in (
            "low", "end", "before", "total", "reached"))
        marks = [Signal(len(steps), name=f"step_{stage}") for stage in range(4)]

        def those(stage: int, wanted: list[bool]) -> Value:
            return Cat(marks[stage][number] for number, flag in enumerate(wanted) if flag).any()

        divides = those(2, [step.divides for step in steps])
        m.submodules.division = division = _Division(self.sizes.bank_words, len(task.interleaved_windows))
        m.d.comb += [
            total.eq(Mux(those(2, [step.subtracts for step in steps]), product - before, product + before)),
            division.start.eq(divides), division.divisor.eq(total[:len(division.divisor)]),
            division.step.eq(task.interleaved_windows),
        ]
        m.d.sync += [
            marks[0].eq(Cat(self.start, marks[0])), *(later.eq(earlier) for earlier, later in pairwise(marks)),
            product.eq(a * b), reached.eq(total),
            before.eq(Mux(those(2, [step.adds for step in steps]), total, 0)),
        ]
        m.d.sync += [
            a.eq(one_of(marks[0], (step.a for step in steps))), b.eq(one_of(marks[0], (step.b for step in steps))),
            low.eq(one_of(marks[2], (step.low for step in steps))),
            end.eq(one_of(marks[2], (0 if step.end is None else step.end for step in steps))),
        ]
        with m.If(those(2, [step.kept for step in steps])):
            m.d.sync += kept.eq(total)
        compared = those(3, [step.end is not None for step in steps])
        wrong, shown = Signal(name="wrong"), Signal(name="shown")
        m.d.sync += wrong.eq(compared & ((reached < low) | (reached >= end)))
        run_of_one = task.window_run == 1
        m.d.sync += shown.eq(Cat(
            *(task[name] == 0 for name in (*COUNTS, *DERIVED_COUNTS)),
            ~run_of_one & ((task.tap_channels != 1) | (task.column_stride != 1) | (task.window_step != 1)),
            (task.tap_channels > 1) & (task.x_channel != 1),
        ).any())
        with m.If(wrong):
            m.d.sync += self.bad.eq(1)
        with m.If(busy & ~Cat(marks).any() & ~division.busy):
            m.d.sync += [busy.eq(0), self.done.eq(1),
                         self.bad.eq(self.bad | wrong | shown | (division.multiple < task.windows))]
        with m.If(self.start):
            m.d.sync += [busy.eq(1), self.done.eq(0), self.bad.eq(0)]
        return m

    def _steps(self, kept: Signal) -> list[BoundedProduct]:
        """All products; three steps lie between one that is kept and its use."""
        task, sizes = self.task, self.sizes
        parameters, shape = sizes.parameters, sizes.array
        most, feed = (1 << FACTOR_BITS) - 1, sizes.feed
        run_of_one = task.window_run == 1
        run = Mux(run_of_one, task.tap_channels, task.window_run)
        lines = (task.filter_step + feed - 1) >> sizes.feed_bits

        def less(name: str) -> Value:
            return (task[name] - 1)[:len(task[name])]

        return [
            BoundedProduct(task.filter_step, task.interleaved_windows, end=parameters.psum_words + 1, kept=True),
            BoundedProduct(task.sets, task.set_rows, end=parameters.rows + 1),
            BoundedProduct(task.images, task.rows, end=parameters.columns + 1),
            BoundedProduct(kept, task.filter_groups, divides=True),
            BoundedProduct(task.sets, task.tap_channels, end=most + 1, kept=True),
            BoundedProduct(task.folds, task.set_rows, task.kernel_rows, task.kernel_rows + task.set_rows),
            BoundedProduct(task.segments, task.tap_columns, task.kernel_columns,
                           task.kernel_columns + task.tap_columns),
            BoundedProduct(task.blocks, kept, task.channels, task.channels + kept),
            BoundedProduct(task.tap_columns, task.tap_channels, end=most + 1, kept=True),
            BoundedProduct(task.column_stride, task.tap_channels, Mux(run_of_one, task.window_step, 0),
                           Mux(run_of_one, task.window_step, most) + 1),
            BoundedProduct(task.column_dilation, run, task.tap_step, task.tap_step + 1),
            BoundedProduct(kept, lines, end=shape.filter_lines + 1),
            BoundedProduct(task.sets, task.images, end=most + 1, kept=True),
            BoundedProduct(less("tap_columns"), task.tap_step, adds=True),
            BoundedProduct(less("interleaved_windows"), task.window_step,
                           end=shape.ifmap_words - 2 * feed + 1 - task.tap_channels),
            BoundedProduct(kept, task.id_rows, task.ids, task.ids + 1),
            BoundedProduct(less("tap_columns"), task.tap_step, adds=True),
            BoundedProduct(less("windows"), task.window_step, adds=True),
            BoundedProduct(task.stream_columns, run, Mux(run_of_one, run, 1), run + 1, subtracts=True),
            BoundedProduct(task.stream_columns, run, Cat(Const(0, sizes.feed_bits), task.stream_lines) - (feed - 1),
                           Cat(Const(0, sizes.feed_bits), task.stream_lines) + 1),
            BoundedProduct(less("rows"), task.row_stride, adds=True),
            BoundedProduct(less("set_rows"), task.row_dilation, less("id_rows"), task.id_rows),
            BoundedProduct(task.ids, task.stream_lines, end=sizes.half_words // feed + 1),
        ]


class _Division(wiring.Component):
    """``multiple`` = ``step`` floor(``dividend`` / ``divisor``), a bit of the quotient a cycle.

    Members
    -------
    start : In(1)
        Pulse, with ``divisor`` and ``step``.
    busy : Out(1)
        Until ``multiple`` is valid.
    """

    def __init__(self, dividend: int, step_bits: int):
        self.dividend, self.bits = dividend, bits_for(dividend)
        super().__init__({
            "start": In(1), "divisor": In(2 * FACTOR_BITS), "step": In(step_bits), "busy": Out(1),
            "multiple": Out(self.bits + step_bits),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        bits = self.bits
        left, divisor = Signal(bits, name="left"), Signal(2 * bits - 1, name="divisor")
        step, rounds = Signal(len(self.multiple), name="step"), Signal(range(bits + 1), name="rounds")
        m.d.comb += self.busy.eq(rounds != 0)
        with m.If(self.start):
            # A divisor beyond the dividend goes into it no time.
            m.d.sync += [
                left.eq(self.dividend), divisor.eq(self.divisor[:bits] << bits - 1), step.eq(self.step << bits - 1),
                self.multiple.eq(0), rounds.eq(Mux(self.divisor[bits:].any(), 0, bits)),
            ]
        with m.Elif(self.busy):
            m.d.sync += [rounds.eq(rounds - 1), divisor.eq(divisor >> 1), step.eq(step >> 1)]
            with m.If(divisor <= left):
                m.d.sync += [left.eq(left - divisor), self.multiple.eq(self.multiple + step)]
        return m
