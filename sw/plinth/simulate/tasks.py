"""A step of few tasks, simulated task by task, with the control of every die.

Of each task of each die, in program order::

    fetch --> body, waits --> start --> engine --> done: counter here, counter on another die

What control does (docs/control.md) is simulated as it stands: descriptors come one behind the other, and wait for a
place among their engine's headers and bodies; engines start their tasks in order. A vector task loads, computes and
stores on three units that overlap; a matrix or transfer task holds its engine for what one more task of its kind costs,
and ends later; what routers can hold of a tile lands in its own time. Cycles come from the planners' formulas. What
goes on at the same time shares a die's read and write channels, its memory, the receive path of tiles, and links, whose
tiles stand in one queue, but for those that go to several dies in turn.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from plinth.machine.control import BODIES, FETCH_CYCLES, HEADERS, body_cycles
from plinth.machine.links import buffered, lookups, waiting
from plinth.machine.record import WorkCost
from plinth.machine.vector import latencies
from plinth.simulate.costs import VAULTS, DieCosts, PaperCost
from plinth.simulate.phases import Collected, Purpose, purpose
from plinth.simulate.routes import LinkRoutes
from plinth.step.accesses import Accesses
from plinth.step.step import Step
from plinth.step.tasks import (
    Arrivals,
    Decode,
    Encode,
    GroupRow,
    LineTransform,
    LookupCopy,
    Multiplication,
    Optimisation,
    Predict,
    Reduction,
    RowsByNumber,
    Sent,
    Signal,
    Task,
    TileCopy,
    TransformTiles,
    Vector,
    Work,
)
from plinth_hw.isa.operations import Engine
from plinth_sim.array import machine as simulated
from plinth_sim.array.machine import Activity, Flow, Wait

NOTHING = PaperCost()


class TaskByTask(Collected):
    """The workload of one step. A switch is taken to be a router like those of dies.

    Attributes
    ----------
    machine : plinth_sim.array.machine.SimulatedArray
        Dies and links for the simulator. Behind the array's links stand, as links of their own, each die's read and
        write channel, its receive path of tiles and its injection into the network, and the queue of tiles behind each
        link.
    activities, purposes, tasks
        What is simulated, what each of it is for, and whether it ends a task.
    links : int
        Links of the array.
    """

    def __init__(self, step: Step, routes: LinkRoutes, costs: DieCosts, speeds: Sequence[float]):
        super().__init__()
        array = routes.array
        self.step, self.array, self.costs = step, array, costs
        self.parameters, self.cycle = costs.parameters, costs.second
        links = routes.directed
        self.links = len(links)
        dies, beat = range(step.dies), float(self.parameters.beat_words)
        self._reads, self._writes, self._receive_paths, self._injects, self._queues = (
            len(links) + place * step.dies for place in range(5))
        named = list(zip(routes.names, routes.rates.tolist(), strict=True))
        named += [(f"die {die} {what}", rate) for what, rate in (
            ("reads", beat), ("writes", beat), ("receive path", 1.0), ("injects", float(self.parameters.flit_words)))
            for die in dies]
        self.machine = simulated.SimulatedArray(
            dies=tuple(simulated.SimulatedDie(words_per_second=costs.memory, vaults=VAULTS,
                                              speed=speed) for speed in speeds),
            links=(*(simulated.SimulatedLink(name=name, words_per_second=rate / self.cycle, within=place >= len(links),
                                              turns=len(links) <= place < len(links) + 2 * step.dies)
                     for place, (name, rate) in enumerate(named)),
                   *(simulated.SimulatedLink(name=f"tiles from {routes.node_name(node)} by port {port}",
                                             words_per_second=1.0 / self.cycle,
                                             queue=True, within=True) for node, port, _, _ in links)))
        self._fullest: dict[tuple[tuple[int, float], ...], float] = {}
        #: For each ring's message, what has joined it.
        self._joined: dict[tuple[tuple[int, ...], int], list[str]] = {}
        for die in dies:
            _Die(self, die)

    def path(self, die: int, other: int) -> list[int]:
        """Links that tiles take from a die to another."""
        return self.array.for_tiles.path(die, other)

    def flit_cycles(self, path: Sequence[int]) -> float:
        """Cycles of a flit on the slowest link of a way."""
        return self.parameters.flit_words / min(float(self.array.directed_rates[link]) for link in path)

    def channels(self, die: int) -> tuple[int, int, int]:
        """A die's read and write channel, and its receive path."""
        return self._reads + die, self._writes + die, self._receive_paths + die

    def injects(self, die: int) -> int:
        """The number of the link that stands for all that a die sends, by all its links together."""
        return self._injects + die

    def fullest(self, shares: tuple[tuple[int, float], ...]) -> float:
        """The load of the fullest link where each of several dies sends to all of them, in such shares; 0 of one
        die."""
        if shares not in self._fullest:
            loads: dict[int, float] = {}
            for die, _ in shares:
                for other, share in shares:
                    for link in self.path(die, other):
                        loads[link] = loads.get(link, 0.0) + share
            self._fullest[shares] = max(loads.values(), default=0.0)
        return self._fullest[shares]

    def queue(self, link: int) -> int:
        """The queue of tiles behind a link."""
        return self._queues + link

    def turn(self, words: float) -> float:
        """A turn at memory of so many words, in beats; of 0 those of a chunk."""
        return (words or self.parameters.chunk_words) / self.parameters.beat_words

    def join(self, work: Reduction, waits: Sequence[str], what: Purpose) -> str:
        """A die joins a ring's message, which goes on once all have; its name."""
        ring = work.ring
        joined = self._joined.setdefault((ring, work.message), [])
        joined += waits
        name = f"ring {ring[0]} of {len(ring)}, message {work.message}"
        if len(joined) == len(ring) * len(waits):
            self.add(self._ring(name, work, joined), what, 0)
        return name

    def _ring(self, name: str, work: Reduction, joined: Sequence[str]) -> Flow:
        ring, words, cycle = work.ring, float(work.target.columns), self.cycle
        size, waits, cost = len(ring), [Wait(counter) for counter in joined], self.costs.work(work)
        turn = self.turn(cost.turn)
        if size == 1:
            return Flow(name=name, seconds=cost.interval * cycle, latency=(cost.latency - cost.interval) * cycle,
                        links=np.array(self.channels(ring[0])[:2]), words=np.array([cost.reads, cost.writes]),
                        dies=np.array(ring), die_words=np.array([cost.words]), turn=turn, waits=waits, adds=cost.adds)
        share = work.phase.share * 2 * (size - 1) / size * words
        loads: dict[int, float] = {}
        for die, other in zip(ring, (*ring[1:], ring[0]), strict=True):
            for link in (self.injects(die), *self.array.path(die, other)):
                loads[link] = loads.get(link, 0.0) + share
            loads |= dict(zip(self.channels(die)[:2], (cost.reads, cost.writes), strict=True))
        latency = work.phase.share * self.costs.machine.ring_latency(size, self.array.ring_latency(np.array(ring)))
        return Flow(name=name, links=np.array(list(loads)), words=np.array(list(loads.values())),
                    latency=max(0.0, latency) * cycle, dies=np.array(ring),
                    die_words=np.full(size, cost.words), turn=turn, waits=waits, adds=cost.adds)


