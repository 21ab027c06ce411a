"""Words of strings from memory: the length that stands before them, then so many, then zeros.

::

    string --> RunReader (memory) --> length
                            +-------> word --> o

Throughput: a word a cycle. Latency: string to first word that of the memory, twice, and four cycles.
"""

from amaranth.hdl import Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.comm.codes.bits import WORD
from plinth_hw.comm.run_reader import RunReader, packet_words
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.choice import select
from plinth_hw.memory.port import TASK_BITS, ReadPort

#: Places for beats.
PLACES = 16


def string_layout(parameters: DieParameters) -> data.StructLayout:
    """``place``: the word before a string, which holds its length; ``room``: words that it and the string may take."""
    return data.StructLayout({"place": unsigned(parameters.address_bits), "room": unsigned(WORD)})


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
    o : Out stream of words
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
            "read": Out(ReadPort(parameters)), "o": Out(stream.Signature(unsigned(WORD))), "ends": In(1),
            "length": Out(WORD), "known": Out(1), "full": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parameters, string = self.parameters, self.string.payload
        beat_bits, lane_bits = exact_log2(parameters.beat_words), exact_log2(parameters.flit_words)
        # Beats that are asked for at once.
        most = min(PLACES // 2, packet_words(parameters) // parameters.beat_words)
        m.submodules.reader = reader = RunReader(parameters, PLACES)
        wiring.connect(m, reader.port, wiring.flipped(self.read))
        command = reader.command.payload
        # The next word, and the beats that are to be asked for.
        at, end = Signal.like(string.place, name="at"), Signal.like(string.place, name="end")
        beat, last = Signal.like(command.address, name="beat"), Signal.like(command.address, name="last_beat")
        asks, word, ended = Signal(name="asks"), Signal(WORD, name="word"), Signal(name="ended")
        lane = at[:lane_bits] if lane_bits else Const(0)
        some = last - beat
        m.d.comb += [
            reader.task.eq(self.task), reader.sector.eq(at[lane_bits:beat_bits]),
            word.eq(select([reader.o[number] for number in range(parameters.flit_words)], lane)),
            command.address.eq(beat),
        ]
        with m.If(self.ends):
            m.d.sync += ended.eq(1)
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [reader.command.valid.eq(self.string.valid), command.address.eq(string.place >> beat_bits)]
                m.d.sync += [at.eq(string.place), self.full.eq(0), ended.eq(0)]
                with m.If(reader.command.valid & reader.command.ready):
                    m.next = "LENGTH"
            with m.State("LENGTH"):
                too_long = word >= string.room
                with m.If(reader.valid):
                    m.d.comb += reader.pop.eq(1)
                    m.d.sync += [self.length.eq(Mux(too_long, 0, word)), self.full.eq(too_long),
                                 at.eq(at + 1), end.eq(at + 1 + Mux(too_long, 0, word)),
                                 beat.eq((at + 1) >> beat_bits), last.eq((at + Mux(too_long, 0, word)) >> beat_bits),
                                 asks.eq(~too_long & (word != 0))]
                    m.next = "WORDS"
            with m.State("WORDS"):
                m.d.comb += [self.known.eq(~ended), command.beats_rest.eq(Mux(some < most, some, most - 1)),
                             reader.command.valid.eq(asks & ~ended)]
                with m.If(reader.command.valid & reader.command.ready):
                    m.d.sync += [beat.eq(beat + most), asks.eq(some >= most)]
                inside = at != end
                m.d.comb += [
                    self.o.valid.eq(Mux(inside, reader.valid, 1) & ~ended), self.o.payload.eq(Mux(inside, word, 0))]
                moves = inside & reader.valid & (self.o.ready | ended)
                m.d.comb += reader.pop.eq(moves & (at[:beat_bits].all() | (at + 1 == end)))
                with m.If(moves):
                    m.d.sync += at.eq(at + 1)
                # What has been asked for comes and goes.
                waits = inside & (~asks | (at[beat_bits:] != beat))
                with m.If(ended & ~waits):
                    m.d.comb += self.string.ready.eq(1)
                    m.next = "IDLE"
        return m
