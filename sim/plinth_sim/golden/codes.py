"""Golden model of the codes of :mod:`plinth_hw.isa.codes`: strings of bits of runs, fills, and the words again.

Words are FP32 patterns, ``uint32``; a run is ``[words]``. The string of a first part is made from words, that of a next
part from words and from the fills that the destination has of them, which a source computes with :func:`filled`; masks
are ``[words]`` of bool. What is decoded is what went in, bit for bit, infinities and NaN included. Counts of bits are
lengths of the very fields that strings are made of.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plinth_hw.isa.codes import (
    ABOVE,
    BIAS,
    BLOCK,
    ESCAPE,
    EXPONENT_BITS,
    FLOOR,
    FRACTION_BITS,
    HEADER_BITS,
    UNARY,
    ZERO,
    checked_level,
    power,
    small,
)

Words = NDArray[np.uint32]
Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]

_SIGN, _PLANES = np.uint32(1 << 31), ABOVE + 1


class Coded(NamedTuple):
    """A string of bits, in words, and how many these are."""

    words: Words
    bits: int


class Fields(NamedTuple):
    """Parts of a string, in order: numbers, and the bits that each takes."""

    values: NDArray[np.uint64]
    bits: Numbers

    def coded(self) -> Coded:
        """The string."""
        bits = self.bits.ravel()
        total = int(bits.sum())
        within = np.arange(total) - np.repeat(np.cumsum(bits) - bits, bits)
        string = (np.repeat(self.values.ravel(), bits) >> within.astype(np.uint64) & np.uint64(1)).astype(np.uint8)
        return Coded(packed(string), total)


def packed(bits: NDArray[Any]) -> Words:
    """Words of bits, the last one filled up with zeros."""
    words = np.zeros(-(-len(bits) // 32), dtype="<u4")
    octets = np.packbits(bits.astype(np.uint8), bitorder="little")
    words.view(np.uint8)[:len(octets)] = octets
    return words.astype(np.uint32)


def unpacked(words: Words, count: int) -> NDArray[np.uint8]:
    """The first ``count`` bits of words."""
    return np.unpackbits(words.astype("<u4").view(np.uint8), count=count, bitorder="little")


def exponents(words: Words) -> Numbers:
    """e of words."""
    return (words >> FRACTION_BITS & 0xFF).astype(np.int64) - BIAS


def _magnitudes(words: Words, level: int) -> NDArray[np.uint64]:
    """Multiples of 2^level in magnitudes that are below 2^(level + 24)."""
    significands = (words & ((1 << FRACTION_BITS) - 1) | 1 << FRACTION_BITS).astype(np.uint64)
    shift = np.clip(level - exponents(words) + FRACTION_BITS, 0, FRACTION_BITS + 1)
    return significands >> shift.astype(np.uint64)


def _below(words: Words, level: int) -> Numbers:
    """How many bits of the fraction are worth less than 2^level."""
    return np.clip(level - exponents(words) + FRACTION_BITS, 0, FRACTION_BITS)


def _without(words: Words, bits: Numbers) -> Words:
    """With the lowest bits 0."""
    return words >> bits.astype(np.uint32) << bits.astype(np.uint32)


def _cut(words: Words, level: int) -> Words:
    """Fills of what is sent to a level."""
    return _hidden(_without(words, _below(words, level)), level)


def _hidden(words: Words, level: int) -> Words:
    """Words, or fills of those whose e is below a level."""
    return np.where(exponents(words) >= level, words, words & _SIGN | np.uint32(small(level)))


def _escaped(words: Words, level: int) -> Words:
    """Fills of words of an escape."""
    return np.where(words & ~_SIGN == 0, words, _hidden(words, level))


class _Blocks(NamedTuple):
    """A run in blocks, ``[blocks, BLOCK]``, and of each block its header and E."""

    words: Words
    headers: Numbers
    largest: Numbers


def _blocks(words: Words, level: int) -> _Blocks:
    checked_level(level)
    blocks = np.pad(words, (0, -len(words) % BLOCK)).reshape(-1, BLOCK)
    largest = np.maximum(exponents(blocks).max(axis=1, initial=-BIAS), level - FLOOR)
    headers = np.where(largest > level + ABOVE, ESCAPE, largest - (level - FLOOR) + 1)
    return _Blocks(blocks, np.where((blocks == 0).all(axis=1), ZERO, headers), largest)


def first(words: Words, level: int) -> Fields:
    """What is sent of a run to a level: fields ``[blocks, header, signs, planes, words]``."""
    blocks, headers, largest = _blocks(words, level)
    sent = (headers != ZERO) & (headers != ESCAPE) & (largest >= level)
    bits = np.zeros((len(blocks), 2 + _PLANES + BLOCK), dtype=np.int64)
    values = np.zeros(bits.shape, dtype=np.uint64)
    weights = np.uint64(1) << np.arange(BLOCK, dtype=np.uint64)
    bits[:, 0], values[:, 0] = HEADER_BITS, headers
    bits[:, 1], values[:, 1] = BLOCK * sent, (blocks >> np.uint32(31)) @ weights
    planes = largest[:, None] - level - np.arange(_PLANES)
    bits[:, 2:2 + _PLANES] = BLOCK * ((planes >= 0) & sent[:, None])
    shown = _magnitudes(blocks, level)[:, None] >> np.maximum(planes, 0).astype(np.uint64)[:, :, None]
    values[:, 2:2 + _PLANES] = (shown & np.uint64(1)) @ weights
    bits[:, -BLOCK:], values[:, -BLOCK:] = 32 * (headers == ESCAPE)[:, None], blocks
    return Fields(values, bits)


def first_bits(words: Words, level: int) -> int:
    """How many bits :func:`first` makes."""
    _, headers, largest = _blocks(words, level)
    escaped = headers == ESCAPE
    sent = (headers != ZERO) & ~escaped & (largest >= level)
    return int((HEADER_BITS + sent * BLOCK * (largest - level + 2) + 32 * BLOCK * escaped).sum())


def filled(words: Words, level: int) -> Words:
    """Fills of a run after :func:`first`."""
    blocks, headers, largest = _blocks(words, level)
    fills = np.where((largest >= level)[:, None], _cut(blocks, level), (largest + BIAS << FRACTION_BITS)[:, None])
    fills = np.where((headers == ESCAPE)[:, None], _escaped(blocks, level), fills)
    fills = np.where((headers == ZERO)[:, None], 0, fills)
    return fills.astype(np.uint32).ravel()[:len(words)]


def read_first(coded: Coded, count: int, level: int) -> Words:
    """Fills of a run of ``count`` words, of the string.

    Raises
    ------
    ValueError
        If the string ends before the run does, or goes on behind it.
    """
    fills, end = _read_first(unpacked(coded.words, coded.bits), count, level)
    _ended(coded, end)
    return fills


def _ended(coded: Coded, end: int) -> None:
    if end != coded.bits:
        raise ValueError(f"a string of {coded.bits} bits does not end with its run, at {end}")


def _read_first(string: NDArray[np.uint8], count: int, level: int) -> tuple[Words, int]:
    """Fills, and where the string of a run ends."""
    checked_level(level)
    fills = np.zeros((-(-count // BLOCK), BLOCK), dtype=np.uint32)
    at = 0
    for fill in fills:
        header = int(packed(string[at:at + HEADER_BITS]).sum())
        at += HEADER_BITS
        if header == ESCAPE:
            _whole(string, at + 32 * BLOCK)
            fill[:] = _escaped(packed(string[at:at + 32 * BLOCK]), level)
            at += 32 * BLOCK
        elif header != ZERO:
            largest = level - FLOOR - 1 + header
            fill[:] = power(largest)
            if largest >= level:
                count_planes = largest - level + 1
                end = at + BLOCK * (1 + count_planes)
                _whole(string, end)
                signs, *planes = string[at:end].reshape(-1, BLOCK).astype(np.int64)
                magnitudes = sum(plane << count_planes - 1 - place for place, plane in enumerate(planes))
                fill[:] = _fills(np.asarray(magnitudes), level) | signs.astype(np.uint32) << np.uint32(31)
                at = end
    _whole(string, at)
    return fills.ravel()[:count], at


def _whole(string: NDArray[np.uint8], end: int) -> None:
    if end > len(string):
        raise ValueError(f"a string of {len(string)} bits ends before its run, which needs {end} or more")


def _fills(magnitudes: NDArray[Any], level: int) -> Words:
    """Magnitudes of fills of whole quanta, below 2^24."""
    numbers = np.ldexp(magnitudes.astype(np.float32), level).view(np.uint32)
    return np.where(magnitudes == 0, np.uint32(small(level)), numbers)


class _Kinds(NamedTuple):
    """What fills say of their words at a level: exactly zero; e at least the level; below the quantum, the sign known;
    below 2^(e + 1)."""

    zero: Mask
    large: Mask
    small: Mask
    unsent: Mask


def _kinds(fills: Words, level: int) -> _Kinds:
    magnitudes = fills & ~_SIGN
    zero, is_small = magnitudes == 0, magnitudes == small(level)
    large = exponents(fills) >= level
    return _Kinds(zero, large, is_small, ~(zero | is_small | large))


def ends(fills: Words, level: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Least and largest that words can be of which there are fills: FP32, sums rounded to nearest; NaN if a fill is."""
    kinds = _kinds(fills, level)
    values, quantum = fills.view(np.float32), np.float32(2.0) ** level
    negative = fills >> np.uint32(31) == 1
    around = ((fills >> FRACTION_BITS & 0xFF) + 1 << FRACTION_BITS).astype(np.uint32).view(np.float32)
    near = np.where(kinds.large | kinds.zero, values, np.where(negative, np.float32(-0.0), np.float32(0)))
    step = np.where(negative, -quantum, quantum)
    with np.errstate(all="ignore"):
        far = np.where(kinds.zero, values, near + step)
    low, high = np.where(negative, far, near), np.where(negative, near, far)
    return np.where(kinds.unsent, -around, low), np.where(kinds.unsent, around, high)


