"""Builds the step of a plan; what it is stands in :mod:`plinth.step.step`."""

from plinth.partition.cuts import Factors
from plinth.partition.graph import PlanGraph
from plinth.partition.groups import RING, ProcessGroups
from plinth.partition.regions import Partition, Splits
from plinth.step import cuts
from plinth.step.backward import Backward
from plinth.step.forward import Forward
from plinth.step.operations import Barrier, Clear, Reduce
from plinth.step.step import Step
from plinth.step.tensors import Weights
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.tasks import Engine


def step_of(graph: PlanGraph, splits: Splits, batch: int, parameters: DieParameters,
            factors: Factors = (), lists: Partition = ()) -> Step:
    """The step of a network's graph under the given splits, and lists if there are any, on dies of some parameters;
    without factors of the array every level halves."""
    step = Step(graph, splits, batch, parameters, factors, lists)
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
    backward = Backward(step, forward)
    for number in graph.weighted:
        rings = step.members(RING, number)
        if rings not in step.groups:
            step.groups.append(rings)
    reductions = _Reductions(step)
    for one in reversed(made):
        backward.run(one)
        if one.node.weighted:
            reductions.add(one.number)
    return step


def _weights(step: Step, number: int, kind: str) -> Weights:
    """Weights of a layer, or their gradient."""
    node, here = step.graph.nodes[number], step.layouts[number]
    taps = node.weights // (node.input_channels * node.output_channels)
    return step.reserve(Weights(
        f"{node.name}.{kind}", (taps, node.input_channels, node.output_channels), here.weights,
        step.factors, node.bias > 0, cuts.SPARE_ROWS if here.mp and node.gathers else 0))


class _Reductions:
    """Sums of gradients over rings, with the update of the weights.

    Chunks of a message that a die has not started hold up its reduce block's class there. Messages of one set of
    rings come to a die from one other die, in their order, so each set has blocks of its own. Where there are more
    sets than blocks, those of a block take turns: before the other one's next message all dies end what they have.
    """

    def __init__(self, step: Step):
        self._step = step
        blocks = step.parameters.reduce_blocks
        sets = [rings for rings in step.groups if rings.size > 1]
        self._blocks = {rings: range(number % blocks, blocks, len(sets)) for number, rings in enumerate(sets)}
        self._last: dict[int, ProcessGroups] = {}

    def add(self, number: int) -> None:
        """The reduction of one layer."""
        step, node, rings = self._step, self._step.graph.nodes[number], self._step.members(RING, number)
        own = self._blocks.get(rings, range(1))
        block = own[number % len(own)]
        after = None
        if rings.size > 1 and self._last.get(block, rings) != rings:
            after = step.next_exchange()
            step.add(Barrier(node.name, after, step.dies, Engine.COLLECTIVE))
        if rings.size > 1:
            self._last[block] = rings
        step.add(Reduce(node, rings, step.groups.index(rings),
                        number * step.parameters.reduce_blocks + block & 0xFF, step.weights[node.name],
                        step.gradients[node.name], after))
