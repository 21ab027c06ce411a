# amaranth: UnusedElaboratable=no
# Units are also made to ask for their latency.
"""Units of multiply-adds by their formats."""

from plinth_hw.arith.adder import FloatAdder
from plinth_hw.arith.fixed import FixedAdder, FixedMultiplier
from plinth_hw.arith.multiplier import FloatMultiplier
from plinth_hw.isa.formats import Fixed, Format


def multiplier(operand: Format, word: Format) -> FloatMultiplier | FixedMultiplier:
    """Unit for products of two operands in the format of sums.

    Raises
    ------
    TypeError
        If one format is fixed-point and the other is not.
    ValueError
        If the sums' format does not hold products of fixed-point operands.
    """
    if isinstance(operand, Fixed) or isinstance(word, Fixed):
        return FixedMultiplier(operand, word)  # type: ignore[arg-type]
    return FloatMultiplier(operand, word)


def adder(word: Format) -> FloatAdder | FixedAdder:
    """Unit for sums."""
    return FixedAdder(word, tells=True) if isinstance(word, Fixed) else FloatAdder(word)
