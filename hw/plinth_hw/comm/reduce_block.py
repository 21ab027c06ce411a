"""Reduce block: serves one message of a collective at a time.

::

    schedule --> Prefetch --+--> START ------------------------------------+--> choice --> queue --> send
        |                   +--> + receive --> lanes --> FIFO --+          |
        |                             +------------- copies ----+--choice--+--> choice --> WriteBack
        +--> queues: arrivals, departures, writes

One schedule (:mod:`message`) runs ahead and tells arrivals, departures and writes what concerns them. Each goes
through its steps on its own, a flit a cycle, so that the end of a round, which only writes, and the beginning of
the next, which only sends, overlap. Own results and copies go to network and memory in the same cycle.

One FIFO holds sums and results in their order: updates take longer than sums, so a sum that follows a result waits
until that is gone. A copy comes after all sums and results that arrived before it, and waits as well.

Latency of a flit from ``receive`` to ``send``: 1 cycle as a copy, ``sum_latency + 2`` as a sum, and
``update_latency + 2`` as an update of :class:`ReduceLanes`. Throughput: a flit a cycle without gaps while a
stage takes longer than a hop.

A block takes only flits of its group and message; others wait in the network until it gets to them. So the
messages that one block serves must come in the same order on all members of the rings concerned.

Deadlock: see ``docs/collective.md``.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from plinth_hw.arith.carry import chosen_sum
from plinth_hw.comm.flit import flit_layout
from plinth_hw.comm.message import Schedule, chunks_in_flight, message_layout, sector_layout
from plinth_hw.comm.prefetch import Prefetch, ReadUse, buffer_chunks, chunk_beats
from plinth_hw.comm.reduce_lanes import operands_layout, result_layout
from plinth_hw.comm.write_back import WriteBack
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.lib.ram import SECTION
from plinth_hw.memory.port import ReadPort, WritePort

#: Flits that wait for the network interface.
SEND_FLITS = SECTION


def steps_ahead(parameters: DieParameters) -> int:
    """Steps by which the schedule may be ahead of arrivals, departures and writes: the P chunks that are sent while
    a round's last ones arrive, and what is read ahead, twice; a power of two."""
    return 1 << ceil_log2(chunks_in_flight(parameters) + 2 * buffer_chunks(parameters))


