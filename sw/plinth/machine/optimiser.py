"""Cycles of the optimiser engine's tasks (docs/optimiser.md)."""

from plinth.machine.memory import MEMORY_LATENCY
from plinth.machine.record import WorkCost
from plinth_hw.isa.parameters import DieParameters

#: Of the optimiser engine: beats of a vector in a block, at most; cycles of a beat, at least.
BLOCK_BEATS, PERIOD = 16, 8
#: Cycles of a task beside memory's latency and what its first and last block take, as counted; of one that reads and
#: writes its generator's state; of a block's write beside its beats.
TASK_CYCLES, GENERATOR_CYCLES, WRITE_CYCLES = 51, 2, 2


def optimiser_formula(parameters: DieParameters, rows: int, columns: int, kept: int, *, stochastic: bool = False
                      ) -> WorkCost:
    """A task that updates rows x columns weights with so many vectors beside them.

    A block of a row waits until all its vectors are there, and the last one until all are written; a row takes no less
    than its writes. The next task begins when all is written.
    """
    beats = -(-columns // parameters.beat_words)
    reads, writes = 2 + kept, 1 + kept
    block, blocks = min(beats, BLOCK_BEATS), -(-beats // BLOCK_BEATS)
    row = max(beats * max(parameters.beat_words, PERIOD), writes * (beats + blocks * WRITE_CYCLES))
    cycles = rows * row + (reads + writes) * block + 2 * MEMORY_LATENCY + TASK_CYCLES
    cycles += stochastic * GENERATOR_CYCLES
    words = parameters.beat_words * (rows * beats)
    more = stochastic * parameters.beat_words
    # A product and a sum for each number that is made: weights, and what is kept beside them.
    numbers = float(rows * columns * (1 + bool(kept)))
    return WorkCost(cycles, cycles, reads * words + more, writes * words + more, adds=numbers, multiplies=numbers)
