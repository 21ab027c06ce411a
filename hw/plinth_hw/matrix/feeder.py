"""Feeder: one slot of operands a cycle, one decision a k step.

::

    cycle     d                d+1 .. d+I              d+2 ..            d+5 ..
    decision (slot I-1) --> slots 0..I-1 of step --> read commands --> boundary of the array

At the last slot of every k step the feeder decides whether the next step is valid: its operands have
arrived, its tile's preload (first step) or drain memory (last step) is ready. Otherwise it feeds a
bubble of I cycles. Panels, tiles and tasks follow each other without a pause.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.lib.count import population
from plinth_hw.lib.delay import delayed
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.matrix.geometry import Geometry, lookup
from plinth_hw.memory.scratchpad import VectorMemory, VectorReadPort

#: Cycles from the decision to slot 0 of the step at the array's boundary.
FEED_LATENCY = 2 + VectorMemory.read_latency
#: Cycles from what is ready, a preload or the drain memories, to the first decision that takes note of it.
READY_LATENCY = 1
#: Panels that may wait.
PANELS = 4


class SystolicFeeder(wiring.Component):
    """Walks the k steps of panels.

    Members
    -------
    job : In stream of ``geometry.feed_job``
    a_steps, b_steps : In
        Complete k steps of the halves of both operand buffers.
    a_read, b_read : Out(VectorReadPort)
        The highest bit of an element of A says that it lies in the map.
    slot, valid, first, preload, last : Out
        For the array, in the cycle in which the data of the reads are there.
    release : Out(1)
        The panel at the head is used up; ``a_released``, ``b_released`` are its halves.
    preload_wanted : Out(1)
        The panel at the head starts a tile that accumulates.
    preload_ready : In(1)
        Such a tile may start; ``preload_taken`` Out(1): it does.
    capture_ready : In(1)
        A tile may end; ``captured`` Out(1): it does, with ``captured_option``.
    hurry : Out(1)
        The next k step has no operands yet.
    useful_macs, issued_macs : Out
        Multiply-adds of a slot.
    blocked : Out(1)
        Of a slot without: its operands were there, but no preload, or drain memory. All three come after the slot,
        by the same time.
    waiting : Out(1)
        There is a panel to feed, or was in that slot.
    total : Out stream of unsigned(64)
        Useful multiply-adds of each task whose last slot has been fed.
    """

    def __init__(self, geometry: Geometry):
        self.geometry = geometry
        parameters = geometry.parameters
        bits = parameters.multiply_format.bits
        a_port = VectorReadPort(geometry.a_banks, 2 * geometry.a_half_lines, bits + 1)
        b_port = VectorReadPort(geometry.b_banks, 2 * geometry.b_half_lines, bits)
        steps = data.ArrayLayout(unsigned(geometry.k_bits), 2)
        self.mac_bits = (parameters.rows * parameters.columns).bit_length()
        super().__init__({
            "job": In(stream.Signature(geometry.feed_job)),
            "a_steps": In(steps), "b_steps": In(steps),
            "a_read": Out(a_port), "b_read": Out(b_port),
            "slot": Out(geometry.interleave_log2),
            "valid": Out(1), "first": Out(1), "preload": Out(1), "last": Out(1),
            "release": Out(1), "a_released": Out(1), "b_released": Out(1),
            "preload_wanted": Out(1), "preload_ready": In(1), "preload_taken": Out(1),
            "capture_ready": In(1), "captured": Out(1), "captured_option": Out(geometry.option_bits),
            "hurry": Out(1), "blocked": Out(1), "waiting": Out(1),
            "useful_macs": Out(self.mac_bits), "issued_macs": Out(self.mac_bits),
            "total": Out(stream.Signature(unsigned(64))),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        geometry, parameters = self.geometry, self.geometry.parameters
        m.submodules.jobs = jobs = FIFO(geometry.feed_job, PANELS, Storage.HEAD)
        job, queued = jobs.o.payload, jobs.o.valid
        wiring.connect(m, wiring.flipped(self.job), jobs.i)
        k = Signal(geometry.k_bits)
        begins, first, last, fed = (Signal(name=name) for name in ("begins", "first", "last", "fed"))
        ends_panel, loads, captures = (Signal(name=name) for name in ("ends_panel", "loads", "captures"))
        loaded, room = Signal(name="loaded"), Signal(name="room")
        start = Signal(init=1)  # k is 0
        allowed, go, boundary = Signal(name="allowed"), Signal(name="go"), Signal(name="boundary")
        slot = Signal(geometry.interleave_log2)
        m.submodules.totals = totals = FIFO(unsigned(64), max(geometry.tile_places) + 3, Storage.HEAD)
        wiring.connect(m, totals.o, wiring.flipped(self.total))

        # Decision. What it is made of may lag behind by a cycle: job and k are stable during a step, and what is ready
        # stays so until it is taken.
        m.d.sync += [slot.eq(slot + 1), first.eq(begins), last.eq(ends_panel),
                     loads.eq(begins & job.accumulate), captures.eq(ends_panel & job.last),
                     loaded.eq(self.preload_ready), room.eq(self.capture_ready & totals.i.ready),
                     fed.eq(queued & (k < self.a_steps[job.a_half]) & (k < self.b_steps[job.b_half]))]
        m.d.comb += [
            boundary.eq(slot == parameters.interleave - 1),
            begins.eq(job.first & start), ends_panel.eq(k + 1 == job.k),
            self.preload_wanted.eq(queued & begins & job.accumulate),
            allowed.eq((~loads | loaded) & (~captures | room)),
            go.eq(boundary & queued & fed & allowed),
            self.preload_taken.eq(go & loads),
            self.captured.eq(go & captures),
            self.captured_option.eq(job.option),
            jobs.o.ready.eq(go & last),
            self.hurry.eq(~fed),
        ]
        with m.If(go):
            m.d.sync += [k.eq(Mux(last, 0, k + 1)), start.eq(last)]

        # The step under way.
        step = Signal(data.StructLayout({
            "valid": 1, "first": 1, "preload": 1, "last": 1, "task_last": 1, "ends": 1, "blocked": 1, "waiting": 1,
            "a_half": 1, "b_half": 1, "option": geometry.option_bits, "rows": geometry.a_bits,
            "columns": geometry.b_bits, "k": geometry.k_bits}))
        with m.If(boundary):
            m.d.sync += [
                step.valid.eq(go), step.first.eq(first), step.preload.eq(job.accumulate),
                step.last.eq(captures), step.task_last.eq(go & captures & job.task_last),
                step.ends.eq(go & last), step.blocked.eq(fed & ~allowed), step.waiting.eq(queued),
                step.a_half.eq(job.a_half), step.b_half.eq(job.b_half),
                step.option.eq(job.option), step.rows.eq(job.rows), step.columns.eq(job.columns),
                step.k.eq(k),
            ]
        m.d.comb += [
            self.release.eq(boundary & step.ends),
            self.a_released.eq(step.a_half), self.b_released.eq(step.b_half),
        ]

        index = Cat(slot, step.option)
        for name, port, half, half_lines, banks, span in (
                ("a", self.a_read, step.a_half, geometry.a_half_lines, geometry.a_banks,
                 lambda option, im, jn: im * parameters.rows),
                ("b", self.b_read, step.b_half, geometry.b_half_lines, geometry.b_banks,
                 lambda option, im, jn: jn * parameters.columns)):
            column = geometry.by_slot(span)
            lines = geometry.by_slot(
                lambda option, im, jn, banks=banks, span=span:
                span(option, im, jn) // banks * geometry.panel_k[option])
            low = lookup(m, f"{name}_column", index, [value % banks for value in column])
            line = lookup(m, f"{name}_line", index, lines)
            m.d.sync += [
                port.enable.eq(step.valid),
                port.line.eq(Mux(half, half_lines, 0) + step.k + line),
                port.column_low.eq(low), port.skew.eq(step.k + low),
            ]
            m.d.comb += [port.along_rows.eq(0),
                         port.capacity.eq(lookup(m, f"{name}_capacity", delayed(m, f"{name}_option", step.option, 1),
                                                 geometry.panel_k))]
        flags = Cat(slot, step.valid, step.first, step.preload, step.last)
        m.d.comb += Cat(self.slot, self.valid, self.first, self.preload, self.last).eq(
            delayed(m, "flags", flags, FEED_LATENCY - 1))
        self._count(m, step, slot, boundary, queued, totals)
        return m

    def _count(self, m: Module, step: data.View, slot: Signal, boundary: Signal, queued: Signal,
               totals: FIFO) -> None:
        """Valid rows times valid columns of each slot. Valid rows are those within the tile whose element, which is
        there when the array gets it, lies in the map."""
        geometry, parameters = self.geometry, self.geometry.parameters
        index = Cat(slot, step.option)
        left = {}
        for name, limit, span in (
                ("row", step.rows, lambda option, im, jn: im * parameters.rows),
                ("column", step.columns, lambda option, im, jn: jn * parameters.columns)):
            start = lookup(m, f"{name}_start", index, geometry.by_slot(span))
            left[name] = Signal(len(limit), name=f"{name}_left")
            m.d.sync += left[name].eq(Mux(limit > start, limit - start, 0))
        columns = Signal(range(parameters.columns + 1))
        m.d.sync += columns.eq(Mux(left["column"] > parameters.columns, parameters.columns, left["column"]))
        within = Signal(parameters.rows)
        m.d.sync += within.eq(Cat(row < left["row"] for row in range(parameters.rows)))
        there = FEED_LATENCY - 3
        inside, rows = Signal(parameters.rows, name="inside"), Signal(range(parameters.rows + 1), name="rows")
        real = Cat(self.a_read.data[row][-1] for row in range(parameters.rows))
        m.d.sync += [inside.eq(delayed(m, "within", within, there) & real), rows.eq(population(inside))]

        # The multiplier lies where one is left, so its operands have a cycle to get there.
        valid = delayed(m, "step_valid", step.valid, there + 5)
        product = delayed(m, "rows", rows, 1) * delayed(m, "columns", columns, there + 3)
        m.d.sync += [self.useful_macs.eq(Mux(valid, product, 0)),
                     self.issued_macs.eq(Mux(valid, Const(parameters.rows * parameters.columns), 0))]
        blocked, waited = delayed(m, "waits", Cat(step.blocked, step.waiting), there + 6)
        m.d.comb += [self.blocked.eq(blocked), self.waiting.eq(waited | queued)]
        total = Signal(64)
        added = Signal(64)
        task_end = delayed(m, "task_end", step.task_last & boundary, there + 6)
        m.d.comb += [added.eq(total + self.useful_macs), totals.i.payload.eq(added), totals.i.valid.eq(task_end)]
        m.d.sync += total.eq(Mux(task_end, 0, added))
