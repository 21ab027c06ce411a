"""Masks of tile elements that live neurons need, or of whole tiles of which one lives.

::

    live --> supports, if in the map --> slice --> elements of a window --> 32 of a run, of each element --> slice --> o

Throughput: a neuron a cycle; for each 32 of a run's words as many cycles as a tile has elements, and two. Latency: last
neuron to first word 4 cycles.
"""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.codes.bits import WORD
from plinth_hw.comm.codes.window_walk import WindowWalk, grid_walk, predicted_layout
from plinth_hw.comm.line_sums import last_places
from plinth_hw.comm.tile_read import PieceUse, tile_flit_layout
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.winograd import Matrix
from plinth_hw.lib.choice import select
from plinth_hw.lib.count import index_bits
from plinth_hw.lib.fifo import FIFO, Storage


class NeededMasks(wiring.Component):
    """Makes words of masks.

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
    i : In stream of a bit a word
        Of each window's neurons, row by row.
    o : Out stream of :func:`~plinth_hw.comm.tile_read.tile_flit_layout`
        Each a packet that ``last`` marks.
    idle : Out(1)
        Everything has been given.
    """

    def __init__(self, parameters: DieParameters, matrices: Sequence[Matrix]):
        self.parameters = parameters
        self.matrices = tuple(matrices)
        self.places = max(len(matrix[0]) for matrix in matrices)
        super().__init__({
            "start": In(1), "task": In(predicted_layout(parameters, len(self.matrices))),
            "i": In(stream.Signature(unsigned(parameters.flit_words))),
            "o": Out(stream.Signature(tile_flit_layout(parameters))), "idle": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes, places = self.parameters.flit_words, self.places
        # A neuron: lanes in which it lives; rows and columns of elements that it has a coefficient for; what it ends.
        m.submodules.neurons = neurons = FIFO(data.StructLayout({
            "live": unsigned(lanes), "down": unsigned(places), "across": unsigned(places), "ends": unsigned(1),
            "final": unsigned(1)}), 2, Storage.HEAD)
        self._neurons(m, neurons.i)
        neuron, shifts, takes = neurons.o.payload, Signal(name="shifts"), Signal(name="takes")
        words = [Signal(WORD, name=f"word_{place}") for place in range(places * places)]
        for place, word in enumerate(words):
            down, across = divmod(place, places)
            needed, now = Signal(lanes, name=f"needed_{place}"), Signal(lanes, name=f"now_{place}")
            m.d.comb += now.eq(needed | Mux(neuron.down[down] & neuron.across[across], neuron.live, 0))
            with m.If(takes):
                m.d.sync += needed.eq(Mux(neuron.ends, 0, now))
            with m.If(shifts):
                m.d.sync += word.eq(Cat(word[lanes:], Mux(takes, now, Const(0, lanes))))
        m.d.comb += takes.eq(neurons.o.valid & neurons.o.ready)
        self._give(m, words, neurons.o, shifts)
        return m

    def _neurons(self, m: Module, o: Any) -> None:
        """Neurons with what they need, and which one is the task's last."""
        task, moves = self.task, Signal(name="moves")
        row, column, ends = grid_walk(m, "neuron", moves, last_places(self.matrices, task, results=True),
                                      index_bits(self.places))
        m.submodules.windows = windows = WindowWalk(self.parameters, self.matrices)
        whole, inside = task.regions != 0, Signal(name="inside")
        m.d.comb += [
            windows.start.eq(self.start), windows.task.eq(task), windows.moves.eq(moves & ends),
            inside.eq(windows.rows.bit_select(row, 1) & windows.columns.bit_select(column, 1)),
            moves.eq(self.i.valid & self.i.ready), self.i.ready.eq(o.ready), o.valid.eq(self.i.valid),
            o.payload.live.eq(Mux(inside, self.i.payload, 0)), o.payload.ends.eq(ends),
            o.payload.final.eq(windows.ends.task),
            *(o.payload[side].eq(self._support(m, side, neuron) | whole.replicate(self.places))
              for side, neuron in (("down", row), ("across", column))),
        ]

    def _support(self, m: Module, side: str, neuron: Signal) -> Signal:
        """Rows, or columns, of a tile that a row, or column, of neurons has a coefficient for."""
        support = Signal(self.places, name=f"{side}_support")
        for number, matrix in enumerate(self.matrices):
            for at, row in enumerate(matrix):
                with m.If((self.task[side] == number) & (neuron == at)):
                    m.d.comb += support.eq(sum(1 << place for place, value in enumerate(row) if value))
        return support

    def _give(self, m: Module, words: list[Signal], neurons: Any, shifts: Signal) -> None:
        """Words, once there are 32 bits of each, or no more windows."""
        task, lanes, places = self.task, self.parameters.flit_words, self.places
        m.submodules.given = given = FIFO(self.o.payload.shape(), 2, Storage.HEAD)
        wiring.connect(m, given.o, wiring.flipped(self.o))
        flit, gives = given.i.payload, given.i
        chunk, number = Signal(range(WORD // lanes), name="chunk"), Signal(WORD, name="number")
        final, whole_word = Signal(name="final"), Signal(name="whole_word")
        at = Signal(self.parameters.address_bits, name="at")
        word = Signal(WORD, name="given_word")
        down, across, ends = grid_walk(m, "given", gives.valid & gives.ready, last_places(
            self.matrices, task, results=False), index_bits(places))
        m.d.comb += [
            word.eq(select([select(words[first:first + places], across) for first in range(0, len(words), places)],
                           down)),
            *(flit.data[lane].eq(word) for lane in range(lanes)), flit.words.eq(1), flit.address.eq(at),
            flit.tail.eq(1), flit.tag.use.eq(PieceUse.TILE), flit.tag.last.eq(1),
            whole_word.eq(chunk == WORD // lanes - 1),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.idle.eq(given.empty)
                m.d.sync += [number.eq(0), chunk.eq(0), final.eq(0)]
                with m.If(self.start):
                    m.next = "WINDOWS"
            with m.State("WINDOWS"):
                m.d.comb += [neurons.ready.eq(1), shifts.eq(neurons.valid & neurons.payload.ends)]
                m.d.sync += at.eq(task.masks + number)
                with m.If(shifts):
                    m.d.sync += [chunk.eq(chunk + 1), final.eq(neurons.payload.final)]
                    with m.If(neurons.payload.final):
                        m.next = "FILL"
                    with m.If(whole_word):
                        m.next = "GIVE"
            with m.State("FILL"):
                # The rest of the last word's bits.
                m.d.comb += shifts.eq(1)
                m.d.sync += chunk.eq(chunk + 1)
                with m.If(whole_word):
                    m.next = "GIVE"
            with m.State("GIVE"):
                m.d.comb += gives.valid.eq(1)
                with m.If(gives.ready):
                    m.d.sync += at.eq(at + task.pitch)
                    with m.If(ends):
                        m.d.sync += number.eq(number + 1)
                        m.next = "WINDOWS"
                        with m.If(final):
                            m.next = "IDLE"
