"""Cycles of tasks, counted on co-simulated dies beside what the formulas of machine/ say.

A task is counted three times in a row, without anything between them but that all three wait for a copy before: the
first gives the time of a task alone, the last the time that one more takes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

from plinth.buffers import Buffer
from plinth.driver.driver import Driver
from plinth.driver.statistics import TaskRecord
from plinth.errors import UserError
from plinth.lower.builder import GraphBuilder
from plinth.lower.program import assemble, ring_setup
from plinth.machine.convolution import Body, ConvolutionShape, ConvolutionWindow, FeatureMap
from plinth.machine.copies import Copy
from plinth.machine.die import Cycles, DieCycles
from plinth.machine.products import BPROP, DIRECTIONS, FPROP, MAKERS, UPDATE, Product
from plinth.machine.row_stationary_tasks import RowStationary
from plinth.machine.systolic_tasks import Systolic
from plinth.machine.vector import ProgramWork
from plinth.runtime.arrays import cosim_array
from plinth.step.vector import VectorProgram
from plinth_hw.isa.formats import FP32, factor_word
from plinth_hw.isa.operations import CollectiveOperation, Engine, TransferOperation, UpdateOperation, VectorOperation
from plinth_hw.isa.parameters import ROW_STATIONARY, DieParameters
from plinth_hw.isa.vector_body import VectorFunction, VectorOp

#: Vector programs.
PROGRAMS = {
    "forward": ProgramWork(1, 1, row_loads=1, wise=2),
    "sum": ProgramWork(4, 1, wise=3),
    "backward": ProgramWork(2, 1, row_loads=1, row_stores=1, wise=1, sums=1),
    "bias": ProgramWork(1, 0, row_loads=1, row_stores=1, sums=1),
    "pool": ProgramWork(2, 1, wise=1),
    "unpool": ProgramWork(4, 2, wise=6),
    "loss": ProgramWork(2, 2, row_loads=2, row_stores=1, wise=5, sums=1, reductions=2, functions=1, column_functions=1),
}
#: Copies within a die, to the next one of a ring and to the one behind that, by hops; all dies send at once.
COPIES = ("local", "remote", "far")
#: Memory of the die, in words.
MEMORY_WORDS = 1 << 22
#: Equal tasks in a row.
ROW = 3
#: Words of the copy that a row waits for: long enough for the descriptors of the row to come meanwhile.
BEFORE = 4096



class Counted(NamedTuple):
    """A task alone, and a further one in a row: counted, and by the formulas."""

    name: str
    shape: tuple[int, ...]
    counted: Cycles
    formula: Cycles

    @property
    def ratios(self) -> Cycles:
        """Counted over formula."""
        return self.counted[0] / self.formula[0], self.counted[1] / self.formula[1]


def matrix_shapes(parameters: DieParameters) -> list[tuple[int, int, int]]:
    """m, n, k of the products that are counted: from a part of a tile to many tiles, short and long sums."""
    rows, columns = parameters.rows, parameters.columns
    if parameters.machine == ROW_STATIONARY:
        return [*product((columns, 4 * columns, 16 * columns), (10, 32, 128), (16, 64, 200)), (4 * columns, 256, 512)]
    shapes = list(product((rows, 2 * rows, 8 * rows), (columns + 2, 4 * columns, 16 * columns), (16, 64, 200)))
    return [*shapes, (16 * rows, 16 * columns, 64), (2 * rows, 4 * columns, 1000), (2 * rows, 32 * columns, 512)]


def convolution_shapes(parameters: DieParameters) -> list[tuple[ConvolutionShape, int]]:
    """Layers and images of the convolutions that are counted."""
    wide = parameters.columns
    sizes = [(8, 1, wide, 3, 8), (8, 1, 2 * wide, 3, 8), (8, 1, wide // 2, 3, 8), (4, wide, 2 * wide + 4, 3, 8),
             (4, wide, wide, 3, 8), (4, wide // 2, 2 * wide, 3, 16), (4, wide // 4, 2 * wide + 4, 3, 16),
             (4, wide, wide // 2 + 1, 3, 32), (4, wide, 2 * wide, 3, 32), (4, 2 * wide, 4 * wide, 3, 32),
             (4, 2 * wide, 2 * wide, 3, 32), (4, 4 * wide, wide, 3, 8), (8, wide // 2, wide, 3, 8),
             (8, wide, wide, 5, 4)]
    return [(ConvolutionShape(height=size, width=size, inputs=inputs, outputs=outputs, kernel=(kernel, kernel),
                              padding=(kernel // 2, kernel // 2)), images)
            for size, inputs, outputs, kernel, images in sizes]


def vector_shapes(parameters: DieParameters) -> list[tuple[int, int]]:
    """Rows and columns of the vector programs that are counted."""
    return [*product((2, 2 * parameters.rows, 8 * parameters.rows), (8, 10, 20, 64, 256)),
            *product((16 * parameters.rows, 32 * parameters.rows), (2, 8, 10, 16, 20, 32))]


def copy_shapes(parameters: DieParameters) -> list[tuple[int, int]]:
    """Rows and columns of the copies that are counted."""
    return [(rows, columns) for rows, columns in product(
        (4, 16 * parameters.rows, 64 * parameters.rows, 256 * parameters.rows), (2, 4, 8, 16, 32, 128))
        if 4 * rows * columns <= MEMORY_WORDS // 16]


def products(parameters: DieParameters) -> list[Product]:
    """Products that are counted."""
    products = []
    for direction, (m, n, k) in product(DIRECTIONS, matrix_shapes(parameters)):
        samples, inputs, outputs = {FPROP: (m, k, n), BPROP: (m, n, k), UPDATE: (k, m, n)}[direction]
        products.append(Product(direction, samples, inputs, outputs))
    for direction, (layer, images) in product(DIRECTIONS, convolution_shapes(parameters)):
        products.append(Product(direction, images, layer.inputs, layer.outputs, ConvolutionWindow(
            (layer.height, layer.width), layer.kernel, layer.stride, layer.padding,
            (layer.out_height, layer.out_width))))
    return products


def _convolution(maker: Systolic | RowStationary, product: Product, window: ConvolutionWindow, left: Buffer,
                 right: Buffer, target: Buffer) -> list[list[Body]]:
    """Tasks of a convolution."""
    shape = ConvolutionShape(height=window.size[0], width=window.size[1], inputs=product.inputs,
                             outputs=product.outputs, kernel=window.kernel, stride=window.stride,
                             padding=window.padding)

    def out(buffer: Buffer) -> FeatureMap:
        return FeatureMap(buffer, shape.out_height, shape.out_width)

    def full(buffer: Buffer) -> FeatureMap:
        return FeatureMap(buffer, shape.height, shape.width)

    if product.direction == FPROP:
        return maker.forward(shape, full(left), right, out(target))
    if product.direction == BPROP:
        return maker.input_gradient(shape, out(left), right, full(target))
    return maker.weight_gradient(shape, full(left), out(right), target)


@dataclass
class _Session:
    """A graph of rows of tasks, each behind the one before; the same on every die."""

    parameters: DieParameters
    dies: int
    builder: GraphBuilder = field(init=False)
    #: For each row, the tasks of each of its members.
    rows: list[list[list[int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.builder = GraphBuilder(self.parameters)
        words = MEMORY_WORDS // 16
        self.source, self.other, *self.results = (
            self.builder.allocate(name, 1, words) for name in ("source", "other", *(f"r{n}" for n in range(ROW))))
        self.before = self.builder.allocate("before", 1, BEFORE)

    def matrix(self, whole: Buffer, rows: int, columns: int, *, packed: bool = False, dense: bool = False) -> Buffer:
        """A matrix in a place."""
        words = -(-columns // 2) if packed else columns
        beat = 1 if dense else self.parameters.beat_words
        buffer = Buffer(whole.name, whole.address, rows, columns, -(-words // beat) * beat, packed=packed)
        if buffer.words > whole.words:
            raise ValueError(f"A matrix of {rows} x {columns} does not fit {whole.words} words")
        return buffer

    def row(self, add: Callable[[int], None], count: int = ROW) -> None:
        """``count`` times the tasks that ``add`` adds for a number, behind a copy into their source."""
        part = self.source.part(self.source.name, 0, 1, BEFORE)
        self.builder.add("before", Engine.TRANSFER, TransferOperation.COPY, {
            "source": self.before.pointer, "destination": part.pointer, "columns": BEFORE, "rows": 1, "planes": 1},
            reads=[self.before], writes=[self.source])
        row = []
        for number in range(count):
            first = len(self.builder._pending)
            add(number)
            row.append(list(range(first, len(self.builder._pending))))
        self.rows.append(row)

    def multiply(self, product: Product) -> None:
        """Rows of a product's tasks."""
        packed = self.parameters.packing > 1
        samples, inputs, outputs, window = product.samples, product.inputs, product.outputs, product.window
        x, w, z = (samples, inputs), (inputs, outputs), (samples, outputs)
        if window is not None:
            x, z = (samples * window.size[0] * window.size[1], inputs), (samples * window.positions, outputs)
            w = (window.kernel[0] * window.kernel[1] * inputs, outputs)
        places = {FPROP: (x, w, z), BPROP: (z, w, x), UPDATE: (x, z, w)}[product.direction]
        maker = MAKERS[self.parameters.machine](self.parameters, product.name)

        def add(number: int) -> None:
            left, right = (self.matrix(place, *size, packed=packed, dense=window is not None)
                           for place, size in zip((self.source, self.other), places, strict=False))
            target = self.matrix(self.results[number], *places[2], dense=window is not None)
            if window is None:
                make = {FPROP: maker.dense_forward, BPROP: maker.dense_input_gradient,
                        UPDATE: maker.dense_weight_gradient}[product.direction]
                groups = make(left, right, target)
            else:
                groups = _convolution(maker, product, window, left, right, target)
            for bodies in groups:
                self.builder.add_parts([product.name] * len(bodies), Engine.MATRIX, maker.operation(window is None),
                                       bodies, reads=[left, right], writes=[target])
        self.row(add)

    def program(self, name: str, rows: int, columns: int) -> bool:
        """Rows of vector tasks; False if they do not fit the scratchpad."""
        programs = []
        for number in range(ROW):
            program = self._program(name, rows, columns, self.results[number])
            try:
                programs.append((program, program.body()))
            except UserError:
                return False

        def add(number: int) -> None:
            program, body = programs[number]
            self.builder.add(name, Engine.VECTOR, VectorOperation.PROGRAM, body, reads=program.reads,
                             writes=program.writes)
        self.row(add)
        return True

    def _program(self, name: str, rows: int, columns: int, result: Buffer) -> VectorProgram:
        work = PROGRAMS[name]
        program = VectorProgram(self.parameters, rows, columns)
        # Pools move every second position.
        far = 2 * columns if name in ("pool", "unpool") else columns
        x = self.matrix(self.source, rows, far, dense=True)._replace(columns=columns)
        row = self.matrix(self.other, 1, columns)
        # Rows that are stored lie behind the region.
        target = self.matrix(result, rows, far, dense=True)._replace(columns=columns)
        last = result.part(result.name, rows * far, 1, columns)
        for number in range(work.loads):
            program.load(f"x{number}", x)
        for _ in range(min(work.row_loads, 4 - work.loads)):
            program.load("b", row, "row")
        for number in range(work.wise):
            program.run((VectorOp.ADD, VectorOp.MAX, VectorOp.RELU_MASK)[number % 3], "x0", "x0",
                        f"x{min(1, work.loads - 1)}")
        for number in range(work.reductions):
            program.run((VectorOp.MAXIMUM, VectorOp.SUM)[number % 2], "column", "x0", shape="column")
        for _ in range(work.functions):
            program.run(VectorOp.FUNCTION, "x0", "x0", VectorFunction.EXPONENTIAL)
        for _ in range(work.column_functions):
            program.run(VectorOp.FUNCTION, "column", "column", VectorFunction.RECIPROCAL)
        for _ in range(work.sums):
            program.run(VectorOp.SUM, "sum", "x0", shape="row")
        for number in range(work.stores):
            program.store(f"x{number}" if number < work.loads else "x0", target)
        for _ in range(work.row_stores):
            program.store("sum", last)
        return program

    def copy(self, rows: int, columns: int, kind: str, die: int) -> None:
        """Rows of copies within the die or, for "remote" and "far", to the next one or the one behind it."""
        source = self.matrix(self.source, rows, columns, dense=True)
        hops = COPIES.index(kind)
        body: dict[str, Any] = {"destination_die": (die + hops) % self.dies, "remote": int(hops > 0)}

        def add(number: int) -> None:
            # Rows land in a place of four times their width, as parts of a map do.
            target = self.matrix(self.results[number], rows, 4 * columns, dense=True)._replace(columns=columns)
            self.builder.add(kind, Engine.TRANSFER, TransferOperation.COPY, {
                "source": source.pointer, "destination": target.pointer, "columns": columns, "rows": rows, "planes": 1,
                "source_row_stride": columns, "destination_row_stride": 4 * columns, **body},
                reads=[source], writes=[target] if kind == "local" else [])
        self.row(add)

    def reduction(self, words: int, group: int) -> None:
        """A reduction."""
        source, target = (place.part(place.name, 0, 1, words) for place in (self.source, self.results[0]))
        self.row(lambda number: self.builder.add("reduce", Engine.COLLECTIVE, CollectiveOperation.ALL_REDUCE, {
            "source": source.pointer, "destination": target.pointer, "words": words, "group": group,
            "update": UpdateOperation.SGD, "message": 0, "rate": factor_word(FP32, 0.1)},
            reads=[source], writes=[target]), 1)

    def words(self, count: int) -> None:
        """Copies of one word, none of which waits for another."""
        def add(number: int) -> None:
            target = self.results[0].part(self.results[0].name, 8 * number, 1, 1)
            self.builder.add("word", Engine.TRANSFER, TransferOperation.COPY, {
                "source": self.other.pointer, "destination": target.pointer, "columns": 1, "rows": 1, "planes": 1},
                reads=[self.other], writes=[target])
        self.row(add, count)


