"""A Winograd layer in a training step: what stands in place of its convolution. With V the tiles of inputs X, U those
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
from dataclasses import dataclass, replace

from plinth.array.array import AT_LINKS
from plinth.errors import UserError
from plinth.network.winograd import MOST_GROWTH, element_rates, fit, growth
from plinth.partition.axes import ELEMENTS, SAMPLES, Region
from plinth.partition.blocks import coded_exchanges
from plinth.partition.cuts import parts
from plinth.partition.exchanges import tile_exchange
from plinth.partition.graph import Node
from plinth.partition.groups import TILES
from plinth.partition.predicted import skip_share
from plinth.step.kernel_sums import KernelProducts, KernelSums
from plinth.step.line_operations import LineGather, LineTiles
from plinth.step.operands import Operands, add_tiles, narrow_tiles, narrow_weights
from plinth.step.operations import Clear
from plinth.step.predicted_gather import add_named, add_predicted
from plinth.step.skipped_scatter import Masks, add_skipped
from plinth.step.step import Step
from plinth.step.tasks import BPROP, FPROP, UPDATE
from plinth.step.tensors import Constant, Tensor, Tiles
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
        outputs = [one for one in OUTPUTS[node.tiling.kernel] if fit(form(node.tiling.kernel, one))]
        other = "".join(f"--winograd {one}, " for one in outputs)
        raise UserError(f"layer {node.name!r} cannot be computed by Winograd transform "
                        f"F({node.tiling.outputs},{max(node.tiling.kernel)}) on preset {parameters.name!r}: with it "
                        f"errors of FP16 operands grow {growth(node.tiling.form):.1f} times, above {MOST_GROWTH}; "
                        f"choose {other}--winograd off, or --format fp32")
    for one in node.tiling.form.transforms:
        sizes = one.outputs, one.taps
        if one.size > 1 and sizes not in parameters.transforms:
            raise UserError(f"layer {node.name!r} needs Winograd transform F({one.outputs},{one.taps}), which dies of "
                            f"preset {parameters.name!r} have not; choose a preset that has it, such as "
                            f"ndp-demo-{'mixed-' * (parameters.packing > 1)}winograd, or --winograd off")


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
                        "ndp-demo-predict, or an array that has, such as mpt-256-ideal, or --predict 0")


@dataclass
class WinogradLayer:
    """Builds fprop, bprop and updateGrad of a layer."""

    step: Step
    number: int

    def __post_init__(self) -> None:
        step, self.node = self.step, self.step.graph.nodes[self.number]
        assert self.node.tiling is not None
        self.tiling, self.here = self.node.tiling, step.layouts[self.number]
        #: The sum of tiles that it is of, if it is, and the layers of it, or itself.
        self.summed = step.tile_sums.get(self.number)
        self._summands = (self.number,) if self.summed is None else self.summed.members
        #: Exchanges in codes; masks of the predicted gather, and of inputs by which their errors come back.
        self._coded = coded_exchanges(step.graph, self.here, self.number, self.summed, step.residuals.get(self.number))
        if self._coded:
            check_codes(self.node, step.parameters)
        self._masks: Masks | None = None
        self._causes: Masks | None = None
        self._cluster = step.members(TILES, self.number)
        self._column = self.tiling.column(parts(self.here.ep, step.factors))
        if self.node.free:
            self.weights, self.gradient = step.weights[self.node.name], step.gradients[self.node.name]
            return
        whole, (down, across) = step.weights[self.node.name], (one.g for one in self.tiling.form.transforms)
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
            rows = [tuple(float(one * other) for one in row for other in column) for row in down for column in across]
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
            self.here.tiles[0].lengths(SAMPLES, step.batch, step.factors).tolist()))

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
        planned = tile_exchange(node, self.here, phase, "scatter", step.factors, self._coded, step.array)
        columns = dict(planned.extra)[ELEMENTS]
        if columns < self.tiling.elements:
            target = step.reserve(replace(tiles, name=f"{tiles.name}.lines", positions=planned.positions,
                                          elements=columns, column=0))
        # Where elements are not split nothing is sent, and there is no counter of what comes.
        number = step.next_exchange() if self.here.ep else -1
        return tiles, Scatter(
            f"{node.name}.{'error_' * outputs}scatter", self.number, None, number, maps, [target], None, True,
            self._cluster, planned, node, outputs, self._strips, halved=target is not tiles)

    def _in_strips(self, direction: str, scatter: Scatter, tiles: Tiles, made: Tiles, maps: Tensor) -> bool:
        """Tiles, their products and the maps of these in strips, if the layer is cut so."""
        step, outputs = self.step, direction == FPROP
        strips = self._strips
        if strips is None or not any(strips.of(die) for die in range(step.dies)):
            return False
        step.empty(tiles, made)
        if not outputs:
            self._clear(maps)
        step.add(InStrips(scatter, self._products(direction, tiles, made), self._untile(made, maps, outputs)))
        return True

    def _at_links(self, exchange: Scatter | Gather) -> Scatter | Gather | None:
        """Of an array whose codes are modelled to keep up with links: the exchange without the words that masks do not
        name, made, packed and sent in one pass."""
        planned, array = exchange.planned, self.step.array
        if planned is None or planned.coded is None or array is None or array.codes != AT_LINKS:
            return None
        return replace(exchange, share=skip_share(planned.coded, planned.phase, planned.kind))

    def _scattered(self, scatter: Scatter, tiles: Tiles) -> Tiles:
        """What is made tiles, as operands."""
        modelled = self._at_links(scatter)
        if modelled is not None or scatter.planned is None or scatter.planned.coded is None:
            self.step.add(modelled or scatter)
            lines = scatter.targets[0]
            if scatter.halved and isinstance(lines, Tiles):
                self.step.add(LineTiles(f"{scatter.name}.tiles", self.node, scatter.outputs, lines, tiles))
        elif scatter.outputs:
            add_skipped(self.step, scatter, self._masks, kept=False)
        else:
            self._causes = add_skipped(self.step, scatter, None, kept=(BPROP, "gather") in self._coded)
        return narrow_tiles(self.step, self.node, tiles)

    def _products(self, direction: str, operands: Tiles, made: Tiles) -> ElementProducts:
        x, z = (operands, made) if direction == FPROP else (made, operands)
        return ElementProducts(self.node, direction, x, z, self._operand, self._strips)

    def _product(self, direction: str, operands: Tiles, made: Tiles) -> None:
        """Products of operands that are there."""
        self.step.empty(operands, made)
        self.step.add(self._products(direction, operands, made))

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
        parts = [target.part(die) for die in range(step.dies)]
        samples, channels = parts[0].samples, parts[0].channels
        if step.whole_gathers or isinstance(gather, LineGather) or any(
                (part.samples, part.channels) != (samples, channels) or gather.members(die) is None
                for die, part in enumerate(parts)):
            return None
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
        if self.here.ep:
            planned = tile_exchange(node, self.here, phase, "gather", step.factors, self._coded, step.array)
            elements = dict(planned.extra)[ELEMENTS]
            # What is predicted is read row by row.
            whole = self._place(f"{name}_whole", maps, maps.region, elements,
                                by_rows=planned.coded is not None and outputs)
            given = (f"{node.name}.{'' if outputs else 'error_'}gather", self.number, None, step.next_exchange(), tiles,
                     [whole], None, True, self._cluster, planned)
            gather = Gather(*given) if elements == self.tiling.elements else LineGather(*given, layer=node)
            if planned.coded is not None and outputs:
                biased = [step.weights[step.graph.nodes[one].name] for one in self._summands
                          if step.graph.nodes[one].bias]
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
        """Weights of elements as the matrix engine reads them."""
        step, node = self.step, self.node
        if node.free:
            self._operand = narrow_weights(step, node, self.weights)
            return
        self._operand = Operands(self.weights.name, self.weights, step.narrow)
        if step.narrow:
            step.reserve(self._operand)
            step.add(KernelSums(node, FPROP, self._operand, step.parameters, step.weights[node.name], self._middle))
        else:
            step.add(KernelProducts(node, FPROP, self.weights, self._matrix, step.weights[node.name]))

    def forward(self, x: Tensor, z: Tensor, others: Sequence["WinogradLayer"] | None = (),
                first: "WinogradLayer | None" = None, added: Tensor | None = None) -> None:
        """fprop; of a sum of tiles ``z`` is made of those of all by the last of its layers, which has the others; None:
        it is one of these. ``first``: the layer that has made tiles of the input. ``added``: the map that a junction
        adds to it before a ReLU, if it is there."""
        scattered = None if first is not None else self._scatter("tiles", "fprop", x, outputs=False)
        self._made: Tiles = self._place("product_tiles", z, self.here.tiles[1])
        if scattered is not None:
            tiles, scatter = scattered
            if self._in_strips(FPROP, scatter, tiles, self._made, z):
                self._inputs: Tiles = tiles
                return
            self._inputs = self._scattered(scatter, tiles)
        elif first is not None:
            self._inputs = first._inputs
        self._product(FPROP, self._inputs, self._made)
        if others is not None:
            whole = self._sum("summed_tiles", [*(one._made for one in others), self._made], z, outputs=True)
            self._gather("product_tiles", FPROP, whole, z, outputs=True, added=added)

    def backward(self, error: Tensor, found: Tensor | None, others: Sequence["WinogradLayer"] | None = (),
                 last: "WinogradLayer | None" = None) -> None:
        """bprop, if the input has an error: of layers that share tiles of it made of the sum of all by the first of
        them, which has the others; None: it is one of these. ``last``: the layer that has made tiles of the error."""
        scattered = None if last is not None else self._scatter("error_tiles", "bprop", error, outputs=True)
        if found is not None:
            self._error_made: Tiles = self._place("input_error_tiles", found, self.here.tiles[0])
        if scattered is not None:
            tiles, scatter = scattered
            if found is not None and self._in_strips(BPROP, scatter, tiles, self._error_made, found):
                self._errors: Tiles = tiles
                return
            self._errors = self._scattered(scatter, tiles)
        elif last is not None:
            self._errors = last._errors
        if found is None:
            return
        self._product(BPROP, self._errors, self._error_made)
        if others is not None:
            whole = self._sum("summed_error_tiles", [self._error_made, *(one._error_made for one in others)], found,
                              outputs=False)
            self._gather("input_error_tiles", BPROP, whole, found, outputs=False)

    def _sum(self, name: str, tiles: Sequence[Tiles], maps: Tensor, *, outputs: bool) -> Tiles:
        """Tiles added where their elements are, if they are several."""
        if len(tiles) == 1:
            return tiles[0]
        total = self._place(name, maps, self.here.tiles[outputs])
        add_tiles(self.step, self.node, tiles, total)
        return total

    @property
    def rates(self) -> tuple[float, ...]:
        """Factors on the learning rates of elements, if they are updated, and by different ones."""
        return element_rates(self.tiling.form) if self.node.free and not self.step.rule.squares else ()

    def update(self, rates: tuple[float, ...]) -> None:
        """updateGrad; its elements are multiplied by ``rates``, if there are any, which the update does not take."""
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
