"""What moves between dies in a training step, each exchange defined once, and its words.

Nobody else decides what moves. The step makes its operations of these definitions, and each operation between dies
carries the one that it realises (:mod:`plinth.step.between`); Plans list them, planners estimate by them, reports count
by them. Words are exact, but where data decide. In a training step move, for a layer and each layer that reads it,

    fprop reduce   Z (raw)              to the owner, where it is added
    fprop copy     output (map)         from the owner to the X of the consumer
    bprop reduce   dX of the consumer   to the owner, where it is added
    bprop copy     dZ (raw)             from the owner to the Z of the layer
    fprop scatter  V of X               tiles to who has their elements             ep, for layers alike once
    fprop gather   V of Z               elements to who has the samples             ep, of a sum of tiles once
    bprop scatter  V of dZ              as forwards                                 ep, of a sum of tiles once
    bprop gather   V of dX              as forwards, where the input has an error   ep, for layers alike once
    bprop bias     db of a die          to all of its cluster, which add them up    ep, elements trained

between regions of :mod:`plinth.partition.regions`; tiles whole or as lines (:mod:`plinth.partition.lines`); of blocks
of Winograd layers as :mod:`plinth.partition.blocks` says.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from plinth.array.array import Array
from plinth.partition.axes import CHANNELS, COPIES, ELEMENTS, SAMPLES, Region, Sizes, alike, overlap, pattern, plane
from plinth.partition.blocks import WinogradBlocks, blocks_of, coded_exchanges
from plinth.partition.cuts import Factors, Integers, Levels, halves, parts
from plinth.partition.graph import Node, PlanGraph, Tiling
from plinth.partition.lines import tile_words
from plinth.partition.predicted import expected_share, expected_words, least_most
from plinth.partition.regions import Layout, Partition, Splits, check_splits, layouts, ring_words


class ExchangeFlow(NamedTuple):
    """What an exchange moves, whoever it is of: from what dies have of a region to what they have of another, elements
    of each axis, and words of each element; whether a row of it is a channel."""

    source: Region
    target: Region
    sizes: Sizes
    positions: int
    by_channel: bool = False


@dataclass(frozen=True)
class ExchangeDefinition:
    """The definition of a transfer between layers: every die sends what of ``source`` lies in another die's
    ``target``."""

    layer: str
    #: "fprop" or "bprop".
    phase: str
    #: "reduce" (added at the target) or "copy"; of a Winograd layer "scatter", "gather" or "bias".
    kind: str
    #: The layer that reads ``layer``; None where partial sums and errors of the layer itself move.
    consumer: str | None
    source: Region
    target: Region
    #: Channels, and words of a sample in each.
    channels: int
    positions: int
    #: Further axes, and samples, if they are not the batch's.
    extra: Sizes = ()
    samples: int | None = None
    #: Of a gather or scatter that sends codes: how its layer is computed. Words are those expected then, of a gather
    #: masks that go back with them.
    coded: Tiling | None = None
    #: Number of the graph's edge that it goes along, of which two layers may have several; None without a consumer.
    edge: int | None = None

    def flow(self, batch: int) -> ExchangeFlow:
        """The regions, sizes and positions of what moves in a step of so many samples."""
        samples = batch if self.samples is None else self.samples
        return ExchangeFlow(self.source, self.target, (*plane(samples, self.channels), *self.extra), self.positions)

    def share(self, tiling: Tiling) -> float:
        """The words of a gather or scatter over those of whole tiles, as expected of codes."""
        if self.coded is not None:
            return expected_share(tiling, self.phase, self.kind)
        return self.positions * dict(self.extra)[ELEMENTS] / (tiling.positions * tiling.elements)

    def moves(self, batch: int, factors: Factors) -> bool:
        """Whether any die has something else of its target than of its source."""
        return self.source != self.target and not alike(self.source, self.target, self.flow(batch).sizes, factors)


def sum_exchange(node: Node, here: Layout, phase: str) -> ExchangeDefinition:
    """Partial sums of a layer that splits its input channels to their owners, or errors from there."""
    kind, ends = ("reduce", (here.output, here.owned)) if phase == "fprop" else ("copy", (here.owned, here.output))
    return ExchangeDefinition(node.name, phase, kind, None, *ends, node.output_channels,
                              node.raw_elements // node.output_channels)


def edge_exchange(graph: PlanGraph, number: int, owned: Region, need: Region, phase: str) -> ExchangeDefinition:
    """The map of an edge from its owners to who reads it, or its errors back."""
    edge = graph.edges[number]
    kind, ends = ("copy", (owned, need)) if phase == "fprop" else ("reduce", (need, owned))
    return ExchangeDefinition(graph.nodes[edge.producer].name, phase, kind, graph.nodes[edge.consumer].name, *ends,
                              edge.channels, edge.elements // edge.channels, edge=number)


def _to_own(region: Region, copies: Levels) -> Region:
    """A region of dies that keep to their own copies."""
    return Region((*region.axes, (COPIES, copies)), region.owners) if copies else region


def tile_exchange(node: Node, here: Layout, phase: str, kind: str, factors: Factors,
                  coded: Sequence[tuple[str, str]] = (), array: Array | None = None) -> ExchangeDefinition:
    """What the dies of a cluster send each other of a layer that splits the elements of its tiles; ``coded``: what of
    it goes in codes; ``array``: by whose links scatters go by lines."""
    assert node.tiling is not None
    # Of inputs or of outputs; there are dies that have the same of either.
    of = kind == "bias" or (phase == "fprop") != (kind == "scatter")
    maps, copies = ((here.input, here.op), (here.output, here.mp))[of]
    extra: Sizes = ((COPIES, parts(copies, factors)),) if copies else ()
    if kind == "bias":
        # Each die has a row, as if it were a sample.
        levels, stage = here.dp + here.ep, here.stage
        rows, sums = (Region((*(cut for cut in here.output.axes if cut[0] != SAMPLES), (SAMPLES, (*stage, *over))),
                             here.owners) for over in (levels, here.dp))
        ends = _to_own(rows, copies), _to_own(sums, copies)
        return ExchangeDefinition(node.name, phase, kind, None, *ends, node.output_channels, 1, extra,
                                  parts(levels, factors))
    ends = _to_own(maps, copies), _to_own(here.tiles[of], copies)
    positions, elements = tile_words(node, here, phase, kind, factors, (phase, kind) in coded, array)
    return ExchangeDefinition(node.name, phase, kind, None, *(ends if kind == "scatter" else ends[::-1]),
                              (node.input_channels, node.output_channels)[of], positions,
                              ((ELEMENTS, elements), *extra),
                              coded=node.tiling if (phase, kind) in coded else None)


def exchanges(graph: PlanGraph, regions: Sequence[Layout], factors: Factors, array: Array | None = None,
              blocks: WinogradBlocks | None = None) -> Iterator[ExchangeDefinition]:
    """List all transfers of a training step between layers, in the order in which they happen, those of regions that
    are alike among them; of an array, if its links are known. ``blocks``: left out, those that there are."""
    blocks = blocks or blocks_of(graph, regions)
    sums, shared = blocks.sums, blocks.shared
    coded = [coded_exchanges(graph, here, number, sums.get(number), blocks.added.get(number))
             for number, here in enumerate(regions)]

    def tiles(number: int, phase: str, kind: str) -> ExchangeDefinition:
        return tile_exchange(graph.nodes[number], regions[number], phase, kind, factors, coded[number], array)

    def edges(number: int, phase: str) -> Iterator[ExchangeDefinition]:
        for edge in graph.outputs[number]:
            consumer = graph.edges[edge].consumer
            if consumer not in shared:
                yield edge_exchange(graph, edge, regions[number].owned, regions[consumer].input, phase)

    for number, node in enumerate(graph.nodes):
        here, summed = regions[number], sums.get(number)
        if here.ep:
            if number not in shared:
                yield tiles(number, "fprop", "scatter")
            if summed is None or number == summed.members[-1]:
                yield tiles(number, "fprop", "gather")
        if node.weighted and here.mp:
            yield sum_exchange(node, here, "fprop")
        yield from edges(number, "fprop")
    for number, node in reversed(list(enumerate(graph.nodes))):
        here, summed = regions[number], sums.get(number)
        yield from edges(number, "bprop")
        if node.weighted and here.mp:
            yield sum_exchange(node, here, "bprop")
        if here.ep:
            if node.bias and node.free:
                yield tiles(number, "bprop", "bias")
            if summed is None or number == summed.members[-1]:
                yield tiles(number, "bprop", "scatter")
            if graph.inputs[number] and number not in shared:
                yield tiles(number, "bprop", "gather")


def words(exchange: ExchangeDefinition, batch: int, factors: Factors) -> Integers:
    """Words that die s (row) sends to die t (column)."""
    tiling = exchange.coded
    if tiling is not None:
        return _predicted_words(exchange, batch, factors, lambda run: expected_words(
            tiling, exchange.phase, exchange.kind, run))
    source, target, sizes, positions, _ = exchange.flow(batch)
    return positions * pattern(source, target, sizes, factors)


def _predicted_words(exchange: ExchangeDefinition, batch: int, factors: Factors,
                     each: Callable[[int], int]) -> Integers:
    """Of a gather or scatter in codes, those of an element's run given."""
    flow, gathers = exchange.flow(batch), exchange.kind == "gather"
    sizes = dict(flow.sizes)
    samples, tiles = (exchange.target, exchange.source) if gathers else (exchange.source, exchange.target)
    runs = exchange.positions * (samples.lengths(SAMPLES, sizes[SAMPLES], factors)
                                 * samples.lengths(CHANNELS, sizes[CHANNELS], factors))
    elements = tiles.lengths(ELEMENTS, sizes[ELEMENTS], factors)
    of = np.array([each(run) if run else 0 for run in runs.tolist()], dtype=np.int64)
    met = pattern(exchange.source, exchange.target, flow.sizes, factors) > 0
    return met * (elements[:, None] * of[None, :] if gathers else of[:, None] * elements[None, :])


