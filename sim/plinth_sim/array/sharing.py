"""Max-min fair sharing of links and memories.

Each activity has words on some resources and goes on at one pace, x per second of the whole; it alone goes at most at
its limit. Its *rate* is y = W x, with W its words on the resource that carries most of it. All rates are raised
together until a resource is full or an activity at its limit; those that meet it keep their rate, the others go on
(progressive filling; Bertsekas and Gallager, Data Networks, section 6.5.2). Two messages on one path so get half of it
each, whatever their lengths.

A resource may be a *queue*, such as the buffer behind a link. What stands in it goes in its order: if one activity is
held up further on its way, the others go no faster. And who is on his way already goes before who enters where the
queue fills up (the bubble rule, docs/network.md): an activity whose first queue others come to from another queue gets
nothing while what they go to next is full, up to their last queue, and what those leave while what it goes to itself
is; else packets take turns at the link, and it shares with them as an equal, as do activities that go through no queue
with all others.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

#: Relative slack in comparisons of rates.
SLACK = 1e-12
#: Share of a resource that is left, at most, if it counts as full for those who want to enter a queue before it.
LEFT = 0.03


def share(limits: Sequence[float], weights: Sequence[float], loads: Sequence[Mapping[int, float]],
          capacities: Sequence[float], ways: Sequence[Sequence[int]] = (), queues: Collection[int] = ()) -> list[float]:
    """Paces of activities, in shares of themselves a second; 0 of one that has to wait.

    Parameters
    ----------
    limits : sequence of float
        Highest pace of each activity.
    weights : sequence of float
        Words by which each activity's rate is counted.
    loads : sequence of mapping
        For each resource, activity -> words.
    capacities : sequence of float
        Words a second of each resource.
    ways : sequence of sequence of int
        Resources of each activity in the order of its way; only needed with ``queues``.
    queues : collection of int
        Resources that are queues.
    """
    filling = _Filling(limits, weights, loads, capacities, ways, queues)
    count = len(limits)
    if not queues:
        filling.fill(range(count))
        return filling.paces
    first = [next((resource for resource in way if resource in queues), None) for way in ways]
    before = [{other for other in loads[queue] if first[other] != queue} if queue is not None else set()
              for queue in first]
    free = [activity for activity in range(count) if first[activity] is None]
    pending = set(range(count)).difference(free)
    equals = list(free)
    filling.fill(equals)
    while pending:
        # Those that nobody undecided goes before; if there are none they go before each other, as equals.
        ready = sorted(activity for activity in pending if not before[activity] & pending) or sorted(pending)
        pending -= set(ready)
        joining, others = [], []
        for activity in ready:
            queue = first[activity]
            assert queue is not None
            if any(filling.paces[other] and filling.full_behind(other, queue, filling.last_queue(other))
                   for other in before[activity] if other not in ready):
                filling.paces[activity] = 0.0
            elif before[activity] <= set(ready) or not filling.full_behind(activity, queue):
                joining.append(activity)
            else:
                others.append(activity)
        filling.release(equals)
        equals += joining
        filling.fill(equals)
        if others:
            filling.release(free)
            filling.fill([*others, *free])
    return filling.paces


class _Filling:
    """Resources, and what is left of them."""

    def __init__(self, limits: Sequence[float], weights: Sequence[float], loads: Sequence[Mapping[int, float]],
                 capacities: Sequence[float], ways: Sequence[Sequence[int]], queues: Collection[int]):
        self.limits, self.weights, self.loads, self.capacities = limits, weights, loads, capacities
        self.ways, self.queues = ways, queues
        self.paces = list(limits)
        self.left = list(capacities)
        self.on: list[list[int]] = [[] for _ in limits]
        for resource, users in enumerate(loads):
            for activity in users:
                self.on[activity].append(resource)

    def last_queue(self, activity: int) -> int:
        """The last queue on an activity's way, which has one."""
        return next(resource for resource in reversed(self.ways[activity]) if resource in self.queues)

    def full_behind(self, activity: int, queue: int, last: int | None = None) -> bool:
        """Whether a resource on an activity's way behind a queue is full, up to ``last`` if it is given."""
        way = self.ways[activity]
        end = len(way) if last is None else way.index(last) + 1
        return any(self.left[resource] <= LEFT * self.capacities[resource]
                   for resource in way[way.index(queue) + 1:end])

    def release(self, activities: Iterable[int]) -> None:
        """Take back what some activities were given."""
        for activity in activities:
            for resource in self.on[activity]:
                self.left[resource] += self.loads[resource][activity] * self.paces[activity]

    def fill(self, activities: Iterable[int]) -> None:
        """Raise the rates of some activities together."""
        limits, weights, loads = self.limits, self.weights, self.loads
        rising = set(activities)
        tops = sorted(rising, key=lambda activity: (limits[activity] * weights[activity], activity))
        slopes, users_left = [0.0] * len(loads), [0] * len(loads)
        for activity in tops:
            for resource in self.on[activity]:
                slopes[resource] += loads[resource][activity] / weights[activity]
                users_left[resource] += 1
        top = 0
        #: Level so far; what is left of a resource may be off by rounding, but never below it.
        reached = 0.0

        def settle(activity: int, level: float) -> None:
            rising.remove(activity)
            self.paces[activity] = min(limits[activity], level / weights[activity])
            for resource in self.on[activity]:
                words = loads[resource][activity]
                self.left[resource] -= words * self.paces[activity]
                slopes[resource] -= words / weights[activity]
                users_left[resource] -= 1

        while rising:
            while tops[top] not in rising:
                top += 1
            level = limits[tops[top]] * weights[tops[top]]
            full: list[int] = []
            lowest = level
            for resource, count_left in enumerate(users_left):
                if not count_left or slopes[resource] <= 0:
                    continue
                meets = max(reached, self.left[resource] / slopes[resource])
                if meets < lowest * (1 - SLACK):
                    lowest, full = meets, [resource]
                elif meets <= lowest * (1 + SLACK) and meets <= level:
                    full.append(resource)
            if full:
                held = [(activity, resource) for resource in full for activity in sorted(loads[resource])
                        if activity in rising]
                while held:
                    activity, resource = held.pop()
                    if activity not in rising:
                        continue
                    settle(activity, lowest)
                    for before in self.ways[activity][:self.ways[activity].index(resource)] if self.queues else ():
                        if before in self.queues:
                            held += [(other, before) for other in sorted(loads[before]) if other in rising]
            else:
                while top < len(tops) and (tops[top] not in rising or
                                           limits[tops[top]] * weights[tops[top]] <= level * (1 + SLACK)):
                    if tops[top] in rising:
                        settle(tops[top], level)
                    top += 1
            reached = lowest
