"""Operand buffer: loads panels into two halves and is read one vector a slot.

::

    job -> chunks -> StridedLoad -> register -> LineTracker -> VectorMemory <- read (feeder)
                         |             |
                    read port          +-> steps[half]: k steps of the half that are complete

A panel holds element (k, p) with the k step as row and the position along M or N as column. A beat of
neighbouring k goes along rows, a beat of neighbouring p along columns, so either way of storing an
operand takes the same time. When p are neighbours in memory the k steps arrive in order and ``steps``
follows each of them. When k are, all p must have arrived first; while the array waits (``hurry``) the
panel is therefore cut into chunks of E, E, 2E, 4E, ... k steps.

Latency: 2 cycles from a beat on the port to ``steps``. Throughput: one beat a cycle.
"""

from dataclasses import replace

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.parameters import DieParameters
from plinth_hw.matrix.geometry import Geometry, lookup
from plinth_hw.memory.channel import StridedLoad
from plinth_hw.memory.port import ReadPort
from plinth_hw.memory.scratchpad import LineTracker, VectorMemory, VectorReadPort

#: Commands of the load whose data are still to come.
COMMANDS = 4


class OperandBuffer(wiring.Component):
    """Two halves of one operand, and their loader.

    Parameters
    ----------
    geometry : Geometry
    span : list of int
        Positions of a k step, by option: ``geometry.a_span`` or ``b_span``.

    Members
    -------
    job : In stream of ``geometry.load_job``
        Panels to load, in order. A job is given when nobody reads its half any more; ``steps`` of
        the half is 0 from the next cycle on.
    steps : Out(array of 2)
        Complete k steps of each half.
    hurry : In(1)
        The array waits for operands.
    port : Out(ReadPort)
    read : In(VectorReadPort)
        Read port of the buffer; half h begins at line ``h * geometry.half_lines``.
    words : Out
        Words loaded in this cycle.
    """

    def __init__(self, geometry: Geometry, span: list[int]):
        parameters = geometry.parameters
        self.geometry = geometry
        self.span = span
        self.span_bits = max(max(span).bit_length(), 1)
        lines = 2 * geometry.half_lines
        super().__init__({
            "job": In(stream.Signature(geometry.load_job(self.span_bits))),
            "steps": Out(data.ArrayLayout(unsigned(geometry.k_bits), 2)),
            "hurry": In(1),
            "port": Out(ReadPort(parameters)),
            "read": In(VectorReadPort(geometry.lanes, lines, parameters.multiply_format.bits)),
            "words": Out(parameters.beat_words.bit_length()),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        geometry, parameters = self.geometry, self.geometry.parameters
        lanes, lines = geometry.lanes, 2 * geometry.half_lines
        bits = parameters.multiply_format.bits
        walk_bits = max(self.span_bits, geometry.k_bits)
        lane_bits = (lanes - 1).bit_length()
        # The load counts operands: for it a beat has E narrow "words".
        counted = _element_parameters(parameters, geometry.element_log2)
        m.submodules.load = load = StridedLoad(counted, walk_bits, walk_bits)
        m.submodules.memory = memory = VectorMemory(lanes, lines, bits)
        m.submodules.tracker = tracker = LineTracker(lanes, lines, walk_bits, walk_bits + 1)
        wiring.connect(m, wiring.flipped(self.read), memory.read)
        m.d.comb += [
            self.port.request.valid.eq(load.port.request.valid),
            load.port.request.ready.eq(self.port.request.ready),
            self.port.request.payload.eq(load.port.request.payload),
            load.port.data.valid.eq(self.port.data.valid),
            self.port.data.ready.eq(load.port.data.ready),
        ]
        raw = self.port.data.payload.as_value()
        m.d.comb += [load.port.data.payload[lane].eq(raw.word_select(lane, bits)) for lane in range(lanes)]

        # Jobs to commands.
        layout = geometry.load_job(self.span_bits)
        m.submodules.jobs = jobs = SyncFIFO(width=layout.size, depth=2)
        job = data.View(layout, jobs.r_data)
        following = data.StructLayout({
            "line": unsigned(len(tracker.base)), "k_end": unsigned(geometry.k_bits),
            "along_k": unsigned(1), "half": unsigned(1), "option": unsigned(geometry.option_bits)})
        m.submodules.walks = walks = SyncFIFO(width=following.size, depth=COMMANDS)
        walk_in = Signal(following)
        done = Signal(geometry.k_bits)
        rest = Signal(geometry.k_bits)
        chunk = Signal(geometry.k_bits)
        whole = Signal()
        issue = Signal()
        m.d.comb += [
            jobs.w_data.eq(self.job.payload), jobs.w_en.eq(self.job.valid), self.job.ready.eq(jobs.w_rdy),
            rest.eq(job.k - done),
            chunk.eq(Mux(done == 0, lanes, done)),
            whole.eq(~(job.along_k & self.hurry) | (rest <= Mux(done == 0, lanes, done))),
            issue.eq(load.command.valid & load.command.ready),
            load.command.valid.eq(jobs.r_rdy & walks.w_rdy),
            load.command.payload.address.eq(job.address + done),
            load.command.payload.stride.eq(job.stride),
            load.command.payload.rows.eq(Mux(job.along_k, job.span, job.k)),
            load.command.payload.columns.eq(Mux(job.along_k, Mux(whole, rest, chunk), job.span)),
            walk_in.line.eq(Mux(job.half, geometry.half_lines, 0) + done),
            walk_in.k_end.eq(Mux(whole, job.k, done + chunk)),
            walk_in.along_k.eq(job.along_k), walk_in.half.eq(job.half), walk_in.option.eq(job.option),
            walks.w_data.eq(walk_in), walks.w_en.eq(issue),
            jobs.r_en.eq(issue & whole),
        ]
        with m.If(issue):
            m.d.sync += done.eq(Mux(whole, 0, walk_in.k_end))

        # Beats into the memory.
        beat = Signal(load.o.payload.shape())
        valid = Signal()
        walk = data.View(following, walks.r_data)
        m.d.comb += load.o.ready.eq(1)
        m.d.sync += valid.eq(load.o.valid)
        with m.If(load.o.valid):
            m.d.sync += beat.eq(load.o.payload)
        write = memory.write
        m.d.comb += [
            tracker.base.eq(walk.line), tracker.along_rows.eq(walk.along_k),
            tracker.capacity.eq(lookup(m, "capacity", walk.option, geometry.panel_k)),
            tracker.row.eq(beat.row), tracker.column.eq(beat.column), tracker.take.eq(valid),
            write.enable.eq(valid), write.line.eq(tracker.line), write.capacity.eq(tracker.capacity),
            write.skew.eq(tracker.skew), write.column_low.eq(tracker.column_low),
            write.along_rows.eq(walk.along_k), write.mask.eq(beat.mask),
            Cat(write.data[lane] for lane in range(lanes)).eq(
                Cat(beat.data[lane][:bits] for lane in range(lanes))),
            walks.r_en.eq(valid & beat.last),
        ]
        step_done = Signal()
        m.d.comb += step_done.eq(valid & Mux(walk.along_k, beat.last, beat.row_last))
        for half in range(2):
            with m.If(self.job.valid & self.job.ready & (self.job.payload.half == half)):
                m.d.sync += self.steps[half].eq(0)
            with m.Elif(step_done & (walk.half == half)):
                m.d.sync += self.steps[half].eq(Mux(walk.along_k, walk.k_end, beat.row + 1))
        m.d.sync += self.words.eq(Mux(
            load.o.valid,
            (load.o.payload.words + (1 << geometry.element_log2) - 1) >> geometry.element_log2, 0))
        assert len(write.skew) == lane_bits
        return m


def _element_parameters(parameters: DieParameters, element_log2: int) -> DieParameters:
    """Parameters of a load that counts operands instead of words."""
    if not element_log2:
        return parameters
    return replace(parameters, beat_words=parameters.beat_words << element_log2,
                   axi_ports=parameters.axi_ports << element_log2,
                   address_bits=parameters.address_bits + element_log2)
