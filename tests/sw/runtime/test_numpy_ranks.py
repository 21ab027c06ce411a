"""Steps in numpy shared among ranks: the bits of one process, whatever ranks have which dies."""

from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from tests.support.networks import WORDS, random_plan, tiled, trainable_network
from tests.support.numpy_ranks import NumpyTraining, Post, ThreadMessages, in_threads
from tests.support.ranks import in_ranks
from tests.support.shares import assert_same

from plinth.array.array import ring
from plinth.network.parameters import initial_parameters
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.plan.planning import given_plan
from plinth.runtime.numpy_executor import NumpyExecutor
from plinth.step.build import step_of
from plinth.step.pairs import between_processes, joined_messages_between, words_between
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import preset


def check(training: NumpyTraining, ranks: list[int]) -> None:
    """Bits of one process in threads that stand for ranks, which send each other the words and messages of the step."""
    outcomes, post = in_threads(training, ranks)
    check_bits(training, ranks, outcomes)
    processes = [np.flatnonzero(np.equal(ranks, rank)).tolist() for rank in range(max(ranks) + 1)]
    words = between_processes(words_between(training.step, whole=True), processes)
    messages = joined_messages_between(training.step, processes)
    for pair in permutations(range(len(processes)), 2):
        assert (post.words[pair], post.messages[pair]) == (
            training.steps * words[pair], training.steps * messages[pair]), pair


def check_bits(training: NumpyTraining, ranks: list[int], outcomes: list[Any]) -> None:
    memories, read = training.on(None)
    for rank, (own, own_read) in enumerate(outcomes):
        assert sorted(own) == [die for die, other in enumerate(ranks) if other == rank]
        for die, places in own.items():
            assert_same(places, memories[die], f"rank {rank} die {die}")
        assert_same(own_read, read, f"rank {rank}")


@pytest.mark.parametrize("seed", range(12))
def test_ranks_have_the_bits_of_one_process(seed: int) -> None:
    """Random networks and plans, on ranks that have any of the dies."""
    generator = np.random.default_rng([21, seed])
    network, dies = trainable_network(generator), (2, 4, 6, 8)[seed % 4]
    plan = random_plan(network, dies, int(generator.integers(dies, 3 * dies + 3)), generator)
    count = int(generator.integers(2, dies + 1))
    ranks = [*range(count), *generator.integers(0, count, dies - count).tolist()]
    generator.shuffle(ranks)
    training = NumpyTraining(network, plan, ("ndp-tiny", "hypar-tiny")[seed % 2])
    check(training, ranks)


@pytest.mark.parametrize(("outputs", "weights", "rounds"), [
    (2, None, None), (4, "winograd", None), (2, "winograd", 2), (2, "winograd", "regions")])
@pytest.mark.parametrize("split", [("dp", "ep"), ("mp", "ep")])
def test_tiles(outputs: int, weights: str | None, rounds: int | str | None, split: tuple[str, str]) -> None:
    """Winograd tiles, also those of predicted gathers and skipped scatters."""
    die = "ndp-demo-winograd" if rounds is None else "ndp-demo-predict"
    training = NumpyTraining(*tiled(outputs, weights, rounds, batch=8, split=split), die)
    for ranks in ([0, 1, 1, 0], [2, 0, 1, 1]):
        check(training, ranks)


@pytest.mark.parametrize("micro_batches", [1, 4])
def test_stages_and_micro_batches(micro_batches: int) -> None:
    """Ranks that have a stage, and ranks that have dies of both."""
    network = NETWORKS["digits-cnn"]
    splits = (*((("pp0", "dp"),) * 2), *((("pp1", "op"),) * 2), ("pp1", "dp"))
    plan = given_plan(from_network(network), ring(4, preset="ndp-tiny"), splits, 16, micro_batches=micro_batches)
    for ranks in ([0, 0, 1, 1], [0, 1, 1, 0], [3, 2, 1, 0]):
        check(NumpyTraining(network, plan, "ndp-tiny"), ranks)


@pytest.mark.parametrize("micro_batches", [1, 4])
def test_ranks_predict_in_stages(micro_batches: int) -> None:
    """Forwards alone, between steps: what one process predicts."""
    network = NETWORKS["digits-mlp"]
    splits = (("pp0",), ("pp1",), ("pp1",), ("pp1",))
    plan = given_plan(from_network(network), ring(2, preset="ndp-tiny"), splits, 8, micro_batches=micro_batches)
    step = step_of(plan.sharding, preset("ndp-tiny"))
    x = np.random.default_rng(8).standard_normal((20, 64)).astype(np.float32)
    y = np.eye(10, dtype=np.float32)[np.arange(8)]

    def predicted(messages: Any) -> Any:
        executor = NumpyExecutor(step, messages)
        executor.view.load(executor, initial_parameters(network, 0))
        before = np.concatenate(list(executor.predictions(x)))
        executor.view.write_batch(executor, x[:8], y)
        executor.step()
        return before, np.concatenate(list(executor.predictions(x)))

    post = Post([0, 1])
    with ThreadPoolExecutor(2) as pool:
        ranks = list(pool.map(lambda own: predicted(ThreadMessages(post, own)), range(2)))
    alone = predicted(None)
    for found in ranks:
        np.testing.assert_array_equal(np.array(found), np.array(alone))
    assert np.abs(alone[0] - alone[1]).max() > 0


@pytest.mark.parametrize("kind", ["momentum", "adagrad", "rmsprop"])
def test_rules_that_keep_states(kind: str) -> None:
    network = NETWORKS["digits-cnn"]
    training = NumpyTraining(network, random_plan(network, 4, 10, np.random.default_rng(5)), "ndp-tiny",
                             UpdateRule(kind, rate=0.002, epsilon=0.01))
    check(training, [0, 1, 0, 1])


def test_rows_by_number() -> None:
    for seed in range(3):
        training = NumpyTraining(WORDS, random_plan(WORDS, 4, 9, np.random.default_rng(seed)), "ndp-tiny")
        check(training, [0, 2, 1, 0])


def test_processes_of_mpi() -> None:
    """Uneven ones, each by its own."""
    generator = np.random.default_rng(22)
    network = trainable_network(generator)
    training = NumpyTraining(network, random_plan(network, 4, 9, generator), "ndp-tiny")
    check_bits(training, [0, 0, 0, 1], in_ranks([(0, 1, 2), (3,)], training))
