"""What a split means: which die holds, computes and sends what. Exact for every size, also where nothing divides.

An array's dies have levels (see :mod:`plinth.partition.cuts`): of 2^H dies each halves, of 12 dies the first cuts in
three. A region is a product of named axes, each cut by levels or by list; it says what each *seat* of the array has,
and its owners which die has which seat: left out, each that of its number. With dp, mp, op the levels at which a layer
is split that way:

    input    X = samples cut at dp, input channels cut at mp; the same on dies that differ at op
    weights  W = input channels cut at mp, output channels at op; the same on dies that differ at dp
    output   Z = samples cut at dp, output channels cut at op; a partial sum on dies that differ at mp

With ep the levels at which the elements of a Winograd layer's tiles are split, dies that differ there, a cluster's,
have samples of their own as if the level were dp's, of which they send each other elements. In all nodes of a network
levels that split elements anywhere cut samples last, so that nodes in other groups and clusters have the same ones:

    input    X = samples cut at dp, then ep                 output likewise
    tiles    V = samples cut at dp, elements at ep          of inputs, and of outputs
    weights  W = elements cut at ep, if they are trained    whole, if the kernel is

so that dies that differ at dp sum gradients of tile elements, those that differ at dp or ep gradients of kernels.

Each of these axes of a layer, but the elements, may be cut by list instead, and the layer's regions have its owners
(:class:`Lists`). All that is computed follows from seats, so that owners decide where, never what: sums run in the
order of seats.

Every element of the output has one *home*, which adds the partial sums in ascending order, adds the bias, and
applies activation and pooling, forwards and backwards: the samples cut at dp and at those mp levels where the first
consumer is not mp, the channels cut at op and at those mp levels where it is. A home lies in its die's own Z.
A junction is at home where it is computed: samples cut at dp, channels at mp. The loss cuts the samples.

In a training step move, for a layer and each layer that reads it,

    fprop reduce   Z (raw)              to the home, where it is added
    fprop copy     output (map)         from the home to the X of the consumer
    bprop reduce   dX of the consumer   to the home, where it is added
    bprop copy     dZ (raw)             from the home to the Z of the layer
    fprop scatter  V of X               tiles to who has their elements             ep, for layers alike once
    fprop gather   V of Z               elements to who has the samples             ep, of a sum of tiles once
    bprop scatter  V of dZ              as forwards                                 ep, of a sum of tiles once
    bprop gather   V of dX              as forwards, where the input has an error   ep, for layers alike once
    bprop bias     db of a die          to all of its cluster, which add them up    ep, elements trained

and dW and db, partial sums over dies that differ at dp, go round a ring of those dies with the update at each
chunk's owner: 2 (N - 1) times the words of the slice, weights then bias.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

import numpy as np

from plinth.errors import UserError
from plinth.model.layers import MaxPool, MeanPool, Relu
from plinth.partition.axes import (
    CHANNELS,
    COPIES,
    ELEMENTS,
    INPUTS,
    OUTPUTS,
    SAMPLES,
    Region,
    Sizes,
    overlap,
    pattern,
    plane,
)
from plinth.partition.cuts import Cuts, Factors, Indices, Integers, Levels, Listed, halves, parts
from plinth.partition.graph import DP, EP, MP, SPLITS, Node, PlanGraph, Tiling
from plinth.partition.groups import CLUSTER, ERROR, RING, SUM, TILES, Owners, ProcessGroups, process_groups
from plinth.partition.predicted import expected_words, least_most
from plinth_hw.isa.tasks import VECTOR_LOADS

#: For each node, for each level, "dp", "mp", "op" or "ep".
Splits = tuple[tuple[str, ...], ...]

#: Most levels: a die number has 10 bits.
MAXIMUM_LEVELS = 10


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
    weights: Region
    owners: Owners = None
    ep: Levels = ()
    #: Levels at which dies differ that sum gradients.
    ring: Levels = ()

    @property
    def tiles(self) -> tuple[Region, Region]:
        """Tiles of the inputs and of the outputs: samples that levels of elements do not cut, but elements."""
        found = []
        for region in (self.input, self.output):
            cuts = region.cuts(SAMPLES)
            axes = tuple((axis, cuts[:len(cuts) - len(self.ep)] if axis == SAMPLES else cut)
                         for axis, cut in region.axes)
            found.append(Region((*axes, (ELEMENTS, self.ep)) if self.ep else axes, self.owners))
        return found[0], found[1]

    def groups(self, kind: str, factors: Factors) -> ProcessGroups:
        """Dies that belong together: :mod:`plinth.partition.groups`."""
        over = {RING: self.ring, SUM: self.mp, ERROR: self.op, TILES: self.ep,
                CLUSTER: self.mp + self.op + self.ep}[kind]
        return process_groups(kind, over, factors, self.owners)


@dataclass(frozen=True)
class Lists:
    """What of a node is cut by list, and which dies have the parts. :func:`plinth.partition.lists.check_lists` says
    what must hold.

    A list has a part for each combination of the digits at the first of the levels that split its axis, or at more of
    them; the other levels cut evenly inside.
    """

    samples: tuple[Indices, ...] | None = None
    #: Input channels; of a junction its channels.
    inputs: tuple[Indices, ...] | None = None
    outputs: tuple[Indices, ...] | None = None
    owners: Owners = None


#: For each node, or none at all.
Partition = tuple[Lists | None, ...]


@dataclass(frozen=True)
class Exchange:
    """One transfer between layers: every die sends what of ``source`` lies in another die's ``target``."""

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

    def sizes(self, batch: int) -> Sizes:
        """Elements of each axis."""
        return *plane(batch if self.samples is None else self.samples, self.channels), *self.extra


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


