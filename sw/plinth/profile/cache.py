"""The cache of the host, as measured: how large a working set is until its bandwidth falls.

Arrays of growing sizes are gone over in place again and again. Where the logarithm of the rate falls to a lower level,
the two levels that explain it best part the sizes: the knee is the largest size of the upper one. What the system says
of its caches is told beside it; it has no part in it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from plinth.profile.timing import shortest

#: Bytes of working sets, steps of half an octave: from beyond what a call costs to beyond any cache.
LEAST_BYTES, MOST_BYTES = 1 << 15, 1 << 28
#: By how much the upper level is faster than the lower one, at least, where there is a cache.
LEAST_DROP = 1.3
#: Where Linux tells of its caches.
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20}


@dataclass(frozen=True)
class CacheSweep:
    """Rates of working sets.

    Attributes
    ----------
    sizes : tuple of int
        Bytes, ascending.
    rates : tuple of float
        Bytes a second that are read and written.
    """

    sizes: tuple[int, ...]
    rates: tuple[float, ...]

    @property
    def knee_bytes(self) -> int | None:
        """The largest working set of the upper of two levels; None: there is no lower one."""
        logs, best = np.log(self.rates), (np.inf, 0)
        for split in range(1, len(logs)):
            upper, lower = logs[:split], logs[split:]
            spread = float(((upper - upper.mean()) ** 2).sum() + ((lower - lower.mean()) ** 2).sum())
            best = min(best, (spread, split))
        split = best[1]
        if not split or logs[:split].mean() - logs[split:].mean() < np.log(LEAST_DROP):
            return None
        return self.sizes[split - 1]


def working_sets(least: int | None = None, most: int | None = None) -> list[int]:
    """Bytes of working sets: powers of two and those half an octave above, by default from :data:`LEAST_BYTES` to
    :data:`MOST_BYTES`."""
    least, most = LEAST_BYTES if least is None else least, MOST_BYTES if most is None else most
    sizes = []
    while least <= most:
        sizes += [least, least * 3 // 2]
        least *= 2
    return sizes[:-1]


def cache_sweep(sizes: Sequence[int] | None = None, progress: Callable[[int, int], object] = lambda done, total: None
                ) -> CacheSweep:
    """Time working sets of this process; ``progress`` is called with how many are done, and of how many."""
    sizes = working_sets() if sizes is None else sizes
    rates = []
    for number, size in enumerate(sizes):
        progress(number, len(sizes))
        array = np.zeros(size // 4, np.float32)
        nanoseconds = shortest([partial(np.negative, array, out=array)])
        rates.append(2 * array.nbytes / (nanoseconds / 1e9))
    return CacheSweep(tuple(sizes), tuple(rates))


def stated_caches(folder: Path = _CACHES) -> dict[str, int]:
    """Bytes of data caches by level, ``L1`` and so on, as Linux says; none, if it says nothing."""
    caches: dict[str, int] = {}
    for path in sorted(folder.glob("index*")):
        try:
            kind, level, text = ((path / name).read_text(encoding="ascii").strip()
                                 for name in ("type", "level", "size"))
        except (OSError, ValueError):
            continue
        match = re.fullmatch(r"([0-9]{1,9})([KM]?)", text)
        if match and kind in ("Data", "Unified"):
            caches[f"L{level[:2]}"] = int(match[1]) * _UNITS[match[2]]
    return caches
