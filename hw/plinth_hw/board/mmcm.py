"""Dividers of an MMCM of Xilinx' 7 series (MMCME2_BASE) for a clock, and its instance.

::

    input / input_divider -> phase detector -> VCO = input * multiplier / input_divider -> output = VCO / output_divider

Whole dividers alone are used. Limits are those of speed grade -1 of Artix-7 (Xilinx DS181, MMCM specification), which
the other grades have as well.
"""

from dataclasses import dataclass
from fractions import Fraction

from amaranth.hdl import Instance, Module, Signal, Value

from plinth_hw.board.ranges import check_ends, within

#: Dividers and the multiplier: least and most.
INPUT_DIVIDERS, MULTIPLIERS, OUTPUT_DIVIDERS = (1, 106), (2, 64), (1, 128)
#: Hz of the input, at the phase detector, of the VCO and of the output: least and most.
INPUT_HZ = (10_000_000, 800_000_000)
DETECTOR_HZ = (10_000_000, 450_000_000)
VCO_HZ = (600_000_000, 1_200_000_000)
OUTPUT_HZ = (4_690_000, 800_000_000)


@dataclass(frozen=True)
class MMCM:
    """Dividers, and what they make of an input."""

    input_hz: int
    input_divider: int
    multiplier: int
    output_divider: int

    @property
    def vco_hz(self) -> Fraction:
        """Frequency of the oscillator in Hz."""
        return Fraction(self.input_hz * self.multiplier, self.input_divider)

    @property
    def output_hz(self) -> Fraction:
        """Frequency of CLKOUT0 in Hz."""
        return self.vco_hz / self.output_divider

    def instance(self, clock_in: Value, clock_out: Signal, lock: Signal) -> Module:
        """The MMCME2_BASE, whose feedback and output go through global buffers: it drives ``clock_out`` and, once that
        is right, ``lock``."""
        m = Module()
        feedback, buffered, output = Signal(), Signal(), Signal()
        m.submodules.mmcm = Instance(
            "MMCME2_BASE", i_CLKIN1=clock_in, i_CLKFBIN=buffered, o_CLKFBOUT=feedback, o_CLKOUT0=output, o_LOCKED=lock,
            i_PWRDWN=0, i_RST=0, p_BANDWIDTH="OPTIMIZED", p_CLKIN1_PERIOD=1e9 / self.input_hz,
            p_CLKFBOUT_MULT_F=float(self.multiplier), p_DIVCLK_DIVIDE=self.input_divider,
            p_CLKOUT0_DIVIDE_F=float(self.output_divider))
        m.submodules.feedback = Instance("BUFG", i_I=feedback, o_O=buffered)
        m.submodules.output = Instance("BUFG", i_I=output, o_O=clock_out)
        return m


def search(input_hz: int, wanted_hz: int) -> MMCM:
    """Dividers for the fastest clock that is not faster than ``wanted_hz``.

    Of several, those with the fastest phase detector, which jitters least, and then with the fastest VCO.

    Raises
    ------
    ValueError
        If the input or the wanted clock is outside what an MMCM can do, or no dividers make it of this input.
    """
    check_ends("MMCM", input_hz, INPUT_HZ, wanted_hz, OUTPUT_HZ)
    found = []
    for divider in range(INPUT_DIVIDERS[0], INPUT_DIVIDERS[1] + 1):
        if not within(Fraction(input_hz, divider), DETECTOR_HZ):
            continue
        for multiplier in range(MULTIPLIERS[0], MULTIPLIERS[1] + 1):
            # The least divider whose output is not faster than wanted.
            output = -(-input_hz * multiplier // (divider * wanted_hz))
            mmcm = MMCM(input_hz, divider, multiplier, max(OUTPUT_DIVIDERS[0], output))
            if mmcm.output_divider <= OUTPUT_DIVIDERS[1] and within(mmcm.vco_hz, VCO_HZ) and within(
                    mmcm.output_hz, OUTPUT_HZ):
                found.append(mmcm)
    if not found:
        raise ValueError(f"MMCM output of at most {wanted_hz / 1e6:g} MHz cannot be made of {input_hz / 1e6:g} MHz")
    return max(found, key=lambda mmcm: (mmcm.output_hz, -mmcm.input_divider, mmcm.vco_hz))
