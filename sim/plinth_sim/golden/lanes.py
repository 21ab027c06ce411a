"""What the lanes of the vector engine do with elements, by the format of memory: words in, words out.

:class:`FloatLanes` of FP32 dies round once an operation, to nearest even; every NaN that comes out is the quiet NaN,
and max(-0, +0) = +0. :class:`FixedLanes` of fixed-point dies round once, to nearest even, where there is anything to
round, and what is beyond the format becomes its least or largest number. A sum takes its elements one after the other::

    acc_0 = x_0,  acc_k = acc_{k-1} + x_k          k = 1 .. K-1, each rounded, or saturated

*Ends* are counted: in fixed point, results of the adder and the multiplier that were beyond the format, each of a sum's
steps for itself.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from plinth_hw.isa import fixed_functions, functions
from plinth_hw.isa.formats import FP32, Fixed, Format, word_type
from plinth_hw.isa.vector_body import VectorFunction, VectorOp
from plinth_sim.golden import arithmetic, fixed_function, function

Words = NDArray[np.unsignedinteger]
Bits = NDArray[np.uint32]
#: Words, and how many ends came up in making them.
Counted = tuple[Words, int]

QUIET_NAN = FP32.quiet_nan


class Lanes(ABC):
    """Lanes of one format of memory."""

    #: Instructions that they do not have, and the functions that they have.
    lacking: ClassVar[frozenset[VectorOp]]
    functions: ClassVar[frozenset[VectorFunction]]
    #: A word may hold several narrow numbers in memory.
    packs: ClassVar[bool]

    @abstractmethod
    def apply(self, op: VectorOp, a: Words, b: Words | None, immediate: int) -> Counted:
        """Result of an element-wise instruction; ``b`` of those that take it, ``immediate`` of those."""

    @abstractmethod
    def function(self, number: VectorFunction, a: Words) -> Words:
        """A function of each word."""

    @abstractmethod
    def sums(self, x: Words, axis: int) -> Counted:
        """Sums along an axis, which stays with length 1."""

    @abstractmethod
    def largest(self, x: Words, axis: int) -> Words:
        """The largest along an axis, which stays with length 1."""


def lanes_of(fmt: Format) -> Lanes:
    """Those of a die's ``memory_format``."""
    return FixedLanes(fmt) if isinstance(fmt, Fixed) else FloatLanes()


class FloatLanes(Lanes):
    """Of FP32; NARROW and WIDEN to and from FP16."""

    lacking = frozenset()
    functions = frozenset(functions.TABLES)
    packs = True

    def apply(self, op: VectorOp, a: Words, b: Words | None, immediate: int) -> Counted:
        other: Any = np.uint32(immediate).reshape(1, 1) if b is None else b
        if op in (VectorOp.ADD, VectorOp.ADD_IMMEDIATE):
            return arithmetic.add(a, other), 0
        if op is VectorOp.SUB:
            return arithmetic.sub(a, other), 0
        if op in (VectorOp.MUL, VectorOp.SCALE):
            return arithmetic.multiply(a, other), 0
        if op is VectorOp.MAX:
            return maximum(a, other), 0
        if op is VectorOp.RELU:
            return _canonical(np.where(_positive(a) | _is_nan(a), a, np.uint32(0))), 0
        if op is VectorOp.RELU_MASK:
            return _canonical(np.where(_positive(other), a, np.uint32(0))), 0
        if op is VectorOp.NARROW:
            return to_narrow(a), 0
        return _canonical(a) if op is VectorOp.COPY else from_narrow(a), 0

    def function(self, number: VectorFunction, a: Words) -> Words:
        return function.evaluate(number, a)

    def sums(self, x: Words, axis: int) -> Counted:
        total = np.add.accumulate(_floats(x), axis=axis)  # in order, each sum rounded to FP32
        return _canonical(np.take(total, [-1], axis=axis).view(np.uint32)), 0

    def largest(self, x: Words, axis: int) -> Words:
        nan = _is_nan(x).any(axis=axis, keepdims=True)
        keys = _keys(x).max(axis=axis, keepdims=True)
        maximum = (keys ^ ((keys >> 31) & np.int32(0x7FFFFFFF))).view(np.uint32)
        return np.where(nan, np.uint32(QUIET_NAN), maximum)


