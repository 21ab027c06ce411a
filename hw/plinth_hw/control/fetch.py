"""Descriptor fetch: reads descriptors in program order and cuts them into words.

::

    start, base --> request of one beat --> read port
                                               |
             o <-- word register <-- lane <-- beat register

The beat register takes a beat as soon as memory delivers it, so that the read path, which all engines share,
never waits here: a beat is requested only when the register is empty or the words left in it have a place
(word 0 of their descriptor has been taken). A descriptor takes max(64, beats * (memory latency + 3)) cycles.
Nothing beyond the last descriptor is read. Beats may be smaller or larger than a descriptor; a larger one is
read once for each of its descriptors. Source: MPT section VI.A (task graph in memory).
"""

from amaranth.hdl import Cat, Const, Module, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.tasks import DESCRIPTOR_WORDS, HEADER_WORDS, TaskHeader
from plinth_hw.memory.port import ReadPort, beat_layout

_DESCRIPTOR_LOG2 = (DESCRIPTOR_WORDS - 1).bit_length()


class DescriptorWord(data.Struct):
    """One word of a descriptor."""

    index: unsigned(_DESCRIPTOR_LOG2)
    word: unsigned(32)


def header_word(word: Value, number: int) -> data.View:
    """The header of which ``word`` is word ``number``; all other fields read as 0."""
    return TaskHeader(Cat(Const(0, 32 * number), word, Const(0, 32 * (HEADER_WORDS - 1 - number))))


class DescriptorFetch(wiring.Component):
    """Fetches the descriptors of one graph.

    Parameters
    ----------
    parameters : DieParameters
        Gives the size of a beat and of an address.

    Members
    -------
    start : In(1)
        Pulse while not ``active``: fetch the graph whose first descriptor lies at ``base``.
    base : In(address_bits)
        Word address, valid with ``start``; taken as a multiple of 64.
    stop : In(1)
        Level: request nothing more.
    memory : Out(ReadPort)
        Where descriptors are read.
    o : Out(stream of DescriptorWord)
        Words 0 to 63 of each descriptor.
    address : Out(address_bits)
        Word address of the descriptor that ``o`` presents.
    requested : Out(address_bits)
        Word address of the descriptor that was requested last.
    active : Out(1)
        From ``start`` until word 63 of the last descriptor has been taken.
    """

    def __init__(self, parameters: DieParameters) -> None:
        self.parameters = parameters
        super().__init__({
            "start": In(1),
            "base": In(parameters.address_bits),
            "stop": In(1),
            "memory": Out(ReadPort(parameters)),
            "o": Out(stream.Signature(DescriptorWord)),
            "address": Out(parameters.address_bits),
            "requested": Out(parameters.address_bits),
            "active": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        beat_log2 = (self.parameters.beat_words - 1).bit_length()
        request, beat = self.memory.request, self.memory.data
        wanted = Signal(self.parameters.address_bits - _DESCRIPTOR_LOG2)  # descriptor to request from
        held = Signal.like(wanted)  # descriptor in the beat register
        presented = Signal.like(wanted)  # descriptor at ``o``
        words = Signal(beat_layout(self.parameters))
        full = Signal()  # the beat register holds words still to come
        index = Signal(_DESCRIPTOR_LOG2)  # next word
        placed = Signal()  # word 0 of the descriptor at ``o`` has been taken
        final = Signal()  # the descriptor at ``o`` is the last
        outstanding = Signal()

        if beat_log2 < _DESCRIPTOR_LOG2:
            part = Signal(_DESCRIPTOR_LOG2 - beat_log2)  # beat of the descriptor to request
            m.d.comb += request.payload.address.eq(Cat(part, wanted))
            lane: Value = index[:beat_log2]
            first_part, last_part = part == 0, part.all()
        else:
            part = None  # a beat holds whole descriptors
            m.d.comb += request.payload.address.eq(wanted >> (beat_log2 - _DESCRIPTOR_LOG2))
            lane = Cat(index, held[:beat_log2 - _DESCRIPTOR_LOG2])
            first_part, last_part = Const(1), Const(1)
        m.d.comb += [
            request.payload.beats.eq(1),
            self.address.eq(presented << _DESCRIPTOR_LOG2),
            beat.ready.eq(~full),
        ]

        more = Signal()  # another beat is known to be needed
        m.d.comb += more.eq(self.active & ~self.stop & ~(first_part & final))
        with m.If(request.valid & request.ready):
            m.d.sync += [request.valid.eq(0), wanted.eq(wanted + last_part)]
            if part is not None:
                m.d.sync += part.eq(part + 1)
        with m.Elif(more & ~outstanding & (~full | (placed & (index != 0)))):
            m.d.sync += [
                request.valid.eq(1),
                outstanding.eq(1),
                self.requested.eq(wanted << _DESCRIPTOR_LOG2),
            ]
        with m.If(beat.valid & beat.ready):
            m.d.sync += [outstanding.eq(0), full.eq(1), words.eq(beat.payload)]

        word = Signal(32)
        m.d.comb += word.eq(words[lane] if beat_log2 else words[0])
        ended = Signal()  # ``o`` presents the very last word
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [self.o.valid.eq(0), placed.eq(1)]
            with m.If(ended):
                m.d.sync += [self.active.eq(0), ended.eq(0)]
        with m.If(full & (~self.o.valid | self.o.ready)):
            m.d.sync += [
                index.eq(index + 1),
                self.o.valid.eq(1),
                self.o.payload.index.eq(index),
                self.o.payload.word.eq(word),
            ]
            with m.If(index == 0):
                m.d.sync += [final.eq(header_word(word, 0).last), presented.eq(held), placed.eq(0)]
            with m.If(index.all()):
                m.d.sync += [held.eq(held + 1), ended.eq(final)]
            boundary = min(beat_log2, _DESCRIPTOR_LOG2)
            with m.If(index[:boundary].all() if boundary else Const(1)):
                m.d.sync += full.eq(0)
        with m.If(self.start):
            m.d.sync += [
                self.active.eq(1),
                final.eq(0),
                wanted.eq(self.base[_DESCRIPTOR_LOG2:]),
                held.eq(self.base[_DESCRIPTOR_LOG2:]),
            ]
        return m
