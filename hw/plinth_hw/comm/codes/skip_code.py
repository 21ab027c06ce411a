"""Skip code (:mod:`plinth_hw.isa.codes`): words that a mask names, and the mask in front of them where it is sent.

::

    flit --> marks --+--> map of 32 ----+--> words of a string      SkipEncoder
                     +--> flits of 32 --+

    words --+--> mask of 32 --> rest --> flit                       SkipDecoder
    mask ---+    words that it names ---^

Throughput: a flit a cycle, and one more for each 32 words; encoding, that only where masks are sent. Latency: last
flit of 32 words to their map one cycle; mask to first flit two, and a run to its first mask one. Source: MPT section V.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.codes.bits import WORD
from plinth_hw.comm.codes.block import run_flit_layout
from plinth_hw.comm.codes.string_read import Words
from plinth_hw.comm.codes.string_write import string_flit_layout
from plinth_hw.comm.codes.walk import GROUP
from plinth_hw.comm.flit import payload_layout
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.choice import ones, select
from plinth_hw.lib.count import index_bits, population
from plinth_hw.lib.fifo import FIFO, Storage

#: A mask of 32 words; ``ends``: it is its run's last one.
MAP = data.StructLayout({"word": unsigned(WORD), "ends": unsigned(1)})


def ranks(mask: Value) -> list[Value]:
    """How many of the bits below each are set."""
    return [Const(0, 1), *(population(mask[:lane]) for lane in range(1, len(mask)))]


class SkipEncoder(wiring.Component):
    """Codes runs.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    sent, given, maps : In(1)
        Whether masks go into the string; whether they come with the flits, or are of the words other than +0; whether
        they go alone. Stable while a run is under way.
    i : In stream of :func:`~plinth_hw.comm.codes.block.run_flit_layout`
    o : Out stream of :func:`~plinth_hw.comm.codes.string_write.string_flit_layout`
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({"sent": In(1), "given": In(1), "maps": In(1),
                          "i": In(stream.Signature(run_flit_layout(parameters))),
                          "o": Out(stream.Signature(string_flit_layout(parameters)))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes, flit = self.parameters.flit_words, self.i.payload
        flits = GROUP // lanes
        m.submodules.queue = queue = FIFO(data.StructLayout({
            "data": payload_layout(self.parameters), "mask": unsigned(lanes), "closes": unsigned(1),
            "ends": unsigned(1)}), 2 * flits)
        m.submodules.maps = maps = FIFO(unsigned(WORD), 2, Storage.HEAD)
        place, marks = Signal(index_bits(flits), name="place"), Signal(lanes, name="marks")
        known, whole = Signal(WORD, name="known"), Signal(WORD, name="whole")
        closes, room = Signal(name="closes"), Signal(name="room")
        kept = queue.i.payload
        m.d.comb += [
            marks.eq(Mux(self.given, flit.mask, Cat(word.any() for word in flit.data))
                     & ones(flit.words, lanes)),
            closes.eq(flit.ends | (place == flits - 1)), whole.eq(known),
            room.eq(queue.i.ready & (maps.i.ready | ~self.sent)), self.i.ready.eq(room),
            kept.data.eq(flit.data), kept.mask.eq(marks), kept.closes.eq(closes), kept.ends.eq(flit.ends),
            queue.i.valid.eq(self.i.valid & room), maps.i.payload.eq(whole),
            maps.i.valid.eq(self.i.valid & room & closes & self.sent),
        ]
        with m.Switch(place):
            for number in range(flits):
                with m.Case(number):
                    m.d.comb += whole[number * lanes:][:lanes].eq(marks)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [known.eq(Mux(closes, 0, whole)), place.eq(Mux(closes, 0, place + 1))]
        self._give(m, queue, maps)
        return m

    def _give(self, m: Module, queue: FIFO, maps: FIFO) -> None:
        """Each 32 words behind their map."""
        flit, queued = self.o.payload, queue.o.payload
        begins, of_map = Signal(init=1, name="begins"), Signal(name="of_map")
        m.d.comb += [
            of_map.eq(begins & self.sent), self.o.valid.eq(Mux(of_map, maps.o.valid, queue.o.valid)),
            maps.o.ready.eq(of_map & self.o.ready), queue.o.ready.eq(~of_map & self.o.ready),
            flit.data.eq(queued.data), flit.mask.eq(Mux(of_map, 1, Mux(self.maps, 0, queued.mask))),
            flit.last.eq(~of_map & queued.ends),
        ]
        with m.If(of_map):
            m.d.comb += flit.data[0].eq(maps.o.payload)
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += begins.eq(~of_map & queued.closes)


class SkipDecoder(wiring.Component):
    """Decodes runs.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    sent, stored : In(1)
        Whether masks come in the string, or at ``mask``; whether those of the string go to ``map``. Stable while a run
        is under way.
    run : In stream
        How many words it has, at least 1.
    mask : In stream of words
        Those behind the run count for nothing.
    words : Out(Words)
    map : Out stream of :data:`MAP`
    o : Out stream of :func:`~plinth_hw.comm.codes.block.run_flit_layout`
        Without a mask.
    beyond : Out(1)
        A mask of the string has named words behind the run; until the next run begins.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        word = stream.Signature(unsigned(WORD))
        super().__init__({
            "sent": In(1), "stored": In(1), "run": In(word), "mask": In(word), "words": Out(Words(parameters)),
            "map": Out(stream.Signature(MAP)), "o": Out(stream.Signature(run_flit_layout(parameters))),
            "beyond": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes, words, flit = self.parameters.flit_words, self.words, self.o.payload
        # Words of the run that have not been decoded; those behind its mask of 32 words; bits of the mask that are of
        # these, and whether none follows.
        left, behind = Signal(WORD, name="words_left"), Signal(WORD, name="words_behind")
        inside, last = Signal(WORD, name="inside"), Signal(name="last")
        rest, place = Signal(WORD, name="rest"), Signal(index_bits(GROUP // lanes), name="place")
        came, named, following = (Signal(WORD, name=name) for name in ("came", "named", "following"))
        marks, free, ends = Signal(lanes, name="marks"), Signal(name="free"), Signal(name="ends")
        need, begun, renews = Signal.like(words.take, name="need"), Signal(name="begun"), Signal(name="renews")
        m.d.comb += [
            ends.eq(left <= lanes), free.eq(~self.o.valid | self.o.ready),
            came.eq(Mux(self.sent, words.peek[0], self.mask.payload)), named.eq(came & inside),
            self.map.payload.word.eq(named), self.map.payload.ends.eq(last),
            marks.eq(rest), need.eq(population(marks)), following.eq(Mux(begun, behind, self.run.payload)),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.FSM():
            with m.State("RUN"):
                m.d.comb += renews.eq(1)
                m.d.sync += left.eq(self.run.payload)
                with m.If(self.run.valid):
                    m.next = "MASK"
            with m.State("MASK"):
                there = Mux(self.sent, words.count != 0, self.mask.valid)
                m.d.comb += self.map.valid.eq(there & self.sent & self.stored)
                with m.If(there & (~self.map.valid | self.map.ready)):
                    m.d.comb += [words.take.eq(self.sent), self.mask.ready.eq(~self.sent)]
                    m.d.sync += [rest.eq(named), place.eq(0), begun.eq(1),
                                 self.beyond.eq((self.beyond & begun) | (self.sent & (came & ~inside).any()))]
                    m.next = "WORDS"
            with m.State("WORDS"), m.If(free & (words.count >= need)):
                m.d.comb += [words.take.eq(need), self.run.ready.eq(ends)]
                m.d.sync += [
                    self.o.valid.eq(1), flit.words.eq(Mux(ends, left, lanes)), flit.ends.eq(ends),
                    *(flit.data[lane].eq(Mux(marks[lane], select([words.peek[at] for at in range(lane + 1)], rank), 0))
                      for lane, rank in enumerate(ranks(marks))),
                    rest.eq(rest >> lanes), place.eq(place + 1), left.eq(left - lanes)]
                with m.If(ends):
                    m.d.sync += begun.eq(0)
                    m.next = "RUN"
                with m.Elif(place == GROUP // lanes - 1):
                    m.d.comb += renews.eq(1)
                    m.next = "MASK"
        with m.If(renews):
            over = following[index_bits(GROUP):].any()
            m.d.sync += [inside.eq(Cat(over | (bit < following[:index_bits(GROUP)]) for bit in range(GROUP))),
                         last.eq(following <= GROUP), behind.eq(following - GROUP)]
        return m
