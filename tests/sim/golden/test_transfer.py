"""The transfer engine's golden model, word by word, and what it refuses."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from plinth_hw.isa.formats import Q3_12
from plinth_hw.isa.operations import TransferOperation
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


def test_the_last_words_of_a_memory_can_be_moved() -> None:
    source, target = memory(), np.zeros(WORDS, dtype=np.uint32)
    transfer.move(TransferOperation.COPY, source, target,
                  body(source=pointer(WORDS - 74), destination=pointer(WORDS - 108)), BASES)
    assert target[-3:].tolist() == source[-3:].tolist()
    source[396:] = [0, 1, 2, 3]
    transfer.move(TransferOperation.COPY, source, target, body(gather=1, index=pointer(396)), BASES)
    assert target[11:14].tolist() == source[40:43].tolist()
