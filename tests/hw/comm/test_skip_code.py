"""Transfers in skip code: golden equals RTL word by word; masks given or found, sent or not; forged strings."""

from typing import Any

import numpy as np
import pytest
from tests.hw.comm.test_codes import (
    BASES,
    DECODE,
    ENCODE,
    MADE,
    MASKS,
    PITCH,
    ROOM,
    SOURCE,
    STRINGS,
    WORDS,
    check,
    engine,
    fields,
    namespace,
)
from tests.sim.golden.test_codes import SPECIAL
from tests.support.engine_bench import body_words

from plinth_hw.isa.operations import ErrorCode
from plinth_hw.isa.transfer_bodies import CodeBody
from plinth_sim.golden import codes, transfer
from plinth_sim.golden.vector import BadOperandError

#: Where masks are stored that came in strings; words from a run's mask to the next.
STORED, MASK_PITCH = 9500, 9
SENT, GIVEN = {"skips": 1, "sent": 1}, {"skips": 1, "given": 1}
#: Masks found; given; given and sent.
WAYS = (SENT, GIVEN, SENT | GIVEN)


def at(place: int) -> dict[str, int]:
    return {"offset": place - BASES[3], "base": 3}


def body(operation: Any, rows: int, columns: int, **others: Any) -> dict[str, Any]:
    """Of a task; levels that are none do not count."""
    return fields(operation, rows, columns, (127, None, None), **others)


def memory_of(columns: int, density: float, seed: int) -> Any:
    """Runs of words of any kind and +0, and masks that name some of each."""
    rng = np.random.default_rng(seed)
    memory = rng.integers(0, 1 << 32, WORDS, dtype=np.uint32)
    for row in range(3):
        words = np.where(rng.random(columns) < 0.3, rng.choice(SPECIAL, columns),
                         rng.integers(0, 1 << 32, columns, dtype=np.uint32))
        words[rng.random(columns) >= density] = 0
        memory[SOURCE + row * PITCH:][:columns] = words
        mask = codes.packed(rng.random(columns) < density)
        if columns % 32:
            # Bits behind the run are anything.
            mask[-1] |= np.uint32(int(rng.integers(1 << 32)) >> columns % 32 << columns % 32)
        memory[MASKS + row * MASK_PITCH:][:len(mask)] = mask
    return memory


@pytest.mark.parametrize("flit_words", [2, *(
    pytest.param(flit, marks=pytest.mark.long) for flit in (1, 4, 16))])
def test_runs(flit_words):
    """Each way, of lengths about 32 and of few words, none and all; masks stored beside the runs, or not."""
    for number, columns in enumerate((1, 31, 32, 33, 63, 64, 65, 100, 263)):
        for density in (0, 0.1, 0.5, 1):
            memory = memory_of(columns, density, number)
            rows = 1 + number % 3
            tasks = []
            for index, way in enumerate(WAYS):
                # Each to a place of its own.
                string = at(19000 + 2000 * index)
                tasks.append((ENCODE, body(ENCODE, rows, columns, **way, destination=string)))
                to_memory = {"given": 1, "mask": at(STORED + 100 * index + number)}
                for turn, masks in enumerate([{"given": 0}, to_memory] if "sent" in way else [{}]):
                    target = at(12000 + 2000 * index + 1000 * turn)
                    tasks.append((DECODE, body(DECODE, rows, columns, **{**way, **masks}, codes=string,
                                               destination=target)))
            check(flit_words, memory, tasks, number)


def test_what_was_skipped():
    """What a mask does not name becomes +0; -0 is sent. Lengths are those that one counts."""
    memory = np.zeros(WORDS, dtype=np.uint32)
    memory[SOURCE:SOURCE + 70] = np.arange(70)
    memory[SOURCE + 40] = 1 << 31
    memory[SOURCE + 50:SOURCE + 64] = 0
    memory[MASKS:MASKS + 3] = 0xF, 0, 0xFFFFFFFF
    engine(2).run([(operation.value, body_words(CodeBody, body(operation, 1, 70, **SENT, **others)))
                   for operation, others in ((ENCODE, {}), (DECODE, {"given": 1, "mask": at(STORED)}))], BASES, memory)
    assert memory[STRINGS] == 3 + 69 - 14
    np.testing.assert_array_equal(memory[MADE:MADE + 70], memory[SOURCE:SOURCE + 70])
    assert memory[STORED:STORED + 4].tolist() == [0xFFFFFFFE, 0x3FFFF, 0x3F, 0]
    engine(2).run([(operation.value, body_words(CodeBody, body(operation, 1, 70, **GIVEN)))
                   for operation in (ENCODE, DECODE)], BASES, memory)
    assert memory[STRINGS:STRINGS + 11].tolist() == [10, 0, 1, 2, 3, *range(64, 70)]
    assert memory[MADE:MADE + 70].tolist() == [0, 1, 2, 3, *[0] * 60, *range(64, 70)]


