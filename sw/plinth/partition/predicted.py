"""Words of predicted gathers, which data decide: what is expected, and between which bounds they lie.

A die sends another, of n words of each of its elements: strings of all parts, a word of length before each; back come
masks. Expected is what layers of *photographs* take, of which half the tiles are dead, at levels that a host sets
(docs/prediction.md).
"""

from plinth.partition.graph import Tiling
from plinth_hw.isa.codes import least_words, most_words
from plinth_hw.isa.layout import WORD_BITS

#: Words of each part's strings over those of elements, by rounds and outputs of a tile: measured.
SHARES = {(1, 2): (0.12, 0.36), (1, 4): (0.21, 0.38), (2, 2): (0.08, 0.07, 0.29), (2, 4): (0.17, 0.08, 0.31)}


def part_shares(tiling: Tiling) -> tuple[float, ...]:
    """Words of each part over those of elements, as expected, but for masks."""
    return SHARES[tiling.rounds, tiling.outputs]


def mask_words(run: int) -> int:
    """Words of a run's mask."""
    return -(-run // WORD_BITS)


def string_words(run: int, number: int, rounds: int) -> int:
    """Words of the longest string of a part, of a run, but for its length."""
    return most_words(run, number > 0, 0 < number == rounds)


def expected_words(tiling: Tiling, run: int) -> int:
    """Of an element's run, with lengths and masks."""
    return (sum(1 + round(share * run) for share in part_shares(tiling)) + tiling.rounds * mask_words(run))


def least_most(tiling: Tiling, run: int) -> tuple[int, int]:
    """Of an element's run: between which words it lies, with lengths and masks."""
    always = 1 + tiling.rounds + tiling.rounds * mask_words(run)
    longest = sum(string_words(run, number, tiling.rounds) for number in range(tiling.rounds + 1))
    return always + least_words(run), always + longest
