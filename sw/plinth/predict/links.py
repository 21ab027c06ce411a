"""Cycles that words take over the links of an array.

Every pair of dies has one shortest route (over the lowest ports). What is sent at once loads the links on its ways;
it takes as long as the most loaded link, and the latency of the longest way. Arrays of more than 64 dies are not
walked pair by pair, unless their links have several rates or latencies: their words are taken to load all links evenly,
each at the mean distance. Rings are walked all the same, but those of arrays with switches.
"""

from collections import deque
from functools import cached_property, lru_cache
from math import lcm
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plinth.array.array import Array
from plinth.partition.axes import CHANNELS, KEPT_DIES, SAMPLES, Region, Sizes, pattern, plane, runs, sent
from plinth.partition.cuts import parts
from plinth.partition.exchanges import ExchangeFlow, flow_words
from plinth.partition.groups import ProcessGroups
from plinth.partition.pairs import Pairs, pairs
from plinth_hw.isa.parameters import preset

Floats = NDArray[np.float64]


#: Dies up to which the tiles of an exchange are told apart.
TURNS = 16


class TileTraffic(NamedTuple):
    """Samples (times elements of tiles) and channels, or rows and columns of other tiles, that a die sends to another
    one, cycles of the most loaded link while all dies send as far, hops and cycles of latency of the longest route, how
    many tiles it stands for, and behind which others it goes: those of its lane."""

    samples: int
    channels: int
    cycles: float
    hops: int
    latency: float
    tiles: int
    lane: int = 0


class Load(NamedTuple):
    """Words that are sent at once: cycles of the most loaded link, hops and cycles of latency of the longest route."""

    cycles: float
    hops: int
    latency: float


