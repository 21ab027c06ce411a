"""Transfers that code: golden equals RTL word by word, strings that are none included."""

from functools import cache
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.hw.comm.test_transfer import HALF, run, to_other
from tests.sim.golden.test_codes import runs
from tests.support.engine_bench import body_words
from tests.support.verilated_engine import VerilatedTransfer

from plinth_hw.isa.codes import LEVELS, STEPS, shifts
from plinth_hw.isa.operations import ErrorCode, TransferOperation
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.transfer_bodies import CodeBody
from plinth_hw.isa.winograd import MATRICES
from plinth_sim.golden import codes, transfer
from plinth_sim.golden.vector import BadOperandError

pytestmark = pytest.mark.xdist_group("coded-transfers")

PARAMETERS = {flit: preset("ndp-tiny-winograd", transforms=((2, 3), (4, 3)) if flit == 2 else ((2, 3),), codes=True,
                           flit_words=flit, beat_words=max(4, flit)) for flit in (1, 2, 4, 16)}
WORDS = 1 << 15
BASES = [0] * 16
BASES[3] = 100
ENCODE, DECODE, PREDICT = TransferOperation.ENCODE, TransferOperation.DECODE, TransferOperation.PREDICT
#: Where words, strings, what is made of them, and masks lie; words of a run's place, and of a string's.
SOURCE, STRINGS, MADE, MASKS = 300, 2000, 6000, 9000
PITCH, ROOM = 263, 600


@cache
def engine(flit_words: int) -> VerilatedTransfer:
    return VerilatedTransfer(PARAMETERS[flit_words])


def place(at: int) -> dict[str, int]:
    """A pointer to a word."""
    return {"offset": at - BASES[3], "base": 3}


def fields(operation: TransferOperation, rows: int, columns: int, levels: tuple[int, int | None, int | None],
           **others: Any) -> dict[str, Any]:
    """Of a body: from words to strings, or from strings to what is made of them. Levels as of a code's part."""
    first, known, lower = levels
    source, destination = (SOURCE, STRINGS) if operation is ENCODE else (MADE, MADE)
    strides = (PITCH, ROOM) if operation is ENCODE else (PITCH, PITCH)
    places = {name: place(at) for name, at in (
        ("source", source), ("destination", destination), ("codes", STRINGS), ("mask", MASKS), ("index", BASES[3]))}
    return {**{name: 0 for name in CodeBody.FIELDS if not name.startswith("reserved")}, **places, "rows": rows,
            "columns": columns, "planes": 1, "source_row_stride": strides[0], "destination_row_stride": strides[1],
            "codes_row_stride": ROOM, "mask_row_stride": 9, "first": first, "known": known or 0, "lower": lower or 0,
            "follows": int(known is not None), "exact": int(known is not None and lower is None), **others}


def namespace(code_body: dict[str, Any]) -> SimpleNamespace:
    """A body as the golden model takes it."""
    return SimpleNamespace(**{name: SimpleNamespace(**value) if isinstance(value, dict) else value
                              for name, value in code_body.items()})


def check(flit_words: int, memory: Any, tasks: list[tuple[TransferOperation, dict[str, Any]]], seed: int) -> None:
    """Run tasks on both."""
    wanted = memory.copy()
    moved = []
    for operation, code_body in tasks:
        moved.append(transfer.move(operation, wanted, wanted, namespace(code_body), BASES,
                                   transforms=PARAMETERS[flit_words].transforms, lanes=flit_words))
    rtl_memory = memory.copy()
    outcome = engine(flit_words).run(
        [(operation.value, body_words(CodeBody, code_body)) for operation, code_body in tasks], BASES, rtl_memory,
        seed=seed, availability=1 if seed % 2 else 0.6, latency=seed % 5 * 4, limit=100_000)
    np.testing.assert_array_equal(rtl_memory, wanted)
    assert [(done.error, done.payload_words) for done in outcome.done] == [(ErrorCode.NONE, words) for words in moved]


