"""Kernels in numpy of what a die does for itself: an operation's whole part at once, without tasks and descriptors.

Products go to BLAS, vector programs and pools to whole arrays, in FP32, as dies of that format do.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, cast

import numpy as np

from plinth.runtime import pools
from plinth.runtime.halos import Halo
from plinth.runtime.lookups import sums_kernels
from plinth.runtime.memory import Floats, Kernel, Memory
from plinth.runtime.products import ConvolutionKernel, product_kernel
from plinth.runtime.programs import Scratch, program_kernel
from plinth.runtime.sparse_kernels import InputRows, WorkMemories
from plinth.runtime.sparse_products import DieProducts
from plinth.step import (
    between,
    kernel_sums,
    operations,
    predicted_gather,
    row_moves,
    skipped_scatter,
    sums,
    updates,
)
from plinth.step import tile_operations as tiled
from plinth.step.layers import pool, products, sparse
from plinth.step.step import Step
from plinth.step.tasks import Multiplication
from plinth.step.tensors import Elements, Tensor
from plinth.step.vector import VectorPiece, VectorProgram
from plinth.update.rule import STATE

#: Words of a strip of a map whose rows are channels, at least, and most strips.
STRIP_WORDS, STRIPS = 1 << 15, 32


class DieKernels:
    """Makes the numpy kernels of operations that a die does for itself.

    Parameters
    ----------
    step : Step
        Of dies of FP32.
    memories : mapping of int to Memory
        Of the dies that there are kernels of.
    halos : mapping of str to Halo
        By the name of the tensor that products of sparse layers read.
    """

    def __init__(self, step: Step, memories: Mapping[int, Memory], halos: Mapping[str, Halo]) -> None:
        self._step, self._memories, self._halos = step, memories, halos
        self._scratch = Scratch()
        self._convolutions: dict[tuple[str, int, int], ConvolutionKernel] = {}
        self._sparse: dict[tuple[str, int], DieProducts] = {}
        self._work = {die: WorkMemories() for die in memories}

    def of(self, operation: operations.Operation) -> Iterator[Kernel]:
        """The kernels of an operation of :data:`KERNELS`, of all dies of the process.

        Raises
        ------
        UserError
            If it reads or writes numbers of 16 bits.
        """
        for die in self._memories:
            yield from KERNELS[type(operation)](self, operation, die)

    def sweep(self, operation: operations.Sweep, die: int) -> Iterator[Kernel]:
        """Make the kernel of a vector program over all rows of a part."""
        part = operation.space.part(die)
        if part.words:
            rows, columns = part.rows // operation.fold, operation.fold * part.channels
            # Where rows are channels none is added to another: strips of them stay in the cache.
            by_channel = isinstance(operation.space, Tensor) and operation.space.by_channel
            step = max(1, STRIP_WORDS // columns, -(-rows // STRIPS)) if by_channel else rows
            for row in range(0, rows, step):
                program = operation.program if row else operation.first
                yield self._program(program, die, VectorPiece(row, min(step, rows - row), 0, columns))

    def last_strip(self, operation: operations.LastStrip, die: int) -> Iterator[Kernel]:
        """Make the kernel of a vector program of a few rows."""
        part = operation.space.part(die)
        if part.words:
            yield self._program(operation.program, die, VectorPiece(0, operation.rows, 0, part.channels))

    def _program(self, program: VectorProgram, die: int, piece: VectorPiece) -> Kernel:
        return program_kernel(self._memories[die], program.at(die, piece), self._scratch)

    def pool(self, operation: pool.Pool, die: int) -> Iterator[Kernel]:
        """Make the kernel of a pool of all images."""
        if not operation.maps[0][0].part(die).words:
            return
        maps = []
        for tensor, size in operation.maps:
            part = tensor.part(die)
            maps.append(self._memories[die].view(tensor.buffer(die)).reshape(part.samples, *size, part.channels))
        whole, middle, small = (size for _, size in operation.maps[:3])
        pool = pools.PoolKernel(operation.layer, whole, middle, small)
        if operation.backward:
            yield lambda: pool.backward(tuple(maps))
        else:
            yield lambda: pool.forward(*maps)

    def sum(self, operation: sums.Sum, die: int) -> Iterator[Kernel]:
        """Make the kernel that adds summands in their order."""
        for number in range(operation.adds):
            yield from self.sweep(operation.sweep(number), die)

    def clear(self, operation: operations.Clear, die: int) -> Iterator[Kernel]:
        """Make the kernel that writes zeros."""
        place = self._memories[die].view(operation.place.buffer(die))
        if place.size:
            yield lambda: place.fill(0)

    def products(self, operation: products.Products, die: int) -> Iterator[Kernel]:
        """Make the kernel of a product of all samples."""
        x_part, z_part = operation.x.part(die), operation.z.part(die)
        if not (x_part.words and z_part.words):
            return
        memory, shape = self._memories[die], operation.shape(die)
        w = memory.view(operation.weights.matrix(die))
        first, rows = operation.piece.rows(operation.parameters, w.shape[0])
        if shape is None:
            x, z = (memory.view(products.matrix_of(tensor.buffer(die), part)) for tensor, part in (
                (operation.x, x_part), (operation.z, z_part)))
            if operation.direction == "update":
                x, w = x[:, first:first + rows], w[first:first + rows]
            if rows or operation.direction != "update":
                yield product_kernel(operation.direction, x, w, z, operation.added)
            return
        # Of a micro-batch, whose windows are kept from fprop on.
        key = operation.node.name, operation.batch, die
        if key not in self._convolutions:
            self._convolutions[key] = ConvolutionKernel(shape, x_part.samples)
        convolution = self._convolutions[key]
        maps = memory.view(operation.x.buffer(die)).reshape(x_part.samples, shape.height, shape.width, shape.inputs)
        z = memory.view(operation.z.buffer(die))
        if operation.direction == "update":
            yield lambda: convolution.update(maps, w, z, unrolled=convolution.kept, added=operation.added)
        elif operation.direction == "bprop":
            yield lambda: convolution.bprop(maps, w, z)
        else:
            yield lambda: convolution.fprop(maps, w, z)

    def sparse_products(self, operation: sparse.SparseProducts, die: int) -> Iterator[Kernel]:
        """A product over the entries of a die's rows of a sparse matrix."""
        operands = self._sparse_operands(operation, die)
        if operands is not None:
            products, w, x, z = operands
            yield products.kernel(operation.direction, w, x, z)

    def sparse_parts(self, operation: sparse.SparseProducts) -> tuple[list[Kernel], list[Kernel]]:
        """The kernels of a sparse layer's ``fprop``, of all dies of the process: of what needs no rows of other dies,
        and of the rest."""
        own: list[Kernel] = []
        rest: list[Kernel] = []
        for die in self._memories:
            operands = self._sparse_operands(operation, die)
            if operands is not None:
                products, w, x, z = operands
                parts = products.parts(w, x, z)
                if parts is None:
                    rest.append(products.kernel(operation.direction, w, x, z))
                else:
                    own.append(parts[0])
                    rest.append(parts[1])
        return own, rest

    def _sparse_operands(self, operation: sparse.SparseProducts, die: int
                         ) -> tuple[DieProducts, Floats, Floats, Floats] | None:
        """A die's products of a sparse layer, weights, x and z of one of them; None: there is nothing to multiply."""
        x, z, memory = operation.x.side.tensor, operation.z.side.tensor, self._memories[die]
        if not (x.part(die).words and z.part(die).words):
            return None
        weights, key, halo = operation.weights, (operation.node.name, die), self._halos.get(x.name)
        if key not in self._sparse:
            # Forward comes first, and knows of the halo.
            there = None if halo is None else halo.dies[die]
            self._sparse[key] = DieProducts(
                weights.layout(die), partial(weights.cover, die), partial(weights.local, die), x.part(die).channels,
                self._work[die], None if there is None else InputRows(there.rows.rows, there.numbers, there.own))
        return (self._sparse[key], memory.view(weights.matrix(die))[0],
                memory.view(x.buffer(die) if halo is None else halo.dies[die].rows), memory.view(z.buffer(die)))

    def elements(self, operation: tiled.ElementProducts, die: int) -> Iterator[Kernel]:
        """Make the kernel of the products of all elements of Winograd tiles at once."""
        x, z, piece = operation.x.at(die), operation.z.at(die), operation.weights.slice(die)
        if not (x.words and z.words):
            return
        memory = self._memories[die]
        a, c = (self._planes(die, side, tensor) for side, tensor in ((x, operation.x), (z, operation.z)))
        w = memory.view(operation.weights.matrix(die))[:x.count * piece.inputs]
        w = w.reshape(x.count, piece.inputs, piece.outputs)
        yield {"fprop": lambda: np.matmul(a, w, out=c), "bprop": lambda: np.matmul(c, w.swapaxes(1, 2), out=a),
               "update": lambda: np.matmul(a.swapaxes(1, 2), c, out=w)}[operation.direction]

    def _planes(self, die: int, here: Elements, tensor: tiled.Tiles) -> Floats:
        """``[element, tile, channel]`` of a die."""
        buffer = here.of(tensor.buffer(die), here.first)
        return self._memories[die].strided(buffer, (here.count, buffer.rows, buffer.columns),
                                          (here.plane, buffer.stride, 1))

    def kernels(self, operation: kernel_sums.KernelProducts, die: int) -> Iterator[Kernel]:
        """Make the kernel of products by the matrix of a transform."""
        memory = self._memories[die]
        for task in operation.tasks(die):
            work = cast("Multiplication", task.work)
            a, b, c = (memory.view(place) for place in (work.a, work.b, work.c))  # type: ignore[arg-type]
            x, w, z = {"fprop": (a, b, c), "bprop": (c, b, a), "update": (a, c, b)}[work.direction]
            yield product_kernel(work.direction, x, w, z)

    def rates(self, operation: tiled.ElementRates, die: int) -> Iterator[Kernel]:
        """Make the kernel that multiplies gradients of elements by their rates."""
        piece, whole = operation.gradient.slice(die), self._memories[die].view(operation.gradient.buffer(die))
        some = whole[0, :piece.weights].reshape(piece.taps, -1)
        rates = np.array([operation.rates[piece.tap(number)] for number in range(piece.taps)],
                         dtype=np.float32)[:, None]
        yield lambda: np.multiply(some, rates, out=some)

    def row_sums(self, operation: row_moves.RowSums, die: int) -> Iterator[Kernel]:
        """Make the kernels that add rows' errors of all workers, in their order."""
        yield from sums_kernels(operation, self._memories[die], die, self._step.dies)

    def state_update(self, operation: updates.StateUpdate, die: int) -> Iterator[Kernel]:
        """Make the kernel of the update rule over what a die owns."""
        for block, w, g, kept in operation.rows(die):
            yield program_kernel(self._memories[die], updates.update_program(
                operation.parameters, operation.rule, block.rows, w, g, kept[STATE]), self._scratch)


def _nothing(kernels: DieKernels, operation: object, die: int) -> Iterator[Kernel]:
    return iter(())


#: For each kind of operation that a die does for itself what it does.
KERNELS: dict[type, Callable[[DieKernels, Any, int], Iterator[Kernel]]] = {
    operations.Sweep: DieKernels.sweep, operations.LastStrip: DieKernels.last_strip, pool.Pool: DieKernels.pool,
    operations.Clear: DieKernels.clear, products.Products: DieKernels.products,
    sparse.SparseProducts: DieKernels.sparse_products, row_moves.RowSums: DieKernels.row_sums,
    sums.Sum: DieKernels.sum,
    between.Barrier: _nothing, between.Regroup: _nothing, updates.StateUpdate: DieKernels.state_update,
    tiled.ElementProducts: DieKernels.elements, tiled.ElementRates: DieKernels.rates,
    kernel_sums.KernelProducts: DieKernels.kernels,
    predicted_gather.DecodeStrings: _nothing, predicted_gather.PredictNeeded: _nothing,
    predicted_gather.MaskExchange: _nothing, skipped_scatter.OwnMaps: _nothing, skipped_scatter.DecodeTiles: _nothing}
