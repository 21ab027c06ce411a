"""Coordinates of batches as products of dies."""

import numpy as np
import pytest
from tests.support.dies import FIXED, MIXED, NDP, ROWS

from plinth.driver.device import DeviceArray
from plinth.errors import UserError
from plinth.projection.die import DieProjection, lower_product
from plinth.projection.fit import fit
from plinth.runtime.arrays import cosim_array, golden_array
from plinth.train.data import digits
from plinth_hw.isa.parameters import DieParameters, preset

DIGITS = digits().train_x
PROJECTION = fit(DIGITS, limit=12)
WORDS = 1 << 16


def on(array: DeviceArray, parameters: DieParameters, batch: int = 20) -> DieProjection:
    return DieProjection(PROJECTION, array, parameters, batch=batch, memory_words=WORDS)


@pytest.mark.parametrize("parameters", [NDP, FIXED], ids=lambda parameters: parameters.name)
def test_bits_of_dies_are_those_of_golden(parameters: DieParameters) -> None:
    """The last of three products has samples of its own and zeros."""
    golden, rtl = (on(array, parameters).project(DIGITS[:50])
                   for array in (golden_array(parameters, 1, WORDS), cosim_array(parameters, 1, WORDS)[0]))
    assert np.array_equal(golden.coordinates.view(np.uint32), rtl.coordinates.view(np.uint32))
    assert rtl.useful_macs == 3 * 20 * 64 * 12
    assert rtl.cycles >= rtl.useful_macs / (parameters.rows * parameters.columns) and rtl.busy_cycles > 0
    assert rtl.host_seconds > 0


def test_fp32_coordinates_are_the_hosts_but_for_the_order_of_sums() -> None:
    found = on(golden_array(NDP, 1, WORDS), NDP).project(DIGITS[:100]).coordinates
    assert np.abs(found - PROJECTION.project(DIGITS[:100])).max() < 1e-5


@pytest.mark.parametrize("factor", [1, 1e-3, 1e3])
def test_fixed_point_coordinates_are_near_whatever_samples_size(factor: float) -> None:
    x = DIGITS[:100] * np.float32(factor)
    die = on(golden_array(FIXED, 1, WORDS), FIXED)
    found, expected = die.project(x).coordinates, PROJECTION.project(x)
    assert np.linalg.norm(found - expected) / np.linalg.norm(expected) < 1e-3
    largest = np.linalg.norm(x, axis=1).max()
    assert 2 < 2 * largest * die.sample_factor(x) < 8


def test_zeros_are_projected_to_zeros() -> None:
    assert not on(golden_array(FIXED, 1, WORDS), FIXED).project(np.zeros((3, 64))).coordinates.any()


def test_products_that_no_die_has_are_refused() -> None:
    for parameters in (MIXED, ROWS):
        with pytest.raises(UserError, match="choose ndp-demo or fpga-demo"):
            lower_product(64, 12, parameters, memory_words=WORDS)
    with pytest.raises(UserError, match="batch must be an integer from 1"):
        lower_product(64, 12, NDP, batch=0, memory_words=WORDS)
    with pytest.raises(UserError, match="bytes of die memory"):
        lower_product(784, 128, preset("fpga-ulx3s"), batch=60000, memory_words=1 << 15)
    with pytest.raises(UserError, match="sample 2: feature 1 is nan"):
        on(golden_array(NDP, 1, WORDS), NDP).project(np.where(np.arange(640).reshape(10, 64) == 129, np.nan, 1))
