"""Sparse layers: products over the entries of a matrix whose pattern stays.

A row of what they read and give is a channel, a column a sample: channels go from die to die one by one, and each moves
as a whole row. With W the rows that a die has, and X the columns that these need::

    fprop    Y = W X        updateGrad    dW = dY X^T at the entries of W alone        bprop    dX = W^T dY

A die's entries lie in dense blocks, some rows by some columns (:mod:`plinth.step.pattern_weights`). The transfer engine
gathers the rows of X that a block's columns name, unless they are contiguous in memory, and the matrix engine
multiplies the block by them. Rows that several blocks give are added up in the order of blocks: by the matrix engine,
which accumulates onto what is there, or, where a block's rows are not contiguous, by the transfer engine. Gathered rows
of X serve updateGrad as well, those of dY bprop.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

import numpy as np

from plinth.buffers import Buffer
from plinth.machine.sparse_products import SparseProduct
from plinth.network.sparse.matrices import starts_of
from plinth.partition.cuts import Integers
from plinth.partition.graph import Node
from plinth.step import granularity
from plinth.step.layers.weighted import WeightedLayer
from plinth.step.operations import Clear, Repeated, Sweep
from plinth.step.pattern_weights import FillMask, PatternWeights
from plinth.step.reductions import Reductions
from plinth.step.row_lists import IndexedRows, Lists, RowLists
from plinth.step.tasks import BPROP, FPROP, UPDATE, BlockShare, Multiplication, Task, TileCopy
from plinth.step.tensors import OnDies, Tensor
from plinth.step.vector import VectorProgram
from plinth.step.weights import Matrix
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.vector_body import VectorOp

#: Sides of a block: what it reads is numbered by its columns, what it gives by its rows.
COLUMNS, ROWS = "columns", "rows"
#: Groups of blocks that go on while what a block reads is gathered, at least: as many tasks as may wait for an engine.
AHEAD = 4
#: Which operand of a product is transposed: as the product of a fully connected layer that does so.
_FORMS = {FPROP: FPROP, BPROP: UPDATE, UPDATE: BPROP}


@dataclass(frozen=True)
class BlockSide(RowLists):
    """The rows of a tensor that blocks read or give on one of their sides, with a row index list for each block whose
    rows are not contiguous."""

    name: str
    weights: PatternWeights
    side: str
    tensor: Tensor

    @property
    def dies(self) -> int:
        return prod(self.tensor.factors)

    def rows(self, die: int) -> Sequence[Integers]:
        """For each block of a die the rows of its part."""
        return _rows(self.weights, self.side, die)

    def contiguous(self, die: int) -> Sequence[bool]:
        """For each block of a die whether its rows are."""
        return _runs(self.weights, self.side, die)

    def lists(self, die: int) -> Lists:
        return _block_lists(self, die)

    def added(self, die: int, order: Sequence[int]) -> dict[int, bool]:
        """For each block, in the order in which they go, whether its product is added to what is there: of tensors that
        are cleared all, of others those whose rows an earlier one gives. Blocks with a list give their product to a
        place of their own."""
        cleared, seen = not self.whole(die), np.zeros(self.tensor.part(die).samples, np.bool_)
        added = {}
        for block in order:
            rows = self.rows(die)[block]
            added[block] = self.contiguous(die)[block] and (cleared or bool(seen[rows].all()))
            seen[rows] = True
        return added

    def whole(self, die: int) -> bool:
        """Whether blocks give every row of the tensor, each once or, rows of an earlier block, again, and none of them
        by a list."""
        if not all(self.contiguous(die)):
            return False
        seen = np.zeros(self.tensor.part(die).samples, np.bool_)
        for rows in self.rows(die):
            if seen[rows].any() != seen[rows].all():
                return False
            seen[rows] = True
        return bool(seen.all())


# Of a few parts: numbers of blocks are views, and keep what they are of.
@lru_cache(maxsize=1 << 7)
def _rows(weights: PatternWeights, side: str, die: int) -> tuple[Integers, ...]:
    blocks = weights.layout(die)
    return tuple(blocks.block(number)[side == COLUMNS] for number in range(blocks.count))


@lru_cache(maxsize=1 << 10)
def _runs(weights: PatternWeights, side: str, die: int) -> list[bool]:
    return weights.layout(die).contiguous()[side == COLUMNS].tolist()


@lru_cache(maxsize=1 << 7)
def _block_lists(side: BlockSide, die: int) -> Lists:
    return {number: IndexedRows(rows, False) for number, (rows, contiguous) in enumerate(zip(
        side.rows(die), side.contiguous(die), strict=True)) if not contiguous}


@dataclass(frozen=True)
class GatheredRows:
    """A buffer for rows that blocks read or give by lists, block behind block; a row has one word a sample."""

    name: str
    side: BlockSide

    packed = False

    def place_words(self) -> int:
        """Words of memory, of the die that needs most."""
        return max(int(_first_rows(self, die)[-1]) * self.side.tensor.part(die).channels
                   for die in range(self.side.dies))

    def buffer(self, die: int) -> Buffer:
        """The gathered rows of all blocks of a die, one block behind the other."""
        columns = self.side.tensor.part(die).channels
        return Buffer(self.name, 0, int(_first_rows(self, die)[-1]), columns, max(1, columns))

    def of(self, die: int, block: int) -> Buffer:
        """The gathered rows of one block."""
        first = _first_rows(self, die)
        return self.buffer(die).lines(int(first[block]), int(first[block + 1] - first[block]))


@lru_cache(maxsize=1 << 7)
def _first_rows(gathered: GatheredRows, die: int) -> Integers:
    """Where the rows of each block start in the buffer, and their number: ``[blocks + 1]``."""
    lists = gathered.side.lists(die)
    return starts_of(np.array([len(rows) if number in lists else 0
                               for number, rows in enumerate(gathered.side.rows(die))], np.int64))


@dataclass(frozen=True)
class BlockRows:
    """How blocks reach rows of a tensor on one of their sides: in the tensor itself, where a block's rows are
    contiguous, or else in a buffer into which they are gathered."""

    side: BlockSide
    place: GatheredRows
    #: Whether an earlier product has gathered them, so that this one need not.
    gathered: bool = False

    def buffer(self, die: int, block: int) -> Buffer:
        """Where a block's rows lie."""
        rows = self.side.rows(die)[block]
        if self.side.contiguous(die)[block]:
            return self.side.tensor.buffer(die).lines(int(rows[0]), len(rows))
        return self.place.of(die, block)

    def listed(self, die: int, blocks: Iterable[int]) -> list[int]:
        """Numbers of those among some blocks whose rows are not contiguous."""
        lists = self.side.lists(die)
        return [block for block in blocks if block in lists]

    def copy(self, name: str, node: Node, die: int, blocks: Iterable[int], *, back: bool = False) -> Iterator[Task]:
        """Gathers rows of some blocks, or adds what they give to them, as those of the first one; nothing, if they are
        contiguous."""
        block, count = next(iter(listed := self.listed(die, blocks)), -1), len(listed)
        if not count:
            return
        index, tensor, place = self.side.at(die, block), self.side.tensor.buffer(die), self.place.of(die, block)
        if back:
            work = TileCopy(place, tensor, index=index.to_target(), added=True)
            yield Task(f"{name}.scatter[{block}]", Engine.TRANSFER, work, (place, tensor, index.numbers), (tensor,),
                       count, node)
        elif not self.gathered:
            yield Task(f"{name}.gather[{block}]", Engine.TRANSFER, TileCopy(tensor, place, index=index),
                       (tensor, index.numbers), (place,), count, node)


