"""Types of settings in YAML and JSON files: each checks values, converts them from and to files, and gives a schema."""

import re
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

#: Largest width, height or number of channels or features.
MAXIMUM_SIZE = 1 << 16
#: What names look like.
NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}"


def kind_of(value: Any) -> str:
    """The YAML type of a value for an error message, ``a text``, ``a list`` or ``a mapping``; of others the value."""
    kinds = ((str, "a text"), (list, "a list"), (dict, "a mapping"))
    return next((word for kind, word in kinds if isinstance(value, kind)), described(value))


def described(value: Any) -> str:
    """A value of a file as an error message shows it, cut, with a hint where YAML has read a number as text."""
    if isinstance(value, str):
        short = value if len(value) <= 40 else value[:40] + "..."
        if re.fullmatch(r"[+-]?([0-9][0-9_]*\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", value):
            return f"the text {short!r}; YAML reads it as text, write the number in plain digits"
        return f"the text {short!r}"
    if value is None:
        return "nothing"
    short = _inner(value)
    return short if len(short) <= 60 else f"{short[:60]}..."


def _inner(value: Any) -> str:
    """A value, or one within others, as YAML and JSON write it; Python has other words."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_inner, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_inner(key)}: {_inner(inner)}" for key, inner in value.items()) + "}"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)


def is_integer(value: Any, low: int, high: int) -> bool:
    """Whether a value is an integer (and no truth value) from ``low`` to ``high``."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


@dataclass(frozen=True)
class Integer:
    """A setting whose value is an integer from ``low`` to ``high``."""

    what: str
    low: int = 1
    high: int = MAXIMUM_SIZE

    def parse(self, value: Any) -> int:
        """Check a value that a file holds and return it as Python has it.

        Raises
        ------
        ValueError
            If it is none that the setting may have; the text says which ones it may.
        """
        if not is_integer(value, self.low, self.high):
            raise ValueError(f"must be an integer from {self.low} to {self.high}, not {described(value)}")
        return int(value)

    def dump(self, value: Any) -> Any:
        """Convert a value to what a YAML or JSON file holds."""
        return value

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the setting's values."""
        return {"description": self.what, "type": "integer", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True)
class Pair(Integer):
    """A setting whose value is a pair of integers, (vertical, horizontal); files may give one number for both."""

    def parse(self, value: Any) -> tuple[int, int]:  # type: ignore[override]
        """Check one integer or a list of two, and return them as a pair.

        Raises
        ------
        ValueError
            If they are no such integers, or out of range.
        """
        pair = value if isinstance(value, (list, tuple)) else [value, value]
        if len(pair) != 2 or not all(is_integer(size, self.low, self.high) for size in pair):
            raise ValueError(f"must be an integer from {self.low} to {self.high} or a list of two "
                             f"(vertical, horizontal), not {described(value)}")
        return int(pair[0]), int(pair[1])

    def dump(self, value: Any) -> Any:
        """Convert a value to what a YAML or JSON file holds."""
        return value[0] if value[0] == value[1] else list(value)

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the setting's values."""
        size = {"type": "integer", "minimum": self.low, "maximum": self.high}
        return {"description": f"{self.what}; one number or [vertical, horizontal]",
                "oneOf": [size, {"type": "array", "items": size, "minItems": 2, "maxItems": 2}]}


@dataclass(frozen=True)
class Padding(Integer):
    """A setting whose value is padding: (top, left, bottom, right), or (vertical, horizontal) where opposite sides are
    equal; files may give one number for all. The first two are the near sides in either case, the last two the far
    ones."""

    def parse(self, value: Any) -> tuple[int, ...]:  # type: ignore[override]
        """Check one integer or a list of two or four, and return the pair, or the four where opposite sides differ.

        Raises
        ------
        ValueError
            If they are no such integers, or out of range.
        """
        sides = value if isinstance(value, (list, tuple)) else [value, value]
        if len(sides) not in (2, 4) or not all(is_integer(size, self.low, self.high) for size in sides):
            raise ValueError(f"must be an integer from {self.low} to {self.high}, or a list of two (vertical, "
                             f"horizontal) or four (top, left, bottom, right), not {described(value)}")
        near, far = sides[:2], sides[-2:]
        return tuple(map(int, near if list(near) == list(far) else sides))

    def dump(self, value: Any) -> Any:
        """Convert a value to what a YAML or JSON file holds."""
        return value[0] if len(value) == 2 and value[0] == value[1] else list(value)

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the setting's values."""
        size = {"type": "integer", "minimum": self.low, "maximum": self.high}
        lists = [{"type": "array", "items": size, "minItems": count, "maxItems": count} for count in (2, 4)]
        return {"description": f"{self.what}; one number, [vertical, horizontal] or [top, left, bottom, right]",
                "oneOf": [size, *lists]}