class Links:
    """The links of an array."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.factors = array.factors
        # Of links of several rates a mean says nothing; rings go along links, where there are no switches.
        self.walked = array.dies <= KEPT_DIES or array.has_rates or array.has_latencies
        self._along = self.walked or not array.switches
        #: Flits a cycle of the slowest link.
        self.slowest = float(min((link.rate for link in array.links), default=array.rate)
                             / preset(array.preset).flit_words)
        #: Cycles of latency of a link: the mean of all, and the longest.
        self.mean_latency = float(array.directed_latencies.mean()) if array.links else float(array.link_latency)
        self.longest_latency = max((link.latency for link in array.links), default=array.link_latency)
        self._unit = lru_cache(maxsize=1 << 16)(self._pattern_loads)
        self._parts = lru_cache(maxsize=1 << 14)(self._common_parts)
        self.tiles = lru_cache(maxsize=1 << 14)(self._tile_cycles)
        self._rings = lru_cache(maxsize=1 << 12)(self._ring_load)

    @cached_property
    def _routes(self) -> NDArray[np.int64]:
        """Directed links on the way of each pair of dies [pair, hop]; the number of links where it has ended; of
        chunks."""
        return self._routes_over(self.array)

    @cached_property
    def _tile_routes(self) -> NDArray[np.int64]:
        """The same of tiles."""
        return self._routes_over(self.array.for_tiles) if self.array.tile_routes else self._routes

    @staticmethod
    def _routes_over(array: Array) -> NDArray[np.int64]:
        routes, dies = array.all_routes, array.dies
        pairs = np.arange(dies * dies)
        ways = np.full((dies * dies, int(routes.hops[:dies].max(initial=0))), len(routes.links))
        for hop, (pair, over) in enumerate(routes.walk(pairs // dies, pairs % dies)):
            ways[pair, hop] = over
        return ways

    @cached_property
    def _lanes(self) -> list[int]:
        """For each turn, in which all dies send as far, the first one of those with which it shares links, of others'
        turns as well: tiles of turns that share none do not wait for each other."""
        dies = self.array.dies
        senders, used = np.arange(dies), np.zeros((dies, len(self.array.all_routes.links) + 1), dtype=bool)
        for turn in range(dies):
            used[turn, self._tile_routes[senders * dies + (senders + turn) % dies]] = True
        used = used[:, :-1]
        lanes = list(range(dies))
        for turn in range(dies):
            for before in range(turn):
                if lanes[before] != lanes[turn] and (used[turn] & used[before]).any():
                    low, high = sorted((lanes[before], lanes[turn]))
                    lanes = [low if lane == high else lane for lane in lanes]
        return lanes

    @cached_property
    def _even(self) -> tuple[float, int]:
        """Cycles of a word spread over all links at the mean distance, and the longest distance."""
        array = self.array
        total, longest, sources = 0, 0, range(0, array.dies, max(1, array.dies // 16))
        for source in sources:
            distance = {source: 0}
            fresh = deque([source])
            while fresh:
                node = fresh.popleft()
                for other, _ in array.peers[node].values():
                    if other not in distance:
                        distance[other] = distance[node] + 1
                        fresh.append(other)
            total += sum(distance[die] for die in range(array.dies))
            longest = max(longest, *(distance[die] for die in range(array.dies)))
        mean = total / (len(sources) * max(1, array.dies - 1))
        capacity = 2 * sum(float(link.rate) for link in array.links)
        return mean / capacity if capacity else 0.0, longest

    def _load(self, moved: Pairs, tiles: bool = True) -> Load:
        """What words that are sent at once take on the links, as tiles or as chunks."""
        array = self.array.for_tiles if tiles else self.array
        routes, (at, to, words) = array.all_routes, moved
        if array.dies > KEPT_DIES:
            loads: Floats = np.zeros(len(routes.links))
            for pair, over in routes.walk(at, to):
                loads += np.bincount(over, words[pair], len(loads))
        else:
            ways = (self._tile_routes if tiles else self._routes)[at * array.dies + to]
            loads = np.bincount(ways.reshape(-1), np.repeat(words, ways.shape[1]),
                                len(routes.links) + 1)[:-1].astype(np.float64)
        hops, latencies = routes.hops[at, to], array.route_latencies[at, to]
        return Load(float((loads / array.directed_rates).max(initial=0.0)), int(hops.max(initial=0)),
                    float(latencies.max(initial=0)))

    def _pattern_loads(self, source: Region, target: Region, sizes: Sizes) -> tuple[Load, Load]:
        """There, and back."""
        moved = pairs(source, target, sizes, self.factors)
        return self._load(moved), self._load(moved.back)

    def _common_parts(self, source: Region, target: Region) -> tuple[int, int]:
        """Parts of samples and of channels that divide evenly into those of both regions."""
        depth, width = (lcm(*(parts(region.cuts(axis), self.factors) for region in (source, target)))
                        for axis in (SAMPLES, CHANNELS))
        return depth, width

    def exchanges(self, flow: ExchangeFlow) -> tuple[float, float]:
        """Cycles in which what dies have of a flow's source goes to those who need it of its target, and in which as
        much comes back."""
        if not self.walked:
            each, longest = self._even
            words = flow_words(flow, self.factors)
            cycles = words * each + longest * self.array.link_latency if words else 0.0
            return cycles, cycles
        source, target, ((_, batch), (_, channels), *others), positions, _ = flow
        # Where parts are even, words are those of so many samples and channels, so often.
        depth, width = self._parts(source, target)
        if batch % depth or channels % width or not (source.by_digits and target.by_digits):
            depth, width = batch, channels
        loads = self._unit(source, target, (*plane(depth, width), *others))
        deep, wide = batch // depth, channels // width
        there, back = (load.cycles * deep * wide * positions + load.latency for load in loads)
        return there, back

    def _tile_cycles(self, flow: ExchangeFlow, die: int) -> tuple[TileTraffic, ...]:
        """Tiles of a transfer from a die to each other one, in the order in which it sends them, its own first.

        While a die sends to the one ``n`` further on, all others do. Of many dies all tiles count as one.
        """
        factors, dies = self.factors, self.array.dies
        source, target, sizes, positions, by_channel = flow
        # By the turn in which the die sends.
        batch, channels = (size for _, size in sizes[:2])
        samples, width, *more = (np.roll(sent(axis, size, source, target, factors, die), -die) for axis, size in sizes)
        for some in more:
            samples = samples * some

        def tile(turn: int, load: Load) -> TileTraffic:
            """A tile, or one for each run of samples and of channels."""
            other, lane = (die + turn) % dies, self._lanes[turn] if turn else 0
            if by_channel:
                # All rows of it in one.
                return TileTraffic(int(width[turn]), int(samples[turn]), *load, 1, lane)
            if source.orders or target.orders:
                down, across = (max(1, runs(axis, size, source, target, factors, die, other))
                                for axis, size in plane(batch, channels))
                return TileTraffic(-(-int(samples[turn]) // down), -(-int(width[turn]) // across),
                                   load.cycles / (down * across), load.hops, load.latency, down * across, lane)
            return TileTraffic(int(samples[turn]), int(width[turn]), *load, 1, lane)

        own = tile(0, Load(0.0, 0, 0.0))
        if dies > TURNS:
            met = np.flatnonzero(samples[1:] * width[1:]) + 1
            if not len(met):
                return (own,)
            return own, TileTraffic(int(samples[met].mean()) or 1, int(width[met].mean()) or 1,
                                    self.exchanges(flow)[0] / len(met), 1, self.mean_latency, len(met))
        loads = self.turns(pattern(source, target, sizes, factors).astype(np.float64))
        return own, *(tile(turn, load._replace(cycles=load.cycles * positions))
                      for turn, (load, _) in enumerate(loads, 1))

    def turns(self, words: Floats) -> list[tuple[Load, int]]:
        """What words ``[sender, receiver]`` take on the links while all dies send to the one ``n`` further on, for n
        from 1 on, and the lane of these. Of many dies they take as long as if all were sent at once, each turn the
        same."""
        dies = len(words)
        if dies > TURNS:
            whole = self._load(Pairs.of(words))
            return [(Load(whole.cycles / (dies - 1), 1, self.mean_latency), 0)] * (dies - 1)
        loads, senders = [], np.arange(dies)
        for turn in range(1, dies):
            receivers = (senders + turn) % dies
            sends = np.flatnonzero(words[senders, receivers])
            load = self._load(Pairs(sends, receivers[sends], words[sends, receivers[sends]]))
            loads.append((Load(load.cycles, max(1, load.hops), load.latency if load.hops else self.mean_latency),
                          self._lanes[turn]))
        return loads

    def ring_words(self, rings: ProcessGroups, words: int, some: tuple[int, ...] | None = None) -> float:
        """Cycles of the words of a reduction in all rings, or some by their numbers, without latencies."""
        if not self._along:
            return self.ring(rings, words) - 2 * self.ring_latency(rings)
        return words * self._rings(rings, some)[0]

    def ring_latency(self, rings: ProcessGroups) -> float:
        """Cycles of links' latencies once around the slowest of a reduction's rings, but for its last hop."""
        return self._rings(rings, None)[1] if self._along else (rings.size - 1) * self.array.link_latency

    def _ring_load(self, rings: ProcessGroups, some: tuple[int, ...] | None) -> tuple[float, float]:
        """Of a message of one word in all rings, or some: cycles of the most loaded link, and of latencies around."""
        size, members = rings.size, np.array(rings.members)
        members = members if some is None else members[list(some)]
        at, to, share = members.reshape(-1), np.roll(members, -1, axis=1).reshape(-1), 2 * (size - 1) / size
        latency = float(self.array.ring_latency(members))
        apart = at != to
        moved = Pairs(at[apart], to[apart], np.full(int(apart.sum()), share))
        return self._load(moved, tiles=False).cycles, latency

    def ring(self, rings: ProcessGroups, words: int) -> float:
        """Cycles of the reduction of messages of ``words`` in all rings."""
        size = rings.size
        if size == 1:
            return 0.0
        latency = 2 * self.ring_latency(rings)
        if not self._along:
            each, _ = self._even
            return 2 * (size - 1) * words * (self.array.dies // size) * each + latency
        return words * self._rings(rings, None)[0] + latency
