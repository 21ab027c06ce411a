"""Amaranth's shapes of what :mod:`plinth_hw.isa` declares: ``Signal(shape_of(Pointer))``.

A layout becomes a ``data.StructLayout`` with the same fields; a code a shape whose views are compared with, and
assigned from, members of that code, and whose signals carry the members' names into Verilog.
"""

from functools import cache
from typing import Any

from amaranth.hdl import Const, Format, Mux, Shape, ShapeCastable, Value, ValueCastable, unsigned
from amaranth.lib import data

from plinth_hw.isa.layout import Code, Number, Repeat, Struct


class CodeShape(ShapeCastable):
    """Shape of a code: its width; values are :class:`CodeView`."""

    def __init__(self, code: type[Code]):
        self.code = code

    def as_shape(self) -> Shape:
        return unsigned(self.code.bits)

    def const(self, init: Any) -> "CodeView":
        """A member, or the member of a number, as a constant of the code's width; None is 0.

        Raises
        ------
        ValueError
            If it is no member.
        """
        return self(Const(0 if init is None else self.code(init).value, self.as_shape()))

    def from_bits(self, raw: int) -> Code:
        return self.code(raw)

    def format(self, value: Any, format_spec: str) -> Format:
        if format_spec:
            raise ValueError(f"Format specifier {format_spec!r} is not supported for codes")
        return Format.Enum(Value.cast(value), self.code, name=self.code.__name__)

    def __call__(self, value: Any) -> "CodeView":
        return CodeView(self, value)

    def __repr__(self) -> str:
        return f"shape_of({self.code.__name__})"


class CodeView(ValueCastable):
    """A value that is a member of a code. It is compared with members and views of the same code only."""

    def __init__(self, shape: CodeShape, target: Any):
        self._shape = shape
        self._target = Value.cast(target)

    def shape(self) -> CodeShape:
        return self._shape

    def as_value(self) -> Value:
        return self._target

    def eq(self, other: Any) -> Any:
        """Assignment of a member, or of any value."""
        return self._target.eq(self._shape.const(other) if isinstance(other, Code) else other)

    def _compared(self, other: Any) -> Value:
        if isinstance(other, self._shape.code):
            return self._shape.const(other).as_value()
        if isinstance(other, CodeView) and other._shape is self._shape:
            return other._target
        raise TypeError(f"A {self._shape.code.__name__} can only be compared with one, not with {other!r}")

    def __eq__(self, other: Any) -> Any:
        return self._target == self._compared(other)

    def __ne__(self, other: Any) -> Any:
        return self._target != self._compared(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{self._shape!r}({self._target!r})"


@cache
def shape_of(declared: Any) -> Any:
    """Amaranth's shape of a layout, code or field that :mod:`plinth_hw.isa` declares."""
    if isinstance(declared, Number):
        return Shape(declared.bits, declared.signed)
    if isinstance(declared, Repeat):
        return data.ArrayLayout(shape_of(declared.shape), declared.length)
    if issubclass(declared, Struct):
        return data.StructLayout({name: shape_of(field.shape) for name, field in declared.FIELDS.items()})
    return CodeShape(declared)


def either(condition: Any, first: Code, second: Code) -> Value:
    """``first`` where the condition holds, else ``second``, of the same code and as wide as it."""
    shape = shape_of(type(first))
    return Mux(condition, shape.const(first), shape.const(second))
