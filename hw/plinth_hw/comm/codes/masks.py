"""Masks of tile elements that live neurons need, or of whole tiles of which one lives.

::

    live --> support of the neuron --> elements of a window --> 32 of a run, of each element --> words --> o

Throughput: a neuron a cycle; for each 32 of a run's words as many cycles as a tile has elements, and two. Latency: last
neuron to first word 2 cycles.
"""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.codes.bits import WORD
from plinth_hw.comm.codes.block import LEVEL
from plinth_hw.comm.codes.regions import NUMBER
from plinth_hw.comm.line_sums import last_places
from plinth_hw.comm.tile_read import PieceUse, tile_flit_layout
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.winograd import Matrix
from plinth_hw.lib.choice import select
from plinth_hw.lib.count import index_bits

#: Bits of a map's side.
SIDE_BITS = 16


def grid_walk(m: Module, name: str, moves: Value, last: dict[str, Value], bits: int) -> tuple[Signal, Signal, Value]:
    """Row and column of a grid that is walked row by row, and whether they are the last; ``last``: those of ``down``
    and ``across``."""
    down, across = (Signal(bits, name=f"{name}_{side}") for side in ("down", "across"))
    ends_row, ends_column = (Signal(name=f"{name}_ends_{side}") for side in ("row", "column"))
    m.d.comb += [ends_row.eq(across == last["across"]), ends_column.eq(down == last["down"])]
    with m.If(moves):
        m.d.sync += across.eq(Mux(ends_row, 0, across + 1))
        with m.If(ends_row):
            m.d.sync += down.eq(Mux(ends_column, 0, down + 1))
    return down, across, ends_row & ends_column


def tile_walk(m: Module, name: str, start: Value, window: Value, task: Any, lanes: int, last: dict[str, Value]
              ) -> tuple[dict[str, Value], dict[str, Value]]:
    """Tiles of maps, ``window`` by window of their channels: row and column of a tile's first neuron, ``down`` and
    ``across``; what a window ends: ``channels`` of a tile, ``row`` of tiles, ``map``. ``last``: neurons' places."""
    channel = Signal(WORD, name=f"{name}_channel")
    down, across = (Signal(SIDE_BITS + 1, name=f"{name}_{side}") for side in ("down", "across"))
    next_down, next_across = down + last["down"] + 1, across + last["across"] + 1
    ends = {"channels": channel + lanes >= task.channels, "row": next_across >= task.map_columns,
            "map": next_down >= task.map_rows}
    with m.If(start):
        m.d.sync += [channel.eq(0), down.eq(0), across.eq(0)]
    with m.Elif(window):
        m.d.sync += channel.eq(channel + lanes)
        with m.If(ends["channels"]):
            m.d.sync += [channel.eq(0), across.eq(Mux(ends["row"], 0, next_across))]
            with m.If(ends["row"]):
                m.d.sync += down.eq(Mux(ends["map"], 0, next_down))
    return {"down": down, "across": across}, ends


def in_map(task: Any, first: dict[str, Value], row: Value, column: Value) -> Value:
    """Whether a neuron of a tile, of which :func:`tile_walk` gives the first, lies in its map."""
    return (first["down"] + row < task.map_rows) & (first["across"] + column < task.map_columns)


