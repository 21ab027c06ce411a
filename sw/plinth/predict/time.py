"""Predicted time of a training step: compute, and the communication that it cannot hide.

What a step takes is walked through task by task (:mod:`schedule`). Planners that look at thousands of plans search by
an estimate, a sum of what each node and edge costs, and decide by the walk. The estimate lets tasks follow each other,
and the slowest die decides each:

    fprop   for every node: the product, beside it bias and activation; reduce to the owners; copy to the readers
    bprop   backwards: reduce to the owner, mask, copy the error; the product for the error of the input; then that
            for the weights' gradient, whose ring reduction runs beside everything that follows, one after the other
    step    until the last product and the last reduction have finished

There tile transfers between layers hide behind nothing. Cycles of tasks are those of
:mod:`plinth.machine`, divided by the die's speed; cycles of words those of :mod:`links`.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from plinth.array.array import Array
from plinth.machine.copies import unlike
from plinth.machine.die import DieCycles
from plinth.machine.host import machine_of
from plinth.machine.products import DIRECTIONS, Product
from plinth.machine.vector import BACKWARD, FORWARD, SUM, ProgramWork
from plinth.partition.axes import CHANNELS, SAMPLES, Region
from plinth.partition.blocks import coded_exchanges, unpredictable
from plinth.partition.cuts import bounds, parts
from plinth.partition.exchanges import ExchangeDefinition, edge_exchange, sum_exchange, tile_exchange
from plinth.partition.graph import DP, EP, MP, Node, PlanGraph
from plinth.partition.groups import RING
from plinth.partition.regions import Layout, Partition, Splits, has_elements, layout, tile_levels, weight_words
from plinth.partition.ring_order import along_links
from plinth.predict.links import Links
from plinth.predict.schedule import StepSchedule
from plinth.predict.tasks import node_product
from plinth.predict.transforms import node_transforms
from plinth.predict.updates import update_cycles
from plinth.sharding import Copies, Touched
from plinth.step.predicted_gather import odd_channels
from plinth.step.sums import LEFT, additions
from plinth.update.rule import PLAIN, UpdateRule

Vector = tuple[str, ...]
#: What cycles of an exchange follow from: where words are and where they go, elements of a sample, and channels.
Moved = tuple[Region, Region, int, int]


@dataclass(frozen=True)
class Compute:
    """Cycles of a node on the slowest die."""

    forward: float
    #: Mask and sums of the error.
    backward: float
    input_error: float
    update: float


@dataclass(frozen=True)
class StepCycles:
    """Predicted cycles of a training step, in parts that add up."""

    compute: float
    #: Transfers between layers.
    transfers: float
    #: Weight reductions that nothing hides.
    exposed: float
    #: All weight reductions.
    reductions: float

    @property
    def cycles(self) -> float:
        """Predicted cycles of the whole step."""
        return self.compute + self.transfers + self.exposed


def _numbered(shapes: Iterable[Hashable]) -> list[int]:
    """Numbers of shapes, equal for equal ones."""
    known: dict[Hashable, int] = {}
    return [known.setdefault(shape, len(known)) for shape in shapes]


class StepTime:
    """Predicts steps of one network on one array; keeps what it has computed.

    ``progress``, if any, is called with the number of steps that were walked through task by task, after each.
    """

    def __init__(self, graph: PlanGraph, batch: int, array: Array, die: DieCycles | None = None,
                 rule: UpdateRule = PLAIN, links: Links | None = None,
                 progress: Callable[[int], object] | None = None, copies: Copies = (), touched: Touched = (),
                 micro_batches: int = 1) -> None:
        self.graph, self.batch, self.array, self.rule = graph, batch, array, rule
        self.machine = die or machine_of(array)
        self.links = links or Links(array)
        self.levels, self.factors = array.levels, array.factors
        self.schedule = StepSchedule(graph, batch, array, self.machine, self.links, rule, copies, touched,
                                     micro_batches)
        self._settings = copies, touched
        #: Predictions of other numbers of micro-batches, which know of each other.
        self._siblings = {micro_batches: self}
        self._steps: dict[tuple[Splits, Partition], StepCycles] = {}
        self._progress = progress
        self._speeds = tuple(map(float, array.relative_speeds))
        self._uneven = len(set(self._speeds)) > 1
        # What costs the same is computed once: numbers of nodes and edges of equal shape.
        inputs = [len(edges) for edges in graph.inputs]
        self._node_shape = _numbered(((replace(node, name=""), fed) for node, fed in
                                      zip(graph.nodes, inputs, strict=True)))
        #: Of each node, what works on the maps that it reads.
        self._fed = [tuple(epilogue.kind for edge in graph.feeds(number) if edge is not None
                           for epilogue in graph.nodes[graph.edges[edge].producer].epilogue)
                     for number in range(len(graph.nodes))]
        self._edge_shape = _numbered((edge.elements, edge.channels, graph.nodes[edge.producer].weighted,
                                      graph.nodes[edge.consumer].weighted) for edge in graph.edges)
        self._computes: dict[tuple[int, Vector], Compute] = {}
        self._rings: dict[tuple[int, Vector], float] = {}
        self._owns: dict[tuple[int, tuple[str, ...], Vector, Vector], float] = {}
        self._tile_cycles: dict[tuple[tuple[int, tuple[str, ...]], Layout], float] = {}
        self._betweens: dict[tuple[int, Vector, Vector, Vector], float] = {}
        self._moved: dict[Moved, float] = {}
        #: For each node, the edge and the consumer that its owner goes by.
        self.first = tuple(graph.edges[edges[0]].consumer if edges else -1 for edges in graph.outputs)
        self._whole = (DP,) * self.levels

    def with_micro_batches(self, count: int) -> "StepTime":
        """Predictions of steps whose batch goes in so many micro-batches; all else is as here."""
        if count not in self._siblings:
            copies, touched = self._settings
            time = StepTime(self.graph, self.batch, self.array, self.machine, self.rule, self.links, self._progress,
                            copies, touched, count)
            time._siblings = self._siblings
            self._siblings[count] = time
        return self._siblings[count]

    def owner_vector(self, splits: Splits, number: int) -> Vector:
        """Splits of the node that a node's owner goes by."""
        first = self.first[number]
        return splits[first] if first >= 0 else self._whole

    def _layout(self, number: int, vector: Vector, first: Vector, *others: Vector) -> Layout:
        node = self.graph.nodes[number]
        return layout(node.weighted, vector, first, node.free, tile_levels(vector, first, *others))

    def able(self, number: int, vector: Vector) -> bool:
        """Whether dies can do a node split so: each group of them has an element of its tiles, and where its gather is
        predicted they have as many channels as codes take."""
        node = self.graph.nodes[number]
        if not has_elements(node, vector, self.factors):
            return False
        if node.tiling is None or not node.tiling.rounds:
            return True
        here = self._layout(number, vector, self._whole)
        readers = (self.graph.nodes[self.graph.edges[edge].consumer] for edge in self.graph.outputs[number])
        asked = (node, *(reader for reader in readers if reader.junction))
        if all(unpredictable(asked_node, here, None, None) for asked_node in asked):
            return True
        counts = here.output.lengths(CHANNELS, node.output_channels, self.factors)
        return odd_channels(counts.tolist(), self.machine.parameters) is None

    def compute(self, number: int, vector: Vector) -> Compute:
        """Cycles of a node's tasks on the slowest die."""
        key = (self._node_shape[number], vector)
        compute = self._computes.get(key)
        if compute is None:
            compute = self._computes[key] = self._compute(number, vector)
        return compute

    def _compute(self, number: int, vector: Vector) -> Compute:
        node, factors, die = self.graph.nodes[number], self.factors, self.machine
        here = self._layout(number, vector, self._whole)
        low, high = here.input.bounds(SAMPLES, self.batch, factors)
        first, last = bounds(node.input_channels, here.mp, factors)
        start, stop = bounds(node.output_channels, here.op if node.weighted else here.mp, factors)
        owned_low, owned_high = here.owned.bounds(SAMPLES, self.batch, factors)
        sizes: dict[tuple[int, ...], float] = {}
        # First parts are the larger: of equally fast dies the first of those that have any has most.
        first_die = int((high - low).argmax())
        dies = slice(None) if self._uneven else slice(first_die, first_die + 1)
        for size, speed in zip(zip(*((end - begin)[dies].tolist() for begin, end in (
                (low, high), (first, last), (start, stop), (owned_low, owned_high))), strict=True), self._speeds[dies],
                strict=True):
            sizes[size] = min(sizes.get(size, speed), speed)
        raw = node.raw_elements // node.output_channels
        each = len(self.graph.inputs[number]) + len(node.repeated)
        several = node.weighted and bool(here.mp)
        adds = additions(parts(here.mp, factors), LEFT) if several else 0
        worst = [0.0] * 4
        for (samples, inputs, outputs, owner), speed in sizes.items():
            fprop = update = error = 0.0
            if node.tiling is not None:
                fprop, error, update = self._tiled(node, here, samples, inputs, outputs)
            elif node.weighted and node.macs:
                fprop, error, update = (die.product(node_product(direction, node, samples, inputs, outputs)).cycles[0]
                                        for direction in DIRECTIONS)
            elif node.gathers:
                fprop, update = (die.rows(samples * raw, outputs, pairs)[0]
                                 for pairs in (0.0, unlike(node.input_channels, inputs)))
            # Bias and activation are worked on beside the product, strip by strip; behind it where partial sums come
            # from other dies, which are added up first.
            times = max(1, each) if node.junction else 1
            finish = times * sum(die.vector(FORWARD, owner * raw, outputs))
            forward = fprop + finish + adds * sum(die.vector(SUM, owner * raw, outputs)) if several else max(
                fprop, finish)
            backward = times * sum(die.vector(BACKWARD, samples * raw, outputs))
            for place, cycles in enumerate((forward, max(0.0, backward - (error if each else 0)),
                                            error if each else 0.0, update)):
                worst[place] = max(worst[place], cycles / speed)
        return Compute(*worst)

    def _tiled(self, node: Node, here: Layout, samples: int, inputs: int, outputs: int) -> tuple[float, float, float]:
        """fprop, bprop and updateGrad of a Winograd layer on a die with some samples: its products, of all its
        cluster's, and its tiles."""
        assert node.tiling is not None
        cluster = parts(here.ep, self.factors)
        elements, tiles = -(-node.tiling.elements // cluster), samples * cluster * node.tiling.positions
        products = [elements * self.machine.product(Product(direction, tiles, inputs, outputs)).cycles[1]
                    for direction in DIRECTIONS]
        ins, outs = (node_transforms(self.machine.parameters, node, which, samples, channels)
                     for which, channels in ((False, inputs), (True, outputs)))
        if self.machine.parameters.packing > 1:
            # Tiles are made operands of 16 bits.
            narrow = ProgramWork(1, 1).packed(0, 1)
            products[:2] = (cycles + sum(self.machine.vector(narrow, elements * tiles, channels))
                            for cycles, channels in zip(products, (inputs, outputs), strict=False))
        return products[0] + ins + outs, products[1] + ins + outs, products[2]

    def held(self, number: int, vector: Vector) -> int:
        """About how many words of memory a node takes on the fullest die: its weights and their gradient, what it reads
        and what it makes. Enough to tell which splits take less."""
        node, factors = self.graph.nodes[number], self.factors
        here = self._layout(number, vector, self._whole)
        weights = int(np.add(*weight_words(node, here, factors)).max()) if node.weighted else 0
        samples = -(-self.batch // parts(here.dp + here.ep, factors))
        read = sum(self.graph.edges[edge].elements for edge in self.graph.inputs[number]) or node.input_channels
        return 2 * weights + samples * (read // parts(here.mp, factors)
                                        + node.raw_elements // parts(here.op if node.weighted else here.mp, factors))

    def ring(self, number: int, vector: Vector) -> float:
        """Cycles of a node's weight reduction, and of the update behind it."""
        key = (self._node_shape[number], vector)
        cycles = self._rings.get(key)
        if cycles is None:
            node, here = self.graph.nodes[number], self._layout(number, vector, self._whole)
            cycles = 0.0
            if node.weighted:
                weights, bias = weight_words(node, here, self.factors)
                rings, words = along_links(self.array, here.groups(RING, self.factors)), int((weights + bias).max())
                cycles = self.links.ring(rings, words) + update_cycles(self.machine, self.rule, -(-words // rings.size))
            self._rings[key] = cycles
        return cycles

    def own(self, number: int, vector: Vector, first: Vector) -> float:
        """Cycles in which a node's partial sums go to their owners, or its errors from there, and its tiles to those
        that have their elements; once each way."""
        if MP not in vector and EP not in vector:
            return 0.0
        key = (self._node_shape[number], self._fed[number], vector, first)
        total = self._owns.get(key)
        if total is None:
            node = self.graph.nodes[number]
            total = 0.0
            if node.weighted:
                here = self._layout(number, vector, first)
                total = self._there_and_back((here.output, here.owned, node.raw_elements, node.output_channels),
                                             lambda: sum_exchange(node, here, "fprop"))
                if here.ep:
                    # Tiles do not depend on the output's owners.
                    tiles = key[:2], replace(here, owned=here.output)
                    if tiles not in self._tile_cycles:
                        self._tile_cycles[tiles] = sum(self._tiles(number, here))
                    total += self._tile_cycles[tiles]
            self._owns[key] = total
        return total

    def _tiles(self, number: int, here: Layout) -> Iterator[float]:
        """Cycles in which a layer's tiles go to those that have their elements, and elements back: those of whole
        tiles, times the share of their words that moves in codes or by lines."""
        node, factors = self.graph.nodes[number], self.factors
        assert node.tiling is not None
        coded = coded_exchanges(self.graph, here, number, None, None)
        for phase, back in ("fprop", "bprop"), ("bprop", "fprop"):
            whole = tile_exchange(node, here, phase, "scatter", factors).flow(self.batch)
            # What a scatter sends, inputs or errors of outputs, comes back as their other half; nobody needs errors of
            # the network's inputs.
            for (way, kind), cycles in zip(((phase, "scatter"), (back, "gather")), self.links.exchanges(whole),
                                           strict=True):
                if (way, kind) == ("bprop", "gather") and not self.graph.inputs[number]:
                    continue
                yield cycles * tile_exchange(node, here, way, kind, factors, coded, self.array).share(node.tiling)
        if node.bias and node.free:
            yield self.links.exchanges(tile_exchange(node, here, "bprop", "bias", factors).flow(self.batch))[0]

    def _there_and_back(self, key: Moved, define: Callable[[], ExchangeDefinition]) -> float:
        """Cycles in which an exchange's words go, and as many come back; it is defined if none like it was before."""
        cycles = self._moved.get(key)
        if cycles is None:
            cycles = self._moved[key] = sum(self.links.exchanges(define().flow(self.batch)))
        return cycles

    def between(self, edge: int, vector: Vector, first: Vector, reader: Vector) -> float:
        """Cycles in which an edge's map goes to its reader, and the error comes back."""
        key = (self._edge_shape[edge], vector, first, reader)
        cycles = self._betweens.get(key)
        if cycles is None:
            map_edge = self.graph.edges[edge]
            owner = self._layout(map_edge.producer, vector, first, reader).owned
            need = self._layout(map_edge.consumer, reader, self._whole, vector, first).input
            cycles = self._betweens[key] = self._there_and_back(
                (owner, need, map_edge.elements, map_edge.channels),
                lambda: edge_exchange(self.graph, edge, owner, need, "fprop"))
        return cycles

    def step(self, splits: Splits, lists: Partition = ()) -> StepCycles:
        """A step under the given splits, and lists if there are any, task by task."""
        step_cycles = self._steps.get((splits, lists))
        if step_cycles is None:
            times = self.schedule.step(splits, lists)
            transfers = min(times.transfer, times.cycles - times.exposed)
            step_cycles = self._steps[splits, lists] = StepCycles(
                compute=times.cycles - times.exposed - transfers, transfers=transfers, exposed=times.exposed,
                reductions=times.collective)
            if self._progress is not None:
                self._progress(len(self._steps))
        return step_cycles

    def estimate(self, splits: Splits) -> float:
        """Cycles of a step, as a sum that is quick to compute."""
        owners = [self.owner_vector(splits, number) for number in range(len(splits))]
        own = [self.own(number, vector, owner)
               for number, (vector, owner) in enumerate(zip(splits, owners, strict=True))]
        # Forwards and backwards the same words move; half of them stand in either pass.
        later = [words / 2 for words in own]
        for number, edge in enumerate(self.graph.edges):
            later[edge.producer] += self.between(number, splits[edge.producer], owners[edge.producer],
                                                 splits[edge.consumer]) / 2
        transfers = 2 * sum(later)
        computes = [self.compute(number, vector) for number, vector in enumerate(splits)]
        time = sum(mine.forward for mine in computes) + transfers / 2
        done = 0.0
        for number in range(len(splits) - 1, -1, -1):
            mine = computes[number]
            time += later[number] + mine.backward + mine.input_error + mine.update
            ring = self.ring(number, splits[number])
            if ring:
                done = max(done, time) + ring
        return max(done, time)

    def cycles(self, splits: Splits) -> float:
        """Cycles of a step."""
        return self.step(splits).cycles

    def seconds(self, splits: Splits, lists: Partition = ()) -> float:
        """Seconds of a step."""
        return self.step(splits, lists).cycles / float(self.array.clock_mhz * 1_000_000)
