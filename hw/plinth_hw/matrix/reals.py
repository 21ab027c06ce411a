"""Numbers as ``real`` in SystemVerilog, for arrays of multiply-adds that are written as loops.

They are binary64 values that their format can represent. With significands of p bits (leading bit included) binary64
holds the product of two operands exactly, and rounding to its 53 bits first does no harm to a sum if 53 >= 2 p + 2; so
product and sum need one rounding each from binary64 to the format, which adds and subtracts 1.5 times the power of two
whose last place is the format's::

    unit(x)  = min(max(2^exponent(x), least normal), 2^(emax + 1))
    round(x) = (x + m) - m      m = 1.5 * 2^(52 - fraction bits) * unit(x)

with the sign of x (that of a zero would be lost), and infinity where 2^(emax + 1) is reached. No step branches, and
none makes a subnormal binary64 number. The one quiet NaN is made when a number becomes bits.

A fixed-point number is the whole number of its last places. Where sums have 53 bits at most, all of them and all
products are exact; a sum is only kept within the format's bounds.
"""

from plinth_hw.isa.formats import Fixed, Float, Format

_REAL = Float(11, 52)


def check(operand: Format, word: Format) -> None:
    """Whether binary64 can stand for operands and sums.

    Raises
    ------
    ValueError
        If it cannot.
    """
    if isinstance(operand, Fixed) or isinstance(word, Fixed):
        if word.bits > _REAL.fraction_bits + 1:
            raise ValueError(f"Fixed-point sums must have at most {_REAL.fraction_bits + 1} bits to be simulated as "
                             f"loops, not {word.bits}")
        return
    for name, fmt in (("Multiply", operand), ("Accumulate", word)):
        if fmt.exponent_bits > 8:
            raise ValueError(f"{name} format must have at most 8 exponent bits to be simulated as loops, "
                             f"not {fmt.exponent_bits}")
    if 2 * (operand.fraction_bits + 1) > 53 or 2 * (word.fraction_bits + 1) + 2 > 53:
        raise ValueError(f"Formats must have at most 24 fraction bits to be simulated as loops, not "
                         f"{operand.fraction_bits} and {word.fraction_bits}")


def product_is_exact(operand: Format, word: Format) -> bool:
    """Whether the sums' format holds every product."""
    if isinstance(operand, Fixed) or isinstance(word, Fixed):
        return True
    return operand.exponent_bits < word.exponent_bits and 2 * operand.fraction_bits < word.fraction_bits


def _power(exponent: int) -> str:
    """Bits of 2^exponent."""
    return f"64'h{(exponent + _REAL.bias) << _REAL.fraction_bits:016x}"


def to_real(fmt: Format, name: str, sums: Format | None = None) -> str:
    """Function from the format's bits to ``real``; fixed-point ones in last places of ``sums``, if given."""
    if isinstance(fmt, Fixed):
        finer = sums.fraction_bits - fmt.fraction_bits if isinstance(sums, Fixed) else 0
        return f"""
  function automatic void {name}(input logic [{fmt.bits - 1}:0] bits, output real result);
    result = real'(longint'($signed(bits)){f" <<< {finer}" if finer else ""});
  endfunction
"""
    e, f, rebias = fmt.exponent_bits, fmt.fraction_bits, _REAL.bias - fmt.bias
    return f"""
  // A subnormal is 2^emin + fraction less 2^emin; infinities and NaNs take binary64's exponent.
  function automatic void {name}(input logic [{fmt.bits - 1}:0] bits, output real result);
    logic [10:0] exponent;
    real magnitude;
    exponent = &bits[{f + e - 1}:{f}] ? 11'd2047 :
               11'(bits[{f + e - 1}:{f}]) + (|bits[{f + e - 1}:{f}] ? 11'd{rebias} : 11'd{rebias + 1});
    magnitude = $bitstoreal({{1'b0, exponent, bits[{f - 1}:0], {52 - f}'b0}}) -
                (|bits[{f + e - 1}:{f}] ? 0.0 : $bitstoreal({_power(1 - fmt.bias)}));
    result = $bitstoreal($realtobits(magnitude) | {{bits[{fmt.bits - 1}], 63'b0}});
  endfunction
"""


