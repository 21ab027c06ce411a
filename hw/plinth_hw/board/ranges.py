"""Ranges of frequencies that clock generators of FPGAs have."""

from fractions import Fraction

#: Least and most, in Hz.
Range = tuple[int, int]


def within(hertz: Fraction, limits: Range) -> bool:
    """Whether a frequency is in a range, its ends included."""
    return limits[0] <= hertz <= limits[1]


def check_ends(generator: str, input_hz: int, input_limits: Range, output_hz: int, output_limits: Range) -> None:
    """Refuse an input, or a wanted output, that a kind of generator cannot have.

    Raises
    ------
    ValueError
        With the first that is out of range.
    """
    for name, value, limits in (("input", input_hz, input_limits), ("output", output_hz, output_limits)):
        if not within(Fraction(value), limits):
            raise ValueError(f"{generator} {name} must be from {limits[0] / 1e6:g} to {limits[1] / 1e6:g} MHz, not "
                             f"{value / 1e6:g}")