def word_bounds(exchange: ExchangeDefinition, batch: int, factors: Factors) -> tuple[int, int]:
    """Between which words over all dies an exchange lies: those that it takes, unless data decide."""
    tiling = exchange.coded
    if tiling is None:
        words = exchange_words(exchange, batch, factors)
        return words, words

    def total(end: int) -> int:
        return int(_predicted_words(exchange, batch, factors, lambda run: least_most(
            tiling, exchange.phase, exchange.kind, run)[end]).sum())

    return total(0), total(1)


def exchange_words(exchange: ExchangeDefinition, batch: int, factors: Factors) -> int:
    """Words of an exchange over all dies.

    Raises
    ------
    ValueError
        If both sides are covers: nobody owns what moves.
    """
    if exchange.coded is not None:
        return int(words(exchange, batch, factors).sum())
    if exchange.source.covers and exchange.target.covers:
        raise ValueError(f"both sides of an exchange of layer {exchange.layer!r} are covers, so that no die owns what "
                         "moves; give one of them a partition")
    return flow_words(exchange.flow(batch), factors)


@lru_cache(maxsize=1 << 18)
def flow_words(flow: ExchangeFlow, factors: Factors) -> int:
    """Words that all dies send of a flow.

    One side is the owners, each element once; every copy that the other side has of an element moves, but for those
    that its owner needs itself. A side that covers its axes is the other one.
    """
    source, target, sizes, positions, _ = flow
    covers = [region for region in (source, target) if region.covers]
    moved = max(region.held(sizes, factors) for region in covers or (source, target))
    return positions * (moved - overlap(source, target, sizes, factors))


def total_words(graph: PlanGraph, splits: Splits, batch: int, factors: Factors = (), lists: Partition = (),
                array: Array | None = None) -> int:
    """Words that all dies send in a training step, counted; without factors all levels halve."""
    factors = factors or halves(check_splits(graph, splits))
    regions = layouts(graph, splits, lists, factors)
    between = sum(exchange_words(exchange, batch, factors) for exchange in exchanges(graph, regions, factors, array))
    return between + sum(ring_words(node, here, factors) for node, here in zip(graph.nodes, regions, strict=True)
                         if node.weighted)
