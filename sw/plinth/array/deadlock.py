"""Proof that routes of an array form no circle: what of a class of traffic waits for what.

A packet that goes from one link to the next holds room behind the one and waits for room behind the other. If no link
so waits for itself, over however many others, some packet can always go on, and in the end all do (Dally and Seitz,
"Deadlock-Free Message Routing in Multiprocessor Interconnection Networks", IEEE Transactions on Computers, 1987). A
circle in which each packet goes straight on at every node, in by port p and out by port p xor 1, is none: the router's
bubble rule keeps room in it (docs/network.md).

Classes have buffers of their own, so each is looked at by itself; routes are taken from the table that dies get, and
walked here. A route that never ends is a circle too. Cost: a step for each hop of all pairs together.
"""

from collections.abc import Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from plinth.array.routes import Link

#: Links of a circle that a message shows.
SHOWN = 12


def find_circle(links: Sequence[Link], following: NDArray[np.int64], pairs: Iterable[tuple[int, int]]
                ) -> list[int] | None:
    """A circle of links, by their places in ``links``, that packets between some pairs of dies form; None if they form
    none.

    Parameters
    ----------
    links : sequence of (node, port out, node, port in)
        Every direction for itself.
    following : integers [nodes, dies]
        Over which link each node sends to each die; negative where it does not. A packet ends where it does not go on.
    pairs : iterable of (sender, receiver)
        Who sends.
    """
    heads = np.array([other for _, _, other, _ in links], dtype=np.int64)
    ends = sorted({(source, target) for source, target in pairs if source != target})
    if not ends or not links:
        return None
    at, to = np.array(ends, dtype=np.int64).T
    over, waits, hops = following[at, to], set[int](), 0
    while (on := over >= 0).any():
        at, to, over, hops = heads[over[on]], to[on], over[on], hops + 1
        going = at != to
        at, to, before = at[going], to[going], over[going]
        if hops > len(following):
            return _endless(following, heads, int(at[0]), int(to[0]))
        over = following[at, to]
        waits.update(np.unique(before[over >= 0] * len(links) + over[over >= 0]).tolist())
    behind: dict[int, list[int]] = {}
    for wait in sorted(waits):
        link, other = divmod(wait, len(links))
        behind.setdefault(link, []).append(other)
    which = _components(behind)
    for link, others in behind.items():
        for other in others:
            if which[link] == which[other] and links[other][1] != links[link][3] ^ 1:
                return _way(behind, other, link)
    return None


def _endless(following: NDArray[np.int64], heads: NDArray[np.int64], at: int, to: int) -> list[int]:
    """The links of a route that comes back to where it was."""
    met: list[int] = []
    while (link := int(following[at, to])) not in met:
        met.append(link)
        at = int(heads[link])
    return met[met.index(link):]


def _components(behind: dict[int, list[int]]) -> dict[int, int]:
    """Of each link a number that it shares with those that it waits for and that wait for it (Tarjan)."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    components: dict[int, int] = {}
    stack: list[int] = []
    for first in behind:
        if first in order:
            continue
        order[first] = low[first] = len(order)
        stack.append(first)
        going = [(first, iter(behind[first]))]
        while going:
            link, others = going[-1]
            for other in others:
                if other not in order:
                    order[other] = low[other] = len(order)
                    stack.append(other)
                    going.append((other, iter(behind.get(other, ()))))
                    break
                if other not in components:
                    low[link] = min(low[link], order[other])
            else:
                going.pop()
                if going:
                    low[going[-1][0]] = min(low[going[-1][0]], low[link])
                if low[link] == order[link]:
                    while True:
                        components[stack[-1]] = link
                        if stack.pop() == link:
                            break
    return components


def _way(behind: dict[int, list[int]], start: int, end: int) -> list[int]:
    """The shortest route from a link to another, both among them."""
    before, fresh = {start: start}, [start]
    while end not in before:
        reached = []
        for link in fresh:
            for other in behind.get(link, ()):
                if other not in before:
                    before[other] = link
                    reached.append(other)
        fresh = reached
    route = [end]
    while route[-1] != start:
        route.append(before[route[-1]])
    return route[::-1]


def circle_text(links: Sequence[Link], circle: Collection[int], dies: int) -> str:
    """A circle in words: each node, the port by which it sends on, and the first node again; nodes from ``dies`` on are
    switches."""
    def name(node: int) -> str:
        return f"die {node}" if node < dies else f"switch {node - dies}"

    shown = [links[link] for link in circle][:SHOWN]
    text = ", ".join(f"{name(node)} by port {port}" for node, port, _, _ in shown)
    more = f", {len(circle) - SHOWN} more links" if len(circle) > SHOWN else ""
    return f"{text}{more}, back to {name(shown[0][0])}"
