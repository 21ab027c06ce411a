"""A projection on disk: a plain ``.npz`` of two FP32 arrays and a header, read as untrusted.

``basis`` is ``[size, features]``, ``dictionary`` ``[samples, features]``; the header, JSON in bytes, has the version of
the format, the tolerance and the kind of coordinates. What is read is compared with what a projection is: rows of the
basis are orthonormal, samples of the dictionary have norm 1, and, where coordinates are weights of these,
they are products of a triangle and the basis.
"""

from pathlib import Path

import numpy as np

from plinth.errors import UserError
from plinth.files.documents import check_choice, check_mapping, check_version, parse_json
from plinth.files.npz import ArrayFile, array_file
from plinth.output import json_text, write_arrays
from plinth.projection.basis import DEPENDENT
from plinth.projection.projection import COORDINATES, DICTIONARY, Projection
from plinth.projection.samples import MAXIMUM_FEATURES, Floats, check_fraction

#: Version of the format.
PROJECTION_VERSION = 1
#: Longest header in bytes.
MAXIMUM_HEADER = 1 << 12
#: Most samples of a dictionary, and most values: the products of all rows of the basis are computed.
MAXIMUM_SAMPLES, MAXIMUM_VALUES = 1 << 20, 1 << 25
#: What products of rows of the basis, norms of samples, and these as products of triangle and basis may be off.
ROUNDING = 1e-4

_WHAT, _REMEDY = "a projection", "give a file that Projection.to_file wrote"


def save(path: Path, projection: Projection) -> None:
    """Write a projection, whole or not at all; equal ones give equal bytes.

    Raises
    ------
    UserError
        If the file cannot be written.
    """
    header = {"version": PROJECTION_VERSION, "beta": projection.beta, "coordinates": projection.coordinates}
    write_arrays(path, {"header": np.frombuffer(json_text(header).encode(), np.uint8), "basis": projection.basis,
                        "dictionary": projection.dictionary}.items())


def load(path: Path) -> Projection:
    """Read a projection.

    Raises
    ------
    UserError
        If the file cannot be read, is none that :func:`save` writes, or holds no projection.
    """
    with array_file(path, _WHAT, _REMEDY) as file:
        form = file.form("header")
        if form.dtype != np.uint8 or len(form.shape) != 1 or form.shape[0] > MAXIMUM_HEADER:
            raise file.error(f"the header is {form}")
        try:
            text = file.read(form).tobytes().decode()
        except UnicodeDecodeError as error:
            raise file.error("the header is no UTF-8") from error
        header = parse_json(text, f"{path}: header")
        check_version(header, str(path), f"{_WHAT}'s header", PROJECTION_VERSION, _REMEDY)
        check_mapping(header, str(path), f"{_WHAT}'s header", required=("version", "beta", "coordinates"))
        beta = check_fraction(f"{path}: beta", header["beta"], _REMEDY)
        coordinates = check_choice(header["coordinates"], COORDINATES, str(path), "kind of coordinates")
        basis, dictionary = _rows(file, "basis"), _rows(file, "dictionary")
    projection = Projection(basis, dictionary, beta, coordinates)
    _check(projection, str(path))
    return projection


def _rows(file: ArrayFile, name: str) -> Floats:
    """Rows of finite FP32 numbers."""
    form = file.form(name)
    if form.dtype != np.float32 or len(form.shape) != 2 or not 1 <= form.shape[1] <= MAXIMUM_FEATURES or (
            not 1 <= form.shape[0] <= MAXIMUM_SAMPLES or form.shape[0] * form.shape[1] > MAXIMUM_VALUES):
        raise file.error(f"{name} is {form}, where rows of float32 numbers belong")
    rows = np.ascontiguousarray(file.read(form))
    if not np.isfinite(rows).all():
        raise file.error(f"{name} has a number that is not finite")
    return rows


def _check(projection: Projection, where: str) -> None:
    """Compare a projection that was read with what projections are."""
    basis, dictionary = projection.basis.astype(np.float64), projection.dictionary.astype(np.float64)

    def refuse(problem: str) -> None:
        raise UserError(f"{where}: {problem}; {_REMEDY}")

    if dictionary.shape[1] != basis.shape[1] or len(basis) > basis.shape[1] or len(dictionary) < len(basis):
        refuse(f"basis {list(basis.shape)} and dictionary {list(dictionary.shape)} do not fit each other")
    if projection.coordinates == DICTIONARY and len(dictionary) != len(basis):
        refuse(f"coordinates of the dictionary need as many samples in it as the basis has rows, {len(basis)}, not "
               f"{len(dictionary)}")
    # Numbers that are no directions may be too large to be squared.
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.abs(basis @ basis.T - np.eye(len(basis))).max() <= ROUNDING:
            refuse("rows of the basis are not orthonormal")
        if not np.abs(np.linalg.norm(dictionary, axis=1) - 1).max() <= ROUNDING:
            refuse("a sample of the dictionary has not norm 1")
    if projection.coordinates == DICTIONARY:
        lower = np.tril(projection.triangle)
        if np.abs(lower @ basis - dictionary).max() > ROUNDING:
            refuse("the basis is not that of a dictionary that grew by a sample at a time")
        if np.abs(lower.diagonal()).min() < DEPENDENT / 2:
            refuse("a sample of the dictionary lies in the span of those before it")