def _run(sessions: list[_Session], setup: Callable[[int], GraphBuilder]) -> list[list[TaskRecord]]:
    """Records of every die."""
    parameters, dies = sessions[0].parameters, len(sessions)
    program = assemble([setup(die) for die in range(dies)], [session.builder for session in sessions],
                       memory_words=MEMORY_WORDS)
    array, _ = cosim_array(parameters, dies, MEMORY_WORDS)
    driver = Driver(array, program, memory_words=MEMORY_WORDS)
    driver.step(0)
    die_records = []
    for die in range(dies):
        order: dict[Engine, list[TaskRecord]] = {}
        for record in driver.records(die):
            order.setdefault(record.engine, []).append(record)
        # An engine's records come in the order of its tasks.
        rest = {engine: iter(records) for engine, records in order.items()}
        die_records.append([next(rest[task.engine]) for task in program.step[die].tasks])
    return die_records


def _rows(session: _Session, records: list[TaskRecord]) -> Iterator[tuple[int, int]]:
    """Of each row, cycles of its first member, and what the last one took beyond the one before it."""
    for members in session.rows:
        ends = [max(records[task].end for task in tasks) for tasks in members]
        period = ends[-1] - ends[-2] if len(ends) > 1 else 0
        yield ends[0] - min(records[task].start for task in members[0]), max(1, period)


