"""Builds the step of a sharding; what it is stands in :mod:`plinth.step.step`."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from plinth.errors import UserError
from plinth.partition.axes import SAMPLES
from plinth.partition.groups import RING
from plinth.partition.stages import stage_count, stage_of
from plinth.sharding import Sharding
from plinth.step.copies import weights_of
from plinth.step.interleaving import one_forward_one_backward
from plinth.step.layers.kinds import accumulates, layers_of
from plinth.step.operations import Clear
from plinth.step.owned import Generator, Kept, Owned
from plinth.step.reductions import Reductions
from plinth.step.step import Step, loss_scale
from plinth.step.tensors import OnDies
from plinth.step.weights import SpareRows
from plinth.update.numbers import check_numbers
from plinth.update.rule import check_engines
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters


def step_of(sharding: Sharding, target: DieParameters) -> Step:
    """The step of a sharding on dies of some parameters. Plain gradient descent is done on the way through a reduction,
    if dies have an engine for that.

    Raises
    ------
    UserError
        If dies have no engine for the rule, do not hold one of its numbers, or cannot do a layer.
    """
    rule = sharding.rule
    for node in sharding.graph.nodes if sharding.micro_batches > 1 else ():
        if not accumulates(node):
            tiles = ", by tiles" if node.tiling else ""
            raise UserError(f"layer {node.name!r} ({node.kind}{tiles}) adds up no gradients of micro-batches: dense "
                            "layers and convolutions that are computed directly do; plan with one micro-batch")
    check_engines(rule, target)
    check_numbers(rule, loss_scale(target.multiply_format), target.memory_format)
    step = Step(sharding, target)
    _build(step)
    if len(Engine) + step.exchanges > target.counters and target.leaving_flits:
        step = Step(sharding, target, whole_gathers=True)
        _build(step)
    return step


def _build(step: Step) -> None:
    """Its places and operations."""
    graph, parameters = step.graph, step.parameters
    several = stage_count(step.splits[0], step.factors) > 1
    #: Of each node, where there are stages.
    staged = [stage_of(vector, step.factors) if several else None for vector in step.splits]
    for kind, by_layer in (("parameters", step.weights), ("gradients", step.gradients)):
        for number in graph.weighted:
            step.stage = staged[number]
            by_layer[graph.nodes[number].name] = step.reserve(weights_of(step.sharding, number, kind, parameters))
    for weights in step.weights.values():
        if weights.spare:
            step.zeros.append(Clear(f"{weights.name.removesuffix('.parameters')}.spare.zero", None, parameters,
                                    SpareRows(weights), step.any))
    batches = [layers_of(step) for _ in range(step.sharding.micro_batches)]
    for step.stage, *layers in zip(staged, *batches, strict=True):
        layers[0].prepare()
        for layer in layers[1:]:
            layer.prepare_as(layers[0])
    stages = sorted(set(staged), key=lambda stage: stage or 0)
    nodes = [[node for node, its in enumerate(staged) if its == stage] for stage in stages]
    reductions: Reductions | None = None
    for number, step.micro_batch, step.forward in one_forward_one_backward(len(stages), len(batches)):
        layers = batches[step.micro_batch]
        if step.forward:
            step.stage = stages[number]
            for node in nodes[number]:
                layers[node].forward()
        else:
            reductions = reductions or _reductions(step, staged)
            step.stage = stages[number]
            for node in reversed(nodes[number]):
                layers[node].backward(reductions)


def _reductions(step: Step, staged: Sequence[int | None]) -> Reductions:
    """Reductions of gradients, with what they need: made before the first pass backward."""
    _idle(step)
    for number in step.graph.weighted:
        rings = step.members(RING, number)
        if rings not in step.groups:
            step.groups.append(rings)
    reductions = Reductions(step)
    if not (step.rule.plain and Engine.COLLECTIVE in step.parameters.engines):
        _kept(step, reductions, staged)
    return reductions


def _kept(step: Step, reductions: Reductions, staged: Sequence[int | None]) -> None:
    """Vectors beside the weights of each layer."""
    step.stage = None
    if step.rule.stochastic:
        step.generator = step.reserve(Generator("generator", step.parameters))
    for number in step.graph.weighted:
        step.stage = staged[number]
        name, rings = step.graph.nodes[number].name, step.members(RING, number)
        owned = step.owned[name] = Owned(step.weights[name], rings, reductions.pieces(number), step.parameters)
        step.kept[name] = {vector: step.reserve(Kept(f"{name}.{vector}", owned)) for vector in step.rule.vectors}
        if rings.size > 1:
            step.sums[name] = step.reserve(replace(step.gradients[name], name=f"{name}.sums"))


def _idle(step: Step) -> None:
    """The gradient of a die without samples is zero."""
    for number in step.graph.weighted:
        node, here = step.graph.nodes[number], step.layouts[number]
        samples, gradient = here.input.lengths(SAMPLES, step.samples, step.factors), step.gradients[node.name]
        if not samples.all():
            idle = OnDies(gradient, frozenset(np.flatnonzero(samples == 0).tolist()))
            step.zeros.append(Clear(f"{gradient.name}.zero", None, step.parameters, idle, step.any))