@dataclass(frozen=True)
class Flag:
    """A setting whose value is true or false."""

    what: str

    def parse(self, value: Any) -> bool:
        """Check a value that a file holds and return it as Python has it.

        Raises
        ------
        ValueError
            If it is none that the setting may have; the text says which ones it may.
        """
        if not isinstance(value, bool):
            raise ValueError(f"must be true or false, not {described(value)}")
        return value

    def dump(self, value: Any) -> Any:
        """Convert a value to what a YAML or JSON file holds."""
        return value

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the setting's values."""
        return {"description": self.what, "type": "boolean"}


@dataclass(frozen=True)
class Choice:
    """A setting whose value is one of the words and numbers ``known``; ``hint`` tells users why others are refused."""

    what: str
    known: tuple[str | int, ...]
    hint: str = ""

    def parse(self, value: Any) -> str | int:
        """Check a value and return it; false, which YAML 1.1 reads for ``off``, becomes ``off`` again.

        Raises
        ------
        ValueError
            If it is none of ``known``.
        """
        if value is False and "off" in self.known:
            return "off"
        if isinstance(value, bool) or not isinstance(value, (str, int)) or value not in self.known:
            raise ValueError(f"must be {'one of ' * (len(self.known) > 1)}{', '.join(map(str, self.known))}, not "
                             f"{described(value)}{self.hint and f'; {self.hint}'}")
        return value

    def dump(self, value: Any) -> Any:
        """Convert a value to what a YAML or JSON file holds."""
        return value

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the setting's values."""
        return {"description": self.what, "enum": [*self.known, *([False] if "off" in self.known else [])]}


@dataclass(frozen=True)
class Shares:
    """A setting whose value is a list of up to ``most`` numbers from 0 to 1."""

    what: str
    most: int

    def parse(self, value: Any) -> tuple[float, ...]:
        """Check a list of numbers and return them as floats.

        Raises
        ------
        ValueError
            If they are no numbers from 0 to 1, or too many.
        """
        if not isinstance(value, (list, tuple)) or len(value) > self.most or not all(
                isinstance(number, (int, float)) and not isinstance(number, bool) and 0 <= number <= 1
                for number in value):
            raise ValueError(f"must be a list of up to {self.most} numbers from 0 to 1, not {described(value)}")
        return tuple(map(float, value))

    def dump(self, value: Any) -> Any:
        """Convert a value to what a YAML or JSON file holds."""
        return list(value)

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the setting's values."""
        return {"description": self.what, "type": "array", "maxItems": self.most,
                "items": {"type": "number", "minimum": 0, "maximum": 1}}


@dataclass(frozen=True)
class Fraction:
    """A setting whose value is a number above 0 and below 1."""

    what: str

    def parse(self, value: Any) -> float:
        """Check a value that a file holds and return it as Python has it.

        Raises
        ------
        ValueError
            If it is none that the setting may have; the text says which ones it may.
        """
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < 1:
            raise ValueError(f"must be a number above 0 and below 1, not {described(value)}")
        return float(value)

    def dump(self, value: Any) -> Any:
        """Convert a value to what a YAML or JSON file holds."""
        return value

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the setting's values."""
        return {"description": self.what, "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}


@runtime_checkable
class SettingForm(Protocol):
    """What checks, reads and writes the values of a setting of one type, such as an integer or a choice."""

    def parse(self, value: Any) -> Any:
        """Check a value that a file holds and return it as Python has it (ValueError if it is none)."""
        ...

    def dump(self, value: Any) -> Any:
        """Convert a value to what a YAML or JSON file holds."""
        ...

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the setting's values."""
        ...
