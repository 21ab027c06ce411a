"""Predicted cycles of a training step: the tasks of one die in program order, with their waits, on its engines.

What is walked through is the pattern of tasks that lowering gives each node (docs/planning.md): strips of products,
what follows them strip by strip, tiles to other dies, reductions. Descriptors are fetched in program order and every
engine works in order, so one pass over the tasks finds all their times. The other dies are taken to do the same at the
same time: what they send arrives when what is sent to them would.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from plinth.model.array import Array
from plinth.plan.cost.copies import Copy, lookups
from plinth.plan.cost.cuts import SPARE_ROWS, STRIPS, image_step, row_step, sample_step, zero_step
from plinth.plan.cost.engines import ENGINES, Die
from plinth.plan.cost.links import Links
from plinth.plan.cost.machine import COPIES, LINK_LATENCY, Machine, Work, full_words, moved_words, unlike
from plinth.plan.cost.products import BPROP, FPROP, UPDATE, Product
from plinth.plan.cost.stages import (
    CLEARED,
    NARROWED,
    Stage,
    backward_stages,
    bias_stage,
    folded,
    forward_stages,
    is_fused,
    loss_rows,
    loss_work,
    pool_tasks,
)
from plinth.plan.graph import LOSS, Node, PlanGraph
from plinth.plan.partition import Exchange, Layout, Region, Splits, bounds, layouts
from plinth_hw.isa.tasks import VECTOR_LOADS

#: Tasks of a layer that are walked one by one; more are walked in as many groups.
MOST_TASKS = 32
#: How often a step is walked through, with what engines took from each other the time before.
PASSES = 4


@dataclass(frozen=True)
class Times:
    """Cycles of a predicted step."""

    cycles: float
    #: In which nothing but reductions goes on, at the end.
    exposed: float
    #: In which each engine works.
    matrix: float
    vector: float
    transfer: float
    collective: float


class Ready:
    """When the rows of a tensor are there, in shares of them."""

    __slots__ = ("times",)

    def __init__(self, time: float | None = None):
        self.times: list[tuple[float, float]] = [] if time is None else [(1.0, time)]

    def until(self, share: float) -> float:
        """When the first ``share`` of the rows is there."""
        for upper, time in self.times:
            if upper >= share - 1e-9:
                return time
        return self.times[-1][1] if self.times else 0.0

    @property
    def whole(self) -> float:
        """When all of it is there."""
        return self.times[-1][1] if self.times else 0.0

    def behind(self, time: float) -> "Ready":
        """The same rows, no sooner than a time."""
        found = Ready()
        found.times = [(share, max(one, time)) for share, one in self.times] or [(1.0, time)]
        return found

    def add(self, share: float, time: float) -> None:
        """More rows, up to ``share``, are there."""
        self.times.append((share, time))


class Schedule:
    """Walks through steps of one network on one array."""

    def __init__(self, graph: PlanGraph, batch: int, array: Array, machine: Machine, links: Links) -> None:
        self.graph, self.batch, self.machine, self.links = graph, batch, machine, links
        self.parameters, self.levels, self.dies = machine.parameters, array.levels, array.dies
        self.hop = array.link_latency
        #: Of the slowest die, which all others wait for.
        self.speed = float(min(array.relative_speeds))

    def step(self, splits: Splits) -> Times:
        """A step under the given splits: walked through alone first, then with what engines take from each other."""
        regions, shares = layouts(self.graph, splits), list[float]()
        for _ in range(PASSES):
            walk = _Walk(self, regions, shares)
            end = walk.run()
            found = walk.die.met()
            shares = [(one + two) / 2 for one, two in zip(shares, found, strict=True)] if shares else found
        busy = dict.fromkeys(ENGINES, 0.0)
        for engine, start, stop, _ in walk.die.tasks:
            busy[engine] += stop - start
        busy["collective"] += walk.die.latencies
        return Times(end, end - max(stop for engine, _, stop, _ in walk.die.tasks if engine != "collective"), **busy)


@dataclass
class _Made:
    """What is known of a node while a step is walked."""

    #: What its readers read.
    map: Ready
    #: Home holds bias, activation and their error only in the loss.
    fused: bool = False


class _Walk:
    """One step."""

    def __init__(self, given: Schedule, regions: Sequence[Layout], shares: Sequence[float]):
        self.given, self.regions = given, regions
        self.graph, self.machine, self.parameters = given.graph, given.machine, given.parameters
        self.die = Die(given.machine, shares, given.speed)
        self.die.rate = float(self.parameters.memory_words_per_cycle)
        self.made: dict[int, _Made] = {}
        #: Errors of what a node reads, by edge.
        self.errors: dict[int, Ready] = {}
        self.fused_error = Ready()
        #: When the gradients of embeddings have been filled with zeros.
        self.cleared: dict[str, float] = {}
        #: End of the last strip of a sum over rows.
        self._chain = 0.0
        #: The matrix engine reads numbers of 16 bits.
        self.narrow = self.parameters.packing > 1
        #: When it has its copies of weights, by node.
        self.operands: dict[int, float] = {}
        self.lines = self.parameters.vector_buffer_words // self.parameters.beat_words

    def size(self, region: Region, channels: int) -> tuple[int, int]:
        """Samples and channels of the die's part."""
        (low, high), (first, last) = (bounds(self.given.batch, region.batch, self.given.levels),
                                      bounds(channels, region.channels, self.given.levels))
        return int(high[0] - low[0]), int(last[0] - first[0])

    def run(self) -> float:
        """Cycles of the step."""
        if self.narrow:
            for number, node in enumerate(self.graph.nodes):
                if node.weighted:
                    self._copy_weights(number, node)
        for number, node in enumerate(self.graph.nodes):
            self._forward(number, node)
        for number in range(len(self.graph.nodes) - 2, -1, -1):
            self._backward(number, self.graph.nodes[number])
        return max(self.die.reduced, *self.die.last.values())

    # What tasks are cut into.

    @staticmethod
    def _pieces(total: int, step: int, first: float = 0.0, last: float = 1.0) -> list[tuple[int, int, float]]:
        """Size of a piece, pieces in a group, and the share, from ``first`` to ``last``, that the group ends at."""
        count = -(-total // step)
        group = -(-count // MOST_TASKS)
        found = []
        for place in range(0, count, group):
            taken = min(group, count - place)
            end = min(total, (place + taken) * step)
            size = step if group > 1 else end - place * step
            found.append((size, taken, first + (last - first) * end / total))
        return found

    def _vector(self, program: str, work: Work, rows: int, columns: int, ready: Ready, regions: int,
                row_regions: int = 0) -> Ready:
        """A vector program strip by strip."""
        found = Ready()
        if rows and columns:
            self._rows(program, work, rows, columns, ready, regions, row_regions, (0.0, 1.0, STRIPS), found)
        else:
            found.add(1.0, ready.whole)
        return found

    def _rows(self, program: str, work: Work, rows: int, columns: int, ready: Ready, regions: int, row_regions: int,
              where: tuple[float, float, int], found: Ready) -> None:
        """Strips from a share of a tensor to another, about so many; a sum over rows waits for the strip before, which
        it adds to."""
        first, last, pieces = where
        if first == 0:
            self._chain = 0.0
        step = max(1, row_step(self.parameters, rows, columns, regions, row_regions, pieces))
        for count, strips, share in self._pieces(rows, step, first, last):
            stages = self.machine.vector(program, count, columns, work)
            start = ready.until(share)
            if work.sums:
                load, compute, store = stages
                if self._chain:
                    # The sum of the strips before is loaded and added.
                    groups = -(-columns // self.parameters.beat_words)
                    load, compute = load + groups, compute + 2 * groups + 15
                whole = load + compute + store + self.die.issue
                self._chain = self.die.vector(max(start, self._chain), (load, compute + (strips - 1) * whole, store),
                                              strips * self._words(work, count, columns))
                found.add(share, self._chain)
            else:
                found.add(share, self.die.vector(start, stages, self._words(work, count, columns), strips))

    def _chained(self, tasks: Sequence[Stage], samples: int, positions: int, channels: int, ready: Ready,
                 pools: bool = False) -> Ready:
        """Vector work of a stage: each strip of images goes through all of it, if there are pools; else each part of
        it goes strip by strip. The tensor behind each part."""
        pools = pools or any(task.follower is not None for task in tasks)
        step = image_step(samples, positions) if pools else max(1, samples)
        if not (tasks and samples and channels):
            return ready
        tensors = [Ready() for _ in tasks]
        parts = self._pieces(samples, step)
        pieces, first = 1 if samples > step else STRIPS, 0.0
        for count, strips, share in parts:
            before = ready
            for task, found in zip(tasks, tensors, strict=True):
                if task.follower is None:
                    fold = folded(self.parameters, task, channels)
                    self._rows(task.program, task.work, count * strips * task.positions // fold, fold * channels,
                               before, task.regions, task.row_regions, (first, share, pieces * strips), found)
                    if fold > 1 and share == 1:
                        self._sum(fold, channels)
                else:
                    for _ in range(min(strips, 2)):
                        end = self._pool(task, count, channels, before.until(share), max(1, strips // 2))
                    found.add(share, end)
                before = found
            first = share
        return tensors[-1]

    def _sum(self, fold: int, channels: int) -> None:
        """The sums of a folded map, added."""
        self._chain = self.die.vector(self._chain, self.machine.vector(
            "bias", fold, channels, Work(1, 0, row_stores=1, sums=1)), fold * channels)

    def _words(self, work: Work, rows: int, columns: int) -> float:
        """Words that a vector program moves."""
        return sum(full_words(self.parameters, work, rows, columns))

    # Transfers.

    def exchange(self, source: Region, target: Region, channels: int, positions: int, ready: Ready, *,
                 own: bool) -> Ready:
        """When every die has what it needs of ``source`` in its ``target``."""
        machine, given = self.machine, self.given
        tiles = given.links.tiles(Exchange("", "", "", None, source, target, channels, positions), given.batch)
        parameters, arrived = self.parameters, 0.0
        # Rows lie one behind the other in what a die has of either side.
        strides = self.size(source, channels)[1], self.size(target, channels)[1]
        for turn, (samples, width, cycles, hops, count) in enumerate(tiles):
            if not (samples and width) or not (turn or own):
                continue
            copy = Copy(samples * positions, width, *strides)
            if turn:
                # Flits are not full where narrow rows do not follow each other.
                cycles *= copy.flits(parameters) * parameters.flit_words / (samples * positions * width)
                # The input behind the link takes a flit a cycle, but for lookups.
                cycles = max(cycles, cycles * float(parameters.link_rate)
                             + (hops - 1) * lookups(copy, parameters, hops))
            alone, row = machine.copy(COPIES[min(hops, 2)], copy, cycles)
            words = copy.read(parameters) + copy.written(parameters)
            memory = words / row / self.die.rate
            if not turn:
                end = self.die.task("transfer", ready.whole, (alone, row), words, memory, count)
            else:
                end = self.die.tiles(ready.whole, (alone, row), words, memory, count, count * cycles)
                # What the router holds when the copy ends leaves at the link's rate; `arrival` has it at the preset's.
                slower = max(0.0, 1 - float(parameters.link_rate / machine.measured_rate))
                end += (machine.control["arrival"] + hops * given.hop - LINK_LATENCY
                        + copy.held(parameters) * cycles * slower)
            arrived = max(arrived, end)
        return Ready(arrived)

    # Forwards.

    def _copy_weights(self, number: int, node: Node) -> None:
        """Copies of a node's weights for the matrix engine."""
        part, found = self._part(node, self.regions[number], FPROP), Ready()
        if node.macs and not part.empty:
            self._rows("forward", NARROWED, part.weights // part.outputs, part.outputs, Ready(0.0), 1, 0,
                       (0.0, 1.0, 1), found)
            self.operands[number] = found.whole

    def _input(self, number: int) -> Ready:
        """What a node reads: the network's input, the homes of its producers, or copies."""
        found = Ready(0.0)
        ready = []
        for edge in self.graph.inputs[number]:
            one = self.graph.edges[edge]
            home, need = self.regions[one.producer].home, self.regions[number].input
            made = self.made[one.producer]
            if home == need or self.given.levels == 0:
                ready.append(made.map)
            else:
                ready.append(self.exchange(home, need, one.channels, one.elements // one.channels, made.map, own=True))
        if len(ready) == 1:
            return ready[0]
        if ready:
            found = Ready(max(one.whole for one in ready))
        return found

    def _part(self, node: Node, here: Layout, direction: str) -> Product:
        """A product of the die's part of a node."""
        samples, outputs = self.size(here.output, node.output_channels)
        _, inputs = self.size(here.input, node.input_channels)
        return Product.of(direction, node, samples, inputs, outputs)

    def _matrix(self, node: Node, here: Layout, direction: str, ready: Ready) -> Ready:
        """Strips of a product."""
        part, found = self._part(node, here, direction), Ready()
        if part.empty or not node.macs:
            found.add(1.0, ready.whole)
            return found
        step = image_step(part.samples, part.window.positions) if part.window else sample_step(self.parameters)
        for count, strips, share in self._pieces(part.samples, step):
            found.add(share, self._product(replace(part, samples=count), ready.until(share), strips))
        return found

    def _indexed(self, node: Node, here: Layout, ready: float, unlike_rows: float = 0.0) -> float:
        """Rows of an embedding, copied or added; the end of them."""
        samples, channels = self.size(here.output, node.output_channels)
        rows = samples * node.output_positions
        if not (rows and channels):
            return ready
        cycles = self.machine.rows(rows, channels, unlike_rows)
        words = (2 + (unlike_rows > 0)) * moved_words(self.parameters, rows, channels)
        return self.die.task("transfer", ready, cycles, words, words / cycles[1] / self.die.rate)

    def _gather(self, node: Node, here: Layout) -> Ready:
        """fprop of an embedding; beside it zeros fill the gradient."""
        found = Ready(self._indexed(node, here, 0.0))
        part = self._part(node, here, UPDATE)
        cleared = part.weights + (SPARE_ROWS * part.outputs if here.mp else 0)
        for words, tasks, _ in self._pieces(cleared, zero_step(self.parameters)):
            end = self.die.vector(0.0, self.machine.vector("forward", 1, words, CLEARED), tasks * words, tasks)
            self.cleared[node.name] = end
        return found

    def _product(self, product: Product, ready: float, count: int = 1) -> float:
        """End of products."""
        cycles, words, memory = self.machine.product(product)
        return self.die.task("matrix", ready, cycles, words, memory, count)

    def _forward(self, number: int, node: Node) -> None:
        here, ready = self.regions[number], self._input(number)
        if node.kind == LOSS:
            self._loss(number, node, ready)
            return
        positions = node.raw_elements // node.output_channels
        samples, channels = self.size(here.home, node.output_channels)
        rows, sources = samples * positions, max(1, len(self.graph.inputs[number]))
        if node.weighted:
            ready = self._gather(node, here) if node.gathers else self._matrix(
                node, here, FPROP, ready.behind(self.operands.get(number, 0.0)))
            sources = 1
            if here.mp:
                members = 1 << len(here.mp)
                ready = self.exchange(here.output, here.home, node.output_channels, positions, ready, own=False)
                sources = members
        if is_fused(self.graph, number, here):
            self.made[number] = _Made(ready, True)
            return
        bias = int(node.bias > 0)
        while sources > VECTOR_LOADS - bias:
            taken = min(VECTOR_LOADS, sources)
            ready = self._vector("sum", Work(taken, 1, wise=taken - 1), rows, channels, ready, taken)
            sources -= taken - 1
        stages = forward_stages(node, sources, self.narrow)
        self.made[number] = _Made(self._chained(stages, samples, positions, channels, ready))

    def _pool(self, task: Stage, samples: int, channels: int, ready: float, strips: int) -> float:
        """Tasks of a pool over some images; their reader waits for the last."""
        end = ready
        for size, wide, count in pool_tasks(self.parameters, task, samples, channels):
            stages = self.machine.vector(task.program, size, wide, task.work)
            for _, tasks, _ in self._pieces(count * strips, 1):
                end = self.die.vector(ready, stages, self._words(task.work, size, wide), tasks)
        return end

    def _loss(self, number: int, node: Node, ready: Ready) -> None:
        samples, _ = self.size(self.regions[number].input, node.input_channels)
        rows, channels = samples * loss_rows(node), node.input_elements // loss_rows(node)
        edge = self.graph.inputs[number][0]
        before = self.graph.edges[edge].producer
        work = loss_work(node, self.graph.nodes[before], self.made[before].fused, self.narrow)
        self.errors[edge] = self._vector("loss", work, rows, channels, ready, 3, 3)

    # Backwards.

    def _backward(self, number: int, node: Node) -> None:
        here, made = self.regions[number], self.made[number]
        samples, channels = self.size(here.home, node.output_channels)
        positions = node.raw_elements // node.output_channels
        bias, error = node.bias > 0, Ready()
        biased = 0.0
        if made.fused:
            error = self.errors[self.graph.outputs[number][0]]
            biased = error.whole
        else:
            error = self._map_error(number, samples)
            tasks = backward_stages(node, bias and not here.mp, self.narrow)
            if tasks:
                error = self._chained(tasks, samples, positions, channels, error)
                biased = max(error.whole, self._chain)
        if not node.weighted:
            if node.kind == "join":
                error = self._vector("forward", Work(1, 1, wise=1), samples * positions, channels, error, 1)
            for edge in self.graph.inputs[number]:
                self.errors[edge] = error
            return
        if here.mp:
            error = self.exchange(here.home, here.output, node.output_channels, positions, error, own=True)
            if bias:
                part = self._part(node, here, BPROP)
                self._chained([bias_stage(node)], part.samples, positions, part.outputs, error, bool(node.pools))
                biased = self._chain
        for edge in self.graph.inputs[number]:
            self.errors[edge] = self._matrix(node, here, BPROP, error)
        self._update(node, here, error, biased)

    def _map_error(self, number: int, samples: int) -> Ready:
        """Error of a node's map, at home."""
        node, home = self.graph.nodes[number], self.regions[number].home
        sources: list[Ready] = []
        for edge in self.graph.outputs[number]:
            one = self.graph.edges[edge]
            reader = self.regions[one.consumer]
            error = self.errors[edge]
            if (reader.input == home or not self.given.levels) and not reader.op:
                sources.append(error)
                continue
            found = self.exchange(reader.input, home, one.channels, one.elements // one.channels, error, own=True)
            sources += [found] * (1 << len(reader.op))
        if len(sources) < 2:
            return sources[0] if sources else Ready(0.0)
        elements = self.graph.edges[self.graph.outputs[number][0]].elements
        _, channels = self.size(home, node.output_channels)
        ready, count = Ready(max(one.whole for one in sources)), len(sources)
        while count > 1:
            taken = min(VECTOR_LOADS, count)
            ready = self._vector("sum", Work(taken, 1, wise=taken - 1),
                                 samples * elements // node.output_channels, channels, ready, taken)
            count -= taken - 1
        return ready

    def _update(self, node: Node, here: Layout, error: Ready, biased: float) -> None:
        """Weight gradient and its reduction."""
        part, done = self._part(node, here, UPDATE), error.whole
        if node.macs and not part.empty:
            done = self._product(part, done)
        elif node.gathers:
            _, own = self.size(here.input, node.input_channels)
            done = self._indexed(node, here, max(done, self.cleared.get(node.name, 0.0)),
                                 unlike(node.input_channels, own))
        words = part.weights + (part.outputs if node.bias else 0)
        control, size = self.machine.control, 1 << len(here.dp)
        if size == 1:
            cycles_words, latency = words / self.parameters.flit_words, control["reduce"]
        else:
            cycles_words = self.given.links.ring_words(here.dp, words)
            latency = self.machine.ring_latency(size, self.given.links.ring_hops(here.dp), self.given.hop)
        moved = 2 * words if size == 1 else 4 * words * (size - 1) / size
        self.die.reduce(max(done, biased), cycles_words, latency, moved, linked=size > 1)
