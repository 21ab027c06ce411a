"""Dividers of an ECP5's PLL (EHXPLLL) for a clock, and its instance.

::

    input / input_divider -> phase detector -> VCO / output_divider -> output
                               ^-- output / feedback_divider

The output itself is fed back, so that ``output = input * feedback_divider / input_divider`` and the VCO runs at
``output * output_divider``. Limits are those of the ECP5 data sheet (FPGA-DS-02012, sysCLOCK PLL timing).
"""

from dataclasses import dataclass
from fractions import Fraction

from amaranth.hdl import Instance, Signal, Value

from plinth_hw.board.ranges import check_ends, within

#: Dividers go from 1 to this.
MOST_DIVISION = 128
#: Hz of the input, at the phase detector, of the VCO and of the output: least and most.
INPUT_HZ = (8_000_000, 400_000_000)
DETECTOR_HZ = (3_125_000, 400_000_000)
VCO_HZ = (400_000_000, 800_000_000)
OUTPUT_HZ = (3_125_000, 400_000_000)


@dataclass(frozen=True)
class PLL:
    """Dividers, and what they make of an input."""

    input_hz: int
    input_divider: int
    feedback_divider: int
    output_divider: int

    @property
    def output_hz(self) -> Fraction:
        """Of CLKOP."""
        return Fraction(self.input_hz * self.feedback_divider, self.input_divider)

    @property
    def vco_hz(self) -> Fraction:
        """Of the oscillator."""
        return self.output_hz * self.output_divider

    def instance(self, clock_in: Value, clock_out: Signal, lock: Signal) -> Instance:
        """The EHXPLLL, which drives ``clock_out`` and, once that is right, ``lock``."""
        unused = ("RST", "STDBY", "PHASESEL0", "PHASESEL1", "PHASEDIR", "PHASESTEP", "PHASELOADREG",
                  "PLLWAKESYNC", "ENCLKOP")
        return Instance(
            "EHXPLLL", i_CLKI=clock_in, i_CLKFB=clock_out, o_CLKOP=clock_out, o_LOCK=lock,
            **{f"i_{name}": 0 for name in unused},
            a_FREQUENCY_PIN_CLKI=f"{self.input_hz / 1e6:g}", a_FREQUENCY_PIN_CLKOP=f"{float(self.output_hz / 10**6):g}",
            # Loop filter, as the vendor's tools and ecppll set it.
            a_ICP_CURRENT="12", a_LPF_RESISTOR="8", a_MFG_ENABLE_FILTEROPAMP="1", a_MFG_GMCREF_SEL="2",
            p_FEEDBK_PATH="CLKOP", p_CLKI_DIV=self.input_divider, p_CLKFB_DIV=self.feedback_divider,
            p_CLKOP_ENABLE="ENABLED", p_CLKOP_DIV=self.output_divider, p_CLKOP_CPHASE=self.output_divider - 1,
            p_CLKOP_FPHASE=0, p_OUTDIVIDER_MUXA="DIVA", p_PLLRST_ENA="DISABLED", p_INTFB_WAKE="DISABLED",
            p_STDBY_ENABLE="DISABLED", p_DPHASE_SOURCE="DISABLED")


def search(input_hz: int, wanted_hz: int) -> PLL:
    """Dividers for the fastest clock that is not faster than ``wanted_hz``.

    Of several, those with the fastest phase detector, which jitters least, and then with the VCO nearest to the middle
    of its range.

    Raises
    ------
    ValueError
        If the input or the wanted clock is outside what the PLL can do, or no dividers make it of this input.
    """
    check_ends("PLL", input_hz, INPUT_HZ, wanted_hz, OUTPUT_HZ)
    plls = []
    for divider in range(1, MOST_DIVISION + 1):
        if not within(Fraction(input_hz, divider), DETECTOR_HZ):
            continue
        feedback = min(MOST_DIVISION, wanted_hz * divider // input_hz)
        plls += [pll for output in range(1, MOST_DIVISION + 1) if feedback
                 and within((pll := PLL(input_hz, divider, feedback, output)).vco_hz, VCO_HZ)
                 and within(pll.output_hz, OUTPUT_HZ)]
    if not plls:
        raise ValueError(f"PLL output of at most {wanted_hz / 1e6:g} MHz cannot be made of {input_hz / 1e6:g} MHz")
    middle = sum(VCO_HZ) // 2
    return max(plls, key=lambda pll: (pll.output_hz, -pll.input_divider, -abs(pll.vco_hz - middle)))
