"""Words of strings from memory: the length that stands before them, then so many, then zeros.

::

    string --> RunReader (memory) --> length
                            +-------> (FIFO) --> two sectors --> words

Throughput: a flit of words a cycle. Latency: string to first word that of the memory, twice, and eight cycles.
"""

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.comm.codes.bits import WORD
from plinth_hw.comm.run_reader import RunReader, packet_words
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.choice import select
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.lib.rotator import rotate
from plinth_hw.memory.port import TASK_BITS, ReadPort

#: Places for beats.
PLACES = 16


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
        m.submodules.sectors = sectors = FIFO(
            data.StructLayout({"words": data.ArrayLayout(WORD, lanes), "last": 1}), 2, Storage.HEAD)
        # The sector that comes next, by a word of it; the string's last word; the beats that are to be asked for.
        at, final, edge = (Signal.like(string.place, name=name) for name in ("at", "final", "edge"))
        beat, last = Signal.like(command.address, name="beat"), Signal.like(command.address, name="last_beat")
        some, counted = Signal.like(beat, name="beats_behind"), Signal(name="counted")
        asks, word, ended = Signal(name="asks"), Signal(WORD, name="word", reset_less=True), Signal(name="ended")
        inside, loads, begins, ends = (Signal(name=name) for name in ("inside", "loads", "begins", "ends"))
        lane, last_lane = (address[:lane_bits] if lane_bits else Const(0) for address in (at, final))
        m.d.comb += [
            reader.task.eq(self.task), reader.sector.eq(at[lane_bits:beat_bits]), edge.eq(at | (lanes - 1)),
            command.address.eq(beat), ends.eq((at ^ final) >> lane_bits == 0), loads.eq(
                inside & reader.valid & sectors.i.ready),
            sectors.i.valid.eq(loads), sectors.i.payload.last.eq(ends),
            # Behind the string's last word come zeros.
            *(sectors.i.payload.words[number].eq(Mux(ends & (number > last_lane), 0, reader.o[number]))
              for number in range(lanes)),
        ]
        m.d.sync += [some.eq(last - beat), counted.eq(0)]
        with m.If(self.ends):
            m.d.sync += ended.eq(1)
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
                             inside.eq(self.length != 0)]
                m.next = "WORDS"
            with m.State("WORDS"):
                m.d.comb += [self.known.eq(~ended), command.beats_rest.eq(Mux(some < most, some, most - 1)),
                             reader.command.valid.eq(asks & counted & ~ended), reader.pop.eq(
                                 loads & (edge[:beat_bits].all() | ends))]
                m.d.sync += counted.eq(~counted | ~reader.command.ready)
                with m.If(reader.command.valid & reader.command.ready):
                    m.d.sync += [beat.eq(beat + most), asks.eq(some >= most)]
                with m.If(loads):
                    m.d.sync += [at.eq(edge + 1), inside.eq(~ends)]
                # What has been asked for comes and goes.
                waits = (inside & (~asks | (at[beat_bits:] != beat))) | sectors.o.valid
                with m.If(ended & ~waits):
                    m.d.comb += self.string.ready.eq(1)
                    m.next = "IDLE"
        self._words(m, sectors.o, begins, at + 1, ended)
        return m

    def _words(self, m: Module, sector: Any, begins: Signal, first: Value, ended: Signal) -> None:
        """Two sectors at most, in turn in two places, and the words of them that are next; zeros where no sector is. A
        string ``begins`` with some lane of the ``first`` word's sector."""
        lanes, words = self.parameters.flit_words, self.words
        lane_bits = exact_log2(lanes)
        held = Signal(data.ArrayLayout(WORD, 2 * lanes), name="held", reset_less=True)
        # Where in them the next word is, and how many of them there are; sectors of the string come.
        place, after = Signal(lane_bits + 1, name="place"), Signal(lane_bits + 2, name="after")
        sectors, passes, come = Signal(range(3), name="sectors_there"), Signal(name="passes"), Signal(name="come")
        loads, there = Signal(name="sector_loads"), Signal.like(words.count, name="there")
        ring = rotate(m, "held", [held[number] for number in range(2 * lanes)], place, 0, lane_bits + 1, up=False)
        m.d.comb += [
            after.eq(place + words.take), passes.eq(after[lane_bits] ^ place[lane_bits]),
            sector.ready.eq((sectors != 2) | passes | ended), loads.eq(sector.valid & sector.ready),
            there.eq(Mux(sectors == 0, 0, Mux(sectors == 1, lanes - (place & (lanes - 1)), lanes))),
            # Behind the string there are zeros without end.
            words.count.eq(Mux(self.known, Mux(come, there, lanes), 0)),
            *(words.peek[lane].eq(ring[lane]) for lane in range(lanes)),
        ]
        with m.If(begins):
            m.d.sync += [place.eq(first & (lanes - 1)), sectors.eq(0), come.eq(self.length != 0)]
        with m.Elif(self.known):
            m.d.sync += [place.eq(after), sectors.eq(sectors + loads - (passes & (sectors != 0)))]
            with m.If(loads & sector.payload.last):
                m.d.sync += come.eq(0)
        for half in range(2):
            with m.If(loads & (place[lane_bits] ^ sectors[0] == half)):
                m.d.sync += [held[half * lanes + lane].eq(sector.payload.words[lane]) for lane in range(lanes)]
            with m.Elif(begins | (passes & (place[lane_bits] == half))):
                m.d.sync += [held[half * lanes + lane].eq(0) for lane in range(lanes)]