class _Descriptor(NamedTuple):
    """A descriptor of a task whose engine has started."""

    task: Task
    cost: WorkCost
    #: Its activity, and its number among those of the engine.
    name: str
    place: int
    #: Whether it is the task's last one.
    last: bool
    #: What it waits for, and the counter that it advances when it is done.
    waits: list[Wait]
    signals: list[str]


class _Die:
    """One die's program."""

    def __init__(self, workload: TaskByTask, die: int):
        self.workload, self.die, self.costs, self.cycle = workload, die, workload.costs, workload.cycle
        self.parameters = workload.parameters
        #: What is waited for: counters of this die and their values.
        self._accesses: Accesses[tuple[str, int]] = Accesses()
        self._arrived: dict[int, int] = {}
        self._counts = dict.fromkeys(Engine, 0)
        #: Counters that an engine advances when a task is done.
        self._ends = frozenset(map(self._done, Engine))
        #: What waits behind the transfer engine, as the last of it.
        self._behind: list[Wait] = []
        for number, operation in enumerate(workload.step.operations):
            self._purpose = purpose(workload.step, number, operation)
            for item in operation.tasks(die):
                ITEMS[type(item)](self, item)

    def _arrive(self, arrivals: Arrivals) -> None:
        """What other dies send: it lies in its buffers when their counter has come so far."""
        counter = self._arrivals(arrivals.exchange, arrivals.count)
        self._accesses.arrive(arrivals.buffers, (counter, self._arrived[arrivals.exchange]))

    def _arrivals(self, exchange: int, count: int) -> str:
        """The counter of an exchange, which others advance so many times more."""
        self._arrived[exchange] = self._arrived.get(exchange, 0) + count
        return f"{self.die}.exchange {exchange}"

    def _add(self, activity: Activity) -> None:
        self.workload.add(activity, self._purpose, sum(counter in self._ends for counter in activity.signals))

    # Control.

    def _task(self, task: Task) -> None:
        """Add a task, or the ones that a product is on its machine."""
        waits: dict[str, int] = {}
        for counter, value in self._accesses.needed(task.reads, task.writes):
            waits[counter] = max(waits.get(counter, 0), value)
        waits |= DOES[type(task.work)].needs(self, task.work)
        cost = self.costs.work(task.work)
        for part in range(cost.descriptors):
            self._descriptor(task, cost, part, waits)
        self._accesses.touch(task.reads, task.writes, (self._done(task.engine), self._counts[task.engine]))

    def _done(self, engine: Engine) -> str:
        """The counter of tasks that an engine has done."""
        return f"{self.die}.{engine.name} done"

    def _descriptor(self, task: Task, cost: WorkCost, part: int, needed: Mapping[str, int]) -> None:
        """One descriptor of a task: fetch, body and start, and what its engine does with it."""
        die, engine, place, cycle = self.die, task.engine, self._counts[task.engine], self.cycle
        self._counts[engine] += 1
        key = self.workload.named(f"{task.name}.{part}@{die}" if cost.descriptors > 1 else f"{task.name}@{die}")
        room, started = [], f"{die}.{engine.name} started"
        if place >= BODIES:
            room.append(Wait(started, place - BODIES + 1))
        if place >= HEADERS:
            room.append(Wait(self._done(engine), place - HEADERS + 1))
        self._add(simulated.EngineTask(name=f"{key} fetch", die=die, engine="fetch", seconds=FETCH_CYCLES * cycle,
                                       waits=room))
        self._add(simulated.EngineTask(name=f"{key} body", die=die, engine=f"{engine.name.lower()} body",
                                       seconds=body_cycles(self.parameters, engine) * cycle,
                                       waits=[Wait(f"{key} fetch")]))
        waits = [Wait(f"{key} body"), *(Wait(counter, value, self.costs.issue) for counter, value in needed.items())]
        if engine is Engine.VECTOR and place >= 2:
            # The half of the scratchpad is free once its stores have been read.
            waits.append(Wait(f"{die}.vector read", place - 1))
        kind = DOES[type(task.work)]
        if engine is Engine.COLLECTIVE:
            # Blocks begin in program order.
            waits.append(Wait(started, place))
        self._add(simulated.EngineTask(name=f"{key} start", die=die, engine=kind.unit(self, task.work), seconds=0.0,
                                       waits=waits, signals=[started]))
        kind.does(self, _Descriptor(task, cost, key, place, part == cost.descriptors - 1, [Wait(f"{key} start")],
                                    [self._done(engine)]), task.work)

    # What kinds of work wait for, beside what they touch.

    def _nothing(self, work: Any) -> Mapping[str, int]:
        return {}

    def _all_done(self, work: Signal) -> Mapping[str, int]:
        # A die without weights has nothing to wait for.
        return {self._done(work.engine): self._counts[work.engine]} if self._counts[work.engine] else {}

    def _arrived_before(self, work: Reduction) -> Mapping[str, int]:
        return {} if work.after is None else {f"{self.die}.exchange {work.after}": self._arrived[work.after]}

    def _block(self, work: Reduction) -> str:
        """The reduce block of a message."""
        return f"block {work.message % self.parameters.reduce_blocks}"

    # Engines.

    def _work(self, name: str, engine: str, seconds: float, reads: float, writes: float, waits: Sequence[Wait], *,
              latency: float = 0.0, signals: Sequence[str] = (), counted: PaperCost = NOTHING, turn: float = 0.0,
              exposed: float = 0.0) -> None:
        """Work of an engine that reads and writes words of its memory, whole beats of them; times in cycles."""
        read, write, _ = self.workload.channels(self.die)
        self._add(Flow(
            name=name, die=self.die, engine=engine, seconds=seconds * self.cycle, latency=latency * self.cycle,
            links=np.array([read, write]), words=np.array([reads, writes]), dies=np.array([self.die]),
            die_words=np.array([reads + writes]), turn=self.workload.turn(turn), exposed=exposed * self.cycle,
            waits=waits, signals=signals, adds=counted.adds, multiplies=counted.multiplies,
            sram_words=counted.sram_words))

    def _on_engine(self, descriptor: _Descriptor, work: Work) -> None:
        """Work of an engine that nothing leaves the die of: its part of a task."""
        cost, parts = descriptor.cost, descriptor.cost.parts
        counted = PaperCost(0.0, 0.0, 0.0, *(amount / parts for amount in self.costs.task(descriptor.task)[3:]))
        self._work(descriptor.name, descriptor.task.engine.name.lower(), cost.interval / parts,
                   (cost.reads + cost.added) / parts,
                   cost.writes / parts, descriptor.waits,
                   latency=max(0.0, cost.latency - cost.interval) if descriptor.last else 0.0,
                   signals=descriptor.signals, counted=counted, turn=cost.turn,
                   exposed=cost.exposed / parts)

    def _vector(self, descriptor: _Descriptor, work: Vector) -> None:
        cost, key, beat = descriptor.cost, descriptor.name, self.parameters.beat_words
        assert cost.stages is not None
        load, compute, store = cost.stages
        before, behind = latencies(load, store, cost.reads / beat, cost.writes / beat)
        self._work(f"{key} load", "vector load", load - before, cost.reads, 0.0, descriptor.waits, latency=before,
                   counted=self.costs.task(descriptor.task), turn=cost.turn)
        self._add(simulated.EngineTask(name=f"{key} compute", die=self.die, engine="vector",
                                       seconds=compute * self.cycle, waits=[Wait(f"{key} load")]))
        self._work(f"{key} store", "vector store", store - behind, 0.0, cost.writes, [Wait(f"{key} compute")],
                   signals=[f"{self.die}.vector read"], turn=cost.turn)
        self._add(Flow(name=key, latency=behind * self.cycle, waits=[Wait(f"{key} store")], signals=descriptor.signals))

    def _encode(self, descriptor: _Descriptor, work: Encode) -> None:
        """Strings for the die itself are as other work of its engine."""
        (self._on_engine if work.die is None else self._tile)(descriptor, work)

    def _tile(self, descriptor: _Descriptor, work: Sent) -> None:
        """Words that a die moves, to others or to places of its own."""
        die, workload, key, waits = self.die, self.workload, descriptor.name, descriptor.waits
        other = die if work.die is None else work.die
        path = workload.path(die, other)
        # What meets on the way is simulated: longer routes cost what one link does.
        flit_cycles = workload.flit_cycles(path) if path else None
        cost = descriptor.cost if flit_cycles is None else self.costs.work(work, flit_cycles)
        latency, interval = cost.latency, cost.interval
        if cost.begin and (path or work.members is not None):
            # Links have nothing of it until then.
            self._add(simulated.EngineTask(name=f"{key} begin", die=die, engine="transfer",
                                           seconds=cost.begin * self.cycle,
                                           waits=waits))
            waits, latency, interval = [Wait(f"{key} begin")], latency - cost.begin, interval - cost.begin
        if flit_cycles is not None:
            interval = max(interval, cost.flits * flit_cycles)
        if work.members is not None:
            whole = sum(share for _, share in work.members.shares)
            shares = [(to, share / whole) for to, share in work.members.shares]
        else:
            shares = [(other, 1.0)]
        self._sent(key, shares, (latency, interval), (cost.flits, cost.packets, cost.reads, cost.writes, cost.added),
                   PaperCost(adds=cost.adds), waits, descriptor.signals, cost.turn)
        behind = [f"{key} behind"] if self._waits_behind(shares) else []
        for to, _ in shares if work.die is not None or len(shares) > 1 else ():
            self._arrival([key, *([f"{key} held {to}"] if workload.path(die, to) else []), *behind], to, work.exchange)

    def _signal(self, descriptor: _Descriptor, work: Signal) -> None:
        self._add(simulated.EngineTask(name=descriptor.name, die=self.die, engine="transfer",
                                       seconds=descriptor.cost.interval * self.cycle, waits=descriptor.waits,
                                       signals=descriptor.signals))
        self._arrival([descriptor.name], work.die, work.exchange)

    def _waits_behind(self, shares: Sequence[tuple[int, float]]) -> bool:
        """Whether flits of what goes to dies wait behind the engine."""
        return bool(self.parameters.leaving_flits) and any(self.workload.path(self.die, other) for other, _ in shares)

    def _sent(self, key: str, shares: Sequence[tuple[int, float]], cycles: tuple[float, float],
              moved: tuple[float, ...], counted: PaperCost, waits: list[Wait], signals: list[str], turn: float) -> None:
        """Words that go to dies, each to its share: the engine, and all that they share on the way."""
        die, parameters, workload, cycle = self.die, self.parameters, self.workload, self.cycle
        (alone, row), (all_flits, all_packets, read, all_written, all_added) = cycles, moved
        reads, *_ = workload.channels(die)
        loads, memory = {reads: read}, {die: read}

        def add(where: dict[int, float], key: int, amount: float) -> None:
            where[key] = where.get(key, 0.0) + amount

        for other, share in shares:
            flits, packets, written, added = (share * amount for amount in (
                all_flits, all_packets, all_written, all_added))
            path = workload.path(die, other)
            # What buffers hold on the way lands in its own time: it does not hold the sender up.
            held = min(1.0, buffered(parameters, len(path)) / flits) if path else 0.0
            other_reads, writes, receives = workload.channels(other)
            add(memory, other, added + written * (1 - held))
            if path:
                add(loads, workload.injects(die), flits * parameters.flit_words)
                self._add(Flow(name=f"{key} held {other}", links=np.array([receives, writes]),
                               words=held * np.array([flits, written]), seconds=row * cycle, dies=np.array([other]),
                               die_words=np.array([held * written]), waits=waits))
            for place, link in enumerate(path):
                add(loads, link, flits * parameters.flit_words)
                # Packets that go on wait for their routes behind the link; those that go to several dies in turn, a few
                # flits to each, stand behind nothing for long.
                if len(shares) == 1:
                    looked_up = lookups(parameters, packets, flits, len(path))
                    add(loads, workload.queue(link), flits + (place + 1 < len(path)) * looked_up)
            # In the order of the way: what is full behind a queue holds up who stands in it.
            for link, amount in ((receives, flits * (1 - held)), (writes, written * (1 - held)),
                                 *(((other_reads, added),) if added else ())):
                add(loads, link, amount)
        together = all_flits * parameters.flit_words * workload.fullest(tuple(shares))
        if self._waits_behind(shares):
            # It goes on without the engine, in its turn.
            behind = min(1.0, waiting(parameters) / all_flits)
            self._add(Flow(name=f"{key} behind", links=np.array(list(loads)[1:]), words=behind * np.array(
                list(loads.values())[1:]), waits=[*waits, *self._behind], together=behind * together))
            self._behind = [Wait(f"{key} behind")]
            loads = {link: amount * (1 - behind * (link != reads)) for link, amount in loads.items()}
            together *= 1 - behind
        self._add(Flow(name=key, links=np.array(list(loads)), words=np.array(list(loads.values())), seconds=row * cycle,
                       turn=self.workload.turn(turn),
                       latency=max(0.0, alone - row) * cycle, dies=np.array(list(memory)),
                       die_words=np.array(list(memory.values())), die=die, engine="transfer", waits=waits,
                       together=together, signals=signals, adds=counted.adds))

    def _arrival(self, keys: Sequence[str], other: int, exchange: int) -> None:
        """A counter of another die advances once a task's words are there: after some activities."""
        latency = self.costs.machine.advance(int(self.workload.array.for_tiles.route_latencies[self.die, other]))
        self._add(Flow(name=f"{keys[0]} arrival {other}", latency=max(0.0, latency) * self.cycle,
                       waits=[Wait(key) for key in keys], signals=[f"{other}.exchange {exchange}"]))

    def _reduce(self, descriptor: _Descriptor, work: Reduction) -> None:
        """A reduction: the dies of a ring go on together once all have started."""
        name = self.workload.join(work, [wait.counter for wait in descriptor.waits], self._purpose)
        self._ended(descriptor, self._block(work), [Wait(name)])

    def _group_row(self, descriptor: _Descriptor, work: GroupRow) -> None:
        """A row of the group table, which is set beside the messages that are under way."""
        name = f"{descriptor.name} set"
        self._add(simulated.EngineTask(name=name, die=self.die, engine="group table",
                                       seconds=descriptor.cost.latency * self.cycle,
                                       waits=descriptor.waits))
        self._ended(descriptor, "group table", [Wait(name)])

    def _ended(self, descriptor: _Descriptor, unit: str, waits: Sequence[Wait]) -> None:
        """The end of a task of the collective engine, whose units work side by side: they end in order."""
        before = [Wait(self._done(Engine.COLLECTIVE), descriptor.place)] if descriptor.place else []
        self._add(simulated.EngineTask(name=descriptor.name, die=self.die, engine=unit, seconds=0.0,
                                       waits=[*waits, *before], signals=descriptor.signals))


