"""Words, or better fills, of a next part of a code, and of the fills there are (:mod:`plinth_hw.isa.codes`).

::

    flit --> masked fills, one by one --> kind --+
    bits ----------------------------------------+--> word or fill --> flit

Throughput: a masked word a cycle, two if it has a tail, and a flit two more. Latency: flit to flit two cycles, if no
word of it is masked.
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.codes.bits import WORD
from plinth_hw.comm.codes.block import BIASED, LEVEL, run_flit_layout
from plinth_hw.comm.codes.block_decode import Bits, kinds, small
from plinth_hw.comm.codes.element_encode import SHIFT, below
from plinth_hw.isa.codes import ABOVE, BIAS, EXPONENT_BITS, FRACTION_BITS, UNARY
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.choice import index_of, one_of


class ElementDecoder(wiring.Component):
    """Decodes runs.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    known, lower, exact : In
        As of :class:`~plinth_hw.comm.codes.element_encode.ElementEncoder`.
    whole : In(1)
        Words come as they are, whatever their fills. Stable likewise.
    i : In stream of :func:`~plinth_hw.comm.codes.block.run_flit_layout`
        Fills, and which of them follow.
    bits : Out(Bits)
    o : Out stream of the same
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        flit = stream.Signature(run_flit_layout(parameters))
        super().__init__({"known": In(LEVEL), "lower": In(LEVEL), "exact": In(1), "whole": In(1), "i": In(flit),
                          "bits": Out(Bits()), "o": Out(flit)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes = self.parameters.flit_words
        arriving, flit = self.i.payload, self.o.payload
        rest, lowest = Signal(lanes, name="rest"), Signal(lanes, name="lowest")
        busy, takes, second = (Signal(name=name) for name in ("busy", "takes", "second"))
        m.d.comb += [
            lowest.eq(rest & (~rest + 1)), self.o.valid.eq(busy & (rest == 0)),
            self.i.ready.eq(~busy | (self.o.valid & self.o.ready)),
        ]
        fill, decoded = Signal(WORD, name="fill"), Signal(WORD, name="decoded")
        m.d.comb += fill.eq(one_of(lowest, flit.data))
        self._word(m, fill, decoded, rest, takes, second)
        with m.If(takes):
            m.d.sync += rest.eq(rest & ~lowest)
            for lane in range(lanes):
                with m.If(lowest[lane]):
                    m.d.sync += flit.data[lane].eq(decoded)
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += busy.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [busy.eq(1), flit.eq(arriving), rest.eq(arriving.mask & ((1 << arriving.words) - 1)[:lanes])]
        return m

    def _word(self, m: Module, fill: Signal, decoded: Signal, rest: Signal, takes: Signal, second: Signal) -> None:
        """What a fill becomes; it ``takes`` one as soon as its bits are there."""
        bits = self.bits
        known, lower = (Signal(BIASED, name=f"biased_{name}") for name in ("known", "lower"))
        own = fill[FRACTION_BITS:WORD - 1]
        zero, large, is_small, unsent, tails = (
            Signal(name=name) for name in ("zero", "large", "small", "unsent", "tails"))
        top = Signal(BIASED, name="top")
        m.d.comb += [
            known.eq(self.known + BIAS), lower.eq(self.lower + BIAS),
            *(kind.eq(matches) for kind, matches in zip((zero, large, is_small), kinds(fill, known), strict=True)),
            unsent.eq(~(zero | large | is_small)), top.eq(Mux(unsent, own, known - 1)),
            tails.eq(self.exact & ~zero & ~large & ~self.whole),
        ]
        inner = (top - lower + 1).as_signed()
        count, low = Signal(SHIFT, name="bits_between"), Signal(SHIFT, name="bits_below")
        m.d.comb += [
            low.eq(Mux(self.exact, 0, below(lower, own))),
            count.eq(Mux(large, below(known, own) - low, Mux(inner < 0, 0, inner))),
        ]
        signed = unsent & (count != 0)
        need, there = Signal(SHIFT + 1, name="need"), Signal(name="there")
        # A tail: zeros and a one, or the exponent field.
        string = Signal(1 + UNARY + EXPONENT_BITS, name="string")
        first, far = Signal(UNARY, name="first"), Signal(name="far")
        exponent, negative = Signal(EXPONENT_BITS, name="exponent"), Signal(name="negative")
        kept, kept_sign = Signal(EXPONENT_BITS, name="kept"), Signal(name="kept_sign")
        head = string[:UNARY]
        m.d.comb += [
            string.eq(Mux(unsent, bits.peek[1:], bits.peek)), first.eq(head & (~head + 1)), far.eq(head == 0),
            exponent.eq(Mux(far, string[UNARY:UNARY + EXPONENT_BITS], top - index_of(first))),
            negative.eq(Mux(unsent, bits.peek[0], fill[-1])),
            there.eq(bits.count >= need),
        ]
        shown = Signal(FRACTION_BITS, name="shown")
        m.d.comb += shown.eq(Mux(signed & ~large, bits.peek[1:], bits.peek) & ((1 << count) - 1))
        # Magnitudes of whole quanta of the lower level.
        quanta, leads = shown[:ABOVE + 1], Signal(range(ABOVE + 1), name="leads")
        for place in range(ABOVE + 1):
            with m.If(quanta[place]):
                m.d.comb += leads.eq(place)
        fraction = Signal(FRACTION_BITS, name="fraction")
        m.d.comb += fraction.eq((quanta << (FRACTION_BITS - leads)[:SHIFT])[:FRACTION_BITS])
        with m.If(self.whole):
            m.d.comb += [need.eq(WORD), decoded.eq(bits.peek)]
        with m.Elif(zero | ((count == 0) & ~tails)):
            m.d.comb += decoded.eq(fill)
        with m.Elif(large):
            m.d.comb += [need.eq(count), decoded.eq(fill | (shown << low)[:FRACTION_BITS])]
        with m.Elif(second):
            m.d.comb += [need.eq(FRACTION_BITS), decoded.eq(Cat(bits.peek[:FRACTION_BITS], kept, kept_sign))]
        with m.Elif(tails):
            # As many as the longest has: behind a shorter one the fraction follows.
            m.d.comb += need.eq(UNARY + EXPONENT_BITS + unsent)
        with m.Else():
            m.d.comb += [need.eq(count + signed), decoded.eq(Cat(
                Mux(quanta == 0, small(lower), Cat(fraction, (lower + leads)[:EXPONENT_BITS])), negative))]
        begins = tails & ~second
        with m.If((rest != 0) & there):
            m.d.comb += [takes.eq(~begins), bits.take.eq(Mux(begins, Mux(
                far, UNARY + EXPONENT_BITS, index_of(first) + 1) + unsent, need))]
            m.d.sync += [second.eq(begins), kept.eq(exponent), kept_sign.eq(negative)]
