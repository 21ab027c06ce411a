"""Neurons that may be above 0, of what is known of a tile's elements (:mod:`plinth_sim.golden.prediction`).

::

    high, low --> turn --> sums --> turn --> sums --> + bias --+--H--> wait --> above 0, and not below --> live
                    columns, H and L      rows, H and L (+ map) +--L--> largest of windows ---^

A line is that of the highest values, then that of the lowest; a matrix with a column for each takes of an element what
the sign of its coefficient asks for, in the order of the gather's sums, so that what is found is at least what the
gather finds of any elements in between; likewise what is found of the lowest is at most that. Before a max-pool of 2x2
a neuron waits for the largest of its window's lowest values above 0, of which only the magnitude counts.

Throughput: a window of T x T' elements in 2 T T' cycles. Latency: a window, that of two
:class:`~plinth_hw.comm.line_sums.LineSums` and of an adder, or two with a map, and four cycles.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.adder import FloatAdder
from plinth_hw.comm.block_turn import BlockTurn, Order
from plinth_hw.comm.codes.window_walk import grid_walk
from plinth_hw.comm.line_sums import LineSums, last_places
from plinth_hw.isa.codes import FRACTION_BITS
from plinth_hw.isa.formats import FP32
from plinth_hw.isa.winograd import Matrix, terms
from plinth_hw.lib.choice import select
from plinth_hw.lib.count import index_bits, stepped
from plinth_hw.lib.delay import DelayLine, delayed
from plinth_hw.lib.fifo import FIFO

#: Neurons that are under way, or wait: of more than two rows.
PLACES = 16
MAGNITUDE = unsigned(FP32.bits - 1)
_HIGH = data.StructLayout({"magnitude": MAGNITUDE, "above": 1})
#: A sum: ``above`` 0, as a highest value; ``zero``, what a lowest one that is not above 0 counts as.
_SUM = data.StructLayout({"magnitude": MAGNITUDE, "above": 1, "zero": 1})
#: What is added to neurons of windows that are not yet summed: of four of the largest.
ADDED = 64


def ends_matrix(matrix: Matrix, low: bool) -> Matrix:
    """Of the highest values of a line, then its lowest: the highest sums of a matrix, and, if ``low``, the lowest."""
    above, below = ([[pick(value, Fraction(0)) for value in row] for row in matrix] for pick in (max, min))
    high = tuple((*left, *right) for left, right in zip(above, below, strict=True))
    return high + tuple((*left, *right) for left, right in zip(below, above, strict=True)) if low else high


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
    pools : In(1)
        As these: neurons below another of their window of 2x2 are dead, too; both matrices make an even number.
    window : In stream of ``words``
        Taken before its elements: what is added to each neuron.
    adds : In(1)
        As these: something is added behind that; it does not pool.
    added : In stream of ``words``
        That, of each neuron, row by row, behind the window's elements.
    i : In stream of ``words``
        Of each element, row by row of a tile, the highest value, then the lowest.
    o : Out stream of a bit a word
        Of each neuron, row by row, whether it may be above 0, or no number.
    """

    def __init__(self, words: data.ArrayLayout, matrices: Sequence[Matrix]):
        self.words = words
        self.matrices = tuple(matrices)
        #: Of a tile, each way, at most.
        self.neurons = max(len(matrix) for matrix in self.matrices)
        self.place = data.StructLayout({"column": unsigned(index_bits(self.neurons)), "odd": 1, "low": 1, "last": 1})
        number, flit = In(range(len(self.matrices))), stream.Signature(words)
        super().__init__({"down": number, "across": number, "pools": In(1), "window": In(flit), "adds": In(1),
                          "added": In(flit), "i": In(flit), "o": Out(stream.Signature(unsigned(words.length)))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        places = max(len(matrix[0]) for matrix in self.matrices)
        number = unsigned(index_bits(len(self.matrices)))
        m.submodules.before = before = BlockTurn(self.words, places, 2, number)
        m.submodules.between = between = BlockTurn(self.words, places, 2, number)
        m.submodules.first = first = LineSums(
            self.words, [ends_matrix(matrix, True) for matrix in self.matrices], by_element)
        m.submodules.second = second = LineSums(
            self.words, [ends_matrix(matrix, True) for matrix in self.matrices], by_element)
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
        rows = last_places(self.matrices, self, results=True)["down"]
        columns = last_places(self.matrices, self, results=False)
        m.submodules.added = added = FIFO(self.words, PLACES)
        receivers = (before.block, between.block, added.i)
        m.d.comb += self.window.ready.eq(Cat(receiver.ready for receiver in receivers).all())
        for turn, put, get, tag, down in ((before, Order.PLACES, Order.DOWN, self.down, columns["down"]),
                                          (between, Order.DOWN, Order.ACROSS, self.across, rows)):
            block = turn.block.payload
            m.d.comb += [block.put.eq(put), block.get.eq(get), block.tag.eq(tag), block.sizes.down.eq(down),
                         block.sizes.across.eq(columns["across"]), block.sizes.sectors.eq(1)]
        for receiver in receivers:
            others = Cat(other.ready for other in receivers if other is not receiver)
            m.d.comb += receiver.valid.eq(self.window.valid & others.all())
        m.d.comb += added.i.payload.eq(self.window.payload)
        self._add(m, second, added)
        return m

    def _add(self, m: Module, second: LineSums, added: FIFO) -> None:
        """What is added to a window's neurons, and what they are then."""
        left, takes = Signal(range(PLACES + 1), init=PLACES, name="left"), Signal(name="takes")
        place, ends = self._place(m, takes)
        m.submodules.of_map = of_map = FIFO(self.words, ADDED)
        wiring.connect(m, wiring.flipped(self.added), of_map.i)
        m.d.comb += [
            # Highest values alone wait for others, and are above 0 or not by what is added.
            second.o.ready.eq(added.o.valid & (place.low | ((left != 0) & (~self.adds | of_map.o.valid)))),
            takes.eq(second.o.valid & second.o.ready), added.o.ready.eq(takes & ends),
            of_map.o.ready.eq(takes & self.adds & ~place.low),
        ]
        # What comes out of the FIFOs is added from registers.
        words = [Signal(self.words, name=f"{name}_operand", reset_less=True) for name in ("sum", "added", "map")]
        m.d.sync += [word.eq(queue.payload) for word, queue in zip(words, (second.o, added.o, of_map.o), strict=True)]
        m.d.sync += left.eq(stepped(left, self.o.valid & self.o.ready, takes & ~place.low))
        adders, map_adders = ([FloatAdder(FP32) for _ in range(self.words.length)] for _ in range(2))
        latency, sums = adders[0].latency, Signal(self.words, name="with_added")
        m.submodules.later = later = DelayLine(self.words, latency)
        m.d.comb += later.i.eq(words[2])
        for lane, (adder, map_adder) in enumerate(zip(adders, map_adders, strict=True)):
            m.submodules[f"adder_{lane}"], m.submodules[f"map_adder_{lane}"] = adder, map_adder
            m.d.comb += [adder.a.eq(words[0][lane]), adder.b.eq(words[1][lane]), map_adder.a.eq(adder.o),
                         map_adder.b.eq(later.o[lane]), sums[lane].eq(Mux(self.adds, map_adder.o, adder.o))]
        biased, of_biased = delayed(m, "taken", takes, 1 + latency), delayed(m, "place", place, 1 + latency)
        valid, of_sum = Signal(name="sum_valid"), Signal(self.place, name="place_of_sum")
        m.d.comb += [valid.eq(Mux(self.adds, delayed(m, "biased", biased, latency), biased)),
                     of_sum.eq(Mux(self.adds, delayed(m, "of_biased", of_biased, latency), of_biased))]
        self._compare(m, sums, valid, of_sum)

    def _place(self, m: Module, takes: Signal) -> tuple[Any, Value]:
        """What a sum is of: the column of its neuron, whether that one's row is odd, whether it is its lowest value, of
        the last column; whether it is the window's last sum."""
        last, bits = last_places(self.matrices, self, results=True), index_bits(self.neurons)
        row, place = Signal(bits, name="sum_row"), Signal(self.place, name="sum_place")
        low, column, ends_row = grid_walk(m, "sum", takes, {"down": Const(1), "across": last["across"]}, bits)
        with m.If(takes & ends_row):
            m.d.sync += row.eq(Mux(row == last["down"], 0, row + 1))
        m.d.comb += [place.column.eq(column), place.odd.eq(row[0]), place.low.eq(low),
                     place.last.eq(column == last["across"])]
        return place, ends_row & (row == last["down"])

    def _compare(self, m: Module, sums: Any, valid: Value, place: Any) -> None:
        """Neurons that live: of highest values above 0, and, before a pool, not below the largest lowest value of their
        window, which comes behind them."""
        lanes, halves, bits = range(self.words.length), range(self.neurons // 2), index_bits(self.neurons)
        m.submodules.highs = highs = FIFO(data.ArrayLayout(_HIGH, self.words.length), PLACES)
        m.submodules.live = live = FIFO(unsigned(self.words.length), PLACES)
        wiring.connect(m, live.o, wiring.flipped(self.o))
        # A sum and what it is of.
        found = Signal(data.ArrayLayout(_SUM, self.words.length), name="found", reset_less=True)
        found_valid, found_place = Signal(name="found_valid"), Signal(self.place, name="found_place", reset_less=True)
        m.d.sync += [found_valid.eq(valid), found_place.eq(place)]
        coming, known = ([Signal(data.ArrayLayout(MAGNITUDE, self.words.length), name=f"{name}_{half}")
                          for half in halves] for name in ("coming", "known"))
        complete, waits, pops = (Signal(name=name, init=name == "waits") for name in ("complete", "waits", "pops"))
        last = last_places(self.matrices, self, results=True)
        row, column, _ = grid_walk(m, "neuron", pops, last, bits)
        largest = select([largest_low.as_value() for largest_low in known], column[1:])
        m.d.comb += [highs.i.valid.eq(found_valid & ~found_place.low), live.i.valid.eq(pops), highs.o.ready.eq(pops),
                     pops.eq(highs.o.valid & ~(self.pools & waits))]
        begins = ~found_place.odd & ~found_place.column[0]
        for lane in lanes:
            magnitude, negative, none = sums[lane][:-1], sums[lane][-1], Signal(name=f"none_{lane}")
            low, high, read = Signal(MAGNITUDE, name=f"low_{lane}"), highs.i.payload[lane], highs.o.payload[lane]
            m.d.comb += none.eq(sums[lane][FRACTION_BITS:-1].all() & sums[lane][:FRACTION_BITS].any())
            m.d.sync += [
                found[lane].magnitude.eq(magnitude), found[lane].above.eq((magnitude != 0) & (~negative | none)),
                found[lane].zero.eq(negative | none),
            ]
            m.d.comb += [
                low.eq(Mux(found[lane].zero, 0, found[lane].magnitude)), high.magnitude.eq(found[lane].magnitude),
                high.above.eq(found[lane].above),
                # What is no number is larger than all that are.
                live.i.payload[lane].eq(read.above & ~(self.pools & (
                    read.magnitude < largest.word_select(lane, MAGNITUDE.width)))),
            ]
            for half, largest_low in enumerate(coming):
                with m.If(found_valid & found_place.low & (found_place.column[1:] == half)
                          & (begins | (low > largest_low[lane]))):
                    m.d.sync += largest_low[lane].eq(low)
        m.d.sync += complete.eq(self.pools & found_valid & found_place.low & found_place.odd & found_place.last)
        with m.If(complete):
            m.d.sync += [waits.eq(0), *(old.eq(new) for old, new in zip(known, coming, strict=True))]
        with m.Elif(pops & row[0] & (column == last["across"])):
            m.d.sync += waits.eq(1)
