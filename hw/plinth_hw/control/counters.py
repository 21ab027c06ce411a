"""Performance counters: many 64-bit sums in one memory.

::

    increment_0 --> part_0 --+
    increment_1 --> part_1 --+--> one visited at a time --> + --> memory (low, high word of each)
        ...                  |
    increment_n --> part_n --+

Each counter has a short register that adds every cycle. A sweep visits one after another, adds its register
to the 64-bit sum in memory and empties it; the registers are long enough for the longest sweep. A read
visits its counter out of turn, so that it returns the exact sum. A visit takes 3 cycles, 5 with a carry into
the high word or a read. After reset, and on ``clear``, the memory is cleared, two cycles for each counter;
what is counted meanwhile is lost.
"""

from collections.abc import Sequence

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

#: Longest visit, with a read out of turn before it.
_VISIT_CYCLES = 5 + 5


class PerformanceCounters(wiring.Component):
    """64-bit counters.

    Parameters
    ----------
    bits : sequence of int
        Width of each counter's increment, at least 1; with the bits of a sweep's length at most 32.

    Members
    -------
    increment_0 ... : In
        Added in every cycle.
    clear : In(1)
        Pulse: set all counters to 0.
    read_valid, read_ready : In(1), Out(1)
        Read one counter; held until ready.
    read_index : In
        Which one, stable while ``read_valid``.
    read_data : Out(64)
        Its value, valid with ``read_ready``: all increments up to 5 cycles before. Between two reads
        ``read_valid`` is low for a cycle, so that the sweep goes on.

    Raises
    ------
    ValueError
        If there is no counter, or an increment is too narrow or too wide.
    """

    def __init__(self, bits: Sequence[int]) -> None:
        if not bits or any(width < 1 for width in bits):
            raise ValueError(f"Increments need at least one bit each, not {bits!r}")
        #: Bits of the cycles of a sweep.
        self.sweep_bits = (len(bits) * _VISIT_CYCLES).bit_length()
        if max(bits) + self.sweep_bits > 32:
            raise ValueError(f"Increments of {len(bits)} counters may have at most "
                             f"{32 - self.sweep_bits} bits, not {max(bits)}")
        self.bits = tuple(bits)
        super().__init__({
            **{f"increment_{i}": In(width) for i, width in enumerate(self.bits)},
            "clear": In(1),
            "read_valid": In(1),
            "read_ready": Out(1),
            "read_index": In(range(max(2, len(self.bits)))),
            "read_data": Out(64),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count = len(self.bits)
        index_bits = len(self.read_index)
        m.submodules.sums = sums = memory.Memory(shape=32, depth=2 << index_bits, init=[])
        read, write = sums.read_port(), sums.write_port()
        parts = [Signal(width + self.sweep_bits, name=f"part_{i}") for i, width in enumerate(self.bits)]
        increments = [getattr(self, f"increment_{i}") for i in range(count)]

        sweep = Signal(index_bits)
        index = Signal(index_bits)  # counter that is visited
        reading = Signal()  # the visit is a read
        high = Signal()  # word that is visited
        word, low = Signal(32), Signal(32)
        addend = Signal(max(len(part) for part in parts))
        total = Signal(33)
        cleared = Signal(index_bits + 1)
        chosen = Signal(index_bits)
        visit, empty = Signal(), Signal()

        m.d.comb += [
            chosen.eq(Mux(self.read_valid, self.read_index, sweep)),
            read.en.eq(1),
            read.addr.eq(Cat(high, index)),
            write.addr.eq(Cat(high, index)),
            write.data.eq(total),
            total.eq(word + addend),
            self.read_data.eq(Cat(low, total[:32])),
        ]
        for i, (part, increment) in enumerate(zip(parts, increments, strict=True)):
            m.d.sync += part.eq(Mux(empty | (visit & (chosen == i)), 0, part) + increment)

        clear_wanted = Signal()
        with m.FSM():
            with m.State("CLEAR"):
                m.d.comb += [
                    write.en.eq(1),
                    write.addr.eq(cleared),
                    write.data.eq(0),
                    empty.eq(1),
                ]
                m.d.sync += cleared.eq(cleared + 1)
                with m.If(cleared.all()):
                    m.next = "VISIT"
            with m.State("VISIT"):
                with m.If(clear_wanted):
                    m.d.sync += clear_wanted.eq(0)
                    m.next = "CLEAR"
                with m.Else():
                    m.d.comb += [visit.eq(1), read.addr.eq(Cat(Const(0, 1), chosen))]
                    m.d.sync += [
                        index.eq(chosen),
                        reading.eq(self.read_valid),
                        high.eq(0),
                        addend.eq(Array(parts)[chosen]),
                    ]
                    with m.If(~self.read_valid):
                        m.d.sync += sweep.eq(Mux(sweep == count - 1, 0, sweep + 1))
                    m.next = "WORD"
            with m.State("WORD"):
                m.d.sync += word.eq(read.data)
                m.next = "ADD"
            with m.State("ADD"):
                m.d.comb += write.en.eq(1)
                m.next = "VISIT"
                with m.If(high):
                    m.d.comb += self.read_ready.eq(reading)
                with m.Elif(reading | total[32]):
                    m.d.comb += read.addr.eq(Cat(Const(1, 1), index))
                    m.d.sync += [high.eq(1), low.eq(total), addend.eq(total[32])]
                    m.next = "WORD"
        with m.If(self.clear):
            m.d.sync += clear_wanted.eq(1)
        return m


class BusyWindow(wiring.Component):
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
