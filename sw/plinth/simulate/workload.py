"""The tasks and flows of a training step on one array, for the simulator.

What dies do is said once, in the step of the plan (:mod:`plinth.step.step`): here tasks get times and words, and what
moves between dies gets links. A step of few tasks is simulated task by task, with the control of each die
(:mod:`plinth.simulate.tasks`); of a larger one (:class:`Groups`) neighbouring pieces of an operation are one task, dies
of a class (:meth:`~plinth.step.step.Step.classes`) are looked at once, and the tiles of an exchange go together.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.array.array import AT_LINKS, Array
from plinth.buffers import Buffer
from plinth.errors import UserError
from plinth.partition.axes import common
from plinth.partition.graph import DP, MP
from plinth.predict.published import PublishedWords
from plinth.simulate.costs import VAULTS, Costs, DieCosts, PaperCost
from plinth.simulate.phases import GRADIENT, Collected, Purpose, purpose
from plinth.simulate.routes import LinkRoutes, TrafficGroup, groups_of
from plinth.simulate.tasks import TaskByTask
from plinth.step import granularity
from plinth.step.accesses import Accesses
from plinth.step.between import Barrier, Exchange, Reduce
from plinth.step.operations import Operation, entry_of
from plinth.step.row_moves import RowMoves
from plinth.step.step import Step
from plinth.step.tasks import Encode, LineTransform, Phase, Task, TransformTiles, tasks_of
from plinth_hw.isa.operations import Engine
from plinth_sim.array.machine import Activity, Flow, SimulatedArray, SimulatedDie, SimulatedLink, Wait
from plinth_sim.array.machine import EngineTask as DieTask

#: Tasks of a step, over all dies, up to which it is simulated task by task: what takes a processor less than a minute,
#: at 1,500 tasks a second and more, and 0.9 GB, at 11 kB a task.
MOST_TASKS = 80_000
#: Pieces of all nodes on all dies, about, at most, if it is not: with more dies, pieces get larger.
MOST_PIECES = 1 << 15
#: Kinds of work that make what other dies get, which takes what their tasks say; what copies take follows from their
#: words. And whether they code: what they code is read whole, and they hold the engine that decodes what others send.
MADE: dict[type, bool] = {TransformTiles: False, LineTransform: False, Encode: True}


@dataclass(frozen=True)
class Workload:
    """Input of the simulator."""

    machine: SimulatedArray
    activities: Sequence[Activity]
    #: For each activity, what it is for, and how many tasks of dies are done when it is: a task, those that a group of
    #: them stands for, or, of an exchange or reduction in groups, one for each die of the group.
    purposes: Sequence[Purpose]
    tasks: Sequence[int]
    #: Links between dies; those of the machine behind them are what dies share within.
    links: int
    #: Why tasks go in groups; empty: the step is simulated task by task.
    grouped: str = ""


def workload(step: Step, array: Array, costs: Costs, slow: dict[int, float] | None = None,
             routes: LinkRoutes | None = None, overlap: bool = True, form: str = "exact", most_tasks: int = MOST_TASKS
             ) -> Workload:
    """Tasks and flows of a step.

    Parameters
    ----------
    step : Step
    array : Array
        The dies that do it.
    costs : Costs
    slow : dict of int to float, optional
        Dies whose tasks take longer by a factor, beside the array's speeds.
    routes : LinkRoutes, optional
        Those of the array, if they are known.
    overlap : bool
        Whether reductions run beside what follows; else a die goes on when its reduction is done.
    form : str
        "exact", or "published": :class:`PublishedGroups`.
    most_tasks : int
        Tasks of dies up to which the step is simulated task by task, if it can be; 0: in groups.

    Raises
    ------
    UserError
        If a die that is slow does not exist.
    """
    speeds = [float(speed) for speed in array.relative_speeds]
    for die, factor in (slow or {}).items():
        if not 0 <= die < array.dies:
            raise UserError(f"die {die} cannot be slow: array {array.name!r} has dies 0 to {array.dies - 1}")
        speeds[die] /= factor
    grouped = why_grouped(step, array, costs, overlap=overlap, form=form, most_tasks=most_tasks)
    routes = routes or LinkRoutes(array)
    if not grouped:
        assert isinstance(costs, DieCosts)
        by_task = TaskByTask(step, routes, costs, speeds)
        return Workload(by_task.machine, by_task.activities, by_task.purposes, by_task.tasks, by_task.links)
    hertz = float(array.clock_mhz * 1_000_000)
    machine = SimulatedArray(
        dies=tuple(SimulatedDie(words_per_second=costs.memory, vaults=VAULTS, speed=speed) for speed in speeds),
        links=tuple(SimulatedLink(name=name, words_per_second=rate * hertz)
                    for name, rate in zip(routes.names, routes.rates.tolist(), strict=True)))
    groups = (PublishedGroups if form == "published" else Groups)(step, array, costs, routes, overlap)
    return Workload(machine, groups.activities, groups.purposes, groups.tasks, len(machine.links), grouped)


def why_grouped(step: Step, array: Array, costs: Costs, *, overlap: bool, form: str, most_tasks: int) -> str:
    """Why a step is simulated in groups of tasks, in words; empty: it is not."""
    if not isinstance(costs, DieCosts):
        return "costs are those of HyPar's paper"
    if form != "exact" or not overlap:
        return "HyPar's paper counts words so, or lets nothing go on beside a reduction"
    if array.codes == AT_LINKS and any(exchange.coded is not None for exchange in step.sharding.exchanges):
        return (f"codes at the links of array {array.name} leave out a share of the words of whole exchanges, not of "
                "tasks")
    if array.host is not None:
        return f"hosts, as those of array {array.name}, do whole operations"
    count = 0
    try:
        # Dies of a class have as many tasks as each other.
        for dies in step.classes():
            for _ in tasks_of(step.tasks(int(dies[0]))):
                count += len(dies)
                if count > most_tasks:
                    return f"it has more than {most_tasks:,} tasks, over all dies"
    except UserError as error:
        return f"no die can run it: {error}"
    return ""


#: What something waits for, to be looked up for each die: numbers of tasks, or of operations between dies.
_After = tuple[tuple[str, int], ...]
#: For each die, what it waits for.
Ready = list[tuple[Wait, ...]]


class Groups(Collected):
    """A step in groups of tasks, and exchanges in groups of dies that have to do with each other: a group's words are
    one flow, which waits for all its senders, and starts then, beside whatever else is on the links."""

    def __init__(self, step: Step, array: Array, costs: Costs, routes: LinkRoutes, overlap: bool) -> None:
        super().__init__()
        self.step, self.costs, self.all_routes, self.overlap = step, costs, routes, overlap
        self.second = 1 / float(array.clock_mhz * 1_000_000)
        self.most = costs.most or max(1, min(granularity.STRIPS, MOST_PIECES // (step.dies * len(step.graph.nodes))))
        self._classes = step.classes()
        self._accesses: list[Accesses[_After]] = [Accesses() for _ in self._classes]
        #: For each die, what ends a task or an operation that others wait for.
        self._ends: list[dict[tuple[str, int], Wait]] = [{} for _ in range(step.dies)]
        #: For each die, the reductions that all its further tasks wait for.
        self._behind: list[dict[Wait, None]] = [{} for _ in range(step.dies)]
        self._count = 0
        for number, operation in enumerate(step.operations):
            self._purpose = purpose(step, number, operation)
            (entry_of(GROUPED, operation) or Groups._computed)(self, operation)

    def _after(self, place: int, reads: Sequence[Buffer], writes: Sequence[Buffer]) -> _After:
        """What a task of a class waits for."""
        needed = self._accesses[place].needed(reads, writes)
        return tuple(dict.fromkeys(event for some in needed for event in some))

    # Tasks.

    def _computed(self, operation: Operation) -> None:
        """Add what dies do for themselves."""
        for place, dies in enumerate(self._classes):
            for task in tasks_of(operation.tasks(int(dies[0]), self.most)):
                self._task(place, task, self._cost(operation, task))

    def _cost(self, operation: Operation, task: Task) -> PaperCost:
        return self.costs.task(task)

    def _task(self, place: int, task: Task, cost: PaperCost) -> None:
        """A task of each die of a class."""
        accesses = self._accesses[place]
        after = self._after(place, task.reads, task.writes)
        if not cost:
            # What takes no time is done when what it waits for is.
            accesses.touch(task.reads, task.writes, after)
            return
        key = ("task", self._count)
        self._count += 1
        accesses.touch(task.reads, task.writes, (key,))
        for die in self._classes[place].tolist():
            label = self.named(f"{task.name}@{die}")
            self._ends[die][key] = self._work(label, die, task.engine, cost, self._waits(die, after), task.count)

    def _work(self, name: str, die: int, engine: Engine, cost: PaperCost, waits: tuple[Wait, ...], tasks: int) -> Wait:
        """Work of an engine, so many tasks; its end."""
        self.add(DieTask(
            name=name, die=die, engine=self.costs.engine(engine), seconds=cost.seconds, latency=cost.latency,
            words=cost.words, waits=waits, adds=cost.adds, multiplies=cost.multiplies,
            sram_words=cost.sram_words), self._purpose, tasks)
        return Wait(name, 1, self.costs.issue)

    def _waits(self, die: int, after: _After) -> tuple[Wait, ...]:
        ends = self._ends[die]
        return (*(ends[key] for key in after if key in ends), *self._behind[die])

    # Between dies.

    def _exchanged(self, operation: Exchange) -> None:
        """Add what goes on between dies, behind what all of them wait for."""
        key = ("between", self._count)
        self._count += 1
        ready: Ready = [()] * self.step.dies
        for place, dies in enumerate(self._classes):
            die = int(dies[0])
            mine, there = [operation.source.buffer(die)], operation.received(die)
            after = self._after(place, mine, there)
            self._accesses[place].touch(mine, there, (key, *after))
            for member in dies.tolist():
                ready[member] = self._waits(member, after)
        for die, end in self._moved(operation, ready).items():
            self._ends[die][key] = end

    def _moved(self, operation: Exchange, ready: Ready) -> dict[int, Wait]:
        """A transfer between layers; where it ends."""
        source, target, step, name = operation.source, operation.targets[0], self.step, operation.name
        flow, added = operation.flow, not operation.own
        positions, share = round(operation.portion * flow.positions), operation.share
        ends: dict[int, Wait] = {}
        groups = self.all_routes.exchange(flow.source, flow.target, flow.sizes)
        if not groups:
            return ends
        mine, theirs = source.spans, target.spans
        own = np.prod([common(axis, size, flow.source, flow.target, step.factors) for axis, size in flow.sizes], axis=0)
        sums = added or len(operation.targets) > 1
        for number, group in enumerate(groups):
            die = int(group.dies[0])
            kept = own[group.dies] * (0 if added else 1)
            most = float((share * group.sent + kept).max()) * positions
            tile = max(1, int(min(mine.channels[group.dies].max(), theirs.channels[group.dies].max())))
            seconds, packets = self.costs.copies(int(mine.samples[die]) * positions, tile, most,
                                                  group.peers)
            label = self.named(f"{name} {number}" if len(groups) > 1 else name)
            through = operation.memory_share * (group.sent + group.received) * positions
            if operation.by_tasks:
                work, coding = self._by_tasks(operation, die)
                seconds = max(seconds, work)
                if coding:
                    # What codes are made of is read whole, and they hold the engine that decodes others.
                    through = group.sent * (coding.words / float(group.sent[0]))
                    for member in group.dies.tolist():
                        self._work(f"{label} codes@{member}", member, Engine.TRANSFER, PaperCost(coding.seconds),
                                   ready[member], 0)
            received = share * group.received * positions * self.costs.added * sums
            self._flow(label, group, share * positions * packets, ready, seconds=seconds,
                       latency=self.costs.arrival(group.latency),
                       die_words=through + 2 * kept * positions + received,
                       adds=float(group.received.sum()) * positions if sums and self.costs.added else 0.0)
            ends |= dict.fromkeys(group.dies.tolist(), Wait(label))
        return ends

    def _rows(self, operation: RowMoves) -> None:
        """Add rows between owners and workers, as many as predictions take it to be."""
        key = ("between", self._count)
        self._count += 1
        ready: Ready = [()] * self.step.dies
        for place, dies in enumerate(self._classes):
            items = list(operation.tasks(int(dies[0])))
            reads, writes = ([buffer for item in items for buffer in buffers(item)]
                             for buffers in (lambda item: item.reads, lambda item: item.writes))
            after = self._after(place, reads, writes)
            self._accesses[place].touch(reads, writes, (key, *after))
            for member in dies.tolist():
                ready[member] = self._waits(member, after)
        width, rows = operation.lookups.width, operation.expected_rows()
        words = width * rows
        kept = np.diagonal(words).copy()
        np.fill_diagonal(words, 0)
        groups = self.all_routes.loads(words, groups_of(words))
        for number, group in enumerate(groups):
            most = float((group.sent + kept[group.dies]).max())
            seconds, packets = self.costs.copies(int(rows.max()), width, most, group.peers)
            label = self.named(f"{operation.name} {number}" if len(groups) > 1 else operation.name)
            self._flow(label, group, packets, ready, seconds=seconds, latency=self.costs.arrival(group.latency),
                       die_words=group.sent + group.received + 2 * kept[group.dies], adds=0.0)
            for die in group.dies.tolist():
                self._ends[die][key] = Wait(label)

    def _by_tasks(self, operation: Exchange, die: int) -> tuple[float, PaperCost]:
        """Seconds of all that a die makes and sends; and of what it codes seconds, and words moved in memory."""
        costs = [(self.costs.task(task), MADE[type(task.work)]) for task in operation.sends(die)
                 if type(task.work) in MADE]
        codes = [cost for cost, coded in costs if coded]
        return (sum(cost.seconds for cost, _ in costs),
                PaperCost(sum(cost.seconds for cost in codes), words=sum(cost.words for cost in codes)))

    def _flow(self, name: str, group: TrafficGroup, scale: float, ready: Ready, *, seconds: float,
              latency: float, die_words: NDArray[np.float64], adds: float) -> None:
        waits = dict.fromkeys(wait for die in group.dies.tolist() for wait in ready[die])
        self.add(Flow(
            name=name, links=group.links, words=group.words * scale, seconds=seconds, latency=latency,
            dies=group.dies, die_words=die_words, waits=tuple(waits), adds=adds), self._purpose, len(group.dies))

    def _met(self, operation: Barrier) -> None:
        """Add nothing: flows wait for each other as their words say."""

    def _reduced(self, operation: Reduce) -> None:
        """Add a message of a layer's rings."""
        key = ("between", self._count)
        self._count += 1
        ready: Ready = [()] * self.step.dies
        for place, dies in enumerate(self._classes):
            source, target = (tensor.buffer(int(dies[0])) for tensor in (operation.source, operation.target))
            after = self._after(place, [source], [])
            if operation.phase is Phase.SUM:
                self._accesses[place].touch([source], [target], (key, *after))
            for member in dies.tolist():
                ready[member] = self._waits(member, after)
        ends = self._rings(operation, ready)
        for die, end in ends.items():
            self._ends[die][key] = end
        if not self.overlap:
            # Where nothing is reduced, what follows waits for the gradient.
            for die, waits in enumerate(ready):
                self._behind[die] = dict.fromkeys((ends[die],) if die in ends else waits)

    def _rings(self, operation: Reduce, ready: Ready) -> dict[int, Wait]:
        ends: dict[int, Wait] = {}
        if operation.rings.size == 1:
            for die in range(self.step.dies):
                cost = self.costs.update(operation.words(die))
                if cost:
                    ends[die] = self._work(f"{operation.name}@{die}", die, Engine.COLLECTIVE, cost, ready[die], 1)
            return ends
        members, phase = operation.rings.size, operation.phase
        for place, group in enumerate(rings := self.all_routes.ring(operation.rings)):
            if operation.message(int(group.dies[0])) is None:
                continue
            count = operation.words(int(group.dies[0]))
            if count:
                added = 0 if phase is Phase.GATHER else count * (members - 1)
                label = f"{operation.name} {place}" if len(rings) > 1 else operation.name
                own = self.costs.ring_work(phase, count, members)
                if own:
                    # The flow is as fast as links let it be behind what members do themselves.
                    for die in group.dies.tolist():
                        ready[die] = (self._work(f"{label} own@{die}", die, Engine.COLLECTIVE, own, ready[die], 0),)
                self._flow(label, group, count * phase.share, ready, seconds=0.0,
                           latency=self.costs.ring(phase, members, group.latency),
                           die_words=np.full(len(group.dies), self.costs.reduced(phase, count, members)),
                           adds=float(added))
                ends |= dict.fromkeys(group.dies.tolist(), Wait(label))
        return ends