def refined(words: Words, fills: Words, level: int, lower: int) -> Words:
    """Fills of words after the next part from a level to a lower one."""
    checked_level(level, lower)
    kinds = _kinds(fills, level)
    kept = kinds.zero | kinds.unsent & (exponents(fills) < lower)
    return np.where(kept, fills, np.where(kinds.large, fills | _cut(words, lower), _cut(words, lower)))


def following(words: Words, fills: Words, mask: Mask, level: int, lower: int | None) -> Fields:
    """The next part, from a level to a lower one, or to the exact word (None): a field each for the words of a mask."""
    checked_level(level, lower)
    words, fills = words[mask], fills[mask]
    kinds, tops, signs = _kinds(fills, level), exponents(fills), (words >> np.uint32(31)).astype(np.uint64)
    tops = np.where(kinds.small, level - 1, tops)
    if lower is None:
        below = _below(fills, level)
        large = (words & ((1 << below) - 1).astype(np.uint32)).astype(np.uint64)
        tail, tail_bits = _tails(words, tops)
    else:
        below = _below(fills, level) - _below(fills, lower)
        large = _magnitudes(words, lower) & ((1 << below) - 1).astype(np.uint64)
        # An e of 24 or more above the lower level: none of its bits are to come.
        tail_bits = np.maximum(tops - lower + 1, 0)
        tail = np.where(tail_bits > 0, _magnitudes(words, lower), np.uint64(0))
    signed = kinds.unsent & (tail_bits > 0)
    values = np.where(signed, tail << np.uint64(1) | signs, tail)
    bits = np.where(kinds.large, below, tail_bits + signed)
    return Fields(np.where(kinds.large, large, values).astype(np.uint64), np.where(kinds.zero, 0, bits))


