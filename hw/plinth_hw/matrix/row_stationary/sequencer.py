"""Sequencer: takes task bodies and cuts them into rounds.

::

    BODY --> PREPARE --> START --> BASES --> BATCH --> FIRST --> ROUND --> JOBS --> last round of the task: (BODY)
    words,   products    wait      addresses groups              ^          |
    pointers             for it              ^                   +-- next --+
                                             +---- next batch --------------+

Loops: batches of filters, in each blocks of channels, in each folds of kernel rows, in each segments of kernel columns.
A round's jobs go to all blocks at the same time, each takes its job when it can, and the next round comes when all
have; so blocks may be a round apart. Addresses go on by the task's steps.

A round takes three cycles, a batch one more and one for each of its groups. The body takes 56 cycles, while earlier
rounds run; from its last field on it is checked (:mod:`limits`), so that START waits only for bodies that come a word a
cycle.
"""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.control.engine import BodyWord
from plinth_hw.isa.layout import WORD_BITS
from plinth_hw.isa.matrix_bodies import RowStationaryBody
from plinth_hw.isa.operations import ErrorCode, MatrixOperation
from plinth_hw.isa.tasks import pointer_words
from plinth_hw.matrix.row_stationary.jobs import CHANNEL_BITS, COLUMN_SHAPE, COUNT_BITS, GROUP_BITS, ROW_SHAPE, Sizes
from plinth_hw.matrix.row_stationary.limits import LimitCheck
from plinth_hw.memory.port import TASK_BITS
from plinth_hw.shapes import either, shape_of

#: Words of the body that hold fields.
FIELD_WORDS = RowStationaryBody.BITS // WORD_BITS
#: Those of them that are addresses.
ADDRESSES = pointer_words(RowStationaryBody)


