"""Runs that dies code, decode and predict: all of their memory, by loops over the rules of codes and bounds."""

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest
from tests.sim.golden.test_codes import e_of, first_string, following_string, quanta
from tests.sim.golden.test_device import TASKS, WORDS, at, error, filled, run, status, task

from plinth_hw.isa import codes as isa
from plinth_hw.isa.operations import Engine, ErrorCode, TransferOperation
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.winograd import MATRICES

CODING = preset("ndp-demo-predict")
BASES = {1: 5, 4: 1023, 6: 390, 8: 411, 13: 3000}
SIGN = 1 << 31
IDLE = [task((TransferOperation.COPY, {"source": at(1), "destination": at(1), "rows": 1, "columns": 1, "planes": 1}))]


def words_of(string: str) -> list[int]:
    return [int(string[first:first + 32][::-1], 2) for first in range(0, len(string), 32)]


def mask_words(mask: list[bool]) -> list[int]:
    return words_of("".join("01"[bit] for bit in mask))


def near(rng: np.random.Generator, level: int, count: int) -> list[int]:
    """Words whose exponents lie about a level, blocks far above and below it, and zeros."""
    spread = rng.choice([-20, -4, 1, 9, 24], -(-count // 16)).repeat(16)[:count] + rng.integers(-6, 3, count)
    words = rng.integers(0, 2, count) << 31 | np.clip(spread + level + 127, 1, 254) << 23 | rng.integers(
        0, 1 << 23, count)
    words[rng.random(count) < 0.2] = 0
    words[rng.random(count) < 0.05] = SIGN
    return [int(word) for word in words]


def power(exponent: int) -> int:
    return exponent + 127 << 23


def number(units: int, level: int) -> int:
    """The word of units of 2^level."""
    return int(np.float32(units * 2.0**level).view(np.uint32))


def shown(word: int, level: int) -> int:
    """A word that was sent down to a level: cut off there, or known to be below it."""
    units = quanta(word, level)
    return word & SIGN | (number(units, level) if units else power(level - 1) | 1 << 22)


def first_fills(run: list[int], level: int) -> list[int]:
    """By the table of fills."""
    fills: list[int] = []
    for block in (run[first:first + 16] for first in range(0, len(run), 16)):
        largest = max(max(e_of(word) for word in block), level - 12)
        if not any(block):
            fills += [0] * len(block)
        elif largest > level + 17:
            fills += [word if not word % SIGN or e_of(word) >= level else shown(word, level) for word in block]
        elif largest >= level:
            fills += [shown(word, level) for word in block]
        else:
            fills += [power(largest)] * len(block)
    return fills


def next_fills(run: list[int], fills: list[int], mask: list[bool], level: int, lower: int | None) -> list[int]:
    """Of the next part, of words that a mask names."""
    refined = []
    for word, fill, named in zip(run, fills, mask, strict=True):
        unsent = e_of(fill) < level and fill % SIGN not in (0, power(level - 1) | 1 << 22)
        if not named or not fill % SIGN or (lower is not None and unsent and e_of(fill) < lower):
            refined.append(fill)
        elif lower is None:
            refined.append(word)
        else:
            refined.append(fill | shown(word, lower) if e_of(fill) >= level else shown(word, lower))
    return refined


def region_code(word: int, bits: int, scale: int) -> int:
    """MPT's code, by the rules of regions, in rational numbers."""
    n, value = 1 << bits - 3, float(np.uint32(word).view(np.float32))
    negative = word >> 31
    if np.isnan(value):
        return 8 * n - 1
    if np.isinf(value) or (size := abs(Fraction(value)) / Fraction(2)**scale) >= 15 * n - (16 if negative else 8):
        return 8 * n - 2 if negative else 4 * n - 1
    region = max(r for r in range(4) if size >= n * (2**r - 1))
    return negative << bits - 1 | n * region + floor((size - n * (2**region - 1)) / 2**region)


def region_fill(code: int, bits: int, scale: int) -> int:
    """The least magnitude that has a code."""
    n = 1 << bits - 3
    if code == 8 * n - 1:
        return isa.NAN
    region, step = divmod(code % (4 * n), n)
    return code >> bits - 1 << 31 | number(n * (2**region - 1) + step * 2**region, scale)


def coded_body(**fields: Any) -> dict[str, Any]:
    """Three runs of 37 words; all operands lie apart, and so do their runs."""
    return {"source": at(7, 4), "destination": at(800, 1), "codes": at(30, 8), "mask": at(3, 13), "columns": 37,
            "rows": 3, "planes": 1, "source_row_stride": 41, "destination_row_stride": 77, "codes_row_stride": 79,
            "mask_row_stride": 3, **fields}


RUNS = 7 + 1023, 41
DESTINATION = 800 + 5, 77
STRINGS = 30 + 411, 79
MASKS = 3 + 3000, 3
COUNT = 37


def placed(memory: np.ndarray, where: tuple[int, int], rows: Sequence[list[int]]) -> None:
    for row, words in enumerate(rows):
        memory[where[0] + row * where[1]:][:len(words)] = words


def image(seed: int, runs: Sequence[list[int]] = (), masks: Sequence[list[bool]] = (),
          strings: Sequence[list[int]] = ()) -> np.ndarray:
    memory = np.random.default_rng(seed).integers(0, 1 << 32, WORDS, dtype=np.uint32)
    placed(memory, RUNS, runs)
    placed(memory, MASKS, [mask_words(mask) for mask in masks])
    placed(memory, STRINGS, [[len(string), *string] for string in strings])
    return memory


def expect(operation: TransferOperation, fields: dict[str, Any], memory: np.ndarray,
           *changes: tuple[tuple[int, int], list[list[int]]]) -> None:
    """The task changes just that, of its own die, and of another one."""
    for remote in (0, 1):
        array, images = filled(CODING, memory, [task((operation, {**fields, "remote": remote,
                                                                  "destination_die": remote}))], IDLE, bases=BASES)
        for where, rows in changes:
            placed(images[remote], where, rows)
        run(array)
        assert (status(array), *error(array)) == (2, 0, 0, 0)
        for die, wanted in zip(array.dies, images, strict=True):
            assert die.read_memory(0, WORDS).tolist() == wanted.tolist()


def drawn(seed: int, level: int) -> tuple[list[list[int]], list[list[bool]]]:
    rng = np.random.default_rng(seed)
    return [near(rng, level, COUNT) for _ in range(3)], [[bool(named) for named in rng.random(COUNT) < 0.6]
                                                         for _ in range(3)]


def lengths(strings: Sequence[list[int]]) -> list[list[int]]:
    return [[len(string), *string] for string in strings]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("level", [-114, -3, 6, 110])
def test_first_parts(level: int, seed: int) -> None:
    runs, masks = drawn(seed, level)
    strings = [words_of(first_string(run, level)) for run in runs]
    expect(TransferOperation.ENCODE, coded_body(first=level), image(seed, runs, masks),
           (DESTINATION, lengths(strings)))
    expect(TransferOperation.DECODE, coded_body(first=level), image(seed, strings=strings),
           (DESTINATION, [first_fills(run, level) for run in runs]))


@pytest.mark.parametrize("columns", [1, 31, 32, 33, 64, 65])
def test_masks_end_within_a_word_or_with_one(columns: int) -> None:
    """A run of so many words, of which the last is named."""
    rng = np.random.default_rng(columns)
    run = [int(word) for word in rng.integers(1, 1 << 32, columns)]
    mask = [*(bool(named) for named in rng.random(columns - 1) < 0.5), True]
    named = [word for word, wanted in zip(run, mask, strict=True) if wanted]
    fields = coded_body(rows=1, skips=1, given=1, columns=columns)
    expect(TransferOperation.ENCODE, fields, image(1, [run], [mask]), (DESTINATION, lengths([named])))
    expect(TransferOperation.DECODE, fields, image(1, [run], [mask], [named]),
           (DESTINATION, [[word if wanted else 0 for word, wanted in zip(run, mask, strict=True)]]))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("levels", [(5, 5, 3), (5, 5, -12), (0, -2, -9), (9, 4, 0), (3, 3, None), (-2, -4, None)])
def test_next_parts(levels: tuple[int, int, int | None], seed: int) -> None:
    """Of words that masks name, from the level to which all are known, or to which a part before has sent them."""
    first, known, lower = levels
    runs, masks = drawn(seed, first)
    fills = [first_fills(run, first) for run in runs]
    if known != first:
        fills = [next_fills(run, fill, [True] * COUNT, first, known) for run, fill in zip(runs, fills, strict=True)]
    rows = list(zip(runs, fills, masks, strict=True))
    strings = [words_of(following_string(*row, known, lower)) for row in rows]
    fields = coded_body(first=first, known=known, lower=77 if lower is None else lower, follows=1, exact=lower is None)
    expect(TransferOperation.ENCODE, fields, image(seed, runs, masks), (DESTINATION, lengths(strings)))
    expect(TransferOperation.DECODE, fields, image(seed, fills, masks, strings),
           (DESTINATION, [next_fills(*row, known, lower) for row in rows]))


def skip_string(run: list[int], mask: list[bool], sent: bool) -> list[int]:
    words: list[int] = []
    for first in range(0, len(run), 32):
        here = mask[first:first + 32]
        words += mask_words(here) if sent else []
        words += [word for word, named in zip(run[first:], here, strict=False) if named]
    return words


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("sent", "given"), [(1, 0), (0, 1), (1, 1)])
def test_skip_code(sent: int, given: int, seed: int) -> None:
    runs, masks = drawn(seed, 0)
    named = masks if given else [[word != 0 for word in run] for run in runs]
    strings = [skip_string(run, mask, bool(sent)) for run, mask in zip(runs, named, strict=True)]
    fields = coded_body(first=0, skips=1, sent=sent, given=given)
    expect(TransferOperation.ENCODE, fields, image(seed, runs, masks), (DESTINATION, lengths(strings)))
    decoded = [[word if bit else 0 for word, bit in zip(run, mask, strict=True)]
               for run, mask in zip(runs, named, strict=True)]
    stored = [(MASKS, [mask_words(mask) for mask in named])] if sent and given else []
    expect(TransferOperation.DECODE, fields, image(seed, masks=[] if sent else masks, strings=strings),
           (DESTINATION, decoded), *stored)
    if sent and not given:
        expect(TransferOperation.ENCODE, {**fields, "maps": 1}, image(seed, runs),
               (DESTINATION, lengths([mask_words(mask) for mask in named])))


@pytest.mark.parametrize("scale", [-126, -5, 2, 119])
@pytest.mark.parametrize("bits", [4, 5, 6])
def test_regions(bits: int, scale: int) -> None:
    runs, masks = drawn(bits, min(scale + 3, 104))
    runs[2][5:9] = [isa.NAN, 0xFFC00001, 0x7F800000, 0xFF800000]
    n = 1 << bits - 3
    ends = [n * (2**r - 1) for r in range(1, 4)] + [15 * n - 8, 15 * n - 16]
    runs[1][:20] = [number(end, scale) + step for end in ends for step in (0, -1, SIGN, SIGN - 1)]
    codes = [[region_code(word, bits, scale) for word in run] for run in runs]
    strings = [words_of("".join(f"{code:0{bits}b}"[::-1] for code in row)) for row in codes]
    fills = [[region_fill(code, bits, scale) for code in row] for row in codes]
    fields = coded_body(first=scale, regions=bits - 3)
    expect(TransferOperation.ENCODE, fields, image(bits, runs), (DESTINATION, lengths(strings)))
    expect(TransferOperation.DECODE, fields, image(bits, strings=strings), (DESTINATION, fills))
    fields |= {"follows": 1, "exact": 1}
    rest = [skip_string(run, mask, False) for run, mask in zip(runs, masks, strict=True)]
    expect(TransferOperation.ENCODE, fields, image(bits, runs, masks), (DESTINATION, lengths(rest)))
    expect(TransferOperation.DECODE, fields, image(bits, fills, masks, rest), (DESTINATION, [
        [word if named else fill for word, fill, named in zip(*row, strict=True)]
        for row in zip(runs, fills, masks, strict=True)]))


def refused(operation: TransferOperation, fields: dict[str, Any], memory: np.ndarray, code: ErrorCode | None) -> None:
    array, (before,) = filled(CODING, memory, [task((operation, fields))], bases=BASES)
    run(array)
    if code is None:
        assert status(array) == 2 and (array.dies[0].read_memory(0, WORDS) != before).any()
    else:
        assert error(array)[:2] == (code.value, TASKS) and error(array)[2] & 0xFF == Engine.TRANSFER.value
        assert array.dies[0].read_memory(0, WORDS).tolist() == before.tolist()


ENCODE, DECODE = TransferOperation.ENCODE, TransferOperation.DECODE
NEXT = {"follows": 1, "first": 3, "known": 3, "lower": 0}
SENT = {"first": 0, "skips": 1, "sent": 1}


@pytest.mark.parametrize(("fields", "code"), [
    ({"first": 3}, None), (NEXT, None), ({**NEXT, "exact": 1}, None), (SENT, None),
    ({"first": 0, "regions": 2}, None), ({"first": 0, "regions": 2, "follows": 1, "exact": 1}, None),
    ({"first": 111}, ErrorCode.BAD_OPERAND), ({"first": -115}, ErrorCode.BAD_OPERAND),
    ({**NEXT, "lower": 2}, ErrorCode.BAD_OPERAND), ({**NEXT, "lower": -15}, ErrorCode.BAD_OPERAND),
    ({**NEXT, "known": 111, "exact": 1}, ErrorCode.BAD_OPERAND),
    ({**NEXT, "first": 111, "exact": 1}, ErrorCode.BAD_OPERAND),
    ({"first": 0, "regions": 2, **NEXT}, ErrorCode.BAD_OPERAND), ({**NEXT, **SENT}, ErrorCode.BAD_OPERAND),
    ({**SENT, "regions": 1}, ErrorCode.BAD_OPERAND), ({**SENT, "sent": 0}, ErrorCode.BAD_OPERAND),
    ({"first": 0, "regions": 2, "maps": 1}, ErrorCode.BAD_OPERAND), ({"first": 0, "maps": 1}, ErrorCode.BAD_OPERAND),
    ({**SENT, "maps": 1, "given": 1}, ErrorCode.BAD_OPERAND), ({**SENT, "maps": 1}, None),
    ({"first": 120, "regions": 1}, ErrorCode.BAD_OPERAND), ({"first": -127, "regions": 1}, ErrorCode.BAD_OPERAND),
    ({"first": 0, "planes": 2}, ErrorCode.BAD_OPERAND), ({"first": 0, "gather": 1}, ErrorCode.BAD_OPERAND),
    ({"first": 0, "scatter": 1}, ErrorCode.BAD_OPERAND), ({"first": 0, "columns": 0}, ErrorCode.BAD_OPERAND),
    ({"first": 0, "source": at(WORDS - 2 * 41 - 37)}, None),
    ({"first": 0, "source": at(WORDS - 2 * 41 - 36)}, ErrorCode.BAD_ADDRESS),
    ({**NEXT, "mask": at(WORDS - 2 * 3 - 2)}, None), ({**NEXT, "mask": at(WORDS - 7)}, ErrorCode.BAD_ADDRESS),
    ({"first": 0, "mask": at(WORDS)}, None), ({**SENT, "mask": at(WORDS)}, None),
    ({**SENT, "given": 1, "mask": at(WORDS)}, ErrorCode.BAD_ADDRESS),
    ({"first": 0, "codes": at(WORDS)}, None), ({"first": 0, "destination": at(WORDS)}, ErrorCode.BAD_ADDRESS)])
def test_what_is_not_encoded(fields: dict[str, Any], code: ErrorCode | None) -> None:
    refused(ENCODE, coded_body(**fields), image(3, *drawn(3, 3)), code)


@pytest.mark.parametrize("more", [0, 1])
def test_strings_need_room_for_their_lengths(more: int) -> None:
    """Two words of mask, 37 words, and one for the length."""
    runs = [[word | 1 for word in run] for run in drawn(4, 3)[0]]
    room = 39 + more
    if more:
        expect(ENCODE, coded_body(**SENT, destination_row_stride=room), image(4, runs),
               ((DESTINATION[0], room), lengths([skip_string(run, [True] * 37, True) for run in runs])))
    else:
        refused(ENCODE, coded_body(**SENT, destination_row_stride=room), image(4, runs), ErrorCode.BAD_CODE)
    strings = [skip_string(run, [True] * 37, True) for run in runs]
    memory = image(4)
    placed(memory, (STRINGS[0], 40), lengths(strings))
    refused(DECODE, coded_body(**SENT, codes_row_stride=40), memory, None)
    placed(memory, (STRINGS[0], 39), lengths(strings))
    refused(DECODE, coded_body(**SENT, codes_row_stride=39), memory, ErrorCode.BAD_CODE)


@pytest.mark.parametrize("fields", [{"first": 3}, NEXT, {**NEXT, "exact": 1}, SENT, {**SENT, "sent": 0, "given": 1},
                                    {"first": 0, "regions": 3}])
@pytest.mark.parametrize("row", range(3))
def test_strings_of_another_length(fields: dict[str, Any], row: int) -> None:
    """A word more or less, of any run."""
    runs, masks = drawn(5, 3)
    fills = [first_fills(run, 3) for run in runs]
    if fields.get("regions"):
        strings = [[0] * -(-37 * 6 // 32)] * 3
    elif fields.get("skips"):
        named = masks if fields.get("given") else [[word != 0 for word in run] for run in runs]
        strings = [skip_string(run, mask, bool(fields["sent"])) for run, mask in zip(runs, named, strict=True)]
    elif fields.get("follows"):
        strings = [words_of(following_string(*operands, 3, None if fields.get("exact") else 0))
                   for operands in zip(runs, fills, masks, strict=True)]
    else:
        strings = [words_of(first_string(run, 3)) for run in runs]
    refused(DECODE, coded_body(**fields), image(5, fills, masks, strings), None)
    for wrong in ([*strings[row], 0], strings[row][:-1]):
        others = [wrong if number == row else string for number, string in enumerate(strings)]
        refused(DECODE, coded_body(**fields), image(5, fills, masks, others), ErrorCode.BAD_CODE)


@pytest.mark.parametrize(("fields", "code"), [
    ({}, None), ({"codes": at(WORDS)}, ErrorCode.BAD_ADDRESS), ({"destination": at(WORDS)}, ErrorCode.BAD_ADDRESS),
    ({"source": at(WORDS)}, ErrorCode.BAD_ADDRESS), ({"mask": at(WORDS)}, ErrorCode.BAD_ADDRESS)])
def test_what_is_not_decoded(fields: dict[str, Any], code: ErrorCode | None) -> None:
    runs, masks = drawn(6, 3)
    fills = [first_fills(run, 3) for run in runs]
    strings = [words_of(following_string(*row, 3, 0)) for row in zip(runs, fills, masks, strict=True)]
    refused(DECODE, coded_body(**NEXT, **fields), image(6, fills, masks, strings), code)


def test_masks_that_strings_bring_are_stored_and_not_read() -> None:
    """So a place for them beyond the memory is an error of the die that they go to."""
    runs, masks = drawn(7, 0)
    strings = [skip_string(run, mask, True) for run, mask in zip(runs, masks, strict=True)]
    fields = coded_body(**SENT, given=1, mask=at(WORDS), remote=1, destination_die=1)
    array, images = filled(CODING, image(7, strings=strings), [task((DECODE, fields))], IDLE, bases=BASES)
    run(array)
    assert [error(array, die)[0] for die in (0, 1)] == [ErrorCode.REMOTE.value, ErrorCode.BAD_PACKET.value]
    assert array.dies[1].read_memory(0, WORDS).tolist() == images[1].tolist()


#: Where fills, what is added to channels, and maps that are added begin; and masks that are made.
FILLS, BIAS, MAPS, NEEDED = 1109 + 1023, 3 + 411, 210 + 390, 100 + 5
def test_a_string_of_no_words_ends_with_the_memory() -> None:
    """Nothing lies behind its length."""
    memory = image(8, masks=[[False] * COUNT])
    memory[WORDS - 1] = 0
    expect(DECODE, coded_body(skips=1, given=1, rows=1, codes=at(WORDS - 1)), memory, (DESTINATION, [[0] * COUNT]))


CHANNELS = 6
Ends = tuple[float, float]


def prediction(way: tuple[int, int], tiles: int, **fields: Any) -> dict[str, Any]:
    """Channels of a tile lie side by side, tiles 7 words apart; with sides there are maps of them."""
    return {"source": at(1109, 4), "codes": at(3, 8), "mask": at(210, 6), "destination": at(100, 1),
            "columns": CHANNELS, "rows": tiles, "planes": 1,
            "source_row_stride": 7, "source_plane_stride": 7 * tiles + 2,
            "destination_row_stride": -(-CHANNELS * tiles // 32) + 1, "down": way[0], "across": way[1], "first": 1,
            "mask_row_stride": 311, **fields}


def value(word: int) -> float:
    return float(np.uint32(word).view(np.float32))


def fill_ends(fill: int, level: int) -> Ends:
    """By the table of fills."""
    size, sign = 2.0**level, -1 if fill >> 31 else 1
    if not fill % SIGN:
        return 0.0, 0.0
    if e_of(fill) >= level:
        ends = value(fill), value(fill) + sign * size
    elif fill % SIGN == power(level - 1) | 1 << 22:
        ends = 0.0, sign * size
    else:
        ends = 2 * value(fill), -2 * value(fill)
    return min(ends), max(ends)


def region_ends(fill: int, bits: int, scale: int) -> Ends:
    n, code = 1 << bits - 3, region_code(fill, bits, scale)
    if code == 8 * n - 1:
        return value(isa.NAN), value(isa.NAN)
    beyond = code % (4 * n) >= 4 * n - 1 - (code >> bits - 1)
    far = float("inf") if beyond else 2.0**(code % (4 * n) // n + scale)
    return (value(fill) - far, value(fill)) if fill >> 31 else (value(fill), value(fill) + far)


def row_ends(row: tuple, ends: list[Ends]) -> Ends:
    """Sums of coefficients above zero times one end, below zero times the other."""
    pairs = [(float(coefficient), end) for coefficient, end in zip(row, ends, strict=True) if coefficient]
    return (sum(coefficient * end[coefficient < 0] for coefficient, end in pairs),
            sum(coefficient * end[coefficient > 0] for coefficient, end in pairs))


def lives(way: tuple[int, int], ends: list[list[Ends]], added: Any, pooled: bool) -> list[list[bool]]:
    """Neurons of a tile that may be above 0, and not below another of their window; ``added`` to one: None outside."""
    down, across = MATRICES[way[0]], MATRICES[way[1]]
    middle = [[row_ends(row, [line[v] for line in ends]) for v in range(len(across[0]))] for row in down]
    neurons = [[row_ends(row, line) for row in across] for line in middle]
    alive = []
    for i, line in enumerate(neurons):
        alive.append([])
        for j, (_, high) in enumerate(line):
            more = added(i, j)
            window = [neurons[i // 2 * 2 + a][j // 2 * 2 + b] for a in (0, 1) for b in (0, 1)] if pooled else []
            alive[-1].append(more is not None and not high + more <= 0 and not any(high < low for low, _ in window))
    return alive


def added_to(fields: dict[str, Any], memory: np.ndarray, tile: int, channel: int) -> Callable[[int, int], float | None]:
    """What is added to each neuron of a tile; None outside the map."""
    height, width = len(MATRICES[fields["down"]]), len(MATRICES[fields["across"]])
    rows, columns = fields.get("destination_rows", 0), fields.get("destination_columns", 0)
    lines, places = max(1, -(-rows // height)), max(1, -(-columns // width))
    number, line, place = tile // places // lines, tile // places % lines, tile % places

    def added(i: int, j: int) -> float | None:
        y, x = line * height + i, place * width + j
        total = value(memory[BIAS + channel])
        if rows and not (y < rows and x < columns):
            return None
        if fields.get("source_across"):
            total += value(memory[MAPS + number * fields["mask_row_stride"] + y * fields["source_down"]
                                  + x * fields["source_across"] + channel])
        return total

    return added


def needed_masks(fields: dict[str, Any], memory: np.ndarray) -> list[list[int]]:
    """Of each element a bit for each channel of each tile."""
    way, first = (fields["down"], fields["across"]), fields["first"]
    down, across = MATRICES[way[0]], MATRICES[way[1]]
    elements = list(itertools.product(range(len(down[0])), range(len(across[0]))))
    neurons = list(itertools.product(range(len(down)), range(len(across))))
    masks: list[list[bool]] = [[] for _ in elements]
    levels = isa.shifts(down, across)
    for tile, channel in itertools.product(range(fields["rows"]), range(CHANNELS)):
        ends: list[list[Ends]] = [[] for _ in down[0]]
        for place, (u, v) in enumerate(elements):
            fill = int(memory[FILLS + place * fields["source_plane_stride"] + tile * 7 + channel])
            ends[u].append(region_ends(fill, fields["regions"] + 3, first) if fields.get("regions")
                           else fill_ends(fill, first - levels[u][v]))
        live = lives(way, ends, added_to(fields, memory, tile, channel), bool(fields.get("destination_row_step")))
        for mask, (u, v) in zip(masks, elements, strict=True):
            mask.append(any(live[i][j] and (fields.get("regions") or down[i][u] * across[j][v]) for i, j in neurons))
    assert 0.02 < np.mean(masks) < 0.95
    return [mask_words([bool(bit) for bit in mask]) for mask in masks]


def fills_of(rng: np.random.Generator, fields: dict[str, Any]) -> np.ndarray:
    """A memory of fills of all kinds, few bits each, so that sums are exact; numbers that are added."""
    memory = rng.integers(0, 1 << 32, WORDS, dtype=np.uint32)
    down, across = MATRICES[fields["down"]], MATRICES[fields["across"]]
    levels, first = isa.shifts(down, across), fields["first"]
    loud = rng.integers(0, 2, (fields["rows"], CHANNELS))
    for place, tile, channel in itertools.product(range(len(down[0]) * len(across[0])), range(fields["rows"]),
                                                  range(CHANNELS)):
        kind, sign = rng.integers(0, 8), SIGN if rng.random() < 0.6 else 0
        if fields.get("regions"):
            fill = sign | number(int(rng.integers(0, 4 + 7 * kind * loud[tile, channel])), first - 1)
            fill = isa.NAN if rng.random() < 0.002 else fill
        else:
            level = first - levels[place // len(across[0])][place % len(across[0])]
            fill = (sign if kind < 3 else sign | number(int(rng.integers(1, 8)), level) if kind < 5
                    else sign | power(level - 1) | 1 << 22 if kind < 7 else power(level - int(rng.integers(1, 4))))
        memory[FILLS + place * fields["source_plane_stride"] + tile * 7 + channel] = fill
    size = 2.0**first
    for matrix in (down, across):
        size *= max(sum(abs(float(coefficient)) for coefficient in row) for row in matrix)
    size *= 1 if fields.get("regions") else 0.25

    def added(count: int, least: float, most: float) -> np.ndarray:
        return (np.round(rng.uniform(least, most, count) * size * 4) / 4).astype(np.float32).view(np.uint32)

    memory[BIAS:BIAS + CHANNELS] = added(CHANNELS, -1.7, 0.1)
    if fields.get("source_across"):
        memory[MAPS:TASKS] = added(TASKS - MAPS, -1, 0.5)
    return memory


#: Numbers of A^T of F(2,3), F(4,3) and F(2,5), and of 1.
NEURONS = [(4, 4), (8, 4), (4, 12), (0, 8), (12, 0)]
POOLED = {"destination_row_step": 2, "destination_column_step": 2}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sides", [(0, 0), (3, 5), (5, 3)])
@pytest.mark.parametrize("regions", [0, 1, 3])
@pytest.mark.parametrize("way", NEURONS)
def test_predictions(way: tuple[int, int], regions: int, sides: tuple[int, int], seed: int) -> None:
    """Elements that neurons need that may be above 0: of tiles, of maps with others added, before a pool."""
    more: list[dict[str, int]] = [{}]
    if sides[0]:
        more.append({"source_down": 53, "source_across": 8})
    if 0 not in way:
        more.append(POOLED)
    for extra in more:
        fields = prediction(way, 7, regions=regions, destination_rows=sides[0],
                            destination_columns=sides[1], **extra)
        memory = fills_of(np.random.default_rng([*way, regions, *sides, seed]), fields)
        expect(TransferOperation.PREDICT, fields, memory,
               ((NEEDED, fields["destination_row_stride"]), needed_masks(fields, memory)))


def test_levels_go_down_to_the_least() -> None:
    for first in (isa.LEVELS.start + isa.MOST_SHIFT, isa.LEVELS.stop - 1):
        fields = prediction((4, 8), 3, first=first)
        memory = fills_of(np.random.default_rng(abs(first)), {**fields, "first": 1})
        refused(TransferOperation.PREDICT, fields, memory, None)
    for fields in ({"first": -114 + isa.MOST_SHIFT - 1}, {"first": 111}, {"first": -127, "regions": 1},
                   {"first": 120, "regions": 2}):
        refused(TransferOperation.PREDICT, prediction((4, 8), 3, **fields), image(1), ErrorCode.BAD_OPERAND)


MAPPED = {"destination_rows": 3, "destination_columns": 3, "source_down": 40, "source_across": 9}
#: Where the fills of 16 elements of two tiles end, and what lies of a map of 3 x 3 places inside.
SPAN, INSIDE = 15 * 16 + 7 + CHANNELS, 2 * 40 + 2 * 9 + CHANNELS


@pytest.mark.parametrize(("fields", "code"), [
    ({}, None), (POOLED, None), (MAPPED, None), ({"columns": 5}, ErrorCode.BAD_OPERAND),
    ({"planes": 2}, ErrorCode.BAD_OPERAND), ({"gather": 1}, ErrorCode.BAD_OPERAND),
    ({"scatter": 1}, ErrorCode.BAD_OPERAND), ({"down": 1}, ErrorCode.BAD_OPERAND),
    ({"across": 2}, ErrorCode.BAD_OPERAND), ({"across": 13}, ErrorCode.BAD_OPERAND),
    ({**POOLED, "down": 0}, ErrorCode.BAD_OPERAND), ({**POOLED, "across": 0}, ErrorCode.BAD_OPERAND),
    ({"across": 0}, None),
    ({"destination_row_step": 2}, ErrorCode.BAD_OPERAND), ({"destination_column_step": 2}, ErrorCode.BAD_OPERAND),
    ({"destination_row_step": 4, "destination_column_step": 4}, ErrorCode.BAD_OPERAND),
    ({**MAPPED, **POOLED}, ErrorCode.BAD_OPERAND), ({**MAPPED, "destination_rows": 0}, ErrorCode.BAD_OPERAND),
    ({"source": at(WORDS - SPAN)}, None), ({"source": at(WORDS - SPAN + 1)}, ErrorCode.BAD_ADDRESS),
    ({"codes": at(WORDS - CHANNELS)}, None), ({"codes": at(WORDS - CHANNELS + 1)}, ErrorCode.BAD_ADDRESS),
    ({"mask": at(WORDS)}, None), ({**MAPPED, "mask": at(WORDS)}, ErrorCode.BAD_ADDRESS),
    ({**MAPPED, "rows": 4, "mask": at(WORDS - INSIDE)}, None),
    ({**MAPPED, "rows": 4, "mask": at(WORDS - INSIDE + 1)}, ErrorCode.BAD_ADDRESS),
    ({**MAPPED, "codes": at(WORDS - CHANNELS)}, None), ({**MAPPED, "destination_columns": 0}, None),
    ({"destination": at(WORDS - 15 * 2 - 1)}, None), ({"destination": at(WORDS - 15 * 2)}, ErrorCode.BAD_ADDRESS)])
def test_what_is_not_predicted(fields: dict[str, Any], code: ErrorCode | None) -> None:
    refused(TransferOperation.PREDICT, prediction((4, 4), 2, **fields), image(7), code)
