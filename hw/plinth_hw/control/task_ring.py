"""Task ring of an engine: the tasks between their fetch and their completion, in order, and the start of the next.

::

    commit --> tail        head --> start           old --> complete
                | fetched   | load, waits met, body   | started
                +-----------+-------------------------+----------> a ring of :data:`RING_TASKS`

Tasks from ``old`` to ``head`` are started, from ``head`` to ``tail`` they wait. A pointer's highest bit counts laps.
"""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.isa.descriptors import WAITS
from plinth_hw.memory.port import TASK_BITS

#: Tasks of one engine between fetch and completion.
RING_TASKS = 8
#: Bits of a place's number.
PLACE_BITS = exact_log2(RING_TASKS)
assert PLACE_BITS < TASK_BITS


class EngineStatus(data.Struct):
    """What the status registers of an engine show."""

    #: A started task has not completed.
    runs: 1
    #: The next task waits for a counter.
    waits: 1


class TaskRing(wiring.Component):
    """Pointers and state of one engine's tasks.

    Members
    -------
    commit : In(1)
        The task at ``tail`` is stored: it waits.
    delivered : In(1)
        The engine has taken a body; bodies come in the order of their tasks.
    halted : In(1)
        Offer no further start. A start already offered stays.
    cycle : In(32)
    set_operation, new_operation : In(1), In(4)
        The operation of the task at ``head``.
    set_waits, new_waits : In(1), In(WAITS)
        The waits of the task at ``head``, which is thereby loaded; not before ``loads``, and after ``set_operation``.
    met : In(WAITS)
        Waits of the task at ``head`` that are met.
    complete : In(1)
        The task at ``old`` has completed; not without ``status.runs``, nor with ``stamp``.
    stamped : In(1)
        ``started_at`` is written.
    tail, head, old : Out
    room : Out(1)
        A place is free.
    loads : Out(1)
        The task at ``head`` is to be loaded.
    loaded, pending : Out(1), Out(WAITS)
        It is, and these waits of it are not met yet.
    start, operation : Out(stream of the task's number: its place, and a bit that is set), Out(4)
        Offered, two cycles after the last wait is met, once the body is delivered as well.
    started : Out(1)
        Pulse: the engine takes ``start``.
    stamp, started_at : Out(1), Out(32)
        When the youngest started task, that before ``head``, started, is to be written.
    status : Out(EngineStatus)
    """

    commit: In(1)
    delivered: In(1)
    halted: In(1)
    cycle: In(32)
    set_operation: In(1)
    new_operation: In(4)
    set_waits: In(1)
    new_waits: In(WAITS)
    met: In(WAITS)
    complete: In(1)
    stamped: In(1)
    tail: Out(PLACE_BITS + 1)
    head: Out(PLACE_BITS + 1)
    old: Out(PLACE_BITS + 1)
    room: Out(1)
    loads: Out(1)
    loaded: Out(1)
    pending: Out(WAITS)
    start: Out(stream.Signature(TASK_BITS))
    operation: Out(4)
    started: Out(1)
    stamp: Out(1)
    started_at: Out(32)
    status: Out(EngineStatus)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Bodies delivered to tasks that have not started.
        staged = Signal(PLACE_BITS + 1, name="staged")
        m.d.comb += [
            self.room.eq((self.tail - self.old)[:PLACE_BITS + 1] != RING_TASKS),
            self.loads.eq((self.head != self.tail) & ~self.loaded & ~self.halted),
            self.started.eq(self.start.valid & self.start.ready),
            self.start.payload.eq(Cat(self.head[:PLACE_BITS], 1)),
            self.status.runs.eq(self.old != self.head),
            self.status.waits.eq(self.loaded & self.pending.any()),
        ]
        m.d.sync += [
            staged.eq(staged + self.delivered - self.started),
            self.tail.eq(self.tail + self.commit), self.old.eq(self.old + self.complete),
            self.pending.eq(self.pending & ~self.met),
        ]
        with m.If(self.set_operation):
            m.d.sync += self.operation.eq(self.new_operation)
        with m.If(self.stamped):
            m.d.sync += self.stamp.eq(0)
        with m.If(self.started):
            m.d.sync += [
                self.loaded.eq(0), self.head.eq(self.head + 1),
                self.stamp.eq(1), self.started_at.eq(self.cycle),
            ]
        may_start = self.loaded & (self.pending == 0) & (staged != 0) & ~self.halted
        m.d.sync += self.start.valid.eq((self.start.valid | may_start) & ~self.started)
        with m.If(self.set_waits):
            m.d.sync += [self.pending.eq(self.new_waits), self.loaded.eq(1)]
        return m
