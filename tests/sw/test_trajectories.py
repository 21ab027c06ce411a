"""Several steps of every rule on every machine, against a float64 training of its own that starts from initial weights
and is never told what the dies have: a perceptron, its gradients and the rules, written out here once more."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.networks import random_data
from tests.support.sessions import MEMORY_WORDS, session

from plinth.lower.training import lower_training
from plinth.network.network import perceptron
from plinth.network.parameters import KeptVectors, LayerVector, Parameters, initial_parameters, layer_vectors
from plinth.plan.planning import data_parallel
from plinth.train.data import Dataset
from plinth.update.kinds import ADAGRAD, ADAGRAD_PRINTED, KINDS, LAWS, MOMENTUM, RMSPROP, SGD
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import preset

Doubles = NDArray[np.float64]

SIZES, BATCH, STEPS = (12, 40, 24, 6), 32, 4
NETWORK = perceptron("small", SIZES)
RULES = {SGD: UpdateRule(SGD, rate=0.1), MOMENTUM: UpdateRule(MOMENTUM, rate=0.05),
         ADAGRAD: UpdateRule(ADAGRAD, rate=0.01, epsilon=1e-2),
         ADAGRAD_PRINTED: UpdateRule(ADAGRAD_PRINTED, rate=0.001, epsilon=1e-2),
         RMSPROP: UpdateRule(RMSPROP, rate=0.01, epsilon=1e-2, decay=0.9)}
CASES = [*((die, RULES[kind]) for die in ("ndp-tiny", "ndp-demo-mixed", "hypar-tiny") for kind in KINDS),
         *(("fpga-demo", replace(RULES[kind], wide=wide, stochastic=stochastic))
           for kind in KINDS if LAWS[kind].optimised
           for wide, stochastic in ((False, False), (True, False), (False, True)))]


@dataclass
class Trained:
    """Weights then bias of each layer, flat, and their states."""

    weights: list[Doubles]
    states: list[Doubles]


def gradients(weights: list[Doubles], x: Doubles, classes: NDArray[np.int64]) -> list[Doubles]:
    """Of the mean cross-entropy of a perceptron with ReLUs."""
    shaped = [(flat[:-outputs].reshape(inputs, outputs), flat[-outputs:])
              for flat, inputs, outputs in zip(weights, SIZES, SIZES[1:], strict=False)]
    maps = [x]
    for number, (matrix, bias) in enumerate(shaped):
        sums = maps[-1] @ matrix + bias
        maps.append(np.maximum(sums, 0) if number < len(shaped) - 1 else sums)
    shares = np.exp(maps.pop())
    error = shares / shares.sum(axis=1, keepdims=True)
    error[np.arange(len(x)), classes] -= 1
    error /= len(x)
    layer_gradients: list[Doubles] = []
    for (matrix, _), below in zip(shaped[::-1], maps[::-1], strict=True):
        layer_gradients.insert(0, np.concatenate([(below.T @ error).ravel(), error.sum(axis=0)]))
        error = (error @ matrix.T) * (below > 0)
    return layer_gradients


def initial(fixed: bool) -> list[Doubles]:
    """Initial weights, as Q3.12 has them if that is asked for."""
    first = initial_parameters(NETWORK, 0)
    weights = [layer.join(first).astype(np.float64) for layer in layer_vectors(NETWORK)]
    return [np.rint(each * 4096) / 4096 for each in weights] if fixed else weights


def trajectory(rule: UpdateRule, data: Dataset, start: list[Doubles], most: float) -> Iterator[Trained]:
    """The first steps; states end at ``most``."""
    weights = list(start)
    states = [np.zeros_like(each) for each in weights]
    while True:
        slopes = gradients(weights, data.train_x.astype(np.float64), data.train_y)
        for number, slope in enumerate(slopes):
            if rule.kind == SGD:
                weights[number] = weights[number] - rule.rate * slope
            elif rule.kind == MOMENTUM:
                states[number] = 0.9 * states[number] + slope
                weights[number] = weights[number] - rule.rate * states[number]
            elif rule.kind == RMSPROP:
                states[number] = 0.9 * states[number] + 0.1 * slope * slope
                weights[number] = weights[number] - rule.rate * slope / (np.sqrt(states[number]) + 1e-2)
            else:
                states[number] = np.minimum(states[number] + slope * slope, most)
                root = states[number] + rule.epsilon
                root = np.sqrt(root) if rule.kind == ADAGRAD else root
                weights[number] = weights[number] - rule.rate * slope / root
        yield Trained(list(weights), list(states))


def trained(die: str, rule: UpdateRule, data: Dataset) -> Iterator[Trained]:
    """What dies have after each step, low halves added, as of the loss's own gradients."""
    plan = data_parallel(NETWORK, dies=2, batch=BATCH)
    program = lower_training(NETWORK, plan, preset(die), rule=rule, steps=1, memory_words=MEMORY_WORDS)
    run = session(NETWORK, plan, data, program, rule=rule)
    scale = program.gradient_scale ** (2 if rule.kind in (ADAGRAD, ADAGRAD_PRINTED, RMSPROP) else 1)
    for epoch in range(STEPS):
        list(run.epoch(epoch))
        weights, kept = run.parameters(run.driver), run.kept(run.driver)
        states = {} if rule.kind == SGD else {name: vectors["state"] for name, vectors in kept.items()}
        yield Trained([whole(layer, weights, kept, "weights_low") for layer in layer_vectors(NETWORK)],
                      [whole(layer, states, kept, "state_low") / scale for layer in layer_vectors(NETWORK) if states])
    assert run.checks is not None and run.checks.failure is None


