"""Sparse matrices in ``.npz`` files, whose arrays are those of compressed sparse rows.

============================  ==========================================================================
``NAME.shape``                integers ``[2]``: rows (outputs) and columns (inputs)
``NAME.indptr``               integers ``[rows + 1]``: where each row starts, and the number of entries
``NAME.indices``              integers ``[entries]``: columns, from 0, ascending within a row
``NAME.values``               numbers ``[entries]``; may be left out of a pattern
============================  ==========================================================================

A file has one matrix after the other, those of a network in the order of its layers. Where there is one alone, its
arrays may do without the name and the dot; it is then called as the file is. Files are read as untrusted: arrays of
numbers alone, sizes compared with limits before anything is made, and nothing that is out of order is put in order.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from plinth.errors import UserError, about, quoted
from plinth.files.documents import nearest
from plinth.files.forms import NAME_PATTERN
from plinth.files.npz import MAXIMUM_BYTES, ArrayFile, MemberForm, array_file
from plinth.network.sparse.matrices import check_layer, check_size, checked, csr, selected, unordered_row
from plinth.network.sparse.network import check_chain
from plinth.output import check_ending, write_arrays

#: Most matrices of a file.
MAXIMUM_MATRICES = 8192
#: Bytes of an array's heads in a file, at most.
_HEADS = 512

_PARTS = ("shape", "indptr", "indices", "values")
_WHAT = "a file of sparse matrices"
_REMEDY = "make it with plinth.network.sparse.pattern_file, or save shape, indptr and indices with numpy.savez"


def write_patterns(path: Path, matrices: Mapping[str, csr_array], *, values: bool = True) -> None:
    """Write matrices by their names into a file that ends in ``.npz``; equal matrices give equal bytes.

    Parameters
    ----------
    values : bool
        Whether the values are written too, or the patterns alone.

    Raises
    ------
    UserError
        If the file has another ending or cannot be written, or the matrices are too large for one file.
    TypeError, ValueError
        If there is no matrix or too many, a matrix is not as :func:`~plinth.network.sparse.matrices.checked` asks for,
        or a name is not 1 to 64 letters, digits, ``_``, ``-`` or ``.``.
    """
    check_ending("the file of patterns", path, ".npz")
    if not 1 <= len(matrices) <= MAXIMUM_MATRICES:
        raise ValueError(f"a file of patterns holds 1 to {MAXIMUM_MATRICES} matrices, not {len(matrices)}")
    arrays: dict[str, Any] = {}
    for name, matrix in matrices.items():
        if not re.fullmatch(NAME_PATTERN, name):
            raise ValueError(f"a matrix's name must be 1 to 64 letters, digits, '_', '-' or '.', not {name!r}")
        checked(matrix, name)
        arrays |= {f"{name}.shape": np.array(matrix.shape, np.int64), f"{name}.indptr": matrix.indptr,
                   f"{name}.indices": matrix.indices}
        if values:
            arrays[f"{name}.values"] = matrix.data
    size = sum(array.nbytes + _HEADS for array in arrays.values())
    if size > MAXIMUM_BYTES:
        raise UserError(f"{path}: {size} bytes are more than one file holds ({MAXIMUM_BYTES}); write fewer layers a "
                        "file")
    write_arrays(path, arrays.items())


def holds_patterns(path: Path) -> bool:
    """Whether a file has the arrays of sparse matrices, by their names; their contents are not looked at."""
    try:
        with array_file(path, _WHAT, _REMEDY) as file:
            _Patterns(file, path)
    except UserError:
        return False
    return True


class _Patterns:
    """The matrices of an open file, of which nothing has been read but the names.

    Raises
    ------
    UserError
        If the arrays do not have the names that they should.
    """

    def __init__(self, file: ArrayFile, path: Path) -> None:
        self.file, self.path = file, path
        prefixes: dict[str, set[str]] = {}
        for member in file.names:
            prefix, dot, part = member.rpartition(".")
            if part not in _PARTS or (dot and not prefix):
                raise UserError(f"{path}: has an array {quoted(member)}, but those of a matrix are called "
                                f"{', '.join(_PARTS)}, behind its name and a dot; {_REMEDY}")
            prefixes.setdefault(prefix + dot, set()).add(part)
        if not 1 <= len(prefixes) <= MAXIMUM_MATRICES or ("" in prefixes and len(prefixes) > 1):
            raise UserError(f"{path}: has {len(prefixes)} matrices, or several of which one has no name; give 1 to "
                            f"{MAXIMUM_MATRICES} with a name each")
        self.names = [prefix[:-1] or path.stem for prefix in prefixes]
        self._prefixes = list(prefixes)
        for name, parts in zip(self.names, prefixes.values(), strict=True):
            missing = [part for part in _PARTS[:3] if part not in parts]
            if missing:
                raise self._error(name, f"has no {' and no '.join(missing)}; {_REMEDY}")

    def _error(self, name: str, problem: str) -> UserError:
        return UserError(f"{self.path}: {quoted(name)} {problem}")

    def _forms(self, number: int) -> dict[str, MemberForm]:
        """The forms of the arrays of a matrix."""
        prefix = self._prefixes[number]
        forms = {part: self.file.form(f"{prefix}{part}") for part in _PARTS if f"{prefix}{part}" in self.file}
        for part, form in forms.items():
            kinds, wanted = ("iufb", "numbers") if part == "values" else ("iu", "integers")
            if form.dtype.kind not in kinds or len(form.shape) != 1:
                raise self._error(self.names[number], f"has {form} as {part}, where {wanted} of one dimension belong; "
                                                      f"{_REMEDY}")
        return forms

    def shape(self, number: int) -> tuple[int, int]:
        """The shape of a matrix, compared with the lengths of its arrays and with limits."""
        name, forms = self.names[number], self._forms(number)
        if forms["shape"].shape != (2,):
            raise self._error(name, f"has {forms['shape']} as shape, where two integers belong, rows and columns; "
                                    f"{_REMEDY}")
        sizes, entries = self._integers(forms["shape"]), forms["indices"].shape[0]
        shape = int(sizes[0]), int(sizes[1])
        with about(self.path, ValueError):
            check_size(shape, entries, quoted(name))
        if forms["indptr"].shape[0] != shape[0] + 1:
            raise self._error(name, f"has {shape[0]} rows, but an indptr of {forms['indptr'].shape[0]}; give one more "
                                    "than there are rows")
        if "values" in forms and forms["values"].shape[0] != entries:
            raise self._error(name, f"has {entries} indices, but {forms['values'].shape[0]} values; give one for each")
        return shape

    def read(self, number: int) -> csr_array:
        """Read and check a matrix; where there are no values all are 1."""
        shape, forms, name = self.shape(number), self._forms(number), self.names[number]
        starts, columns = self._integers(forms["indptr"]), self._integers(forms["indices"])
        falls = np.flatnonzero(np.diff(starts) < 0)
        if starts[0] != 0 or starts[-1] != len(columns) or len(falls):
            at = f"falls at row {falls[0]}" if len(falls) else f"goes from {starts[0]} to {starts[-1]}"
            raise self._error(name, f"has an indptr that {at}; it must rise from 0 to the number of indices, "
                                    f"{len(columns)}")
        wrong = np.flatnonzero((columns < 0) | (columns >= shape[1]))
        if len(wrong):
            raise self._error(name, f"has column {columns[wrong[0]]} in row {_row(starts, wrong[0])}; give columns "
                                    f"from 0 to {shape[1] - 1}")
        row = unordered_row(starts, columns)
        if row is not None:
            raise self._error(name, f"has columns in row {row} that do not ascend, or one twice; sort them and keep "
                                    "one of each")
        values = np.ones(len(columns), np.float32)
        if "values" in forms:
            stored = self.file.read(forms["values"])
            with np.errstate(all="ignore"):  # what is not finite is told of below
                values = stored.astype(np.float64 if stored.dtype == np.float64 else np.float32)
            wrong = np.flatnonzero(~np.isfinite(values))
            if len(wrong):
                raise self._error(name, f"has a value in row {_row(starts, wrong[0])} that is not finite; give a "
                                        "number")
        return csr(values, columns, starts, shape)

    def valued(self, number: int) -> bool:
        """Whether a matrix has values."""
        return f"{self._prefixes[number]}values" in self.file

    def _integers(self, form: MemberForm) -> NDArray[np.int64]:
        values = self.file.read(form)
        if values.dtype == np.uint64:  # what int64 does not hold is too large for anything here
            values = np.minimum(values, np.uint64(np.iinfo(np.int64).max))
        return values.astype(np.int64)


def _row(starts: NDArray[np.int64], entry: Any) -> int:
    """The row that an entry lies in, by its place among all entries."""
    return int(np.searchsorted(starts, entry, side="right")) - 1


def read_patterns(path: Path) -> dict[str, csr_array]:
    """Read all matrices of a file, by their names, in its order; float32, or float64 where values are.

    Raises
    ------
    UserError
        If the file cannot be read, is too large, or a matrix is not as described above.
    """
    with array_file(path, _WHAT, _REMEDY) as file:
        patterns = _Patterns(file, path)
        return {name: patterns.read(number) for number, name in enumerate(patterns.names)}


def read_pattern(path: Path, name: str | None = None) -> tuple[str, csr_array, bool]:
    """Read one matrix of a file: its name, itself as :func:`read_patterns` has it, and whether the file has its values.

    Raises
    ------
    UserError
        As :func:`read_patterns`; if there is no matrix of that name, or none is named and there are several.
    """
    with array_file(path, _WHAT, _REMEDY) as file:
        patterns = _Patterns(file, path)
        if name is None and len(patterns.names) > 1:
            raise UserError(f"{path}: has {len(patterns.names)} matrices, from {quoted(patterns.names[0])} to "
                            f"{quoted(patterns.names[-1])}; say which one, as {{file: {path.name}, matrix: "
                            f"{patterns.names[0]}}}")
        if name is not None and name not in patterns.names:
            raise UserError(f"{path}: has no matrix {quoted(name)}; {nearest(name, patterns.names)}")
        number = 0 if name is None else patterns.names.index(name)
        return patterns.names[number], patterns.read(number), patterns.valued(number)


@dataclass(frozen=True)
class PatternFile:
    """A network whose layers are the matrices of a file: a :class:`~.network.LayerSource`.

    Shapes are read at once, columns and values of a layer each time that it is asked for.

    Parameters
    ----------
    path : Path

    Raises
    ------
    UserError
        If the file cannot be read, or a matrix reads other inputs than the one before gives.
    """

    path: Path
    #: Neurons of the input, then of each layer.
    widths: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        with array_file(self.path, _WHAT, _REMEDY) as file:
            patterns = _Patterns(file, self.path)
            shapes = [patterns.shape(number) for number in range(len(patterns.names))]
        with about(self.path, ValueError):
            check_chain([(quoted(name), *shape[::-1]) for name, shape in zip(patterns.names, shapes, strict=True)])
        object.__setattr__(self, "widths", (shapes[0][1], *(shape[0] for shape in shapes)))

    def rows(self, layer: int, rows: ArrayLike) -> csr_array:
        check_layer(layer, len(self.widths) - 1)
        with array_file(self.path, _WHAT, _REMEDY) as file:
            patterns = _Patterns(file, self.path)
            if len(patterns.names) <= layer or patterns.shape(layer) != (self.widths[layer + 1], self.widths[layer]):
                raise UserError(f"{self.path}: has other layers than when it was opened; open it anew")
            return selected(patterns.read(layer), rows)
