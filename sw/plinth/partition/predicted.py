"""Words of predicted gathers and skipped scatters, which data decide: what is expected, and between which bounds they
lie.

A die sends another, of n words of each of some elements, in a gather strings of all parts, a word of length before
each, and back come masks; in a scatter, and in a gather on the way back, a string of the words that masks name.
Expected is what layers of *photographs* take, of which half the tiles are dead, at levels that a host sets
(docs/prediction.md), unless the network says what to expect.
"""

from plinth.partition.graph import Tiling
from plinth_hw.isa.codes import REGION_BITS, least_words, most_words, region_words
from plinth_hw.isa.layout import WORD_BITS

#: Words of each part's strings over those of elements, by rounds and outputs of a tile: measured.
SHARES = {(1, 2): (0.12, 0.36), (1, 4): (0.21, 0.38), (2, 2): (0.08, 0.07, 0.29), (2, 4): (0.17, 0.08, 0.31)}
#: The same before a max-pool, of layers that have one.
POOLED_SHARES = {(1, 2): (0.11, 0.32), (1, 4): (0.20, 0.35), (2, 2): (0.09, 0.06, 0.23), (2, 4): (0.16, 0.08, 0.27)}
#: The same of regions, of :data:`REGION_CODE` bits; the second part is also what masks name.
REGION_SHARES = {2: (0.19, 0.55), 4: (0.19, 0.99)}
#: Bits of a code, as MPT has it where sources hold single elements.
REGION_CODE = REGION_BITS[-1]
#: Words in skip code over those of elements, by outputs of a tile: of inputs, those whose window has anything, with
#: masks; of errors, those that masks of the gather name; of errors of inputs, those that masks of the inputs name.
SKIPPED = {("fprop", "scatter"): {2: 0.61, 4: 0.67}, ("bprop", "scatter"): {2: 0.49, 4: 0.57},
           ("bprop", "gather"): {2: 0.57, 4: 0.64}}
#: Of errors before a max-pool, by rounds and outputs of a tile.
POOLED_ERRORS = {(1, 2): 0.44, (1, 4): 0.55, (2, 2): 0.36, (2, 4): 0.48}


def part_shares(tiling: Tiling) -> tuple[float, ...]:
    """Words of each part over those of elements, as expected, but for masks."""
    if tiling.shares:
        return tiling.shares[:tiling.rounds + 1]
    if tiling.regions:
        return REGION_SHARES[tiling.outputs]
    return (POOLED_SHARES if tiling.pooled else SHARES)[tiling.rounds, tiling.outputs]


def mask_words(run: int) -> int:
    """Words of a run's mask."""
    return -(-run // WORD_BITS)


def string_words(run: int, number: int, rounds: int, regions: bool) -> int:
    """Words of the longest string of a part, of a run, but for its length."""
    if regions:
        return run if number else region_words(run, REGION_CODE)
    return most_words(run, number > 0, 0 < number == rounds)


def skip_share(tiling: Tiling, phase: str, kind: str) -> float:
    """Words of what goes in skip code over those of elements, as expected, with masks forwards."""
    if tiling.shares:
        return dict(zip(SKIPPED, tiling.shares[tiling.rounds + 1:], strict=True))[phase, kind]
    if tiling.regions and (phase, kind) == ("bprop", "scatter"):
        return REGION_SHARES[tiling.outputs][1]
    if tiling.pooled and (phase, kind) == ("bprop", "scatter"):
        return POOLED_ERRORS[tiling.rounds, tiling.outputs]
    return SKIPPED[phase, kind][tiling.outputs]


def shares(tiling: Tiling, phase: str, kind: str) -> tuple[float, ...]:
    """Words of each part of a predicted gather, or of what goes in skip code, over those of elements, as expected;
    masks of gathers apart."""
    return (skip_share(tiling, phase, kind),) if (phase, kind) in SKIPPED else part_shares(tiling)


def expected_share(tiling: Tiling, phase: str, kind: str) -> float:
    """Words of an exchange in codes over those of elements, as expected, with masks."""
    return sum(shares(tiling, phase, kind)) + (0.0 if (phase, kind) in SKIPPED else tiling.rounds / WORD_BITS)


def expected_words(tiling: Tiling, phase: str, kind: str, run: int) -> int:
    """The expected words of an element's run in codes, with lengths and masks."""
    words = sum(1 + round(share * run) for share in shares(tiling, phase, kind))
    if (phase, kind) not in SKIPPED:
        words += tiling.rounds * mask_words(run)
    least, most = least_most(tiling, phase, kind, run)
    return min(max(words, least), most)


def least_most(tiling: Tiling, phase: str, kind: str, run: int) -> tuple[int, int]:
    """The least and the most words of an element's run in codes, with lengths and masks."""
    if (phase, kind) in SKIPPED:
        always = 1 + (mask_words(run) if phase == "fprop" else 0)
        return always, always + run
    always = 1 + tiling.rounds + tiling.rounds * mask_words(run)
    longest = sum(string_words(run, number, tiling.rounds, tiling.regions) for number in range(tiling.rounds + 1))
    return always + (region_words(run, REGION_CODE) if tiling.regions else least_words(run)), always + longest
