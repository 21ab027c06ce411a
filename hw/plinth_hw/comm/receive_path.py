"""Receive path of tiles: packets from the network and from this die are stored, or added to what lies in memory.

::

    arrive --+--> choice (packet by packet) --+--> flits FIFO -------------------------+--> adders --+
    own -----+                                +--> packets --> issue --> issued ---+   |             |
                                                                 |                 +---+---> sum or word
                                           RunReader (memory) <--+-----> words that lie there        |
                                                                                                     v
    write <-- requests, beats <------------------------------------------------ beats (a sector at a time)
    response --> unanswered --> advance, stored

A packet is known by its address, the number of its words, which its tail ends, and what it asks for. Its write is
asked for when all its beats are there, so neither side of the memory ever waits for the network; and packets
are taken as fast as the memory allows, whatever the rest of the die does, so they never hold up a router for good.

Order: packets are stored and added in the order in which they come. An add reads words only after all earlier
writes to them have been answered: a small table keeps, for each of :data:`BLOCKS` sets of blocks of
``packet_words``, the number of the last packet that writes there, and from where to where those write that are not
answered. Of dies with transforms, where parts of a tile and of maps of many samples are on their way together, it also
keeps to which flits, has twice as many sets, which blocks a power of two apart do not share, and longer numbers. An
advance takes effect after the responses to all packets before it.

Throughput: a flit a cycle. Latency: last flit of a packet to its write request 3 cycles and one a flit; of an ADD 2
to its read request, and 7 and one a flit from the memory's first beat.
"""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.arith.units import adder
from plinth_hw.comm.flit import PacketKind, address_fields, flit_layout, payload_layout
from plinth_hw.comm.run_reader import RunReader, packet_buffer_beats, packet_words
from plinth_hw.control.control import ReceiveFault
from plinth_hw.control.engine import ends_signature
from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.count import index_bits, population, stepped
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.memory.port import TASK_BITS, ReadPort, WritePort

#: Packets of full length whose flits wait for what they are added to.
FLIT_PACKETS = 4
#: Packets that wait for what they are added to, or for their sums; twice as many on dies with transforms, whose
#: packets are a beat.
RUNS = 16
#: Packets whose writes are not answered, more than a memory's latency: a packet may be a word; twice as many
#: where words of several flits move a cycle.
RESPONSES = 32
#: Sets of blocks that are told apart when an add waits for earlier writes.
BLOCKS = 32
#: Bits of a packet's number: more than there are packets between issue and response.
NUMBER_BITS = 7
#: Those of dies with transforms. A packet takes the last one of its set for one under way when all numbers have passed
#: since, and tiles come by again after powers of two.
LONG_NUMBER_BITS = 16


def _runs(parameters: DieParameters) -> int:
    return 2 * RUNS if parameters.transforms else RUNS


def _sets(parameters: DieParameters) -> int:
    return 2 * BLOCKS if parameters.transforms else BLOCKS


def _responses(parameters: DieParameters) -> int:
    return 2 * RESPONSES if parameters.transfer_words else RESPONSES


def _number_bits(parameters: DieParameters) -> int:
    return LONG_NUMBER_BITS if parameters.transforms else NUMBER_BITS + (parameters.transfer_words > 0)


