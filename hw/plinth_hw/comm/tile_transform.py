"""Transforms of tiles: a matrix down and a matrix across, of flits as they pass.

::

    block --+-----------+------------+
            v           v            v
    i --> turn --> sums --> turn --> sums --> turn --> o
              lines one way    lines the other

A block has a flit, the words of as many channels, or several of them (sectors) at each place of a window or tile, in
the order of memory: down, across, sectors. It goes through a matrix each way, X = M d M'^T, one first or the other, bit
for bit as :mod:`plinth_sim.golden.winograd` says. Which matrices there are is a parameter; with 1 among them there are
halves of transforms.

Whether a result of 0 has a cause is the sign of zeros on their way: +0 goes in as -0 and -0 as +0, and coefficients
leave signs of zeros as they are, so that a sum is -0 if there is nothing in it, and +0 if it has come to 0; both are
turned again where they leave.

Throughput: a flit a cycle in, or out, whichever are more, of each direction. Latency: last flit of a block in to its
first one out the flits of the block in between and of the one out, those of two
:class:`~plinth_hw.comm.line_sums.LineSums`, and some 10 cycles: 170 for a window of F(2,3) of two sectors. Source: MPT
section VI.A, Figure 13.
"""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.block_turn import BlockTurn, Order
from plinth_hw.comm.flit import payload_layout
from plinth_hw.comm.line_sums import LineSums, last_places
from plinth_hw.isa.formats import FP32
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.winograd import Matrix
from plinth_hw.lib.count import index_bits


def tile_block_layout(parameters: DieParameters, matrices: int) -> data.StructLayout:
    """A block: numbers of its matrices, ``down`` and ``across``; whether ``down`` comes first; ``sectors`` less one."""
    number = unsigned(index_bits(matrices))
    return data.StructLayout({
        "down": number, "across": number, "down_first": unsigned(1),
        "sectors": unsigned(index_bits(parameters.beat_words // parameters.flit_words))})


class TileTransform(wiring.Component):
    """Transforms blocks.

    Parameters
    ----------
    parameters : DieParameters
        Of FP32.
    matrices : sequence of Matrix
        Of integers.

    Members
    -------
    block : In stream of :func:`tile_block_layout`
    i, o : In and Out stream of flits' words
        Of each block ``reach`` down x ``reach`` across places of the matrices' columns in, and as many as they have
        rows out.
    marks : In(1)
        Of dies with codes: results of 0 are -0 if they have a cause
        (:class:`~plinth_hw.isa.transfer_bodies.TransformBody`). Stable while a block is under way.

    Raises
    ------
    TypeError
        If the die's format is not FP32.
    """

    def __init__(self, parameters: DieParameters, matrices: Sequence[Matrix]):
        if parameters.memory_format != FP32:
            raise TypeError(f"tiles are transformed in FP32, not {parameters.memory_format}")
        self.parameters = parameters
        self.matrices = tuple(matrices)
        self.words = payload_layout(parameters)
        super().__init__({
            "block": In(stream.Signature(tile_block_layout(parameters, len(matrices)))),
            "i": In(stream.Signature(self.words)), "o": Out(stream.Signature(self.words)),
            **({"marks": In(1)} if parameters.codes else {}),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parameters, matrices = self.parameters, self.matrices
        places = max(max(len(matrix), len(matrix[0])) for matrix in matrices)
        sectors = parameters.beat_words // parameters.flit_words
        number = unsigned(index_bits(len(matrices)))
        m.submodules.before = before = BlockTurn(self.words, places, sectors, number)
        m.submodules.between = between = BlockTurn(self.words, places, sectors, number)
        m.submodules.behind = behind = BlockTurn(self.words, places, sectors, number)
        m.submodules.first = first = LineSums(self.words, matrices, marked=parameters.codes)
        m.submodules.second = second = LineSums(self.words, matrices, marked=parameters.codes)
        if parameters.codes:
            m.d.comb += [before.i.payload.eq(self._turned(self.i.payload)), before.i.valid.eq(self.i.valid),
                         self.i.ready.eq(before.i.ready), *(sums.marks.eq(self.marks) for sums in (first, second))]
        else:
            wiring.connect(m, wiring.flipped(self.i), before.i)
        for turn, sums, following in ((before, first, between), (between, second, behind)):
            wiring.connect(m, turn.o, sums.i)
            wiring.connect(m, sums.o, following.i)
        m.d.comb += [self.o.payload.eq(self._turned(behind.o.payload.data)), self.o.valid.eq(behind.o.valid),
                     behind.o.ready.eq(self.o.ready)]

        block, turns = self.block.payload, (before, between, behind)
        columns, rows = ({side: Signal(range(places), name=f"{side}_{many}") for side in ("down", "across")}
                         for many in ("columns", "rows"))
        last_columns, last_rows = (last_places(matrices, block, results=results) for results in (False, True))
        for side in ("down", "across"):
            m.d.comb += [columns[side].eq(last_columns[side]), rows[side].eq(last_rows[side])]
        by_down, by_across = Cat(Order.DOWN), Cat(Order.ACROSS)
        one_way, other_way = (Mux(block.down_first, *orders) for orders in ((by_down, by_across), (by_across, by_down)))
        turned = {"down": block.down_first, "across": ~block.down_first}  # in between, that way's matrix is behind
        for turn, put, get, tag, sizes in (
                (before, Cat(Order.PLACES), one_way, Mux(block.down_first, block.down, block.across), columns),
                (between, one_way, other_way, Mux(block.down_first, block.across, block.down),
                 {side: Mux(turned[side], rows[side], columns[side]) for side in columns}),
                (behind, other_way, Cat(Order.PLACES), 0, rows)):
            turned_block = turn.block.payload
            others = Cat(other.block.ready for other in turns if other is not turn)
            m.d.comb += [
                Cat(turned_block.put).eq(put), Cat(turned_block.get).eq(get), turned_block.tag.eq(tag),
                turned_block.sizes.sectors.eq(block.sectors),
                *(turned_block.sizes[side].eq(size) for side, size in sizes.items()),
                turn.block.valid.eq(self.block.valid & others.all()),
            ]
        m.d.comb += self.block.ready.eq(Cat(turn.block.ready for turn in turns).all())
        return m

    def _turned(self, words: Any) -> Any:
        """Words, with the signs of zeros turned if results are marked."""
        if not self.parameters.codes:
            return words
        lanes = [words[number] for number in range(self.words.length)]
        return Cat(Cat(word[:-1], word[-1] ^ (self.marks & ~word[:-1].any())) for word in lanes)
