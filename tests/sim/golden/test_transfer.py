"""The transfer engine's golden model, word by word, and what it refuses."""

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.sim.golden.test_device import TASKS, at, error, filled, run, status, task
from tests.sim.golden.test_device import WORDS as DIE_WORDS

from plinth_hw.isa import registers as regs
from plinth_hw.isa.formats import Q3_12
from plinth_hw.isa.operations import Engine, ErrorCode, TransferOperation
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.winograd import MATRICES
from plinth_sim.golden import transfer
from plinth_sim.golden.vector import BadOperandError

WORDS = 400
BASES = [0] * 15 + [37]


def pointer(offset: int, base: int = 0) -> SimpleNamespace:
    return SimpleNamespace(offset=offset, base=base)


def body(**fields: Any) -> SimpleNamespace:
    return SimpleNamespace(**{
        "source": pointer(3, 15), "destination": pointer(11), "columns": 3, "rows": 4, "planes": 2,
        "source_row_stride": 7, "source_plane_stride": 50, "destination_row_stride": 5,
        "destination_plane_stride": 90, "gather": 0, "scatter": 0, "index": pointer(300), **fields})


def memory() -> np.ndarray:
    values = np.random.default_rng(3).normal(size=WORDS).astype(np.float32).view(np.uint32)
    values[300:304] = [2, 0, 5, 2]
    return values


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("indexed", ["", "gather", "scatter"])
def test_words_go_where_the_formula_says(adds: bool, indexed: str) -> None:
    task = body(**({indexed: 1} if indexed else {}))
    source, target = memory(), memory()[::-1].copy()
    wanted = target.copy()
    for plane in range(2):
        for row in range(4):
            listed = int(source[300 + row])
            to_row, from_row = listed if indexed == "scatter" else row, listed if indexed == "gather" else row
            for column in range(3):
                word = source[37 + 3 + plane * 50 + from_row * 7 + column]
                to = 11 + plane * 90 + to_row * 5 + column
                if adds:
                    word = (wanted[to:to + 1].view(np.float32) + word.view(np.float32)).view(np.uint32)[0]
                wanted[to] = word
    before = source.copy()
    transfer.move(TransferOperation.ADD if adds else TransferOperation.COPY, source, target, task, BASES)
    assert target.tolist() == wanted.tolist() and source.tolist() == before.tolist()


def test_sums_beyond_a_fixed_format_are_told() -> None:
    target, rows = (Q3_12.encode(np.array(values)).astype(np.int16).view(np.uint16)
                    for values in ([7.5, 1, -7, -8, 5], [[1, 1, -2], [-1, 4, 4]]))
    assert transfer.write(target, transfer.Rows(np.array([0, 2]), rows, adds=True), Q3_12) == 4
    assert (target.view(np.int16) / 4096).tolist() == [8 - 2**-12, 2, -8, -4, 8 - 2**-12]
    assert transfer.write(target, transfer.Rows(np.array([0, 2]), rows, adds=False), Q3_12) == 0


def test_rows_that_overlap_are_added_one_after_the_other() -> None:
    """Two of three; the third is far from both."""
    target = np.zeros(24, dtype=np.float32).view(np.uint32)
    words = np.array([[1, 2, 2**-24], [2**-24, 4, 5], [1, 0, 0]], dtype=np.float32).view(np.uint32)
    transfer.write(target, transfer.Rows(np.array([2, 0, 20]), words, adds=True))
    assert target.view(np.float32)[:6].tolist() == [2**-24, 4, 6, 2, 2**-24, 0]
    assert target.view(np.float32)[20] == 1


def test_addresses_go_round() -> None:
    source, target = memory(), np.zeros(WORDS, dtype=np.uint32)
    down = (1 << 32) - 7
    transfer.move(TransferOperation.COPY, source, target, body(
        source=pointer(100), planes=1, source_row_stride=down, destination_row_stride=down, destination=pointer(200)),
        BASES)
    for row in range(4):
        assert target[200 - 7 * row:203 - 7 * row].tolist() == source[100 - 7 * row:103 - 7 * row].tolist()


@pytest.mark.parametrize("fields, error", [
    ({"columns": 0}, BadOperandError), ({"rows": 0}, BadOperandError), ({"planes": 0}, BadOperandError),
    ({"gather": 1, "scatter": 1}, BadOperandError),
    ({"source": pointer(WORDS - 73)}, IndexError),         # the last row ends a word too far
    ({"gather": 1, "index": pointer(WORDS - 3)}, IndexError),
    ({"scatter": 1, "index": pointer(WORDS - 3)}, IndexError),
    ({"destination": pointer(WORDS - 107)}, transfer.ReceiveError)])
