"""Codes of tile elements: strings against loops over the rules, fills against what they say, words bit for bit."""

import itertools
import math

import numpy as np
import pytest

from plinth_hw.isa import codes as isa
from plinth_hw.isa.winograd import transform
from plinth_sim.golden import codes

SPECIAL = np.array([0, 1 << 31, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000,
                    0x7FC00000, 0xFFC12345, 0x7F800001, 0x3F800000, 0xBFC00000], dtype=np.uint32)
LEVELS = (isa.LEVELS.start, -3, 0, 5, isa.LEVELS.stop - 1)


def runs(seed: int):
    """Words about each level, words of all exponents, special words, blocks of zeros, and runs that end in a block."""
    rng = np.random.default_rng(seed)
    for level in LEVELS:
        for count in (1, 16, 33, 240):
            spread = rng.integers(-16, 20, -(-count // 16)).repeat(16)[:count] + rng.integers(-6, 3, count)
            fields = np.clip(spread + level + 127, 0, 254)
            near = (rng.integers(0, 2, count) << 31 | fields << 23 | rng.integers(0, 1 << 23, count)).astype(np.uint32)
            yield level, near
            holes = near.copy()
            holes[rng.random(count) < 0.3] = 0
            holes[:16] = 0
            yield level, holes
            mixed = near.copy()
            mixed[rng.integers(0, count, 3)] = rng.choice(SPECIAL, 3)
            yield level, mixed
        yield level, rng.integers(0, 1 << 32, 96, dtype=np.uint32)
        yield level, np.concatenate([SPECIAL, np.uint32([isa.small(level), isa.small(level) | 1 << 31])])
        yield level, np.full(20, 1 << 31, dtype=np.uint32)


RUNS = list(runs(1))


def string_of(fields: list[tuple[int, int]]) -> str:
    """Bits of (number, bits), least significant first."""
    return "".join(str(number >> bit & 1) for number, bits in fields for bit in range(bits))


def text(coded: codes.Coded) -> str:
    assert len(coded.words) == -(-coded.bits // 32)
    return "".join(str(int(word) >> bit & 1) for word in coded.words for bit in range(32))[:coded.bits]


def e_of(word: int) -> int:
    return (word >> 23 & 0xFF) - 127


def quanta(word: int, level: int) -> int:
    """floor(magnitude / 2^level), in whole numbers."""
    significand = (word & 0x7FFFFF | 1 << 23) if e_of(word) > -127 else word & 0x7FFFFF
    shift = max(e_of(word), -126) - 23 - level
    return significand << shift if shift >= 0 else significand >> -shift


def first_string(words: list[int], level: int) -> str:
    """By loops over the rules of the code."""
    fields: list[tuple[int, int]] = []
    words = words + [0] * (-len(words) % 16)
    for block in (words[start:start + 16] for start in range(0, len(words), 16)):
        largest = max(max(e_of(word) for word in block), level - 12)
        if not any(block):
            fields.append((0, 5))
        elif largest > level + 17:
            fields += [(31, 5), *((word, 32) for word in block)]
        else:
            fields.append((largest - level + 13, 5))
            if largest >= level:
                fields += [(word >> 31, 1) for word in block]
                for plane in range(largest, level - 1, -1):
                    fields += [(quanta(word, level) >> plane - level & 1, 1) for word in block]
    return string_of(fields)


def following_string(words, fills, mask, level, lower) -> str:
    fields: list[tuple[int, int]] = []
    for word, fill, named in zip(words, fills, mask, strict=True):
        magnitude, e = fill & 0x7FFFFFFF, e_of(fill)
        if not named or not magnitude:
            continue
        if e >= level:
            worth = [bit for bit in range(23) if e - 23 + bit < level and (lower is None or e - 23 + bit >= lower)]
            fields += [(word >> bit & 1, 1) for bit in worth]
            continue
        known = magnitude == isa.small(level)
        top = level - 1 if known else e
        if lower is not None and top < lower:
            continue
        fields += [] if known else [(word >> 31, 1)]
        if lower is not None:
            fields.append((quanta(word, lower), top - lower + 1))
        elif top - e_of(word) < 12:
            fields += [(0, top - e_of(word)), (1, 1), (word & 0x7FFFFF, 23)]
        else:
            fields += [(0, 12), (word >> 23 & 0xFF, 8), (word & 0x7FFFFF, 23)]
    return string_of(fields)


def assert_within(words, fills, level) -> None:
    """Each word is between the ends of its fill, each fill too, and an end that is 0 has the fill's sign; where a word
    is no number, neither is an end."""
    low, high = codes.ends(fills, level)
    for patterns in (words, fills):
        values = patterns.view(np.float32)
        numbers = ~np.isnan(values)
        assert (low[numbers] <= values[numbers]).all() and (values[numbers] <= high[numbers]).all()
    for end in (low, high):
        assert (np.signbit(end) == np.signbit(fills.view(np.float32)))[end == 0].all()
    nan = np.isnan(words.view(np.float32))
    assert np.isnan(low[nan]).all() and np.isnan(high[nan]).all()


@pytest.mark.parametrize("number", range(len(RUNS)))
def test_strings_and_words(number) -> None:
    level, words = RUNS[number]
    rng = np.random.default_rng(number)
    coded = codes.first(words, level).coded()
    assert text(coded) == first_string(words.tolist(), level)
    assert coded.bits == codes.first_bits(words, level)
    fills = codes.filled(words, level)
    np.testing.assert_array_equal(codes.read_first(coded, len(words), level), fills)
    assert_within(words, fills, level)
    mask = rng.random(len(words)) < 0.7
    steps = [(level, None)]
    if (lower := level - int(rng.choice(isa.STEPS))) >= isa.LEVELS.start:
        steps = [(level, lower), (lower, None)]
    for here, there in steps:
        fields = codes.following(words, fills, mask, here, there)
        coded = fields.coded()
        assert coded.bits == fields.bits.sum()
        assert not (fields.values >> fields.bits.astype(np.uint64))[fields.bits > 0].any(), "numbers fit their bits"
        assert text(coded) == following_string(words.tolist(), fills.tolist(), mask, here, there)
        decoded = codes.read_following(coded, fills, mask, here, there)
        np.testing.assert_array_equal(decoded[~mask], fills[~mask])
        if there is None:
            np.testing.assert_array_equal(decoded[mask], words[mask])
        else:
            old = codes.ends(fills, here)
            fills = np.where(mask, codes.refined(words, fills, here, there), fills)
            np.testing.assert_array_equal(decoded, fills)
            assert_within(words[mask], decoded[mask], there)
            new = codes.ends(decoded, there)
            numbers = ~np.isnan(new[0])
            assert (new[0] >= old[0])[numbers].all() and (new[1] <= old[1])[numbers].all(), "what is known shrinks"


def test_blocks_of_zeros_are_a_header() -> None:
    words = np.zeros(32, dtype=np.uint32)
    assert codes.first(words, 0).coded().bits == 2 * isa.HEADER_BITS
    fills = codes.filled(words, 0)
    assert not fills.any()
    assert codes.following(words, fills, np.ones(32, bool), 0, None).coded().bits == 0


def test_a_part_whose_string_is_too_short_says_so() -> None:
    """Not that its run has another length, which zeros behind the string would give."""
    words = np.arange(1, 200, dtype=np.float32).view(np.uint32)
    mask = np.ones(len(words), dtype=bool)
    for part, known in ((codes.CodeRange(1), ()), (codes.CodeRange(1, 1), (codes.filled(words, 1), mask))):
        string = part.string(words, mask)
        part.run(string, len(words), *known)
        with pytest.raises(ValueError, match=f"a string of {32 * (len(string) - 1)} bits ends before its run"):
            part.run(string[:-1], len(words), *known)


def test_a_string_that_ends_within_words_that_go_whole() -> None:
    """Wherever it ends, it is the first block that needs more."""
    words = np.where(np.arange(32) % 16, np.float32(1), np.float32(2.0**100)).astype(np.float32).view(np.uint32)
    coded = codes.first(words, 0).coded()
    needs = isa.HEADER_BITS + 32 * isa.BLOCK
    assert coded.bits == 2 * needs
    for bits in (needs - 1, needs - 16, needs - 17, needs - 32, needs // 2, isa.HEADER_BITS):
        with pytest.raises(ValueError, match=f"a string of {bits} bits ends before its run, which needs {needs} or"):
            codes.read_first(codes.Coded(coded.words, bits), len(words), 0)


def test_strings_of_another_length() -> None:
    words = np.arange(1, 40, dtype=np.float32).view(np.uint32)
    coded = codes.first(words, 1).coded()
    mask = np.ones(len(words), dtype=bool)
    fills = codes.filled(words, 1)
    rest = codes.following(words, fills, mask, 1, None).coded()
    for less in (1, 40):
        with pytest.raises(ValueError, match="ends before its run"):
            codes.read_first(codes.Coded(coded.words, coded.bits - less), len(words), 1)
        with pytest.raises(ValueError, match="ends before its run"):
            codes.read_following(codes.Coded(rest.words, rest.bits - less), fills, mask, 1, None)
    with pytest.raises(ValueError, match="does not end with its run"):
        codes.read_first(coded, len(words) - 16, 1)
    with pytest.raises(ValueError, match="does not end with its run"):
        codes.read_following(rest, fills[:-1], mask[:-1], 1, None)


def test_levels_that_there_are_not() -> None:
    words = np.zeros(16, dtype=np.uint32)
    with pytest.raises(ValueError, match="a level must be from -114 to 110, not 111"):
        codes.first(words, 111)
    for lower in (5, 3, -14):
        with pytest.raises(ValueError, match=f"a level behind 4 must be from -13 to 2, not {lower}"):
            codes.refined(words, words, 4, lower)
        with pytest.raises(ValueError, match=f"a level behind 4 must be from -13 to 2, not {lower}"):
            codes.following(words, words, words == 0, 4, lower)


@pytest.mark.parametrize("count", [1, 31, 32, 33, 200])
def test_skip_code(count) -> None:
    rng = np.random.default_rng(count)
    words = rng.integers(1, 1 << 32, count, dtype=np.uint32)
    mask = rng.random(count) < 0.5
    words[~mask] = 0
    coded = codes.skipped(words, mask)
    assert len(coded) == -(-count // 32) + mask.sum()
    assert coded[0] == sum(1 << bit for bit in np.flatnonzero(mask[:32]))
    decoded, named = codes.read_skipped(coded, count)
    np.testing.assert_array_equal(decoded, words)
    np.testing.assert_array_equal(named, mask)
    for wrong in (coded[:-1], np.append(coded, np.uint32(1))):
        with pytest.raises(ValueError, match=f"does not fit a run of {count}"):
            codes.read_skipped(wrong, count)


@pytest.mark.parametrize("count", [1, 31, 32, 33, 200])
def test_skip_code_of_each_way(count) -> None:
    rng = np.random.default_rng(count)
    words = rng.choice(SPECIAL, count)
    mask = rng.random(count) < 0.5
    string = codes.Skips(sent=True, given=False).string(words)
    named = [int(word) for word in words if word]
    assert len(string) == -(-count // 32) + len(named), "-0 is sent, +0 is not"
    np.testing.assert_array_equal(codes.Skips(True, False).run(string, count), words)
    alone = codes.Skips(sent=False, given=True)
    assert alone.string(words, mask).tolist() == [int(word) for word, bit in zip(words, mask, strict=True) if bit]
    np.testing.assert_array_equal(alone.run(alone.string(words, mask), count, mask=mask), np.where(mask, words, 0))
    both = codes.Skips(sent=True, given=True)
    np.testing.assert_array_equal(both.run(both.string(words, mask), count), np.where(mask, words, 0))
    with pytest.raises(ValueError, match="is not of a mask that names"):
        alone.run(np.append(words[mask], np.uint32(1)), count, mask=mask)
    with pytest.raises(ValueError, match="must be sent or given"):
        codes.Skips(False, False).check()


def test_skip_code_beyond_its_run() -> None:
    with pytest.raises(ValueError, match="does not fit a run of 3"):
        codes.read_skipped(np.array([0b1001, 5, 6], dtype=np.uint32), 3)


def test_shifts_of_levels() -> None:
    assert isa.shifts(transform(2, 3).a, transform(2, 3).a) == ((0,) * 4,) * 4
    assert isa.shifts(None, transform(4, 3).a) == ((0, 0, 0, 2, 2, 0),)
    both = isa.shifts(transform(4, 3).a, transform(4, 3).a)
    assert both[3] == (2, 2, 2, 4, 4, 2) and both[0] == (0, 0, 0, 2, 2, 0)
    ways = [None, transform(2, 3).a, transform(4, 3).a, transform(2, 5).a]
    for down, across in itertools.product(ways, ways[1:]):
        rows = [[1]] if down is None else down
        means = []
        for u, v in itertools.product(range(len(rows[0])), range(len(across[0]))):
            parts = [abs(left[u] * right[v]) for left in rows for right in across if left[u] * right[v]]
            means.append(sum(parts) / len(parts))
        wanted = [round(math.log2(mean / min(means))) for mean in means]
        assert [shift for row in isa.shifts(down, across) for shift in row] == wanted
