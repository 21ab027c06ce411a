"""A next part of a code: elements that a mask names, from a level to a lower one or to the exact word
(:mod:`plinth_hw.isa.codes`).

::

    block --> next masked word --> kind, shift --> field, or the two of a tail

Throughput: a masked word a cycle, two if it is sent with a tail, and a block one more. Latency: block to first field
two cycles.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.codes.bits import FIELD, WORD
from plinth_hw.comm.codes.block import BIASED, LEVEL, WHOLE_BLOCK
from plinth_hw.isa.codes import ABOVE, BIAS, BLOCK, EXPONENT_BITS, FLOOR, FRACTION_BITS, UNARY
from plinth_hw.lib.choice import one_of
from plinth_hw.lib.count import index_bits

#: Bits of a shift, up to the significand's.
SHIFT = FRACTION_BITS.bit_length()


def below(level: Value, exponent: Value, most: int = FRACTION_BITS) -> Value:
    """Bits of a significand that are worth less than 2^level, both biased; at most ``most``."""
    distance = (level - exponent + FRACTION_BITS).as_signed()
    return Mux(distance < 0, 0, Mux(distance > most, most, distance))[:SHIFT]


class ElementEncoder(wiring.Component):
    """Codes elements.

    Members
    -------
    first, known, lower : In
        Level of the first part; the one that masked words are known to; the one that they are sent to.
    exact : In(1)
        Instead of ``lower``: all of them. Stable, like levels, while there is something under way.
    i : In stream of :data:`~plinth_hw.comm.codes.block.WHOLE_BLOCK`
    o : Out stream of :data:`~plinth_hw.comm.codes.bits.FIELD`
        A run ends with a field without bits.
    """

    i: stream.Interface
    o: stream.Interface
    first: Signal
    known: Signal
    lower: Signal
    exact: Signal

    def __init__(self) -> None:
        super().__init__({"first": In(LEVEL), "known": In(LEVEL), "lower": In(LEVEL), "exact": In(1),
                          "i": In(stream.Signature(WHOLE_BLOCK)), "o": Out(stream.Signature(FIELD))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        block = self.i.payload
        # Masked words that have not been taken; the one that has.
        taken, lowest = Signal(BLOCK, name="taken"), Signal(BLOCK, name="lowest")
        wanted, word = Signal(BLOCK, name="wanted"), Signal(WORD, name="word", reset_less=True)
        valid, ends, goes, none = (Signal(name=name) for name in ("valid", "ends", "goes", "none"))
        escapes, empty = Signal(name="escapes"), Signal(name="empty")
        first, known, lower = (Signal(BIASED, name=f"biased_{name}") for name in ("first", "known", "lower"))
        top = Signal(BIASED, name="block_top", reset_less=True)
        least = first - FLOOR
        m.d.comb += [
            first.eq(self.first + BIAS), known.eq(self.known + BIAS), lower.eq(self.lower + BIAS),
            wanted.eq(block.mask & ~taken), lowest.eq(wanted & (~wanted + 1)), none.eq(wanted == 0),
            self.i.ready.eq((~valid | goes) & none),
        ]
        with m.If(goes):
            m.d.sync += valid.eq(0)
        with m.If(self.i.valid & (~valid | goes)):
            m.d.sync += [
                # A run's last block gives a field more.
                valid.eq(~none | block.ends), ends.eq(none), word.eq(one_of(lowest, block.words)),
                taken.eq(Mux(none, 0, taken | lowest)), empty.eq(block.empty),
                escapes.eq(block.largest > first + ABOVE),
                top.eq(Mux(block.largest > least, block.largest, least)),
            ]
        self._field(m, word, valid, ends, goes, (known, lower, top), escapes, empty)
        return m

    def _field(self, m: Module, word: Signal, valid: Signal, ends: Signal, goes: Signal,
               levels: tuple[Signal, Signal, Signal], escapes: Signal, empty: Signal) -> None:
        """Of a word that is taken."""
        field, (known, lower, block_top) = self.o.payload, levels
        fraction, own = word[:FRACTION_BITS], word[FRACTION_BITS:WORD - 1]
        zero, large, unsent, tails = (Signal(name=name) for name in ("zero", "large", "unsent", "tails"))
        top, second = Signal(BIASED, name="top"), Signal(name="second")
        shift, bits = Signal(SHIFT, name="shift"), Signal(SHIFT, name="bits")
        shown, rest = Signal(FRACTION_BITS + 1, name="shown"), (top - lower + 1).as_signed()
        zeros, far = Signal(BIASED, name="zeros"), Signal(name="far")
        near, head = Signal(UNARY, name="near"), Signal(UNARY + EXPONENT_BITS, name="head")
        head_bits = Signal(range(UNARY + EXPONENT_BITS + 1), name="head_bits")
        m.d.comb += [
            zero.eq(empty | (escapes & (word[:WORD - 1] == 0))), large.eq(own >= known),
            unsent.eq(~escapes & (block_top < known)), top.eq(Mux(unsent, block_top, known - 1)),
            tails.eq(self.exact & ~large & ~zero & ~ends),
            # Bits of the significand between the levels.
            shift.eq(Mux(self.exact, 0, below(lower, own, FRACTION_BITS + 1))),
            bits.eq(Mux(large, below(known, own) - Mux(self.exact, 0, below(lower, own)), Mux(rest < 0, 0, rest))),
            shown.eq((Cat(fraction, 1) >> shift) & ((1 << bits) - 1)),
            zeros.eq(top - own), far.eq(zeros >= UNARY), near.eq(1 << zeros[:index_bits(UNARY)]),
            head.eq(Mux(far, Cat(Const(0, UNARY), own), near)),
            head_bits.eq(Mux(far, UNARY + EXPONENT_BITS, zeros + 1)),
            self.o.valid.eq(valid), field.ends.eq(ends), goes.eq(valid & self.o.ready & (~tails | second)),
        ]
        signed = unsent & (tails | (bits != 0))
        with m.If(ends | zero):
            m.d.comb += field.count.eq(0)
        with m.Elif(second):
            m.d.comb += [field.bits.eq(fraction), field.count.eq(FRACTION_BITS)]
        with m.Elif(tails):
            m.d.comb += [field.bits.eq(Mux(unsent, Cat(word[-1], head), head)), field.count.eq(head_bits + unsent)]
        with m.Else():
            m.d.comb += [field.bits.eq(Mux(signed & ~large, Cat(word[-1], shown), shown)),
                         field.count.eq(bits + (signed & ~large))]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += second.eq(tails & ~second)
