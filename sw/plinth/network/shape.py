"""Shapes of one sample: maps and features."""

from math import prod


class Shape(tuple[int, ...]):
    """``(channels, height, width)`` or ``(features,)`` of one sample; printed as ``16x8x8``."""

    __slots__ = ()

    @property
    def elements(self) -> int:
        """Product of the sizes."""
        return prod(self)

    @property
    def channels(self) -> int:
        """Channels of a map, or features."""
        return self[0]

    @property
    def positions(self) -> int:
        """Height times width; 1 for features."""
        return prod(self[1:])

    @property
    def flat(self) -> bool:
        """Features, not a map."""
        return len(self) == 1

    def __str__(self) -> str:
        return "x".join(map(str, self))
