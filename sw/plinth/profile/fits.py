"""Fits of measured times: what a kind of work takes by its sizes.

A form is a sum of terms, none of them negative, by relative least squares (each measurement divided by its time), or a
constant and the greater of two terms::

    sum   t = t0 + a work + b words_1 + c words_2 + ...
    max   t = t0 + max(work / F, words / B)

Work counts with sizes rounded up to a tile, where that predicts better: edges of tiles are idle units. Which form and
which tile a kind has is what errs least on measurements that are left out in turn (:data:`FOLDS`); whether it is any
good is told by measurements that played no part in either (:mod:`plinth.profile.networks`).

Each term belongs to a region: what takes a constant time, however small, is bound by occupancy, work by compute, words
by bandwidth. A measurement lies in the region whose terms are the largest part of its fitted time.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from plinth.errors import UserError
from plinth.profile.works import BACKWARD, BIAS, FORWARD, FUNCTIONS, POOLS, TRANSFERS
from plinth.step.tasks import BPROP, DIRECTIONS, FPROP, UPDATE

Numbers = NDArray[np.float64]
#: Rows and columns of a tile.
Tile = tuple[int, int]
#: Regions of a fit.
OCCUPANCY, COMPUTE, BANDWIDTH = REGIONS = "occupancy", "compute", "bandwidth"
#: Forms of fits.
SUM, MAX = FORMS = "sum", "max"
#: Tiles that sizes are rounded up to, where there is a choice.
TILES = (1, 4, 8, 16, 32)
_TILES = tuple((rows, columns) for rows in TILES for columns in TILES)
#: A transfer that is longer than any.
LONGEST = 1 << 48
#: Parts that measurements are left out in, in turn, to choose a form.
FOLDS = 5
#: Ratios of the two terms of a maximum that are tried, around that of their means.
_RATIOS = np.logspace(-2, 2, 25)
#: Fewest measurements of a fit.
LEAST_MEASUREMENTS = 3


class Term(NamedTuple):
    """What a term of a fit counts, and the region that it belongs to."""

    name: str
    region: str


class Amounts(NamedTuple):
    """Terms of a family of work, and their amounts by sizes and tile."""

    terms: tuple[Term, ...]
    of: Callable[[Sequence[int], Tile], Sequence[float]]
    #: Names of the sizes.
    sizes: tuple[str, ...]
    #: Tiles that a fit may have.
    tiles: tuple[Tile, ...] = ((1, 1),)


def _up(size: float, tile: int) -> float:
    return -(-size // tile) * tile


def _matrix(rows: float, columns: float, depth: float, tile: Tile) -> list[float]:
    """Terms of a matrix product whose results are ``rows`` x ``columns``, sums of ``depth`` products, in bands of rows
    that each need the second operand anew."""
    bands, whole = -(-rows // tile[0]), _up(rows, tile[0]) * _up(columns, tile[1])
    return [whole * depth, rows * depth, bands * depth * columns, rows * columns, bands, bands * -(-columns // tile[1])]


def _product(direction: str) -> Callable[[Sequence[int], Tile], list[float]]:
    """Terms of a product of samples m, inputs k and outputs n: what it sums over, and its results, differ."""
    def amounts(sizes: Sequence[int], tile: Tile) -> list[float]:
        m, k, n = sizes
        return _matrix(*{FPROP: (m, n, k), BPROP: (m, k, n), UPDATE: (k, n, m)}[direction], tile)

    return amounts


def _convolution(direction: str) -> Callable[[Sequence[int], Tile], list[float]]:
    """Terms of a convolution: those of a product of windows, input elements, and the rows that windows are made of."""
    def amounts(sizes: Sequence[int], tile: Tile) -> list[float]:
        positions, taps, outputs, inputs, window = sizes
        channels = taps / window
        product = {FPROP: (positions, outputs, taps), BPROP: (inputs / channels, channels, window * outputs),
                   UPDATE: (taps, outputs, positions)}[direction]
        return [*_matrix(*product, tile), inputs, positions * window]

    return amounts


def _pool(sizes: Sequence[int], tile: Tile) -> Sequence[float]:
    inputs, outputs, taps, channels = sizes
    return inputs, outputs, outputs * taps, inputs / channels


def _words(sizes: Sequence[int], tile: Tile) -> Sequence[float]:
    """Terms of a transfer; those of more words than a tile's first size go another way, or beyond a cache."""
    (words,), longest = sizes, tile[0]
    return words, max(0, words - longest), float(words > longest)


_MATRIX = (Term("multiply-adds", COMPUTE), Term("words of the first operand", BANDWIDTH),
           Term("words of the second operand", BANDWIDTH), Term("words of results", BANDWIDTH),
           Term("bands of rows", OCCUPANCY), Term("tiles", OCCUPANCY))
