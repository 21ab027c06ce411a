"""A step in numpy: its operations on whole parts of dies, without tasks and descriptors, in one process.

Products go to BLAS, vector programs, pools and transforms to whole arrays; in FP32, as dies of that format do, but sums
in the order of the kernels' own, so that results agree with the golden model's to rounding
(``tests/sw/runtime``: each element of weights within 1e-4 of the largest after three steps). What dies leave out of
predicted gathers and skipped scatters is sent here: it is what a ReLU makes 0.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np

from plinth.errors import UserError
from plinth.runtime import pools, tiles
from plinth.runtime.memory import Floats, Kernel, Memory
from plinth.runtime.products import ConvolutionKernel, product_kernel
from plinth.runtime.programs import program_kernel
from plinth.step import (
    between,
    kernel_sums,
    line_operations,
    operations,
    predicted_gather,
    skipped_scatter,
    sums,
    updates,
)
from plinth.step import tile_operations as tiled
from plinth.step.layers import embedding, pool, products
from plinth.step.step import Step
from plinth.step.tasks import (
    Arrivals,
    CodePart,
    LineTransform,
    Multiplication,
    Phase,
    RowsByNumber,
    Task,
    TileCopy,
    TransformTiles,
)
from plinth.step.tensors import Elements
from plinth.step.vector import VectorPiece, VectorProgram
from plinth.step.weights import Weights
from plinth.update.rule import STATE
from plinth_hw.isa.formats import FP32


class NumpyStep:
    """A step made ready to run.

    Parameters
    ----------
    step : Step
        Of dies of FP32, all of which are run, one after the other, an operation at a time.

    Raises
    ------
    UserError
        If dies compute in another format, or keep states in 16 bits.
    """

    def __init__(self, step: Step) -> None:
        if (step.parameters.multiply_format, step.parameters.memory_format) != (FP32, FP32):
            raise UserError(f"numpy computes in FP32, dies of preset {step.parameters.name!r} do not; choose a machine "
                            "of --format fp32, or another device")
        self._step = step
        self.memories = [Memory(step) for _ in range(step.dies)]
        self._convolutions: dict[tuple[str, int], ConvolutionKernel] = {}
        self._rate = step.rule.scaled(step.scale).rate
        self._runs = [kernel for operation in step.operations for kernel in self._kernels(operation)]


    def run(self) -> None:
        """One step: of the inputs and targets that lie in memory."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            for kernel in self._runs:
                kernel()

    # Operations.

    def _kernels(self, operation: operations.Operation) -> Iterator[Kernel]:
        make = KERNELS.get(type(operation))
        if make is None:
            raise UserError(f"numpy has no kernel for {type(operation).__name__} ({operation.name!r}); choose another "
                            "device")
        for die in range(self._step.dies):
            yield from make(self, operation, die)

    def sweep(self, operation: operations.Sweep, die: int) -> Iterator[Kernel]:
        """A vector program over all rows of a part."""
        part = operation.space.part(die)
        if part.words:
            rows, columns = part.rows // operation.fold, operation.fold * part.channels
            yield self._program(operation.first, die, rows, columns)

    def last_strip(self, operation: operations.LastStrip, die: int) -> Iterator[Kernel]:
        """A vector program of a few rows."""
        part = operation.space.part(die)
        if part.words:
            yield self._program(operation.program, die, operation.rows, part.channels)

    def _program(self, program: VectorProgram, die: int, rows: int, columns: int) -> Kernel:
        return program_kernel(self.memories[die], program.at(die, VectorPiece(0, rows, 0, columns)))

    def pool(self, operation: pool.Pool, die: int) -> Iterator[Kernel]:
        """A pool of all images."""
        if not operation.maps[0][0].part(die).words:
            return
        maps = []
        for tensor, size in operation.maps:
            part = tensor.part(die)
            maps.append(self.memories[die].view(tensor.buffer(die)).reshape(part.samples, *size, part.channels))
        whole, middle, small = (size for _, size in operation.maps[:3])
        pool = pools.PoolKernel(operation.layer, whole, middle, small)
        if operation.backward:
            yield lambda: pool.backward(tuple(maps))
        else:
            yield lambda: pool.forward(*maps)

    def chain(self, chain: operations.Chain, die: int) -> Iterator[Kernel]:
        """Its members, each whole."""
        for member in chain.members:
            yield from KERNELS[type(member)](self, member, die)

    def sum(self, operation: sums.Sum, die: int) -> Iterator[Kernel]:
        """Summands in their order."""
        for number in range(operation.adds):
            yield from self.sweep(operation.sweep(number), die)

    def clear(self, operation: operations.Clear, die: int) -> Iterator[Kernel]:
        """Zeros."""
        place = self.memories[die].view(operation.place.buffer(die))
        if place.size:
            yield lambda: place.fill(0)

    def products(self, operation: products.Products, die: int) -> Iterator[Kernel]:
        """A product of all samples."""
        x_part, z_part = operation.x.part(die), operation.z.part(die)
        if not (x_part.words and z_part.words):
            return
        memory, shape = self.memories[die], operation.shape(die)
        w = memory.view(operation.weights.matrix(die))
        first, rows = operation.piece.rows(operation.parameters, *w.shape)
        if shape is None:
            x, z = (memory.view(products.matrix_of(tensor.buffer(die), part)) for tensor, part in (
                (operation.x, x_part), (operation.z, z_part)))
            if operation.direction == "update":
                x, w = x[:, first:first + rows], w[first:first + rows]
            if rows or operation.direction != "update":
                yield product_kernel(operation.direction, x, w, z)
            return
        key = operation.node.name, die
        if key not in self._convolutions:
            self._convolutions[key] = ConvolutionKernel(shape, x_part.samples)
        convolution = self._convolutions[key]
        maps = memory.view(operation.x.buffer(die)).reshape(x_part.samples, shape.height, shape.width, shape.inputs)
        z = memory.view(operation.z.buffer(die))
        if operation.direction == "update":
            yield lambda: convolution.update(maps, w, z, unrolled=convolution.kept)
        elif operation.direction == "bprop":
            yield lambda: convolution.bprop(maps, w, z)
        else:
            yield lambda: convolution.fprop(maps, w, z)

    def transfers(self, operation: Any, die: int) -> Iterator[Kernel]:
        """What its tasks move, as they are."""
        for item in operation.tasks(die):
            if not isinstance(item, Arrivals):
                yield self._transfer(item, die)

    def _transfer(self, task: Task, die: int) -> Kernel:
        return TRANSFERS[type(task.work)](self, die, task.work)

    def whole(self, gather: tiled.Gather, die: int) -> Iterator[Kernel]:
        """The gather whose first part a coded one is, of all words."""
        if (isinstance(gather, predicted_gather.CodedGather) and isinstance(gather.part, CodePart)
                and gather.part.number):
            return
        for other in gather.peers(die):
            if other == die and not gather.own:
                continue
            for task in tiled.Gather.tiles(gather, die, other):
                yield self._transfer(task, die)

    def spread(self, scatter: skipped_scatter.SkipScatter, die: int) -> Iterator[Kernel]:
        """The scatter that leaves out zeros, of all words."""
        source, target = scatter.source, scatter.targets[0]
        assert isinstance(source, tiled.Tiles) and isinstance(target, tiled.Tiles)
        mine = source.at(die)
        for other in scatter.peers(die):
            theirs = target.at(other)
            for here, there in mine.part.meet(theirs.part) if theirs.count else ():
                words = mine.part.view(mine.of(source.buffer(die), theirs.first), here)
                place = theirs.part.view(theirs.of(target.buffer(other), theirs.first), there)
                yield tiles.tile_kernel(self.memories, die, TileCopy(
                    words, place, other, planes=theirs.count, apart=(mine.plane, theirs.plane)))

    def in_strips(self, operation: tiled.InStrips, die: int) -> Iterator[Kernel]:
        """Tiles, products and maps, each whole."""
        for part in (operation.scatter, operation.products, operation.untile):
            yield from KERNELS[type(part)](self, part, die)

    def elements(self, operation: tiled.ElementProducts, die: int) -> Iterator[Kernel]:
        """Products of all elements at once."""
        x, z, piece = operation.x.at(die), operation.z.at(die), operation.weights.slice(die)
        if not (x.words and z.words):
            return
        memory = self.memories[die]
        a, c = (self._planes(die, side, tensor) for side, tensor in ((x, operation.x), (z, operation.z)))
        w = memory.view(operation.weights.matrix(die))[:x.count * piece.inputs]
        w = w.reshape(x.count, piece.inputs, piece.outputs)
        yield {"fprop": lambda: np.matmul(a, w, out=c), "bprop": lambda: np.matmul(c, w.swapaxes(1, 2), out=a),
               "update": lambda: np.matmul(a.swapaxes(1, 2), c, out=w)}[operation.direction]

    def _planes(self, die: int, here: Elements, tensor: tiled.Tiles) -> Floats:
        """``[element, tile, channel]`` of a die."""
        buffer = here.of(tensor.buffer(die), here.first)
        return self.memories[die].strided(buffer, (here.count, buffer.rows, buffer.columns),
                                          (here.plane, buffer.stride, 1))

    def kernels(self, operation: kernel_sums.KernelProducts, die: int) -> Iterator[Kernel]:
        """Products by the matrix of a transform."""
        memory = self.memories[die]
        for task in operation.tasks(die):
            work = cast("Multiplication", task.work)
            a, b, c = (memory.view(place) for place in (work.a, work.b, work.c))  # type: ignore[arg-type]
            x, w, z = {"fprop": (a, b, c), "bprop": (c, b, a), "update": (a, c, b)}[work.direction]
            yield product_kernel(work.direction, x, w, z)

    def rates(self, operation: tiled.ElementRates, die: int) -> Iterator[Kernel]:
        """Gradients of elements times their rates."""
        piece, whole = operation.gradient.slice(die), self.memories[die].view(operation.gradient.buffer(die))
        some = whole[0, :piece.weights].reshape(piece.taps, -1)
        rates = np.array([operation.rates[piece.tap(number)] for number in range(piece.taps)],
                         dtype=np.float32)[:, None]
        yield lambda: np.multiply(some, rates, out=some)

    def reduce(self, reduction: between.Reduce, die: int) -> Iterator[Kernel]:
        """A message of a ring, by its first die."""
        ring = reduction.rings.of(die)
        first, words = reduction.piece.words(reduction.parameters, reduction.target.slice(die))
        if die != ring[0] or not words or reduction.message(die) is None:
            return
        sources, targets = ([self._row(reduction.source if which else reduction.target, other, first, words)
                             for other in ring] for which in (True, False))
        rate = np.float32(self._rate * reduction.piece.rate(reduction.target.slice(die)))
        if reduction.phase is Phase.GATHER:
            yield lambda: self._gather(reduction, ring, targets, first)
            return

        def summed() -> Floats:
            total = sources[0]
            for number, other in enumerate(sources[1:]):
                total = np.add(total, other, out=total if number else None)
            return total

        def update() -> None:
            targets[0] -= rate * summed()
            for target in targets[1:]:
                np.copyto(target, targets[0])

        def give() -> None:
            total = summed()
            for target in targets:
                np.copyto(target, total)

        yield update if reduction.phase is Phase.UPDATE else give

    def _row(self, weights: Weights, die: int, first: int, words: int) -> Floats:
        return self.memories[die].view(weights.buffer(die))[0, first:first + words]

    def _gather(self, reduction: between.Reduce, ring: Sequence[int], targets: Sequence[Floats], first: int) -> None:
        """Each member's own chunks to all others."""
        chunk = reduction.parameters.chunk_words
        for start in range(0, len(targets[0]), chunk):
            owner = start // chunk % len(ring)
            for number, target in enumerate(targets):
                if number != owner:
                    target[start:start + chunk] = targets[owner][start:start + chunk]

    def state_update(self, operation: updates.StateUpdate, die: int) -> Iterator[Kernel]:
        """The rule over what a die owns."""
        for block, w, g, kept in operation.rows(die):
            yield program_kernel(self.memories[die], updates.update_program(
                operation.parameters, operation.rule, block.rows, w, g, kept[STATE]))