def check_elements(graph: PlanGraph, splits: Splits, factors: Factors) -> None:
    """Refuse more groups of a layer's tile elements than it has elements.

    Raises
    ------
    UserError
        With the layer and both numbers.
    """
    for node, vector in zip(graph.nodes, splits, strict=True):
        if node.tiling is not None and not has_elements(node, vector, factors):
            raise UserError(f"layer {node.name!r} splits its tiles over {_groups(vector, factors)} groups of dies, but "
                            f"a tile has {node.tiling.elements} elements; split fewer levels by {EP!r}")


def _groups(vector: tuple[str, ...], factors: Factors) -> int:
    """Groups of dies that have different elements."""
    return parts(tuple(level for level, split in enumerate(vector) if split == EP), factors)


def has_elements(node: Node, vector: tuple[str, ...], factors: Factors) -> bool:
    """Whether each group of dies has an element of the node's tiles."""
    return node.tiling is None or _groups(vector, factors) <= node.tiling.elements


#: Regions, each made once: equal ones are one object, and quick to compare.
_region = lru_cache(maxsize=1 << 16)(Region.of)


def tile_levels(*vectors: tuple[str, ...]) -> Levels:
    """Levels at which any of some nodes splits elements, in the order in which all of them cut samples: the more
    choices of such levels have one, the later it comes, so that those of each node come last if one holds the other."""
    found = {tuple(split == EP for split in vector) for vector in vectors}
    count = [sum(levels) for levels in zip(*found, strict=True)]
    return tuple(sorted((level for level, some in enumerate(count) if some), key=lambda level: (count[level], level)))