def test_bad_tiles_are_refused_and_move_nothing(fields: dict[str, Any], error: type[Exception]) -> None:
    source, target = memory(), memory()
    before = target.copy()
    with pytest.raises(error):
        transfer.move(TransferOperation.COPY, source, target, body(**fields), BASES)
    assert target.tolist() == before.tolist()


def test_the_first_row_beyond_a_memory_is_named() -> None:
    with pytest.raises(IndexError, match=rf"^words {WORDS - 2}\+3 lie outside a memory of {WORDS} words"):
        transfer.move(TransferOperation.COPY, memory(), memory(), body(source=pointer(WORDS - 73)), BASES)


def test_the_last_words_of_a_memory_can_be_moved() -> None:
    source, target = memory(), np.zeros(WORDS, dtype=np.uint32)
    transfer.move(TransferOperation.COPY, source, target,
                  body(source=pointer(WORDS - 74), destination=pointer(WORDS - 108)), BASES)
    assert target[-3:].tolist() == source[-3:].tolist()
    source[396:] = [0, 1, 2, 3]
    transfer.move(TransferOperation.COPY, source, target, body(gather=1, index=pointer(396)), BASES)
    assert target[11:14].tolist() == source[40:43].tolist()


CODING = preset("ndp-demo-predict")
DIE_BASES = {2: 19, 7: 1200, 9: 640}
Words = list[np.ndarray]


