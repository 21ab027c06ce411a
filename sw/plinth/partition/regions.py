"""What a split means: which die holds, computes and sends what. Exact for every size, also where nothing divides.

An array has 2^H dies; level 1 splits on the highest bit of a die's number, level H on the lowest. Ranges of the
batch and of channels are halved level by level, the lower half one larger if the length is odd; a region of a die
is a range of the batch times a range of channels, at all positions of the map. With dp, mp, op the levels at which a
layer is split that way:

    input    X = batch halved at dp, input channels halved at mp; the same on dies that differ in op bits
    weights  W = input channels halved at mp, output channels at op; the same on dies that differ in dp bits
    output   Z = batch halved at dp, output channels halved at op; a partial sum on dies that differ in mp bits

Every element of the output has one *home*, which adds the partial sums in ascending die order, adds the bias, and
applies activation and pooling, forwards and backwards: the batch halved at dp and at those mp levels where the first
consumer is not mp, the channels halved at op and at those mp levels where it is. A home lies in its die's own Z.
A junction is at home where it is computed: batch halved at dp, channels at mp. The loss halves the batch.

In a training step move, for a layer and each layer that reads it,

    fprop reduce   Z (raw)              to the home, where it is added
    fprop copy     output (map)         from the home to the X of the consumer
    bprop reduce   dX of the consumer   to the home, where it is added
    bprop copy     dZ (raw)             from the home to the Z of the layer

and dW and db, partial sums over dies that differ in dp bits, go round a ring of those dies with the update at each
chunk's owner: 2 (N - 1) times the words of the slice, weights then bias.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from plinth.errors import UserError
from plinth.partition.graph import DP, MP, SPLITS, Node, PlanGraph

#: For each node, for each level, "dp", "mp" or "op".
Splits = tuple[tuple[str, ...], ...]
Integers = NDArray[np.int64]
#: Levels, from 0, at which a range is halved, in this order.
Halvings = tuple[int, ...]

#: Most levels: a die number has 10 bits.
MAXIMUM_LEVELS = 10
#: Arrays of up to so many levels keep who sends how much to whom from call to call.
KEPT_LEVELS = 6


@dataclass(frozen=True)
class Region:
    """Levels at which the batch and the channels are halved."""

    batch: Halvings
    channels: Halvings


@dataclass(frozen=True)
class Layout:
    """Regions of a node on every die."""

    input: Region
    output: Region
    home: Region
    #: Levels of each kind of split.
    dp: Halvings
    mp: Halvings
    op: Halvings


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


@lru_cache(maxsize=4096)
def bounds(size: int, halvings: Halvings, levels: int) -> tuple[Integers, Integers]:
    """First and one past the last element of every die's range."""
    dies = np.arange(1 << levels, dtype=np.int64)
    if halvings:
        *before, level = halvings
        low, high = bounds(size, tuple(before), levels)
        upper = (dies >> (levels - 1 - level) & 1).astype(bool)
        middle = low + (high - low + 1) // 2
        low, high = np.where(upper, middle, low), np.where(upper, high, middle)
    else:
        low, high = np.zeros_like(dies), np.full_like(dies, size)
    low.flags.writeable = high.flags.writeable = False
    return low, high


def _meeting(size: int, one: Halvings, two: Halvings, levels: int) -> Integers:
    """Elements that the range of die s (row) and of die t (column) have in common."""
    low, high = bounds(size, one, levels)
    other_low, other_high = bounds(size, two, levels)
    return np.maximum(np.minimum(high[:, None], other_high) - np.maximum(low[:, None], other_low), 0)


@lru_cache(maxsize=512)
def _pattern(source: Region, target: Region, batch: int, channels: int, levels: int) -> Integers:
    words = (_meeting(batch, source.batch, target.batch, levels)
             * _meeting(channels, source.channels, target.channels, levels))
    np.fill_diagonal(words, 0)
    words.flags.writeable = False
    return words


def pattern(source: Region, target: Region, batch: int, channels: int, levels: int) -> Integers:
    """Samples times channels that die s (row) sends to die t (column)."""
    kept = _pattern if levels <= KEPT_LEVELS else _pattern.__wrapped__
    return kept(source, target, batch, channels, levels)


@lru_cache(maxsize=1 << 16)
def _common(size: int, one: Halvings, two: Halvings, levels: int) -> Integers:
    """Elements that two ranges of each die have in common."""
    low, high = bounds(size, one, levels)
    other_low, other_high = bounds(size, two, levels)
    return np.maximum(np.minimum(high, other_high) - np.maximum(low, other_low), 0)


