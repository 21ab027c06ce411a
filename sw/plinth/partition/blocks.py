"""Blocks of Winograd layers: tiles that are added before they move, tiles that several layers share, maps that are
added to what is gathered, and which exchanges of a layer send codes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plinth.network.layers import MaxPool, MeanPool, Relu
from plinth.partition.graph import Node, PlanGraph
from plinth.partition.regions import Layout
from plinth_hw.isa.vector_body import VECTOR_LOADS


@dataclass(frozen=True)
class TileSum:
    """Winograd layers whose outputs a junction adds, or takes the mean of, with nothing but sums between: their tiles
    are added where their elements are, and what the last one gathers is the sum of all; backwards its tiles of the
    error serve all. Source: MPT section VII, Figure 14(a)."""

    junction: Node
    #: Nodes by number, ascending, and how many of them have a bias.
    members: tuple[int, ...]
    biases: int
    #: In which it is found out what the last one's gather needs.
    rounds: int


def tile_sums(graph: PlanGraph, layouts: Sequence[Layout]) -> dict[int, TileSum]:
    """Find the junctions whose inputs can be added as Winograd tiles, by each of their inputs: all inputs are Winograd
    layers that nothing else reads, with tiles and groups of dies alike, elements split and whole sums, such that the
    junction's samples are theirs; of no more biases than a vector task can add."""
    sums: dict[int, TileSum] = {}
    for number, junction in enumerate(graph.nodes):
        feeds = graph.feeds(number) if junction.junction else ()
        members = tuple(sorted({graph.edges[edge].producer for edge in feeds if edge is not None}))
        if not members or len(members) < len(feeds):
            continue
        nodes, (first, *others) = [graph.nodes[member] for member in members], [layouts[member] for member in members]
        kinds = {node.tiling and (node.tiling.outputs, node.tiling.kernel, node.tiling.tiles) for node in nodes}
        if (len(kinds) == 1 and (last := nodes[-1].tiling) and first.ep and not first.mp
                and not any(node.epilogue for node in nodes)
                and all(len(graph.outputs[member]) == 1 for member in members)
                and all((layout.ep, layout.mp, layout.output, layout.owners)
                        == (first.ep, first.mp, first.output, first.owners) for layout in others)
                and layouts[number].input == first.output
                and (biases := sum(node.bias > 0 for node in nodes)) < VECTOR_LOADS):
            sums |= dict.fromkeys(members, TileSum(junction, members, biases, last.rounds))
    return sums


def shared_tiles(graph: PlanGraph, layouts: Sequence[Layout]) -> dict[int, int]:
    """Winograd layers that take the tiles of an input that another has scattered, by number, with its number: the first
    of those that read the same map, as tiles alike, in groups of dies alike. Backwards what that one gathers is the sum
    of the tiles of all."""
    sources: dict[int, int] = {}
    firsts: dict[tuple[object, ...], int] = {}
    for number, node in enumerate(graph.nodes):
        here = layouts[number]
        if node.tiling is None or node.window is None or not here.ep:
            continue
        edge, = graph.feeds(number)
        if edge is None:
            continue
        key = (graph.edges[edge].producer, node.tiling.outputs, node.tiling.kernel, node.window.padding, here.ep,
               here.mp, here.op, here.input)
        first = firsts.setdefault(key, number)
        if first != number:
            sources[number] = first
    return sources


@dataclass(frozen=True)
class Residual:
    """The map that a junction adds to that of a Winograd layer which nothing else reads, before anything else
    follows."""

    junction: Node
    #: Number of the node whose last map it is.
    producer: int | None
    #: Why it is not there when the layer's tiles are gathered, where they are; empty if it is.
    missing: str