def arrival_layout(parameters: DieParameters) -> data.StructLayout:
    """A flit of a packet of this die. ``words``: how many lanes; ``address``, ``kind``, ``last`` (``stored`` is to
    tell of the packet) of the packet; ``tail``: it is the packet's last flit."""
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
        Memory size in beats. A packet that passes it, or crosses a multiple of ``packet_words``, is taken and thrown
        away.
    fault : Out(ReceiveFault)
        Pulse: one did.
    task : In
        Of what comes from this die, as of requests; what comes from the network is of none.
    read : Out(ReadPort), write : Out(WritePort)
    advance : Out stream of counter number
    stored : Out(1)
        Pulse: a packet of this die's own that is marked ``last`` is in memory: the last one of a task, or each of one
        that transforms.
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
        reach_bits, beat_bits = exact_log2(packet_words(parameters)), exact_log2(parameters.beat_words)
        common = {"address": unsigned(parameters.address_bits), "kind": PacketKind, "own": unsigned(1),
                  "last": unsigned(1)}
        # ``rest``, ``beats_rest``: words, and beats, after the first; ``end``: lane of the last word in its flit.
        packet = data.StructLayout({**common, "rest": unsigned(reach_bits)})
        checked = data.StructLayout({
            **common, "beats_rest": unsigned(max(1, reach_bits - beat_bits)),
            "end": unsigned(index_bits(parameters.flit_words)), "dropped": unsigned(1)})
        flit = data.StructLayout({"data": payload_layout(parameters), "tail": unsigned(1)})
        m.submodules.flits = flits = FIFO(
            flit, max(FLIT_PACKETS * packet_words(parameters) // parameters.flit_words,
                      2 * _runs(parameters) if parameters.transfer_words else 0), Storage.BLOCK)
        m.submodules.packets = packets = FIFO(packet, 5, Storage.HEAD)
        m.submodules.issued = issued = FIFO(checked, _runs(parameters))
        m.submodules.writes = writes = FIFO(checked, _runs(parameters))
        m.submodules.reader = reader = RunReader(parameters, 2 * packet_buffer_beats(parameters))
        m.submodules.beats = beats = _Beats(parameters, packet_buffer_beats(parameters))
        wiring.connect(m, reader.port, wiring.flipped(self.read))
        wiring.connect(m, beats.o, wiring.flipped(self.write.data))
        answered = Signal()
        self._take(m, flits, packets)
        self._issue(m, packets, issued, reader, answered)
        self._combine(m, flits, issued, reader, writes, beats)
        self._write(m, writes, beats, answered)
        return m

    def _take(self, m: Module, flits: FIFO, packets: FIFO) -> None:
        """Chooses a packet and takes it apart."""
        arrive, own, packet = self.arrive, self.own, packets.i.payload
        inside, turn, own_turn = Signal(name="inside"), Signal(name="turn"), Signal(name="own_turn")
        valid, tail, takes = Signal(name="valid"), Signal(name="tail"), Signal(name="takes")
        has_words = Signal()
        words = Signal(self._parameters.flit_words.bit_length())
        # One word less than have come: the first word's number in the packet is 0.
        before = Signal.like(packet.rest, init=(1 << len(packet.rest)) - 1)
        m.d.comb += [
            own_turn.eq(Mux(inside, turn, own.valid & (~turn | ~arrive.valid))),
            valid.eq(Mux(own_turn, own.valid, arrive.valid)),
            tail.eq(Mux(own_turn, own.payload.tail, arrive.payload.tail)),
            words.eq(Mux(own_turn, own.payload.words, arrive.payload.words + 1)),
            has_words.eq(packet.kind != PacketKind.ADVANCE),
            packet.address.eq(Mux(own_turn, own.payload.address, address_fields(arrive.payload))),
            packet.rest.eq(before + words),
            Cat(packet.kind).eq(Mux(own_turn, Cat(own.payload.kind), Cat(arrive.payload.kind))),
            packet.own.eq(own_turn),
            packet.last.eq(own_turn & own.payload.last),
            takes.eq(valid & (flits.i.ready | ~has_words) & (packets.i.ready | ~tail)),
            packets.i.valid.eq(takes & tail),
            flits.i.valid.eq(takes & has_words), flits.i.payload.tail.eq(tail),
            flits.i.payload.data.eq(Mux(own_turn, own.payload.data.as_value(), arrive.payload.data.as_value())),
            own.ready.eq(takes & own_turn), arrive.ready.eq(takes & ~own_turn),
        ]
        with m.If(takes):
            m.d.sync += [inside.eq(~tail), turn.eq(own_turn), before.eq(Mux(tail, before.init, packet.rest))]

    def _issue(self, m: Module, packets: FIFO, issued: FIFO, reader: RunReader, answered: Signal) -> None:
        """Checks addresses, and reads what adds need once it is there."""
        parameters = self._parameters
        packet, result = packets.o.payload, issued.i.payload
        reach_bits, beat_bits = exact_log2(packet_words(parameters)), exact_log2(parameters.beat_words)
        lane_bits, set_bits = exact_log2(parameters.flit_words), exact_log2(_sets(parameters))
        block = packet.address[reach_bits:]
        number_bits, chosen = _number_bits(parameters), block
        if parameters.transforms:
            chosen = block[:set_bits] ^ block[set_bits:2 * set_bits]
        note = data.StructLayout({"following": unsigned(number_bits), "begin": unsigned(reach_bits),
                                  "end": unsigned(reach_bits)})
        m.submodules.last_writes = last_writes = Memory(shape=note, depth=1 << set_bits, init=[])
        noted, lookup = last_writes.write_port(), last_writes.read_port(domain="comb")
        number = Signal(number_bits, name="number")
        unanswered = Signal(NUMBER_BITS + (parameters.transfer_words > 0), name="unanswered")
        following, age = Signal(number_bits, name="following"), Signal(number_bits, name="age")
        has_words, adds, beyond = Signal(name="has_words"), Signal(name="adds"), Signal(name="beyond")
        issues = Signal()
        open_writes, waits = Signal(name="open_writes"), Signal(name="waits")
        # After reset notes of all sets are written, before any packet is issued.
        fresh, fresh_set = Signal(init=1, name="fresh"), Signal(set_bits, name="fresh_set")
        m.d.sync += [fresh.eq(fresh & ~fresh_set.all()), fresh_set.eq(fresh_set + fresh)]
        # First and last word of the packet, in its block.
        begin, end, crosses = Signal(reach_bits, name="begin"), Signal(reach_bits, name="end"), Signal(name="crosses")
        writes = issues & has_words & ~beyond
        meets = open_writes & (begin <= lookup.data.end) & (lookup.data.begin <= end)
        apart = self._apart(m, begin[lane_bits:], end[lane_bits:], noted, lookup.addr, fresh, open_writes)
        m.d.comb += [
            has_words.eq(packet.kind != PacketKind.ADVANCE),
            begin.eq(packet.address), Cat(end, crosses).eq(begin + packet.rest),
            beyond.eq(has_words & (crosses | (Cat(end[beat_bits:], block) >= self.limit))),
            adds.eq((packet.kind == PacketKind.ADD) & ~beyond),
            lookup.addr.eq(chosen), age.eq(number - lookup.data.following), open_writes.eq(age < unanswered),
            waits.eq(meets if apart is None else meets & ~apart),
            reader.command.valid.eq(packets.o.valid & issued.i.ready & adds & ~waits & ~fresh),
            reader.command.payload.address.eq(packet.address[beat_bits:]),
            reader.command.payload.beats_rest.eq(result.beats_rest),
            reader.task.eq(Mux(packet.own, self.task, 0)),
            issues.eq(packets.o.valid & issued.i.ready & ~fresh & (~adds | (reader.command.ready & ~waits))),
            packets.o.ready.eq(issues), issued.i.valid.eq(issues),
            *(result[name].eq(packet[name]) for name in ("address", "kind", "own", "last")),
            result.beats_rest.eq(end[beat_bits:] - begin[beat_bits:]), result.end.eq(end), result.dropped.eq(beyond),
            following.eq(number + 1),
            noted.en.eq(writes | fresh), noted.addr.eq(Mux(fresh, fresh_set, chosen)),
        ]
        with m.If(~fresh):
            m.d.comb += [
                noted.data.following.eq(following),
                noted.data.begin.eq(Mux(open_writes & (lookup.data.begin < begin), lookup.data.begin, begin)),
                noted.data.end.eq(Mux(open_writes & (lookup.data.end > end), lookup.data.end, end)),
            ]
        with m.If(writes):
            m.d.sync += number.eq(following)
        m.d.sync += [
            unanswered.eq(stepped(unanswered, writes, answered)),
            self.fault.valid.eq(issues & beyond), self.fault.own.eq(packet.own),
        ]

    def _apart(self, m: Module, first: Value, last: Value, note: Any, block: Value, fresh: Value, open_writes: Value
               ) -> Value | None:
        """Of dies with transforms: whether a packet has none of the flits of its set of blocks that others write that
        are not answered. They are kept when and where a ``note`` is."""
        if not self._parameters.transforms:
            return None
        flits = range(1 << len(first))
        touched, apart = Signal(len(flits), name="touched"), Signal(name="apart")
        m.submodules.last_flits = last_flits = Memory(
            shape=unsigned(len(flits)), depth=_sets(self._parameters), init=[])
        noted, lookup = last_flits.write_port(), last_flits.read_port(domain="comb")
        m.d.comb += [
            touched.eq(Cat((first <= flit) & (last >= flit) for flit in flits)),
            lookup.addr.eq(block), apart.eq(~(lookup.data & touched).any()),
            noted.en.eq(note.en), noted.addr.eq(note.addr),
            noted.data.eq(Mux(fresh, 0, touched | Mux(open_writes, lookup.data, 0))),
        ]
        return apart

    def _combine(self, m: Module, flits: FIFO, issued: FIFO, reader: RunReader, writes: FIFO, beats: "_Beats") -> None:
        """Sectors of the beats to write."""
        parameters = self._parameters
        flit_words, sectors = parameters.flit_words, parameters.beat_words // parameters.flit_words
        lane_bits, sectors_log2 = exact_log2(flit_words), exact_log2(sectors)
        packet, last = issued.o.payload, flits.o.payload.tail

        adders = [adder(parameters.memory_format) for _ in range(flit_words)]
        for lane, unit in enumerate(adders):
            m.submodules[f"adder_{lane}"] = unit
            m.d.comb += [unit.a.eq(reader.o[lane]), unit.b.eq(flits.o.payload.data[lane])]
        shape = data.StructLayout({"valid": unsigned(1), "place": sector_place_layout(parameters)})
        delays = [Signal(shape, name=f"sum_{stage}") for stage in range(adders[0].latency)]

        begins, following_sector = Signal(init=1, name="begins"), Signal(index_bits(sectors), name="following_sector")
        adds, place = Signal(name="adds"), Signal(sector_place_layout(parameters), name="place")
        has_words, may_begin, step = Signal(name="has_words"), Signal(name="may_begin"), Signal(name="step")
        finishes, puts_word = Signal(name="finishes"), Signal(name="puts_word")
        summing = Cat(stage.valid for stage in delays).any()
        m.d.comb += [
            has_words.eq(packet.kind != PacketKind.ADVANCE), adds.eq(packet.kind == PacketKind.ADD),
            place.sector.eq(Mux(begins, packet.address[lane_bits:][:sectors_log2], following_sector)),
            place.packet_ends.eq(last), place.beat_ends.eq(last | (place.sector == sectors - 1)),
            # Of the first sector of a packet from its first word on, of the last one to its last.
            place.lanes.eq(Cat((~begins | (lane >= packet.address[:lane_bits])) & (~last | (lane <= packet.end))
                               for lane in range(flit_words))),
            # Sums come out in order before words that are only stored.
            may_begin.eq(writes.i.ready & (~has_words | adds | ~summing)),
            step.eq(issued.o.valid & has_words & flits.o.valid & (packet.dropped | (
                (may_begin | ~begins) & beats.room & (reader.valid | ~adds)))),
            puts_word.eq(step & ~packet.dropped), beats.takes.eq(puts_word & place.beat_ends),
            flits.o.ready.eq(step),
            reader.sector.eq(place.sector), reader.pop.eq(puts_word & adds & place.beat_ends),
            finishes.eq(Mux(has_words, step & last, issued.o.valid & may_begin)),
            issued.o.ready.eq(finishes),
            writes.i.valid.eq(finishes & ~packet.dropped), writes.i.payload.eq(packet),
        ]
        with m.If(step):
            m.d.sync += [begins.eq(last), following_sector.eq((place.sector + 1)[:sectors_log2])]
        m.d.sync += [
            delays[0].valid.eq(puts_word & adds), delays[0].place.eq(place),
            *(later.eq(stage) for stage, later in pairwise(delays)),
        ]
        summed = delays[-1]
        m.d.comb += [
            beats.i_valid.eq(summed.valid | (puts_word & ~adds)),
            beats.place.eq(Mux(summed.valid, summed.place, place)),
            beats.i.eq(Mux(summed.valid, Cat(unit.o for unit in adders), flits.o.payload.data)),
        ]
        if isinstance(parameters.memory_format, Fixed):
            m.d.sync += self.ends.eq(population(Cat(
                unit.beyond & summed.place.lanes[lane] & summed.valid for lane, unit in enumerate(adders))))

    def _write(self, m: Module, writes: FIFO, beats: "_Beats", answered: Signal) -> None:
        """Requests, and what their responses let happen."""
        packet = writes.o.payload
        advances = packet.kind == PacketKind.ADVANCE
        responses = _responses(self._parameters)
        m.submodules.unanswered = unanswered = FIFO(data.StructLayout({
            "advances": unsigned(1), "last": unsigned(1), "counter": self.advance.payload.shape()}), responses)
        requests, finishes = Signal(name="requests"), Signal(name="finishes")
        request = self.write.request
        m.d.comb += [
            request.valid.eq(writes.o.valid & ~advances & beats.whole & unanswered.i.ready),
            request.payload.address.eq(packet.address[exact_log2(self._parameters.beat_words):]),
            request.payload.beats.eq(packet.beats_rest + 1),
            request.payload.task.eq(Mux(packet.own, self.task, 0)), requests.eq(request.valid & request.ready),
            beats.requested.eq(requests),
            finishes.eq(Mux(advances, writes.o.valid & unanswered.i.ready, requests)),
            writes.o.ready.eq(finishes), unanswered.i.valid.eq(finishes),
            unanswered.i.payload.advances.eq(advances), unanswered.i.payload.last.eq(packet.last),
            unanswered.i.payload.counter.eq(packet.address),
        ]
        oldest, answers = unanswered.o, Signal(range(responses + 2), name="answers")
        answer = Signal()
        m.d.comb += [
            answer.eq(answers != 0),
            self.advance.valid.eq(oldest.valid & oldest.payload.advances),
            self.advance.payload.eq(oldest.payload.counter),
            answered.eq(oldest.valid & ~oldest.payload.advances & answer),
            oldest.ready.eq(Mux(oldest.payload.advances, self.advance.ready, answer)),
            self.stored.eq(answered & oldest.payload.last),
        ]
        m.d.sync += answers.eq(stepped(answers, self.write.response, answered))


