"""Regions of tensors that dies hold, compute and send under a split. Exact for every size, also where nothing divides.

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

With a level of pipeline stages (:func:`plinth.partition.stages.check_stages`) a layer is of a digit there, whose dies
have all samples that the other levels leave them and all weights; dies of other digits have nothing of either.

Each of these axes of a layer, but the elements, may be cut by list instead, and the layer's regions have its owners
(:class:`Lists`). All that is computed follows from seats, so that owners decide where, never what: sums run in the
order of seats.

A sparse layer that splits its outputs needs of its input the channels alone in which a die's rows have entries: a cover
(:mod:`plinth.partition.needs`), whose words are those of the hypergraph that the layer is partitioned by.

Every element of the output has one *owner*, which adds the partial sums in ascending order, adds the bias, and
applies activation and pooling, forwards and backwards: the samples cut at dp and at those mp levels where the first
consumer is not mp, the channels cut at op and at those mp levels where it is. An owner lies in its die's own Z.
A junction's output is owned where it is computed: samples cut at dp, channels at mp. The loss cuts the samples, or, of
squares behind a sparse layer, the channels as that layer's owners do.

What moves between these in a training step says :mod:`plinth.partition.exchanges`; and dW and db, partial sums over
dies that differ at dp, go round a ring of those dies with the update at each chunk's owner: 2 (N - 1) times the words
of the slice, weights then bias.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from plinth.errors import UserError
from plinth.network.variables import INPUTS, OUTPUTS, Variable
from plinth.partition.axes import CHANNELS, ELEMENTS, SAMPLES, Region, common
from plinth.partition.cuts import (
    Cuts,
    Factors,
    Indices,
    Integers,
    Levels,
    Listed,
    Runs,
    Whole,
    compact,
    halves,
    levels_of,
    parts,
)
from plinth.partition.graph import DP, EP, LOSS, MP, SPLITS, Node, PlanGraph
from plinth.partition.groups import CLUSTER, ERROR, RING, SUM, TILES, Owners, ProcessGroups, process_groups
from plinth.partition.needs import by_blocks, needed_columns, nonzeros_of_parts, whole_inputs
from plinth.partition.stages import stage_cuts, stage_digit

#: For each node, for each level, "dp", "mp", "op" or "ep", or the digit of its pipeline stage, such as "pp0".
Splits = tuple[tuple[str, ...], ...]

#: Most levels: a die number has 10 bits.
MAXIMUM_LEVELS = 10


@dataclass(frozen=True)
class Layout:
    """Regions of a node on every die."""

    input: Region
    output: Region
    owned: Region
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
    def stage(self) -> tuple[Whole, ...]:
        """Digits of its pipeline stage."""
        return tuple(cut for cut in self.input.cuts(SAMPLES) if isinstance(cut, Whole))

    @property
    def tiles(self) -> tuple[Region, Region]:
        """Tiles of the inputs and of the outputs: samples that levels of elements do not cut, but elements."""
        tiles = []
        for region in (self.input, self.output):
            cuts = region.cuts(SAMPLES)
            axes = tuple((axis, cuts[:len(cuts) - len(self.ep)] if axis == SAMPLES else cut)
                         for axis, cut in region.axes)
            tiles.append(Region((*axes, (ELEMENTS, self.ep)) if self.ep else axes, self.owners))
        return tiles[0], tiles[1]

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

    samples: tuple[Indices | Runs, ...] | None = None
    #: Input channels; of a junction its channels.
    inputs: tuple[Indices | Runs, ...] | None = None
    outputs: tuple[Indices | Runs, ...] | None = None
    owners: Owners = None

    def __post_init__(self) -> None:
        # Equal lists are equal, however they were made.
        for axis in ("samples", "inputs", "outputs"):
            axis_parts = getattr(self, axis)
            if axis_parts is not None:
                object.__setattr__(self, axis, tuple(part if isinstance(part, Runs) else compact(part)
                                                     for part in axis_parts))


#: For each node, or none at all.
Partition = tuple[Lists | None, ...]


@dataclass(frozen=True)
class RingMessage:
    """A reduction of gradients over ``members``, which hold the same slice of ``words``."""

    members: tuple[int, ...]
    words: int

    @property
    def link_words(self) -> int:
        """Words that the members send together."""
        return 2 * (len(self.members) - 1) * self.words


def check_splits(graph: PlanGraph, splits: Splits) -> int:
    """Check the splits of a graph's nodes, and return the number of levels.

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
            if split not in graph.choices(number) and stage_digit(split) is None:
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
    choices = {tuple(split == EP for split in vector) for vector in vectors}
    count = [sum(levels) for levels in zip(*choices, strict=True)]
    return tuple(sorted((level for level, some in enumerate(count) if some), key=lambda level: (count[level], level)))


