"""The predicted step, and the planner that minimises it: never worse than any other."""

import random
from dataclasses import replace
from fractions import Fraction

import pytest
from tests.support.plan_graphs import dense, random_chain, random_graph

from plinth.array.array import ARRAYS, Array, prime_factors, ring
from plinth.errors import UserError
from plinth.network.layers import Convolution, Flatten, Relu, Shape, SoftmaxCrossEntropy
from plinth.network.network import Network
from plinth.network.winograd import with_tiles
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import DP, SPLITS, chain, from_network
from plinth.partition.groups import RING, process_groups
from plinth.plan.planners.exhaustive import exhaustive
from plinth.plan.planning import SPLITTERS, plan_network, task

TORUS = Array(name="torus", topology="torus", dies=8, dimensions=(2, 4), preset="ndp-tiny", link_rate=Fraction(1, 2))
OTHERS = [name for name in SPLITTERS if name not in ("joint", "exhaustive")]


@pytest.mark.parametrize("trial", [
    1, 2, *(pytest.param(trial, marks=pytest.mark.slow) for trial in (0, *range(3, 16)))])
def test_joint_is_never_worse_than_any_other_planner(trial: int) -> None:
    rng = random.Random(trial)
    sizes = ((4, 8, 16, 32), (3, 5, 7, 10), (64, 256))[trial % 3]
    graph = random_chain(rng, rng.randint(1, 6), sizes) if trial % 2 else random_graph(rng, rng.randint(1, 2), sizes)
    array = (TORUS, ring(4, preset="ndp-tiny"), ARRAYS["full-2"])[trial % 3]
    for model in ("exact", "published"):
        problem = task(graph, array, model, rng.choice((7, 16, 64)))
        best = problem.time.seconds(SPLITTERS["joint"](problem))
        for name in OTHERS:
            assert best <= problem.time.seconds(SPLITTERS[name](problem)), name


@pytest.mark.slow
def test_the_gap_to_every_combination_is_small() -> None:
    rng = random.Random(4)
    gaps = []
    for _ in range(4):
        graph = random_chain(rng, 3, (4, 16, 64))
        problem = task(graph, ring(4, preset="ndp-tiny", link_rate=Fraction(1, 4)), "exact", 16)
        best = problem.time.seconds(exhaustive(graph, 2, problem.time.cycles, SPLITS))
        gaps.append(problem.time.seconds(SPLITTERS["joint"](problem)) / best - 1)
    assert min(gaps) >= -1e-9
    assert max(gaps) < 0.025


def test_the_published_model_keeps_joint_to_its_splits() -> None:
    problem = task(from_network(NETWORKS["sfc"]), ARRAYS["hypar-16"], "published", 256)
    assert not any("op" in vector for vector in SPLITTERS["joint"](problem))


def test_parts_of_a_step_add_up_and_one_die_has_no_communication() -> None:
    graph = from_network(NETWORKS["lenet-c"])
    alone = task(graph, ring(1), "exact", 64)
    step = alone.time.step(SPLITTERS["joint"](alone))
    assert step.transfers == 0 and step.exposed <= step.reductions
    problem = task(graph, TORUS, "exact", 64)
    for name in OTHERS:
        step = problem.time.step(SPLITTERS[name](problem))
        assert step.cycles == pytest.approx(step.compute + step.transfers + step.exposed)
        assert 0 <= step.exposed <= step.reductions
        assert step.compute < alone.time.step(SPLITTERS["data"](alone)).compute


def test_slower_links_and_dies_make_longer_steps() -> None:
    graph = from_network(NETWORKS["digits-mlp"])
    array = ring(4)

    def seconds(array: Array, planner: str = "model") -> float:
        problem = task(graph, array, "exact", 128)
        return problem.time.seconds(SPLITTERS[planner](problem))

    assert seconds(replace(array, link_rate=Fraction(1, 8))) > seconds(array)
    assert seconds(replace(array, link_latency=500)) > seconds(array)
    assert seconds(replace(array, clock_mhz=Fraction(500))) == pytest.approx(2 * seconds(array))
    slow = replace(array, speeds=(Fraction(1), Fraction(1), Fraction(1), Fraction(1, 4)))
    assert seconds(slow) > seconds(array)
    assert seconds(slow, "joint") <= seconds(slow, "data")


def test_a_ring_reduction_takes_what_its_links_allow() -> None:
    words = 100_000
    problem = task(chain("one", [dense("fc", 10, 10)]), ring(4, link_rate=Fraction(1, 2), link_latency=1), "exact", 4)
    rings = process_groups(RING, (0, 1), problem.factors)
    assert problem.time.links.ring(rings, words) == pytest.approx(2 * 3 / 4 * words / 0.5, rel=1e-3)


