"""What tasks that make Winograd tiles of maps, or maps of tiles, cost: docs/winograd.md."""

from math import prod
from typing import NamedTuple

from plinth.partition.graph import Node
from plinth.predict.machine import row_words
from plinth.predict.record import WorkCost
from plinth.step.tasks import LineTransform, Tile, TileTransform
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.winograd import Lattice, terms, transposed

#: Cycles of a descriptor beside its blocks, and from its end to the start of the next one.
STAGES_CYCLES, NEXT_CYCLES = 115, 32


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


def _cost(parameters: DieParameters, work: TileTransform | LineTransform | Tile, blocks: _Blocks, *, passes: int = 1,
          added: bool = False, adds: float = 0.0) -> WorkCost:
    """What one of a task's descriptors costs, in the mean, for all dies that it goes to together."""
    tiles, columns, places, middle, elements, read, made = blocks
    within, leaves = parameters.within, work.die is not None or work.members is not None
    block = _flits(within, min(columns, parameters.beat_words))
    moved = _flits(parameters if leaves else within, columns)
    pieces, words = -(-columns // parameters.beat_words), row_words(parameters, columns)
    begin = float(STAGES_CYCLES + (places + middle + elements) * block)
    alone = begin + tiles * max(places, elements) * _turned(within, columns)
    return WorkCost(alone, alone + NEXT_CYCLES, tiles * read * words, tiles * made * (1 + added) * words, passes=passes,
                    begin=begin, flits=tiles * made * moved, packets=tiles * made * pieces, adds=adds)


def transform_cost(parameters: DieParameters, work: TileTransform) -> WorkCost:
    """What tiles of maps, or maps of tiles, take; a pass is a descriptor, an image or a column of tiles."""
    both = down, across = work.lattices
    sides = work.maps.height, work.maps.width
    places, elements = prod(one.reach for one in both), prod(one.size for one in both)
    inside = prod(_inside(one, side) for one, side in zip(both, sides, strict=True))
    read, written = (inside, work.elements[1] * work.elements[3]) if work.scatter else (elements, inside)
    blocks = _Blocks(work.positions / work.descriptors, work.tiles.columns, places, down.reach * across.size, elements,
                     read, written)
    ways = [one.matrix if work.scatter else transposed(one.matrix) for one in both]
    sums = [sum(len(terms(row)) - 1 for row in way) for way in ways]
    # A scatter goes across first, a gather down: both have as many lines between. What is added to the map is summed.
    each = sums[0] * across.size + sums[1] * down.reach + work.added * down.reach * across.reach
    return _cost(parameters, work, blocks, passes=work.descriptors, added=work.added,
                 adds=float(each * work.tiles.columns * work.positions / work.descriptors))


def line_cost(parameters: DieParameters, work: LineTransform) -> WorkCost:
    """What columns of tiles that become lines of outputs take."""
    assert work.node.tiling is not None
    places, made = (side * work.blocks for side in work.sides)
    each = sum(len(terms(row)) - 1 for row in work.node.tiling.form.transforms[0].a)
    return _cost(parameters, work, _Blocks(work.columns * work.source.rows, work.source.columns, places, places, made,
                                           places, made),
                 adds=float(each * work.blocks * work.columns * work.source.rows * work.source.columns))


def spread_cost(parameters: DieParameters, work: Tile) -> WorkCost:
    """What a copy of parts to several dies takes, which goes through the same stages."""
    assert work.members is not None
    count = work.members.count
    return _cost(parameters, work, _Blocks(work.planes * work.source.rows, work.source.columns, count, count, count,
                                           count, count))


def node_transforms(parameters: DieParameters, node: Node, outputs: bool, samples: int, channels: int) -> float:
    """Cycles, about, in which a die makes tiles of some samples' maps, or maps of tiles."""
    assert node.tiling is not None
    places = max(node.tiling.elements, prod(one.size if not outputs else one.outputs
                                            for one in node.tiling.form.transforms))
    return float(samples * node.tiling.positions * places * _flits(parameters.within, channels) if channels else 0)
