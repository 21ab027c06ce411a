"""Cycles of vector programs: load, compute and store (docs/vector.md)."""

from typing import NamedTuple

from plinth.machine.memory import MEMORY_LATENCY, REQUEST_CYCLES, SPAN_CYCLES, row_beats, row_words
from plinth_hw.isa.parameters import DieParameters

#: Cycles of a vector task beside its rows, by which a pool's windows are cut into tasks: about those from a descriptor
#: to the next (65: docs/control.md). A task among others takes no less; ``fetch`` of
#: :data:`~plinth.machine.control.CONTROL` is the same with the way of the longest body.
PROGRAM_CYCLES = 64


class ProgramWork(NamedTuple):
    """Counts of what a vector program does with a region of rows x columns: loads, stores and instructions."""

    #: Full regions loaded and stored, and rows loaded and stored.
    loads: int
    stores: int
    row_loads: int = 0
    row_stores: int = 0
    #: Instructions: element-wise; sums over the rows; reductions along a row; functions of all elements, of a column.
    wise: int = 0
    sums: int = 0
    reductions: int = 0
    functions: int = 0
    column_functions: int = 0
    #: Of the full regions loaded and stored, those whose numbers lie in memory two to a word.
    packed_loads: int = 0
    packed_stores: int = 0

    def packed(self, loads: int, stores: int) -> "ProgramWork":
        """The same work with so many of its regions packed: each is converted by an instruction."""
        return self._replace(wise=self.wise + loads + stores, packed_loads=loads, packed_stores=stores)

    def full(self, plain: float, packed: float) -> tuple[float, float]:
        """What all full regions loaded, and those stored, take together, where one takes ``plain`` as it is, or
        ``packed``."""
        return ((self.loads - self.packed_loads) * plain + self.packed_loads * packed,
                (self.stores - self.packed_stores) * plain + self.packed_stores * packed)


#: Bias and activation of a layer, a sum of what other dies send, and the error behind them with its sums.
FORWARD = ProgramWork(1, 1, row_loads=1, wise=2)
SUM = ProgramWork(4, 1, wise=3)
BACKWARD = ProgramWork(2, 1, row_loads=1, row_stores=1, wise=1, sums=1)


def full_words(parameters: DieParameters, work: ProgramWork, rows: int, columns: int) -> tuple[float, float]:
    """Words of the beats that a vector program reads and writes of its full regions."""
    return work.full(rows * row_words(parameters, columns), rows * row_words(parameters, -(-columns // 2)))


def vector_formula(parameters: DieParameters, work: ProgramWork, rows: int, columns: int
                   ) -> tuple[float, float, float]:
    """Cycles in which a vector program over rows x columns elements loads, computes and stores; one after the other
    they are the time of the program alone.

    A beat takes a cycle; of numbers that are packed two to a word two, but one where the row begins in its upper half.
    """
    beat = parameters.beat_words
    across = -(-columns // beat)
    groups = min(across * rows, -(-rows // beat) * columns)
    row, (beats, upper) = row_beats(beat, columns)[0], row_beats(beat, -(-columns // 2))
    packed = 2 * beats - upper
    load, _ = work.full(rows * max(row, SPAN_CYCLES), rows * max(packed, SPAN_CYCLES))
    _, store = work.full(rows * row, rows * packed)
    load, store = load + work.row_loads * row, store + work.row_stores * row
    compute = (work.wise * (2 * groups + 17) + work.sums * (8 * -(-across // 4) * rows + 17)
               + work.reductions * (8 * -(-rows // (4 * beat)) * columns + 17)
               + work.functions * (rows * columns + 22) + work.column_functions * (rows + 22))
    return MEMORY_LATENCY + REQUEST_CYCLES + load, compute + 14, MEMORY_LATENCY + store


def latencies(load: float, store: float, read_beats: float, written_beats: float) -> tuple[float, float]:
    """Cycles of a program's loads before the first beat has come, and of its stores after the last one has left, of so
    many beats: memory serves others meanwhile."""
    return (MEMORY_LATENCY * load / (MEMORY_LATENCY + REQUEST_CYCLES - 1 + read_beats),
            MEMORY_LATENCY * store / (MEMORY_LATENCY + written_beats))
