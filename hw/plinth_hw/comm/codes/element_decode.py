"""Words, or better fills, of a next part of a code, and of the fills there are (:mod:`plinth_hw.isa.codes`).

::

    flit --+--> masked fills, one by one --> kind, distances from levels --> numbers of bits --> need --+
           |    bits -----------------------------------------------------------------------------------+--> taken
           |    flit <-- (FIFO) <-- word or fill <-- shift <-- leading bit <-- mask <-- shift <---------------+
           +--> (FIFO) --^

A tail's first bits are looked at in a cycle of their own, and tell how many are taken in the next: all of it, if no
more than a field has.

Throughput: a masked word a cycle, two if it has a tail, three if that is longer than a field, and a flit one more.
Latency: flit to flit two cycles, if no word of it is masked; else ten more. A run's flits come once the one before is
done with.
"""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.codes.bits import COUNT, WORD
from plinth_hw.comm.codes.block import BIASED, LEVEL, run_flit_layout
from plinth_hw.comm.codes.block_decode import Bits, kinds, small
from plinth_hw.comm.codes.element_encode import SHIFT, clipped
from plinth_hw.isa.codes import ABOVE, BIAS, EXPONENT_BITS, FRACTION_BITS, UNARY
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.choice import index_of, leading, lowest, one_of, ones
from plinth_hw.lib.count import stepped
from plinth_hw.lib.fifo import FIFO

#: Words that are under way behind the bits that were taken, at most; flits that are.
PLACES = 8
#: A fill with its kind: its word is exactly ``zero``; ``large``, with bits at the level; ``small``, sent and below it.
#: Bits of a significand that are worth less than a level are those of its fraction and a distance: of the word's
#: exponent from that level.
_KIND = data.StructLayout({"fill": WORD, "zero": 1, "large": 1, "small": 1, "below_known": BIASED,
                           "below_lower": BIASED})
#: The same with numbers of bits.
_COUNTS = data.StructLayout({"fill": WORD, "zero": 1, "large": 1, "unsent": 1, "tails": 1, "below_known": SHIFT,
                             "below_lower": SHIFT, "rest": SHIFT})
#: What comes of it: ``need`` bits, the first of them its sign if it is ``signed``; of a word as it is (``whole``), one
#: that ``stays`` what it is, one to which it is or-ed (``large``), a tail (``tails``) from exponent ``top``, or else a
#: fill.
_NEED = data.StructLayout({"fill": WORD, "whole": 1, "stays": 1, "large": 1, "tails": 1, "signed": 1,
                           "count": SHIFT, "low": SHIFT, "need": COUNT, "top": EXPONENT_BITS})
