"""Words between dies as words on links.

A word goes from node to node over the lowest port that leads nearer, the rule of :mod:`plinth.array.routes`, or by the
array's tables, of which tiles may have one of their own; nodes are dies and switches. Words of all pairs move one hop a
time: those that are furthest from their destination first, so that each node's words for a destination are added up
before they go on.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from plinth.array.array import Array
from plinth.partition.axes import Region, Sizes, pattern
from plinth.partition.cuts import Integers
from plinth.partition.groups import CLUSTER, ProcessGroups, process_groups

Floats = NDArray[np.float64]
#: Group of a die that neither sends nor receives.
NOBODY = -1
#: Of all ways of a length, places [node, die] in the flattened table, where their words go, over which links, to which
#: die.
Step = tuple[Integers, Integers, Integers, Integers]


@dataclass(frozen=True)
class TrafficGroup:
    """Dies that send each other something, and the words on links; per position of a map, or word of a message."""

    dies: Integers
    links: Integers
    words: Floats
    #: Words that each of the dies sends, and receives.
    sent: Floats
    received: Floats
    #: Cycles of links' latencies on the longest way; of a ring once around it, but for the shortest hop.
    latency: int
    #: Others that one of the dies sends to, at most.
    peers: int


def groups_of(words: Integers | Floats) -> Integers:
    """For each die the lowest one of those that it has to do with, directly or not; NOBODY if it moves nothing."""
    mask = words > 0
    mask = mask | mask.T
    count = len(mask)
    groups = np.where(mask.any(axis=1), np.arange(count), count)
    while True:
        lowest = np.minimum(groups, np.where(mask, groups, count).min(axis=1))
        if (lowest == groups).all():
            return np.where(groups == count, NOBODY, groups)
        groups = lowest


class LinkRoutes:
    """The links of an array, each direction for itself, and the routes over them."""

    def __init__(self, array: Array) -> None:
        self.array, self.dies = array, array.dies
        self._exchange = lru_cache(maxsize=512)(self._exchanged)
        self._ring = lru_cache(maxsize=512)(self._ringed)
        self.partners = lru_cache(maxsize=16)(self._partnered)

    @cached_property
    def directed(self) -> list[tuple[int, int, int, int]]:
        """Number of a link -> node, port out, node, port in."""
        return list(self.array.all_routes.links)

    @cached_property
    def rates(self) -> Floats:
        """Words a cycle of each link."""
        return self.array.directed_rates

    @cached_property
    def names(self) -> list[str]:
        """The name of each link."""
        several = self.array.topology in ("torus", "links", "ring", "clusters")
        return [f"{self.node_name(sender)} to {self.node_name(receiver)}" + (f" by port {port}" if several else "")
                for sender, port, receiver, _ in self.directed]

    def node_name(self, node: int) -> str:
        """The name of a node: a die or a switch."""
        return f"die {node}" if node < self.dies else f"switch {node - self.dies}"

    @cached_property
    def _chunk_steps(self) -> list[Step]:
        return self._steps_over(self.array)

    @cached_property
    def _tile_steps(self) -> list[Step]:
        return self._steps_over(self.array.for_tiles) if self.array.tile_routes else self._chunk_steps

    @staticmethod
    def _steps_over(array: Array) -> list[Step]:
        """From the longest way to the shortest."""
        dies, link, heads, hops = array.dies, array.all_routes.following, array.all_routes.heads, array.all_routes.hops
        order = np.argsort(hops.reshape(-1), kind="stable")
        lengths = hops.reshape(-1)[order]
        steps = []
        for length in range(int(hops.max(initial=0)), 0, -1):
            places = order[np.searchsorted(lengths, length):np.searchsorted(lengths, length, side="right")]
            over, to = link.reshape(-1)[places], places % dies
            steps.append((places, heads[over] * dies + to, over, to))
        return steps

    def loads(self, words: Integers | Floats, groups: Integers, tiles: bool = True) -> list[TrafficGroup]:
        """Words of each group on links, of tiles or of chunks, ``words`` being [sender, receiver]; groups ascending."""
        known = np.unique(groups[groups != NOBODY])
        if not len(known):
            return []
        place = np.full(self.dies, -1, dtype=np.int64)
        place[groups != NOBODY] = np.searchsorted(known, groups[groups != NOBODY])
        links, dies = len(self.directed), self.dies
        waiting = np.zeros((dies + self.array.switches) * dies)
        waiting[:dies * dies] = words.reshape(-1)
        loads = np.zeros(len(known) * links)
        for places, nexts, over, to in self._tile_steps if tiles else self._chunk_steps:
            amounts = waiting[places]
            some = np.flatnonzero(amounts)
            amounts = amounts[some]
            np.add.at(waiting, nexts[some], amounts)
            np.add.at(loads, place[to[some]] * links + over[some], amounts)
        table = loads.reshape(len(known), links)
        sent, received = words.sum(axis=1).astype(float), words.sum(axis=0).astype(float)
        latencies = (self.array.for_tiles if tiles else self.array).route_latencies
        longest, peers = np.where(words > 0, latencies, 0).max(axis=1), (words > 0).sum(axis=1)
        traffic_groups = []
        for number in range(len(known)):
            mine, used = np.flatnonzero(place == number), np.flatnonzero(table[number])
            traffic_groups.append(TrafficGroup(mine, used, table[number, used], sent[mine], received[mine],
                                               int(longest[mine].max()), int(peers[mine].max())))
        return traffic_groups

    def exchange(self, source: Region, target: Region, sizes: Sizes) -> list[TrafficGroup]:
        """Groups of an exchange, words per position."""
        return self._exchange(source, target, sizes)

    def _exchanged(self, source: Region, target: Region, sizes: Sizes) -> list[TrafficGroup]:
        words = pattern(source, target, sizes, self.array.factors)
        return self.loads(words, groups_of(words))

    def _partnered(self, level: int) -> list[TrafficGroup]:
        """Pairs of dies that differ in one level, for a word each way."""
        pairs = np.array(process_groups(CLUSTER, (level,), self.array.factors).members)
        words = np.zeros((self.dies, self.dies))
        words[pairs, pairs[:, ::-1]] = 1.0
        return self.loads(words, groups_of(words))

    def ring(self, rings: ProcessGroups) -> list[TrafficGroup]:
        """The rings of a reduction, for messages of one word."""
        return self._ring(rings)

    def _ringed(self, groups: ProcessGroups) -> list[TrafficGroup]:
        rings, size = np.array(groups.members), groups.size
        words = np.zeros((self.dies, self.dies))
        words[rings.reshape(-1), np.roll(rings, -1, axis=1).reshape(-1)] = 2 * (size - 1) / size
        heads = np.full(self.dies, NOBODY, dtype=np.int64)
        if size > 1:
            heads[rings] = rings[:, :1]
        around = {int(ring[0]): self.array.ring_latency(ring) for ring in rings}
        return [replace(group, latency=around[int(heads[group.dies[0]])])
                for group in self.loads(words, heads, tiles=False)]