@lru_cache(maxsize=1 << 16)
def layout(weighted: bool, vector: tuple[str, ...], first: tuple[str, ...], free: bool = False,
           late: Levels = ()) -> Layout:
    """Regions of a node; ``first`` has the splits of its first consumer, which its home goes by. ``free``: its weights
    are elements of Winograd tiles. ``late``: levels that cut samples after the others, and in which order, as they
    split elements of some node: so all nodes cut samples alike."""
    dp, mp, op, ep = (tuple(level for level, split in enumerate(vector) if split == which) for which in SPLITS)
    if late:
        dp, ep = (tuple(sorted(levels, key=lambda level: (late.index(level) if level in late else -1, level)))
                  for levels in (dp, ep))
    weights = _region(inputs=mp, outputs=op, elements=ep) if free and ep else _region(inputs=mp, outputs=op)
    ring = tuple(sorted(dp)) if free else tuple(sorted(dp + ep))
    if not weighted:
        own = _region(samples=dp, channels=mp)
        return Layout(own, own, own, dp, mp, op, weights, ring=ring)
    home = _region(samples=dp + ep + tuple(level for level in mp if first[level] != MP),
                   channels=op + tuple(level for level in mp if first[level] == MP))
    return Layout(_region(samples=dp + ep, channels=mp), _region(samples=dp + ep, channels=op), home, dp, mp, op,
                  weights, ep=ep, ring=ring)


def list_levels(count: int, levels: Levels, factors: Factors) -> Levels | None:
    """The first of some levels, as many as tell so many parts apart; None if none do."""
    return next((levels[:depth] for depth in range(1, len(levels) + 1) if parts(levels[:depth], factors) == count),
                None)


def _listed(here: Layout, lists: Lists, factors: Factors) -> Layout:
    """The layout of a node with some axes cut by list."""
    def cut(cuts: Cuts, given: tuple[Indices, ...] | None, levels: Levels) -> Cuts:
        if given is None:
            return cuts
        over = list_levels(len(given), levels, factors)
        assert over is not None
        return (Listed(over, given), *cuts[len(over):])

    def region(old: Region, **axes: tuple[tuple[Indices, ...] | None, Levels]) -> Region:
        return Region(tuple((axis, cut(cuts, *axes[axis]) if axis in axes else cuts) for axis, cuts in old.axes),
                      lists.owners)

    samples, inputs, outputs = (lists.samples, here.dp), (lists.inputs, here.mp), (lists.outputs, here.op)
    maps = inputs if here.input == here.output == here.home else outputs
    return replace(here, input=region(here.input, samples=samples, channels=inputs),
                   output=region(here.output, samples=samples, channels=maps),
                   home=region(here.home, samples=samples, channels=maps),
                   weights=region(here.weights, inputs=inputs, outputs=outputs), owners=lists.owners)


def layouts(graph: PlanGraph, splits: Splits, lists: Partition = (), factors: Factors = ()) -> tuple[Layout, ...]:
    """Regions of all nodes; where there are lists, on an array of some factors."""
    found = []
    late = tile_levels(*splits)
    for number, node in enumerate(graph.nodes):
        outputs = graph.outputs[number]
        first = splits[graph.edges[outputs[0]].consumer] if outputs else (DP,) * len(splits[number])
        here = layout(node.weighted, splits[number], first, node.free, late)
        given = lists[number] if lists else None
        found.append(here if given is None else _listed(here, given, factors))
    return tuple(found)


def _to_own(region: Region, copies: Levels) -> Region:
    """A region of dies that keep to their own copies."""
    return Region((*region.axes, (COPIES, copies)), region.owners) if copies else region


@dataclass(frozen=True)
class TileSum:
    """Winograd layers whose outputs a junction adds, or takes the mean of, with nothing but sums between: their tiles
    are added where their elements are, and what the last one gathers is the sum of all; backwards its tiles of the
    error serve all. Source: MPT section VII, Figure 14(a)."""

    junction: Node
    #: Nodes by number, ascending, and how many of them have a bias.
    members: tuple[int, ...]
    biases: int


