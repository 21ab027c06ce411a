"""Fields of bits to words, and words to fields.

::

    field --> shift --> bits that wait --> word             BitPacker
    word --> shift --> bits that wait --> peek, take        BitReader

Bit i of a run of words is bit i mod 32 of word i // 32; a field's lowest bit comes first.
"""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

#: Bits of a word, and of a field at most.
WORD = 32
#: What tells how many bits a field has.
COUNT = unsigned(WORD.bit_length())

#: ``bits``: of which the first ``count`` count, the others are 0; ``ends``: they are the last ones of a run.
FIELD = data.StructLayout({"bits": unsigned(WORD), "count": COUNT, "ends": unsigned(1)})
#: ``word``, if ``there``; ``last``: none of the run follows, with or without it.
PACKED = data.StructLayout({"word": unsigned(WORD), "there": unsigned(1), "last": unsigned(1)})


class BitPacker(wiring.Component):
    """Packs the fields of runs into words; a run's last word is filled up with 0.

    Members
    -------
    i : In stream of :data:`FIELD`
    o : Out stream of :data:`PACKED`

    Throughput: a field a cycle, and one more a run at most. Latency: a word's last bit to the word one cycle.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self) -> None:
        super().__init__({"i": In(stream.Signature(FIELD)), "o": Out(stream.Signature(PACKED))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        field, packed, output = self.i.payload, self.o, self.o.payload
        waiting, held = Signal(WORD, name="waiting"), Signal(range(WORD), name="held")
        all_, total = Signal(2 * WORD - 1, name="all_bits"), Signal(range(2 * WORD), name="total")
        rest, free, takes = Signal(name="rest"), Signal(name="free"), Signal(name="takes")
        m.d.comb += [
            free.eq(~packed.valid | packed.ready), self.i.ready.eq(free & ~rest), takes.eq(self.i.valid & self.i.ready),
            all_.eq(waiting | (field.bits << held)), total.eq(held + field.count),
        ]
        with m.If(packed.ready):
            m.d.sync += packed.valid.eq(0)
        with m.If(takes):
            m.d.sync += [
                waiting.eq(Mux(total[5], all_[WORD:], all_[:WORD])), held.eq(total),
                output.word.eq(all_[:WORD]), output.there.eq(total != 0), output.last.eq(field.ends & (total <= WORD)),
                packed.valid.eq(total[5] | field.ends), rest.eq(field.ends & (total > WORD)),
            ]
            with m.If(field.ends & (total <= WORD)):
                m.d.sync += [waiting.eq(0), held.eq(0)]
        with m.Elif(rest & free):
            m.d.sync += [output.word.eq(waiting), output.there.eq(1), output.last.eq(1), packed.valid.eq(1),
                         waiting.eq(0), held.eq(0), rest.eq(0)]
        return m


class BitReader(wiring.Component):
    """Gives the bits of a run of words.

    Members
    -------
    clear : In(1)
        Forgets the bits that wait.
    i : In stream of words
    peek : Out(32)
        The next bits.
    count : Out
        How many there are.
    take : In
        How many of them are done with; at most 32, and at most ``count``.

    Throughput: a word, and a field, a cycle. Latency: word to bits one cycle.
    """

    i: stream.Interface
    clear: Signal
    peek: Signal
    count: Signal
    take: Signal

    def __init__(self) -> None:
        super().__init__({"clear": In(1), "i": In(stream.Signature(unsigned(WORD))), "peek": Out(WORD),
                          "count": Out(range(2 * WORD + 1)), "take": In(COUNT)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        waiting, left = Signal(2 * WORD, name="waiting"), Signal.like(self.count, name="left")
        shifted = Signal.like(waiting, name="shifted")
        m.d.comb += [
            self.peek.eq(waiting[:WORD]), self.i.ready.eq(self.count <= WORD),
            shifted.eq(waiting >> self.take), left.eq(self.count - self.take),
        ]
        m.d.sync += [waiting.eq(shifted), self.count.eq(left)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [waiting.eq(shifted | (self.i.payload << left)), self.count.eq(left + WORD)]
        with m.If(self.clear):
            m.d.sync += [waiting.eq(0), self.count.eq(0)]
        return m
