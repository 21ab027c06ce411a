"""Transfer engine: tiles of this die's memory go to any die's, are stored there or added to what lies there.

::

    task --> TileWalk --pieces--> TileRead --flits--+--> send (another die)
                 ^                                  +--> ReceivePath (this die) <-- receive (other dies)
                 +-------- numbers of rows ---------+        +--> tile_advance

A piece is a run of words of one row that lies in one packet: it does not cross a multiple of ``packet_words`` in the
destination. Where rows follow each other in the destination, a packet goes on from one to the next; where they do in
the source, beats do. A tile for this die takes the same way as one for another, but for the network. Where several
tasks, here or on other dies, store or add to the same words, their waits must order them: the counter that a task
names in ``arrival`` advances on the destination's die when its tile is in memory there.

A task for another die is done when its last flit has gone to the network interface, so that its source may be written
again; one for this die when its tile is in memory. One task at a time; the next one's body is taken once all
pieces of this one are under way. Source and destination must not overlap.

Latency: start to first read request 2 cycles; first beat of the memory to the first flit 5 cycles. Throughput: a flit
a cycle, less one a piece that reaches over sectors where the source lies in a higher lane than the destination, and at
least a cycle a row, with an index four; a plane one more.
Source: the DMA of the logic die, MPT section VI.A; DESIGN "One transfer pipeline".
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.arith.carry import chosen_sum
from plinth_hw.comm.flit import PacketKind, address_fields, flit_layout
from plinth_hw.comm.receive_path import ReceivePath
from plinth_hw.comm.tile_read import PieceUse, TileRead
from plinth_hw.comm.tile_walk import TileWalk
from plinth_hw.control.control import ReceiveFault
from plinth_hw.control.engine import EngineSignature, ends_signature
from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.tasks import ErrorCode, TransferOperation
from plinth_hw.memory.port import TASK_BITS, ReadPort, WritePort


def _target_layout(parameters: DieParameters) -> data.StructLayout:
    """Where the words of a task go: to ``die`` if that is ``remote``, and whether they are added there."""
    return data.StructLayout({"remote": unsigned(1), "adds": unsigned(1), "die": unsigned(parameters.die_bits)})


class TransferEngine(wiring.Component):
    """Sends ``planes`` x ``rows`` x ``columns`` words to a die, and takes what others send.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    engine : Out(EngineSignature)
        ``done.error`` is BAD_OPERATION for an unknown operation, BAD_DIE for a die that is none of ``dies``, and
        BAD_OPERAND if a size is zero, both sides are indexed, or the counter does not exist. ``payload_words``
        counts words of the tile, ``stall_cycles`` the cycles of the task in which none left.
    read, add_read : Out(ReadPort)
    write : Out(WritePort)
    send : Out stream of flits
    receive : In stream of flits
    tile_advance : Out stream of counter number
        Advances that came with tiles.
    die, dies : In
        This die's number, and how many there are.
    limit : In, fault, ends : Out
        As of :class:`ReceivePath`.

    Raises
    ------
    ValueError
        If a flit is wider than a beat.
    """

    def __init__(self, parameters: DieParameters):
        if parameters.flit_words > parameters.beat_words:
            raise ValueError(f"flit_words must be at most beat_words = {parameters.beat_words}, not "
                             f"{parameters.flit_words}")
        self.parameters = parameters
        flit = stream.Signature(flit_layout(parameters))
        super().__init__({
            "engine": Out(EngineSignature(parameters)),
            "read": Out(ReadPort(parameters)), "add_read": Out(ReadPort(parameters)),
            "write": Out(WritePort(parameters)),
            "send": Out(flit), "receive": In(flit),
            "tile_advance": Out(stream.Signature(range(parameters.counters))),
            "die": In(parameters.die_bits), "dies": In(parameters.die_bits + 1),
            "limit": In(parameters.address_bits - exact_log2(parameters.beat_words) + 1),
            "fault": Out(ReceiveFault),
            **ends_signature(parameters, parameters.flit_words),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.tile_read = tile_read = TileRead(self.parameters)
        m.submodules.receive_path = receiver = ReceivePath(self.parameters)
        m.submodules.walk = walk = TileWalk(self.parameters)
        wiring.connect(m, walk.piece, tile_read.piece)
        wiring.connect(m, tile_read.read, wiring.flipped(self.read))
        wiring.connect(m, receiver.read, wiring.flipped(self.add_read))
        wiring.connect(m, receiver.write, wiring.flipped(self.write))
        wiring.connect(m, receiver.advance, wiring.flipped(self.tile_advance))
        wiring.connect(m, wiring.flipped(self.receive), receiver.arrive)
        m.d.comb += [receiver.limit.eq(self.limit), self.fault.eq(receiver.fault)]
        if isinstance(self.parameters.memory_format, Fixed):
            m.d.comb += self.ends.eq(receiver.ends)
        target = Signal(_target_layout(self.parameters))
        self._control(m, platform, walk, tile_read, receiver, target)
        self._deliver(m, walk, tile_read, receiver, target)
        return m

    def _control(self, m: Module, platform: object, walk: TileWalk, tile_read: TileRead, receiver: ReceivePath,
                 target: Any) -> None:
        """Body, start, done; from start to done, the task's target."""
        engine, placement = self.engine, walk.placement
        staged, moved, stored = Signal(name="staged"), Signal(name="moved"), Signal(name="stored")
        done = Signal.like(engine.done.payload)
        running, number = Signal(name="running"), Signal(TASK_BITS, name="number")
        word, came = engine.body.payload, Signal(name="came")
        m.d.comb += [
            engine.body.ready.eq(~staged), engine.done.payload.eq(done),
            came.eq(engine.body.valid & engine.body.ready), tile_read.task.eq(number), receiver.task.eq(number),
            walk.body_valid.eq(came), walk.body.eq(word),
        ]
        with m.If(came):
            m.d.sync += staged.eq(word.last)

        remote = placement.remote & (placement.destination_die != self.die)
        with m.FSM():
            with m.State("START"):
                m.d.comb += engine.start.ready.eq(staged)
                with m.If(engine.start.valid & staged):
                    m.d.sync += [number.eq(engine.start.payload), stored.eq(0), staged.eq(0),
                                 done.error.eq(ErrorCode.NONE),
                                 target.remote.eq(remote),
                                 target.die.eq(placement.destination_die),
                                 target.adds.eq(engine.operation == TransferOperation.ADD.value)]
                    m.next = "REPORT"
                    with m.If(engine.operation > TransferOperation.ADD.value):
                        m.d.sync += done.error.eq(ErrorCode.BAD_OPERATION)
                    with m.Elif(walk.empty | (placement.gather & placement.scatter)
                                | (placement.arrival_enable & (placement.arrival >= self.parameters.counters))):
                        m.d.sync += done.error.eq(ErrorCode.BAD_OPERAND)
                    with m.Elif(placement.remote & (placement.destination_die >= self.dies)):
                        m.d.sync += done.error.eq(ErrorCode.BAD_DIE)
                    with m.Else():
                        m.d.comb += walk.start.eq(1)
                        m.d.sync += staged.eq(1)
                        m.next = "PIECES"
            with m.State("PIECES"):
                m.d.comb += running.eq(1)
                with m.If(walk.done):
                    m.d.sync += staged.eq(0)
                    m.next = "DATA"
            with m.State("DATA"):
                m.d.comb += running.eq(1)
                with m.If(tile_read.idle & (target.remote | stored)):
                    m.next = "REPORT"
            with m.State("REPORT"):
                m.d.comb += engine.done.valid.eq(1)
                with m.If(engine.done.ready):
                    m.next = "START"
        with m.If(receiver.stored):
            m.d.sync += stored.eq(1)

        flit = tile_read.o
        leaves = flit.valid & (flit.payload.tag.use == PieceUse.TILE)
        stalled = Signal()
        m.d.comb += [
            moved.eq(leaves & flit.ready), stalled.eq(running & ~moved),
            engine.strobes.busy.eq(moved), engine.strobes.words.eq(Mux(moved, flit.payload.words, 0)),
            engine.strobes.stall_output.eq(stalled & leaves),
            engine.strobes.stall_memory.eq(stalled & ~leaves & tile_read.idle & walk.done),
            engine.strobes.stall_input.eq(stalled & ~leaves & ~(tile_read.idle & walk.done)),
        ]
        # A cycle in which words leave counts these, any other itself.
        total = chosen_sum(m, platform, "total", moved, done.payload_words, done.stall_cycles,
                           Mux(moved, flit.payload.words, 1))
        with m.If(engine.start.valid & engine.start.ready):
            m.d.sync += [done.payload_words.eq(0), done.stall_cycles.eq(0)]
        with m.Elif(moved):
            m.d.sync += done.payload_words.eq(total)
        with m.Elif(running):
            m.d.sync += done.stall_cycles.eq(total)

    def _deliver(self, m: Module, walk: TileWalk, tile_read: TileRead, receiver: ReceivePath, target: Any) -> None:
        """Flits go to the walk, to another die, or to this one."""
        flit, own, sent = tile_read.o.payload, receiver.own.payload, self.send.payload
        is_index, kind = Signal(name="is_index"), Signal(PacketKind, name="kind")
        m.d.comb += [
            is_index.eq(flit.tag.use == PieceUse.INDEX),
            kind.eq(Mux(target.adds, PacketKind.ADD, PacketKind.STORE)),
            walk.index.valid.eq(tile_read.o.valid & is_index), walk.index.payload.eq(flit),
            receiver.own.valid.eq(tile_read.o.valid & ~is_index & ~target.remote),
            self.send.valid.eq(tile_read.o.valid & ~is_index & target.remote),
            tile_read.o.ready.eq(Mux(is_index, walk.index.ready,
                                     Mux(target.remote, self.send.ready, receiver.own.ready))),
            *(own[name].eq(flit[name]) for name in ("data", "words", "address", "tail")),
            own.last.eq(flit.tag.last), own.kind.eq(kind),
            sent.data.eq(flit.data), sent.words.eq(flit.words - 1), sent.tail.eq(flit.tail),
            address_fields(sent).eq(flit.address), sent.kind.eq(kind),
            sent.destination.eq(target.die),
        ]
        with m.If(flit.tag.use == PieceUse.ARRIVAL):
            m.d.comb += kind.eq(PacketKind.ADVANCE)
