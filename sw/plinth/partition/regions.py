"""What a split means: which die holds, computes and sends what. Exact for every size, also where nothing divides.

An array's dies have levels (see :mod:`plinth.partition.cuts`): of 2^H dies each halves, of 12 dies the first cuts in
three. Ranges of the batch and of channels are cut level by level; a region of a die is a range of the batch times a
range of channels, at all positions of the map. With dp, mp, op the levels at which a layer is split that way:

    input    X = batch cut at dp, input channels cut at mp; the same on dies that differ at op
    weights  W = input channels cut at mp, output channels at op; the same on dies that differ at dp
    output   Z = batch cut at dp, output channels cut at op; a partial sum on dies that differ at mp

Every element of the output has one *home*, which adds the partial sums in ascending die order, adds the bias, and
applies activation and pooling, forwards and backwards: the batch cut at dp and at those mp levels where the first
consumer is not mp, the channels cut at op and at those mp levels where it is. A home lies in its die's own Z.
A junction is at home where it is computed: batch cut at dp, channels at mp. The loss cuts the batch.

In a training step move, for a layer and each layer that reads it,

    fprop reduce   Z (raw)              to the home, where it is added
    fprop copy     output (map)         from the home to the X of the consumer
    bprop reduce   dX of the consumer   to the home, where it is added
    bprop copy     dZ (raw)             from the home to the Z of the layer

and dW and db, partial sums over dies that differ at dp, go round a ring of those dies with the update at each
chunk's owner: 2 (N - 1) times the words of the slice, weights then bias.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from plinth.errors import UserError
from plinth.partition.cuts import Factors, Integers, Levels, bounds, groups, halves, parts
from plinth.partition.graph import DP, MP, SPLITS, Node, PlanGraph

#: For each node, for each level, "dp", "mp" or "op".
Splits = tuple[tuple[str, ...], ...]

#: Most levels: a die number has 10 bits.
MAXIMUM_LEVELS = 10
#: Arrays of up to so many dies keep who sends how much to whom from call to call.
KEPT_DIES = 64


@dataclass(frozen=True)
class Region:
    """Levels at which the batch and the channels are cut."""

    batch: Levels
    channels: Levels


@dataclass(frozen=True)
class Layout:
    """Regions of a node on every die."""

    input: Region
    output: Region
    home: Region
    #: Levels of each kind of split.
    dp: Levels
    mp: Levels
    op: Levels


@dataclass(frozen=True)
class Exchange:
    """One transfer between layers: every die sends what of ``source`` lies in another die's ``target``."""

    layer: str
    #: "fprop" or "bprop".
    phase: str
    #: "reduce" (added at the target) or "copy".
    kind: str
    #: The layer that reads ``layer``; None where partial sums and errors of the layer itself move.
    consumer: str | None
    source: Region
    target: Region
    #: Channels, and words of a sample in each.
    channels: int
    positions: int


@dataclass(frozen=True)
class Ring:
    """Reduction of a layer's gradients over ``members``, which hold the same slice of ``words``."""

    layer: str
    members: tuple[int, ...]
    words: int

    @property
    def link_words(self) -> int:
        """Words that the members send together."""
        return 2 * (len(self.members) - 1) * self.words


def check_splits(graph: PlanGraph, splits: Splits) -> int:
    """Number of levels.

    Raises
    ------
    UserError
        If a node lacks its splits, or has one that it cannot take.
    """
    if len(splits) != len(graph.nodes):
        raise UserError(f"network {graph.name!r} has {len(graph.nodes)} nodes, but splits are given for {len(splits)}")
    levels = len(splits[0])
    if levels > MAXIMUM_LEVELS:
        raise UserError(f"a plan has at most {MAXIMUM_LEVELS} levels, not {levels}")
    for number, vector in enumerate(splits):
        node = graph.nodes[number]
        if len(vector) != levels:
            raise UserError(f"layer {node.name!r} has splits for {len(vector)} levels, not {levels}")
        for split in vector:
            if split not in graph.choices(number):
                known = ", ".join(graph.choices(number))
                raise UserError(f"layer {node.name!r} ({node.kind}) cannot be split as {split!r}; choose {known}")
    return levels


