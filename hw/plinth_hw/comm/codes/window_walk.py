"""Where a window of a prediction lies among the tiles of its task, and among those of a map.

A window is a flit of channels of one tile: channel by channel of a tile, tile by tile of a row of a map's tiles, row by
row, map by map. Throughput: a window a cycle.
"""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.comm.codes.bits import WORD
from plinth_hw.comm.codes.block import LEVEL
from plinth_hw.comm.codes.regions import NUMBER
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.winograd import Matrix
from plinth_hw.lib.choice import select
from plinth_hw.lib.count import index_bits

#: Bits of a map's side.
SIDE_BITS = 16
#: What a window is the last one of: channels of its ``tile``; tiles of a ``row``; of a ``map``; of the ``task``. Those
#: of ``row`` and ``map`` count where it is the last one of its tile.
WINDOW_ENDS = data.StructLayout(dict.fromkeys(("tile", "row", "map", "task"), unsigned(1)))


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


def predicted_layout(parameters: DieParameters, matrices: int) -> data.StructLayout:
    """A task: ``fills``, ``bias``, ``masks``: first words; ``element`` and ``tile``: words from one to the next,
    ``pitch`` of masks; ``tiles``, ``channels``; ``level``; log2 n of ``regions``, whose units are whole tiles, or 0;
    matrices' numbers ``down`` and ``across``; ``pools``: a max-pool follows; ``bounded``: tiles are those of maps of
    ``map_rows`` x ``map_columns`` neurons; ``adds``: to these are added the places of ``maps``, first word, one
    ``below`` and to the ``right`` of another by so many words, and ``map_pitch`` from map to map. Channels are whole
    flits."""
    address, word, number = unsigned(parameters.address_bits), unsigned(WORD), unsigned(index_bits(matrices))
    return data.StructLayout({
        **dict.fromkeys(("fills", "bias", "masks", "maps"), address),
        **dict.fromkeys(("element", "tile", "pitch", "tiles", "channels", "below", "right", "map_pitch"), word),
        "level": LEVEL, "regions": NUMBER, "down": number, "across": number,
        **dict.fromkeys(("pools", "bounded", "adds"), unsigned(1)),
        **dict.fromkeys(("map_rows", "map_columns"), unsigned(SIDE_BITS))})


class WindowWalk(wiring.Component):
    """Walks the windows of a task.

    Parameters
    ----------
    parameters : DieParameters
    matrices : sequence of Matrix
        A^T of transforms, and 1.

    Members
    -------
    start : In(1)
        Pulse: ``task`` is there, and stable while it is walked; the first window comes in the next cycle.
    task : In, :func:`predicted_layout`
    moves : In(1)
        On to the next window.
    ends : Out, :data:`WINDOW_ENDS`
        Of the window.
    rows, columns : Out
        A bit for each row, or column, of the tile's neurons: it lies in the map, if tiles are bounded.
    """

    def __init__(self, parameters: DieParameters, matrices: Sequence[Matrix]):
        self.parameters = parameters
        self.matrices = tuple(matrices)
        neurons = unsigned(max(map(len, self.matrices)))
        super().__init__({
            "start": In(1), "task": In(predicted_layout(parameters, len(self.matrices))), "moves": In(1),
            "ends": Out(WINDOW_ENDS), "rows": Out(neurons), "columns": Out(neurons)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        task, ends, ends_tile = self.task, self.ends, Signal(name="moves_from_tile")
        channels, tiles = (Signal(WORD, name=f"{name}_left") for name in ("channels", "tiles"))
        flits = task.channels[exact_log2(self.parameters.flit_words):]
        m.d.comb += [ends.tile.eq(channels == 1), ends.task.eq(ends.tile & (tiles == 1)),
                     ends_tile.eq(self.moves & ends.tile)]
        with m.If(self.start):
            m.d.sync += [channels.eq(flits), tiles.eq(task.tiles)]
        with m.Elif(self.moves):
            m.d.sync += [channels.eq(Mux(ends.tile, flits, channels - 1)), tiles.eq(tiles - ends.tile)]
        self._side(m, "columns", task.across, task.map_columns, ends_tile, ends.row)
        self._side(m, "rows", task.down, task.map_rows, ends_tile & ends.row, ends.map)
        return m

    def _side(self, m: Module, name: str, matrix: Value, places: Value, moves: Value, ends: Any) -> None:
        """Rows, or columns, of the map from the tile's first one on; one tile ``ends`` them."""
        left = Signal(SIDE_BITS, name=f"{name}_left")
        neurons = select([len(known) for known in self.matrices], matrix)
        lie = getattr(self, name)
        m.d.comb += [ends.eq(left <= neurons),
                     lie.eq(Cat(~self.task.bounded | (left > place) for place in range(len(lie))))]
        with m.If(self.start | (moves & ends)):
            m.d.sync += left.eq(places)
        with m.Elif(moves):
            m.d.sync += left.eq(left - neurons)