def _nothing(step: NumpyStep, operation: object, die: int) -> Iterator[Kernel]:
    return iter(())


#: For each kind of operation what a die does.
KERNELS: dict[type, Callable[[NumpyStep, Any, int], Iterator[Kernel]]] = {
    operations.Sweep: NumpyStep.sweep, operations.LastStrip: NumpyStep.last_strip, pool.Pool: NumpyStep.pool,
    operations.Chain: NumpyStep.chain, operations.Clear: NumpyStep.clear, products.Products: NumpyStep.products,
    embedding.RowGather: NumpyStep.transfers, sums.Sum: NumpyStep.sum, between.Exchange: NumpyStep.transfers,
    between.Barrier: _nothing, between.Regroup: _nothing, between.Reduce: NumpyStep.reduce,
    updates.StateUpdate: NumpyStep.state_update, tiled.Scatter: NumpyStep.transfers,
    tiled.Gather: NumpyStep.transfers, tiled.Untile: NumpyStep.transfers, tiled.ElementProducts: NumpyStep.elements,
    tiled.InStrips: NumpyStep.in_strips, tiled.ElementRates: NumpyStep.rates,
    line_operations.LineTiles: NumpyStep.transfers, line_operations.LineGather: NumpyStep.transfers,
    kernel_sums.KernelProducts: NumpyStep.kernels,
    predicted_gather.CodedGather: NumpyStep.whole, predicted_gather.DecodeStrings: _nothing,
    predicted_gather.PredictNeeded: _nothing, predicted_gather.MaskExchange: _nothing,
    skipped_scatter.OwnTiles: NumpyStep.transfers, skipped_scatter.SkipScatter: NumpyStep.spread,
    skipped_scatter.OwnMaps: _nothing, skipped_scatter.DecodeTiles: _nothing}
#: For each kind of work between dies and by row numbers what is done.
TRANSFERS: dict[type, Callable[[NumpyStep, int, Any], Kernel]] = {
    TileCopy: lambda step, die, work: tiles.tile_kernel(step.memories, die, work),
    TransformTiles: lambda step, die, work: tiles.transform_kernel(step.memories, die, work),
    LineTransform: lambda step, die, work: tiles.line_kernel(step.memories, die, work),
    RowsByNumber: lambda step, die, work: tiles.rows_kernel(step.memories[die], work)}
