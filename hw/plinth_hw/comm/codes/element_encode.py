"""A next part of a code: elements that a mask names, from a level to a lower one or to the exact word
(:mod:`plinth_hw.isa.codes`).

::

    block --> next masked word --> kind, distances from levels --> numbers of bits --> shift --> mask, sign
                                                                           field, or the two of a tail <--+

Throughput: a masked word a cycle, two if it is sent with a tail, and a block one more. Latency: block to first field
five cycles.
"""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.codes.bits import FIELD, WORD
from plinth_hw.comm.codes.block import BIASED, LEVEL, WHOLE_BLOCK, BlockBounds
from plinth_hw.isa.codes import ABOVE, BIAS, BLOCK, EXPONENT_BITS, FRACTION_BITS, UNARY
from plinth_hw.lib.choice import lowest, one_of, ones
from plinth_hw.lib.count import index_bits

#: Bits of a shift, up to the significand's.
SHIFT = FRACTION_BITS.bit_length()


def clipped(distance: Value, most: int = FRACTION_BITS) -> Value:
    """A signed number of bits, from 0 to ``most``."""
    number = distance.as_signed()
    return Mux(number < 0, 0, Mux(number > most, most, number))[:SHIFT]


#: A masked word: ``bits``, whether its block is ``empty`` or ``escapes``, and the block's exponent, its ``top``; or
#: what ``ends`` a run.
_WORD = data.StructLayout({"bits": WORD, "ends": 1, "empty": 1, "escapes": 1, "top": BIASED})
#: The same with its kind: known to be ``zero``; ``large``, with bits at the level; else all of it is below ``top``, and
#: its sign may be ``unsent``. Bits of a significand that are worth less than a level are those of its fraction and a
#: distance: of the word's exponent from that level.
_KIND = data.StructLayout({"bits": WORD, "ends": 1, "zero": 1, "large": 1, "unsent": 1, "top": BIASED,
                           "below_known": BIASED, "below_lower": BIASED})
#: The same with numbers: bits ``below`` levels, the lower one's also as what the significand ``shift``s by; the
#: ``rest`` of those below the top; ``zeros`` of a tail.
_COUNTS = data.StructLayout({"bits": WORD, "ends": 1, "none": 1, "large": 1, "unsent": 1, "tails": 1,
                             "below_known": SHIFT, "below_lower": SHIFT, "shift": SHIFT, "rest": SHIFT,
                             "zeros": BIASED})
#: What of it is sent: ``count`` bits of those ``shown``; a ``head`` and the ``fraction`` of one that ``tails``; or
#: ``none``.
_SHIFTED = data.StructLayout({
    "ends": 1, "none": 1, "large": 1, "unsent": 1, "tails": 1, "negative": 1, "fraction": FRACTION_BITS,
    "shown": FRACTION_BITS + 1, "count": SHIFT, "head": UNARY + EXPONENT_BITS,
    "head_bits": range(UNARY + EXPONENT_BITS + 1)})


