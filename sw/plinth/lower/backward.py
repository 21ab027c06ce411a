"""bprop and updateGrad of a training step; the order of operations stands in :mod:`plinth.lower.training`."""

from plinth.lower import activation, pooling
from plinth.lower.convolution import images_of
from plinth.lower.forward import Flow, Forward, LoweredStage, column_sum
from plinth.lower.places import Tensor
from plinth.lower.products import Products
from plinth.lower.stages import ACTIVATIONS, Follower
from plinth.lower.step import folded
from plinth.lower.vector import VectorProgram
from plinth.model.layers import Join, Sigmoid
from plinth.plan.cost.cuts import folding
from plinth_hw.isa.tasks import VectorOp


class Backward:
    """Builds bprop and updateGrad stage by stage, last one first."""

    def __init__(self, flow: Flow, forward: Forward):
        self.flow = flow
        self.step = flow.step
        self.forward = forward
        #: Error of what a stage reads of a feed, partial where its output channels are split.
        self._errors: dict[tuple[int, int], Tensor] = {}

    def stage(self, made: LoweredStage) -> None:
        """One stage."""
        stage = made.stage
        if stage.layer.is_loss:
            assert made.error is not None
            self._errors[stage.number, 0] = made.error
            return
        if made.error is not None:
            error = made.error
        else:
            error = self._map_error(made)
            own = made.followed[1:] if made.activation is not None else made.followed
            for follower, source, target in reversed(own):
                error = self._follow(made, follower, source, target, error)
            error = self._own(made, error)
            self.step.release()
        if stage.node.weighted:
            self._weighted(made, error)
        else:
            self._junction(made, error)

    def _map_error(self, made: LoweredStage) -> Tensor:
        """Error of a stage's last map, at home: sum over readers, and over those that split their outputs."""
        flow, home, name = self.flow, made.map, made.stage.name
        sources: list[Tensor] = []
        for reader, feed in made.readers:
            error = self._errors[reader.stage.number, feed]
            here = flow.plan.layouts[reader.stage.number]
            if list(error.parts) == list(home.parts) and not here.op:
                sources.append(error)
                continue
            slots = [flow.places(die, here.op) for die in range(self.step.dies)]
            places = [self.step.like(f"{name}.error.{reader.stage.name}.{feed}.{slot}", home)
                      for slot in range(1 << len(here.op))]
            self.step.exchange(f"{name}.reduce.{reader.stage.name}", error, places, slots, own=True)
            sources += places
        if len(sources) == 1:
            return sources[0]
        total = self.step.like(f"{name}.error_sum", home)
        self.step.summed(f"{name}.error_sum",
                         [[source.buffers[die] for source in sources] for die in range(self.step.dies)], total, 1)
        return total

    def _follow(self, made: LoweredStage, follower: Follower, source: Tensor, target: Tensor,
                error: Tensor) -> Tensor:
        """Back through a pool, or an activation that has its own program."""
        layer, parameters = follower.layer, self.step.parameters
        found = self.step.like(f"{layer.name}.error", source)
        if isinstance(layer, ACTIVATIONS):
            self._activate(layer.name, follower, error, target, found, made, bias=False)
            return found
        _, height, width = follower.shape
        _, down, across = layer.output([follower.shape])
        middle = made.middles[layer.name]
        middle_error, rest = self.step.like(f"{layer.name}.middle_error", middle), self.step.like(
            f"{layer.name}.rest", target)
        for die, part in enumerate(source.parts):
            for strip, (start, count) in enumerate(self.step.stage_strips(made.stage, part.samples)
                                                   if part.words else ()):
                whole, between, small = (height, width), (down, width), (down, across)
                maps = [images_of(tensor.buffers[die], start, count, *size) for tensor, size in (
                    (source, whole), (middle, between), (target, small), (error, small), (middle_error, between),
                    (found, whole), (rest, small))]
                for suffix, program in pooling.backward(layer, parameters, *maps):  # type: ignore[arg-type]
                    self.step.hold(die, strip, f"{layer.name}.backward_{suffix}.{start}", program)
        return found

    def _activate(self, name: str, follower: Follower | None, error: Tensor, output: Tensor, found: Tensor | None,
                  made: LoweredStage, *, bias: bool) -> None:
        """``found`` = error back through an activation, and, with ``bias``, its column sums.

        Narrow maps are summed with several positions in a row; those sums are then added, positions ascending.
        """
        part = error.parts[0]
        fold = folding(self.step.parameters, part.positions, part.channels) if bias and not self.step.narrow else 1
        sums = self.step.place(f"{name}.sums", [(1, fold * part.channels) for part in error.parts]) if fold > 1 else []
        regions = 1 if follower is None else 3 if isinstance(follower.layer, Sigmoid) else 2
        for die, (part, d) in enumerate(zip(error.parts, error.buffers, strict=True)):
            target = self.flow.bias(made.stage, die, "gradients", part) if bias else None
            last = 0
            for strip, piece in self.flow.strips(made.stage, part, regions, 2 * bias, fold=fold):
                last = strip
                program = VectorProgram(self.step.parameters, piece.rows, piece.columns)
                program.load("d", piece.of(folded(d, fold)))
                if follower is not None:
                    program.load("y", piece.of(folded(output.buffers[die], fold)))
                    activation.backward(program, follower.layer, "d", "y")
                if target is not None:
                    column_sum(program, piece.of(sums[die] if sums else target), first=piece.row == 0)
                if found is not None:
                    program.store("d", piece.of(folded(found.buffers[die], fold)))
                self.step.hold(die, strip, f"{name}{piece}", program)
            if sums and target is not None and part.words:
                program = VectorProgram(self.step.parameters, fold, part.channels)
                program.load("d", sums[die].part(sums[die].name, 0, fold, part.channels))
                column_sum(program, target, first=True)
                self.step.hold(die, last, f"{name}.sum", program)

    def _own(self, made: LoweredStage, error: Tensor) -> Tensor:
        """Error of a stage's sum: back through its first activation; with it the bias gradient, if it can be told."""
        stage, output = made.stage, made.output
        assert output is not None
        bias = stage.node.bias > 0 and not self.flow.plan.layouts[stage.number].mp
        # What the matrix engine reads is narrow then.
        narrow = self.step.narrow and stage.node.weighted
        if made.activation is None and not bias and not narrow:
            return error
        found = None
        if made.activation is not None or narrow:
            found = self.step.like(f"{stage.name}.error", output, packed=narrow)
        self._activate(f"{stage.name}.backward", made.activation, error, output, found, made, bias=bias)
        return error if found is None else found

    def _junction(self, made: LoweredStage, error: Tensor) -> None:
        """The error of a sum is that of each summand; of a mean, its share."""
        stage = made.stage
        if isinstance(stage.layer, Join):
            share = self.step.like(f"{stage.name}.share", error)
            for die, (part, d) in enumerate(zip(error.parts, error.buffers, strict=True)):
                for piece in self.step.strips(part.rows, part.channels, 1) if part.words else ():
                    program = VectorProgram(self.step.parameters, piece.rows, piece.columns)
                    program.load("d", piece.of(d))
                    program.run(VectorOp.SCALE, "d", "d", immediate=1.0 / len(stage.feeds))
                    program.store("d", piece.of(share.buffers[die]))
                    self.step.vector(die, f"{stage.name}.share{piece}", program)
            error = share
        for number in range(len(stage.feeds)):
            self._errors[stage.number, number] = error

    def _weighted(self, made: LoweredStage, error: Tensor) -> None:
        """Error to all who computed the output; input error; weight gradient."""
        flow, stage, z, x = self.flow, made.stage, made.z, made.x[0]
        assert z is not None
        if flow.plan.layouts[stage.number].mp:
            whole = self.step.like(f"{stage.name}.whole_error", z)
            self.step.exchange(f"{stage.name}.spread", error, [whole], [0] * self.step.dies, own=True)
            error = whole
            if stage.node.bias:
                self._activate(f"{stage.name}.bias", None, error, z, None, made, bias=True)
                self.step.release()
        if stage.feeds[0] is not None:
            found = self.step.like(f"{stage.name}.input_error", x)
            self._errors[stage.number, 0] = found
            for die in range(self.step.dies):
                products = flow.products(stage, die, x, z)
                assert isinstance(products, Products), "an embedding reads the network's input"
                products.bprop(error.buffers[die], self.forward.operand(stage, die), found.buffers[die])
                flow.empty(die, z, found)
        for die in range(self.step.dies):
            flow.products(stage, die, x, z).update(x.buffers[die], error.buffers[die],
                                                   flow.weight_matrix(stage, die, "gradients"))