def test_places():
    """Strings, runs and masks at any alignment."""
    rng = np.random.default_rng(5)
    for number in range(24):
        columns = int(rng.integers(1, 260))
        memory = memory_of(columns, 0.6, number)
        string, pitch = at(STRINGS + number), 401 + number
        check(2, memory, [
            (ENCODE, body(ENCODE, 2, columns, **SENT, destination=string, destination_row_stride=pitch)),
            (DECODE, body(DECODE, 2, columns, **SENT, given=1, codes=string, codes_row_stride=pitch,
                          destination=at(MADE + 600 + number), destination_row_stride=PITCH + number,
                          mask=at(STORED + number), mask_row_stride=9 + number))], number)


@pytest.mark.parametrize(("way", "forge"), [
    *((way, forge) for way in (SENT, GIVEN, SENT | GIVEN) for forge in (
        lambda memory: memory.__setitem__(STRINGS, ROOM),
        lambda memory: memory.__setitem__(STRINGS, memory[STRINGS] + 1),
        lambda memory: memory.__setitem__(STRINGS, memory[STRINGS] - 1),
        lambda memory: memory.__setitem__(STRINGS, 0xFFFFFFFF))),
    (SENT, lambda memory: memory.__setitem__(STRINGS + 1, memory[STRINGS + 1] ^ 1)),
    (SENT, lambda memory: memory.__setitem__(STRINGS, 0)),
    # The last mask names a word behind the run, more than there are words, or in place of one.
    (SENT, lambda memory: memory.__setitem__(STRINGS + 100, memory[STRINGS + 100] ^ 0x10)),
    (SENT, lambda memory: memory.__setitem__(STRINGS + 100, memory[STRINGS + 100] ^ 0x11)),
    (GIVEN, lambda memory: memory.__setitem__(MASKS + 1, memory[MASKS + 1] ^ 2)),
    (GIVEN, lambda memory: memory.__setitem__(MASKS + 3, memory[MASKS + 3] ^ 8))])
def test_forged_strings(way, forge):
    """A length beyond the room, or not what masks name; masks that name too many, too few, or what is beyond the run.
    Nothing is written but where the runs and their masks lie; what follows goes on."""
    memory = memory_of(100, 1, 3)
    memory[SOURCE:SOURCE + 100] |= 1
    engine(2).run([(ENCODE.value, body_words(CodeBody, body(ENCODE, 2, 100, **way)))], BASES, memory)
    whole = memory.copy()
    forge(memory)
    assert not np.array_equal(memory, whole)
    code_body = body(DECODE, 2, 100, **way, **({"mask": at(STORED)} if "sent" in way else {}))
    with pytest.raises(transfer.CodeError):
        transfer.move(DECODE, memory, memory.copy(), namespace(code_body), BASES)
    kept, words = memory.copy(), body_words(CodeBody, code_body)
    (done,) = engine(2).run([(DECODE.value, words)], BASES, memory).done
    assert done.error == ErrorCode.BAD_CODE
    for row in range(2):
        for start, length in ((MADE + row * PITCH, 100), (STORED + row * MASK_PITCH, 4)):
            kept[start:start + length] = memory[start:start + length]
    np.testing.assert_array_equal(memory, kept)
    whole[MADE:MADE + 2 * PITCH], whole[STORED:STORED + 2 * MASK_PITCH] = memory[MADE:MADE + 2 * PITCH], memory[
        STORED:STORED + 2 * MASK_PITCH]
    assert engine(2).run([(DECODE.value, words)], BASES, whole).done[0].error == ErrorCode.NONE


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("room", [1, 2, 3, 30, 31])
def test_string_without_room(way, room):
    """Nothing is written beyond the place."""
    memory = memory_of(100, 1, 1)
    code_body = body(ENCODE, 1, 100, **way, destination_row_stride=room)
    kept = memory.copy()
    (done,) = engine(2).run([(ENCODE.value, body_words(CodeBody, code_body))], BASES, memory).done
    assert done.error == ErrorCode.BAD_CODE
    kept[STRINGS:STRINGS + room] = memory[STRINGS:STRINGS + room]
    np.testing.assert_array_equal(memory, kept)


@pytest.mark.parametrize("change", [{"sent": 0}, {"follows": 1}, {"planes": 2}, {"scatter": 1}, {"columns": 0}])
@pytest.mark.parametrize("operation", [ENCODE, DECODE])
def test_bodies_that_are_none(operation, change):
    """BAD_OPERAND, of both."""
    code_body = {**body(operation, 1, 40, **SENT), **change}
    memory = memory_of(40, 1, 1)
    with pytest.raises(BadOperandError):
        transfer.move(operation, memory, memory.copy(), namespace(code_body), BASES)
    (done,) = engine(2).run([(operation.value, body_words(CodeBody, code_body))], BASES, memory).done
    assert done.error == ErrorCode.BAD_OPERAND
