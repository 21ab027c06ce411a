"""Owners of the rows of each layer, and bounds on the weight of parts.

A layer's pattern is a ``scipy.sparse.csr_array`` of outputs x inputs; its columns are the rows of the layer before. The
owner of a row stores its weights and computes its output. Owners of the rows of one layer are thus owners of the
columns of the next, and all else (words, messages, balance) follows from them.

A row weighs its nonzeros, the multiply-adds of one vector.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

from plinth.errors import UserError

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
#: A ``scipy.sparse.csr_array``, of which only the pattern counts.
Pattern = Any

#: Loads that exceed a cap by less than this part of it do not exceed it: caps are rounded products.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class SparsePartition:
    """The owner of each input and of each row of each layer.

    Parameters
    ----------
    parts : int
        Processors, numbered from 0.
    inputs : array of int
        Owner of each input of the network.
    layers : tuple of arrays of int
        For each layer the owner of each row.
    notes : tuple of str
        What is to be known of how it was made: layers whose balance rows do not allow, phases that fell back.
    """

    parts: int
    inputs: Integers
    layers: tuple[Integers, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for owners in (self.inputs, *self.layers):
            owners.setflags(write=False)

    def __eq__(self, other: object) -> bool:
        """The same owners; notes do not count."""
        return (isinstance(other, SparsePartition) and self.parts == other.parts
                and len(self.layers) == len(other.layers)
                and all(map(np.array_equal, (self.inputs, *self.layers), (other.inputs, *other.layers))))

    def __hash__(self) -> int:
        return hash((self.parts, self.inputs.tobytes(), *(owners.tobytes() for owners in self.layers)))

    def columns(self, layer: int) -> Integers:
        """Owners of the columns of a layer (from 0): inputs, or rows of the layer before."""
        return self.layers[layer - 1] if layer else self.inputs


def canonical(pattern: Pattern) -> Pattern:
    """The pattern as a ``csr_array`` with sorted columns in each row, none of them twice; values do not count."""
    if pattern.format == "csr" and pattern.has_canonical_format:
        return pattern
    pattern = csr_array(pattern, copy=True)
    pattern.sum_duplicates()
    return pattern


def checked(patterns: Iterable[Pattern], parts: int) -> Iterator[Pattern]:
    """Patterns in canonical form, one at a time, each checked when it is asked for.

    Raises
    ------
    UserError
        If one is no sparse matrix, its columns are not the rows of the layer before, it has fewer rows than there are
        parts, or there is none.
    """
    rows = number = 0
    for number, pattern in enumerate(patterns, 1):
        if not issparse(pattern) or len(pattern.shape) != 2:
            raise UserError(f"layer {number}: {type(pattern).__name__} is no pattern; give a scipy.sparse.csr_array, "
                            "outputs x inputs")
        if number > 1 and pattern.shape[1] != rows:
            raise UserError(f"layer {number}: {pattern.shape[1]} columns, but layer {number - 1} has {rows} rows; "
                            "columns of a layer are the rows of the one before")
        rows = pattern.shape[0]
        if rows < parts:
            raise UserError(f"layer {number}: {rows} rows are fewer than {parts} parts; give at most {rows} parts")
        yield canonical(pattern)
    if not number:
        raise UserError("no layer to partition; give a pattern for each layer")


def row_weights(pattern: Pattern) -> Integers:
    """Nonzeros of each row; ones if there are none at all, so that rows are still shared out."""
    weights = np.diff(pattern.indptr).astype(np.int64)
    return weights if weights.any() else np.ones_like(weights)


def shares(parts: int, weights: Sequence[float] | None) -> Reals:
    """The share of a layer's nonzeros that each part is to have; they sum to 1.

    Raises
    ------
    UserError
        If there are no parts, or weights are not one positive number a part.
    """
    if parts < 1:
        raise UserError(f"{parts} parts; give at least 1")
    if weights is None:
        return np.full(parts, 1 / parts)
    if len(weights) != parts:
        raise UserError(f"{len(weights)} weights for {parts} parts; give one for each part")
    for part, weight in enumerate(weights):
        if not (np.isfinite(weight) and weight > 0):
            raise UserError(f"weight {weight} of part {part} is not positive; give a positive number for each part")
    targets = np.array(weights, dtype=np.float64)
    return targets / targets.sum()


def longest_first(weights: Integers, targets: Reals) -> Integers:
    """A part for each row: heaviest rows first, each to the part that then exceeds its share least. Where all rows
    weigh the same, no partition has a lower largest ratio of load to share."""
    parts, loads = np.zeros(len(weights), dtype=np.int64), np.zeros(len(targets))
    for row in np.argsort(-weights, kind="stable"):
        part = int(np.argmin((loads + weights[row]) / targets))
        parts[row], loads[part] = part, loads[part] + weights[row]
    return parts


def caps(weights: Integers, targets: Reals, imbalance: float) -> tuple[Reals, float]:
    """Most that each part of a layer may weigh, and the ratio of that to its share.

    The ratio is 1 + ``imbalance`` where rows allow it, else the least possible, as :func:`longest_first` finds it.
    """
    ideal = targets * weights.sum()
    ratio = 1 + imbalance
    if weights.min() == weights.max() and np.allclose(targets, targets[0]):
        ratio = max(ratio, -(-len(weights) // len(targets)) * len(targets) / len(weights))
    # Parts that get rows so exceed their shares by less than the heaviest row's weight over a mean share.
    elif weights.max() > imbalance * ideal.mean():
        loads = np.bincount(longest_first(weights, targets), weights=weights, minlength=len(targets))
        ratio = max(ratio, float((loads / ideal).max()))
    return ideal * ratio * (1 + ROUNDING), ratio


def place_inputs(pattern: Pattern, owners: Integers, parts: int) -> Integers:
    """An owner for each input of the network: one of the parts that read it, in turn where several do; inputs that
    nobody reads go round."""
    reads = readers(pattern, owners, parts)
    column = np.arange(pattern.shape[1])
    count = reads.sum(axis=1)
    wanted = column % np.maximum(count, 1) + 1
    return np.where(count > 0, np.argmax(np.cumsum(reads, axis=1) == wanted[:, None], axis=1), column % parts)


def readers(pattern: Pattern, owners: Integers, parts: int) -> npt.NDArray[np.bool_]:
    """Columns x parts: whether a part owns a row with a nonzero in the column."""
    reads = np.zeros((pattern.shape[1], parts), dtype=np.bool_)
    reads[pattern.indices, np.repeat(owners, np.diff(pattern.indptr))] = True
    return reads