def memory_of(words: Any, rows: int, seed: int) -> Any:
    """The run, and others of its words in another order, with masks."""
    rng = np.random.default_rng(seed)
    memory = rng.integers(0, 1 << 32, WORDS, dtype=np.uint32)
    for row in range(rows):
        memory[SOURCE + row * PITCH:][:len(words)] = words if row == 0 else rng.permutation(words)
    memory[MASKS:MASKS + 9 * rows] &= rng.integers(0, 1 << 32, 9 * rows, dtype=np.uint32)
    return memory


@pytest.mark.parametrize("flit_words", [2, *(
    pytest.param(flit, marks=pytest.mark.long) for flit in (1, 4, 16))])
def test_parts(flit_words):
    """Every part of a code, there and back; in the end masked words are what they were."""
    for number, (level, words) in enumerate(runs(flit_words)):
        rng = np.random.default_rng(number)
        rows, columns = 1 + number % 3, len(words)
        memory = memory_of(words, rows, number)
        step = int(rng.integers(STEPS.start, STEPS.stop))
        parts = [(level, None, None), (level, level, None)]
        if level - step in LEVELS:
            parts = [(level, None, None), (level, level, level - step), (level, level - step, None)]
        check(flit_words, memory, [(operation, fields(operation, rows, columns, part)) for part in parts
                                   for operation in (ENCODE, DECODE)], number)


def test_places():
    """At any alignment, into the place of the fills or another."""
    rng = np.random.default_rng(5)
    words = (rng.standard_normal(130) * 30).astype(np.float32).view(np.uint32)
    for number in range(24):
        memory = memory_of(words, 2, number)
        at = place(STRINGS + number)
        target = place(MADE + 600 + number)
        columns = int(rng.integers(1, 130))
        check(2, memory, [
            (ENCODE, fields(ENCODE, 2, columns, (3, None, None), destination=at, destination_row_stride=401 + number)),
            (DECODE, fields(DECODE, 2, columns, (3, None, None), codes=at, codes_row_stride=401 + number)),
            (ENCODE, fields(ENCODE, 2, columns, (3, 3, None), destination=at, destination_row_stride=401 + number)),
            (DECODE, fields(DECODE, 2, columns, (3, 3, None), codes=at, codes_row_stride=401 + number,
                            destination=target, destination_row_stride=131 + number))], number)


@pytest.mark.parametrize(("forge", "error"), [
    (lambda memory: memory.__setitem__(STRINGS, ROOM), ErrorCode.BAD_CODE),
    (lambda memory: memory.__setitem__(STRINGS, memory[STRINGS] + 1), ErrorCode.BAD_CODE),
    (lambda memory: memory.__setitem__(STRINGS, memory[STRINGS] - 1), ErrorCode.BAD_CODE),
    (lambda memory: memory.__setitem__(STRINGS, 0xFFFFFFFF), ErrorCode.BAD_CODE),
    (lambda memory: memory.__setitem__(STRINGS + 1, memory[STRINGS + 1] | 31), ErrorCode.BAD_CODE),
    (lambda memory: None, ErrorCode.NONE)])
def test_forged_strings(forge, error):
    """A length beyond the room, or not what the words take; bits that change what they take."""
    words = np.random.default_rng(2).standard_normal(100).astype(np.float32).view(np.uint32)
    memory = memory_of(words, 1, 1)
    engine(2).run([(ENCODE.value, body_words(CodeBody, fields(ENCODE, 1, 100, (-2, None, None))))], BASES, memory)
    forge(memory)
    code_body = fields(DECODE, 1, 100, (-2, None, None))
    body = namespace(code_body)
    if error is not ErrorCode.NONE:
        with pytest.raises(transfer.CodeError):
            transfer.move(DECODE, memory, memory.copy(), body, BASES)
    kept = memory.copy()
    (done,) = engine(2).run([(DECODE.value, body_words(CodeBody, code_body))], BASES, memory).done
    assert done.error == error
    kept[MADE:MADE + 100] = memory[MADE:MADE + 100]
    np.testing.assert_array_equal(memory, kept)