class ElementEncoder(wiring.Component):
    """Codes elements.

    Members
    -------
    first, known, lower : In
        Level of the first part; the one that masked words are known to; the one that they are sent to.
    exact : In(1)
        Instead of ``lower``: all of them. Stable, like levels, from a cycle before there is something under way.
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
        known, lower = Signal(BIASED, name="biased_known"), Signal(BIASED, name="biased_lower")
        bounds = BlockBounds(m, self.first)
        m.d.sync += [known.eq(self.known + BIAS), lower.eq(self.lower + BIAS)]
        # Masked words that have been taken; the next one.
        taken, next_ = Signal(BLOCK, name="taken"), Signal(BLOCK, name="next")
        wanted, steps, none = Signal(BLOCK, name="wanted"), Signal(name="steps"), Signal(name="none")
        word, kind, counts, shifted = (Signal(layout, name=name, reset_less=True) for name, layout in (
            ("word", _WORD), ("kind", _KIND), ("counts", _COUNTS), ("shifted", _SHIFTED)))
        valid = [Signal(name=f"{name}_valid") for name in ("word", "kind", "counts", "shifted")]
        m.d.comb += [wanted.eq(block.mask & ~taken), next_.eq(lowest(wanted)), none.eq(wanted == 0),
                     self.i.ready.eq(steps & none)]
        sends = self._shifted(m, counts, shifted)
        with m.If(steps):
            m.d.sync += [
                # A run's last block gives a field more.
                valid[0].eq(self.i.valid & (~none | block.ends)),
                *(after.eq(before) for before, after in pairwise(valid)),
                word.bits.eq(one_of(next_, block.words)), word.ends.eq(none), word.empty.eq(block.empty),
                word.escapes.eq(bounds.escapes(block)), word.top.eq(bounds.top(block)),
                *self._kind(word, kind, known, lower), *self._counts(kind, counts, lower),
                *sends]
            with m.If(self.i.valid):
                m.d.sync += taken.eq(Mux(none, 0, taken | next_))
        self._give(m, shifted, valid[-1], steps)
        return m

    def _kind(self, word: Any, kind: Any, known: Signal, lower: Signal) -> list[Any]:
        """What is known of a word, and how far it is from the levels."""
        own, unsent = word.bits[FRACTION_BITS:WORD - 1], ~word.escapes & (word.top < known)
        return [
            kind.bits.eq(word.bits), kind.ends.eq(word.ends), kind.large.eq(own >= known), kind.unsent.eq(unsent),
            kind.zero.eq(word.empty | (word.escapes & (word.bits[:WORD - 1] == 0))),
            kind.top.eq(Mux(unsent, word.top, known - 1)),
            kind.below_known.eq(known - own + FRACTION_BITS), kind.below_lower.eq(lower - own + FRACTION_BITS)]

    def _counts(self, kind: Any, counts: Any, lower: Signal) -> list[Any]:
        """How many bits of a word lie below each level, and between its top and the lower one; zeros of its tail."""
        return [
            *(counts[name].eq(kind[name]) for name in ("bits", "large", "unsent")),
            counts.none.eq(kind.zero | kind.ends), counts.ends.eq(kind.ends),
            counts.tails.eq(self.exact & ~kind.large & ~kind.zero & ~kind.ends),
            counts.below_known.eq(clipped(kind.below_known)),
            counts.below_lower.eq(Mux(self.exact, 0, clipped(kind.below_lower))),
            counts.shift.eq(Mux(self.exact, 0, clipped(kind.below_lower, FRACTION_BITS + 1))),
            counts.rest.eq(clipped(kind.top - lower + 1, ABOVE + 1)),
            counts.zeros.eq(kind.top - kind.bits[FRACTION_BITS:WORD - 1])]

    def _shifted(self, m: Module, counts: Any, shifted: Any) -> list[Any]:
        """Bits between the levels, at the lowest places; what a tail begins with."""
        own, far = counts.bits[FRACTION_BITS:WORD - 1], Signal(name="far")
        near = Signal(UNARY, name="near")
        m.d.comb += [far.eq(counts.zeros >= UNARY), near.eq(1 << counts.zeros[:index_bits(UNARY)])]
        return [
            *(shifted[name].eq(counts[name]) for name in ("ends", "none", "large", "unsent", "tails")),
            shifted.negative.eq(counts.bits[-1]), shifted.fraction.eq(counts.bits),
            shifted.shown.eq(Cat(counts.bits[:FRACTION_BITS], 1) >> counts.shift),
            shifted.count.eq(Mux(counts.large, counts.below_known - counts.below_lower, counts.rest)),
            shifted.head.eq(Mux(far, Cat(Const(0, UNARY), own), near)),
            shifted.head_bits.eq(Mux(far, UNARY + EXPONENT_BITS, counts.zeros + 1))]

    def _give(self, m: Module, shifted: Any, valid: Signal, steps: Signal) -> None:
        """Fields, by way of a register."""
        field, first, fraction = self.o.payload, Signal(FIELD, name="first_field", reset_less=True), Signal(
            FRACTION_BITS, name="fraction", reset_less=True)
        tails, second, field_valid = (Signal(name=name) for name in ("tails", "second", "field_valid"))
        # A word of which nothing was sent comes with its sign.
        signed, bits, count = Signal(name="signed"), Signal(FRACTION_BITS + 1, name="bits"), Signal(SHIFT, name="count")
        m.d.comb += [
            signed.eq(shifted.unsent & (shifted.tails | ((shifted.count != 0) & ~shifted.large))),
            bits.eq(Mux(shifted.tails, shifted.head, shifted.shown & ones(shifted.count, FRACTION_BITS + 1))),
            count.eq(Mux(shifted.tails, shifted.head_bits, shifted.count)),
            self.o.valid.eq(field_valid), field.ends.eq(first.ends),
            field.bits.eq(Mux(second, fraction, first.bits)), field.count.eq(Mux(second, FRACTION_BITS, first.count)),
            steps.eq(~field_valid | (self.o.ready & (~tails | second))),
        ]
        with m.If(steps):
            m.d.sync += [
                field_valid.eq(valid), first.ends.eq(shifted.ends), fraction.eq(shifted.fraction),
                tails.eq(shifted.tails & valid), first.bits.eq(Mux(signed, Cat(shifted.negative, bits), bits)),
                first.count.eq(count + signed), second.eq(0)]
            with m.If(shifted.none):
                m.d.sync += [first.bits.eq(0), first.count.eq(0)]
        with m.Elif(self.o.ready):
            m.d.sync += second.eq(1)
