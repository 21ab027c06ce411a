"""The seam between the shell and an engine.

The scheduler streams the body of the next task, as many words as the engine uses, into its staging registers
while the previous one still runs; when the task's waits are met it offers ``start``. The engine takes
``start`` (staging becomes active) as soon as it can begin, names the task by the number in its payload in all
requests to memory that it makes for it, may then already accept the following
body, and may have several started tasks in flight; it finishes them in order with ``done``, after the
last write response of the task.
"""

from typing import Any, NamedTuple

from amaranth.hdl import Module, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.limits import field_bits
from plinth_hw.isa.operations import ErrorCode
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.registers import CounterSteps
from plinth_hw.memory.port import TASK_BITS
from plinth_hw.shapes import shape_of


class BodyWord(data.Struct):
    """One word of a task body, with the address in place of a pointer."""

    index: unsigned(6)
    word: unsigned(32)
    #: Set on the last one of ``DieParameters.body_words``.
    last: unsigned(1)


class Done(data.Struct):
    """What an engine reports of a finished task."""

    #: NONE, or why the task could not be run (the die then stops).
    error: shape_of(ErrorCode)
    stall_cycles: unsigned(32)
    payload_words: unsigned(32)
    #: Taken from the matrix engine only.
    useful_macs: unsigned(64)


class CounterStrobes(data.Struct):
    """Taken into registers every cycle, and counted a cycle later; at most one of the four states is set."""

    #: Useful work happened this cycle.
    busy: unsigned(1)
    #: A task runs but waits for operands (from memory loads or from the network).
    stall_input: unsigned(1)
    #: A task runs but its results find no room.
    stall_output: unsigned(1)
    #: A task runs and only a memory response is missing.
    stall_memory: unsigned(1)
    #: Payload words moved this cycle.
    words: field_bits(CounterSteps, "words")
    #: Useful and issued multiply-adds this cycle; counted for the matrix engine only.
    useful_macs: field_bits(CounterSteps, "useful_macs")
    issued_macs: field_bits(CounterSteps, "issued_macs")


class EngineSignature(wiring.Signature):
    """Seen from the engine.

    Members: ``body`` In stream of :class:`BodyWord`; ``operation`` In(4), valid with ``start``;
    ``start`` In stream of the task's number, never 0; ``done`` Out stream of :class:`Done`;
    ``strobes`` Out :class:`CounterStrobes`.
    """

    def __init__(self, parameters: DieParameters):
        super().__init__({
            "body": In(stream.Signature(BodyWord)),
            "operation": In(4),
            "start": In(stream.Signature(unsigned(TASK_BITS))),
            "done": Out(stream.Signature(Done)),
            "strobes": Out(CounterStrobes),
        })


def ends_signature(parameters: DieParameters, most: int) -> dict[str, Any]:
    """Member ``ends``, which only fixed-point dies have: how many results, at most ``most`` in a cycle, were beyond the
    format."""
    return {"ends": Out(range(most + 1))} if isinstance(parameters.memory_format, Fixed) else {}


class TaskAccount(NamedTuple):
    """Tasks of an engine that overlaps them."""

    #: Started, not yet completed.
    tasks: Signal
    #: ``done`` is taken.
    finished: Signal
    #: Tasks run, none waits to be taken, and the engine is not busy.
    stalled: Signal


def account(m: Module, engine: Any, began: Value, most: int) -> TaskAccount:
    """Counts tasks and reports ``stall_cycles``: those without ``busy`` since the task before completed, or,
    if later, since this one started; while ``done`` waits they do not count.

    Parameters
    ----------
    engine : EngineSignature
        With ``done.valid`` and ``strobes.busy`` driven; ``done.payload.stall_cycles`` is driven here.
    began : Value
        Pulse: a task starts.
    most : int
        Tasks between start and completion.
    """
    task_account = TaskAccount(Signal(range(most + 1), name="tasks"), Signal(name="finished"), Signal(name="stalled"))
    stall_cycles = Signal(32)
    m.d.comb += [
        task_account.finished.eq(engine.done.valid & engine.done.ready),
        task_account.stalled.eq((task_account.tasks != 0) & ~engine.done.valid & ~engine.strobes.busy),
        engine.done.payload.stall_cycles.eq(stall_cycles),
    ]
    m.d.sync += task_account.tasks.eq(task_account.tasks + began - task_account.finished)
    # What is late says whether the sum moves, not what it becomes.
    with m.If(task_account.finished):
        m.d.sync += stall_cycles.eq(0)
    with m.Elif(task_account.stalled):
        m.d.sync += stall_cycles.eq(stall_cycles + 1)
    return task_account
