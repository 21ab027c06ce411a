"""fprop of a training step, and its loss; the order of operations stands in :mod:`plinth.lower.training`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from plinth.driver.program import Buffer
from plinth.errors import UserError
from plinth.lower import activation, pooling
from plinth.lower.convolution import images_of
from plinth.lower.embedding import Rows
from plinth.lower.places import LayerWeights, Part, RowNumbers, Tensor, parts
from plinth.lower.products import Products
from plinth.lower.stages import ACTIVATIONS, Follower, Stage
from plinth.lower.step import Piece, StepBuilder, add_sources, folded
from plinth.lower.vector import VectorProgram
from plinth.model.layers import Embedding, Join, MaxPool, SoftmaxCrossEntropy
from plinth.plan.cost import cuts
from plinth.plan.cost.stages import loss_rows
from plinth.plan.partition import Region
from plinth.plan.plan import Plan
from plinth_hw.isa.registers import BASE_COUNT
from plinth_hw.isa.tasks import VectorFunction, VectorOp

#: Base registers that move from step to step: the first input's, targets', further inputs'.
INPUT_BASE = 1
TARGET_BASE = 2
FURTHER_BASE = 3


@dataclass
class Flow:
    """What lowering a step works on and finds."""

    step: StepBuilder
    plan: Plan
    stages: Sequence[Stage]
    weights: Mapping[str, LayerWeights]
    gradients: Mapping[str, LayerWeights]
    #: Steps of an epoch.
    steps: int
    #: Factor on errors.
    scale: float
    inputs: list[Tensor] = field(default_factory=list)
    #: Places of dies that must hold zeros before the first step; no task of a step writes there.
    zeros: list[tuple[int, Buffer]] = field(default_factory=list)
    targets: Tensor = field(init=False)
    predictions: Tensor = field(init=False)

    def parts(self, region: Region, channels: int, positions: int) -> list[Part]:
        """The part of every die."""
        return parts(region, self.plan.batch, channels, positions, self.plan.levels)

    def tensor(self, name: str, region: Region, channels: int, positions: int, *, packed: bool = False) -> Tensor:
        """A tensor whose parts are regions of the plan."""
        return self.step.tensor(name, self.parts(region, channels, positions), self.plan.batch, channels,
                                packed=packed)

    def places(self, die: int, levels: Sequence[int]) -> int:
        """A die's number among those that differ in the bits of some levels."""
        number = 0
        for level in levels:
            number = number << 1 | die >> (self.plan.levels - 1 - level) & 1
        return number

    def weight_matrix(self, stage: Stage, die: int, kind: str) -> Buffer:
        """The matrix in a die's weights or gradients, with its spare rows."""
        layer = (self.weights if kind == "parameters" else self.gradients)[stage.name]
        piece = layer.slices[die]
        return layer.buffers[die].part(layer.buffers[die].name, 0, piece.rows + piece.spare, piece.outputs)

    def bias(self, stage: Stage, die: int, kind: str, channels: Part) -> Buffer:
        """The row behind it, for the output channels of a part."""
        layer = (self.weights if kind == "parameters" else self.gradients)[stage.name]
        piece = layer.slices[die]
        return layer.buffers[die].part(layer.buffers[die].name,
                                       piece.weights + channels.first_channel - piece.first_output, 1,
                                       channels.channels)

    def strips(self, stage: Stage, part: Part, regions: int, row_regions: int = 0, *,
               fold: int = 1) -> Iterator[tuple[int, Piece]]:
        """Number of the strip and piece of the programs over a part of a stage, ``fold`` positions a row."""
        found = self.step.stage_strips(stage, part.samples) if part.words else []
        rows = part.positions // fold
        for strip, (first, samples) in enumerate(found):
            for piece in self.step.strips(samples * rows, fold * part.channels, regions, row_regions,
                                          pieces=1 if len(found) > 1 else cuts.STRIPS):
                yield strip, replace(piece, row=first * rows + piece.row)

    def empty(self, die: int, source: Tensor, target: Tensor) -> None:
        """A die without channels of what it reads has a partial sum of nothing."""
        if target.parts[die].words and not source.parts[die].words:
            self.zeros.append((die, target.buffers[die]))

    def products(self, stage: Stage, die: int, x: Tensor, z: Tensor) -> Products | Rows:
        """Matrix tasks of a stage on a die, or transfer tasks of an embedding."""
        if isinstance(stage.layer, Embedding):
            return Rows(stage.name, self.step.builders[die], self.weights[stage.name].slices[die], z.parts[die])
        return Products(stage, self.step.parameters, self.step.builders[die], self.weights[stage.name].slices[die],
                        x.parts[die], z.parts[die])


