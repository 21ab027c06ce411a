"""Embeddings whose rows move one by one: gradients are those of the network, sums are in die order, words are those
that the batches call for, on golden, co-simulated and numpy dies, in any number of processes."""

import re
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from tests.support.lookups import frequent_words, language_model, random_sync, random_tables, with_rows
from tests.support.networks import random_data, random_plan
from tests.support.numpy_ranks import NumpyTraining, in_threads
from tests.support.sessions import MEMORY_WORDS, session
from tests.support.shares import assert_same

from plinth.array.array import ring
from plinth.errors import UserError
from plinth.lower.lookups import LookupNumbers
from plinth.lower.training import TrainingProgram, lower_training
from plinth.network.network import Network
from plinth.plan.plan import Plan
from plinth.plan.planning import data_parallel
from plinth.sharding import Gathered, Server, Sync
from plinth.step.build import step_of
from plinth.step.pairs import between_processes, joined_messages_between, row_words_between, words_between
from plinth.train.session import epoch_order
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import preset

SERVERS = Server((0, 1, 2, 3), 4, interleaved=True)
RULE = UpdateRule(rate=0.1)


def lowered(network: Network, plan: Plan, name: str, rule: UpdateRule = RULE) -> TrainingProgram:
    return lower_training(network, plan, preset(name), rule=rule, steps=3, memory_words=MEMORY_WORDS)


def random_case(seed: int, dies: int) -> tuple[Network, Plan, np.random.Generator]:
    """A network, a plan that splits anything, and rows that anybody owns."""
    generator = np.random.default_rng([seed, dies])
    network = random_tables(generator)
    plan = random_plan(network, dies, int(generator.integers(dies, 4 * dies + 3)), generator)
    tables = {node.name: random_sync(generator, node.matrix[1], dies) for node in plan.graph.nodes if node.gathers}
    return network, with_rows(plan, **tables), generator