@lru_cache(maxsize=1 << 16)
def layout(weighted: bool, vector: tuple[str, ...], first: tuple[str, ...], free: bool = False,
           late: Levels = ()) -> Layout:
    """Regions of a node; ``first`` has the splits of its first consumer, which its owner goes by. ``free``: its weights
    are elements of Winograd tiles. ``late``: levels that cut samples after the others, and in which order, as they
    split elements of some node: so all nodes cut samples alike."""
    dp, mp, op, ep = (tuple(level for level, split in enumerate(vector) if split == which) for which in SPLITS)
    if late:
        dp, ep = (tuple(sorted(levels, key=lambda level: (late.index(level) if level in late else -1, level)))
                  for levels in (dp, ep))
    stage = stage_cuts(vector)
    axes = {"elements": ep} if free and ep else {}
    weights = _region(inputs=mp, outputs=(*stage, *op), **axes)
    ring = tuple(sorted(dp)) if free else tuple(sorted(dp + ep))
    if not weighted:
        own = _region(samples=(*stage, *dp), channels=mp)
        return Layout(own, own, own, dp, mp, op, weights, ring=ring)
    samples = (*stage, *dp, *ep)
    owned = _region(samples=(*samples, *(level for level in mp if first[level] != MP)),
                    channels=op + tuple(level for level in mp if first[level] == MP))
    return Layout(_region(samples=samples, channels=mp), _region(samples=samples, channels=op), owned, dp, mp, op,
                  weights, ep=ep, ring=ring)


def list_levels(count: int, levels: Levels, factors: Factors) -> Levels | None:
    """The first of some levels, as many as tell so many parts apart; None if none do."""
    return next((levels[:depth] for depth in range(1, len(levels) + 1) if parts(levels[:depth], factors) == count),
                None)


def _listed(here: Layout, lists: Lists, factors: Factors) -> Layout:
    """The layout of a node with some axes cut by list."""
    def cut(cuts: Cuts, axis_parts: tuple[Indices | Runs, ...] | None, levels: Levels) -> Cuts:
        if axis_parts is None:
            return cuts
        over = list_levels(len(axis_parts), levels, factors)
        assert over is not None
        return (Listed(over, axis_parts), *cuts[len(over):])

    def region(old: Region, **axes: tuple[tuple[Indices | Runs, ...] | None, Levels]) -> Region:
        return Region(tuple((axis, cut(cuts, *axes[axis]) if axis in axes else cuts) for axis, cuts in old.axes),
                      lists.owners)

    samples, inputs, outputs = (lists.samples, here.dp), (lists.inputs, here.mp), (lists.outputs, here.op)
    maps = inputs if here.input == here.output == here.owned else outputs
    return replace(here, input=region(here.input, samples=samples, channels=inputs),
                   output=region(here.output, samples=samples, channels=maps),
                   owned=region(here.owned, samples=samples, channels=maps),
                   weights=region(here.weights, inputs=inputs, outputs=outputs), owners=lists.owners)


def layouts(graph: PlanGraph, splits: Splits, lists: Partition = (), factors: Factors = ()) -> tuple[Layout, ...]:
    """Regions of all nodes; where there are lists, on an array of some factors."""
    node_layouts = []
    late = tile_levels(*splits)
    for number, node in enumerate(graph.nodes):
        outputs = graph.outputs[number]
        first = splits[graph.edges[outputs[0]].consumer] if outputs else (DP,) * len(splits[number])
        here = layout(node.weighted, splits[number], first, node.free, late)
        node_lists = lists[number] if lists else None
        node_layouts.append(here if node_lists is None else _listed(here, node_lists, factors))
    factors = factors or halves(len(splits[0]))
    for number, node in enumerate(graph.nodes):
        if node.pattern is not None:
            node_layouts[number] = _by_blocks(graph, number, node_layouts[number], factors)
    return tuple(_needing(graph, number, node_layouts, factors) for number in range(len(node_layouts)))


def _by_blocks(graph: PlanGraph, number: int, here: Layout, factors: Factors) -> Layout:
    """The layout of a sparse layer, each part of its outputs in the order of its blocks."""
    pattern, readers = graph.nodes[number].pattern, [graph.edges[edge].consumer for edge in graph.outputs[number]]
    assert pattern is not None
    following = graph.nodes[readers[0]].pattern if len(readers) == 1 else None
    outputs = by_blocks(pattern, here.weights.cuts(OUTPUTS), factors, following)

    def region(old: Region, which: str) -> Region:
        return Region(tuple((axis, outputs if axis == which else cuts) for axis, cuts in old.axes), old.owners)

    return replace(here, output=region(here.output, CHANNELS), owned=region(here.owned, CHANNELS),
                   weights=region(here.weights, OUTPUTS))


