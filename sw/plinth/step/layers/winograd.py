"""Convolutions by Winograd tiles: what stands in place of their products. With V the tiles of inputs X, U those
of outputs Z, W the weights of their elements::

    W = G w G^T                                     matrix, if the kernel is trained
    V = B^T X B to who has the elements             transfer
    U[e] = V[e] W[e]                                matrix, a task an element e
    U to who has the samples, Z = A^T U A           transfer
    bprop    dU = A dZ A^T to who has the elements  transfer
             dV[e] = dU[e] W[e]^T                   matrix
             dV to who has the samples, dX = B dV B^T  transfer
    update   dW[e] = V[e]^T dU[e]                   matrix
             dw = G^T dW G                          matrix, if the kernel is trained
             dW[e] = r[e] dW[e]                     vector, if elements are, with rates that updates do not take

Where the elements of tiles are not split over dies nothing is sent, and fprop and bprop may go in strips of tiles
(:mod:`~plinth.step.tile_strips`). Where the matrix engine's operands have 16 bits the vector engine makes W, V and dU
such, and W of w and dw of dW.
"""

from collections.abc import Sequence
from dataclasses import replace

from plinth.array.array import AT_LINKS
from plinth.errors import UserError
from plinth.network.winograd import MOST_GROWTH, element_rates, fit, growth
from plinth.partition.axes import ELEMENTS, SAMPLES, Region
from plinth.partition.cuts import parts
from plinth.partition.exchanges import ExchangeDefinition, tile_exchange
from plinth.partition.graph import DP, EP, Node
from plinth.partition.groups import TILES
from plinth.partition.predicted import skip_share
from plinth.step import between
from plinth.step.kernel_sums import KernelProducts, KernelSums
from plinth.step.layers.epilogue import EpilogueLayer
from plinth.step.layers.node import NodeLayer, column_sum
from plinth.step.layers.weighted import WeightedLayer
from plinth.step.line_operations import LineGather, LineTiles
from plinth.step.operands import Operands, add_tiles, narrow_tiles
from plinth.step.operations import Clear, Sweep
from plinth.step.predicted_gather import add_named, add_predicted
from plinth.step.reductions import Reductions
from plinth.step.skipped_scatter import Masks, add_skipped
from plinth.step.step import Step
from plinth.step.tasks import BPROP, FPROP, UPDATE
from plinth.step.tensors import Constant, Placed, Tensor, Tiles
from plinth.step.tile_operations import (
    ElementProducts,
    ElementRates,
    Gather,
    InStrips,
    OwnStrips,
    SameStrips,
    Scatter,
    Strips,
    Untile,
)
from plinth.step.tile_strips import GatherStrips, gather_strips
from plinth.step.vector import VectorProgram
from plinth.step.weights import WHOLE
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.winograd import OUTPUTS, form


def check_transforms(node: Node, parameters: DieParameters) -> None:
    """Refuse a layer whose tiles dies cannot make.

    Raises
    ------
    UserError
        With the layer and its transform.
    """
    assert node.tiling is not None
    if parameters.packing > 1 and not fit(node.tiling.form):
        outputs = [count for count in OUTPUTS[node.tiling.kernel] if fit(form(node.tiling.kernel, count))]
        other = "".join(f"winograd={count}, " for count in outputs)
        raise UserError(f"layer {node.name!r} cannot be computed by Winograd transform "
                        f"F({node.tiling.outputs},{max(node.tiling.kernel)}) on preset {parameters.name!r}: with it "
                        f"errors of FP16 operands grow {growth(node.tiling.form):.1f} times, above {MOST_GROWTH}; "
                        f"choose {other}winograd=off, or format=fp32")
    for transform in node.tiling.form.transforms:
        sizes = transform.outputs, transform.taps
        if transform.size > 1 and sizes not in parameters.transforms:
            raise UserError(f"layer {node.name!r} needs Winograd transform F({transform.outputs},{transform.taps}), "
                            f"which dies of preset {parameters.name!r} have not; choose a preset that has it, such as "
                            f"ndp-demo-{'mixed-' * (parameters.packing > 1)}winograd, or winograd=off")


def check_codes(node: Node, parameters: DieParameters) -> None:
    """Refuse a layer with exchanges in codes, on dies that have none.

    Raises
    ------
    UserError
        With the layer.
    """
    if not parameters.codes:
        raise UserError(f"layer {node.name!r} predicts what dies need of its tiles, for which those of preset "
                        f"{parameters.name!r} have no codes; choose a preset that has them, such as "
                        "ndp-demo-predict, or an array that has, such as mpt-256-ideal, or predict=0")


