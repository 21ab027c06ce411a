"""Routes that follow from an array's links.

Every die sends to another by the lowest of its ports that leads nearer. On a torus, whose ports 0 and 1 lead along
rows and 2 and 3 along columns, routes so take the dimensions in ascending order; with the router's bubble rule that
keeps rings and tori free of deadlock (docs/network.md). Nodes are dies, from 0 on, and switches behind them.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

#: Node, port out, other node, port in.
Link = tuple[int, int, int, int]


def hops(links: Sequence[Link], nodes: int, dies: int) -> NDArray[np.int32]:
    """Links from each node to each die; more than there are nodes where none lead there."""
    found = np.full((nodes, dies), nodes + 1, dtype=np.int32)
    found[np.arange(dies), np.arange(dies)] = 0
    ports: dict[int, list[tuple[int, int]]] = {}
    for node, port, other, _ in links:
        ports.setdefault(port, []).append((node, other))
    sides = [tuple(np.array(side) for side in zip(*pairs, strict=True)) for pairs in ports.values()]
    while True:
        before = found.copy()
        for ones, others in sides:
            found[ones] = np.minimum(found[ones], found[others] + 1)
        if (found == before).all():
            return found


def next_links(links: Sequence[Link], distances: NDArray[np.int32]) -> NDArray[np.int64]:
    """The link over which each node sends to each die, by its place in ``links``; -1 for the die itself, and where none
    lead there. ``distances`` are :func:`hops`."""
    found = np.full(distances.shape, -1, dtype=np.int64)
    for number in sorted(range(len(links)), key=lambda number: links[number][1]):
        node, _, other, _ = links[number]
        nearer = (distances[other] < distances[node]) & (found[node] < 0)
        found[node, nearer] = number
    return found


def routes(links: Sequence[Link], dies: int) -> list[list[int | None]]:
    """For each die and destination the output port; None for the die itself.

    Raises
    ------
    ValueError
        If a die cannot be reached.
    """
    distances = hops(links, dies, dies)
    if (far := np.argwhere(distances > dies)).size:
        raise ValueError(f"no links lead from die {far[0, 0]} to die {far[0, 1]}")
    return [[None if number < 0 else links[number][1] for number in row]
            for row in next_links(links, distances).tolist()]
