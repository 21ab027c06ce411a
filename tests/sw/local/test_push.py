"""n_push by the paper's cost model and by the corrected one, against a search; and n0 from measured batches."""

import numpy as np
import pytest
from tests.support.local import dataset, network, training

from plinth.local.coordinator import Ending, Point
from plinth.local.push import (
    CORRECTED,
    LEAST_PUSH,
    MOST_PUSH,
    PRINTED,
    batches_factor,
    corrected_push,
    fitted_n0,
    printed_push,
    whole_push,
)
from plinth.local.training import USUAL_COSTS, sampled
from plinth.local.tuning import batches_to, tune
from plinth.profile.costs import KernelCosts, units

COMPUTING, MESSAGE = [1e-3, 2e-3, 4e-3], [0.02, 0.03, 0.01]
PUSHES = np.arange(1, 400) / 4


def test_the_printed_optimum_is_the_least_of_equation_2() -> None:
    times = PUSHES * sum(COMPUTING) + 2 / PUSHES * sum(MESSAGE)
    assert printed_push(COMPUTING, MESSAGE) == pytest.approx(PUSHES[np.argmin(times)], abs=0.25)


def test_the_corrected_optimum_is_the_least_time_to_converge() -> None:
    times = [(sum(COMPUTING) + 2 / push * sum(MESSAGE)) * batches_factor(push, 30.0) for push in PUSHES]
    assert corrected_push(COMPUTING, MESSAGE, 30.0) == pytest.approx(PUSHES[np.argmin(times)], abs=0.25)


def test_whole_numbers() -> None:
    assert [whole_push(value, CORRECTED) for value in (0.1, 12.4, 900)] == [LEAST_PUSH, 12, MOST_PUSH]
    assert [whole_push(value, PRINTED) for value in (0.1, 12.4, 900)] == [1, 12, 900]


def test_n0_is_found_again() -> None:
    pushes = [5, 20, 60]
    assert fitted_n0(pushes, [90 * batches_factor(push, 37.0) for push in pushes]) == pytest.approx(37)
    assert fitted_n0(pushes, [100, 90, 80]) == 500 and fitted_n0(pushes, [1, 20, 90]) == LEAST_PUSH


def test_batches_to_a_loss_are_between_validations() -> None:
    curve = [Point(merged=1, batches=batches, words=0, seconds=0, loss=loss, accuracy=None)
             for batches, loss in ((10, 2.0), (20, 1.0), (30, 1.5), (40, 0.5))]
    assert batches_to(curve, 2.0) == 10 and batches_to(curve, 1.5) == 15 and batches_to(curve, 0.75) == 30
    assert batches_to(curve, 0.1) == float("inf")


def test_tuning_sees_a_share_of_the_samples() -> None:
    few = sampled(dataset(400), 0.05, 8, 1)
    assert len(few.train_x) == 20 and np.array_equal(few.train_x, few.test_x)
    assert len(sampled(dataset(100), 0.05, 40, 1).train_x) == 40
    tuned = tune(training("golden:fpga-tiny,numpy/4", widths=(12, 8, 8, 4)))
    assert 5 <= tuned.n0 <= 500 and set(tuned.batches) == {5, 20, 60}
    assert all(0 < count <= 480 for count in tuned.batches.values())


def test_costs_are_those_of_table_2() -> None:
    """Of the perceptron 12-16-8-4: 12 16 + 16 8 + 8 4 products, and 40 units."""
    costs = KernelCosts(flop_seconds=2.0, act_seconds=3.0, err_seconds=5.0, batch_seconds=7.0, net_seconds=11.0,
                        word_seconds=13.0)
    products = 12 * 16 + 16 * 8 + 8 * 4
    assert network().macs == products and units(network()) == 40
    assert costs.forward(network(), 10) == 10 * (2 * products + 3 * 40)
    assert costs.backward(network(), 10) == 10 * (4 * products + 5 * 40)
    assert costs.batch(network(), 10) == 7 + 10 * (6 * products + 8 * 40)
    assert costs.message(100) == 11 + 1300


def test_virtual_times_are_two_messages_and_batches() -> None:
    run = training("numpy,numpy/4")
    fast, slow = run.kernels
    assert slow.computing_seconds(8) == 4 * fast.computing_seconds(8) == 4 * USUAL_COSTS.batch(fast.local.network, 8)
    result = run.run_virtually(push=3, ending=Ending(batches=3), validate_every=1)
    words = fast.local.words
    wanted = USUAL_COSTS.message(words + 12) + 3 * fast.computing_seconds(8) + USUAL_COSTS.message(words)
    assert result.curve[0].seconds == pytest.approx(wanted)
