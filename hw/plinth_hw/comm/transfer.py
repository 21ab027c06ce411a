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

from plinth_hw.comm.flit import PacketKind, address_fields, flit_layout
from plinth_hw.comm.receive_path import ReceivePath
from plinth_hw.comm.run_reader import packet_words
from plinth_hw.comm.tile_read import PieceUse, TileRead, tile_flit_layout, tile_piece_layout
from plinth_hw.control.control import ReceiveFault
from plinth_hw.control.engine import EngineSignature, ends_signature
from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.tasks import ErrorCode, TransferBody, TransferOperation
from plinth_hw.lib.count import index_bits
from plinth_hw.lib.fifo import FIFO
from plinth_hw.memory.port import TASK_BITS, ReadPort, WritePort
from plinth_hw.shapes import shape_of

#: Row numbers that are read in one piece, and pieces of them that may be under way.
INDEX_WORDS = 16
INDEX_PIECES = 2


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
        self._control(m, walk, tile_read, receiver, target)
        self._deliver(m, walk, tile_read, receiver, target)
        return m

    def _control(self, m: Module, walk: "TileWalk", tile_read: TileRead, receiver: ReceivePath, target: Any) -> None:
        """Body, start, done; from start to done, the task's target."""
        engine, body = self.engine, walk.body
        words = Signal(data.ArrayLayout(unsigned(32), len(body.as_value()) // 32))
        staged, moved, stored = Signal(name="staged"), Signal(name="moved"), Signal(name="stored")
        done = Signal.like(engine.done.payload)
        running, number = Signal(name="running"), Signal(TASK_BITS, name="number")
        word, came = engine.body.payload, Signal(name="came")
        m.d.comb += [
            engine.body.ready.eq(~staged), engine.done.payload.eq(done), body.as_value().eq(words.as_value()),
            came.eq(engine.body.valid & engine.body.ready), tile_read.task.eq(number), receiver.task.eq(number),
        ]
        with m.If(came):
            with m.Switch(word.index):
                for index in range(len(words)):
                    with m.Case(index):
                        m.d.sync += words[index].eq(word.word)
            m.d.sync += staged.eq(word.last)

        remote = body.remote & (body.destination_die != self.die)
        with m.FSM():
            with m.State("START"):
                m.d.comb += engine.start.ready.eq(staged)
                with m.If(engine.start.valid & staged):
                    m.d.sync += [number.eq(engine.start.payload), done.eq(0), stored.eq(0), staged.eq(0),
                                 target.remote.eq(remote),
                                 target.die.eq(body.destination_die),
                                 target.adds.eq(engine.operation == TransferOperation.ADD.value)]
                    m.next = "REPORT"
                    with m.If(engine.operation > TransferOperation.ADD.value):
                        m.d.sync += done.error.eq(ErrorCode.BAD_OPERATION)
                    with m.Elif((body.columns == 0) | (body.rows == 0) | (body.planes == 0)
                                | (body.gather & body.scatter)
                                | (body.arrival_enable & (body.arrival >= self.parameters.counters))):
                        m.d.sync += done.error.eq(ErrorCode.BAD_OPERAND)
                    with m.Elif(body.remote & (body.destination_die >= self.dies)):
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
        leaves = flit.valid & (flit.payload.use == PieceUse.TILE)
        stalled = Signal()
        m.d.comb += [
            moved.eq(leaves & flit.ready), stalled.eq(running & ~moved),
            engine.strobes.busy.eq(moved), engine.strobes.words.eq(Mux(moved, flit.payload.words, 0)),
            engine.strobes.stall_output.eq(stalled & leaves),
            engine.strobes.stall_memory.eq(stalled & ~leaves & tile_read.idle & walk.done),
            engine.strobes.stall_input.eq(stalled & ~leaves & ~(tile_read.idle & walk.done)),
        ]
        with m.If(running):
            m.d.sync += [done.payload_words.eq(done.payload_words + engine.strobes.words),
                         done.stall_cycles.eq(done.stall_cycles + stalled)]

    def _deliver(self, m: Module, walk: "TileWalk", tile_read: TileRead, receiver: ReceivePath, target: Any) -> None:
        """Flits go to the walk, to another die, or to this one."""
        flit, own, sent = tile_read.o.payload, receiver.own.payload, self.send.payload
        is_index, kind = Signal(name="is_index"), Signal(PacketKind, name="kind")
        m.d.comb += [
            is_index.eq(flit.use == PieceUse.INDEX),
            kind.eq(Mux(target.adds, PacketKind.ADD, PacketKind.STORE)),
            walk.index.valid.eq(tile_read.o.valid & is_index), walk.index.payload.eq(flit),
            receiver.own.valid.eq(tile_read.o.valid & ~is_index & ~target.remote),
            self.send.valid.eq(tile_read.o.valid & ~is_index & target.remote),
            tile_read.o.ready.eq(Mux(is_index, walk.index.ready,
                                     Mux(target.remote, self.send.ready, receiver.own.ready))),
            *(own[name].eq(flit[name]) for name in ("data", "words", "address", "last", "tail")),
            own.kind.eq(kind),
            sent.data.eq(flit.data), sent.words.eq(flit.words - 1), sent.tail.eq(flit.tail),
            address_fields(sent).eq(flit.address), sent.kind.eq(kind),
            sent.destination.eq(target.die),
        ]
        with m.If(flit.use == PieceUse.ARRIVAL):
            m.d.comb += kind.eq(PacketKind.ADVANCE)


class TileWalk(wiring.Component):
    """Cuts a tile into pieces, one a cycle within a plane; an indexed row takes four cycles.

    Members
    -------
    start : In(1)
        Pulse, with ``body`` valid from then until ``done``.
    body : In(TransferBody)
        Addresses in place of pointers.
    piece : Out stream of :func:`tile_piece_layout`
    index : In stream of :func:`tile_flit_layout`
        Words of the INDEX pieces.
    done : Out(1)
        Everything has been given.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({
            "start": In(1), "body": In(shape_of(TransferBody)),
            "piece": Out(stream.Signature(tile_piece_layout(parameters))),
            "index": In(stream.Signature(tile_flit_layout(parameters))),
            "done": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        body, piece = self.body, self.piece.payload
        bits = self.parameters.address_bits
        reach = packet_words(self.parameters)
        # First words of the plane and the row, the column that the piece begins in, and where that is.
        source_plane, source_row = Signal(bits, name="source_plane"), Signal(bits, name="source_row")
        source = Signal(bits)
        target_plane, target_row = Signal(bits, name="target_plane"), Signal(bits, name="target_row")
        target = Signal(bits)
        column, left, rows = Signal(32, name="column"), Signal(32, name="left"), Signal(32, name="rows")
        planes = Signal(32)
        list_address, list_rows = Signal(bits, name="list_address"), Signal(32, name="list_rows")
        listed, row_last = Signal(name="listed"), Signal(name="row_last")
        # The next row's words follow a row's.
        source_goes_on, target_goes_on = Signal(name="source_goes_on"), Signal(name="target_goes_on")
        m.submodules.numbers = numbers = _RowNumbers(self.parameters)
        wiring.connect(m, wiring.flipped(self.index), numbers.flit)
        product = Signal(bits)

        room, words = Signal(range(reach + 1), name="room"), Signal(range(reach + 1), name="words")
        row_ends = Signal()
        list_words = Signal(range(INDEX_WORDS + 1))
        m.d.comb += [
            listed.eq(body.gather | body.scatter), row_last.eq(rows == 1),
            room.eq(reach - target[:exact_log2(reach)]),
            source.eq(source_row + column), target.eq(target_row + column), left.eq(body.columns - column),
            row_ends.eq(left <= room), words.eq(Mux(row_ends, left, room)),
            list_words.eq(Mux(list_rows < INDEX_WORDS, list_rows, INDEX_WORDS)),
            piece.source.eq(source), piece.run.address.eq(target), piece.run.words.eq(words),
            piece.use.eq(PieceUse.TILE), piece.last.eq(row_ends & row_last & (planes == 1)),
            piece.tail.eq((words == room) | ~target_goes_on | row_last),
            piece.more.eq(~row_ends | (source_goes_on & ~row_last)),
        ]
        m.d.sync += [source_goes_on.eq(~listed & (body.source_row_stride == body.columns)),
                     target_goes_on.eq(~listed & (body.destination_row_stride == body.columns))]

        def begin_plane() -> None:
            m.d.sync += [list_address.eq(body.index), list_rows.eq(body.rows), rows.eq(body.rows)]
            m.next = "PIECES"
            with m.If(listed):
                m.next = "ROW"

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.done.eq(1)
                m.d.sync += [source_plane.eq(body.source), source_row.eq(body.source), planes.eq(body.planes)]
                with m.If(self.start):
                    m.next = "TARGET"
            with m.State("TARGET"):
                m.d.sync += [target_plane.eq(body.destination), target_row.eq(body.destination)]
                begin_plane()
            with m.State("ROW"):
                m.d.comb += [piece.source.eq(list_address), piece.run.address.eq(0), piece.run.words.eq(list_words),
                             piece.use.eq(PieceUse.INDEX), piece.tail.eq(1), piece.more.eq(0)]
                with m.If((list_rows != 0) & numbers.room):
                    m.d.comb += [self.piece.valid.eq(1), numbers.asked.eq(self.piece.ready)]
                    with m.If(self.piece.ready):
                        m.d.sync += [list_address.eq(list_address + INDEX_WORDS),
                                     list_rows.eq(list_rows - list_words)]
                with m.Elif(numbers.o.valid):
                    m.next = "PRODUCT"
            with m.State("PRODUCT"):
                m.d.comb += numbers.o.ready.eq(1)
                m.d.sync += product.eq(numbers.o.payload * Mux(body.gather, body.source_row_stride,
                                                               body.destination_row_stride))
                m.next = "INDEXED"
            with m.State("INDEXED"):
                with m.If(body.gather):
                    m.d.sync += source_row.eq(source_plane + product)
                with m.Else():
                    m.d.sync += target_row.eq(target_plane + product)
                m.next = "PIECES"
            with m.State("PIECES"):
                m.d.comb += self.piece.valid.eq(1)
                with m.If(self.piece.ready):
                    m.d.sync += column.eq(column + words)
                    with m.If(row_ends):
                        m.d.sync += [column.eq(0), source_row.eq(source_row + body.source_row_stride),
                                     target_row.eq(target_row + body.destination_row_stride), rows.eq(rows - 1)]
                        with m.If(row_last):
                            m.next = "NEXT"
                        with m.Elif(listed):
                            m.next = "ROW"
            with m.State("NEXT"):
                following_source = source_plane + body.source_plane_stride
                following_target = target_plane + body.destination_plane_stride
                m.d.sync += [source_plane.eq(following_source), source_row.eq(following_source),
                             target_plane.eq(following_target), target_row.eq(following_target),
                             planes.eq(planes - 1)]
                begin_plane()
                with m.If(planes == 1):
                    m.next = "ARRIVAL"
            with m.State("ARRIVAL"):
                m.d.comb += [self.piece.valid.eq(body.arrival_enable), piece.use.eq(PieceUse.ARRIVAL),
                             piece.run.address.eq(body.arrival), piece.tail.eq(1), piece.more.eq(0)]
                with m.If(self.piece.ready | ~body.arrival_enable):
                    m.next = "IDLE"
        return m


class _RowNumbers(wiring.Component):
    """Keeps row numbers that have been read.

    Members
    -------
    asked : In(1)
        Pulse: a piece of them is under way.
    room : Out(1)
        Another one may be.
    flit : In stream of :func:`tile_flit_layout`
    o : Out stream of row number
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({
            "asked": In(1), "room": Out(1),
            "flit": In(stream.Signature(tile_flit_layout(parameters))), "o": Out(stream.Signature(32)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        flit_words = self.parameters.flit_words
        shape = data.StructLayout({name: self.flit.payload.shape()[name].shape for name in ("data", "words", "tail")})
        depth = max(2, INDEX_PIECES * INDEX_WORDS // flit_words)
        m.submodules.numbers = numbers = FIFO(shape, depth)
        pieces, lane = Signal(range(INDEX_PIECES + 1), name="pieces"), Signal(index_bits(flit_words), name="lane")
        ends = Signal()
        head = numbers.o.payload
        m.d.comb += [
            numbers.i.valid.eq(self.flit.valid), self.flit.ready.eq(numbers.i.ready),
            *(numbers.i.payload[name].eq(self.flit.payload[name]) for name in ("data", "words", "tail")),
            self.room.eq(pieces != INDEX_PIECES),
            self.o.valid.eq(numbers.o.valid), self.o.payload.eq(head.data[lane]),
            ends.eq(lane + 1 == head.words), numbers.o.ready.eq(self.o.ready & ends),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += lane.eq(Mux(ends, 0, lane + 1))
        m.d.sync += pieces.eq(pieces + self.asked - (self.o.valid & self.o.ready & ends & head.tail))
        return m
