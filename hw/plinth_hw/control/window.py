"""The host's window to memory: 32 bits at a time, through registers.

::

    WINDOW_DATA write --> data, lane --> store (posted; up to MOST_POSTED under way)
    WINDOW_DATA read  --> wait for what was posted --> load --> 32 bits of the beat --> answer
    WINDOW_ADDRESS ----> address <-- moves on by 32 bits with each

One more client of the crossbar on each side. A write is answered when it has been taken, a read when memory has
answered; what lies beyond the memory fails, moves nothing on and never gets to the crossbar. The register file begins
no other write while a posted one is under way (``idle``), so that whatever a host sets off by a register finds in
memory what it wrote before. Whether a write has room is a register, as is what was read. Latency: a write a cycle, a
read two cycles more than the crossbar's request to its data.
Throughput: a write a cycle as long as memory takes them, one read at a time.
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.isa.layout import WORD_BITS
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.choice import select
from plinth_hw.memory.port import ReadPort, WritePort

#: Writes that may wait for memory's response.
MOST_POSTED = 15


class MemoryWindow(wiring.Component):
    """Memory by registers WINDOW_ADDRESS and WINDOW_DATA.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    read : Out(ReadPort), store : Out(WritePort)
        To the crossbar.
    limit : In
        Size of the memory in beats.
    hold : In(1)
        Ask memory for nothing.
    set : In(1)
        Pulse: ``data`` is the address of the next access, in words; what is no multiple of 32 bits is cut off.
    address : Out
        That of the next access, in words.
    reads : In(1)
        In the cycle before ``valid`` of a read.
    valid, write : In(1)
        An access, until ``ready``: a write of ``data``, or a read; ``valid`` not within two cycles of ``set`` or
        another access.
    data : In(32), strobe : In
        Words of it that are written: a bit each.
    ready : Out(1)
        With ``valid``, the access is done; with ``failed``, it is beyond the memory.
    found : Out(32)
        What was read, with ``ready``; or else 0.
    idle : Out(1)
        No write is under way.
    """

    def __init__(self, parameters: DieParameters) -> None:
        self.parameters = parameters
        words = parameters.words_of(1)
        super().__init__({
            "read": Out(ReadPort(parameters)), "store": Out(WritePort(parameters)),
            "limit": In(parameters.address_bits - exact_log2(parameters.beat_words) + 1),
            "hold": In(1), "set": In(1), "address": Out(parameters.address_bits),
            "reads": In(1), "valid": In(1), "write": In(1), "data": In(WORD_BITS), "strobe": In(words),
            "ready": Out(1), "failed": Out(1), "found": Out(WORD_BITS), "idle": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        unit_log2 = exact_log2(self.parameters.words_of(1))
        units = self.parameters.beat_bits // WORD_BITS
        beat_log2 = exact_log2(self.parameters.beat_words)
        unit = Signal(self.parameters.address_bits - unit_log2)  # 32 bits of memory by number
        beat, lane = unit[beat_log2 - unit_log2:], unit[:beat_log2 - unit_log2]
        inside, step, take = Signal(), Signal(), Signal()
        room = Signal()  # for a write inside
        asks, gives = Signal(), Signal()  # a posted write's request, and its data, are not taken yet
        posted = Signal(range(MOST_POSTED + 1))
        at, word, strobe = Signal.like(unit), Signal(WORD_BITS), Signal.like(self.strobe)
        requests, asked = Signal(), Signal()  # the read's request is offered; it was taken

        m.d.sync += [
            inside.eq(beat < self.limit), self.failed.eq(~inside), self.idle.eq((posted == 0) & ~take),
            room.eq(inside & (~asks | self.store.request.ready) & (~gives | self.store.data.ready)
                    & (posted != MOST_POSTED)),
        ]
        with m.If(self.set):
            m.d.sync += unit.eq(self.data[unit_log2:])
        with m.Elif(step):
            m.d.sync += unit.eq(unit + 1)
        m.d.comb += [
            self.address.eq(unit << unit_log2), step.eq(self.valid & self.ready & ~self.failed),
            take.eq(self.valid & self.write & room & ~self.hold),
        ]

        m.d.sync += posted.eq(posted + take - self.store.response)
        with m.If(take):
            m.d.sync += [asks.eq(1), gives.eq(1), at.eq(unit), word.eq(self.data), strobe.eq(self.strobe)]
        with m.Else():
            with m.If(self.store.request.ready):
                m.d.sync += asks.eq(0)
            with m.If(self.store.data.ready):
                m.d.sync += gives.eq(0)
        m.d.comb += [
            self.store.request.valid.eq(asks), self.store.request.payload.address.eq(at[len(lane):]),
            self.store.request.payload.beats.eq(1),
            self.store.data.valid.eq(gives), self.store.data.payload.data.eq(word.replicate(units)),
            self.store.data.payload.strobe.eq(Cat(
                Mux(at[:len(lane)] == number, strobe, 0) for number in range(units))),
        ]

        held = Signal()
        beats = Cat(self.read.data.payload)
        m.d.comb += [
            self.read.request.valid.eq(requests),
            self.read.request.payload.address.eq(beat), self.read.request.payload.beats.eq(1),
            self.read.data.ready.eq(1),
            self.ready.eq(self.failed | Mux(self.write, room & ~self.hold, held)),
        ]
        with m.If(requests & self.read.request.ready):
            m.d.sync += [requests.eq(0), asked.eq(1)]
        with m.Elif((self.reads | (self.valid & ~self.write)) & inside & self.idle & ~asked & ~held & ~self.hold):
            m.d.sync += requests.eq(1)
        m.d.sync += [held.eq(asked & self.read.data.valid), self.found.eq(0)]
        with m.If(asked & self.read.data.valid):
            m.d.sync += [asked.eq(0), self.found.eq(select([beats.word_select(number, WORD_BITS)
                                                            for number in range(units)], lane))]
        return m
