"""Layouts of bits, declared once, for hardware and software.

A layout is a class: an annotation for each field, the first one in the lowest bits, without gaps. A field is a number
(:func:`unsigned`, :func:`signed`), a code (:class:`Code`), another layout, or several of one kind (:class:`Repeat`)::

    class Pointer(Struct):
        offset: unsigned(28)
        base: unsigned(4)

    words = pack(Pointer, {"offset": 0x100, "base": 2})
    assert unpack(Pointer, words).base == 2

Plain data: software packs and unpacks with :func:`pack` and :func:`unpack`; ``plinth_hw.shapes`` makes Amaranth shapes
of the same declarations.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import index
from typing import Any, ClassVar, TypeVar

#: Bits of a word.
WORD_BITS = 32


@dataclass(frozen=True)
class Number:
    """An integer, in two's complement if ``signed``."""

    bits: int
    signed: bool = False


def unsigned(bits: int) -> Number:
    """A number from 0 to 2^bits - 1."""
    return Number(bits)


def signed(bits: int) -> Number:
    """A number from -2^(bits - 1) to 2^(bits - 1) - 1."""
    return Number(bits, signed=True)


class Code(Enum):
    """Numbers with names, ``class Engine(Code, bits=4)``; ``bits`` is the width of a field of them."""

    bits: ClassVar[int]

    def __init_subclass__(cls, *, bits: int, **others: Any) -> None:
        super().__init_subclass__(**others)
        cls.bits = bits


@dataclass(frozen=True)
class Repeat:
    """``length`` fields of one shape, one after the other."""

    shape: Any
    length: int

    @property
    def bits(self) -> int:
        """Of all of them."""
        return self.length * width(self.shape)


@dataclass(frozen=True)
class Field:
    """A field of a layout: its lowest bit, and what it is."""

    offset: int
    shape: Any


class Struct:
    """A layout; one of another layout's class has its fields first. Its instances, which :func:`unpack` makes, have the
    fields as attributes.

    Attributes
    ----------
    FIELDS : dict of Field, by name
    BITS : int
        Width of the whole.
    """

    FIELDS: ClassVar[dict[str, Field]]
    BITS: ClassVar[int]

    def __init_subclass__(cls) -> None:
        cls.FIELDS, cls.BITS = dict(getattr(cls, "FIELDS", {})), getattr(cls, "BITS", 0)
        for name, shape in vars(cls).get("__annotations__", {}).items():
            cls.FIELDS[name] = Field(cls.BITS, shape)
            cls.BITS += width(shape)

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({fields})"


S = TypeVar("S", bound=Struct)


def width(shape: Any) -> int:
    """Bits of a field."""
    return int(shape.BITS if isinstance(shape, type) and issubclass(shape, Struct) else shape.bits)


def offsets(shape: Any, kind: Any) -> list[int]:
    """Lowest bits of all fields of a kind, those of layouts within the layout and of repeated fields included."""
    if shape is kind:
        return [0]
    if isinstance(shape, Repeat):
        size = width(shape.shape)
        return [place * size + offset for place in range(shape.length) for offset in offsets(shape.shape, kind)]
    if isinstance(shape, type) and issubclass(shape, Struct):
        return [field.offset + offset for field in shape.FIELDS.values() for offset in offsets(field.shape, kind)]
    return []


def pack(layout: type[Struct], fields: Any) -> tuple[int, ...]:
    """Fields of a layout as words, low word first; those that are not given are 0.

    A mapping or an object has fields, by key or attribute; repeated fields are sequences, codes members or numbers.

    Raises
    ------
    TypeError
        If a field is no integer, or a member of another code.
    ValueError
        If a field is unknown, or a number does not fit.
    """
    bits = _encode(layout, fields, layout.__name__)
    return tuple(bits >> low & 0xFFFF_FFFF for low in range(0, layout.BITS, WORD_BITS))


def unpack(layout: type[S], words: Iterable[int]) -> S:
    """What words, low word first, hold as a layout; words beyond it are left alone.

    A code's field is its member, or the number if that has no name.
    """
    bits = sum(int(word) << WORD_BITS * place for place, word in enumerate(words))
    decoded: S = _decode(layout, bits)
    return decoded


def _encode(shape: Any, value: Any, where: str) -> int:
    if isinstance(shape, Repeat):
        if isinstance(value, Sequence) and len(value) > shape.length:
            raise ValueError(f"{where} has {shape.length} places, not {len(value)}")
        size = width(shape.shape)
        return sum(_encode(shape.shape, item, f"{where}[{place}]") << size * place for place, item in enumerate(value))
    if isinstance(shape, type) and issubclass(shape, Struct):
        bits = 0
        for name, item in (value if isinstance(value, Mapping) else vars(value)).items():
            if name not in shape.FIELDS:
                raise ValueError(f"{where} has no field {name!r}")
            field = shape.FIELDS[name]
            bits |= _encode(field.shape, item, f"{where}.{name}") << field.offset
        return bits
    if isinstance(value, Code) and type(value) is not shape:
        raise TypeError(f"{where} is not a {type(value).__name__}")
    number = index(value.value if isinstance(value, Code) else value)
    least, most = 0, (1 << shape.bits) - 1
    if isinstance(shape, Number) and shape.signed:
        least, most = -1 << shape.bits - 1, most >> 1
    if not least <= number <= most:
        raise ValueError(f"{where} must be from {least} to {most}, not {number}")
    return number & (1 << shape.bits) - 1


def _decode(shape: Any, bits: int) -> Any:
    if isinstance(shape, Number):
        number = bits & (1 << shape.bits) - 1
        return number - (number >> shape.bits - 1 << shape.bits) if shape.signed else number
    if isinstance(shape, Repeat):
        size = width(shape.shape)
        return [_decode(shape.shape, bits >> size * place) for place in range(shape.length)]
    if issubclass(shape, Struct):
        return shape(**{name: _decode(field.shape, bits >> field.offset) for name, field in shape.FIELDS.items()})
    number = bits & (1 << shape.bits) - 1
    return shape(number) if number in shape._value2member_map_ else number
