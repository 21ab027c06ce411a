"""Random sparse networks without structure: rows of different lengths, columns drawn one by one."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from plinth.limits import MAXIMUM_SEED
from plinth.network.sparse import draws
from plinth.network.sparse.matrices import (
    MAXIMUM_NEURONS,
    check_entries,
    check_layer,
    csr,
    row_list,
    starts_of,
)
from plinth.network.sparse.network import MAXIMUM_LAYERS

#: How many connections rows have: equally likely numbers, or few rows with many.
UNIFORM, POWER_LAW = "uniform", "power-law"


@dataclass(frozen=True, kw_only=True)
class IrregularNet:
    """Weights of a random network, made a few rows at a time: a :class:`~.network.LayerSource`.

    A row of a layer with n inputs has ``density n`` entries on average, at least one and at most n. Its columns are
    drawn without repetition, its weights from [-1, 1). All of it follows from seed, layer and row.

    Parameters
    ----------
    widths : tuple of int
        Neurons of the input, then of each layer.
    density : float
        Share of the connections that there are, on average: above 0, up to 1, at least one a row.
    degrees : str
        ``"uniform"``: from 1 to twice the average less 1, as far as there are inputs on both sides of the average;
        ``"power-law"``: the chance of more than k entries falls as k to the power ``1 - exponent``.
    exponent : float
        Of the power law, above 1 and up to 16.
    seed : int

    Raises
    ------
    ValueError
        If a number is out of range.
    """

    widths: tuple[int, ...]
    density: float
    degrees: str = UNIFORM
    exponent: float = 2.5
    seed: int = 0
    #: Parameters of the law of degrees of each layer.
    _laws: tuple[tuple[float, float], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        layers = len(self.widths) - 1
        if not 1 <= layers <= MAXIMUM_LAYERS or not all(1 <= width <= MAXIMUM_NEURONS for width in self.widths):
            raise ValueError(f"widths must be those of 1 to {MAXIMUM_LAYERS} layers and their input, each from 1 to "
                             f"{MAXIMUM_NEURONS}, not {len(self.widths)} from {min(self.widths, default=0)} to "
                             f"{max(self.widths, default=0)}")
        if not 0 < self.density <= 1 or self.density * min(self.widths[:-1]) < 1:
            raise ValueError(f"density must be from {1 / min(self.widths[:-1]):.3g}, which is one connection a row, to "
                             f"1, not {self.density!r}")
        if self.degrees not in (UNIFORM, POWER_LAW):
            raise ValueError(f"degrees must be {UNIFORM!r} or {POWER_LAW!r}, not {self.degrees!r}")
        if not 1 < self.exponent <= 16:
            raise ValueError(f"exponent must be above 1 and up to 16, not {self.exponent!r}")
        if not 0 <= self.seed <= MAXIMUM_SEED:
            raise ValueError(f"seed must be from 0 to {MAXIMUM_SEED}, not {self.seed!r}")
        object.__setattr__(self, "widths", tuple(self.widths))
        object.__setattr__(self, "_laws", tuple(
            _range(inputs * self.density, inputs, None if self.degrees == UNIFORM else self.exponent)
            for inputs in self.widths[:-1]))

    def row_degrees(self, layer: int, rows: ArrayLike) -> NDArray[np.int64]:
        """Entries of some rows of a layer."""
        outputs, (low, high) = row_list(rows, self.widths[layer + 1]), self._laws[layer]
        key = draws.stream(self.seed, draws.DEGREES, layer)
        share = draws.unit(key, 2 * outputs)
        # Rounded up or down at random, so that the average stays.
        wanted = low + share * (high - low) if self.degrees == UNIFORM else _power(share, low, high, self.exponent)
        return np.clip(np.floor(wanted + draws.unit(key, 2 * outputs + 1)), 1, self.widths[layer]).astype(np.int64)

    def rows(self, layer: int, rows: ArrayLike) -> csr_array:
        check_layer(layer, len(self.widths) - 1)
        outputs, inputs = row_list(rows, self.widths[layer + 1]), self.widths[layer]
        counts = self.row_degrees(layer, outputs)
        starts = starts_of(counts)
        check_entries(int(starts[-1]), f"layer {layer}")
        entry_rows = np.repeat(outputs, counts)
        keys = draws.bits(draws.stream(self.seed, draws.COLUMNS, layer), entry_rows)
        columns = draws.distinct(keys, np.arange(starts[-1]) - np.repeat(starts[:-1], counts), inputs)
        columns = np.sort(np.repeat(np.arange(len(outputs)) * inputs, counts) + columns) % inputs
        values = draws.symmetric(draws.stream(self.seed, draws.WEIGHTS, layer), entry_rows * inputs + columns)
        return csr(values, columns, starts, (len(outputs), inputs))


def _range(mean: float, most: int, exponent: float | None) -> tuple[float, float]:
    """From what to what degrees go, so that they have an average: equally likely, or by a power law up to ``most``."""
    if exponent is None:
        reach = min(mean - 1, most - mean)
        return mean - reach, mean + reach
    low, high = 0.0, mean
    for _ in range(64):  # the average rises with the least degree
        middle = (low + high) / 2
        low, high = (middle, high) if _power_mean(middle, most, exponent) < mean else (low, middle)
    return high, float(most)


def _power(share: NDArray[np.float64], low: float, high: float, exponent: float) -> NDArray[np.float64]:
    """Inverse of the distribution function of a power law from ``low`` to ``high``."""
    ratio = (high / low) ** (1 - exponent)
    return low * (1 - share * (1 - ratio)) ** (1 / (1 - exponent))


def _power_mean(low: float, high: float, exponent: float) -> float:
    """Average of :func:`_power` over all shares."""
    if low <= 0:
        return 0.0
    ratio = high / low
    power = 1 - exponent
    norm = (ratio**power - 1) / power
    first = np.log(ratio) if exponent == 2 else (ratio**(power + 1) - 1) / (power + 1)
    return float(low * first / norm) if norm else low
