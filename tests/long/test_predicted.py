"""Training with predicted gathers on digits: an epoch on RTL, and a run of the golden model, end with the weights of
one whose gathers send everything, word for word."""


import numpy as np
import pytest
from tests.support.networks import enlarged_digits
from tests.support.sessions import session

from plinth.bench.holdouts import NETWORKS as NETWORKS_28
from plinth.lower.training import lower_training
from plinth.network.network import Network
from plinth.network.winograd import with_tiles
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.plan.plan import Plan
from plinth.sharding import Sharding
from plinth.train.data import digits
from plinth.train.session import Session
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import preset

pytestmark = pytest.mark.long

BATCH = 32


def prepared(rounds: int, network: Network = NETWORKS["digits-cnn"], weights: str = "winograd", batch: int = BATCH, *,
             rtl: bool = False) -> tuple[Network, Plan, Session]:
    """Four dies as two groups and two clusters."""
    network = with_tiles(network, 2, weights, rounds)
    graph = from_network(network)
    splits = tuple(("dp", "ep") if node.tiling else ("dp", "dp") for node in graph.nodes)
    plan = Plan(sharding=Sharding(graph=graph, splits=splits, batch=batch), planner="data", model="exact",
                array="ring-4")
    program = lower_training(network, plan, preset("ndp-demo-predict"), rule=UpdateRule(rate=0.1), steps=1,
                             memory_words=1 << 20)
    data = enlarged_digits() if network.input.positions > 64 else digits()
    return network, plan, session(network, plan, data, program, rtl=rtl)


def weights(session: Session) -> list[np.ndarray]:
    return [session.driver.read(die, buffer) for layer in session.program.weights.values()
            for die, buffer in enumerate(layer.buffers)]


def test_an_epoch_on_rtl() -> None:
    run_weights = []
    for rounds in (0, 1):
        _, plan, session = prepared(rounds, rtl=rounds > 0)
        for step in session.epoch(0):
            assert session.checks is not None and session.checks.failure is None and session.equal, step
        run_weights.append(weights(session))
    least, most = plan.word_bounds
    words = sum(session.driver.injected_words(die) for die in range(4))
    steps = session.compared_steps
    assert steps > 40 and least * steps <= words <= most * steps
    everything = plan.resharded(graph=from_network(with_tiles(NETWORKS["digits-cnn"], 2, "winograd", 0))).words
    print(f"{words / steps:,.0f} words a step, expected {plan.words:,}, of gathers that send everything {everything:,}")
    assert words < everything * steps
    for left, right in zip(*run_weights, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_run_of_the_golden_model(rounds: int) -> None:
    run_weights = []
    for predicted in (0, rounds):
        *_, session = prepared(predicted)
        for epoch in range(8):
            for _ in session.epoch(epoch):
                pass
        run_weights.append(weights(session))
        assert session.losses[-1] < 0.5
    for left, right in zip(*run_weights, strict=True):
        np.testing.assert_array_equal(left, right)


def test_an_epoch_of_a_lenet_on_rtl() -> None:
    """Kernels of 5x5 on maps of 28x28."""
    *_, session = prepared(1, NETWORKS_28["lenet-28"], "spatial", 8, rtl=True)
    for step in session.epoch(0):
        assert session.checks is not None and session.checks.failure is None and session.equal, step
    assert session.compared_steps > 150 and np.mean(session.losses[-5:]) < np.mean(session.losses[:5])