def tile_sums(graph: PlanGraph, layouts: Sequence[Layout]) -> dict[int, TileSum]:
    """By each of their members: of junctions all of whose inputs are Winograd layers that nothing else reads, with
    tiles and groups of dies alike, elements split and whole sums, such that the junction's samples are theirs; of no
    more biases than a vector task can add."""
    found: dict[int, TileSum] = {}
    for number, junction in enumerate(graph.nodes):
        feeds = graph.feeds(number) if junction.junction else ()
        members = tuple(sorted({graph.edges[edge].producer for edge in feeds if edge is not None}))
        if not members or len(members) < len(feeds):
            continue
        nodes, (first, *others) = [graph.nodes[one] for one in members], [layouts[one] for one in members]
        kinds = {node.tiling and (node.tiling.form, node.tiling.tiles, node.tiling.rounds) for node in nodes}
        if (len(kinds) == 1 and None not in kinds and first.ep and not first.mp
                and not any(node.followers for node in nodes)
                and all(len(graph.outputs[one]) == 1 for one in members)
                and all((one.ep, one.mp, one.output, one.owners) == (first.ep, first.mp, first.output, first.owners)
                        for one in others)
                and layouts[number].input == first.output
                and (biases := sum(node.bias > 0 for node in nodes)) < VECTOR_LOADS):
            found |= dict.fromkeys(members, TileSum(junction, members, biases))
    return found


def shared_tiles(graph: PlanGraph, layouts: Sequence[Layout]) -> dict[int, int]:
    """Winograd layers that take the tiles of an input that another has scattered, by number, with its number: the first
    of those that read the same map, as tiles alike, in groups of dies alike. Backwards what that one gathers is the sum
    of the tiles of all."""
    found: dict[int, int] = {}
    firsts: dict[tuple[object, ...], int] = {}
    for number, node in enumerate(graph.nodes):
        here = layouts[number]
        if node.tiling is None or not here.ep:
            continue
        edge, = graph.feeds(number)
        if edge is None:
            continue
        form, window = node.tiling.form, node.window
        assert window is not None
        read = (graph.edges[edge].producer, [(one.b, one.outputs) for one in form.transforms], node.tiling.tiles,
                window.padding)
        key = (*map(str, read), here.ep, here.mp, here.op, here.input, here.tiles[0])
        first = firsts.setdefault(key, number)
        if first != number:
            found[number] = first
    return found


def unpredictable(node: Node, here: Layout, summed: TileSum | None) -> str:
    """Why a gather is not predicted though its layer asks for it; empty if it is."""
    if not here.ep:
        return "elements of its tiles are not split"
    if here.mp:
        return "its sums are parts, of dies that split its channels"
    followers = node.followers if summed is None else summed.junction.followers
    if not followers or followers[0].kind != Relu.kind:
        return "no ReLU follows its sums"
    if summed is not None and summed.biases > 1:
        return "several biases are added to a sum of tiles"
    return "its samples or channels are cut by list" if here.output.orders else ""


def coded_exchanges(graph: PlanGraph, layouts: Sequence[Layout], number: int, summed: TileSum | None
                    ) -> tuple[tuple[str, str], ...]:
    """Phases and kinds of a Winograd layer's exchanges that send codes, if it asks for predictions: the gather of
    fprop, if it is predicted, with it the scatter of its errors; the scatter of inputs that are behind a ReLU."""
    node, here = graph.nodes[number], layouts[number]
    if node.tiling is None or not node.tiling.rounds or not here.ep:
        return ()
    found = [] if unpredictable(node, here, summed) else [("fprop", "gather")]
    # Of dies that split channels as well some have copies.
    if not (here.mp or here.op or here.input.orders or here.output.orders):
        found += [("bprop", "scatter")] * len(found)
        edge, = graph.feeds(number)
        kinds = [] if edge is None else [one.kind for one in graph.nodes[graph.edges[edge].producer].followers]
        if Relu.kind in kinds and not set(kinds) - {Relu.kind, MaxPool.kind, MeanPool.kind}:
            found.append(("fprop", "scatter"))
    return tuple(found)