_ELEMENTS = Amounts(
    (Term("elements", COMPUTE), Term("rows", OCCUPANCY), Term("columns", OCCUPANCY), Term("bands of rows", OCCUPANCY)),
    lambda sizes, tile: (sizes[0] * _up(sizes[1], tile[1]), sizes[0], sizes[1], -(-sizes[0] // tile[0])),
    ("rows", "columns"), _TILES)
_POOL = Amounts((Term("input elements", COMPUTE), Term("output elements", COMPUTE), Term("taps of outputs", COMPUTE),
                 Term("positions", OCCUPANCY)), _pool, ("inputs", "outputs", "taps", "channels"))
_WORDS = Amounts((Term("words", BANDWIDTH), Term("words beyond", BANDWIDTH), Term("long ones", OCCUPANCY)), _words,
                 ("words",), ((LONGEST, 1), *((1 << bits, 1) for bits in range(8, 20, 2))))
#: Families of work by their kinds.
FAMILIES: dict[str, Amounts] = {
    **{f"product {direction}": Amounts(_MATRIX, _product(direction), ("samples", "inputs", "outputs"), _TILES)
       for direction in DIRECTIONS},
    **{f"convolution {direction}": Amounts(
        (*_MATRIX, Term("input words", BANDWIDTH), Term("rows of windows", OCCUPANCY)), _convolution(direction),
        ("positions", "taps", "outputs", "inputs", "window"), _TILES) for direction in DIRECTIONS},
    **{f"{function} {direction}": _ELEMENTS for function in (BIAS, *FUNCTIONS.values())
       for direction in (FORWARD, BACKWARD)},
    "loss": _ELEMENTS,
    **{f"{pool} {direction}": _POOL for pool in POOLS.values() for direction in (FORWARD, BACKWARD)},
    "update": Amounts((Term("weights", COMPUTE),), lambda sizes, tile: sizes, ("weights",)),
    **dict.fromkeys(TRANSFERS, _WORDS),
}


def family(kind: str) -> Amounts:
    """The family of a kind of work."""
    return FAMILIES[kind]


def _moved(terms: Sequence[Term], amounts: Sequence[float] | Numbers) -> float:
    """Words of all terms that bandwidth bounds."""
    return float(sum(amount for term, amount in zip(terms, amounts, strict=True) if term.region == BANDWIDTH))


def work_of(kind: str, sizes: Sequence[int]) -> float:
    """The amount of a kind of work by its sizes: multiply-adds, elements, weights or words."""
    return float(family(kind).of(sizes, (1, 1))[0])


@dataclass(frozen=True)
class Sample:
    """A measurement of a kind of work: its sizes and seconds, and whether fits may be made from it."""

    sizes: tuple[int, ...]
    seconds: float
    fitted: bool = True


@dataclass(frozen=True)
class KindFit:
    """What a kind of work takes.

    Attributes
    ----------
    kind : str
    form : str
        Of :data:`FORMS`.
    tile : int
        What sizes are rounded up to, for work.
    constant : float
        Seconds of the least work.
    coefficients : tuple of float
        Seconds of one of each term of the family; of form ``max`` of the first one, and of a word of the others.
    least, most : tuple of int
        Smallest and largest of each size that was measured: within these the fit is valid.
    """

    kind: str
    form: str
    tile: Tile
    constant: float
    coefficients: tuple[float, ...]
    least: tuple[int, ...]
    most: tuple[int, ...]

    def parts(self, sizes: Sequence[int]) -> dict[str, float]:
        """Seconds of each region, which add up to the time."""
        amounts, terms = family(self.kind).of(sizes, self.tile), family(self.kind).terms
        parts = dict.fromkeys(REGIONS, 0.0) | {OCCUPANCY: self.constant}
        if self.form == MAX:
            work, words = self.coefficients[0] * amounts[0], self.coefficients[1] * _moved(terms, amounts)
            parts[COMPUTE if work >= words else BANDWIDTH] = max(work, words)
            return parts
        for term, coefficient, amount in zip(terms, self.coefficients, amounts, strict=True):
            parts[term.region] += coefficient * amount
        return parts

    def seconds(self, sizes: Sequence[int]) -> float:
        """Seconds of work of some sizes."""
        return sum(self.parts(sizes).values())

    def region(self, sizes: Sequence[int]) -> str:
        """The region that work of some sizes lies in."""
        parts = self.parts(sizes)
        return max(parts, key=parts.__getitem__)

    def within(self, sizes: Sequence[int]) -> bool:
        """Whether sizes are within those that were measured."""
        return all(low <= size <= high for low, size, high in zip(self.least, sizes, self.most, strict=True))

    def error(self, sample: Sample) -> float:
        """By how much the fitted time differs from a measured one, as a share of that."""
        return abs(self.seconds(sample.sizes) / sample.seconds - 1)


def relative_least_squares(columns: Numbers, seconds: Numbers) -> Numbers:
    """Coefficients, none negative, of columns ``[measurements, terms]`` that make the sum of squares of relative errors
    least.

    Raises
    ------
    UserError
        If times are not above 0, as those of a clock that stands still.
    """
    if not (np.isfinite(seconds).all() and (seconds > 0).all()):
        raise UserError("measured times are not above 0; measure again while nothing else runs")
    rows = columns / seconds[:, None]
    scale = np.abs(rows).max(axis=0)
    scale[scale == 0] = 1
    coefficients, _ = nnls(rows / scale, np.ones(len(rows)))
    return np.asarray(coefficients / scale, np.float64)


def _fitted(kind: str, form: str, tile: Tile, samples: Sequence[Sample]) -> KindFit:
    """The fit of one form and tile."""
    amounts = np.array([family(kind).of(sample.sizes, tile) for sample in samples], np.float64)
    seconds = np.array([sample.seconds for sample in samples])
    ones = np.ones((len(samples), 1))
    sizes = np.array([sample.sizes for sample in samples])
    bounds = tuple(sizes.min(axis=0).tolist()), tuple(sizes.max(axis=0).tolist())
    if form == SUM:
        constant, *coefficients = relative_least_squares(np.hstack([ones, amounts]), seconds).tolist()
        return KindFit(kind, form, tile, constant, tuple(coefficients), *bounds)
    work, words = amounts[:, 0], np.array([_moved(family(kind).terms, row) for row in amounts])
    best: tuple[float, KindFit] | None = None
    for ratio in _RATIOS * (work.mean() / words.mean()):
        greater = np.maximum(work, ratio * words)
        constant, each = relative_least_squares(np.hstack([ones, greater[:, None]]), seconds).tolist()
        residual = float((((constant + each * greater) / seconds - 1) ** 2).sum())
        if best is None or residual < best[0]:
            best = residual, KindFit(kind, form, tile, constant, (each, each * ratio), *bounds)
    assert best is not None
    return best[1]


def _choices(kind: str) -> Iterable[tuple[str, Tile]]:
    """Forms and tiles that a kind of work may have."""
    amounts = family(kind)
    forms = FORMS if {COMPUTE, BANDWIDTH} <= {term.region for term in amounts.terms} else (SUM,)
    return [(form, tile) for form in forms for tile in amounts.tiles]


def _left_out_error(kind: str, form: str, tile: Tile, samples: Sequence[Sample]) -> float:
    """Mean relative error on measurements that are left out in turn."""
    errors: list[float] = []
    for fold in range(FOLDS):
        left, rest = samples[fold::FOLDS], [sample for number, sample in enumerate(samples) if number % FOLDS != fold]
        if left and len(rest) >= LEAST_MEASUREMENTS:
            fit = _fitted(kind, form, tile, rest)
            errors += [fit.error(sample) for sample in left]
    return float(np.mean(errors)) if errors else 0.0


def fit_of(kind: str, samples: Iterable[Sample]) -> KindFit:
    """The fit of a kind of work to the measurements that fits may be made from.

    Raises
    ------
    UserError
        If there are too few of them, or times are not above 0.
    """
    some = [sample for sample in samples if sample.fitted]
    if len(some) < LEAST_MEASUREMENTS:
        raise UserError(f"{len(some)} measurements of {kind} are too few for a fit; measure at least "
                        f"{LEAST_MEASUREMENTS} sizes")
    form, tile = min(_choices(kind), key=lambda choice: _left_out_error(kind, choice[0], choice[1], some))
    return _fitted(kind, form, tile, some)


def linear_transfer(samples: Sequence[Sample]) -> tuple[float, float]:
    """Seconds of a transfer however long, and of each of its words, as Table 2 has them.

    Raises
    ------
    UserError
        If times are not above 0.
    """
    fit = _fitted(TRANSFERS[0], SUM, (LONGEST, 1), samples)
    return fit.constant, fit.coefficients[0]


def median_error(fit: KindFit, samples: Iterable[Sample], *, fitted: bool) -> float | None:
    """Median relative error of a fit, on the measurements that it was made from or on the others; None: there are
    none."""
    errors = [fit.error(sample) for sample in samples if sample.fitted == fitted]
    return float(np.median(errors)) if errors else None
