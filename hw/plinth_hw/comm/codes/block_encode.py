"""The first part of a code: blocks of words as planes of bits (:mod:`plinth_hw.isa.codes`).

::

    block --> shift registers --> header, signs, planes, or words

A word's significand waits in its register until its leading bit's plane comes, and is then shifted out.

Throughput: a block in as many cycles as it has planes, and one; an escape in 17. Latency: block to header one cycle.
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.codes.bits import FIELD, WORD
from plinth_hw.comm.codes.block import BIASED, LEVEL, WHOLE_BLOCK
from plinth_hw.isa.codes import ABOVE, BIAS, BLOCK, ESCAPE, EXPONENT_BITS, FLOOR, FRACTION_BITS, HEADER_BITS, ZERO
from plinth_hw.lib.choice import select
from plinth_hw.lib.count import index_bits


class BlockEncoder(wiring.Component):
    """Codes blocks to a level.

    Members
    -------
    level : In
        Stable while there is something under way.
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
        block, field = self.i.payload, self.o.payload
        level, least, exponent = (Signal(BIASED, name=name) for name in ("biased_level", "least", "exponent"))
        busy, done, moves, loads = (Signal(name=name) for name in ("busy", "done", "moves", "loads"))
        escapes, ends, sent = (Signal(name=name) for name in ("escapes", "ends", "sent"))
        header, signs = Signal(HEADER_BITS, name="header"), Signal(BLOCK, name="signs")
        number, left = Signal(index_bits(BLOCK), name="number"), Signal(range(ABOVE + 2), name="planes_left")
        held = Signal(data.ArrayLayout(WORD, BLOCK), name="held", reset_less=True)
        # What is left of each significand, and planes before its leading bit's.
        rests = [Signal(FRACTION_BITS + 1, name=f"rest_{at}", reset_less=True) for at in range(BLOCK)]
        waits = [Signal(EXPONENT_BITS, name=f"wait_{at}", reset_less=True) for at in range(BLOCK)]
        m.d.comb += [
            level.eq(self.level + BIAS), least.eq(level - FLOOR),
            exponent.eq(Mux(block.largest > least, block.largest, least)),
            moves.eq(self.o.valid & self.o.ready), self.i.ready.eq(~busy | done),
            loads.eq(self.i.valid & self.i.ready),
        ]
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
                    self.o.valid.eq(1), field.bits.eq(select(list(held), number)), field.count.eq(WORD),
                    done.eq(moves & number.all()), field.ends.eq(ends & number.all()),
                ]
                with m.If(moves):
                    m.d.sync += number.eq(number + 1)
                with m.If(done):
                    m.next = "HEADER"
        with m.If(loads):
            m.d.sync += [
                busy.eq(1), held.eq(block.words), ends.eq(block.ends), number.eq(0),
                escapes.eq(block.largest > level + ABOVE), left.eq(exponent - level + 1),
                sent.eq((exponent >= level) & (block.largest <= level + ABOVE) & ~block.empty),
                header.eq(Mux(block.largest > level + ABOVE, ESCAPE, Mux(block.empty, ZERO, exponent - least + 1))),
            ]
            for at, word in enumerate(block.words):
                fraction, own = word[:FRACTION_BITS], word[FRACTION_BITS:WORD - 1]
                m.d.sync += [signs[at].eq(word[-1]), rests[at].eq(Cat(fraction, own != 0)),
                             waits[at].eq(exponent - own)]
        with m.Elif(done):
            m.d.sync += busy.eq(0)
        return m
