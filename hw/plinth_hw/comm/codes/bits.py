"""Fields of bits to words, and words to fields.

::

    field --> shift --> bits that wait --> word             BitPacker
    word --> two words --> shift --> peek, take             BitReader

Bit i of a run of words is bit i mod 32 of word i // 32; a field's lowest bit comes first.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.lib.count import stepped

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

    Throughput: a field a cycle, and one more a run at most. Latency: a word's last bit to the word two cycles.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self) -> None:
        super().__init__({"i": In(stream.Signature(FIELD)), "o": Out(stream.Signature(PACKED))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        arriving, packed, output = self.i.payload, self.o, self.o.payload
        # The field that comes next, the bit of a word that it begins at, and where it ends; where the one behind it
        # begins.
        field, valid = Signal(FIELD, name="field", reset_less=True), Signal(name="field_valid")
        start, total = Signal(range(WORD), name="start"), Signal(range(2 * WORD), name="total")
        following, end = Signal(range(WORD), name="following"), Signal(range(2 * WORD), name="end")
        waiting, all_ = Signal(WORD, name="waiting"), Signal(2 * WORD - 1, name="all_bits")
        rest, free, takes = Signal(name="rest"), Signal(name="free"), Signal(name="takes")
        m.d.comb += [
            free.eq(~packed.valid | packed.ready), takes.eq(valid & free & ~rest), self.i.ready.eq(~valid | takes),
            all_.eq(waiting | (field.bits << start)), end.eq(following + arriving.count),
        ]
        with m.If(takes):
            m.d.sync += valid.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [valid.eq(1), field.eq(arriving), start.eq(following), total.eq(end),
                         following.eq(Mux(arriving.ends, 0, end))]
        with m.If(packed.ready):
            m.d.sync += packed.valid.eq(0)
        with m.If(takes):
            m.d.sync += [
                waiting.eq(Mux(total[5], all_[WORD:], all_[:WORD])),
                output.word.eq(all_[:WORD]), output.there.eq(total != 0), output.last.eq(field.ends & (total <= WORD)),
                packed.valid.eq(total[5] | field.ends), rest.eq(field.ends & (total > WORD)),
            ]
            with m.If(field.ends & (total <= WORD)):
                m.d.sync += waiting.eq(0)
        with m.Elif(rest & free):
            m.d.sync += [output.word.eq(waiting), output.there.eq(1), output.last.eq(1), packed.valid.eq(1),
                         waiting.eq(0), rest.eq(0)]
        return m


class BitReader(wiring.Component):
    """Gives the bits of a run of words, behind which words go on.

    Members
    -------
    clear : In(1)
        Forgets the bits that wait; none may be taken in that cycle.
    i : In stream of words
    there : Out(1)
        At least 32 bits are there.
    peek : Out(32)
        The next ones then.
    take : In
        How many of them are done with; 0 unless ``there``.

    Throughput: a word, and a field, a cycle. Latency: a run's first words to bits four cycles.
    """

    i: stream.Interface
    clear: Signal
    there: Signal
    peek: Signal
    take: Signal

    def __init__(self) -> None:
        super().__init__({"clear": In(1), "i": In(stream.Signature(unsigned(WORD))), "there": Out(1),
                          "peek": Out(WORD), "take": In(COUNT)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # The words in which the next bits lie, from bit ``start`` of the first one on; words that come behind them.
        low, high, first, second = (Signal(WORD, name=name, reset_less=True) for name in (
            "low", "high", "first", "second"))
        start, end = Signal(range(WORD), name="start"), Signal(range(2 * WORD), name="end")
        # How many of the first two are to come.
        missing, lacks = Signal(range(3), init=2, name="missing"), Signal(name="lacks")
        first_valid, second_valid, moves = (Signal(name=name) for name in ("first_valid", "second_valid", "moves"))
        m.d.comb += [
            self.peek.eq(Cat(low, high) >> start), self.there.eq(missing == 0), end.eq(start + self.take),
            lacks.eq(end[5]), moves.eq(first_valid & (lacks | (missing != 0))), self.i.ready.eq(~second_valid),
        ]
        m.d.sync += [start.eq(end), missing.eq(stepped(missing, lacks, moves))]
        with m.If(moves):
            m.d.sync += [low.eq(high), high.eq(first)]
        with m.If(moves | ~first_valid):
            m.d.sync += [first.eq(Mux(second_valid, second, self.i.payload)), second_valid.eq(0),
                         first_valid.eq(second_valid | self.i.valid)]
        with m.Elif(self.i.valid & ~second_valid):
            m.d.sync += [second.eq(self.i.payload), second_valid.eq(1)]
        with m.If(self.clear):
            m.d.sync += [start.eq(0), missing.eq(2), first_valid.eq(0), second_valid.eq(0)]
        return m
