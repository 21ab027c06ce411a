"""Product of significands in both forms; wide ones are covered by the FP32 multiplier's tests."""

import numpy as np
import pytest
from tests.support.batch import Batch
from tests.support.ecp5 import MODELS, Ecp5
from tests.support.refusal import refused

from plinth_hw.arith.significand import SignificandMultiplier


@pytest.mark.parametrize("platform", [None, Ecp5()], ids=["generic", "ecp5"])
@pytest.mark.parametrize("width", [1, 11, 16])
def test_products(width, platform) -> None:
    rng = np.random.default_rng(width)
    top = (1 << width) - 1
    a, b = rng.integers(0, top + 1, (2, 5000))
    a, b = np.append(a, [0, top, top, 1]), np.append(b, [top, top, 0, 1])
    np.testing.assert_array_equal(Batch(SignificandMultiplier(width), platform, MODELS)(a, b), a * b)


def test_width_is_checked() -> None:
    with refused(TypeError, match="Significand width must be an integer, not '8'"):
        SignificandMultiplier("8")
    with refused(ValueError, match="Significand width must be positive, not 0"):
        SignificandMultiplier(0)