class _Kind(NamedTuple):
    """What a die does with a kind of work: what its engine does with a descriptor, on which of its units it starts, and
    what it waits for beside what it touches."""

    does: Callable[[_Die, _Descriptor, Any], None]
    unit: Callable[[_Die, Any], str]
    needs: Callable[[_Die, Any], Mapping[str, int]] = _Die._nothing


def _on(unit: str) -> Callable[[_Die, Any], str]:
    return lambda die, work: unit


#: How a die's program takes a task, and what comes from other dies.
ITEMS: dict[type, Callable[[_Die, Any], None]] = {Task: _Die._task, Arrivals: _Die._arrive}
#: For each kind of work what a die does with it.
DOES: dict[type, _Kind] = {
    Multiplication: _Kind(_Die._on_engine, _on("matrix")),
    Vector: _Kind(_Die._vector, _on("vector load")),
    TileCopy: _Kind(_Die._tile, _on("transfer")),
    TransformTiles: _Kind(_Die._tile, _on("transfer")),
    LineTransform: _Kind(_Die._tile, _on("transfer")),
    Encode: _Kind(_Die._encode, _on("transfer")),
    Decode: _Kind(_Die._on_engine, _on("transfer")),
    Predict: _Kind(_Die._on_engine, _on("transfer")),
    RowsByNumber: _Kind(_Die._on_engine, _on("transfer")),
    LookupCopy: _Kind(_Die._tile, _on("transfer")),
    Reduction: _Kind(_Die._reduce, _Die._block, _Die._arrived_before),
    GroupRow: _Kind(_Die._group_row, _on("group table")),
    Optimisation: _Kind(_Die._on_engine, _on("optimiser")),
    Signal: _Kind(_Die._signal, _on("transfer"), _Die._all_done),
}