class FixedLanes(Lanes):
    """Of fixed point of 16 bits. SCALE's immediate is a :class:`~plinth_hw.isa.formats.Factor`, ADD_IMMEDIATE's a
    number in the low half of its word."""

    lacking = frozenset({VectorOp.NARROW, VectorOp.WIDEN})
    functions = frozenset(fixed_functions.CURVES)
    packs = False

    def __init__(self, fmt: Fixed):
        self.fmt = fmt

    def apply(self, op: VectorOp, a: Words, b: Words | None, immediate: int) -> Counted:
        fmt = self.fmt
        x = arithmetic.numbers(fmt, a)
        constant = np.array(immediate & 0xFFFF, dtype=word_type(fmt))
        y = arithmetic.numbers(fmt, constant if b is None else b)
        if op in (VectorOp.ADD, VectorOp.ADD_IMMEDIATE):
            return arithmetic.counted(self.fmt, x + y)
        if op is VectorOp.SUB:
            return arithmetic.counted(self.fmt, x - y)
        if op is VectorOp.MUL:
            return arithmetic.counted(self.fmt, arithmetic.halved(x * y, fmt.fraction_bits))
        if op is VectorOp.SCALE:
            return arithmetic.counted(self.fmt, arithmetic.scaled(x, immediate))
        units = {VectorOp.MAX: lambda: np.maximum(x, y), VectorOp.RELU: lambda: np.maximum(x, 0),
                 VectorOp.RELU_MASK: lambda: np.where(y > 0, x, 0), VectorOp.COPY: lambda: x}[op]()
        return arithmetic.saturated(fmt, units), 0

    def function(self, number: VectorFunction, a: Words) -> Words:
        return fixed_function.evaluate(number, a)

    def sums(self, x: Words, axis: int) -> Counted:
        units = np.moveaxis(arithmetic.numbers(self.fmt, x), axis, 0)
        total, ends = units[0], 0
        for row in units[1:]:
            words, beyond = arithmetic.counted(self.fmt, total + row)
            total, ends = arithmetic.numbers(self.fmt, words), ends + beyond
        return np.expand_dims(arithmetic.saturated(self.fmt, total), axis), ends

    def largest(self, x: Words, axis: int) -> Words:
        return arithmetic.saturated(self.fmt, arithmetic.numbers(self.fmt, x).max(axis=axis, keepdims=True))


def _floats(bits: Bits) -> NDArray[np.float32]:
    return np.ascontiguousarray(bits).view(np.float32)


def _is_nan(bits: Bits) -> NDArray[np.bool_]:
    return (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)


def _keys(bits: Bits) -> NDArray[np.int32]:
    """Signed integers in the order of the numbers, -0 below +0."""
    signed = bits.view(np.int32)
    return signed ^ ((signed >> 31) & np.int32(0x7FFFFFFF))


def maximum(a: Bits, b: Bits) -> Bits:
    """Larger of two; a NaN in either gives the quiet NaN, max(-0, +0) = +0."""
    larger = np.where(_keys(a) > _keys(b), a, b)
    return np.where(_is_nan(a) | _is_nan(b), np.uint32(QUIET_NAN), larger)


def _canonical(bits: Bits) -> Bits:
    return arithmetic.canonical(_floats(bits)).view(np.uint32)


def _positive(bits: Bits) -> NDArray[np.bool_]:
    return (bits > 0) & (bits <= np.uint32(0x7F800000))


def to_narrow(bits: Bits) -> Bits:
    """FP32 to FP16, to nearest even, in the low half of each word."""
    return arithmetic.to_fp16(_floats(bits)).view(np.uint16).astype(np.uint32)


def from_narrow(bits: Bits) -> Bits:
    """FP16 in the low half of each word to FP32, exactly."""
    return arithmetic.from_fp16((bits & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16)).view(np.uint32)
