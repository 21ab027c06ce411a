"""Text of the Graph Challenge's files: lines of numbers, read as untrusted, each entry with its line.

A file is read a mebibyte at a time, packed by gzip or not. What is wrong is told in one line with the number of the
line.
"""

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from plinth.errors import UserError, quoted
from plinth.files.documents import opened

#: Largest file, packed and unpacked: the Graph Challenge's samples of 65,536 neurons are 6 GB.
MAXIMUM_BYTES = 1 << 34
#: Most entries that are kept of a file at once; they take 1 GiB, and as much again while they are sorted.
MAXIMUM_KEPT = 1 << 25
#: Bytes of text at a time, and of the longest line.
CHUNK, MAXIMUM_LINE = 1 << 20, 256

_GZIP = b"\x1f\x8b"
_INDEX, _GAP, _END = rb"[0-9]{1,12}+", rb"[ \t]++", rb"[ \t]*+\r?\n"
_VALUE = rb"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]{1,4}+)?"


@dataclass(frozen=True)
class Line:
    """A kind of line: its pattern, of which nothing can be read in two ways, its numbers, and its name in messages."""

    pattern: bytes
    fields: int
    name: str


ENTRY = Line(_INDEX + _GAP + _INDEX + _GAP + _VALUE + _END, 3, "a row, a column and a number between tabs")
NUMBER = Line(_INDEX + _END, 1, "one number of a sample")


@dataclass(frozen=True)
class Entries:
    """Entries of a file, as they stand there: indices from 1, and the line of each."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[np.float32]
    lines: NDArray[np.int64]

    def select(self, mask: NDArray[Any]) -> "Entries":
        return Entries(self.rows[mask], self.columns[mask], self.values[mask], self.lines[mask])


def fault(path: Path, line: int, problem: str) -> UserError:
    """The error that a line is wrong, by its number from 1 on."""
    return UserError(f"{path}, line {line}: {problem}")


@contextmanager
def _text(path: Path) -> Iterator[IO[bytes]]:
    """The file's text, unpacked where it is packed."""
    with opened(path, MAXIMUM_BYTES) as (file, _):
        packed = file.read(len(_GZIP)) == _GZIP
        file.seek(0)
        if not packed:
            yield file
            return
        try:
            yield gzip.GzipFile(fileobj=file, mode="rb")  # type: ignore[misc]
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise UserError(f"{path}: does not unpack ({error}); get the file anew") from error


def _chunks(path: Path) -> Iterator[tuple[int, bytes]]:
    """Whole lines of a file, and the number of the first."""
    with _text(path) as text:
        first, total, rest = 1, 0, b""
        while read := text.read(CHUNK):
            total += len(read)
            if total > MAXIMUM_BYTES:
                raise UserError(f"{path}: larger than {MAXIMUM_BYTES} bytes unpacked; give a smaller file")
            whole, newline, rest = (rest + read).rpartition(b"\n")
            if newline:
                yield first, whole + newline
                first += whole.count(b"\n") + 1
            if len(rest) > MAXIMUM_LINE:
                raise fault(path, first, f"longer than {MAXIMUM_LINE} bytes; is this a file of the Graph Challenge?")
        if rest:
            yield first, rest + b"\n"


def numbers(path: Path, line: Line) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """The numbers of a file's lines, ``[lines, fields]``, a chunk after the other, and the number of the first line.

    Raises
    ------
    UserError
        If the file cannot be read, is too large, or has a line of another kind.
    """
    one, many = re.compile(line.pattern), re.compile(rb"(?:" + line.pattern + rb")*+")
    for first, text in _chunks(path):
        if not many.fullmatch(text):
            lines = text.splitlines(keepends=True)
            number = next(number for number, found in enumerate(lines) if not one.fullmatch(found))
            shown = quoted(lines[number].rstrip(b"\r\n").decode("utf-8", "replace"), 40)
            raise fault(path, first + number, f"must be {line.name}, not {shown}; mend the line")
        yield first, np.fromiter(map(float, text.split()), np.float64).reshape(-1, line.fields)


def entries(path: Path, rows: tuple[int, str], columns: tuple[int, str]) -> Iterator[Entries]:
    """All entries of a file, checked one by one, a chunk after the other.

    Parameters
    ----------
    rows, columns : (int, str)
        How many there may be, and what one is called.

    Raises
    ------
    UserError
        If the file cannot be read, or a line is wrong.
    """
    for first, found in numbers(path, ENTRY):
        for field, (most, name) in enumerate((rows, columns)):
            check_range(path, first, found[:, field], most, name)
        wrong = np.flatnonzero(~(np.abs(found[:, 2]) <= np.finfo(np.float32).max))
        if len(wrong):
            raise fault(path, first + int(wrong[0]), "the number is larger than float32 holds; give a smaller one")
        yield Entries(found[:, 0].astype(np.int64), found[:, 1].astype(np.int64), found[:, 2].astype(np.float32),
                      first + np.arange(len(found)))


def check_range(path: Path, first: int, indices: NDArray[np.float64], most: int, name: str) -> None:
    """Refuse indices, of lines from ``first`` on, that are not from 1 to ``most`` (UserError)."""
    wrong = np.flatnonzero((indices < 1) | (indices > most))
    if len(wrong):
        raise fault(path, first + int(wrong[0]), f"{name} {int(indices[wrong[0]])} is out of range; give one from 1 to "
                                                 f"{most}")


def gathered(path: Path, parts: Iterable[Entries]) -> Entries:
    """Parts of a file's entries together, sorted by row and column.

    Raises
    ------
    UserError
        If there are too many, or two for one place.
    """
    kept: list[Entries] = []
    count = 0
    for part in parts:
        kept.append(part)
        count += len(part.rows)
        if count > MAXIMUM_KEPT:
            raise UserError(f"{path}: more than {MAXIMUM_KEPT} entries are asked for at once; ask for fewer rows")
    joined = Entries(*(np.concatenate([np.empty(0, kind), *(getattr(part, name) for part in kept)])
                        for name, kind in (("rows", np.int64), ("columns", np.int64), ("values", np.float32),
                                           ("lines", np.int64))))
    order = np.lexsort((joined.lines, joined.columns, joined.rows))
    joined = joined.select(order)
    again = np.flatnonzero((np.diff(joined.rows) == 0) & (np.diff(joined.columns) == 0))
    if len(again):
        place = again[np.argmin(joined.lines[again + 1])]
        raise fault(path, int(joined.lines[place + 1]),
                     f"row {joined.rows[place]}, column {joined.columns[place]} has an entry already, in line "
                     f"{joined.lines[place]}; keep one")
    return joined