@pytest.mark.parametrize("name", ["alexnet-tower", "fractalnet-4-4"])
def test_large_arrays_are_planned(name: str) -> None:
    side = Array(name="torus-256", topology="torus", dies=256, dimensions=(16, 16), preset="ndp-bench")
    problem = task(from_network(NETWORKS[name]), side, "exact", 250)
    best = SPLITTERS["hypar"](problem)
    assert problem.time.seconds(best) > 0 and problem.words.total_bytes(best) <= problem.words.total_bytes(
        SPLITTERS["data"](problem))


@pytest.mark.parametrize("planner", sorted(SPLITTERS))
@pytest.mark.parametrize("dies", [3, 5, 6, 12])
def test_dies_that_are_no_power_of_two_are_planned_by_the_levels_of_their_factors(planner: str, dies: int) -> None:
    planned = plan_network(NETWORKS["digits-mlp"], ring(dies), planner=planner, batch=60)
    assert planned.plan.factors == prime_factors(dies) and planned.plan.dies == dies
    assert planned.plan.words == planned.outcome.injected_words
    if planner == "exhaustive":
        assert planned.outcome.injected_words < planned.baselines["data"].injected_words
    if planner == "joint":
        assert planned.outcome.predicted_seconds <= planned.baselines["data"].predicted_seconds


def test_the_published_model_knows_halves_only() -> None:
    with pytest.raises(UserError, match="6 dies have levels of 3, 2 parts; choose model=exact"):
        plan_network(NETWORKS["digits-mlp"], ring(6), planner="hypar", model="published")


def test_a_planned_network_states_its_baselines() -> None:
    planned = plan_network(NETWORKS["lenet-c"], ARRAYS["hypar-16"], batch=100)
    assert planned.plan.words == planned.outcome.injected_words
    assert set(planned.baselines) == {"data", "model"}
    assert planned.outcome.predicted_seconds <= planned.baselines["data"].predicted_seconds
    assert all(split == DP for split in planned.plan.splits[-1])


def test_weight_reductions_hide_behind_what_follows_them() -> None:
    whole = task(chain("one", [dense("fc", 32, 32)]), ring(4), "exact", 64)
    step = whole.time.step(SPLITTERS["data"](whole))
    assert step.exposed == pytest.approx(step.reductions, rel=0.2)
    # Pieces of a larger one go while the next ones are computed.
    pieces = task(chain("pieces", [dense("fc", 128, 128)]), ring(4), "exact", 1024)
    step = pieces.time.step(SPLITTERS["data"](pieces))
    assert step.exposed < 0.6 * step.reductions
    slow = task(chain("two", [dense("fc1", 64, 64), dense("fc2", 64, 64)]),
                ring(4, link_rate=Fraction(1, 100)), "exact", 64)
    step = slow.time.step(SPLITTERS["data"](slow))
    # The second layer's reduction runs beside the first layer's bprop, the first layer's after it.
    assert 0.7 * step.reductions < step.exposed < step.reductions
    fast = task(chain("two", [dense("fc1", 64, 64), dense("fc2", 64, 64)]), ring(4), "exact", 4096)
    step = fast.time.step(SPLITTERS["data"](fast))
    assert step.exposed < 0.7 * step.reductions


@pytest.mark.parametrize(("channels", "after", "able"), [
    (7, Relu(name="relu"), {("op", "dp"), ("ep", "mp"), ("dp", "dp")}),
    (6, Relu(name="relu"), {("op", "dp"), ("ep", "mp"), ("dp", "dp"), ("dp", "ep"), ("ep", "ep")}),
    (8, Relu(name="relu"), {("op", "dp"), ("ep", "mp"), ("dp", "dp"), ("dp", "ep"), ("ep", "ep"), ("op", "ep")}),
    (7, None, {("op", "dp"), ("ep", "mp"), ("dp", "dp"), ("dp", "ep"), ("ep", "ep"), ("op", "ep")})])
def test_splits_that_codes_cannot_take_are_left_out(channels: int, after: Relu | None, able: set) -> None:
    """Dies of ndp-demo-predict code two channels at a time: those of a predicted gather must be even on each."""
    network = with_tiles(Network(name="one", input=Shape((8, 8, 8)), layers=(
        Convolution(name="a", channels=channels, kernel=(3, 3)), *((after,) if after else ()), Flatten(name="flatten"),
        SoftmaxCrossEntropy(name="loss"))), 2, "winograd", 1)
    problem = task(from_network(network), ring(4, preset="ndp-demo-predict", link_rate=Fraction(1, 4)), "exact", 2)
    some = [("op", "dp"), ("ep", "mp"), ("dp", "dp"), ("dp", "ep"), ("ep", "ep"), ("op", "ep")]
    assert {vector for vector in some if problem.time.able(0, vector)} == able
    splits = SPLITTERS["joint"](problem)
    assert problem.time.able(0, splits[0])
    assert problem.time.seconds(splits) <= problem.time.seconds(SPLITTERS["data"](problem))
