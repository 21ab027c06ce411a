"""bprop and updateGrad of a training step; the order of operations stands in :mod:`plinth.step.step`."""

from collections.abc import Sequence

from plinth.partition.exchanges import Exchange as PlannedExchange
from plinth.partition.exchanges import tile_exchange
from plinth.partition.graph import CONCAT, LOSS, Epilogue
from plinth.partition.groups import ERROR, TILES
from plinth.step.activation import ACTIVATIONS, run_backward
from plinth.step.between import Exchange
from plinth.step.concatenation import side_by_side
from plinth.step.forward import Forward, Made, column_sum, pool_of
from plinth.step.granularity import folding
from plinth.step.operations import Gather, LastStrip, Pool, Products, Sweep
from plinth.step.reductions import Reductions
from plinth.step.slots import Slots
from plinth.step.step import Step
from plinth.step.tasks import BPROP, UPDATE
from plinth.step.tensors import WHOLE, Matrix, Placed, Row, Tensor, Unfolded, folded
from plinth.step.vector import VectorProgram
from plinth_hw.isa.vector_body import VectorOp


class Backward:
    """Builds bprop and updateGrad node by node, last one first."""

    def __init__(self, step: Step, forward: Forward):
        self.step, self.forward = step, forward
        #: Error of what a node reads of an input, partial where its output channels are split.
        self._errors: dict[tuple[int, int], Tensor] = {}
        #: By node, bias gradients that a cluster adds up: as planned, of each die, of all.
        self._rows: dict[int, tuple[PlannedExchange, Tensor, Tensor]] = {}

    def run(self, made: Made, reductions: Reductions) -> None:
        """One node, with the sums of its gradient."""
        if made.node.kind == LOSS:
            assert made.error is not None
            self._errors[made.number, 0] = made.error
            return
        summed = self.step.tile_sums.get(made.number)
        if made.error is not None:
            error = made.error
        elif summed is not None:
            (junction, place), = made.readers
            error = self._own(made, self._errors[junction.number, place])
            self.step.release(f"{made.node.name}.backward")
        else:
            error = self._map_error(made)
            own = made.followed[1:] if made.activation is not None else made.followed
            for behind, source, target in reversed(own):
                error = self._follow(made, behind, source, target, error)
            error = self._own(made, error)
            self.step.release(f"{made.node.name}.backward")
        if made.node.per_channel:
            self._scaled(made, error, reductions)
        elif made.node.weighted:
            self._weighted(made, error, reductions)
        else:
            self._junction(made, error)

    def _map_error(self, made: Made) -> Tensor:
        """Error of a node's last map, at home: sum over readers, and over those that split their outputs."""
        step, home, name = self.step, made.map, made.node.name
        sources: Sequence[Tensor] = []
        # By edges: what is read twice has an error that moves once and counts twice.
        moved: dict[int | None, Slots] = {}
        readers = [one for one in made.readers if one[0].number not in step.shared_tiles]
        for reader, place in readers:
            error = self._errors[reader.number, place]
            here = step.layouts[reader.number]
            if error.alike(home) and not here.op:
                sources = [*sources, error]
                continue
            edge = step.graph.feeds(reader.number)[place]
            if edge not in moved:
                members = step.members(ERROR, reader.number)
                moved[edge] = step.reserve(Slots(f"{name}.error.{reader.node.name}.{place}.", home, members.size,
                                                 step.parameters.beat_words))
                step.exchange(f"{name}.reduce.{reader.node.name}", made.number, edge, error, moved[edge], members,
                              own=True)
            # The only summands are added up from their slots.
            sources = moved[edge] if len(readers) == 1 else [*sources, *moved[edge]]
        if len(sources) == 1:
            return sources[0]
        total = step.reserve(home.like(f"{name}.error_sum"))
        self.forward.summed(made.node, f"{name}.error_sum", sources, total, 1)
        return total

    def _follow(self, made: Made, behind: Epilogue, source: Tensor, target: Tensor, error: Tensor) -> Tensor:
        """Back through a pool, or an activation that has its own program."""
        step = self.step
        found = step.reserve(source.like(f"{behind.name}.error"))
        if behind.kind in ACTIVATIONS:
            kept = source if ACTIVATIONS[behind.kind].keeps_input else target
            self._activate(behind.name, behind, error, kept, found, made, bias=False)
            return found
        layer, (height, width), (down, across) = pool_of(behind), behind.size, behind.output
        middle = made.middles[behind.name]
        middle_error = step.reserve(middle.like(f"{behind.name}.middle_error"))
        rest = step.reserve(target.like(f"{behind.name}.rest"))
        whole, between, small = (height, width), (down, width), (down, across)
        step.hold(Pool(behind.name, made.node, step.parameters, layer, True, (
            (source, whole), (middle, between), (target, small), (error, small), (middle_error, between),
            (found, whole), (rest, small))))
        return found

    def _activate(self, name: str, behind: Epilogue | None, error: Tensor, kept: Tensor, found: Tensor | None,
                  made: Made, *, bias: bool) -> None:
        """``found`` = error back through an activation, from what it kept, and, with ``bias``, its column sums.

        Narrow maps are summed with several positions in a row; those sums are then added, positions ascending.
        """
        step, node = self.step, made.node
        part = error.part(0)
        fold = folding(step.parameters, part.positions, part.channels) if bias and not step.narrow else 1
        gradient = self._bias(made, error) if bias else None
        sums = step.reserve(Row(f"{name}.sums", error, fold)) if fold > 1 else None
        target = sums or gradient
        regions = 1 if behind is None else ACTIVATIONS[behind.kind].regions

        def program(first: bool) -> VectorProgram:
            made = VectorProgram(step.parameters)
            made.load("d", folded(error, fold))
            if behind is not None:
                made.load("y", folded(kept, fold))
                run_backward(behind.layer, made, "d", "y")
            if target is not None:
                column_sum(made, target, first=first)
            if found is not None:
                made.store("d", folded(found, fold))
            return made

        step.hold(Sweep(name, node, step.parameters, program(True), program(False), error, regions, 2 * bias,
                        fold=fold, images=made.pooled))
        if sums is not None and gradient is not None:
            last = VectorProgram(step.parameters)
            last.load("d", Unfolded(sums, fold))
            column_sum(last, gradient, first=True)
            step.hold(LastStrip(f"{name}.sum", node, last, error, fold))

    def _bias(self, made: Made, error: Tensor) -> Placed:
        """Where column sums of an error go: to the gradient, unless the die's cluster adds them up first."""
        step, node, here = self.step, made.node, self.step.layouts[made.number]
        if not (node.free and here.ep):
            return step.gradients[node.name].bias_of(error)
        planned = tile_exchange(node, here, "bprop", "bias", step.factors)
        assert planned.samples is not None
        row, rows = (step.reserve(Tensor(f"{node.name}.bias_{name}", planned.samples, 1, planned.channels, region,
                                         step.factors))
                     for name, region in (("row", planned.source), ("rows", planned.target)))
        step.empty(error, row)
        self._rows[made.number] = planned, row, rows
        return row

    def _sum_bias(self, made: Made) -> None:
        """The bias gradient of a cluster's samples, from its dies' own."""
        step, node = self.step, made.node
        planned, row, rows = self._rows.pop(made.number)
        step.add(Exchange(f"{node.name}.bias_rows", made.number, None, step.next_exchange(), row, [rows], None, True,
                          step.members(TILES, made.number), planned))

        def program(first: bool) -> VectorProgram:
            found = VectorProgram(step.parameters)
            found.load("d", rows)
            column_sum(found, step.gradients[node.name].bias_of(rows), first=first)
            return found

        step.add(Sweep(f"{node.name}.bias", node, step.parameters, program(True), program(False), rows, 1, 2, pieces=1))

    def _own(self, made: Made, error: Tensor) -> Tensor:
        """Error of a node's sum: back through its first activation; with it the bias gradient, if it can be told."""
        step, node, output = self.step, made.node, made.output
        bias = node.bias > 0 and not step.layouts[made.number].mp
        # What the matrix engine reads is narrow then, what tiles are made of is not.
        narrow = step.narrow and node.weighted and node.tiling is None and not node.per_channel
        unlike = node.weighted and narrow != error.packed
        if made.activation is None and not bias and not unlike:
            return error
        found = None
        if output is None:
            output = error
        elif made.activation is not None or unlike:
            found = step.reserve(output.like(f"{node.name}.error", packed=narrow))
        self._activate(f"{node.name}.backward", made.activation, error, output, found, made, bias=bias)
        return error if found is None else found

    def _junction(self, made: Made, error: Tensor) -> None:
        """The error of a sum is that of each summand; of a mean, its share; of a concatenation that of its channels."""
        if made.node.kind == CONCAT:
            self._apart(made, error)
            return
        step, node, places = self.step, made.node, len(self.step.graph.feeds(made.number))
        if node.kind == "join":
            share = step.reserve(error.like(f"{node.name}.share"))
            program = VectorProgram(step.parameters)
            program.load("d", error)
            program.run(VectorOp.SCALE, "d", "d", immediate=1.0 / places)
            program.store("d", share)
            step.add(Sweep(f"{node.name}.share", node, step.parameters, program, program, error, 1))
            error = share
        for place in range(places):
            self._errors[made.number, place] = error

    def _scaled(self, made: Made, error: Tensor, reductions: Reductions) -> None:
        """Of factors of channels: input error, and the gradient, column sums of errors times inputs."""
        step, node, x, found = self.step, made.node, made.x[0], None
        if step.graph.feeds(made.number)[0] is not None:
            found = self._errors[made.number, 0] = step.reserve(x.like(f"{node.name}.input_error"))
        factors, gradient = (Matrix(of[node.name]) for of in (step.weights, step.gradients))

        def program(first: bool) -> VectorProgram:
            made = VectorProgram(step.parameters)
            made.load("e", error)
            made.load("x", x)
            made.run(VectorOp.MUL, "d", "e", "x")
            column_sum(made, gradient, first=first)
            if found is not None:
                made.load("s", factors, "row")
                made.run(VectorOp.MUL, "e", "e", "s")
                made.store("e", found)
            return made

        step.add(Sweep(f"{node.name}.scale", node, step.parameters, program(True), program(False), error, 3, 3))
        for piece in reductions.pieces(made.number):
            reductions.add(made.number, piece)

    def _apart(self, made: Made, error: Tensor) -> None:
        """Errors of what is concatenated, each in a place of its own."""
        step, node = self.step, made.node
        feeds, errors = step.graph.feeds(made.number), side_by_side(made.x, error)
        for place, (x, channels, edge) in enumerate(zip(made.x, errors, feeds, strict=True)):
            if edge is None:
                continue
            part = self._errors[made.number, place] = step.reserve(x.like(f"{node.name}.error{place}"))
            program = VectorProgram(step.parameters)
            program.load("d", channels)
            program.store("d", part)
            step.add(Sweep(f"{node.name}.part{place}", node, step.parameters, program, program, part, 1))

    def _weighted(self, made: Made, error: Tensor, reductions: Reductions) -> None:
        """Error to all who computed the output; input error; weight gradient and its sum."""
        step, node, z, x = self.step, made.node, made.z, made.x[0]
        assert z is not None
        if step.layouts[made.number].mp:
            whole = step.reserve(z.like(f"{node.name}.whole_error"))
            step.exchange(f"{node.name}.spread", made.number, None, error, [whole], None, own=True)
            error = whole
            if node.bias:
                self._activate(f"{node.name}.bias", None, error, z, None, made, bias=True)
                step.release(f"{node.name}.bias")
        found = None
        if step.graph.feeds(made.number)[0] is not None:
            found = x.like(f"{node.name}.input_error")
            if made.number not in step.shared_tiles:
                step.reserve(found)
                self._errors[made.number, 0] = found
        winograd = self.forward.winograd.get(made.number)
        if winograd is not None:
            layers, summed = self.forward.winograd, step.tile_sums.get(made.number)
            last = made.number if summed is None else summed.members[-1]
            others = [layers[one] for one, first in step.shared_tiles.items() if first == made.number]
            winograd.backward(error, found, None if made.number in step.shared_tiles else others,
                              None if last == made.number else layers[last])
            rates = winograd.rates
            elements = reductions.elements(made.number, rates)
            winograd.update(() if elements else rates)
            if made.number in self._rows:
                self._sum_bias(made)
            for piece in elements or [WHOLE]:
                reductions.add(made.number, piece)
            return
        if found is not None:
            step.add(Products(node, step.parameters, BPROP, found, error, self.forward.operand(node)))
            step.empty(z, found)
        gradient = step.gradients[node.name]
        for piece in reductions.pieces(made.number):
            if node.gathers:
                step.add(Gather(node, x, error, gradient, True))
            else:
                step.add(Products(node, step.parameters, UPDATE, x, error, gradient, piece))
            reductions.add(made.number, piece)
