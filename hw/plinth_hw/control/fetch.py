"""Descriptor fetch: reads descriptors in program order and cuts them into words.

::

    start, base --> request of a descriptor --> read port
                                                   |
             o <-- FIFO <-- registers of the rows' lanes <-- store of each of two descriptors

A descriptor is requested in one burst, and only when the store has room for all of it, so that the read path,
which all engines share, never waits here. The next one is requested as soon as the first beat of this one has
shown that it is not the last: nothing beyond the last descriptor is read. A descriptor takes
max(64, memory latency + 2) cycles, where the latency runs from the request to the first beat; the rest of its
beats must come within 64 cycles. Beats may be smaller or larger than a descriptor; a larger one is read once
for each of its descriptors. Source: MPT section VI.A (task graph in memory).
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from plinth_hw.isa.descriptors import DESCRIPTOR_WORDS, HEADER_WORDS, TaskHeader
from plinth_hw.isa.layout import WORD_BITS
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.choice import one_registered
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.lib.ram import FEW, FLIP_FLOPS, LUT_RAM
from plinth_hw.memory.port import TASK_BITS, ReadPort
from plinth_hw.shapes import shape_of

_INDEX_BITS = exact_log2(DESCRIPTOR_WORDS)
#: Descriptors in the store.
_STORED = 2


class DescriptorWord(data.Struct):
    """One word of a descriptor."""

    index: unsigned(_INDEX_BITS)
    word: unsigned(32)


def header_word(word: Value, number: int) -> data.View:
    """The header of which ``word`` is word ``number``; all other fields read as 0."""
    return shape_of(TaskHeader)(Cat(Const(0, 32 * number), word,
                                    Const(0, 32 * (HEADER_WORDS - 1 - number))))


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
        Word address, valid with ``start``; taken as a multiple of a descriptor's 2,048 bits.
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
    asked_number : In, asked : Out(address_bits)
        Word address of the descriptor whose request has this ``task``, if its data are not all there.
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
            "asked_number": In(TASK_BITS), "asked": Out(parameters.address_bits),
            "active": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # In words of a descriptor, 32 bits each: a beat, and what one brings of a descriptor.
        beat_log2 = exact_log2(self.parameters.beat_bits // WORD_BITS)
        row_log2 = min(beat_log2, _INDEX_BITS)
        size_log2 = exact_log2(self.parameters.words_of(DESCRIPTOR_WORDS))  # words of memory
        rows = DESCRIPTOR_WORDS >> row_log2
        request, beat = self.memory.request, self.memory.data
        wanted = Signal(self.parameters.address_bits - size_log2)  # descriptor requested last
        before, given_number = Signal.like(wanted), Signal.like(wanted)  # the one before it, and that at ``o``
        fresh = Signal()  # none has been requested; ``wanted`` is the first
        ahead = Signal(range(_STORED + 1))  # descriptors requested after the one at ``o``
        known = Signal()  # word 0 of all that were requested has come, or none was requested
        final = Signal()  # the descriptor requested last is the last
        index = Signal(_INDEX_BITS)  # next word for ``o``
        turn = Signal(range(2 * _STORED))  # number of its descriptor, as far as the store tells them apart
        arrived = Signal(range(2 * _STORED * rows))  # rows stored

        # Read in the cycle of its address, and never a row that is being written.
        stores = [memory.Memory(shape=32 << row_log2, depth=max(2, rows), init=[],
                                attrs=LUT_RAM if rows > FEW else FLIP_FLOPS) for _ in range(_STORED)]
        row = Cat(index, turn)[row_log2:]
        which = turn[0]
        words = beat.payload.as_value()
        if beat_log2 > row_log2:
            words = words.word_select(wanted[:beat_log2 - row_log2], 32 << row_log2)
            m.d.comb += request.payload.address.eq(wanted >> (beat_log2 - row_log2))
        else:
            m.d.comb += request.payload.address.eq(wanted << (_INDEX_BITS - row_log2))
        m.d.comb += [
            request.payload.beats.eq(rows),
            # Of the last two there is one with each.
            request.payload.task.eq(wanted[0]),
            self.asked.eq(Mux(wanted[0] == self.asked_number[0], wanted, before) << size_log2),
            self.requested.eq(wanted << size_log2),
            self.address.eq(given_number << size_log2), beat.ready.eq(1),
        ]
        stored_rows = []
        for number, store in enumerate(stores):
            m.submodules[f"store_{number}"] = store
            write, read = store.write_port(), store.read_port(domain="comb")
            m.d.comb += [write.en.eq(beat.valid & (arrived[exact_log2(rows)] == number)),
                         write.addr.eq(arrived[:exact_log2(rows)]), write.data.eq(words),
                         read.addr.eq(row[:exact_log2(rows)])]
            stored_rows.append(read.data)

        asks, begins, steps = Signal(name="asks"), Signal(name="begins"), Signal(name="steps")
        m.d.comb += asks.eq(self.active & ~self.stop & known & ~final & (
            (ahead == 0) | ((ahead == 1) & ((index == 0) | (steps & index.all())))))
        m.d.sync += ahead.eq(ahead + asks - begins)
        with m.If(asks):
            m.d.sync += [request.valid.eq(1), known.eq(0), fresh.eq(0), wanted.eq(wanted + ~fresh), before.eq(wanted)]
        with m.Elif(request.ready):
            m.d.sync += request.valid.eq(0)
        with m.If(beat.valid):
            m.d.sync += arrived.eq(arrived + 1)
            with m.If((arrived[:ceil_log2(rows)] == 0) if rows > 1 else Const(1)):
                m.d.sync += [known.eq(1), final.eq(header_word(words[:32], 0).last)]

        # A word of a descriptor, and whether it is the very last one.
        m.submodules.queue = queue = FIFO(data.StructLayout({"word": DescriptorWord, "ended": 1}), 2, Storage.HEAD)
        there, queued = queue.i.valid, queue.i.payload
        more = Signal(name="more")  # the row at ``index`` was there a cycle ago
        chosen, ended = Signal.like(index, name="chosen"), Signal(name="ended")
        lanes = [(number, lane) for number in range(_STORED) for lane in range(1 << row_log2)]
        m.d.comb += [
            steps.eq(more & (~there | queue.i.ready)),
            queued.word.index.eq(chosen), queued.ended.eq(ended),
            queued.word.word.eq(one_registered(
                m, "lane", [(which == number) & (index[:row_log2] == lane) for number, lane in lanes],
                [stored_rows[number].word_select(lane, 32) for number, lane in lanes], steps)),
            self.o.valid.eq(queue.o.valid), queue.o.ready.eq(self.o.ready),
            self.o.payload.eq(queue.o.payload.word),
        ]
        with m.If(self.o.valid & self.o.ready & self.o.payload.index.all()):
            m.d.sync += given_number.eq(given_number + 1)
        with m.If(self.o.valid & self.o.ready & queue.o.payload.ended):
            m.d.sync += self.active.eq(0)
        m.d.sync += more.eq(row != arrived)
        with m.If(steps & (index[:row_log2] == (1 << row_log2) - 1)):
            m.d.sync += more.eq((row + 1)[:len(row)] != arrived)
        with m.If(queue.i.ready):
            m.d.sync += there.eq(0)
        with m.If(steps):
            m.d.comb += begins.eq(index == 0)
            m.d.sync += [Cat(index, turn).eq(Cat(index, turn) + 1), there.eq(1), chosen.eq(index),
                         ended.eq(index.all() & final & (ahead == 0))]
        with m.If(self.start):
            m.d.sync += [
                self.active.eq(1), known.eq(1), final.eq(0), fresh.eq(1), wanted.eq(self.base[size_log2:]),
                given_number.eq(self.base[size_log2:]),
            ]
        return m
