"""What updates of weights take: messages of rings (docs/collective.md), which do plain gradient descent on their way,
and tasks of the optimiser engine (docs/optimiser.md); those of the vector engine cost what its programs do."""

from plinth.buffers import Buffer
from plinth.predict.copies import MEMORY_LATENCY
from plinth.predict.machine import Machine
from plinth.predict.record import WorkCost
from plinth.predict.tasks import vector_cost
from plinth.step.tasks import Optimisation, Phase, Reduction, Vector
from plinth.step.updates import update_program, update_rows
from plinth.update.rule import UpdateRule
from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters

#: Of the optimiser engine: beats of a vector in a block, at most; cycles of a beat, at least.
BLOCK_BEATS, PERIOD = 16, 8
#: Cycles of a task beside memory's latency and what its first and last block take, as counted; of one that reads and
#: writes its generator's state; of a block's write beside its beats.
TASK_CYCLES, GENERATOR_CYCLES, WRITE_CYCLES = 51, 2, 2


def message_words(phase: Phase, words: float, members: int) -> tuple[float, float]:
    """Words that a member of a ring reads and writes of a message: it reads its own of each chunk that it sends on or
    adds, and the weights of the chunks that it owns where they are updated; it writes what is whole."""
    own = words / members
    return {Phase.UPDATE: (words + own, words), Phase.SUM: (words, own), Phase.GATHER: (own, words - own)}[phase]


def message_cost(machine: Machine, work: Reduction) -> WorkCost:
    """What a ring's message takes on a member beside the links' time: words of its own memory, and the sums of all
    members together. A die that is alone updates a flit a cycle."""
    words, size = float(work.target.columns), len(work.ring)
    reads, writes = message_words(work.phase, words, size)
    if size == 1:
        cycles = words / machine.parameters.flit_words
        return WorkCost(cycles + machine.control["reduce"], cycles, reads, writes, adds=words)
    return WorkCost(0.0, 0.0, reads, writes, adds=0.0 if work.phase is Phase.GATHER else words * (size - 1))


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


def optimiser_cost(parameters: DieParameters, work: Optimisation) -> WorkCost:
    """What a task of the optimiser engine takes if nothing else uses the memory."""
    weights = work.weights
    return optimiser_formula(parameters, weights.rows, weights.columns, len(work.kept),
                             stochastic=work.generator is not None)


def update_cycles(machine: Machine, rule: UpdateRule, words: int) -> float:
    """Cycles of the tasks that update so many weights of a die's own, in chunks; 0 where messages do it."""
    parameters = machine.parameters
    if not words or (rule.plain and Engine.COLLECTIVE in parameters.engines):
        return 0.0
    columns = min(words, parameters.chunk_words)
    rows = -(-words // columns)
    if isinstance(parameters.memory_format, Fixed):
        return optimiser_formula(parameters, rows, columns, len(rule.vectors), stochastic=rule.stochastic).latency
    step = min(rows, update_rows(parameters, rows, columns))
    part = Buffer("", 0, step, columns, columns)
    found = vector_cost(machine, Vector(update_program(parameters, rule, step, part, part, part), step, columns))
    assert found.stages is not None
    whole = sum(found.stages)
    return whole + (-(-rows // step) - 1) * max(*found.stages, whole / 2)
