"""What products, vector programs, rows of embeddings and copies of a step take on a die."""

from dataclasses import replace

from plinth.buffers import Buffer
from plinth.machine import mappings, systolic_cycles
from plinth.machine.convolution import ConvolutionWindow, FeatureMap
from plinth.machine.copies import Copy, indexed_cycles, unlike
from plinth.machine.die import DieCycles
from plinth.machine.memory import row_words
from plinth.machine.products import Product, matrix_tasks, row_stationary_parts
from plinth.machine.record import WorkCost
from plinth.machine.systolic_walk import ProductShape
from plinth.machine.vector import ProgramWork, full_words
from plinth.partition.graph import Node
from plinth.step.tasks import BPROP, FPROP, UPDATE, Multiplication, RowsByNumber, TileCopy, Vector
from plinth.step.vector import VectorProgram
from plinth_hw.isa.parameters import SYSTOLIC
from plinth_hw.isa.vector_body import VectorOp

#: Whether a region of each shape is one row, and one column.
_SINGLE = {"full": (False, False), "row": (True, False), "column": (False, True), "element": (True, True)}


def vector_work(program: VectorProgram) -> ProgramWork:
    """Count the loads, stores and instructions of a vector program."""
    regions = {name: _SINGLE[shape] for name, shape in program.regions.items()}
    wise = sums = reductions = functions = column_functions = 0
    for instruction in program.instructions:
        target, source = regions[instruction.dst], regions[instruction.a]
        function = instruction.op is VectorOp.FUNCTION
        if instruction.op in (VectorOp.SUM, VectorOp.MAXIMUM):
            down = target[0] and not source[0]
            sums, reductions = sums + down, reductions + (not down)
        elif not any(target):
            functions, wise = functions + function, wise + (not function)
        else:
            column_functions += target[1] and function
    row_loads, row_stores = (sum(any(regions[move.region]) for move in moves)
                             for moves in (program.loads, program.stores))
    return ProgramWork(
        len(program.loads) - row_loads, len(program.stores) - row_stores, row_loads, row_stores, wise=wise, sums=sums,
        reductions=reductions, functions=functions, column_functions=column_functions,
        packed_loads=sum(move.packed for move in program.loads),
        packed_stores=sum(move.packed for move in program.stores))


def vector_cost(machine: DieCycles, vector: Vector) -> WorkCost:
    """The cost of a vector task; one of equal ones. Load, compute and store of three tasks overlap; what adds to a sum
    waits for what has done so before."""
    known = vector.program.known
    if vector_work not in known:
        known[vector_work] = vector_work(vector.program)
    work = known[vector_work]
    key = (work, vector.rows, vector.columns, vector.serial)
    cost = machine.known_vectors.get(key)
    if cost is None:
        cost = machine.known_vectors[key] = _vector(machine, work, vector)
    return cost


def _vector(machine: DieCycles, work: ProgramWork, vector: Vector) -> WorkCost:
    parameters, rows, columns = machine.parameters, vector.rows, vector.columns
    stages = machine.vector(work, rows, columns)
    load, compute, store = stages
    row, whole = row_words(parameters, columns), load + compute + store
    read, written = full_words(parameters, work, rows, columns)
    serial = bool(work.sums or vector.serial)
    return WorkCost(
        whole, whole if serial else max(load, compute, store, whole / 2), read + work.row_loads * row,
        written + work.row_stores * row, turn=row, fetch=machine.control["fetch"], stages=stages, serial=serial,
        adds=float(rows * columns * (work.wise + work.sums + work.reductions + work.functions)), sram=2.0)


def _geometry(operand: Buffer | FeatureMap) -> tuple[object, ...]:
    """What cycles depend on."""
    buffer = operand.buffer if isinstance(operand, FeatureMap) else operand
    sides = (operand.height, operand.width) if isinstance(operand, FeatureMap) else ()
    return (*sides, buffer.rows, buffer.columns, buffer.stride, buffer.packed)


def matrix_cost(machine: DieCycles, work: Multiplication) -> WorkCost:
    """The cost of a product's tasks together."""
    key = (work.direction, work.shape, work.added, *map(_geometry, (work.a, work.b, work.c)))
    cost = machine.known_products.get(key)
    if cost is None:
        make = _systolic if machine.parameters.machine == SYSTOLIC else _row_stationary
        cost = machine.known_products[key] = make(machine, work)
    return cost