def _tails(words: Words, tops: Numbers) -> tuple[NDArray[np.uint64], Numbers]:
    """Tails of words from exponents, as numbers, and their bits."""
    zeros = tops - exponents(words)
    fractions = (words & ((1 << FRACTION_BITS) - 1)).astype(np.uint64)
    short = np.clip(zeros, 0, UNARY - 1).astype(np.uint64)
    near = (fractions << np.uint64(1) | np.uint64(1)) << short
    fields = (words >> FRACTION_BITS & 0xFF).astype(np.uint64)
    far = (fractions << np.uint64(EXPONENT_BITS) | fields) << np.uint64(UNARY)
    escaped = zeros >= UNARY
    return (np.where(escaped, far, near),
            np.where(escaped, UNARY + EXPONENT_BITS, np.clip(zeros, 0, UNARY - 1) + 1) + FRACTION_BITS)


def read_following(coded: Coded, fills: Words, mask: Mask, level: int, lower: int | None) -> Words:
    """Fills, or words, of a run after the next part, of its string; those that the mask does not name stay.

    Raises
    ------
    ValueError
        If the string ends before the run does, or goes on behind it.
    """
    words, end = _read_following(unpacked(coded.words, coded.bits), fills, mask, level, lower)
    _ended(coded, end)
    return words


