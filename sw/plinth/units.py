"""Numbers with units, for people."""

from collections.abc import Mapping

#: Places that a message names, the largest ones.
NAMED_PLACES = 4


def size(count: float) -> str:
    """Bytes for people, in powers of 1,000."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB" if count < 999.5 else f"{count:,.0f} TB"


def duration(seconds: float) -> str:
    """Format seconds for people."""
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return f"{seconds * factor:,.3g} {unit}" if seconds * factor < 999.5 else f"{seconds * factor:,.0f} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def largest(places: Mapping[str, float]) -> str:
    """The largest places by name, with their bytes, and how many others there are."""
    names = sorted(places, key=lambda name: -places[name])
    named = ", ".join(f"{name} {size(places[name])}" for name in names[:NAMED_PLACES])
    others = len(names) - NAMED_PLACES
    return named + (f", {others} other{'s' * (others != 1)}" if others > 0 else "")
