"""Useful multiply-adds of a task: those of a term that there is with an element of the map.

::

    useful = [pairs (y, krow) whose row lies in the map] x [pairs (w, kcol) whose column does]
             x filters x channels x images

The pairs are counted one by one, kernel rows and columns at the same time, then the factors multiplied bit by bit:
max(rows kernel_rows, ceil(windows / window_run) kernel_columns) + 4 x 33 cycles, while the task's operands are loaded.
"""

from amaranth.hdl import Array, Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.matrix_bodies import RowStationaryBody
from plinth_hw.matrix.row_stationary.jobs import COLUMN_SHAPE, COUNT_BITS, ROW_SHAPE, copied
from plinth_hw.shapes import shape_of

#: Width of a factor.
FACTOR_BITS = 32


class InsideWalk(wiring.Component):
    """Counts pairs (outer, inner) whose position ``origin + outer * outer_step + inner * inner_step`` is in the map.

    Members
    -------
    start : In(1)
        The other inputs are stable from the next cycle on, while ``busy``.
    origin, outer_step, inner_step, size, outers, inners : In
        Positions from 0 to ``size`` - 1 are in the map.
    weight, last_weight : In
        What a pair counts, and one of the last outer.
    total : Out
    busy : Out(1)
    """

    def __init__(self, shape: object):
        self.shape = shape
        count = unsigned(COUNT_BITS)
        super().__init__({
            "start": In(1), "origin": In(shape), "outer_step": In(count), "inner_step": In(count), "size": In(count),
            "outers": In(count), "inners": In(count), "weight": In(count), "last_weight": In(count),
            "total": Out(FACTOR_BITS), "busy": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        first, place = Signal(self.shape, name="first"), Signal(self.shape, name="place")
        outer, inner = Signal(COUNT_BITS, name="outer"), Signal(COUNT_BITS, name="inner")
        last_outer, last_inner = Signal(COUNT_BITS, name="last_outer"), Signal(COUNT_BITS, name="last_inner")
        fresh, last = Signal(name="fresh"), Signal(name="last")
        m.d.comb += last.eq(outer == last_outer)
        with m.If(self.start):
            m.d.sync += [self.busy.eq(1), fresh.eq(1), self.total.eq(0), outer.eq(0), inner.eq(0)]
        with m.Elif(fresh):
            m.d.sync += [fresh.eq(0), first.eq(self.origin), place.eq(self.origin),
                         last_outer.eq(self.outers - 1), last_inner.eq(self.inners - 1)]
        with m.Elif(self.busy):
            with m.If((place >= 0) & (place < self.size)):
                m.d.sync += self.total.eq(self.total + Mux(last, self.last_weight, self.weight))
            m.d.sync += [place.eq(place + self.inner_step), inner.eq(inner + 1)]
            with m.If(inner == last_inner):
                m.d.sync += [inner.eq(0), outer.eq(outer + 1), first.eq(first + self.outer_step),
                             place.eq(first + self.outer_step), self.busy.eq(~last)]
        return m


class UsefulCount(wiring.Component):
    """Counts tasks, one at a time.

    Members
    -------
    task : In(RowStationaryBody)
    start : In(1)
        Count this task; only while not ``busy``.
    busy : Out(1)
    o : Out stream of unsigned(64)
    """

    task: In(shape_of(RowStationaryBody))
    start: In(1)
    busy: Out(1)
    o: Out(stream.Signature(unsigned(64)))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        task = copied(m, self.task, "images rows windows window_run filters kernel_rows kernel_columns channels "
                                    "row_origin row_stride column_origin column_stride row_dilation column_dilation "
                                    "map_rows map_columns", self.start)
        m.submodules.rows = rows = InsideWalk(ROW_SHAPE)
        m.submodules.columns = columns = InsideWalk(COLUMN_SHAPE)
        # Window columns, and windows of the last one.
        v, left = Signal(COUNT_BITS, name="v"), Signal(COUNT_BITS, name="left")
        m.d.comb += [
            rows.origin.eq(task.row_origin), rows.size.eq(task.map_rows),
            rows.outers.eq(task.rows), rows.outer_step.eq(task.row_stride),
            rows.inners.eq(task.kernel_rows), rows.inner_step.eq(task.row_dilation),
            rows.weight.eq(1), rows.last_weight.eq(1), rows.start.eq(self.start),
            columns.origin.eq(task.column_origin), columns.size.eq(task.map_columns),
            columns.outers.eq(v), columns.outer_step.eq(task.column_stride),
            columns.inners.eq(task.kernel_columns), columns.inner_step.eq(task.column_dilation),
            columns.weight.eq(task.window_run), columns.last_weight.eq(left),
        ]
        factors = Array([columns.total, task.filters, task.channels, task.images])
        which = Signal(range(len(factors)))
        product, shifted = Signal(64, name="product"), Signal(64, name="shifted")
        factor = Signal(FACTOR_BITS)
        m.d.comb += [self.busy.eq(1), self.o.payload.eq(product)]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.busy.eq(0)
                m.d.sync += [v.eq(1), left.eq(self.task.windows), which.eq(0)]
                with m.If(self.start):
                    m.next = "WINDOWS"
            with m.State("WINDOWS"):
                with m.If(left > task.window_run):
                    m.d.sync += [left.eq(left - task.window_run), v.eq(v + 1)]
                with m.Else():
                    m.d.comb += columns.start.eq(1)
                    m.next = "COUNT"
            with m.State("COUNT"), m.If(~rows.busy & ~columns.busy):
                m.d.sync += product.eq(rows.total)
                m.next = "FACTOR"
            with m.State("FACTOR"):
                m.d.sync += [factor.eq(factors[which]), shifted.eq(product), product.eq(0), which.eq(which + 1)]
                m.next = "BITS"
            with m.State("BITS"):
                m.d.sync += [factor.eq(factor >> 1), shifted.eq(shifted << 1)]
                with m.If(factor[0]):
                    m.d.sync += product.eq(product + shifted)
                with m.If(factor == 0):
                    m.next = "FACTOR"
                    with m.If(which == 0):
                        m.next = "GIVE"
            with m.State("GIVE"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.next = "IDLE"
        return m
