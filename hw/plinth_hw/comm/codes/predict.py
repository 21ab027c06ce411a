"""The transfer engine's task that predicts: of fills of tile elements, masks of those that must still come.

::

    walk --bias, fills, map--> slice --> (TileRead) --> slice -+-> FillEnds --> LiveNeurons --> NeededMasks --> o
                                                               +-> bias, map -------^

A window is a flit of channels of one tile. Throughput: that of :class:`~plinth_hw.comm.codes.neurons.LiveNeurons`; a
piece, and a flit, a cycle. Latency: a piece, and a flit, one cycle each more. Source: MPT section V; the bound and the
fills are this project's.
"""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.codes.ends import FillEnds
from plinth_hw.comm.codes.map_walk import MapWalk
from plinth_hw.comm.codes.masks import NeededMasks
from plinth_hw.comm.codes.neurons import LiveNeurons
from plinth_hw.comm.codes.window_walk import WindowWalk, grid_walk, predicted_layout
from plinth_hw.comm.flit import payload_layout
from plinth_hw.comm.line_sums import last_places
from plinth_hw.comm.tile_read import PieceUse, tile_flit_layout, tile_piece_layout
from plinth_hw.isa.codes import shifts
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.winograd import Matrix
from plinth_hw.lib.count import index_bits
from plinth_hw.lib.fifo import FIFO, Storage


