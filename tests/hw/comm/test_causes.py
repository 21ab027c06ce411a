"""Tiles that tell whether their zeros have a cause, and masks of them alone: golden equals RTL word by word; masks name
just the elements whose window has anything where the element has a coefficient."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.hw.comm.test_codes import (
    BASES,
    DECODE,
    ENCODE,
    MASKS,
    PARAMETERS,
    PITCH,
    SOURCE,
    STRINGS,
    WORDS,
    check,
    engine,
    namespace,
)
from tests.hw.comm.test_skip_code import GIVEN, SENT, at, body
from tests.sim.golden.test_codes import SPECIAL
from tests.support.engine_bench import body_words
from tests.support.transforms import of_map, of_tiles, random_transform

from plinth_hw.isa.operations import ErrorCode, TransferOperation
from plinth_hw.isa.transfer_bodies import CodeBody
from plinth_hw.isa.winograd import Lattice, form
from plinth_sim.golden import codes, transfer
from plinth_sim.golden.vector import BadOperandError

TRANSFORM, ADD = TransferOperation.TRANSFORM, TransferOperation.TRANSFORM_ADD
#: Where tiles lie.
TILES = 12000


def tiles(**others: Any) -> dict[str, Any]:
    """Of a task that transforms from ``SOURCE`` to ``TILES``."""
    return body(ENCODE, 1, 1, source=at(SOURCE), destination=at(TILES), skips=0) | {"marks": 1, **others}


def mapped(rng: np.random.Generator, count: int) -> Any:
    """Words of a map: mostly +0, and few others that often sum up to 0, or of any kind."""
    words = rng.choice(np.array([0, 0, 0, 0x3F800000, 0xBF800000, 0x40000000, 0x80000000, 1], np.uint32), count)
    some = rng.random(count) < rng.choice([0, 0.05, 0.3])
    words[some] = rng.choice(SPECIAL, int(some.sum()))
    return words


@pytest.mark.parametrize("flit_words", [2, *(
    pytest.param(flit, marks=pytest.mark.long) for flit in (1, 4, 16))])
def test_transforms(flit_words: int) -> None:
    """Scatters and gathers of any lattice, marked and not in turn, stored and added."""
    rng = np.random.default_rng(flit_words)
    for number in range(24):
        memory = rng.integers(0, 1 << 32, WORDS, dtype=np.uint32)
        memory[SOURCE:SOURCE + 9000] = mapped(rng, 9000)
        tasks = [(ADD if rng.random() < 0.2 else TRANSFORM, tiles(
            **random_transform(rng, PARAMETERS[flit_words].transforms, 9, 13, 9000), marks=int(rng.random() < 0.7)))
            for _ in range(3)]
        check(flit_words, memory, tasks, number)


def cause(sides: tuple[Lattice, Lattice], maps: Any) -> Any:
    """Which elements ``[T, T', tiles, channels]`` of a map ``[rows, columns, channels]`` have one, one by one."""
    down, across = sides
    caused = np.zeros((down.size, across.size, down.count, across.count, maps.shape[2]), dtype=bool)
    for (u, v), (i, j), (y, x) in product(*(np.ndindex(*pair) for pair in (
            (down.size, across.size), (down.reach, across.reach), (down.count, across.count)))):
        row, column = y * down.step + down.first + i, x * across.step + across.first + j
        if (down.matrix[u][i] and across.matrix[v][j] and 0 <= row < maps.shape[0] and 0 <= column < maps.shape[1]):
            caused[u, v, y, x] |= maps[row, column] != 0
    return caused.reshape(down.size, across.size, -1, maps.shape[2])


@pytest.mark.parametrize(("kernel", "outputs", "padding"), [
    ((3, 3), 2, (1, 1)), ((3, 3), 4, (1, 0)), ((1, 3), 2, (0, 2)), ((3, 1), 2, (1, 0))])
def test_masks_name_elements_with_a_cause(kernel: tuple[int, int], outputs: int, padding: tuple[int, int]) -> None:
    """Tiles, and their masks alone, on the RTL; other than zeros they are as without marks."""
    rng, channels, shape = np.random.default_rng(outputs + kernel[0]), 6, (9, 7)
    pair, _ = form(kernel, outputs).lattices(shape, padding)
    sizes, counts = (pair[0].size, pair[1].size), (pair[0].count, pair[1].count)
    memory = np.zeros(WORDS, dtype=np.uint32)
    maps = memory[SOURCE:SOURCE + shape[0] * shape[1] * channels]
    maps[:] = mapped(rng, len(maps))
    number = 5 if outputs == 4 else 1
    geometry = {"planes": counts[0], "rows": counts[1], "columns": channels, "down": number * (kernel[0] > 1),
                "across": number * (kernel[1] > 1), **of_map("source", pair, shape, channels),
                **of_tiles("destination", sizes, counts, channels)}
    run, elements = counts[0] * counts[1] * channels, sizes[0] * sizes[1]
    alone = body(ENCODE, elements, run, **SENT, maps=1, source=at(TILES), source_row_stride=run,
                 destination=at(STRINGS), destination_row_stride=2 + -(-run // 32))
    images = []
    for marks in (1, 0):
        here = memory.copy()
        tasks = [(TRANSFORM, tiles(**geometry, marks=marks)), (ENCODE, alone)][:1 + marks]
        done = engine(2).run([(operation.value, body_words(CodeBody, code_body)) for operation, code_body in tasks],
                             BASES, here).done
        assert [completion.error for completion in done] == [ErrorCode.NONE] * len(tasks)
        images.append(here)
    marked, plain = (image[TILES:TILES + elements * run] for image in images)
    other = plain & 0x7FFFFFFF != 0
    np.testing.assert_array_equal(marked[other], plain[other])
    assert not (marked[~other] & 0x7FFFFFFF).any()
    wanted = cause(pair, maps.reshape(*shape, channels)).reshape(elements, run)
    assert (wanted != (marked.reshape(elements, run) & 0x7FFFFFFF != 0)).any()
    for element, named in enumerate(wanted):
        string = images[0][STRINGS + element * alone["destination_row_stride"]:]
        assert string[0] == -(-run // 32)
        np.testing.assert_array_equal(string[1:1 + string[0]], codes.packed(named))


def test_there_and_back() -> None:
    """Tiles and masks by which others come back: the sender has its own, made for itself, the receiver those of the
    string."""
    rng = np.random.default_rng(4)
    for number, columns in enumerate((1, 32, 33, 200)):
        memory = rng.integers(0, 1 << 32, WORDS, dtype=np.uint32)
        for row in range(2):
            memory[SOURCE + row * PITCH:][:columns] = mapped(rng, columns)
        own, came = at(MASKS), {"mask": at(MASKS + 101), "mask_row_stride": 9}
        back = at(STRINGS + 2000)
        check(2, memory, [
            (ENCODE, body(ENCODE, 2, columns, **SENT)),
            (DECODE, body(DECODE, 2, columns, **SENT, given=1, **came)),
            (ENCODE, body(ENCODE, 2, columns, **SENT, maps=1, destination=own, destination_row_stride=10)),
            (ENCODE, body(ENCODE, 2, columns, **GIVEN, source=at(TILES), destination=back, **came)),
            (DECODE, body(DECODE, 2, columns, **GIVEN, codes=back, destination=at(TILES + 2000), mask=at(MASKS + 1),
                          mask_row_stride=10))], number)


@pytest.mark.parametrize("change", [{"given": 1}, {"sent": 0, "given": 1}, {"skips": 0, "first": 0}])
def test_masks_alone_that_are_none(change: dict[str, int]) -> None:
    """BAD_OPERAND, of both."""
    code_body = {**body(ENCODE, 1, 40, **SENT, maps=1), **change}
    memory = np.zeros(WORDS, dtype=np.uint32)
    with pytest.raises(BadOperandError):
        transfer.move(ENCODE, memory, memory.copy(), namespace(code_body), BASES)
    (done,) = engine(2).run([(ENCODE.value, body_words(CodeBody, code_body))], BASES, memory).done
    assert done.error == ErrorCode.BAD_OPERAND


def test_masks_alone_without_room() -> None:
    """BAD_CODE, and nothing is written beyond the place."""
    memory = np.full(WORDS, 7, dtype=np.uint32)
    code_body = body(ENCODE, 1, 65, **SENT, maps=1, destination_row_stride=3)
    (done,) = engine(2).run([(ENCODE.value, body_words(CodeBody, code_body))], BASES, memory).done
    assert done.error == ErrorCode.BAD_CODE
    assert (memory[STRINGS + 3:] == 7).all()
