"""Predicted cycles of a training step: the tasks of dies in program order, with their waits, on their engines.

The tasks are those of the step (:mod:`plinth.step.step`). Descriptors are fetched in program order and every engine
works in order, so one pass over the tasks finds all their times. Dies that have as much as each other are taken to do
the same at the same time, and one of them is walked: what they send it arrives when what it sends to them would. Where
dies differ, one of each class is walked, all together: what others send has arrived when the slowest of the classes
that send it has sent all that it sends, and a ring starts when its last member does.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np

from plinth.array.array import Array
from plinth.buffers import Buffer, Extent
from plinth.machine.copies import FIRST_FLIT, Copy
from plinth.machine.die import Cycles, DieCycles
from plinth.machine.host import HostCycles
from plinth.machine.known import Known
from plinth.machine.links import buffered, lookups, waiting
from plinth.machine.record import WorkCost
from plinth.partition.axes import sent
from plinth.partition.cuts import Integers
from plinth.partition.graph import PlanGraph
from plinth.partition.regions import Partition, Splits
from plinth.partition.stages import stage_count
from plinth.predict.engines import ENGINES, DieEngines, Moved
from plinth.predict.host import TOGETHER, host_task_cost
from plinth.predict.links import Links
from plinth.predict.work import work_cost
from plinth.sharding import Copies, Sharding, Touched
from plinth.step.accesses import Accesses
from plinth.step.between import Barrier, Exchange, Reduce
from plinth.step.build import step_of
from plinth.step.operations import Operation, Repeated, entry_of
from plinth.step.row_moves import RowMoves
from plinth.step.step import Step
from plinth.step.tasks import LookupCopy, Signal, Task, Work, arrivals_of, tasks_of
from plinth.update.rule import PLAIN, UpdateRule

#: Groups of neighbouring pieces of an operation that are walked one by one, at most; in steps of many operations fewer,
#: so that all operations have about so many groups, but no fewer than these.
MOST_TASKS, ALL_TASKS, LEAST_TASKS = 32, 2048, 8
#: How often a step is walked through, with what engines took from each other the time before; of many operations.
PASSES, LONG_PASSES = 4, 2
#: Operations of which is kept what walks look at, at most.
MOST_KNOWN = 1 << 10
#: Classes of dies that are walked, at most, of each pipeline stage: those that have most; and their operations
#: together, unless it is one.
MOST_CLASSES, MOST_OPERATIONS = 4, 4096


@dataclass(frozen=True)
class Times:
    """Cycles of a predicted step."""

    cycles: float
    #: In which nothing but reductions goes on, and updates by the optimiser engine, at the end.
    exposed: float
    #: In which each engine works.
    matrix: float
    vector: float
    transfer: float
    collective: float
    optimiser: float


class _Built(NamedTuple):
    """A step, and what it was built from."""

    splits: Splits
    lists: Partition
    step: Step


#: How engines of a die work on a task from a time on: a function of the die, the time and what stands beside it, that
#: gives when the task is done.
Run = tuple[Callable[..., float], tuple[Any, ...]]


class _Planned(NamedTuple):
    """A task before a walk: the words that it reads and writes, and how it runs."""

    reads: tuple[Extent, ...]
    writes: tuple[Extent, ...]
    run: Run


def _ready(die: DieEngines, ready: float) -> float:
    """Nothing is done."""
    return ready


def _sends(die: DieEngines, ready: float, cycles: Cycles, words: Moved, count: int, later: float) -> float:
    """Tasks of the transfer engine, which are over so much later where they go."""
    return die.task("transfer", ready, cycles, words, count) + later


def _tiles(die: DieEngines, ready: float, cycles: Cycles, words: Moved, count: int, link: float, lane: int, held: float,
           later: float) -> float:
    """Tiles to other dies, which arrive so much after they have left."""
    return die.tiles(ready, cycles, words, count, link, lane, held, FIRST_FLIT) + later


def _task(die: DieEngines, ready: float, engine: str, cycles: Cycles, words: Moved, count: int, parts: int) -> float:
    """Tasks of an engine that works on one after the other."""
    return die.task(engine, ready, cycles, words, count, parts)


class StepSchedule:
    """Walks through steps of one network on one array."""

    def __init__(self, graph: PlanGraph, batch: int, array: Array, machine: DieCycles, links: Links,
                 rule: UpdateRule = PLAIN, copies: Copies = (), touched: Touched = (), micro_batches: int = 1) -> None:
        self.graph, self.batch, self.machine, self.links, self.rule = graph, batch, machine, links, rule
        self.micro_batches = micro_batches
        #: How copies of weights are kept equal; left out: as suits the dies.
        self.copies = copies
        #: The shares of rows of tables that samples touch.
        self.touched = touched
        #: Of the slowest die, which all others wait for.
        self.speed = float(min(array.relative_speeds))
        #: Steps that are kept, for splits and lists: the one built last, and of those that were walked to their end the
        #: one of the fewest cycles, which is what a search ends with.
        self._last: _Built | None = None
        self._shortest: _Built | None = None
        self._fewest = float("inf")
        self._known: Known[Hashable, tuple[_Planned, ...]] = Known(MOST_KNOWN)
        self._words = lru_cache(maxsize=1 << 12)(lambda splits, lists: self.built(splits, lists).memory_words())

    def built(self, splits: Splits, lists: Partition = ()) -> Step:
        """The step under given splits, and lists if there are any; the last one is kept, and the shortest one."""
        for kept in (self._last, self._shortest):
            if kept is not None and kept.splits == splits and kept.lists == lists:
                return kept.step
        step = step_of(Sharding(graph=self.graph, splits=splits, batch=self.batch, factors=self.links.factors,
                                lists=lists, array=self.links.array, rule=self.rule, copies=self.copies,
                                touched=self.touched, micro_batches=self.micro_batches),
                       self.machine.parameters)
        self.keep(splits, lists, step)
        return step

    def keep(self, splits: Splits, lists: Partition, step: Step) -> None:
        """Take a step that was built elsewhere for the one under given splits and lists."""
        self._last = _Built(splits, lists, step)

    def memory_words(self, splits: Splits, lists: Partition = ()) -> int:
        """Words of memory that the step takes on every die."""
        return self._words(splits, lists)

    def step(self, splits: Splits, lists: Partition = ()) -> Times:
        """A step under the given splits, and lists if there are any."""
        walks = self._walks(splits, lists)
        times = self._walked(walks)
        if times.cycles < self._fewest:
            self._fewest, self._shortest = times.cycles, _Built(splits, lists, walks[0].step)
        return times

    def _walks(self, splits: Splits, lists: Partition) -> list["_ScheduleWalk"]:
        """Of the dies that are walked together, the tasks."""
        step = self.built(splits, lists)
        which = np.zeros(step.dies, dtype=np.int64)
        firsts = [0]
        stages = stage_count(step.splits[0], step.factors)
        # Dies of a stage walk through its own operations alone.
        most = MOST_CLASSES * stages if stages > 1 else min(MOST_CLASSES, MOST_OPERATIONS // len(step.operations))
        if most > 1 and len(classes := step.classes()) > 1:
            # Those that are not walked do as the last of those that are.
            classes.sort(key=lambda dies: -step.held(int(dies[0])))
            for number, dies in enumerate(classes):
                which[dies] = min(number, most - 1)
            firsts = [int(dies[0]) for dies in classes[:most]]
        return [_ScheduleWalk(self, step, die, which) for die in firsts]

    def works(self, operation: Operation, die: int, most: int) -> tuple[_Planned, ...]:
        """The tasks of an operation of one die alone, in at most so many groups; what steps have in common is kept, but
        of steps of so many operations that few of them would find room."""
        if most <= LEAST_TASKS or not isinstance(operation, Repeated):
            return self._works(operation, die, most)
        key = type(operation), operation.on(die), most
        works = self._known.get(key)
        if works is None:
            works = self._known[key] = self._works(operation, die, most)
        return works

    def _works(self, operation: Operation, die: int, most: int) -> tuple[_Planned, ...]:
        tasks = []
        together = isinstance(self.machine, HostCycles) and entry_of(TOGETHER, operation) is not None
        for task in tasks_of(operation.tasks(die, 1 if together else most)):
            cost, count = self.task_cost(task)
            (latency, interval), words = self.together([cost])
            if cost.stages is not None:
                run: Run = (DieEngines.vector, (cost.stages, words, count, cost.serial))
            else:
                cycles = max(latency, cost.fetch), max(interval, cost.fetch)
                run = (_task, (self.machine.engine(task.engine), cycles, words, count, cost.descriptors))
            tasks.append(_Planned(_extents(task.reads), _extents(task.writes), run))
        return tuple(tasks)

    def cost(self, work: Work) -> WorkCost:
        """What work takes on a die of the array."""
        return work_cost(self.machine, work, self.links.array.codes)

    def together(self, costs: Iterable[WorkCost]) -> tuple[Cycles, Moved]:
        """Work on one engine, one behind the other: cycles alone and in a row, and what it does to memory. What other
        dies add to is taken to be the die's own, as all do as much."""
        chunk = self.machine.parameters.chunk_words
        alone = row = reads = writes = turns = exposed = 0.0
        for cost in costs:
            alone = row + cost.latency + (cost.passes - 1) * cost.interval
            row += cost.passes * cost.interval
            one = cost.reads + cost.added
            reads, writes = reads + cost.passes * one, writes + cost.passes * cost.writes
            turns += cost.passes * one / (cost.turn or chunk)
            exposed += cost.passes * cost.exposed
        return (alone, row), Moved(reads, writes, turns, exposed)

    def task_cost(self, task: Task) -> tuple[WorkCost, int]:
        """The cost of a task of an operation, and how many equal ones of it there are."""
        if isinstance(self.machine, HostCycles):
            return host_task_cost(self.machine, task)
        return self.cost(task.work), task.count

    def _walked(self, walks: Sequence["_ScheduleWalk"]) -> Times:
        """Tasks of dies: walked through alone first, unless that is done, then with what engines take from each
        other."""
        dies = [DieEngines(self.machine, [], self.speed) for _ in walks]
        _run(walks, dies)
        for _ in range(1, PASSES if len(walks[0].step.operations) <= MOST_OPERATIONS else LONG_PASSES):
            dies = [DieEngines(self.machine, die.next_shares(), self.speed) for die in dies]
            _run(walks, dies)
        die = max(dies, key=lambda die: die.end)
        busy = dict.fromkeys(ENGINES, 0.0)
        for engine, start, stop, _ in die.tasks:
            busy[engine] += stop - start
        busy["collective"] += die.latencies
        last = max((stop for engine, _, stop, _ in die.tasks if engine not in ("collective", "optimiser")),
                   default=0.0)
        return Times(die.end, die.end - last, **busy)