@pytest.mark.parametrize("dies", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("seed", range(6))
def test_gradients_are_those_of_the_network(seed: int, dies: int) -> None:
    """Against float64, as are weights behind each step."""
    network, plan, generator = random_case(seed, dies)
    program = lowered(network, plan, ("ndp-tiny", "hypar-tiny")[seed % 2])
    data = (frequent_words if seed % 3 else random_data)(network, 3 * plan.batch, generator)
    run = session(network, plan, data, program)
    assert program.batches == 1
    assert len(list(run.epoch(0))) == 3
    assert run.gradient_error < 1e-5
    moved, (least, most) = program.row_words(run.rows), (
        sum(reduction.word_bounds[end] for reduction in plan.reductions if reduction.bounds) for end in (0, 1))
    assert 3 * least <= moved <= 3 * most


@pytest.mark.parametrize("rule", [
    UpdateRule("momentum", rate=0.1, momentum=0.9), UpdateRule("adagrad", rate=0.1), RULE])
def test_servers_and_gathered_rows_are_equal_bit_by_bit(rule: UpdateRule) -> None:
    """Both add up in die order, with every rule; all-reduce of the table goes round its ring."""
    network = language_model(rows=12, words=8)
    data = frequent_words(network, 72, np.random.default_rng(2))
    weights: dict[str, Any] = {}
    for name, sync in {"server": SERVERS, "one": Server((2,), 1), "gathered": Gathered()}.items():
        plan = with_rows(data_parallel(network, dies=4, batch=24), table=sync)
        run = session(network, plan, data, lowered(network, plan, "ndp-tiny", rule), rule=rule)
        assert len(list(run.epoch(0))) == 3
        weights[name] = {**run.parameters(run.driver), **{
            f"{layer}.{vector}": values for layer, vectors in run.kept(run.driver).items()
            for vector, values in vectors.items()}}
        copies = run.program.copies_of(run.driver)["table"]
        assert len(copies) == (4 if name == "gathered" else 1)
        assert all(np.array_equal(copy, copies[0]) for copy in copies)
    for name in ("one", "gathered"):
        assert_same(weights[name], weights["server"], name)


def test_the_owner_adds_in_die_order() -> None:
    """By a sum that is written down here: each die's samples first, then die by die."""
    network = language_model(rows=5, words=6)
    data = frequent_words(network, 8, np.random.default_rng(3))
    plan = with_rows(data_parallel(network, dies=4, batch=8), table=SERVERS)
    program = lowered(network, plan, "ndp-tiny")
    run = session(network, plan, data, program)
    before = run.parameters(run.driver)["table.weights"]
    (order,) = epoch_order(8, 8, 0, 0)
    list(run.epoch(0))
    looked_up = program.outputs_of(run.driver, ["table"])["table"].reshape(8, 6, 8)
    assert np.array_equal(looked_up, before[data.train_x[order]])
    sums = np.zeros((5, 8), np.float32)
    errors = run.driver.collect_floats([(die, program.buffers["hidden.input_error"]) for die in range(4)])
    for die, own in enumerate(errors):
        rows = np.zeros((5, 8), np.float32)
        for number, sample in zip(order[2 * die:2 * die + 2], own.reshape(2, 6, 8), strict=True):
            for row, error in zip(data.train_x[number], sample, strict=True):
                rows[row] += error
        sums += rows
    assert np.array_equal(run.parameters(run.driver)["table.weights"], before - np.float32(0.1) * sums)


@pytest.mark.parametrize("seed", range(8))
def test_numpy_in_ranks(seed: int) -> None:
    """The bits of one process, whichever ranks have which dies, and the words that the batches call for."""
    dies = (2, 3, 4, 6)[seed % 4]
    network, plan, generator = random_case(seed, dies)
    training = NumpyTraining(network, plan, "ndp-tiny")
    count = int(generator.integers(2, dies + 1))
    ranks = [*range(count), *generator.integers(0, count, dies - count).tolist()]
    outcomes, post = in_threads(training, ranks)
    memories, read = training.on(None)
    for rank, (own, own_read) in enumerate(outcomes):
        for die, places in own.items():
            assert_same({name: words for name, words in places.items() if not _scratch(name)},
                        {name: words for name, words in memories[die].items() if not _scratch(name)},
                        f"rank {rank} die {die}")
        assert_same(own_read, read, f"rank {rank}")
    processes = [np.flatnonzero(np.equal(ranks, rank)).tolist() for rank in range(count)]
    step = training.step
    words = between_processes(training.steps * words_between(step, whole=True, rows={}) + row_words_between(
        step, read["rows"]), processes)
    messages = joined_messages_between(step, processes)
    for pair in permutations(range(count), 2):
        assert (post.words[pair], post.messages[pair]) == (words[pair], training.steps * messages[pair]), pair


def _scratch(name: str) -> bool:
    """Places of which only as much is written as a batch has rows."""
    return name.endswith((".slots", ".rows", ".lists"))


@pytest.mark.xdist_group("tiny-dies")
@pytest.mark.parametrize("sync", [SERVERS, Server((1, 3), 2), Gathered()])
def test_rtl_equals_golden(sync: Sync) -> None:
    network = language_model(rows=24, width=6)
    plan = with_rows(data_parallel(network, dies=4, batch=12), table=sync)
    program = lowered(network, plan, "ndp-tiny")
    run = session(network, plan, frequent_words(network, 36, np.random.default_rng(5)), program, rtl=True)
    assert len(list(run.epoch(0))) == 3
    assert run.equal and run.compared_steps == 3
    assert run.gradient_error < 1e-5
    planned = 3 * (plan.words - program.row_words(program.expected_rows())) + program.row_words(run.rows)
    assert sum(run.driver.injected_words(die) for die in range(4)) == planned


def test_lists_have_each_row_once() -> None:
    """Of a batch of which one die looks up one row again and again, and another all."""
    network = language_model(rows=6, words=6, width=4)
    plan = with_rows(data_parallel(network, dies=2, batch=2), table=Server((0, 1), 2))
    (numbers,) = lowered(network, plan, "ndp-tiny").inputs
    assert isinstance(numbers, LookupNumbers)
    first, second = numbers.looked_up(np.array([[4] * 6, range(6)]))
    # Die 0 needs no row of its own: one goes that nobody looks up.
    assert {owner: rows.tolist() for owner, rows in first.rows.items()} == {0: [0], 1: [1]}
    assert first.numbers.tolist() == [[3] * 6]
    assert {owner: rows.tolist() for owner, rows in second.rows.items()} == {0: [0, 1, 2], 1: [0, 1, 2]}
    assert second.numbers.tolist() == [list(range(6))]
    assert numbers.rows(np.array([[4] * 6, range(6)])).tolist() == [[1, 3], [1, 3]]


@pytest.mark.parametrize(("values", "why"), [
    ([[0, 1, 6, 2], [5, 5, 5, 5]], "input must be row numbers from 0 to 5, not 6, which stands at position 2 of sample "
     "0 of the batch"),
    ([[0] * 4, [5, -1, 7, 0]], "input must be row numbers from 0 to 5, not -1, which stands at position 1 of sample 1"),
    ([[1] * 3] * 2, "input must be real numbers of shape [2, 4], not int64 [2, 3]")])
def test_row_numbers_are_checked(values: Any, why: str) -> None:
    network = language_model(rows=6)
    plan = with_rows(data_parallel(network, dies=1, batch=2), table=Server((0,), 1))
    program = lowered(network, plan, "ndp-tiny")
    run = session(network, plan, frequent_words(network, 2, np.random.default_rng(1)), program)
    with pytest.raises(UserError, match=re.escape(why)):
        program.write_batch(run.driver, np.array(values), np.eye(10)[:2])


def test_predictions_take_as_many_rows_as_are_said() -> None:
    """A step is the shorter the fewer rows its samples touch; the program is the same."""
    network = language_model(rows=200, words=16, width=16)
    plan = with_rows(data_parallel(network, dies=4, batch=32).resharded(array=ring(4)), table=SERVERS)
    few = replace(plan, sharding=replace(plan.sharding, touched=(("table.weights", 0.05),)))
    steps = [step_of(some.sharding, preset("ndp-demo")) for some in (plan, few)]
    assert steps[0].digest() == steps[1].digest()
    assert few.words < plan.words and few.word_bounds == plan.word_bounds
    # Of 50 rows of an owner three, or all 32 x 16 / 4 numbers may name.
    assert [reduction.words for reduction in few.reductions if reduction.layer == "table"] == [2 * 16 * 12 * 3]
    assert [reduction.words for reduction in plan.reductions if reduction.layer == "table"] == [2 * 16 * 12 * 50]
