"""Row about a step in numpy: against a training loop that is written by hand for the network, of the same kernels."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.array.array import ring
from plinth.bench.row import BenchRow
from plinth.network.parameters import Parameters, initial_parameters
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.runtime.numpy_executor import NumpyExecutor
from plinth.sharding import Sharding
from plinth.step.build import step_of
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import preset

Floats = NDArray[np.float32]

#: Samples of a step, steps of a turn, turns of either.
BATCH, STEPS, TURNS = 256, 4, 7
RATE = np.float32(0.01)


def _windows(x: Floats, out: Floats) -> Floats:
    """5x5 windows of maps ``[image, row, column, channel]``, a row each."""
    windows = np.lib.stride_tricks.sliding_window_view(x, (5, 5), axis=(1, 2)).transpose(0, 1, 2, 4, 5, 3)
    np.copyto(out.reshape(windows.shape), windows)
    return out


def _pool(x: Floats) -> Floats:
    """Maximum of 2x2 windows."""
    return np.maximum(np.maximum(x[:, ::2, ::2], x[:, ::2, 1::2]), np.maximum(x[:, 1::2, ::2], x[:, 1::2, 1::2]))


def _pool_back(x: Floats, y: Floats, error: Floats) -> Floats:
    """The error of the first largest of each window."""
    input_error, left = np.zeros_like(x), error
    for row, column in ((0, 0), (1, 0), (0, 1), (1, 1)):
        mine = left * (x[:, row::2, column::2] == y)
        input_error[:, row::2, column::2] = mine
        left = left - mine
    return input_error


def hand_written(parameters: Parameters) -> tuple[Callable[[Floats, Floats], None], Callable[[], list[Floats]]]:
    """lenet-c, layer by layer: what does a step, of ``x [sample, row, column, 1]`` and one-hot classes, and what tells
    weights and bias of each layer, in turn."""
    arrays = list(parameters.values())
    w = [weights.reshape(-1, weights.shape[-1]).copy() for weights in arrays[::2]]
    b = [bias.copy() for bias in arrays[1::2]]

    # What is large is made once.
    first_windows, second_windows, second_taps = (np.empty(shape, dtype=np.float32) for shape in (
        (BATCH * 576, 25), (BATCH * 64, 500), (BATCH * 64, 500)))

    def step(x: Floats, t: Floats) -> None:
        count = len(x)
        first_patches = _windows(x, first_windows)
        first = (first_patches @ w[0] + b[0]).reshape(count, 24, 24, 20)
        pooled = _pool(first)
        second_patches = _windows(pooled, second_windows)
        second = (second_patches @ w[1] + b[1]).reshape(count, 8, 8, 50)
        flat = _pool(second).reshape(count, 800)
        hidden = np.maximum(flat @ w[2] + b[2], 0)
        scores = hidden @ w[3] + b[3]
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        error = (shares / shares.sum(axis=1, keepdims=True) - t) / np.float32(count)
        grads = [(hidden.T @ error, error.sum(axis=0))]
        error = (error @ w[3].T) * (hidden > 0)
        grads.append((flat.T @ error, error.sum(axis=0)))
        back = _pool_back(second, flat.reshape(count, 4, 4, 50), (error @ w[2].T).reshape(count, 4, 4, 50))
        rows = back.reshape(-1, 50)
        grads.append((second_patches.T @ rows, rows.sum(axis=0)))
        taps = np.matmul(rows, w[1].T, out=second_taps).reshape(count, 8, 8, 5, 5, 20)
        error = np.zeros_like(pooled)
        for row, column in np.ndindex(5, 5):
            error[:, row:row + 8, column:column + 8] += taps[:, :, :, row, column]
        rows = _pool_back(first, pooled, error).reshape(-1, 20)
        grads.append((first_patches.T @ rows, rows.sum(axis=0)))
        for number, (weights, bias) in enumerate(reversed(grads)):
            w[number] -= RATE * weights
            b[number] -= RATE * bias

    return step, lambda: [array for pair in zip(w, b, strict=True) for array in pair]


def print_seconds_by_hand(steps: int) -> None:
    """Run a program's part of :func:`plinth.bench.ranks.runtime_overhead`: print the seconds of a step by hand."""
    generator = np.random.default_rng(0)
    by_hand, _ = hand_written(initial_parameters(NETWORKS["lenet-c"], 0))
    x = generator.standard_normal((BATCH, 28, 28, 1)).astype(np.float32)
    t = np.eye(10, dtype=np.float32)[generator.integers(0, 10, BATCH)]
    by_hand(x, t)
    start = time.perf_counter()
    for _ in range(steps):
        by_hand(x, t)
    print((time.perf_counter() - start) / steps)


def numpy_overhead() -> list[BenchRow]:
    """Processor time of a step of lenet-c, batch 256, on one die, batch written as well, over that of the loop by
    hand: the median of turns in which both take theirs one after the other. Their weights agree after the first steps;
    further on roundings decide kinks.

    Raises
    ------
    AssertionError
        If they do not.
    """
    network, generator = NETWORKS["lenet-c"], np.random.default_rng(0)
    graph, parameters = from_network(network), initial_parameters(network, 0)
    executor = NumpyExecutor(step_of(Sharding(graph=graph, splits=((),) * len(graph.nodes), batch=BATCH, array=ring(1),
                                              rule=UpdateRule(rate=float(RATE))), preset("ndp-demo")))
    executor.view.load(executor, parameters)
    by_hand, weights_by_hand = hand_written(parameters)
    x = generator.standard_normal((BATCH, 28, 28, 1)).astype(np.float32)
    t = np.eye(10, dtype=np.float32)[generator.integers(0, 10, BATCH)]
    def ours() -> None:
        executor.view.write_batch(executor, x, t)
        executor.step()

    def theirs() -> None:
        by_hand(x, t)

    def seconds(what: Callable[[], None]) -> float:
        start = time.process_time()
        for _ in range(STEPS):
            what()
        return (time.process_time() - start) / STEPS

    for what in (ours, theirs):
        seconds(what)
    for weights, expected in zip(executor.view.parameters_of(executor).values(), weights_by_hand(), strict=True):
        if np.abs(weights.reshape(expected.shape) - expected).max() > 1e-3 * np.abs(expected).max():
            raise AssertionError("weights of the step differ from those of the loop by hand")
    turns = [(seconds(ours), seconds(theirs)) for _ in range(TURNS)]
    ratios = sorted(step / loop for step, loop in turns)
    detail: dict[str, Any] = {"network": network.name, "batch": BATCH, "seconds": min(step for step, _ in turns),
                              "seconds_by_hand": min(loop for _, loop in turns), "least": ratios[0],
                              "most": ratios[-1]}
    return [BenchRow("numpy_overhead", ratios[len(ratios) // 2], "processor time of a step / of a loop by hand",
                     "the same kernels, called an operation at a time", detail)]


#: Names and functions of these rows.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {"numpy_overhead": numpy_overhead}
