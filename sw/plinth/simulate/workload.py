"""The tasks and flows of a training step: what the dies of a Plan do, on one array.

For every die and node, in pieces by samples::

    fprop    matrix (waits for its input) --> sums to the homes --> vector: sum, bias, activation, pool --> to readers
    bprop    errors to the homes --> vector: mask, unpool, bias' gradient --> to the layer's dies --> matrix: error of
             the input, then gradient of the weights --> reduction

Pieces follow each other from engine to engine where nothing moves between dies. Transfers between layers and rings are
flows, one for each group of dies that have to do with each other; a flow waits for all its senders, and starts then,
beside whatever else is on the links. Regions, senders, receivers and words are the Plan's own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.errors import UserError
from plinth.model.array import Array
from plinth.plan import partition
from plinth.plan.cost.cuts import STRIPS
from plinth.plan.cost.machine import LINK_LATENCY, Work, unlike
from plinth.plan.cost.products import BPROP, FPROP, UPDATE, Product
from plinth.plan.cost.published import PublishedWords
from plinth.plan.cost.stages import Stage, backward_stages, bias_stage, forward_stages, is_fused, loss_rows, loss_work
from plinth.plan.graph import DP, LOSS, MP, Node
from plinth.plan.partition import Integers, Layout, Region, bounds
from plinth.plan.plan import Plan
from plinth.simulate.costs import VAULTS, Cost, Costs, Part
from plinth.simulate.ways import Group, Ways
from plinth_hw.isa.tasks import VECTOR_LOADS
from plinth_sim.array.machine import Activity, Die, Flow, Link, Machine, Task, Wait

#: Pieces of all nodes on all dies, about, at most: with more dies, pieces get larger.
MOST_PIECES = 1 << 15

#: For each die, for each piece of what it has, what must be done before the piece is there.
Ready = list[list[tuple[Wait, ...]]]


@dataclass(frozen=True)
class Workload:
    """Input of the simulator."""

    machine: Machine
    activities: list[Activity]
    #: Words of transfers and reductions, as the Plan counts them.
    moved_words: int


def workload(plan: Plan, array: Array, costs: Costs, slow: dict[int, float] | None = None,
             ways: Ways | None = None, overlap: bool = True, form: str = "exact") -> Workload:
    """Tasks and flows of a step.

    Parameters
    ----------
    plan : Plan
    array : Array
        Of as many dies.
    costs : Costs
    slow : dict of int to float, optional
        Dies whose tasks take longer by a factor, beside the array's speeds.
    ways : Ways, optional
        The array's, if they are known.
    overlap : bool
        Whether reductions run beside what follows; else a die goes on when its reduction is done.
    form : str
        "exact", or "published": :class:`PublishedStep`.

    Raises
    ------
    UserError
        If the array has another number of dies, or a die that is slow does not exist.
    """
    if plan.dies != array.dies:
        raise UserError(f"the plan is for {plan.dies} dies, but array {array.name!r} has {array.dies}; choose an array "
                        "of as many, or plan again with `plinth plan --array`")
    speeds = [float(speed) for speed in array.relative_speeds]
    for die, factor in (slow or {}).items():
        if not 0 <= die < array.dies:
            raise UserError(f"die {die} cannot be slow: array {array.name!r} has dies 0 to {array.dies - 1}")
        speeds[die] /= factor
    ways = ways or Ways(array)
    hertz = float(array.clock_mhz * 1_000_000)
    machine = Machine(
        dies=tuple(Die(words_per_second=costs.memory, vaults=VAULTS, speed=speed) for speed in speeds),
        links=tuple(Link(name=name, words_per_second=rate * hertz)
                    for name, rate in zip(ways.names, ways.rates.tolist(), strict=True)))
    made = (PublishedStep if form == "published" else Step)(plan, array, costs, ways, overlap)
    made.run()
    words = sum(one.words for one in plan.transfers) + sum(one.words for one in plan.reductions)
    return Workload(machine, made.activities, words)


class Step:
    """Collects a step's tasks in program order; words as the dies move them."""

    def __init__(self, plan: Plan, array: Array, costs: Costs, ways: Ways, overlap: bool) -> None:
        self.plan, self.graph, self.costs, self.ways = plan, plan.graph, costs, ways
        self.levels, self.dies, self.batch = plan.levels, plan.dies, plan.batch
        self.layouts = plan.layouts
        self.overlap = overlap
        self.second = 1 / float(array.clock_mhz * 1_000_000)
        self.hop = array.link_latency
        self.pieces = max(1, min(STRIPS, MOST_PIECES // (self.dies * len(self.graph.nodes))))
        self.activities: list[Activity] = []
        self.maps: dict[int, Ready] = {}
        self.errors: dict[int, Ready] = {}
        #: When the gradients of embeddings have been filled with zeros.
        self.cleared: dict[str, Ready] = {}
        #: When matrix engines that read numbers of 16 bits have their copies of weights, by node.
        self.operands: dict[int, Ready] = {}

    def run(self) -> None:
        """All of a step."""
        if self.costs.narrow:
            for number, node in enumerate(self.graph.nodes):
                if node.weighted and node.macs:
                    self._copy_weights(number, node)
        for number, node in enumerate(self.graph.nodes):
            self._forward(number, node)
        for number in range(len(self.graph.nodes) - 2, -1, -1):
            self._backward(number, self.graph.nodes[number])

    # Sizes.

    def _size(self, region: Region, channels: int) -> tuple[Integers, Integers]:
        """Samples and channels of every die."""
        (low, high), (first, last) = (bounds(self.batch, region.batch, self.levels),
                                      bounds(channels, region.channels, self.levels))
        return high - low, last - first

    def _parts(self, node: Node, here: Layout) -> list[Part]:
        samples, outputs = self._size(here.output, node.output_channels)
        _, inputs = self._size(here.input, node.input_channels)
        return [Part(*one) for one in zip(samples.tolist(), inputs.tolist(), outputs.tolist(), strict=True)]

    # Tasks.

    def _tasks(self, name: str, die: int, engine: str, costs: Sequence[Cost], ready: list[tuple[Wait, ...]],
               more: tuple[Wait, ...] = ()) -> list[tuple[Wait, ...]]:
        """Pieces on an engine of a die, each behind what it needs; what there is of them then."""
        found = []
        for place, cost in enumerate(costs):
            waits = ready[-(-(place + 1) * len(ready) // len(costs)) - 1] + more
            if not cost:
                found.append(waits)
                continue
            label = f"{name}.{place}@{die}" if len(costs) > 1 else f"{name}@{die}"
            self.activities.append(Task(
                name=label, die=die, engine=engine, seconds=cost.seconds, latency=cost.latency, words=cost.words,
                waits=waits, adds=cost.adds, multiplies=cost.multiplies, sram_words=cost.sram_words))
            found.append((Wait(label, 1, self.costs.issue),))
        return found

    def _matrix(self, node: Node, direction: str, parts: Sequence[Part], ready: Ready) -> Ready:
        name = f"{node.name} {direction}"
        return [self._tasks(name, die, "matrix", self.costs.products(direction, node, part, self.pieces), ready[die])
                for die, part in enumerate(parts)]

    def _copy_weights(self, number: int, node: Node) -> None:
        """Copies of a node's weights on every die."""
        self.operands[number] = found = self._start()
        for die, part in enumerate(self._parts(node, self.layouts[number])):
            product = Product.of(FPROP, node, part.samples, part.inputs, part.outputs)
            if not product.empty:
                cost = self.costs.narrowed(product.weights // product.outputs, product.outputs)
                found[die] = self._tasks(f"{node.name} copy", die, "vector", [cost], [()])

    def _rows(self, name: str, node: Node, parts: Sequence[Part], ready: Ready, *, added: bool) -> Ready:
        """Rows of an embedding on every die."""
        return [self._tasks(name, die, "transfer", [self.costs.rows(
            part.samples * node.output_positions, part.outputs, added * unlike(node.input_channels, part.inputs))],
            ready[die])
                for die, part in enumerate(parts)]

    def _gather(self, node: Node, parts: Sequence[Part]) -> Ready:
        """fprop of an embedding; beside it zeros fill the gradient."""
        self.cleared[node.name] = [
            self._tasks(f"{node.name} zeros", die, "vector", [self.costs.cleared(part.inputs * part.outputs)], [()])
            for die, part in enumerate(parts)]
        return self._rows(f"{node.name} {FPROP}", node, parts, self._start(), added=False)

    def _scatter(self, node: Node, parts: Sequence[Part], error: Ready) -> Ready:
        """updateGrad of an embedding."""
        return self._rows(f"{node.name} {UPDATE}", node, parts, _both(error, self.cleared[node.name]), added=True)

    def _vector(self, name: str, stages: Sequence[Stage], region: Region, channels: int, ready: Ready) -> Ready:
        """Vector work on every die's part of a region."""
        samples, width = self._size(region, channels)
        return [self._tasks(name, die, "vector", self.costs.stages(stages, one, two, self.pieces), ready[die])
                for die, (one, two) in enumerate(zip(samples.tolist(), width.tolist(), strict=True))]

    def _sums(self, sources: int, most: int, positions: int) -> tuple[list[Stage], int]:
        """Programs that add up maps until at most so many are left, and how many are."""
        found = []
        while sources > most:
            taken = min(VECTOR_LOADS, sources)
            found.append(Stage("sum", Work(taken, 1, wise=taken - 1), positions, taken))
            sources -= taken - 1
        return found, sources

    # Flows.

    def _move(self, name: str, source: Region, target: Region, channels: int, elements: int, ready: Ready, *,
              added: bool) -> Ready:
        """A transfer between layers; dies that it does not concern go on as they are."""
        found, positions = list(ready), elements // channels
        groups = self.ways.exchange(source, target, self.batch, channels)
        if not groups:
            return found
        samples, width = self._size(source, channels)
        _, narrow = self._size(target, channels)
        low, high = bounds(self.batch, source.batch, self.levels)
        to_low, to_high = bounds(self.batch, target.batch, self.levels)
        first, last = bounds(channels, source.channels, self.levels)
        to_first, to_last = bounds(channels, target.channels, self.levels)
        own = (np.maximum(np.minimum(high, to_high) - np.maximum(low, to_low), 0)
               * np.maximum(np.minimum(last, to_last) - np.maximum(first, to_first), 0))
        for number, group in enumerate(groups):
            die = int(group.dies[0])
            kept = own[group.dies] * (0 if added else 1)
            most = float((group.sent + kept).max()) * positions
            tile = max(1, int(min(width[group.dies].max(), narrow[group.dies].max())))
            seconds, packets = self.costs.copies(int(samples[die]) * positions, tile, most, group.hops)
            received = group.received * positions * self.costs.added if added else 0.0
            label = f"{name} {number}" if len(groups) > 1 else name
            self._flow(label, group, positions * packets, ready, seconds=seconds,
                       latency=self.costs.arrival + max(0, group.hops * self.hop - LINK_LATENCY) * self.second,
                       die_words=(group.sent + group.received + 2 * kept) * positions + received,
                       adds=float(group.received.sum()) * positions if added and self.costs.added else 0.0)
            there: list[tuple[Wait, ...]] = [(Wait(label),)]
            for one in group.dies.tolist():
                found[one] = there
        return found

    def _flow(self, name: str, group: Group, scale: float, ready: Ready, *, seconds: float, latency: float,
              die_words: NDArray[np.float64], adds: float) -> None:
        waits = dict.fromkeys(wait for die in group.dies.tolist() for wait in ready[die][-1])
        self.activities.append(Flow(
            name=name, links=group.links, words=group.words * scale, seconds=seconds, latency=latency,
            dies=group.dies, die_words=die_words, waits=tuple(waits), adds=adds))

    # Passes.

    def _start(self) -> Ready:
        return [[()] for _ in range(self.dies)]

    def _input(self, number: int) -> Ready:
        """What a node reads: the network's input, the homes of its producers, or copies."""
        found: Ready | None = None
        for edge in self.graph.inputs[number]:
            one = self.graph.edges[edge]
            ready = self._to_reader(edge, f"{self.graph.nodes[one.producer].name} to {self.graph.nodes[number].name}",
                                    self.maps[one.producer])
            found = ready if found is None else _both(found, ready)
        return found or self._start()

    def _forward(self, number: int, node: Node) -> None:
        here, ready = self.layouts[number], self._input(number)
        if node.kind == LOSS:
            edge = self.graph.inputs[number][0]
            before = self.graph.edges[edge].producer
            fused = is_fused(self.graph, before, self.layouts[before])
            work = loss_work(node, self.graph.nodes[before], fused, self.costs.narrow)
            stage = Stage("loss", work, loss_rows(node), 3, 3)
            self.errors[edge] = self._vector(node.name, [stage], here.input, node.input_elements // loss_rows(node),
                                             ready)
            return
        sources = max(1, len(self.graph.inputs[number]))
        if node.weighted:
            parts = self._parts(node, here)
            if number in self.operands:
                ready = _behind(ready, self.operands[number])
            ready = self._gather(node, parts) if node.gathers else self._matrix(node, FPROP, parts, ready)
            sources = 1
            if here.mp:
                ready = self._to_home(number, f"{node.name} sums", ready)
                sources = 1 << len(here.mp)
        if not is_fused(self.graph, number, here):
            sums, sources = self._sums(sources, VECTOR_LOADS - (node.bias > 0), node.output_positions)
            stages = forward_stages(node, sources, self.costs.narrow)
            ready = self._vector(f"{node.name} forward", [*sums, *stages], here.home, node.output_channels, ready)
        self.maps[number] = ready

    def _map_error(self, number: int, node: Node) -> tuple[list[Stage], Ready]:
        """Error of a node's map, at home, and what adds up its sources."""
        found, sources, positions = self._start(), 0, node.output_positions
        for edge in self.graph.outputs[number]:
            one = self.graph.edges[edge]
            error = self._from_reader(edge, f"error of {node.name} from {self.graph.nodes[one.consumer].name}",
                                      self.errors[edge])
            found = _both(found, error) if sources else error
            sources += 1 << len(self.layouts[one.consumer].op)
            positions = one.elements // one.channels
        return self._sums(sources, 1, positions)[0], found

    def _backward(self, number: int, node: Node) -> None:
        here, channels = self.layouts[number], node.output_channels
        bias = node.bias > 0
        if is_fused(self.graph, number, here):
            error = self.errors[self.graph.outputs[number][0]]
        else:
            sums, error = self._map_error(number, node)
            stages = backward_stages(node, bias and not here.mp, self.costs.narrow)
            error = self._vector(f"{node.name} backward", [*sums, *stages], here.home, channels, error)
        if not node.weighted:
            if node.kind == "join":
                stage = Stage("forward", Work(1, 1, wise=1), node.output_positions, 1)
                error = self._vector(f"{node.name} mean", [stage], here.home, channels, error)
            for edge in self.graph.inputs[number]:
                self.errors[edge] = error
            return
        biased = error
        if here.mp:
            error = self._from_home(number, f"error of {node.name} to its dies", error)
            if bias:
                biased = self._vector(f"{node.name} bias", [bias_stage(node)], here.output, channels, error)
        parts = self._parts(node, here)
        self._input_error(number, parts, error)
        whole: Ready = [[pieces[-1]] for pieces in error]
        done = self._scatter(node, parts, whole) if node.gathers else self._matrix(node, UPDATE, parts, whole)
        reduced = self._reduce(number, f"{node.name} gradient", _both(done, biased))
        if not self.overlap:
            for edge in self.graph.inputs[number]:
                self.errors[edge] = _both(self.errors[edge], reduced)

    def _input_error(self, number: int, parts: Sequence[Part], error: Ready) -> None:
        """Errors of what a node reads; nobody needs that of the network's input."""
        for edge in self.graph.inputs[number]:
            self.errors[edge] = self._matrix(self.graph.nodes[number], BPROP, parts, error)

    # What moves when.

    def _to_home(self, number: int, name: str, ready: Ready) -> Ready:
        """Partial sums of a node to their homes."""
        node, here = self.graph.nodes[number], self.layouts[number]
        return self._move(name, here.output, here.home, node.output_channels, node.raw_elements, ready, added=True)

    def _to_reader(self, edge: int, name: str, ready: Ready) -> Ready:
        """A map from its homes to a consumer."""
        one = self.graph.edges[edge]
        return self._move(name, self.layouts[one.producer].home, self.layouts[one.consumer].input, one.channels,
                          one.elements, ready, added=False)

    def _from_reader(self, edge: int, name: str, ready: Ready) -> Ready:
        """Errors of what a consumer read, to their homes."""
        one = self.graph.edges[edge]
        reader = self.layouts[one.consumer]
        return self._move(name, reader.input, self.layouts[one.producer].home, one.channels, one.elements, ready,
                          added=bool(reader.op))

    def _from_home(self, number: int, name: str, ready: Ready) -> Ready:
        """Errors of a node from their homes."""
        node, here = self.graph.nodes[number], self.layouts[number]
        return self._move(name, here.home, here.output, node.output_channels, node.raw_elements, ready, added=False)

    def _reduce(self, number: int, name: str, ready: Ready) -> Ready:
        """Rings of a weight gradient, and the update; when it is done."""
        node, here, found = self.graph.nodes[number], self.layouts[number], list(ready)
        weights, bias = partition.weight_words(node, here, self.levels)
        words = weights + bias
        if not here.dp:
            for die, count in enumerate(words.tolist()):
                found[die] = self._tasks(name, die, "collective", [self.costs.update(count)], ready[die])
            return found
        members = 1 << len(here.dp)
        for place, group in enumerate(rings := self.ways.ring(here.dp)):
            count = int(words[group.dies[0]])
            if count:
                added = count * (members - 1)
                label = f"{name} {place}" if len(rings) > 1 else name
                self._flow(label, group, count, ready, seconds=0.0,
                           latency=self.costs.ring(members, group.hops),
                           die_words=(group.sent + group.received) * count + self.costs.added * added / members,
                           adds=float(added))
                for die in group.dies.tolist():
                    found[die] = [(Wait(label),)]
        return found


class PublishedStep(Step):
    """Words as HyPar's Tables 1 and 2 count them: at each level each die exchanges its share with its partner in the
    other half, both ways at once, the lowest level first; what is summed is added by both. The first layer's error is
    computed, too, as HyPar counts three products of every layer."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.words = PublishedWords(self.graph, self.batch)
        self.splits = self.plan.splits
        self.words.total_bytes(self.splits)

    def _counts(self, number: int, level: int) -> tuple[int, int]:
        above = self.splits[number][:level]
        return above.count(DP), above.count(MP)

    def _partners(self, name: str, elements: Callable[[int], float], ready: Ready, *, added: bool) -> Ready:
        """Exchanges at all levels; ``elements`` of the two halves of a group together, by level."""
        found = list(ready)
        for level in range(self.levels - 1, -1, -1):
            words = elements(level) / (2 << (self.levels - 1 - level))
            for place, group in enumerate(self.ways.partners(level) if words else ()):
                label = f"{name} H{level + 1} {place}"
                self._flow(label, group, words, found, seconds=0.0, latency=self.hop * group.hops * self.second,
                           die_words=(group.sent + group.received * (1 + added * self.costs.added)) * words,
                           adds=added * float(group.received.sum()) * words)
                for die in group.dies.tolist():
                    found[die] = [(Wait(label),)]
        return found

    def _sums(self, sources: int, most: int, positions: int) -> tuple[list[Stage], int]:
        return [], 1

    def _input_error(self, number: int, parts: Sequence[Part], error: Ready) -> None:
        if self.graph.inputs[number]:
            super()._input_error(number, parts, error)
        else:
            self._matrix(self.graph.nodes[number], BPROP, parts, error)

    def _sum_elements(self, number: int, split: str) -> Callable[[int], float]:
        """Table 1, where a layer is split in one way."""
        return lambda level: (self.words.node_elements(number, split, *self._counts(number, level))
                              if self.splits[number][level] == split else 0.0)

    def _to_home(self, number: int, name: str, ready: Ready) -> Ready:
        return self._partners(name, self._sum_elements(number, MP), ready, added=True)

    def _edge(self, edge: int, name: str, ready: Ready) -> Ready:
        """Half of Table 2: the map, or its error."""
        one = self.graph.edges[edge]
        return self._partners(name, lambda level: self.words.edge_elements(
            edge, self.splits[one.producer][level], self.splits[one.consumer][level],
            self._counts(one.producer, level), self._counts(one.consumer, level)) / 2, ready, added=False)

    def _to_reader(self, edge: int, name: str, ready: Ready) -> Ready:
        return self._edge(edge, name, ready)

    def _from_reader(self, edge: int, name: str, ready: Ready) -> Ready:
        return self._edge(edge, name, ready)

    def _from_home(self, number: int, name: str, ready: Ready) -> Ready:
        return ready

    def _reduce(self, number: int, name: str, ready: Ready) -> Ready:
        return self._partners(name, self._sum_elements(number, DP), ready, added=True)


def _behind(one: Ready, two: Ready) -> Ready:
    """Pieces of one thing, each with the whole of another."""
    return [[tuple(dict.fromkeys(piece + theirs[-1])) for piece in mine] for mine, theirs in zip(one, two, strict=True)]


def _both(one: Ready, two: Ready) -> Ready:
    """When two things are there, as a whole."""
    return [[tuple(dict.fromkeys(mine[-1] + theirs[-1]))] for mine, theirs in zip(one, two, strict=True)]
