"""Just enough of a VCD to see what it covers."""

import re
from pathlib import Path

#: Time units of a cycle in the compiled co-simulation's waves: one a clock edge.
UNITS_PER_CYCLE = 2


def signals(path: Path) -> set[str]:
    """Names of the signals that a VCD declares."""
    head = path.read_text().split("$enddefinitions", 1)[0]
    return set(re.findall(r"\$var \w+\s+\d+ \S+ (\S+)", head))


def cycles(path: Path) -> tuple[int, int]:
    """First and last cycle for which the compiled co-simulation wrote something."""
    times = [int(time) for time in re.findall(r"^#(\d+)$", path.read_text(), re.MULTILINE)]
    return times[0] // UNITS_PER_CYCLE, times[-1] // UNITS_PER_CYCLE
