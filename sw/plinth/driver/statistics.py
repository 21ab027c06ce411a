"""Counters and completion records of a die, as the driver reads them from its registers and memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plinth_hw.isa.operations import Engine


@dataclass(frozen=True)
class EngineCounters:
    """The performance counters of one engine since they were cleared: cycles by state, then the words, multiply-adds
    and tasks that were done in them.

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
    """The completion record of one task: its first and last cycle, by the die's own cycle counter, and what it did."""

    task: str
    engine: Engine
    start: int
    end: int
    stall_cycles: int
    payload_words: int
    useful_macs: int


@dataclass(frozen=True)
class DieStatistics:
    """The counters and completion records of one die since they were cleared.

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
