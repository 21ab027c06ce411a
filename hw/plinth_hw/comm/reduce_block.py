"""Reduce block: serves one message of a collective at a time.

::

    receive --+--> + local --> lanes --+--> sums FIFO -----+
              |                        +--> results FIFO --+--> choice --> queue --> send
              +--------- copies ----------------------+----+
    Prefetch: START ----------------------------------|----+
              ADD, WEIGHT --> lanes                   +----+--> choice --> WriteBack

Arrivals, departures and writes each walk the schedule on their own (:mod:`message`), a flit a cycle, so that
the end of a round, which only writes, and the beginning of the next, which only sends, overlap. Own
results and copies go to network and memory in the same cycle.

Latency of a flit from ``receive`` to ``send``: 1 cycle as a copy, ``sum_latency + 2`` as a sum, and
``update_latency + 2`` as an update of :class:`ReduceLanes`. Throughput: a flit a cycle without gaps while a
stage takes longer than a hop.

A block takes only flits of its group and message; others wait in the network until it gets to them. So the
messages that one block serves must come in the same order on all members of the rings concerned.

Deadlock: see ``docs/collective.md``.
"""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.flit import flit_layout
from plinth_hw.comm.message import MEMBER_BITS, STAGE_BITS, Schedule, message_layout, piece_layout
from plinth_hw.comm.prefetch import Prefetch
from plinth_hw.comm.queue import Queue
from plinth_hw.comm.reduce_lanes import NEUTRAL, operands_layout
from plinth_hw.comm.write_back import WriteBack
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.memory.port import ReadPort, WritePort

#: Places for sums and for results; more than the lanes' latency, so that they never wait.
RESULT_PIECES = 32
#: Flits that wait for the network interface.
SEND_FLITS = 4


