"""Activations in vector programs on the golden model, against NumPy."""

import numpy as np
import pytest
from numpy.typing import NDArray

from plinth.buffers import Buffer
from plinth.network.layers import Layer, LeakyRelu, Relu, Relu6, Sigmoid, Tanh
from plinth.step.activation import run_backward, run_forward
from plinth.step.vector import VectorProgram
from plinth_hw.isa.parameters import preset
from plinth_sim.golden import vector

TINY = preset("ndp-tiny")
KINDS = (Relu, LeakyRelu, Relu6, Tanh, Sigmoid)
ROWS, COLUMNS = 7, 9

Values = NDArray[np.float32]


def run(layer: Layer, x: Values, d: Values) -> tuple[Values, Values]:
    """Output and error of the input."""
    words = ROWS * COLUMNS
    memory = np.zeros(4 * words, dtype=np.uint32)
    x_at, y_at, d_at, e_at = (Buffer(name, number * words, ROWS, COLUMNS, COLUMNS)
                              for number, name in enumerate(("x", "y", "d", "e")))
    memory[:words], memory[2 * words:3 * words] = x.view(np.uint32), d.view(np.uint32)
    first, second = (VectorProgram(TINY, ROWS, COLUMNS) for _ in range(2))
    first.load("x", x_at)
    run_forward(layer, first, "y", "x")
    first.store("y", y_at)
    second.load("y", y_at)
    second.load("d", d_at)
    run_backward(layer, second, "d", "y")
    second.store("d", e_at)
    for program in (first, second):
        vector.execute(memory, program.body(), [0] * 16, beat_words=TINY.beat_words,
                       buffer_words=TINY.vector_buffer_words)
    floats = memory.view(np.float32)
    return floats[words:2 * words].copy(), floats[3 * words:].copy()


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
