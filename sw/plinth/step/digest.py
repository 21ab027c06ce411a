"""Digests of plain data: equal ones of data of the same types, values and order, in every process and run.

Data is numbers, strings, enumerations, sequences, mappings in their order, sets, and dataclasses of those, by the
fields that are compared. Whatever else there is, such as a function, has no digest.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np


class _Digests:
    """Digests of objects of which parts are shared: each is looked at once."""

    def __init__(self) -> None:
        self._known: dict[int, bytes] = {}
        #: So that no other object gets the identity of one that was looked at.
        self._kept: list[object] = []

    def of(self, what: Any) -> bytes:
        """Of an object."""
        if what is None or isinstance(what, (bool, int, str, float, Fraction, Enum, np.integer, np.floating)):
            return _scalar(what)
        digested = self._known.get(id(what))
        if digested is None:
            digested = self._known[id(what)] = _joined(type(what), [self.of(part) for part in _parts(what)], what)
            self._kept.append(what)
        return digested


def _scalar(what: Any) -> bytes:
    if isinstance(what, Enum):
        return f"{type(what).__qualname__}.{what.name}".encode()
    if isinstance(what, (float, np.floating)):
        return f"float {float(what).hex()}".encode()
    if isinstance(what, np.integer):
        return f"int {int(what)}".encode()
    return f"{type(what).__name__} {what}".encode(errors="surrogatepass")


def _parts(what: Any) -> list[Any]:
    """Parts of an object, in an order that its equal ones have."""
    if is_dataclass(what):
        return [getattr(what, field.name) for field in fields(what) if field.compare]
    if isinstance(what, Mapping):
        return [part for pair in what.items() for part in pair]
    if isinstance(what, (tuple, list, set, frozenset)):
        return list(what)
    raise TypeError(f"{type(what).__qualname__} is no plain data: {str(what)[:80]}")


def _joined(kind: type, parts: list[bytes], what: Any) -> bytes:
    if isinstance(what, (set, frozenset)):
        parts = sorted(parts)
    hasher = hashlib.sha256(f"{kind.__qualname__} {len(parts)}".encode())
    for part in parts:
        hasher.update(f" {len(part)}:".encode())
        hasher.update(part)
    return hasher.digest()


def digest(*parts: object) -> str:
    """Hash data to 64 hexadecimal digits, equal in every process.

    Raises
    ------
    TypeError
        If any of it is no plain data.
    """
    return hashlib.sha256(_Digests().of(parts)).hexdigest()
