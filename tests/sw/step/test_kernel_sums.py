"""Sums of a kernel's numbers as vector programs write them: terms in order, factors by their ratio to the first."""

from collections.abc import Sequence
from fractions import Fraction

import pytest

from plinth.buffers import Buffer
from plinth.step.kernel_sums import _sum
from plinth.step.vector import VectorProgram
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.vector_body import VectorOp


@pytest.mark.parametrize(("row", "sources", "region", "instructions"), [
    # Nothing, from whatever there is; a source alone; one with a factor.
    ((0, 0, 0), (1, 2), "sum", [(VectorOp.SUB, "sum", "1", "1", None)]),
    ((0, 1, 0), (0, 1, 2), "1", []),
    ((0, 2, 0), (0, 1, 2), "sum", [(VectorOp.SCALE, "sum", "1", None, 2.0)]),
    ((0, -1, 0), (0, 1, 2), "sum", [(VectorOp.SCALE, "sum", "1", None, -1.0)]),
    # Coefficients of one size: added, or subtracted, and multiplied by the first one at the end.
    ((1, 1, -1), (0, 1, 2), "sum", [(VectorOp.ADD, "sum", "0", "1", None), (VectorOp.SUB, "sum", "sum", "2", None)]),
    (("1/2", "-1/2", "1/2"), (0, 1, 2), "sum", [
        (VectorOp.SUB, "sum", "0", "1", None), (VectorOp.ADD, "sum", "sum", "2", None),
        (VectorOp.SCALE, "sum", "sum", None, 0.5)]),
    ((-1, 1, 0), (0, 1, 2), "sum", [(VectorOp.SUB, "sum", "0", "1", None), (VectorOp.SCALE, "sum", "sum", None, -1.0)]),
    # Others are multiplied by their ratio to the first.
    ((4, 1, -2), (0, 1, 2), "sum", [
        (VectorOp.SCALE, "term", "1", None, 0.25), (VectorOp.ADD, "sum", "0", "term", None),
        (VectorOp.SCALE, "term", "2", None, -0.5), (VectorOp.ADD, "sum", "sum", "term", None),
        (VectorOp.SCALE, "sum", "sum", None, 4.0)]),
    # Only what is there: the first source is none of them.
    ((3, 1, 1), (1, 2), "sum", [(VectorOp.ADD, "sum", "1", "2", None)])])
def test_sums(row: Sequence[int | str], sources: Sequence[int], region: str, instructions: list[tuple]) -> None:
    die = preset("ndp-demo")
    program = VectorProgram(die, 1, 8)
    for source in sources:
        program.load(str(source), Buffer("place", 8 * source, 1, 8, 8))
    assert _sum(program, "sum", list(map(Fraction, row)), sources) == region
    assert [(each.op, each.dst, each.a, each.b, each.immediate) for each in program.instructions] == instructions
