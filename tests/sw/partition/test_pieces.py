"""The search of the number of pieces: on formulas, with noise, and on the paper's own samples."""

import numpy as np
import pytest

from plinth.partition.pieces import Fit, fitted, search, searched

#: Table 2 of Parallax: thousand words a second by pieces.
LM = {8: 50.5, 16: 78.6, 32: 96.5, 64: 96.1, 128: 98.9, 256: 93.2}
NMT = {8: 90.7, 16: 97.0, 32: 96.5, 64: 101.6, 128: 98.5, 256: 100.0}


@pytest.mark.parametrize(("table", "best", "tolerance", "found"), [
    (LM, 128, 0.0, 32), (LM, 128, 0.02, 128), (NMT, 64, 0.0, 16), (NMT, 64, 0.02, 64)])
def test_the_papers_samples(table: dict[int, float], best: int, tolerance: float, found: int) -> None:
    """Of one measurement each doubling ends early without a tolerance; with one nothing is lost."""
    assert max(table, key=table.__getitem__) == best
    choice = searched(lambda pieces: 1 / table[pieces], search(8, 256, tolerance=tolerance, repeats=1, least=8,
                                                               confirm=False))
    assert choice.pieces == found or table[choice.pieces] >= table[best] * (1 - tolerance)
    assert tolerance == 0 or table[choice.pieces] >= 0.98 * table[best]


@pytest.mark.parametrize("fit", [Fit(8.8, 34, 0.196), Fit(1, 100, 0.01), Fit(5, 0.1, 1), Fit(0, 10, 10)])
def test_formulas_are_found(fit: Fit) -> None:
    choice = searched(fit.seconds, search(4, 256, repeats=1))
    assert choice.fit.seconds(3) == pytest.approx(fit.seconds(3), rel=1e-6)
    least = min(map(fit.seconds, range(1, 257)))
    assert fit.seconds(choice.pieces) <= least * 1.021
    assert min(choice.samples) <= choice.pieces <= max(choice.samples) <= 256


def test_noise_is_borne() -> None:
    """Of searches on times that vary by a tenth nine in ten end within a tenth of the shortest step."""
    fit, gaps = Fit(8.8, 34, 0.196), []
    least = min(map(fit.seconds, range(1, 257)))
    for seed in range(40):
        generator = np.random.default_rng(seed)
        choice = searched(lambda pieces, draw=generator: fit.seconds(pieces) * (1 + 0.1 * draw.random()),
                          search(4, 256, tolerance=0.05))
        gaps.append(fit.seconds(choice.pieces) / least)
    assert sorted(gaps)[35] <= 1.10


def test_bounds_are_kept() -> None:
    assert searched(lambda pieces: 1 / pieces, search(4, 6, repeats=1)).pieces in (4, 6)
    choice = searched(lambda pieces: 1 / pieces, search(8, 3, repeats=1))
    assert choice.pieces == 3 and max(choice.samples) == 3
    assert searched(float, search(8, 64, repeats=1, least=4)).pieces == 4
    # Of times that are all alike the fewest pieces.
    assert searched(lambda pieces: 1.0, search(2, 16, repeats=1)).pieces == 1


def test_factors_are_not_below_0() -> None:
    fit = fitted({1: 3.0, 2: 2.0, 4: 1.4})
    assert min(fit.constant, fit.shared, fit.each) >= 0 and fit.least(1, 4) == 4
    assert fitted({3: 5.0}) == Fit(5.0, 0.0, 0.0) and fitted({3: 5.0}).least(3, 3) == 3


def test_a_wide_tolerance_ends_walks_late_and_takes_the_shortest_step() -> None:
    times = {1: 1.05, 2: 1.0, 4: 1.08, 8: 1.3}
    assert searched(times.__getitem__, search(4, 8, repeats=1, tolerance=0.1, confirm=False)).pieces == 2
