"""Words of strings as packets, with its length behind them.

::

    words --> (FIFO) --> ranks --> named ones together --> rotate --> flits from the place's second word on, then one
                                                                      with the length for the first

Throughput: a flit of words a cycle, and each run five cycles more. Latency: a flit leaves four cycles after the first
word behind it, or the run's end. Packets do not cross multiples of ``packet_words``.
"""

from amaranth.hdl import Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.comm.codes.bits import WORD
from plinth_hw.comm.flit import payload_layout
from plinth_hw.comm.run_reader import packet_words
from plinth_hw.comm.tile_read import PieceUse, tile_flit_layout
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.choice import one_of
from plinth_hw.lib.count import population
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.lib.rotator import rotate


def string_flit_layout(parameters: DieParameters) -> data.StructLayout:
    """Words of a string: those of ``data`` that ``mask`` names, in their order; ``last``: none of the run follows."""
    return data.StructLayout({"data": payload_layout(parameters), "mask": unsigned(parameters.flit_words),
                              "last": unsigned(1)})


def _flit_layout(parameters: DieParameters) -> data.StructLayout:
    """What differs from flit to flit."""
    whole = tile_flit_layout(parameters)
    return data.StructLayout({name: whole[name].shape for name in ("data", "words", "address", "tail")})


class StringWriter(wiring.Component):
    """Gives strings.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    place : In
        First word of the run's string; stable until it has been given.
    room : In(32)
        Words of that place; likewise.
    i : In stream of :func:`string_flit_layout`
    o : Out stream of :func:`~plinth_hw.comm.tile_read.tile_flit_layout`
        Each packet is one that ``last`` marks.
    given : Out(1)
        Pulse: all of a run's string has been given.
    full : Out(1)
        With it: the place has not room for the string, of which what goes beyond and the length were not given.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({
            "place": In(unsigned(parameters.address_bits)), "room": In(WORD),
            "i": In(stream.Signature(string_flit_layout(parameters))),
            "o": Out(stream.Signature(tile_flit_layout(parameters))), "given": Out(1), "full": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes = self.parameters.flit_words
        m.submodules.words = words = FIFO(string_flit_layout(self.parameters), 2, Storage.HEAD)
        wiring.connect(m, wiring.flipped(self.i), words.i)
        arriving, ranked, count_bits = words.o.payload, Signal(string_flit_layout(self.parameters), name="ranked",
                                                               reset_less=True), range(lanes + 1)
        # Words of a flit, of how many named ones each is behind, and how many these are.
        ranks = Signal(data.ArrayLayout(range(lanes), lanes), name="ranks", reset_less=True)
        total, ranked_valid = Signal(count_bits, name="total", reset_less=True), Signal(name="ranked_valid")
        # Its named ones together, those of them that the place has room for.
        together, fitting = Signal.like(arriving.data, name="together", reset_less=True), Signal(
            count_bits, name="fitting", reset_less=True)
        last, valid = Signal(name="last", reset_less=True), Signal(name="together_valid")
        # The run has begun, and all its words are together.
        begun, whole = Signal(name="begun"), Signal(name="whole")
        # Words that came, which is also that of the place before the next one's; how many there is room for.
        count, room = Signal(WORD, name="count"), Signal(WORD, name="room_left")
        over, fits, moves, free = Signal(name="over"), Signal(count_bits, name="fits"), Signal(name="moves"), Signal(
            name="together_free")
        m.d.comb += [
            words.o.ready.eq(~ranked_valid | moves), moves.eq(ranked_valid & begun & ~whole & free),
            over.eq(total > room), fits.eq(Mux(over, room, total)),
        ]
        with m.If(words.o.ready):
            m.d.sync += [ranked_valid.eq(words.o.valid), ranked.eq(arriving), total.eq(population(arriving.mask)),
                         *(rank.eq(population(arriving.mask[:number]) if number else 0)
                           for number, rank in enumerate(ranks))]
        with m.If(free):
            m.d.sync += [
                valid.eq(moves), fitting.eq(fits), last.eq(ranked.last),
                *(together[place].eq(one_of(
                    [ranked.mask[lane] & (ranks[lane] == place) for lane in range(place, lanes)],
                    list(ranked.data)[place:])) for place in range(lanes))]
        with m.If(moves):
            m.d.sync += [room.eq(room - fits), count.eq(count + total), whole.eq(ranked.last),
                         self.full.eq(self.full | over)]
        with m.If(ranked_valid & ~begun):
            m.d.sync += [begun.eq(1), count.eq(0), room.eq(Mux(self.room == 0, 0, self.room - 1)),
                         self.full.eq(self.room == 0)]
        with m.If(self.given):
            m.d.sync += [begun.eq(0), whole.eq(0)]
        self._flits(m, (together, fitting, last, valid, free), ranked_valid & ~begun, count)
        return m

    def _flits(self, m: Module, words: tuple[Signal, Signal, Signal, Signal, Signal], begins: Value, count: Signal
               ) -> None:
        """Words that are together to flits from the place's second word on, which a run ``begins`` with, and its length
        to a flit for the first."""
        lanes, reach_bits = self.parameters.flit_words, exact_log2(packet_words(self.parameters))
        lane_bits = exact_log2(lanes)
        together, fitting, last, valid, next_ = words
        place, flit = self.place, Signal(_flit_layout(self.parameters), name="flit")
        # A flit that waits for what follows, of how many words; its packet's first address; the next word's, the next
        # flit's.
        kept, address, first, following = Signal.like(flit.data, name="kept"), *(
            Signal.like(place, name=name) for name in ("address", "first", "following"))
        held, next_held = Signal(range(lanes + 1), name="held"), Signal(range(2 * lanes + 1), name="next_held")
        # The lane of the next word: behind the last one if all of the flit have come.
        lane, end = Signal(range(lanes + 1), name="lane"), Signal(range(2 * lanes + 1), name="end")
        beyond, free, takes, leaves, closes = (Signal(name=name) for name in (
            "beyond", "free", "takes", "leaves", "closes"))
        begun = Signal.like(place, name="begun_at")
        own_lane = address[:lane_bits] if lane_bits else Const(0)
        moved = rotate(m, "words", list(together), own_lane, 0, lane_bits, up=True)
        m.d.comb += [
            free.eq(~self.o.valid | self.o.ready),
            lane.eq(Mux((held != 0) & (own_lane == 0), lanes, own_lane)),
            end.eq(lane + fitting), beyond.eq(end > lanes), next_held.eq(held + fitting), leaves.eq(takes & beyond),
            begun.eq(Mux(held != 0, first, address)), following.eq(address + (lanes - lane)), closes.eq(
                following[:reach_bits] == 0),
        ]
        low, high = ([(number >= lane) & (number < end) for number in range(start, start + lanes)]
                     for start in (0, lanes))
        with m.If(begins):
            m.d.sync += address.eq(place + 1)
        with m.If(takes):
            m.d.sync += address.eq(address + fitting)
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(leaves):
            m.d.sync += [
                *(flit.data[number].eq(Mux(low[number], moved[number], kept[number])) for number in range(lanes)),
                flit.words.eq(held + (lanes - lane)), flit.address.eq(begun), flit.tail.eq(closes),
                self.o.valid.eq(1), held.eq(end - lanes), first.eq(Mux(closes, following, begun)),
            ]
        with m.Elif(takes):
            m.d.sync += [held.eq(next_held), first.eq(begun)]
        for number in range(lanes):
            with m.If(takes & Mux(beyond, high[number], low[number])):
                m.d.sync += kept[number].eq(moved[number])
        with m.FSM():
            with m.State("WORDS"):
                m.d.comb += [takes.eq(valid & free), next_.eq(~valid | free)]
                with m.If(takes & last):
                    m.next = "REST"
            with m.State("REST"), m.If(free):
                with m.If(held != 0):
                    m.d.sync += [flit.data.eq(kept), flit.words.eq(held), flit.address.eq(first), flit.tail.eq(1),
                                 self.o.valid.eq(1), held.eq(0)]
                m.next = "LENGTH"
            with m.State("LENGTH"):
                with m.If(free):
                    m.d.comb += self.given.eq(1)
                    m.next = "WORDS"
                with m.If(free & ~self.full):
                    m.d.sync += [flit.data.as_value().eq(count.replicate(lanes)), flit.words.eq(1),
                                 flit.address.eq(place), flit.tail.eq(1), self.o.valid.eq(1)]
        m.d.comb += [*(self.o.payload[name].eq(flit[name]) for name, _ in flit.shape()),
                     self.o.payload.tag.use.eq(PieceUse.TILE), self.o.payload.tag.last.eq(1)]
