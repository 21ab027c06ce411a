"""Arguments of the library, refused in one line before any work where they mean nothing."""

import math
import operator
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from plinth.errors import UserError, one_line

T = TypeVar("T")


def shown(value: Any) -> str:
    """A value as messages show it, on one line and cut."""
    return one_line(repr(value), 60)


def integer(name: str, value: Any, low: int, high: int) -> int:
    """The value of an argument that is an integer from ``low`` to ``high``.

    Raises
    ------
    UserError
        If it is not.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or not low <= number <= high:
        raise UserError(f"{name} must be an integer from {low} to {high}, not {shown(value)}")
    return number


def real(name: str, value: Any, least: float = -math.inf, most: float = math.inf) -> float:
    """The value of an argument that is a finite number from ``least`` to ``most``.

    Raises
    ------
    UserError
        If it is not.
    """
    try:
        number = math.nan if isinstance(value, (bool, str, bytes)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or not least <= number <= most:
        bounds = "" if least == -math.inf else f" of at least {least:g}" if most == math.inf else (
            f" from {least:g} to {most:g}")
        raise UserError(f"{name} must be a finite number{bounds}, not {shown(value)}")
    return number


def choice(name: str, value: Any, known: Iterable[Any]) -> Any:
    """The value of an argument that is one of several.

    Raises
    ------
    UserError
        If it is none of them; the message lists them.
    """
    known = tuple(known)
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value not in known:
        raise UserError(f"{name} must be one of {', '.join(map(repr, known))}, not {shown(value)}")
    return value


def flag(name: str, value: Any) -> bool:
    """The value of an argument that is true or false.

    Raises
    ------
    UserError
        If it is neither.
    """
    if not isinstance(value, bool):
        raise UserError(f"{name} must be True or False, not {shown(value)}")
    return value


def path(name: str, value: Any) -> Path:
    """The value of an argument that names a file.

    Raises
    ------
    UserError
        If it is no path.
    """
    if not isinstance(value, (str, os.PathLike)) or not isinstance(os.fspath(value), str) or (
            not os.fspath(value) or "\0" in os.fspath(value)):
        raise UserError(f"{name} must be a path, not {shown(value)}")
    return Path(value)


def optional(check: Callable[..., T], name: str, value: Any, *bounds: Any) -> T | None:
    """Check the value of an argument that may also be None, and return what the check makes of it.

    Raises
    ------
    UserError
        As the check.
    """
    return None if value is None else check(name, value, *bounds)
