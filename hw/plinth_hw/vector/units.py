# amaranth: UnusedElaboratable=no
"""What a vector engine computes with, by the format of memory: lanes, function unit, what instructions want of them.

FP32 dies have :class:`~plinth_hw.vector.lane.Lane` and :class:`~plinth_hw.vector.function.FunctionUnit`, those of fixed
point :class:`~plinth_hw.vector.fixed_lane.FixedLane` and
:class:`~plinth_hw.vector.fixed_function.FixedFunctionUnit`.
"""

from collections.abc import Collection
from typing import Any

from amaranth.hdl import Const, Value

from plinth_hw.isa import fixed_functions, functions
from plinth_hw.isa.formats import Factor, Fixed
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.vector_body import VectorFunction, VectorOp
from plinth_hw.vector import conversion, fixed_lane, lane
from plinth_hw.vector.fixed_function import FixedFunctionUnit
from plinth_hw.vector.function import FunctionUnit


class FloatUnits:
    """Of FP32, with conversions to and from FP16."""

    #: Instructions that there are not, functions that there are, and whether words may hold two numbers of FP16.
    lacking: Collection[VectorOp] = ()
    functions: Collection[VectorFunction] = tuple(functions.TABLES)
    packs = True

    def __init__(self) -> None:
        self.latencies = {**lane.LATENCIES, VectorOp.FUNCTION: 1 + FunctionUnit.latency}

    def function(self) -> Any:
        """The function unit."""
        return FunctionUnit()

    def lane(self) -> Any:
        """A lane."""
        return lane.Lane()

    def immediates(self, word: Value) -> dict[tuple[VectorOp, ...], Value]:
        """What lanes take as their immediate, of an instruction's; zero with others."""
        return {(VectorOp.ADD_IMMEDIATE, VectorOp.SCALE): word,
                (VectorOp.WIDEN,): Const(conversion.WIDENING, 32)}


class FixedUnits:
    """Of fixed point."""

    lacking = fixed_lane.LACKING
    functions = tuple(fixed_functions.CURVES)
    packs = False

    def __init__(self, parameters: DieParameters):
        assert isinstance(parameters.memory_format, Fixed), parameters.memory_format
        self.format = parameters.memory_format
        self.latencies = {**fixed_lane.LATENCIES, VectorOp.FUNCTION: 1 + FixedFunctionUnit.latency}

    def function(self) -> Any:
        """The function unit."""
        return FixedFunctionUnit()

    def lane(self) -> Any:
        """A lane."""
        return fixed_lane.FixedLane(self.format)

    def immediates(self, word: Value) -> dict[tuple[VectorOp, ...], Value]:
        """What lanes take as their immediate, of an instruction's; zero with others."""
        product = self.format.fraction_bits << Factor.FIELDS["shift"].offset
        return {(VectorOp.ADD_IMMEDIATE, VectorOp.SCALE): word, (VectorOp.MUL,): Const(product, 32)}


def units(parameters: DieParameters) -> FloatUnits | FixedUnits:
    """Those of a die."""
    return FixedUnits(parameters) if isinstance(parameters.memory_format, Fixed) else FloatUnits()
