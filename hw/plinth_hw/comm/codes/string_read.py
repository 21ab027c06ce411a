"""Words of strings from memory: the length that stands before them, then so many, then zeros.

::

    string --> RunReader (memory) --> length
                            +-------> four sectors --> words

Throughput: a flit of words a cycle. Latency: string to first word that of the memory, twice, and seven cycles.
"""

from amaranth.hdl import Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.comm.codes.bits import WORD
from plinth_hw.comm.run_reader import RunReader, packet_words
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.choice import select
from plinth_hw.lib.count import stepped
from plinth_hw.lib.rotator import rotate
from plinth_hw.memory.port import TASK_BITS, ReadPort

#: Places for beats, and for sectors of them.
PLACES, SECTORS = 16, 4


def string_layout(parameters: DieParameters) -> data.StructLayout:
    """``place``: the word before a string, which holds its length; ``room``: words that it and the string may take."""
    return data.StructLayout({"place": unsigned(parameters.address_bits), "room": unsigned(WORD)})


class Words(wiring.Signature):
    """Words that wait, seen from who takes them: the next ones, how many they are, and how many of these are taken.

    Parameters
    ----------
    parameters : DieParameters
    """

    def __init__(self, parameters: DieParameters):
        count = range(parameters.flit_words + 1)
        super().__init__({"peek": In(data.ArrayLayout(WORD, parameters.flit_words)), "count": In(count),
                          "take": Out(count)})


