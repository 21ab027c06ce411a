"""What planners see of a network: weighted layers and junctions, joined by edges.

A *node* is a weighted layer (convolution, fully connected, sparse, embedding, affine), a junction (residual add, join
by mean), a concatenation of channels, of which the batch alone is split, or the loss. Every other layer (pooling,
activation, flatten) belongs to the node before it and works where that node's output is owned; an edge therefore has
the size of what its consumer reads. What lies between the network's input and the first node belongs to the input.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from plinth.errors import UserError, about
from plinth.machine.convolution import ConvolutionWindow
from plinth.network.layers import (
    REGIONS,
    Concat,
    Convolution,
    Flatten,
    Layer,
    MaxPool,
    MeanPool,
    MeanSquaredError,
    Relu,
    Shape,
    Sparse,
)
from plinth.network.network import INPUT, Network
from plinth.network.sparse.pattern import SparsePattern
from plinth.network.variables import OUTPUTS, Gradient, Variable
from plinth_hw.isa.winograd import Form, form

#: The batch is split; each die has all weights of the layer.
DP = "dp"
#: The weights' input channels, the reduction dimension, are split; of a junction, its channels.
MP = "mp"
#: The weights' output channels are split (AccPar's third type).
OP = "op"
#: The elements of a Winograd layer's tiles are split.
EP = "ep"
#: All choices, in the order in which ties are decided.
SPLITS = (DP, MP, OP, EP)
#: Nothing is split: the layer is of a pipeline stage, which is all dies of a digit at the level, such as "pp1".
PP = "pp"
#: Kinds of nodes without weights that planners choose a split for.
JUNCTIONS = ("add", "join")
#: The node that has the channels of several others side by side, whose batch is always split.
CONCAT = Concat.kind
#: The node at the end, whose batch is always split.
LOSS = "loss"


@dataclass(frozen=True)
class Epilogue:
    """A layer whose work is done with its node's: an activation, a pool, or the loss. Of a pool the maps that it reads
    and gives, [rows, columns] each."""

    layer: Layer
    size: tuple[int, int] = (1, 1)
    output: tuple[int, int] = (1, 1)

    @property
    def kind(self) -> str:
        """Of the layer."""
        return self.layer.kind

    @property
    def name(self) -> str:
        """Of the layer, for names of tasks and maps."""
        return self.layer.name


@dataclass(frozen=True)
class Tiling:
    """How a convolution is computed by Winograd tiles: F(``outputs``, taps) in the directions in which its kernel has
    more than one tap; tiles of a map, [rows, columns]."""

    outputs: int
    kernel: tuple[int, int]
    #: Whether the weights are the tiles' elements, else the kernel's.
    free: bool
    tiles: tuple[int, int]
    #: In which it is found out what gathers need, if they can be predicted; 0: they send everything.
    rounds: int = 0
    #: Words of each part of such a gather, and of what goes in skip code, over those of all elements, if they are
    #: given; else those measured are expected.
    shares: tuple[float, ...] = ()
    #: Whether that is by MPT's codes of regions, instead of the block code.
    regions: bool = False
    #: Whether what is below another neuron of its window in a max-pool is not needed either: as the epilogue says.
    pooled: bool = False

    @property
    def form(self) -> Form:
        """Its transforms."""
        return form(self.kernel, self.outputs)

    @property
    def elements(self) -> int:
        """Of a tile."""
        return self.form.elements

    @property
    def positions(self) -> int:
        """Tiles of a map."""
        return self.tiles[0] * self.tiles[1]

    def column(self, groups: int) -> int:
        """Elements of a tile's column, where each of some groups of dies has as many whole columns: they are counted
        column by column then. 0: row by row."""
        down, across = self.form.sides
        return down if groups > 1 and down > 1 and across % groups == 0 else 0

    def order(self, groups: int) -> tuple[int, ...]:
        """Numbers of elements, row by row, as so many groups of dies count them; none: by rising numbers."""
        down, across = self.form.sides
        return tuple(row * across + column for column in range(across) for row in range(down)) if self.column(
            groups) else ()

    @property
    def line_elements(self) -> int:
        """Of a tile of outputs whose columns have been made lines: as many as outputs down, of each column."""
        return self.form.transforms[0].outputs * self.form.sides[1]


@dataclass(frozen=True, kw_only=True)
class Node:
    """A weighted layer, a junction or the loss. Sizes are elements per sample."""

    name: str
    #: "convolution", "dense", "sparse", "embedding", "affine", "add", "join", "concat" or "loss".
    kind: str
    #: What the layer trains: a matrix or factors, then what is added to each output channel.
    variables: tuple[Variable, ...] = ()
    #: Channels that an "mp" split divides, and output channels, which an "op" split divides.
    input_channels: int
    output_channels: int
    input_elements: int
    #: Output before pooling: what partial sums have.
    raw_elements: int
    #: Output behind pooling and activation, as the first consumer reads it.
    map_elements: int
    #: Multiply-adds of fprop.
    macs: int = 0
    #: Height times width of the input map; 1 for features.
    input_positions: int = 1
    #: Height times width of the output before pooling.
    output_positions: int = 1
    #: Of a convolution.
    window: ConvolutionWindow | None = None
    #: Of a convolution that is computed by Winograd tiles.
    tiling: Tiling | None = None
    #: Of a sparse layer: its connections.
    pattern: SparsePattern | None = None
    #: What owners do behind its sum, in order.
    epilogue: tuple[Epilogue, ...] = ()
    #: Places among its inputs at which it reads the network's input.
    network_inputs: tuple[int, ...] = ()
    #: Places at which it reads once more what it reads at an earlier place, each with that one: both are one edge.
    repeated: tuple[tuple[int, int], ...] = ()
    #: Whether a node reads its sum as it is, beside what follows.
    bare: bool = False

    @property
    def free(self) -> bool:
        """Whether its weights are elements of Winograd tiles."""
        return self.tiling is not None and self.tiling.free

    @property
    def raw_positions(self) -> int:
        """Elements of a channel before pools, however the layer came by them."""
        return self.raw_elements // self.output_channels

    @cached_property
    def weights(self) -> int:
        """Elements of its matrix, or of its factors."""
        return sum(variable.elements for variable in self.variables if not variable.added)

    @cached_property
    def bias(self) -> int:
        """Elements of what is added to its outputs."""
        return sum(variable.elements for variable in self.variables if variable.added)

    @cached_property
    def matrix(self) -> tuple[int, int, int]:
        """Its weights as taps of matrices ``[inputs, outputs]``; factors of channels are one row, and a sparse matrix
        is as large as with its zeros."""
        if self.per_channel:
            return 1, 1, self.output_channels
        if self.pattern is not None:
            return 1, self.input_channels, self.output_channels
        return self.weights // (self.input_channels * self.output_channels), self.input_channels, self.output_channels

    @property
    def per_channel(self) -> bool:
        """Whether it has a factor for each channel, and no matrix."""
        return any(variable.axes == (OUTPUTS,) and not variable.added for variable in self.variables)

    @property
    def weighted(self) -> bool:
        """Whether it has variables."""
        return bool(self.variables)

    @cached_property
    def gathers(self) -> bool:
        """Whether rows of its matrix are moved, not multiplied: an embedding."""
        return any(variable.gradient is Gradient.ROWS for variable in self.variables)

    @property
    def kernel_columns(self) -> int:
        """Columns of a convolution's kernel."""
        return self.window.kernel[1] if self.window else 1

    @property
    def pools(self) -> bool:
        """Whether pools follow."""
        return any(epilogue.output != (1, 1) or epilogue.size != (1, 1) for epilogue in self.epilogue)

    @property
    def junction(self) -> bool:
        """Whether it is a residual add or a join."""
        return self.kind in JUNCTIONS

    @property
    def taps(self) -> int:
        """Products in a sum: the K of the layer's matrix product."""
        return self.weights // self.output_channels if self.weights else 0


