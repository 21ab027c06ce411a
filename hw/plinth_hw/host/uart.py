"""UART: bytes over a line of a start bit, eight bits, low one first, and a stop bit (8N1).

::

    rx -> two registers -> majority of three -> Receiver -> byte, valid | broken
    i (stream) -> Transmitter -> tx

A bit's end comes from a phase that a step is added to each cycle; the step is rounded so that a bit is wrong by at most
a thousandth. The receiver samples the middles of bits and is ready for the next start bit from the middle of the stop
bit on: it follows a sender whose rate is 2 % off, with fewer than 6 cycles a bit 1 %. A start bit that is over by its
middle is none. A stop bit that is not there, as in a break, is told once, and the line has to rise before the next
byte.
"""

from fractions import Fraction

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.frames import check_rate

#: What a bit may be wrong by.
TOLERANCE = Fraction(1, 1000)


def phase_step(cycles_per_bit: Fraction | int) -> tuple[int, int]:
    """Bits of a phase, as few as will do, and what is added to it each cycle to overflow once a bit.

    Raises
    ------
    TypeError, ValueError
        If a line cannot be sampled at such a rate.
    """
    check_rate(cycles_per_bit)
    bits, rate = 2, 1 / Fraction(cycles_per_bit)
    while abs(round(rate * (1 << bits)) / (rate * (1 << bits)) - 1) > TOLERANCE:
        bits += 1
    return bits, round(rate * (1 << bits))


class Receiver(wiring.Component):
    """From the line to bytes.

    Parameters
    ----------
    cycles_per_bit : Fraction or int

    Members
    -------
    rx : In(1)
        The pin, of any clock.
    byte : Out(8)
        Valid with ``valid``, and until the next byte's first bit.
    valid : Out(1)
        A byte has come, with its stop bit; one cycle.
    broken : Out(1)
        One has come without; one cycle.
    """

    def __init__(self, cycles_per_bit: Fraction | int) -> None:
        self.cycles_per_bit = cycles_per_bit
        self._phase_bits, self._step = phase_step(cycles_per_bit)
        super().__init__({"rx": In(1), "byte": Out(8), "valid": Out(1), "broken": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Three looks at the line, once it has settled.
        settled, looks = Signal(init=1), Signal(2, init=0b11)
        m.submodules.settle = FFSynchronizer(self.rx, settled, init=1, reset_less=False)
        line = (settled & looks[0]) | (looks[0] & looks[1]) | (settled & looks[1])
        phase, after, tick = Signal(self._phase_bits), Signal(self._phase_bits), Signal()
        taken = Signal(3)
        m.d.comb += Cat(after, tick).eq(phase + self._step)
        m.d.sync += [looks.eq(Cat(settled, looks)), phase.eq(after)]
        with m.FSM():
            with m.State("IDLE"):
                # The first tick is in the middle of the start bit. Edges are seen half a cycle late, and ticks come as
                # late, on average: a cycle is taken off.
                m.d.sync += phase.eq((1 << self._phase_bits - 1) + self._step)
                with m.If(~line):
                    m.next = "START"
            with m.State("START"):
                with m.If(tick & line):
                    m.next = "IDLE"
                with m.Elif(tick):
                    m.next = "DATA"
            with m.State("DATA"), m.If(tick):
                m.d.sync += [self.byte.eq(Cat(self.byte[1:], line)), taken.eq(taken + 1)]
                with m.If(taken.all()):
                    m.next = "STOP"
            with m.State("STOP"):
                m.d.comb += [self.valid.eq(tick & line), self.broken.eq(tick & ~line)]
                with m.If(self.valid):
                    m.next = "IDLE"
                with m.If(self.broken):
                    m.next = "LOW"
            with m.State("LOW"), m.If(line):
                m.next = "IDLE"
        return m


class Transmitter(wiring.Component):
    """From bytes to the line, one after the other without gaps.

    Parameters
    ----------
    cycles_per_bit : Fraction or int

    Members
    -------
    i : In(stream of 8 bits)
    tx : Out(1)
        The pin, out of a register.
    """

    def __init__(self, cycles_per_bit: Fraction | int) -> None:
        self.cycles_per_bit = cycles_per_bit
        self._phase_bits, self._step = phase_step(cycles_per_bit)
        super().__init__({"i": In(stream.Signature(8)), "tx": Out(1, init=1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        left = Signal(10, init=1)  # bits to come, the stop bit highest
        busy, phase, after, tick = Signal(), Signal(self._phase_bits), Signal(self._phase_bits), Signal()
        m.d.comb += [
            self.tx.eq(left[0]),
            Cat(after, tick).eq(phase + self._step),
            self.i.ready.eq(~busy | (tick & (left == 1))),
        ]
        with m.If(busy):
            m.d.sync += phase.eq(after)
        with m.If(self.i.ready):
            m.d.sync += busy.eq(self.i.valid)
            with m.If(self.i.valid):
                m.d.sync += left.eq(Cat(Const(0, 1), self.i.payload, Const(1, 1)))
        with m.Elif(tick):
            m.d.sync += left.eq(left >> 1)
        return m
