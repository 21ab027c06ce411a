"""Neurons that may be above 0, of what is known of a tile's elements (:mod:`plinth_sim.golden.prediction`).

::

    high, low --> turn --> sums --> turn --> sums --> + bias --> live
                    columns, H and L      rows, H

A line is that of the highest values, then that of the lowest; a matrix with a column for each takes of an element what
the sign of its coefficient asks for, in the order of the gather's sums, so that what is found is at least what the
gather finds of any elements in between.

Throughput: a window of T x T' elements in 2 T T' cycles. Latency: a window, and that of two
:class:`~plinth_hw.comm.line_sums.LineSums`.
"""

from collections.abc import Sequence
from fractions import Fraction

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.adder import FloatAdder
from plinth_hw.comm.block_turn import BlockTurn, Order
from plinth_hw.comm.codes.masks import grid_walk, last_places
from plinth_hw.comm.line_sums import LineSums
from plinth_hw.isa.codes import FRACTION_BITS
from plinth_hw.isa.formats import FP32
from plinth_hw.isa.winograd import Matrix, terms
from plinth_hw.lib.count import index_bits, stepped
from plinth_hw.lib.delay import delayed
from plinth_hw.lib.fifo import FIFO

#: Neurons that are under way, or wait.
PLACES = 16


def ends_matrix(matrix: Matrix, low: bool) -> Matrix:
    """Of the highest values of a line, then its lowest: the highest sums of a matrix, and, if ``low``, the lowest."""
    above, below = ([[pick(value, Fraction(0)) for value in row] for row in matrix] for pick in (max, min))
    high = tuple((*one, *other) for one, other in zip(above, below, strict=True))
    return high + tuple((*one, *other) for one, other in zip(below, above, strict=True)) if low else high


def by_element(row: Sequence[Fraction]) -> list[tuple[int, int]]:
    """Terms of a row of :func:`ends_matrix` in the order of the line's elements."""
    return sorted(terms(row), key=lambda term: term[0] % (len(row) // 2))


class LiveNeurons(wiring.Component):
    """Finds them.

    Parameters
    ----------
    words : ArrayLayout
        Of a flit: FP32 numbers.
    matrices : sequence of Matrix
        A^T of transforms, and 1.

    Members
    -------
    down, across : In
        Numbers of the matrices; stable while there is something under way.
    window : In stream of ``words``
        Taken before its elements: what is added to each neuron.
    i : In stream of ``words``
        Of each element, row by row of a tile, the highest value, then the lowest.
    o : Out stream of a bit a word
        Of each neuron, row by row, whether it may be above 0, or no number.
    """

    def __init__(self, words: data.ArrayLayout, matrices: Sequence[Matrix]):
        self.words = words
        self.matrices = tuple(matrices)
        number, flit = In(range(len(self.matrices))), stream.Signature(words)
        super().__init__({"down": number, "across": number, "window": In(flit), "i": In(flit),
                          "o": Out(stream.Signature(unsigned(words.length)))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        places = max(len(matrix[0]) for matrix in self.matrices)
        number = unsigned(index_bits(len(self.matrices)))
        m.submodules.before = before = BlockTurn(self.words, places, 2, number)
        m.submodules.between = between = BlockTurn(self.words, places, 2, number)
        m.submodules.first = first = LineSums(
            self.words, [ends_matrix(matrix, True) for matrix in self.matrices], by_element)
        m.submodules.second = second = LineSums(
            self.words, [ends_matrix(matrix, False) for matrix in self.matrices], by_element)
        wiring.connect(m, wiring.flipped(self.i), before.i)
        wiring.connect(m, first.o, between.i)
        for name, turn, sums in (("before", before, first), ("between", between, second)):
            # The lowest values' half of a line ends it.
            half = Signal(name=f"{name}_half")
            m.d.comb += [
                sums.i.valid.eq(turn.o.valid), turn.o.ready.eq(sums.i.ready),
                *(sums.i.payload[part].eq(turn.o.payload[part]) for part in ("data", "tag")),
                sums.i.payload.ends_line.eq(turn.o.payload.ends_line & half),
            ]
            with m.If(turn.o.valid & turn.o.ready & turn.o.payload.ends_line):
                m.d.sync += half.eq(~half)
        rows = last_places(self.matrices, self, neurons=True)["down"]
        columns = last_places(self.matrices, self, neurons=False)
        m.submodules.added = added = FIFO(self.words, PLACES)
        receivers = (before.block, between.block, added.i)
        m.d.comb += self.window.ready.eq(Cat(one.ready for one in receivers).all())
        for turn, put, get, tag, down in ((before, Order.PLACES, Order.DOWN, self.down, columns["down"]),
                                          (between, Order.DOWN, Order.ACROSS, self.across, rows)):
            block = turn.block.payload
            m.d.comb += [block.put.eq(put), block.get.eq(get), block.tag.eq(tag), block.sizes.down.eq(down),
                         block.sizes.across.eq(columns["across"]), block.sizes.sectors.eq(1)]
        for one in receivers:
            others = Cat(other.ready for other in receivers if other is not one)
            m.d.comb += one.valid.eq(self.window.valid & others.all())
        m.d.comb += added.i.payload.eq(self.window.payload)
        self._add(m, second, added)
        return m

    def _add(self, m: Module, second: LineSums, added: FIFO) -> None:
        """What is added to a window's neurons, and what they are then."""
        left, takes = Signal(range(PLACES + 1), init=PLACES, name="left"), Signal(name="takes")
        *_, ends = grid_walk(m, "neuron", takes, last_places(self.matrices, self, neurons=True),
                             index_bits(max(len(matrix) for matrix in self.matrices)))
        m.submodules.live = live = FIFO(unsigned(self.words.length), PLACES)
        wiring.connect(m, live.o, wiring.flipped(self.o))
        m.d.comb += [
            second.o.ready.eq(added.o.valid & (left != 0)), takes.eq(second.o.valid & second.o.ready),
            added.o.ready.eq(takes & ends),
        ]
        m.d.sync += left.eq(stepped(left, self.o.valid & self.o.ready, takes))
        latency = 0
        for lane in range(self.words.length):
            m.submodules[f"adder_{lane}"] = adder = FloatAdder(FP32)
            latency = adder.latency
            magnitude, none = adder.o[:-1], adder.o[FRACTION_BITS:-1].all() & adder.o[:FRACTION_BITS].any()
            m.d.comb += [adder.a.eq(second.o.payload[lane]), adder.b.eq(added.o.payload[lane]),
                         live.i.payload[lane].eq((magnitude != 0) & (~adder.o[-1] | none))]
        m.d.comb += live.i.valid.eq(delayed(m, "taken", takes, latency))