def test_string_without_room():
    """Nothing is written beyond the place."""
    words = np.random.default_rng(2).standard_normal(100).astype(np.float32).view(np.uint32)
    memory = memory_of(words, 1, 1)
    code_body = fields(ENCODE, 1, 100, (-9, None, None), destination_row_stride=30)
    kept = memory.copy()
    (done,) = engine(2).run([(ENCODE.value, body_words(CodeBody, code_body))], BASES, memory).done
    assert done.error == ErrorCode.BAD_CODE
    kept[STRINGS:STRINGS + 30] = memory[STRINGS:STRINGS + 30]
    np.testing.assert_array_equal(memory, kept)


def masks(rows: int, columns: int, ways: tuple[int, int], level: int, **others: Any) -> dict[str, Any]:
    """Of a body that predicts of elements ``PITCH`` apart."""
    code_body = fields(PREDICT, 1, columns, (level, None, None), down=ways[0], across=ways[1])
    return {**code_body, "rows": rows, "source_row_stride": columns, "source_plane_stride": PITCH,
            "destination": place(MASKS), "destination_row_stride": 9,
            "source": place(SOURCE), **others}


@pytest.mark.parametrize(("flit_words", "ways"), [
    (2, (4, 4)), (2, (0, 4)), (2, (8, 8)), pytest.param(16, (4, 4), marks=pytest.mark.long)])
