"""Products by powers of two: exact, without a multiplier."""

from amaranth.hdl import Cat, Const, Mux, Value

from plinth_hw.isa.formats import Float


def times_power(fmt: Float, number: Value, power: Value, negative: Value) -> Value:
    """``number`` times 2^``power``, or minus that if ``negative``: exact, subnormals included, or infinite where the
    format ends; of a NaN the format's quiet one. No register; about two look-up tables a bit.

    Parameters
    ----------
    fmt : Float
        With more exponents than ``power`` can name.
    number : Value
        In that format.
    power : Value
        Unsigned.
    negative : Value
        One bit.
    """
    bits, most = fmt.fraction_bits, (1 << len(power)) - 1
    fraction, exponent, sign = number[:bits], number[bits:-1], number[-1] ^ negative
    # A subnormal number becomes normal as soon as its fraction reaches over its bits.
    shifted = (fraction << power)[:bits + most]
    small = Cat(shifted[:bits], Const(0, fmt.exponent_bits))
    for over in range(1, most + 1):
        small = Mux(shifted[bits + over - 1], Cat(shifted[over - 1:][:bits], Const(over, fmt.exponent_bits)), small)
    raised = (exponent + power)[:fmt.exponent_bits + 1]
    beyond = raised >= fmt.exponent_maximum
    magnitude = Mux(exponent == 0, small, Mux(beyond, Const(fmt.infinity, fmt.bits - 1), Cat(fraction, raised[:-1])))
    return Mux(exponent.all() & fraction.any(), Const(fmt.quiet_nan, fmt.bits), Cat(magnitude, sign))
