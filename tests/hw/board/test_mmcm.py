"""Dividers of an MMCM against all there are."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plinth_hw.board import mmcm


def legal(input_hz: int, divider: int, multiplier: int, output: int) -> bool:
    """Whether an MMCME2 of grade -1 runs so: said anew (DS181, table 38; UG472)."""
    detector = input_hz / divider
    vco = detector * multiplier
    return 10e6 <= detector <= 450e6 and 600e6 <= vco <= 1200e6 and 4.69e6 <= vco / output <= 800e6


@settings(max_examples=15, deadline=None)
@given(wanted=st.integers(5_000_000, 400_000_000), input_hz=st.sampled_from([100_000_000, 12_000_000, 50_000_000]))
def test_nothing_comes_closer(wanted: int, input_hz: int) -> None:
    chosen = mmcm.search(input_hz, wanted)
    assert legal(input_hz, chosen.input_divider, chosen.multiplier, chosen.output_divider)
    best = max(Fraction(input_hz * multiplier, divider * output) for divider in range(1, 107)
               for multiplier in range(2, 65) for output in range(1, 129)
               if input_hz * multiplier <= wanted * divider * output and legal(input_hz, divider, multiplier, output))
    assert chosen.output_hz == best <= wanted


def test_known_clocks() -> None:
    chosen = mmcm.search(100_000_000, 80_000_000)
    assert (chosen.input_divider, chosen.multiplier, chosen.output_divider) == (1, 12, 15)
    assert mmcm.search(100_000_000, 100_000_000).output_hz == 100_000_000


@pytest.mark.parametrize(("input_hz", "wanted", "words"), [
    (5_000_000, 80_000_000, "MMCM input must be from 10 to 800 MHz, not 5"),
    (100_000_000, 900_000_000, "MMCM output must be from 4.69 to 800 MHz, not 900")])
def test_what_cannot_be_is_refused(input_hz: int, wanted: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        mmcm.search(input_hz, wanted)
