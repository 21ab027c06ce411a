"""What dies count and record of the steps that they run, as their driver reads it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plinth_hw.isa.operations import Engine


@dataclass(frozen=True)
class EngineCounters:
    """Counters of one engine since they were cleared: cycles, then what was done in them.

    ``first_busy`` and ``last_busy`` are cycle numbers modulo 2^32.
    """

    busy: int
    stall_input: int
    stall_output: int
    stall_memory: int
    words: int
    useful_macs: int
    issued_macs: int
    tasks: int
    first_busy: int
    last_busy: int


@dataclass(frozen=True)
class TaskRecord:
    """One completion record: when a task ran, by the die's own cycle counter."""

    task: str
    engine: Engine
    start: int
    end: int
    stall_cycles: int
    payload_words: int
    useful_macs: int


@dataclass(frozen=True)
class DieStatistics:
    """What one die has counted since its counters were cleared.

    Attributes
    ----------
    counters : mapping of Engine to EngineCounters
    link_words : sequence of int
        Payload words sent on each of its ports.
    injected_words : int
        Payload words that it has sent of its own, those in transit through it apart.
    records : sequence of TaskRecord
        Completion records of the last step.
    """

    counters: Mapping[Engine, EngineCounters]
    link_words: Sequence[int]
    injected_words: int
    records: Sequence[TaskRecord]
