"""Performance counters: many 64-bit sums, their low bits in registers, the sums in one delay line.

::

    increment_0 -----> part_0 --+                              +--------------+
    increment_1 -----> part_1 --+-> one visited at a time -> + | delay line: low, high word of each, as long as a sweep
        ...                     |                              +--------------+
    increment_n-2 -+-> parts ---+
    increment_n-1 -+

Each counter has a short part, which adds every cycle and wraps around. A sweep visits one counter after another, two
cycles each, and adds to its sum what the part has moved on by since the visit before; parts are long enough for a sweep
to pass in between. Sums, and the parts that they were brought up to, are only ever used in turn, so they go round in
look-up-table RAM, without a choice among its parts. Parts of counters of which at most one counts in a cycle share an
adder, and lie in look-up-table RAM; of all others each is a register. A read takes the sum when its turn comes, within
a sweep and 5 cycles, and is exact. After reset, and on ``clear``, the sums are cleared in one sweep; what is counted
before a counter's turn is lost.
"""

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from plinth_hw.lib.choice import one_registered, select
from plinth_hw.lib.delay import DelayLine
from plinth_hw.lib.ram import LUT_RAM

#: Cycles of a visit.
VISIT_CYCLES = 2
#: Fewest visits of a sweep: a read has its answer before its counter's turn comes again.
_FEWEST = 3


class PerformanceCounters(wiring.Component):
    """64-bit counters.

    Parameters
    ----------
    bits : sequence of int
        Width of each counter's increment, 0 of one that stays 0; with the bits of a sweep's length at most 32.
    exclusive : sequence of range
        Counters of one bit, of which at most one counts in a cycle; in steps of a power of two.

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
        Its value, valid with ``read_ready``: all increments up to 4 cycles before.

    Raises
    ------
    ValueError
        If there is no counter, an increment has a negative width or is too wide, or an exclusive one not one bit.
    """

    def __init__(self, bits: Sequence[int], exclusive: Sequence[range] = ()) -> None:
        if not bits or any(width < 0 for width in bits):
            raise ValueError(f"Increments need widths of at least 0, not {bits!r}")
        #: Bits of the cycles of a sweep.
        self.sweep_bits = ceil_log2(max(_FEWEST, len(bits)) * VISIT_CYCLES)
        if max(bits) + self.sweep_bits > 32:
            raise ValueError(f"Increments of {len(bits)} counters may have at most "
                             f"{32 - self.sweep_bits} bits, not {max(bits)}")
        for members in exclusive:
            if any(bits[member] != 1 for member in members):
                raise ValueError(f"Exclusive counters are of one bit, not {[bits[member] for member in members]}")
        self.bits = tuple(bits)
        self.exclusive = tuple(exclusive)
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
        place = Signal(range(VISIT_CYCLES * visits))  # word that is visited: 0 the low one, 1 the high one; counter
        clearing = Signal(init=1)
        # From the cycle in which a sum is ready to the one in which it is needed again.
        m.submodules.sums = sums = DelayLine(32 + max(self.bits) + self.sweep_bits, VISIT_CYCLES * visits - 1)

        wraps, visited = Signal(name="wraps"), Signal(VISIT_CYCLES * visits, init=1, name="visited")
        parts = [self._shared_parts(m, number, members, place) for number, members in enumerate(self.exclusive)]
        visits_of = [list(members) for members in self.exclusive]
        for i, width in enumerate(self.bits):
            if width and not any(i in members for members in self.exclusive):
                total = Signal(width + self.sweep_bits, name=f"part_{i}")
                m.d.sync += total.eq(total + getattr(self, f"increment_{i}"))
                parts.append(total)
                visits_of.append([i])

        # A word passes in four cycles: its part is chosen; is there; the word is there; added to and written. With a
        # low word goes the part that its sum was brought up to, which has moved on by less than its range.
        lengths = [width + self.sweep_bits if width else 0 for width in self.bits]
        part = Signal(max(lengths))
        moved, reached, before = Signal.like(part), Signal.like(part, name="reached"), Signal.like(part, name="before")
        known = Signal(32, name="known")
        word, addend, total = Signal(32, name="word"), Signal.like(part, name="addend"), Signal(33, name="total")
        low = Signal(32)
        asked, second = Signal.like(place, name="asked"), Signal.like(place, name="second")
        clear, clears = Signal(name="clear_1"), Signal(2, name="clears")
        hits = Signal(4)  # in each stage: the counter to read, in the last one its high word
        ranges = Cat(select([Const(length > bit) for length in lengths], second[1:]) for bit in range(len(part)))
        m.d.comb += [
            Cat(known, before).eq(sums.o), moved.eq((part - before) & ranges),
            total.eq(word + addend), sums.i.eq(Cat(total[:32], reached)),
            wraps.eq(place == VISIT_CYCLES * visits - 1),
            self.read_data.eq(Cat(low, total[:32])),
            self.read_ready.eq(hits[-1]),
        ]
        m.d.sync += [
            asked.eq(place), second.eq(asked), clears.eq(Cat(clearing, clears)), visited.eq(Cat(wraps, visited)),
            part.eq(one_registered(m, "held", [
                Cat(visited[VISIT_CYCLES * i] for i in counter_visits).any() for counter_visits in visits_of], parts)),
            word.eq(Mux(clears[-1], 0, known)), reached.eq(part),
            addend.eq(Mux(clears[-1], 0, Mux(second[0], total[32], moved))),
            low.eq(total), hits.eq(Cat(self.read_valid & (place == Cat(Const(0, 1), self.read_index)), hits)),
            place.eq(place + 1), clear.eq(self.clear),
        ]
        with m.If(wraps):
            m.d.sync += [place.eq(0), clearing.eq(0)]
        with m.If(clear):
            m.d.sync += [place.eq(0), visited.eq(1), clearing.eq(1)]
        return m

    def _shared_parts(self, m: Module, number: int, members: range, sweep: Value) -> Value:
        """The part of whichever of some exclusive counters is visited by the sweep. All are cleared in the first cycles
        after reset, in which nothing is counted."""
        low, bits = exact_log2(members.step), ceil_log2(len(members))
        m.submodules[f"parts_{number}"] = parts = Memory(shape=1 + self.sweep_bits, depth=1 << bits, init=[],
                                                         attrs=LUT_RAM)
        write, read, visit = parts.write_port(), parts.read_port(domain="comb"), parts.read_port(domain="comb")
        fresh = Signal(init=1, name=f"fresh_{number}")
        m.d.sync += fresh.eq(fresh & ~sweep[:bits].all())
        places = {(member >> low) % (1 << bits): getattr(self, f"increment_{member}") for member in members}
        place = Cat(Cat(counts for place, counts in places.items() if place >> bit & 1).any() for bit in range(bits))
        m.d.comb += [
            read.addr.eq(place), write.addr.eq(Mux(fresh, sweep[:bits], place)),
            write.data.eq(Mux(fresh, 0, read.data + 1)), write.en.eq(fresh | Cat(places.values()).any()),
            visit.addr.eq(sweep[1 + low:1 + low + bits]),
        ]
        return Mux(fresh, 0, visit.data)


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