def to_bits(fmt: Format, name: str, sums: Format | None = None) -> str:
    """Function from a ``real`` that the format can represent to its bits; or from any of ``sums``, if given, as
    :func:`~plinth_hw.matrix.chain.captured` makes words of the chain of them."""
    if isinstance(fmt, Fixed) and isinstance(sums, Fixed):
        rest = sums.fraction_bits - fmt.fraction_bits
        return f"""
  function automatic void {name}(input real value, output logic [{fmt.bits - 1}:0] result);
    longint number, kept;
    number = longint'(value);
    kept = (number >>> {rest}) | longint'((number & 64'sd{(1 << rest) - 1}) != 0);
    kept = kept > 64'sd{fmt.most} ? 64'sd{fmt.most} : kept;
    result = {fmt.bits}'(kept < -64'sd{-fmt.least} ? -64'sd{-fmt.least} : kept);
  endfunction
"""
    if isinstance(fmt, Fixed):
        return f"""
  function automatic void {name}(input real value, output logic [{fmt.bits - 1}:0] result);
    result = {fmt.bits}'(longint'(value));
  endfunction
"""
    f, rebias = fmt.fraction_bits, _REAL.bias - fmt.bias
    shift = 52 - f
    return f"""
  // What is below 2^emin is aligned to the last place of subnormals by adding 2^emin.
  function automatic void {name}(input real value, output logic [{fmt.bits - 1}:0] result);
    logic [63:0] bits, magnitude;
    logic subnormal;
    bits = $realtobits(value);
    magnitude = bits & 64'h7fffffffffffffff;
    subnormal = magnitude < {_power(1 - fmt.bias)};
    magnitude = subnormal ? $realtobits($bitstoreal(magnitude) + $bitstoreal({_power(1 - fmt.bias)})) : magnitude;
    result = magnitude > 64'h7ff0000000000000 ? {fmt.bits}'h{fmt.quiet_nan:x} :
        {{bits[63], magnitude == 64'h7ff0000000000000 ? {fmt.bits - 1}'h{fmt.infinity:x} :
         {fmt.bits - 1}'((magnitude >> {shift}) - (subnormal ? 64'h{(rebias + 1) << f:x} : 64'h{rebias << f:x}))}};
  endfunction
"""


def rounding(fmt: Format, name: str) -> str:
    """Function that makes of a ``real`` the nearest number of the format."""
    if isinstance(fmt, Fixed):
        return f"""
  function automatic void {name}(input real value, output real result);
    result = value > {fmt.most}.0 ? {fmt.most}.0 : value < {fmt.least}.0 ? {fmt.least}.0 : value;
  endfunction
"""
    top = fmt.exponent_maximum - fmt.bias
    return f"""
  function automatic void {name}(input real value, output real result);
    logic [63:0] bits, unit, rounded;
    real magic;
    bits = $realtobits(value);
    unit = bits & 64'h7ff0000000000000;
    unit = unit < {_power(1 - fmt.bias)} ? {_power(1 - fmt.bias)} : unit;
    unit = unit > {_power(top)} ? {_power(top)} : unit;
    magic = $bitstoreal(unit + 64'h{((52 - fmt.fraction_bits) << 52) + (1 << 51):x});
    rounded = $realtobits((value + magic) - magic) & 64'h7fffffffffffffff;
    rounded = rounded >= {_power(top)} && rounded < 64'h7ff0000000000000 ? 64'h7ff0000000000000 : rounded;
    result = $bitstoreal(rounded | (bits & 64'h8000000000000000));
  endfunction
"""
