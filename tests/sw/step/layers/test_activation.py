"""Activations in vector programs on the golden model, against NumPy."""

import numpy as np
import pytest
from numpy.typing import NDArray

from plinth.buffers import Buffer
from plinth.network.layers import Gelu, Layer, LeakyRelu, Relu, Relu6, Sigmoid, Tanh
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import Epilogue, from_network
from plinth.plan.planners.simple import data
from plinth.sharding import Sharding
from plinth.step.layers.epilogue import ElementwiseLayer
from plinth.step.layers.kinds import EPILOGUES
from plinth.step.step import Step
from plinth.step.vector import VectorProgram
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_sim.golden import vector

TINY = preset("ndp-tiny")
GRAPH = from_network(NETWORKS["digits-mlp"])
#: A step that layers belong to.
STEP = Step(Sharding(graph=GRAPH, splits=data(GRAPH, 0), batch=1), TINY)
KINDS = (Relu, LeakyRelu, Relu6, Tanh, Sigmoid)
ROWS, COLUMNS = 7, 9

Values = NDArray[np.float32]
Words = NDArray[np.unsignedinteger]


def run_words(layer: Layer, x: Words, d: Words, rows: int, parameters: DieParameters) -> tuple[Words, Words]:
    """Output and error of the input, in a die's memory format."""
    words, columns = x.size, x.size // rows
    memory = np.concatenate([x, np.zeros_like(x), d, np.zeros_like(x)])
    x_at, y_at, d_at, e_at = (Buffer(name, number * words, rows, columns, columns)
                              for number, name in enumerate(("x", "y", "d", "e")))
    first, second = (VectorProgram(parameters, rows, columns) for _ in range(2))
    activation = EPILOGUES[layer.kind](STEP, GRAPH.nodes[0], Epilogue(layer), False, False)
    assert isinstance(activation, ElementwiseLayer)
    first.load("x", x_at)
    activation.apply(first, "y", "x")
    first.store("y", y_at)
    second.load("kept", x_at if activation.keeps_input else y_at)
    second.load("d", d_at)
    activation.back(second, "d", "kept")
    second.store("d", e_at)
    for program in (first, second):
        vector.execute(memory, program.body(), [0] * 16, beat_words=parameters.beat_words,
                       buffer_words=parameters.vector_buffer_words, fmt=parameters.memory_format)
    return memory[words:2 * words], memory[3 * words:]


def run(layer: Layer, x: Values, d: Values) -> tuple[Values, Values]:
    """Output and error of the input, in FP32."""
    y, e = run_words(layer, x.view(np.uint32), d.view(np.uint32), ROWS, TINY)
    return y.view(np.float32), e.view(np.float32)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spread", [1e-4, 1.0, 20.0])
def test_values(kind: type[Layer], spread: float) -> None:
    """Relative accuracy forward; backward in the documented order, bit for bit."""
    rng = np.random.default_rng(3)
    x, d = (rng.normal(scale=scale, size=ROWS * COLUMNS).astype(np.float32) for scale in (spread, 1.0))
    wide = x.astype(np.float64)
    slope, one = np.float32(0.01), np.float32(1)
    exact = {"relu": np.maximum(wide, 0), "leaky-relu": np.maximum(wide, 0.01 * wide), "relu6": np.clip(wide, 0, 6),
             "tanh": np.tanh(wide), "sigmoid": 1 / (1 + np.exp(-wide))}[kind.kind]
    y, e = run(kind(name="a"), x, d)
    np.testing.assert_allclose(y, exact, rtol=2.8 * 2.0**-23, atol=0)
    passed = np.where(y > 0, d, np.float32(0))
    wanted = {"relu": passed, "leaky-relu": passed + slope * (d - passed),
              "relu6": np.where(y < 6, passed, np.float32(0)), "tanh": d * (one - y * y),
              "sigmoid": d * (y * (one - y))}[kind.kind]
    assert (e.view(np.uint32) == wanted.view(np.uint32)).all()


def test_error_of_sigmoid() -> None:
    """Relative, in units of the last place, where the result is normal; subnormal and zero below."""
    layer = Sigmoid(name="s")
    d = np.zeros(ROWS * COLUMNS, np.float32)
    for low, high in ((-87.3, -60), (-20, -2), (-2, 2), (2, 30)):
        x = np.linspace(low, high, 50 * ROWS * COLUMNS).astype(np.float32)
        exact = 1 / (1 + np.exp(-x.astype(np.float64)))
        y = np.concatenate([run(layer, part, d)[0] for part in x.reshape(50, -1)])
        assert (y <= 1).all()
        assert (np.abs(y - exact) / np.exp2(np.floor(np.log2(exact)) - 23)).max() < 2.8
    x = np.resize(np.array([-np.inf, -1e30, -88.73, -88.7, 0, -0.0, 100, np.inf, np.nan], np.float32), d.size)
    y = run(layer, x, d)[0][:9]
    assert y[[0, 1, 2, 4, 5, 6, 7]].tolist() == [0, 0, 0, 0.5, 0.5, 1, 1]
    assert 0 < y[3] < 3.1e-39
    assert np.isnan(y[8])


