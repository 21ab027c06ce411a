"""Predicted cycles of a training step: the tasks of one die in program order, with their waits, on its engines.

The tasks are those of the step (:mod:`plinth.step.step`). Descriptors are fetched in program order and every engine
works in order, so one pass over the tasks finds all their times. The other dies are taken to do the same at the same
time: what they send arrives when what is sent to them would.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from plinth.model.array import Array
from plinth.partition import regions
from plinth.partition.graph import PlanGraph
from plinth.partition.regions import Partition, Splits
from plinth.plan.cost.copies import MEMORY_LATENCY, Copy, lookups
from plinth.plan.cost.engines import ENGINES, Die
from plinth.plan.cost.links import Links
from plinth.plan.cost.machine import LINK_LATENCY, Machine, reduced_words
from plinth.plan.cost.tasks import matrix_cost, rows_cost, vector_cost
from plinth.step.build import step_of
from plinth.step.operations import Barrier, Exchange, Reduce
from plinth.step.step import Step
from plinth.step.tasks import Accesses, Multiplication, Rows, Task, Vector

#: Groups of neighbouring pieces of an operation that are walked one by one, at most; in steps of many operations fewer,
#: so that all operations have about so many groups, but no fewer than these.
MOST_TASKS, ALL_TASKS, LEAST_TASKS = 32, 2048, 8
#: How often a step is walked through, with what engines took from each other the time before.
PASSES = 4


@dataclass(frozen=True)
class Times:
    """Cycles of a predicted step."""

    cycles: float
    #: In which nothing but reductions goes on, at the end.
    exposed: float
    #: In which each engine works.
    matrix: float
    vector: float
    transfer: float
    collective: float


#: Runs on the engines from a time on; when it is done.
Run = Callable[[Die, float], float]


class Schedule:
    """Walks through steps of one network on one array."""

    def __init__(self, graph: PlanGraph, batch: int, array: Array, machine: Machine, links: Links) -> None:
        self.graph, self.batch, self.machine, self.links = graph, batch, machine, links
        self.hop = array.link_latency
        #: Of the slowest die, which all others wait for.
        self.speed = float(min(array.relative_speeds))
        self._kept = lru_cache(maxsize=1)(self._build)
        self._words = lru_cache(maxsize=1 << 12)(lambda splits, lists: self.built(splits, lists).memory_words())

    def _build(self, splits: Splits, lists: Partition) -> Step:
        return step_of(self.graph, splits, self.batch, self.machine.parameters, self.links.factors, lists)

    def built(self, splits: Splits, lists: Partition = ()) -> Step:
        """The step under given splits, and lists if there are any; the last one is kept."""
        return self._kept(splits, lists)

    def memory_words(self, splits: Splits, lists: Partition = ()) -> int:
        """Words of memory that the step takes on every die."""
        return self._words(splits, lists)

    def step(self, splits: Splits, lists: Partition = ()) -> Times:
        """A step under the given splits, and lists if there are any."""
        step = self.built(splits, lists)
        # Without lists the first die has as much as any other.
        dies = [int(some[0]) for some in step.classes()] if lists else [0]
        return max((self._walked(_Walk(self, step, die)) for die in dies), key=lambda times: times.cycles)

    def _walked(self, walk: "_Walk") -> Times:
        """A die's tasks: walked through alone first, then with what engines take from each other."""
        shares: list[float] = []
        for _ in range(PASSES):
            die = Die(self.machine, shares, self.speed)
            end = walk.run(die)
            found = die.met()
            shares = [(one + two) / 2 for one, two in zip(shares, found, strict=True)] if shares else found
        busy = dict.fromkeys(ENGINES, 0.0)
        for engine, start, stop, _ in die.tasks:
            busy[engine] += stop - start
        busy["collective"] += die.latencies
        last = max((stop for engine, _, stop, _ in die.tasks if engine != "collective"), default=0.0)
        return Times(end, end - last, **busy)


