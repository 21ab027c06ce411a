"""Training steps of plans with uneven, empty and index-set parts, and parts that other dies own."""

import random
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from tests.support.networks import random_data, random_plan, trainable_network
from tests.support.partitions import random_lists
from tests.support.sessions import MEMORY_WORDS, session

from plinth.array.array import full, ring
from plinth.errors import UserError
from plinth.lower.training import lower_training
from plinth.network.network import Network, perceptron
from plinth.partition.cuts import ranges_of, runs_of
from plinth.partition.groups import RING, ProcessGroups
from plinth.partition.regions import Lists
from plinth.plan.plan import Plan
from plinth.predict.time import StepTime
from plinth.sharding import Ring
from plinth.simulate.rows import layer_rows
from plinth.simulate.step import simulated
from plinth.step.build import step_of
from plinth.step.tasks import Reduction, Signal, TileCopy
from plinth.train.session import Session
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import DieParameters, preset


def trained(network: Network, plan: Plan, seed: int, name: str = "ndp-tiny", **how: bool) -> Session:
    """After a step."""
    program = lower_training(network, plan, preset(name), rule=UpdateRule(), steps=1, memory_words=MEMORY_WORDS)
    run = session(network, plan, random_data(network, plan.batch, np.random.default_rng(seed)), program, **how)
    next(iter(run.epoch(0)))
    return run


def correct(run: Session, plan: Plan) -> None:
    """As float64 has it, and with the words of the plan."""
    assert run.checks is not None and run.checks.failure is None
    assert max(run.checks.largest.values()) < 1e-5
    assert sent(plan, run.program.parameters) == plan.words


def sent(plan: Plan, parameters: DieParameters) -> int:
    """Words of the tiles and messages of all dies."""
    step, words = step_of(plan.sharding, parameters), 0
    for die in range(plan.dies):
        for item in step.tasks(die):
            work = getattr(item, "work", None)
            if isinstance(work, TileCopy) and work.die is not None:
                words += work.source.rows * work.source.columns
            elif isinstance(work, Reduction) and work.ring[0] == die:
                words += 2 * (len(work.ring) - 1) * work.target.columns
    return words


def case(seed: int, dies: int) -> tuple[Network, Plan]:
    """A random network under a random plan with random lists, where rings may go round the dies in any order."""
    generator, rng = np.random.default_rng([seed, dies]), random.Random(seed)
    network = trainable_network(generator)
    plan = random_plan(network, dies, int(generator.integers(1, 4 * dies + 3)), generator)
    return network, plan.resharded(lists=random_lists(rng, plan.graph, plan.splits, plan.batch, plan.factors),
                                   array=full(dies))


@pytest.mark.parametrize(("seed", "dies"), [
    *((seed, dies) for dies in (2, 3, 4) for seed in range(100, 110)), *((seed, 6) for seed in range(100, 104))])
def test_a_step_is_that_of_the_network_under_any_lists(seed: int, dies: int) -> None:
    network, plan = case(seed, dies)
    correct(trained(network, plan, seed, ("ndp-tiny", "hypar-tiny")[seed % 2]), plan)


def weights(run: Session) -> list[np.ndarray]:
    return [np.asarray(values) for values in run.parameters(run.driver).values()]


@pytest.mark.parametrize(("seed", "dies"), [*((seed, dies) for dies in (3, 4) for seed in range(120, 126))])
def test_owners_decide_where_and_never_what(seed: int, dies: int) -> None:
    """Every layer's parts on other dies, the loss's on those of its layer's: all bits are as before."""
    network, plan = case(seed, dies)
    rng = random.Random(seed)
    owners = [tuple(rng.sample(range(dies), dies)) for _ in plan.graph.nodes]
    owners[-1] = owners[-2]
    without = plan.resharded(lists=tuple(replace(lists or Lists(), owners=None) for lists in plan.lists))
    moved = plan.resharded(lists=tuple(replace(lists or Lists(), owners=seats) for lists, seats in
                                       zip(plan.lists, owners, strict=True)))
    unmoved_run, moved_run = trained(network, without, seed), trained(network, moved, seed)
    assert all(np.array_equal(*pair) for pair in zip(weights(unmoved_run), weights(moved_run), strict=True))
    correct(moved_run, moved)


def test_a_ring_that_meets_itself_on_a_link_is_refused() -> None:
    """From 0 to 2, and from 1 to 3, words go by the link from 1 to 2, if a plan says so; of dies that have each other's
    seats rings go along the links."""
    network = perceptron("four", (6, 9, 5, 3))
    plan = random_plan(network, 4, 8, np.random.default_rng(0)).resharded(splits=(("dp", "dp"),) * 4)
    trained(network, plan.resharded(lists=(Lists(owners=(0, 2, 1, 3)), *[None] * 3)), 0)
    copies = tuple((name, Ring(ProcessGroups(RING, ((0, 2, 1, 3),)), 1, 64)) for name in plan.graph.variables)
    crossed = plan.resharded(copies=copies)
    with pytest.raises(UserError, match=r"dies 0, 2, 1, 3 of array 'ring-4' cannot reduce weights in a ring: two"):
        trained(network, crossed, 0)
    trained(network, crossed.resharded(array=full(4), copies=copies), 0)


