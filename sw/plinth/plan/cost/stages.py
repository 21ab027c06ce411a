"""Vector work of a node: what follows its sum at home, forwards and backwards, as lowering cuts it in programs.

``narrow`` tells that the die's matrix engine reads numbers of 16 bits: then maps, and the errors that it reads, lie
packed in memory, and vector programs convert them.
"""

from dataclasses import dataclass

from plinth.plan.cost.cuts import folding
from plinth.plan.cost.machine import Work
from plinth.plan.graph import LOSS, Follower, Node, PlanGraph
from plinth.plan.partition import Layout
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.tasks import VECTOR_LOADS, VECTOR_STORES

#: Beats that a pooling task counts for, as lowering cuts.
TASK_BEATS = 64
#: Vector work of filling words with zeros.
CLEARED = Work(0, 1, wise=1)
#: Vector work of copying weights for a matrix engine that reads numbers of 16 bits.
NARROWED = Work(1, 1).packed(0, 1)
#: Vector work of an activation: element-wise instructions and functions, forwards and backwards.
ACTIVATIONS = {"relu": ((1, 0), (1, 0)), "tanh": ((0, 1), (4, 0)), "sigmoid": ((2, 2), (4, 0))}


@dataclass(frozen=True)
class Stage:
    """Vector work of a stage: rows of ``positions`` a sample, or a pool along rows (axis 0) or columns."""

    program: str
    work: Work
    positions: int
    regions: int
    row_regions: int = 0
    follower: Follower | None = None
    axis: int = 0


def is_fused(graph: PlanGraph, number: int, here: Layout) -> bool:
    """Whether the loss adds a node's bias, so that its output needs no stage of its own."""
    node, outputs = graph.nodes[number], graph.outputs[number]
    reader = graph.nodes[graph.edges[outputs[0]].consumer] if outputs else None
    return (reader is not None and reader.kind == LOSS and node.weighted and not node.followers and not here.mp
            and not here.op and not (node.bias and loss_rows(reader) < node.output_positions))


def loss_rows(node: Node) -> int:
    """Rows of a sample in the loss's programs: one over all its classes, else one a position."""
    return 1 if _has_classes(node) else node.input_elements // node.input_channels


def _has_classes(node: Node) -> bool:
    return not node.followers or node.followers[0].kind == "softmax-cross-entropy"


def loss_work(node: Node, before: Node, fused: bool, narrow: bool) -> Work:
    """The loss and its error; if the layer before is ``fused`` with it, the bias of that, too."""
    classes, bias = _has_classes(node), fused and before.bias > 0
    work = Work(2, 2, row_loads=bias, row_stores=bias, sums=bias, wise=bias + (4 if classes else 2),
                reductions=2 * classes, functions=int(classes), column_functions=int(classes))
    return work.packed(int(not fused), 1) if narrow else work