def tile_exchange(node: Node, here: Layout, phase: str, kind: str, factors: Factors,
                  coded: Sequence[tuple[str, str]] = ()) -> Exchange:
    """What the dies of a cluster send each other of a layer that splits the elements of its tiles; ``coded``: what of
    it goes in codes."""
    assert node.tiling is not None
    # Of inputs or of outputs; there are dies that have the same of either.
    of = kind == "bias" or (phase == "fprop") != (kind == "scatter")
    maps, copies = ((here.input, here.op), (here.output, here.mp))[of]
    extra: Sizes = ((COPIES, parts(copies, factors)),) if copies else ()
    if kind == "bias":
        # Each die has a row, as if it were a sample.
        levels = here.dp + here.ep
        rows, sums = (Region((*(cut for cut in here.output.axes if cut[0] != SAMPLES), (SAMPLES, over)), here.owners)
                      for over in (levels, here.dp))
        ends = _to_own(rows, copies), _to_own(sums, copies)
        return Exchange(node.name, phase, kind, None, *ends, node.output_channels, 1, extra, parts(levels, factors))
    ends = _to_own(maps, copies), _to_own(here.tiles[of], copies)
    return Exchange(node.name, phase, kind, None, *(ends if kind == "scatter" else ends[::-1]),
                    (node.input_channels, node.output_channels)[of], node.tiling.positions,
                    ((ELEMENTS, node.tiling.elements), *extra),
                    coded=node.tiling if (phase, kind) in coded else None)


