"""fprop of a training step, and its loss; the order of operations stands in :mod:`plinth.step.step`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log

from plinth.network.layers import MaxPool, MeanPool
from plinth.partition.axes import SAMPLES, Region, alike, plane
from plinth.partition.blocks import TileSum
from plinth.partition.graph import CONCAT, LOSS, Epilogue, Node
from plinth.partition.groups import SUM
from plinth.step.activation import ACTIVATIONS, run_forward
from plinth.step.concatenation import side_by_side
from plinth.step.operands import Operands, narrow_weights, widened
from plinth.step.operations import Chained, Clear, Gather, Pool, Products, Sweep
from plinth.step.slots import Slots, Summands
from plinth.step.step import Step
from plinth.step.sums import LEFT, Sum, add_sources
from plinth.step.tasks import FPROP
from plinth.step.tensors import Matrix, Meeting, Placed, Tensor, folded
from plinth.step.vector import Operand, VectorProgram
from plinth.step.winograd import WinogradLayer
from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.vector_body import VECTOR_LOADS, VectorFunction, VectorOp

#: Kinds of layers.
POOLS = {layer.kind: layer for layer in (MaxPool, MeanPool)}
SOFTMAX = "softmax-cross-entropy"


def has_classes(node: Node) -> bool:
    """Whether the loss is one over classes."""
    return not node.epilogue or node.epilogue[0].kind == SOFTMAX


def loss_rows(node: Node) -> int:
    """Rows of a sample in the loss's programs: one over all its classes, else one a position."""
    return 1 if has_classes(node) else node.input_elements // node.input_channels


def pool_of(behind: Epilogue) -> MaxPool | MeanPool:
    """The layer that a pool is."""
    assert isinstance(behind.layer, (MaxPool, MeanPool))
    return behind.layer


@dataclass
class Made:
    """A node with its tensors."""

    number: int
    node: Node
    #: What it reads of each of its inputs.
    x: list[Tensor]
    #: Its output (partial sums where input channels are split), and what it is at home behind bias and activation, or
    #: before an activation that keeps its input.
    z: Tensor | None = None
    output: Tensor | None = None
    #: The activation that goes with the sum.
    activation: Epilogue | None = None
    #: Activations and pools in order, each with what it reads and gives; the first activation reads nothing of its own,
    #: which stands as what it gives unless it is kept.
    followed: list[tuple[Epilogue, Tensor, Tensor]] = field(default_factory=list)
    #: For each pool by its name, what lies between its directions.
    middles: dict[str, Tensor] = field(default_factory=dict)
    #: What the loss has already done: error of ``output`` and bias gradient.
    error: Tensor | None = None
    #: Its last map in FP32, if that is narrow and tiles are made of it.
    wide: Tensor | None = None
    #: The readers of its last map: (node, number of its input).
    readers: list[tuple["Made", int]] = field(default_factory=list)

    @property
    def map(self) -> Tensor:
        """What readers read."""
        found = self.followed[-1][2] if self.followed else self.output
        assert found is not None
        return found

    @property
    def pooled(self) -> bool:
        """Whether pools follow, so that it goes in strips of images."""
        return any(behind.kind in POOLS for behind in self.node.epilogue)


