"""What a node of the network does in a training step, forwards and backwards: what kinds of nodes share."""

from collections.abc import Sequence
from typing import ClassVar

from plinth.partition.axes import Region
from plinth.partition.graph import Node
from plinth.partition.groups import ERROR
from plinth.step.granularity import folding
from plinth.step.layers.epilogue import ElementwiseLayer, EpilogueLayer, narrow_map
from plinth.step.operands import narrow_weights, widened
from plinth.step.operations import Clear, LastStrip, Sweep, Turn
from plinth.step.reductions import Reductions
from plinth.step.slots import Slots
from plinth.step.step import Step
from plinth.step.sums import Sum, add_sources
from plinth.step.tasks import BPROP, FPROP
from plinth.step.tensors import Placed, RowOnDies, Tensor, Unfolded, folded
from plinth.step.vector import Operand, VectorProgram
from plinth_hw.isa.vector_body import VECTOR_LOADS, VectorOp


def column_sum(program: VectorProgram, bias: Operand, *, first: bool, by_channel: bool = False) -> None:
    """Sum region "d" over its rows into a bias gradient, onto what earlier strips left; with ``by_channel`` over its
    columns, which are whole."""
    if by_channel:
        program.run(VectorOp.SUM, "db", "d", shape="column")
    elif first:
        program.run(VectorOp.SUM, "db", "d", shape="row")
    else:
        program.load("db", bias, "row")
        program.run(VectorOp.SUM, "part", "d", shape="row")
        program.run(VectorOp.ADD, "db", "db", "part")
    program.store("db", bias)