def exchanges(graph: PlanGraph, regions: Sequence[Layout], factors: Factors) -> Iterator[Exchange]:
    """All transfers of a training step between layers, in the order in which they happen."""
    sums, shared = tile_sums(graph, regions), shared_tiles(graph, regions)
    for number, node in enumerate(graph.nodes):
        here, summed = regions[number], sums.get(number)
        if here.ep:
            coded = coded_exchanges(graph, regions, number, summed)
            if number not in shared:
                yield tile_exchange(node, here, "fprop", "scatter", factors, coded)
            if summed is None or number == summed.members[-1]:
                yield tile_exchange(node, here, "fprop", "gather", factors, coded)
        if node.weighted and here.mp:
            yield Exchange(node.name, "fprop", "reduce", None, here.output, here.home, node.output_channels,
                           node.raw_elements // node.output_channels)
        for edge in (graph.edges[edge] for edge in graph.outputs[number] if graph.edges[edge].consumer not in shared):
            yield Exchange(node.name, "fprop", "copy", graph.nodes[edge.consumer].name, here.home,
                           regions[edge.consumer].input, edge.channels, edge.elements // edge.channels)
    for number, node in reversed(list(enumerate(graph.nodes))):
        here, summed = regions[number], sums.get(number)
        for edge in (graph.edges[edge] for edge in graph.outputs[number] if graph.edges[edge].consumer not in shared):
            yield Exchange(node.name, "bprop", "reduce", graph.nodes[edge.consumer].name,
                           regions[edge.consumer].input, here.home, edge.channels, edge.elements // edge.channels)
        if node.weighted and here.mp:
            yield Exchange(node.name, "bprop", "copy", None, here.home, here.output, node.output_channels,
                           node.raw_elements // node.output_channels)
        if here.ep:
            if node.bias and node.free:
                yield tile_exchange(node, here, "bprop", "bias", factors)
            if summed is None or number == summed.members[-1]:
                coded = coded_exchanges(graph, regions, number, summed)
                yield tile_exchange(node, here, "bprop", "scatter", factors, coded)
            if graph.inputs[number] and number not in shared:
                yield tile_exchange(node, here, "bprop", "gather", factors)


def words(exchange: Exchange, batch: int, factors: Factors) -> Integers:
    """Words that die s (row) sends to die t (column)."""
    tiling = exchange.coded
    if tiling is not None:
        return _predicted_words(exchange, batch, factors, lambda run: expected_words(
            tiling, exchange.phase, exchange.kind, run))
    return exchange.positions * pattern(exchange.source, exchange.target, exchange.sizes(batch), factors)


def _predicted_words(exchange: Exchange, batch: int, factors: Factors, each: Callable[[int], int]) -> Integers:
    """Of a gather or scatter in codes, those of an element's run given."""
    sizes, gathers = dict(exchange.sizes(batch)), exchange.kind == "gather"
    samples, tiles = (exchange.target, exchange.source) if gathers else (exchange.source, exchange.target)
    runs = exchange.positions * (samples.lengths(SAMPLES, sizes[SAMPLES], factors)
                                 * samples.lengths(CHANNELS, sizes[CHANNELS], factors))
    elements = tiles.lengths(ELEMENTS, sizes[ELEMENTS], factors)
    of = np.array([each(run) if run else 0 for run in runs.tolist()], dtype=np.int64)
    met = pattern(exchange.source, exchange.target, exchange.sizes(batch), factors) > 0
    return met * (elements[:, None] * of[None, :] if gathers else of[:, None] * elements[None, :])


def word_bounds(exchange: Exchange, batch: int, factors: Factors) -> tuple[int, int]:
    """Between which words over all dies an exchange lies: those that it takes, unless data decide."""
    tiling = exchange.coded
    if tiling is None:
        found = exchange_words(exchange, batch, factors)
        return found, found

    def total(end: int) -> int:
        return int(_predicted_words(exchange, batch, factors, lambda run: least_most(
            tiling, exchange.phase, exchange.kind, run)[end]).sum())

    return total(0), total(1)


def exchange_words(exchange: Exchange, batch: int, factors: Factors) -> int:
    """Words of an exchange over all dies.

    One side is the homes, each element once; every copy that the other side has of an element moves, but for those
    that lie at home.
    """
    if exchange.coded is not None:
        return int(words(exchange, batch, factors).sum())
    source, target, sizes = exchange.source, exchange.target, exchange.sizes(batch)

    def held(region: Region) -> int:
        return prod([size for _, size in sizes]) * prod(factors) // region.parts(factors)

    return exchange.positions * (max(held(source), held(target)) - overlap(source, target, sizes, factors))


def weight_words(node: Node, regions: Layout, factors: Factors) -> tuple[Integers, Integers]:
    """Weights and bias elements of a node on every die."""
    rows = regions.weights.lengths(INPUTS, node.input_channels, factors)
    columns = regions.weights.lengths(OUTPUTS, node.output_channels, factors)
    each = node.weights // (node.input_channels * node.output_channels)
    elements = regions.weights.lengths(ELEMENTS, each, factors)
    return elements * rows * columns, node.bias // node.output_channels * columns


def node_rings(node: Node, here: Layout, factors: Factors) -> Iterator[Ring]:
    """The weight reductions of one node; rings of one member where the batch is whole."""
    weights, bias = weight_words(node, here, factors)
    for members in here.groups(RING, factors).members:
        yield Ring(node.name, members, int(weights[members[0]] + bias[members[0]]))


def rings(graph: PlanGraph, regions: Sequence[Layout], factors: Factors) -> Iterator[Ring]:
    """All weight reductions of a training step, in the order of bprop."""
    for node, here in reversed(list(zip(graph.nodes, regions, strict=True))):
        if node.weighted:
            yield from node_rings(node, here, factors)


def ring_words(node: Node, here: Layout, factors: Factors) -> int:
    """Words that all rings of a node send together."""
    weights, bias = weight_words(node, here, factors)
    size = parts(here.ring, factors)
    return 2 * (size - 1) * int((weights + bias).sum()) // size


def total_words(graph: PlanGraph, splits: Splits, batch: int, factors: Factors = (), lists: Partition = ()) -> int:
    """Words that all dies send in a training step, counted; without factors all levels halve."""
    factors = factors or halves(check_splits(graph, splits))
    regions = layouts(graph, splits, lists, factors)
    between = sum(exchange_words(exchange, batch, factors) for exchange in exchanges(graph, regions, factors))
    return between + sum(ring_words(node, here, factors) for node, here in zip(graph.nodes, regions, strict=True)
                         if node.weighted)