@lru_cache(maxsize=1 << 16)
def layout(weighted: bool, vector: tuple[str, ...], first: tuple[str, ...]) -> Layout:
    """Regions of a node; ``first`` has the splits of its first consumer, which its home goes by."""
    dp, mp, op = (tuple(level for level, split in enumerate(vector) if split == which) for which in SPLITS)
    if not weighted:
        own = Region(dp, mp)
        return Layout(own, own, own, dp, mp, op)
    home = Region(dp + tuple(level for level in mp if first[level] != MP),
                  op + tuple(level for level in mp if first[level] == MP))
    return Layout(Region(dp, mp), Region(dp, op), home, dp, mp, op)


def layouts(graph: PlanGraph, splits: Splits) -> tuple[Layout, ...]:
    """Regions of all nodes."""
    found = []
    for number, node in enumerate(graph.nodes):
        outputs = graph.outputs[number]
        first = splits[graph.edges[outputs[0]].consumer] if outputs else (DP,) * len(splits[number])
        found.append(layout(node.weighted, splits[number], first))
    return tuple(found)


def _meeting(size: int, one: Levels, two: Levels, factors: Factors) -> Integers:
    """Elements that the range of die s (row) and of die t (column) have in common."""
    low, high = bounds(size, one, factors)
    other_low, other_high = bounds(size, two, factors)
    return np.maximum(np.minimum(high[:, None], other_high) - np.maximum(low[:, None], other_low), 0)


@lru_cache(maxsize=512)
def _pattern(source: Region, target: Region, batch: int, channels: int, factors: Factors) -> Integers:
    words = (_meeting(batch, source.batch, target.batch, factors)
             * _meeting(channels, source.channels, target.channels, factors))
    np.fill_diagonal(words, 0)
    words.flags.writeable = False
    return words


def pattern(source: Region, target: Region, batch: int, channels: int, factors: Factors) -> Integers:
    """Samples times channels that die s (row) sends to die t (column)."""
    kept = _pattern if prod(factors) <= KEPT_DIES else _pattern.__wrapped__
    return kept(source, target, batch, channels, factors)


@lru_cache(maxsize=1 << 16)
def _common(size: int, one: Levels, two: Levels, factors: Factors) -> Integers:
    """Elements that two ranges of each die have in common."""
    low, high = bounds(size, one, factors)
    other_low, other_high = bounds(size, two, factors)
    return np.maximum(np.minimum(high, other_high) - np.maximum(low, other_low), 0)


@lru_cache(maxsize=1 << 16)
def _equalities(pairs: tuple[tuple[int, int], ...]) -> Levels:
    """Levels whose digits follow from others' where the digits of each pair of levels are equal."""
    parent: dict[int, int] = {}

    def root(level: int) -> int:
        while parent.get(level, level) != level:
            level = parent[level]
        return level

    found = []
    for one, two in pairs:
        one, two = root(one), root(two)
        if one != two:
            parent[one] = two
            found.append(one)
    return tuple(found)


def _nested(one: Levels, two: Levels) -> bool:
    """Whether a range of the one is always a part of that of the other."""
    shorter = min(len(one), len(two))
    return one[:shorter] == two[:shorter]