def test_predictions(flit_words, ways):
    """Masks of elements, tiles and lines, of fills and words of any kind; of a few bits of a word, and of several;
    before a pool and without."""
    rng = np.random.default_rng(7)
    elements = prod(len(MATRICES[way][0]) for way in ways)
    window = {"destination_row_step": 2, "destination_column_step": 2}
    pools = 0 if any(len(MATRICES[way]) % 2 for way in ways) else 1
    for number in range(16):
        channels = flit_words * int(rng.integers(1, 1 + 32 // flit_words))
        tiles, level = int(rng.integers(1, 1 + PITCH // channels)), int(rng.integers(-4, 4))
        memory = rng.integers(0, 1 << 32, WORDS, dtype=np.uint32)
        levels = level - np.array(shifts(MATRICES[ways[0]], MATRICES[ways[1]])).ravel()
        for element in range(elements):
            words = rng.standard_normal(PITCH).astype(np.float32).view(np.uint32)
            words[rng.random(PITCH) < 0.3] = 0
            if number % 4 == 3:
                # Neurons of a window are often the same.
                words = rng.integers(-2, 3, PITCH).astype(np.float32).view(np.uint32)
            run = memory[SOURCE + element * PITCH:][:PITCH]
            # Fills as they come, after a few numbers of any kind.
            run[number:] = (words if number % 8 == 7 else codes.filled(words, int(levels[element])))[number:]
        memory[STRINGS + 9000:][:channels] = (rng.standard_normal(channels) - 1).astype(np.float32).view(np.uint32)
        bias = place(STRINGS + 9000)
        target = place(12000 + number)
        # Of all neurons, or of those in maps of which some end within.
        sides = {} if number % 3 == 0 else {"destination_rows": int(rng.integers(1, 10)),
                                            "destination_columns": int(rng.integers(1, 10))}
        other = place(14000 - number)
        added = added_map(memory, sides, channels, number)
        check(flit_words, memory, [
            (PREDICT, masks(tiles, channels, ways, level, codes=bias, destination=target, **sides, **added)),
            *[(PREDICT, masks(tiles, channels, ways, level, codes=bias, destination=other, **sides, **window)),
              (PREDICT, masks(1, channels, ways, level, codes=bias, destination=target, **sides))] * pools], number)


def added_map(memory: Any, sides: dict[str, int], channels: int, number: int) -> dict[str, Any]:
    """Of a body that adds maps, of every other one that has sides: numbers about those of neurons, some of any kind,
    places apart."""
    if not sides or number % 2:
        return {}
    rng = np.random.default_rng(number)
    rows, columns = sides.values()
    right = channels + int(rng.integers(3))
    below = columns * right + int(rng.integers(5))
    values = memory[15000:]
    values[:] = np.where(rng.random(len(values)) < 0.95, (rng.standard_normal(len(values)) * 3).astype(
        np.float32).view(np.uint32), values)
    return {"mask": place(15001 + number), "source_down": below,
            "source_across": right, "mask_row_stride": rows * below + int(rng.integers(7))}


@pytest.mark.parametrize("change", [
    {"columns": 3}, {"down": 1}, {"across": 12}, {"planes": 2}, {"first": LEVELS.start}, {"first": LEVELS.stop},
    {"scatter": 1}, {"destination_row_step": 2}, {"destination_row_step": 4, "destination_column_step": 4},
    {"destination_row_step": 2, "destination_column_step": 2, "down": 0}, {"source_across": 4},
    {"destination_row_step": 2, "destination_column_step": 2, "destination_rows": 4, "source_across": 4}])
def test_predictions_that_are_none(change):
    """BAD_OPERAND, of both."""
    code_body = {**masks(2, 4, (4, 4), 0), **change}
    memory = memory_of(np.zeros(40, dtype=np.uint32), 1, 1)
    with pytest.raises(BadOperandError):
        transfer.move(PREDICT, memory, memory.copy(), namespace(code_body), BASES,
                      transforms=PARAMETERS[2].transforms, lanes=2)
    (done,) = engine(2).run([(PREDICT.value, body_words(CodeBody, code_body))], BASES, memory).done
    assert done.error == ErrorCode.BAD_OPERAND


def test_to_another_die():
    """Strings and their arrival; what is made of them goes back, masks as well."""
    there = {**to_other(0), "arrival_enable": 1, "arrival": 5}
    back = {**to_other(1), "arrival_enable": 1, "arrival": 6}
    at = {"source": {"offset": 200, "base": 0}, "destination": {"offset": HALF, "base": 0}}
    tasks = [(ENCODE.value, fields(ENCODE, 2, 30, (-2, None, None), **at, source_row_stride=30,
                                   destination_row_stride=50, **there)) for _ in range(2)]
    local = {"source": {"offset": 200, "base": 0}, "codes": {"offset": 500, "base": 0}}
    run(engine(2), [tasks, [
        (ENCODE.value, fields(ENCODE, 1, 60, (0, None, None), source={"offset": 200, "base": 0},
                              destination={"offset": 500, "base": 0}, destination_row_stride=100)),
        (DECODE.value, fields(DECODE, 1, 60, (0, None, None), **local, codes_row_stride=100,
                              destination={"offset": HALF + 1001, "base": 0}, **back)),
        # Masks that came with a string go where the run does.
        (ENCODE.value, fields(ENCODE, 1, 40, (0, None, None), source={"offset": 200, "base": 0}, skips=1, sent=1,
                              destination={"offset": 500, "base": 0}, destination_row_stride=100)),
        (DECODE.value, fields(DECODE, 1, 40, (0, None, None), **local, codes_row_stride=100, skips=1, sent=1, given=1,
                              destination={"offset": HALF + 1101, "base": 0},
                              mask={"offset": HALF + 1201, "base": 0}, **back))]], seed=3, availability=0.5, gate=0.7)


@pytest.mark.parametrize("change", [
    {"first": LEVELS.start - 1}, {"first": LEVELS.stop}, {"known": LEVELS.stop}, {"lower": LEVELS.start - 1},
    {"lower": 4 - STEPS.start + 1}, {"lower": 4 - STEPS.stop}, {"lower": 5}, {"planes": 2}, {"gather": 1},
    {"rows": 0}, {"columns": 0}])
def test_bodies_that_are_none(change):
    """BAD_OPERAND, of both."""
    code_body = {**fields(ENCODE, 1, 40, (4, 4, 0)), **change}
    body = namespace(code_body)
    memory = memory_of(np.zeros(40, dtype=np.uint32), 1, 1)
    with pytest.raises(BadOperandError):
        transfer.move(ENCODE, memory, memory.copy(), body, BASES)
    (done,) = engine(2).run([(ENCODE.value, body_words(CodeBody, code_body))], BASES, memory).done
    assert done.error == ErrorCode.BAD_OPERAND