#: What has come, in place of its number: ``bits``, behind as many others (``skipped``); of a tail its ``exponent``;
#: ``negative``.
_CAME = data.StructLayout({"fill": WORD, "whole": 1, "stays": 1, "large": 1, "tails": 1, "negative": 1,
                           "count": SHIFT, "low": SHIFT, "bits": WORD, "skipped": range(UNARY),
                           "exponent": EXPONENT_BITS})


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
        Words come as they are, whatever their fills. Stable from a cycle before a run begins.
    i : In stream of :func:`~plinth_hw.comm.codes.block.run_flit_layout`
        Fills, and which of them follow.
    clear : In(1)
        A run's last flit has been given.
    bits : Out(Bits)
    o : Out stream of the same
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        flit = stream.Signature(run_flit_layout(parameters))
        super().__init__({"known": In(LEVEL), "lower": In(LEVEL), "exact": In(1), "whole": In(1), "i": In(flit),
                          "clear": In(1), "bits": Out(Bits()), "o": Out(flit)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes = self.parameters.flit_words
        m.submodules.flits = flits = FIFO(run_flit_layout(self.parameters), PLACES)
        m.submodules.words = words = FIFO(unsigned(WORD), PLACES)
        arriving = self.i.payload
        marks, rest, next_ = (Signal(lanes, name=name) for name in ("marks", "rest", "next"))
        fills = Signal(data.ArrayLayout(WORD, lanes), name="fills", reset_less=True)
        steps, closed, last = (Signal(name=name) for name in ("steps", "closed", "last"))
        m.d.comb += [
            marks.eq(arriving.mask & ones(arriving.words, lanes)), next_.eq(lowest(rest)),
            last.eq((rest == 0) | (steps & (rest == next_))), self.i.ready.eq(last & flits.i.ready & ~closed),
            flits.i.payload.eq(arriving), flits.i.payload.mask.eq(marks),
            flits.i.valid.eq(self.i.valid & last & ~closed),
        ]
        with m.If(steps):
            m.d.sync += rest.eq(rest & ~next_)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [rest.eq(marks), fills.eq(arriving.data), closed.eq(arriving.ends)]
        with m.If(self.clear):
            m.d.sync += closed.eq(0)
        self._words(m, one_of(next_, fills), rest != 0, steps, words)
        self._merge(m, flits, words)
        return m

    def _merge(self, m: Module, flits: FIFO, words: FIFO) -> None:
        """Words in place of the fills of flits."""
        flit, rest, busy = self.o.payload, self.o.payload.mask, Signal(name="busy")
        next_ = Signal.like(rest, name="next_place")
        m.d.comb += [
            next_.eq(lowest(rest)), self.o.valid.eq(busy & (rest == 0)), words.o.ready.eq(rest != 0),
            flits.o.ready.eq(~busy | (self.o.valid & self.o.ready)),
        ]
        with m.If(words.o.valid & words.o.ready):
            m.d.sync += rest.eq(rest & ~next_)
            for lane in range(self.parameters.flit_words):
                with m.If(next_[lane]):
                    m.d.sync += flit.data[lane].eq(words.o.payload)
        with m.If(flits.o.ready):
            m.d.sync += busy.eq(flits.o.valid)
            with m.If(flits.o.valid):
                m.d.sync += flit.eq(flits.o.payload)

    def _words(self, m: Module, fill: Value, valid: Value, steps: Signal, words: FIFO) -> None:
        """What fills become; each ``steps`` on as soon as the bits of those before are there."""
        known, lower = Signal(BIASED, name="biased_known"), Signal(BIASED, name="biased_lower")
        below_known, between = Signal(EXPONENT_BITS, name="below_known"), Signal(SHIFT, name="between")
        m.d.sync += [known.eq(self.known + BIAS), lower.eq(self.lower + BIAS), below_known.eq(self.known + (BIAS - 1)),
                     between.eq(self.known - self.lower)]
        chosen = Signal(WORD, name="fill", reset_less=True)
        kind, counts, need = (Signal(layout, name=name, reset_less=True) for name, layout in (
            ("kind", _KIND), ("counts", _COUNTS), ("need", _NEED)))
        valids = [Signal(name=f"{name}_valid") for name in ("fill", "kind", "counts", "need")]
        zero, large, is_small = kinds(chosen, known)
        own, unsent = chosen[FRACTION_BITS:WORD - 1], ~(kind.zero | kind.large | kind.small)
        number = Signal(SHIFT, name="number")
        m.d.comb += number.eq(Mux(counts.large, counts.below_known - counts.below_lower, counts.rest))
        signed = counts.unsent & ~counts.large & (number != 0)
        with m.If(steps):
            m.d.sync += [
                valids[0].eq(valid), *(after.eq(before) for before, after in pairwise(valids)),
                chosen.eq(fill),
                kind.fill.eq(chosen), kind.zero.eq(zero), kind.large.eq(large), kind.small.eq(is_small),
                kind.below_known.eq(known - own + FRACTION_BITS), kind.below_lower.eq(lower - own + FRACTION_BITS),
                counts.fill.eq(kind.fill), counts.zero.eq(kind.zero), counts.large.eq(kind.large),
                counts.unsent.eq(unsent), counts.tails.eq(self.exact & ~kind.zero & ~kind.large & ~self.whole),
                counts.below_known.eq(clipped(kind.below_known)),
                counts.below_lower.eq(Mux(self.exact, 0, clipped(kind.below_lower))),
                # Its exponent less the lower level, and one.
                counts.rest.eq(Mux(unsent, clipped(FRACTION_BITS + 1 - kind.below_lower.as_signed(), ABOVE + 1),
                                   between)),
                need.fill.eq(counts.fill), need.whole.eq(self.whole), need.large.eq(counts.large),
                need.stays.eq(~self.whole & (counts.zero | ((number == 0) & ~counts.tails))),
                need.tails.eq(counts.tails), need.low.eq(counts.below_lower), need.count.eq(number),
                need.signed.eq(~self.whole & Mux(counts.tails, counts.unsent, signed)),
                need.top.eq(Mux(counts.unsent, counts.fill[FRACTION_BITS:WORD - 1], below_known)),
                need.need.eq(Mux(self.whole, WORD, Mux(counts.zero, 0, number + signed)))]
        came, came_valid = self._take(m, need, valids[-1], steps, words.o.valid & words.o.ready)
        self._make(m, came, came_valid, lower, words)

    def _take(self, m: Module, need: Any, valid: Signal, steps: Signal, pops: Value) -> tuple[Any, Signal]:
        """What has come of a word when all its bits are taken, and whether it has."""
        bits, came, came_valid = self.bits, Signal(_CAME, name="came", reset_less=True), Signal(name="came_valid")
        left, goes, takes = Signal(range(PLACES + 1), init=PLACES, name="places_left"), Signal(name="goes"), Signal(
            name="takes")
        # A tail, from its sign on: zeros and a one, by its place, or as many zeros and the exponent field.
        head, first = Signal(1 + UNARY, name="head"), Signal(1 + UNARY, name="first", reset_less=True)
        far, exponent = Signal(name="far", reset_less=True), Signal(EXPONENT_BITS, name="exponent", reset_less=True)
        negative, long = Signal(name="negative", reset_less=True), Signal(name="long", reset_less=True)
        # It has been looked at; all but the fraction has been taken.
        seen, second = Signal(name="seen"), Signal(name="second")
        amount, place = Signal(COUNT, name="amount"), Signal(range(1 + UNARY), name="place")
        # What fits into a field with the fraction.
        short = WORD - FRACTION_BITS
        far_bits = UNARY + EXPONENT_BITS + need.signed
        m.d.comb += [
            head.eq(Cat(bits.peek[0] & ~need.signed, bits.peek[1:UNARY], bits.peek[UNARY] & need.signed)),
            place.eq(index_of(first)), goes.eq(valid & bits.there & (left != 0)),
            takes.eq(goes & (~need.tails | second | (seen & ~long))), steps.eq(~valid | takes),
            amount.eq(Mux(far, far_bits, one_of(first, [
                at + 1 + (FRACTION_BITS if at < short else 0) for at in range(1 + UNARY)]))),
        ]
        with m.If(goes):
            m.d.comb += bits.take.eq(Mux(need.tails, Mux(second, FRACTION_BITS, Mux(seen, amount, 0)), need.need))
            m.d.sync += [seen.eq(need.tails & ~takes), second.eq(seen & ~takes)]
        with m.If(~seen):
            m.d.sync += [
                first.eq(Cat(bit & ~head[:at].any() if at else bit for at, bit in enumerate(head))), far.eq(head == 0),
                long.eq(head[:short] == 0), negative.eq(bits.peek[0]),
                exponent.eq(Mux(need.signed, bits.peek[1 + UNARY:], bits.peek[UNARY:]))]
        m.d.sync += [
            came_valid.eq(takes), left.eq(stepped(left, pops, takes)), came.bits.eq(bits.peek),
            came.skipped.eq(Mux(need.tails, Mux(second, 0, place + 1), need.signed)),
            came.exponent.eq(Mux(far, exponent, need.top + need.signed - place)),
            came.negative.eq(Mux(need.signed, Mux(need.tails, negative, bits.peek[0]), need.fill[-1])),
            *(came[name].eq(need[name]) for name in ("fill", "whole", "stays", "large", "tails", "count", "low"))]
        return came, came_valid

    def _make(self, m: Module, came: Any, valid: Signal, lower: Signal, words: FIFO) -> None:
        """The word, or fill, of bits that have come."""
        shifted, shown, placed = (Signal(_CAME, name=name, reset_less=True) for name in ("shifted", "shown", "placed"))
        valids = [valid, *(Signal(name=f"{name}_valid") for name in ("shifted", "shown", "placed"))]
        # Magnitudes of whole quanta of the lower level.
        sent, leads = leading(shown.bits[:ABOVE + 1])
        hidden, shift = Signal(name="hidden", reset_less=True), Signal(SHIFT, name="shift", reset_less=True)
        leads_there = Signal(range(ABOVE + 1), name="leads", reset_less=True)
        m.d.sync += [
            *(after.eq(before) for before, after in pairwise(valids)),
            shifted.eq(came), shifted.bits.eq(came.bits >> came.skipped),
            shown.eq(shifted), placed.eq(shown), leads_there.eq(leads), hidden.eq(~shown.tails & ~sent),
            shift.eq(Mux(shown.tails, 0, Mux(shown.large, shown.low, FRACTION_BITS - leads))),
        ]
        with m.If(~shifted.whole & ~shifted.tails):
            m.d.sync += shown.bits.eq(shifted.bits & ones(shifted.count, FRACTION_BITS))
        word, fraction = words.i.payload, (placed.bits << shift)[:FRACTION_BITS]
        m.d.comb += words.i.valid.eq(valids[-1])
        with m.If(placed.whole):
            m.d.comb += word.eq(placed.bits)
        with m.Elif(placed.stays):
            m.d.comb += word.eq(placed.fill)
        with m.Elif(placed.large):
            m.d.comb += word.eq(placed.fill | fraction)
        with m.Elif(hidden):
            m.d.comb += word.eq(Cat(small(lower), placed.negative))
        with m.Else():
            m.d.comb += word.eq(Cat(fraction, Mux(placed.tails, placed.exponent, (lower + leads_there)[:EXPONENT_BITS]),
                                    placed.negative))
