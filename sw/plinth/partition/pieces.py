"""In how many pieces a table is cut: the search of Parallax (section 3.2), robust to noise.

The time of a step with P pieces is taken to be

    t(P) = th0 + th1 / P + th2 P                      equation 1

where th1 is work that pieces share and th2 what each costs. Times are sampled from P = the number of machines on,
doubling until a step is slower, then halving from the first number until it is slower; equation 1 is fitted to the
samples, and its least point within them, sqrt(th1 / th2), is tried as well. A step counts as slower only by more than a
tolerance, and a sample may be the median of several repeats. Without a tolerance the search ends 2.5 and 4.7 % above
the least time of the paper's Table 2.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from math import sqrt
from statistics import median

import numpy as np

#: A time counts as slower by more than this share; repeats of which a sample is the median.
TOLERANCE, REPEATS = 0.02, 5


@dataclass(frozen=True)
class Fit:
    """Equation 1, fitted: seconds, none of them below 0."""

    constant: float
    shared: float
    each: float

    def seconds(self, pieces: float) -> float:
        """The time of a step with so many pieces."""
        return self.constant + self.shared / pieces + self.each * pieces

    def least(self, low: int, high: int) -> int:
        """The number of pieces from ``low`` to ``high`` of the shortest step."""
        best = high if self.each == 0 else sqrt(self.shared / self.each)
        around = {min(max(low, count), high) for count in (int(best), int(best) + 1)} if best < high else {high}
        return min(around, key=self.seconds)


@dataclass(frozen=True)
class PieceChoice:
    """What a search has found.

    Parameters
    ----------
    pieces : int
        The number of the shortest step among those that were sampled; of several within the tolerance, or
        :data:`TOLERANCE` if that is less, the least.
    samples : mapping of int to float
        Seconds of a step by pieces, in the order in which they were sampled.
    fit : Fit
    """

    pieces: int
    samples: Mapping[int, float]
    fit: Fit


#: Gives numbers of pieces to be measured, takes the seconds of a step with each, and returns the choice.
Search = Generator[int, float, PieceChoice]


def fitted(samples: Mapping[int, float]) -> Fit:
    """Equation 1 by least squares: of fits without terms whose factors would be below 0 the best one."""
    pieces, seconds = np.array(list(samples), float), np.array(list(samples.values()))
    terms = np.stack([np.ones_like(pieces), 1 / pieces, pieces], axis=1)
    best, least = np.array([seconds.mean(), 0.0, 0.0]), float("inf")
    for chosen in ([0, 1, 2], [0, 1], [0, 2], [1, 2], [0]):
        if len(chosen) > len(seconds):
            continue
        factors = np.zeros(3)
        factors[chosen] = np.linalg.lstsq(terms[:, chosen], seconds, rcond=None)[0]
        error = float(((terms @ factors - seconds) ** 2).sum())
        if (factors >= 0).all() and error < least * (1 - 1e-9):
            best, least = factors, error
    return Fit(*best.tolist())


def search(first: int, most: int, *, tolerance: float = TOLERANCE, repeats: int = REPEATS, least: int = 1,
           confirm: bool = True) -> Search:
    """Search for the number of pieces of the shortest step.

    Parameters
    ----------
    first : int
        Where to begin: the number of machines.
    most, least : int
        Bounds of the number of pieces: rows of the table, and what memory needs.
    tolerance : float
        Share of its time by which a step has to be slower than the shortest one to end the doubling, or the halving.
    repeats : int
        Measurements of each number; those of one search are not interleaved, as each cuts the table anew.
    confirm : bool
        The least point of the fit is measured, too.
    """
    samples: dict[int, float] = {}

    def sample(pieces: int) -> Generator[int, float, bool]:
        """Measure one; whether it is slower than the shortest."""
        times = []
        for _ in range(repeats):
            times.append((yield pieces))
        samples[pieces] = median(times)
        return samples[pieces] > min(samples.values()) * (1 + tolerance)

    first = min(max(first, least), most)
    yield from sample(first)
    for step in (lambda count: 2 * count, lambda count: count // 2):
        pieces = step(first)
        while least <= pieces <= most and not (yield from sample(pieces)):
            pieces = step(pieces)
    fit = fitted(samples)
    if confirm and (found := fit.least(min(samples), max(samples))) not in samples:
        yield from sample(found)
    bound = min(samples.values()) * (1 + min(tolerance, TOLERANCE))
    return PieceChoice(min(samples, key=lambda count: (samples[count] > bound, count)), samples, fit)


def searched(measure: Callable[[int], float], steps: Search) -> PieceChoice:
    """Run a search whose steps are measured by a function of the number of pieces."""
    try:
        pieces = next(steps)
        while True:
            pieces = steps.send(measure(pieces))
    except StopIteration as stop:
        choice: PieceChoice = stop.value
        return choice
