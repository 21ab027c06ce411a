"""Transfer engine: a strided 3-D copy within die memory, at any word alignment.

::

    plane walk --+--> StridedLoad --> gate (room) ------> read.request
                 |         |<---------------------------- read.data
                 |         v
                 |      realign: pick -> reg -> rotate, merge with the beat before --> buffer FIFO
                 |         ^                                                             |
                 +--> row walk -+-> beat walk (beats wanted)                             v
                                +-> request FIFO --> gate (data there) -> write.request  write.data

A row starts at any lane on both sides. With s and d the low parts of its addresses, every beat read is
rotated by (s - d) mod B, and a beat to write takes its lanes from two successive ones.

The engine never stops the read side: it asks for beats only when the buffer has room for all that
they become. It never holds the write side: it asks to write only what lies in the buffer.

One task runs at a time; the body of the next one is taken once all planes of this one are under way.
Latency: start to first read request 4 cycles; first read beat to write data 4 cycles. Throughput: one
beat a cycle, less one cycle a row when s > d; reads in flight are limited by ``buffer_beats``.
Source: the DMA of the logic die, MPT section VI.A.
"""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from plinth_hw.control.engine import EngineSignature
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.tasks import ErrorCode, Pointer, TransferBody, TransferOperation
from plinth_hw.memory.channel import (
    BeatWalk,
    RowRequests,
    StridedLoad,
    command_layout,
    fetch_layout,
    load_layout,
)
from plinth_hw.memory.port import ReadPort, WritePort, beat_layout
from plinth_hw.memory.scratchpad import rotate

#: Widths of the body's rows and columns.
COUNT_BITS = 32


