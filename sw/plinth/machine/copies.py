"""Cycles of copies of tiles: the transfer engine, links and memory (docs/memory.md, docs/network.md).

``tests/support/counted.py`` counts copies within a die and to others; ``tests/sw/machine/test_copies.py`` has cycles of
rows as they were counted.
"""

from functools import lru_cache
from typing import NamedTuple

from plinth.machine.links import buffered, waiting
from plinth.machine.memory import MEMORY_LATENCY, row_words
from plinth_hw.isa.parameters import DieParameters

#: Beats that a transfer engine has under way, and cycles beside memory's latency until the place of one is free again.
BEATS, BEAT_CYCLES = 61, 16
#: Cycles from a copy's start to its first flit.
FIRST_FLIT = MEMORY_LATENCY + 11
#: Of rows by their numbers (docs/memory.md): cycles of a row at least; cycles from an add's read until what it wrote
#: may be read again, but for its flits, as counted; longest packets whose places in memory are told apart.
INDEXED_CYCLES, ADD_CYCLES, ADD_PACKETS = 4.0, 125.0, 32
#: Of copies within a die with a row index list, as counted: cycles beside memory's latency until the first number is
#: there, and, of those that add, until the first row is that they are added to; numbers that are read together, and
#: cycles until the next ones are.
NUMBER_CYCLES, NUMBERS, NEXT_NUMBERS_CYCLES = 10, 32, 16


@lru_cache(maxsize=1 << 12)
def _units(unit: int, columns: int, stride: int, at: int) -> float:
    """Units of so many words that a row lies in, on the average; those of rows that follow each other are shared."""
    if stride == columns:
        return columns / unit
    return sum(-(-((at + row * stride) % unit + columns) // unit) for row in range(unit)) / unit


@lru_cache(maxsize=1 << 12)
def _steps(unit: int, columns: int, source: tuple[int, int], target: tuple[int, int]) -> float:
    """Cycles in which a row is turned from its places of flits in the source to those in the target, by stride and
    first word of both: a flit a cycle, and a slot before it where the source lies higher."""
    cycles = 0
    for row in range(unit):
        begin, end = ((at + row * stride) % unit for stride, at in (source, target))
        slots, flits = -(-(begin + columns) // unit), -(-(end + columns) // unit)
        cycles += flits + (begin > end and slots > 1)
    return cycles / unit


class Copy(NamedTuple):
    """A tile: ``rows`` of ``columns`` words; ``source`` and ``target`` words from one row to the next, and the places
    in beats where the first begins. Rows that follow each other share flits and beats."""

    rows: int
    columns: int
    source: int
    target: int
    source_at: int = 0
    target_at: int = 0

    @classmethod
    def part(cls, rows: int, columns: int) -> "Copy":
        """A tile that lands as a part of wider rows: what tables hold."""
        return cls(rows, columns, columns, 4 * columns)

    def flits(self, parameters: DieParameters) -> float:
        """Flits that it becomes, each of which takes a cycle where it lands."""
        return self.rows * _units(parameters.flit_words, self.columns, self.target, self.target_at)

    def packets(self, parameters: DieParameters) -> float:
        """Packets that it becomes."""
        if self.target == self.columns:
            return max(1.0, self.rows * self.columns / parameters.chunk_words)
        return float(self.rows * -(-self.columns // parameters.chunk_words))

    def held(self, parameters: DieParameters) -> float:
        """Share of its flits that its die can hold when the copy ends."""
        return min(1.0, (waiting(parameters) + buffered(parameters)) / self.flits(parameters))

    def read(self, parameters: DieParameters) -> float:
        """Words of the beats read."""
        beat = parameters.beat_words
        return beat * self.rows * _units(beat, self.columns, self.source, self.source_at)

    def written(self, parameters: DieParameters) -> float:
        """Words of the beats written."""
        beat = parameters.beat_words
        return beat * self.rows * _units(beat, self.columns, self.target, self.target_at)

    def turn(self, parameters: DieParameters) -> float:
        """Words that it reads when its turn at memory comes: of a row, or of a packet's part of it."""
        return row_words(parameters, min(self.columns, parameters.chunk_words))

    def cycles(self, parameters: DieParameters) -> float:
        """Cycles in which the engine makes its flits: as it turns them, or as memory gives beats of them."""
        source, target = (self.source, self.source_at), (self.target, self.target_at)
        steps = _steps(parameters.within.flit_words, self.columns, source, target)
        beats = self.read(parameters) / parameters.beat_words
        return max(self.rows * steps, beats * (MEMORY_LATENCY + BEAT_CYCLES) / BEATS)


def copy_formula(parameters: DieParameters, copy: Copy, link: float | None = None) -> tuple[float, float]:
    """Cycles of a copy alone, and of a further one in a row.

    Parameters
    ----------
    link : float, optional
        Cycles that its flits take on the fullest link on their way. The copy ends when the last has left for the
        router, where some then still wait. Default: it is one within the die, which ends when all is in memory.
    """
    cycles = copy.cycles(parameters)
    if link is None:
        return MEMORY_LATENCY + 40 + cycles, MEMORY_LATENCY + 52 + cycles
    alone = FIRST_FLIT + max(cycles, link * (1 - copy.held(parameters)))
    return alone, max(MEMORY_LATENCY + 23 + cycles, link)


def indexed_cycles(parameters: DieParameters, copy: Copy, *, added: bool, remote: bool) -> float:
    """Cycles that a row index list adds to a copy: four a row at least, and within the die the first numbers, the first
    row, of which all is read before it goes on, and the reading of further numbers; rows that are added to are read
    first. Of copies to other dies, where links decide, the numbers' latency alone."""
    more = max(0.0, INDEXED_CYCLES * copy.rows - copy.cycles(parameters)) + MEMORY_LATENCY
    if remote:
        return more
    more += NUMBER_CYCLES + (copy.flits(parameters) + copy.read(parameters) / parameters.beat_words) / copy.rows
    more += NEXT_NUMBERS_CYCLES * (-(-copy.rows // NUMBERS) - 1)
    return more + added * (MEMORY_LATENCY + NUMBER_CYCLES)


def rows_formula(parameters: DieParameters, rows: int, columns: int, unlike: float = 0.0) -> tuple[float, float]:
    """Cycles of rows of an embedding, alone and behind others, that are copied to those of its output, or added to
    those of its gradient.

    Parameters
    ----------
    unlike : float
        0: they are copied. Else one in so many pairs of them is added to the same row. The second of a pair waits
        until the first is in memory: if that is under way, half of an add's l cycles on the average. Adds that take
        t cycles each have l / t of them under way, so ``t = p + l**2 / (2 t unlike)``, p the cycles of a copied
        row. Rows of equal places in blocks that the die does not tell apart wait as equal ones do.
    """
    alone, row = copy_formula(parameters, Copy.part(rows, columns))
    period = max(row / rows, INDEXED_CYCLES)
    more = MEMORY_LATENCY + rows * period - row
    if unlike:
        flits = -(-columns // parameters.flit_words)
        latency, apart = ADD_CYCLES + 2 * flits, ADD_PACKETS * parameters.chunk_words / columns
        added = (period + (period ** 2 + 2 * latency ** 2 / max(1.0, min(unlike, apart))) ** 0.5) / 2
        more += MEMORY_LATENCY + rows * max(0.0, min(added, latency) - period)
    return alone + more, row + more


def unlike(table: int, own: int) -> float:
    """One in so many pairs of row numbers is of one of a die's ``own`` rows, and the same, if all rows of the table are
    as likely."""
    return table ** 2 / max(1, own)
