"""What tasks that make Winograd tiles of maps, or maps of tiles, cost: docs/winograd.md."""

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from plinth.partition.graph import Node
from plinth.plan.cost.machine import Cycles, row_words
from plinth.step.tasks import LineTransform, Tile, TileTransform
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.winograd import Lattice, terms, transposed

#: Cycles of a descriptor beside its blocks, and from its end to the start of the next one.
STAGES_CYCLES, NEXT_CYCLES = 115, 32


@dataclass(frozen=True)
class TransformCost:
    """Of a descriptor, in the mean of a task's: cycles of the engine alone and in a row, and of these until its first
    flit leaves; flits (of those that stay on the die as wide as what moves there) and packets that leave it, for all
    dies that it goes to, words of the beats read and written."""

    cycles: Cycles
    begin: float
    flits: float
    packets: float
    reads: float
    writes: float


def _flits(parameters: DieParameters, columns: int) -> int:
    """Of a place: each of its blocks, of a beat at most, begins with one."""
    full, rest = divmod(columns, parameters.beat_words)
    return full * (parameters.beat_words // parameters.flit_words) + -(-rest // parameters.flit_words)


def _turned(parameters: DieParameters, columns: int) -> int:
    """Cycles of a place in the stages: a block goes into a turn while the one before leaves it, so that a shorter one
    takes as long as those beside it."""
    return -(-columns // parameters.beat_words) * _flits(parameters, min(columns, parameters.beat_words))


def _inside(lattice: Lattice, side: int) -> float:
    """Places of a window that lie in the map, in the mean."""
    return sum(max(0, min(start + lattice.reach, side) - max(start, 0)) for start in (
        lattice.first + number * lattice.step for number in range(lattice.count))) / lattice.count


class _Blocks(NamedTuple):
    """Of a task's descriptor: tiles, and words of a place; places of a window, what is made of them one way, and of a
    tile; of these how many are read, and written."""

    tiles: float
    columns: int
    places: int
    middle: int
    made: int
    read: float
    written: float


def _blocks(work: TileTransform | LineTransform | Tile) -> _Blocks:
    if isinstance(work, LineTransform):
        places, made = (side * work.blocks for side in work.sides)
        return _Blocks(work.columns * work.source.rows, work.source.columns, places, places, made, places, made)
    if isinstance(work, Tile):
        assert work.members is not None
        count = work.members.count
        return _Blocks(work.planes * work.source.rows, work.source.columns, count, count, count, count, count)
    both = work.lattices
    sides = work.maps.height, work.maps.width
    places, elements = prod(one.reach for one in both), prod(one.size for one in both)
    inside = prod(_inside(one, side) for one, side in zip(both, sides, strict=True))
    read, written = (inside, work.elements[1] * work.elements[3]) if work.scatter else (elements, inside)
    return _Blocks(work.positions / work.descriptors, work.tiles.columns, places, both[0].reach * both[1].size,
                   elements, read, written)


def transform_cost(parameters: DieParameters, work: TileTransform | LineTransform | Tile) -> TransformCost:
    """What one of a task's descriptors costs; a copy's is one to several dies."""
    tiles, columns, places, middle, elements, read, made = _blocks(work)
    within, leaves = parameters.within, work.die is not None or work.members is not None
    block = _flits(within, min(columns, parameters.beat_words))
    moved = _flits(parameters if leaves else within, columns)
    blocks, words = -(-columns // parameters.beat_words), row_words(parameters, columns)
    begin = float(STAGES_CYCLES + (places + middle + elements) * block)
    alone = begin + tiles * max(places, elements) * _turned(within, columns)
    added = isinstance(work, TileTransform) and work.added
    return TransformCost((alone, alone + NEXT_CYCLES), begin, tiles * made * moved, tiles * made * blocks,
                         tiles * read * words, tiles * made * (1 + added) * words)


def transform_adds(work: TileTransform | LineTransform) -> float:
    """Sums of one of a task's descriptors, in the mean: of both matrices, and of what is added to the map."""
    if isinstance(work, LineTransform):
        assert work.node.tiling is not None
        each = sum(len(terms(row)) - 1 for row in work.node.tiling.form.transforms[0].a)
        return float(each * work.blocks * work.columns * work.source.rows * work.source.columns)
    down, across = work.lattices
    ways = [one.matrix if work.scatter else transposed(one.matrix) for one in (down, across)]
    sums = [sum(len(terms(row)) - 1 for row in way) for way in ways]
    # A scatter goes across first, a gather down: both have as many lines between.
    each = sums[0] * across.size + sums[1] * down.reach + work.added * down.reach * across.reach
    return float(each * work.tiles.columns * work.positions / work.descriptors)


def node_transforms(parameters: DieParameters, node: Node, outputs: bool, samples: int, channels: int) -> float:
    """Cycles, about, in which a die makes tiles of some samples' maps, or maps of tiles."""
    assert node.tiling is not None
    places = max(node.tiling.elements, prod(one.size if not outputs else one.outputs
                                            for one in node.tiling.form.transforms))
    return float(samples * node.tiling.positions * places * _flits(parameters.within, channels) if channels else 0)