@dataclass(frozen=True)
class Edge:
    """What ``consumer`` reads of ``producer`` (numbers of nodes): ``elements`` per sample in ``channels``."""

    producer: int
    consumer: int
    elements: int
    channels: int


@dataclass(frozen=True, kw_only=True)
class PlanGraph:
    """Nodes in an order in which each stands behind those that feed it, the loss last.

    Raises
    ------
    ValueError
        If an edge leads backwards, joins different numbers of channels, or the loss is missing.
    """

    name: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    def __post_init__(self) -> None:
        if not self.nodes or self.nodes[-1].kind != LOSS:
            raise ValueError(f"the last node of {self.name!r} must be the loss")
        for edge in self.edges:
            producer, consumer = self.nodes[edge.producer], self.nodes[edge.consumer]
            if edge.producer >= edge.consumer:
                raise ValueError(f"node {producer.name!r} must stand before {consumer.name!r}, which reads it")
            if consumer.kind != CONCAT and not edge.channels == producer.output_channels == consumer.input_channels:
                raise ValueError(f"node {producer.name!r} gives {producer.output_channels} channels, but "
                                 f"{consumer.name!r} takes {consumer.input_channels}")

    @cached_property
    def weighted(self) -> tuple[int, ...]:
        """Numbers of the weighted nodes."""
        return tuple(number for number, node in enumerate(self.nodes) if node.weighted)

    @cached_property
    def variables(self) -> dict[str, Variable]:
        """What the network trains, by the names of variables in it."""
        return {variable.qualified(node.name): variable for node in self.nodes for variable in node.variables}

    @cached_property
    def planned(self) -> tuple[int, ...]:
        """Numbers of the nodes that a planner chooses splits for: all but the loss."""
        return tuple(range(len(self.nodes) - 1))

    @cached_property
    def sparse(self) -> bool:
        """Whether it has sparse layers."""
        return any(node.pattern is not None for node in self.nodes)

    @cached_property
    def split_loss(self) -> bool:
        """Whether the loss may be split by channels: one that compares element by element what a sparse layer gives."""
        before = self.nodes[self.edges[self.inputs[-1][0]].producer] if self.inputs[-1] else None
        return (before is not None and before.pattern is not None
                and [layer.kind for layer in self.nodes[-1].epilogue] == [MeanSquaredError.kind])

    @cached_property
    def inputs(self) -> tuple[tuple[int, ...], ...]:
        """Numbers of the edges into each node."""
        return self._ends(lambda edge: edge.consumer)

    @cached_property
    def outputs(self) -> tuple[tuple[int, ...], ...]:
        """Numbers of the edges out of each node; the first is the one that its output's owner goes by."""
        return self._ends(lambda edge: edge.producer)

    def feeds(self, number: int) -> tuple[int | None, ...]:
        """What a node reads, in the order of its inputs: numbers of edges, None where it is the network's input. An
        edge comes again where it is read again."""
        edges, node = iter(self.inputs[number]), self.nodes[number]
        earlier = dict(node.repeated)
        feeds: list[int | None] = []
        for place in range(len(self.inputs[number]) + len(node.network_inputs) + len(earlier)):
            feeds.append(None if place in node.network_inputs else
                         feeds[earlier[place]] if place in earlier else next(edges))
        return tuple(feeds) or (None,)

    def _ends(self, end: object) -> tuple[tuple[int, ...], ...]:
        by_node: list[list[int]] = [[] for _ in self.nodes]
        for number, edge in enumerate(self.edges):
            by_node[end(edge)].append(number)  # type: ignore[operator]
        return tuple(tuple(numbers) for numbers in by_node)

    def choices(self, number: int, splits: Sequence[str] = SPLITS) -> tuple[str, ...]:
        """Which of ``splits`` a node may take: factors of channels and concatenations "dp" only, and the loss, unless
        :attr:`split_loss`; sparse layers "dp" or "op"; "op" what has weights, "ep" Winograd layers."""
        node = self.nodes[number]
        if node.kind == LOSS and self.split_loss:
            return DP, MP
        if node.kind in (LOSS, CONCAT) or node.per_channel:
            return (DP,)
        if node.pattern is not None:
            return tuple(split for split in splits if split in (DP, OP))
        return tuple(split for split in splits if {OP: node.weighted, EP: node.tiling is not None}.get(split, True))