def sector_place_layout(parameters: DieParameters) -> data.StructLayout:
    """Where words go: ``sector`` of a beat, and which ``lanes`` of it; ``beat_ends``, ``packet_ends``: they are the
    last of their beat, and of their packet."""
    return data.StructLayout({
        "sector": unsigned(index_bits(parameters.beat_words // parameters.flit_words)),
        "lanes": unsigned(parameters.flit_words), "beat_ends": unsigned(1), "packet_ends": unsigned(1)})


class _Beats(wiring.Component):
    """Makes beats of sectors and gives them.

    Members
    -------
    room : Out(1)
        There is a place for another beat.
    takes : In(1)
        Pulse: it is taken, for a beat whose last sector is under way.
    i_valid, i : In(1), In of a flit's words
        A sector.
    place : In, :func:`sector_place_layout`
        Of the sector.
    whole : Out(1)
        All beats are there of a packet that has not been requested.
    requested : In(1)
        Pulse: it is.
    o : Out stream of beats and their strobes
    """

    def __init__(self, parameters: DieParameters, depth: int):
        self._parameters = parameters
        self._depth = depth
        super().__init__({
            "room": Out(1), "takes": In(1),
            "i_valid": In(1), "i": In(payload_layout(parameters)), "place": In(sector_place_layout(parameters)),
            "whole": Out(1), "requested": In(1),
            "o": Out(WritePort(parameters).members["data"].signature),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parameters, depth, place = self._parameters, self._depth, self.place
        sectors = parameters.beat_words // parameters.flit_words
        m.submodules.store = store = Memory(
            shape=data.ArrayLayout(payload_layout(parameters), sectors), depth=depth, init=[])
        m.submodules.strobes = lanes = Memory(shape=parameters.beat_words, depth=depth, init=[])
        sector_write, beat = store.write_port(granularity=1), store.read_port(domain="comb")
        lanes_write, strobe = lanes.write_port(), lanes.read_port(domain="comb")
        runs = _runs(self._parameters)
        written, sent = Signal(range(depth), name="written"), Signal(range(depth), name="sent")
        complete, gives = Signal(name="complete"), Signal(name="gives")
        room, filled, packets = (Signal(range(depth + 1), init=depth, name="places"),
                                 Signal(range(depth + 1), name="filled"), Signal(range(runs + 1), name="packets"))
        before, strobes = Signal(parameters.beat_words, name="before"), Signal(parameters.beat_words, name="strobes")
        m.d.comb += [
            complete.eq(self.i_valid & place.beat_ends), gives.eq(self.o.valid & self.o.ready),
            self.room.eq(room != 0), self.whole.eq(packets != 0), self.o.valid.eq(filled != 0),
            sector_write.addr.eq(written), sector_write.en.eq(Mux(self.i_valid, 1 << place.sector, 0)),
            strobes.eq(before | Cat(Mux(place.sector == number, place.lanes, 0) for number in range(sectors))),
            lanes_write.addr.eq(written), lanes_write.data.eq(strobes), lanes_write.en.eq(complete),
            beat.addr.eq(sent), strobe.addr.eq(sent),
            self.o.payload.data.as_value().eq(beat.data.as_value()), self.o.payload.strobe.eq(strobe.data),
            *(sector_write.data[number].eq(self.i) for number in range(sectors)),
        ]
        with m.If(complete):
            m.d.sync += before.eq(0)
        with m.Elif(self.i_valid):
            m.d.sync += before.eq(strobes)
        m.d.sync += [
            written.eq(written + complete), sent.eq(sent + gives),
            room.eq(stepped(room, gives, self.takes)), filled.eq(stepped(filled, complete, gives)),
            packets.eq(stepped(packets, self.i_valid & place.packet_ends, self.requested)),
        ]
        return m
