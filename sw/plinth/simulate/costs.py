"""What work costs on a die: as the planners' formulas have it, or as HyPar's paper does; or on a host.

A task of n equal ones in a row takes n times its period, which holds its engine, and the latency that it adds alone.
The paper's accelerator (HyPar, section 6.1) has 168 PEs at 250 MHz, each with a multiply-add a cycle, 84.0 GOPS, and a
memory of 320 GB/s; nothing but products and words takes time there.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from plinth.array.array import Array
from plinth.buffers import Buffer
from plinth.machine.copies import Copy, copy_formula
from plinth.machine.host import HostCycles, machine_of, moved
from plinth.machine.links import LINK_LATENCY
from plinth.machine.record import WorkCost
from plinth.predict.codes import codes_source
from plinth.predict.host import host_task_cost, update_work
from plinth.predict.updates import message_words
from plinth.predict.work import work_cost
from plinth.step.tasks import BlockShare, Multiplication, Phase, RowsByNumber, Task, Vector, Work
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters
from plinth_sim.array.energy import Energy

#: HyPar, section 6.1: processing engines, their clock, and the memory's words of four bytes a second.
PAPER_PES, PAPER_HERTZ, PAPER_WORDS = 12 * 14, 250e6, 320e9 / 4
#: Vaults of a memory cube (HMC specification 2.1).
VAULTS = 32


class PaperCost(NamedTuple):
    """The cost of work on one engine, as the simulator takes it: times, memory traffic and operations."""

    #: For which it holds the engine, and from then until its results are there.
    seconds: float = 0.0
    latency: float = 0.0
    #: Words that it moves in memory.
    words: float = 0.0
    adds: float = 0.0
    multiplies: float = 0.0
    sram_words: float = 0.0

    def __bool__(self) -> bool:
        return self.seconds > 0 or self.words > 0


class Costs(Protocol):
    """The interface of costs: what a workload needs to know of a die."""

    #: The die that the step is made for.
    parameters: DieParameters
    #: Where the figures come from, for people.
    source: str
    #: Words that the memory moves a second, reads and writes together.
    memory: float
    #: From one task's end to the start of one that waits for it on the die.
    issue: float
    #: Words that memory moves for each word of a transfer that is added at its receiver, beside those of the vector
    #: work that does it.
    added: float
    #: Groups into which the pieces of an operation go at most; None: as many as there is room for.
    most: int | None
    #: What operations and words cost in energy.
    energy: Energy

    def engine(self, engine: Engine) -> str:
        """The name of the engine that does what a step gives to one."""
        ...

    def task(self, task: Task) -> PaperCost:
        """A product, vector work, an update, or rows of an embedding: of all tasks that it stands for."""
        ...

    def copies(self, rows: int, width: int, words: float, peers: int) -> tuple[float, float]:
        """Seconds that a die takes to send ``words`` in tiles of rows x width to at most ``peers`` others, and words on
        a link over those sent."""
        ...

    def arrival(self, latency: float) -> float:
        """Seconds from a transfer's end to the start of what waits for it on another die, over links of so many cycles'
        latency."""
        ...

    def ring(self, phase: Phase, members: int, links: float) -> float:
        """Seconds of a ring's message beside its words; ``links`` are the cycles of the links' latencies once around
        it."""
        ...

    def reduced(self, phase: Phase, words: int, members: int) -> float:
        """Words that a member of a ring moves in memory for a message."""
        ...

    def ring_work(self, phase: Phase, words: int, members: int) -> PaperCost:
        """The cost of what a member of a ring does itself of a message, before its words are on the links."""
        ...

    def update(self, words: int) -> PaperCost:
        """Update of weights whose gradient lies on one die."""
        ...


def multiply_adds(task: Task) -> float:
    """Multiply-adds of a product, padding and all, as energy counts them."""
    assert task.node is not None and task.share is not None
    # Of a Winograd layer samples are tiles.
    positions = 1 if task.node.tiling else task.node.output_positions
    return float(task.share.samples * positions * task.share.rows * task.share.outputs)


def useful_multiply_adds(task: Task) -> float:
    """The same without those of zeros that fill blocks of sparse layers up."""
    return float(task.share.useful) if isinstance(task.share, BlockShare) else multiply_adds(task)


def _pieces(task: Task, samples: float) -> float:
    """How many equal products a task stands for, each of so many samples: the last one may have fewer. Blocks of a
    sparse layer are as many as there are, whatever they have."""
    if task.share is None or isinstance(task.share, BlockShare):
        return task.count
    return task.share.samples / max(1, samples)


class DieCosts:
    """Costs of the die of an array's preset."""

    added = 0.0
    most: int | None = None
    energy = Energy()

    def __init__(self, array: Array) -> None:
        self.parameters = array.die_parameters()
        self.machine = machine_of(array)
        self.second = 1 / float(array.clock_mhz * 1_000_000)
        self.source = self.machine.source + codes_source(array)
        self.codes = array.codes
        self.memory = float(self.parameters.memory_words_per_cycle) / self.second
        self.issue = self.machine.control["issue"] * self.second

    def engine(self, engine: Engine) -> str:
        """The name of the engine that does what a step gives to one."""
        return self.machine.engine(engine)

    def work(self, work: Work, flit_cycles: float | None = None) -> WorkCost:
        """The cost of a piece of work if nothing else uses the memory.

        Parameters
        ----------
        flit_cycles : float or None
            Cycles of a flit on the slowest link that it leaves the die by; None: it stays there.
        """
        return work_cost(self.machine, work, self.codes, flit_cycles)

    def task(self, task: Task) -> PaperCost:
        """A product, vector work, an update, or rows of an embedding: of all tasks that it stands for."""
        cost, share = self.work(task.work), task.share
        count = _pieces(task, cost.samples)
        macs = 0.0 if share is None else multiply_adds(task)
        words, passes = count * cost.passes * cost.words, count * cost.passes
        return PaperCost(count * max(cost.passes * cost.interval, cost.fetch) * self.second,
                         max(0.0, cost.latency - cost.interval) * self.second, words, macs + passes * cost.adds,
                         macs + passes * cost.multiplies, cost.sram * words + self.scratchpad(macs))

    def scratchpad(self, macs: float) -> float:
        """Words that the buffers give the array for so many multiply-adds: each goes to a row or a column of PEs."""
        return macs / self.parameters.rows + macs / self.parameters.columns

    def copies(self, rows: int, width: int, words: float, peers: int) -> tuple[float, float]:
        """Seconds that a die takes to send some words in tiles, and words on a link over those sent; packets have a
        flit of their own."""
        parameters, copy = self.parameters, Copy.part(max(1, rows), max(1, width))
        _, row = self.machine.copy(copy, copy.flits(parameters) / float(parameters.link_rate))
        of = copy.rows * copy.columns
        share = words / of * copy.cycles(parameters) * row / copy_formula(parameters, copy, 0.0)[1]
        return share * self.second, copy.flits(parameters) * parameters.flit_words / of

    def arrival(self, latency: float) -> float:
        """Seconds from a tile's last word to what waits for it; shorter links than those that were counted save
        nothing."""
        return self.machine.arrival(max(latency, LINK_LATENCY)) * self.second

    def ring(self, phase: Phase, members: int, links: float) -> float:
        """Seconds of a ring's message beside its words."""
        return phase.share * self.machine.ring_latency(members, links) * self.second

    def reduced(self, phase: Phase, words: int, members: int) -> float:
        """Words that a member of a ring moves in memory for a message."""
        return sum(message_words(phase, words, members))

    def ring_work(self, phase: Phase, words: int, members: int) -> PaperCost:
        """No cost: blocks of the collective engine do it while words pass."""
        return PaperCost()

    def update(self, words: int) -> PaperCost:
        """Seconds of an update."""
        return PaperCost(words / self.parameters.flit_words * self.second, self.machine.control["reduce"] * self.second,
                         3.0 * words, words, words, 0.0)


