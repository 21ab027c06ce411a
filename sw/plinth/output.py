"""What leaves the program: files, of which readers see the old one or the whole new one, and JSON.

JSON knows no NaN and no infinity. Every report, plan and ``--json`` output is made by :func:`json_text`, which writes
``null`` in their place: a figure that is not a finite number.
"""

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from plinth.errors import UserError
from plinth_hw.terminal import files, marked


@contextmanager
def _written(path: Path) -> Iterator[None]:
    """Turns what the system says against a file into what the user can do."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error}); choose another place") from error


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a file beside ``path``, then put it in its place; folders are made.

    Raises
    ------
    UserError
        If the file cannot be written, or is a folder, a pipe or a device, which a file would take the place of.
    """
    if path.exists() and not path.is_file():
        raise UserError(f"{path}: is a folder, a pipe or a device; give the name of a file")
    with _written(path):
        files.write_whole(path, write)


def write_arrays(path: Path, arrays: Iterable[tuple[str, Any]]) -> None:
    """Write arrays with their names into an ``.npz`` file, whole or not at all; equal arrays give equal bytes, those of
    ``numpy.savez``. An array is asked for when the one before it is written.

    Raises
    ------
    UserError
        If the file cannot be written.
    """
    import zipfile

    import numpy as np

    def write(place: Path) -> None:
        with place.open("wb") as file:
            with zipfile.ZipFile(file, "w") as archive:
                for name, values in arrays:
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, np.asanyarray(values), allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())

    write_whole(path, write)


def check_ending(what: str, path: Path | None, *endings: str) -> None:
    """Refuse a file, if there is one, that ends otherwise; where ``.yaml`` may be, ``.yml`` may.

    Raises
    ------
    UserError
        Naming the file as ``what``.
    """
    if path is not None and path.suffix.replace(".yml", ".yaml") not in endings:
        raise UserError(f"{what} {path} must end in {' or '.join(endings)}")


def check_writable(*paths: Path | None) -> None:
    """Before work that takes long: whether files can be written, of those that are; folders are made.

    Raises
    ------
    UserError
        If one cannot.
    """
    for path in paths:
        if path is not None:
            with _written(path), files.beside(path) as temporary:
                temporary.touch()


def check_places(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None]) -> None:
    """Before anything is written: no file that a command writes is one that it reads, or writes twice.

    Parameters
    ----------
    outputs, inputs : mapping
        Files by what the command line calls them, as ``--save``; None: there is none.

    Raises
    ------
    UserError
        With both names of the file.
    """
    written: dict[str, Path] = {}
    for name, path in outputs.items():
        if path is None:
            continue
        for other, read in inputs.items():
            if read is not None and read.exists() and files.is_same(path, read):
                raise UserError(f"{name} ({path}) is the file of {other}, which would be lost; choose another place")
        for other, place in written.items():
            if files.is_same(path, place):
                raise UserError(f"{name} ({path}) and {other} ({place}) are one file; choose two places")
            for inner, outer in ((path, place), (place, path)):
                if Path(os.path.realpath(outer)) in Path(os.path.realpath(inner)).parents:
                    raise UserError(f"{name} ({path}) and {other} ({place}): one is a folder of the other; choose "
                                    "two places")
        written[name] = path


def _finite(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return data


def json_text(data: Any, indent: int | None = None) -> str:
    """Plain data as JSON in ASCII; a number that is not finite is ``null``."""
    return json.dumps(_finite(data), indent=indent, allow_nan=False)


def write_json(path: Path, data: Any) -> None:
    """Write a file of JSON in one step.

    Raises
    ------
    UserError
        If the file cannot be written.
    """
    write_whole(path, lambda place: place.write_text(f"{json_text(data, indent=2)}\n", encoding="utf-8"))


def replace_tables(pages: Mapping[Path, Mapping[str, marked.Lines]]) -> None:
    """Make tables of pages anew, each between the lines ``<!-- name -->`` and ``<!-- /name -->``; nothing is written
    unless all can be made.

    Parameters
    ----------
    pages : mapping
        Page to name to a function from the table's old text to its new lines.

    Raises
    ------
    UserError
        If a page is missing, cannot be written or has no place for a table.
    """
    texts = {}
    for page, parts in pages.items():
        try:
            texts[page] = marked.remade(page, parts)
        except OSError as error:
            raise UserError(f"{page}: cannot be read ({error.strerror or error}); name a page that can be") from error
        except marked.MarkError as error:
            raise UserError(f"{page}: {error}; name a page that has a place for the table") from error
    for page, text in texts.items():
        with _written(page):
            files.write_text(page, text)
