"""The Sparse DNN Graph Challenge's files: text, an entry a line, numbers from 1 on, plain or packed by gzip.

========================  ======================================================================================
``n1024-l3.tsv``          weights of layer 3, from 1: input neuron, output neuron, weight
``sparse-images-*.tsv``   samples: sample, input neuron, value
``*-categories.tsv``      the samples that the network puts into a category, a number a line
========================  ======================================================================================

In the file of a layer the row is the input and the column the output; matrices here have it the other way round. Files
are read as untrusted, a chunk at a time, and of their entries those alone are kept that were asked for; lines stand in
any order (:mod:`~.tsv_text`).
"""

import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from plinth.errors import UserError
from plinth.network.sparse.matrices import MAXIMUM_NEURONS, check_layer, csr, row_list, starts_of
from plinth.network.sparse.network import MAXIMUM_LAYERS, SparseNetwork
from plinth.network.sparse.tsv_text import NUMBER, Entries, check_range, entries, fault, gathered, numbers
from plinth.output import write_whole

#: Most samples of a file.
MAXIMUM_SAMPLES = 1 << 24


def read_layer(path: Path, inputs: int, outputs: int, rows: ArrayLike | None = None) -> csr_array:
    """Read the weights of a layer, or some rows of them.

    Parameters
    ----------
    path : Path
    inputs, outputs : int
        Neurons before and behind.
    rows : array of int, optional
        Which outputs, from 0, each at most once; all by default. Memory is needed for their entries alone.

    Returns
    -------
    csr_array
        float32 ``[rows, inputs]``, in the order of ``rows``.

    Raises
    ------
    UserError
        If the file cannot be read, has no entries or too many, or a line is wrong.
    ValueError
        If ``rows`` are no outputs of the layer.
    """
    wanted = row_list(np.arange(outputs) if rows is None else rows, outputs)
    places = np.full(outputs, -1, np.int64)
    places[wanted] = np.arange(len(wanted))
    if np.count_nonzero(places >= 0) != len(wanted):
        raise ValueError("rows must differ; ask for each once")
    read = 0

    def parts() -> Iterator[Entries]:
        nonlocal read
        for part in entries(path, (inputs, "input"), (outputs, "output")):
            read += len(part.rows)
            yield part.select(places[part.columns - 1] >= 0)

    found = gathered(path, parts())
    if not read:
        raise UserError(f"{path}: has no entries; give the file of a layer")
    return _matrix(places[found.columns - 1], found.rows - 1, found.values, (len(wanted), inputs))


def _matrix(rows: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[np.float32],
            shape: tuple[int, int]) -> csr_array:
    """Entries, each place once, as a matrix."""
    order = np.lexsort((columns, rows))
    return csr(values[order], columns[order], starts_of(np.bincount(rows, minlength=shape[0])), shape)


@dataclass(frozen=True)
class TsvLayers:
    """Weights in a folder of the Graph Challenge, ``n1024-l1.tsv`` and on: a :class:`~.network.LayerSource`.

    Each question reads the layer's file from beginning to end.

    Parameters
    ----------
    folder : Path
    neurons : int
        Of each layer.
    layers : int
        How many files are used, from the first on.

    Raises
    ------
    UserError
        If a file is missing.
    ValueError
        If a number is out of range.
    """

    folder: Path
    neurons: int
    layers: int
    #: Neurons of the input, then of each layer.
    widths: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.neurons <= MAXIMUM_NEURONS or not 1 <= self.layers <= MAXIMUM_LAYERS:
            raise ValueError(f"neurons must be from 1 to {MAXIMUM_NEURONS} and layers from 1 to {MAXIMUM_LAYERS}, not "
                             f"{self.neurons!r} and {self.layers!r}")
        object.__setattr__(self, "widths", (self.neurons,) * (self.layers + 1))
        for layer in range(self.layers):
            self.path(layer)

    def path(self, layer: int) -> Path:
        """The file of a layer, from 0, plain or packed (UserError if there is none)."""
        plain = self.folder / layer_file(self.neurons, layer)
        packed = plain.with_name(f"{plain.name}.gz")
        if not plain.exists() and not packed.exists():
            raise UserError(f"{plain}: there is no such file, nor {packed.name}; give the folder of a network of "
                            f"{self.neurons} neurons with at least {self.layers} layers")
        return plain if plain.exists() else packed

    def rows(self, layer: int, rows: ArrayLike) -> csr_array:
        check_layer(layer, self.layers)
        return read_layer(self.path(layer), self.neurons, self.neurons, rows)


def layer_file(neurons: int, layer: int) -> str:
    """The Graph Challenge's name for the file of a layer, which counts from 0 here and from 1 there."""
    return f"n{neurons}-l{layer + 1}.tsv"