def _vector_pieces(work: Vector, count: float) -> float:
    """Pieces of a program that so many tasks are: the last one may be smaller, so that of a program over more than one
    they are those of the whole."""
    whole, piece = work.program.rows * work.program.columns, work.rows * work.columns
    return max(1, count * piece // whole) * whole / piece if whole > piece > 0 else count


#: For each kind of work whose tasks may be unequal how many equal ones they are.
PIECES: dict[type, Callable[[Any, float], float]] = {Vector: _vector_pieces}


class HostCosts(DieCosts):
    """Hosts of an array, which run numpy: an operation at a time, one kernel behind the other. What they send and sum
    themselves takes its time there as well; while words are on the links, they go on with what needs none of them. What
    kernels take has memory's time in it; words of memory are told of transfers alone. What a host's energy is, nobody
    has measured: it counts none."""

    most = 1
    energy = Energy(add=0.0, multiply=0.0, sram=0.0, dram=0.0, link=0.0)

    def __init__(self, array: Array) -> None:
        super().__init__(array)
        assert isinstance(self.machine, HostCycles) and array.host is not None
        self.host, self.rates = self.machine, array.host
        self.memory = self.rates.memory_words_per_ns / self.second

    def task(self, task: Task) -> PaperCost:
        """An operation, or what is told apart of it: one call, and all of its pieces."""
        cost, pieces = host_task_cost(self.host, task)
        count = float(pieces)
        if task.share is not None and cost.samples:
            count = _pieces(task, cost.samples)
        elif type(task.work) in PIECES:
            count = PIECES[type(task.work)](task.work, count)
        macs = 0.0 if task.share is None else multiply_adds(task)
        return PaperCost((count * cost.interval + cost.latency - cost.interval) * self.second, adds=macs,
                         multiplies=macs)

    def copies(self, rows: int, width: int, words: float, peers: int) -> tuple[float, float]:
        """Seconds that a host takes to copy what it sends, and what it takes, and for the messages."""
        copied = self.host.cycles(moved(2 * words, self.rates.cache_words, calls=2 * peers))[0]
        return (2 * copied + 2 * peers * self.rates.message_ns) * self.second, 1.0

    def arrival(self, latency: float) -> float:
        """The links' latencies; what messages take stands in :meth:`copies`."""
        return latency * self.second

    def reduced(self, phase: Phase, words: int, members: int) -> float:
        """No words: they are in what a member does itself."""
        return 0.0

    def ring_work(self, phase: Phase, words: int, members: int) -> PaperCost:
        """The cost of what a member does itself of a ring's message."""
        summed = phase is not Phase.GATHER
        return PaperCost(self.host.ring_work(words, members, 2 * phase.share, summed=summed) * self.second,
                         adds=float(summed * words * (members - 1) / members))

    def update(self, words: int) -> PaperCost:
        """Seconds of an update."""
        return PaperCost(self.host.cycles(update_work(words, self.rates.cache_words))[0] * self.second, adds=words,
                         multiplies=words)


def _paper_product(task: Task, work: Multiplication) -> PaperCost:
    node, share = task.node, task.share
    assert node is not None and share is not None
    macs = multiply_adds(task)
    if node.tiling is not None:
        words = float(task.count * sum(operand.rows * operand.columns for operand in (work.a, work.b, work.c)
                                       if isinstance(operand, Buffer)))
        return PaperCost(macs / (PAPER_PES * PAPER_HERTZ), 0.0, words, macs, macs, 2 * words)
    # A convolution's map is read once; a fully connected layer may read a flattened one.
    taps = node.matrix[0] if node.kind == "convolution" else 1
    read = share.samples * share.rows // taps * node.input_positions
    # Of the paper's machine a gradient is one product.
    written = share.samples * share.outputs * node.output_positions / share.pieces
    words = read + written + share.rows * share.outputs * share.samples / share.whole
    return PaperCost(macs / (PAPER_PES * PAPER_HERTZ), 0.0, words, macs, macs, 2 * words)


def _paper_rows(task: Task, work: RowsByNumber) -> PaperCost:
    size = work.rows.rows * work.rows.columns
    return PaperCost(words=(2.0 + work.added) * size, adds=float(work.added * size))


#: What work costs the paper's accelerator, by kind; all other kinds cost nothing.
PAPER_COSTS: dict[type, Callable[[Task, Any], PaperCost]] = {Multiplication: _paper_product, RowsByNumber: _paper_rows}


class HyParAccelerator:
    """Costs of HyPar's accelerator, as section 6.1 of its paper states them."""

    source = "HyPar's section 6.1: 168 PEs at 250 MHz, a multiply-add each a cycle, 320 GB/s"
    memory = PAPER_WORDS
    issue = 0.0
    #: What arrives is added to what is read, and the sum is written.
    added = 1.0
    most: int | None = None
    energy = Energy()

    def engine(self, engine: Engine) -> str:
        """The name of the engine that does what a step gives to one."""
        return engine.name.lower()

    def __init__(self, array: Array) -> None:
        self.parameters = array.die_parameters()
        self.cycle = 1 / float(array.clock_mhz * 1_000_000)

    def task(self, task: Task) -> PaperCost:
        """A product, vector work, an update, or rows of an embedding: of all tasks that it stands for; nothing is kept
        from one product to the next."""
        known = PAPER_COSTS.get(type(task.work))
        return PaperCost() if known is None else known(task, task.work)

    def copies(self, rows: int, width: int, words: float, peers: int) -> tuple[float, float]:
        """No seconds, and a word on the link for each word sent."""
        return 0.0, 1.0

    def arrival(self, latency: float) -> float:
        """Seconds of the links' latencies, but for one of the dies' own arrays."""
        return max(0.0, latency - LINK_LATENCY) * self.cycle

    def ring(self, phase: Phase, members: int, links: float) -> float:
        """Seconds of the links' latencies of a ring's message."""
        return phase.share * 2 * links * self.cycle

    def reduced(self, phase: Phase, words: int, members: int) -> float:
        """Words that a member of a ring moves in memory: what is sent is read, what arrives is added to what is read,
        or written."""
        return phase.share * (4 + self.added) * words * (members - 1) / members

    def ring_work(self, phase: Phase, words: int, members: int) -> PaperCost:
        """No cost: the paper has none."""
        return PaperCost()

    def update(self, words: int) -> PaperCost:
        """No cost: the paper has none."""
        return PaperCost()


#: Costs by the name that --cost takes.
COSTS: dict[str, Callable[[Array], DieCosts | HyParAccelerator]] = {
    "die": lambda array: DieCosts(array) if array.host is None else HostCosts(array), "paper": HyParAccelerator}
