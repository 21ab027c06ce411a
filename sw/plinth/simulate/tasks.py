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

from collections.abc import Sequence

import numpy as np

from plinth.model.array import Array
from plinth.plan.cost.copies import MEMORY_LATENCY, buffered, lookups, waiting
from plinth.plan.cost.machine import LINK_LATENCY
from plinth.plan.cost.tasks import matrix_cost, rows_cost, tile_copy, vector_cost
from plinth.plan.cost.transforms import transform_adds, transform_cost
from plinth.plan.cost.updates import message_words, optimiser_cost
from plinth.simulate.costs import VAULTS, Cost, DieCosts
from plinth.simulate.phases import Collected, phase
from plinth.step.accesses import Accesses
from plinth.step.step import Step
from plinth.step.tasks import (
    Arrivals,
    Decode,
    Encode,
    LineTransform,
    Multiplication,
    Optimisation,
    Phase,
    Predict,
    Reduction,
    Rows,
    Signal,
    Task,
    Tile,
    TileTransform,
    Vector,
)
from plinth_hw.isa.descriptors import DESCRIPTOR_WORDS
from plinth_hw.isa.operations import Engine
from plinth_sim.array import machine as simulated
from plinth_sim.array.machine import Activity, Flow, Wait

#: Headers and bodies that control holds for an engine.
HEADERS, QUEUED_BODIES = 8, 4
#: Cycles in which a word of a body goes to its engine.
BODY_WORD_CYCLES = 2
NOTHING = Cost()


class TaskByTask(Collected):
    """The workload of one step.

    Attributes
    ----------
    machine : plinth_sim.array.machine.Machine
        Dies and links for the simulator. Behind the array's links stand, as links of their own, each die's read and
        write channel, its receive path of tiles and its injection into the network, and the queue of tiles behind each
        link.
    activities, phases
        What is simulated, and what each of it is for.
    links : int
        Links of the array.
    """

    def __init__(self, step: Step, array: Array, costs: DieCosts, speeds: Sequence[float]):
        super().__init__()
        self.step, self.array, self.costs = step, array, costs
        self.parameters, self.cycle = costs.parameters, costs.second
        links = array.directed()
        self.links = len(links)
        self._number = {(die, port): number for number, (die, port, _, _) in enumerate(links)}
        self._peer = {(die, port): other for die, port, other, _ in links}
        self._ports, rates = array.route_table, array.directed_rates.tolist()
        dies, beat = range(step.dies), float(self.parameters.beat_words)
        self._reads, self._writes, self._receive_paths, self._injects, self._queues = (
            len(links) + place * step.dies for place in range(5))
        several = array.topology in ("torus", "links", "ring", "clusters")
        named = [(f"die {die} to die {other}" + (f" by port {port}" if several else ""), rate)
                 for (die, port, other, _), rate in zip(links, rates, strict=True)]
        named += [(f"die {die} {what}", rate) for what, rate in (
            ("reads", beat), ("writes", beat), ("receive path", 1.0), ("injects", float(self.parameters.flit_words)))
            for die in dies]
        self.machine = simulated.Machine(
            dies=tuple(simulated.Die(words_per_second=costs.memory, vaults=VAULTS, speed=speed) for speed in speeds),
            links=(*(simulated.Link(name=name, words_per_second=rate / self.cycle, within=place >= len(links))
                     for place, (name, rate) in enumerate(named)),
                   *(simulated.Link(name=f"tiles from die {die} by port {port}", words_per_second=1.0 / self.cycle,
                                    queue=True, within=True) for die, port, _, _ in links)))
        self._fullest: dict[tuple[tuple[int, float], ...], float] = {}
        #: For each ring's message, what has joined it.
        self._joined: dict[tuple[tuple[int, ...], int], list[str]] = {}
        for die in dies:
            _Die(self, die)

    def path(self, die: int, other: int) -> list[int]:
        """Links from a die to another."""
        found = []
        while die != other:
            port = self._ports[die][other]
            assert port is not None
            found.append(self._number[die, port])
            die = self._peer[die, port]
        return found

    def flit_cycles(self, path: Sequence[int]) -> float:
        """Cycles of a flit on the slowest link of a way."""
        return self.parameters.flit_words / min(float(self.array.directed_rates[link]) for link in path)

    def channels(self, die: int) -> tuple[int, int, int]:
        """A die's read and write channel, and its receive path."""
        return self._reads + die, self._writes + die, self._receive_paths + die

    def injects(self, die: int) -> int:
        """What a die sends, by all its links together."""
        return self._injects + die

    def fullest(self, shares: tuple[tuple[int, float], ...]) -> float:
        """Of what each of several dies sends to all of them, in such shares, that on the fullest link; 0 of one die."""
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

    def join(self, work: Reduction, waits: Sequence[str]) -> str:
        """A die joins a ring's message, which goes on once all have; its name."""
        ring = work.ring
        joined = self._joined.setdefault((ring, work.message), [])
        joined += waits
        name = f"ring {ring[0]} of {len(ring)}, message {work.message}"
        if len(joined) == len(ring) * len(waits):
            self.add(self._ring(name, work, joined), "reduction")
        return name

    def _ring(self, name: str, work: Reduction, joined: Sequence[str]) -> Flow:
        ring, words, cycle = work.ring, float(work.target.columns), self.cycle
        size, moved = len(ring), sum(message_words(work.phase, words, len(ring)))
        waits, control = [Wait(one) for one in joined], self.costs.machine.control
        if size == 1:
            return Flow(name=name, seconds=words / self.parameters.flit_words * cycle,
                        latency=control["reduce"] * cycle, waits=waits, dies=np.array(ring),
                        die_words=np.array([moved]), adds=words)
        share = work.phase.share * 2 * (size - 1) / size * words
        loads: dict[int, float] = {}
        for die, other in zip(ring, (*ring[1:], ring[0]), strict=True):
            path = self.path(die, other)
            for link in (self.injects(die), *path):
                loads[link] = loads.get(link, 0.0) + share
        latency = work.phase.share * self.costs.machine.ring_latency(size, self.array.ring_latency(np.array(ring)))
        return Flow(name=name, links=np.array(list(loads)), words=np.array(list(loads.values())),
                    latency=max(0.0, latency) * cycle, dies=np.array(ring),
                    die_words=np.full(size, moved), waits=waits,
                    adds=0.0 if work.phase is Phase.GATHER else words * (size - 1))


