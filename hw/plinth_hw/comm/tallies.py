"""Sums of steps, of 32 bits, that share an adder.

::

    step_0, step_1, ... --> short counts --> one in turn --> + --> memory of sums --> o
                                                             ^------------+

A step is in its sum as many cycles later as there are sums, at most, and one. In as many cycles after reset zeros are
written beyond all sums.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.carry import Digits, table_sum
from plinth_hw.lib.choice import index_of, one_of
from plinth_hw.lib.count import index_bits

#: Bits of a sum.
SUM_BITS = 32


class Tallies(wiring.Component):
    """Counts steps of one and more.

    Parameters
    ----------
    sums : int
    most : int
        The largest step.

    Members
    -------
    step_0 ... : In
        By what a sum grows in this cycle.
    clear : In(sums)
        A sum begins anew, at its next turn in a later cycle; not from a step to the end of the sum's next turn.
    turn : Out(sums)
        One-hot: the sum that has all steps of earlier cycles from the next cycle on. None in as many cycles after reset
        as there are sums.
    index : In, o : Out(SUM_BITS)
        A sum, in the same cycle; of a sum's index and the highest bit, 0.
    """

    def __init__(self, sums: int, most: int):
        self._sums = range(sums)
        self._most = most
        super().__init__({
            **{f"step_{number}": In(range(most + 1)) for number in self._sums},
            "clear": In(sums), "turn": Out(sums),
            "index": In(index_bits(sums) + 1), "o": Out(SUM_BITS),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=unsigned(SUM_BITS), depth=1 << len(self.index), init=[])
        write, old, wanted = memory.write_port(), memory.read_port(domain="comb"), memory.read_port(domain="comb")
        counts = [Signal(range(len(self._sums) * self._most + 1), name=f"count_{number}") for number in self._sums]
        count, anew = Signal.like(counts[0], name="count"), Signal(name="anew")
        clears = Signal(len(self._sums), name="clears")
        # Whose turn it is; in the first turns after reset of what lies beyond, for which a sum's turn does not count.
        place, fresh = Signal(len(self._sums), init=1, name="place"), Signal(init=1, name="fresh")
        m.d.sync += [
            place.eq(Cat(place[-1], place)), fresh.eq(fresh & ~place[-1]),
            clears.eq((clears & ~self.turn) | self.clear),
            *(short.eq(Mux(self.turn[number], 0, short) + getattr(self, f"step_{number}"))
              for number, short in enumerate(counts)),
        ]
        m.d.comb += [
            self.turn.eq(Mux(fresh, 0, place)),
            count.eq(one_of(self.turn, counts)), anew.eq(fresh | (self.turn & clears).any()),
            old.addr.eq(Cat(index_of(place), fresh)), write.addr.eq(old.addr), write.en.eq(1),
            wanted.addr.eq(self.index), self.o.eq(wanted.data),
        ]
        low, high = old.data[:len(count)], old.data[len(count):]
        m.d.comb += write.data.eq(table_sum(m, platform, "sum", [
            Digits((low, anew, count), lambda total, anew, count: total & ~anew, lambda total, anew, count: count),
            Digits((high, anew), lambda total, anew: total & ~anew)]))
        return m
