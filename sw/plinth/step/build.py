"""Builds the step of a plan; what it is stands in :mod:`plinth.step.step`."""

from plinth.buffers import Buffer
from plinth.model.array import Array
from plinth.partition.axes import SAMPLES
from plinth.partition.cuts import Factors, Integers
from plinth.partition.graph import PlanGraph
from plinth.partition.groups import RING
from plinth.partition.regions import Partition, Splits
from plinth.step import cuts
from plinth.step.backward import Backward
from plinth.step.forward import Forward
from plinth.step.operations import Clear
from plinth.step.reductions import Reductions
from plinth.step.step import Step
from plinth.step.tensors import Weights
from plinth_hw.isa.parameters import DieParameters


def step_of(graph: PlanGraph, splits: Splits, batch: int, parameters: DieParameters,
            factors: Factors = (), lists: Partition = (), array: Array | None = None) -> Step:
    """The step of a network's graph under the given splits, and lists if there are any, on dies of some parameters;
    without factors of the array every level halves, without an array no two rings meet on a link."""
    step = Step(graph, splits, batch, parameters, factors, lists, array)
    for kind, found in (("parameters", step.weights), ("gradients", step.gradients)):
        for number in graph.weighted:
            found[graph.nodes[number].name] = _weights(step, number, kind)
    for weights in step.weights.values():
        if weights.spare:
            step.zeros.append(Clear(f"{weights.name.removesuffix('.parameters')}.spare.zero", None, parameters,
                                    weights.spare_rows, step.any))
    forward = Forward(step)
    made = forward.run()
    step.forward_operations = len(step.operations)
    _idle(step)
    backward = Backward(step, forward)
    for number in graph.weighted:
        rings = step.members(RING, number)
        if rings not in step.groups:
            step.groups.append(rings)
    reductions = Reductions(step)
    for one in reversed(made):
        backward.run(one, reductions)
    return step


def _weights(step: Step, number: int, kind: str) -> Weights:
    """Weights of a layer, or their gradient."""
    node, here = step.graph.nodes[number], step.layouts[number]
    taps = node.weights // (node.input_channels * node.output_channels)
    return step.reserve(Weights(
        f"{node.name}.{kind}", (taps, node.input_channels, node.output_channels), here.weights,
        step.factors, node.bias > 0, cuts.SPARE_ROWS if here.mp and node.gathers else 0))


def _idle(step: Step) -> None:
    """The gradient of a die without samples is zero."""
    for number in step.graph.weighted:
        node, here = step.graph.nodes[number], step.layouts[number]
        samples, gradient = here.input.lengths(SAMPLES, step.batch, step.factors), step.gradients[node.name]
        if samples.all():
            continue

        def place(die: int, samples: Integers = samples, gradient: Weights = gradient) -> Buffer:
            return Buffer(gradient.name, 0, 0, 0, 1) if samples[die] else gradient.buffer(die)

        step.zeros.append(Clear(f"{gradient.name}.zero", None, step.parameters, place, step.any))
