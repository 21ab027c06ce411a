"""What updates of weights take: messages of rings (docs/collective.md), which do plain gradient descent on their way,
and tasks of the optimiser engine (docs/optimiser.md); those of the vector engine cost what its programs do."""

from plinth.buffers import Buffer
from plinth.machine.die import DieCycles
from plinth.machine.optimiser import optimiser_formula
from plinth.machine.record import WorkCost
from plinth.predict.tasks import vector_cost
from plinth.step.tasks import Optimisation, Phase, Reduction, Vector
from plinth.step.updates import update_program, update_rows
from plinth.update.rule import UpdateRule
from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters


def message_words(phase: Phase, words: float, members: int) -> tuple[float, float]:
    """Words that a member of a ring reads and writes of a message: it reads its own of each chunk that it sends on or
    adds, and the weights of the chunks that it owns where they are updated; it writes what is whole."""
    own = words / members
    return {Phase.UPDATE: (words + own, words), Phase.SUM: (words, own), Phase.GATHER: (own, words - own)}[phase]


def message_cost(machine: DieCycles, work: Reduction) -> WorkCost:
    """The cost of a ring's message on a member beside the links' time: words of its own memory, and the sums of all
    members. A die that is alone updates a flit a cycle."""
    words, size = float(work.target.columns), len(work.ring)
    reads, writes = message_words(work.phase, words, size)
    if size == 1:
        cycles = words / machine.parameters.flit_words
        return WorkCost(cycles + machine.control["reduce"], cycles, reads, writes, adds=words)
    return WorkCost(0.0, 0.0, reads, writes, adds=0.0 if work.phase is Phase.GATHER else words * (size - 1))


def optimiser_cost(parameters: DieParameters, work: Optimisation) -> WorkCost:
    """The cost of a task of the optimiser engine if nothing else uses the memory."""
    weights = work.weights
    return optimiser_formula(parameters, weights.rows, weights.columns, len(work.kept),
                             stochastic=work.generator is not None)


def update_cycles(machine: DieCycles, rule: UpdateRule, words: int) -> float:
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
    cost = vector_cost(machine, Vector(update_program(parameters, rule, step, part, part, part), step, columns))
    assert cost.stages is not None
    whole = sum(cost.stages)
    return whole + (-(-rows // step) - 1) * max(*cost.stages, whole / 2)
