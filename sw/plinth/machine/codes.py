"""Cycles of the stages that code tiles and predict what of them is needed, as they are built (docs/prediction.md)."""

from plinth.machine.memory import MEMORY_LATENCY
from plinth_hw.isa.codes import BLOCK
from plinth_hw.isa.layout import WORD_BITS

#: Cycles of a run beside its words, encoding; decoding memory's latency comes twice, as strings begin with lengths.
RUN_CYCLES, DECODE_CYCLES = 37, 39
#: Cycles of a block in a first part beside its planes, encoding and decoding.
BLOCK_CYCLES, DECODE_BLOCK_CYCLES = 2, 2
#: Codes of regions that are made, or read, a cycle at most.
REGION_WORDS = 4
#: Cycles of the words that a mask names, for each word of a next part's string: to exact words, to a lower level, whose
#: string has fewer bits of each.
EXACT_CYCLES, LOWER_CYCLES = 1.65, 7.0
#: Cycles of a window of tiles for each of its elements, in a prediction: its highest and its lowest value.
ELEMENT_CYCLES = 2


def skipped_word(lanes: int) -> float:
    """Cycles of a word of a run that goes without its zeros, ``lanes`` words to a flit: a flit at a time, and its mask.
    """
    return 1 / lanes + 1 / WORD_BITS


def region_word(lanes: int, next_share: float | None, decodes: bool) -> float:
    """Cycles of a word in codes of regions: a flit at a time; of a next part that is decoded, the words that masks name
    as well.

    Parameters
    ----------
    next_share : float or None
        Words of a next part's string over those of the run; None of a first part.
    """
    if next_share is None:
        return max(1 / lanes, 1 / REGION_WORDS) + 1 / WORD_BITS
    return 1 / lanes + (next_share if decodes else 1 / WORD_BITS)


def block_word(lanes: int, share: float, decodes: bool) -> float:
    """Cycles of a word of a first part, whose string has a share of the words: a block at a time, a plane of bits a
    cycle, if its words do not take longer."""
    return max(1 / lanes, share * WORD_BITS / BLOCK + (DECODE_BLOCK_CYCLES if decodes else BLOCK_CYCLES) / BLOCK)


def named_word(lanes: int, share: float, exact: bool) -> float:
    """Cycles of a word of a next part, whose string has a share of the words: a flit at a time, and those of its words
    that masks name."""
    return 1 / lanes + (EXACT_CYCLES if exact else LOWER_CYCLES) * share


def runs_cycles(runs: int, words: int, word: float, decodes: bool) -> float:
    """Cycles of runs of so many words, each of which takes ``word`` cycles."""
    return runs * (words * word + (DECODE_CYCLES + 2 * MEMORY_LATENCY if decodes else RUN_CYCLES))


def prediction_cycles(lanes: int, elements: int, tiles: int, channels: int) -> float:
    """Cycles in which masks of what is needed are made of so many tiles."""
    return elements * tiles * (channels / lanes) * ELEMENT_CYCLES + MEMORY_LATENCY