@dataclass(frozen=True)
class SparseProducts(Repeated):
    """A product of a sparse layer on each die, block by block. Nothing where a die has no entries, or no samples.

    Parameters
    ----------
    x, z : BlockRows
        Input and output, or their errors, on the blocks' sides of columns and of rows.
    weights : PatternWeights
        Or their gradient.
    """

    node: Node
    parameters: DieParameters
    direction: str
    x: BlockRows
    z: BlockRows
    weights: PatternWeights

    @property
    def name(self) -> str:
        """The name that its tasks begin with: the layer and the direction."""
        return f"{self.node.name}.{'update_grad' if self.direction == UPDATE else self.direction}"

    def on(self, die: int) -> Hashable:
        """All that its tasks on a die follow from."""
        return self, die

    @property
    def given(self) -> BlockRows | None:
        """The rows that the product writes; None: it writes the gradient of the weights."""
        return {FPROP: self.z, BPROP: self.x, UPDATE: None}[self.direction]

    def fill(self, die: int) -> int:
        """Multiply-adds that a die makes of zeros that fill blocks up."""
        cover = self.weights.layout(die)
        return (cover.packed - cover.nonzeros) * self.z.side.tensor.part(die).channels

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups. Of G groups with
        gathers each gathers before as many of all N groups as it has of them before itself, g N / G, and before the
        last few ahead of itself: so the transfer engine is as far ahead as descriptors are fetched, and never holds up
        those behind it."""
        if not self.z.side.tensor.part(die).channels:
            return
        order = self.order(die)
        added = dict.fromkeys(order, False) if self.given is None else self.given.side.added(die, order)
        groups = [order[group.start:group.stop] for group in granularity.groups(len(order), most)]
        read = [rows for rows in (self.x, self.z) if rows is not self.given and not rows.gathered]
        gathering = [number for number, group in enumerate(groups) if any(rows.listed(die, group) for rows in read)]
        due = deque((min(place * len(groups) // len(gathering), max(0, number - AHEAD)), number)
                    for place, number in enumerate(gathering))
        for number, group in enumerate(groups):
            while due and due[0][0] <= number:
                for rows in read:
                    yield from rows.copy(self.name, self.node, die, groups[due[0][1]])
                due.popleft()
            yield self._product(die, group, added[group[0]])
            if self.given is not None:
                yield from self.given.copy(self.name, self.node, die, group, back=True)

    def order(self, die: int) -> list[int]:
        """The blocks of a die, as they go: those that must be gathered for behind the others; else those that must be
        added to their rows by list as evenly among the others as can be, the first of them first."""
        blocks = range(self.weights.layout(die).count)
        read = [rows for rows in (self.x, self.z) if rows is not self.given and not rows.gathered]
        gathered = {block for rows in read for block in rows.listed(die, blocks)}
        if gathered or self.given is None:
            return sorted(blocks, key=lambda block: block in gathered)
        scattered = self.given.listed(die, blocks)
        others = [block for block in blocks if block not in set(scattered)]
        places = {place * len(blocks) // len(scattered): block for place, block in enumerate(scattered)}
        rest = iter(others)
        return [places[place] if place in places else next(rest) for place in blocks]

    def _product(self, die: int, group: Sequence[int], added: bool) -> Task:
        """The products of some blocks, as that of the first one."""
        block, count = group[0], len(group)
        w, x, z = self.weights.block(die, block), self.x.buffer(die, block), self.z.buffer(die, block)
        a, b, c = {FPROP: (w, x, z), BPROP: (w, z, x), UPDATE: (z, x, w)}[self.direction]
        work = Multiplication(self.node.name, _FORMS[self.direction], None, a, b, c, added)
        cover, samples = self.weights.layout(die), self.z.side.tensor.part(die).channels
        entries = cover.entries(group)
        product = SparseProduct(self.direction, cover.shapes(group), entries, cover.shape[0], cover.shape[1], samples)
        share = BlockShare(round(cover.packed_words(group) / w.columns), w.columns, samples, samples * entries, product)
        return Task(f"{self.name}[{block}]", Engine.MATRIX, work, (a, b, c) if added else (a, b), (c,), count,
                    self.node, share)


class SparseLayer(WeightedLayer):
    """Builds the operations of a sparse layer."""

    by_channel = True
    fp32_reason = "where a map of 16 bits has two samples to a word"

    def _side(self, side: str, tensor: Tensor, place: GatheredRows | None = None) -> BlockRows:
        """How blocks reach a tensor; ``place``: left out, a new one is reserved."""
        step, weights = self.step, self.step.weights[self.node.name]
        assert isinstance(weights, PatternWeights)
        lists = BlockSide(f"{tensor.name}.{side}", weights, side, tensor)
        if lists not in step.host_words:
            step.write_once(lists)
        return BlockRows(lists, place or step.reserve(GatheredRows(f"{tensor.name}.gathered", lists)))

    def _add(self, direction: str, x: BlockRows, z: BlockRows) -> None:
        step = self.step
        weights = (step.gradients if direction == UPDATE else step.weights)[self.node.name]
        assert isinstance(weights, PatternWeights)
        operation = SparseProducts(self.node, step.parameters, direction, x, z, weights)
        given = operation.given
        if given is not None:
            cleared = frozenset(die for die in range(step.dies) if not given.side.whole(die))
            if cleared:
                step.add(Clear(f"{operation.name}.zero", self.node, step.parameters,
                               OnDies(given.side.tensor, cleared), step.any))
        step.add(operation)

    def _mask(self) -> None:
        """Append what makes the gradient +0 where blocks are filled up."""
        step, node, gradient = self.step, self.node, self.step.gradients[self.node.name]
        assert isinstance(gradient, PatternWeights)
        if gradient.filled:
            mask, program = step.write_once(FillMask(f"{node.name}.mask", gradient)), VectorProgram(step.parameters)
            program.load("g", Matrix(gradient))
            program.load("m", mask)
            program.run(VectorOp.RELU_MASK, "g", "g", "m")
            program.store("g", Matrix(gradient))
            step.add(Sweep(f"{node.name}.mask", node, step.parameters, program, program, mask, 2))

    def multiply(self, x: Tensor, z: Tensor) -> None:
        self._columns = self._side(COLUMNS, x)
        self._add(FPROP, self._columns, self._side(ROWS, z))

    def differentiate(self, x: Tensor, z: Tensor, error: Tensor, reductions: Reductions) -> None:
        x_error, inputs = self.input_error(), replace(self._columns, gathered=True)
        rows = self._side(ROWS, error)
        self._add(UPDATE, inputs, rows)
        self._mask()
        if x_error is not None:
            # What was gathered of the input is done with.
            self._add(BPROP, self._side(COLUMNS, x_error, self._columns.place), replace(rows, gathered=True))
        for piece in reductions.pieces(self.number):
            reductions.add(self.number, piece)
