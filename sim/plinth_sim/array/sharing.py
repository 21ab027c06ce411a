"""Max-min fair sharing of links and memories.

Each activity has words on some resources and goes on at one pace, x per second of the whole; it alone goes at most at
its limit. Its *rate* is y = W x, with W its words on the resource that carries most of it. All rates are raised
together until a resource is full or an activity at its limit; those that meet it keep their rate, the others go on
(progressive filling; Bertsekas and Gallager, Data Networks, section 6.5.2). Two messages on one path so get half of it
each, whatever their lengths.
"""

from collections.abc import Collection, Mapping, Sequence

#: Relative slack in comparisons of rates.
SLACK = 1e-12


def share(limits: Sequence[float], weights: Sequence[float], loads: Sequence[Mapping[int, float]],
          capacities: Sequence[float], ways: Sequence[Sequence[int]] = (), queues: Collection[int] = ()) -> list[float]:
    """Paces of activities, in shares of themselves a second.

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
        Resources that are queues: where one activity is held up further on its way, the others go no faster.
    """
    count = len(limits)
    paces = list(limits)
    rising = [True] * count
    tops = sorted(range(count), key=lambda one: (limits[one] * weights[one], one))
    left = list(capacities)
    slopes = [sum(words / weights[one] for one, words in users.items()) for users in loads]
    on: list[list[int]] = [[] for _ in range(count)]
    for resource, users in enumerate(loads):
        for one in users:
            on[one].append(resource)
    users_left = [len(users) for users in loads]
    top, remaining = 0, count
    #: Level so far; what is left of a resource may be off by rounding, but never below it.
    reached = 0.0

    def settle(one: int, level: float) -> None:
        nonlocal remaining
        rising[one] = False
        remaining -= 1
        paces[one] = min(limits[one], level / weights[one])
        for resource in on[one]:
            words = loads[resource][one]
            left[resource] -= words * paces[one]
            slopes[resource] -= words / weights[one]
            users_left[resource] -= 1

    while remaining:
        while not rising[tops[top]]:
            top += 1
        level = limits[tops[top]] * weights[tops[top]]
        full: list[int] = []
        lowest = level
        for resource, count_left in enumerate(users_left):
            if not count_left or slopes[resource] <= 0:
                continue
            meets = max(reached, left[resource] / slopes[resource])
            if meets < lowest * (1 - SLACK):
                lowest, full = meets, [resource]
            elif meets <= lowest * (1 + SLACK) and meets <= level:
                full.append(resource)
        if full:
            held = [(one, resource) for resource in full for one in sorted(loads[resource]) if rising[one]]
            while held:
                one, resource = held.pop()
                if not rising[one]:
                    continue
                settle(one, lowest)
                for before in ways[one][:ways[one].index(resource)] if queues else ():
                    if before in queues:
                        held += [(other, before) for other in sorted(loads[before]) if rising[other]]
        else:
            while top < count and (not rising[tops[top]] or
                                   limits[tops[top]] * weights[tops[top]] <= level * (1 + SLACK)):
                if rising[tops[top]]:
                    settle(tops[top], level)
                top += 1
        reached = lowest
    return paces
