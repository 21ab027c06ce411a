"""Fits of measured times: what made the times is found again, and measurements that check take no part."""

from dataclasses import replace

import numpy as np
import pytest

from plinth.errors import UserError
from plinth.profile.fits import (
    BANDWIDTH,
    COMPUTE,
    LONGEST,
    MAX,
    OCCUPANCY,
    SUM,
    KindFit,
    Sample,
    fit_of,
    linear_transfer,
    median_error,
    relative_least_squares,
    work_of,
)

PRODUCT = "product fprop"


def products(made: KindFit, count: int = 60, *, noise: float = 0.0) -> list[Sample]:
    """Samples that take what a fit says, but for noise; every third one checks."""
    rng = np.random.default_rng(0)
    sizes = np.exp(rng.uniform(np.log(4), np.log(512), (count, 3))).astype(int)
    return [Sample(tuple(each), made.seconds(each) * float(1 + noise * rng.standard_normal()), number % 3 != 0)
            for number, each in enumerate(sizes.tolist())]


def made(form: str, tile: tuple[int, int], constant: float, *coefficients: float) -> KindFit:
    return KindFit(PRODUCT, form, tile, constant, coefficients, (1, 1, 1), (1, 1, 1))


SUM_OF_TERMS = made(SUM, (1, 1), 2e-6, 1e-11, 2e-10, 0.0, 3e-10, 0.0, 0.0)


@pytest.mark.parametrize("truth", [
    SUM_OF_TERMS, made(SUM, (16, 8), 1e-6, 1e-10, 0.0, 0.0, 0.0, 2e-6, 0.0), made(MAX, (1, 1), 1e-6, 1e-10, 3e-9)],
    ids=["sum", "tiles", "max"])
def test_what_made_the_times_predicts_others(truth: KindFit) -> None:
    samples = products(truth)
    fit = fit_of(PRODUCT, samples)
    error = median_error(fit, samples, fitted=False)
    assert error is not None and error < 0.02


def test_noise_is_not_learnt() -> None:
    samples = products(SUM_OF_TERMS, 200, noise=0.05)
    error = median_error(fit_of(PRODUCT, samples), samples, fitted=False)
    assert error is not None and 0.01 < error < 0.06


def test_measurements_that_check_take_no_part() -> None:
    samples = products(SUM_OF_TERMS)
    wrong = [sample if sample.fitted else replace(sample, seconds=100 * sample.seconds) for sample in samples]
    fit = fit_of(PRODUCT, samples)
    assert fit_of(PRODUCT, wrong) == fit
    error = median_error(fit, wrong, fitted=False)
    assert error is not None and error > 0.9
    assert median_error(fit, [sample for sample in samples if sample.fitted], fitted=False) is None


def test_a_fit_says_within_which_sizes_it_holds() -> None:
    samples = products(SUM_OF_TERMS)
    fit, sizes = fit_of(PRODUCT, samples), [sample.sizes for sample in samples if sample.fitted]
    assert fit.least == tuple(map(min, zip(*sizes, strict=True)))
    assert fit.most == tuple(map(max, zip(*sizes, strict=True)))
    assert fit.within(sizes[0]) and not fit.within((fit.most[0] + 1, *fit.most[1:]))


@pytest.mark.parametrize(("sizes", "region"), [((1, 1, 1), OCCUPANCY), ((512, 512, 512), COMPUTE),
                                               ((4000, 1, 4000), BANDWIDTH)])
def test_regions_are_of_what_takes_most(sizes: tuple[int, int, int], region: str) -> None:
    for fit in (made(SUM, (1, 1), 1e-6, 1e-9, 3e-9, 0.0, 3e-8, 0.0, 0.0), made(MAX, (64, 1), 1e-6, 1e-9, 3e-9)):
        assert fit.region(sizes) == region
        assert sum(fit.parts(sizes).values()) == pytest.approx(fit.seconds(sizes))


def test_tiles_count_idle_units() -> None:
    fit = made(SUM, (8, 4), 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    # 9 x 5 results are 16 x 8 units, of sums of 7 products.
    assert fit.seconds((9, 7, 5)) == 16 * 8 * 7
    assert work_of(PRODUCT, (9, 7, 5)) == 9 * 7 * 5


def test_coefficients_are_relative_and_not_negative() -> None:
    x = np.array([[1.0, 1.0], [1.0, 1e6]])
    assert relative_least_squares(x, np.array([2.0, 1.0 + 1e6])) == pytest.approx([1, 1], rel=0.5)
    assert (relative_least_squares(np.array([[1.0], [2.0]]) * [[1.0, -1.0]], np.array([1.0, 2.0])) >= 0).all()


def test_long_transfers_may_be_slower_but_table_2_is_a_line() -> None:
    samples = [Sample((words,), 1e-6 + 1e-9 * words + 2e-9 * max(0, words - 4096)) for words in
               (64, 128, 512, 1000, 2000, 4000, 8000, 16000, 50000, 100000, 200000)]
    fit = fit_of("message", samples)
    assert fit.tile[0] in (4096, 1024, 16384)
    assert fit.seconds((300_000,)) == pytest.approx(1e-6 + 3e-4 + 2e-9 * (300_000 - 4096), rel=0.05)
    net, word = linear_transfer([Sample((words,), 5e-6 + 2e-9 * words) for words in (64, 1000, 100_000)])
    assert (net, word) == pytest.approx((5e-6, 2e-9)) and LONGEST > 1 << 40


def test_clocks_that_stand_still_and_few_measurements_are_refused() -> None:
    with pytest.raises(UserError, match="not above 0; measure again"):
        fit_of(PRODUCT, [Sample((4, 4, 4 + n), 0.0) for n in range(9)])
    with pytest.raises(UserError, match="2 measurements of product fprop are too few for a fit"):
        fit_of(PRODUCT, [Sample((4, 4, 4 + n), 1.0) for n in range(2)])