#: For kinds of operations between dies how they go in groups.
GROUPED: dict[type, Callable[[Groups, Any], None]] = {
    Exchange: Groups._exchanged, RowMoves: Groups._rows, Reduce: Groups._reduced, Barrier: Groups._met}


class PublishedGroups(Groups):
    """Words as HyPar's Tables 1 and 2 count them: at each level each die exchanges its share with its partner in the
    other half, both ways at once, the lowest level first; what is summed is added by both. The first layer's error is
    computed, too, as HyPar counts three products of every layer."""

    def __init__(self, step: Step, array: Array, costs: Costs, routes: LinkRoutes, overlap: bool) -> None:
        self.words = PublishedWords(step.graph, step.batch, factors=step.factors)
        self.splits = step.sharding.splits
        self.words.total_bytes(self.splits)
        super().__init__(step, array, costs, routes, overlap)

    def _cost(self, operation: Operation, task: Task) -> PaperCost:
        cost = self.costs.task(task)
        first = self._purpose.phase == GRADIENT and task.node is not None and None in self.step.graph.feeds(
            self.step.graph.nodes.index(task.node))
        # Of the paper's machine all products of a layer take the same.
        return PaperCost(*(2 * amount for amount in cost)) if first else cost

    def _counts(self, number: int, level: int) -> tuple[int, int]:
        above = self.splits[number][:level]
        return above.count(DP), above.count(MP)

    def _partners(self, name: str, elements: Callable[[int], float], ready: Ready, *,
                  added: bool) -> dict[int, Wait]:
        """Exchanges at all levels; ``elements`` of the two halves of a group together, by level."""
        ends: dict[int, Wait] = {}
        for level in range(self.step.sharding.levels - 1, -1, -1):
            words = elements(level) / (2 << (self.step.sharding.levels - 1 - level))
            here = [(ends[die],) if die in ends else ready[die] for die in range(self.step.dies)]
            for place, group in enumerate(self.all_routes.partners(level) if words else ()):
                label = f"{name} H{level + 1} {place}"
                self._flow(label, group, words, here, seconds=0.0, latency=group.latency * self.second,
                           die_words=(group.sent + group.received * (1 + added * self.costs.added)) * words,
                           adds=added * float(group.received.sum()) * words)
                ends |= dict.fromkeys(group.dies.tolist(), Wait(label))
        return ends

    def _sum_elements(self, number: int, split: str) -> Callable[[int], float]:
        """Table 1, where a layer is split in one way."""
        return lambda level: (self.words.node_elements(number, split, *self._counts(number, level))
                              if self.splits[number][level] == split else 0.0)

    def _moved(self, operation: Exchange, ready: Ready) -> dict[int, Wait]:
        number = operation.planned.edge
        if number is not None:
            edge = self.step.graph.edges[number]
            # Half of Table 2: the map, or its error.
            return self._partners(operation.name, lambda level: self.words.edge_elements(
                number, self.splits[edge.producer][level], self.splits[edge.consumer][level],
                self._counts(edge.producer, level), self._counts(edge.consumer, level)) / 2, ready, added=False)
        if operation.own:
            # The error of a layer is where it is needed.
            return {}
        return self._partners(operation.name, self._sum_elements(operation.node, MP), ready, added=True)

    def _rings(self, operation: Reduce, ready: Ready) -> dict[int, Wait]:
        number = self.step.graph.nodes.index(operation.node)
        whole, share = self._sum_elements(number, DP), operation.phase.share / operation.piece.of
        return self._partners(operation.name, lambda level: share * whole(level), ready,
                              added=operation.phase is not Phase.GATHER)