def _extents(buffers: Iterable[Buffer]) -> tuple[Extent, ...]:
    return tuple([buffer.extent for buffer in buffers])


def _run(walks: Sequence["_ScheduleWalk"], dies: Sequence[DieEngines]) -> None:
    """The step on dies that are idle, operation by operation."""
    ends: list[list[float]] = [[] for _ in walks]
    for operation in range(len(walks[0].step.operations)):
        # What goes on together: by class, when it may go on there, and when what others wait for is done.
        ready: dict[int, float] = {}
        done: dict[int, float] = {}
        for number, (walk, die, ended) in enumerate(zip(walks, dies, ends, strict=True)):
            for waits, (work, arguments), others, sends in walk.operation(operation):
                at = max([ended[wait] for wait in waits]) if waits else 0.0
                if others is None:
                    ended.append(work(die, at, *arguments))
                else:
                    ready[number] = at
                    done[number] = max([ended[send] for send in sends], default=at)
        for number, at in ready.items():
            _, (work, arguments), others, _ = walks[number].operation(operation)[-1]
            assert others is not None
            ends[number].append(work(dies[number], max([at, *(done.get(other, 0.0) for other in others)]), *arguments))


class _Walked(NamedTuple):
    """A task of a walk: the tasks that it waits for by number, and how it runs. The last one of an operation between
    dies also waits until the others, by class, have done what they send, or, if that is nothing, are ready."""

    waits: Sequence[int]
    run: Run
    others: tuple[int, ...] | None = None
    sends: Sequence[int] = ()