def _read_following(string: NDArray[np.uint8], fills: Words, mask: Mask, level: int, lower: int | None
                    ) -> tuple[Words, int]:
    """Fills or words, and where the string ends."""
    checked_level(level, lower)
    old = fills[mask]
    kinds = _kinds(old, level)
    tops = np.where(kinds.small, level - 1, exponents(old))
    if lower is None:
        fixed = np.where(kinds.large, _below(old, level), 0)
        tailed = kinds.small | kinds.unsent
    else:
        inner = np.maximum(tops - lower + 1, 0)
        fixed = np.where(kinds.large, _below(old, level) - _below(old, lower), inner + (kinds.unsent & (inner > 0)))
        fixed, tailed = np.where(kinds.zero, 0, fixed), np.zeros_like(kinds.zero)
    starts, bits = _places(string, fixed, tailed, kinds.unsent)
    fields = _numbers(string, starts, bits)
    signs = np.where(kinds.unsent, fields & 1, old >> np.uint32(31)).astype(np.uint32) << np.uint32(31)
    rest = np.where(kinds.large, 0, fields >> kinds.unsent.astype(np.int64))
    if lower is None:
        shown, others = fields, signs | _of_tails(rest, tops)
    else:
        shown, others = fields << _below(old, lower), signs | _fills(rest, lower)
    words = fills.copy()
    large = old | shown.astype(np.uint32)
    words[mask] = np.where(kinds.large, large, np.where(kinds.zero | (bits == 0), old, others))
    return words, int(bits.sum())


def _places(string: NDArray[np.uint8], fixed: Numbers, tailed: Mask, signed: Mask) -> tuple[Numbers, Numbers]:
    """Where in a string the field of each word begins, and its bits: those with tails show theirs themselves."""
    bits = fixed.copy()
    ones = np.flatnonzero(string)
    before = np.concatenate([[0], np.cumsum(fixed)])
    moved = 0
    for place in np.flatnonzero(tailed):
        start = int(before[place]) + moved + int(signed[place])
        following_one = np.searchsorted(ones, start)
        zeros = int(ones[following_one]) - start if following_one < len(ones) else UNARY
        own = (UNARY + EXPONENT_BITS if zeros >= UNARY else zeros + 1) + FRACTION_BITS + int(signed[place])
        bits[place] = own
        moved += own
    starts = np.cumsum(bits) - bits
    _whole(string, int(bits.sum()))
    return starts, bits


def _numbers(string: NDArray[np.uint8], starts: Numbers, bits: Numbers) -> Numbers:
    """Fields of a string as numbers."""
    lanes = np.arange(int(bits.max(initial=0)))
    inside = lanes < bits[:, None]
    field_bits = np.zeros(inside.shape, dtype=np.int64)
    field_bits[inside] = string[(starts[:, None] + lanes)[inside]]
    return (field_bits << lanes).sum(axis=1)


def _of_tails(tails: Numbers, tops: Numbers) -> Words:
    """Magnitudes of words of tails from exponents."""
    lowest = tails & ((1 << UNARY) - 1)
    escaped = lowest == 0
    zeros = np.log2(lowest & -lowest | escaped).astype(np.int64)
    fields = np.where(escaped, tails >> UNARY & 0xFF, tops - zeros + BIAS)
    fractions = np.where(escaped, tails >> UNARY + EXPONENT_BITS, tails >> zeros + 1)
    return (fields << FRACTION_BITS | fractions).astype(np.uint32)


def skipped(words: Words, mask: Mask, sent: bool = True) -> Words:
    """A run in skip code; its mask may not be ``sent``."""
    if not sent:
        return words[mask]
    marks = packed(mask)
    counts = np.add.reduceat(mask.astype(np.int64), np.arange(0, len(mask), 32)) if len(mask) else np.zeros(0, int)
    return np.insert(words[mask], np.cumsum(counts) - counts, marks).astype(np.uint32)


