"""Address generation: rows of a grid of windows, and the runs that a window consists of.

::

    panel or tile --> columns: RunWalk --> strips of a run
                      rows:    GridRows --> a row a cycle --> clip --> RowLoad / RowStore

An operand as stored is a matrix whose rows are the positions (image, row, column) of a grid and whose columns are
the elements of runs; of a plain matrix all rows are one grid row, and all columns one run. Nobody multiplies:
a walk goes on from where the walk before it ended, or again from where that began, and every step from one
place to the next is a field of the task.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.parameters import DieParameters
from plinth_hw.memory.port import TASK_BITS
from plinth_hw.memory.rows import element_address_bits, span_layout

#: Widths of fields of a convolution task; of a row of the map as the walk adds it up, and of an element of it.
COUNT_BITS, ELEMENT_BITS = 16, 24
ROW_SHAPE, COLUMN_SHAPE = signed(COUNT_BITS + 2), signed(ELEMENT_BITS + 2)


class Start(enum.Enum, shape=unsigned(2)):
    """Where a walk starts."""

    #: Where the walk before it started.
    AGAIN = 0
    #: Where the walk before it ended.
    NEXT = 1
    #: At the task's first place.
    ORIGIN = 2


def grid_layout(address_bits: int, clipped: bool) -> data.StructLayout:
    """Rows of an operand: address of the first one, steps to the next position, grid row and image; positions of a
    grid row, rows of an image. ``plain``: there is one endless grid row, and nothing is clipped. ``task`` as of
    requests. If clipped also where windows begin in the map, how they advance, and its size."""
    address = unsigned(address_bits)
    clip = {"window_row": signed(COUNT_BITS), "window_row_step": unsigned(COUNT_BITS),
            "map_rows": unsigned(COUNT_BITS), "window_column": signed(ELEMENT_BITS),
            "window_column_step": unsigned(ELEMENT_BITS), "map_columns": unsigned(ELEMENT_BITS)}
    return data.StructLayout({
        "origin": address, "step": address, "row_step": address, "image_step": address,
        "columns": unsigned(COUNT_BITS), "rows": unsigned(COUNT_BITS), "plain": unsigned(1),
        "task": unsigned(TASK_BITS), **(clip if clipped else {}),
    })


def runs_layout(address_bits: int) -> data.StructLayout:
    """Columns of an operand: elements of a run, runs of a kernel row, steps to the next run and kernel row.
    ``plain``: there is one endless run."""
    address = unsigned(address_bits)
    return data.StructLayout({"run": unsigned(COUNT_BITS), "runs": unsigned(COUNT_BITS), "step": address,
                              "kernel_step": address, "plain": unsigned(1)})


class GridRows(wiring.Component):
    """Walks rows of a grid.

    Latency: 2 cycles from a command to its first row, 5 if clipped. Throughput: a row a cycle, less two a command.

    Parameters
    ----------
    parameters : DieParameters
        Of the load or store that the rows are for.
    row_bits, column_bits : int
        Widths of the command's ``rows`` and ``columns``.
    clipped : bool
        Parts outside a map are padding.
    packing : int
        As of that load, of whose elements addresses and steps are.

    Members
    -------
    grid : In of :func:`grid_layout`
        Stable while ``busy``, and while a command is given.
    command : In stream
        ``rows`` rows from ``start`` on, of each ``columns`` words that begin ``offset`` words into the row; if
        clipped, ``place``: element of the kernel row that these begin at, and ``kernel_row``.
    o : Out stream of :func:`~plinth_hw.memory.rows.span_layout`
    busy : Out(1)
    """

    def __init__(self, parameters: DieParameters, row_bits: int, column_bits: int, clipped: bool = False,
                 packing: int = 1):
        self.column_bits = column_bits
        self.clipped = clipped
        self.address_bits = element_address_bits(parameters, packing)
        clip = {"place": unsigned(ELEMENT_BITS), "kernel_row": unsigned(COUNT_BITS)}
        super().__init__({
            "grid": In(grid_layout(self.address_bits, clipped)),
            "command": In(stream.Signature(data.StructLayout({
                "start": Start, "rows": unsigned(row_bits), "columns": unsigned(column_bits),
                "offset": unsigned(self.address_bits), **(clip if clipped else {})}))),
            "o": Out(stream.Signature(span_layout(parameters, column_bits, clipped, packing))),
            "busy": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        grid, address = self.grid, unsigned(self.address_bits)
        place = data.StructLayout({
            "address": address, "columns": unsigned(COUNT_BITS), "rows": unsigned(COUNT_BITS),
            "last_column": 1, "last_row": 1,
            **({"row": ROW_SHAPE, "column": COLUMN_SHAPE} if self.clipped else {})})
        current, begun, origin, following = (Signal(place, name=name, reset_less=True)
                                             for name in ("current", "begun", "origin", "following"))
        command = Signal.like(self.command.payload, name="walked", reset_less=True)
        active, fresh, step = Signal(name="active"), Signal(name="fresh"), Signal(name="step")
        last_column, last_row = current.last_column, current.last_row

        m.d.comb += [
            origin.address.eq(grid.origin), origin.columns.eq(grid.columns), origin.rows.eq(grid.rows),
            origin.last_column.eq((grid.columns == 1) & ~grid.plain), origin.last_row.eq(grid.rows == 1),
            following.address.eq(current.address + Mux(last_column, Mux(last_row, grid.image_step, grid.row_step),
                                                       grid.step)),
            following.columns.eq(Mux(last_column, grid.columns, current.columns - 1)),
            following.rows.eq(Mux(last_column, Mux(last_row, grid.rows, current.rows - 1), current.rows)),
            following.last_column.eq(Mux(last_column, origin.last_column, (current.columns == 2) & ~grid.plain)),
            following.last_row.eq(Mux(last_column, Mux(last_row, origin.last_row, current.rows == 2), last_row)),
            self.command.ready.eq(~active),
        ]
        if self.clipped:
            m.d.comb += [
                origin.row.eq(grid.window_row), origin.column.eq(grid.window_column),
                following.column.eq(Mux(last_column, grid.window_column, current.column + grid.window_column_step)),
                following.row.eq(Mux(last_column, Mux(last_row, grid.window_row,
                                                      current.row + grid.window_row_step), current.row)),
            ]
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [command.eq(self.command.payload), active.eq(1), fresh.eq(1)]
            with m.If(self.command.payload.start == Start.NEXT):
                m.d.sync += begun.eq(current)
            with m.Elif(self.command.payload.start == Start.ORIGIN):
                m.d.sync += begun.eq(origin)
        with m.Elif(fresh):
            m.d.sync += [current.eq(begun), fresh.eq(0)]
        with m.Elif(step):
            m.d.sync += [current.eq(following), command.rows.eq(command.rows - 1)]
            with m.If(command.rows == 1):
                m.d.sync += active.eq(0)

        o, first = self.o.payload, Signal(address, name="first")
        m.d.comb += first.eq(current.address + command.offset)
        if not self.clipped:
            m.d.comb += [
                self.o.valid.eq(active & ~fresh), step.eq(self.o.valid & self.o.ready), self.busy.eq(active),
                o.address.eq(first), o.columns.eq(command.columns), o.last.eq(command.rows == 1),
                o.task.eq(grid.task),
            ]
            return m

        # Three stages, which move together: the row; how far the map reaches beside it; what of it lies in the map.
        row = Signal(data.StructLayout({
            "address": address, "columns": unsigned(self.column_bits), "last": unsigned(1),
            "task": unsigned(TASK_BITS), "row": ROW_SHAPE, "column": COLUMN_SHAPE}), reset_less=True)
        there, moves = Signal(2, name="there"), Signal(name="moves")
        m.d.comb += [moves.eq(~self.o.valid | self.o.ready), step.eq(active & ~fresh & moves),
                     self.busy.eq(active | there.any())]
        reach = Signal(o.shape(), name="reach", reset_less=True)
        before, row_inside = Signal(name="before"), Signal(name="row_inside")
        # Columns that lie before the map; from the row's first column to the map's last; to the row's.
        skip, left_more, more = (Signal(COLUMN_SHAPE, name=name, reset_less=True)
                                 for name in ("skip", "left_more", "more"))
        inside, cut = Signal(name="inside"), Signal(name="cut")
        m.d.comb += [inside.eq(row_inside & Mux(before, skip <= more, left_more >= 0)), cut.eq(left_more < more)]
        with m.If(moves):
            m.d.sync += [
                there.eq(Cat(step, there)), self.o.valid.eq(there[1]),
                row.address.eq(first), row.columns.eq(command.columns), row.last.eq(command.rows == 1),
                row.task.eq(grid.task), row.row.eq(current.row + command.kernel_row),
                row.column.eq(current.column + command.place),

                *(reach[name].eq(row[name]) for name in ("address", "columns", "last", "task")),
                skip.eq(-row.column), left_more.eq(grid.map_columns - 1 - row.column), more.eq(row.columns - 1),
                before.eq(row.column < 0), row_inside.eq((row.row >= 0) & (row.row < grid.map_rows)),

                *(o[name].eq(reach[name]) for name in ("address", "columns", "last", "task")),
                o.any.eq(grid.plain | inside), o.low.eq(Mux(before & ~grid.plain, skip, 0)),
                o.high.eq(Mux(cut & ~grid.plain, left_more, more)),
            ]
        return m


class RunWalk(wiring.Component):
    """Walks the elements of windows in strips that lie within a run.

    Members
    -------
    runs : In of :func:`runs_layout`
        Stable during a walk.
    begin, start : In
        A walk begins, where ``start`` says.
    size : In(1), from the second cycle after ``begin`` on
        A strip of at most ``limit`` elements is wanted; from the next cycle on it has ``columns``.
    take : In(1)
        The strip is used up in this cycle.
    address : Out
        Of the strip, from the first element of the window.
    place, kernel_row : Out
        Element of the kernel row that it begins at, and that row.
    """

    def __init__(self, address_bits: int, limit_bits: int):
        self.address_bits = address_bits
        super().__init__({
            "runs": In(runs_layout(address_bits)), "begin": In(1), "start": In(Start),
            "size": In(1), "limit": In(limit_bits), "columns": Out(limit_bits), "take": In(1),
            "address": Out(address_bits), "place": Out(ELEMENT_BITS), "kernel_row": Out(COUNT_BITS),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        runs, address = self.runs, unsigned(self.address_bits)
        at = data.StructLayout({
            "address": address, "run": address, "left": unsigned(COUNT_BITS), "runs": unsigned(COUNT_BITS),
            "place": unsigned(ELEMENT_BITS), "kernel_row": unsigned(COUNT_BITS)})
        current, begun, origin, following = (Signal(at, name=name, reset_less=True)
                                             for name in ("current", "begun", "origin", "following"))
        ends, last_run, fresh = Signal(name="ends"), Signal(name="last_run"), Signal(name="fresh")
        # By itself: what a process assigns to one part of a signal and reads from another, not all simulators settle.
        moved = Signal.like(current.address, name="next_address")
        m.d.comb += [
            origin.left.eq(runs.run), origin.runs.eq(runs.runs),
            moved.eq(Mux(ends, current.run, current.address)
                     + Mux(ends, Mux(last_run, runs.kernel_step, runs.step), self.columns)),
            following.eq(current), following.address.eq(moved),
            following.left.eq(current.left - self.columns),
            following.place.eq(current.place + self.columns),
            self.address.eq(current.address), self.place.eq(current.place),
            self.kernel_row.eq(current.kernel_row),
        ]
        with m.If(ends):
            m.d.comb += [following.run.eq(moved), following.left.eq(runs.run),
                         following.runs.eq(current.runs - 1)]
            with m.If(last_run):
                m.d.comb += [following.runs.eq(runs.runs), following.place.eq(0),
                             following.kernel_row.eq(current.kernel_row + 1)]
        with m.If(self.size):
            m.d.sync += [ends.eq((current.left <= self.limit) & ~runs.plain),
                         self.columns.eq(Mux((current.left < self.limit) & ~runs.plain, current.left, self.limit))]
        with m.If(self.take):
            m.d.sync += current.eq(following)
        with m.If(fresh):
            m.d.sync += current.eq(begun)
        with m.If(self.begin & (self.start == Start.NEXT)):
            m.d.sync += begun.eq(current)
        with m.Elif(self.begin & (self.start == Start.ORIGIN)):
            m.d.sync += begun.eq(origin)
        # A strip lasts for two cycles at least.
        m.d.sync += [fresh.eq(self.begin), last_run.eq(current.runs == 1)]
        return m
