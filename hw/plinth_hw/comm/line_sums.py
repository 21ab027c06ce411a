"""Lines of flits times a matrix: a sum a cycle in each lane.

::

    line --> held --+--> choose --> scale --+--> + --+--> + --+--> o
                    +--> choose --> scale --+        |        |
                    +--> choose --> scale --+--> + --+        |
                    +--> choose --> scale --+                 |
                    +--> choose --> scale --+--> + --> delay -+
                    +--> choose --> scale --+

A row's terms (:func:`~plinth_hw.isa.winograd.terms`) are numbers of the line times powers of two; they are added two by
two, and these sums one after the other, as :mod:`plinth_sim.golden.winograd` says. Where a row has fewer terms, -0 is
added, which changes nothing. Adders do not wait: a sum is begun when there is a place for it behind them.

Throughput: a line in as many cycles as it has numbers, or sums if these are more. Latency: last number of a line to its
first sum 4 cycles and those of an adder for each pair of terms.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.adder import FloatAdder
from plinth_hw.arith.power import times_power
from plinth_hw.isa.formats import FP32
from plinth_hw.isa.winograd import Matrix, terms
from plinth_hw.lib.choice import select
from plinth_hw.lib.count import index_bits, stepped
from plinth_hw.lib.delay import DelayLine, delayed
from plinth_hw.lib.fifo import FIFO
from plinth_hw.lib.ram import SECTION

#: Sums that are under way, or wait: more than the adders' latency.
SUMS = 2 * SECTION
_MINUS_ZERO = 1 << FP32.bits - 1


def line_layout(words: data.ArrayLayout, matrices: int) -> data.StructLayout:
    """A flit of a line: ``data``, ``tag`` (number of the matrix), ``ends_line``."""
    return data.StructLayout({"data": words, "tag": unsigned(index_bits(matrices)), "ends_line": unsigned(1)})


def last_places(matrices: Sequence[Matrix], task: Any, *, results: bool) -> dict[str, Value]:
    """Last row and column of a block that a task's matrices are multiplied with, or, if ``results``, of the
    block that they make of it."""
    sizes = [len(matrix) - 1 if results else len(matrix[0]) - 1 for matrix in matrices]
    return {side: select(sizes, getattr(task, side)) for side in ("down", "across")}


class LineSums(wiring.Component):
    """Multiplies lines.

    Parameters
    ----------
    words : ArrayLayout
        Of a flit: FP32 numbers.
    matrices : sequence of Matrix
        Of integers; as many columns as a line has numbers.
    order : function
        From a row to its terms, in the order in which they are added.
    marked : bool
        There is a member ``marks``.

    Members
    -------
    marks : In(1)
        Of a term that is 0 the sign is that of its number, whatever its coefficient's: a sum is -0 if all numbers that
        it has a coefficient for are. Stable while there is something under way.
    i : In stream of :func:`line_layout`
    o : Out stream of ``words``
        Sums, row by row.

    Raises
    ------
    ValueError
        As :func:`~plinth_hw.isa.winograd.terms`.
    """

    def __init__(self, words: data.ArrayLayout, matrices: Sequence[Matrix],
                 order: Callable[[Sequence[Fraction]], list[tuple[int, int]]] = terms, marked: bool = False):
        self.words = words
        self.marked = marked
        self.matrices = tuple(matrices)
        self.rows = [[order(row) for row in matrix] for matrix in matrices]
        #: Numbers of a line, and its sums, at most; the largest factor of a term; pairs of terms.
        self.places = max(len(matrix[0]) for matrix in matrices)
        self.sums = max(len(matrix) for matrix in matrices)
        self.largest = max(abs(factor) for matrix in self.rows for row in matrix for _, factor in row)
        self.pairs = max(-(-len(row) // 2) for matrix in self.rows for row in matrix)
        super().__init__({
            "i": In(stream.Signature(line_layout(words, len(matrices)))),
            "o": Out(stream.Signature(words)), **({"marks": In(1)} if marked else {}),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        coming = [Signal(self.words, name=f"coming_{place}", reset_less=True) for place in range(self.places)]
        held = [Signal(self.words, name=f"held_{place}", reset_less=True) for place in range(self.places)]
        i, place = self.i.payload, Signal(range(self.places))
        matrix = Signal.like(i.tag, name="matrix")
        number = Signal(index_bits(self.sums), name="number")
        busy, begins, ends = Signal(name="busy"), Signal(name="begins"), Signal(name="ends")
        takes, whole, left = Signal(name="takes"), Signal(name="whole"), Signal(range(SUMS + 1), init=SUMS)
        last = Signal.like(number, name="last")
        with m.Switch(matrix):
            for index, rows in enumerate(self.matrices):
                with m.Case(index):
                    m.d.comb += last.eq(len(rows) - 1)
        m.d.comb += [
            begins.eq(busy & (left != 0)), ends.eq(begins & (number == last)),
            self.i.ready.eq(~i.ends_line | ~busy | ends),
            takes.eq(self.i.valid & self.i.ready), whole.eq(takes & i.ends_line),
        ]
        m.d.sync += left.eq(stepped(left, self.o.valid & self.o.ready, begins))
        with m.If(takes):
            m.d.sync += place.eq(Mux(i.ends_line, 0, place + 1))
            for at, number_coming in enumerate(coming):
                with m.If(place == at):
                    m.d.sync += number_coming.eq(i.data)
        with m.If(whole):
            m.d.sync += [busy.eq(1), number.eq(0), matrix.eq(i.tag)]
            for at, (number_held, number_coming) in enumerate(zip(held, coming, strict=True)):
                m.d.sync += number_held.eq(Mux(place == at, i.data, number_coming))
        with m.Elif(begins):
            m.d.sync += [busy.eq(~ends), number.eq(number + 1)]
        m.submodules.queue = queue = FIFO(self.words, SUMS)
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        sums, latency = self._sums(m, held, Cat(number, matrix))
        m.d.comb += [queue.i.payload.eq(Cat(sums)), queue.i.valid.eq(delayed(m, "begun", begins, latency))]
        return m

    def _sums(self, m: Module, held: list[Signal], row: Value) -> tuple[list[Value], int]:
        """Of each lane, the sum of a row's terms, and how many cycles later; ``row``: its matrix' number above its own.
        """
        lanes, number_bits = range(self.words.length), index_bits(self.sums)
        scaled_terms = []
        for term in range(2 * self.pairs):
            chosen = Signal(self.words, name=f"chosen_{term}", reset_less=True)
            power = Signal(index_bits(self.largest.bit_length()), name=f"power_{term}")
            negative, there = Signal(name=f"negative_{term}"), Signal(name=f"there_{term}")
            m.d.sync += there.eq(0)
            with m.Switch(row):
                for index, rows in enumerate(self.rows):
                    for at, those in enumerate(rows):
                        if term < len(those):
                            column, factor = those[term]
                            with m.Case(at | index << number_bits):
                                m.d.sync += [chosen.eq(held[column]), power.eq(abs(factor).bit_length() - 1),
                                             negative.eq(factor < 0), there.eq(1)]
            scaled = Signal(self.words, name=f"scaled_{term}", reset_less=True)
            for lane in lanes:
                turns = negative & (~self.marks | chosen[lane][:-1].any()) if self.marked else negative
                m.d.sync += scaled[lane].eq(Mux(there, times_power(FP32, chosen[lane], power, turns), _MINUS_ZERO))
            scaled_terms.append(scaled)
        totals, latency = [], 0
        for lane in lanes:
            total: Any = None
            for pair in range(self.pairs):
                m.submodules[f"pair_{lane}_{pair}"] = both = FloatAdder(FP32)
                m.d.comb += [both.a.eq(scaled_terms[2 * pair][lane]), both.b.eq(scaled_terms[2 * pair + 1][lane])]
                if total is None:
                    total, latency = both.o, both.latency
                    continue
                waits: Any = both.o
                if pair > 1:
                    m.submodules[f"delay_{lane}_{pair}"] = delay = DelayLine(FP32.bits, (pair - 1) * both.latency)
                    m.d.comb += delay.i.eq(both.o)
                    waits = delay.o
                m.submodules[f"adder_{lane}_{pair}"] = added = FloatAdder(FP32)
                m.d.comb += [added.a.eq(total), added.b.eq(waits)]
                total, latency = added.o, latency + added.latency
            totals.append(total)
        return totals, 2 + latency
