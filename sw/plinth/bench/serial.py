"""The row about the serial line: what of its rate transfers of memory use."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from plinth.bench.row import BenchRow, random_words
from plinth.driver.line import BAUD
from plinth.runtime.arrays import simulated_serial_array
from plinth_hw.isa.frames import BYTE_BITS
from plinth_hw.isa.parameters import preset

#: Clock of the die, in Hz: that of a board, at which a bit is no whole number of cycles.
CLOCK = 80_000_000
WORDS = 4096


def serial_efficiency() -> list[BenchRow]:
    """A write and a read of 16 KiB of a die's memory over a serial line; the lesser share of the line's rate."""
    array, simulation = simulated_serial_array(preset("ndp-tiny"), WORDS, Fraction(CLOCK, BAUD), CLOCK)
    (die,) = array.dies
    words = random_words(WORDS, 1)
    marks = [simulation.cycle]
    die.write_memory(0, words)
    marks.append(simulation.cycle)
    read_back = die.read_memory(0, WORDS)
    marks.append(simulation.cycle)
    if not np.array_equal(read_back, words):
        raise AssertionError("what was read differs from what was written")
    line = words.nbytes * BYTE_BITS * CLOCK / BAUD
    shares = {"write": line / (marks[1] - marks[0]), "read": line / (marks[2] - marks[1])}
    return [BenchRow("serial_efficiency", min(shares.values()), "payload / line rate",
                     "headers, checks and code bytes of frames; the first frame's way there and the last one's back",
                     {"bytes": words.nbytes, "baud": BAUD, "clock_hz": CLOCK, "words_per_second":
                      min(shares.values()) * BAUD / BYTE_BITS / words.itemsize, **shares})]


#: Names and functions of these rows.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {"serial_efficiency": serial_efficiency}