class TransferEngine(wiring.Component):
    """Copies ``planes`` x ``rows`` x ``columns`` words. Overlapping source and destination: unspecified.

    Parameters
    ----------
    parameters : DieParameters
    buffer_beats : int
        Depth of the buffer, at least 8; requests are up to a quarter of it.

    Members
    -------
    engine : Out(EngineSignature)
        ``done.error`` is BAD_OPERATION for an unknown operation and BAD_OPERAND if a size is zero.
        ``payload_words`` counts copied words, ``stall_cycles`` the cycles of the task in which no word
        was handed to the memory's write side.
    read : Out(ReadPort)
    write : Out(WritePort)

    Raises
    ------
    ValueError
        If ``buffer_beats`` is less than 8.
    """

    def __init__(self, parameters: DieParameters, buffer_beats: int = 16):
        if buffer_beats < 8:
            raise ValueError(f"Buffer must have at least 8 beats, not {buffer_beats!r}")
        self.parameters = parameters
        self.buffer_beats = buffer_beats
        super().__init__({
            "engine": Out(EngineSignature(parameters)),
            "read": Out(ReadPort(parameters)),
            "write": Out(WritePort(parameters)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        burst = self.buffer_beats // 4
        m.submodules.load = load = StridedLoad(self.parameters, COUNT_BITS, COUNT_BITS,
                                               row_depth=self.buffer_beats, max_beats=burst)
        m.submodules.store = store = _Store(self.parameters, self.buffer_beats, burst)
        m.submodules.realign = realign = _Realign(self.parameters)
        wiring.connect(m, store.write, wiring.flipped(self.write))
        wiring.connect(m, load.o, realign.load)
        wiring.connect(m, store.fetch, realign.fetch)
        wiring.connect(m, load.port.data, wiring.flipped(self.read.data))

        # Room in the buffer. A row of n beats read becomes at most n + 1 beats to write: that many
        # places are taken when it is asked for, and the realigner says how many it did not need.
        room = Signal(range(self.buffer_beats + 1), init=self.buffer_beats)
        needed = Signal(range(burst + 2))
        permit = Signal()
        asked = Signal()
        m.d.comb += [
            needed.eq(load.port.request.payload.beats + load.request_row_last),
            permit.eq(room >= needed),
            self.read.request.payload.eq(load.port.request.payload),
            self.read.request.valid.eq(load.port.request.valid & permit),
            load.port.request.ready.eq(self.read.request.ready & permit),
            asked.eq(self.read.request.valid & self.read.request.ready),
            store.i.eq(realign.o), store.i_valid.eq(realign.o_valid),
        ]
        m.d.sync += room.eq(room + store.pop + realign.unused - Mux(asked, needed, 0))

        self._control(m, load, store)
        return m

    def _control(self, m: Module, load: StridedLoad, store: "_Store") -> None:
        """Body, start, plane walk, done."""
        engine = self.engine
        body_words = data.Layout.cast(TransferBody).size // 32
        words = Signal(data.ArrayLayout(unsigned(32), body_words))
        body = data.View(TransferBody, words.as_value())
        staged = Signal()
        source = Signal(self.parameters.address_bits)
        destination = Signal(self.parameters.address_bits)
        planes = Signal(COUNT_BITS)
        under_way = Signal(COUNT_BITS)
        load_given = Signal()
        store_given = Signal()
        issued = Signal()
        started = Signal()
        done = Signal.like(engine.done.payload)
        running = Signal()

        m.d.comb += [engine.body.ready.eq(~staged), engine.done.payload.eq(done)]
        with m.If(engine.body.valid & engine.body.ready):
            with m.If(engine.body.payload.index < body_words):
                m.d.sync += words[engine.body.payload.index[:(body_words - 1).bit_length()]].eq(
                    engine.body.payload.word)
            m.d.sync += staged.eq(engine.body.payload.last)

        pointer = Signal(Pointer)
        pointed = Signal(self.parameters.address_bits)
        m.d.comb += pointed.eq(Array(engine.bases[base] for base in range(len(engine.bases)))[pointer.base]
                               + pointer.offset)
        for channel, address, stride in ((load, source, body.source_row_stride),
                                         (store, destination, body.destination_row_stride)):
            m.d.comb += [
                channel.command.payload.address.eq(address), channel.command.payload.stride.eq(stride),
                channel.command.payload.rows.eq(body.rows),
                channel.command.payload.columns.eq(body.columns),
            ]
        m.d.comb += issued.eq((load_given | load.command.ready) & (store_given | store.command.ready))

        with m.FSM():
            with m.State("START"):
                m.d.comb += engine.start.ready.eq(staged)
                with m.If(engine.start.valid & staged):
                    m.d.sync += [done.eq(0), planes.eq(body.planes)]
                    with m.If(engine.operation != TransferOperation.COPY.value):
                        m.d.sync += [done.error.eq(ErrorCode.BAD_OPERATION), staged.eq(0)]
                        m.next = "REPORT"
                    with m.Elif((body.columns == 0) | (body.rows == 0) | (body.planes == 0)):
                        m.d.sync += [done.error.eq(ErrorCode.BAD_OPERAND), staged.eq(0)]
                        m.next = "REPORT"
                    with m.Else():
                        m.next = "SOURCE"
            with m.State("SOURCE"):
                m.d.comb += [pointer.eq(body.source), running.eq(1)]
                m.d.sync += source.eq(pointed)
                m.next = "DESTINATION"
            with m.State("DESTINATION"):
                m.d.comb += [pointer.eq(body.destination), running.eq(1)]
                m.d.sync += destination.eq(pointed)
                m.next = "PLANES"
            with m.State("PLANES"):
                m.d.comb += [load.command.valid.eq(~load_given), store.command.valid.eq(~store_given),
                             started.eq(issued), running.eq(1)]
                m.d.sync += [load_given.eq(~issued & (load_given | load.command.ready)),
                             store_given.eq(~issued & (store_given | store.command.ready))]
                with m.If(issued):
                    m.d.sync += [source.eq(source + body.source_plane_stride),
                                 destination.eq(destination + body.destination_plane_stride),
                                 planes.eq(planes - 1)]
                    with m.If(planes == 1):
                        m.d.sync += staged.eq(0)
                        m.next = "DATA"
            with m.State("DATA"):
                m.d.comb += running.eq(1)
                with m.If(under_way == 0):
                    m.next = "REPORT"
            with m.State("REPORT"):
                m.d.comb += engine.done.valid.eq(1)
                with m.If(engine.done.ready):
                    m.next = "START"

        m.d.sync += under_way.eq(under_way + started - store.done)
        moved, stalled = Signal(), Signal()
        m.d.comb += [
            moved.eq(running & (store.words != 0)), stalled.eq(running & (store.words == 0)),
            engine.strobes.busy.eq(moved), engine.strobes.words.eq(Mux(running, store.words, 0)),
            engine.strobes.stall_output.eq(stalled & store.waits_for_memory),
            engine.strobes.stall_memory.eq(stalled & ~store.waits_for_memory & store.all_given),
            engine.strobes.stall_input.eq(stalled & ~store.waits_for_memory & ~store.all_given),
        ]
        with m.If(running):
            m.d.sync += [done.payload_words.eq(done.payload_words + store.words),
                         done.stall_cycles.eq(done.stall_cycles + stalled)]


class _Realign(wiring.Component):
    """Turns beats as read into beats as they are to be written.

    Members
    -------
    load : In stream, fetch : In stream
        Beats read and positions wanted.
    o, o_valid : Out
        A beat to write, its mask and its words; no backpressure.
    unused : Out
        At the end of a row: beats read + 1 - beats to write.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({
            "load": In(stream.Signature(load_layout(parameters, COUNT_BITS, COUNT_BITS))),
            "fetch": In(stream.Signature(fetch_layout(parameters, COUNT_BITS, COUNT_BITS))),
            "o": Out(_buffered_layout(parameters)), "o_valid": Out(1),
            "unused": Out(2),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        words = self.parameters.beat_words
        lane_bits = (words - 1).bit_length()
        load = self.load.payload
        fetch = self.fetch.payload
        source_lane = Signal(lane_bits)
        destination_lane = Signal(lane_bits)
        shift = Signal(lane_bits)
        row_shift = Signal(lane_bits)
        in_row = Signal()
        exhausted = Signal()
        primed = Signal()
        prime = Signal()
        step = Signal()
        m.d.comb += [
            source_lane.eq(-load.column[:lane_bits]),
            destination_lane.eq(-fetch.column[:lane_bits]),
            shift.eq(Mux(in_row, row_shift, source_lane - destination_lane)),
            # The first beat to write needs the second one read as well.
            prime.eq(~in_row & (source_lane > destination_lane)),
            step.eq(self.fetch.valid & (self.load.valid | exhausted)),
            self.load.ready.eq(self.fetch.valid & ~exhausted),
            self.fetch.ready.eq(step & ~prime),
            self.unused.eq(Mux(step & ~prime & fetch.row_last, 1 + primed - exhausted, 0)),
        ]

        picked = Signal(beat_layout(self.parameters))
        picked_shift = Signal(lane_bits)
        picked_load = Signal()
        picked_fetch = Signal()
        picked_mask = Signal(words)
        picked_words = Signal.like(fetch.words)
        m.d.sync += [picked_load.eq(step & ~exhausted), picked_fetch.eq(step & ~prime)]
        with m.If(step):
            m.d.sync += [
                in_row.eq(1), row_shift.eq(shift), primed.eq(primed | prime),
                exhausted.eq(exhausted | load.row_last),
                picked.eq(load.data), picked_shift.eq(shift),
                picked_mask.eq(fetch.mask), picked_words.eq(fetch.words),
            ]
            with m.If(~prime & fetch.row_last):
                m.d.sync += [in_row.eq(0), primed.eq(0), exhausted.eq(0)]

        turned = Signal(beat_layout(self.parameters))
        before = Signal(beat_layout(self.parameters))
        from_before = Signal(words)
        m.d.comb += [
            turned.as_value().eq(Cat(
                *rotate(m, "picked", [picked[lane] for lane in range(words)], picked_shift, 0, lane_bits,
                       up=False))),
            from_before.eq(Cat((picked_shift != 0) & (picked_shift + lane < words) for lane in range(words))),
            self.o_valid.eq(picked_fetch),
            self.o.mask.eq(picked_mask), self.o.words.eq(picked_words),
        ]
        for lane in range(words):
            m.d.comb += self.o.data[lane].eq(Mux(from_before[lane], before[lane], turned[lane]))
        with m.If(picked_load):
            m.d.sync += before.eq(turned)
        return m


def _buffered_layout(parameters: DieParameters) -> data.StructLayout:
    return data.StructLayout({"data": beat_layout(parameters), "mask": unsigned(parameters.beat_words),
                              "words": unsigned(parameters.beat_words.bit_length())})


class _Store(wiring.Component):
    """Row walk, buffer and requests of the side that writes.

    Unlike a :class:`~plinth_hw.memory.channel.StridedStore` it never makes ``fetch`` wait for the
    memory: the request FIFO holds as many requests as the buffer beats, and each request in it has
    a beat that was read, or is about to be, into its place in the buffer. A request goes out only when
    all its data are in the buffer.
    """

    def __init__(self, parameters: DieParameters, depth: int, max_beats: int):
        self.parameters = parameters
        self.depth = depth
        self.max_beats = max_beats
        super().__init__({
            "command": In(stream.Signature(command_layout(parameters, COUNT_BITS, COUNT_BITS))),
            "fetch": Out(stream.Signature(fetch_layout(parameters, COUNT_BITS, COUNT_BITS))),
            "i": In(_buffered_layout(parameters)), "i_valid": In(1),
            "write": Out(WritePort(parameters)),
            "pop": Out(1), "words": Out(parameters.beat_words.bit_length()), "done": Out(1),
            "waits_for_memory": Out(1), "all_given": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.requests = requests = RowRequests(
            self.parameters, COUNT_BITS, COUNT_BITS, self.max_beats)
        m.submodules.rows = rows = SyncFIFO(width=requests.row.payload.shape().size, depth=self.depth)
        m.submodules.walk = walk = BeatWalk(self.parameters, COUNT_BITS, COUNT_BITS)
        request_bits = requests.request.payload.shape().size
        m.submodules.queue = queue = SyncFIFO(width=request_bits + 1, depth=self.depth)
        m.submodules.buffer = buffer = SyncFIFO(width=self.i.shape().size, depth=self.depth)
        m.submodules.unanswered = unanswered = SyncFIFO(width=1, depth=2 * self.depth)
        wiring.connect(m, wiring.flipped(self.command), requests.command)
        wiring.connect(m, walk.o, wiring.flipped(self.fetch))

        request = self.write.request
        covered = Signal(range(self.depth + 1))
        sent = Signal()
        stored = Signal(self.i.shape())
        permit = Signal()
        m.d.comb += [
            rows.w_data.eq(requests.row.payload), rows.w_en.eq(requests.row.valid & rows.w_rdy),
            requests.row.ready.eq(rows.w_rdy),
            walk.row.payload.eq(rows.r_data), walk.row.valid.eq(rows.r_rdy), rows.r_en.eq(walk.row.ready),

            queue.w_data.eq(Cat(requests.request.payload, requests.request_last)),
            queue.w_en.eq(requests.request.valid), requests.request.ready.eq(queue.w_rdy),
            permit.eq(queue.r_rdy & unanswered.w_rdy & (covered >= request.payload.beats)),
            request.payload.eq(queue.r_data[:request_bits]),
            request.valid.eq(permit),
            sent.eq(request.valid & request.ready),
            queue.r_en.eq(sent),
            unanswered.w_data.eq(queue.r_data[request_bits]), unanswered.w_en.eq(sent),
            unanswered.r_en.eq(self.write.response),
            self.done.eq(self.write.response & unanswered.r_data),

            buffer.w_data.eq(self.i), buffer.w_en.eq(self.i_valid),
            stored.eq(buffer.r_data),
            self.write.data.payload.data.eq(stored.data), self.write.data.payload.strobe.eq(stored.mask),
            self.write.data.valid.eq(buffer.r_rdy),
            self.pop.eq(buffer.r_rdy & self.write.data.ready),
            buffer.r_en.eq(self.pop),
            self.words.eq(Mux(self.pop, stored.words, 0)),
            self.waits_for_memory.eq(buffer.r_rdy),
            self.all_given.eq(~self.fetch.valid & ~buffer.r_rdy),
        ]
        m.d.sync += covered.eq(covered + self.i_valid - Mux(sent, request.payload.beats, 0))
        return m