class RowStationarySequencer(wiring.Component):
    """Walks tasks.

    Parameters
    ----------
    sizes : Sizes

    Members
    -------
    body, operation, start
        As of ``EngineSignature``. The body of the next task is taken once all rounds of this one have been handed out.
    task : Out(RowStationaryBody)
        Stable while a job is offered.
    ifmaps, feed, filters, passes, starts, results : Out streams
        A job a round.
    preload, store : Out streams
        A job a batch, with its first round, and with its final one; ``store`` also for a task that is refused.
    count : Out(1), counting : In(1)
        Pulse: the useful multiply-adds of ``task`` are to be counted; and whether those of another still are.
    running : Out(1)
        Rounds of a started task are still to be handed out.
    began : Out(1)
        Pulse: a task was started.
    """

    def __init__(self, sizes: Sizes):
        self.sizes = sizes
        self.jobs = {"ifmaps": sizes.ifmap_job, "feed": sizes.feed_job, "filters": sizes.filter_job,
                     "passes": sizes.feed_job, "starts": sizes.psum_job, "results": sizes.psum_job,
                     "preload": sizes.batch_job, "store": sizes.batch_job}
        super().__init__({
            "body": In(stream.Signature(BodyWord)), "operation": In(4),
            "start": In(stream.Signature(unsigned(TASK_BITS))),
            "task": Out(shape_of(RowStationaryBody)),
            **{name: Out(stream.Signature(layout)) for name, layout in self.jobs.items()},
            "count": Out(1), "counting": In(1), "running": Out(1), "began": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        words = Signal(data.ArrayLayout(unsigned(32), FIELD_WORDS))
        task = data.View(shape_of(RowStationaryBody), words.as_value())
        address, operand = unsigned(sizes.address_bits), unsigned(sizes.operand_address_bits)
        error = Signal(shape_of(ErrorCode))
        # Where rounds begin: in each loop, and the round at hand.
        x = Signal(data.StructLayout(dict.fromkeys(("task", "block", "fold", "segment"), operand)), name="x")
        w = Signal(data.StructLayout(dict.fromkeys(("batch", "next", "block", "fold", "segment"), operand)), name="w")
        c = Signal(data.StructLayout({"batch": address, "next": address}), name="c")
        row, column = Signal(ROW_SHAPE, name="row"), Signal(COLUMN_SHAPE, name="column")
        left = Signal(data.StructLayout({
            "filters": COUNT_BITS, "next": COUNT_BITS, "channels": CHANNEL_BITS, "rows": COUNT_BITS,
            "columns": COUNT_BITS, "blocks": COUNT_BITS, "folds": COUNT_BITS, "segments": COUNT_BITS}), name="left")
        groups, region = Signal(GROUP_BITS, name="groups"), Signal(name="region")
        number = Signal(TASK_BITS)
        fresh_task, fresh_batch = Signal(name="fresh_task"), Signal(name="fresh_batch")
        last_batch = Signal()
        # Steps from round to round.
        channels, rows, columns = Signal(16, name="channels"), Signal(24, name="rows"), Signal(24, name="columns")
        last = {name: Signal(name=f"last_{name}") for name in ("blocks", "folds", "segments")}
        final = Signal()
        m.d.comb += [
            self.task.eq(task), self.running.eq(1),
            *(flag.eq(left[name] == 1) for name, flag in last.items()), final.eq(Cat(last.values()).all()),
            last_batch.eq(left.next == 0),
        ]
        payloads = self._payloads(x, w, c, row, column, left, groups)
        flags = {"first": fresh_batch, "final": final, "region": region, "task_last": last_batch, "error": error,
                 "number": number}
        for name in self.jobs:
            payload = getattr(self, name).payload
            for field, _ in self.jobs[name]:
                source = fresh_task if name in ("feed", "passes") and field == "first" else (
                    payloads.get((name, field), payloads.get(field, flags.get(field))))
                m.d.comb += payload[field].eq(source)
        offered, pending = Signal(len(self.jobs), name="offered"), Signal(len(self.jobs), name="pending")
        ready = Cat(getattr(self, name).ready for name in self.jobs)
        m.d.comb += Cat(getattr(self, name).valid for name in self.jobs).eq(pending)
        with m.If(offered == 0):
            m.d.sync += pending.eq(pending & ~ready)
        with m.Else():
            m.d.sync += pending.eq(offered)
        everyone = sum(1 << index for index, name in enumerate(self.jobs) if name not in ("preload", "store"))
        preload, store = (1 << list(self.jobs).index(name) for name in ("preload", "store"))

        pointer, place = Signal(range(3), name="pointer"), Signal(address, name="place")
        first = Cat(Const(0, sizes.element_log2), place)
        m.d.comb += place.eq(Array(words[index] for index in ADDRESSES)[pointer])

        # The last fields are there long before the last word.
        m.submodules.check = check = LimitCheck(sizes)
        m.d.comb += check.task.eq(task)
        m.d.sync += check.start.eq(self.body.valid & self.body.ready & (self.body.payload.index == FIELD_WORDS - 1))

        with m.FSM():
            with m.State("BODY"):
                m.d.comb += [self.body.ready.eq(1), self.running.eq(0)]
                with m.If(self.body.valid):
                    with m.Switch(self.body.payload.index):
                        for index in range(FIELD_WORDS):
                            with m.Case(index):
                                m.d.sync += words[index].eq(self.body.payload.word)
                    with m.If(self.body.payload.last):
                        m.next = "PREPARE"
            with m.State("PREPARE"):
                m.d.comb += self.running.eq(0)
                m.d.sync += [channels.eq(task.sets * task.tap_channels), rows.eq(task.set_rows * task.row_dilation),
                             columns.eq(task.tap_columns * task.column_dilation)]
                m.next = "START"
            with m.State("START"):
                m.d.comb += [self.running.eq(0), self.start.ready.eq(~self.counting & check.done),
                             self.began.eq(self.start.valid & self.start.ready)]
                m.d.sync += [error.eq(either(check.bad, ErrorCode.BAD_OPERAND, ErrorCode.NONE)), fresh_task.eq(1)]
                with m.If(self.began):
                    m.d.sync += number.eq(self.start.payload)
                    m.next = "BASES"
                    with m.If(self.operation != MatrixOperation.ROW_STATIONARY.value):
                        m.d.sync += error.eq(ErrorCode.BAD_OPERATION)
            with m.State("BASES"):
                # One pointer a cycle.
                m.d.sync += [pointer.eq(pointer + 1), groups.eq(0)]
                with m.Switch(pointer):
                    with m.Case(0):
                        m.d.sync += x.task.eq(first + sizes.step(task.x_origin))
                    with m.Case(1):
                        m.d.sync += w.next.eq(first)
                    with m.Default():
                        m.d.sync += [c.next.eq(place), left.next.eq(task.filters), pointer.eq(0)]
                        m.next = "BATCH"
                with m.If(error != ErrorCode.NONE):
                    m.d.comb += offered.eq(store)
                    m.d.sync += pointer.eq(0)
                    m.next = "REFUSED"
                with m.Elif(pointer == 0):
                    m.d.comb += self.count.eq(1)
            with m.State("BATCH"):
                with m.If(groups == 0):
                    m.d.sync += [w.batch.eq(w.next), c.batch.eq(c.next), left.filters.eq(left.next)]
                m.d.sync += [
                    groups.eq(groups + 1), w.next.eq(w.next + sizes.step(task.w_group)),
                    c.next.eq(c.next + task.filter_step),
                    left.next.eq(Mux(left.next > task.filter_step, left.next - task.filter_step, 0)),
                ]
                with m.If((groups + 1 == task.filter_groups) | (left.next <= task.filter_step)):
                    m.next = "FIRST"
            with m.State("FIRST"):
                m.d.sync += [
                    x.block.eq(x.task), x.fold.eq(x.task), x.segment.eq(x.task),
                    w.block.eq(w.batch), w.fold.eq(w.batch), w.segment.eq(w.batch),
                    row.eq(task.row_origin), column.eq(task.column_origin), left.channels.eq(task.channels),
                    left.rows.eq(task.kernel_rows), left.columns.eq(task.kernel_columns),
                    left.blocks.eq(task.blocks), left.folds.eq(task.folds), left.segments.eq(task.segments),
                    fresh_batch.eq(1),
                ]
                m.next = "ROUND"
            with m.State("ROUND"):
                m.d.comb += offered.eq(everyone | Mux(fresh_batch, preload, 0) | Mux(final, store, 0))
                m.next = "JOBS"
            with m.State("JOBS"), m.If(pending == 0):
                self._advance(m, task, x, w, row, column, left, channels, rows, columns, last)
                m.d.sync += [fresh_task.eq(0), fresh_batch.eq(0)]
                m.next = "ROUND"
                with m.If(final):
                    m.d.sync += [region.eq(~region), groups.eq(0)]
                    m.next = "BATCH"
                    with m.If(last_batch):
                        m.next = "BODY"
            with m.State("REFUSED"), m.If(pending == 0):
                m.next = "BODY"
        return m

    def _payloads(self, x: Signal, w: Signal, c: Signal, row: Signal, column: Signal, left: Signal,
                  groups: Signal) -> dict[object, Signal]:
        """What fields of jobs are, by job and field, or by field for all."""
        return {
            ("ifmaps", "address"): x.segment, ("filters", "address"): w.segment,
            ("preload", "address"): c.batch, ("store", "address"): c.batch,
            ("ifmaps", "row"): row, ("ifmaps", "column"): column,
            "channels": left.channels, "rows": left.rows, "columns": left.columns, "filters": left.filters,
            "groups": groups,
        }

    def _advance(self, m: Module, task: data.View, x: Signal, w: Signal, row: Signal, column: Signal, left: Signal,
                 channels: Signal, rows: Signal, columns: Signal, last: dict[str, Signal]) -> None:
        """On to the next round of a batch."""
        step = self.sizes.step
        folds = (x, step(task.x_fold)), (w, step(task.w_fold))
        blocks = (x, step(task.x_block)), (w, step(task.w_block))
        m.d.sync += [
            x.segment.eq(x.segment + step(task.x_segment)), w.segment.eq(w.segment + step(task.w_segment)),
            column.eq(column + columns), left.columns.eq(left.columns - self.task.tap_columns),
            left.segments.eq(left.segments - 1),
        ]
        with m.If(last["segments"]):
            m.d.sync += [
                *(place.segment.eq(place.fold + further) for place, further in folds),
                *(place.fold.eq(place.fold + further) for place, further in folds),
                row.eq(row + rows), left.rows.eq(left.rows - task.set_rows), left.folds.eq(left.folds - 1),
                column.eq(task.column_origin), left.columns.eq(task.kernel_columns), left.segments.eq(task.segments),
            ]
            with m.If(last["folds"]):
                m.d.sync += [
                    *(place[loop].eq(place.block + further) for place, further in blocks
                      for loop in ("segment", "fold", "block")),
                    left.channels.eq(left.channels - channels), left.blocks.eq(left.blocks - 1),
                    row.eq(task.row_origin), left.rows.eq(task.kernel_rows), left.folds.eq(task.folds),
                ]
