"""Lowers any plan to the task graphs of one training step.

A stage is a node of the plan with the activations and pools behind it. On each die, for its parts (see
:mod:`plinth.plan.partition`), layer by layer::

    fprop   Z = X W                                  matrix, a task a strip
            Z = rows X of W                          transfer, of an embedding: :mod:`plinth.lower.embedding`
            P[k] = Z of the k-th member              transfer, where input channels are split
            A = f(((P[0] + P[1]) + ...) + b)         vector, at home; f the first activation, if one follows
            M = pools and further activations        vector, at home
            X of the readers = M                     transfer, where they hold other parts
    loss    d = (softmax(Z + b) - t) / batch, p      vector
    bprop   E = sum over readers and their members   transfer, vector: errors of M, at home
            dZ = back through pools and f; db = column sums of dZ
            dZ to all dies that computed Z           transfer, where input channels are split
            dX = dZ W^T                              matrix, a task a strip
    update  dW = X^T dZ                              matrix, the whole part at once
            W, b -= rate * sum over dies of dW, db   collective, one message a ring

Sums over members run in ascending die order, sums over readers in the order of the network's layers, column sums
strip after strip: ``db = (strip 0) + (strip 1) + ...``, rows ascending in each. Where a reader's part is what its
die has at home, nothing is copied.

With operands of 16 bits (data-parallel plans of convolutions and fully connected layers only) the matrix engine reads
X, M, dZ and a copy of W in FP16 or fixed point; weights and gradients stay FP32, and errors are scaled up, which the
learning rate takes back: by :data:`LOSS_SCALE` for FP16, for fixed point by so much that those of a softmax, at most
1 / batch, reach half of what the format holds. Maps that are pooled or flattened have an even number of
channels, for positions are whole words::

    copy    H = narrow(W)                            vector, before fprop

Weights of a layer are followed by its bias in memory, and gradients alike, so that one message reduces both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from plinth.driver.program import Program
from plinth.errors import UserError
from plinth.lower.backward import Backward
from plinth.lower.builder import GraphBuilder
from plinth.lower.forward import Flow, Forward, LoweredStage
from plinth.lower.places import LayerWeights, Tensor, WeightSlice
from plinth.lower.program import assemble, ring_setup
from plinth.lower.stages import POOLS, Stage, stages
from plinth.lower.step import StepBuilder
from plinth.model.array import Array
from plinth.model.layers import Convolution, Dense, Embedding, MaxPool, MeanPool, Relu
from plinth.model.network import Network
from plinth.plan.cost import cuts
from plinth.plan.graph import DP
from plinth.plan.partition import Halvings, bounds, members
from plinth.plan.plan import Plan
from plinth_hw.isa.formats import Fixed, Format
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.tasks import VECTOR_LOADS, CollectiveOperation, Engine, UpdateOperation

#: Factor on errors in FP16; a power of two, so that it rounds nothing.
LOSS_SCALE = 1024.0
#: Rows of a die's group table.
GROUPS = 16


@dataclass(frozen=True, kw_only=True)
class TrainingProgram(Program):
    """A training step with the tensors that the host reads and writes."""

    #: By layer name.
    weights: Mapping[str, LayerWeights]
    gradients: Mapping[str, LayerWeights]
    #: What the network's input is given to: one tensor a reader, all of the same samples.
    inputs: Sequence[Tensor]
    #: One-hot classes or targets, and what the network predicts.
    targets: Tensor
    predictions: Tensor
    #: Outputs of ReLUs and inputs of max-pools by layer name.
    maps: Mapping[str, Tensor]


def lower_training(network: Network, plan: Plan, parameters: DieParameters, *, rate: float, steps: int,
                   memory_words: int) -> TrainingProgram:
    """The graphs of a training step on every die of the plan.

    Parameters
    ----------
    rate : float
        Learning rate, rounded to FP32.
    steps : int
        Steps of an epoch: inputs and targets of that many batches lie in memory, and base registers step through
        them.
    memory_words : int
        Memory of a die.

    Raises
    ------
    UserError
        If a layer or the plan cannot be lowered, or the network does not fit the die's memory, its vector scratchpad
        or its counters.
    """
    found = stages(network)
    narrow = parameters.packing > 1
    _check(plan, found, narrow)
    step = StepBuilder(parameters, plan.dies, narrow)
    scale = _loss_scale(parameters.multiply_format, plan.batch) if narrow else 1.0
    weights = {kind: {stage.name: _weights(step, plan, stage, kind) for stage in found if stage.node.weighted}
               for kind in ("parameters", "gradients")}
    flow = Flow(step, plan, found, weights["parameters"], weights["gradients"], steps, scale)
    for name, layer in flow.weights.items():
        flow.zeros += [(die, buffer.part(f"{name}.spare", piece.words, piece.spare, piece.outputs))
                       for die, (piece, buffer) in enumerate(zip(layer.slices, layer.buffers, strict=True))
                       if piece.spare_words]
    forward = Forward(flow)
    lowered = forward.run()
    backward = Backward(flow, forward)
    groups = _groups(plan, found)
    reductions = _Reductions(flow, groups)
    for made in reversed(lowered):
        backward.stage(made)
        if made.stage.node.weighted:
            reductions.add(made.stage, rate / scale)
    base = assemble(_setup(flow, groups), step.builders, memory_words=memory_words, gradient_scale=scale)
    return TrainingProgram(
        **{field.name: getattr(base, field.name) for field in fields(base)},
        weights=weights["parameters"], gradients=weights["gradients"], inputs=flow.inputs, targets=flow.targets,
        predictions=flow.predictions, maps=_maps(lowered))


def check_array(array: Array) -> None:
    """Refuse an array that no dies can form.

    Raises
    ------
    UserError
        If it has switches without dies.
    """
    if array.switches:
        raise UserError(f"array {array.name!r} is an {array.topology} with {array.switches} switches without dies: it "
                        "can be planned for and simulated, not lowered; choose a ring, a torus or a full array")


def _loss_scale(operands: Format, batch: int) -> float:
    """Factor on errors where operands have 16 bits; a power of two, so that it rounds nothing."""
    if isinstance(operands, Fixed):
        return 2.0 ** (operands.integer_bits - 1 + batch.bit_length() - 1)
    return LOSS_SCALE


def _check(plan: Plan, found: Sequence[Stage], narrow: bool) -> None:
    """Refuse what has no lowering."""
    if plan.batch < plan.dies:
        raise UserError(f"a batch of {plan.batch} leaves some of {plan.dies} dies without samples; give a batch of at "
                        f"least {plan.dies}")
    if not narrow:
        return
    for stage, splits in zip(found, plan.splits, strict=True):
        if set(splits) - {DP} or not (isinstance(stage.layer, (Convolution, Dense)) or stage.layer.is_loss):
            raise UserError(f"layer {stage.name!r} cannot be lowered with operands of 16 bits: it is neither "
                            "convolution nor fully connected layer, or its batch is not split; choose --format fp32 or "
                            "planner data")
        node = stage.node
        pooled = any(isinstance(follower.layer, POOLS) for follower in stage.followers)
        flattened = isinstance(stage.layer, Dense) and node.input_elements > node.input_channels
        if (pooled and node.output_channels % 2) or (flattened and node.input_channels % 2):
            raise UserError(f"layer {stage.name!r} cannot be lowered with operands of 16 bits: a map that is pooled or "
                            "flattened needs an even number of channels; choose --format fp32")
        for layer in (follower.layer for follower in stage.followers):
            if isinstance(layer, MeanPool) and layer.kernel[1] > max(VECTOR_LOADS, layer.stride[1]):
                raise UserError(f"layer {layer.name!r} cannot be lowered with operands of 16 bits: it adds up windows "
                                f"of {layer.kernel[1]} columns that overlap; choose --format fp32")


def _weights(step: StepBuilder, plan: Plan, stage: Stage, kind: str) -> LayerWeights:
    """Places of a layer's weights or gradients."""
    node, here = stage.node, plan.layouts[stage.number]
    first_input, last_input = bounds(node.input_channels, here.mp, plan.levels)
    first_output, last_output = bounds(node.output_channels, here.op, plan.levels)
    taps = node.weights // (node.input_channels * node.output_channels)
    spare = cuts.SPARE_ROWS if here.mp and isinstance(stage.layer, Embedding) else 0
    slices = [WeightSlice(taps, int(first_input[die]), int(last_input[die] - first_input[die]),
                          int(first_output[die]), int(last_output[die] - first_output[die]), node.bias > 0, spare)
              for die in range(plan.dies)]
    places = step.place(f"{stage.name}.{kind}", [(1, piece.words + piece.spare_words) for piece in slices])
    return LayerWeights(
        (taps, node.input_channels, node.output_channels), slices,
        [place.part(place.name, 0, 1, piece.words) for place, piece in zip(places, slices, strict=True)],
        [tuple(map(int, ring)) for ring in members(here.dp, plan.levels)])