def _bounded(machine: DieCycles, work: Multiplication, alone: float, row: float, reads: float, writes: float,
             tasks: int,
             macs: float) -> WorkCost:
    """No product is faster than its PEs, or than memory moves its words; its tasks are fetched one by one."""
    parameters = machine.parameters
    least = max(macs / (parameters.rows * parameters.columns),
                (reads + writes) / float(parameters.memory_words_per_cycle))
    row = max(row, least)
    return WorkCost(max(alone, row), row, reads, writes, parts=tasks, fetch=tasks * machine.control["fetch"], macs=macs,
                    samples=product_of(work).samples, sram=1.0)


def _systolic(machine: DieCycles, work: Multiplication) -> WorkCost:
    parameters = machine.parameters
    beat = parameters.beat_words
    alone = row = reads = writes = turns = exposed = macs = 0.0
    groups = matrix_tasks(parameters, work.layer, work.direction, work.shape, work.a, work.b, work.c).groups
    shapes = [ProductShape(
        m=body["m"], n=body["n"], k=body["k"], interleave_m_log2=body["interleave_m_log2"],
        transpose_a=bool(body.get("transpose_a")), transpose_b=bool(body.get("transpose_b")),
        a_run=0 if work.shape is None else body["a_run"], a_step=systolic_cycles.row_step(parameters, body["a_stride"]),
        b_step=systolic_cycles.row_step(parameters, body["b_stride"]),
        c_step=systolic_cycles.row_step(parameters, body["c_stride"]), accumulate=work.added)
        for bodies in groups for body in bodies]
    for shape in shapes:
        cost = systolic_cycles.cost(parameters, shape)
        alone, row = (alone + cost.row if row else cost.alone), row + cost.row
        reads, writes, turns = reads + beat * cost.reads, writes + beat * cost.writes, turns + cost.turns
        exposed, macs = exposed + systolic_cycles.exposed(parameters, shape), macs + shape.m * shape.n * shape.k
    return replace(_bounded(machine, work, alone, row, reads, writes, len(shapes), macs),
                   turn=reads / turns if turns else 0.0, exposed=exposed)


def node_product(direction: str, node: Node, samples: int, inputs: int, outputs: int) -> Product:
    """A product of a weighted node; channels of a flattened map have several features."""
    if node.kind == "convolution":
        return Product(direction, samples, inputs, outputs, node.window, node.name)
    return Product(direction, samples, inputs * node.matrix[0], outputs, layer=node.name)


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
                   ConvolutionWindow((shape.height, shape.width), shape.kernel, shape.stride, shape.padding,
                                     (shape.out_height, shape.out_width)), work.layer)


def _row_stationary(machine: DieCycles, work: Multiplication) -> WorkCost:
    product = product_of(work)
    parts = row_stationary_parts(machine.parameters, product)
    cost = mappings.work(machine.parameters, parts)
    return _bounded(machine, work, cost.alone, cost.row, cost.read, cost.written,
                    sum(mappings.tasks(loops, mapping) for loops, mapping in parts),
                    float(sum(loops.macs for loops, _ in parts)))


def rows_cost(machine: DieCycles, work: RowsByNumber) -> WorkCost:
    """What rows by their numbers take: rows that are added are read on both sides."""
    rows, columns = work.rows.rows, work.rows.columns
    latency, interval = machine.rows(rows, columns, work.added * unlike(work.table_rows, work.own_rows))
    row = row_words(machine.parameters, columns)
    return WorkCost(latency, interval, rows * row, rows * row, work.added * rows * row, turn=(1 + work.added) * row,
                    adds=float(work.added * rows * columns))


def copy_cost(machine: DieCycles, tile: TileCopy, flit_cycles: float | None) -> WorkCost:
    """The cost of a copy to one place.

    Parameters
    ----------
    flit_cycles : float or None
        Cycles of a flit on the slowest link of its way; None: it stays on the die.
    """
    parameters, beat = machine.parameters, machine.parameters.beat_words
    rows, columns = tile.shape
    # Rows by their numbers lie apart.
    index = tile.index
    source, target = (side.stride + (index is not None and index.scatter == written and side.stride == columns) * beat
                      for written, side in enumerate((tile.source, tile.target)))
    copy = Copy(tile.planes * rows, columns, source, target, tile.source.address % beat, tile.target.address % beat)
    flits = copy.flits(parameters)
    latency, interval = machine.copy(copy, None if flit_cycles is None else flits * flit_cycles)
    read, written = copy.read(parameters), copy.written(parameters)
    if index is not None:
        more = indexed_cycles(parameters, copy, added=tile.added, remote=flit_cycles is not None)
        latency, interval = latency + more, interval + more
    return WorkCost(latency, interval, read, written, tile.added * written,
                    turn=(1 + (tile.added and flit_cycles is None)) * copy.turn(parameters), flits=flits,
                    packets=copy.packets(parameters), adds=float(tile.added * tile.planes * rows * columns))
