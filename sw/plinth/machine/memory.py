"""Latencies of a die's memory, and the beats in which rows lie there (docs/memory.md)."""

from functools import lru_cache
from math import gcd

from plinth_hw.isa.parameters import DieParameters

#: Cycles of a read's latency, and of a write's response: what the co-simulation's memory is set to.
MEMORY_LATENCY = 50
#: Cycles beside that latency from a load's request to its last beat: fitted to vector programs that were counted on the
#: demo dies (a row takes 1.75 cycles at least: docs/calibration.md).
REQUEST_CYCLES = 6
#: Cycles from a read request of the systolic engine to its first beat, crossbar included: counted on `ndp-demo`. It is
#: the latency of the two above together, measured once more, on another engine.
READ_LATENCY = 60
#: Rows, or spans of neighbouring words, that a load of the matrix or vector engine has under way, at most: the depth of
#: its queue in the hardware.
ROWS_UNDER_WAY = 32
#: Cycles of each row or span that the vector engine or the row-stationary one loads, at least.
SPAN_CYCLES = (MEMORY_LATENCY + REQUEST_CYCLES) / ROWS_UNDER_WAY


@lru_cache(maxsize=1 << 16)
def row_beats_from(at: int, columns: int, beat: int, step: int) -> float:
    """Beats of neighbouring words from the ``at``-th of a row on, in the mean over the places in a beat where rows
    begin: all multiples of ``step``."""
    places = range(at % beat, at % beat + beat, step)
    return sum(-(-(place % beat + columns) // beat) for place in places) / len(places)


@lru_cache(maxsize=1 << 12)
def row_beats(beat: int, words: int) -> tuple[float, float]:
    """Beats, of ``beat`` words, of a row of so many, of rows one behind the other on the average; and the share of rows
    that begin in the upper half of a beat."""
    step = gcd(words, beat)
    places = range(0, beat, step)
    return row_beats_from(0, words, beat, step), sum(2 * place >= beat for place in places) / len(places)


def row_words(parameters: DieParameters, columns: int) -> float:
    """Words of the beats in which a row lies, of rows one behind the other on the average."""
    return parameters.beat_words * row_beats(parameters.beat_words, columns)[0]
