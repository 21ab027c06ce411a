"""Measures cycles of matrix and vector tasks on co-simulated dies, for the planners' cost tables.

Tasks run one after the other, each waiting for the one before, so that a task's record holds its time alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from plinth import backends
from plinth.driver.driver import Driver
from plinth.errors import UserError
from plinth.lower.builder import Buffer, GraphBuilder
from plinth.lower.program import assemble, ring_setup
from plinth.lower.vector import VectorProgram
from plinth.model.files import dump_yaml
from plinth.output import write_whole
from plinth.plan.cost.machine import FOLDER, PROGRAMS, Calibration, interleave_m_log2
from plinth_hw.isa.formats import FP16
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.isa.tasks import Engine, MatrixOperation, VectorOp, VectorOperation

#: Presets that are measured if none is named: those that the co-simulation runs in minutes.
CALIBRATED = ("ndp-tiny", "ndp-demo", "ndp-demo-mixed", "ndp-bench")
#: Memory of the die, in words.
MEMORY_WORDS = 1 << 21

#: Transposes (of A, of B) of the products of fprop, bprop and updateGrad.
TRANSPOSES = {"fprop": (False, False), "bprop": (False, True), "update": (True, False)}


def matrix_shapes(parameters: DieParameters) -> list[tuple[int, int, int]]:
    """m, n, k of the products that are measured: from a part of a tile to many tiles, short and long sums."""
    rows, columns = parameters.rows, parameters.columns
    shapes = list(product((rows, 4 * rows + 3, 8 * rows), (columns + 2, 4 * columns, 8 * columns), (16, 64, 200)))
    return [*shapes, (16 * rows, 16 * columns, 64), (2 * rows, 4 * columns, 1000)]


def vector_shapes(parameters: DieParameters) -> list[tuple[int, int]]:
    """Rows and columns of the vector programs that are measured."""
    return list(product((2, 2 * parameters.rows, 8 * parameters.rows), (10, 64, 256)))


@dataclass
class _Session:
    """One graph of tasks, each behind the other."""

    parameters: DieParameters
    builder: GraphBuilder = field(init=False)

    def __post_init__(self) -> None:
        self.builder = GraphBuilder(self.parameters)
        shapes = matrix_shapes(self.parameters)
        words = 2 * max(max(m, n, k) for m, n, k in shapes) * max(sorted((m, n, k))[1] for m, n, k in shapes)
        self.places = [self.builder.allocate(name, 1, words) for name in "abc"]

    def place(self, number: int, rows: int, columns: int, packed: bool = False) -> Buffer:
        """A matrix in one of three places; tasks that use the same place wait for each other."""
        beat = self.parameters.beat_words
        words = -(-columns // 2) if packed else columns
        whole = self.places[number]
        return Buffer(whole.name, whole.address, rows, columns, -(-words // beat) * beat, packed=packed)

    def product(self, operation: str, m: int, n: int, k: int) -> None:
        """A matrix task."""
        transpose_a, transpose_b = TRANSPOSES[operation]
        half = self.parameters.multiply_format == FP16
        a = self.place(0, *((k, m) if transpose_a else (m, k)), packed=half)
        b = self.place(1, *((n, k) if transpose_b else (k, n)), packed=half)
        c = self.place(2, m, n)
        self.builder.add(operation, Engine.MATRIX, MatrixOperation.GEMM, {
            "a": a.pointer, "a_stride": a.stride, "b": b.pointer, "b_stride": b.stride, "c": c.pointer,
            "c_stride": c.stride, "m": m, "n": n, "k": k, "transpose_a": int(transpose_a),
            "transpose_b": int(transpose_b), "interleave_m_log2": interleave_m_log2(self.parameters, m, n)},
            reads=[a, b], writes=[c])

    def program(self, name: str, rows: int, columns: int) -> bool:
        """A vector task, as in lowering; False if it does not fit the scratchpad."""
        program = VectorProgram(self.parameters, rows, columns)
        x, other, result = (self.place(number, rows, columns) for number in range(3))
        row = self.place(1, 1, columns)
        program.load("x", x)
        if name == "forward":
            program.load("b", row, "row")
            program.run(VectorOp.ADD, "x", "x", "b")
            program.run(VectorOp.RELU, "x", "x")
        else:
            program.load("a", other)
            program.run(VectorOp.RELU_MASK, "x", "x", "a")
            program.run(VectorOp.SUM, "sum", "x", shape="row")
            program.store("sum", row)
        program.store("x", result)
        try:
            body = program.body()
        except UserError:
            return False
        self.builder.add(name, Engine.VECTOR, VectorOperation.PROGRAM, body, reads=program.reads,
                         writes=program.writes)
        return True


def calibrate(name: str, folder: Path = FOLDER, say: Callable[[str], None] = lambda text: None) -> Path:
    """Measure one preset and write its table.

    Raises
    ------
    UserError
        If a tool is missing or fails, or the table cannot be written.
    """
    parameters = preset(name)
    session = _Session(parameters)
    matrix = [(operation, *shape) for shape in matrix_shapes(parameters) for operation in TRANSPOSES]
    for task in matrix:
        session.product(*task)
    vector = [(program, *shape) for shape in vector_shapes(parameters) for program in PROGRAMS
              if session.program(program, *shape)]
    program = assemble([ring_setup(parameters, [0], 0, 0)], [session.builder], memory_words=MEMORY_WORDS)
    say(f"building {name} (cached after the first time)")
    array, digest = backends.cosim_array(parameters, 1, MEMORY_WORDS)
    driver = Driver(array, program, memory_words=MEMORY_WORDS)
    say(f"measuring {len(matrix)} matrix and {len(vector)} vector tasks")
    driver.step(0)
    cycles = [record.end - record.start for record in driver.records(0)]
    table = Calibration(
        preset=name, number_format=str(parameters.multiply_format), verilog_sha256=digest,
        matrix=tuple((*task, count) for task, count in zip(matrix, cycles[:len(matrix)], strict=True)),
        vector=tuple((*task, count) for task, count in zip(vector, cycles[len(matrix):], strict=True)))
    path = folder / f"{name}.yaml"
    header = "# Written by `make calibrate`: cycles measured on the co-simulated Verilog whose hash is below.\n"
    write_whole(path, lambda place: place.write_text(header + dump_yaml(table.to_data()), encoding="utf-8"))
    return path
