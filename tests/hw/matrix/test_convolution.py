"""ConvolutionShape tasks on the matrix engine against the golden model: the whole memory image, and what was loaded."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.support.convolutions import PASSES, Placed, random_layer
from tests.support.engine_bench import body_words
from tests.support.systolic import numbers
from tests.support.verilated_engine import Outcome, VerilatedEngine

from plinth.machine.convolution import Body, ConvolutionShape
from plinth_hw.isa.formats import FP16, Format, word_type
from plinth_hw.isa.layout import pack, unpack
from plinth_hw.isa.matrix_bodies import MatrixBody
from plinth_hw.isa.operations import ErrorCode, MatrixOperation
from plinth_hw.isa.parameters import preset
from plinth_hw.matrix.engine import MatrixEngine
from plinth_hw.matrix.geometry import Geometry
from plinth_sim.golden import convolution, matrix

pytestmark = pytest.mark.xdist_group("systolic-engine")

PARAMETERS = {
    "tiny": preset("ndp-tiny"),
    "mixed": preset("ndp-tiny", multiply_format=FP16, output_buffer_words=128),
    "fixed": preset("fpga-tiny"),
    "6x10": preset("ndp-tiny", rows=6, columns=10, beat_words=16, output_buffer_words=1024,
                   operand_buffer_words=2048, memory_words_per_cycle=10),
    # More rows than a beat has words.
    "7x4": preset("fpga-tiny", rows=7, operand_buffer_words=2048),
}
GEOMETRIES = {name: Geometry(parameters) for name, parameters in PARAMETERS.items()}
ENGINES = ["tiny", *(pytest.param(name, marks=pytest.mark.slow) for name in ("mixed", "fixed", "6x10", "7x4"))]
WORDS = 1 << 18
#: Base registers: base b lies b words behind the first word, base 15 near the end of the address space.
BASES = [*range(15), 0xFFFF_F000]
GEMM, CONVOLUTION = MatrixOperation.GEMM.value, MatrixOperation.CONVOLUTION.value


@cache
def engine(name: str) -> VerilatedEngine:
    return VerilatedEngine(MatrixEngine(PARAMETERS[name]), PARAMETERS[name], MatrixBody,
                           ["a_memory", "b_memory", "c_memory"], ["store_memory"], "loops")


def packing(name: str) -> int:
    return PARAMETERS[name].packing


def loaded_and_stored(body: Any, inside: int, geometry: Geometry) -> int:
    """Words that a task with an operand a word moves: elements outside the map are not loaded, and a panel that is
    still there is not loaded again."""
    option = body.interleave_m_log2
    m_blocks, n_blocks = -(-body.m // geometry.a_span[option]), -(-body.n // geometry.b_span[option])
    resident = body.k <= 2 * geometry.panel_k[option]
    return (inside * (1 if resident else n_blocks) + body.k * body.n * (1 if resident and n_blocks == 1 else m_blocks)
            + body.m * body.n * (1 + body.accumulate))


def run(name: str, bodies: list[Body], kind: str = "plain", errors: list[ErrorCode] | None = None,
        **settings: Any) -> Outcome:
    """Run tasks, GEMMs where a body has no window, on engine and golden model; compare memory, completions,
    counted multiply-adds and words."""
    parameters, rng = PARAMETERS[name], np.random.default_rng(len(bodies))
    operands = matrix.storage(parameters.multiply_format)
    memory = numbers(rng, kind, (WORDS * packing(name),), operands).view(word_type(parameters.memory_format))
    expected, useful, words, tasks = memory.copy(), [], 0, []
    errors = errors or [ErrorCode.NONE] * len(bodies)
    for fields, error in zip(bodies, errors, strict=True):
        body = unpack(MatrixBody, pack(MatrixBody, fields))
        tasks.append((CONVOLUTION if "a_run" in fields else GEMM, body_words(MatrixBody, fields)))
        useful.append(0)
        if error != ErrorCode.NONE:
            continue
        if "a_run" in fields:
            golden = convolution.execute(expected, body, BASES, parameters.multiply_format)
            inside, useful[-1] = int(golden.inside.sum()), golden.useful_macs
        else:
            inside, useful[-1] = body.m * body.k, gemm(expected, body, parameters.multiply_format)
        words += loaded_and_stored(body, inside, GEOMETRIES[name])
    outcome = engine(name).run(tasks, BASES, memory, **settings)
    wrong = np.nonzero(memory != expected)[0]
    assert not len(wrong), [(int(at), hex(memory[at]), hex(expected[at])) for at in wrong[:8]]
    assert [done.error for done in outcome.done] == errors
    assert [done.useful_macs for done in outcome.done] == useful
    assert outcome.useful_macs == sum(useful)
    assert outcome.issued_macs == outcome.busy * parameters.rows * parameters.columns
    assert outcome.stalls == sum(done.stall_cycles for done in outcome.done)
    if packing(name) == 1:
        assert outcome.words == words
    return outcome


def gemm(memory: np.ndarray, body: Any, fmt: Format) -> int:
    """Run a GEMM without transposes on operands, each a word, whose rows are next to each other."""
    def block(pointer: Any, rows: int, columns: int) -> np.ndarray:
        return memory[BASES[pointer.base] + pointer.offset:][:rows * columns].reshape(rows, columns)

    a, b = block(body.a, body.m, body.k), block(body.b, body.k, body.n)
    product = matrix.multiply(fmt, a.view(matrix.storage(fmt)), b.view(matrix.storage(fmt)))
    block(body.c, body.m, body.n)[...] = product.view(memory.dtype)
    return body.m * body.n * body.k


class Layers:
    """Tasks of layers, one behind the other in memory."""

    def __init__(self, name: str, rng: np.random.Generator) -> None:
        self.name, self.rng, self.at = name, rng, 8192
        self.bodies: list[Body] = []

    def add(self, layer: ConvolutionShape, images: int, *passes: str, gaps: bool = True, shuffle: bool = True) -> None:
        placed = Placed(layer, images, PARAMETERS[self.name], self.rng, packed=packing(self.name) == 2, at=self.at,
                        gaps=gaps)
        self.at = placed.at
        assert self.at < WORDS
        for name in passes or PASSES:
            for body in placed.bodies(name, accumulate=bool(self.rng.integers(0, 2)) if shuffle else False):
                if shuffle:
                    body["interleave_m_log2"] = int(self.rng.integers(0, 4))
                for pointer in ("a", "b", "c"):
                    base = int(self.rng.integers(0, 16))
                    body[pointer] = {"base": base, "offset": (body[pointer]["offset"] - BASES[base]) & 0xFFFF_FFFF}
                self.bodies.append(body)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(("seed", "availability", "latency", "kind"), [
    pytest.param(1, 1, 1, "plain", marks=pytest.mark.slow), pytest.param(2, 1, 60, "small", marks=pytest.mark.slow),
    (3, 0.5, 5, "special"), (4, 0.9, 20, "bits"), (5, 0.12, 2, "plain")])
def test_random_layers(name: str, seed: int, availability: float, latency: int, kind: str) -> None:
    """All passes of layers of any shape, one task after another: kernels from 1 x 1 to 5 x 5, strides to 3, all
    paddings, channels from 1 on, runs of a kernel row and of a tap, results added to what is there."""
    layers = Layers(name, np.random.default_rng(seed))
    for _ in range(10):
        layers.add(*random_layer(layers.rng))
    run(name, layers.bodies, kind, seed=seed, availability=availability, latency=latency)


@pytest.mark.parametrize("name", ENGINES)
def test_wide_layers(name: str) -> None:
    """Sums over several panels: K beyond two of them, so that both operands come again; and few channels, so that
    a panel has many pieces."""
    layers = Layers(name, np.random.default_rng(7))
    layers.add(ConvolutionShape(height=6, width=7, inputs=70, outputs=37, kernel=(3, 3), padding=(1, 1)), 2)
    layers.add(ConvolutionShape(height=9, width=9, inputs=1, outputs=70, kernel=(5, 5), padding=(2, 2)), 2)
    layers.add(ConvolutionShape(height=8, width=8, inputs=3, outputs=70, kernel=(3, 3), padding=(2, 2),
                           stride=(2, 2)), 3)
    run(name, layers.bodies, availability=0.8)


def free_body(rng: np.random.Generator, words_per_element: int) -> Body:
    """A task that no layer needs: any part of a window and of a grid, windows that lie outside the map altogether,
    steps back, strides that differ, any order of storage, in the first 8 Ki words; C anywhere behind them."""
    def some(*values: int) -> int:
        return int(rng.choice(values))

    rows, columns, channels = int(rng.integers(1, 7)), int(rng.integers(1, 7)), some(1, 2, 3, 5, 8, 20)
    position = -(-channels // words_per_element) + some(0, 0, 1)
    row_words = columns * position + some(0, 3)
    kernel = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    grid = int(rng.integers(1, 6)), int(rng.integers(1, 6))
    strides = some(0, 1, 2, 3), some(0, 1, 2, 3)
    y, x = int(rng.integers(-6, rows + 3)), int(rng.integers(-6, columns + 3))
    image = some(0, rows * row_words, -rows * row_words)
    positions, elements = grid[0] * grid[1] * int(rng.integers(1, 4)), kernel[0] * kernel[1] * channels
    taken, used = int(rng.integers(1, positions + 1)), int(rng.integers(1, elements + 1))
    transpose_a, transpose_b = some(0, 1), some(0, 1)
    m, k = (used, taken) if transpose_a else (taken, used)
    n = some(1, 2, 7, 16, 33)
    whole_row = position * words_per_element == channels and rng.random() < 0.7
    run_, runs = (kernel[1] * channels, 1) if whole_row else (channels, kernel[1])
    b_run, b_runs = some(0, 1, 4), some(1, 3)
    b_step, b_kernel_step = some(5, -6), some(11, -9)
    c_steps = n, some(n, 3 * n), some(n, 5 * n)
    body = {
        "a": {"base": 3, "offset": 3500}, "a_stride": strides[1] * position,
        "a_origin": y * row_words + x * position,
        "a_row_step": strides[0] * row_words - (grid[1] - 1) * strides[1] * position,
        "a_image_step": image - (grid[0] - 1) * strides[0] * row_words - (grid[1] - 1) * strides[1] * position,
        "grid_columns": grid[1], "grid_rows": grid[0], "a_run": run_, "a_runs": runs,
        "a_run_step": 0 if whole_row else position,
        "a_kernel_step": row_words - (0 if whole_row else (kernel[1] - 1) * position),
        "window_row": y, "window_row_step": strides[0], "map_rows": rows,
        "window_column": x * channels, "window_column_step": strides[1] * channels, "map_columns": columns * channels,
        "b": {"base": 1, "offset": 4096}, "b_stride": some(7, 40), "b_run": b_run, "b_runs": b_runs,
        "b_run_step": b_step, "b_kernel_step": b_kernel_step,
        "c_stride": c_steps[0], "c_row_step": c_steps[1], "c_image_step": c_steps[2],
        "m": m, "n": n, "k": k, "transpose_a": transpose_a, "transpose_b": transpose_b, "accumulate": some(0, 1),
        "interleave_m_log2": some(0, 1, 2, 3)}
    return {name: value & 0xFFFF_FFFF if isinstance(value, int) and name.endswith(("step", "origin")) else value
            for name, value in body.items()}


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(("seed", "availability"), [(1, 1), (2, 0.4), (3, 0.9)])
def test_free_tasks(name: str, seed: int, availability: float) -> None:
    """Everything that the fields can say, with matrix products among the tasks."""
    rng = np.random.default_rng(seed)
    bodies, at = [], 16384
    for number in range(80):
        if number % 7 == 3 and packing(name) == 1:
            m, n, k = (int(size) for size in rng.integers(1, 40, 3))
            body = {"a": {"base": 1, "offset": 100}, "a_stride": k, "b": {"base": 0, "offset": 4000}, "b_stride": n,
                    "c_stride": n, "m": m, "n": n, "k": k, "interleave_m_log2": int(rng.integers(0, 4))}
        else:
            body = free_body(rng, packing(name))
        body["c"] = {"base": 0, "offset": at}
        bodies.append(body)
        at += 6 * body["m"] * body["n"] + int(rng.integers(0, 5))
    assert at < WORDS
    run(name, bodies, seed=seed, availability=availability, latency=9)


@pytest.mark.parametrize("change", [
    {"m": 0}, {"n": 0}, {"k": 0}, {"interleave_m_log2": 4}, {"grid_columns": 0}, {"grid_rows": 0}, {"a_run": 0},
    {"a_runs": 0}, {"map_rows": 0}, {"map_columns": 0}, {"b_run": 3, "b_runs": 0}])
def test_bad_operand(change: Body) -> None:
    """An unfit body is refused, memory is left alone, and the tasks beside it run."""
    layers = Layers("tiny", np.random.default_rng(3))
    layers.add(ConvolutionShape(height=5, width=5, inputs=3, outputs=9, kernel=(3, 3), padding=(1, 1)), 2)
    good = layers.bodies
    tasks = [good[0], good[1] | change, good[1], good[2] | change, good[2] | change, good[2]]
    errors = [ErrorCode.BAD_OPERAND if place in (1, 3, 4) else ErrorCode.NONE for place in range(6)]
    run("tiny", tasks, errors=errors, availability=0.8)


@pytest.mark.parametrize("name", ENGINES[:-1])
def test_utilisation(name: str) -> None:
    """Windows come as fast as plain matrices: whole tiles, channels that fill beats.

    The last engine's tiles take as many beats to load as they have slots."""
    geometry = GEOMETRIES[name]
    for pass_name in PASSES:
        layers = Layers(name, np.random.default_rng(2))
        rows = geometry.a_span[1]
        layers.add(ConvolutionShape(height=rows, width=8, inputs=2 * geometry.lanes, outputs=2 * geometry.b_span[1],
                               kernel=(3, 3), padding=(1, 1)), 1, pass_name, gaps=False, shuffle=False)
        outcome = run(name, layers.bodies)
        assert outcome.busy >= 0.95 * (outcome.last_busy - outcome.first_busy + 1), pass_name