def _groups(plan: Plan, found: Sequence[Stage]) -> dict[Halvings, int]:
    """Row of the group table for each set of levels over which some layer reduces.

    Raises
    ------
    UserError
        If there are more than the table has rows.
    """
    groups: dict[Halvings, int] = {}
    for stage in found:
        if stage.node.weighted:
            groups.setdefault(plan.layouts[stage.number].dp, len(groups))
    if len(groups) > GROUPS:
        raise UserError(f"the plan reduces weights over {len(groups)} different groups of dies, more than the "
                        f"{GROUPS} of a die's table; choose a plan with fewer kinds of splits")
    return groups


def _setup(flow: Flow, groups: Mapping[Halvings, int]) -> list[GraphBuilder]:
    """Graphs that tell every die its rings, and fill with zeros what no step writes."""
    parameters = flow.step.parameters
    graphs = [GraphBuilder(parameters) for _ in range(flow.plan.dies)]
    for over, group in groups.items():
        for ring in members(over, flow.plan.levels):
            for die in ring:
                ring_setup(parameters, ring.tolist(), int(die), group, graphs[die])
    for die, place in flow.zeros:
        flow.step.zero(graphs[die], f"{place.name}.zero", place)
    return graphs


class _Reductions:
    """Sums of gradients over rings, with the update of the weights.

    Chunks of a message that a die has not started hold up its reduce block's class there. Messages of one set of
    rings come to a die from one other die, in their order, so each set has blocks of its own. Where there are more
    sets than blocks, those of a block take turns: before the other one's next message all dies end what they have.
    """

    def __init__(self, flow: Flow, groups: Mapping[Halvings, int]):
        self._flow = flow
        self._groups = groups
        blocks = flow.step.parameters.reduce_blocks
        sets = [over for over in groups if over]
        self._blocks = {over: range(number % blocks, blocks, len(sets)) for number, over in enumerate(sets)}
        self._last: dict[int, Halvings] = {}

    def add(self, stage: Stage, rate: float) -> None:
        """The reduction of one layer."""
        flow, over = self._flow, self._flow.plan.layouts[stage.number].dp
        weights, gradients = flow.weights[stage.name], flow.gradients[stage.name]
        own = self._blocks.get(over, range(1))
        block = own[stage.number % len(own)]
        turns = bool(over) and self._last.get(block, over) != over
        after = flow.step.barrier(stage.name, Engine.COLLECTIVE) if turns else None
        if over:
            self._last[block] = over
        for die, piece in enumerate(weights.slices):
            if not piece.words:
                continue
            source, target = gradients.buffers[die], weights.buffers[die]
            flow.step.builders[die].add(
                f"{stage.name}.all_reduce", Engine.COLLECTIVE, CollectiveOperation.ALL_REDUCE, {
                    "source": source.pointer, "destination": target.pointer, "words": piece.words,
                    "group": self._groups[over], "update": UpdateOperation.SGD,
                    "message": stage.number * flow.step.parameters.reduce_blocks + block & 0xFF,
                    "rate": int(np.float32(rate).view(np.uint32)),
                }, reads=[source], writes=[target], after=[after[die]] if after else [])


def _maps(lowered: Sequence[LoweredStage]) -> dict[str, Tensor]:
    """Maps that decide kinks."""
    found = {}
    for stage in lowered:
        for follower, source, target in stage.followed:
            if isinstance(follower.layer, Relu):
                found[follower.layer.name] = target
            elif isinstance(follower.layer, MaxPool):
                found[follower.layer.name] = source
    return found
