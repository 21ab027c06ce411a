"""Output buffer: tiles drain into its places and are stored from there, while the array works on.

::

    drain_data -> register -> VectorMemory places -> RowStore -> write port
    jobs (tiles of C, ends of tasks) -> GridRows ----^    done -> end of task

Places hold ``geometry.tile_lines`` lines each; a tile with another interleave shape than those in the
buffer waits until they have left. Stores are started in the order of tiles. After the last store of a
task its end is reported once memory has answered all of them, and only then the next task's stores begin.
"""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.operations import ErrorCode
from plinth_hw.lib.delay import delayed
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.matrix.conversion import store_latency, to_memory
from plinth_hw.matrix.geometry import Geometry, lookup
from plinth_hw.matrix.preload import SlotWalk
from plinth_hw.matrix.systolic import SystolicArray
from plinth_hw.matrix.window import GridRows
from plinth_hw.memory.banks import line_bits
from plinth_hw.memory.channel import RowStore
from plinth_hw.memory.line_tracker import LineTracker
from plinth_hw.memory.port import WritePort
from plinth_hw.memory.scratchpad import VectorMemory, give
from plinth_hw.shapes import shape_of

#: Beats fetched ahead of the port.
FETCHES = 8
#: Tiles whose jobs may wait.
JOBS = 8
#: Stored tiles whose answers may be missing.
UNANSWERED = 7


