"""The first part of a code: blocks of words as planes of bits (:mod:`plinth_hw.isa.codes`).

::

    block --> largest exponent --> shift registers --> header, signs, planes, or words

A word's significand waits in its register until its leading bit's plane comes, and is then shifted out.

The next block comes in while one is worked on.

Throughput: a block in as many cycles as it has planes, and one; an escape in 19. Latency: block to header three cycles.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.codes.bits import FIELD, WORD
from plinth_hw.comm.codes.block import BIASED, LEVEL, WHOLE_BLOCK, BlockBounds
from plinth_hw.isa.codes import ABOVE, BIAS, BLOCK, ESCAPE, EXPONENT_BITS, FRACTION_BITS, HEADER_BITS, ZERO
from plinth_hw.lib.choice import select
from plinth_hw.lib.count import index_bits


class BlockEncoder(wiring.Component):
    """Codes blocks to a level.

    Members
    -------
    level : In
        Stable from a cycle before there is something under way.
    i : In stream of :data:`~plinth_hw.comm.codes.block.WHOLE_BLOCK`
    o : Out stream of :data:`~plinth_hw.comm.codes.bits.FIELD`
    """

    i: stream.Interface
    o: stream.Interface
    level: Signal

    def __init__(self) -> None:
        super().__init__({"level": In(LEVEL), "i": In(stream.Signature(WHOLE_BLOCK)),
                          "o": Out(stream.Signature(FIELD))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        arriving, field = self.i.payload, self.o.payload
        busy, done, moves, loads = (Signal(name=name) for name in ("busy", "done", "moves", "loads"))
        ends, sent, escapes = (Signal(name=name) for name in ("ends", "sent", "escapes"))
        header, signs = Signal(HEADER_BITS, name="header"), Signal(BLOCK, name="signs")
        number, left = Signal(index_bits(BLOCK), name="number"), Signal(range(ABOVE + 2), name="planes_left")
        # The block that is loaded next, or whose words go.
        held = Signal(WHOLE_BLOCK, name="held", reset_less=True)
        there, frees = Signal(name="there"), Signal(name="frees")
        following = self._following(m, held, there & ~loads & ~escapes)
        # What is left of each significand, and planes before its leading bit's.
        rests = [Signal(FRACTION_BITS + 1, name=f"rest_{at}", reset_less=True) for at in range(BLOCK)]
        waits = [Signal(EXPONENT_BITS, name=f"wait_{at}", reset_less=True) for at in range(BLOCK)]
        m.d.comb += [
            moves.eq(self.o.valid & self.o.ready), loads.eq(following.valid & (~busy | done)),
            frees.eq(Mux(escapes, done, loads & ~following.escapes)), self.i.ready.eq(~there),
        ]
        with m.If(frees):
            m.d.sync += there.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [there.eq(1), held.eq(arriving)]
        with m.FSM():
            with m.State("HEADER"):
                m.d.comb += [
                    self.o.valid.eq(busy), field.bits.eq(Cat(header, Mux(sent, signs, 0))),
                    field.count.eq(Mux(sent, HEADER_BITS + BLOCK, HEADER_BITS)),
                    done.eq(moves & ~sent & ~escapes), field.ends.eq(ends & ~sent & ~escapes),
                ]
                with m.If(moves & escapes):
                    m.next = "WORDS"
                with m.Elif(moves & sent):
                    m.next = "PLANES"
            with m.State("PLANES"):
                m.d.comb += [
                    self.o.valid.eq(1), field.count.eq(BLOCK), field.ends.eq(ends & (left == 1)),
                    field.bits.eq(Cat((wait == 0) & rest[-1] for wait, rest in zip(waits, rests, strict=True))),
                    done.eq(moves & (left == 1)),
                ]
                with m.If(moves):
                    m.d.sync += left.eq(left - 1)
                    for wait, rest in zip(waits, rests, strict=True):
                        with m.If(wait == 0):
                            m.d.sync += rest.eq(rest << 1)
                        with m.Else():
                            m.d.sync += wait.eq(wait - 1)
                with m.If(done):
                    m.next = "HEADER"
            with m.State("WORDS"):
                m.d.comb += [
                    self.o.valid.eq(1), field.bits.eq(select(list(held.words), number)), field.count.eq(WORD),
                    done.eq(moves & number.all()), field.ends.eq(ends & number.all()),
                ]
                with m.If(moves):
                    m.d.sync += number.eq(number + 1)
                with m.If(done):
                    m.next = "HEADER"
        with m.If(loads):
            m.d.sync += [busy.eq(1), ends.eq(held.ends), number.eq(0), escapes.eq(following.escapes),
                         left.eq(following.planes), sent.eq(following.sent), header.eq(following.header)]
            for at, word in enumerate(held.words):
                fraction, own = word[:FRACTION_BITS], word[FRACTION_BITS:WORD - 1]
                m.d.sync += [signs[at].eq(word[-1]), rests[at].eq(Cat(fraction, own != 0)),
                             waits[at].eq(following.exponent - own)]
        with m.Elif(done):
            m.d.sync += [busy.eq(0), escapes.eq(0)]
        return m

    def _following(self, m: Module, held: Any, there: Value) -> Any:
        """What follows from the largest exponent of a block that is ``there``, a cycle later; until then it is not
        ``valid``."""
        following = Signal(data.StructLayout({
            "exponent": EXPONENT_BITS, "planes": range(ABOVE + 2), "header": HEADER_BITS, "escapes": 1, "sent": 1,
            "valid": 1}), name="following")
        level, bounds = Signal(BIASED, name="biased_level"), BlockBounds(m, self.level)
        exponent, over = Signal(BIASED, name="exponent"), Signal(name="over")
        m.d.comb += [exponent.eq(bounds.top(held)), over.eq(bounds.escapes(held))]
        m.d.sync += [
            level.eq(self.level + BIAS),
            following.exponent.eq(exponent), following.planes.eq(exponent - level + 1), following.escapes.eq(over),
            following.sent.eq((exponent >= level) & ~over & ~held.empty),
            following.header.eq(Mux(over, ESCAPE, Mux(held.empty, ZERO, exponent - bounds.least + 1))),
            following.valid.eq(there)]
        return following
