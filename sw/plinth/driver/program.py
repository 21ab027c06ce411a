"""What lowering hands to the driver: graphs, memory map and array wiring as data, nothing of the network left."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from plinth.buffers import Buffer
from plinth.driver.device import Words
from plinth_hw.isa.descriptors import DESCRIPTOR_WORDS
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters


@dataclass(frozen=True)
class NamedDescriptor:
    """A task's descriptor with its name, which messages and completion records say."""

    name: str
    engine: Engine
    words: tuple[int, ...]


@dataclass(frozen=True)
class DieGraph:
    """A task graph of one die: descriptors at a word address, and how far a run moves each counter."""

    name: str
    address: int
    tasks: tuple[NamedDescriptor, ...]
    advances: Mapping[int, int]
    #: Words of memory from a task to the next.
    spacing: int = DESCRIPTOR_WORDS

    def task_at(self, address: int) -> NamedDescriptor | None:
        """The task whose descriptor lies at a word address, if it belongs to this graph."""
        index, rest = divmod(address - self.address, self.spacing)
        return self.tasks[index] if rest == 0 and 0 <= index < len(self.tasks) else None


@dataclass(frozen=True, kw_only=True)
class Program:
    """A lowered plan: for each die its graphs and memory map."""

    parameters: DieParameters
    #: Run once before the first step, one a die; empty if nothing is to be set up.
    setup: Sequence[DieGraph]
    #: Run once a training step, one a die.
    step: Sequence[DieGraph]
    #: Named places of the first die.
    buffers: Mapping[str, Buffer]
    #: Moving base registers: first place, words from one step's place to the next.
    moving: Mapping[int, tuple[int, int]]
    #: Factor by which errors and gradients in memory are larger than the loss's own: operands of 16 bits need it.
    gradient_scale: float
    #: Word address of the completion records of one run.
    records: int
    #: Words of memory that a die needs.
    memory_words: int

    @property
    def dies(self) -> int:
        """Dies of the array."""
        return len(self.step)

    @property
    def tiles_between_dies(self) -> bool:
        """Whether dies send each other tiles or signals in a step, for which they wait by counters that no engine of
        their own advances; else all that goes between them is messages of rings."""
        engines = {engine.value for engine in Engine}
        return any(counter not in engines for graph in self.step for counter in graph.advances)


def program_digest(program: Program) -> str:
    """16 hexadecimal digits of what dies run: graphs, their addresses and counters, and how base registers move."""
    graphs = [(graph.address, [task.words for task in graph.tasks], sorted(graph.advances.items()))
              for graph in (*program.setup, *program.step)]
    return hashlib.sha256(repr((graphs, sorted(program.moving.items()), program.records)).encode()).hexdigest()[:16]


def descriptor_words(tasks: Iterable[NamedDescriptor]) -> Words:
    """Pack all descriptors into one array of words, ready to be written to memory."""
    return np.array([word for task in tasks for word in task.words], dtype=np.uint32)
