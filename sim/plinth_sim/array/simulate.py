"""The event loop.

::

    waits met --> head of its engine's queue --> holds the engine, shares memory and links --> latency --> done
                  (flows without an engine start at once)                                     raises counters

Between two events every activity goes on at a constant pace. An event changes paces only where it touches a resource
that its users would fill: such resources, and the activities on them, form connected parts, and only the parts touched
are shared anew (:mod:`sharing`). Events closer than a relative 1e-12 happen together.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from plinth_sim.array.energy import Counts
from plinth_sim.array.machine import Activity, EngineTask, Floats, Flow, Integers, SimulatedArray, check
from plinth_sim.array.sharing import share

#: Relative slack of times, and of a resource that counts as full.
SLACK = 1e-12
FULL = 1 + 1e-9
#: How much less others get than those that go on to other resources, who have no more than their turns gave them.
BEHIND = 1e3
#: Events between two calls of ``progress``.
REPORTED = 4096
#: Longest cycle that a message lists.
LISTED = 8
_FREE, _DONE, _MET = range(3)


@dataclass(frozen=True, kw_only=True)
class EngineTime:
    """Where the seconds of an engine went; they add up to the step."""

    #: Work as fast as it goes alone.
    busy: float
    #: What sharing memory or links made it longer.
    shared: float
    #: The next task waited for others.
    waiting: float
    #: Behind the last task.
    idle: float


@dataclass(frozen=True, kw_only=True)
class SimulatedRun:
    """What was simulated."""

    #: Until everything is done.
    seconds: float
    #: Of each task and flow, in the order given: when it started, let go of its engine, and was done.
    starts: Floats
    ends: Floats
    dones: Floats
    engines: dict[tuple[int, str], EngineTime]
    #: Words that each link carried, and each die's memory moved.
    link_words: Floats
    memory_words: Floats
    counts: Counts
    events: int
    #: Of each task and flow, the seconds for which it holds its engine as fast as it goes alone; 0 without an engine.
    alone: Floats
    #: Of each task and flow, the one whose end let it start: the last that it waited for, or the one before it on its
    #: engine; -1: it started by itself.
    causes: Integers

    @property
    def critical_seconds(self) -> Floats:
        """Of each task and flow, how long the step waits for it alone; they add up to the step.

        The critical path leads back from the task that is done last, from each task to the one that let it start. A
        task on it has the time from its own start to that of the next one on the path, or to the end of the step.
        """
        seconds = np.zeros(len(self.dones))
        task, until = int(self.dones.argmax()) if len(seconds) else -1, self.seconds
        while task >= 0:
            cause = int(self.causes[task])
            begin = float(self.starts[task]) if cause >= 0 else 0.0
            seconds[task] = until - begin
            task, until = cause, begin
        return seconds


def simulate(machine: SimulatedArray, activities: Sequence[Activity],
             progress: Callable[[int, int], None] | None = None, tasks: Sequence[int] | None = None) -> SimulatedRun:
    """Simulate a step.

    Parameters
    ----------
    machine : Machine
        Dies and links.
    activities : sequence of Task and Flow
        Those of an engine in its order.
    progress : callable, optional
        Told how many of how many are done, now and then.
    tasks : sequence of int, optional
        How many ``progress`` counts when each of the activities is done; default: one each.

    Raises
    ------
    ValueError
        As :func:`plinth_sim.array.machine.check`, and if tasks wait for each other in a cycle; it is named.
    """
    check(machine, activities)
    return _Run(machine, activities, tasks).run(progress)


class _Run:
    """One simulation."""

    def __init__(self, machine: SimulatedArray, activities: Sequence[Activity], tasks: Sequence[int] | None) -> None:
        self.machine, self.activities = machine, activities
        count = len(activities)
        self.tasks, self.tasks_done = tasks or [1] * count, 0
        self.causes = [-1] * count
        self.now = 0.0
        self.events: list[tuple[float, int, int, int]] = []
        self.starts, self.ends, self.dones = [-1.0] * count, [-1.0] * count, [-1.0] * count
        self._resources()
        # Paces.
        self.left, self.since, self.pace, self.version = [1.0] * count, [0.0] * count, [0.0] * count, [0] * count
        self.touched: dict[int, None] = {}
        self.fresh: list[int] = []
        # Engines.
        keys: dict[tuple[int, str], int] = {}
        self.engine = [-1 if activity.die is None or not activity.engine else
                       keys.setdefault((activity.die, activity.engine), len(keys)) for activity in activities]
        self.engines = list(keys)
        self.queues: list[list[int]] = [[] for _ in keys]
        for number, engine in enumerate(self.engine):
            if engine >= 0:
                self.queues[engine].append(number)
        self.place, self.held, self.freed = [0] * len(keys), [False] * len(keys), [0.0] * len(keys)
        self.busy, self.shared, self.waiting = [0.0] * len(keys), [0.0] * len(keys), [0.0] * len(keys)
        self._counters()

    def _resources(self) -> None:
        """Links, then memories: one resource a die, or one a vault where a task names vaults."""
        machine = self.machine
        self.capacity = [link.words_per_second for link in machine.links]
        self.turns = [link.turns for link in machine.links]
        self.queue = [link.queue for link in machine.links]
        self.queued = any(self.queue)
        uneven = {task.die for task in self.activities if isinstance(task, EngineTask) and task.vaults}
        memories: list[range] = []
        for number, die in enumerate(machine.dies):
            parts = die.vaults if number in uneven else 1
            memories.append(range(len(self.capacity), len(self.capacity) + parts))
            self.capacity += [die.words_per_second / parts] * parts
        self.queue += [False] * (len(self.capacity) - len(self.queue))
        self.turns += [True] * (len(self.capacity) - len(self.turns))
        self.demand = [0.0] * len(self.capacity)
        self.users: list[dict[int, float]] = [{} for _ in self.capacity]
        #: Whether a resource's users depend on each other: they would fill it, or stand in one queue.
        self.many = [False] * len(self.capacity)
        ways: list[dict[int, float]] = []
        capacity = self.capacity
        self.limit: list[float] = []
        #: The pace that an activity wants of its resources while its words move, and seconds that it takes more at half
        #: of it.
        self.top: list[float] = []
        self.exposed: list[float] = []
        #: Words by which a rate is counted; where requests are served in turn; and whether it has others to go through.
        self.weight: list[float] = []
        self.turn_weight: list[float] = []
        self.away: list[bool] = []
        self.latency: list[float] = []
        for activity in self.activities:
            way: dict[int, float] = {}
            speed = 1.0
            if isinstance(activity, EngineTask):
                speed = machine.dies[activity.die].speed
                parts_of = memories[activity.die]
                if activity.words:
                    way = dict.fromkeys(parts_of, activity.words / len(parts_of))
                for vault, words in activity.vaults.items():
                    if words:
                        way[parts_of[vault]] = way.get(parts_of[vault], 0.0) + words
            else:
                way = {link: words for link, words in zip(activity.links.tolist(), activity.words.tolist(), strict=True)
                       if words}
                for number, words in zip(activity.dies.tolist(), activity.die_words.tolist(), strict=True):
                    if words:
                        way |= dict.fromkeys(memories[number], words / len(memories[number]))
            moved = max((words / capacity[resource] for resource, words in way.items()), default=0.0)
            seconds = max(activity.seconds / speed, moved)
            ways.append(way)
            self.limit.append(1 / seconds if seconds else float("inf"))
            alone, turn, exposed = max(way.values(), default=1.0), 1.0, 0.0
            if isinstance(activity, Flow):
                alone, turn, exposed = max(alone, activity.together), activity.turn, activity.exposed / speed
            self.weight.append(alone)
            self.turn_weight.append(max((words for resource, words in way.items() if self.turns[resource]),
                                        default=alone) / turn)
            self.away.append(not all(self.turns[resource] for resource in way))
            self.exposed.append(exposed)
            self.top.append(1 / moved if exposed and moved else self.limit[-1])
            self.latency.append(activity.latency / speed)
        if alike := self._alike(ways):
            ways = [way if alike.isdisjoint(way) else {resource: words for resource, words in way.items()
                                                       if resource not in alike} for way in ways]
        self.on = list(map(tuple, ways))
        self.loads = [tuple(way.values()) for way in ways]

    def _alike(self, ways: Sequence[dict[int, float]]) -> set[int]:
        """Resources that are as full as an earlier one whatever goes on: the same activities take the same shares of
        both, in turn or not. The earlier one stands for them."""
        shares: list[list[float]] = [[] for _ in self.capacity]
        capacity = self.capacity
        for number, way in enumerate(ways):
            for resource, words in way.items():
                shares[resource] += (number, words / capacity[resource])
        known: set[tuple[float, ...]] = set()
        alike: set[int] = set()
        for resource, some in enumerate(shares):
            mine = (self.turns[resource], *some)
            if mine in known and not self.queue[resource]:
                alike.add(resource)
            known.add(mine)
        return alike

    def _counters(self) -> None:
        """Who raises and who waits for what; waiters by falling count."""
        numbers: dict[str, int] = {}
        for activity in self.activities:
            numbers.setdefault(activity.name, len(numbers))
        self.raises: list[tuple[int, ...]] = []
        for activity in self.activities:
            self.raises.append((numbers[activity.name], *[numbers.setdefault(counter, len(numbers))
                                                          for counter in activity.signals]))
        self.value = [0] * len(numbers)
        self.waiters: list[list[tuple[int, int, float]]] = [[] for _ in numbers]
        self.pending = [0] * len(self.activities)
        for number, activity in enumerate(self.activities):
            pending = 0
            for counter, reaches, delay in activity.waits:
                if reaches > 0 or delay:
                    pending += 1
                    self.waiters[numbers[counter]].append((max(0, reaches), number, delay))
            self.pending[number] = pending
        for waiters in self.waiters:
            waiters.sort(reverse=True)
        self.numbers = numbers

    # Events.

    def run(self, progress: Callable[[int, int], None] | None) -> SimulatedRun:
        """Until nothing happens any more."""
        count, done, events, reported, tasks = len(self.activities), 0, 0, 0, sum(self.tasks)
        for counter, waiters in enumerate(self.waiters):
            if waiters and waiters[-1][0] == 0:
                self._release(counter, -1)
        for number in range(count):
            if not self.pending[number] and self.engine[number] < 0:
                self._start(number, -1)
        for engine in range(len(self.engines)):
            self._next(engine, -1)
        self._share()
        heap = self.events
        while heap:
            self.now = max(self.now, heap[0][0])
            horizon = self.now * (1 + SLACK)
            while heap and heap[0][0] <= horizon:
                # Of a pace its version, of a wait that is met the activity behind it.
                _, kind, number, mark = heappop(heap)
                if kind == _FREE:
                    if mark != self.version[number]:
                        continue
                    self._end(number)
                    if self.latency[number]:
                        heappush(heap, (self.now + self.latency[number], _DONE, number, 0))
                    else:
                        done += 1
                        self._done(number)
                elif kind == _DONE:
                    done += 1
                    self._done(number)
                else:
                    self._met(number, mark)
                events += 1
            if self.touched or self.fresh:
                self._share()
            if progress is not None and events - reported >= REPORTED:
                reported = events
                progress(self.tasks_done, tasks)
            if len(heap) > 64 and len(heap) > 4 * (count - done) + 64:
                heap[:] = [event for event in heap if event[1] != _FREE or event[3] == self.version[event[2]]]
                heapify(heap)
        if done < count:
            raise ValueError(self._cycle())
        return self._result(events)

    def _release(self, counter: int, cause: int) -> None:
        """Waits for a counter that its value meets, once the activity ``cause`` has raised it."""
        waiters, value = self.waiters[counter], self.value[counter]
        while waiters and waiters[-1][0] <= value:
            _, number, delay = waiters.pop()
            if delay:
                heappush(self.events, (self.now + delay, _MET, number, cause))
            else:
                self._met(number, cause)

    def _done(self, number: int) -> None:
        self.dones[number] = self.now
        self.tasks_done += self.tasks[number]
        for counter in self.raises[number]:
            self.value[counter] += 1
            if self.waiters[counter]:
                self._release(counter, number)

    def _met(self, number: int, cause: int) -> None:
        """One wait fewer, by what the activity ``cause`` has raised."""
        self.pending[number] -= 1
        if not self.pending[number]:
            engine = self.engine[number]
            if engine < 0:
                self._start(number, cause)
            else:
                self._next(engine, cause)

    def _next(self, engine: int, cause: int) -> None:
        """Start the next task of an engine, if the engine is free and the task's waits are met, the last of them by
        the activity ``cause``."""
        queue, place = self.queues[engine], self.place[engine]
        if not self.held[engine] and place < len(queue) and not self.pending[queue[place]]:
            self.held[engine] = True
            self.waiting[engine] += self.now - self.freed[engine]
            self._start(queue[place], cause)

    def _start(self, number: int, cause: int) -> None:
        if self.starts[number] >= 0:
            return
        self.starts[number] = self.since[number] = self.now
        self.causes[number] = cause
        self.fresh.append(number)
        top = self.top[number]
        for resource, words in zip(self.on[number], self.loads[number], strict=True):
            self.users[resource][number] = words
            self.demand[resource] += words * top
            if self._depend(resource):
                self.many[resource] = True
                self.touched[resource] = None

    def _end(self, number: int) -> None:
        """Let go of resources and engine."""
        self.ends[number] = self.now
        self.version[number] += 1
        top = self.top[number]
        for resource, words in zip(self.on[number], self.loads[number], strict=True):
            users = self.users[resource]
            del users[number]
            if users:
                self.demand[resource] -= words * top
                if self.many[resource]:
                    self.touched[resource] = None
                    self.many[resource] = self._depend(resource)
            else:
                self.demand[resource], self.many[resource] = 0.0, False
        engine = self.engine[number]
        if engine >= 0:
            alone = 1 / self.limit[number]
            self.busy[engine] += alone
            self.shared[engine] += max(0.0, self.now - self.starts[number] - alone)
            self.held[engine] = False
            self.freed[engine] = self.now
            self.place[engine] += 1
            self._next(engine, number)

    # Sharing.

    def _depend(self, resource: int) -> bool:
        """Whether a resource's users depend on each other now."""
        return (self.demand[resource] > self.capacity[resource] * FULL
                or (self.queue[resource] and len(self.users[resource]) > 1))

    def _share(self) -> None:
        """New paces where something changed."""
        paced: set[int] = set()
        seen: set[int] = set()
        for first in self.touched:
            if first in seen:
                continue
            part: list[int] = []
            full: list[int] = []
            stack = [first]
            seen.add(first)
            while stack:
                resource = stack.pop()
                if self.many[resource]:
                    full.append(resource)
                for user in self.users[resource]:
                    if user not in paced:
                        paced.add(user)
                        part.append(user)
                        for other in self.on[user]:
                            if self.many[other] and other not in seen:
                                seen.add(other)
                                stack.append(other)
            self._fill(sorted(part), sorted(full))
        self.touched.clear()
        for number in self.fresh:
            if number not in paced:
                self._go(number, self.limit[number])
        self.fresh.clear()

    def _fill(self, part: list[int], full: list[int]) -> None:
        if full:
            # Whole ways through queues, for who enters where counts.
            if self.queued:
                full = sorted({*full, *(resource for user in part for resource in self.on[user]
                                        if self.queue[resource])})
            index = {number: place for place, number in enumerate(part)}
            place = {resource: place for place, resource in enumerate(full)}
            queues = {place[resource] for resource in full if self.queue[resource]}
            ways = [[place[resource] for resource in self.on[user] if resource in place] if self.queued else []
                    for user in part]
            loads = [{index[user]: words for user, words in self.users[resource].items()} for resource in full]
            capacities = [self.capacity[resource] for resource in full]
            served = [number for number, resource in enumerate(full) if self.turns[resource]]
            if not served:
                paces = share([self.limit[user] for user in part], [self.weight[user] for user in part], loads,
                              capacities, ways, queues)
            else:
                tops = [self.top[user] for user in part]
                for last in (False, True):
                    limits, weights = self._served(part, tops, [loads[number] for number in served],
                                                   [capacities[number] for number in served])
                    paces = share(limits, weights, loads, capacities, ways, queues)
                    held = [number for number, user in enumerate(part)
                            if self.away[user] and paces[number] < limits[number] * (1 - SLACK)]
                    if last or not held:
                        break
                    # What others hold up further on leaves what it cannot use.
                    for number in held:
                        tops[number] = paces[number]
        else:
            paces = [self.limit[user] for user in part]
        for user, pace in zip(part, paces, strict=True):
            self._go(user, pace)

    def _served(self, part: list[int], tops: list[float], loads: list[dict[int, float]], capacities: list[float]
                ) -> tuple[list[float], list[float]]:
        """Limits and weights by which activities share resources, some of which serve requests in turn.

        There each gets its share by turns. What goes on to others gets no more of these, and takes what it gets before
        those that have nowhere else to go, and that take the rest by turns.
        """
        turns = [self.turn_weight[user] for user in part]
        served = share(tops, turns, loads, capacities)
        limits, weights = [], []
        for user, pace, turn in zip(part, served, turns, strict=True):
            limit = self._slowed(user, pace)
            limits.append(min(limit, pace) if self.away[user] else limit)
            weights.append(self.weight[user] if self.away[user] else turn * BEHIND)
        return limits, weights

    def _slowed(self, number: int, pace: float) -> float:
        """The pace at which an activity goes on that gets so much of its resources while its words move, at most."""
        exposed, limit = self.exposed[number], self.limit[number]
        if not exposed:
            return limit
        return 1 / (1 / limit + exposed * (self.top[number] / pace - 1)) if pace else 0.0

    def _go(self, number: int, pace: float) -> None:
        """Go on at another pace."""
        before = self.pace[number]
        if pace == before:
            return
        left = self.left[number]
        if before:
            left = max(0.0, left - before * (self.now - self.since[number]))
            self.left[number] = left
        self.since[number] = self.now
        self.pace[number] = pace
        self.version[number] += 1
        if pace:
            heappush(self.events, (self.now + left / pace, _FREE, number, self.version[number]))

    # What was found.

    def _cycle(self) -> str:
        """Tasks that wait for each other."""
        by_counter: dict[int, list[int]] = {}
        for number, counters in enumerate(self.raises):
            if self.dones[number] < 0:
                for counter in counters:
                    by_counter.setdefault(counter, []).append(number)
        unmet: dict[int, int] = {}
        for counter, waiters in enumerate(self.waiters):
            for _, number, _ in waiters:
                unmet.setdefault(number, by_counter[counter][0])
        number = next(task for task in range(len(self.activities)) if self.dones[task] < 0)
        way: dict[int, int] = {}
        while number not in way:
            way[number] = len(way)
            engine = self.engine[number]
            head = self.queues[engine][self.place[engine]] if engine >= 0 else number
            number = head if head != number else unmet[number]
        circle = [self.activities[task].name for task, place in way.items() if place >= way[number]]
        text = " waits for ".join(map(repr, circle[:LISTED]))
        more = f" (and {len(circle) - LISTED} more)" if len(circle) > LISTED else ""
        return f"tasks wait for each other in a cycle: {text}{more} waits for {circle[0]!r}"

    def _result(self, events: int) -> SimulatedRun:
        seconds = max(self.dones, default=0.0)
        links, dies = len(self.machine.links), len(self.machine.dies)
        on_links, moved = [0.0] * links, [0.0] * dies
        adds = multiplies = sram = 0.0
        for activity in self.activities:
            adds += activity.adds
            multiplies += activity.multiplies
            sram += activity.sram_words
            if isinstance(activity, EngineTask):
                moved[activity.die] += activity.words + sum(activity.vaults.values())
            elif isinstance(activity, Flow):
                for total, places, words in ((on_links, activity.links, activity.words),
                                             (moved, activity.dies, activity.die_words)):
                    for place, some in zip(places.tolist(), words.tolist(), strict=True):
                        total[place] += some
        link_words, memory_words = np.array(on_links), np.array(moved)
        engines = {key: EngineTime(busy=self.busy[place], shared=self.shared[place], waiting=self.waiting[place],
                                   idle=max(0.0, seconds - self.freed[place]))
                   for place, key in enumerate(self.engines)}
        counts = Counts(adds=adds, multiplies=multiplies, sram_words=sram, dram_words=float(memory_words.sum()),
                        link_words=float(sum(words for link, words in zip(self.machine.links, link_words.tolist(),
                                                                          strict=True) if not link.within)))
        return SimulatedRun(seconds=seconds, starts=np.array(self.starts), ends=np.array(self.ends),
                            dones=np.array(self.dones), engines=engines, link_words=link_words,
                            memory_words=memory_words,
                            counts=counts, events=events, causes=np.array(self.causes, dtype=np.int64), alone=np.array(
                          [0.0 if engine < 0 else 1 / limit for engine, limit in zip(
                              self.engine, self.limit, strict=True)]))