class _Walk:
    """The tasks of a die: what each waits for, and how it runs."""

    def __init__(self, given: Schedule, step: Step, number: int):
        self.given, self.machine, self.parameters = given, given.machine, given.machine.parameters
        self.step, self.die = step, number
        self.rate = float(self.parameters.memory_words_per_cycle)
        self.tasks: list[tuple[list[int], Run]] = []
        self._accesses: Accesses[int] = Accesses()
        #: Tasks that are reductions, and by number of their exchange those that are barriers.
        self._reductions: list[int] = []
        self._barriers: dict[int, int] = {}
        most = max(min(LEAST_TASKS, MOST_TASKS), min(MOST_TASKS, ALL_TASKS // len(step.operations)))
        for operation in step.operations:
            if isinstance(operation, Exchange):
                self._exchange(operation)
            elif isinstance(operation, Reduce):
                after = [] if operation.after is None else [self._barriers[operation.after]]
                for task in operation.tasks(number):
                    self._reductions.append(len(self.tasks))
                    self._task(task, self._reduce(operation), after)
            elif isinstance(operation, Barrier):
                self._barrier(operation)
            else:
                for item in operation.tasks(number, most):
                    assert isinstance(item, Task)
                    self._task(item, self._work(item))

    def run(self, die: Die) -> float:
        """Cycles of the step on a die that is idle."""
        ends: list[float] = []
        for waits, run in self.tasks:
            ends.append(run(die, max([ends[one] for one in waits], default=0.0)))
        return max(die.reduced, *die.last.values())

    def _task(self, task: Task, run: Run, after: Sequence[int] = ()) -> None:
        waits = [*after, *self._accesses.needed(task.reads, task.writes)]
        self._accesses.touch(task.reads, task.writes, len(self.tasks))
        self.tasks.append((sorted(set(waits)), run))

    def _work(self, task: Task) -> Run:
        """How an engine works on a task, or on the equal ones that it stands for."""
        work, count = task.work, task.count
        if isinstance(work, Multiplication):
            product = matrix_cost(self.machine, work)
            memory = product.words / product.row / self.rate if product.row else 0.0
            # Its tasks are fetched one by one.
            cycles = (max(product.alone, product.tasks * self.machine.control["fetch"]),
                      max(product.row, product.tasks * self.machine.control["fetch"]))
            return lambda die, ready: die.task("matrix", ready, cycles, product.words, memory, count, product.tasks)
        if isinstance(work, Vector):
            vector = vector_cost(self.machine, work)
            stages, words = (vector.load, vector.compute, vector.store), vector.reads + vector.writes
            if count > 1 and (vector.work.sums or work.serial):
                # What adds to a sum waits for what has done so before.
                return lambda die, ready: die.vector(ready, (vector.load, vector.compute + (count - 1) * (
                    sum(stages) + die.issue), vector.store), count * words)
            return lambda die, ready: die.vector(ready, stages, words, count)
        if isinstance(work, Rows):
            cycles, words = rows_cost(self.machine, work)
            return lambda die, ready: die.task("transfer", ready, cycles, words, words / cycles[1] / self.rate)
        raise TypeError(f"a walk knows no {type(work).__name__}")

    def _reduce(self, operation: Reduce) -> Run:
        """A reduction: its words on the links, its latency."""
        given, size = self.given, operation.rings.size
        words = operation.words(self.die)
        control, block = self.machine.control, operation.message % self.parameters.reduce_blocks
        if size == 1:
            cycles, latency = words / self.parameters.flit_words, control["reduce"]
        else:
            cycles = given.links.ring_words(operation.rings, words)
            latency = self.machine.ring_latency(size, given.links.ring_hops(operation.rings), given.hop)
        moved = reduced_words(words, size)

        def run(die: Die, ready: float) -> float:
            return die.reduce(ready, cycles, latency, moved, block, linked=size > 1)
        return run

    def _barrier(self, operation: Barrier) -> None:
        """Signals to all other dies behind all reductions so far; it is over when theirs have come."""
        later, count = self.machine.control["arrival"] + self.given.hop - LINK_LATENCY, operation.dies - 1
        cycles = float(MEMORY_LATENCY), float(MEMORY_LATENCY)
        self._barriers[operation.number] = len(self.tasks)
        self.tasks.append((list(self._reductions), lambda die, ready: die.task(
            "transfer", ready, cycles, 0.0, 0.0, count) + later))

    def _exchange(self, operation: Exchange) -> None:
        """Tiles of the die to all others; the operation's targets are there when what others send has arrived."""
        given, machine, parameters = self.given, self.machine, self.parameters
        source, target = operation.source, operation.targets[0]
        asked = regions.Exchange("", "", "", None, source.region, target.region, source.channels, source.positions)
        # Rows lie one behind the other in what a die has of either side.
        die = self.die
        strides = source.part(die).channels, target.part(die).channels
        first, there = len(self.tasks), operation.received(die)
        mine = [source.buffer(die)] if source.part(die).words else []
        waits = sorted(set(self._accesses.needed(mine, there)))
        for turn, (samples, width, link, hops, count) in enumerate(given.links.tiles(asked, given.batch, die)):
            if not (samples and width) or not (turn or operation.own):
                continue
            # Where it has nothing there, rows lie in another die as wide as they are.
            copy = Copy(samples * source.positions, width, *(max(stride, width) for stride in strides))
            if turn:
                # Flits are not full where narrow rows do not follow each other.
                link *= copy.flits(parameters) * parameters.flit_words / (copy.rows * width)
                # The input behind the link takes a flit a cycle, but for lookups.
                link = max(link, link * float(parameters.link_rate) + (hops - 1) * lookups(copy, parameters, hops))
            cycles = machine.copy(copy, link if turn else None)
            words = copy.read(parameters) + copy.written(parameters)
            memory = words / cycles[1] / self.rate
            self.tasks.append((waits, self._tile(cycles, words, memory, count, link, hops, copy) if turn else
                               self._own(cycles, words, memory, count)))
        last = len(self.tasks)
        self._accesses.touch(mine, [], last)
        self.tasks.append((list(range(first, last)) or waits, lambda die, ready: ready))
        self._accesses.touch([], there, last)

    @staticmethod
    def _own(cycles: tuple[float, float], words: float, memory: float, count: int) -> Run:
        return lambda die, ready: die.task("transfer", ready, cycles, words, memory, count)

    def _tile(self, cycles: tuple[float, float], words: float, memory: float, count: int, link: float, hops: int,
              copy: Copy) -> Run:
        parameters, machine = self.parameters, self.machine
        later = (machine.control["arrival"] + hops * self.given.hop - LINK_LATENCY
                 + copy.waiting(parameters, link))
        return lambda die, ready: die.tiles(ready, cycles, words, memory, count, count * link) + later
