"""Routes that follow from an array's links.

Every die sends to another by the lowest of its ports that leads nearer. On a torus, whose ports 0 and 1 lead along
rows and 2 and 3 along columns, routes so take the dimensions in ascending order; with the router's bubble rule that
keeps rings and tori free of deadlock (docs/network.md). Nodes are dies, from 0 on, and switches behind them.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Node, port out, other node, port in.
Link = tuple[int, int, int, int]


def hops(links: Sequence[Link], nodes: int, dies: int) -> NDArray[np.int32]:
    """Links from each node to each die; more than there are nodes where none lead there."""
    distances = np.full((nodes, dies), nodes + 1, dtype=np.int32)
    ports: dict[int, list[tuple[int, int]]] = {}
    for node, port, other, _ in links:
        ports.setdefault(port, []).append((node, other))
    sides = [tuple(np.array(side) for side in zip(*pairs, strict=True)) for pairs in ports.values()]
    # Nodes from which dies are so many links away.
    away, distance = np.eye(nodes, dies, dtype=np.bool_), 0
    while away.any():
        distances[away] = distance
        nearer, away, distance = away, np.zeros_like(away), distance + 1
        for tails, heads in sides:
            away[tails] |= nearer[heads]
        away &= distances > nodes
    return distances


def next_links(links: Sequence[Link], distances: NDArray[np.int32]) -> NDArray[np.int64]:
    """The link over which each node sends to each die, by its place in ``links``; -1 for the die itself, and where none
    lead there. ``distances`` are :func:`hops`."""
    following = np.full(distances.shape, -1, dtype=np.int64)
    for number in sorted(range(len(links)), key=lambda number: links[number][1]):
        node, _, other, _ = links[number]
        nearer = (distances[other] < distances[node]) & (following[node] < 0)
        following[node, nearer] = number
    return following


class AllRoutes(NamedTuple):
    """The routes over an array's links."""

    links: Sequence[Link]
    #: :func:`hops`, :func:`next_links`, and the node behind each link.
    hops: NDArray[np.int32]
    following: NDArray[np.int64]
    heads: NDArray[np.int64]

    @classmethod
    def of(cls, links: Sequence[Link], nodes: int, dies: int) -> "AllRoutes":
        """From all nodes to all dies."""
        distances = hops(links, nodes, dies)
        return cls(links, distances, next_links(links, distances),
                   np.array([other for _, _, other, _ in links], dtype=np.int64))

    @classmethod
    def along(cls, links: Sequence[Link], following: NDArray[np.int64]) -> "AllRoutes":
        """Between dies, by a table.

        Raises
        ------
        ValueError
            If a route never ends.
        """
        routes = cls(links, np.zeros(following.shape, dtype=np.int32), following,
                     np.array([other for _, _, other, _ in links], dtype=np.int64))
        dies = np.arange(len(following))
        at, to = (grid.reshape(-1) for grid in np.meshgrid(dies, dies, indexing="ij"))
        for hops, (pair, _) in enumerate(routes.walk(at, to), 1):
            if hops > len(dies):
                raise ValueError(f"the route from die {at[pair[0]]} to die {to[pair[0]]} never ends")
            routes.hops.reshape(-1)[pair] = hops
        return routes

    def walk(self, at: NDArray[np.int64], to: NDArray[np.int64]
             ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Hop by hop, which of some pairs of dies are on their way, and over which links they go."""
        pair = np.arange(len(at))
        while (on := at != to).any():
            pair, at, to = pair[on], at[on], to[on]
            over = self.following[at, to]
            yield pair, over
            at = self.heads[over]


def routes(links: Sequence[Link], dies: int) -> list[list[int | None]]:
    """For each die and destination the output port; None for the die itself.

    Raises
    ------
    ValueError
        If a die cannot be reached.
    """
    routes = AllRoutes.of(links, dies, dies)
    if (far := np.argwhere(routes.hops > dies)).size:
        raise ValueError(f"no links lead from die {far[0, 0]} to die {far[0, 1]}")
    return [[None if number < 0 else links[number][1] for number in row]
            for row in routes.following.tolist()]