class NodeLayer:
    """Builds the operations of a node: :meth:`forward` its fprop, :meth:`backward` its bprop and updateGrad. Each kind
    of node says what it adds up (:meth:`summands`, :meth:`combine`) and what becomes of the error of that sum
    (:meth:`propagate`).

    Parameters
    ----------
    layers : list of NodeLayer
        Those of all nodes by number, as far as they are made.
    epilogue : sequence of EpilogueLayer
        Activations and pools behind its sum, in order.
    """

    #: Whether it takes maps and errors as the matrix engine does, narrow where operands have 16 bits.
    takes_narrow: ClassVar[bool] = True
    #: Whether the error of its sum is narrow where operands have 16 bits; None: it may be either.
    narrow_error: ClassVar[bool | None] = None
    #: Why it is not lowered to dies of other formats than FP32, behind their name; empty: it is.
    fp32_reason: ClassVar[str] = ""
    #: Splits with which it is lowered where operands have 16 bits; None: it is not.
    narrow_splits: ClassVar[tuple[str, ...] | None] = None
    #: Whether a gradient of its weights is added to that of the micro-batches before.
    accumulates: ClassVar[bool] = False
    #: Row regions of :meth:`combine` beside biases.
    row_regions: ClassVar[int] = 0
    #: Whether a row of what it reads and gives is a channel, not a sample.
    by_channel: bool = False

    def __init__(self, step: Step, number: int, layers: "list[NodeLayer]", epilogue: Sequence[EpilogueLayer] = ()):
        self.step, self.number, self.layers = step, number, layers
        self.node, self.here, self.feeds = step.graph.nodes[number], step.layouts[number], step.graph.feeds(number)
        first = next(iter(epilogue), None)
        #: The activation that goes with the sum, and what has its own work behind it.
        self.activation = first if isinstance(first, ElementwiseLayer) else None
        self.epilogue = epilogue if self.activation is None else epilogue[1:]
        #: Whether its vector work goes in strips of whole images.
        self.images = any(layer.by_images for layer in epilogue)
        #: What it reads of each of its inputs.
        self.x: list[Tensor] = []
        #: Of weights that multiply: their product, partial where input channels are split.
        self.z: Tensor | None = None
        #: Its sum at its owner, behind bias and an activation that keeps no input.
        self.output: Tensor | None = None
        #: What the loss has already done, where it finishes the node: the error of its product.
        self.error: Tensor | None = None
        #: By place among its inputs the error of what it reads there, partial where its output channels are split.
        self.errors: dict[int, Tensor] = {}
        #: Who reads its last map: (node, place among the node's inputs).
        self.readers: list[tuple[NodeLayer, int]] = []
        self._map: Tensor | None = None
        self._wide: Tensor | None = None
        self._turned: Tensor | None = None

    @property
    def finished(self) -> bool:
        """Whether the loss finishes it: adds its bias, and gives the error of its product and its bias gradient."""
        return self.layers[-1].finishes(self)

    def finishes(self, other: "NodeLayer") -> bool:
        """Whether it finishes another node."""
        return False

    @property
    def map(self) -> Tensor:
        """Its output behind bias, activations and pools, which the nodes behind it read."""
        assert self._map is not None
        return self._map

    def wide_map(self, reader: Node) -> Tensor:
        """What readers read in FP32, copied if it is narrow."""
        if not self.map.packed:
            return self.map
        if self._wide is None:
            self._wide = widened(self.step, reader, f"{self.node.name}.wide", self.map)
        return self._wide

    def map_for(self, reader: "NodeLayer") -> Tensor:
        """Its output as a node behind it reads it: in FP32, and with channels as rows, if that does."""
        found = self.map if reader.takes_narrow else self.wide_map(reader.node)
        if found.by_channel == reader.by_channel:
            return found
        if self._turned is None:
            self._turned = self.turned(found, f"{self.node.name}.turned")
        return self._turned

    def turned(self, source: Tensor, name: str) -> Tensor:
        """Append a copy of a map, or of its error, whose rows are what the columns are."""
        target = self.step.reserve(source.turned(name))
        self.step.add(Turn(name, self.node, source, target))
        return target

    # Forwards.

    def prepare(self) -> None:
        """Append what is done before all nodes: weights as the matrix engine reads them."""
        if self.node.weighted:
            self.operand = narrow_weights(self.step, self.node, self.step.weights[self.node.name])

    def prepare_as(self, other: "NodeLayer") -> None:
        """Take what was done before all nodes for the same node of another micro-batch."""
        if self.node.weighted:
            self.operand = other.operand

    def forward(self) -> None:
        """Append fprop: its sum, bias and first activation at its owner, then pools and further activations."""
        self.read()
        summands = self.summands()
        if not summands or self.finished:
            return
        self._map = self.finish(summands)
        self.step.outputs.setdefault((self.activation or self.node).name, []).append(self._map)
        for layer in self.epilogue:
            self._map = layer.forward(self._map)
            self.step.outputs.setdefault(layer.name, []).append(self._map)
        self.step.release(f"{self.node.name}.forward")

    def read(self) -> None:
        """Find what it reads of each of its inputs, and make it known to who gives that."""
        self.x = self.inputs()
        for place, edge in enumerate(self.feeds):
            if edge is not None:
                self.layers[self.step.graph.edges[edge].producer].readers.append((self, place))

    def inputs(self) -> list[Tensor]:
        """What it reads of each of its inputs; a map that it reads again is there already."""
        tensors: list[Tensor] = []
        for place, edge in enumerate(self.feeds):
            earlier = place if edge is None else self.feeds.index(edge)
            tensors.append(tensors[earlier] if earlier < place else
                           self.network_input(place) if edge is None else self.input(place, edge))
        return tensors

    def network_input(self, place: int) -> Tensor:
        """Reserve a tensor for the network's input at one of its places, and make it known to the host."""
        step, key = self.step, (self.number, place)
        name = "input" if next(iter(step.inputs), key) == key else f"input.{self.node.name}.{place}"
        tensor = self.tensor(name, *self.network_part(), packed=step.narrow and self.takes_narrow, moves=True)
        step.inputs.setdefault(key, []).append(tensor)
        return tensor

    def network_part(self) -> tuple[Region, int, int]:
        """Who has which part of the network's input, its channels and its positions."""
        return self.here.input, self.node.input_channels, self.node.input_elements // self.node.input_channels

    def input(self, place: int, edge: int) -> Tensor:
        """What it reads of another node: that one's map at its owner, or a copy."""
        step, number = self.step, self.step.graph.edges[edge].producer
        producer = self.layers[number]
        planned = step.defined(producer.node, FPROP, "copy", edge)
        if planned is None:
            return producer.map_for(self)
        wanted = self.tensor(f"{self.node.name}.input{place}", planned.target, planned.channels, planned.positions)
        source = producer.map if producer.map.by_channel == self.by_channel else producer.map_for(self)
        step.exchange(planned, number, source, [wanted], own=True)
        return wanted

    def tensor(self, name: str, region: Region, channels: int, positions: int, *, packed: bool = False,
               moves: bool = False) -> Tensor:
        """Reserve memory of every die for a tensor; ``moves``: once for every step of an epoch."""
        step = self.step
        tensor = Tensor(name, step.samples, positions, channels, region, step.factors, packed)
        return step.reserve(tensor.turned(name) if self.by_channel else tensor, moves=moves)

    def summands(self) -> list[Placed]:
        """Append what gives its summands at its owner; none: another node finishes its sum."""
        return [*self.x]

    def add_up(self, name: str, sources: Sequence[Placed], target: Tensor, keep: int) -> list[Placed]:
        """Add sources in their order into ``target`` until ``keep`` are left; the sum comes first."""
        operation = Sum(name, self.node, self.step.parameters, sources, target, keep)
        if operation.adds:
            self.step.add(operation)
        return operation.left

    def reserve_output(self) -> Tensor:
        """Reserve memory for its sum, each element at its owner."""
        self.output = self.tensor(f"{self.node.name}.output", self.here.owned, self.node.output_channels,
                                  self.node.raw_positions, packed=narrow_map(self.step, self.number))
        return self.output

    @property
    def biased(self) -> list[Node]:
        """The nodes whose biases its sum has."""
        return [self.node] if self.node.bias else []

    def finish(self, summands: list[Placed]) -> Tensor:
        """Append sum, bias and first activation; the map that they give."""
        step, node, output = self.step, self.node, self.reserve_output()
        biases = [step.weights[biased.name].bias_of(output) for biased in self.biased]
        most = VECTOR_LOADS - len(biases)
        if len(summands) > most:
            total = step.reserve(output.like(f"{node.name}.sum"))
            summands = self.add_up(f"{node.name}.sum", summands, total, most)
        program = VectorProgram(step.parameters)
        self.combine(program, summands, biases)
        target = self.activated(output)
        further = self.store(program, output, target)
        # Of maps whose rows are channels a bias is a column.
        columns, rows = (len(biases), 0) if self.by_channel else (0, len(biases))
        step.hold(Sweep(f"{node.name}.output", node, step.parameters, program, program, output,
                        len(summands) + further, rows + self.row_regions, columns or None, images=self.images))
        return target

    def combine(self, program: VectorProgram, summands: Sequence[Placed], biases: Sequence[Operand]) -> None:
        """Region "z": summands, then biases, added in their order."""
        add_sources(program, summands)
        self.add_biases(program, biases)

    def add_biases(self, program: VectorProgram, biases: Sequence[Operand]) -> None:
        """Add biases to region "z", in their order."""
        for number, bias in enumerate(biases):
            program.load(f"b{number}", bias, "column" if self.by_channel else "row")
            program.run(VectorOp.ADD, "z", "z", f"b{number}")

    def activated(self, output: Tensor) -> Tensor:
        """Where the first activation of its sum goes."""
        return output if self.activation is None else self.activation.go_with(output)

    def store(self, program: VectorProgram, output: Operand, target: Operand) -> int:
        """Store region "z", and what the first activation makes of it; full regions that it needs besides."""
        region = "z" if self.activation is None else self.activation.run(program)
        program.store("z", output)
        if region != "z":
            program.store(region, target)
        return 0 if self.activation is None else self.activation.further

    # Backwards.

    def backward(self, reductions: Reductions) -> None:
        """Append bprop and updateGrad, with the sums of its gradient."""
        self.propagate(self.sum_error() if self.error is None else self.error, reductions)

    def propagate(self, error: Tensor, reductions: Reductions) -> None:
        """Append what gives errors of its inputs, and the gradient of its weights, from the error of its sum: that of a
        sum is that of each summand."""
        self.errors = dict.fromkeys(range(len(self.feeds)), error)

    def sum_error(self) -> Tensor:
        """Append what gives the error of its sum, at its owner, from those of its readers, and the bias gradient."""
        error = self._map_error()
        for layer in reversed(self.epilogue):
            error = layer.backward(error)
        return self.sum_error_of(error)

    def _map_error(self) -> Tensor:
        """Error of its last map, at its owner: sum over readers, and over those that split their outputs."""
        step, owned, name = self.step, self.map, self.node.name
        sources: Sequence[Tensor] = []
        # By edges: what is read twice has an error that moves once and counts twice.
        moved: dict[int | None, Slots] = {}
        readers = [reading for reading in self.readers if reading[0].number not in step.shared_tiles]
        for reader, place in readers:
            error, edge = reader.errors[place], reader.feeds[place]
            if error.by_channel != owned.by_channel:
                error = self.turned(error, f"{reader.node.name}.{error.name}.turned")
            planned = step.defined(self.node, BPROP, "reduce", edge)
            if planned is None:
                sources = [*sources, error]
                continue
            if edge not in moved:
                members = step.members(ERROR, reader.number)
                moved[edge] = step.reserve(Slots(f"{name}.error.{reader.node.name}.{place}.", owned, members.size,
                                                 step.parameters.beat_words))
                step.exchange(planned, self.number, error, moved[edge], members, own=True)
                if planned.source.covers:
                    # What a reader does not need has no error there.
                    step.zeros.append(Clear(f"{moved[edge].name}zero", self.node, step.parameters, moved[edge],
                                            step.any))
            # The only summands are added up from their slots.
            sources = moved[edge] if len(readers) == 1 else [*sources, *moved[edge]]
        if len(sources) == 1:
            return sources[0]
        total = step.reserve(owned.like(f"{name}.error_sum"))
        self.add_up(f"{name}.error_sum", sources, total, 1)
        return total

    def sum_error_of(self, error: Tensor) -> Tensor:
        """Append what takes the error of what its first activation gives back through that; with it the bias gradient,
        if the error tells that."""
        step, node, packed = self.step, self.node, self.narrow_error and self.step.narrow
        bias = node.bias > 0 and not self.here.mp
        unlike = packed is not None and packed != error.packed
        sum_error = None
        if self.activation is not None or bias or unlike:
            if self.output is not None and (self.activation is not None or unlike):
                sum_error = step.reserve(self.output.like(f"{node.name}.error", packed=bool(packed)))
            self.error_sweep(f"{node.name}.backward", self.activation, error, sum_error, bias=bias)
        step.release(f"{node.name}.backward")
        return error if sum_error is None else sum_error

    def error_sweep(self, name: str, activation: ElementwiseLayer | None, error: Tensor, target: Tensor | None, *,
                    bias: bool) -> None:
        """Append what makes ``target`` = error back through an activation, and, with ``bias``, the error's column sums.

        Narrow maps are summed with several positions in a row; those sums are then added, positions ascending.
        """
        step, node = self.step, self.node
        part = error.part(0)
        fold = folding(step.parameters, part.positions, part.channels) if bias and not step.narrow else 1
        gradient = self.bias_gradient(error) if bias else None
        sums = step.reserve(RowOnDies(f"{name}.sums", error, fold)) if fold > 1 else None
        summed = sums or gradient

        def program(first: bool) -> VectorProgram:
            sweep = VectorProgram(step.parameters)
            sweep.load("d", folded(error, fold))
            if activation is not None:
                sweep.load("y", folded(activation.kept, fold))
                activation.back(sweep, "d", "y")
            if summed is not None:
                column_sum(sweep, summed, first=first and (sums is not None or not step.micro_batch),
                           by_channel=error.by_channel)
            if target is not None:
                sweep.store("d", folded(target, fold))
            return sweep

        by_channel = error.by_channel
        step.hold(Sweep(name, node, step.parameters, program(True), program(False), error,
                        1 if activation is None else activation.regions, 0 if by_channel else 2 * bias,
                        1 if by_channel and bias else None, fold, self.images))
        if sums is not None and gradient is not None:
            last = VectorProgram(step.parameters)
            last.load("d", Unfolded(sums, fold))
            column_sum(last, gradient, first=not step.micro_batch)
            step.hold(LastStrip(f"{name}.sum", node, last, error, fold))

    def bias_gradient(self, error: Tensor) -> Placed:
        """Where column sums of an error go."""
        return self.step.gradients[self.node.name].bias_of(error)

    def input_error(self) -> Tensor | None:
        """A place for the error of what it reads, at its only input; None: that is the network's input."""
        if self.feeds[0] is None:
            return None
        error = self.errors[0] = self.step.reserve(self.x[0].like(f"{self.node.name}.input_error"))
        return error
