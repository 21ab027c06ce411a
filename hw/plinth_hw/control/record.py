"""Record writer: collects a completion record word by word and writes it to memory.

::

    word (8 times) --> memory of a record, a beat a row --> request and beat(s) --> write port
                                                                   responses --> count

A record takes 8 cycles to collect and at least two to hand over. Several may await their responses.
"""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.isa.descriptors import RECORD_WORDS
from plinth_hw.isa.layout import WORD_BITS
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.ram import FLIP_FLOPS, LUT_RAM
from plinth_hw.memory.port import TASK_BITS, WritePort

_RECORD_LOG2 = exact_log2(RECORD_WORDS)
#: Records whose write responses may be outstanding.
OUTSTANDING = 8


class RecordWriter(wiring.Component):
    """Writes records one after another.

    Parameters
    ----------
    parameters : DieParameters
        Gives the size of a beat and of an address.

    Members
    -------
    base : In(address_bits)
        Word address of record 0; taken as a multiple of a record's 256 bits.
    count : Out(32)
        Records that memory has acknowledged.
    count_write, count_data : In
        Pulse and value: set ``count``; only while ``idle``.
    idle : Out(1)
        Nothing collected, nothing outstanding.
    ready : Out(1)
        A new record may be collected.
    word_valid, word : In
        The next of the 8 words of a record, word 0 first, begun while ``ready``.
    memory : Out(WritePort)
        Where records go.
    asked_number : In, asked : Out(32)
        Address of the task whose record's request has this ``task``, if that is not answered.
    """

    def __init__(self, parameters: DieParameters) -> None:
        self.parameters = parameters
        super().__init__({
            "base": In(parameters.address_bits),
            "count": Out(32),
            "count_write": In(1),
            "count_data": In(32),
            "idle": Out(1),
            "ready": Out(1),
            "word_valid": In(1),
            "word": In(32),
            "memory": Out(WritePort(parameters)),
            "asked_number": In(TASK_BITS), "asked": Out(32),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parameters = self.parameters
        # In words of a record, 32 bits each; its words of memory.
        beat_words = parameters.beat_bits // WORD_BITS
        beat_log2, size_log2 = exact_log2(beat_words), exact_log2(parameters.words_of(RECORD_WORDS))
        collected = Signal(range(RECORD_WORDS))
        outstanding = Signal(range(OUTSTANDING + 1))
        requested = Signal(parameters.address_bits - size_log2)  # and acknowledged: ``count`` to be
        request_valid, data_valid = Signal(name="request_valid"), Signal(name="data_valid")
        record_number = Signal(parameters.address_bits - size_log2)
        beats = max(1, RECORD_WORDS // beat_words)
        beat = Signal(range(max(2, beats)))
        lanes = RECORD_WORDS // beats
        m.submodules.record = record = Memory(shape=data.ArrayLayout(32, lanes), depth=max(2, beats), init=[],
                                              attrs=LUT_RAM if beats > 1 else FLIP_FLOPS)
        collect, retrieve = record.write_port(granularity=1), record.read_port(domain="comb")
        request, beat_data = self.memory.request, self.memory.data
        # The tasks of the records under way.
        m.submodules.tasks = tasks = Memory(shape=32, depth=OUTSTANDING, init=[])
        keep, recall = tasks.write_port(), tasks.read_port(domain="comb")
        number = Signal(exact_log2(OUTSTANDING))

        m.d.comb += [
            self.idle.eq((collected == 0) & ~request_valid & ~data_valid & (outstanding == 0)),
            self.ready.eq(~request_valid & ~data_valid & (outstanding != OUTSTANDING)),
            request.valid.eq(request_valid),
            request.payload.beats.eq(beats), request.payload.task.eq(number),
            keep.addr.eq(number), keep.data.eq(self.word), keep.en.eq(self.word_valid & (collected == 0)),
            recall.addr.eq(self.asked_number), self.asked.eq(recall.data),
            beat_data.valid.eq(data_valid),
            collect.addr.eq(collected >> exact_log2(lanes)), collect.data.eq(Cat(self.word).replicate(lanes)),
            collect.en.eq(Cat(self.word_valid & (collected[:exact_log2(lanes)] == lane) for lane in range(lanes))),
            retrieve.addr.eq(beat),
        ]
        position = record_number
        if beat_words >= RECORD_WORDS:
            places_log2 = beat_log2 - _RECORD_LOG2
            m.d.comb += request.payload.address.eq(position >> places_log2)
            place = position[:places_log2]
            written = [(place == lane // RECORD_WORDS) if places_log2 else Const(1) for lane in range(beat_words)]
        else:
            m.d.comb += request.payload.address.eq(position << (_RECORD_LOG2 - beat_log2))
            written = [Const(1)] * beat_words
        m.d.comb += [
            beat_data.payload.data.as_value().eq(retrieve.data.as_value().replicate(beat_words // lanes)),
            beat_data.payload.strobe.eq(Cat(lane.replicate(parameters.words_of(1)) for lane in written)),
        ]

        with m.If(self.word_valid):
            m.d.sync += collected.eq(collected + 1)
            with m.If(collected == RECORD_WORDS - 1):
                m.d.sync += [
                    request_valid.eq(1),
                    data_valid.eq(1),
                    record_number.eq(self.base[size_log2:] + requested),
                ]
        issued = Signal()
        m.d.comb += issued.eq(request.valid & request.ready)
        with m.If(issued):
            m.d.sync += [request_valid.eq(0), number.eq(number + 1), requested.eq(requested + 1)]
        with m.If(beat_data.valid & beat_data.ready):
            m.d.sync += [beat.eq((beat + 1) & (beats - 1)), data_valid.eq(beat != beats - 1)]
        m.d.sync += outstanding.eq(outstanding + issued - self.memory.response)
        with m.If(self.count_write):
            m.d.sync += [self.count.eq(self.count_data), requested.eq(self.count_data)]
        with m.Elif(self.memory.response):
            m.d.sync += self.count.eq(self.count + 1)
        return m
