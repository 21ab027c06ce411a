"""Transfer engine: tiles of this die's memory go to any die's, are stored there or added to what lies there.

::

    task --> TileWalk --pieces--> TileRead --flits--+--> send (another die)
                 ^          |       ^  |            +--> ReceivePath (this die) <-- receive (other dies)
                 |          |  places  flits        |        +--> tile_advance
                 |          +---> TileBlocks -------+
                 +-------- numbers of rows ---------+

A piece is a run of words of one row that lies in one packet: it does not cross a multiple of ``packet_words`` in the
destination. Where rows follow each other in the destination, a packet goes on from one to the next; where they do in
the source, beats do. A tile for this die takes the same way as one for another, but for the network. Where several
tasks, here or on other dies, store or add to the same words, their waits must order them: the counter that a task
names in ``arrival`` advances on the destination's die when its tile is in memory there.

A task for another die is done when its last flit has gone to the network interface, or where links are narrower than
what moves within the die to the flits that wait for it, so that its source may be written again; one for this die when
its tile is in memory. Dies with transforms have tasks whose pieces are blocks, which
:class:`~plinth_hw.comm.tile_blocks.TileBlocks` makes packets of. One task at a time; the next one's body is taken once
all pieces of this one are under way, and blocks are made. Source and destination must not overlap.

Latency: start to first read request 3 cycles; first beat of the memory to the first flit 5 cycles; of blocks, that of
their stages more. Throughput: a flit, of dies with ``transfer_words`` so many words within the die,
a cycle, less one a piece that reaches over sectors where the source lies in a higher lane than the destination, and at
least a cycle a row, with an index four; a plane one more.
Source: the DMA of the logic die, MPT section VI.A; DESIGN "One transfer pipeline".
"""

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.arith.carry import chosen_sum
from plinth_hw.comm.codes.stages import CodeStages
from plinth_hw.comm.flit import PacketKind, address_fields, flit_layout
from plinth_hw.comm.flit_width import FlitJoin, FlitSplit
from plinth_hw.comm.receive_path import ReceivePath
from plinth_hw.comm.tile_blocks import TileBlocks, spread_layout
from plinth_hw.comm.tile_read import PieceUse, TileRead, tile_flit_layout
from plinth_hw.comm.tile_walk import TileWalk
from plinth_hw.control.control import ReceiveFault
from plinth_hw.control.engine import EngineSignature, ends_signature
from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.operations import Engine, ErrorCode, TransferOperation
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.count import stepped
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.memory.port import TASK_BITS, ReadPort, WritePort

#: Bits of the number of packets for this die that are not in memory, more than its receive path holds.
OWN_BITS = 8
#: Flits for this die that wait, of dies with transforms, for those that come from others: half a block's, while others
#: send theirs.
OWN_FLITS = 32
#: What stages of codes are told of a task.
_CODES = {"decodes": TransferOperation.DECODE, "predicts": TransferOperation.PREDICT}


def _target_layout(parameters: DieParameters) -> data.StructLayout:
    """Where the words of a task go: to ``die`` if that is ``remote``, and whether they are added there; whether its
    pieces are ``blocks``, and go to ``several`` dies: how many, and from one to the next."""
    codes = {"codes": unsigned(1), **dict.fromkeys(_CODES, unsigned(1))} if parameters.codes else {}
    blocks = {"blocks": unsigned(1), "several": unsigned(1), **{
        name: spread_layout(parameters)[name].shape for name in ("members", "step")}} if parameters.transforms else {}
    return data.StructLayout({"remote": unsigned(1), "adds": unsigned(1), "die": unsigned(parameters.die_bits),
                              **blocks, **codes})


