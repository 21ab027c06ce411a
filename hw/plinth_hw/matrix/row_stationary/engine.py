"""Row-stationary matrix engine.

::

    body, start -> sequencer -+-> ifmap buffer (2 halves) -> feeder -- multicast bus (id, line) --> +-------+
                              +-> filter loader ---------------- filter bus (array row, line) ------> | array |
                              +-> passes -----------------------------------------------------------> |       |
                              +-> psum buffer (C banks, 2 regions) <--- results / starts -----------> +-------+
                                    ^ preload     | store

Loads, multiplication, results and stores of consecutive rounds, batches and tasks overlap; docs/row_stationary.md has
the flow and the cycles. Source: Eyeriss, section V; HyPar, section 5.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.control.engine import EngineSignature, account
from plinth_hw.isa.matrix_bodies import RowStationaryBody
from plinth_hw.isa.operations import ErrorCode
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.fifo import FIFO
from plinth_hw.matrix.row_stationary.array import RowArray
from plinth_hw.matrix.row_stationary.filters import FilterLoader
from plinth_hw.matrix.row_stationary.ifmap_feeder import IfmapFeeder
from plinth_hw.matrix.row_stationary.ifmaps import IfmapBuffer
from plinth_hw.matrix.row_stationary.interface import Pass
from plinth_hw.matrix.row_stationary.jobs import GROUP_BITS, Sizes, copied
from plinth_hw.matrix.row_stationary.psum_memory import Preload, Store
from plinth_hw.matrix.row_stationary.psums import PsumBanks, Results, Starts
from plinth_hw.matrix.row_stationary.sequencer import RowStationarySequencer
from plinth_hw.matrix.row_stationary.useful import UsefulCount
from plinth_hw.memory.port import ReadPort, WritePort
from plinth_hw.shapes import shape_of

#: Tasks between start and completion, at most.
MAXIMUM_TASKS = 255
#: Tasks of which the useful multiply-adds are known, and which have not ended.
COUNTED_TASKS = 4


class Passes(wiring.Component):
    """Passes of rounds.

    Members
    -------
    task : In(RowStationaryBody)
        Stable while a job is offered.
    job : In stream of ``sizes.feed_job``
    o : Out stream of :class:`~plinth_hw.matrix.row_stationary.interface.Pass`
    """

    def __init__(self, sizes: Sizes):
        self.sizes = sizes
        super().__init__({"task": In(shape_of(RowStationaryBody)), "job": In(stream.Signature(sizes.feed_job)),
                          "o": Out(stream.Signature(Pass))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        accepted = Signal()
        same = "tap_columns tap_channels tap_step window_step windows filter_step interleaved_windows"
        task = copied(m, self.task, f"{same} stream_lines sets set_rows", accepted)
        groups, active = Signal(GROUP_BITS, name="groups"), Signal(8, name="active")
        m.d.comb += [
            self.job.ready.eq((groups == 0) | ((groups == 1) & self.o.ready)),
            accepted.eq(self.job.valid & self.job.ready), self.o.valid.eq(groups != 0),
            *(self.o.payload[name].eq(task[name]) for name in same.split()),
            self.o.payload.lines.eq(task.stream_lines), self.o.payload.active.eq(active),
        ]
        with m.If(accepted):
            m.d.sync += [groups.eq(self.job.payload.groups), active.eq(self.task.sets * self.task.set_rows)]
        with m.Elif(self.o.valid & self.o.ready):
            m.d.sync += groups.eq(groups - 1)
        return m


class RowStationaryEngine(wiring.Component):
    """Runs matrix tasks, see :class:`~plinth_hw.isa.matrix_bodies.RowStationaryBody`.

    ``payload_words`` of a task are the words of C that it stored, ``busy`` are cycles in which any row of the array
    multiplied. The strobe of useful multiply-adds shows those of a task once they are counted, half of the number of
    values of its field every other cycle, so as many as an array of 16,384 PEs does.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    engine : Out(EngineSignature)
    x_memory, w_memory, c_memory : Out(ReadPort)
        Map, filters, and C of tasks that accumulate.
    store_memory : Out(WritePort)

    Raises
    ------
    ValueError
        If a size of the array is not positive, not a power of two where it must be, or a buffer not whole lines.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        self.sizes = Sizes(parameters)
        super().__init__({
            "engine": Out(EngineSignature(parameters)),
            "x_memory": Out(ReadPort(parameters)),
            "w_memory": Out(ReadPort(parameters)),
            "c_memory": Out(ReadPort(parameters)),
            "store_memory": Out(WritePort(parameters)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes, parameters = self.sizes, self.parameters
        m.submodules.sequencer = sequencer = RowStationarySequencer(sizes)
        m.submodules.ifmaps = ifmaps = IfmapBuffer(sizes)
        m.submodules.feeder = feeder = IfmapFeeder(sizes, ifmaps.lines)
        m.submodules.filters = filters = FilterLoader(sizes)
        m.submodules.passes = passes = Passes(sizes)
        m.submodules.banks = banks = PsumBanks(sizes)
        m.submodules.starts = starts = Starts(sizes)
        m.submodules.results = results = Results(sizes)
        m.submodules.preload = preload = Preload(sizes)
        m.submodules.store = store = Store(sizes)
        m.submodules.array = array = RowArray(
            parameters.multiply_format, parameters.sum_format, parameters.rows, parameters.columns,
            parameters.filter_words, parameters.ifmap_words, parameters.psum_words, parameters.feed_words)

        blocks = {"ifmaps": ifmaps, "feed": feeder, "filters": filters, "passes": passes, "starts": starts,
                  "results": results, "preload": preload, "store": store}
        for name, block in blocks.items():
            wiring.connect(m, getattr(sequencer, name), block.job)  # type: ignore[attr-defined]
            m.d.comb += block.task.eq(sequencer.task)  # type: ignore[attr-defined]
        for source, sink in ((feeder.read, ifmaps.read), (passes.o, array.passes), (starts.o, array.psums),
                             (preload.line_write, banks.line_write), (store.line_read, banks.line_read)):
            wiring.connect(m, source, sink)
        for port, inner in ((self.engine.body, sequencer.body), (self.engine.start, sequencer.start),
                            (self.x_memory, ifmaps.port), (self.w_memory, filters.port),
                            (self.c_memory, preload.port), (self.store_memory, store.port)):
            wiring.connect(m, wiring.flipped(port), inner)
        m.d.comb += [
            sequencer.operation.eq(self.engine.operation),
            ifmaps.released.eq(feeder.released), feeder.full.eq(ifmaps.full),
            array.ifmaps.eq(feeder.ifmaps), array.line_done.eq(feeder.line_done), array.ids.eq(feeder.ids),
            feeder.lines_released.eq(array.lines_released),
            array.filters.eq(filters.filters), array.filters_loaded.eq(filters.loaded),
            filters.released.eq(array.filters_released),
            # Every window has its place in the psum buffer before it starts.
            results.i.eq(array.results),
            banks.slot_read.eq(starts.slot_read), banks.slot_word.eq(starts.slot_word), starts.slot.eq(banks.slot),
            banks.slot_write.eq(results.slot_write), banks.written_word.eq(results.written_word),
            banks.written.eq(results.written),
            starts.opened.eq(preload.opened), starts.again.eq(results.again), store.final.eq(results.final),
            store.line.eq(banks.line),
        ]
        self._report(m, sequencer, array, results, store,
                     store.words + ifmaps.words + filters.words + preload.words)
        return m

    def _report(self, m: Module, sequencer: RowStationarySequencer, array: RowArray, results: Results, store: Store,
                words: object) -> None:
        """Completion and strobes."""
        done, strobes = self.engine.done, self.engine.strobes
        m.submodules.count = count = UsefulCount()
        m.submodules.totals = totals = FIFO(unsigned(64), COUNTED_TASKS)
        issued = Signal(range(self.parameters.rows * self.parameters.columns + 1))
        # Useful multiply-adds of a task that the strobe has still to show; then its total may go.
        unshown, showing, shown = Signal(64, name="unshown"), Signal(name="showing"), Signal(name="shown")
        useful = Signal.like(strobes.useful_macs)
        # Portions of half the field's values; whether a whole one is left is found in the cycle before each. Behind the
        # last one what is left counts no more.
        part, settled, more = len(useful) - 1, Signal(name="settled"), Signal(name="more")
        failed, stored = Signal(name="failed"), Signal(32, name="stored")
        _, finished, stalled = account(m, self.engine, sequencer.began, MAXIMUM_TASKS)
        rows = sum((array.issued[row] for row in range(self.parameters.rows)), Const(0))
        m.d.sync += [issued.eq(rows * self.parameters.columns),
                     stored.eq(Mux(finished, 0, stored + store.words))]
        m.d.comb += shown.eq(settled & ~more & totals.i.ready)
        m.d.sync += [more.eq(unshown[part:] != 0), settled.eq(showing & ~settled)]
        with m.If(settled & (more | totals.i.ready)):
            m.d.comb += useful.eq(Mux(more, 1 << part, unshown[:part]))
            m.d.sync += [showing.eq(more), unshown.eq(Cat(unshown[:part], unshown[part:] - 1))]
        with m.Elif(~showing & count.o.valid):
            m.d.sync += [unshown.eq(count.o.payload), showing.eq(1)]
        m.d.comb += [
            count.task.eq(sequencer.task), count.start.eq(sequencer.count), sequencer.counting.eq(count.busy),
            totals.i.payload.eq(count.o.payload), totals.i.valid.eq(shown), count.o.ready.eq(shown),
            failed.eq(store.ended.payload != ErrorCode.NONE),
            done.valid.eq(store.ended.valid & (failed | totals.o.valid)),
            store.ended.ready.eq(finished), totals.o.ready.eq(finished & ~failed),
            done.payload.error.eq(store.ended.payload),
            done.payload.payload_words.eq(stored),
            done.payload.useful_macs.eq(Mux(failed, 0, totals.o.payload)),
            strobes.words.eq(words), strobes.useful_macs.eq(useful), strobes.issued_macs.eq(issued),
            strobes.busy.eq(issued != 0),
        ]
        with m.If(stalled):
            with m.If(store.blocked & ~results.busy):
                m.d.comb += strobes.stall_output.eq(1)
            with m.Elif(sequencer.running | results.busy):
                m.d.comb += strobes.stall_input.eq(1)
            with m.Else():
                m.d.comb += strobes.stall_memory.eq(1)