def mixed(batch: int = 7) -> tuple[Network, Plan]:
    """Three dies: uneven and empty samples, index sets of both channels, other owners."""
    network = perceptron("three", (6, 9, 5, 3))
    plan = random_plan(network, 3, batch, np.random.default_rng(0))
    splits = (("dp",), ("mp",), ("op",), ("dp",))
    lists = (Lists(samples=ranges_of((batch - 3, 0, 3)), owners=(2, 0, 1)),
             Lists(inputs=tuple(map(runs_of, ([0, 2, 4, 8], [], [1, 3, 5, 6, 7])))),
             Lists(outputs=tuple(map(runs_of, ([1], [0, 2], [])))), None)
    return network, plan.resharded(splits=splits, lists=lists)


def test_tiles_between_index_sets_are_one_a_run() -> None:
    network, plan = mixed()
    correct(trained(network, plan, 0), plan)
    assert plan.words == sum(transfer.words for transfer in plan.transfers) + sum(
        reduction.words for reduction in plan.reductions)
    for transfer in plan.transfers:
        assert sum(words for _, _, words in plan.pairs(transfer)) == transfer.words


def test_steps_of_lists_are_predicted_and_simulated() -> None:
    """By the fullest die, whichever it is; task by task as well as in groups, with the words that the plan counts."""
    plan, array = mixed(70)[1], ring(3)
    time = StepTime(plan.graph, plan.batch, array)
    for overlap in (True, False):
        simulation = simulated(plan, array, overlap=overlap)
        assert sum(row.injected_words for row in layer_rows(simulation)) == plan.words
        assert simulation.result.seconds == pytest.approx(time.seconds(plan.splits, plan.lists), rel=0.5)
    wide = random_plan(perceptron("wide", (64, 96, 10)), 3, 96, np.random.default_rng(0)).resharded(
        splits=(("dp",),) * 3)
    time = StepTime(wide.graph, 96, array)
    even = time.seconds(wide.splits)
    for sizes in ((90, 3, 3), (3, 3, 90)):
        uneven = wide.resharded(lists=(Lists(samples=ranges_of(sizes)),) * 3)
        assert time.seconds(uneven.splits, uneven.lists) > 1.5 * even
        assert simulated(uneven, array).result.seconds > 1.5 * simulated(wide, array).result.seconds


def test_a_die_without_weights_signals_that_it_has_nothing_to_sum() -> None:
    """Sets of rings take turns on the reduce blocks, and one die has nothing of any layer."""
    network, array = perceptron("turns", (6, 8, 8, 4)), ring(8)
    empty = Lists(outputs=ranges_of((8, 0)))
    plan = random_plan(network, 8, 16, np.random.default_rng(0)).resharded(
        splits=(("dp", "dp", "op"), ("dp", "op", "dp"), ("op", "dp", "dp"), ("dp",) * 3),
        lists=(empty, empty, Lists(outputs=ranges_of((4, 0))), None))
    step = step_of(plan.sharding, array.die_parameters())
    works = [work for work in (getattr(item, "work", None) for item in step.tasks(7))
             if isinstance(work, (Signal, Reduction))]
    assert works and all(isinstance(work, Signal) for work in works)
    assert sum(row.injected_words for row in layer_rows(simulated(plan, array))) == plan.words
    correct(trained(network, plan, 0), plan)


def test_samples_of_16_bits_are_cut_alike_in_all_layers() -> None:
    network = perceptron("narrow", (6, 8, 4))
    plan = random_plan(network, 2, 8, np.random.default_rng(0)).resharded(splits=(("dp",),) * 3)
    uneven = Lists(samples=tuple(map(runs_of, ([0, 2, 5], [1, 3, 4, 6, 7]))), owners=(1, 0))
    alike, other = plan.resharded(lists=(uneven,) * 3), plan.resharded(lists=(uneven, uneven, None))
    run = trained(network, alike, 0, "ndp-demo-mixed")
    assert run.checks is not None and run.checks.failure is None
    with pytest.raises(UserError, match=r"layers whose samples are not cut alike, .* choose format=fp32"):
        trained(network, other, 0, "ndp-demo-mixed")


def test_more_groups_than_a_table_has_rows_take_turns_in_its_last_one() -> None:
    """Twenty layers, each with a ring of its own: the program rewrites a row between reductions, in every step."""
    network = perceptron("deep", (5,) * 21 + (3,))
    plan = random_plan(network, 4, 8, np.random.default_rng(0)).resharded(splits=(("dp", "dp"),) * 22,
                                                                            array=full(4))
    every = [*permutations(range(4))]
    plan = plan.resharded(lists=(*(Lists(owners=every[number]) for number in range(20)), *[None] * 2))
    run = trained(network, plan, 0)
    groups = [task.name for task in run.program.step[0].tasks if task.name.startswith("set_group")]
    assert len(groups) >= 2 and set(groups) == {"set_group[15]"}
    assert len(run.program.setup[0].tasks) >= 15
    next(iter(run.epoch(1)))
    correct(run, plan)


@pytest.mark.slow
@pytest.mark.xdist_group("tiny-dies")
@pytest.mark.parametrize(("name", "rows"), [("ndp-tiny", 16), ("ndp-tiny", 1), ("hypar-tiny", 16)])
def test_lists_and_owners_on_rtl(name: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where every ring is set by a task before its reduction."""
    monkeypatch.setattr("plinth.step.step.GROUPS", rows)
    network, plan = mixed()
    run = trained(network, plan, 0, name, rtl=True)
    assert any(task.name == "set_group[0]" for task in run.program.step[0].tasks) == (rows == 1)
    assert run.equal and run.compared_steps == 1
    assert sum(run.driver.injected_words(die) for die in range(plan.dies)) == plan.words
    correct(run, plan)