def image(seed: int) -> np.ndarray:
    """Numbers of all memory, many of them zeros of both signs: sums round, and some are 0."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=DIE_WORDS).astype(np.float32)
    values[rng.random(DIE_WORDS) < 0.35] = 0
    values[rng.random(DIE_WORDS) < 0.1] = -0.0
    few = rng.random(DIE_WORDS) < 0.3
    values[few] = np.round(values[few])
    return values.view(np.uint32)


def signed(value: int) -> int:
    return value % (1 << 32)


def transform(**fields: Any) -> dict[str, Any]:
    """2 x 3 tiles of 3 channels of F(2,3): windows of a map of 5 x 6 to elements, from base to base."""
    return {"source": at(5, 2), "destination": at(11, 7), "columns": 3, "rows": 3, "planes": 2,
            "source_row_stride": 2 * 5, "source_plane_stride": 2 * 37, "source_origin": signed(-37 - 5),
            "source_down": 37, "source_across": 5, "source_row": -1, "source_column": -1, "source_rows": 5,
            "source_columns": 6, "source_row_step": 2, "source_column_step": 2,
            "destination_row_stride": 4, "destination_plane_stride": 13, "destination_origin": 7,
            "destination_down": 120, "destination_across": 28, "destination_row": 0, "destination_column": 0,
            "destination_rows": 4, "destination_columns": 4, "destination_row_step": 0, "destination_column_step": 0,
            "down": 1, "across": 1, "down_first": 0, "marks": 0, **fields}


def gather(**fields: Any) -> dict[str, Any]:
    """Elements of 2 x 3 tiles to places of a map that overlap, a row and a column of them outside."""
    return transform(**{
        "source_row_stride": 4, "source_plane_stride": 13, "source_origin": 3, "source_down": 110, "source_across": 27,
        "source_row": 0, "source_column": 0, "source_rows": 9, "source_columns": 9, "source_row_step": 0,
        "source_column_step": 0, "destination_row_stride": 2 * 3, "destination_plane_stride": 2 * 31,
        "destination_origin": signed(-31 - 3), "destination_down": 31, "destination_across": 3, "destination_row": -1,
        "destination_column": -1, "destination_rows": 5, "destination_columns": 6, "destination_row_step": 2,
        "destination_column_step": 2, "down": 3, "across": 3, "down_first": 1, **fields})


def row_sum(row: tuple, lines: Words) -> np.ndarray:
    """A row of a matrix times lines: terms two by two, each a power of two, the largest of a coefficient first."""
    terms = [np.float32(bit if coefficient > 0 else -bit) * line for coefficient, line in zip(row, lines, strict=True)
             for bit in (8, 4, 2, 1) if abs(int(coefficient)) & bit]
    total = None
    for first in range(0, len(terms), 2):
        pair = terms[first] + terms[first + 1] if first + 1 < len(terms) else terms[first]
        total = pair if total is None else total + pair
    assert total is not None
    return total


def tiled(fields: dict[str, Any], source: np.ndarray) -> Any:
    """Of each tile its number and what it becomes, ``[down][across]`` of all channels; by loops over places."""
    first, channels = fields["source"]["offset"] + DIE_BASES.get(fields["source"]["base"], 0), fields["columns"]
    down, across = MATRICES[fields["down"]], MATRICES[fields["across"]]
    for plane, row in itertools.product(range(fields["planes"]), range(fields["rows"])):
        window = [[np.zeros(channels, np.float32) for _ in across[0]] for _ in down[0]]
        for i, j in itertools.product(range(len(down[0])), range(len(across[0]))):
            y = fields["source_row"] + plane * fields["source_row_step"] + i
            x = fields["source_column"] + row * fields["source_column_step"] + j
            if 0 <= y < fields["source_rows"] and 0 <= x < fields["source_columns"]:
                word = signed(first + fields["source_origin"] + plane * fields["source_plane_stride"]
                              + row * fields["source_row_stride"] + i * fields["source_down"]
                              + j * fields["source_across"])
                window[i][j] = source[word:word + channels].view(np.float32)
        if fields["down_first"]:
            middle = [[row_sum(coeffs, [line[j] for line in window]) for j in range(len(across[0]))] for coeffs in down]
            outputs = [[row_sum(coeffs, line) for coeffs in across] for line in middle]
        else:
            middle = [[row_sum(coeffs, line) for coeffs in across] for line in window]
            outputs = [[row_sum(coeffs, [line[t] for line in middle]) for t in range(len(across))] for coeffs in down]
        for t, u in itertools.product(range(len(down)), range(len(across))) if fields["marks"] else ():
            for channel in np.flatnonzero(outputs[t][u] == 0):
                cause = any(window[i][j][channel:channel + 1].view(np.uint32)[0]
                            for i in range(len(down[0])) for j in range(len(across[0])) if down[t][i] * across[u][j])
                outputs[t][u][channel] = -0.0 if cause else 0.0
        yield plane, row, outputs


def store(target: np.ndarray, word: int, numbers: np.ndarray, adds: bool) -> None:
    here = target[word:word + len(numbers)].view(np.float32)
    here[:] = here + numbers if adds else numbers


def transformed(fields: dict[str, Any], source: np.ndarray, target: np.ndarray, adds: bool) -> None:
    first = fields["destination"]["offset"] + DIE_BASES.get(fields["destination"]["base"], 0)
    for plane, row, outputs in tiled(fields, source.copy()):
        for t, line in enumerate(outputs):
            for u, numbers in enumerate(line):
                y = fields["destination_row"] + plane * fields["destination_row_step"] + t
                x = fields["destination_column"] + row * fields["destination_column_step"] + u
                if 0 <= y < fields["destination_rows"] and 0 <= x < fields["destination_columns"]:
                    store(target, signed(
                        first + fields["destination_origin"] + plane * fields["destination_plane_stride"]
                        + row * fields["destination_row_stride"] + t * fields["destination_down"]
                        + u * fields["destination_across"]), numbers, adds)


#: Numbers of matrices: B^T, A, B, A^T of F(2,3), F(4,3), F(2,5); 0, 13 and 14 change nothing.
WAYS = [(1, 1), (1, 0), (0, 3), (2, 2), (3, 3), (4, 4), (3, 4), (13, 2), (14, 13)]


@pytest.mark.parametrize("marks", [0, 1])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("make_fields", [transform, gather])
@pytest.mark.parametrize("way", WAYS)
def test_transforms_on_a_die(way: tuple[int, int], make_fields: Any, adds: bool, marks: int) -> None:
    """To the bit, in all of its memory; each direction first."""
    for number, down_first in enumerate((0, 1)):
        fields = make_fields(down=way[0], across=way[1], down_first=down_first, marks=marks)
        operation = TransferOperation.TRANSFORM_ADD if adds else TransferOperation.TRANSFORM
        array, (before,) = filled(CODING, image(number), [task((operation, fields))], bases=DIE_BASES)
        wanted = before.copy()
        transformed(fields, before, wanted, adds)
        run(array)
        assert (status(array), *error(array)) == (2, 0, 0, 0)
        assert array.dies[0].read_memory(0, DIE_WORDS).tolist() == wanted.tolist()
        assert (wanted != before).any()


@pytest.mark.parametrize("way", [(5, 6), (7, 5), (8, 8), (9, 10), (11, 12), (12, 6)])
def test_larger_transforms_on_a_die(way: tuple[int, int]) -> None:
    """With coefficients other than 1, in another channel count, to another die."""
    fields = transform(down=way[0], across=way[1], columns=2, rows=2, destination_down=170, destination_rows=6,
                       destination_columns=5, source_rows=6, marks=1, remote=1, destination_die=1)
    array, (before, other) = filled(CODING, image(3), [task((TransferOperation.TRANSFORM, fields))],
                                    [task((TransferOperation.COPY, {"source": at(1), "destination": at(1), "rows": 1,
                                                                    "columns": 1, "planes": 1}))], bases=DIE_BASES)
    wanted = other.copy()
    transformed(fields, before, wanted, False)
    run(array)
    assert array.dies[0].read_memory(0, DIE_WORDS).tolist() == before.tolist()
    assert array.dies[1].read_memory(0, DIE_WORDS).tolist() == wanted.tolist()


@pytest.mark.parametrize(("members", "places", "longer", "step"), [
    (3, 5, 1, 2), (2, 8, 0, 3), (4, 3, 9, 1), (1, 16, 0, 5), (5, 3, 1, 1)])
@pytest.mark.parametrize("adds", [False, True])
def test_places_of_tiles_go_to_several_dies(adds: bool, members: int, places: int, longer: int, step: int) -> None:
    """Each die has its places one behind the other, and its counter advances."""
    fields = transform(remote=1, destination_die=1, members=members, member_places=places, longer_members=longer,
                       member_step=step, arrival_enable=1, arrival=9, destination_down=999, destination_across=61)
    rest = [task((TransferOperation.COPY, {"source": at(1), "destination": at(1), "rows": 1, "columns": 1,
                                           "planes": 1}))]
    operation = TransferOperation.TRANSFORM_ADD if adds else TransferOperation.TRANSFORM
    dies = 1 + (members - 1) * step + 2
    array, images = filled(CODING, image(4), [task((operation, fields))], *[rest] * (dies - 1), bases=DIE_BASES)
    wanted = [image.copy() for image in images]
    owners = [(1 + member * step, place) for member in range(members) for place in range(places + (member < longer))]
    assert len(owners) == 16
    for plane, row, outputs in tiled(fields, images[0]):
        for (die, place), numbers in zip(owners, itertools.chain(*outputs), strict=True):
            store(wanted[die], 1200 + 11 + 7 + plane * 13 + row * 4 + place * 61, numbers, adds)
    run(array)
    assert [status(array, die) for die in range(dies)] == [2] * dies
    for die, memory in zip(array.dies, wanted, strict=True):
        assert die.read_memory(0, DIE_WORDS).tolist() == memory.tolist()
        assert die.read_register(regs.COUNTERS + 4 * 9) == (die.number in {owner for owner, _ in owners})


SHARED = {"remote": 1, "destination_die": 0, "members": 2, "member_places": 8, "longer_members": 0, "member_step": 0}
#: One place of one channel, where nothing is out of the maps.
PLACE = transform(down=0, across=0, rows=1, planes=1, columns=1, source_origin=0, source_row=0, source_column=0,
                  destination_origin=0)


@pytest.mark.parametrize(("fields", "code"), [
    (transform(), None), (transform(gather=1), ErrorCode.BAD_OPERAND), (transform(scatter=1), ErrorCode.BAD_OPERAND),
    (transform(down=5), ErrorCode.BAD_OPERAND), (transform(across=12), ErrorCode.BAD_OPERAND),
    (transform(down=15), ErrorCode.BAD_OPERAND), (transform(rows=0), ErrorCode.BAD_OPERAND),
    (transform(**SHARED), None), (transform(**{**SHARED, "remote": 0}), ErrorCode.BAD_OPERAND),
    (transform(**{**SHARED, "member_places": 7}), ErrorCode.BAD_OPERAND),
    (transform(**{**SHARED, "member_places": 9}), ErrorCode.BAD_OPERAND),
    (transform(**{**SHARED, "longer_members": 1}), ErrorCode.BAD_OPERAND),
    (transform(**{**SHARED, "members": 16, "member_places": 0, "longer_members": 16}), ErrorCode.BAD_OPERAND),
    (transform(**{**SHARED, "member_step": 400}), ErrorCode.BAD_DIE),
    ({**PLACE, "source": at(DIE_WORDS - 1)}, None), ({**PLACE, "source": at(DIE_WORDS)}, ErrorCode.BAD_ADDRESS),
    ({**PLACE, "source": at(DIE_WORDS), "source_row": -1}, None),
    ({**PLACE, "columns": 2, "source": at(DIE_WORDS - 1)}, ErrorCode.BAD_ADDRESS),
    ({**PLACE, "destination": at(DIE_WORDS - 1)}, None),
    ({**PLACE, "destination": at(DIE_WORDS)}, ErrorCode.BAD_ADDRESS),
    ({**PLACE, "destination": at(DIE_WORDS), "destination_column": 4}, None)])
def test_transforms_that_are_refused(fields: dict[str, Any], code: ErrorCode | None) -> None:
    """Of a die that has F(2,3) alone."""
    array, (before,) = filled(preset("ndp-tiny-winograd", transforms=((2, 3),)), image(5),
                              [task((TransferOperation.TRANSFORM, fields))], bases=DIE_BASES)
    run(array)
    if code is None:
        assert status(array) == 2
    else:
        assert error(array)[:2] == (code.value, TASKS) and error(array)[2] & 0xFF == Engine.TRANSFER.value
        assert array.dies[0].read_memory(0, DIE_WORDS).tolist() == before.tolist()