def read_samples(path: Path, neurons: int, first: int = 0, count: int | None = None) -> csr_array:
    """Read samples, all or some that follow each other; values of 0 are left out.

    Parameters
    ----------
    path : Path
    neurons : int
        Inputs of the network.
    first, count : int
        Which samples, from 0; without a count up to the last of which the file has an entry.

    Returns
    -------
    csr_array
        float32 ``[samples, neurons]``.

    Raises
    ------
    UserError
        If the file cannot be read, has no entries or too many, or a line is wrong.
    ValueError
        If ``first`` or ``count`` is out of range.
    """
    if not 0 <= first < MAXIMUM_SAMPLES or (count is not None and not 1 <= count <= MAXIMUM_SAMPLES):
        raise ValueError(f"first must be from 0 to {MAXIMUM_SAMPLES - 1} and count from 1 to {MAXIMUM_SAMPLES}, not "
                         f"{first!r} and {count!r}")
    last = 0

    def parts() -> Iterator[Entries]:
        nonlocal last
        for part in entries(path, (MAXIMUM_SAMPLES, "sample"), (neurons, "input")):
            last = max(last, int(part.rows.max()))
            yield part.select((part.rows > first) & (part.rows <= first + (count or MAXIMUM_SAMPLES)))

    found = gathered(path, parts())
    if last <= first:
        raise UserError(f"{path}: has no samples from number {first + 1} on, its last is {last}; ask for earlier ones")
    found = found.select(found.values != 0)
    return _matrix(found.rows - 1 - first, found.columns - 1, found.values, (count or last - first, neurons))


def read_categories(path: Path, samples: int) -> NDArray[np.int64]:
    """Read which samples have a category, from 0, ascending; the file may have none.

    Raises
    ------
    UserError
        If the file cannot be read, or a line is wrong.
    """
    parts: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    for first, found in numbers(path, NUMBER):
        check_range(path, first, found[:, 0], samples, "sample")
        parts.append(found[:, 0].astype(np.int64) - 1)
    joined = np.concatenate(parts)
    order = np.argsort(joined, kind="stable")
    again = np.flatnonzero(np.diff(joined[order]) == 0)
    if len(again):
        place = again[np.argmin(order[again + 1])]
        raise fault(path, int(order[place + 1]) + 1, f"sample {joined[order[place]] + 1} stands in line "
                                                     f"{order[place] + 1} already; keep one")
    return joined[order]


def _write(path: Path, parts: Callable[[], Iterator[str]]) -> None:
    """Write a file in one step, packed where its name ends in ``.gz``; equal entries give equal bytes."""
    def write(place: Path) -> None:
        with place.open("wb") as file:
            if path.suffix != ".gz":
                file.writelines(part.encode("ascii") for part in parts())
                return
            with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                packed.writelines(part.encode("ascii") for part in parts())

    write_whole(path, write)


def _lines(matrix: csr_array) -> Iterator[str]:
    """Entries as text, some rows at a time; nine digits give the same float32 when they are read."""
    step = 4096
    for start in range(0, matrix.shape[0], step):
        part = matrix[start:start + step].tocoo()
        with np.errstate(over="ignore"):  # what becomes infinite is refused
            values = part.data.astype(np.float32)
        if not np.isfinite(values).all():
            raise ValueError("the matrix has values that are no numbers or larger than float32 holds; mend them")
        yield "".join(f"{row}\t{column}\t{value:.9g}\n" for row, column, value in zip(
            (part.coords[0] + (start + 1)).tolist(), (part.coords[1] + 1).tolist(), values.tolist(), strict=True))


def write_layer(path: Path, matrix: csr_array) -> None:
    """Write the weights of a layer, ``[outputs, inputs]``, as float32 numbers in decimal, by input and output.

    Raises
    ------
    UserError
        If the file cannot be written.
    ValueError
        If float32 does not hold a weight.
    """
    _write(path, lambda: _lines(matrix.T.tocsr()))


def write_network(folder: Path, network: SparseNetwork) -> list[Path]:
    """Write all layers of a network into a folder, one after the other, under the Graph Challenge's names.

    Raises
    ------
    UserError
        If a file cannot be written, or the layers are of several widths, for which these files have no names.
    ValueError
        If float32 does not hold a weight.
    """
    if len(set(network.widths)) > 1:
        raise UserError(f"{folder}: network {network.name!r} has layers of {min(network.widths)} to "
                        f"{max(network.widths)} neurons, but the Graph Challenge's files have names for one width; "
                        "write patterns in .npz")
    paths = []
    for layer in range(network.layers):
        paths.append(folder / layer_file(network.widths[0], layer))
        write_layer(paths[-1], network.matrix(layer))
    return paths


def write_samples(path: Path, samples: Any) -> None:
    """Write samples, dense or sparse ``[samples, neurons]``, those of their values that are not 0.

    Raises
    ------
    UserError
        If the file cannot be written.
    ValueError
        If float32 does not hold a value.
    """
    matrix = csr_array(samples, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    _write(path, lambda: _lines(matrix))


def write_categories(path: Path, categories: ArrayLike) -> None:
    """Write which samples, from 0, have a category.

    Raises
    ------
    UserError
        If the file cannot be written.
    """
    _write(path, lambda: (f"{number + 1}\n" for number in np.asarray(categories, np.int64).tolist()))
