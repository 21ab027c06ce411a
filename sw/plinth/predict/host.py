"""What each kind of work costs a host (:mod:`plinth.machine.host`), as :mod:`plinth.predict.work` has it of a die.

A host does an operation whole, whatever tasks it is on dies: the latency of a cost is that of an operation of one such
task, its interval what each further task of the same operation adds.
"""

from collections.abc import Callable
from math import prod
from typing import Any

from plinth.buffers import Buffer
from plinth.machine.host import HostCycles, HostWork, convolution_work, moved, nanoseconds, product_work, program_work
from plinth.machine.record import WorkCost
from plinth.machine.sparse_products import sparse_work
from plinth.predict.tasks import product_of, vector_work
from plinth.step.layers.sparse import SparseProducts
from plinth.step.tasks import (
    BlockShare,
    Decode,
    Encode,
    GroupRow,
    LineTransform,
    LookupCopy,
    Multiplication,
    Optimisation,
    Predict,
    Reduction,
    RowsByNumber,
    Signal,
    Task,
    TileCopy,
    TransformTiles,
    Vector,
    Work,
)


def multiplication_work(work: Multiplication, cache_words: float) -> HostWork:
    """A product, or a convolution by unrolled windows."""
    product = product_of(work)
    if work.shape is None:
        return product_work(product.samples, product.outputs, product.inputs)
    return convolution_work(work.direction, work.shape, product.samples, cache_words)


def vector_program_work(work: Vector, cache_words: float) -> HostWork:
    """A vector program, an instruction at a time."""
    program = work.program
    known = program.known
    if vector_work not in known:
        known[vector_work] = vector_work(program)
    strided = any(move.operand.stride != move.operand.columns for move in (*program.loads, *program.stores)
                  if isinstance(move.operand, Buffer) and program.regions[move.region] == "full")
    return program_work(known[vector_work], work.rows, work.columns, cache_words, strided=strided)


def _copied(words: float, runs: float, cache_words: float) -> HostWork:
    return moved(2 * words, cache_words, runs=runs)


def _tile(work: TileCopy, cache_words: float) -> HostWork:
    parts, (rows, columns) = 1 if work.members is None else work.members.count, work.shape
    rows *= work.planes
    dense = work.source.stride == columns == work.target.stride and work.index is None
    return _copied(parts * rows * columns, 0.0 if dense else parts * rows, cache_words)


def _transform(work: TransformTiles, cache_words: float) -> HostWork:
    """Windows are gathered, multiplied down and across by small matrices, and stored; each of that in an order of its
    own."""
    both = work.lattices
    places, elements = prod(lattice.reach for lattice in both), prod(lattice.size for lattice in both)
    between = both[0].size * both[1].reach
    tiles = float(work.positions * work.tiles.columns)
    multiply_adds = tiles * (between * both[0].reach + elements * both[1].reach)
    return HostWork(calls=2, multiply_adds=multiply_adds).plus(
        moved(2 * tiles * places, cache_words, runs=work.positions * places),
        moved(2 * tiles * between, cache_words, passes=2), moved(2 * tiles * elements, cache_words, passes=2,
                                                                  runs=work.positions * elements))


def _line(work: LineTransform, cache_words: float) -> HostWork:
    places, outputs = (side * work.blocks for side in work.sides)
    tiles = float(work.columns * work.source.rows * work.source.columns)
    return HostWork(multiply_adds=tiles * places * outputs / work.blocks).plus(
        moved(tiles * (places + outputs), cache_words, passes=2))


def _rows(work: RowsByNumber, cache_words: float) -> HostWork:
    words = float(work.rows.rows * work.rows.columns)
    return moved((2 + work.added) * words, cache_words, runs=work.rows.rows * (work.rows.columns if work.added else 1))


def _lookup(work: LookupCopy, cache_words: float) -> HostWork:
    words = float(work.rows * work.target.columns)
    return moved((2 + work.added) * words, cache_words, runs=0.0 if work.index is None else work.rows)


def _message(work: Reduction, cache_words: float) -> HostWork:
    """Where a host is alone, its update; what it does in a ring is :meth:`HostCycles.ring_work`."""
    return update_work(float(work.target.columns), cache_words) if len(work.ring) == 1 else HostWork()


def update_work(words: float, cache_words: float) -> HostWork:
    """``w -= rate g``, some words at a time: a product into the cache, and a difference."""
    return moved(2 * words, cache_words, calls=2, passes=1.5).plus(HostWork(cached_words=3 * words))


#: For each kind of work what a host does.
WORK: dict[type, Callable[[Any, float], HostWork]] = {
    Multiplication: multiplication_work, Vector: vector_program_work, TileCopy: _tile, TransformTiles: _transform,
    LineTransform: _line, RowsByNumber: _rows, LookupCopy: _lookup, Reduction: _message,
    Optimisation: lambda work, cache_words: update_work(work.weights.rows * work.weights.columns, cache_words),
    # Codes are not made: words go as they are, once.
    Encode: lambda work, cache_words: _copied(work.runs.rows * work.runs.columns, work.runs.rows, cache_words),
    Decode: lambda work, cache_words: HostWork(), Predict: lambda work, cache_words: HostWork(),
    GroupRow: lambda work, cache_words: HostWork(), Signal: lambda work, cache_words: HostWork(),
}


#: For each kind of work whose cost is of some samples how many they are.
SAMPLES: dict[type, Callable[[Any], int]] = {Multiplication: lambda work: product_of(work).samples}


def host_cost(machine: HostCycles, work: Work) -> WorkCost:
    """The cost of a piece of work on a host."""
    amounts = WORK[type(work)](work, machine.given.cache_words)
    latency, interval = machine.cycles(amounts)
    samples = SAMPLES[type(work)](work) if type(work) in SAMPLES else 0
    return WorkCost(latency, interval, macs=amounts.multiply_adds, samples=samples)


#: Kinds of operations whose tasks a host does together, in one kernel.
TOGETHER: dict[type, bool] = {SparseProducts: True}
#: Kinds of work of a sparse layer that its product does itself.
WITHIN: frozenset[type] = frozenset({TileCopy})


def host_task_cost(machine: HostCycles, task: Task) -> tuple[WorkCost, int]:
    """The cost of a task of an operation, and of how many equal ones it is: blocks of a sparse layer are one product
    together, which gathers its operands and adds up its outputs itself, so that copies beside it take nothing."""
    if isinstance(task.share, BlockShare):
        cycles = nanoseconds(machine.given, sparse_work(task.share.product, machine.given.cache_words))
        return WorkCost(cycles, cycles, macs=float(task.share.useful)), 1
    if type(task.work) in WITHIN and task.node is not None and task.node.pattern is not None:
        return WorkCost(0.0, 0.0), 1
    return host_cost(machine, task.work), task.count
