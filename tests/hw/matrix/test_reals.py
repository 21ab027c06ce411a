"""Numbers as ``real``: which conversion an array's simulation form gets for its formats."""

import pytest

from plinth_hw.isa.formats import FP16, FP32, Q3_12, Fixed
from plinth_hw.matrix.reals import to_bits

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
