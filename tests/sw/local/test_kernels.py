"""What devices make of a set: by a formula of its own, and the same bits on golden and co-simulated dies."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.support.local import BATCH, WIDTHS, dataset, training

from plinth.errors import UserError
from plinth.local.batches import Batches
from plinth.local.kernels import DeviceKernel
from plinth.local.links import answered
from plinth.local.sets import LocalSet, Lost
from plinth.network.parameters import initial_parameters
from plinth.update.rule import STATE

UNITS = ({"fc1": np.array([0, 2, 3, 5, 8, 11, 13, 15]), "fc2": np.array([1, 2, 4, 7])},
         {"fc1": np.array([1, 2, 4, 5, 9, 10, 13, 14]), "fc2": np.array([0, 2, 5, 7])})


def given(run: Any, number: int, batches: int = 3, seed: int = 1) -> tuple[LocalSet, dict[str, Any]]:
    parts = run.kernels[0].local.parts(UNITS[number])
    whole = initial_parameters(run.network, seed)
    return LocalSet(number=number, units=UNITS[number], batches=batches, weights={
        name: (part.cut(whole[name]) * np.float32(part.factor)) for name, part in parts.items()}), parts


class Float64Kernel:
    """Tanh perceptrons with Adagrad in float64, written from the formulas; states of the whole network are kept."""

    def __init__(self, batches: Batches, rate: float, epsilon: float) -> None:
        self._batches, self._rate, self._epsilon = batches, rate, epsilon
        pairs = list(pairwise(WIDTHS))
        self.states = [(np.zeros(pair), np.zeros(pair[1])) for pair in pairs]

    def train(self, units: dict[str, Any], weights: dict[str, Any], batches: int) -> dict[str, Any]:
        rows = [np.arange(12), units["fc1"], units["fc2"], np.arange(4)]
        places = [(np.ix_(a, b), b) for a, b in pairwise(rows)]
        w = [weights[f"fc{n}.weights"].astype(np.float64) for n in (1, 2, 3)]
        b = [weights[f"fc{n}.bias"].astype(np.float64) for n in (1, 2, 3)]
        for _ in range(batches):
            x, targets = self._batches.next()
            h = [x.astype(np.float64)]
            for n in range(2):
                h.append(np.tanh(h[n] @ w[n] + b[n]))
            z = h[2] @ w[2] + b[2]
            p = np.exp(z - z.max(axis=1, keepdims=True))
            error = (p / p.sum(axis=1, keepdims=True) - targets) / len(x)
            for n in (2, 1, 0):
                dw, db = h[n].T @ error, error.sum(axis=0)
                error = (error @ w[n].T) * (1 - h[n]**2)
                for values, gradient, state, place in ((w[n], dw, self.states[n][0], places[n][0]),
                                                       (b[n], db, self.states[n][1], places[n][1])):
                    state[place] += gradient**2
                    values -= self._rate * gradient / np.sqrt(state[place] + self._epsilon)
        return {f"fc{n + 1}.{name}": values[n] - weights[f"fc{n + 1}.{name}"]
                for name, values in (("weights", w), ("bias", b)) for n in range(3)}


def batches() -> Batches:
    data = dataset()
    return Batches(data.train_x, data.targets, BATCH, 1, 0)


@pytest.mark.parametrize(("device", "near"), [("numpy", 2e-5), ("golden:fpga-tiny", 0.03)])
def test_a_kernel_trains_the_local_network_and_keeps_states_of_the_whole_one(device: str, near: float) -> None:
    """Two sets of different units: the second one's gradients meet the states of the units that both have."""
    run = training(device)
    kernel, rule = run.kernel(0), run.kernels[0].step.rule
    reference = Float64Kernel(batches(), rule.rate, rule.epsilon)
    for number in (0, 1):
        local_set, _ = given(run, number)
        answer = kernel.train(local_set)
        wanted = reference.train(UNITS[number], local_set.weights, 3)
        assert answer.number == number and list(answer.differences) == list(local_set.weights)
        for name, values in wanted.items():
            assert np.abs(answer.differences[name] - values).max() < near, name
    largest = max(np.abs(values).max() for values in wanted.values())
    assert largest > 3 * near
    if device == "numpy":
        for n, (state, _) in enumerate(reference.states):
            assert np.allclose(kernel._kept[f"fc{n + 1}.weights"][STATE], state, rtol=1e-3, atol=1e-9)