def predicted_layout(parameters: DieParameters, matrices: int) -> data.StructLayout:
    """A task: ``fills``, ``bias``, ``masks``: first words; ``element`` and ``tile``: words from one to the next,
    ``pitch`` of masks; ``tiles``, ``channels``; ``level``; log2 n of ``regions``, whose units are whole tiles, or 0;
    matrices' numbers ``down`` and ``across``; ``pools``: a max-pool follows; ``bounded``: tiles are those of maps of
    ``map_rows`` x ``map_columns`` neurons; ``adds``: to these are added the places of ``maps``, first word, one
    ``below`` and to the ``right`` of another by so many words, and ``map_pitch`` from map to map."""
    address, word, number = unsigned(parameters.address_bits), unsigned(WORD), unsigned(index_bits(matrices))
    return data.StructLayout({
        **dict.fromkeys(("fills", "bias", "masks", "maps"), address),
        **dict.fromkeys(("element", "tile", "pitch", "tiles", "channels", "below", "right", "map_pitch"), word),
        "level": LEVEL, "regions": NUMBER, "down": number, "across": number,
        **dict.fromkeys(("pools", "bounded", "adds"), unsigned(1)),
        **dict.fromkeys(("map_rows", "map_columns"), unsigned(SIDE_BITS))})


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
    task : In, :func:`predicted_layout`
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
        task, lanes, places = self.task, self.parameters.flit_words, self.places
        takes, shifts = Signal(name="takes"), Signal(name="shifts")
        row, column, ends = grid_walk(m, "neuron", takes, last_places(self.matrices, task, results=True),
                                      index_bits(places))
        supports = self._support(m, "down", row), self._support(m, "across", column)
        whole, live = task.regions != 0, Signal(lanes, name="live")
        m.d.comb += [takes.eq(self.i.valid & self.i.ready),
                     live.eq(Mux(self._inside(m, row, column, takes & ends), self.i.payload, 0))]
        words = [Signal(WORD, name=f"word_{place}") for place in range(places * places)]
        for place, word in enumerate(words):
            down, across = divmod(place, places)
            needed, now = Signal(lanes, name=f"needed_{place}"), Signal(lanes, name=f"now_{place}")
            m.d.comb += now.eq(needed | Mux(whole | (supports[0][down] & supports[1][across]), live, 0))
            with m.If(takes):
                m.d.sync += needed.eq(Mux(ends, 0, now))
            with m.If(shifts):
                m.d.sync += word.eq(Cat(word[lanes:], Mux(takes, now, Const(0, lanes))))
        self._give(m, words, takes & ends, shifts)
        return m

    def _inside(self, m: Module, row: Signal, column: Signal, window: Value) -> Value:
        """Whether a neuron of a window lies in its map."""
        task = self.task
        first, _ = tile_walk(m, "inside", self.start, window, task, self.parameters.flit_words,
                             last_places(self.matrices, task, results=True))
        return ~task.bounded | in_map(task, first, row, column)

    def _support(self, m: Module, side: str, neuron: Signal) -> Signal:
        """Rows, or columns, of a tile that a row, or column, of neurons has a coefficient for."""
        support = Signal(self.places, name=f"{side}_support")
        for number, matrix in enumerate(self.matrices):
            for at, row in enumerate(matrix):
                with m.If((self.task[side] == number) & (neuron == at)):
                    m.d.comb += support.eq(sum(1 << place for place, value in enumerate(row) if value))
        return support

    def _give(self, m: Module, words: list[Signal], window: Signal, shifts: Signal) -> None:
        """Words, once there are 32 bits of each, or no more windows."""
        task, lanes, places, flit = self.task, self.parameters.flit_words, self.places, self.o.payload
        chunk, tiles, channel = Signal(range(WORD // lanes), name="chunk"), Signal(WORD), Signal(WORD)
        final, number = Signal(name="final"), Signal(WORD, name="number")
        at = Signal(self.parameters.address_bits, name="at")
        word = Signal(WORD, name="given_word")
        down, across, ends = grid_walk(m, "given", self.o.valid & self.o.ready, last_places(
            self.matrices, task, results=False), index_bits(places))
        m.d.comb += [
            word.eq(select([select(words[first:first + places], across) for first in range(0, len(words), places)],
                           down)),
            *(flit.data[lane].eq(word) for lane in range(lanes)), flit.words.eq(1), flit.address.eq(at),
            flit.tail.eq(1), flit.tag.use.eq(PieceUse.TILE), flit.tag.last.eq(1),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.idle.eq(1)
                m.d.sync += [tiles.eq(task.tiles), channel.eq(0), number.eq(0), chunk.eq(0), final.eq(0)]
                with m.If(self.start):
                    m.next = "WINDOWS"
            with m.State("WINDOWS"):
                m.d.comb += [self.i.ready.eq(1), shifts.eq(window)]
                with m.If(window):
                    m.d.sync += [channel.eq(channel + lanes), chunk.eq(chunk + 1), at.eq(task.masks + number)]
                    with m.If(channel + lanes >= task.channels):
                        m.d.sync += [channel.eq(0), tiles.eq(tiles - 1)]
                        with m.If(tiles == 1):
                            m.d.sync += final.eq(1)
                            m.next = "FILL"
                    with m.If(chunk == WORD // lanes - 1):
                        m.next = "GIVE"
            with m.State("FILL"):
                # The rest of the last word's bits.
                m.d.comb += shifts.eq(1)
                m.d.sync += chunk.eq(chunk + 1)
                with m.If(chunk == WORD // lanes - 1):
                    m.next = "GIVE"
            with m.State("GIVE"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.d.sync += at.eq(at + task.pitch)
                    with m.If(ends):
                        m.d.sync += number.eq(number + 1)
                        m.next = "WINDOWS"
                        with m.If(final):
                            m.next = "IDLE"