class Forward:
    """Builds fprop node by node."""

    def __init__(self, step: Step):
        self.step = step
        self._made: dict[int, Made] = {}
        self._operands: dict[str, Operands] = {}
        #: Winograd layers by number.
        self.winograd = {number: WinogradLayer(step, number) for number in step.graph.weighted
                         if step.graph.nodes[number].tiling is not None}

    def run(self) -> list[Made]:
        """All nodes, in their order."""
        step = self.step
        for number in step.graph.weighted:
            if number in self.winograd:
                self.winograd[number].prepare()
            else:
                node = step.graph.nodes[number]
                self._operands[node.name] = narrow_weights(step, node, step.weights[node.name])
        for number, node in enumerate(step.graph.nodes):
            feeds = step.graph.feeds(number)
            first = step.shared_tiles.get(number)
            made = Made(number, node, [] if self._summed(node) else self._made[first].x if first is not None else
                        self._inputs(number, feeds))
            for place, edge in enumerate(feeds):
                if edge is not None:
                    self._made[step.graph.edges[edge].producer].readers.append((made, place))
            self._made[number] = made
            if node.kind == LOSS:
                self._loss(made)
            else:
                self._node(made)
        return list(self._made.values())

    def operand(self, node: Node) -> Operands:
        """A layer's weights as the matrix engine reads them."""
        return self._operands[node.name]

    def _narrow(self, number: int) -> bool:
        """Whether a node's maps are narrow: unless tiles are made of the last one, and the matrix engine reads it in no
        other way."""
        graph = self.step.graph
        readers = [graph.nodes[graph.edges[edge].consumer] for edge in graph.outputs[number]]
        tiled = any(node.tiling is not None for node in readers)
        return self.step.narrow and not (tiled and not any(node.weighted and node.tiling is None for node in readers))

    def _tensor(self, name: str, region: Region, channels: int, positions: int, *, packed: bool = False,
                moves: bool = False) -> Tensor:
        step = self.step
        return step.reserve(Tensor(name, step.batch, positions, channels, region, step.factors, packed), moves=moves)

    def _inputs(self, number: int, feeds: Sequence[int | None]) -> list[Tensor]:
        """What a node reads of each of its inputs; a map that it reads again is there already."""
        found: list[Tensor] = []
        for place, edge in enumerate(feeds):
            earlier = place if edge is None else feeds.index(edge)
            found.append(found[earlier] if earlier < place else self._input(number, place, edge))
        return found

    def _input(self, number: int, place: int, edge: int | None) -> Tensor:
        """What a node reads of an input: the network's input, the home of its producer, or a copy."""
        step, node = self.step, self.step.graph.nodes[number]
        region = step.layouts[number].input
        if edge is None:
            # Row numbers are no channels: each die has all of its samples.
            samples = Region.of(region.owners, samples=region.cuts(SAMPLES))
            region, channels = (samples, 1) if node.gathers else (region, self._network_channels(number))
            positions = node.input_elements // (channels if node.gathers else node.input_channels)
            name = "input" if not step.inputs else f"input.{node.name}.{place}"
            found = self._tensor(name, region, channels, positions,
                                 packed=step.narrow and node.tiling is None, moves=True)
            if node.gathers:
                step.tables[len(step.inputs)] = step.weights[node.name]
            step.inputs.append(found)
            return found
        one = step.graph.edges[edge]
        producer = self._made[one.producer]
        if node.kind == LOSS and self.fused(one.producer):
            assert producer.z is not None
            return producer.z
        wanted = Tensor(f"{node.name}.input{place}", step.batch, one.elements // one.channels, one.channels, region,
                        step.factors)
        if wanted.alike(producer.map):
            if node.tiling is None or not producer.map.packed:
                return producer.map
            if producer.wide is None:
                producer.wide = widened(step, node, f"{producer.node.name}.wide", producer.map)
            return producer.wide
        step.reserve(wanted)
        step.exchange(f"{producer.node.name}.copy.{node.name}", one.producer, edge, producer.map, [wanted], None,
                      own=True)
        return wanted

    def _network_channels(self, number: int) -> int:
        """Channels of the network's input, as a node reads it."""
        graph, node = self.step.graph, self.step.graph.nodes[number]
        if node.kind != CONCAT:
            return node.input_channels
        others = sum(graph.edges[edge].channels for edge in graph.inputs[number])
        return (node.input_channels - others) // len(node.network_inputs)

    def fused(self, number: int) -> bool:
        """Whether the loss finishes a node: it reads its output, and each die's part is its own."""
        graph = self.step.graph
        node, here, outputs = graph.nodes[number], self.step.layouts[number], graph.outputs[number]
        reads = graph.edges[outputs[0]].consumer if len(outputs) == 1 else number
        reader = graph.nodes[reads]
        return (reader.kind == LOSS and node.weighted and not node.per_channel and not node.epilogue and not here.mp
                and not here.op and not here.ep and alike(here.output, self.step.layouts[reads].input,
                                          plane(self.step.batch, node.output_channels), self.step.factors)
                and not (node.bias and loss_rows(reader) < node.output_positions))

    def _node(self, made: Made) -> None:
        """Output, bias and first activation at home, then pools and further activations."""
        step, node, number = self.step, made.node, made.number
        here, positions = step.layouts[number], node.raw_positions
        epilogue = list(node.epilogue)
        if epilogue and epilogue[0].kind in ACTIVATIONS:
            made.activation = epilogue.pop(0)
        sources: list[Placed]
        if node.weighted and not node.per_channel:
            made.z = Tensor(f"{node.name}.product", step.batch, positions, node.output_channels, here.output,
                            step.factors)
            summed = step.tile_sums.get(number)
            if summed is None or number == summed.members[-1]:
                step.reserve(made.z)
            if node.gathers:
                step.add(Gather(node, made.x[0], made.z, step.weights[node.name], False))
                gradient = step.gradients[node.name]
                step.add(Clear(f"{node.name}.zero", node, step.parameters, Matrix(gradient), step.any))
            elif summed is not None:
                self._summand(made, summed)
                return
            elif node.tiling is not None:
                self.winograd[number].forward(made.x[0], made.z, first=self._scattered(number),
                                              added=self._residual(number))
            else:
                step.add(Products(node, step.parameters, FPROP, made.x[0], made.z, self.operand(node)))
                step.empty(made.x[0], made.z)
            sources = self._partials(made)
        elif made.x:
            sources = [*made.x]
        else:
            # Of a sum of tiles the last layer has it all.
            summed = self._summed(node)
            assert summed is not None
            whole = self._made[summed.members[-1]].z
            assert whole is not None
            sources = [whole]
        if self.fused(number):
            return
        if made.z is not None and node.gathers and not here.mp and made.activation is None:
            # Rows are at home as they are.
            made.output = made.z
        else:
            made.output = self._tensor(f"{node.name}.output", here.home, node.output_channels, positions,
                                       packed=self._narrow(number))
            if node.kind == CONCAT:
                self._concatenate(made)
            else:
                self._finish(made, sources)
        for behind in epilogue:
            self._follow(made, behind)
        step.release(f"{node.name}.forward")
        for behind, source, target in made.followed:
            if behind.kind in ACTIVATIONS and ACTIVATIONS[behind.kind].kinked:
                step.maps[behind.name] = target
            elif behind.kind == MaxPool.kind:
                step.maps[behind.name] = source

    def _summed(self, junction: Node) -> TileSum | None:
        """The sum of tiles that a junction is, if it is one."""
        return next((one for one in self.step.tile_sums.values() if one.junction is junction), None)

    def _summand(self, made: Made, summed: TileSum) -> None:
        """A layer of a sum of tiles."""
        *others, last = summed.members
        assert made.z is not None
        self.winograd[made.number].forward(made.x[0], made.z, [
            self.winograd[one] for one in others] if made.number == last else None, self._scattered(made.number))

    def _scattered(self, number: int) -> WinogradLayer | None:
        """The layer whose tiles of the input a layer takes."""
        return self.winograd[self.step.shared_tiles[number]] if number in self.step.shared_tiles else None

    def _residual(self, number: int) -> Tensor | None:
        """The map that a junction adds to a Winograd layer's, if it is there."""
        found = self.step.residuals.get(number)
        if found is None or found.producer is None or found.missing:
            return None
        return self._made[found.producer].map

    def _partials(self, made: Made) -> list[Placed]:
        """The summands of a node's home, in die order."""
        step, node, z = self.step, made.node, made.z
        here = step.layouts[made.number]
        assert z is not None
        if not here.mp:
            return [z]
        members = step.members(SUM, made.number)
        count = members.size
        home = Tensor(f"{node.name}.home", step.batch, z.positions, z.channels, here.home, step.factors)
        slots = step.reserve(Slots(f"{node.name}.partial", home, count, step.parameters.beat_words))
        step.exchange(f"{node.name}.reduce", made.number, None, z, slots, members, own=False)
        # A die's own summand stays where it is.
        sources: Sequence[Placed] = Summands(slots, Meeting(z, home), members)
        if count <= 2:
            return list(sources)
        return self.summed(node, f"{node.name}.sum", sources, step.reserve(home.like(f"{node.name}.sum")), LEFT)

    def summed(self, node: Node, name: str, sources: Sequence[Placed], target: Tensor, keep: int) -> list[Placed]:
        """Add sources in their order into ``target`` until ``keep`` are left; the sum comes first."""
        operation = Sum(name, node, self.step.parameters, sources, target, keep)
        if operation.adds:
            self.step.add(operation)
        return operation.left

    def _concatenate(self, made: Made) -> None:
        """What is read at each place into its channels."""
        assert made.output is not None
        outputs, targets = (side_by_side(made.x, whole) for whole in (made.output, self._activated(made)))
        for place, (x, output, target) in enumerate(zip(made.x, outputs, targets, strict=True)):
            program = VectorProgram(self.step.parameters)
            program.load("z", x)
            further = self._activate(made, program, output, target)
            self.step.add(Sweep(f"{made.node.name}.output{place}", made.node, self.step.parameters, program, program, x,
                                1 + further))

    def _activated(self, made: Made) -> Tensor:
        """Where a node's first activation goes: over its output, which it follows, unless that is kept."""
        output, activation, target = made.output, made.activation, made.output
        assert output is not None and target is not None
        if activation is not None:
            if ACTIVATIONS[activation.kind].keeps_input:
                target = self.step.reserve(output.like(f"{activation.name}.output", packed=output.packed))
            made.followed.append((activation, output, target))
        return target

    def _activate(self, made: Made, program: VectorProgram, output: Operand, target: Operand) -> int:
        """Store region "z", and what the first activation makes of it; full regions that it needs besides."""
        region, further = "z", 0
        if made.activation is not None:
            kind = ACTIVATIONS[made.activation.kind]
            region, further = "y" if kind.keeps_input else "z", kind.further
            run_forward(made.activation.layer, program, region, "z")
        program.store("z", output)
        if region != "z":
            program.store(region, target)
        return further

    def _finish(self, made: Made, sources: list[Placed]) -> None:
        """Sum, bias, first activation."""
        step, node, output = self.step, made.node, made.output
        assert output is not None
        summed = self._summed(node)
        biases = [step.weights[one.name].bias_of(output) for one in (
            [node] if summed is None else [step.graph.nodes[number] for number in summed.members]) if one.bias]
        most = VECTOR_LOADS - len(biases)
        if len(sources) > most:
            total = step.reserve(output.like(f"{node.name}.sum"))
            sources = self.summed(node, f"{node.name}.sum", sources, total, most)
        program = VectorProgram(step.parameters)
        add_sources(program, sources)
        if node.per_channel:
            program.load("s", Matrix(step.weights[node.name]), "row")
            program.run(VectorOp.MUL, "z", "z", "s")
        for number, bias in enumerate(biases):
            program.load(f"b{number}", bias, "row")
            program.run(VectorOp.ADD, "z", "z", f"b{number}")
        if node.kind == "join":
            program.run(VectorOp.SCALE, "z", "z", immediate=1.0 / len(step.graph.feeds(made.number)))
        further = self._activate(made, program, output, self._activated(made))
        step.hold(Sweep(f"{node.name}.output", node, step.parameters, program, program, output,
                        len(sources) + further, len(biases) + node.per_channel, images=made.pooled))

    def _follow(self, made: Made, behind: Epilogue) -> None:
        """A pool, or an activation that has its own program."""
        step, node, source, narrow = self.step, made.node, made.map, self._narrow(made.number)
        name = f"{behind.name}.output"
        held: Chained
        if behind.kind in ACTIVATIONS:
            target = step.reserve(source.like(name, packed=narrow))
            program = VectorProgram(step.parameters)
            program.load("z", source)
            region = "y" if ACTIVATIONS[behind.kind].keeps_input else "z"
            run_forward(behind.layer, program, region, "z")
            program.store(region, target)
            held = Sweep(f"{behind.name}.forward", node, step.parameters, program, program, source,
                         1 + ACTIVATIONS[behind.kind].further, images=made.pooled)
        else:
            layer, (height, width), (down, across) = pool_of(behind), behind.size, behind.output
            # Sums of means stay FP32.
            middle = step.reserve(source.like(f"{behind.name}.middle", positions=down * width,
                                             packed=narrow and isinstance(layer, MaxPool)))
            target = step.reserve(source.like(name, positions=down * across, packed=narrow))
            made.middles[behind.name] = middle
            held = Pool(behind.name, node, step.parameters, layer, False, (
                (source, (height, width)), (middle, (down, width)), (target, (down, across))))
        step.hold(held)
        made.followed.append((behind, source, target))

    def _loss(self, made: Made) -> None:
        """Prediction and its error; with them bias and bias gradient of the node before, where that is fused."""
        step, node = self.step, made.node
        edge = step.graph.edges[step.graph.inputs[made.number][0]]
        before = self._made[edge.producer]
        fused, positions = self.fused(edge.producer), edge.elements // edge.channels
        region, source = step.layouts[made.number].input, made.x[0]
        step.predictions = self._tensor("predictions", region, edge.channels, positions)
        step.targets = self._tensor("target", region, edge.channels, positions, moves=True)
        error = self._tensor(f"{before.node.name}.error" if fused else f"{node.name}.error", region, edge.channels,
                             positions, packed=step.narrow and before.node.tiling is None)
        if fused:
            before.error = before.output = error
        made.error = error
        classes, biased = has_classes(node), fused and before.node.bias > 0
        factor = step.scale / step.batch * (1 if classes else 2 / node.input_elements)
        fold = positions // loss_rows(node)
        # No error asks an output for more than the room that is left above it.
        fmt = step.parameters.memory_format
        limit = float(fmt.most) / (1 << fmt.fraction_bits) if classes and isinstance(fmt, Fixed) else None

        def program(first: bool) -> VectorProgram:
            found = VectorProgram(step.parameters)
            found.load("z", folded(source, fold))
            found.load("t", folded(step.targets, fold))
            if biased:
                found.load("b", step.weights[before.node.name].bias_of(error), "row")
                found.run(VectorOp.ADD, "z", "z", "b")
            if limit is not None:
                found.run(VectorOp.RELU, "r", "z")
                found.run(VectorOp.ADD_IMMEDIATE, "r", "r", immediate=-limit)
            if classes:
                softmax(found, edge.elements)
            found.run(VectorOp.SUB, "d", "z", "t")
            if limit is not None:
                found.run(VectorOp.MAX, "d", "d", "r")
            found.run(VectorOp.SCALE, "d", "d", immediate=factor)
            found.store("z", folded(step.predictions, fold))
            if biased:
                column_sum(found, step.gradients[before.node.name].bias_of(error), first=first)
            found.store("d", folded(error, fold))
            return found

        step.add(Sweep(node.name, node, step.parameters, program(True), program(False), error, 3, 3,
                       1 if classes else None, fold))