def forward_stages(node: Node, sources: int, narrow: bool) -> list[Stage]:
    """Sum of ``sources``, bias, and what follows."""
    bias, followers = int(node.bias > 0), list(node.followers)
    wise = functions = 0
    if followers and followers[0].kind in ACTIVATIONS:
        (wise, functions), _ = ACTIVATIONS[followers.pop(0).kind]
    work = Work(sources, 1, row_loads=bias, wise=sources - 1 + bias + wise + (node.kind == "join"),
                functions=functions)
    if narrow:
        work = work.packed(0 if node.weighted else sources, 1)
    # Rows of an embedding are at home as they are, unless they are added up or go through an activation.
    bare = node.gathers and sources == 1 and len(followers) == len(node.followers)
    stages = [] if bare else [Stage("forward", work, node.raw_elements // node.output_channels, sources, bias)]
    for follower in followers:
        stages += _follow(follower, narrow)
    return stages


def _follow(follower: Follower, narrow: bool) -> list[Stage]:
    """An activation or a pool, forwards."""
    size = follower.output[0] * follower.output[1]
    if follower.kind in ACTIVATIONS:
        (wise, functions), _ = ACTIVATIONS[follower.kind]
        work = Work(1, 1, wise=wise, functions=functions)
        return [Stage("forward", work.packed(1, 1) if narrow else work, size, 1)]
    mean, found = follower.kind == "mean-pool", []
    for axis in (0, 1):
        rest, later = follower.kernel[axis], 0
        while rest:
            taps = min(VECTOR_LOADS - later, rest)
            rest -= taps
            work = Work(taps + later, 1, wise=taps + later - 1 + (mean and not rest))
            if narrow:
                # Sums of means stay FP32, within a direction and from one to the other.
                work = (work.packed(taps + later, 1) if not mean else work.packed(taps, 0) if axis == 0
                        else work.packed(0, int(not rest)))
            found.append(Stage("pool", work, size, taps + later, follower=follower, axis=axis))
            later = 1
    return found


def backward_stages(node: Node, summed: bool, narrow: bool) -> list[Stage]:
    """Error of a node's map to that of its sum; with ``summed``, the gradient of the bias, too."""
    followers = list(node.followers)
    first = followers.pop(0) if followers and followers[0].kind in ACTIVATIONS else None
    stages: list[Stage] = []
    for follower in reversed(followers):
        stages += _follow_back(follower, narrow)
    # The matrix engine reads a narrow error then.
    narrowed = narrow and node.weighted
    if first is not None or summed or narrowed:
        wise = ACTIVATIONS[first.kind][1][0] if first else 0
        work = Work(1 + (first is not None), int(first is not None or narrowed), row_stores=int(summed), wise=wise,
                    sums=int(summed))
        if narrow:
            work = work.packed(int(first is not None), int(narrowed))
        regions = 1 if first is None else 3 if first.kind == "sigmoid" else 2
        stages.append(Stage("backward", work, node.raw_elements // node.output_channels, regions, 2 * summed))
    return stages


def _follow_back(follower: Follower, narrow: bool) -> list[Stage]:
    """An activation or a pool, backwards."""
    size = follower.output[0] * follower.output[1]
    if follower.kind in ACTIVATIONS:
        _, (wise, _) = ACTIVATIONS[follower.kind]
        work = Work(2, 1, wise=wise)
        return [Stage("backward", work.packed(1, 0) if narrow else work, size, 3 if follower.kind == "sigmoid" else 2)]
    mean, found = follower.kind == "mean-pool", []
    most = (VECTOR_STORES, VECTOR_STORES) if mean else (VECTOR_LOADS - 2, VECTOR_LOADS - 3)
    for axis in (1, 0):
        kernel, stride = follower.kernel[axis], follower.stride[axis]
        fresh, later = min(kernel, stride), min(most[1], stride)
        groups = [(min(most[0], fresh - tap), 0) for tap in range(0, fresh, most[0])]
        groups += [(min(later, kernel - tap), 1) for tap in range(fresh, kernel, later)]
        for index, (taps, adds) in enumerate(groups):
            left = index + 1 < len(groups)
            if mean:
                work = Work(1 + adds * taps, taps, wise=1 + adds * taps)
            else:
                work = Work(2 + taps + adds, taps + left, wise=(3 + adds) * taps)
                if narrow:
                    work = work.packed(1 + taps, 0)
            found.append(Stage("unpool", work, size, work.loads, follower=follower, axis=axis))
    return found


def bias_stage(node: Node) -> Stage:
    """The gradient of the bias alone."""
    return Stage("bias", Work(1, 0, row_stores=1, sums=1), node.raw_elements // node.output_channels, 1, 2)


def folded(parameters: DieParameters, stage: Stage, channels: int) -> int:
    """Positions that a stage takes as one row: of sums over rows, unless maps are narrow, so many that a row has groups
    enough."""
    if stage.work.sums and parameters.packing == 1:
        return folding(parameters, stage.positions, channels)
    return 1


def pool_tasks(parameters: DieParameters, stage: Stage, samples: int, channels: int) -> list[tuple[int, int, int]]:
    """Rows, columns and number of the tasks of a pool over some images, cut as lowering does."""
    follower, axis = stage.follower, stage.axis
    assert follower is not None
    (height, width), (down, across) = follower.size, follower.output
    outer, places, windows, inner = ((samples, height, down, width * channels) if axis == 0 else
                                     (samples * down, width, across, channels))
    beat = parameters.beat_words
    lines = max(1, parameters.vector_buffer_words // beat // stage.regions)
    stride = follower.stride[axis]

    def cut(blocks: int, rows: int, columns: int) -> tuple[int, int, int, int]:
        wide = max(1, min(columns, lines * beat))
        high = max(1, min(rows, lines // -(-wide // beat)))
        return blocks * -(-columns // wide), rows, high, wide

    def cost(found: tuple[int, int, int, int]) -> int:
        blocks, rows, high, wide = found
        return blocks * (TASK_BEATS * -(-rows // high) + rows * -(-wide // beat))

    joined = windows if stride == 1 else 1
    by_outer = cut(-(-windows // joined), outer, joined * inner)
    by_window = cut(1, outer * windows, inner) if windows * stride == places else cut(outer, windows, inner)
    blocks, rows, high, wide = min(by_outer, by_window, key=cost)
    whole = rows // high
    # Whole tasks of each block, and one for the rows that are left.
    return [(size, wide, count) for size, count in (
        (high, blocks * whole), (rows - high * whole, blocks if rows % high else 0)) if count]
