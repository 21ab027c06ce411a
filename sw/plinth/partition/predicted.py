"""Words of predicted gathers and skipped scatters, which data decide: what is expected, and between which bounds they
lie.

A die sends another, of n words of each of some elements, in a gather strings of all parts, a word of length before
each, and back come masks; in a scatter a string of the words that are other than 0. Expected is what layers of
*photographs* take, of which half the tiles are dead, at levels that a host sets (docs/prediction.md), unless the
network says what to expect.
"""

from plinth.partition.graph import Tiling
from plinth_hw.isa.codes import least_words, most_words
from plinth_hw.isa.layout import WORD_BITS

#: Words of each part's strings over those of elements, by rounds and outputs of a tile: measured.
SHARES = {(1, 2): (0.12, 0.36), (1, 4): (0.21, 0.38), (2, 2): (0.08, 0.07, 0.29), (2, 4): (0.17, 0.08, 0.31)}
#: Words of scatters over those of elements, by outputs of a tile: other than +0, with masks, and those that masks of
#: the gather name.
FORWARD, NAMED = {2: 0.61, 4: 0.67}, {2: 0.49, 4: 0.57}


def part_shares(tiling: Tiling) -> tuple[float, ...]:
    """Words of each part over those of elements, as expected, but for masks."""
    return tiling.shares[:tiling.rounds + 1] or SHARES[tiling.rounds, tiling.outputs]


def mask_words(run: int) -> int:
    """Words of a run's mask."""
    return -(-run // WORD_BITS)


def string_words(run: int, number: int, rounds: int) -> int:
    """Words of the longest string of a part, of a run, but for its length."""
    return most_words(run, number > 0, 0 < number == rounds)


def skip_share(tiling: Tiling, phase: str) -> float:
    """Words of a scatter over those of elements, as expected, with masks forwards."""
    forward = phase == "fprop"
    if tiling.shares:
        return tiling.shares[-2 if forward else -1]
    return (FORWARD if forward else NAMED)[tiling.outputs]


def shares(tiling: Tiling, phase: str, kind: str) -> tuple[float, ...]:
    """Words of each part of a gather, or of a scatter, over those of elements, as expected; masks of gathers apart."""
    return (skip_share(tiling, phase),) if kind == "scatter" else part_shares(tiling)


def expected_share(tiling: Tiling, phase: str, kind: str) -> float:
    """Words of an exchange in codes over those of elements, as expected, with masks."""
    return sum(shares(tiling, phase, kind)) + (tiling.rounds / WORD_BITS if kind == "gather" else 0.0)


def expected_words(tiling: Tiling, phase: str, kind: str, run: int) -> int:
    """Of an element's run, with lengths and masks."""
    found = sum(1 + round(share * run) for share in shares(tiling, phase, kind))
    if kind == "gather":
        found += tiling.rounds * mask_words(run)
    least, most = least_most(tiling, phase, kind, run)
    return min(max(found, least), most)


def least_most(tiling: Tiling, phase: str, kind: str, run: int) -> tuple[int, int]:
    """Of an element's run: between which words it lies, with lengths and masks."""
    if kind == "scatter":
        always = 1 + (mask_words(run) if phase == "fprop" else 0)
        return always, always + run
    always = 1 + tiling.rounds + tiling.rounds * mask_words(run)
    longest = sum(string_words(run, number, tiling.rounds) for number in range(tiling.rounds + 1))
    return always + least_words(run), always + longest
