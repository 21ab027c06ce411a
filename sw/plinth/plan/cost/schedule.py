"""Predicted cycles of a training step: the tasks of one die in program order, with their waits, on its engines.

What is walked through is the pattern of tasks that lowering gives each node (docs/planning.md): strips of products,
what follows them strip by strip, tiles to other dies, reductions. Descriptors are fetched in program order and every
engine works in order, so one pass over the tasks finds all their times. The other dies are taken to do the same at the
same time: what they send arrives when what is sent to them would.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from plinth.model.array import Array
from plinth.plan.cost.cuts import STRIPS, folding, image_step, row_step
from plinth.plan.cost.engines import ENGINES, Die
from plinth.plan.cost.links import Links
from plinth.plan.cost.machine import COPIES, LINK_LATENCY, Machine, Work, matrix_memory, moved_words
from plinth.plan.graph import LOSS, Follower, Node, PlanGraph
from plinth.plan.partition import Exchange, Layout, Region, Splits, bounds, layouts
from plinth_hw.isa.formats import FP16
from plinth_hw.isa.tasks import VECTOR_LOADS, VECTOR_STORES

#: Beats that a pooling task counts for, as lowering cuts.
TASK_BEATS = 64
#: Tasks of a layer that are walked one by one; more are walked in as many groups.
MOST_TASKS = 32
#: How often a step is walked through, with what engines took from each other the time before.
PASSES = 4
#: Vector work of an activation: element-wise instructions and functions, forwards and backwards.
ACTIVATIONS = {"relu": ((1, 0), (1, 0)), "tanh": ((0, 1), (4, 0)), "sigmoid": ((2, 2), (4, 0))}


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


@dataclass(frozen=True)
class _Stage:
    """Vector work of a stage: rows of ``positions`` a sample, or a pool along rows (axis 0) or columns."""

    program: str
    work: Work
    positions: int
    regions: int
    row_regions: int = 0
    follower: Follower | None = None
    axis: int = 0


class _Walk:
    """One step."""

    def __init__(self, given: Schedule, regions: Sequence[Layout], shares: Sequence[float]):
        self.given, self.regions = given, regions
        self.graph, self.machine, self.parameters = given.graph, given.machine, given.parameters
        self.die = Die(given.machine, shares, given.speed)
        self.die.rate = float(self.parameters.memory_words_per_cycle)
        self.made: dict[int, _Made] = {}
        self.end = 0.0
        #: Errors of what a node reads, by edge.
        self.errors: dict[int, Ready] = {}
        self.fused_error = Ready()
        #: End of the last strip of a sum over rows.
        self._chain = 0.0
        self.lines = self.parameters.vector_buffer_words // self.parameters.beat_words

    def size(self, region: Region, channels: int) -> tuple[int, int]:
        """Samples and channels of the die's part."""
        (low, high), (first, last) = (bounds(self.given.batch, region.batch, self.given.levels),
                                      bounds(channels, region.channels, self.given.levels))
        return int(high[0] - low[0]), int(last[0] - first[0])

    def run(self) -> float:
        """Cycles of the step."""
        for number, node in enumerate(self.graph.nodes):
            self._forward(number, node)
        for number in range(len(self.graph.nodes) - 2, -1, -1):
            self._backward(number, self.graph.nodes[number])
        return max(self.end, *self.die.last.values())

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

    def _chained(self, tasks: Sequence[_Stage], samples: int, positions: int, channels: int, ready: Ready,
                 pools: bool = False) -> Ready:
        """Vector work of a stage: each strip of images goes through all of it, if there are pools; else each part of
        it goes strip by strip. The tensor behind each part."""
        pools = pools or any(task.follower is not None for task in tasks)
        step = image_step(samples, positions) if pools else max(1, samples)
        if not (samples and channels):
            return ready
        tensors = [Ready() for _ in tasks]
        parts = self._pieces(samples, step)
        pieces, first = 1 if samples > step else STRIPS, 0.0
        for count, strips, share in parts:
            before = ready
            for task, found in zip(tasks, tensors, strict=True):
                if task.follower is None:
                    fold = self._fold(task, channels)
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

    def _fold(self, task: _Stage, channels: int) -> int:
        """Positions that sums over rows take as one row, so that it has groups enough."""
        if task.work.sums and self.parameters.multiply_format != FP16:
            return folding(self.parameters, task.positions, channels)
        return 1

    def _sum(self, fold: int, channels: int) -> None:
        """The sums of a folded map, added."""
        self._chain = self.die.vector(self._chain, self.machine.vector(
            "bias", fold, channels, Work(1, 0, row_stores=1, sums=1)), fold * channels)

    def _words(self, work: Work, rows: int, columns: int) -> float:
        """Words that a vector program moves."""
        return (work.loads + work.stores) * moved_words(self.parameters, rows, columns)

    # Transfers.

    def exchange(self, source: Region, target: Region, channels: int, positions: int, ready: Ready, *,
                 own: bool) -> Ready:
        """When every die has what it needs of ``source`` in its ``target``."""
        machine, given = self.machine, self.given
        tiles = given.links.tiles(Exchange("", "", "", None, source, target, channels, positions), given.batch)
        arrived = 0.0
        for turn, (samples, width, cycles, hops, count) in enumerate(tiles):
            if not (samples and width) or not (turn or own):
                continue
            alone, row = machine.copy(COPIES[min(hops, 2)], samples * positions, width)
            if turn:
                # A packet has a flit of its own; a row is one, or several.
                packet = max(1.0, min(width, self.parameters.chunk_words) / self.parameters.flit_words)
                cycles *= (packet + 1) / packet
                alone, row = max(alone, cycles + alone - row), max(row, cycles)
            words = 2 * moved_words(self.parameters, samples * positions, width)
            end = self.die.task("transfer", ready.whole, (alone, row), words, words / row / self.die.rate, count)
            arrived = max(arrived, end + machine.control["arrival"] + hops * given.hop - LINK_LATENCY if turn else end)
        return Ready(arrived)

    # Forwards.

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

    def _products(self, node: Node, here: Layout) -> tuple[int, int, int, int, int]:
        """Samples, rows of the output, input channels, output channels, taps of the die's part."""
        samples, outputs = self.size(here.output, node.output_channels)
        _, inputs = self.size(here.input, node.input_channels)
        taps = node.weights // (node.input_channels * node.output_channels)
        return samples, node.raw_elements // node.output_channels, inputs, outputs, taps

    def _matrix(self, node: Node, here: Layout, direction: str, ready: Ready) -> Ready:
        """Strips of a product."""
        samples, positions, inputs, outputs, taps = self._products(node, here)
        found = Ready()
        if not (samples and inputs and outputs and node.macs):
            found.add(1.0, ready.whole)
            return found
        convolution = node.kind == "convolution"
        step = image_step(samples, positions) if convolution else 2 * self.parameters.rows
        for count, strips, share in self._pieces(samples, step):
            if not convolution:
                size = (outputs, inputs * taps) if direction == "fprop" else (inputs * taps, outputs)
                shape = (direction, count, *size, 0)
            elif direction == "fprop":
                shape = ("convolution-fprop", count * positions, outputs, inputs * taps, inputs * node.kernel_columns)
            else:
                # With a stride, each position of the input meets only some of the taps.
                met = -(-outputs * taps * node.output_positions // node.input_positions)
                shape = ("convolution-bprop", count * node.input_positions, inputs, met,
                         min(met, outputs * node.kernel_columns))
            found.add(share, self._product(shape, ready.until(share), strips))
        return found

    def _product(self, shape: tuple[str, int, int, int, int], ready: float, count: int = 1) -> float:
        """End of products."""
        words, memory = matrix_memory(self.parameters, *shape[1:])
        return self.die.task("matrix", ready, self.machine.matrix(*shape), words, memory, count)

    def _forward(self, number: int, node: Node) -> None:
        here, ready = self.regions[number], self._input(number)
        if node.kind == LOSS:
            self._loss(number, node, ready)
            return
        positions = node.raw_elements // node.output_channels
        samples, channels = self.size(here.home, node.output_channels)
        rows, sources = samples * positions, max(1, len(self.graph.inputs[number]))
        if node.weighted:
            ready, sources = self._matrix(node, here, "fprop", ready), 1
            if here.mp:
                members = 1 << len(here.mp)
                ready = self.exchange(here.output, here.home, node.output_channels, positions, ready, own=False)
                sources = members
        reader = self.graph.edges[self.graph.outputs[number][0]].consumer if self.graph.outputs[number] else -1
        fused = (self.graph.nodes[reader].kind == LOSS and node.weighted and not node.followers and not here.mp
                 and not here.op)
        if fused:
            self.made[number] = _Made(ready, True)
            return
        bias = int(node.bias > 0)
        while sources > VECTOR_LOADS - bias:
            taken = min(VECTOR_LOADS, sources)
            ready = self._vector("sum", Work(taken, 1, wise=taken - 1), rows, channels, ready, taken)
            sources -= taken - 1
        followers = list(node.followers)
        wise = functions = 0
        if followers and followers[0].kind in ACTIVATIONS:
            (wise, functions), _ = ACTIVATIONS[followers.pop(0).kind]
        work = Work(sources, 1, row_loads=bias, wise=sources - 1 + bias + wise + (node.kind == "join"),
                    functions=functions)
        tasks = [_Stage("forward", work, positions, sources, bias)]
        for follower in followers:
            tasks += self._follow(follower)
        self.made[number] = _Made(self._chained(tasks, samples, positions, channels, ready))

    @staticmethod
    def _follow(follower: Follower) -> list[_Stage]:
        """An activation or a pool, forwards."""
        size = follower.output[0] * follower.output[1]
        if follower.kind in ACTIVATIONS:
            (wise, functions), _ = ACTIVATIONS[follower.kind]
            return [_Stage("forward", Work(1, 1, wise=wise, functions=functions), size, 1)]
        mean, found = follower.kind == "mean-pool", []
        for axis in (0, 1):
            rest, later = follower.kernel[axis], 0
            while rest:
                taps = min(VECTOR_LOADS - later, rest)
                rest -= taps
                work = Work(taps + later, 1, wise=taps + later - 1 + (mean and not rest))
                found.append(_Stage("pool", work, size, taps + later, follower=follower, axis=axis))
                later = 1
        return found

    def _pool(self, task: _Stage, samples: int, channels: int, ready: float, strips: int) -> float:
        """Tasks of a pool over some images, cut as lowering does; their reader waits for the last."""
        follower, axis = task.follower, task.axis
        assert follower is not None
        (height, width), (down, across) = follower.size, follower.output
        outer, places, windows, inner = ((samples, height, down, width * channels) if axis == 0 else
                                         (samples * down, width, across, channels))
        beat, lines = self.parameters.beat_words, max(1, self.lines // task.regions)
        stride = follower.stride[axis]

        def cut(blocks: int, rows: int, columns: int) -> tuple[int, int, int, int]:
            wide = max(1, min(columns, lines * beat))
            high = max(1, min(rows, lines // -(-wide // beat)))
            return blocks * -(-columns // wide), rows, high, wide

        def cost(found: tuple[int, int, int, int]) -> int:
            blocks, rows, high, wide = found
            return blocks * (TASK_BEATS * -(-rows // high) + rows * -(-wide // beat))

        joined = windows if stride == 1 else 1
        by_outer = cut(-(-windows // joined), outer, joined * inner)
        by_window = cut(1, outer * windows, inner) if windows * stride == places else cut(outer, windows, inner)
        blocks, rows, high, wide = min(by_outer, by_window, key=cost)
        end, whole = ready, rows // high
        # Whole tasks of each block, and one for the rows that are left.
        for size, count in ((high, blocks * whole), (rows - high * whole, blocks if rows % high else 0)):
            stages = self.machine.vector(task.program, size, wide, task.work)
            for _, tasks, _ in self._pieces(count * strips, 1) if count else ():
                end = self.die.vector(ready, stages, self._words(task.work, size, wide), tasks)
        return end

    def _loss(self, number: int, node: Node, ready: Ready) -> None:
        samples, channels = self.size(self.regions[number].input, node.input_channels)
        rows = samples * (node.input_elements // node.input_channels)
        edge = self.graph.inputs[number][0]
        before = self.graph.edges[edge].producer
        bias = int(self.made[before].fused and self.graph.nodes[before].bias > 0)
        classes = not node.followers or node.followers[0].kind == "softmax-cross-entropy"
        work = Work(2, 2, row_loads=bias, row_stores=bias, sums=bias, wise=bias + (4 if classes else 2),
                    reductions=2 * classes, functions=int(classes), column_functions=int(classes))
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
            followers = list(node.followers)
            first = followers.pop(0) if followers and followers[0].kind in ACTIVATIONS else None
            tasks: list[_Stage] = []
            for follower in reversed(followers):
                tasks += self._follow_back(follower)
            summed = bias and not here.mp
            if first is not None or summed:
                wise = ACTIVATIONS[first.kind][1][0] if first else 0
                work = Work(1 + (first is not None), int(first is not None), row_stores=int(summed), wise=wise,
                            sums=int(summed))
                regions = 1 if first is None else 3 if first.kind == "sigmoid" else 2
                tasks.append(_Stage("backward", work, positions, regions, 2 * summed))
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
                count, _, _, outputs, _ = self._products(node, here)
                self._chained([_Stage("bias", Work(1, 0, row_stores=1, sums=1), positions, 1, 2)], count, positions,
                              outputs, error, bool(node.pools))
                biased = self._chain
        for edge in self.graph.inputs[number]:
            self.errors[edge] = self._matrix(node, here, "bprop", error)
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

    @staticmethod
    def _follow_back(follower: Follower) -> list[_Stage]:
        """An activation or a pool, backwards."""
        size = follower.output[0] * follower.output[1]
        if follower.kind in ACTIVATIONS:
            _, (wise, _) = ACTIVATIONS[follower.kind]
            return [_Stage("backward", Work(2, 1, wise=wise), size, 3 if follower.kind == "sigmoid" else 2)]
        mean, found = follower.kind == "mean-pool", []
        most = (VECTOR_STORES, VECTOR_STORES) if mean else (VECTOR_LOADS - 2, VECTOR_LOADS - 3)
        for axis in (1, 0):
            kernel, stride = follower.kernel[axis], follower.stride[axis]
            fresh, later = min(kernel, stride), min(most[1], stride)
            groups = [(min(most[0], fresh - tap), 0) for tap in range(0, fresh, most[0])]
            groups += [(min(later, kernel - tap), 1) for tap in range(fresh, kernel, later)]
            for index, (taps, adds) in enumerate(groups):
                left = index + 1 < len(groups)
                if mean:
                    work = Work(1 + adds * taps, taps, wise=1 + adds * taps)
                else:
                    work = Work(2 + taps + adds, taps + left, wise=(3 + adds) * taps)
                found.append(_Stage("unpool", work, size, work.loads, follower=follower, axis=axis))
        return found

    def _update(self, node: Node, here: Layout, error: Ready, biased: float) -> None:
        """Weight gradient and its reduction."""
        samples, positions, inputs, outputs, taps = self._products(node, here)
        done = error.whole
        if node.macs and samples and inputs and outputs:
            if node.kind == "convolution":
                done = self._product(("convolution-update", inputs * taps, outputs, samples * positions,
                                      inputs * node.kernel_columns), done)
            else:
                done = self._product(("update", inputs * taps, outputs, samples, 0), done)
        words = taps * inputs * outputs + (outputs if node.bias else 0)
        control, size = self.machine.control, 1 << len(here.dp)
        if size == 1:
            cycles_words, latency = words / self.parameters.flit_words, control["reduce"]
        else:
            cycles_words = self.given.links.ring_words(here.dp, words)
            latency = (control["ring"] + 2 * (size - 2) * control["hop"]
                       + 2 * (size - 1) * (self.given.links.ring_hops(here.dp) * self.given.hop - LINK_LATENCY))
        moved = 2 * words if size == 1 else 4 * words * (size - 1) / size
        self.end = max(self.end, self.die.reduce(max(done, biased), cycles_words, latency, moved))
