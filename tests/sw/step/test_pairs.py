"""Words and messages between dies as a step says them, against what golden dies, each a process of its own, count."""

from dataclasses import replace

import numpy as np
import pytest
from tests.support.networks import random_plan, tiled, trainable_network
from tests.support.shares import RULE, Training, in_threads

from plinth.network.network import Network
from plinth.partition.cuts import Integers
from plinth.plan.plan import Plan
from plinth.runtime.transports import QueueTransport
from plinth.step.build import step_of
from plinth.step.pairs import between_processes, messages_between, words_between
from plinth_hw.isa.parameters import preset


def check(network: Network, plan: Plan, die: str, *, data_decide: bool = False) -> Integers:
    """Of a run of one step; its messages."""
    training = Training(network, plan, die, steps=1)

    def work(end: QueueTransport) -> tuple[dict[int, int], dict[int, int]]:
        training(end)
        return dict(end.words), dict(end.messages)

    outcomes = in_threads([[number] for number in range(plan.dies)], work)
    words, messages = ([[counts[kind].get(other, 0) for other in range(plan.dies)] for counts in outcomes]
                       for kind in range(2))
    step = step_of(replace(plan.sharding, rule=RULE), preset(die))
    assert np.array_equal(messages, messages_between(step))
    assert np.array_equal(words, words_between(step)) != data_decide
    return np.array(messages)


@pytest.mark.parametrize("seed", range(4))
def test_random_plans(seed: int) -> None:
    generator = np.random.default_rng([21, seed])
    network, dies = trainable_network(generator), (2, 4, 6, 8)[seed % 4]
    plan = random_plan(network, dies, int(generator.integers(dies, 3 * dies + 3)), generator)
    messages = check(network, plan, ("ndp-tiny", "hypar-tiny")[seed % 2])
    processes = [range(0, dies, 2), range(1, dies, 2)]
    between = between_processes(messages, processes)
    assert between[0, 1] == messages[::2, 1::2].sum() and between[1, 0] == messages[1::2, ::2].sum()
    assert not between.diagonal().any()


@pytest.mark.parametrize(("outputs", "weights", "rounds"), [(4, "winograd", None), (2, "winograd", 2)])
def test_tiles(outputs: int, weights: str | None, rounds: int | None) -> None:
    """Those of Winograd layers; of predicted gathers data decide the words, but not the messages."""
    network, plan = tiled(outputs, weights, rounds, batch=8, split=("dp", "ep"))
    check(network, plan, "ndp-demo-winograd" if rounds is None else "ndp-demo-predict", data_decide=bool(rounds))