class TransferEngine(wiring.Component):
    """Sends ``planes`` x ``rows`` x ``columns`` words to a die, and takes what others send.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    engine : Out(EngineSignature)
        ``done.error`` is BAD_OPERATION for an unknown operation, BAD_DIE for a die that is none of ``dies``, and
        BAD_OPERAND if a size is zero, both sides are indexed, or one of a task that transforms, or the counter or a
        matrix does not exist. ``payload_words``
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
            "fault": Out(ReceiveFault), **({"codes_read": Out(ReadPort(parameters))} if parameters.codes else {}),
            **ends_signature(parameters, parameters.within.flit_words),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        within = self.parameters.within
        m.submodules.tile_read = tile_read = TileRead(within)
        m.submodules.receive_path = receiver = ReceivePath(within)
        m.submodules.walk = walk = TileWalk(within)
        target = Signal(_target_layout(self.parameters))
        codes: CodeStages | None = None
        if self.parameters.codes:
            m.submodules.codes = codes = CodeStages(within)
            wiring.connect(m, codes.read, wiring.flipped(self.codes_read))
        if self.parameters.transforms:
            m.submodules.blocks = blocks = TileBlocks(within)
            leaving, idle = self._branch(m, walk, tile_read, blocks, codes, target)
        else:
            blocks, leaving, idle = None, tile_read.o, tile_read.idle
            wiring.connect(m, walk.piece, tile_read.piece)
        wiring.connect(m, tile_read.read, wiring.flipped(self.read))
        wiring.connect(m, receiver.read, wiring.flipped(self.add_read))
        wiring.connect(m, receiver.write, wiring.flipped(self.write))
        wiring.connect(m, receiver.advance, wiring.flipped(self.tile_advance))
        if within is self.parameters:
            wiring.connect(m, wiring.flipped(self.receive), receiver.arrive)
        else:
            m.submodules.join = join = FlitJoin(self.parameters)
            wiring.connect(m, wiring.flipped(self.receive), join.i)
            wiring.connect(m, join.o, receiver.arrive)
        m.d.comb += [receiver.limit.eq(self.limit), self.fault.eq(receiver.fault)]
        if isinstance(self.parameters.memory_format, Fixed):
            m.d.comb += self.ends.eq(receiver.ends)
        own = receiver.own
        if blocks is not None:
            m.submodules.own = waiting = FIFO(own.payload.shape(), OWN_FLITS)
            wiring.connect(m, waiting.o, own)
            own = waiting.i
        self._control(m, platform, walk, tile_read, blocks, codes, receiver, own, target, leaving, idle)
        self._deliver(m, walk, blocks, own, target, leaving)
        return m

    def _branch(self, m: Module, walk: TileWalk, tile_read: TileRead, blocks: TileBlocks, codes: CodeStages | None,
                target: Any) -> tuple[Any, Value]:
        """Blocks and runs go round by their stages, all else straight on: the flits that leave, and whether none will.
        """
        flit = stream.Signature(tile_flit_layout(self.parameters.within))
        leaving = flit.create(path=("leaving",))
        inside, read_tile = Signal(name="inside"), Signal(name="read_tile")
        piece, read_piece, read = walk.piece, tile_read.piece, tile_read.o
        m.d.comb += [
            inside.eq(target.blocks & (piece.payload.use == PieceUse.TILE)),
            read_tile.eq(target.blocks & (read.payload.tag.use == PieceUse.TILE)),
            walk.blocks.eq(target.blocks), blocks.ends_row.eq(walk.ends_row), blocks.ends_plane.eq(walk.ends_plane),
            blocks.walk.payload.eq(piece.payload), blocks.walk.valid.eq(piece.valid & inside),
            # What tells of the end goes behind all blocks.
            read_piece.payload.eq(Mux(blocks.idle, piece.payload, blocks.piece.payload)),
            read_piece.valid.eq(Mux(blocks.idle, piece.valid & ~inside, blocks.piece.valid)),
            blocks.piece.ready.eq(read_piece.ready & ~blocks.idle),
            piece.ready.eq(Mux(inside, blocks.walk.ready, read_piece.ready & blocks.idle)),
            blocks.flit.payload.eq(read.payload), blocks.flit.valid.eq(read.valid & read_tile),
            leaving.payload.eq(Mux(blocks.o.valid, blocks.o.payload, read.payload)),
            leaving.valid.eq(blocks.o.valid | (read.valid & ~read_tile)),
            blocks.o.ready.eq(leaving.ready),
            read.ready.eq(Mux(read_tile, blocks.flit.ready, leaving.ready & ~blocks.o.valid)),
        ]
        idle = tile_read.idle & blocks.idle
        if codes is not None:
            with m.If(target.codes):
                coded = read.payload.tag.use != PieceUse.ARRIVAL
                m.d.comb += [
                    read_piece.payload.eq(codes.piece.payload), read_piece.valid.eq(codes.piece.valid),
                    codes.piece.ready.eq(read_piece.ready),
                    codes.flit.payload.eq(read.payload), codes.flit.valid.eq(read.valid & coded),
                    leaving.payload.eq(Mux(codes.o.valid, codes.o.payload, read.payload)),
                    leaving.valid.eq(codes.o.valid | (read.valid & ~coded)), codes.o.ready.eq(leaving.ready),
                    read.ready.eq(Mux(coded, codes.flit.ready, leaving.ready & ~codes.o.valid)),
                ]
            idle &= codes.idle
        return leaving, idle

    def _control(self, m: Module, platform: object, walk: TileWalk, tile_read: TileRead, blocks: TileBlocks | None,
                 codes: CodeStages | None, receiver: ReceivePath, own: Any, target: Any, leaving: Any, idle: Value
                 ) -> None:
        """Body, start, done; from start to done, the task's target."""
        engine, placement = self.engine, walk.placement
        staged, moved, stored = Signal(name="staged"), Signal(name="moved"), Signal(name="stored")
        done = Signal.like(engine.done.payload)
        running, number = Signal(name="running"), Signal(TASK_BITS, name="number")
        word, came = engine.body.payload, Signal(name="came")
        # Lattices are read until all blocks are made.
        # In the first cycle after reset the walk clears memories, which bodies come to.
        cleared = Signal(name="cleared")
        m.d.sync += cleared.eq(1)
        free = ~staged & cleared if blocks is None else ~staged & cleared & blocks.idle
        if codes is not None:
            free &= codes.idle
        m.d.comb += [
            engine.body.ready.eq(free), engine.done.payload.eq(done),
            came.eq(engine.body.valid & engine.body.ready), tile_read.task.eq(number), receiver.task.eq(number),
            walk.body_valid.eq(came), walk.body.eq(word),
        ]
        with m.If(came):
            m.d.sync += staged.eq(word.last)
        known = self.parameters.operations(Engine.TRANSFER)
        adds: Value = engine.operation == TransferOperation.ADD.value
        unfit: Value = walk.empty | (placement.gather & placement.scatter)
        begun = [stored.eq(0)]
        if blocks is not None:
            transforms, spread = engine.operation[1] & ~engine.operation[2], blocks.spread
            several = transforms & (spread.members != 0)
            adds |= engine.operation == TransferOperation.TRANSFORM_ADD.value
            unfit |= transforms & (blocks.unfit | placement.gather | placement.scatter)
            unfit |= several & (~placement.remote | (spread.places == 0))
            begun = [target.blocks.eq(transforms), target.several.eq(several), target.members.eq(spread.members),
                     target.step.eq(spread.step)]
            m.d.comb += [blocks.die.eq(placement.destination_die), blocks.body_valid.eq(came), blocks.body.eq(word),
                         blocks.start.eq(walk.start)]
        starts: Value = Const(0)
        if codes is not None:
            # What it is to do stands in the target then.
            codes_begin = Signal(name="codes_begin")
            m.d.comb += codes.start.eq(codes_begin)
            m.d.sync += codes_begin.eq(0)
            starts = engine.operation[2]
            predicts = engine.operation == TransferOperation.PREDICT.value
            unfit |= starts & (Mux(predicts, codes.unpredictable, codes.unfit) | placement.gather | placement.scatter)
            begun += [target.codes.eq(starts), *(
                target[name].eq(engine.operation == operation.value) for name, operation in _CODES.items())]
            m.d.comb += [codes.body_valid.eq(came), codes.body.eq(word), codes.task.eq(number),
                         *(getattr(codes, name).eq(target[name]) for name in _CODES)]

        remote = placement.remote & (placement.destination_die != self.die)
        if blocks is not None:
            remote &= ~several
        with m.FSM():
            with m.State("START"):
                m.d.comb += engine.start.ready.eq(staged)
                with m.If(engine.start.valid & staged):
                    m.d.sync += [number.eq(engine.start.payload), *begun, staged.eq(0),
                                 done.error.eq(ErrorCode.NONE),
                                 target.remote.eq(remote),
                                 target.die.eq(placement.destination_die),
                                 target.adds.eq(adds)]
                    m.next = "REPORT"
                    with m.If(engine.operation > known[-1].value):
                        m.d.sync += done.error.eq(ErrorCode.BAD_OPERATION)
                    with m.Elif(unfit | (placement.arrival_enable & (placement.arrival >= self.parameters.counters))):
                        m.d.sync += done.error.eq(ErrorCode.BAD_OPERAND)
                    with m.Elif(placement.remote & (placement.destination_die >= self.dies)):
                        m.d.sync += done.error.eq(ErrorCode.BAD_DIE)
                    with m.Else():
                        m.d.sync += staged.eq(1)
                        m.next = "PIECES"
                        if blocks is None:
                            m.d.comb += walk.start.eq(1)
                        else:
                            m.d.comb += walk.start.eq(~several & ~starts)
                            with m.If(several):
                                m.next = "MEMBERS"
                        if codes is not None:
                            m.d.sync += codes_begin.eq(starts)
            if blocks is not None:
                self._check_members(m, blocks, walk, target, staged, done)
            with m.State("PIECES"):
                m.d.comb += running.eq(1)
                with m.If(walk.done):
                    m.d.sync += staged.eq(0)
                    m.next = "DATA"
            with m.State("DATA"):
                m.d.comb += running.eq(1)
                with m.If(idle & (target.remote | stored)):
                    m.next = "REPORT"
                    if codes is not None:
                        with m.If(target.codes & codes.wrong):
                            m.d.sync += done.error.eq(ErrorCode.BAD_CODE)
            with m.State("REPORT"):
                m.d.comb += engine.done.valid.eq(1)
                with m.If(engine.done.ready):
                    m.next = "START"
        if blocks is None:
            with m.If(receiver.stored):
                m.d.sync += stored.eq(1)
        else:
            # Packets for this die that are marked, and not in memory.
            under_way = Signal(OWN_BITS, name="under_way")
            sent = (own.valid & own.ready & own.payload.tail & own.payload.last
                    & (own.payload.kind != PacketKind.ADVANCE))
            m.d.sync += under_way.eq(stepped(under_way, sent, receiver.stored))
            m.d.comb += stored.eq(under_way == 0)

        flit = leaving
        leaves = flit.valid & (flit.payload.tag.use == PieceUse.TILE)
        # Of what goes to several dies, words of others.
        counted: Value = flit.payload.words
        if blocks is not None:
            counted = Mux(target.several & (flit.payload.tag.die == self.die), 0, counted)
        stalled = Signal()
        m.d.comb += [
            moved.eq(leaves & flit.ready), stalled.eq(running & ~moved),
            engine.strobes.busy.eq(moved), engine.strobes.words.eq(Mux(moved, counted, 0)),
            engine.strobes.stall_output.eq(stalled & leaves),
            engine.strobes.stall_memory.eq(stalled & ~leaves & idle & walk.done),
            engine.strobes.stall_input.eq(stalled & ~leaves & ~(idle & walk.done)),
        ]
        # A cycle in which words leave counts these, any other itself.
        total = chosen_sum(m, platform, "total", moved, done.payload_words, done.stall_cycles,
                           Mux(moved, counted, 1))
        with m.If(engine.start.valid & engine.start.ready):
            m.d.sync += [done.payload_words.eq(0), done.stall_cycles.eq(0)]
        with m.Elif(moved):
            m.d.sync += done.payload_words.eq(total)
        with m.Elif(running):
            m.d.sync += done.stall_cycles.eq(total)

    def _check_members(self, m: Module, blocks: TileBlocks, walk: TileWalk, target: Any, staged: Signal, done: Any
                       ) -> None:
        """Dies that a task's tiles go to, one by one, before it begins: they exist, and have all places."""
        spread = blocks.spread
        # As wide as a step beyond the last die.
        die = Signal(max(len(self.dies), len(spread.step)) + 1, name="member_die")
        left, longer = Signal.like(spread.members, name="members_left"), Signal.like(spread.longer, name="longer_left")
        places, begins = Signal(len(spread.all) + 2, name="member_places"), Signal(init=1, name="members_begin")
        now, sum_, more = Signal.like(die, name="now"), Signal.like(places, name="so_far"), Signal.like(longer)
        last = Signal(name="last_member")
        m.d.comb += [
            now.eq(Mux(begins, target.die, die)), more.eq(Mux(begins, spread.longer, longer)),
            sum_.eq(Mux(begins, 0, places) + spread.places + (more != 0)),
            last.eq(Mux(begins, spread.members, left) == 1),
        ]
        with m.State("MEMBERS"):
            m.d.sync += [
                die.eq(now + spread.step), longer.eq(more - (more != 0)), begins.eq(0),
                left.eq(Mux(begins, spread.members, left) - 1),
                # Beyond all places it stays so.
                places.eq(Mux(sum_ > spread.all, spread.all + 1, sum_)),
            ]
            with m.If(now >= self.dies):
                m.d.sync += [done.error.eq(ErrorCode.BAD_DIE), staged.eq(0), begins.eq(1)]
                m.next = "REPORT"
            with m.Elif(last):
                m.d.sync += begins.eq(1)
                m.next = "PIECES"
                with m.If(sum_ == spread.all):
                    m.d.comb += walk.start.eq(1)
                with m.Else():
                    m.d.sync += [done.error.eq(ErrorCode.BAD_OPERAND), staged.eq(0)]
                    m.next = "REPORT"

    def _several(self, m: Module, own: Any, send: Any, target: Any, leaving: Any
                 ) -> tuple[Value, Value, Value]:
        """Of a task whose tiles go to several dies: whether the flit that leaves goes to another one, and which;
        whether it is done with then. An arrival goes to each of them."""
        flit = leaving.payload
        remote, die, ends = Signal(name="remote"), Signal.like(target.die, name="to_die"), Signal(init=1, name="ends")
        die_of, left = Signal.like(target.die, name="arrival_die"), Signal.like(target.members, name="arrivals_left")
        inside, arrives, last = Signal(name="arriving"), Signal(name="arrives"), Signal(name="last_arrival")
        taken = Mux(remote, send.ready, own.ready)
        m.d.comb += [
            arrives.eq(target.several & (flit.tag.use == PieceUse.ARRIVAL)),
            die.eq(Mux(arrives, Mux(inside, die_of, target.die), Mux(target.several, flit.tag.die, target.die))),
            remote.eq(Mux(target.several, die != self.die, target.remote)),
            last.eq(Mux(inside, left, target.members) == 1), ends.eq(~arrives | last),
        ]
        with m.If(leaving.valid & arrives & taken):
            m.d.sync += [inside.eq(~last), die_of.eq(die + target.step),
                         left.eq(Mux(inside, left, target.members) - 1)]
        return remote, die, ends

    def _deliver(self, m: Module, walk: TileWalk, blocks: TileBlocks | None, own: Any, target: Any,
                 leaving: Any) -> None:
        """Flits go to the walk, to another die, or to this one."""
        send: Any = self.send
        if self.parameters.within is not self.parameters:
            m.submodules.split = split = FlitSplit(self.parameters)
            wiring.connect(m, split.o, wiring.flipped(self.send))
            m.submodules.leaving = waiting = FIFO(split.i.payload.shape(), self.parameters.leaving_flits, Storage.BLOCK)
            wiring.connect(m, waiting.o, split.i)
            send = waiting.i
        flit, loopback, sent = leaving.payload, own.payload, send.payload
        remote: Value = target.remote
        die: Value = target.die
        ends: Value | None = None
        if blocks is not None:
            remote, die, ends = self._several(m, own, send, target, leaving)
        taken = Mux(remote, send.ready, own.ready)
        is_index, kind = Signal(name="is_index"), Signal(PacketKind, name="kind")
        m.d.comb += [
            is_index.eq(flit.tag.use == PieceUse.INDEX),
            kind.eq(Mux(target.adds, PacketKind.ADD, PacketKind.STORE)),
            walk.index.valid.eq(leaving.valid & is_index), walk.index.payload.eq(flit),
            own.valid.eq(leaving.valid & ~is_index & ~remote),
            send.valid.eq(leaving.valid & ~is_index & remote),
            leaving.ready.eq(Mux(is_index, walk.index.ready, taken if ends is None else taken & ends)),
            *(loopback[name].eq(flit[name]) for name in ("data", "words", "address", "tail")),
            loopback.last.eq(flit.tag.last), loopback.kind.eq(kind),
            sent.data.eq(flit.data), sent.words.eq(flit.words - 1), sent.tail.eq(flit.tail),
            address_fields(sent).eq(flit.address), sent.kind.eq(kind),
            sent.destination.eq(die),
        ]
        with m.If(flit.tag.use == PieceUse.ARRIVAL):
            m.d.comb += kind.eq(PacketKind.ADVANCE)