class ReduceBlock(wiring.Component):
    """One message at a time.

    Parameters
    ----------
    parameters : DieParameters
        The die.
    update_latency : int
        Of its :class:`ReduceLanes`.

    Members
    -------
    start : In(1)
        Pulse while not ``busy``: take ``message``.
    message : In, :func:`message_layout`
    busy : Out(1)
        From the cycle after ``start`` until memory holds the result and everything was sent.
    receive : In stream of flits
        What the previous member sends.
    send : Out stream of flits
        To the next member; kind and class are 0.
    operands : Out stream of :func:`operands_layout`
    rate : Out(32)
    result_valid, result : In
        See :class:`ReduceLanes`.
    read : Out(ReadPort), write : Out(WritePort)
    sent_words : Out
        Words sent in this cycle.
    moved : Out(1)
        Something was sent, written or added in this cycle.
    output_full, memory_only : Out(1)
        The network or memory does not take a result; only write responses are missing.
    """

    def __init__(self, parameters: DieParameters, update_latency: int):
        self._parameters = parameters
        # Places for sums and results: for what is on its way through the lanes, into the FIFO and out of it.
        self._places = 1 << ceil_log2(update_latency + 2)
        result, flit = result_layout(parameters), stream.Signature(flit_layout(parameters))
        super().__init__({
            "start": In(1),
            "message": In(message_layout(parameters)),
            "busy": Out(1),
            "receive": In(flit),
            "send": Out(flit),
            "operands": Out(stream.Signature(operands_layout(parameters))),
            "rate": Out(32),
            "result_valid": In(1), "result": In(result),
            "read": Out(ReadPort(parameters)),
            "write": Out(WritePort(parameters)),
            "sent_words": Out(range(parameters.flit_words + 1)),
            "moved": Out(1), "output_full": Out(1), "memory_only": Out(1),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        parameters = self._parameters
        message = Signal(message_layout(parameters))
        m.submodules.schedule = schedule = Schedule(parameters)
        m.submodules.prefetch = prefetch = Prefetch(parameters)
        m.submodules.write_back = write_back = WriteBack(parameters)
        # The oldest of each are in registers: what they say decides, in the same cycle, where a sector goes.
        m.submodules.results = results = FIFO(result_layout(parameters), self._places + 1, Storage.HEAD)
        flit_chunk, address = flit_layout(parameters)["chunk"].shape, write_back.address.shape()
        m.submodules.outgoing = outgoing = FIFO(
            data.StructLayout({"sector": sector_layout(parameters), "chunk": flit_chunk}), SEND_FLITS)
        ahead = steps_ahead(parameters)
        m.submodules.arrivals = arrivals = FIFO(
            data.StructLayout({"copy": 1, "own": 1, "final": 1}), ahead, Storage.HEAD)
        m.submodules.departures = departures = FIFO(
            data.StructLayout({"start": 1, "chunk": flit_chunk}), ahead, Storage.HEAD)
        m.submodules.writes = writes = FIFO(
            data.StructLayout({"start": 1, "address": address}), ahead, Storage.HEAD)
        arrival, departure, writing = arrivals.o, departures.o, writes.o
        wiring.connect(m, prefetch.read, wiring.flipped(self.read))
        wiring.connect(m, write_back.write, wiring.flipped(self.write))
        m.d.comb += [
            schedule.message.eq(message), prefetch.last_words.eq(message.last_words),
            prefetch.task.eq(message.task), write_back.task.eq(message.task),
            write_back.address.eq(writing.payload.address), self.rate.eq(message.rate),
        ]
        self._plan(m, platform, message, schedule, prefetch, arrivals, departures, writes)

        # Own words with what arrives: to the lanes, and their results to the FIFO.
        incoming, local, operands = self.receive, prefetch.o_add, self.operands.payload
        alone, expected, starts_written = Signal(name="alone"), Signal(name="expected"), Signal(name="starts_written")
        m.d.comb += starts_written.eq(message.gather & ~message.in_place)
        room, leaving_result = Signal(range(self._places + 1), init=self._places), Signal()
        # Whether what was added last is this member's own; no sum or result is left; there is room for another one.
        owned, drained, roomy = Signal(name="owned"), Signal(init=1, name="drained"), Signal(init=1, name="roomy")
        adds, copies, passed = Signal(name="adds"), Signal(name="copies"), Signal(name="passed")
        m.d.comb += [
            alone.eq(message.last_member == 0),
            expected.eq(incoming.valid & (incoming.payload.group == message.group)
                        & (incoming.payload.message == message.message)),
            operands.a.eq(local.payload.sector), operands.b.eq(incoming.payload.data),
            operands.w.eq(local.payload.w), operands.alone.eq(alone),
            operands.own.eq(arrival.payload.own), operands.update.eq(arrival.payload.own & message.update),
            self.operands.valid.eq(arrival.valid & ~arrival.payload.copy & local.valid & (alone | expected)
                                   & roomy & (drained | arrival.payload.own | ~owned)),
            adds.eq(self.operands.valid & self.operands.ready),
            local.ready.eq(adds),
            copies.eq(arrival.valid & arrival.payload.copy & expected & drained),
            incoming.ready.eq((adds & ~alone) | (copies & passed)),
            arrival.ready.eq((adds & local.payload.sector.tail) | (copies & passed & incoming.payload.tail)),
            results.i.valid.eq(self.result_valid), results.i.payload.eq(self.result),
            results.o.ready.eq(passed),
        ]
        with m.If(adds):
            m.d.sync += owned.eq(arrival.payload.own)
        m.d.comb += leaving_result.eq(results.o.valid & passed)
        with m.If(adds & ~leaving_result):
            m.d.sync += [room.eq(room - 1), drained.eq(0), roomy.eq(room != 1)]
        with m.Elif(leaving_result & ~adds):
            m.d.sync += [room.eq(room + 1), drained.eq(room == self._places - 1), roomy.eq(1)]

        # Departures and writes: every sector goes, in one cycle, to all that need it. A sector is one of this member's
        # words as they are, or else a result, or a copy if there is none.
        start, result = prefetch.o_start, results.o.payload
        sector, sent = Signal(sector_layout(parameters), name="sector"), Signal(name="sent")
        written = Signal()
        sends, stores, begins = Signal(name="sends"), Signal(name="stores"), Signal(name="begins")
        m.d.comb += [
            sector.eq(result.sector),
            sent.eq(~(result.own & message.scatter)), written.eq(result.own),
            sends.eq(departure.valid & outgoing.i.ready), stores.eq(writing.valid & write_back.i.ready),
            begins.eq(start.valid & (alone | (sends & departure.payload.start))
                      & (~starts_written | (stores & writing.payload.start))),
            start.ready.eq(begins),
            passed.eq((results.o.valid | copies) & (~sent | (sends & ~departure.payload.start))
                      & (~written | (stores & ~writing.payload.start))),
            outgoing.i.payload.sector.eq(Mux(departure.payload.start, start.payload.sector, sector)),
            outgoing.i.payload.chunk.eq(departure.payload.chunk),
            outgoing.i.valid.eq((begins & ~alone) | (passed & sent)),
            departure.ready.eq(outgoing.i.valid & outgoing.i.payload.sector.tail),
            write_back.i.payload.eq(Mux(writing.payload.start, start.payload.sector, sector)),
            write_back.i.valid.eq((begins & starts_written) | (passed & written)),
            writing.ready.eq(write_back.i.valid & write_back.i.payload.tail),
        ]
        with m.If(drained):
            m.d.comb += [
                *(sector[field].eq(incoming.payload[field]) for field in ("data", "words", "tail")),
                sent.eq(~arrival.payload.final), written.eq(1),
            ]

        flit, leaving, leaves = self.send.payload, outgoing.o.payload, Signal(name="leaves")
        m.d.comb += [
            self.send.valid.eq(outgoing.o.valid), outgoing.o.ready.eq(self.send.ready),
            *(flit[field].eq(leaving.sector[field]) for field in ("data", "words", "tail")),
            flit.chunk.eq(leaving.chunk), flit.destination.eq(message.next_die),
            flit.group.eq(message.group), flit.message.eq(message.message),
            leaves.eq(self.send.valid & self.send.ready),
            self.sent_words.eq(Mux(leaves, flit.words + 1, 0)),
            self.moved.eq(adds | outgoing.i.valid | write_back.i.valid | leaves),
            self.output_full.eq((self.send.valid & ~self.send.ready) | (writing.valid & ~write_back.i.ready)),
        ]

        exhausted = Signal()
        m.d.comb += [
            exhausted.eq(schedule.idle & ~arrival.valid & ~departure.valid & ~writing.valid & ~outgoing.o.valid),
            self.memory_only.eq(exhausted & ~write_back.idle),
        ]
        with m.FSM():
            with m.State("IDLE"), m.If(self.start):
                m.d.sync += message.eq(self.message)
                m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.comb += [schedule.start.eq(1), self.busy.eq(1)]
                m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += self.busy.eq(1)
                with m.If(exhausted & write_back.idle):
                    m.next = "IDLE"
        return m

    def _plan(self, m: Module, platform: Any, message: Any, schedule: Schedule, prefetch: Prefetch, arrivals: FIFO,
              departures: FIFO, writes: FIFO) -> None:
        """Tell every part its steps: of each chunk first what it reads of the source, then where it goes."""
        step, read = schedule.o.payload, prefetch.i
        written, second, to_result = Signal(name="written"), Signal(name="second"), Signal(name="to_result")
        last = Signal()
        asks, room, goes = Signal(name="asks"), Signal(name="room"), Signal(name="goes")
        beats_log2 = exact_log2(chunk_beats(self._parameters))
        address = chosen_sum(m, platform, "address", to_result, message.destination, message.source,
                             step.chunk << beats_log2)
        m.d.comb += [
            written.eq(step.copy | (step.own & ~(message.gather & message.in_place))),
            to_result.eq(second | step.copy),
            last.eq(to_result | ~written),
            asks.eq(~to_result | (step.own & message.update)),
            room.eq(arrivals.i.ready & departures.i.ready & writes.i.ready),
            goes.eq(schedule.o.valid & room & (~asks | read.ready)),
            schedule.o.ready.eq(goes & last),

            read.valid.eq(schedule.o.valid & room & asks),
            read.payload.address.eq(address), read.payload.short.eq(step.short),
            read.payload.lane.eq(Mux(to_result, ReadUse.WEIGHT, Mux(step.start, ReadUse.START, ReadUse.ADD))),
            read.payload.weighted.eq(step.own & message.update),

            arrivals.i.valid.eq(goes & last & ~step.start),
            arrivals.i.payload.copy.eq(step.copy), arrivals.i.payload.own.eq(step.own),
            arrivals.i.payload.final.eq(step.final),
            departures.i.valid.eq(goes & last & ~((step.own & message.scatter) | step.final)),
            departures.i.payload.start.eq(step.start), departures.i.payload.chunk.eq(step.chunk),
            writes.i.valid.eq(goes & to_result),
            writes.i.payload.start.eq(step.start), writes.i.payload.address.eq(address),
        ]
        with m.If(goes):
            m.d.sync += second.eq(~last)
