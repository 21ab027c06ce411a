"""Receive path of tiles: packets from the network and from this die are stored, or added to what lies in memory.

::

    arrive --+--> choice (packet by packet) --+--> flits FIFO -------------------------+--> adders --+
    own -----+                                +--> packets --> issue --> issued ---+   |             |
                                                                 |                 +---+---> sum or word
                                           RunReader (memory) <--+-----> words that lie there        |
                                                                                                     v
    write <-- requests, beats <------------------------------------------------- beats FIFO (a sector at a time)
    response --> unanswered --> advance, stored

A packet is known by its address, the number of its words, which its tail ends, and what it asks for. Its write is
asked for when all its beats are there, so neither side of the memory ever waits for the network; and packets
are taken as fast as the memory allows, whatever the rest of the die does, so they never hold up a router for good.

Order: packets are stored and added in the order in which they come. An add reads words only after all earlier
writes to them have been answered: a small table keeps, for each of :data:`BLOCKS` sets of blocks of
``packet_words``, the number of the last packet that writes there, and from where to where those write that are not
answered. An advance takes effect after the responses to all packets before it.

Throughput: a flit a cycle. Latency: last flit of a packet to its write request 3 cycles and one a flit; of an ADD 2
to its read request, and 7 and one a flit from the memory's first beat.
"""

from itertools import pairwise

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.arith.units import adder
from plinth_hw.comm.flit import PacketKind, address_fields, flit_layout, payload_layout
from plinth_hw.comm.run_reader import RunReader, covered, packet_buffer_beats, packet_words, run_layout
from plinth_hw.control.control import ReceiveFault
from plinth_hw.control.engine import ends_signature
from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.count import index_bits, population
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.memory.port import TASK_BITS, ReadPort, WritePort

#: Packets of full length whose flits wait for what they are added to.
FLIT_PACKETS = 4
#: Packets that wait for what they are added to, or for their sums.
RUNS = 16
#: Packets whose writes are not answered, more than a memory's latency: a packet may be a word; and those of them whose
#: data are not given yet.
RESPONSES = 32
GIVEN_LATER = 4
#: Sets of blocks that are told apart when an add waits for earlier writes.
BLOCKS = 32
#: Bits of a packet's number: more than there are packets between issue and response.
NUMBER_BITS = 7


def arrival_layout(parameters: DieParameters) -> data.StructLayout:
    """A flit of a packet of this die. ``words``: how many lanes; ``address``, ``kind``, ``last`` (the packet ends
    its task's tile) of the packet; ``tail``: it is the packet's last flit."""
    return data.StructLayout({
        "data": payload_layout(parameters),
        "words": unsigned(parameters.flit_words.bit_length()), "address": unsigned(parameters.address_bits),
        "kind": PacketKind, "last": unsigned(1), "tail": unsigned(1),
    })