def test_wide_weights_come_whole_so_that_rounding_is_no_change() -> None:
    """Without batches nothing has changed, though dies hold 16 bits in each half."""
    run = training("golden:fpga-tiny")
    kernel = run.kernel(0)
    local_set, _ = given(run, 0, batches=0)
    answer = kernel.train(local_set)
    assert all(not values.any() for values in answer.differences.values())
    running = kernel._opened()
    held = kernel._weights(running.view, running.executor)
    assert max(np.abs(held[name] - values).max() for name, values in local_set.weights.items()) <= 2.0**-28
    rounded = running.view.parameters_of(running.executor)
    assert max(np.abs(rounded[name] - values).max() for name, values in local_set.weights.items()) > 2.0**-14


def test_a_co_simulated_die_has_the_bits_of_the_golden_model() -> None:
    run = training("fpga-tiny")
    golden = training("golden:fpga-tiny")
    kernel, other = run.kernel(0), golden.kernel(0)
    for number in (0, 1):
        local_set, _ = given(run, number)
        answer, wanted = kernel.train(local_set), other.train(local_set)
        assert all(np.array_equal(answer.differences[name], wanted.differences[name]) for name in wanted.differences)
        assert answer.counted["cycles"] > 0 and answer.seconds == answer.counted["cycles"] / (
            float(run.kernels[0].step.array.clock_mhz) * 1e6)
    running = kernel._opened()
    place = running.view.weights["fc1"].buffers[0]
    running.executor.write_floats(0, place, np.full((place.rows, place.columns), 0.5, np.float32))
    with pytest.raises(UserError, match="after set 1 its weights or states differ from the golden model's"):
        kernel._compare(running, 1)
    # And while it trains: the die's memory is other than the golden one's behind each step.
    step = running.executor.step

    def disturbed(place: int) -> int:
        cycles = step(place)
        values = np.full((buffer.rows, buffer.columns), 0.25, np.float32)
        running.executor.write_floats(0, buffer, values)
        return cycles

    buffer = running.view.weights["fc1"].buffers[0]
    running.executor.step = disturbed  # type: ignore[method-assign]
    lost = answered(kernel, replace(given(run, 0)[0], number=7))
    assert isinstance(lost, Lost) and lost.different and "after set 7" in lost.why


def test_a_device_that_does_not_start_is_named_and_others_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []
    monkeypatch.setattr(DeviceKernel, "close", lambda self: closed.append(self))
    run = training("numpy,serial:fpga-tiny:/nowhere,numpy")
    with pytest.raises(UserError, match=r"^kernel 1 \(serial:fpga-tiny:/nowhere\) does not start: /nowhere: "):
        run.opened()
    assert len(closed) == 2
    assert len(run.opened([0, 2])) == 2


def test_batches_are_in_an_order_of_the_kernel_and_all_samples_come_in_a_pass() -> None:
    data = dataset()
    numbers = np.arange(96, dtype=np.float32)[:, None]

    def passed(kernel: int, seed: int = 1) -> list[list[int]]:
        own = Batches(numbers, data.targets, 10, seed, kernel)
        return [own.next()[0][:, 0].astype(int).tolist() for _ in range(18)]

    first = passed(0)
    assert first == passed(0) and first != passed(1) and first != passed(0, 2)
    for half in (first[:9], first[9:]):
        assert len({number for batch in half for number in batch}) == 90
    assert first[:9] != first[9:]


def test_samples_go_with_their_targets() -> None:
    data = dataset()
    own = Batches(data.train_x, data.targets, 10, 1, 0)
    x, targets = own.next()
    assert np.array_equal(np.argmax(targets, axis=1), np.argmax(x.reshape(10, 4, 3).sum(axis=2), axis=1))
