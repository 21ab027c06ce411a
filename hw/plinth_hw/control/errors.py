"""Sticky error of a die: the first cause, its task, and the watchdog.

::

    causes --+--> halted
             +--> register of each, zero but for the one that wins --> OR --> code, task, info

The first cause wins; of causes in one cycle, the first in the order of the members. ``halted`` rises in the cycle after
it, the rest is told a cycle later. When the cause is a task in an engine, whose address lies in the scheduler's header
store, the address is looked up, and only then does ``error`` rise.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.layout import WORD_BITS
from plinth_hw.isa.limits import field_bits, field_most
from plinth_hw.isa.operations import ErrorCode
from plinth_hw.isa.registers import ErrorInfo
from plinth_hw.lib.arbiter import lowest
from plinth_hw.lib.choice import one_registered
from plinth_hw.memory.port import TASK_BITS
from plinth_hw.shapes import shape_of

#: Value of ``ErrorInfo.engine`` when accesses of the scheduler, or of the host's window, are to blame.
SCHEDULER = field_most(ErrorInfo, "engine")


#: Bits of the watchdog's limit that are compared at once.
_COMPARED_BITS = 8


class Cause(data.Struct):
    """A pulse that stops the die."""

    valid: unsigned(1)
    code: shape_of(ErrorCode)
    engine: field_bits(ErrorInfo, "engine")
    counter: field_bits(ErrorInfo, "counter")
    die: field_bits(ErrorInfo, "die")
    port: field_bits(ErrorInfo, "port")
    #: The task is that with ``number`` of ``engine``, or with number 0 the oldest unfinished one; otherwise it lies at
    #: ``task``.
    lookup: unsigned(1)
    number: unsigned(TASK_BITS)
    task: unsigned(32)


class Errors(wiring.Component):
    """Keeps the first cause until cleared.

    Parameters
    ----------
    causes : int
        How many inputs.

    Members
    -------
    cause_0 ... : In(Cause)
        Inputs, the first has the highest priority.
    clear : In(1)
        Pulse: forget the error.
    code, task, info : Out
        The registers; valid while ``error``.
    halted : Out(1)
        From the cycle after the cause.
    error : Out(1)
        As ``halted``, a cycle later, and once ``task`` is known.
    lookup_valid : Out(1), lookup_done : In(1), lookup_task : In(32), lookup_counter : In(8)
        Request for the address of a task of engine ``info.engine``, ``lookup_number`` Out, as of :class:`Cause`, and
        for the counter that its next task waits for, which is kept after a TIMEOUT.
    raised : Out(1)
        Pulse when ``halted`` has risen and ``code`` and ``info`` are known: the other dies are to be told.
    """

    def __init__(self, causes: int) -> None:
        self.causes = causes
        super().__init__({
            **{f"cause_{i}": In(Cause) for i in range(causes)},
            "clear": In(1),
            "code": Out(shape_of(ErrorCode)),
            "task": Out(32),
            "info": Out(shape_of(ErrorInfo)),
            "halted": Out(1),
            "error": Out(1),
            "lookup_valid": Out(1),
            "lookup_number": Out(TASK_BITS),
            "lookup_done": In(1),
            "lookup_task": In(32),
            "lookup_counter": In(8),
            "raised": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        causes = [getattr(self, f"cause_{i}") for i in range(self.causes)]
        valid = Cat(cause.valid for cause in causes)
        stops, looked_up, cleared = Signal(), Signal(), Signal()
        # Zero but in the cycle after the cause. One that came with ``clear`` is none.
        chosen = Cause(one_registered(m, "cause", [wins & ~self.halted for wins in lowest(valid)], causes))
        m.d.comb += [stops.eq(chosen.valid & ~cleared), looked_up.eq(self.lookup_valid & self.lookup_done)]
        m.d.sync += [self.raised.eq(stops), cleared.eq(self.clear)]
        with m.If(valid.any()):
            m.d.sync += self.halted.eq(1)
        with m.If(stops):
            m.d.sync += [
                self.error.eq(~chosen.lookup),
                self.lookup_valid.eq(chosen.lookup),
                self.lookup_number.eq(chosen.number),
                self.code.eq(chosen.code),
                self.info.engine.eq(chosen.engine),
                self.info.counter.eq(chosen.counter),
                self.info.die.eq(chosen.die),
                self.info.port.eq(chosen.port),
            ]
        with m.If(looked_up):
            m.d.sync += [self.lookup_valid.eq(0), self.error.eq(1)]
            with m.If(self.code == ErrorCode.TIMEOUT):
                m.d.sync += self.info.counter.eq(self.lookup_counter)
        with m.If(stops | looked_up):
            m.d.sync += self.task.eq(chosen.task | Mux(looked_up, self.lookup_task, 0))
        with m.If(self.clear):
            m.d.sync += [self.halted.eq(0), self.error.eq(0), self.lookup_valid.eq(0), self.code.eq(ErrorCode.NONE),
                         self.task.eq(0), self.info.eq(0)]
        return m


class Watchdog(wiring.Component):
    """Counts cycles without progress.

    Parameters
    ----------
    bits : int
        Width of the count.

    Members
    -------
    limit : In
        Cycles without progress before ``expired``; 0 switches it off.
    active, progress : In(1)
        Counting; starting again.
    expired : Out(1)
        Pulse, two cycles after the last of them.
    """

    def __init__(self, bits: int = WORD_BITS) -> None:
        self.bits = bits
        super().__init__({"limit": In(bits), "active": In(1), "progress": In(1), "expired": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # A bit more than the limit has, in which it stays.
        idle_cycles, counts = Signal(self.bits + 1), Signal()
        parts = range(0, self.bits, _COMPARED_BITS)
        equal = Signal(len(parts))
        for number, low in enumerate(parts):
            part = slice(low, min(low + _COMPARED_BITS, self.bits))
            m.d.sync += equal[number].eq(idle_cycles[part] == self.limit[part])
        reached = Signal()  # there were such cycles, and no more than the limit may say
        m.d.sync += reached.eq(counts & ~idle_cycles[-1])
        m.d.comb += self.expired.eq(equal.all() & reached)
        with m.If(~idle_cycles[-1]):
            m.d.sync += idle_cycles.eq(idle_cycles + 1)
        m.d.sync += counts.eq(1)
        with m.If(~self.active | self.progress | self.expired):
            m.d.sync += [idle_cycles.eq(0), counts.eq(0)]
        return m
