"""What lowering hands to the driver: graphs, memory map and array wiring, nothing of the network left."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plinth.lower.builder import Buffer, GraphBuilder, Task, require_memory
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.tasks import DESCRIPTOR_WORDS, RECORD_WORDS, CollectiveOperation, Engine


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


def ring_setup(parameters: DieParameters, members: Sequence[int], die: int, group: int,
               builder: GraphBuilder | None = None) -> GraphBuilder:
    """The graph that tells a die its place in a ring of dies; with ``builder``, one that tells of others before."""
    builder = builder or GraphBuilder(parameters)
    index = members.index(die)
    builder.add(f"set_group[{group}]", Engine.COLLECTIVE, CollectiveOperation.SET_GROUP, {
        "group": group, "members": len(members), "index": index,
        "next_die": members[(index + 1) % len(members)]})
    return builder


def assemble(setup: Sequence[GraphBuilder], step: Sequence[GraphBuilder], *, memory_words: int,
             gradient_scale: float = 1.0) -> Program:
    """Put the graphs of every die behind its buffers: records, set-up graph, step graph.

    Places have the same addresses on all dies; every task of the step leaves a completion record.

    Raises
    ------
    UserError
        If they do not fit the die's memory.
    """
    builder = step[0]
    parameters = builder.parameters
    line = max(DESCRIPTOR_WORDS, parameters.beat_words)

    def aligned(address: int) -> int:
        return -(-address // line) * line

    setup_tasks = [one.finish(record=False) for one in setup]
    step_tasks = [one.finish(record=True) for one in step]
    most_setup, most_step = (max(map(len, tasks)) for tasks in (setup_tasks, step_tasks))
    records = aligned(max(one.end for one in step))
    first = aligned(records + RECORD_WORDS * most_step)
    second = aligned(first + DESCRIPTOR_WORDS * most_setup)
    end = second + DESCRIPTOR_WORDS * most_step
    require_memory(end, memory_words)
    return Program(
        parameters=parameters,
        setup=[Graph("setup", first, tuple(tasks), one.advances)
               for one, tasks in zip(setup, setup_tasks, strict=True)],
        step=[Graph("step", second, tuple(tasks), one.advances)
              for one, tasks in zip(step, step_tasks, strict=True)],
        buffers=builder.buffers, moving=builder.moving, gradient_scale=gradient_scale, records=records,
        memory_words=end)