def read_skipped(coded: Words, count: int) -> tuple[Words, Mask]:
    """A run of ``count`` words and its mask, of its skip code; what was skipped is +0.

    Raises
    ------
    ValueError
        If the code ends before the run does, or goes on behind it.
    """
    run, mask = np.zeros(count, dtype=np.uint32), np.zeros(count, dtype=bool)
    at = 0
    for begin in range(0, count, 32):
        named = begin + np.flatnonzero(unpacked(coded[at:at + 1], 32))
        at += 1
        if at + len(named) > len(coded) or (named >= count).any():
            break
        run[named], mask[named] = coded[at:at + len(named)], True
        at += len(named)
    else:
        if at == len(coded):
            return run, mask
    raise ValueError(f"a skip code of {len(coded)} words does not fit a run of {count}")


def read_named(coded: Words, mask: Mask) -> Words:
    """A run of its skip code without a mask.

    Raises
    ------
    ValueError
        If there are not as many words as the mask names.
    """
    if len(coded) != mask.sum():
        raise ValueError(f"a skip code of {len(coded)} words is not of a mask that names {mask.sum()}")
    run = np.zeros(len(mask), dtype=np.uint32)
    run[mask] = coded
    return run


@dataclass(frozen=True)
class CodeRange:
    """Which part of a code: the first one, to level ``first``, or the next one from level ``known`` to ``lower``, or
    to exact words (None)."""

    first: int
    known: int | None = None
    lower: int | None = None

    @property
    def follows(self) -> bool:
        """It is a next part."""
        return self.known is not None

    def check(self) -> None:
        """That its levels are such.

        Raises
        ------
        ValueError
            As :func:`~plinth_hw.isa.codes.checked_level`.
        """
        checked_level(self.first)
        if self.known is not None:
            checked_level(self.known, self.lower)

    def string(self, run: Words, mask: Mask | None = None) -> Words:
        """The string of a run, whose words are known to this part's level if it is a next one."""
        if self.known is None:
            return first(run, self.first).coded().words
        assert mask is not None
        fills = filled(run, self.first)
        if self.known != self.first:
            fills = refined(run, fills, self.first, self.known)
        return following(run, fills, mask, self.known, self.lower).coded().words

    def run(self, string: Words, count: int, fills: Words | None = None, mask: Mask | None = None) -> Words:
        """Fills, or words, of a string of so many words.

        Raises
        ------
        ValueError
            If it is not just as long as they take.
        """
        if self.known is None:
            words, bits = _read_first(unpacked(string, 32 * len(string)), count, self.first)
        else:
            assert fills is not None and mask is not None
            words, bits = _read_following(unpacked(string, 32 * len(string)), fills, mask, self.known, self.lower)
        if -(-bits // 32) != len(string):
            raise ValueError(f"a string of {len(string)} words is not of a run of {bits} bits")
        return words


@dataclass(frozen=True)
class Skips:
    """Skip code: whether masks are ``sent``, and whether they are ``given``, else found of the run; whether strings are
    of ``maps`` alone."""

    sent: bool
    given: bool
    maps: bool = False

    #: It is no next part.
    follows = False

    def check(self) -> None:
        """That one of the two holds, of masks alone the first.

        Raises
        ------
        ValueError
            If not.
        """
        if not (self.sent or self.given):
            raise ValueError("masks of a skip code must be sent or given")
        if self.maps and (self.given or not self.sent):
            raise ValueError("masks that go alone must be sent, and not given")

    def string(self, run: Words, mask: Mask | None = None) -> Words:
        """The string of a run, with the mask if it is given."""
        named = run != 0 if mask is None else mask
        return packed(named) if self.maps else skipped(run, named, self.sent)

    def run(self, string: Words, count: int, fills: Words | None = None, mask: Mask | None = None) -> Words:
        """A run of a string, with the mask if it was not sent.

        Raises
        ------
        ValueError
            If it is not just as long as what the mask names.
        """
        if self.sent:
            return read_skipped(string, count)[0]
        assert mask is not None
        return read_named(string, mask)
