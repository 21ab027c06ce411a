"""Numbers as ``real``: which conversion an array's simulation form gets for its formats."""

import pytest

from plinth_hw.isa.formats import FP16, FP32, Q3_12, Fixed, Float, Format
from plinth_hw.matrix.reals import check, product_is_exact, to_bits

SUMS = Fixed(23, 24)


@pytest.mark.parametrize(("fmt", "sums", "kept", "dropped"), [
    # A row-stationary array's words are its sums: bits as they are.
    (Q3_12, None, "result = 16'(longint'(value));", ">>>"),
    # A systolic array's sums have more fraction bits, which become one, and saturate.
    (Q3_12, SUMS, f"(number >>> {SUMS.fraction_bits - Q3_12.fraction_bits})", "16'(longint'(value))"),
    (FP32, FP32, "$realtobits(value)", "longint"), (FP16, None, "$realtobits(value)", "longint")], ids=str)
def test_words_of_sums(fmt: object, sums: object, kept: str, dropped: str) -> None:
    function = to_bits(fmt, "word_bits", sums)  # type: ignore[arg-type]
    assert "function automatic void word_bits(" in function and kept in function and dropped not in function


@pytest.mark.parametrize(("operand", "word", "fault"), [
    (FP32, FP32, None), (FP16, FP32, None), (Float(8, 24), FP32, None), (Q3_12, SUMS, None),
    (Q3_12, Fixed(28, 24), None),
    (Q3_12, Fixed(29, 24), "Fixed-point sums must have at most 53 bits to be simulated as loops, not 54"),
    (Float(9, 10), FP32, "Multiply format must have at most 8 exponent bits to be simulated as loops, not 9"),
    (FP32, Float(9, 10), "Accumulate format must have at most 8 exponent bits to be simulated as loops, not 9"),
    (Float(8, 26), FP32, "Formats must have at most 24 fraction bits to be simulated as loops, not 26 and 23"),
    (FP32, Float(8, 25), "Formats must have at most 24 fraction bits to be simulated as loops, not 23 and 25")],
    ids=str)
def test_formats_that_binary64_stands_for(operand: Format, word: Format, fault: str | None) -> None:
    if fault is None:
        check(operand, word)
        return
    with pytest.raises(ValueError, match=f"^{fault}$"):
        check(operand, word)


@pytest.mark.parametrize(("operand", "word", "exact"), [
    (FP32, FP32, False), (FP16, FP32, True), (Q3_12, SUMS, True), (Float(7, 11), FP32, True),
    (Float(7, 12), FP32, False), (Float(8, 5), FP32, False)], ids=str)
def test_products_that_sums_hold(operand: Format, word: Format, exact: bool) -> None:
    assert product_is_exact(operand, word) == exact