@lru_cache(maxsize=1 << 16)
def _rank(pairs: tuple[tuple[int, int], ...]) -> int:
    """Independent equalities among those of die bits."""
    parent: dict[int, int] = {}

    def root(bit: int) -> int:
        while parent.get(bit, bit) != bit:
            bit = parent[bit]
        return bit

    rank = 0
    for one, two in pairs:
        one, two = root(one), root(two)
        if one != two:
            parent[one] = two
            rank += 1
    return rank


def _nested(one: Halvings, two: Halvings) -> bool:
    """Whether a range of the one is always a part of that of the other."""
    shorter = min(len(one), len(two))
    return one[:shorter] == two[:shorter]


@lru_cache(maxsize=1 << 18)
def overlap(home: Region, need: Region, batch: int, channels: int, levels: int) -> int:
    """Samples times channels that dies need and are home of, over all dies.

    Where sizes divide, each die has either none or batch x channels / 2^(batch halvings + channel halvings), of the
    deeper region each; it has some if its bits fulfil the equalities that the i-th halvings of home and need imply.
    Parts that are nested fill the axis, divided or not. Anything else is summed over the dies.
    """
    depth = max(len(home.batch), len(need.batch))
    width = max(len(home.channels), len(need.channels))
    divides = batch % (1 << depth) == 0, channels % (1 << width) == 0
    if _nested(home.batch, need.batch) and _nested(home.channels, need.channels) and (
            any(divides) or not {*home.batch, *need.batch} & {*home.channels, *need.channels}):
        return ((batch * channels) << levels) >> (depth + width)
    if all(divides):
        pairs = (*zip(home.batch, need.batch, strict=False), *zip(home.channels, need.channels, strict=False))
        return ((batch >> depth) * (channels >> width)) << (levels - _rank(pairs))
    return int(_common(batch, home.batch, need.batch, levels)
               @ _common(channels, home.channels, need.channels, levels))


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


def words(exchange: Exchange, batch: int, levels: int) -> Integers:
    """Words that die s (row) sends to die t (column)."""
    return exchange.positions * pattern(exchange.source, exchange.target, batch, exchange.channels, levels)


def exchange_words(exchange: Exchange, batch: int, levels: int) -> int:
    """Words of an exchange over all dies.

    One side is the homes, each element once; every copy that the other side has of an element moves, but for those
    that lie at home.
    """
    def held(region: Region) -> int:
        return ((batch * exchange.channels) << levels) >> (len(region.batch) + len(region.channels))

    source, target = exchange.source, exchange.target
    return exchange.positions * (max(held(source), held(target))
                                 - overlap(source, target, batch, exchange.channels, levels))


def weight_words(node: Node, regions: Layout, levels: int) -> tuple[Integers, Integers]:
    """Weights and bias elements of a node on every die."""
    low, high = bounds(node.input_channels, regions.mp, levels)
    first, last = bounds(node.output_channels, regions.op, levels)
    each = node.weights // (node.input_channels * node.output_channels)
    return each * (high - low) * (last - first), node.bias // node.output_channels * (last - first)


def members(over: Halvings, levels: int) -> Integers:
    """Rings, [rings, members], ascending, of dies that differ in the bits of some levels only."""
    dies = np.arange(1 << levels)
    mask = sum(1 << (levels - 1 - level) for level in over)
    heads = dies[dies & mask == 0]
    offsets = dies[dies & ~mask == 0]
    return heads[:, None] | offsets


def node_rings(node: Node, here: Layout, levels: int) -> Iterator[Ring]:
    """The weight reductions of one node; rings of one member where the batch is whole."""
    weights, bias = weight_words(node, here, levels)
    for group in members(here.dp, levels):
        yield Ring(node.name, tuple(map(int, group)), int(weights[group[0]] + bias[group[0]]))


def rings(graph: PlanGraph, regions: Sequence[Layout], levels: int) -> Iterator[Ring]:
    """All weight reductions of a training step, in the order of bprop."""
    for node, here in reversed(list(zip(graph.nodes, regions, strict=True))):
        if node.weighted:
            yield from node_rings(node, here, levels)


def ring_words(node: Node, here: Layout, levels: int) -> int:
    """Words that all rings of a node send together."""
    weights, bias = weight_words(node, here, levels)
    size = 1 << len(here.dp)
    return 2 * (size - 1) * int((weights + bias).sum()) // size


def total_words(graph: PlanGraph, splits: Splits, batch: int) -> int:
    """Words that all dies send in a training step, counted."""
    levels = check_splits(graph, splits)
    regions = layouts(graph, splits)
    between = sum(exchange_words(exchange, batch, levels) for exchange in exchanges(graph, regions))
    return between + sum(ring_words(node, here, levels) for node, here in zip(graph.nodes, regions, strict=True)
                         if node.weighted)

