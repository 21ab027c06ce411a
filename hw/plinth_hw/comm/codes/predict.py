"""The transfer engine's task that predicts: of fills of tile elements, masks of those that must still come.

::

    walk --bias, fills, map--> (TileRead) --+--> FillEnds --> LiveNeurons --> elements needed --> words of masks --> o
                                            +--> bias, map -------^

A window is a flit of channels of one tile. Throughput: that of :class:`~plinth_hw.comm.codes.neurons.LiveNeurons`.
Source: MPT section V; the bound and the fills are this project's.
"""

from collections.abc import Sequence

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.codes.bits import WORD
from plinth_hw.comm.codes.ends import FillEnds
from plinth_hw.comm.codes.map_walk import MapWalk
from plinth_hw.comm.codes.masks import NeededMasks, grid_walk, predicted_layout
from plinth_hw.comm.codes.neurons import LiveNeurons
from plinth_hw.comm.flit import payload_layout
from plinth_hw.comm.line_sums import last_places
from plinth_hw.comm.tile_read import PieceUse, tile_flit_layout, tile_piece_layout
from plinth_hw.isa.codes import shifts
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.winograd import Matrix
from plinth_hw.lib.count import index_bits


class Prediction(wiring.Component):
    """Predicts.

    Parameters
    ----------
    parameters : DieParameters
    matrices : sequence of Matrix
        A^T of transforms, and 1.

    Members
    -------
    start : In(1)
        Pulse: ``task`` is there, and stable until ``idle``.
    task : In, :func:`predicted_layout`
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
        m.submodules.ends = ends = FillEnds(words)
        m.submodules.neurons = neurons = LiveNeurons(words, self.matrices)
        wiring.connect(m, ends.o, neurons.i)
        m.d.comb += [getattr(neurons, name).eq(self.task[name]) for name in ("down", "across", "pools", "adds")]
        m.submodules.masks = masks = NeededMasks(self.parameters, self.matrices)
        wiring.connect(m, neurons.o, masks.i)
        wiring.connect(m, masks.o, wiring.flipped(self.o))
        walked = Signal(name="walked")
        self._walk(m, walked)
        self._read(m, ends, neurons)
        m.d.comb += [masks.start.eq(self.start), masks.task.eq(self.task), self.idle.eq(walked & masks.idle)]
        return m

    def _elements(self, m: Module, name: str, moves: Value) -> tuple[Signal, Signal, Value]:
        """Row and column of an element, and whether it is a tile's last one."""
        return grid_walk(m, name, moves, last_places(self.matrices, self.task, results=False), index_bits(self.places))

    def _walk(self, m: Module, walked: Signal) -> None:
        """Pieces: of each flit of a tile's channels that of the bias, then that of each element, and that of the map of
        each neuron; of a neuron outside the map, which is dead, the bias's again."""
        task, piece, lanes = self.task, self.piece.payload, self.parameters.flit_words
        bits = self.parameters.address_bits
        tile, at, place = (Signal(bits, name=name) for name in ("tile", "at", "place"))
        tiles, channel = Signal(WORD, name="tiles_left"), Signal(WORD, name="channel")
        of_bias, of_map, moves = (Signal(name=name) for name in ("of_bias", "of_map", "moves"))
        *_, ends = self._elements(m, "element", moves & ~of_bias & ~of_map)
        m.submodules.maps = maps = MapWalk(self.parameters, self.matrices)
        m.d.comb += [
            maps.start.eq(self.start), maps.task.eq(task), maps.moves.eq(moves & of_map),
            moves.eq(self.piece.valid & self.piece.ready),
            piece.source.eq(Mux(of_map & maps.inside, maps.place, Mux(of_bias | of_map, task.bias + channel, place))),
            piece.run.words.eq(lanes), piece.run.address.eq(0), piece.tail.eq(1), piece.more.eq(0),
            piece.use.eq(Mux(of_bias | of_map, PieceUse.INDEX, PieceUse.TILE)), piece.last.eq(of_map),
        ]

        def end_window() -> None:
            m.d.sync += [channel.eq(channel + lanes), at.eq(at + lanes)]
            m.next = "BIAS"
            with m.If(channel + lanes >= task.channels):
                m.d.sync += [channel.eq(0), tile.eq(tile + task.tile), at.eq(tile + task.tile), tiles.eq(tiles - 1)]
                with m.If(tiles == 1):
                    m.next = "IDLE"

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += walked.eq(1)
                m.d.sync += [tile.eq(task.fills), at.eq(task.fills), tiles.eq(task.tiles), channel.eq(0)]
                with m.If(self.start):
                    m.next = "BIAS"
            with m.State("BIAS"):
                m.d.comb += [of_bias.eq(1), self.piece.valid.eq(1)]
                m.d.sync += place.eq(at)
                with m.If(self.piece.ready):
                    m.next = "ELEMENTS"
            with m.State("ELEMENTS"):
                m.d.comb += self.piece.valid.eq(1)
                with m.If(self.piece.ready):
                    m.d.sync += place.eq(place + task.element)
                    with m.If(ends & task.adds):
                        m.next = "MAP"
                    with m.Elif(ends):
                        end_window()
            with m.State("MAP"):
                m.d.comb += [of_map.eq(1), self.piece.valid.eq(1)]
                with m.If(self.piece.ready & maps.ends):
                    end_window()

    def _read(self, m: Module, ends: FillEnds, neurons: LiveNeurons) -> None:
        """Fills with their levels, and what is added to neurons."""
        task, flit = self.task, self.flit.payload
        shift = Signal(range(8), name="shift")
        down, across, _ = self._elements(m, "read", ends.i.valid & ends.i.ready)
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
            neurons.window.payload.eq(flit.data), neurons.window.valid.eq(self.flit.valid & of_bias),
            neurons.added.payload.eq(flit.data), neurons.added.valid.eq(self.flit.valid & of_map),
            ends.i.payload.fills.eq(flit.data), ends.i.payload.regions.eq(task.regions),
            ends.i.payload.level.eq(task.level - Mux(task.regions != 0, 0, shift)),
            ends.i.valid.eq(self.flit.valid & ~added),
            self.flit.ready.eq(Mux(of_map, neurons.added.ready, Mux(of_bias, neurons.window.ready, ends.i.ready))),
        ]