@dataclass
class LoweredStage:
    """A stage with its tensors."""

    stage: Stage
    #: What it reads of each feed.
    x: list[Tensor]
    #: Its output (partial sums where input channels are split), and what it is at home behind bias and activation.
    z: Tensor | None = None
    output: Tensor | None = None
    #: The activation that ``output`` has gone through.
    activation: Follower | None = None
    #: Activations and pools in order, each with what it reads and gives; the first activation reads nothing of its own.
    followed: list[tuple[Follower, Tensor, Tensor]] = field(default_factory=list)
    #: For each pool by its name, what lies between its directions.
    middles: dict[str, Tensor] = field(default_factory=dict)
    #: What the loss has already done: error of ``output`` and bias gradient.
    error: Tensor | None = None
    #: The readers of its last map: (stage, number of the feed).
    readers: list[tuple["LoweredStage", int]] = field(default_factory=list)

    @property
    def map(self) -> Tensor:
        """What readers read."""
        found = self.followed[-1][2] if self.followed else self.output
        assert found is not None
        return found


class Forward:
    """Builds fprop stage by stage."""

    def __init__(self, flow: Flow):
        self.flow = flow
        self.step = flow.step
        self._lowered: dict[int, LoweredStage] = {}
        #: Narrow copies of weights.
        self._operands: dict[tuple[str, int], Buffer] = {}

    def run(self) -> list[LoweredStage]:
        """All stages, in their order."""
        if self.step.narrow:
            for stage in self.flow.stages:
                if stage.node.weighted:
                    self._copy_weights(stage)
        for stage in self.flow.stages:
            made = LoweredStage(stage, [self._input(stage, number) for number in range(len(stage.feeds))])
            for number, edge in enumerate(stage.feeds):
                if edge is not None:
                    self._lowered[edge.producer].readers.append((made, number))
            self._lowered[stage.number] = made
            if stage.layer.is_loss:
                self._loss(made)
            else:
                self._stage(made)
        return [self._lowered[stage.number] for stage in self.flow.stages]

    def operand(self, stage: Stage, die: int) -> Buffer:
        """A layer's weights as the matrix engine reads them."""
        return self._operands.get((stage.name, die), self.flow.weight_matrix(stage, die, "parameters"))

    def _input(self, stage: Stage, number: int) -> Tensor:
        """What a stage reads of a feed: the network's input, the home of its producer, or a copy."""
        flow, edge, node = self.flow, stage.feeds[number], stage.node
        region = flow.plan.layouts[stage.number].input
        if edge is None:
            rows = isinstance(stage.layer, Embedding)
            base = INPUT_BASE if not flow.inputs else FURTHER_BASE + len(flow.inputs) - 1
            if base >= BASE_COUNT:
                raise UserError(f"layer {stage.name!r} is one too many that reads the network's input, which "
                                f"{len(flow.inputs)} layers may; feed it from another layer")
            # Row numbers are no channels: each die has all of its samples.
            region, channels = (Region(region.batch, ()), 1) if rows else (region, node.input_channels)
            found = self.step.tensor(
                "input" if base == INPUT_BASE else f"input.{stage.name}.{number}",
                flow.parts(region, channels, node.input_elements // channels), flow.plan.batch, channels,
                packed=self.step.narrow, base=base, copies=flow.steps)
            if rows:
                found = RowNumbers(found.samples, found.positions, found.channels, found.parts, found.buffers,
                                   flow.weights[stage.name].slices)
            flow.inputs.append(found)
            return found
        if stage.layer.is_loss and self._fused(edge.producer):
            product = self._lowered[edge.producer].z
            assert product is not None
            return product
        source = self._lowered[edge.producer].map
        wanted = flow.parts(region, edge.channels, edge.elements // edge.channels)
        if wanted == source.parts:
            return source
        found = self.step.tensor(f"{stage.name}.input{number}", wanted, flow.plan.batch, edge.channels)
        self.step.exchange(f"{self._lowered[edge.producer].stage.name}.copy.{stage.name}", source, [found],
                           [0] * self.step.dies, own=True)
        return found

    def _fused(self, number: int) -> bool:
        """Whether the loss finishes a stage: it reads its output, and each die's part is its own."""
        stage, edge, here = self.flow.stages[number], self.flow.stages[-1].feeds[0], self.flow.plan.layouts[number]
        return (edge is not None and edge.producer == number and stage.node.weighted and not stage.followers
                and not here.mp and not here.op and len(self.flow.plan.graph.outputs[number]) == 1
                and not (stage.node.bias and loss_rows(self.flow.stages[-1].node) < stage.node.output_positions))

    def _copy_weights(self, stage: Stage) -> None:
        """Narrow copies of the weights, in pieces that fit the vector scratchpad."""
        pieces = self.flow.weights[stage.name].slices
        copies = self.step.place(f"{stage.name}.operand", [(piece.rows, piece.outputs) for piece in pieces],
                                 packed=True)
        for die, copy in enumerate(copies):
            weights = self.flow.weight_matrix(stage, die, "parameters")
            for piece in self.step.strips(weights.rows, weights.columns, 1, pieces=1):
                program = VectorProgram(self.step.parameters, piece.rows, piece.columns)
                program.load("w", piece.of(weights))
                program.store("w", piece.of(copy))
                self.step.vector(die, f"{stage.name}.narrow{piece}", program)
            self._operands[stage.name, die] = copy

    def _stage(self, made: LoweredStage) -> None:
        """Output, bias and first activation at home, then pools and further activations."""
        flow, stage, node = self.flow, made.stage, made.stage.node
        here = flow.plan.layouts[stage.number]
        positions = node.raw_elements // node.output_channels
        home = flow.parts(here.home, node.output_channels, positions)
        followers = list(stage.followers)
        if followers and isinstance(followers[0].layer, ACTIVATIONS):
            made.activation = followers.pop(0)
        if node.weighted:
            made.z = flow.tensor(f"{stage.name}.product", here.output, node.output_channels, positions)
            for die in range(self.step.dies):
                flow.products(stage, die, made.x[0], made.z).fprop(
                    made.x[0].buffers[die], self.operand(stage, die), made.z.buffers[die])
                flow.empty(die, made.x[0], made.z)
                if isinstance(stage.layer, Embedding):
                    self.step.zero(self.step.builders[die], f"{stage.name}.zero",
                                   flow.weight_matrix(stage, die, "gradients"))
            sources = self._partials(made, home)
        else:
            sources = [[x.buffers[die] for x in made.x] for die in range(self.step.dies)]
        if self._fused(stage.number):
            return
        if made.z is not None and node.gathers and not here.mp and made.activation is None:
            # Rows are at home as they are.
            output = made.output = made.z
        else:
            output = made.output = self.step.tensor(f"{stage.name}.output", home, flow.plan.batch,
                                                    node.output_channels, packed=self.step.narrow)
            self._finish(made, sources)
        if made.activation is not None:
            made.followed.append((made.activation, output, output))
        for follower in followers:
            self._follow(made, follower)
        self.step.release()

    def _partials(self, made: LoweredStage, home: list[Part]) -> list[list[Buffer]]:
        """For each die the summands of its home, in die order."""
        flow, stage, z = self.flow, made.stage, made.z
        assert z is not None
        here = flow.plan.layouts[stage.number]
        if not here.mp:
            return [[z.buffers[die]] for die in range(self.step.dies)]
        members = 1 << len(here.mp)
        places = [self.step.tensor(f"{stage.name}.partial{slot}", home, flow.plan.batch, z.channels)
                  for slot in range(members)]
        slots = [flow.places(die, here.mp) for die in range(self.step.dies)]
        self.step.exchange(f"{stage.name}.reduce", z, places, slots, own=False)
        sources = [[z.parts[die].view(z.buffers[die], home[die]) if slot == slots[die] else place.buffers[die]
                    for slot, place in enumerate(places)] for die in range(self.step.dies)]
        if members > 2:
            total = self.step.tensor(f"{stage.name}.sum", home, flow.plan.batch, z.channels)
            sources = self.step.summed(f"{stage.name}.sum", sources, total, 3)
        return sources

    def _finish(self, made: LoweredStage, sources: list[list[Buffer]]) -> None:
        """Sum, bias, first activation."""
        flow, stage, output = self.flow, made.stage, made.output
        assert output is not None
        biased = stage.node.bias > 0
        if len(sources[0]) > 4 - biased:
            total = self.step.like(f"{stage.name}.sum", output)
            sources = self.step.summed(f"{stage.name}.sum", sources, total, 4 - biased)
        for die, (part, buffer) in enumerate(zip(output.parts, output.buffers, strict=True)):
            for strip, piece in self.flow.strips(stage, part, len(sources[die]), int(biased)):
                program = VectorProgram(self.step.parameters, piece.rows, piece.columns)
                add_sources(program, [piece.of(source) for source in sources[die]])
                if biased:
                    program.load("b", piece.of(flow.bias(stage, die, "parameters", part)), "row")
                    program.run(VectorOp.ADD, "z", "z", "b")
                if isinstance(stage.layer, Join):
                    program.run(VectorOp.SCALE, "z", "z", immediate=1.0 / len(stage.feeds))
                if made.activation is not None:
                    activation.forward(program, made.activation.layer, "z", "z")
                program.store("z", piece.of(buffer))
                self.step.hold(die, strip, f"{stage.name}.output{piece}", program)

    def _follow(self, made: LoweredStage, follower: Follower) -> None:
        """A pool, or an activation that has its own program."""
        flow, layer, source = self.flow, follower.layer, made.map
        name = f"{layer.name}.output"
        if isinstance(layer, ACTIVATIONS):
            target = self.step.like(name, source, packed=self.step.narrow)
            for die, (part, x, y) in enumerate(zip(source.parts, source.buffers, target.buffers, strict=True)):
                for strip, piece in self.flow.strips(made.stage, part, 1):
                    program = VectorProgram(self.step.parameters, piece.rows, piece.columns)
                    program.load("z", piece.of(x))
                    activation.forward(program, layer, "z", "z")
                    program.store("z", piece.of(y))
                    self.step.hold(die, strip, f"{layer.name}.forward{piece}", program)
        else:
            _, height, width = follower.shape
            _, down, across = layer.output([follower.shape])
            sized = [[Part(part.first_sample, part.samples, part.first_channel, part.channels, positions)
                      for part in source.parts] for positions in (down * width, down * across)]
            # Sums of means stay FP32.
            middle = self.step.tensor(f"{layer.name}.middle", sized[0], flow.plan.batch, source.channels,
                                      packed=self.step.narrow and isinstance(layer, MaxPool))
            target = self.step.tensor(name, sized[1], flow.plan.batch, source.channels, packed=self.step.narrow)
            made.middles[layer.name] = middle
            for die, part in enumerate(source.parts):
                for strip, (start, count) in enumerate(self.step.stage_strips(made.stage, part.samples)
                                                       if part.words else ()):
                    maps = [images_of(tensor.buffers[die], start, count, *size) for tensor, size in (
                        (source, (height, width)), (middle, (down, width)), (target, (down, across)))]
                    for suffix, program in pooling.forward(layer, self.step.parameters, *maps):  # type: ignore[arg-type]
                        self.step.hold(die, strip, f"{layer.name}.{suffix}.{start}", program)
        made.followed.append((follower, source, target))

    def _loss(self, made: LoweredStage) -> None:
        """Prediction and its error; with them bias and bias gradient of the layer before, where that is fused."""
        flow, stage, node = self.flow, made.stage, made.stage.node
        edge = stage.feeds[0]
        assert edge is not None, "a network has a layer with weights before its loss"
        before = self._lowered[edge.producer]
        fused = self._fused(edge.producer)
        parts = flow.parts(flow.plan.layouts[stage.number].input, edge.channels, edge.elements // edge.channels)
        source = made.x[0]
        flow.predictions = self.step.tensor("predictions", parts, flow.plan.batch, edge.channels)
        flow.targets = self.step.tensor("target", parts, flow.plan.batch, edge.channels, base=TARGET_BASE,
                                        copies=flow.steps)
        error = self.step.tensor(f"{before.stage.name}.error" if fused else f"{stage.name}.error", parts,
                                 flow.plan.batch, edge.channels, packed=self.step.narrow)
        if fused:
            before.error = before.output = error
        made.error = error
        classes = isinstance(stage.layer, SoftmaxCrossEntropy)
        factor = flow.scale / flow.plan.batch * (1 if classes else 2 / node.input_elements)
        for die, part in enumerate(parts):
            fold = part.positions // loss_rows(node)
            z, target, prediction, d = (folded(tensor.buffers[die], fold) for tensor in (
                source, flow.targets, flow.predictions, error))
            for piece in self.step.strips(part.rows // fold, fold * part.channels, 3, 3,
                                          column_regions=1 if classes else None) if part.words else ():
                program = VectorProgram(self.step.parameters, piece.rows, piece.columns)
                program.load("z", piece.of(z))
                program.load("t", piece.of(target))
                if fused and before.stage.node.bias:
                    program.load("b", piece.of(flow.bias(before.stage, die, "parameters", part)), "row")
                    program.run(VectorOp.ADD, "z", "z", "b")
                if classes:
                    softmax(program)
                program.run(VectorOp.SUB, "d", "z", "t")
                program.run(VectorOp.SCALE, "d", "d", immediate=factor)
                program.store("z", piece.of(prediction))
                if fused and before.stage.node.bias:
                    column_sum(program, piece.of(flow.bias(before.stage, die, "gradients", part)),
                               first=piece.row == 0)
                program.store("d", piece.of(d))
                self.step.vector(die, f"{stage.name}{piece}", program)


def softmax(program: VectorProgram) -> None:
    """Region "z", row by row: ``exp(z - max) * (1 / sum)``."""
    program.run(VectorOp.MAXIMUM, "m", "z", shape="column")
    program.run(VectorOp.SUB, "z", "z", "m")
    program.run(VectorOp.FUNCTION, "z", "z", VectorFunction.EXPONENTIAL)
    program.run(VectorOp.SUM, "m", "z")
    program.run(VectorOp.FUNCTION, "m", "m", VectorFunction.RECIPROCAL)
    program.run(VectorOp.MUL, "z", "z", "m")


def column_sum(program: VectorProgram, bias: Buffer, *, first: bool) -> None:
    """Sum region "d" over its rows into a bias gradient, onto what earlier strips left."""
    if first:
        program.run(VectorOp.SUM, "db", "d", shape="row")
    else:
        program.load("db", bias, "row")
        program.run(VectorOp.SUM, "part", "d", shape="row")
        program.run(VectorOp.ADD, "db", "db", "part")
    program.store("db", bias)