class _Die:
    """One die's program."""

    def __init__(self, given: TaskByTask, die: int):
        self.given, self.die, self.costs, self.cycle = given, die, given.costs, given.cycle
        self.parameters, self.control = given.parameters, given.costs.machine.control
        #: What is waited for: counters of this die and their values.
        self._accesses: Accesses[tuple[str, int]] = Accesses()
        self._arrived: dict[int, int] = {}
        self._counts = dict.fromkeys(Engine, 0)
        self._phase, self._node = "", ""
        #: What waits behind the transfer engine, as the last of it.
        self._behind: list[Wait] = []
        for number, operation in enumerate(given.step.operations):
            self._phase = phase(given.step, number, operation)
            for item in operation.tasks(die):
                if isinstance(item, Arrivals):
                    self._accesses.arrive(item.buffers, (self._arrivals(item.exchange, item.count), self._arrived[
                        item.exchange]))
                else:
                    self._task(item)

    def _arrivals(self, exchange: int, count: int) -> str:
        """The counter of an exchange, which others advance so many times more."""
        self._arrived[exchange] = self._arrived.get(exchange, 0) + count
        return f"{self.die}.exchange {exchange}"

    def _add(self, activity: Activity, phase: str = "") -> None:
        self.given.add(activity, phase or self._phase)

    # Control.

    def _task(self, task: Task) -> None:
        """A task, or the ones that a product is on its machine."""
        waits: dict[str, int] = {}
        for counter, value in self._accesses.needed(task.reads, task.writes):
            waits[counter] = max(waits.get(counter, 0), value)
        work = task.work
        if isinstance(work, Signal):
            # A die without weights has nothing to wait for.
            if self._counts[work.engine]:
                waits[self._done(work.engine)] = self._counts[work.engine]
        elif isinstance(work, Reduction) and work.after is not None:
            waits[f"{self.die}.exchange {work.after}"] = self._arrived[work.after]
        product = matrix_cost(self.costs.machine, work) if isinstance(work, Multiplication) else None
        parts = product.tasks if product else work.descriptors if isinstance(work, TileTransform) else 1
        for part in range(parts):
            self._one(task, part, parts, waits)
        self._accesses.touch(task.reads, task.writes, (self._done(task.engine), self._counts[task.engine]))

    def _done(self, engine: Engine) -> str:
        """The counter of tasks that an engine has done."""
        return f"{self.die}.{engine.name} done"

    def _one(self, task: Task, part: int, parts: int, needed: dict[str, int]) -> None:
        """A descriptor."""
        die, engine, place, cycle = self.die, task.engine, self._counts[task.engine], self.cycle
        self._counts[engine] += 1
        key = self.given.named(f"{task.name}.{part}@{die}" if parts > 1 else f"{task.name}@{die}")
        room, started = [], f"{die}.{engine.name} started"
        if place >= QUEUED_BODIES:
            room.append(Wait(started, place - QUEUED_BODIES + 1))
        if place >= HEADERS:
            room.append(Wait(self._done(engine), place - HEADERS + 1))
        self._add(simulated.Task(name=f"{key} fetch", die=die, engine="fetch", seconds=DESCRIPTOR_WORDS * cycle,
                                 waits=room))
        self._add(simulated.Task(name=f"{key} body", die=die, engine=f"{engine.name.lower()} body",
                                 seconds=BODY_WORD_CYCLES * self.parameters.body_words(engine) * cycle,
                                 waits=[Wait(f"{key} fetch")]))
        waits = [Wait(f"{key} body"), *(Wait(counter, value, self.costs.issue) for counter, value in needed.items())]
        if engine is Engine.VECTOR and place >= 2:
            # The half of the scratchpad is free once its stores have been read.
            waits.append(Wait(f"{die}.vector read", place - 1))
        work = task.work
        unit = {Engine.MATRIX: "matrix", Engine.VECTOR: "vector load", Engine.TRANSFER: "transfer",
                Engine.OPTIMISER: "optimiser"}.get(engine, "")
        if isinstance(work, Reduction):
            # Blocks begin in program order.
            unit = f"block {work.message % self.parameters.reduce_blocks}"
            waits.append(Wait(started, place))
        self._add(simulated.Task(name=f"{key} start", die=die, engine=unit, seconds=0.0, waits=waits,
                                 signals=[started]))
        after, signals = [Wait(f"{key} start")], [self._done(engine)]
        if isinstance(work, Multiplication):
            self._multiply(key, task, work, parts, part, after, signals)
        elif isinstance(work, Vector):
            self._vector(key, task, work, after, signals)
        elif isinstance(work, (Decode, Predict)) or (isinstance(work, Encode) and work.die is None):
            coded = self.costs.coded(work)
            self._work(key, "transfer", coded.cycles[1], coded.reads, coded.writes, after, signals=signals,
                       counted=self.costs.task(task))
        elif isinstance(work, (Tile, TileTransform, LineTransform, Encode)):
            self._tile(key, work, after, signals)
        elif isinstance(work, Rows):
            self._rows(key, work, after, signals)
        elif isinstance(work, Optimisation):
            found = optimiser_cost(self.parameters, work)
            self._work(key, "optimiser", found.cycles[1], found.reads, found.writes, after, signals=signals,
                       counted=self.costs.task(task))
        elif isinstance(work, Signal):
            self._add(simulated.Task(name=key, die=die, engine="transfer", seconds=MEMORY_LATENCY * cycle, waits=after,
                                     signals=signals))
            self._arrival([key], work.die, work.exchange)
        else:
            self._reduce(key, place, work, after, signals)

    # Engines.

    def _work(self, name: str, engine: str, seconds: float, reads: float, writes: float, waits: Sequence[Wait], *,
              latency: float = 0.0, signals: Sequence[str] = (), counted: Cost = NOTHING) -> None:
        """Work of an engine that reads and writes words of its memory, whole beats of them; times in cycles."""
        read, write, _ = self.given.channels(self.die)
        self._add(Flow(
            name=name, die=self.die, engine=engine, seconds=seconds * self.cycle, latency=latency * self.cycle,
            links=np.array([read, write]), words=np.array([reads, writes]), dies=np.array([self.die]),
            die_words=np.array([reads + writes]), waits=waits, signals=signals, adds=counted.adds,
            multiplies=counted.multiplies, sram_words=counted.sram_words))

    def _multiply(self, key: str, task: Task, work: Multiplication, parts: int, part: int, waits: list[Wait],
                  signals: list[str]) -> None:
        found, counted = matrix_cost(self.costs.machine, work), self.costs.task(task)
        latency = max(0.0, found.alone - found.row) if part == parts - 1 else 0.0
        self._work(key, "matrix", found.row / parts, found.reads / parts, found.writes / parts, waits, latency=latency,
                   signals=signals, counted=Cost(0.0, 0.0, 0.0, *(one / parts for one in counted[3:])))

    def _vector(self, key: str, task: Task, work: Vector, waits: list[Wait], signals: list[str]) -> None:
        found, beat = vector_cost(self.costs.machine, work), self.parameters.beat_words
        before = MEMORY_LATENCY * found.load / (MEMORY_LATENCY + 5 + found.reads / beat)
        behind = MEMORY_LATENCY * found.store / (MEMORY_LATENCY + found.writes / beat)
        self._work(f"{key} load", "vector load", found.load - before, found.reads, 0.0, waits, latency=before,
                   counted=self.costs.task(task))
        self._add(simulated.Task(name=f"{key} compute", die=self.die, engine="vector",
                                 seconds=found.compute * self.cycle, waits=[Wait(f"{key} load")]))
        self._work(f"{key} store", "vector store", found.store - behind, 0.0, found.writes, [Wait(f"{key} compute")],
                   signals=[f"{self.die}.vector read"])
        self._add(Flow(name=key, latency=behind * self.cycle, waits=[Wait(f"{key} store")], signals=signals))

    def _rows(self, key: str, work: Rows, waits: list[Wait], signals: list[str]) -> None:
        (alone, row), words = rows_cost(self.costs.machine, work)
        moved = words / (2 + work.added)
        self._work(key, "transfer", row, words - moved, moved, waits, latency=max(0.0, alone - row), signals=signals,
                   counted=Cost(adds=float(work.added * work.rows.rows * work.rows.columns)))

    def _tile(self, key: str, work: Tile | TileTransform | LineTransform | Encode, waits: list[Wait],
              signals: list[str]) -> None:
        die, parameters, given = self.die, self.parameters, self.given
        other = die if work.die is None else work.die
        path, counted = given.path(die, other), Cost()
        # What meets on the way is simulated: longer ways cost what one link does.
        if isinstance(work, Tile) and work.members is None:
            copy = tile_copy(self.costs.machine, work)
            flits, packets, read, written = (one(parameters) for one in (
                copy.flits, copy.packets, copy.read, copy.written))
            alone, row = self.costs.machine.copy(copy, flits * given.flit_cycles(path) if path else None)
        elif isinstance(work, Encode):
            coded = self.costs.coded(work)
            alone, row = coded.cycles
            flits, packets = coded.sent / parameters.flit_words, coded.sent / parameters.chunk_words + work.runs.rows
            read, written = coded.reads, coded.writes
            row = max(row, flits * given.flit_cycles(path))
        else:
            found = transform_cost(parameters, work)
            (alone, row), flits, packets, read, written = (found.cycles, found.flits, found.packets, found.reads,
                                                           found.writes)
            counted = counted if isinstance(work, Tile) else Cost(adds=transform_adds(work))
            if path or work.members is not None:
                # Links have nothing of it until then.
                self._add(simulated.Task(name=f"{key} begin", die=die, engine="transfer",
                                         seconds=found.begin * self.cycle, waits=waits))
                waits, alone, row = [Wait(f"{key} begin")], alone - found.begin, row - found.begin
            row = max(row, flits * given.flit_cycles(path)) if path else row
        members = None if isinstance(work, Encode) else work.members
        if members is not None:
            whole = sum(share for _, share in members.shares)
            shares = [(to, share / whole) for to, share in members.shares]
        else:
            shares = [(other, 1.0)]
        self._sent(key, shares, (alone, row), (flits, packets, read, written), counted, waits, signals)
        behind = [f"{key} behind"] if self._waits_behind(shares) else []
        for to, _ in shares if work.die is not None or len(shares) > 1 else ():
            self._arrival([key, *([f"{key} held {to}"] if given.path(die, to) else []), *behind], to, work.exchange)

    def _waits_behind(self, shares: Sequence[tuple[int, float]]) -> bool:
        """Whether flits of what goes to dies wait behind the engine."""
        return bool(self.parameters.leaving_flits) and any(self.given.path(self.die, other) for other, _ in shares)

    def _sent(self, key: str, shares: Sequence[tuple[int, float]], cycles: tuple[float, float],
              moved: tuple[float, ...], counted: Cost, waits: list[Wait], signals: list[str]) -> None:
        """Words that go to dies, each to its share: the engine, and all that they share on the way."""
        die, parameters, given, cycle = self.die, self.parameters, self.given, self.cycle
        (alone, row), (all_flits, all_packets, read, all_written) = cycles, moved
        reads, *_ = given.channels(die)
        loads, memory = {reads: read}, {die: read}

        def add(where: dict[int, float], key: int, amount: float) -> None:
            where[key] = where.get(key, 0.0) + amount

        for other, share in shares:
            flits, packets, written = (share * one for one in (all_flits, all_packets, all_written))
            path = given.path(die, other)
            # What buffers hold on the way lands in its own time: it does not hold the sender up.
            held = min(1.0, buffered(parameters, len(path)) / flits) if path else 0.0
            _, writes, receives = given.channels(other)
            add(memory, other, written * (1 - held))
            if path:
                add(loads, given.injects(die), flits * parameters.flit_words)
                self._add(Flow(name=f"{key} held {other}", links=np.array([receives, writes]),
                               words=held * np.array([flits, written]), seconds=row * cycle, dies=np.array([other]),
                               die_words=np.array([held * written]), waits=waits))
            for place, link in enumerate(path):
                add(loads, link, flits * parameters.flit_words)
                # Packets that go on wait for their routes behind the link; those that go to several dies in turn, a few
                # flits to each, stand behind nothing for long.
                if len(shares) == 1:
                    looked_up = lookups(parameters, packets, flits, len(path))
                    add(loads, given.queue(link), flits + (place + 1 < len(path)) * looked_up)
            # In the order of the way: what is full behind a queue holds up who stands in it.
            for link, amount in ((receives, flits * (1 - held)), (writes, written * (1 - held))):
                add(loads, link, amount)
        together = all_flits * parameters.flit_words * given.fullest(tuple(shares))
        if self._waits_behind(shares):
            # It goes on without the engine, in its turn.
            behind = min(1.0, waiting(parameters) / all_flits)
            self._add(Flow(name=f"{key} behind", links=np.array(list(loads)[1:]), words=behind * np.array(
                list(loads.values())[1:]), waits=[*waits, *self._behind], together=behind * together))
            self._behind = [Wait(f"{key} behind")]
            loads = {link: amount * (1 - behind * (link != reads)) for link, amount in loads.items()}
            together *= 1 - behind
        self._add(Flow(name=key, links=np.array(list(loads)), words=np.array(list(loads.values())), seconds=row * cycle,
                       latency=max(0.0, alone - row) * cycle, dies=np.array(list(memory)),
                       die_words=np.array(list(memory.values())), die=die, engine="transfer", waits=waits,
                       together=together, signals=signals, adds=counted.adds))

    def _arrival(self, keys: Sequence[str], other: int, exchange: int) -> None:
        """A counter of another die advances once a task's words are there: after some activities."""
        latency = (self.control["arrival"] - self.control["issue"]
                   + int(self.given.array.route_latencies[self.die, other]) - LINK_LATENCY)
        self._add(Flow(name=f"{keys[0]} arrival {other}", latency=max(0.0, latency) * self.cycle,
                       waits=[Wait(key) for key in keys], signals=[f"{other}.exchange {exchange}"]))

    def _reduce(self, key: str, place: int, work: Reduction, waits: list[Wait], signals: list[str]) -> None:
        """A reduction: the dies of a ring go on together once all have started."""
        name = self.given.join(work, [one.counter for one in waits])
        # Tasks of an engine end in order.
        before = [Wait(self._done(Engine.COLLECTIVE), place)] if place else []
        self._add(simulated.Task(name=key, die=self.die, engine=f"block {work.message % self.parameters.reduce_blocks}",
                                 seconds=0.0, waits=[Wait(name), *before], signals=signals))