def chain(name: str, nodes: Sequence[Node]) -> PlanGraph:
    """A graph in which every node reads the one before; the loss is appended."""
    last = nodes[-1]
    loss = Node(name=LOSS, kind=LOSS, input_channels=last.output_channels, output_channels=last.output_channels,
                input_elements=last.map_elements, raw_elements=last.map_elements, map_elements=last.map_elements)
    whole = (*nodes, loss)
    return PlanGraph(name=name, nodes=whole, edges=tuple(
        Edge(number, number + 1, node.map_elements, node.output_channels) for number, node in enumerate(nodes)))


@dataclass(frozen=True)
class _Flow:
    """A tensor on its way: the node that it comes from (None: the input), its elements, and its channels; whether it is
    the node's sum as it is."""

    node: int | None
    elements: int
    channels: int
    bare: bool = False


def _epilogue(layer: Layer, source: Shape, target: Shape) -> Epilogue:
    # Where it stands in the network, the graph says.
    alone = replace(layer, inputs=(), shape=None)
    if not isinstance(layer, (MaxPool, MeanPool)):
        return Epilogue(alone)
    _, *size = source
    _, *output = target
    return Epilogue(alone, (size[0], size[1]), (output[0], output[1]))


def _window(layer: Convolution, source: Shape, target: Shape) -> ConvolutionWindow:
    _, *size = source
    _, *output = target
    return ConvolutionWindow((size[0], size[1]), layer.kernel, layer.stride, layer.padding, (output[0], output[1]))


def _tiling(layer: Convolution, source: Shape) -> Tiling | None:
    outputs = layer.transform([source])
    if outputs is None:
        return None
    _, *size = source
    _, (down, across) = form(layer.kernel, outputs).lattices((size[0], size[1]), layer.padding)
    return Tiling(outputs, layer.kernel, layer.trained_tiles([source]) is not None, (down.count, across.count),
                  layer.rounds, layer.shares, layer.predict == REGIONS)