class ReceivePath(wiring.Component):
    """Stores and adds packets.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    arrive : In stream of flits
        From the network.
    own : In stream of :func:`arrival_layout`
        From this die.
    limit : In
        Memory size in beats. A packet that passes it is taken and thrown away.
    fault : Out(ReceiveFault)
        Pulse: one did.
    task : In
        Of what comes from this die, as of requests; what comes from the network is of none.
    read : Out(ReadPort), write : Out(WritePort)
    advance : Out stream of counter number
    stored : Out(1)
        Pulse: the last packet of this die's own task is in memory.
    ends : Out
        Of fixed point: how many sums were beyond the format, the cycle before.
    """

    def __init__(self, parameters: DieParameters):
        self._parameters = parameters
        super().__init__({
            "arrive": In(stream.Signature(flit_layout(parameters))),
            "own": In(stream.Signature(arrival_layout(parameters))),
            "limit": In(parameters.address_bits - exact_log2(parameters.beat_words) + 1),
            "fault": Out(ReceiveFault), "task": In(TASK_BITS),
            "read": Out(ReadPort(parameters)), "write": Out(WritePort(parameters)),
            "advance": Out(stream.Signature(range(parameters.counters))),
            "stored": Out(1),
            **ends_signature(parameters, parameters.flit_words),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parameters = self._parameters
        packet = data.StructLayout({
            "run": run_layout(parameters), "kind": PacketKind, "own": unsigned(1),
            "last": unsigned(1), "dropped": unsigned(1)})
        m.submodules.flits = flits = FIFO(
            payload_layout(parameters), FLIT_PACKETS * packet_words(parameters) // parameters.flit_words, Storage.BLOCK)
        m.submodules.packets = packets = FIFO(packet, 4)
        m.submodules.issued = issued = FIFO(packet, RUNS)
        m.submodules.writes = writes = FIFO(packet, RUNS)
        m.submodules.reader = reader = RunReader(parameters, 2 * packet_buffer_beats(parameters))
        wiring.connect(m, reader.port, wiring.flipped(self.read))
        answered = Signal()
        self._take(m, flits, packets)
        self._issue(m, packets, issued, reader, answered)
        store, complete, freed = self._combine(m, flits, issued, reader, writes)
        self._write(m, writes, store, complete, freed, answered)
        return m

    def _take(self, m: Module, flits: FIFO, packets: FIFO) -> None:
        """Chooses a packet and takes it apart."""
        arrive, own, packet = self.arrive, self.own, packets.i.payload
        inside, turn, own_turn = Signal(name="inside"), Signal(name="turn"), Signal(name="own_turn")
        valid, tail, takes = Signal(name="valid"), Signal(name="tail"), Signal(name="takes")
        has_words = Signal()
        words = Signal(self._parameters.flit_words.bit_length())
        before = Signal.like(packet.run.words)
        m.d.comb += [
            own_turn.eq(Mux(inside, turn, own.valid & (~turn | ~arrive.valid))),
            valid.eq(Mux(own_turn, own.valid, arrive.valid)),
            tail.eq(Mux(own_turn, own.payload.tail, arrive.payload.tail)),
            words.eq(Mux(own_turn, own.payload.words, arrive.payload.words + 1)),
            has_words.eq(packet.kind != PacketKind.ADVANCE),
            packet.run.address.eq(Mux(own_turn, own.payload.address, address_fields(arrive.payload))),
            packet.run.words.eq(before + words),
            Cat(packet.kind).eq(Mux(own_turn, Cat(own.payload.kind), Cat(arrive.payload.kind))),
            packet.own.eq(own_turn),
            packet.last.eq(own_turn & own.payload.last),
            takes.eq(valid & (flits.i.ready | ~has_words) & (packets.i.ready | ~tail)),
            packets.i.valid.eq(takes & tail),
            flits.i.valid.eq(takes & has_words),
            flits.i.payload.eq(Mux(own_turn, own.payload.data.as_value(), arrive.payload.data.as_value())),
            own.ready.eq(takes & own_turn), arrive.ready.eq(takes & ~own_turn),
        ]
        with m.If(takes):
            m.d.sync += [inside.eq(~tail), turn.eq(own_turn), before.eq(Mux(tail, 0, packet.run.words))]

    def _issue(self, m: Module, packets: FIFO, issued: FIFO, reader: RunReader, answered: Signal) -> None:
        """Checks addresses, and reads what adds need once it is there."""
        packet, result = packets.o.payload, issued.i.payload
        first, beats = covered(packet.run, self._parameters.beat_words)
        block_bits = exact_log2(packet_words(self._parameters))
        block = packet.run.address[block_bits:][:exact_log2(BLOCKS)]
        note = data.StructLayout({"number": unsigned(NUMBER_BITS), "begin": unsigned(block_bits),
                                  "end": unsigned(block_bits + 1)})
        m.submodules.last_writes = last_writes = Memory(shape=note, depth=BLOCKS, init=[])
        noted, found = last_writes.write_port(), last_writes.read_port(domain="comb")
        number, unanswered = Signal(NUMBER_BITS, name="number"), Signal(NUMBER_BITS, name="unanswered")
        age = Signal(NUMBER_BITS)
        has_words, adds, beyond = Signal(name="has_words"), Signal(name="adds"), Signal(name="beyond")
        issues = Signal()
        open_writes, waits = Signal(name="open_writes"), Signal(name="waits")
        begin, end = Signal(block_bits, name="begin"), Signal(block_bits + 1, name="end")
        writes = issues & has_words & ~beyond
        m.d.comb += [
            has_words.eq(packet.kind != PacketKind.ADVANCE),
            beyond.eq(has_words & (first + beats > self.limit)),
            adds.eq((packet.kind == PacketKind.ADD) & ~beyond),
            begin.eq(packet.run.address[:block_bits]), end.eq(begin + packet.run.words),
            found.addr.eq(block), age.eq(number - 1 - found.data.number), open_writes.eq(age < unanswered),
            waits.eq(open_writes & (begin < found.data.end) & (found.data.begin < end)),
            reader.command.valid.eq(packets.o.valid & issued.i.ready & adds & ~waits),
            reader.command.payload.eq(packet.run), reader.task.eq(Mux(packet.own, self.task, 0)),
            issues.eq(packets.o.valid & issued.i.ready & (~adds | (reader.command.ready & ~waits))),
            packets.o.ready.eq(issues), issued.i.valid.eq(issues),
            result.eq(packet), result.dropped.eq(beyond),
            noted.en.eq(writes), noted.addr.eq(block), noted.data.number.eq(number),
            noted.data.begin.eq(Mux(open_writes & (found.data.begin < begin), found.data.begin, begin)),
            noted.data.end.eq(Mux(open_writes & (found.data.end > end), found.data.end, end)),
        ]
        m.d.sync += [
            number.eq(number + writes), unanswered.eq(unanswered + writes - answered),
            self.fault.valid.eq(issues & beyond), self.fault.own.eq(packet.own),
        ]

    def _combine(self, m: Module, flits: FIFO, issued: FIFO, reader: RunReader,
                 writes: FIFO) -> tuple[Memory, Signal, Signal]:
        """Sectors of the beats to write; returns their memory, and pulses: a beat is complete, a beat is free."""
        parameters = self._parameters
        flit_words, sectors = parameters.flit_words, parameters.beat_words // parameters.flit_words
        sector_bits = index_bits(sectors)
        packet = issued.o.payload
        first, count = covered(packet.run, flit_words)
        _, beats = covered(packet.run, parameters.beat_words)
        depth = packet_buffer_beats(parameters)
        m.submodules.beats = store = Memory(
            shape=data.ArrayLayout(payload_layout(parameters), sectors), depth=depth, init=[])
        sector_write = store.write_port(granularity=1)
        place = Signal(range(depth))
        room, freed = Signal(range(depth + 1), init=depth, name="room"), Signal(name="freed")

        adders = [adder(parameters.memory_format) for _ in range(flit_words)]
        for lane, unit in enumerate(adders):
            m.submodules[f"adder_{lane}"] = unit
            m.d.comb += [unit.a.eq(reader.o[lane]), unit.b.eq(flits.o.payload[lane])]
        shape = data.StructLayout({"valid": unsigned(1), "sector": unsigned(sector_bits), "ends": unsigned(1),
                                   "inside": unsigned(flit_words)})
        delays = [Signal(shape, name=f"sum_{stage}") for stage in range(adders[0].latency)]

        made, begins, last = Signal(len(count), name="made"), Signal(name="begins"), Signal(name="last")
        adds = Signal()
        has_words, may_begin, step = Signal(name="has_words"), Signal(name="may_begin"), Signal(name="step")
        ends, finishes = Signal(name="ends"), Signal(name="finishes")
        inside = Signal(flit_words)
        sector = Signal(sector_bits)
        summing = Cat(stage.valid for stage in delays).any()
        m.d.comb += [
            has_words.eq(packet.kind != PacketKind.ADVANCE), adds.eq(packet.kind == PacketKind.ADD),
            begins.eq(made == 0), last.eq(made + 1 == count),
            sector.eq((first + made)[:exact_log2(sectors)]), ends.eq(last | (sector == sectors - 1)),
            # Sums come out in order before words that are only stored.
            may_begin.eq(packet.dropped | (writes.i.ready & (~has_words | ((room >= beats) & (adds | ~summing))))),
            step.eq(issued.o.valid & has_words & (may_begin | ~begins) & flits.o.valid
                    & (reader.valid | ~adds | packet.dropped)),
            flits.o.ready.eq(step),
            reader.sector.eq(sector), reader.pop.eq(step & adds & ~packet.dropped & ends),
            finishes.eq(Mux(has_words, step & last, issued.o.valid & may_begin)),
            issued.o.ready.eq(finishes),
            writes.i.valid.eq(finishes & ~packet.dropped), writes.i.payload.eq(packet),
        ]
        with m.If(step):
            m.d.sync += made.eq(Mux(last, 0, made + 1))
        m.d.sync += [
            room.eq(room + freed - Mux(step & begins & ~packet.dropped, beats, 0)),
            delays[0].valid.eq(step & adds & ~packet.dropped), delays[0].sector.eq(sector), delays[0].ends.eq(ends),
            delays[0].inside.eq(inside),
            *(later.eq(stage) for stage, later in pairwise(delays)),
        ]
        complete = Signal()
        chosen, puts = Signal(sector_bits, name="chosen"), Signal(name="puts")
        summed = delays[-1]
        m.d.comb += [
            puts.eq(summed.valid | (step & ~adds & ~packet.dropped)),
            chosen.eq(Mux(summed.valid, summed.sector, sector)),
            complete.eq(Mux(summed.valid, summed.ends, puts & ends)),
            sector_write.addr.eq(place),
            sector_write.en.eq(Mux(puts, 1 << chosen, 0)),
        ]
        if isinstance(parameters.memory_format, Fixed):
            # Of the first sector of a run from its first word on, of the last one to its last.
            lane_bits = exact_log2(flit_words)
            end = (packet.run.address[:lane_bits] + packet.run.words)[:lane_bits]
            m.d.comb += inside.eq(Cat(
                (~begins | (lane >= packet.run.address[:lane_bits])) & (~last | (end == 0) | (lane < end))
                for lane in range(flit_words)))
            m.d.sync += self.ends.eq(population(Cat(
                unit.beyond & summed.inside[lane] & summed.valid for lane, unit in enumerate(adders))))
        for number in range(sectors):
            m.d.comb += sector_write.data[number].eq(
                Mux(summed.valid, Cat(unit.o for unit in adders), flits.o.payload))
        m.d.sync += place.eq(place + complete)
        return store, complete, freed

    def _write(self, m: Module, writes: FIFO, store: Memory, complete: Signal, freed: Signal,
               answered: Signal) -> None:
        """Requests, beats, and what their responses let happen."""
        parameters = self._parameters
        lane_bits, width = exact_log2(parameters.beat_words), index_bits(parameters.beat_words)
        packet = writes.o.payload
        first, beats = covered(packet.run, parameters.beat_words)
        advances = packet.kind == PacketKind.ADVANCE
        counter_bits = len(self.advance.payload)
        m.submodules.unanswered = unanswered = FIFO(data.StructLayout({
            "advances": unsigned(1), "last": unsigned(1), "counter": unsigned(counter_bits)}), RESPONSES)
        m.submodules.requested = requested = FIFO(data.StructLayout({
            "beats": unsigned(len(beats)), "begin": unsigned(width), "end": unsigned(width)}), GIVEN_LATER)
        beat = store.read_port(domain="comb")
        place = Signal.like(beat.addr)
        # Beats that are there, and not asked for yet.
        full = Signal(range(packet_buffer_beats(parameters) + 1))
        requests, finishes = Signal(name="requests"), Signal(name="finishes")
        request, given = self.write.request, requested.i.payload
        m.d.comb += [
            request.valid.eq(writes.o.valid & ~advances & (full >= beats) & requested.i.ready & unanswered.i.ready),
            request.payload.address.eq(first), request.payload.beats.eq(beats),
            request.payload.task.eq(Mux(packet.own, self.task, 0)), requests.eq(request.valid & request.ready),
            finishes.eq(Mux(advances, writes.o.valid & unanswered.i.ready, requests)),
            writes.o.ready.eq(finishes), unanswered.i.valid.eq(finishes),
            unanswered.i.payload.advances.eq(advances), unanswered.i.payload.last.eq(packet.last),
            unanswered.i.payload.counter.eq(packet.run.address),
            requested.i.valid.eq(requests), given.beats.eq(beats),
            given.begin.eq(packet.run.address[:lane_bits]),
            given.end.eq((packet.run.address[:lane_bits] + packet.run.words)[:lane_bits]),
        ]
        m.d.sync += full.eq(full + complete - Mux(requests, beats, 0))

        head, payload = requested.o.payload, self.write.data.payload
        sent, gives, last = Signal(len(beats), name="sent"), Signal(name="gives"), Signal(name="last")
        begin, end = Signal(width, name="begin"), Signal(width + 1, name="end")
        m.d.comb += [
            self.write.data.valid.eq(requested.o.valid),
            gives.eq(requested.o.valid & self.write.data.ready),
            last.eq(sent + 1 == head.beats), requested.o.ready.eq(gives & last),
            beat.addr.eq(place), freed.eq(gives),
            payload.data.as_value().eq(beat.data.as_value()),
            begin.eq(Mux(sent == 0, head.begin, 0)),
            end.eq(Mux(last & (head.end != 0), head.end, parameters.beat_words)),
            payload.strobe.eq(Cat((lane >= begin) & (lane < end) for lane in range(parameters.beat_words))),
        ]
        m.d.sync += place.eq(place + gives)
        with m.If(gives):
            m.d.sync += sent.eq(Mux(last, 0, sent + 1))

        oldest, answers = unanswered.o, Signal(range(RESPONSES + 2), name="answers")
        m.d.comb += [
            self.advance.valid.eq(oldest.valid & oldest.payload.advances),
            self.advance.payload.eq(oldest.payload.counter),
            answered.eq(oldest.valid & ~oldest.payload.advances & (answers != 0)),
            oldest.ready.eq(Mux(oldest.payload.advances, self.advance.ready, answers != 0)),
            self.stored.eq(answered & oldest.payload.last),
        ]
        m.d.sync += answers.eq(answers + self.write.response - answered)