@lru_cache(maxsize=1 << 18)
def overlap(home: Region, need: Region, batch: int, channels: int, factors: Factors) -> int:
    """Samples times channels that dies need and are home of, over all dies.

    Where sizes divide and the i-th cuts of home and need are in as many parts, each die has either none or batch x
    channels / (batch parts x channel parts), of the deeper region each; it has some if its digits fulfil the
    equalities that the i-th cuts of home and need imply. Parts that are nested fill the axis, divided or not. Anything
    else is summed over the dies.
    """
    deeper = max(home.batch, need.batch, key=len), max(home.channels, need.channels, key=len)
    depth, width = (parts(cuts, factors) for cuts in deeper)
    dies = prod(factors)
    divides = batch % depth == 0, channels % width == 0
    if _nested(home.batch, need.batch) and _nested(home.channels, need.channels) and (
            any(divides) or not {*home.batch, *need.batch} & {*home.channels, *need.channels}):
        return batch * channels * dies // (depth * width)
    pairs = (*zip(home.batch, need.batch, strict=False), *zip(home.channels, need.channels, strict=False))
    if all(divides) and all(factors[one] == factors[two] for one, two in pairs):
        return (batch // depth) * (channels // width) * (dies // parts(_equalities(pairs), factors))
    return int(_common(batch, home.batch, need.batch, factors)
               @ _common(channels, home.channels, need.channels, factors))


def exchanges(graph: PlanGraph, regions: Sequence[Layout]) -> Iterator[Exchange]:
    """All transfers of a training step between layers, in the order in which they happen."""
    for number, node in enumerate(graph.nodes):
        here = regions[number]
        if node.weighted and here.mp:
            yield Exchange(node.name, "fprop", "reduce", None, here.output, here.home, node.output_channels,
                           node.raw_elements // node.output_channels)
        for edge in (graph.edges[edge] for edge in graph.outputs[number]):
            yield Exchange(node.name, "fprop", "copy", graph.nodes[edge.consumer].name, here.home,
                           regions[edge.consumer].input, edge.channels, edge.elements // edge.channels)
    for number, node in reversed(list(enumerate(graph.nodes))):
        here = regions[number]
        for edge in (graph.edges[edge] for edge in graph.outputs[number]):
            yield Exchange(node.name, "bprop", "reduce", graph.nodes[edge.consumer].name,
                           regions[edge.consumer].input, here.home, edge.channels, edge.elements // edge.channels)
        if node.weighted and here.mp:
            yield Exchange(node.name, "bprop", "copy", None, here.home, here.output, node.output_channels,
                           node.raw_elements // node.output_channels)


def words(exchange: Exchange, batch: int, factors: Factors) -> Integers:
    """Words that die s (row) sends to die t (column)."""
    return exchange.positions * pattern(exchange.source, exchange.target, batch, exchange.channels, factors)


def exchange_words(exchange: Exchange, batch: int, factors: Factors) -> int:
    """Words of an exchange over all dies.

    One side is the homes, each element once; every copy that the other side has of an element moves, but for those
    that lie at home.
    """
    def held(region: Region) -> int:
        return batch * exchange.channels * prod(factors) // parts(region.batch + region.channels, factors)

    source, target = exchange.source, exchange.target
    return exchange.positions * (max(held(source), held(target))
                                 - overlap(source, target, batch, exchange.channels, factors))


def weight_words(node: Node, regions: Layout, factors: Factors) -> tuple[Integers, Integers]:
    """Weights and bias elements of a node on every die."""
    low, high = bounds(node.input_channels, regions.mp, factors)
    first, last = bounds(node.output_channels, regions.op, factors)
    each = node.weights // (node.input_channels * node.output_channels)
    return each * (high - low) * (last - first), node.bias // node.output_channels * (last - first)


def node_rings(node: Node, here: Layout, factors: Factors) -> Iterator[Ring]:
    """The weight reductions of one node; rings of one member where the batch is whole."""
    weights, bias = weight_words(node, here, factors)
    for group in groups(here.dp, factors):
        yield Ring(node.name, tuple(map(int, group)), int(weights[group[0]] + bias[group[0]]))


def rings(graph: PlanGraph, regions: Sequence[Layout], factors: Factors) -> Iterator[Ring]:
    """All weight reductions of a training step, in the order of bprop."""
    for node, here in reversed(list(zip(graph.nodes, regions, strict=True))):
        if node.weighted:
            yield from node_rings(node, here, factors)


def ring_words(node: Node, here: Layout, factors: Factors) -> int:
    """Words that all rings of a node send together."""
    weights, bias = weight_words(node, here, factors)
    size = parts(here.dp, factors)
    return 2 * (size - 1) * int((weights + bias).sum()) // size


def total_words(graph: PlanGraph, splits: Splits, batch: int, factors: Factors = ()) -> int:
    """Words that all dies send in a training step, counted; without factors all levels halve."""
    factors = factors or halves(check_splits(graph, splits))
    regions = layouts(graph, splits)
    between = sum(exchange_words(exchange, batch, factors) for exchange in exchanges(graph, regions))
    return between + sum(ring_words(node, here, factors) for node, here in zip(graph.nodes, regions, strict=True)
                         if node.weighted)
