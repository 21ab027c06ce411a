"""Operand buffer: loads panels into two halves and is read one vector a slot.

::

    job -> strips (RunWalk) -> GridRows -> RowLoad -> LineTracker -> VectorMemory <- read (feeder)
                                              |          |
                                          read port      +-> steps[half]: k steps of the half that are complete

A panel holds element (k, p) with the k step as row and the position along M or N as column. A beat of
neighbouring k goes along rows, a beat of neighbouring p along columns, so either way of storing an
operand takes the same time. A panel is loaded in strips, columns of the operand as stored that lie in one run.
When p are neighbours in memory the k steps arrive in order with the last strip and ``steps`` follows each of
them. When k are, all p of a strip must have arrived first; while the array waits (``hurry``) strips therefore
have at most E, E, 2E, 4E, ... k steps.

Elements outside a map are written as 0 and, so that they can be told from others, with a bit of their own.

Latency: 3 cycles from a beat on the port to ``steps``. Throughput: one beat a cycle.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from plinth_hw.lib.delay import delayed
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.matrix.geometry import Geometry, lookup
from plinth_hw.matrix.window import GridRows, RunWalk, Start
from plinth_hw.memory.channel import RowLoad
from plinth_hw.memory.line_tracker import LineTracker
from plinth_hw.memory.port import ReadPort
from plinth_hw.memory.scratchpad import VectorMemory, VectorReadPort, give

#: Strips whose data are still to come.
STRIPS = 4


class OperandBuffer(wiring.Component):
    """Two halves of one operand, and their loader.

    Parameters
    ----------
    geometry : Geometry
    span : list of int
        Positions of a k step, by option: ``geometry.a_span`` or ``b_span``.
    banks, half_lines : int
        Of the operand: ``geometry.a_banks`` and ``a_half_lines``, or ``b_banks`` and ``b_half_lines``.
    clipped : bool
        The operand may be windows of a map. Its elements have one bit more then: whether they lie in the map.

    Members
    -------
    job : In stream of ``geometry.load_job``
        Panels to load, in order. A job is given when nobody reads its half any more; ``steps`` of
        the half is 0 from the next cycle on. The first one of a task is taken when all rows of the task before
        have been requested.
    steps : Out(array of 2)
        Complete k steps of each half.
    hurry : In(1)
        The array waits for operands.
    port : Out(ReadPort)
    read : In(VectorReadPort)
        Read port of the buffer; half h begins at line ``h * half_lines``.
    words : Out
        Words loaded in this cycle.
    """

    def __init__(self, geometry: Geometry, span: list[int], banks: int, half_lines: int, clipped: bool = False):
        parameters = geometry.parameters
        self.geometry = geometry
        self.banks = banks
        self.half_lines = half_lines
        self.clipped = clipped
        self.span_bits = max(max(span).bit_length(), 1)
        self.element_bits = parameters.multiply_format.bits + clipped
        super().__init__({
            "job": In(stream.Signature(geometry.load_job(self.span_bits, clipped))),
            "steps": Out(data.ArrayLayout(unsigned(geometry.k_bits), 2)),
            "hurry": In(1),
            "port": Out(ReadPort(parameters)),
            "read": In(VectorReadPort(banks, 2 * half_lines, self.element_bits)),
            "words": Out(parameters.beat_words.bit_length()),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        geometry, parameters = self.geometry, self.geometry.parameters
        lanes, banks, lines = geometry.lanes, self.banks, 2 * self.half_lines
        walk_bits = max(self.span_bits, geometry.k_bits)
        bank_bits = ceil_log2(banks)
        far = banks > lanes  # where a beat lies among the banks follows from its column, not only that of the row
        m.submodules.rows = rows = GridRows(parameters, walk_bits, walk_bits, self.clipped,
                                            parameters.packing)
        m.submodules.load = load = RowLoad(parameters, walk_bits, walk_bits, clipped=self.clipped,
                                           packing=parameters.packing, far=far)
        m.submodules.memory = memory = VectorMemory(banks, lines, self.element_bits, words=lanes)
        m.submodules.tracker = tracker = LineTracker(banks, lines, walk_bits, walk_bits + 1 if far else None,
                                                     words=lanes)
        wiring.connect(m, wiring.flipped(self.read), memory.read)
        wiring.connect(m, rows.o, load.i)
        wiring.connect(m, load.port, wiring.flipped(self.port))

        # Jobs to strips.
        layout = geometry.panel_job(self.span_bits)
        m.submodules.jobs = jobs = FIFO(layout, 2, Storage.HEAD)
        m.submodules.runs = runs = RunWalk(geometry.element_address_bits, walk_bits)
        job = jobs.o.payload
        view = Signal(geometry.view(self.clipped), reset_less=True)
        strip = data.StructLayout({
            "line": unsigned(len(tracker.base)), "shift": unsigned(bank_bits), "k_end": unsigned(geometry.k_bits),
            "final": unsigned(1), "along_k": unsigned(1), "half": unsigned(1),
            "option": unsigned(geometry.option_bits)})
        m.submodules.walks = walks = FIFO(strip, STRIPS)
        walk_in = walks.i.payload
        done, rest, left, chunk = (Signal(walk_bits, name=name) for name in ("done", "rest", "left", "chunk"))
        issue, idle = Signal(), Signal()
        # A panel's columns as stored before this strip are whole groups of the banks, which begin this many lines on.
        groups = lookup(m, "group_line", Cat(done[bank_bits:max(bank_bits, self.span_bits)], job.option), [
            group * steps for steps in geometry.panel_k
            for group in range(1 << max(0, self.span_bits - bank_bits))])
        command = rows.command.payload
        m.d.comb += [
            jobs.i.payload.eq(self.job.payload.panel), jobs.i.valid.eq(self.job.valid & self.job.ready),
            idle.eq(~jobs.o.valid & ~rows.busy), self.job.ready.eq(jobs.i.ready & (~self.job.payload.first | idle)),
            rows.grid.eq(view.grid), runs.runs.eq(view.runs), runs.start.eq(job.columns_start),
            rest.eq(Mux(job.along_k, job.k, job.span) - done),
            chunk.eq(Mux(done == 0, lanes, done)),
            command.start.eq(Mux(done == 0, job.rows_start, Start.AGAIN)),
            command.rows.eq(Mux(job.along_k, job.span, job.k)), command.columns.eq(runs.columns),
            command.offset.eq(runs.address),
            walk_in.line.eq(Mux(job.half, self.half_lines, 0)
                            + Mux(job.along_k, Cat(Const(0, bank_bits), done[bank_bits:]), groups)),
            walk_in.shift.eq(done[:bank_bits]), walk_in.k_end.eq(done + runs.columns),
            walk_in.final.eq(runs.columns == left),
            walk_in.along_k.eq(job.along_k), walk_in.half.eq(job.half), walk_in.option.eq(job.option),
            walks.i.valid.eq(issue), issue.eq(rows.command.valid & rows.command.ready), runs.take.eq(issue),
            jobs.o.ready.eq(issue & walk_in.final),
        ]
        if self.clipped:
            m.d.comb += [command.place.eq(runs.place), command.kernel_row.eq(runs.kernel_row)]
        # Follows what the sequencer has while it is a task's first job and nothing is at hand: it is taken in such a
        # cycle.
        with m.If(self.job.payload.first & idle):
            m.d.sync += view.eq(self.job.payload.view)
        with m.FSM(name="strips"):
            with m.State("JOB"):
                m.d.comb += runs.begin.eq(jobs.o.valid)
                with m.If(jobs.o.valid):
                    m.next = "START"
            with m.State("START"):
                m.d.sync += [runs.limit.eq(Mux(job.along_k & self.hurry & (chunk < rest), chunk, rest)), left.eq(rest)]
                m.next = "SIZE"
            with m.State("SIZE"):
                m.d.comb += runs.size.eq(1)
                m.next = "ROWS"
            with m.State("ROWS"):
                m.d.comb += rows.command.valid.eq(walks.i.ready)
                with m.If(issue):
                    m.d.sync += done.eq(Mux(walk_in.final, 0, done + runs.columns))
                    with m.If(walk_in.final):
                        m.next = "JOB"
                    with m.Else():
                        m.next = "START"

        # Beats into the memory.
        beat, walk, write = load.o.payload, walks.o.payload, memory.write
        there = tracker.latency
        data_there = Signal(beat.data.shape(), reset_less=True)
        m.d.sync += data_there.eq(beat.data)
        for lane in range(lanes):
            real = delayed(m, f"real_{lane}", beat.real[lane], 1) if self.clipped else Const(1)
            word = Signal(self.element_bits, name=f"word_{lane}", reset_less=True)
            m.d.sync += word.eq(Mux(real, Cat(data_there[lane], real), 0))
            m.d.comb += write.data[lane].eq(word)
        m.d.comb += [
            load.o.ready.eq(1),
            tracker.base.eq(walk.line), tracker.along_rows.eq(walk.along_k), tracker.shift.eq(walk.shift),
            tracker.capacity.eq(lookup(m, "capacity", walk.option, geometry.panel_k)),
            tracker.row.eq(beat.row), tracker.column.eq(beat.column), tracker.take.eq(load.o.valid),
            *give(write, tracker.command),
            write.mask.eq(delayed(m, "mask", beat.mask, there)),
            walks.o.ready.eq(load.o.valid & beat.last),
        ]
        # The steps that are complete with a beat.
        ends = Mux(walk.along_k, beat.last, beat.row_last & walk.final)
        step_done = delayed(m, "step_done", load.o.valid & ends, there)
        steps = delayed(m, "steps", Mux(walk.along_k, walk.k_end, (beat.row + 1)[:geometry.k_bits]), there)
        half_done = delayed(m, "half", walk.half, there)
        for half in range(2):
            with m.If(self.job.valid & self.job.ready & (self.job.payload.panel.half == half)):
                m.d.sync += self.steps[half].eq(0)
            with m.Elif(step_done & (half_done == half)):
                m.d.sync += self.steps[half].eq(steps)
        m.d.sync += self.words.eq(Mux(
            load.o.valid,
            (load.o.payload.words + (1 << geometry.element_log2) - 1) >> geometry.element_log2, 0))
        return m