def whole(layer: LayerVector, high: Parameters, kept: KeptVectors, low: str) -> Doubles:
    """High halves of a layer with the low ones, if there are some."""
    values = layer.join(high).astype(np.float64)
    halves = {name: vectors[low] for name, vectors in kept.items() if low in vectors}
    return values + layer.join(halves).astype(np.float64) * 2.0**-16 if halves else values


def distances(steps: list[list[Doubles]], start: list[Doubles]) -> list[Doubles]:
    """How long the way is that each layer has gone after each step."""
    ways, last = np.zeros(len(start)), start
    lengths = []
    for step in steps:
        ways = ways + [np.linalg.norm(here - before) for here, before in zip(step, last, strict=True)]
        lengths.append(ways)
        last = step
    return lengths


@pytest.mark.parametrize(("die", "rule"), CASES, ids=str)
def test_steps_follow_float64(die: str, rule: UpdateRule) -> None:
    """Each step adds a share of the way that is gone, which the rounding of its gradient accounts for, and of each
    number a rounding to memory."""
    data = random_data(NETWORK, BATCH, np.random.default_rng(0))
    # Small samples: what Adagrad keeps is to stay within Q3.12.
    data = replace(data, train_x=data.train_x * np.float32(0.25))
    fixed, scale = die.startswith("fpga"), 8.0 ** (2 if rule.squares else 1)
    start = initial(fixed)
    wanted = list(islice(trajectory(rule, data, start, 8 / scale if fixed else np.inf), STEPS))
    die_steps = list(trained(die, rule, data))
    share = {"ndp-tiny": 1e-5, "hypar-tiny": 1e-5, "ndp-demo-mixed": 5e-3, "fpga-demo": 0.05}[die]
    place = (2.0**-28 if rule.wide else 2.0**-12 if rule.stochastic else 2.0**-13) if fixed else 2.0**-24
    for name, origin, ulp in (("weights", start, place), ("states", [np.zeros_like(each) for each in start],
                                                          place / scale if fixed else place * 1e-3)):
        if name == "states" and rule.kind == SGD:
            continue
        ways = distances([getattr(step, name) for step in wanted], origin)
        for step, (dies_have, ought, way) in enumerate(zip(die_steps, wanted, ways, strict=True), 1):
            for layer, (here, there, length) in enumerate(zip(
                    getattr(dies_have, name), getattr(ought, name), way, strict=True)):
                rounding = step * ulp * np.sqrt(there.size)
                off = np.linalg.norm(here - there)
                assert off <= step * share * length + rounding, (name, step, layer)
