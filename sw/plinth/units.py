"""Numbers with units, for people."""


def size(count: float) -> str:
    """Bytes for people, in powers of 1,000."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB" if count < 999.5 else f"{count:,.0f} TB"


def duration(seconds: float) -> str:
    """Seconds for people."""
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return f"{seconds * factor:,.3g} {unit}" if seconds * factor < 999.5 else f"{seconds * factor:,.0f} {unit}"
    return f"{seconds * 1e9:.3g} ns"