def _pooled(tiling: Tiling, epilogue: Sequence[Epilogue]) -> bool:
    """Whether a gather that is predicted by the block code is that of a max-pool behind a ReLU, of windows of 2x2 that
    lie in tiles; none that is cut by the map's edge is pooled."""
    if not tiling.rounds or tiling.regions or [layer.kind for layer in epilogue[:2]] != [Relu.kind, MaxPool.kind]:
        return False
    behind = epilogue[1]
    pool = behind.layer
    return (isinstance(pool, MaxPool) and pool.kernel == pool.stride == (2, 2) and pool.padding == (0, 0)
            and all(2 * count <= size for count, size in zip(behind.output, behind.size, strict=True))
            and not any(transform.outputs % 2 for transform in tiling.form.transforms))


def from_network(network: Network) -> PlanGraph:
    """The graph of a network.

    Raises
    ------
    UserError
        If a layer reads what cannot be split as it needs: a junction adds maps and features, or what is concatenated,
        scaled or multiplied by a sparse matrix is a flattened map.
    """
    flows = {INPUT: _Flow(None, network.input.elements, network.input.channels)}
    nodes: list[Node] = []
    edges: list[Edge] = []
    epilogues: dict[int, list[Epilogue]] = {}
    bare: set[int | None] = set()
    for layer in network.layers:
        shapes = network.shapes[layer.name]
        reads = [flows[name] for name in layer.inputs]
        first = reads[0]
        if not (layer.is_node or layer.is_loss):
            channels = first.channels if isinstance(layer, Flatten) or shapes.output.flat else shapes.output.channels
            flows[layer.name] = _Flow(first.node, shapes.output.elements, channels,
                                      first.bare and isinstance(layer, Flatten))
            if first.node is not None and not isinstance(layer, Flatten):
                epilogues.setdefault(first.node, []).append(_epilogue(layer, shapes.inputs[0], shapes.output))
            continue
        joined = isinstance(layer, Concat)
        if joined and (odd := [name for name, flow, shape in zip(layer.inputs, reads, shapes.inputs, strict=True)
                               if flow.channels != shape.channels]):
            raise UserError(f"network {network.name!r}: layer {layer.name!r} concatenates {odd[0]!r}, a flattened map; "
                            "flatten behind it instead of before")
        if not joined and len({flow.channels for flow in reads}) > 1:
            counts = " and ".join(f"{name!r} has {flow.channels}" for name, flow in
                                  zip(layer.inputs, reads, strict=True))
            raise UserError(f"network {network.name!r}: layer {layer.name!r} adds outputs of different channels "
                            f"({counts}), which cannot be split alike; flatten behind it instead of before")
        output = first.elements if layer.is_loss else shapes.output.elements
        with about(f"network {network.name!r}", ValueError):
            input_channels, channels = layer.split_channels(first.channels, shapes.output)
        number = len(nodes)
        # Errors of what is concatenated twice are not the same.
        firsts = [place if joined else layer.inputs.index(name) for place, name in enumerate(layer.inputs)]
        nodes.append(Node(
            name=layer.name, kind=LOSS if layer.is_loss else layer.kind, variables=shapes.variables,
            input_channels=input_channels, output_channels=channels,
            input_elements=output if joined else first.elements, raw_elements=output, map_elements=output,
            macs=network.layer_macs(layer.name), input_positions=shapes.inputs[0].positions,
            output_positions=output // channels,
            window=_window(layer, shapes.inputs[0], shapes.output) if isinstance(layer, Convolution) else None,
            tiling=_tiling(layer, shapes.inputs[0]) if isinstance(layer, Convolution) else None,
            pattern=layer.pattern if isinstance(layer, Sparse) else None,
            network_inputs=tuple(place for place, flow in enumerate(reads) if flow.node is None),
            repeated=tuple((place, first) for place, first in enumerate(firsts)
                           if first < place and reads[place].node is not None)))
        if layer.is_loss:
            epilogues[number] = [_epilogue(layer, shapes.inputs[0], shapes.output)]
        edges += [Edge(flow.node, number, flow.elements, flow.channels) for place, flow in enumerate(reads)
                  if flow.node is not None and firsts[place] == place]
        bare |= {flow.node for flow in reads if flow.bare}
        flows[layer.name] = _Flow(number, output, channels, True)
    sized = []
    for number, node in enumerate(nodes):
        reading = [edge.elements for edge in edges if edge.producer == number]
        behind = tuple(epilogues.get(number, ()))
        sized.append(replace(node, map_elements=reading[0] if reading else node.map_elements, epilogue=behind,
                             bare=number in bare and bool(behind),
                             tiling=node.tiling and replace(node.tiling, pooled=_pooled(node.tiling, behind))))
    return PlanGraph(name=network.name, nodes=tuple(sized), edges=tuple(edges))