def residuals(graph: PlanGraph, layouts: Sequence[Layout], sums: Mapping[int, TileSum]) -> dict[int, Residual]:
    """Find the maps that are added to what Winograd layers gather, by layer: those whose map a junction of two inputs
    reads, and whose tiles are not added before."""
    residual_of: dict[int, Residual] = {}
    for number, node in enumerate(graph.nodes):
        reads = [graph.edges[edge].consumer for edge in graph.outputs[number]]
        if node.tiling is None or node.epilogue or len(reads) != 1 or number in sums:
            continue
        junction, feeds = graph.nodes[reads[0]], graph.feeds(reads[0])
        if not junction.junction or len(feeds) != 2 or feeds[0] == feeds[1]:
            continue
        other, = (edge for edge in feeds if edge not in graph.outputs[number])
        producer = None if other is None else graph.edges[other].producer
        if producer is None:
            missing = "the network's input is added to its sums"
        elif producer > number:
            missing = "what is added to its sums is made behind them"
        elif not layouts[producer].owned == layouts[reads[0]].input == layouts[number].output:
            missing = "what is added to its sums lies on other dies"
        else:
            missing = ""
        residual_of[number] = Residual(junction, producer, missing)
    return residual_of


@dataclass(frozen=True)
class WinogradBlocks:
    """The blocks of a network's Winograd layers under some splits.

    Parameters
    ----------
    sums : mapping of int to TileSum
        By number of each member.
    shared : mapping of int to int
        By number of a layer the one whose tiles of the input it takes.
    added : mapping of int to Residual
        By number of the layer whose map it is added to.
    """

    sums: Mapping[int, TileSum]
    shared: Mapping[int, int]
    added: Mapping[int, Residual]


def blocks_of(graph: PlanGraph, layouts: Sequence[Layout], *, apart: bool = False) -> WinogradBlocks:
    """The blocks of a network's layers; ``apart``: each layer scatters and gathers its own tiles."""
    sums, shared = ({}, {}) if apart else (tile_sums(graph, layouts), shared_tiles(graph, layouts))
    return WinogradBlocks(sums, shared, residuals(graph, layouts, sums))


def sum_end(node: Node, summed: TileSum | None, added: Residual | None) -> Node:
    """The node behind which all is added to a Winograd layer's sums: what else is done to them follows that."""
    block = summed or added
    return node if block is None else block.junction


def unpredictable(node: Node, here: Layout, summed: TileSum | None, added: Residual | None) -> str:
    """Why a gather is not predicted though its layer asks for it; empty if it is."""
    if not here.ep:
        return "elements of its tiles are not split"
    if here.mp:
        return "its sums are parts, of dies that split its channels"
    end = sum_end(node, summed, added)
    if not end.epilogue or end.epilogue[0].kind != Relu.kind:
        return "no ReLU follows its sums"
    if end.bare:
        return "its sums are read without the ReLU, too"
    if added is not None and added.missing:
        return added.missing
    if summed is not None and not summed.rounds:
        return "the last layer of its sum of tiles does not predict"
    if summed is not None and summed.biases > 1:
        return "several biases are added to a sum of tiles"
    return "its samples or channels are cut by list" if here.output.orders else ""


def coded_exchanges(graph: PlanGraph, here: Layout, number: int, summed: TileSum | None, added: Residual | None
                    ) -> tuple[tuple[str, str], ...]:
    """Phases and kinds of a Winograd layer's exchanges that send codes, if it asks for predictions: the gather of
    fprop, if it is predicted, with it the scatter of its errors; the scatter of inputs that are behind a ReLU, with it
    the gather of their errors, but behind a mean, which may be 0 of numbers above it."""
    node = graph.nodes[number]
    if node.tiling is None or not node.tiling.rounds or not here.ep:
        return ()
    coded = [] if unpredictable(node, here, summed, added) else [("fprop", "gather")]
    # Of dies that split channels as well some have copies.
    if not (here.mp or here.op or here.input.orders or here.output.orders):
        coded += [("bprop", "scatter")] * len(coded)
        edge, = graph.feeds(number)
        kinds = [] if edge is None else [epilogue.kind for epilogue in graph.nodes[graph.edges[edge].producer].epilogue]
        if Relu.kind in kinds and not set(kinds) - {Relu.kind, MaxPool.kind, MeanPool.kind}:
            coded.append(("fprop", "scatter"))
            if MeanPool.kind not in kinds[kinds.index(Relu.kind):]:
                coded.append(("bprop", "gather"))
    return tuple(coded)