class WinogradLayer(WeightedLayer):
    """Builds the operations of a convolution by Winograd tiles.

    Layers of a sum of tiles (:class:`plinth.partition.blocks.TileSum`) each make tiles of products; the last one adds
    them, makes maps of the sum, and backwards tiles of its error for all. Of layers that read the same tiles the first
    one makes these, adds the tiles of the errors of all, and makes the map of that.
    """

    takes_narrow = narrow_error = False
    narrow_splits = (DP, EP)

    def __init__(self, step: Step, number: int, layers: list[NodeLayer], epilogue: Sequence[EpilogueLayer] = ()):
        super().__init__(step, number, layers, epilogue)
        assert self.node.tiling is not None
        check_transforms(self.node, step.parameters)
        self.tiling = self.node.tiling
        #: The sum of tiles that it is of, if it is, and the layers of it, or itself.
        self.summed = step.tile_sums.get(number)
        self._summands = (number,) if self.summed is None else self.summed.members
        #: Whether it makes maps of that sum.
        self.gives_product = number == self._summands[-1]
        #: The layer that makes tiles of its input.
        self._first = step.shared_tiles.get(number, number)
        #: Where the bias gradient is added up in a cluster: as planned, of each die, of all.
        self._bias_rows: tuple[ExchangeDefinition, Tensor, Tensor] | None = None
        tiles = (step.defined(self.node, phase, kind) for phase in (FPROP, BPROP) for kind in ("scatter", "gather"))
        if any(planned is not None and planned.coded for planned in tiles):
            check_codes(self.node, step.parameters)
        #: Masks of the predicted gather, and of inputs by which their errors come back.
        self._masks: Masks | None = None
        self._causes: Masks | None = None
        self._cluster = step.members(TILES, self.number)
        self._column = self.tiling.column(parts(self.here.ep, step.factors))
        if self.node.free:
            self.weights, self.gradient = step.weights[self.node.name], step.gradients[self.node.name]
            return
        whole, (down, across) = step.weights[self.node.name], (transform.g for transform in self.tiling.form.transforms)
        order = self.tiling.order(parts(self.here.ep, step.factors))
        axes = whole.region.axes + (((ELEMENTS, self.here.ep),) if self.here.ep else ())
        self.weights = replace(
            whole, name=f"{self.node.name}.elements", shape=(self.tiling.elements, *whole.shape[1:]),
            region=Region(axes, whole.region.owners), bias=False, tap_order=order)
        if step.narrow:
            self._middle = step.reserve(replace(
                whole, name=f"{self.node.name}.half_elements", shape=(len(down) * len(across[0]), *whole.shape[1:]),
                bias=False))
        else:
            # Rounded once.
            rows = [tuple(float(left * right) for left in row for right in column) for row in down for column in across]
            self._matrix = step.reserve(Constant(f"{self.node.name}.transform", tuple(
                rows[number] for number in order or range(len(rows)))))
            step.constants.append(self._matrix)
            step.reserve(self.weights)
        self.gradient = step.reserve(replace(self.weights, name=f"{self.node.name}.element_gradient"))

    @property
    def _strips(self) -> Strips | None:
        """Those of dies' own tiles, if elements are not split, and tiles are operands as they are."""
        step = self.step
        if self.here.ep or step.narrow:
            return None
        return OwnStrips(step.parameters, self.tiling, self.weights, tuple(
            self.here.tiles[0].lengths(SAMPLES, step.samples, step.factors).tolist()))

    def _place(self, name: str, like: Tensor, region: Region, elements: int = 0, *, by_rows: bool = False) -> Tiles:
        return self.step.reserve(Tiles(
            f"{self.node.name}.{name}", like.samples, self.tiling.positions, like.channels, region, like.factors,
            elements=elements or self.tiling.elements,
            column=self._column * (elements or self.tiling.elements) // self.tiling.elements,
            by_rows=by_rows and self._column > 0))

    def _scatter(self, name: str, phase: str, maps: Tensor, *, outputs: bool) -> tuple[Tiles, Scatter]:
        """Tiles of maps, where their elements are multiplied, and what makes them."""
        step, node = self.step, self.node
        tiles = target = self._place(name, maps, self.here.tiles[outputs])
        # Where elements are not split a die makes tiles for itself.
        planned = step.defined(node, phase, "scatter") or tile_exchange(node, self.here, phase, "scatter", step.factors)
        columns = dict(planned.extra)[ELEMENTS]
        if columns < self.tiling.elements:
            target = step.reserve(replace(tiles, name=f"{tiles.name}.lines", positions=planned.positions,
                                          elements=columns, column=0))
        # Where elements are not split nothing is sent, and there is no counter of what comes.
        number = step.next_exchange() if self.here.ep else -1
        return tiles, Scatter(
            planned, step.named(planned), self.number, number, maps, [target], None, True, self._cluster, node, outputs,
            self._strips, halved=target is not tiles)

    def _in_strips(self, direction: str, scatter: Scatter, tiles: Tiles, products: Tiles, maps: Tensor) -> bool:
        """Tiles, their products and the maps of these in strips, if the layer is cut so."""
        step, outputs = self.step, direction == FPROP
        strips = self._strips
        if strips is None or not any(strips.of(die) for die in range(step.dies)):
            return False
        step.empty(tiles, products)
        if not outputs:
            self._clear(maps)
        step.add(InStrips(scatter, self._products(direction, tiles, products), self._untile(products, maps, outputs)))
        return True

    def _at_links(self, exchange: Scatter | Gather) -> Scatter | Gather | None:
        """Of an array whose codes are modelled to keep up with links: the exchange without the words that masks do not
        name, made, packed and sent in one pass."""
        planned, array = exchange.planned, self.step.array
        if planned.coded is None or array is None or array.codes != AT_LINKS:
            return None
        return replace(exchange, share=skip_share(planned.coded, planned.phase, planned.kind))

    def _scattered(self, scatter: Scatter, tiles: Tiles) -> Tiles:
        """What is made tiles, as operands."""
        modelled = self._at_links(scatter)
        if modelled is not None or scatter.planned.coded is None:
            self.step.add(modelled or scatter)
            lines = scatter.targets[0]
            if scatter.halved and isinstance(lines, Tiles):
                self.step.add(LineTiles(f"{scatter.name}.tiles", self.node, scatter.outputs, lines, tiles))
        elif scatter.outputs:
            add_skipped(self.step, scatter, self._masks, kept=False)
        else:
            back = self.step.defined(self.node, BPROP, "gather")
            self._causes = add_skipped(self.step, scatter, None, kept=back is not None and back.coded is not None)
        return narrow_tiles(self.step, self.node, tiles)

    def _products(self, direction: str, operands: Tiles, products: Tiles) -> ElementProducts:
        x, z = (operands, products) if direction == FPROP else (products, operands)
        return ElementProducts(self.node, direction, x, z, self.operand, self._strips)

    def _product(self, direction: str, operands: Tiles, products: Tiles) -> None:
        """Products of operands that are there."""
        self.step.empty(operands, products)
        self.step.add(self._products(direction, operands, products))

    def _clear(self, maps: Tensor) -> None:
        """Zeros, where tiles that overlap are added."""
        self.step.add(Clear(f"{maps.name}.zero", self.node, self.step.parameters, maps, self.step.any))

    def _untile(self, tiles: Tiles, maps: Tensor, outputs: bool) -> Untile:
        """What makes maps of tiles where both are."""
        return Untile(f"{self.node.name}.{'untile' if outputs else 'error_untile'}", self.node, outputs, tiles, maps,
                      not outputs, self._strips, tiles.elements < self.tiling.elements)

    def _gather_strips(self, gather: Gather, outputs: bool) -> GatherStrips | None:
        """The strips in which the last elements come and are made maps, if dies of a cluster have alike and are cut;
        lines are not."""
        step, target = self.step, gather.targets[0]
        sizes = {(part.samples, part.channels) for part in map(target.part, range(step.dies))}
        if step.whole_gathers or not gather.cut_in_strips or len(sizes) > 1 or any(
                gather.members(die) is None for die in range(step.dies)):
            return None
        ((samples, channels),) = sizes
        *_, last = (count for _, count, _ in gather.runs(0))
        return gather_strips(step.parameters, samples, self.tiling, channels, last, len(gather.peers(0)), not outputs)

    def _gathered_in_strips(self, gather: Gather, cut: GatherStrips, tiles: Tiles, maps: Tensor, *,
                            outputs: bool) -> None:
        """What is gathered made maps strip by strip: of one the maps, while the next ones come."""
        step, sent = self.step, 0
        if not outputs:
            self._clear(maps)
        rows = [strip.rows(self.tiling.tiles) for strip in cut.strips]
        untile = replace(self._untile(tiles, maps, outputs), strips=SameStrips(cut.strips))
        for number, ahead in enumerate(cut.ahead):
            for strip in range(sent, ahead):
                step.add(replace(gather, number=step.next_exchange() if strip else gather.number, strips=rows,
                                 strip=strip))
            sent = ahead
            step.add(replace(untile, strip=number))

    def _gather(self, name: str, phase: str, tiles: Tiles, maps: Tensor, *, outputs: bool,
                added: Tensor | None = None) -> None:
        """Maps of tiles; ``added``: what is added to them before their ReLU."""
        step, node = self.step, self.node
        if (planned := step.defined(node, phase, "gather")) is not None:
            elements = dict(planned.extra)[ELEMENTS]
            # What is predicted is read row by row.
            whole = self._place(f"{name}_whole", maps, maps.region, elements,
                                by_rows=planned.coded is not None and outputs)
            arguments = (planned, step.named(planned), self.number, step.next_exchange(), tiles, [whole], None, True,
                         self._cluster)
            gather = Gather(*arguments) if elements == self.tiling.elements else LineGather(*arguments, layer=node)
            if planned.coded is not None and outputs:
                biased = [step.weights[step.graph.nodes[number].name] for number in self._summands
                          if step.graph.nodes[number].bias]
                self._masks = add_predicted(step, node, gather, biased[0].bias_of(maps) if biased else None, added)
            elif planned.coded is not None and self._causes is not None:
                add_named(step, node, gather, self._causes)
            elif (modelled := self._at_links(gather)) is not None:
                step.add(modelled)
            elif (cut := self._gather_strips(gather, outputs)) is not None:
                self._gathered_in_strips(gather, cut, whole, maps, outputs=outputs)
                return
            else:
                step.add(gather)
            tiles = whole
        if not outputs:
            self._clear(maps)
        step.add(self._untile(tiles, maps, outputs))

    def prepare(self) -> None:
        """Append what makes weights of elements as the matrix engine reads them."""
        step, node = self.step, self.node
        if node.free:
            super().prepare()
            return
        self.operand = Operands(self.weights.name, self.weights, step.narrow)
        if step.narrow:
            step.reserve(self.operand)
            step.add(KernelSums(node, FPROP, self.operand, step.parameters, step.weights[node.name], self._middle))
        else:
            step.add(KernelProducts(node, FPROP, self.weights, self._matrix, step.weights[node.name]))

    def _layer(self, number: int) -> "WinogradLayer":
        layer = self.layers[number]
        assert isinstance(layer, WinogradLayer)
        return layer

    def _sum(self, name: str, tiles: Sequence[Tiles], maps: Tensor, *, outputs: bool) -> Tiles:
        """Tiles added where their elements are, if they are several."""
        if len(tiles) == 1:
            return tiles[0]
        total = self._place(name, maps, self.here.tiles[outputs])
        add_tiles(self.step, self.node, tiles, total)
        return total

    # Forwards.

    def inputs(self) -> list[Tensor]:
        return super().inputs() if self._first == self.number else self.layers[self._first].x

    def summands(self) -> list[Placed]:
        summands = super().summands()
        return summands if self.summed is None else []

    def multiply(self, x: Tensor, z: Tensor) -> None:
        scattered = self._scatter("tiles", "fprop", x, outputs=False) if self._first == self.number else None
        self._product_tiles: Tiles = self._place("product_tiles", z, self.here.tiles[1])
        if scattered is None:
            self._inputs: Tiles = self._layer(self._first)._inputs
        else:
            tiles, scatter = scattered
            if self._in_strips(FPROP, scatter, tiles, self._product_tiles, z):
                self._inputs = tiles
                return
            self._inputs = self._scattered(scatter, tiles)
        self._product(FPROP, self._inputs, self._product_tiles)
        if self.gives_product:
            whole = self._sum("summed_tiles", [
                self._layer(number)._product_tiles for number in self._summands], z, outputs=True)
            self._gather("product_tiles", FPROP, whole, z, outputs=True, added=self._residual())

    def _residual(self) -> Tensor | None:
        """The map that a junction adds to its own before a ReLU, if it is there."""
        residual = self.step.residuals.get(self.number)
        if residual is None or residual.producer is None or residual.missing:
            return None
        return self.layers[residual.producer].map

    # Backwards.

    def sum_error(self) -> Tensor:
        if self.summed is None:
            return super().sum_error()
        (junction, place), = self.readers
        return self.sum_error_of(junction.errors[place])

    def input_error(self) -> Tensor | None:
        if self._first == self.number:
            return super().input_error()
        return self.x[0].like(f"{self.node.name}.input_error")

    def differentiate(self, x: Tensor, z: Tensor, error: Tensor, reductions: Reductions) -> None:
        self._error_tiles(error, self.input_error())
        elements = reductions.elements(self.number, self.rates)
        self._update(() if elements else self.rates)
        self._sum_bias()
        for piece in elements or [WHOLE]:
            reductions.add(self.number, piece)

    def _error_tiles(self, error: Tensor, input_error: Tensor | None) -> None:
        """Append bprop: tiles of the error, and, if the input has one, its error ``input_error``."""
        scattered = self._scatter("error_tiles", "bprop", error, outputs=True) if self.gives_product else None
        if input_error is not None:
            self._input_error_tiles: Tiles = self._place("input_error_tiles", input_error, self.here.tiles[0])
        if scattered is None:
            self._errors: Tiles = self._layer(self._summands[-1])._errors
        else:
            tiles, scatter = scattered
            if input_error is not None and self._in_strips(BPROP, scatter, tiles, self._input_error_tiles, input_error):
                self._errors = tiles
                return
            self._errors = self._scattered(scatter, tiles)
        if input_error is None:
            return
        self._product(BPROP, self._errors, self._input_error_tiles)
        if self._first == self.number:
            sharing = [number for number, first in self.step.shared_tiles.items() if first == self.number]
            summed = [self._layer(number)._input_error_tiles for number in (self.number, *sharing)]
            whole = self._sum("summed_error_tiles", summed, input_error, outputs=False)
            self._gather("input_error_tiles", BPROP, whole, input_error, outputs=False)

    @property
    def rates(self) -> tuple[float, ...]:
        """Factors on the learning rates of elements, if they are updated, and by different ones."""
        return element_rates(self.tiling.form) if self.node.free and not self.step.rule.squares else ()

    def _update(self, rates: tuple[float, ...]) -> None:
        """Append updateGrad; its elements are multiplied by ``rates``, if there are any, which the update does not
        take."""
        step, node = self.step, self.node
        step.add(ElementProducts(node, UPDATE, self._inputs, self._errors, self.gradient))
        if rates:
            step.add(ElementRates(node, step.parameters, self.gradient, rates))
        if node.free:
            return
        kernel = step.gradients[node.name]
        if step.narrow:
            step.add(KernelSums(node, UPDATE, self.gradient, step.parameters, kernel, self._middle, of=self._inputs))
        else:
            step.add(KernelProducts(node, UPDATE, self.gradient, self._matrix, kernel, of=self._inputs))

    def bias_gradient(self, error: Tensor) -> Placed:
        """Where column sums of an error go: to the gradient, unless the die's cluster adds them up first."""
        step, node = self.step, self.node
        planned = step.defined(node, BPROP, "bias")
        if planned is None:
            return super().bias_gradient(error)
        assert planned.samples is not None
        row, rows = (step.reserve(Tensor(f"{node.name}.bias_{name}", planned.samples, 1, planned.channels, region,
                                         step.factors))
                     for name, region in (("row", planned.source), ("rows", planned.target)))
        step.empty(error, row)
        self._bias_rows = planned, row, rows
        return row

    def _sum_bias(self) -> None:
        """Append what makes the bias gradient of a cluster's samples from its dies' own, where it is added up so."""
        if self._bias_rows is None:
            return
        step, node = self.step, self.node
        planned, row, rows = self._bias_rows
        step.add(between.Exchange(planned, step.named(planned), self.number, step.next_exchange(), row, [rows], None,
                                  True, self._cluster))

        def program(first: bool) -> VectorProgram:
            bias_program = VectorProgram(step.parameters)
            bias_program.load("d", rows)
            column_sum(bias_program, step.gradients[node.name].bias_of(rows), first=first)
            return bias_program

        step.add(Sweep(f"{node.name}.bias", node, step.parameters, program(True), program(False), rows, 1, 2, pieces=1))
