"""CRC-32 (IEEE 802.3), bit by bit: a byte of the line takes forty cycles and more."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

#: Degrees below 32 of the polynomial, the highest in bit 0.
_POLYNOMIAL = 0xEDB8_8320
_ONES = (1 << 32) - 1
#: What is left of any words with their check behind them.
_RESIDUE = 0xDEBB_20E3


class SerialCheck(wiring.Component):
    """A check that takes a bit a cycle, or gives one.

    Members
    -------
    start : In(1)
        Begin anew.
    take, bit : In(1)
        Take a bit, low one of the first byte first.
    give : In(1)
        Give the next bit of the check.
    o : Out(8)
        The next eight bits of the check.
    matches : Out(1)
        What was taken ends with its check.
    """

    def __init__(self) -> None:
        super().__init__({"start": In(1), "take": In(1), "bit": In(1), "give": In(1), "o": Out(8), "matches": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        state = Signal(32, init=_ONES)
        m.d.comb += [self.o.eq(~state[:8]), self.matches.eq(state == _RESIDUE)]
        with m.If(self.start):
            m.d.sync += state.eq(_ONES)
        with m.Elif(self.take | self.give):
            m.d.sync += state.eq((state >> 1) ^ Mux((state[0] ^ self.bit) & self.take, _POLYNOMIAL, 0))
        return m
