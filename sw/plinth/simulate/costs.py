"""What the tasks of a die cost: cycles, words in memory, operations.

``calibrated`` is the die of the array's preset by the planners' formulas and tables (:mod:`plinth.plan.cost.machine`).
``paper`` is HyPar's accelerator as its section 6.1 states it: 168 PEs at 250 MHz, a multiply-add each a cycle, 320
GB/s; a product reads its operands and writes its result once, and what is not a product takes no time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from plinth.model.array import Array
from plinth.plan.cost.copies import Copy, copy_formula
from plinth.plan.cost.cuts import STRIPS, image_step, row_step, sample_step, zero_step
from plinth.plan.cost.machine import (
    COPIES,
    Machine,
    full_words,
    machine,
    moved_words,
)
from plinth.plan.cost.products import UPDATE, Product
from plinth.plan.cost.stages import CLEARED, NARROWED, Stage, folded, pool_tasks
from plinth.plan.graph import Node

#: HyPar, section 6.1: processing engines, their clock, and the memory's words of four bytes a second.
PAPER_PES, PAPER_HERTZ, PAPER_WORDS = 12 * 14, 250e6, 320e9 / 4
#: Vaults of a memory cube (HMC specification 2.1).
VAULTS = 32


class Cost(NamedTuple):
    """Of work on one engine."""

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

    def then(self, other: "Cost") -> "Cost":
        """This, and the other behind it on the same engine."""
        if not self:
            return other
        if not other:
            return self
        return Cost(self.seconds + other.seconds, other.latency,
                    *(one + two for one, two in zip(self[2:], other[2:], strict=True)))


@dataclass(frozen=True)
class Part:
    """A die's part of a node's products."""

    samples: int
    inputs: int
    outputs: int

    @property
    def empty(self) -> bool:
        """Whether there is nothing to multiply."""
        return not (self.samples and self.inputs and self.outputs)


class Costs(Protocol):
    """What a workload needs of a die."""

    #: Where the figures come from, for people.
    source: str
    #: Words that the memory moves a second, reads and writes together.
    memory: float
    #: From one task's end to the start of one that waits for it: on the die, and on another behind a transfer.
    issue: float
    arrival: float
    #: Whether matrix engines read numbers of 16 bits.
    narrow: bool
    #: Words that memory moves for each word of a transfer that is added at its receiver, beside those of the vector
    #: work that does it.
    added: float

    def products(self, direction: str, node: Node, part: Part, pieces: int) -> list[Cost]:
        """A product in pieces by its samples; a weight gradient in one."""
        ...

    def stages(self, stages: Sequence[Stage], samples: int, channels: int, pieces: int) -> list[Cost]:
        """Vector work one after the other, in pieces by samples."""
        ...

    def rows(self, rows: int, width: int, unlike: float) -> Cost:
        """Rows of an embedding, copied if ``unlike`` is 0, else added to those of its gradient, where one in so many
        pairs is the same."""
        ...

    def cleared(self, words: int) -> Cost:
        """Words filled with zeros."""
        ...

    def copies(self, rows: int, width: int, words: float, hops: int) -> tuple[float, float]:
        """Seconds that a die takes to send ``words`` in tiles of rows x width, and words on a link over those sent."""
        ...

    def ring(self, members: int, hops: int) -> float:
        """Seconds of a reduction beside its words."""
        ...

    def narrowed(self, rows: int, columns: int) -> Cost:
        """Copy of a weight matrix for a matrix engine that reads numbers of 16 bits."""
        ...

    def update(self, words: int) -> Cost:
        """Update of weights whose gradient lies on one die."""
        ...


def _shares(total: int, pieces: int) -> list[int]:
    """A total in at most so many about equal pieces, larger ones first."""
    count = max(1, min(total, pieces))
    return [(total * (place + 1)) // count - (total * place) // count for place in range(count)]


class Calibrated:
    """The die of an array's preset."""

    def __init__(self, array: Array) -> None:
        self.parameters = array.die_parameters()
        self.machine: Machine = machine(self.parameters)
        self.second = 1 / float(array.clock_mhz * 1_000_000)
        control = self.machine.control
        self.source = self.machine.source
        self.memory = float(self.parameters.memory_words_per_cycle) / self.second
        self.issue, self.arrival = control["issue"] * self.second, control["arrival"] * self.second
        self.added = 0.0
        self.narrow = self.parameters.packing > 1
        self.fetch = control["fetch"]
        self.hop = array.link_latency
        self._known: dict[tuple[object, ...], list[Cost]] = {}

    def _once(self, key: tuple[object, ...], make: Callable[[], list[Cost]]) -> list[Cost]:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    # Products.

    def products(self, direction: str, node: Node, part: Part, pieces: int) -> list[Cost]:
        """As :class:`Costs`; strips of samples as lowering cuts them."""
        if part.empty or not node.macs:
            return [Cost()]
        shape = replace(node, name="")
        return self._once((direction, shape, part, pieces), lambda: self._products(direction, node, part, pieces))

    def _products(self, direction: str, node: Node, part: Part, pieces: int) -> list[Cost]:
        product = Product.of(direction, node, part.samples, part.inputs, part.outputs)
        if direction == UPDATE:
            return [self._strips(product, product.samples, node.output_positions)]
        step = image_step(part.samples, node.output_positions) if product.window else sample_step(self.parameters)
        found, done = [], 0
        for share in _shares(-(-part.samples // step), pieces):
            samples = min(part.samples - done, share * step)
            done += samples
            found.append(self._strips(replace(product, samples=samples), step, node.output_positions))
        return found

    def _strips(self, product: Product, step: int, positions: int) -> Cost:
        """Strips of samples one behind the other; the last may be shorter."""
        cycles = latency = words = 0.0
        for size, count in ((step, product.samples // step), (product.samples % step, 1)):
            if size and count:
                (alone, row), moved, _ = self.machine.product(replace(product, samples=size))
                cycles, latency = cycles + count * max(row, self.fetch), max(0.0, alone - row)
                words += count * moved
        macs = float(product.samples * positions * product.weights)
        return Cost(cycles * self.second, latency * self.second, words, macs, macs,
                    words + _scratchpad(self.parameters.rows, self.parameters.columns, macs))

    # Vector work.

    def stages(self, stages: Sequence[Stage], samples: int, channels: int, pieces: int) -> list[Cost]:
        """As :class:`Costs`; each piece goes through all stages, and is no shorter than a strip."""
        if not (stages and samples and channels):
            return [Cost()]
        rows = samples * max(stage.positions for stage in stages)
        pieces = min(pieces, -(-rows // (2 * self.parameters.rows)))
        return self._once((tuple(stages), samples, channels, pieces), lambda: [
            self._piece(stages, samples, share, channels, pieces) for share in _shares(samples, pieces)])

    def _piece(self, stages: Sequence[Stage], samples: int, share: int, channels: int, pieces: int) -> Cost:
        """``share`` of the samples through all stages; if there are pools, strips of images, each of which waits at
        every stage for the one before."""
        images = share
        if any(stage.follower is not None for stage in stages):
            images = min(share, image_step(samples, max(stage.positions for stage in stages)))
        whole = Cost()
        for size, count in ((images, share // images), (share % images, 1)):
            if size and count:
                strip = Cost()
                for stage in stages:
                    between = strip.latency + self.issue if strip else 0.0
                    strip = strip.then(self._stage(stage, size, channels, pieces))
                    strip = strip._replace(seconds=strip.seconds + between)
                whole = whole.then(Cost(count * strip.seconds, strip.latency, *(count * one for one in strip[2:])))
        return whole

    def _stage(self, stage: Stage, samples: int, channels: int, pieces: int) -> Cost:
        if stage.follower is not None:
            found = Cost()
            for rows, columns, count in pool_tasks(self.parameters, stage, samples, channels):
                found = found.then(self._vector(stage, rows, columns, rows * count))
            return found
        fold = folded(self.parameters, stage, channels)
        rows, columns = samples * stage.positions // fold, fold * channels
        step = max(1, row_step(self.parameters, rows, columns, stage.regions, stage.row_regions,
                               max(1, STRIPS // pieces)))
        return self._vector(stage, min(step, rows), columns, rows)

    def _vector(self, stage: Stage, step: int, columns: int, rows: int) -> Cost:
        """A vector program over rows in strips of ``step``: load, compute and store of three strips overlap; strips
        that sum over rows wait for each other."""
        cycles = latency = words = operations = 0.0
        work = stage.work
        for size, count in ((step, rows // step), (rows % step, 1)):
            if not (size and count):
                continue
            load, compute, store = self.machine.vector(stage.program, size, columns, work)
            whole = load + compute + store
            row = whole if work.sums else max(load, compute, store, whole / 2)
            cycles, latency = cycles + count * max(row, self.fetch), whole - row
            words += count * sum(full_words(self.parameters, work, size, columns))
            operations += count * size * columns * (work.wise + work.sums + work.reductions + work.functions)
        return Cost(cycles * self.second, latency * self.second, words, operations, 0.0, 2 * words)

    # Transfers.

    def rows(self, rows: int, width: int, unlike: float) -> Cost:
        """As :class:`Costs`."""
        (alone, row), added = self.machine.rows(rows, width, unlike), unlike > 0
        return Cost(row * self.second, max(0.0, alone - row) * self.second,
                    (2 + added) * moved_words(self.parameters, rows, width), float(added * rows * width))

    def cleared(self, words: int) -> Cost:
        """As :class:`Costs`."""
        size, found = zero_step(self.parameters), Cost()
        for columns, count in ((size, words // size), (words % size, 1)):
            if columns and count:
                stages = self.machine.vector("forward", 1, columns, CLEARED)
                cycles = sum(stages) + (count - 1) * max(sum(stages) / 2, self.fetch)
                found = found.then(Cost(cycles * self.second, 0.0, float(count * columns)))
        return found

    def copies(self, rows: int, width: int, words: float, hops: int) -> tuple[float, float]:
        """As :class:`Costs`; packets have a flit of their own."""
        parameters, copy = self.parameters, Copy.part(max(1, rows), max(1, width))
        _, row = self.machine.copy(COPIES[1], copy)
        of = copy.rows * copy.columns
        share = words / of * copy.cycles(parameters) * row / copy_formula(parameters, copy, 0.0)[1]
        return share * self.second, copy.flits(parameters) * parameters.flit_words / of

    def ring(self, members: int, hops: int) -> float:
        """As :class:`Costs`."""
        return self.machine.ring_latency(members, hops, self.hop) * self.second

    def narrowed(self, rows: int, columns: int) -> Cost:
        """As :class:`Costs`."""
        step = max(1, row_step(self.parameters, rows, columns, 1, 0, 1))
        return self._vector(Stage("forward", NARROWED, rows, 1), min(step, rows), columns, rows)

    def update(self, words: int) -> Cost:
        """As :class:`Costs`."""
        return Cost(words / self.parameters.flit_words * self.second, self.machine.control["reduce"] * self.second,
                    3.0 * words, words, words, 0.0)


class Paper:
    """HyPar's accelerator."""

    source = "HyPar's section 6.1: 168 PEs at 250 MHz, a multiply-add each a cycle, 320 GB/s"
    memory = PAPER_WORDS
    issue = arrival = 0.0
    narrow = False
    #: What arrives is added to what is read, and the sum is written.
    added = 1.0

    def __init__(self, array: Array) -> None:
        self.hop = array.link_latency / float(array.clock_mhz * 1_000_000)

    def products(self, direction: str, node: Node, part: Part, pieces: int) -> list[Cost]:
        """As :class:`Costs`; nothing is kept from one product to the next."""
        if part.empty or not node.macs:
            return [Cost()]
        shares = [part.samples] if direction == UPDATE else _shares(part.samples, pieces)
        weights = part.inputs * part.outputs * _taps(node)
        # A convolution's map is read once; a fully connected layer may read a flattened one.
        taps = 1 if node.kind == "convolution" else _taps(node)
        found = []
        for samples in shares:
            read = samples * part.inputs * node.input_positions * taps
            made = samples * part.outputs * node.output_positions
            macs = float(samples * node.output_positions * weights)
            words = read + made + weights * samples / part.samples
            found.append(Cost(macs / (PAPER_PES * PAPER_HERTZ), 0.0, words, macs, macs, 2 * words))
        return found

    def stages(self, stages: Sequence[Stage], samples: int, channels: int, pieces: int) -> list[Cost]:
        """Nothing."""
        return [Cost()]

    def rows(self, rows: int, width: int, unlike: float) -> Cost:
        """Memory's time for the words."""
        added = unlike > 0
        return Cost(words=(2.0 + added) * rows * width, adds=float(added * rows * width))

    def cleared(self, words: int) -> Cost:
        """Nothing."""
        return Cost()

    def copies(self, rows: int, width: int, words: float, hops: int) -> tuple[float, float]:
        """Nothing beside the words."""
        return 0.0, 1.0

    def ring(self, members: int, hops: int) -> float:
        """The links' latencies."""
        return 2 * (members - 1) * hops * self.hop

    def narrowed(self, rows: int, outputs: int) -> Cost:
        """Nothing."""
        return Cost()

    def update(self, words: int) -> Cost:
        """Nothing."""
        return Cost()


def _taps(node: Node) -> int:
    """Weights of a pair of channels."""
    return node.weights // (node.input_channels * node.output_channels)


def _scratchpad(rows: int, columns: int, macs: float) -> float:
    """Words that the buffers give an array of rows x columns for so many multiply-adds: each goes to a whole row or
    column of PEs."""
    return macs / rows + macs / columns


#: Costs by the name that --cost takes.
COSTS: dict[str, type[Calibrated] | type[Paper]] = {"calibrated": Calibrated, "paper": Paper}