def _needing(graph: PlanGraph, number: int, node_layouts: Sequence[Layout], factors: Factors) -> Layout:
    """The layout of a node that follows the one before: of a sparse layer that splits its outputs dies need some input
    channels alone; a loss that splits its channels as their owners do has them in the owners' order, and so have a loss
    and a sparse layer that do not split what a sparse layer has whole."""
    node, here = graph.nodes[number], node_layouts[number]
    if (node.pattern is not None or node.kind == LOSS) and not (here.mp or here.op):
        (feed,) = graph.feeds(number)
        whole: Cuts = ()
        if feed is not None:
            whole = node_layouts[graph.edges[feed].producer].owned.cuts(CHANNELS)
        elif node.pattern is not None:
            whole = whole_inputs(node.pattern)
        return here if levels_of(whole) or not whole else _in_order(here, whole, node.pattern is None)
    if here.mp and node.kind == LOSS:
        owned = node_layouts[graph.edges[graph.inputs[number][0]].producer].owned
        both = common(CHANNELS, node.input_channels, here.input, owned, factors)
        if all(bool((both == region.lengths(CHANNELS, node.input_channels, factors)).all())
               for region in (here.input, owned)):
            return replace(here, input=owned, output=owned, owned=owned)
    if node.pattern is None or not here.op:
        return here
    (feed,) = graph.feeds(number)
    owned_cuts = None if feed is None else node_layouts[graph.edges[feed].producer].owned.cuts(CHANNELS)
    cover = needed_columns(node.pattern, here.weights.cuts(OUTPUTS), owned_cuts, factors)
    axes = tuple((axis, (cover,) if axis == CHANNELS else cuts) for axis, cuts in here.input.axes)
    return replace(here, input=Region(axes, here.owners))


def _in_order(here: Layout, channels: Cuts, outputs: bool) -> Layout:
    """A layout with its input's channels in an order, and of what does not change them also its outputs'."""
    def region(old: Region) -> Region:
        return Region(tuple((axis, channels if axis == CHANNELS else cuts) for axis, cuts in old.axes), old.owners)

    if not outputs:
        return replace(here, input=region(here.input))
    return replace(here, input=region(here.input), output=region(here.output), owned=region(here.owned))


def weight_words(node: Node, regions: Layout, factors: Factors) -> tuple[Integers, Integers]:
    """Weights and bias elements of a node on every die."""
    elements, rows, columns = (regions.weights.lengths(axis, size, factors)
                               for axis, size in zip((ELEMENTS, INPUTS, OUTPUTS), node.matrix, strict=True))
    biases = node.bias // node.output_channels * columns
    if node.pattern is None:
        return elements * rows * columns, biases
    entries = nonzeros_of_parts(node.pattern, regions.weights.cuts(OUTPUTS), factors)
    return entries[regions.weights.numbers(OUTPUTS, factors)], biases


def ring_messages(node: Node, here: Layout, factors: Factors, rings: ProcessGroups, variable: Variable | None = None
                  ) -> Iterator[RingMessage]:
    """The weight reductions of one node, or of one of its variables, over its rings; of one member where the batch is
    whole."""
    words = _trained_words(node, here, factors, variable)
    for members in rings.members:
        yield RingMessage(members, int(words[members[0]]))


def ring_words(node: Node, here: Layout, factors: Factors, variable: Variable | None = None) -> int:
    """Words that all rings of a node send together, of one of its variables or of all."""
    if node.pattern is not None:
        size = parts(here.ring, factors)
        return 2 * (size - 1) * int(_trained_words(node, here, factors, variable).sum()) // size
    biases = node.bias // node.output_channels if variable is None or variable.added else 0
    return _ring_words(node.matrix, variable is None or not variable.added, biases, here.weights, here.ring, factors)


@lru_cache(maxsize=1 << 16)
def _ring_words(matrix: tuple[int, int, int], weights: bool, biases: int, region: Region, ring: Levels,
                factors: Factors) -> int:
    """Of weights, or none, and so many biases an output channel, copied on dies that differ in the levels ``ring``."""
    sizes, size = tuple(zip((ELEMENTS, INPUTS, OUTPUTS), matrix, strict=True)), parts(ring, factors)
    outputs = Region.of(outputs=region.cuts(OUTPUTS))
    return 2 * (size - 1) * (weights * region.held(sizes, factors) + biases * outputs.held(sizes[2:], factors)) // size


def _trained_words(node: Node, here: Layout, factors: Factors, variable: Variable | None) -> Integers:
    """What every die has of one variable of a node, or of all."""
    weights, bias = weight_words(node, here, factors)
    return weights + bias if variable is None else bias if variable.added else weights
