"""The baseline: training of the whole network, whose words and times are those of a ring."""

import numpy as np
import pytest
from tests.support.local import BATCH, dataset, network, training

from plinth.local.batches import Batches
from plinth.local.coordinator import Ending
from plinth.local.devices import device_step, kernel_devices
from plinth.local.draws import draw_of
from plinth.local.synchronous import Baseline, shards, step_seconds, step_words, times_of, train_synchronously
from plinth.local.training import USUAL_COSTS
from plinth.network.local import MEAN, LocalNetwork
from plinth.network.parameters import initial_parameters

SLOWER = [1.0, 1.0, 4.0]


def trained(dropped: float, steps: int = 6, every: int = 3, accuracy: float | None = None):  # type: ignore[no-untyped-def]
    run = training("2*numpy,numpy/4")
    way = Baseline(batch=BATCH, rule=run.kernels[0].step.rule, dropped=dropped)
    return train_synchronously(network(), dataset(), way, seed=1,
                               times=times_of([USUAL_COSTS] * 3, SLOWER), costs=[USUAL_COSTS] * 3, slower=SLOWER,
                               ending=Ending(batches=steps, accuracy=accuracy), validate=run.validate(),
                               validate_every=every)


def test_weights_are_those_of_one_device() -> None:
    parameters, curve = trained(0.0)
    (device,) = kernel_devices("numpy")
    running = device_step(device, network(), batch=BATCH, rule=device.rule("adagrad", 0.05, None), memory_mib=1).start()
    running.view.load(running.executor, initial_parameters(network(), 1))
    data = dataset()
    batches = Batches(data.train_x, data.targets, BATCH, 1, 0)
    for _ in range(6):
        running.view.write_batch(running.executor, *batches.next())
        running.executor.step(0)
    for name, values in running.view.parameters_of(running.executor).items():
        # What has changed is added to what was there.
        assert np.allclose(parameters[name], values, atol=1e-6)
    assert [point.batches for point in curve] == [3, 6]


@pytest.mark.parametrize("update", ["adagrad", "sgd", "adagrad-printed"])
def test_a_step_with_dropout_is_that_of_the_whole_network_s_own_gradients(update: str) -> None:
    """By a formula in float64: activations of half of the units count twice, the others not at all."""
    (device,) = kernel_devices("numpy")
    rule, data = device.rule(update, 0.05, 1e-4), dataset()
    run = training("numpy")
    parameters, _ = train_synchronously(
        network(), data, Baseline(batch=BATCH, rule=rule, dropped=0.5), seed=1, times=times_of([USUAL_COSTS], [1.0]),
        costs=[USUAL_COSTS], slower=[1.0], ending=Ending(batches=1), validate=run.validate(), validate_every=1)
    local = LocalNetwork(network(), (12, 8, 4, 4), MEAN)
    units = draw_of("uniform", local.hidden, [1, 6]).draw()
    first = {name: values.astype(np.float64) for name, values in initial_parameters(network(), 1).items()}
    x, targets = Batches(data.train_x, data.targets, BATCH, 1, 0).next()
    masks = [np.ones(12), 2.0 * np.isin(np.arange(16), units["fc1"]), 2.0 * np.isin(np.arange(8), units["fc2"])]
    h, tanhs = [x.astype(np.float64)], []
    for n in (1, 2):
        tanhs.append(np.tanh(h[-1] @ first[f"fc{n}.weights"] + first[f"fc{n}.bias"]))
        h.append(tanhs[-1] * masks[n])
    z = h[2] @ first["fc3.weights"] + first["fc3.bias"]
    p = np.exp(z - z.max(axis=1, keepdims=True))
    error = (p / p.sum(axis=1, keepdims=True) - targets) / BATCH
    for n in (3, 2, 1):
        gradients = {"weights": h[n - 1].T @ error, "bias": error.sum(axis=0)}
        if n > 1:
            error = (error @ first[f"fc{n}.weights"].T) * masks[n - 1] * (1 - tanhs[n - 2]**2)
        for what, gradient in gradients.items():
            power = {"sgd": 0, "adagrad": 0.5, "adagrad-printed": 1}[update]
            # A weight of a unit that is left out has no gradient, and no step.
            wanted = -0.05 * gradient / ((gradient**2 + rule.epsilon)**power if power else 1)
            found = parameters[f"fc{n}.{what}"] - first[f"fc{n}.{what}"]
            if power and n > 1 and what == "weights":
                # Epsilon stands beside squares of gradients of weights that are twice as large.
                half = gradient / 2
                wanted = -0.05 * half / (half**2 + rule.epsilon)**power * 2.0**(1 - 2 * power)
            assert np.allclose(found, wanted, rtol=2e-3, atol=2e-6), (n, what)


def test_dropout_trains_parts_of_the_network() -> None:
    whole, _ = trained(0.0)
    first = initial_parameters(network(), 1)
    parameters, curve = trained(0.5, steps=1, every=1)
    changed = (parameters["fc2.weights"] != first["fc2.weights"])
    assert changed.any(axis=1).sum() == 8 and changed.any(axis=0).sum() == 4
    assert not np.array_equal(whole["fc2.weights"], parameters["fc2.weights"]) and len(curve) == 1


def test_shards_are_as_large_as_kernels_are_fast() -> None:
    assert shards(90, SLOWER, True) == [40, 40, 10] and shards(90, SLOWER, False) == [30, 30, 30]
    assert shards(8, [1.0, 1.0, 1.0], True) == [3, 3, 2] and sum(shards(100, [1, 1.3, 2, 7], True)) == 100
    assert shards(1, SLOWER, True) == [1, 0, 0]


def test_words_and_seconds_are_those_of_a_ring() -> None:
    assert step_words(network(), 4) == 2 * 3 * network().parameters and step_words(network(), 1) == 0
    chunk = -(-network().parameters // 3)
    ring = 4 * USUAL_COSTS.message(chunk)
    times = times_of([USUAL_COSTS] * 3, SLOWER)
    assert step_seconds(network(), 90, times, [USUAL_COSTS] * 3, SLOWER, True) == pytest.approx(
        USUAL_COSTS.batch(network(), 40) + ring)
    assert step_seconds(network(), 90, times, [USUAL_COSTS] * 3, SLOWER, False) == pytest.approx(
        4 * USUAL_COSTS.batch(network(), 30) + ring)
    _, curve = trained(0.0)
    assert curve[1].words == 6 * step_words(network(), 3)
    assert curve[1].seconds == pytest.approx(6 * step_seconds(network(), BATCH, times, [USUAL_COSTS] * 3, SLOWER, True))


def test_it_ends_by_accuracy() -> None:
    _, curve = trained(0.0, steps=400, every=10, accuracy=0.7)
    assert (curve[-1].accuracy or 0) >= 0.7 and len(curve) < 40
