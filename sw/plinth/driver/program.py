"""What lowering hands to the driver: graphs, memory map and array wiring as data, nothing of the network left."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from plinth.driver.device import Words
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.tasks import DESCRIPTOR_WORDS, Engine

#: Base register of everything whose address does not change from step to step.
STATIC_BASE = 0


@dataclass(frozen=True)
class Buffer:
    """A named place in die memory: ``rows`` x ``columns`` elements, ``stride`` words between rows.

    ``address`` is an offset from base register ``base``. Elements are FP32, or of 16 bits two to a word where
    ``packed`` is set; a row of those starts on a word.
    """

    name: str
    address: int
    rows: int
    columns: int
    stride: int
    base: int = STATIC_BASE
    packed: bool = False
    #: The allocated place that it is a part of; empty: itself.
    whole: str = ""

    @property
    def place(self) -> str:
        """Name of the allocated place."""
        return self.whole or self.name

    @property
    def row_words(self) -> int:
        """Words of a row."""
        return -(-self.columns // 2) if self.packed else self.columns

    @property
    def words(self) -> int:
        """Words from the first to the last."""
        return (self.rows - 1) * self.stride + self.row_words

    @property
    def pointer(self) -> dict[str, int]:
        """As a descriptor names it."""
        return {"offset": self.address, "base": self.base}

    def part(self, name: str, offset: int, rows: int, columns: int, stride: int | None = None) -> "Buffer":
        """A piece of this buffer that starts ``offset`` words into it."""
        return Buffer(name, self.address + offset, rows, columns, columns if stride is None else stride,
                      self.base, self.packed, self.place)


@dataclass(frozen=True)
class Task:
    """One descriptor with its name, for messages and records."""

    name: str
    engine: Engine
    words: tuple[int, ...]


@dataclass(frozen=True)
class Graph:
    """A task graph of one die: descriptors at a word address, and how far a run moves each counter."""

    name: str
    address: int
    tasks: tuple[Task, ...]
    advances: Mapping[int, int]

    def task_at(self, address: int) -> Task | None:
        """The task whose descriptor lies at a word address, if it belongs to this graph."""
        index, rest = divmod(address - self.address, DESCRIPTOR_WORDS)
        return self.tasks[index] if rest == 0 and 0 <= index < len(self.tasks) else None


@dataclass(frozen=True, kw_only=True)
class Program:
    """A lowered plan: for each die its graphs and memory map."""

    parameters: DieParameters
    #: Run once before the first step, one a die.
    setup: Sequence[Graph]
    #: Run once a training step, one a die.
    step: Sequence[Graph]
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


def descriptor_words(tasks: Iterable[Task]) -> Words:
    """All descriptors as one array, ready to be written to memory."""
    return np.array([word for task in tasks for word in task.words], dtype=np.uint32)