def softmax(program: VectorProgram, classes: int) -> None:
    """Region "z", row by row: ``exp(z - max) * (1 / sum)``; in fixed point ``exp((z - max) - c)``, that sums of so many
    classes stay within the format, as far as their inverses do: ``c`` is log(classes / 2^i), at most log(2^i)."""
    program.run(VectorOp.MAXIMUM, "m", "z", shape="column")
    program.run(VectorOp.SUB, "z", "z", "m")
    fmt = program.parameters.memory_format
    if isinstance(fmt, Fixed) and classes > 1 << fmt.integer_bits:
        shift = min(log(classes / 2**fmt.integer_bits), log(2**fmt.integer_bits))
        program.run(VectorOp.ADD_IMMEDIATE, "z", "z", immediate=-shift)
    program.run(VectorOp.FUNCTION, "z", "z", VectorFunction.EXPONENTIAL)
    program.run(VectorOp.SUM, "m", "z")
    program.run(VectorOp.FUNCTION, "m", "m", VectorFunction.RECIPROCAL)
    program.run(VectorOp.MUL, "z", "z", "m")


def column_sum(program: VectorProgram, bias: Operand, *, first: bool) -> None:
    """Sum region "d" over its rows into a bias gradient, onto what earlier strips left."""
    if first:
        program.run(VectorOp.SUM, "db", "d", shape="row")
    else:
        program.load("db", bias, "row")
        program.run(VectorOp.SUM, "part", "d", shape="row")
        program.run(VectorOp.ADD, "db", "db", "part")
    program.store("db", bias)