def test_bounds_are_exact() -> None:
    """Elements at and beside kinks, of either sign, infinite, and no numbers."""
    below, above = np.nextafter(np.float32(6), np.float32([0, 9]))
    edges = np.array([-np.inf, -1e-45, -0.0, 0.0, 1e-45, below, 6, above, np.inf, np.nan], np.float32)
    x = np.resize(edges, ROWS * COLUMNS)
    y, e = run(Relu6(name="a"), x, np.ones_like(x))
    np.testing.assert_array_equal(y[:10], np.array([0, 0, 0, 0, 1e-45, below, 6, 6, 6, np.nan], np.float32))
    assert not np.signbit(y[:4]).any()
    assert e[:9].tolist() == [0, 0, 0, 0, 1, 1, 0, 0, 0]
    y, e = run(LeakyRelu(name="a", slope=0.25), x, np.ones_like(x))
    np.testing.assert_array_equal(y[:10], np.array([-np.inf, -0.0, 0, 0, 1e-45, below, 6, above, np.inf, np.nan],
                                                   np.float32))
    assert e[:9].tolist() == [0.25] * 4 + [1] * 5


def gelu(x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """By its formula, and its slope, by differences of a longer format."""
    def value(x: NDArray[np.longdouble]) -> NDArray[np.longdouble]:
        return x / 2 * (1 + np.tanh(np.sqrt(2 / np.longdouble(np.pi)) * (x + np.longdouble("0.044715") * x**3)))

    wide, step = x.astype(np.longdouble), np.longdouble(2.0**-20)
    slope = (value(wide + step) - value(wide - step)) / (2 * step)
    return value(wide).astype(np.float64), slope.astype(np.float64)


@pytest.mark.parametrize("spread", [1e-4, 1.0, 4.0, 20.0])
def test_gelu(spread: float) -> None:
    """Errors relative to x and to the error of the output; the documented order, bit for bit."""
    rng = np.random.default_rng(5)
    x, d = (rng.normal(scale=scale, size=ROWS * COLUMNS).astype(np.float32) for scale in (spread, 1.0))
    value, slope = gelu(x.astype(np.float64))
    y, e = run(Gelu(name="a"), x, d)
    assert (np.abs(y - value) <= 2**-23 * np.abs(x)).all()
    assert (np.abs(e - d * slope) <= 1.7e-6 * np.abs(d)).all()
    half, r = np.float32(0.5), np.float32(np.sqrt(0.044715)) * x
    m = np.float32(np.sqrt(2 / np.pi)) * x
    k = m * (r * r)
    t, _ = run(Tanh(name="t"), m + k, d)
    s = half * t + half
    w = s - s * s
    wanted = half * x + half * x * t, d * ((w + w) * (m + k + k + k) + s)
    for computed, expected in zip((y, e), wanted, strict=True):
        assert (computed.view(np.uint32) == expected.view(np.uint32)).all()


def test_gelu_far_out() -> None:
    """It is x or 0, also where its cube is infinite, up to numbers whose slope is none."""
    edges = np.array([-3e38, -1e20, -1e13, -50, -1e-45, -0.0, 0.0, 1e-45, 50, 1e13, 1e20, 3e38, np.inf, np.nan],
                     np.float32)
    y, e = run(Gelu(name="a"), np.resize(edges, ROWS * COLUMNS), np.ones(ROWS * COLUMNS, np.float32))
    np.testing.assert_array_equal(y[:14], np.array([0, 0, 0, 0, -0.0, 0, 0, 0, *edges[8:]], np.float32))
    assert e[2:10].tolist() == [0, 0, 0.5, 0.5, 0.5, 0.5, 1, 1]


def test_gelu_in_fixed_point() -> None:
    """Every argument of Q3.12, in units of its last place; beyond 5 the tanh is 1 whatever saturates."""
    numbers = np.arange(-1 << 15, 1 << 15).astype(np.int16)
    ones = np.full(512, 1 << 12, np.uint16)
    runs = [run_words(Gelu(name="a"), part, ones, 8, preset("fpga-demo"))
            for part in numbers.view(np.uint16).reshape(-1, 512)]
    y, e = (np.concatenate(words).view(np.int16).astype(np.float64) for words in zip(*runs, strict=True))
    value, slope = gelu(numbers / 2.0**12)
    assert np.abs(y - value * 2**12).max() < 2.3
    assert np.abs(e - slope * 2**12).max() < 10.3
    assert np.abs(e - slope * 2**12)[np.abs(numbers) < 2 << 12].max() < 5.3
    assert (y[numbers < -(5 << 12)] == 0).all() and (np.abs(y - numbers)[numbers > 5 << 12] <= 1).all()