class ReduceBlock(wiring.Component):
    """One message at a time.

    Parameters
    ----------
    parameters : DieParameters
        The die.

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
        To the next member; source, kind and class are 0.
    operands : Out stream of :func:`operands_layout`
    rate : Out(32)
    sum_valid, own_valid, updated_valid, sum, updated : In
        See :class:`ReduceLanes`.
    read : Out(ReadPort), write : Out(WritePort)
    sent_words : Out
        Words sent in this cycle.
    moved : Out(1)
        Something was sent, written or added in this cycle.
    output_full, memory_only : Out(1)
        The network or memory does not take a result; only write responses are missing.
    """

    def __init__(self, parameters: DieParameters):
        self._parameters = parameters
        piece, flit = piece_layout(parameters), stream.Signature(flit_layout(parameters))
        super().__init__({
            "start": In(1),
            "message": In(message_layout(parameters)),
            "busy": Out(1),
            "receive": In(flit),
            "send": Out(flit),
            "operands": Out(stream.Signature(operands_layout(parameters))),
            "rate": Out(32),
            "sum_valid": In(1), "own_valid": In(1), "updated_valid": In(1),
            "sum": In(piece), "updated": In(piece),
            "read": Out(ReadPort(parameters)),
            "write": Out(WritePort(parameters)),
            "sent_words": Out(range(parameters.flit_words + 1)),
            "moved": Out(1), "output_full": Out(1), "memory_only": Out(1),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        parameters = self._parameters
        message = Signal(message_layout(parameters))
        begin = Signal()
        m.submodules.prefetch = prefetch = Prefetch(parameters)
        m.submodules.write_back = write_back = WriteBack(parameters)
        m.submodules.sums = sums = Queue(piece_layout(parameters), RESULT_PIECES)
        m.submodules.results = results = Queue(piece_layout(parameters), RESULT_PIECES)
        outgoing_shape = data.StructLayout({"piece": piece_layout(parameters),
                                            "chunk": flit_layout(parameters)["chunk"].shape})
        m.submodules.outgoing = outgoing = Queue(outgoing_shape, SEND_FLITS)
        m.submodules.arrivals = arrivals = Schedule(parameters)
        m.submodules.departures = departures = Schedule(parameters)
        m.submodules.writes = writes = Schedule(parameters)
        arrival, departure, writing = arrivals.o, departures.o, writes.o
        wiring.connect(m, prefetch.read, wiring.flipped(self.read))
        wiring.connect(m, write_back.write, wiring.flipped(self.write))
        m.d.comb += [
            prefetch.start.eq(begin), prefetch.message.eq(message),
            write_back.base.eq(message.destination), write_back.chunk.eq(writing.payload.chunk),
            self.rate.eq(message.rate),
        ]
        for schedule in (arrivals, departures, writes):
            m.d.comb += [schedule.start.eq(begin), schedule.chunks.eq(message.chunks),
                         schedule.members.eq(message.members)]

        alone = Signal()
        m.d.comb += alone.eq(message.members == 1)
        self._stages(m, message, alone, prefetch, arrivals, departures, writes)

        # Which words each step is about.
        sum_arrives, own_arrives = Signal(), Signal()
        start_leaves, own_leaves, sum_leaves, copy_leaves = (Signal() for _ in range(4))
        own_written, copy_written = Signal(), Signal()
        stage = departure.payload.stage
        m.d.comb += [
            sum_arrives.eq(~message.gather & (alone | (arrival.payload.stage + 1 < message.members))),
            own_arrives.eq(alone | (arrival.payload.stage + 2 == message.members)),
            start_leaves.eq(departure.valid & departure.payload.first),
            sum_leaves.eq(departure.valid & ~departure.payload.first & ~message.gather
                          & (stage + 1 < message.members)),
            own_leaves.eq(departure.valid & ~departure.payload.first & ~message.gather
                          & (stage + 1 == message.members)),
            copy_leaves.eq(departure.valid & ~(start_leaves | sum_leaves | own_leaves)),
            own_written.eq(writing.valid & writing.payload.first & ~(message.gather & message.in_place)),
            copy_written.eq(writing.valid & ~own_written),
        ]

        # Arrivals: to the lanes, or copied.
        incoming, local, weight = self.receive, prefetch.o_add, prefetch.o_weight
        expected, operands = Signal(), self.operands.payload
        sum_room, result_room = (Signal(range(RESULT_PIECES + 1), init=RESULT_PIECES, name=f"{name}_room")
                                 for name in ("sum", "result"))
        adds, copies_in, copied = Signal(), Signal(), Signal()
        m.d.comb += [
            expected.eq(incoming.valid & (incoming.payload.group == message.group)
                        & (incoming.payload.message == message.message)),
            operands.a.eq(local.payload),
            operands.b.eq(incoming.payload.data),
            operands.w.eq(weight.payload.data),
            operands.own.eq(own_arrives), operands.update.eq(message.update),
            self.operands.valid.eq(
                arrival.valid & sum_arrives & local.valid & (alone | expected)
                & (~(own_arrives & message.update) | weight.valid)
                & Mux(own_arrives, result_room.any(), sum_room.any())),
            adds.eq(self.operands.valid & self.operands.ready),
            local.ready.eq(adds),
            weight.ready.eq(adds & own_arrives & message.update),
            copies_in.eq(arrival.valid & ~sum_arrives & expected),
            incoming.ready.eq((adds & ~alone) | (copies_in & copied)),
            arrival.ready.eq((adds & local.payload.tail) | (copies_in & copied & incoming.payload.tail)),
            sums.i.valid.eq(self.sum_valid), sums.i.payload.eq(self.sum),
            results.i.valid.eq(self.own_valid | self.updated_valid),
            results.i.payload.eq(Mux(self.updated_valid, self.updated, self.sum)),
        ]
        with m.If(alone):
            m.d.comb += [word.eq(NEUTRAL) for word in operands.b]
        m.d.sync += [
            sum_room.eq(sum_room + (sums.o.valid & sums.o.ready) - (adds & ~own_arrives)),
            result_room.eq(result_room + (results.o.valid & results.o.ready) - (adds & own_arrives)),
        ]

        # Departures and writes: every piece goes, in one cycle, to all that need it.
        copy = Signal(piece_layout(parameters))
        m.d.comb += [copy.data.eq(incoming.payload.data), copy.words.eq(incoming.payload.words),
                     copy.tail.eq(incoming.payload.tail)]
        start = prefetch.o_start
        for source in (
            _Source(start.payload, start.valid, start.ready,
                    sent=~alone, sends=start_leaves,
                    written=message.gather & ~message.in_place, writes=own_written & message.gather),
            _Source(sums.o.payload, sums.o.valid, sums.o.ready,
                    sent=Const(1), sends=sum_leaves, written=Const(0), writes=Const(0)),
            _Source(results.o.payload, results.o.valid, results.o.ready,
                    sent=~message.scatter & ~alone, sends=own_leaves,
                    written=Const(1), writes=own_written & ~message.gather),
            _Source(copy, copies_in, copied,
                    sent=~arrival.payload.final, sends=copy_leaves, written=Const(1), writes=copy_written),
        ):
            may_send, may_write = source.sends & outgoing.i.ready, source.writes & write_back.i.ready
            m.d.comb += source.ready.eq((~source.sent | may_send) & (~source.written | may_write))
            with m.If(source.sends):
                m.d.comb += [outgoing.i.payload.piece.eq(source.piece),
                             outgoing.i.valid.eq(source.valid & source.sent & (~source.written | may_write))]
            with m.If(source.writes):
                m.d.comb += [write_back.i.payload.eq(source.piece),
                             write_back.i.valid.eq(source.valid & source.written & (~source.sent | may_send))]
        leaves, written = Signal(), Signal()
        m.d.comb += [
            leaves.eq(outgoing.i.valid & outgoing.i.ready),
            written.eq(write_back.i.valid & write_back.i.ready),
            departure.ready.eq(leaves & outgoing.i.payload.piece.tail),
            writing.ready.eq(written & write_back.i.payload.tail),
            outgoing.i.payload.chunk.eq(departure.payload.chunk),
        ]

        flit, sent = self.send.payload, outgoing.o.payload
        m.d.comb += [
            self.send.valid.eq(outgoing.o.valid), outgoing.o.ready.eq(self.send.ready),
            flit.data.eq(sent.piece.data), flit.words.eq(sent.piece.words), flit.tail.eq(sent.piece.tail),
            flit.chunk.eq(sent.chunk), flit.destination.eq(message.next_die),
            flit.group.eq(message.group), flit.message.eq(message.message),
            self.sent_words.eq(Mux(self.send.valid & self.send.ready, flit.words + 1, 0)),
            self.moved.eq(adds | leaves | written | (self.send.valid & self.send.ready)),
            self.output_full.eq((self.send.valid & ~self.send.ready) | (writing.valid & ~write_back.i.ready)),
        ]

        exhausted = Signal()
        m.d.comb += [
            exhausted.eq(prefetch.idle & arrivals.idle & departures.idle & writes.idle & ~outgoing.o.valid),
            self.memory_only.eq(exhausted & ~write_back.idle),
        ]
        with m.FSM():
            with m.State("IDLE"), m.If(self.start):
                m.d.sync += message.eq(self.message)
                m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.comb += [begin.eq(1), self.busy.eq(1)]
                m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += self.busy.eq(1)
                with m.If(exhausted & write_back.idle):
                    m.next = "IDLE"
        return m

    def _stages(self, m: Module, message: Any, alone: Any, prefetch: Prefetch, arrivals: Schedule,
                departures: Schedule, writes: Schedule) -> None:
        """Which stages of a round each part walks, and the owner of the first of them."""
        members, index = message.members, message.index
        # The two members before this one.
        before, before_that = Signal(MEMBER_BITS), Signal(MEMBER_BITS)
        hops = Signal(STAGE_BITS)
        m.d.comb += [
            before.eq(Mux(index == 0, members, index) - 1),
            before_that.eq(Mux(before == 0, members, before) - 1),
            hops.eq(Mux(message.gather | message.scatter, 1, 2) * (members - 1)),
            departures.stages.eq(hops), departures.owner.eq(Mux(message.gather, index, before)),
            # Alone, the own words are all that arrives.
            arrivals.stages.eq(Mux(alone & ~message.gather, 1, hops)),
            arrivals.owner.eq(Mux(message.gather, before, before_that)),
            prefetch.owner.eq(departures.owner), prefetch.adds_only.eq(alone & ~message.gather),
        ]
        with m.If(message.gather):
            m.d.comb += [
                writes.stages.eq(members - message.in_place),
                writes.owner.eq(Mux(message.in_place, before, index)),
                prefetch.stages.eq(~(alone & message.in_place)),
            ]
        with m.Else():
            m.d.comb += [
                writes.stages.eq(Mux(message.scatter, 1, members)), writes.owner.eq(index),
                prefetch.stages.eq(members),
            ]


@dataclass(frozen=True)
class _Source:
    """Where pieces come from, and what becomes of them."""

    piece: Any
    #: There is a piece; it is taken.
    valid: Value
    ready: Value
    #: The piece must go to the network, and it is its turn there.
    sent: Value
    sends: Value
    #: The piece must go to memory, and it is its turn there.
    written: Value
    writes: Value
