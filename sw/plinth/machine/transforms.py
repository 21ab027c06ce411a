"""Cycles of the stages that make Winograd tiles of maps, or maps of tiles, and send parts to several dies
(docs/winograd.md)."""

from math import gcd
from typing import NamedTuple

from plinth.machine.memory import row_words
from plinth.machine.record import WorkCost
from plinth_hw.isa.parameters import DieParameters

#: Cycles of a descriptor beside its blocks, and from its end to the start of the next one.
STAGES_CYCLES, NEXT_CYCLES = 115, 32
#: Cycles of a further descriptor beside its blocks, as the step chooses strips by: the two above together, once more,
#: with a little of what fills the stages, which differs from layer to layer and is a term of its own below.
PASS_CYCLES = 160


def word_cycles(parameters: DieParameters) -> float:
    """Cycles of a word in a pass within a die."""
    return 1 / parameters.within.flit_words


def place_flits(parameters: DieParameters, columns: int) -> int:
    """Flits of a place: each of its blocks, of a beat at most, begins with one."""
    full, rest = divmod(columns, parameters.beat_words)
    return full * (parameters.beat_words // parameters.flit_words) + -(-rest // parameters.flit_words)


def place_cycles(parameters: DieParameters, columns: int) -> float:
    """Cycles of a place of a tile, about: as the stages take it, or as memory reads it and writes it."""
    return max(place_flits(parameters.within, columns), 2 * columns / float(parameters.memory_words_per_cycle))


def _turned(parameters: DieParameters, columns: int) -> int:
    """Cycles of a place in the stages: a block goes into a turn while the one before leaves it, so that a shorter one
    takes as long as those beside it."""
    return -(-columns // parameters.beat_words) * place_flits(parameters, min(columns, parameters.beat_words))


def _across_flits(parameters: DieParameters, columns: int) -> tuple[float, float]:
    """Flits more that a place takes as it is read, and as it is written, in the mean over the lanes of a flit where
    places of so many words, one behind the other, begin. From a lane behind the first one a place is read with one flit
    more; it is written with one more if its blocks then lie in one flit more."""
    flit, beat = parameters.flit_words, parameters.beat_words
    lanes = range(0, flit, gcd(columns, flit))
    blocks = [min(beat, columns - first) for first in range(0, columns, beat)]
    written = sum(-(-(lane + words) // flit) - -(-words // flit) for lane in lanes for words in blocks)
    return 1 - 1 / len(lanes), written / len(lanes)


class TransformBlocks(NamedTuple):
    """Sizes of what a descriptor of a transform does: tiles, and words of a place; places of a window or tile as it
    comes in, what is made of them one way, and as it goes out; of these how many are read, and written."""

    tiles: float
    columns: int
    taken: int
    middle: int
    made: int
    read: float
    written: float


def blocks_cost(parameters: DieParameters, blocks: TransformBlocks, leaves: bool, *, passes: int = 1,
                added: bool = False,
                adds: float = 0.0) -> WorkCost:
    """What one of a task's descriptors costs, in the mean, for all dies that it goes to together.

    Parameters
    ----------
    leaves : bool
        It goes to other dies, a flit of the links at a time.
    added : bool
        To what the map holds.
    """
    tiles, columns, taken, middle, made, read, written = blocks
    within = parameters.within
    block = place_flits(within, min(columns, parameters.beat_words))
    moved = place_flits(parameters if leaves else within, columns)
    pieces, words = -(-columns // parameters.beat_words), row_words(parameters, columns)
    begin, turned = float(STAGES_CYCLES + (taken + middle + made) * block), _turned(within, columns)
    more_read, more_written = _across_flits(within, columns)
    alone = begin + tiles * max(taken * turned + read * more_read, made * turned + written * more_written)
    return WorkCost(alone, alone + NEXT_CYCLES, tiles * read * words, tiles * written * words,
                    added=tiles * written * added * words, turn=(1 + (added and not leaves)) * words / pieces,
                    passes=passes, begin=begin, flits=tiles * written * moved, packets=tiles * written * pieces,
                    adds=adds)