def _copied(parameters: DieParameters, kind: str, rows: int, columns: int) -> Cycles:
    """A copy by its formula, while all dies of a ring send as far."""
    copy, hops = Copy.part(rows, columns), COPIES.index(kind)
    left = hops * copy.flits(parameters) / float(parameters.link_rate) if hops else None
    return DieCycles(parameters).copy(copy, left)


def on_one_die(parameters: DieParameters) -> tuple[list[Counted], dict[str, float]]:
    """Products, vector programs and copies of one die; cycles from a descriptor to the next, and of a wait met."""
    session, machine = _Session(parameters, 1), DieCycles(parameters)
    asked: list[tuple[str, tuple[int, ...], Cycles]] = []
    for multiplied in products(parameters):
        session.multiply(multiplied)
        asked.append((multiplied.name, multiplied.gemm, machine.product(multiplied).cycles))
    for size, (name, work) in product(vector_shapes(parameters), PROGRAMS.items()):
        if session.program(name, *size):
            stages = machine.vector(work, *size)
            asked.append((name, size, (sum(stages), max(stages))))
    for size in copy_shapes(parameters):
        session.copy(*size, COPIES[0], 0)
        asked.append((COPIES[0], size, _copied(parameters, COPIES[0], *size)))
    session.words(24)
    (records,) = _run([session], lambda die: ring_setup(parameters, [0], 0, 0))
    words, first = [records[tasks[0]] for tasks in session.rows[-1]], session.rows[0][0][0]
    return ([Counted(name, shape, counted, formula) for (name, shape, formula), counted in zip(
        asked, _rows(session, records), strict=False)],
            {"fetch": (words[-1].start - words[-9].start) // 8, "issue": records[first].start - records[first - 1].end})


def on_a_ring(parameters: DieParameters) -> tuple[list[Counted], dict[str, float]]:
    """Copies to other dies of a ring of four; cycles of reductions beside their words, on two dies, for a further hop,
    and on one die; and from the last word of a copy on its link to the start of what waits for it."""
    dies, chunk = 4, parameters.chunk_words
    sessions = [_Session(parameters, dies) for _ in range(dies)]
    sizes = list(product(COPIES[1:], copy_shapes(parameters)))
    for die, session in enumerate(sessions):
        for kind, size in sizes:
            session.copy(*size, kind, die)
        for group in (0, 1, 2):
            session.reduction(16 * chunk, group)

    def setup(die: int) -> GraphBuilder:
        builder = GraphBuilder(parameters)
        for group, ring in enumerate((list(range(dies)), [die & ~1, die | 1], [die])):
            ring_setup(parameters, ring, die, group, builder)
        return builder
    rows = list(_rows(sessions[0], _run(sessions, setup)[0]))
    four, two, single = (cycles for cycles, _ in rows[len(sizes):])
    rate = float(parameters.flit_words * parameters.link_rate)
    half, whole = (2 * (size - 1) * 16 * chunk / size / rate for size in (2, dies))
    return ([Counted(kind, size, counted, _copied(parameters, kind, *size)) for (kind, size), counted in zip(
        sizes, rows, strict=False)],
            {"ring": two - half, "hop": (four - whole - two + half) / (2 * (dies - 2)),
             "reduce": single - 16 * chunk / parameters.flit_words, "arrival": _arrival(parameters)})


def _arrival(parameters: DieParameters) -> float:
    """Cycles from the last word of a copy on its link to the start of a task of another die that waited for it."""
    sessions = [_Session(parameters, 2) for _ in range(2)]
    for die, session in enumerate(sessions):
        target = session.results[0].part(session.results[0].name, 0, 1, BEFORE)
        if die == 0:
            session.builder.add("send", Engine.TRANSFER, TransferOperation.COPY, {
                "source": session.before.pointer, "destination": target.pointer, "columns": BEFORE, "rows": 1,
                "planes": 1, "remote": 1, "destination_die": 1, "arrival_enable": 1, "arrival": len(Engine)},
                reads=[session.before])
        else:
            session.builder.expect([target], len(Engine), 1)
            session.builder.add("after", Engine.TRANSFER, TransferOperation.COPY, {
                "source": target.pointer, "destination": session.other.pointer, "columns": 1, "rows": 1, "planes": 1},
                reads=[target], writes=[session.other])
    records = _run(sessions, lambda die: ring_setup(parameters, [0, 1], die, 0))
    copy = Copy(1, BEFORE, BEFORE, BEFORE)
    # What the die's router still holds when the copy ends.
    link = copy.flits(parameters) / float(parameters.link_rate)
    waiting = max(0.0, link - max(copy.cycles(parameters), link * (1 - copy.held(parameters))))
    return records[1][0].start - records[0][0].end - waiting
