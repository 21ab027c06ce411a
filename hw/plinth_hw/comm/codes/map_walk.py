"""Places of the maps that are added to neurons, in the order in which neurons are found: of each window, a flit of
channels of a tile, row by row.

Throughput: a place a cycle.
"""

from collections.abc import Sequence

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.comm.codes.window_walk import WINDOW_ENDS, grid_walk, predicted_layout
from plinth_hw.comm.line_sums import last_places
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.winograd import Matrix
from plinth_hw.lib.choice import select
from plinth_hw.lib.count import index_bits


class MapWalk(wiring.Component):
    """Walks the places of maps.

    Parameters
    ----------
    parameters : DieParameters
    matrices : sequence of Matrix
        A^T of transforms, and 1; of powers of two of rows.

    Members
    -------
    start : In(1)
        Pulse: ``task`` is there, and stable while it is walked.
    task : In, :func:`~plinth_hw.comm.codes.window_walk.predicted_layout`
    window : In, :data:`~plinth_hw.comm.codes.window_walk.WINDOW_ENDS`
        Of the window.
    moves : In(1)
        On to the next place.
    place : Out
        Address of the first word.
    row, column : Out
        Of the neuron in its tile.
    ends : Out(1)
        It is the window's last one.
    """

    def __init__(self, parameters: DieParameters, matrices: Sequence[Matrix]):
        self.parameters = parameters
        self.matrices = tuple(matrices)
        side = Out(index_bits(max(map(len, self.matrices))))
        super().__init__({
            "start": In(1), "task": In(predicted_layout(parameters, len(self.matrices))), "window": In(WINDOW_ENDS),
            "moves": In(1), "place": Out(parameters.address_bits), "row": side, "column": side, "ends": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        task, window, last = self.task, self.window, last_places(self.matrices, self.task, results=True)
        row, column, ends = grid_walk(m, "neuron", self.moves, last, len(self.row))
        m.d.comb += [self.row.eq(row), self.column.eq(column), self.ends.eq(ends)]
        # First places of the map, of its line of tiles, of the tile, of the window, of its row.
        names = ("map_place", "line_place", "tile_place", "window_place", "row_place")
        of_map, of_line, of_tile, of_window, of_row = places = [
            Signal(self.parameters.address_bits, name=name) for name in names]
        next_tile, next_window, below = (Signal.like(self.place, name=name) for name in (
            "next_tile", "next_window", "below"))
        steps = {way: select([stride << exact_log2(len(matrix)) for matrix in self.matrices], task[way])
                 for way, stride in (("down", task.below), ("across", task.right))}
        m.d.comb += [
            next_tile.eq(Mux(window.row, Mux(window.map, of_map + task.map_pitch, of_line + steps["down"]),
                             of_tile + steps["across"])),
            next_window.eq(Mux(window.tile, next_tile, of_window + self.parameters.flit_words)),
            below.eq(Mux(ends, next_window, of_row + task.below)),
        ]
        with m.If(self.start):
            m.d.sync += [place.eq(task.maps) for place in (self.place, *places)]
        with m.Elif(self.moves):
            m.d.sync += self.place.eq(self.place + task.right)
            with m.If(column == last["across"]):
                m.d.sync += [self.place.eq(below), of_row.eq(below)]
            with m.If(ends):
                m.d.sync += of_window.eq(next_window)
                with m.If(window.tile):
                    m.d.sync += of_tile.eq(next_tile)
                    with m.If(window.row):
                        m.d.sync += of_line.eq(next_tile)
                        with m.If(window.map):
                            m.d.sync += of_map.eq(next_tile)
        return m
