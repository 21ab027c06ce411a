"""A step is data: it is pickled, and its digest is equal in every process and of equal steps alone."""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import pytest
from tests.support.networks import random_plan, trainable_network

from plinth.array.array import full, ring
from plinth.network.winograd import with_tiles
from plinth.network.zoo import NETWORKS
from plinth.partition.cuts import ranges_of
from plinth.partition.graph import Node, from_network
from plinth.partition.regions import Lists
from plinth.sharding import Sharding
from plinth.step.build import step_of
from plinth.step.digest import digest
from plinth.step.step import Step
from plinth.step.tasks import Task
from plinth.update.rule import FORMS, PLAIN, UpdateRule
from plinth_hw.isa.parameters import preset


def random_step(seed: int) -> Step:
    generator = np.random.default_rng(seed)
    dies = (1, 2, 4, 6)[seed % 4]
    network = trainable_network(generator)
    rule = list(FORMS.values())[seed % 4] if seed % 3 == 0 else PLAIN
    plan = random_plan(network, dies, int(generator.integers(dies, 4 * dies + 3)), generator)
    return step_of(replace(plan.sharding, array=full(dies), rule=rule),
                   preset("fpga-tiny" if rule != PLAIN else ("ndp-tiny", "hypar-tiny")[seed % 2]))


def tiled(die: str, outputs: int = 2, weights: str | None = None, rounds: int | str | None = None,
          dies: int = 4) -> Step:
    graph = from_network(with_tiles(NETWORKS["digits-cnn"], outputs, weights, rounds))
    splits = tuple(("dp", "ep") if node.tiling else ("dp", "dp") for node in graph.nodes) if dies > 1 else (
        ((),) * len(graph.nodes))
    return step_of(Sharding(graph=graph, splits=splits, batch=3 * dies + 1, array=ring(dies)), preset(die))


STEPS: dict[str, Callable[[], Step]] = {
    **{f"random {seed}": lambda seed=seed: random_step(seed) for seed in range(12)},  # type: ignore[misc]
    "tiles": lambda: tiled("ndp-tiny-winograd"), "elements": lambda: tiled("ndp-demo-winograd", 4, "winograd"),
    "mixed": lambda: tiled("ndp-demo-mixed-winograd"), "alone": lambda: tiled("ndp-demo-winograd", dies=1),
    "predicted": lambda: tiled("ndp-demo-predict", rounds=2), "regions": lambda: tiled("ndp-demo-predict",
                                                                                       rounds="regions")}


@pytest.mark.parametrize("which", STEPS)
def test_a_step_is_pickled(which: str) -> None:
    step = STEPS[which]()
    # What was found out about it on the way is no part of it.
    listed = [list(step.tasks(die)) for die in range(step.dies)]
    unpickled = pickle.loads(pickle.dumps(step))
    assert unpickled.digest() == step.digest() == STEPS[which]().digest()
    assert unpickled.sharding == step.sharding and unpickled.place_words() == step.place_words()
    for die, items in enumerate(listed):
        assert list(unpickled.tasks(die)) == items
        assert list(unpickled.tasks(die, 3)) == list(step.tasks(die, 3))
        # Of all tasks each stands for itself, of a node of the graph.
        assert all(item.count == 1 and isinstance(item.node, Node | None) for item in items if isinstance(item, Task))


def test_other_processes_find_the_same() -> None:
    """Whatever the order in which they hash strings; a pickled step as well, whose regions are keys there."""
    step = tiled("ndp-demo-predict", rounds=1)
    script = ("import pickle, sys; step = pickle.load(sys.stdin.buffer); "
              "print(step.digest(), sum(1 for die in range(step.dies) for _ in step.tasks(die)), "
              "len({region: None for here in step.layouts for region in (here.input, here.output)}))")
    wanted = (f"{step.digest()} {sum(1 for die in range(step.dies) for _ in step.tasks(die))} "
              f"{len({region for here in step.layouts for region in (here.input, here.output)})}")
    for seed in ("1", "2"):
        ran = subprocess.run([sys.executable, "-c", script], input=pickle.dumps(step), capture_output=True, check=True,
                             env=os.environ | {"PYTHONHASHSEED": seed})
        assert ran.stdout.decode().strip() == wanted


def test_steps_that_differ_have_other_digests() -> None:
    graph = from_network(NETWORKS["digits-mlp"])
    sharding = Sharding(graph=graph, splits=(("dp", "dp"),) * len(graph.nodes), batch=16, array=ring(4))
    die, other = preset("ndp-tiny"), from_network(NETWORKS["digits-cnn"])
    digests = [step_of(variant, target).digest() for variant, target in (
        (sharding, die), (replace(sharding, batch=17), die),
        (replace(sharding, splits=(("mp", "dp"), *sharding.splits[1:])), die),
        (replace(sharding, rule=UpdateRule(rate=0.2)), die),
        (replace(sharding, graph=other, splits=(("dp", "dp"),) * len(other.nodes)), die),
        (replace(sharding, lists=(Lists(samples=ranges_of((2, 2, 6, 6))),) * len(graph.nodes)), die),
        (replace(sharding, factors=(4,), splits=(("dp",),) * len(graph.nodes)), die), (sharding, preset("ndp-demo")))]
    assert len(set(digests)) == len(digests)
    # Of the array its links alone matter, which say how rings go.
    assert step_of(replace(sharding, array=replace(ring(4), clock_mhz=500)), die).digest() == digests[0]


class Colour(Enum):
    RED, BLUE = 1, 2


@dataclass
class Pair:
    first: object
    second: object


def test_digests_tell_data_apart() -> None:
    values = [None, False, 0, 0.0, -0.0, "0", (), [], {}, frozenset(), (0,), [0], {0: 0}, frozenset({0}), (0, 0),
              ((0,), 0), (0, (0,)), {"a": 1, "b": 2}, {"b": 2, "a": 1}, Colour.RED, Colour.BLUE, Pair(1, 2),
              Pair(2, 1), ("ab", "c"), ("a", "bc"), 1e-300, float("inf")]
    assert len({digest(value) for value in values}) == len(values)
    assert digest(np.int64(7), np.float64(0.5)) == digest(7, 0.5)
    assert digest({1, 2, 3}) == digest({3, 2, 1})
    assert digest("\ud800") == digest("\ud800") != digest("\ud801")
    shared = Pair(1, 2)
    assert digest(shared, shared) == digest(Pair(1, 2), Pair(1, 2))
    for wrong in (len, lambda: 0, object(), np.zeros(2), {"a": [print]}):
        with pytest.raises(TypeError, match="is no plain data"):
            digest(wrong)
