"""Words of strings as packets, with its length behind them.

::

    words --> lanes of a flit --> flits from the place's second word on, then one with the length for the first

Throughput: a flit of words a cycle, and each run two cycles more. Latency: a flit leaves a cycle after the first word
behind it, or the run's end. Packets do not cross multiples of ``packet_words``.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
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
        lanes, reach_bits = self.parameters.flit_words, exact_log2(packet_words(self.parameters))
        lane_bits = exact_log2(lanes)
        place = self.place
        words, flit = self.i.payload, Signal(_flit_layout(self.parameters), name="flit")
        # Words that came, which is also that of the place before the next one's.
        count, address = Signal(WORD, name="count"), Signal.like(self.place, name="address")
        # A flit that waits for what follows, of how many words; its packet's first address, the next flit's.
        kept, first, following = Signal.like(flit.data, name="kept"), *(
            Signal.like(place, name=name) for name in ("first", "following"))
        held, next_held = Signal(range(lanes + 1), name="held"), Signal(range(2 * lanes + 1), name="next_held")
        # The lane of the next word: behind the last one if all of the flit have come.
        lane, end = Signal(range(lanes + 1), name="lane"), Signal(range(2 * lanes + 1), name="end")
        room, fitting = (Signal(range(lanes + 1), name=name) for name in ("lanes_room", "fitting"))
        total, beyond = Signal.like(room, name="total"), Signal(name="beyond")
        free, takes, leaves, closes = (Signal(name=name) for name in ("free", "takes", "leaves", "closes"))
        begun, left = Signal.like(place, name="begun"), Signal(WORD, name="room_left")
        own_lane = address[:lane_bits] if lane_bits else Const(0)
        m.d.comb += [
            free.eq(~self.o.valid | self.o.ready), takes.eq(self.i.valid & self.i.ready), address.eq(place + count + 1),
            left.eq(self.room - count - 1), room.eq(Mux(count + 1 >= self.room, 0, Mux(left > lanes, lanes, left))),
            total.eq(population(words.mask)), fitting.eq(Mux(total > room, room, total)),
            lane.eq(Mux((held != 0) & (own_lane == 0), lanes, own_lane)),
            end.eq(lane + fitting), beyond.eq(end > lanes), next_held.eq(held + fitting), leaves.eq(takes & beyond),
            begun.eq(Mux(held != 0, first, address)), following.eq(address + (lanes - lane)), closes.eq(
                following[:reach_bits] == 0),
        ]
        targets = []
        for number in range(lanes):
            target, rank = Signal.like(end, name=f"target_{number}"), Signal.like(room, name=f"rank_{number}")
            m.d.comb += [rank.eq(population(words.mask[:number]) if number else 0),
                         target.eq(Mux(words.mask[number] & (rank < room), lane + rank, 2 * lanes))]
            targets.append(target)
        low, high = Signal(lanes, name="low"), Signal(lanes, name="high")
        moved = Signal.like(flit.data, name="moved")
        for number in range(lanes):
            below, above = ([target == number + start for target in targets] for start in (0, lanes))
            m.d.comb += [
                low[number].eq(Cat(below).any()), high[number].eq(Cat(above).any()),
                moved[number].eq(one_of([lower | upper for lower, upper in zip(below, above, strict=True)],
                                        words.data)),
            ]
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
                m.d.comb += self.i.ready.eq(free)
                with m.If(takes):
                    m.d.sync += count.eq(count + total)
                    with m.If(words.last):
                        m.next = "REST"
            with m.State("REST"), m.If(free):
                with m.If(held != 0):
                    m.d.sync += [flit.data.eq(kept), flit.words.eq(held), flit.address.eq(first), flit.tail.eq(1),
                                 self.o.valid.eq(1), held.eq(0)]
                m.next = "LENGTH"
            with m.State("LENGTH"):
                with m.If(free):
                    m.d.comb += [self.given.eq(1), self.full.eq(count >= self.room)]
                    m.d.sync += count.eq(0)
                    m.next = "WORDS"
                with m.If(free & ~self.full):
                    m.d.sync += [flit.data.as_value().eq(count.replicate(lanes)), flit.words.eq(1),
                                 flit.address.eq(place), flit.tail.eq(1), self.o.valid.eq(1)]
        m.d.comb += [*(self.o.payload[name].eq(flit[name]) for name, _ in flit.shape()),
                     self.o.payload.tag.use.eq(PieceUse.TILE), self.o.payload.tag.last.eq(1)]
        return m
