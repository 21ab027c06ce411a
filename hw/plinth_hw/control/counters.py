"""Performance counters: many 64-bit sums, their low bits in registers, the sums in one delay line.

::

    increment_0 --> part_0 --+                                +--------------+
    increment_1 --> part_1 --+--> one visited at a time --> + | delay line: low, high word of each, as long as a sweep
        ...                  |                                +--------------+
    increment_n --> part_n --+

Each counter has a short register, the low bits of its sum, which adds every cycle. A sweep visits one counter
after another, two cycles each, and brings its sum up to its register; the registers are long enough
for a sweep to pass in between. Sums are only ever used in turn, so they go round in look-up-table RAM, without a choice
among its parts. A read takes the sum when its turn comes, within a sweep and 4 cycles, and is
exact. After reset, and on ``clear``, the sums are cleared in one sweep; what is counted meanwhile is lost.
"""

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from plinth_hw.lib.choice import one_registered, select
from plinth_hw.lib.delay import DelayLine

#: Cycles of a visit.
VISIT_CYCLES = 2
#: Fewest visits of a sweep: a sum is written before it is read again.
_FEWEST = 2


class PerformanceCounters(wiring.Component):
    """64-bit counters.

    Parameters
    ----------
    bits : sequence of int
        Width of each counter's increment, 0 of one that stays 0; with the bits of a sweep's length at most 32.

    Members
    -------
    increment_0 ... : In
        Added in every cycle; only those that have a width.
    clear : In(1)
        Pulse: set all counters to 0.
    read_valid, read_ready : In(1), Out(1)
        Read one counter; held until ready.
    read_index : In
        Which one, stable while ``read_valid``.
    read_data : Out(64)
        Its value, valid with ``read_ready``: all increments up to 3 cycles before.

    Raises
    ------
    ValueError
        If there is no counter, or an increment has a negative width or is too wide.
    """

    def __init__(self, bits: Sequence[int]) -> None:
        if not bits or any(width < 0 for width in bits):
            raise ValueError(f"Increments need widths of at least 0, not {bits!r}")
        #: Bits of the cycles of a sweep.
        self.sweep_bits = ceil_log2(max(_FEWEST, len(bits)) * VISIT_CYCLES)
        if max(bits) + self.sweep_bits > 32:
            raise ValueError(f"Increments of {len(bits)} counters may have at most "
                             f"{32 - self.sweep_bits} bits, not {max(bits)}")
        self.bits = tuple(bits)
        super().__init__({
            **{f"increment_{i}": In(width) for i, width in enumerate(self.bits) if width},
            "clear": In(1),
            "read_valid": In(1),
            "read_ready": Out(1),
            "read_index": In(range(max(2, len(self.bits)))),
            "read_data": Out(64),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        visits = max(_FEWEST, len(self.bits))
        place = Signal(1 + len(self.read_index))  # word that is visited: 0 the low one, 1 the high one; counter
        clearing = Signal(init=1)
        # From the cycle in which a sum is ready to the one in which it is needed again.
        m.submodules.sums = sums = DelayLine(32, VISIT_CYCLES * visits - 1)

        wraps, visited = Signal(name="wraps"), Signal(VISIT_CYCLES * visits, init=1, name="visited")
        parts: list[Value] = []
        for i, width in enumerate(self.bits):
            if width:
                total = Signal(width + self.sweep_bits, name=f"part_{i}")
                m.d.sync += total.eq(Mux(clearing, 0, total + getattr(self, f"increment_{i}")))
                parts.append(total)
            else:
                parts.append(Const(0))
        counted = [i for i, width in enumerate(self.bits) if width]

        # A word passes in three cycles: chosen; there; added to and written. The lowest bits of a low word's
        # sum are those of the part, which has moved on by less than its range.
        part = Signal(max(len(part) for part in parts))
        moved = Signal.like(part)
        word, addend, total = Signal(32, name="word"), Signal.like(part, name="addend"), Signal(33, name="total")
        low = Signal(32)
        second, clears = Signal.like(place, name="second"), Signal(name="clears")
        found = Signal(3)  # in each stage: the counter to read, in the last one its high word
        ranges = Cat(select([Const(len(part) > bit) for part in parts], second[1:]) for bit in range(len(part)))
        m.d.comb += [
            part.eq(one_registered(m, "held", [visited[VISIT_CYCLES * i] for i in counted],
                                   [parts[i] for i in counted])),
            moved.eq((part - sums.o) & ranges),
            total.eq(word + addend), sums.i.eq(total),
            wraps.eq(place == VISIT_CYCLES * visits - 1),
            self.read_data.eq(Cat(low, total[:32])),
            self.read_ready.eq(found[2]),
        ]
        m.d.sync += [
            second.eq(place), clears.eq(clearing), visited.eq(Cat(wraps, visited)),
            word.eq(Mux(clears, 0, sums.o)),
            addend.eq(Mux(clears, 0, Mux(second[0], total[32], moved))),
            low.eq(total), found.eq(Cat(self.read_valid & (place == Cat(Const(0, 1), self.read_index)), found)),
            place.eq(place + 1),
        ]
        with m.If(wraps):
            m.d.sync += [place.eq(0), clearing.eq(0)]
        with m.If(self.clear):
            m.d.sync += [place.eq(0), visited.eq(1), clearing.eq(1)]
        return m


class BusyPeriod(wiring.Component):
    """First and last busy cycle since the counters were cleared; 0 before the first.

    Members
    -------
    busy, clear : In(1)
        The engine works in this cycle; forget.
    cycle : In(32)
        Time.
    first, last : Out(32)
        Cycles.
    """

    busy: In(1)
    clear: In(1)
    cycle: In(32)
    first: Out(32)
    last: Out(32)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        seen = Signal()
        with m.If(self.clear):
            m.d.sync += [seen.eq(0), self.first.eq(0), self.last.eq(0)]
        with m.Elif(self.busy):
            m.d.sync += [seen.eq(1), self.last.eq(self.cycle)]
            with m.If(~seen):
                m.d.sync += self.first.eq(self.cycle)
        return m