class Prediction(wiring.Component):
    """Makes masks of what a task's live neurons need.

    Parameters
    ----------
    parameters : DieParameters
    matrices : sequence of Matrix
        A^T of transforms, and 1.

    Members
    -------
    start : In(1)
        Pulse: ``task`` is there, and stable until ``idle``.
    task : In, :func:`~plinth_hw.comm.codes.window_walk.predicted_layout`
    piece : Out stream of :func:`~plinth_hw.comm.tile_read.tile_piece_layout`
    flit : In stream of :func:`~plinth_hw.comm.tile_read.tile_flit_layout`
    o : Out stream of the same
        Words of masks, each a packet that ``last`` marks.
    idle : Out(1)
        Everything has been given.
    """

    def __init__(self, parameters: DieParameters, matrices: Sequence[Matrix]):
        self.parameters = parameters
        self.matrices = tuple(matrices)
        self.places = max(len(matrix[0]) for matrix in matrices)
        piece, flit = (stream.Signature(layout(parameters)) for layout in (tile_piece_layout, tile_flit_layout))
        super().__init__({
            "start": In(1), "task": In(predicted_layout(parameters, len(self.matrices))), "piece": Out(piece),
            "flit": In(flit), "o": Out(flit), "idle": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        words = payload_layout(self.parameters)
        task = self._task(m)
        m.submodules.ends = ends = FillEnds(words)
        m.submodules.neurons = neurons = LiveNeurons(words, self.matrices)
        m.submodules.masks = masks = NeededMasks(self.parameters, self.matrices)
        m.submodules.pieces = pieces = FIFO(self.piece.payload.shape(), 2, Storage.HEAD)
        m.submodules.flits = flits = FIFO(self.flit.payload.shape(), 2, Storage.HEAD)
        for source, sink in ((pieces.o, wiring.flipped(self.piece)), (wiring.flipped(self.flit), flits.i),
                             (ends.o, neurons.i), (neurons.o, masks.i), (masks.o, wiring.flipped(self.o))):
            wiring.connect(m, source, sink)
        walked = Signal(name="walked")
        self._walk(m, task, pieces.i, walked)
        self._read(m, task, flits.o, ends, neurons)
        m.d.comb += [
            *(getattr(neurons, name).eq(task[name]) for name in ("down", "across", "pools", "adds")),
            masks.start.eq(self.start), masks.task.eq(task), self.idle.eq(walked & masks.idle)]
        return m

    def _task(self, m: Module) -> data.View:
        """The task; what is found out of a body's fields in registers, which is used from the cycle after the start on.
        """
        layout = predicted_layout(self.parameters, len(self.matrices))
        names = ("level", "regions", "down", "across", "pools", "bounded", "adds")
        known = Signal(data.StructLayout({name: layout[name].shape for name in names}), name="known")
        m.d.sync += [known[name].eq(self.task[name]) for name in names]
        return data.View(layout, Cat(known[name] if name in names else self.task[name] for name in layout.members))

    def _elements(self, m: Module, task: data.View, name: str, moves: Value) -> tuple[Signal, Signal, Value]:
        """Row and column of an element, and whether it is a tile's last one."""
        return grid_walk(m, name, moves, last_places(self.matrices, task, results=False), index_bits(self.places))

    def _walk(self, m: Module, task: data.View, o: Any, walked: Signal) -> None:
        """Pieces: of each flit of a tile's channels that of the bias, then that of each element, and that of the map of
        each neuron; of a neuron outside the map, which is dead, the bias's again."""
        piece, lanes = o.payload, self.parameters.flit_words
        bits = self.parameters.address_bits
        tile, at, place, bias = (Signal(bits, name=name) for name in ("tile", "at", "place", "bias"))
        next_tile = Signal.like(tile, name="next_tile")
        of_bias, of_map, moves, ends_window = (Signal(name=name) for name in (
            "of_bias", "of_map", "moves", "ends_window"))
        *_, ends = self._elements(m, task, "element", moves & ~of_bias & ~of_map)
        m.submodules.windows = windows = WindowWalk(self.parameters, self.matrices)
        m.submodules.maps = maps = MapWalk(self.parameters, self.matrices)
        inside = windows.rows.bit_select(maps.row, 1) & windows.columns.bit_select(maps.column, 1)
        m.d.comb += [
            *(walk.start.eq(self.start) for walk in (windows, maps)), *(walk.task.eq(task) for walk in (windows, maps)),
            maps.moves.eq(moves & of_map), maps.window.eq(windows.ends), windows.moves.eq(ends_window),
            moves.eq(o.valid & o.ready), next_tile.eq(tile + task.tile),
            piece.source.eq(Mux(of_map & inside, maps.place, Mux(of_bias | of_map, bias, place))),
            piece.run.words.eq(lanes), piece.run.address.eq(0), piece.tail.eq(1), piece.more.eq(0),
            piece.use.eq(Mux(of_bias | of_map, PieceUse.INDEX, PieceUse.TILE)), piece.last.eq(of_map),
        ]
        with m.If(ends_window):
            m.d.sync += [bias.eq(bias + lanes), at.eq(at + lanes)]
            with m.If(windows.ends.tile):
                m.d.sync += [bias.eq(task.bias), tile.eq(next_tile), at.eq(next_tile)]

        def end_window() -> None:
            m.d.comb += ends_window.eq(1)
            m.next = "BIAS"
            with m.If(windows.ends.task):
                m.next = "IDLE"

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += walked.eq(1)
                m.d.sync += [tile.eq(task.fills), at.eq(task.fills), bias.eq(task.bias)]
                with m.If(self.start):
                    m.next = "BIAS"
            with m.State("BIAS"):
                m.d.comb += [of_bias.eq(1), o.valid.eq(1)]
                m.d.sync += place.eq(at)
                with m.If(o.ready):
                    m.next = "ELEMENTS"
            with m.State("ELEMENTS"):
                m.d.comb += o.valid.eq(1)
                with m.If(o.ready):
                    m.d.sync += place.eq(place + task.element)
                    with m.If(ends & task.adds):
                        m.next = "MAP"
                    with m.Elif(ends):
                        end_window()
            with m.State("MAP"):
                m.d.comb += [of_map.eq(1), o.valid.eq(1)]
                with m.If(o.ready & maps.ends):
                    end_window()

    def _read(self, m: Module, task: data.View, i: Any, ends: FillEnds, neurons: LiveNeurons) -> None:
        """Fills with their levels, and what is added to neurons."""
        flit = i.payload
        shift = Signal.like(ends.i.payload.shift, name="shift")
        down, across, _ = self._elements(m, task, "read", ends.i.valid & ends.i.ready)
        of_map, of_bias = (Signal(name=name) for name in ("read_map", "read_bias"))
        added = flit.tag.use == PieceUse.INDEX
        for first, down_matrix in enumerate(self.matrices):
            for second, across_matrix in enumerate(self.matrices):
                for row, row_shifts in enumerate(shifts(down_matrix, across_matrix)):
                    for column, value in enumerate(row_shifts):
                        if value:
                            with m.If((task.down == first) & (task.across == second) & (down == row)
                                      & (across == column)):
                                m.d.comb += shift.eq(value)
        m.d.comb += [
            of_map.eq(added & flit.tag.last), of_bias.eq(added & ~flit.tag.last),
            neurons.window.payload.eq(flit.data), neurons.window.valid.eq(i.valid & of_bias),
            neurons.added.payload.eq(flit.data), neurons.added.valid.eq(i.valid & of_map),
            ends.level.eq(task.level), ends.regions.eq(task.regions),
            ends.i.payload.fills.eq(flit.data), ends.i.payload.shift.eq(Mux(task.regions != 0, 0, shift)),
            ends.i.valid.eq(i.valid & ~added),
            i.ready.eq(Mux(of_map, neurons.added.ready, Mux(of_bias, neurons.window.ready, ends.i.ready))),
        ]