class OutputBuffer(wiring.Component):
    """Takes drained tiles and stores them.

    Members
    -------
    option : In
        Of the tile that wants to drain.
    room : Out(1)
        There is a place for it; ``reserve`` In(1): it is taken, its words follow. Of a tile that came, or was taken, in
        the cycle before it says nothing yet.
    valid, data : In
        As ``drain_valid``, ``drain_data`` of the array.
    job : In stream of ``geometry.tile_job``
        Where tiles go, in their order, or errors to report.
    port : Out(WritePort)
    ended : Out stream of ErrorCode
        A task has ended; all its stores are answered.
    words : Out
        Words stored in this cycle.
    """

    def __init__(self, geometry: Geometry, array: SystolicArray):
        self.geometry = geometry
        parameters = geometry.parameters
        #: Tiles between their token and their last word.
        self.draining = 2 + -(-(array.drain_latency + 8 + store_latency(parameters)) // array.token_cycles)
        super().__init__({
            "option": In(geometry.option_bits), "room": Out(1), "reserve": In(1),
            "valid": In(1), "data": In(data.ArrayLayout(geometry.chain_format.bits, parameters.columns)),
            "job": In(stream.Signature(geometry.tile_job)),
            "port": Out(WritePort(parameters)),
            "ended": Out(stream.Signature(shape_of(ErrorCode))),
            "words": Out(parameters.beat_words.bit_length()),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        geometry, parameters = self.geometry, self.geometry.parameters
        banks, lines = parameters.beat_words, geometry.output_lines
        m.submodules.memory = memory = VectorMemory(banks, lines, parameters.word_bits)
        # Complete tiles: their lines and shapes.
        record = data.StructLayout({"line": unsigned(line_bits(lines)),
                                    "option": unsigned(geometry.option_bits)})
        m.submodules.tiles = tiles = FIFO(record, max(2, *geometry.tile_places))
        freed = Signal()
        self._drain(m, platform, memory, record, tiles, freed)
        self._store(m, memory, tiles, freed)
        return m

    def _drain(self, m: Module, platform: object, memory: VectorMemory, record: data.StructLayout, tiles: FIFO,
               freed: Signal) -> None:
        """Places in a ring; a place is in use from the token until it is ``freed``."""
        geometry = self.geometry
        most = max(geometry.tile_places)
        # Tiles in the buffer and, of the ring, the place of the next one.
        used = Signal(range(most + 1))
        place = Signal(range(max(2, most)))
        line = Signal(len(memory.write.line))
        option = Signal(geometry.option_bits)
        places = lookup(m, "places", self.option, geometry.tile_places)
        size = lookup(m, "tile_lines", self.option, geometry.tile_lines)
        fresh, remaining = Signal(), Signal.like(used)
        m.submodules.drains = drains = FIFO(record, self.draining)
        m.d.comb += [
            fresh.eq(used == 0), remaining.eq(used + self.reserve - freed),
            drains.i.valid.eq(self.reserve),
            drains.i.payload.line.eq(Mux(fresh, 0, line)), drains.i.payload.option.eq(self.option),
        ]
        m.d.sync += [
            used.eq(remaining),
            self.room.eq(((remaining == 0) | ((option == self.option) & (remaining != places))) & drains.i.ready),
        ]
        with m.If(self.reserve):
            m.d.sync += option.eq(self.option)
            with m.If(Mux(fresh, 0, place) + 1 == places):
                m.d.sync += [place.eq(0), line.eq(0)]
            with m.Else():
                m.d.sync += [place.eq(Mux(fresh, 0, place) + 1), line.eq(Mux(fresh, 0, line) + size)]

        m.submodules.walk = walk = SlotWalk(geometry, geometry.output_lines)
        drain, write = drains.o.payload, memory.write
        columns = geometry.parameters.columns
        valid = delayed(m, "valid", self.valid, store_latency(geometry.parameters))
        words = to_memory(m, platform, geometry.parameters, geometry.chain_format,
                          [self.data[column] for column in range(columns)])
        m.d.comb += [walk.option.eq(drain.option), walk.step.eq(valid),
                     drains.o.ready.eq(valid & walk.last),
                     write.along_rows.eq(0), write.mask.eq((1 << columns) - 1)]
        m.d.sync += [
            write.enable.eq(valid), write.line.eq(walk.line + drain.line),
            write.capacity.eq(walk.capacity), write.skew.eq(walk.skew),
            write.column_low.eq(walk.column_low),
            tiles.i.valid.eq(valid & walk.last), tiles.i.payload.eq(drain),
        ]
        with m.If(valid):
            m.d.sync += [write.data[column].eq(word) for column, word in enumerate(words)]

    def _store(self, m: Module, memory: VectorMemory, tiles: FIFO, freed: Signal) -> None:
        """Stores of tiles one after another, then the answers of a task."""
        geometry, parameters = self.geometry, self.geometry.parameters
        banks, lines = parameters.beat_words, geometry.output_lines
        m.submodules.rows = rows = GridRows(parameters, geometry.a_bits, geometry.b_bits)
        m.submodules.store = store = RowStore(parameters, geometry.a_bits, geometry.b_bits, fetch_depth=FETCHES)
        m.submodules.tracker = tracker = LineTracker(banks, lines, geometry.a_bits)
        m.submodules.jobs = jobs = FIFO(geometry.tile_job, JOBS, Storage.HEAD)
        m.submodules.fetched = fetched = FIFO(store.i.payload.shape(), FETCHES)
        job, tile = jobs.o.payload, tiles.o.payload
        wiring.connect(m, wiring.flipped(self.job), jobs.i)
        wiring.connect(m, fetched.o, store.i)
        wiring.connect(m, rows.o, store.i_rows)
        wiring.connect(m, wiring.flipped(self.port), store.port)
        read, fetch = memory.read, store.fetch.payload
        unanswered = Signal(range(UNANSWERED + 1))
        issue = Signal()
        m.d.comb += [
            issue.eq(rows.command.valid & rows.command.ready), rows.grid.eq(job.grid),
            rows.command.payload.start.eq(job.start), rows.command.payload.offset.eq(job.offset),
            rows.command.payload.rows.eq(job.rows), rows.command.payload.columns.eq(job.columns),
            store.fetch.ready.eq(1),
            freed.eq(store.fetch.valid & fetch.last), tiles.o.ready.eq(freed),
            tracker.base.eq(tile.line), tracker.along_rows.eq(0),
            tracker.capacity.eq(lookup(m, "capacity", tile.option, geometry.a_span)),
            tracker.row.eq(fetch.row), tracker.column.eq(fetch.column),
            tracker.take.eq(store.fetch.valid),
            *give(read, tracker.command),
            fetched.i.valid.eq(delayed(m, "fetched", read.enable, memory.read_latency)),
            fetched.i.payload.eq(read.data),
            self.words.eq(store.words),
            self.ended.payload.eq(job.error),
        ]
        # Tiles in the memory whose rows have not been asked for.
        complete = Signal(range(tiles.depth + 1))
        m.d.sync += [unanswered.eq(unanswered + issue - store.done),
                     complete.eq(complete + tiles.i.valid - issue)]

        with m.FSM():
            with m.State("TILE"):
                with m.If(jobs.o.valid & (job.error != ErrorCode.NONE)):
                    m.next = "ANSWERS"
                with m.Elif(jobs.o.valid & (complete != 0) & (unanswered != UNANSWERED)):
                    m.d.comb += rows.command.valid.eq(1)
                    with m.If(rows.command.ready):
                        m.next = "ROWS"
            with m.State("ROWS"), m.If(~rows.busy):
                with m.If(job.task_last):
                    m.next = "ANSWERS"
                with m.Else():
                    m.d.comb += jobs.o.ready.eq(1)
                    m.next = "TILE"
            with m.State("ANSWERS"):
                m.d.comb += self.ended.valid.eq(unanswered == 0)
                with m.If(self.ended.valid & self.ended.ready):
                    m.next = "ENDED"
            with m.State("ENDED"):
                m.d.comb += jobs.o.ready.eq(1)
                m.next = "TILE"
