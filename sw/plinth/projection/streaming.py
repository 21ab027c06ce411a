"""The stream: samples come in batches, each of which may grow the dictionary, and go as coordinates.

A batch goes in blocks. A block is compared with the basis by two matrix products in FP32, ``E = B - (B Q^T) Q``;
samples of which no more than the tolerance is left are told by the basis and done with. The others go one by one, in
float64: what is still left of one after those before it becomes a row of the basis, and the sample, normalised, one of
the dictionary. Since a basis that grows leaves less of every sample, which samples join does not depend on blocks: with
several ranks, that share samples out as :mod:`plinth.projection.ranks` says, dictionary and basis have the same bits as
with one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plinth.errors import UserError
from plinth.files.documents import check_choice
from plinth.projection.basis import DEPENDENT, Doubles, GrowingBasis
from plinth.projection.projection import BASIS, COORDINATES, Projection, products
from plinth.projection.ranks import OneRank, Ranks, of_first, together
from plinth.projection.samples import MAXIMUM_FEATURES, Floats, check_count, check_fraction, checked

#: Tolerance by default: Deep3's, of the share of a sample's norm that may be left of it.
BETA = 0.10
#: Samples of a norm below this share of the largest so far do not join the dictionary, whatever is left of them.
FLOOR = 1e-3
#: Samples of a rank that are compared with the basis together.
BLOCK = 256
#: What FP32 products of a block may be off: a sample within so much of the tolerance is tested again in float64.
MARGIN = 1e-5


@dataclass(frozen=True, kw_only=True)
class GrowthValidation:
    """Ends the growth of a basis once the accuracy of what is trained by it stalls.

    Parameters
    ----------
    accuracy : callable
        Of a projection the validation accuracy, 0 to 1, of a network that is trained on its coordinates.
    every : int
        Rows of the basis from a question to the next.
    gain : float
        By how much the accuracy has to rise above the best one so far to count as a gain.
    patience : int
        Questions without a gain that end the growth.
    """

    accuracy: Callable[[Projection], float]
    every: int = 32
    gain: float = 0.001
    patience: int = 2

    def __post_init__(self) -> None:
        remedy = "growth is asked after in whole rows"
        check_count("every", self.every, 1, MAXIMUM_FEATURES, remedy)
        check_count("patience", self.patience, 1, MAXIMUM_FEATURES, remedy)
        check_fraction("gain", self.gain, "it is a difference of accuracies")


class StallWatch:
    """Asks a :class:`GrowthValidation` when it is due, and remembers what it has said.

    Parameters
    ----------
    validation : GrowthValidation or None
        None: growth is never ended.
    """

    def __init__(self, validation: GrowthValidation | None) -> None:
        self._validation = validation
        self._asked = self._without = 0
        self._best = -np.inf
        #: Sizes at which it was asked, and accuracies.
        self.accuracies: dict[int, float] = {}

    def stalled(self, size: int, projection: Callable[[int], Projection]) -> bool:
        """Whether growth ends at a size; ``projection`` makes the projection of that size, if a question is due."""
        if self._validation is None or size - self._asked < self._validation.every:
            return False
        self._asked = size
        accuracy = float(self._validation.accuracy(projection(size)))
        if not 0 <= accuracy <= 1:
            raise UserError(f"the validation accuracy at {size} coordinates is {accuracy:g}; give a share from 0 to 1")
        self.accuracies[size] = accuracy
        self._without = 0 if accuracy > self._best + self._validation.gain else self._without + 1
        self._best = max(self._best, accuracy)
        return self._without >= self._validation.patience


class _Screened(NamedTuple):
    """What a rank tells of its block: norms of all samples, and places and values of those that failed the test."""

    norms: Doubles
    failed: NDArray[np.int64]
    samples: Floats


class _Growth(NamedTuple):
    """What a block has added: rows of the basis, samples of the dictionary, and the largest norm so far."""

    rows: Doubles
    units: Doubles
    largest: float
    stalled: bool
    tiny: int


class StreamingProjection:
    """A projection that grows as samples come.

    Parameters
    ----------
    features : int
        Values of a sample.
    beta : float
        Share of a sample's norm that may be left of it, 0 to 1; 0: all but rounding is told.
    limit : int or None
        Most coordinates, such as the first of a platform's widths ``S_L``; None, or more than features: as many as
        these.
    coordinates : str
        What :meth:`extend` gives, and what the projection's coordinates are (:class:`Projection`).
    floor : float
        Samples of a norm below this share of the largest so far do not join.
    constant : bool
        Whether a constant sample, such as one of zeros, is taken; zeros have coordinates of zero and never join.
    validation : GrowthValidation or None
        Ends the growth when accuracy stalls.
    ranks : Ranks or None
        Processes that have a share of the samples each; all arguments, and calls, are the same on all of them.

    Raises
    ------
    UserError
        If a setting is out of its range.
    """

    def __init__(self, features: int, *, beta: float = BETA, limit: int | None = None, coordinates: str = BASIS,
                 floor: float = FLOOR, constant: bool = False, validation: GrowthValidation | None = None,
                 ranks: Ranks | None = None) -> None:
        self.features = check_count("features", features, 1, MAXIMUM_FEATURES, "give the values of a sample")
        self.beta = check_fraction("beta", beta, "it is the share of a sample's norm that may be left of it")
        self.floor = check_fraction("floor", floor, "it is a share of the largest norm")
        self.limit = features if limit is None else min(features, check_limit(limit))
        self.coordinates = check_choice(coordinates, COORDINATES, "projection", "kind of coordinates")
        self.constant = constant
        self._ranks: Ranks = ranks or OneRank()
        self._basis = GrowingBasis(features)
        self._units: list[Doubles] = []
        self._largest = 0.0
        self._stalled = False
        self._watch = StallWatch(validation)
        self._projection: Projection | None = None
        #: Samples so far, of all ranks.
        self.samples = 0
        #: Of these, those that the dictionary does not tell but that are too small to join it.
        self.tiny = 0

    @property
    def size(self) -> int:
        """Coordinates so far."""
        return self._basis.size

    @property
    def full(self) -> bool:
        """Whether it grows no more: the limit is reached, or accuracy has stalled."""
        return self._stalled or self.size >= self.limit

    @property
    def accuracies(self) -> dict[int, float]:
        """What validation has said, by size; on the first rank."""
        return self._watch.accuracies

    @property
    def projection(self) -> Projection:
        """The projection as it stands."""
        if self._projection is None:
            units = np.array(self._units).reshape(self.size, self.features)
            self._projection = Projection(self._basis.rows.astype(np.float32), units.astype(np.float32), self.beta,
                                          self.coordinates)
        return self._projection

    def extend(self, x: Any) -> Floats:
        """Take further samples, which may grow the basis, and give their coordinates in it: ``[samples, size]``.
        Coordinates from before are those of a smaller basis (:func:`~plinth.projection.projection.padded`). Collective.

        Parameters
        ----------
        x : array_like ``[samples, features]``
            The share of this rank.

        Raises
        ------
        UserError
            If they are no real numbers of that width, or one is not finite or, unless ``constant``, has one value
            throughout; by its number in the stream. Then none is taken.
        """
        samples, counts = together_checked(x, self.features, self._ranks, self.samples, self.constant)
        self.take(samples, counts)
        return products(samples, self.projection.matrix)

    def take(self, samples: Floats, counts: Sequence[int]) -> None:
        """Let samples that have been checked grow the basis, as :meth:`extend`. Collective.

        Parameters
        ----------
        samples : FP32 ``[samples, features]``
            The share of this rank.
        counts : sequence of int
            How many each rank has.
        """
        for start in range(0, max(counts), BLOCK):
            if self.full:
                break
            self._grow(samples[start:start + BLOCK])
        self.samples += sum(counts)

    def _grow(self, block: Floats) -> None:
        """Let the blocks of all ranks grow the basis. Collective."""
        screened = self._ranks.told(self._screen(block))
        growth = of_first(self._ranks, lambda: self._joined(screened))
        if self._ranks.own:
            for row, unit in zip(growth.rows, growth.units, strict=True):
                self._add(row, unit)
        self._largest, self._stalled = growth.largest, growth.stalled
        self.tiny += growth.tiny

    def _add(self, row: Doubles, unit: Doubles) -> None:
        self._basis.add(row)
        self._units.append(unit)
        self._projection = None

    def _screen(self, block: Floats) -> _Screened:
        """Compare samples with the basis as it is, in FP32."""
        norms = np.sqrt(np.einsum("ij,ij->i", block, block, dtype=np.float64))
        # As samples of norm 1: their squares are within FP32, however small they are.
        units = (block / np.where(norms > 0, norms, 1)[:, None]).astype(np.float32)
        rows = self._basis.rows.astype(np.float32)
        left = units - (units @ rows.T) @ rows
        shares = np.sqrt(np.einsum("ij,ij->i", left, left))
        failed = np.flatnonzero((shares > self.beta - MARGIN) & (norms > 0))
        return _Screened(norms, failed, block[failed])

    def _joined(self, screened: Sequence[_Screened]) -> _Growth:
        """Test samples one by one in the order of the stream, and let those join that the basis does not tell."""
        ranks, before, tiny, stalled = len(screened), self.size, 0, False
        numbers = np.concatenate([own + ranks * np.arange(len(part.norms)) for own, part in enumerate(screened)])
        order = np.argsort(numbers)
        numbers, norms = numbers[order], np.concatenate([part.norms for part in screened])[order]
        largest = np.maximum(np.maximum.accumulate(norms), self._largest)
        candidates = sorted((own + ranks * int(place), own, index) for own, part in enumerate(screened)
                            for index, place in enumerate(part.failed))
        for number, own, index in candidates:
            sample = screened[own].samples[index].astype(np.float64)
            norm = float(np.linalg.norm(sample))
            left = self._basis.residual(sample / norm)
            share = float(np.linalg.norm(left))
            if self.size and share <= max(self.beta, DEPENDENT):
                continue
            if norm < self.floor * largest[np.searchsorted(numbers, number)]:
                tiny += 1
                continue
            self._add(left, sample / norm)
            stalled = self._watch.stalled(self.size, lambda size: self.projection)
            if stalled or self.size >= self.limit:
                break
        return _Growth(self._basis.rows[before:].copy(), np.array(self._units[before:]).reshape(-1, self.features),
                       float(largest[-1]), stalled, tiny)


def check_limit(limit: Any) -> int:
    """The most coordinates.

    Raises
    ------
    UserError
        If it is no integer from 1 on.
    """
    return check_count("limit", limit, 1, MAXIMUM_FEATURES, "it is the most coordinates, such as the first width that "
                       "a platform fits")


def together_checked(x: Any, features: int | None, ranks: Ranks, first: int, constant: bool
                     ) -> tuple[Floats, list[int]]:
    """The samples of this rank, ``[samples, features]``, and how many each rank has. Collective.

    Raises
    ------
    UserError
        On all ranks, if samples of one are refused; by their numbers, of which the ranks' first is ``first``.
    """
    samples: list[Floats] = []

    def check() -> tuple[int, int]:
        samples.append(checked(x, features, first=first + ranks.own, step=ranks.size, constant=constant))
        return samples[0].shape[0], samples[0].shape[1]

    _, shapes = together(ranks, check)
    if len({width for _, width in shapes}) > 1:
        widths = ", ".join(str(width) for _, width in shapes)
        raise UserError(f"ranks have samples of {widths} features; give all ranks samples of the same data")
    return samples[0], [count for count, _ in shapes]