class StringReader(wiring.Component):
    """Reads strings.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    string : In stream of :func:`string_layout`
        Taken when its words have been given, and ``ends``.
    task : In
        As of requests.
    read : Out(ReadPort)
    words : In(Words)
        Behind the string's zeros, until ``ends``.
    ends : In(1)
        Pulse: no more words are wanted of it.
    length : Out(32)
        Words of the string, once ``known``; less than its room.
    known : Out(1)
        From the length's coming until ``ends``.
    full : Out(1)
        The length is beyond the string's room, and zeros are given in its place; until ``ends``.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({
            "string": In(stream.Signature(string_layout(parameters))), "task": In(TASK_BITS),
            "read": Out(ReadPort(parameters)), "words": In(Words(parameters)), "ends": In(1),
            "length": Out(WORD), "known": Out(1), "full": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parameters, string = self.parameters, self.string.payload
        lanes = parameters.flit_words
        beat_bits, lane_bits = exact_log2(parameters.beat_words), exact_log2(lanes)
        # Beats that are asked for at once.
        most = min(PLACES // 2, packet_words(parameters) // parameters.beat_words)
        m.submodules.reader = reader = RunReader(parameters, PLACES)
        wiring.connect(m, reader.port, wiring.flipped(self.read))
        command = reader.command.payload
        # The sector that comes next, by a word of it; the string's last word; the beats that are to be asked for.
        at, final, edge = (Signal.like(string.place, name=name) for name in ("at", "final", "edge"))
        beat, last = Signal.like(command.address, name="beat"), Signal.like(command.address, name="last_beat")
        some, counted = Signal.like(beat, name="beats_behind"), Signal(name="counted")
        asks, word, ended = Signal(name="asks"), Signal(WORD, name="word", reset_less=True), Signal(name="ended")
        inside, loads, room, begins, ends = (Signal(name=name) for name in (
            "inside", "loads", "room", "begins", "ends"))
        lane, last_lane = (address[:lane_bits] if lane_bits else Const(0) for address in (at, final))
        m.d.comb += [
            reader.task.eq(self.task), reader.sector.eq(at[lane_bits:beat_bits]), edge.eq(at | (lanes - 1)),
            command.address.eq(beat), ends.eq((at ^ final) >> lane_bits == 0),
            loads.eq(inside & reader.valid & (room | ended)),
        ]
        m.d.sync += [some.eq(last - beat), counted.eq(0)]
        with m.If(self.ends):
            m.d.sync += [ended.eq(1), self.known.eq(0)]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [reader.command.valid.eq(self.string.valid), command.address.eq(string.place >> beat_bits)]
                m.d.sync += [at.eq(string.place), self.full.eq(0), ended.eq(0)]
                with m.If(reader.command.valid & reader.command.ready):
                    m.next = "LENGTH"
            with m.State("LENGTH"):
                m.d.sync += word.eq(select([reader.o[number] for number in range(lanes)], lane))
                with m.If(reader.valid):
                    m.d.comb += reader.pop.eq(1)
                    m.next = "ROOM"
            with m.State("ROOM"):
                too_long = word >= string.room
                m.d.sync += [self.length.eq(Mux(too_long, 0, word)), self.full.eq(too_long)]
                m.next = "PLACE"
            with m.State("PLACE"):
                m.d.comb += begins.eq(1)
                m.d.sync += [at.eq(at + 1), final.eq(at + self.length), beat.eq((at + 1) >> beat_bits),
                             last.eq((at + self.length) >> beat_bits), asks.eq(self.length != 0),
                             inside.eq(self.length != 0), self.known.eq(1)]
                m.next = "WORDS"
            with m.State("WORDS"):
                m.d.comb += [command.beats_rest.eq(Mux(some < most, some, most - 1)),
                             reader.command.valid.eq(asks & counted & ~ended), reader.pop.eq(
                                 loads & (edge[:beat_bits].all() | ends))]
                m.d.sync += counted.eq(~counted | ~reader.command.ready)
                with m.If(reader.command.valid & reader.command.ready):
                    m.d.sync += [beat.eq(beat + most), asks.eq(some >= most)]
                with m.If(loads):
                    m.d.sync += [at.eq(edge + 1), inside.eq(~ends)]
                # What has been asked for comes and goes.
                waits = inside & (~asks | (at[beat_bits:] != beat))
                with m.If(ended & ~waits):
                    m.d.comb += self.string.ready.eq(1)
                    m.next = "IDLE"
        # Behind the string's last word come zeros.
        sector = [Mux(ends & (number > last_lane), 0, reader.o[number]) for number in range(lanes)]
        self._words(m, sector, begins, at + 1, inside, loads, room)
        return m

    def _words(self, m: Module, sector: list[Value], begins: Signal, first: Value, inside: Signal, loads: Signal,
               room: Signal) -> None:
        """Four sectors at most, in turn in as many places, and the words of them that are next; zeros where no sector
        is. A string ``begins`` with some lane of the ``first`` word's sector, and sectors come while it is ``inside``.
        """
        lanes, words = self.parameters.flit_words, self.words
        lane_bits = exact_log2(lanes)
        held = [Signal(data.ArrayLayout(WORD, lanes), name=f"held_{at}", reset_less=True) for at in range(SECTORS)]
        # Where in them the next word is, and the next sector goes; how many of them there are.
        place, after = Signal(range(SECTORS * lanes), name="place"), Signal(range((SECTORS + 1) * lanes), name="after")
        tail, sectors = Signal(range(SECTORS), name="tail"), Signal(range(SECTORS + 1), name="sectors")
        # The last word of a sector is taken; it was.
        passes, passed = Signal(name="passes"), Signal(SECTORS, name="passed")
        there = Signal.like(words.count, name="there")
        # By the highest bit first, as of the last levels only the first lanes count.
        ring: list[Value] = [word for part in held for word in part]
        for bit in reversed(range(len(place))):
            ring = rotate(m, "held", ring, place, bit, bit + 1, up=False)
        m.d.comb += [
            after.eq(place + words.take), passes.eq(after[lane_bits] ^ place[lane_bits]), room.eq(sectors != SECTORS),
            there.eq(Mux(sectors == 0, 0, Mux(sectors == 1, lanes - (place & (lanes - 1)), lanes))),
            # Behind the string there are zeros without end.
            words.count.eq(Mux(self.known, Mux(inside, there, lanes), 0)),
            *(words.peek[lane].eq(ring[lane]) for lane in range(lanes)),
        ]
        m.d.sync += passed.eq(Mux(passes, 1 << place[lane_bits:], 0))
        with m.If(begins):
            m.d.sync += [place.eq(first & (lanes - 1)), tail.eq(0), sectors.eq(0)]
        with m.Elif(self.known):
            m.d.sync += [place.eq(after), tail.eq(tail + loads), sectors.eq(
                stepped(sectors, loads, passes & (sectors != 0)))]
        for at, words_ in enumerate(held):
            with m.If(loads & (tail == at)):
                m.d.sync += [words_[lane].eq(word) for lane, word in enumerate(sector)]
            with m.Elif(begins | passed[at]):
                m.d.sync += words_.eq(0)
