"""What the tasks of a step take on a die: engines' cycles and the words that they move in memory."""

from dataclasses import dataclass

from plinth.buffers import Buffer
from plinth.mapping import mappings
from plinth.mapping.convolution import FeatureMap
from plinth.mapping.products import matrix_tasks
from plinth.partition.graph import Window
from plinth.plan.cost import systolic
from plinth.plan.cost.copies import Copy
from plinth.plan.cost.machine import Cycles, Machine, Work, full_words, row_words, unlike
from plinth.plan.cost.products import Product, row_stationary_parts
from plinth.step.tasks import BPROP, FPROP, UPDATE, Multiplication, Rows, Tile, Vector
from plinth.step.vector import VectorProgram
from plinth_hw.isa.parameters import SYSTOLIC
from plinth_hw.isa.vector_body import VectorOp


@dataclass(frozen=True)
class VectorCost:
    """Cycles of a vector task's parts, and the words of the beats that it reads and writes."""

    work: Work
    load: float
    compute: float
    store: float
    reads: float
    writes: float


#: Whether a region of each shape is one row, and one column.
_SINGLE = {"full": (False, False), "row": (True, False), "column": (False, True), "element": (True, True)}


def vector_work(program: VectorProgram) -> Work:
    """What a vector program does."""
    regions = {name: _SINGLE[shape] for name, shape in program.regions.items()}
    wise = sums = reductions = functions = column_functions = 0
    for one in program.instructions:
        target, source = regions[one.dst], regions[one.a]
        function = one.op is VectorOp.FUNCTION
        if one.op in (VectorOp.SUM, VectorOp.MAXIMUM):
            down = target[0] and not source[0]
            sums, reductions = sums + down, reductions + (not down)
        elif not any(target):
            functions, wise = functions + function, wise + (not function)
        else:
            column_functions += target[1] and function
    row_loads, row_stores = (sum(any(regions[move.region]) for move in moves)
                             for moves in (program.loads, program.stores))
    return Work(len(program.loads) - row_loads, len(program.stores) - row_stores, row_loads, row_stores, wise=wise,
                sums=sums, reductions=reductions, functions=functions, column_functions=column_functions,
                packed_loads=sum(move.packed for move in program.loads),
                packed_stores=sum(move.packed for move in program.stores))


def vector_cost(machine: Machine, vector: Vector) -> VectorCost:
    """What a vector task takes; one of equal ones."""
    known = vector.program.known
    if vector_work not in known:
        known[vector_work] = vector_work(vector.program)
    work = known[vector_work]
    key = (work, vector.rows, vector.columns)
    found = machine.known_vectors.get(key)
    if found is None:
        parameters = machine.parameters
        row = row_words(parameters, vector.columns)
        read, written = full_words(parameters, work, vector.rows, vector.columns)
        found = machine.known_vectors[key] = VectorCost(
            work, *machine.vector(*key), read + work.row_loads * row,
            written + work.row_stores * row)
    return found


@dataclass(frozen=True)
class MatrixCost:
    """Of a product's tasks together: cycles alone, and of those of a further one in a row; words read and written; how
    many tasks it is; multiply-adds that are issued."""

    alone: float
    row: float
    reads: float
    writes: float
    tasks: int
    macs: float

    @property
    def words(self) -> float:
        """Read and written."""
        return self.reads + self.writes


def _geometry(operand: Buffer | FeatureMap) -> tuple[object, ...]:
    """What cycles depend on."""
    buffer = operand.buffer if isinstance(operand, FeatureMap) else operand
    sides = (operand.height, operand.width) if isinstance(operand, FeatureMap) else ()
    return (*sides, buffer.rows, buffer.columns, buffer.stride, buffer.packed)


def matrix_cost(machine: Machine, work: Multiplication) -> MatrixCost:
    """What a product takes if nothing else uses the memory."""
    key = (work.direction, work.shape, *map(_geometry, (work.a, work.b, work.c)))
    found = machine.known_products.get(key)
    if found is None:
        make = _systolic if machine.parameters.machine == SYSTOLIC else _row_stationary
        found = machine.known_products[key] = make(machine, work)
    return found


def _bounded(machine: Machine, alone: float, row: float, reads: float, writes: float, tasks: int,
             macs: float) -> MatrixCost:
    """No product is faster than its PEs, or than memory moves its words."""
    parameters = machine.parameters
    least = max(macs / (parameters.rows * parameters.columns),
                (reads + writes) / float(parameters.memory_words_per_cycle))
    row = max(row, least)
    return MatrixCost(max(alone, row), row, reads, writes, tasks, macs)


def _systolic(machine: Machine, work: Multiplication) -> MatrixCost:
    parameters = machine.parameters
    beat = parameters.beat_words
    alone = row = reads = writes = macs = 0.0
    groups = matrix_tasks(parameters, work.layer, work.direction, work.shape, work.a, work.b, work.c).groups
    bodies = [body for bodies in groups for body in bodies]
    for body in bodies:
        m, n, k = body["m"], body["n"], body["k"]
        found = systolic.cost(parameters, systolic.Shape(
            m, n, k, body["interleave_m_log2"], bool(body.get("transpose_a")), bool(body.get("transpose_b")),
            0 if work.shape is None else body["a_run"], body["a_stride"] % beat == 0, body["b_stride"] % beat == 0,
            body["c_stride"] % beat == 0))
        alone, row = (alone + found.row if row else found.alone), row + found.row
        reads, writes, macs = reads + beat * found.reads, writes + beat * found.writes, macs + m * n * k
    return _bounded(machine, alone, row, reads, writes, len(bodies), macs)


def product_of(work: Multiplication) -> Product:
    """A product as what it is of samples and channels."""
    shape = work.shape
    if shape is None:
        assert isinstance(work.a, Buffer) and isinstance(work.b, Buffer) and isinstance(work.c, Buffer)
        inputs, outputs = {FPROP: (work.a.columns, work.c.columns), BPROP: (work.c.columns, work.a.columns),
                           UPDATE: (work.a.columns, work.b.columns)}[work.direction]
        return Product(work.direction, work.a.rows, inputs, outputs, layer=work.layer)
    assert isinstance(work.a, FeatureMap)
    return Product(work.direction, work.a.images, shape.inputs, shape.outputs,
                   Window((shape.height, shape.width), shape.kernel, shape.stride, shape.padding,
                          (shape.out_height, shape.out_width)), work.layer)


def _row_stationary(machine: Machine, work: Multiplication) -> MatrixCost:
    product = product_of(work)
    parts = row_stationary_parts(machine.parameters, product)
    found = mappings.work(machine.parameters, parts)
    return _bounded(machine, found.alone, found.row, found.read, found.written,
                    sum(mappings.tasks(loops, mapping) for loops, mapping in parts),
                    float(sum(loops.macs for loops, _ in parts)))


def rows_cost(machine: Machine, work: Rows) -> tuple[Cycles, float]:
    """Rows by their numbers: cycles, and words moved."""
    rows, columns = work.rows.rows, work.rows.columns
    cycles = machine.rows(rows, columns, work.added * unlike(work.table_rows, work.own_rows))
    return cycles, (2 + work.added) * rows * row_words(machine.parameters, columns)


def tile_copy(machine: Machine, tile: Tile) -> Copy:
    """A tile as its cost asks for it."""
    beat = machine.parameters.beat_words
    return Copy(tile.planes * tile.source.rows, tile.source.columns, tile.source.stride, tile.target.stride,
                tile.source.address % beat, tile.target.address % beat)