class _ScheduleWalk:
    """The tasks of a die, by operation: what each waits for, and how it runs.

    Parameters
    ----------
    number : int
        The die.
    which : array
        For each die its class.
    """

    def __init__(self, schedule: StepSchedule, step: Step, number: int, which: Integers):
        self.schedule, self.machine, self.parameters = schedule, schedule.machine, schedule.machine.parameters
        self.step, self.die, self._which, self._several = step, number, which.tolist(), bool(which.any())
        #: Of as many of the step's operations as were asked for.
        self._operations: list[list[_Walked]] = []
        self._count = 0
        self._accesses: Accesses[int] = Accesses()
        #: Tasks that are reductions, and by number of their exchange those that are barriers.
        self._reductions: list[int] = []
        self._barriers: dict[int, int] = {}
        most = max(min(LEAST_TASKS, MOST_TASKS), min(MOST_TASKS, ALL_TASKS // len(step.operations)))
        self._works = [None if entry_of(BETWEEN, operation) is not None else
                       schedule.works(operation, number, most) for operation in step.operations]

    def operation(self, number: int) -> list[_Walked]:
        """The tasks of an operation; those of the ones before it have been asked for."""
        if number == len(self._operations):
            self._operations.append([])
            self._plan(self.step.operations[number], self._works[number])
        return self._operations[number]

    def _plan(self, operation: Operation, works: tuple[_Planned, ...] | None) -> None:
        between = entry_of(BETWEEN, operation)
        if between is not None:
            between(self, operation)
        elif works is not None:
            for reads, writes, run in works:
                self._task(reads, writes, run)

    def _add(self, waits: Sequence[int], run: Run, others: tuple[int, ...] | None = None,
             sends: Sequence[int] = ()) -> None:
        self._operations[-1].append(_Walked(waits, run, others, sends))
        self._count += 1

    def _classes(self, dies: Sequence[int]) -> tuple[int, ...]:
        """Of some dies."""
        return tuple(sorted({self._which[die] for die in dies})) if self._several else (0,)

    def _senders(self, operation: Exchange) -> tuple[int, ...]:
        """Classes of the other dies that send the die something."""
        if not self._several:
            return (0,)
        flow = operation.flow
        elements = np.prod([sent(axis, size, flow.target, flow.source, self.schedule.links.factors, self.die)
                            for axis, size in flow.sizes], axis=0)
        return self._classes([die for die in np.flatnonzero(elements).tolist() if die != self.die])

    def _task(self, reads: Sequence[Buffer | Extent], writes: Sequence[Buffer | Extent], run: Run,
              after: Sequence[int] = (), others: tuple[int, ...] | None = None) -> None:
        waits = {*after, *self._accesses.needed(reads, writes)}
        self._accesses.touch(reads, writes, self._count)
        self._add(tuple(waits), run, others)

    def _reduce(self, operation: Reduce) -> None:
        """Add the die's reduction, behind the barrier before it, if there is one."""
        after = [] if operation.after is None else [self._barriers[operation.after]]
        for task in operation.tasks(self.die):
            self._reductions.append(self._count)
            self._task(task.reads, task.writes, self._reduction(operation, task), after,
                       self._classes(operation.rings.of(self.die)))

    def _reduction(self, operation: Reduce, task: Task) -> Run:
        """A reduction: its words on the links, its latency."""
        schedule, size, share = self.schedule, operation.rings.size, operation.phase.share
        words = operation.words(self.die)
        control, message = self.machine.control, operation.message(self.die)
        assert message is not None
        block = message % self.parameters.reduce_blocks
        if size == 1:
            cycles, latency = words / self.parameters.flit_words, control["reduce"]
        else:
            cycles = share * schedule.links.ring_words(operation.rings, words, operation.going)
            latency = share * self.machine.ring_latency(size, schedule.links.ring_latency(operation.rings))
        cost = schedule.cost(task.work)
        return (DieEngines.reduce, (cycles, latency, self.schedule.together([cost])[1], block, size > 1))

    def _barrier(self, operation: Barrier) -> None:
        """Add signals to all other dies behind all reductions so far; it is over when theirs have come."""
        later = self.machine.arrival(self.schedule.links.longest_latency)
        signal = Signal(self.die, operation.number, operation.engine)
        cycles, words = self.schedule.together([self.schedule.cost(signal)])
        self._add(list(self._reductions), (_sends, (cycles, words, operation.dies - 1, later)))
        self._barriers[operation.number] = self._count
        self._add([], (_ready, ()), self._classes(range(operation.dies)), [self._count - 1])

    def _exchange(self, operation: Exchange) -> None:
        """Add tiles of the die to all others; the operation's targets are there when what others send has arrived."""
        schedule, machine, parameters = self.schedule, self.machine, self.parameters
        source, target = operation.source, operation.targets[0]
        # Rows lie one behind the other in what a die has of either side.
        die = self.die
        strides = source.part(die).channels, target.part(die).channels
        there = operation.received(die)
        mine = [source.buffer(die)] if source.part(die).words else []
        waits = sorted(set(self._accesses.needed(mine, there)))
        kept: list[int] = []
        tiles: list[int] = []
        flow = operation.flow
        traffic = schedule.links.tiles(flow, die)
        spread = operation.members(die) is not None
        if spread and mine:
            cycles, words = self._sent(operation.sends(die))
            link, _ = schedule.links.exchanges(flow)
            latency = max(tile.latency for tile in traffic)
            tiles.append(self._count)
            link *= operation.share * operation.portion
            rows = round(operation.portion * sum(tile.samples for tile in traffic) * flow.positions)
            copy = Copy.part(rows, source.part(die).channels)
            self._add(waits, self._tile(cycles, words, 1, link, latency, copy, 0))
        for turn, (samples, width, link, hops, latency, count, lane) in enumerate(() if spread else traffic):
            if not (samples and width) or not (turn or operation.own):
                continue
            # Where it has nothing there, rows lie in another die as wide as they are.
            copy = Copy(samples * flow.positions, width, *(max(stride, width) for stride in strides))
            if turn:
                # Flits are not full where narrow rows do not follow each other.
                link *= copy.flits(parameters) * parameters.flit_words / (copy.rows * width)
                # The input behind the link takes a flit a cycle, but for lookups.
                link = max(link, link * schedule.links.slowest + (hops - 1) * lookups(
                    parameters, copy.packets(parameters), copy.flits(parameters), hops))
            cycles = machine.copy(copy, 0.0 if turn else None)
            read = copy.read(parameters)
            words = Moved(read, copy.written(parameters), read / copy.turn(parameters))
            if operation.by_tasks:
                # Of many dies all others are as the first one is.
                others = operation.peers(die)
                other = (die + turn) % operation.dies
                cycles, words = self._sent(operation.tiles(die, other if other in others else others[1]))
                link *= operation.share
            (tiles if turn else kept).append(self._count)
            self._add(waits, self._tile(cycles, words, count, link, latency, copy, lane) if turn else
                      (_task, ("transfer", cycles, words, count, 1)))
        last = self._count
        self._accesses.touch(mine, [], last)
        self._add(kept or waits, (_ready, ()), self._senders(operation), tiles)
        self._accesses.touch([], there, last)

    def _rows(self, operation: RowMoves) -> None:
        """Add rows between owners and workers: tiles of the die to others, and, behind them, what comes."""
        schedule, die = self.schedule, self.die
        tiles: list[int] = []
        rows, width = operation.expected_rows(), operation.lookups.width
        traffic = schedule.links.turns((rows * width).astype(np.float64))
        items = list(operation.tasks(die))
        for task in tasks_of(items):
            work = cast("LookupCopy", task.work)
            cycles, words = schedule.together([schedule.cost(work)])
            if work.die is None:
                self._task(task.reads, task.writes, (_task, ("transfer", cycles, words, 1, 1)))
                continue
            load, lane = traffic[(work.die - die) % self.step.dies - 1]
            tiles.append(self._count)
            self._task(task.reads, (), self._tile(cycles, words, 1, load.cycles, load.latency,
                                                  Copy(work.rows, width, width, width), lane))
        for arrivals in arrivals_of(items):
            waits = self._accesses.needed((), arrivals.writes)
            senders = self._classes([other for other in np.flatnonzero(rows[:, die]).tolist() if other != die])
            last = self._count
            self._add(tuple(set(waits)), (_ready, ()), senders, tiles)
            self._accesses.touch((), arrivals.writes, last)

    def _sent(self, tasks: Iterable[Task]) -> tuple[Cycles, Moved]:
        """Tasks of the transfer engine, all together."""
        return self.schedule.together(self.schedule.cost(task.work) for task in tasks)

    def _tile(self, cycles: Cycles, words: Moved, count: int, link: float, latency: float, copy: Copy,
              lane: int) -> Run:
        parameters, machine = self.parameters, self.machine
        later = machine.arrival(latency)
        held = link * (waiting(parameters) + buffered(parameters)) / copy.flits(parameters)
        return (_tiles, (cycles, words, count, count * link, lane, held, later))


#: For kinds of operations between dies how a die's part of them is walked.
BETWEEN: dict[type, Callable[[_ScheduleWalk, Any], None]] = {
    Exchange: _ScheduleWalk._exchange, RowMoves: _ScheduleWalk._rows, Reduce: _ScheduleWalk._reduce,
    Barrier: _ScheduleWalk._barrier}
