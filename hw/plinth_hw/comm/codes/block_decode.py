"""Fills of the first part of a code (:mod:`plinth_hw.isa.codes`).

::

    bits --> header, signs, planes --> significands --> shift --> flits of fills
             header, words ----------------^

A word's significand is shifted in from its leading bit on. A block is given while the next one comes in.

Throughput: a flit a cycle, and a block in as many cycles as it has planes, and three; an escape in 19. Latency: last
plane of a block to its first flit five cycles.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.codes.bits import COUNT, WORD
from plinth_hw.comm.codes.block import BIASED, LEVEL, run_flit_layout
from plinth_hw.isa.codes import ABOVE, BIAS, BLOCK, ESCAPE, EXPONENT_BITS, FLOOR, FRACTION_BITS, HEADER_BITS
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.choice import select
from plinth_hw.lib.count import index_bits

#: Bits of how far a leading bit is above the level.
_SHIFT = ABOVE.bit_length()
#: Of a word, as planes make it: ``exponent`` field of its leading bit, 0 before that; ``bits`` behind it, the last one
#: lowest.
_FILL = data.StructLayout({"negative": unsigned(1), "exponent": unsigned(EXPONENT_BITS), "bits": unsigned(ABOVE)})


def _flit_layout(lanes: int) -> data.StructLayout:
    """A flit that is made: ``words``, and whether it ``ends`` the run; ``kind`` of its block, the header, and the
    exponent ``around`` which its words are if they were not sent; of each word what planes made it and its ``own`` bits
    in an escape, by how much the former ``shifts``, and whether the latter are ``large``, or zero."""
    return data.StructLayout({
        "words": unsigned(lanes.bit_length()), "ends": 1, "kind": HEADER_BITS, "around": EXPONENT_BITS,
        "fills": data.ArrayLayout(_FILL, lanes), "own": data.ArrayLayout(WORD, lanes),
        "shifts": data.ArrayLayout(_SHIFT, lanes), "large": lanes})


class Bits(wiring.Signature):
    """Bits that wait, as of :class:`~plinth_hw.comm.codes.bits.BitReader`, seen from who takes them."""

    def __init__(self) -> None:
        super().__init__({"there": In(1), "peek": In(WORD), "take": Out(COUNT)})


def small(level: Value) -> Value:
    """Magnitude of the fill of a sent word below the quantum, of a biased level."""
    return Cat(Const(0, FRACTION_BITS - 1), Const(1, 1), (level - 1)[:EXPONENT_BITS])


def kinds(fill: Value, level: Value) -> tuple[Value, Value, Value]:
    """Whether a fill says, at a biased level, that its word is exactly zero; has an exponent of at least the level; was
    sent and is below the quantum. Else nothing was sent of its block."""
    magnitude = fill[:WORD - 1]
    return magnitude == 0, fill[FRACTION_BITS:WORD - 1] >= level, magnitude == small(level)


class BlockDecoder(wiring.Component):
    """Decodes runs.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    level : In
        Stable from a cycle before there is something under way.
    run : In stream
        How many words it has, at least 1.
    bits : Out(Bits)
    o : Out stream of :func:`~plinth_hw.comm.codes.block.run_flit_layout`
        Without a mask.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({"level": In(LEVEL), "run": In(stream.Signature(unsigned(WORD))), "bits": Out(Bits()),
                          "o": Out(stream.Signature(run_flit_layout(parameters)))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits, level, base = self.bits, Signal(BIASED, name="biased_level"), Signal(BIASED, name="base")
        header, left = Signal(HEADER_BITS, name="header"), Signal(range(ABOVE + 2), name="planes_left")
        plane, number = Signal(EXPONENT_BITS, name="plane"), Signal(index_bits(BLOCK), name="number")
        fills = [Signal(_FILL, name=f"fill_{at}", reset_less=True) for at in range(BLOCK)]
        words = Signal(data.ArrayLayout(WORD, BLOCK), name="escaped", reset_less=True)
        # Words of the run whose blocks have begun; whether there are others.
        begun, more = Signal(WORD, name="begun"), Signal(name="more")
        # A block is whole, and goes on.
        whole, goes = Signal(name="whole"), Signal(name="goes")
        # As of a level, exponents are sums of the header and what it is 0 at.
        m.d.sync += [level.eq(self.level + BIAS), base.eq(self.level + (BIAS - FLOOR - 1)),
                     more.eq(self.run.valid & (begun < self.run.payload))]
        with m.FSM():
            with m.State("HEADER"), m.If(self.run.valid & more & bits.there):
                m.d.comb += bits.take.eq(HEADER_BITS)
                m.d.sync += [begun.eq(begun + BLOCK), header.eq(bits.peek), number.eq(0)]
                m.next = "SIGNS"
            with m.State("SIGNS"):
                m.d.sync += [left.eq(header - FLOOR), plane.eq(base + header),
                             *(fill.eq(_FILL.const({})) for fill in fills),
                             *(fill.negative.eq(bits.peek[at]) for at, fill in enumerate(fills))]
                with m.If(header == ESCAPE):
                    m.next = "WORDS"
                with m.Elif(header <= FLOOR):
                    m.next = "WHOLE"
                with m.Elif(bits.there):
                    m.d.comb += bits.take.eq(BLOCK)
                    m.next = "PLANES"
            with m.State("PLANES"), m.If(bits.there):
                m.d.comb += bits.take.eq(BLOCK)
                m.d.sync += [left.eq(left - 1), plane.eq(plane - 1)]
                for fill, bit in zip(fills, bits.peek[:BLOCK], strict=True):
                    with m.If(fill.exponent != 0):
                        m.d.sync += fill.bits.eq(Cat(bit, fill.bits))
                    with m.Elif(bit):
                        m.d.sync += fill.exponent.eq(plane)
                with m.If(left == 1):
                    m.next = "WHOLE"
            with m.State("WORDS"), m.If(bits.there):
                m.d.comb += bits.take.eq(WORD)
                m.d.sync += [words.eq(Cat(words.as_value()[WORD:], bits.peek)), number.eq(number + 1)]
                with m.If(number.all()):
                    m.next = "WHOLE"
            with m.State("WHOLE"):
                m.d.comb += whole.eq(1)
                with m.If(goes):
                    m.next = "HEADER"
        with m.If(self.run.valid & self.run.ready):
            m.d.sync += begun.eq(0)
        self._give(m, level, header, fills, words, plane, whole, goes)
        return m

    def _give(self, m: Module, level: Signal, header: Signal, fills: list[Signal], words: Signal, plane: Signal,
              whole: Signal, goes: Signal) -> None:
        """Flits of a block, in three steps: which words, by how much their bits are shifted, and what they are."""
        lanes = self.parameters.flit_words
        sectors = BLOCK // lanes
        held = [Signal(_FILL, name=f"held_{at}", reset_less=True) for at in range(BLOCK)]
        escaped = Signal(data.ArrayLayout(WORD, BLOCK), name="held_words", reset_less=True)
        kind, around = Signal(HEADER_BITS, name="kind"), Signal(EXPONENT_BITS, name="around")
        place, busy, done = Signal(index_bits(sectors), name="place"), Signal(name="busy"), Signal(name="done")
        left, inside, ends = Signal(WORD, name="left"), Signal(name="inside"), Signal(name="ends")
        steps, flit = Signal(name="steps"), self.o.payload
        chosen, scaled = (Signal(_flit_layout(lanes), name=name, reset_less=True) for name in ("chosen", "scaled"))
        chosen_valid, scaled_valid = Signal(name="chosen_valid"), Signal(name="scaled_valid")
        m.d.comb += [
            ends.eq(left <= lanes), steps.eq(~self.o.valid | self.o.ready),
            done.eq(steps & busy & (ends | (place == sectors - 1))), goes.eq(whole & (~busy | done)),
            self.run.ready.eq(steps & busy & ends),
        ]
        with m.If(steps):
            m.d.sync += [
                chosen_valid.eq(busy), scaled_valid.eq(chosen_valid), self.o.valid.eq(scaled_valid),
                chosen.words.eq(Mux(ends, left, lanes)), chosen.ends.eq(ends), chosen.kind.eq(kind),
                chosen.around.eq(around), scaled.eq(chosen), flit.words.eq(scaled.words), flit.ends.eq(scaled.ends)]
            with m.If(busy):
                m.d.sync += [place.eq(place + 1), left.eq(left - lanes)]
        for lane in range(lanes):
            fill, own, word = chosen.fills[lane], chosen.own[lane], self._word(m, lane, scaled, level)
            with m.If(steps):
                m.d.sync += [
                    fill.eq(select([held[first + lane].as_value() for first in range(0, BLOCK, lanes)], place)),
                    own.eq(select([escaped[first + lane] for first in range(0, BLOCK, lanes)], place)),
                    # The last plane is the level's: the leading bit goes up.
                    scaled.shifts[lane].eq(FRACTION_BITS + level - fill.exponent),
                    scaled.large[lane].eq((own[FRACTION_BITS:WORD - 1] >= level) | (own[:WORD - 1] == 0)),
                    flit.data[lane].eq(word)]
        with m.If(done):
            m.d.sync += busy.eq(0)
        with m.If(goes):
            m.d.sync += [busy.eq(1), place.eq(0), kind.eq(header), around.eq(plane), escaped.eq(words), inside.eq(1),
                         *(register.eq(fill) for register, fill in zip(held, fills, strict=True))]
        with m.If(~inside):
            m.d.sync += left.eq(self.run.payload)
        with m.If(self.run.valid & self.run.ready):
            m.d.sync += inside.eq(0)

    def _word(self, m: Module, lane: int, step: Any, level: Signal) -> Signal:
        """The fill of a lane by the kind of its block: escaped, zero, the bound of what was not sent, or planes."""
        fill, own, word, hidden = step.fills[lane], step.own[lane], Signal(WORD, name=f"word_{lane}"), small(level)
        fraction = (fill.bits << step.shifts[lane])[:FRACTION_BITS]
        with m.If(step.kind == ESCAPE):
            m.d.comb += word.eq(Mux(step.large[lane], own, Cat(hidden, own[-1])))
        with m.Elif(step.kind == 0):
            m.d.comb += word.eq(0)
        with m.Elif(step.kind <= FLOOR):
            m.d.comb += word.eq(Cat(Const(0, FRACTION_BITS), step.around))
        with m.Else():
            m.d.comb += word.eq(Cat(Mux(fill.exponent != 0, Cat(fraction, fill.exponent), hidden), fill.negative))
        return word
