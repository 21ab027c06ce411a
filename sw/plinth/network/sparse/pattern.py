"""The connections of a sparse layer, as its setting: a matrix of a file, or one in memory, known by its digest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plinth.byte_cache import ByteCache
from plinth.errors import UserError, quoted
from plinth.files.forms import described

if TYPE_CHECKING:
    # It takes a while, and most networks need none.
    from scipy.sparse import csr_array

#: Bytes of matrices of files that are kept from one question to the next.
_KEPT = 1 << 26
#: What a file may say of a pattern besides the file.
_KEYS = ("file", "matrix", "digest")


@dataclass(frozen=True)
class SparsePattern:
    """Which inputs each output of a layer is connected to, with the weights that the connections begin with.

    Equal matrices give equal patterns, wherever they lie; a pattern of a file holds no matrix but reads it when it is
    asked for.

    Parameters
    ----------
    rows, columns : int
        Outputs and inputs of the layer.
    nonzeros : int
        Connections: entries of the matrix, also those of value 0.
    digest : str
        SHA-256 of shape, starts of rows, columns and, with ``valued``, weights, in hexadecimal digits.
    valued : bool
        Whether the matrix says first weights; else they are drawn.
    """

    rows: int
    columns: int
    nonzeros: int
    digest: str
    valued: bool
    #: The file, and the matrix in it; none: the matrix is in memory.
    file: str = field(default="", compare=False)
    name: str = field(default="", compare=False)
    #: Of no file.
    _matrix: csr_array | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, matrix: Any, *, values: bool = True) -> SparsePattern:
        """The pattern of a matrix ``[outputs, inputs]`` in compressed rows; ``values``: its values are first weights.

        Raises
        ------
        TypeError, ValueError
            As :func:`~plinth.network.sparse.matrices.checked`.
        """
        from plinth.network.sparse.matrices import checked

        matrix = checked(matrix, "the pattern")
        rows, columns = matrix.shape
        return cls(rows, columns, matrix.nnz, matrix_digest(matrix, values=values), values, _matrix=matrix)

    @classmethod
    def read(cls, file: Path, name: str | None = None, digest: str | None = None) -> SparsePattern:
        """The pattern of a matrix in an ``.npz`` file (:mod:`~plinth.network.sparse.pattern_file`), which is untrusted.

        Parameters
        ----------
        name : str or None
            Of the matrix, where the file has several.
        digest : str or None
            That it must have.

        Raises
        ------
        UserError
            If the file cannot be read, has no such matrix or several, one is malformed, or it is another one; if its
            path is no text of UTF-8, in which plans name it.
        """
        from plinth.network.sparse.pattern_file import read_pattern

        path = str(file.absolute())
        try:
            path.encode()
        except UnicodeEncodeError:
            raise UserError(f"{path}: is no text of UTF-8, in which plans name files of patterns; rename the file or "
                            "its folders") from None
        name, matrix, valued = read_pattern(file, name)
        known = matrix_digest(matrix, values=valued)
        if digest not in (None, known):
            raise UserError(f"{file}: {quoted(name)} is another matrix than it was (its digest begins with "
                            f"{known[:12]}, not {str(digest)[:12]}); give the file as it was, or leave out the digest "
                            "and plan anew")
        rows, columns = matrix.shape
        return cls(rows, columns, matrix.nnz, known, valued, path, name)

    def matrix(self) -> csr_array:
        """Its matrix ``[outputs, inputs]`` in compressed rows, columns ascending; where no weights are said, all 1.

        Raises
        ------
        UserError
            If its file cannot be read, or has another matrix than it had.
        """
        return self._matrix if self._matrix is not None else _MATRICES.get(self, lambda: _read(self))

    def first_values(self) -> NDArray[np.float32]:
        """First weights ``[nonzeros]``, row by row."""
        return np.asarray(self.matrix().data, np.float32)

    def of_rows(self, rows: NDArray[np.int64]) -> csr_array:
        """Some rows of its matrix, in the order in which they are asked for; the matrix itself where these are all of
        them in order."""
        from plinth.network.sparse.matrices import selected

        return selected(self.matrix(), rows)

    def to_data(self, folder: Path | None = None) -> dict[str, str]:
        """The pattern as files say it: where its matrix lies, if that is a file, and its digest.

        Parameters
        ----------
        folder : Path or None
            Of the file that says it, to which the path is made relative; None: the path is absolute.
        """
        file = self.file if folder is None else _relative(Path(self.file), folder.absolute())
        return {**({"file": file, "matrix": self.name} if self.file else {}), "digest": self.digest}


def _relative(file: Path, folder: Path) -> str:
    """The path of a file from a folder on, both absolute; it is true through symbolic links on the way."""
    if file.is_relative_to(folder):
        return str(file.relative_to(folder))
    # `..` is the folder above the one that a link points to, not above the link.
    return os.path.relpath(file.parent.resolve() / file.name, folder.resolve())


def _read(pattern: SparsePattern) -> csr_array:
    from plinth.network.sparse.pattern_file import read_pattern

    name, matrix, valued = read_pattern(Path(pattern.file), pattern.name)
    if matrix_digest(matrix, values=valued) != pattern.digest:
        raise UserError(f"{pattern.file}: {quoted(name)} has changed since it was opened; open it anew")
    return matrix


_MATRICES: ByteCache[csr_array] = ByteCache(
    _KEPT, lambda matrix: int(matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes))


def matrix_digest(matrix: csr_array, *, values: bool) -> str:
    """SHA-256 of a matrix in compressed rows, in hexadecimal digits; ``values``: of its values, too."""
    hasher = hashlib.sha256(f"{matrix.shape[0]} {matrix.shape[1]} {matrix.nnz}".encode())
    hasher.update(np.ascontiguousarray(matrix.indptr, "<i8").tobytes())
    hasher.update(np.ascontiguousarray(matrix.indices, "<i8").tobytes())
    if values:
        hasher.update(np.ascontiguousarray(matrix.data, "<f4").tobytes())
    return hasher.hexdigest()


@dataclass(frozen=True)
class PatternForm:
    """A setting whose value is a pattern: files name an ``.npz`` file, and the matrix in it where it has several."""

    what: str

    def parse(self, value: Any, folder: Path = Path()) -> SparsePattern:
        """Check what a file says, and read the pattern; paths are relative to a folder.

        Raises
        ------
        ValueError
            If it is no pattern.
        UserError
            If its file cannot be read, or has no such matrix.
        """
        if isinstance(value, SparsePattern):
            return value
        stated = {"file": value} if isinstance(value, str) else value
        if isinstance(stated, Mapping) and set(stated) == {"digest"}:
            raise ValueError("is of no file: the network was made of a matrix in memory; write that with "
                             "plinth.network.sparse.pattern_file.write_patterns, and name the file")
        if not isinstance(stated, Mapping) or "file" not in stated or not set(stated) <= set(_KEYS) or not all(
                isinstance(text, str) and text for text in stated.values()):
            raise ValueError(f"must be a file of patterns, such as layers.npz, or its file and matrix, such as "
                             f"{{file: layers.npz, matrix: fc1}}, not {described(value)}")
        return SparsePattern.read(folder / stated["file"], stated.get("matrix"), stated.get("digest"))

    def dump(self, value: SparsePattern, folder: Path | None = None) -> Any:
        """Convert a value to what a YAML or JSON file holds, with a path relative to the file's folder, or absolute."""
        return value.to_data(folder)

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the setting's values."""
        text = {"type": "string", "minLength": 1}
        return {"description": f"{self.what}: an .npz file, or a matrix in one; paths are relative to this file",
                "oneOf": [text, {"type": "object", "additionalProperties": False, "required": ["file"],
                                 "properties": dict.fromkeys(_KEYS, text)}]}
