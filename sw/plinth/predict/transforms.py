"""What tasks that make Winograd tiles of maps, or maps of tiles, cost: docs/winograd.md."""

from math import prod

from plinth.machine.record import WorkCost
from plinth.machine.transforms import TransformBlocks, blocks_cost, place_flits
from plinth.partition.graph import Node
from plinth.step.tasks import LineTransform, TileCopy, TransformTiles
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.winograd import Lattice, terms, transposed


def _leaves(work: TransformTiles | LineTransform | TileCopy) -> bool:
    return work.die is not None or work.members is not None


def _inside(lattice: Lattice, side: int) -> float:
    """Places of a window that lie in the map, in the mean."""
    return sum(max(0, min(start + lattice.reach, side) - max(start, 0)) for start in (
        lattice.first + number * lattice.step for number in range(lattice.count))) / lattice.count


def transform_cost(parameters: DieParameters, work: TransformTiles) -> WorkCost:
    """What tiles of maps, or maps of tiles, take; a pass is a descriptor, an image or a column of tiles."""
    both = down, across = work.lattices
    sides = work.maps.height, work.maps.width
    places, elements = prod(lattice.reach for lattice in both), prod(lattice.size for lattice in both)
    inside = prod(_inside(lattice, side) for lattice, side in zip(both, sides, strict=True))
    taken, made, read, written = (places, elements, inside, work.elements[1] * work.elements[3]) if work.scatter else (
        elements, places, elements, inside)
    blocks = TransformBlocks(work.positions / work.descriptors, work.tiles.columns, taken, down.reach * across.size,
                             made, read, written)
    ways = [lattice.matrix if work.scatter else transposed(lattice.matrix) for lattice in both]
    sums = [sum(len(terms(row)) - 1 for row in way) for way in ways]
    # A scatter goes across first, a gather down: both have as many lines between. What is added to the map is summed.
    each = sums[0] * across.size + sums[1] * down.reach + work.added * down.reach * across.reach
    return blocks_cost(parameters, blocks, _leaves(work), passes=work.descriptors, added=work.added,
                       adds=float(each * work.tiles.columns * work.positions / work.descriptors))


def line_cost(parameters: DieParameters, work: LineTransform) -> WorkCost:
    """What columns of tiles that become lines of outputs take."""
    assert work.node.tiling is not None
    places, outputs = (side * work.blocks for side in work.sides)
    each = sum(len(terms(row)) - 1 for row in work.node.tiling.form.transforms[0].a)
    blocks = TransformBlocks(work.columns * work.source.rows, work.source.columns, places, places, outputs, places,
                             outputs)
    return blocks_cost(parameters, blocks, _leaves(work), adds=float(
        each * work.blocks * work.columns * work.source.rows * work.source.columns))


def spread_cost(parameters: DieParameters, work: TileCopy) -> WorkCost:
    """The cost of a copy of parts to several dies, which goes through the stages of transforms."""
    assert work.members is not None
    count = work.members.count
    blocks = TransformBlocks(work.planes * work.source.rows, work.source.columns, count, count, count, count, count)
    return blocks_cost(parameters, blocks, _leaves(work))


def node_transforms(parameters: DieParameters, node: Node, outputs: bool, samples: int, channels: int) -> float:
    """Cycles, about, in which a die makes tiles of some samples' maps, or maps of tiles."""
    assert node.tiling is not None
    places = max(node.tiling.elements, prod(transform.size if not outputs else transform.outputs
                                            for transform in node.tiling.form.transforms))
    return float(samples * node.tiling.positions * places * place_flits(parameters.within, channels) if channels else 0)
