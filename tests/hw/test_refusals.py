"""Constructors refuse what they cannot build, in a line that says what is wanted."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.refusal import refused

from plinth_hw.comm.link import LinkLayer
from plinth_hw.control.counters import PerformanceCounters
from plinth_hw.emit import Emission
from plinth_hw.isa.parameters import preset
from plinth_hw.lib.arbiter import RoundRobin
from plinth_hw.lib.fifo import FIFO, SECTION, Storage
from plinth_hw.memory.channel import MAX_BEATS, RowLoad
from plinth_hw.memory.crossbar import MemoryCrossbar
from plinth_hw.memory.scratchpad import check_sizes

TINY = preset("ndp-tiny")
ROWS: Any = "rows"


@pytest.mark.parametrize(("make", "message"), [
    (lambda: LinkLayer(TINY, 0), "A frame has a phit at least, not 0"),
    (lambda: PerformanceCounters([]), "Increments need widths of at least 0, not []"),
    (lambda: PerformanceCounters([3, -1]), "Increments need widths of at least 0, not [3, -1]"),
    (lambda: PerformanceCounters([40]), "Increments of 1 counters may have at most "),
    (lambda: PerformanceCounters([1, 2, 1], [range(2)]), "Exclusive counters are of one bit, not [1, 2]"),
    (lambda: Emission(ROWS), "Array form must be one of cells, "),
    (lambda: [emission.register("arbiter", RoundRobin(count), str) for emission in [Emission()] for count in (2, 3)],
     "Module 'arbiter' was already placed with other ports"),
    (lambda: RoundRobin(0), "An arbiter needs requests, not 0"),
    (lambda: FIFO(8, 0), "FIFO depth must be at least 1, not 0"),
    (lambda: FIFO(8, 1, Storage.HEAD), "FIFO depth must be at least 2, not 1"),
    (lambda: FIFO(8, SECTION + 1, Storage.SECTIONS), f"must be a multiple of {SECTION}, not {SECTION + 1}"),
    (lambda: RowLoad(TINY, 4, 4, max_beats=0), f"Longest request must be a power of two in 1 .. {MAX_BEATS}, not 0"),
    (lambda: RowLoad(TINY, 4, 4, max_beats=3), f"Longest request must be a power of two in 1 .. {MAX_BEATS}, not 3"),
    (lambda: RowLoad(TINY, 4, 4, max_beats=2 * MAX_BEATS), f"in 1 .. {MAX_BEATS}, not {2 * MAX_BEATS}"),
    (lambda: RowLoad(TINY, 4, 4, packing=3), "A word must have 1, 2 or 4 elements, not 3"),
    (lambda: MemoryCrossbar(TINY, [], ["a"]), "A crossbar needs readers and writers, not [] and ['a']"),
    (lambda: MemoryCrossbar(TINY, ["a"], []), "A crossbar needs readers and writers, not ['a'] and []"),
    (lambda: MemoryCrossbar(TINY, ["a"], ["a"]), "Names of clients must differ, not ['a', 'a']"),
    (lambda: MemoryCrossbar(TINY, ["a"], ["b"], 0), "Outstanding requests must be positive, not 0"),
    (lambda: check_sizes(1, 8, 32), "Banks must be a power of two and at least 2, not 1"),
    (lambda: check_sizes(6, 8, 32), "Banks must be a power of two and at least 2, not 6"),
    (lambda: check_sizes(4, 2, 32), "Lines must be at least banks = 4, not 2"),
])
def test_what_cannot_be_built(make: Callable[[], Any], message: str) -> None:
    with refused(ValueError, re.escape(message)):
        make()
