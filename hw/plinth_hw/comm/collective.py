"""Collective engine: ring all-reduce, reduce-scatter and all-gather, with the update of the weights.

::

    engine.body --> staging --> check --+--> group table
                                        +--> RouteSetter --> route_write      (of dies that set routes)
                                        +--> reduce block b --> send_b        (message mod blocks = b)
                                        |       |  ^    ^------ receive_b
                                        |       v  |
                                        |     ReduceLanes (shared)
                                        +--> order FIFO --> engine.done

The seam to the network is a pair of flit streams a block: ``send_b``, whose class the
:class:`~plinth_hw.comm.interface.NetworkInterface` fills in, and ``receive_b``, what arrives in that block's
class. Credits and the choice between blocks are the interface's.

Tasks start in order, and their completions are reported in that order. A task whose block still works, or
waits to be reported, waits, and so do those behind it. Latency: start to the block's first read request 4
cycles; see :mod:`reduce_block` for hops. Throughput on long messages: as many flits as the link
carries. Source: MPT section VI.C, Figure 13(c).
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.comm.flit import flit_layout
from plinth_hw.comm.message import MEMBER_BITS, message_layout
from plinth_hw.comm.prefetch import check
from plinth_hw.comm.reduce_block import ReduceBlock
from plinth_hw.comm.reduce_lanes import ReduceLanes
from plinth_hw.comm.route_setter import RouteSetter
from plinth_hw.comm.tallies import Tallies
from plinth_hw.control.engine import EngineSignature, ends_signature
from plinth_hw.control.routes import task_write_layout
from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.layout import WORD_BITS
from plinth_hw.isa.limits import GROUPS, reset_value
from plinth_hw.isa.operations import CollectiveOperation, ErrorCode, Traffic, UpdateOperation
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.registers import Register
from plinth_hw.isa.tasks import pointer_words
from plinth_hw.isa.update_bodies import CollectiveBody
from plinth_hw.lib.fifo import FIFO
from plinth_hw.memory.port import ReadPort, WritePort
from plinth_hw.shapes import shape_of


class CollectiveEngine(wiring.Component):
    """Runs collectives and keeps the group table.

    Parameters
    ----------
    parameters : DieParameters
        The die.

    Members
    -------
    engine : Out(EngineSignature)
        ``done.error`` is BAD_OPERATION for an unknown operation; BAD_OPERAND for a message without words,
        a pointer that is not beat-aligned, an unknown update, a group that was never set, and a row of the
        group table without members or with an index beyond them; BAD_DIE for a row with more members than ``dies``, or
        a next one that is none of them; of SET_ROUTE what :class:`~plinth_hw.comm.route_setter.RouteSetter` says: one
        of chunks waits for all messages before it. ``payload_words`` counts words sent to the next member,
        ``stall_cycles`` the cycles of the task in which its block moved nothing.
    dies : In
        Dies of the array.
    quiet : In, route_write : Out
        As of :class:`~plinth_hw.comm.route_setter.RouteSetter`; of dies that set routes.
    read_0 ... : Out(ReadPort), write_0 ... : Out(WritePort)
        One of each for every reduce block.
    send_0 ... : Out streams of flits
        To the next member of the ring, one stream a block; packets are chunks.
    receive_0 ... : In streams of flits
        From the member before.
    ends : Out
        As of :class:`~plinth_hw.comm.reduce_lanes.ReduceLanes`.

    Raises
    ------
    ValueError
        If a chunk has more beats than a memory request, or a flit more words than a beat.
    """

    def __init__(self, parameters: DieParameters):
        check(parameters)
        self._parameters = parameters
        blocks = range(parameters.reduce_blocks)
        flit = stream.Signature(flit_layout(parameters))
        super().__init__({
            "engine": Out(EngineSignature(parameters)),
            "dies": In(parameters.die_bits + 1, init=reset_value(Register.DIES, parameters)),
            **({"quiet": In(len(Traffic)), "route_write": Out(task_write_layout(parameters))}
               if parameters.sets_routes else {}),
            **{f"read_{b}": Out(ReadPort(parameters)) for b in blocks},
            **{f"write_{b}": Out(WritePort(parameters)) for b in blocks},
            **{f"send_{b}": Out(flit) for b in blocks},
            **{f"receive_{b}": In(flit) for b in blocks},
            **ends_signature(parameters, 3 * parameters.flit_words),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.lanes = lanes = ReduceLanes(self._parameters)
        blocks = [ReduceBlock(self._parameters, lanes.update_latency) for _ in range(self._parameters.reduce_blocks)]
        started = Signal(len(blocks))
        message = Signal(message_layout(self._parameters))
        for b, block in enumerate(blocks):
            m.submodules[f"block_{b}"] = block
            wiring.connect(m, block.operands, getattr(lanes, f"i_{b}"))
            wiring.connect(m, block.read, wiring.flipped(getattr(self, f"read_{b}")))
            wiring.connect(m, block.write, wiring.flipped(getattr(self, f"write_{b}")))
            wiring.connect(m, block.send, wiring.flipped(getattr(self, f"send_{b}")))
            wiring.connect(m, wiring.flipped(getattr(self, f"receive_{b}")), block.receive)
            m.d.comb += [
                getattr(lanes, f"rate_{b}").eq(block.rate),
                block.result_valid.eq(lanes.valid[b]), block.result.eq(lanes.result),
                block.start.eq(started[b]), block.message.eq(message),
            ]
        if isinstance(self._parameters.memory_format, Fixed):
            m.d.comb += self.ends.eq(lanes.ends)
        self._control(m, blocks, started, message)
        self._strobes(m, blocks)
        return m

    def _control(self, m: Module, blocks: list[ReduceBlock], started: Signal, message: data.View) -> None:
        """Body, start, checks, group table, done."""
        parameters, engine = self._parameters, self.engine
        body_words = CollectiveBody.BITS // WORD_BITS
        words = Signal(data.ArrayLayout(unsigned(32), body_words))
        body = data.View(shape_of(CollectiveBody), words.as_value())
        # What is compared with the number of dies is known a cycle after the last word.
        staged, compared, unknown_die = Signal(name="staged"), Signal(name="compared"), Signal(name="unknown_die")
        m.d.sync += [compared.eq(staged), unknown_die.eq((body.members > self.dies) | (body.next_die >= self.dies))]
        word, came = engine.body.payload, Signal(name="came")
        source, destination = (words[number][:parameters.address_bits] for number in pointer_words(CollectiveBody))
        m.d.comb += [engine.body.ready.eq(~staged), came.eq(engine.body.valid & engine.body.ready)]
        with m.If(came):
            with m.Switch(word.index):
                for number in range(body_words):
                    with m.Case(number):
                        m.d.sync += words[number].eq(word.word)
            m.d.sync += staged.eq(word.last)

        row_shape = data.StructLayout({"last_member": MEMBER_BITS, "index": MEMBER_BITS,
                                       "next_die": parameters.die_bits})
        m.submodules.groups = groups = Memory(shape=row_shape, depth=GROUPS, init=[])
        row_write, row_read = groups.write_port(), groups.read_port(domain="comb")
        known = Signal(GROUPS)
        row = row_read.data
        m.d.comb += [
            row_read.addr.eq(body.group), row_write.addr.eq(body.group),
            row_write.data.last_member.eq(body.members - 1), row_write.data.index.eq(body.index),
            row_write.data.next_die.eq(body.next_die),
        ]

        # Tasks under way, oldest first: in block ``block`` unless it ended at once.
        block_bits = max(1, exact_log2(len(blocks)))
        entry_shape = data.StructLayout({"at_once": 1, "block": block_bits, "error": shape_of(ErrorCode)})
        m.submodules.order = order = FIFO(entry_shape, 2 * len(blocks))
        entry = order.i.payload
        chosen, occupied = Signal(len(blocks), name="chosen"), Signal(len(blocks), name="occupied")
        m.d.comb += chosen.eq(Const(1, len(blocks)) << body.message[:exact_log2(len(blocks))])

        operation = engine.operation
        beat_log2, chunk_log2 = exact_log2(parameters.beat_words), exact_log2(parameters.chunk_words)
        set_group, gather, sgd = Signal(name="set_group"), Signal(name="gather"), Signal(name="sgd")
        bad_row, bad_message, alone = Signal(name="bad_row"), Signal(name="bad_message"), Signal(name="alone")
        update = body.update.as_value()
        m.d.comb += [
            set_group.eq(operation == CollectiveOperation.SET_GROUP.value),
            gather.eq(operation == CollectiveOperation.ALL_GATHER.value),
            sgd.eq(update == UpdateOperation.SGD.value),
            # Without members there is no index that is not beyond them.
            bad_row.eq(body.index >= body.members),
            bad_message.eq((body.words == 0) | Cat(source[:beat_log2], destination[:beat_log2]).any()
                           | ~known.bit_select(body.group, 1)
                           | ((update != UpdateOperation.NONE.value) & ~sgd)),

            message.source.eq(source[beat_log2:]), message.destination.eq(destination[beat_log2:]),
            message.full_chunks.eq(body.words >> chunk_log2),
            message.last_words.eq(body.words[:chunk_log2] - 1),
            message.last_member.eq(row.last_member), message.index.eq(row.index),
            message.next_die.eq(row.next_die),
            message.task.eq(engine.start.payload),
            message.group.eq(body.group), message.message.eq(body.message), message.rate.eq(body.rate),
            # Alone and without an update there is nothing to add: the words are copied, or left where they are.
            alone.eq(row.last_member == 0),
            message.gather.eq(gather | (alone & ~sgd)),
            message.scatter.eq((operation == CollectiveOperation.REDUCE_SCATTER.value) | alone),
            message.update.eq(sgd & ~gather),
            message.in_place.eq(source == destination),
        ]

        released = Signal(len(blocks))
        m.d.sync += occupied.eq((occupied | started) & ~released)
        ready = staged & compared & order.i.ready
        free, known_operation = set_group | ~(occupied & chosen).any(), CollectiveOperation.SET_GROUP
        if parameters.sets_routes:
            set_route, setter = self._route_setter(m, words.as_value(), ready, occupied)
            free, known_operation = Mux(set_route, setter.done, free), CollectiveOperation.SET_ROUTE
        m.d.comb += engine.start.ready.eq(ready & free)
        with m.If(engine.start.valid & engine.start.ready):
            m.d.comb += [order.i.valid.eq(1), entry.at_once.eq(1)]
            m.d.sync += staged.eq(0)
            with m.If(operation > known_operation.value):
                m.d.comb += entry.error.eq(ErrorCode.BAD_OPERATION)
            if parameters.sets_routes:
                with m.Elif(set_route):
                    m.d.comb += entry.error.eq(setter.error)
            with m.Elif(Mux(set_group, bad_row, bad_message)):
                m.d.comb += entry.error.eq(ErrorCode.BAD_OPERAND)
            with m.Elif(set_group & unknown_die):
                m.d.comb += entry.error.eq(ErrorCode.BAD_DIE)
            with m.Elif(set_group):
                m.d.comb += row_write.en.eq(1)
                m.d.sync += known.bit_select(body.group, 1).eq(1)
            with m.Elif(~(alone & message.gather & message.in_place)):
                m.d.comb += [entry.at_once.eq(0), started.eq(chosen),
                             entry.block.eq(body.message[:exact_log2(len(blocks))])]

        m.submodules.sent = sent = Tallies(len(blocks), parameters.flit_words)
        m.submodules.stalls = stalls = Tallies(len(blocks), 1)
        # Both have counted all of a block's task; they take turns alike.
        counted = Signal(len(blocks), name="counted")
        for b, block in enumerate(blocks):
            m.d.comb += [
                getattr(sent, f"step_{b}").eq(block.sent_words),
                getattr(stalls, f"step_{b}").eq(block.busy & ~block.moved),
            ]
            with m.If(started[b] | block.busy):
                m.d.sync += counted[b].eq(0)
            with m.Elif(stalls.turn[b]):
                m.d.sync += counted[b].eq(1)
        front, done = order.o.payload, engine.done
        m.d.comb += [
            *(part.eq(value) for tallies in (sent, stalls) for part, value in (
                (tallies.clear, started), (tallies.index, Cat(front.block, front.at_once)))),
            done.valid.eq(order.o.valid & (front.at_once | counted.bit_select(front.block, 1))),
            done.payload.error.eq(front.error),
            done.payload.payload_words.eq(sent.o), done.payload.stall_cycles.eq(stalls.o),
            order.o.ready.eq(done.valid & done.ready),
            released.eq(Mux(order.o.ready & ~front.at_once, Const(1, len(blocks)) << front.block, 0)),
        ]

    def _route_setter(self, m: Module, body: Value, ready: Value, occupied: Value) -> tuple[Value, RouteSetter]:
        """What runs SET_ROUTE tasks; whether the next task is one."""
        m.submodules.route_setter = setter = RouteSetter(self._parameters)
        set_route = Signal(name="set_route")
        m.d.comb += [
            set_route.eq(self.engine.operation == CollectiveOperation.SET_ROUTE.value),
            setter.body.eq(body), setter.dies.eq(self.dies), setter.quiet.eq(self.quiet),
            setter.start.eq(self.engine.start.valid & set_route & ready
                            & ~((setter.body.traffic.as_value() == Traffic.CHUNKS.value) & occupied.any())),
            self.route_write.eq(setter.write),
        ]
        return set_route, setter

    def _strobes(self, m: Module, blocks: list[ReduceBlock]) -> None:
        """What the engine as a whole does in this cycle."""
        strobes = self.engine.strobes
        moved = Cat(block.moved for block in blocks).any()
        full = Cat(block.output_full for block in blocks).any()
        waits = Cat(block.busy & ~block.memory_only for block in blocks).any()
        m.d.comb += [
            strobes.words.eq(sum(block.sent_words for block in blocks)),
            strobes.busy.eq(moved),
            strobes.stall_output.eq(~moved & full),
            strobes.stall_input.eq(~moved & ~full & waits),
            strobes.stall_memory.eq(~moved & ~full & ~waits & Cat(block.busy for block in blocks).any()),
        ]
