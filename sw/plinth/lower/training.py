"""Lowers the step of any plan to the task graphs of its dies: addresses, descriptors, counters.

What a step does, and in which order, is said once in :mod:`plinth.step.step`. Places get the same addresses on all
dies; every engine finishes its tasks in order, so that a task waits for counters of its die's engines, and for one that
each exchange has of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import prod
from typing import Any, NamedTuple

from plinth.array.array import AT_LINKS, BUILT, MAXIMUM_PORTS, Array, ring
from plinth.buffers import Buffer
from plinth.driver.program import Program
from plinth.errors import UserError
from plinth.lower.builder import GraphBuilder
from plinth.lower.codes import LevelPlace, decode_body, encode_body, predict_body
from plinth.lower.lookups import CountPlace
from plinth.lower.places import HostView, host_view
from plinth.lower.program import assemble, group_body, ring_setup, route_setup
from plinth.lower.stages import check_network
from plinth.lower.traffic import check_circles
from plinth.lower.transforms import bodies as transform_bodies
from plinth.lower.transforms import line_body, spread
from plinth.machine.convolution import FeatureMap
from plinth.machine.products import matrix_tasks
from plinth.network.layers import MeanPool
from plinth.network.network import Network
from plinth.partition.axes import SAMPLES
from plinth.partition.blocks import sum_end, unpredictable
from plinth.partition.groups import ProcessGroups
from plinth.partition.rounds import meets_itself
from plinth.partition.stages import stage_levels
from plinth.plan.plan import Plan
from plinth.sharding import Sharding
from plinth.step import tasks as step_tasks
from plinth.step.build import step_of
from plinth.step.copies import refitted
from plinth.step.layers.kinds import node_kind
from plinth.step.step import Step
from plinth.step.tasks import (
    BPROP,
    FPROP,
    UPDATE,
    Arrivals,
    CodePart,
    Decode,
    Encode,
    GroupRow,
    LineTransform,
    LookupCopy,
    Multiplication,
    Optimisation,
    Phase,
    Predict,
    Reduction,
    RowsByNumber,
    Signal,
    SkipPart,
    TileCopy,
    TransformTiles,
    Vector,
)
from plinth.step.vector import Move, VectorProgram
from plinth.update.kinds import LAWS
from plinth.update.numbers import epsilon_word
from plinth.update.rule import UpdateRule
from plinth_hw.isa.formats import Fixed, factor_word
from plinth_hw.isa.limits import field_bits
from plinth_hw.isa.operations import (
    CollectiveOperation,
    Engine,
    OptimiserOperation,
    Traffic,
    TransferOperation,
    UpdateOperation,
    VectorOperation,
)
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.registers import BASE_COUNT
from plinth_hw.isa.update_bodies import CollectiveBody
from plinth_hw.isa.vector_body import VECTOR_LOADS

#: What the optimiser engine calls rules, and collectives call phases.
OPTIMISER_OPERATIONS = dict(zip((kind for kind, law in LAWS.items() if law.optimised), OptimiserOperation, strict=True))
COLLECTIVE_OPERATIONS = {Phase.UPDATE: CollectiveOperation.ALL_REDUCE, Phase.SUM: CollectiveOperation.REDUCE_SCATTER,
                         Phase.GATHER: CollectiveOperation.ALL_GATHER}
#: Numbers of messages, which follow each other around.
MESSAGES = 1 << field_bits(CollectiveBody, "message")
#: Base registers that move from step to step: the first input's, targets', further inputs'.
INPUT_BASE = 1
TARGET_BASE = 2
FURTHER_BASE = 3


@dataclass(frozen=True, kw_only=True)
class TrainingProgram(Program, HostView):
    """A training step with the tensors that the host reads and writes, at their addresses."""


def lower_training(network: Network, plan: Plan, parameters: DieParameters, *, rule: UpdateRule, steps: int,
                   memory_words: int) -> TrainingProgram:
    """The graphs of a training step on every die of the plan.

    Parameters
    ----------
    rule : UpdateRule
        How weights are updated; its numbers are rounded to what dies hold.
    steps : int
        Inputs and targets of so many batches lie in memory at once, and base registers step through them.
    memory_words : int
        Memory of a die.

    Raises
    ------
    UserError
        If a layer or the plan cannot be lowered, dies do not hold a number of the rule, or the network does not fit
        the die's memory, its vector scratchpad or its counters.
    """
    check_network(network)
    _check(plan, parameters)
    _check_engines(plan, parameters)
    return lower_step(step_of(trained_sharding(plan, parameters, rule), parameters), steps, memory_words)


def trained_sharding(plan: Plan, parameters: DieParameters, rule: UpdateRule) -> Sharding:
    """The sharding of a plan as dies of some parameters train by it, with the numbers of the rule; gradients of other
    dies than the plan's go in as many pieces as suit them."""
    where = plan.hardware or ring(plan.dies)
    sharding = replace(plan.sharding, array=where, rule=rule)
    return sharding if where.preset == parameters.name else replace(sharding, copies=refitted(sharding, parameters))


def lower_step(step: Step, steps: int, memory_words: int) -> TrainingProgram:
    """The graphs of a step that stands, as :func:`lower_training`."""
    return _Lowering(step, steps).program(memory_words)


def check_array(array: Array) -> None:
    """Refuse an array that no dies can form.

    Raises
    ------
    UserError
        If it has switches without dies, dies of more ports than a router has, or codes that are a model alone.
    """
    if array.codes == AT_LINKS:
        raise UserError(f"array {array.name!r} has codes: {AT_LINKS}, a model that no die follows: it can be planned "
                        f"for and simulated, not lowered; choose codes: {BUILT}")
    if array.switches:
        raise UserError(f"array {array.name!r} has topology {array.topology}, whose switches have no dies: it can be "
                        "planned for and simulated, not lowered; choose a ring, a torus or a full array")
    if array.ports > MAXIMUM_PORTS:
        raise UserError(f"dies of array {array.name!r} have {array.ports} ports, and a router at most {MAXIMUM_PORTS}: "
                        "it can be planned for and simulated, not lowered; choose fewer groups")


def _check(plan: Plan, parameters: DieParameters) -> None:
    """Refuse what has no lowering."""
    for node in plan.graph.nodes:
        why = node_kind(node).fp32_reason
        if why and parameters.number_format != "fp32":
            raise UserError(f"layer {node.name!r} ({node.kind}) cannot be lowered to dies of format "
                            f"{parameters.number_format}, {why}: it can be planned for and simulated; choose format="
                            "fp32")
    if parameters.packing == 1:
        return
    if stage_levels(plan.splits[0]):
        raise UserError("a plan with pipeline stages cannot be lowered with operands of 16 bits: their maps do not "
                        "move between dies; choose format=fp32, or planner data")
    for node, splits in zip(plan.graph.nodes, plan.splits, strict=True):
        allowed = node_kind(node).narrow_splits
        if allowed is None or not set(splits) <= set(allowed):
            raise UserError(f"layer {node.name!r} cannot be lowered with operands of 16 bits: it is neither "
                            "convolution nor fully connected layer, or its batch is not split, nor elements of its "
                            "tiles; choose format=fp32 or planner data")
        flattened = node.kind == "dense" and node.input_elements > node.input_channels
        if (node.pools and node.output_channels % 2) or (flattened and node.input_channels % 2):
            raise UserError(f"layer {node.name!r} cannot be lowered with operands of 16 bits: a map that is pooled or "
                            "flattened needs an even number of channels; choose format=fp32")
        for behind in node.epilogue:
            pool = behind.layer
            if isinstance(pool, MeanPool) and behind.output[1] > 1 and pool.kernel[1] > max(
                    VECTOR_LOADS, pool.stride[1]):
                raise UserError(f"layer {behind.name!r} cannot be lowered with operands of 16 bits: it adds up "
                                f"windows of {pool.kernel[1]} columns that overlap; choose format=fp32")
    if len({(here.input.cuts(SAMPLES), here.owners) for here in plan.layouts}) > 1:
        raise UserError("layers whose samples are not cut alike, or that other dies own, cannot be lowered with "
                        "operands of 16 bits: maps of 16 bits do not move between dies; choose format=fp32, or give "
                        "all layers and the loss the same list of samples and the same owners, and split elements of "
                        "tiles at the same levels")


def _check_engines(plan: Plan, parameters: DieParameters) -> None:
    """Refuse what dies have no engine for."""
    if plan.dies > 1 and Engine.COLLECTIVE not in parameters.engines:
        raise UserError(f"dies of preset {parameters.name!r} have no collective engine, so that each trains alone; "
                        "choose dies=1, or a preset that has one, such as fpga-demo")


class _Lowered(NamedTuple):
    """A task on its way to descriptors of a die's graph."""

    die: int
    builder: GraphBuilder
    task: step_tasks.Task

    def add(self, operation: Any, body: Mapping[str, Any], *, after: Sequence[tuple[int, int]] = (),
            remote: tuple[int, int] | None = None) -> None:
        """Append the only descriptor of the task, as :meth:`GraphBuilder.add` does."""
        task = self.task
        self.builder.add(task.name, task.engine, operation, body, reads=task.reads, writes=task.writes, after=after,
                         remote=remote)

    def add_parts(self, names: Sequence[str], operation: Any, bodies: Sequence[Mapping[str, Any]]) -> None:
        """Append several, which do not wait for each other, as :meth:`GraphBuilder.add_parts` does."""
        task = self.task
        self.builder.add_parts(names, task.engine, operation, bodies, reads=task.reads, writes=task.writes)


class _Lowering:
    """One step on its way to descriptors."""

    def __init__(self, step: Step, steps: int):
        # Descriptors that say how many rows a batch looks up are those of one batch.
        self.step, self.steps, self.parameters = step, 1 if step.lookups else steps, step.parameters
        for rings in step.groups:
            self._check_ways(rings)
        if len(Engine) + step.exchanges > self.parameters.counters:
            raise UserError(f"the plan needs more than the {self.parameters.counters} update counters of preset "
                            f"{self.parameters.name!r} for its transfers; choose a plan with fewer transfers")
        #: For gradients as they are in memory.
        self.rule = step.rule.scaled(step.scale)
        self.rate = factor_word(self.parameters.memory_format, self.rule.rate)
        self.builders = [GraphBuilder(self.parameters) for _ in range(step.dies)]
        self.setup = [GraphBuilder(self.parameters) for _ in range(step.dies)]
        bases = self._bases()
        #: What the host is told, each once.
        self.notes: dict[str, None] = {}
        self.levels: dict[str, list[LevelPlace]] = {}
        #: By layer, of tasks that move as many rows as a batch looks up, where it stands how many.
        self.counts: dict[str, list[CountPlace]] = {}
        #: First word and base register of each place.
        self.places: dict[str, tuple[int, int]] = {}
        stages = step.stages_of_dies()
        # Places of two stages may have the same addresses, behind those that all dies have.
        for place in sorted(step.places, key=lambda place: place.stage is not None):
            base = bases.get(place.name, 0)
            having = [builder for builder, stage in zip(self.builders, stages.tolist(), strict=True)
                      if place.stage in (None, stage)]
            first = max(builder.end for builder in having)
            for builder in having:
                builder.end = first
                buffer = builder.allocate(place.name, 1, max(1, place.words), base=base,
                                          copies=self.steps if place.moves else 1)
            self.places[place.name] = buffer.address, base
        for place in step.places:
            if place.what is not None:
                for die, builder in enumerate(self.builders):
                    builder.buffers[place.name] = self.at(place.what.buffer(die))

    def _check_ways(self, rings: ProcessGroups) -> None:
        """Refuse a ring that would hold itself up."""
        array = self.step.array
        assert array is not None
        members = meets_itself(array, rings)
        if members is not None:
            named = ", ".join(map(str, members[:8])) + (", ..." if len(members) > 8 else "")
            raise UserError(f"dies {named} of array {array.name!r} cannot reduce weights in a ring: two of them "
                            "send to the next one over the same link; number the dies, or choose owners, along the "
                            "links, or take a full array")

    def _bases(self) -> dict[str, int]:
        """Base registers of the places that move."""
        bases = {self.step.targets[0].name: TARGET_BASE}
        for number, (tensor, *_) in enumerate(self.step.inputs.values()):
            base = FURTHER_BASE + number - 1 if number else INPUT_BASE
            if base >= BASE_COUNT:
                name = tensor.name.split(".")[1]
                raise UserError(f"layer {name!r} is one too many that reads the network's input, which {number} layers "
                                "may; feed it from another layer")
            bases[tensor.name] = base
        return bases

    def program(self, memory_words: int) -> TrainingProgram:
        """The whole."""
        step = self.step
        fixed = step.groups[:step.fixed_groups] if Engine.COLLECTIVE in self.parameters.engines else ()
        for group, rings in enumerate(fixed):
            for members in rings.members:
                for die in members:
                    ring_setup(self.parameters, members, die, group, self.setup[die])
        for die in range(step.dies):
            for clear in step.zeros:
                for task in clear.tasks(die):
                    self._add(die, self.setup[die], task)
            for item in step.tasks(die):
                ITEMS[type(item)](self, die, item)
            if not self.builders[die].count:
                raise UserError(f"die {die} of {step.dies} has nothing to do in a step of batch {step.batch}: neither "
                                "samples nor channels of any layer; choose a larger batch, or fewer dies")
            for builder in (self.setup[die], self.builders[die]):
                builder.check_dies(die, step.dies)
        for number, (node, here) in enumerate(zip(step.graph.nodes, step.layouts, strict=True)):
            why = unpredictable(node, here, step.tile_sums.get(number), step.residuals.get(number))
            if node.tiling is not None and node.tiling.rounds and why:
                self.notes[f"layer {node.name!r}: its gather sends everything, as {why}"] = None
        assert step.array is not None
        if step.array.tile_routes:
            for builder, ports in zip(self.setup, step.array.for_tiles.route_table, strict=True):
                route_setup(Traffic.TILES, ports, builder)
        check_circles(step.array, list(zip(self.setup, self.builders, strict=True)))
        setup = self.setup if any(builder.advances for builder in self.setup) else ()
        program = assemble(setup, self.builders, memory_words=memory_words, gradient_scale=step.scale)
        base = {field.name: getattr(program, field.name) for field in fields(program)}
        return TrainingProgram(**base | host_view(
            step, self.at, batches=self.steps, counts=self.counts, levels=self.levels, living={
                node.name: step.maps[self._relu(number)] for number, node in enumerate(step.graph.nodes)
                if node.name in self.levels}, notes=tuple(self.notes)))

    # What the host reads and writes.

    def _relu(self, number: int) -> str:
        """The ReLU behind a gather that is predicted."""
        step = self.step
        end = sum_end(step.graph.nodes[number], step.tile_sums.get(number), step.residuals.get(number))
        return end.epilogue[0].name

    # Addresses.

    def at(self, buffer: Buffer) -> Buffer:
        """Where a piece of a place lies in memory."""
        first, base = self.places[buffer.place]
        return buffer._replace(address=first + buffer.address, base=base)

    def _operand(self, operand: Buffer | FeatureMap) -> Buffer | FeatureMap:
        if isinstance(operand, FeatureMap):
            return replace(operand, buffer=self.at(operand.buffer))
        return self.at(operand)

    def _program(self, program: VectorProgram) -> VectorProgram:
        def moves(operand_moves: Sequence[Move]) -> list[Move]:
            return [Move(self.at(move.operand), move.region) for move in operand_moves
                    if isinstance(move.operand, Buffer)]

        return replace(program, loads=moves(program.loads), stores=moves(program.stores))

    # Descriptors.

    @staticmethod
    def _counter(exchange: int) -> int:
        """The counter that an exchange has on every die."""
        return len(Engine) + exchange

    def _task(self, die: int, task: step_tasks.Task) -> None:
        self._add(die, self.builders[die], task)

    def _arrive(self, die: int, arrivals: Arrivals) -> None:
        """Note what other dies send."""
        self.builders[die].expect(arrivals.buffers, self._counter(arrivals.exchange), arrivals.count)

    def _add(self, die: int, builder: GraphBuilder, task: step_tasks.Task) -> None:
        """Append the descriptors of a task of a die."""
        LOWERS[type(task.work)](self, _Lowered(die, builder, task), task.work)

    def _multiply(self, to: _Lowered, work: Multiplication) -> None:
        operation, groups = matrix_tasks(self.parameters, work.layer, work.direction, work.shape,
                                         *map(self._operand, (work.a, work.b, work.c)))
        self._note_long_sums(to.task, work)
        count = sum(map(len, groups))
        names = [f"{to.task.name}.{number}" for number in range(count)] if count > 1 else [to.task.name]
        for bodies in groups:
            to.add_parts(names[:len(bodies)], operation,
                         [body | {"accumulate": 1} for body in bodies] if work.added else bodies)
            names = names[len(bodies):]

    def _note_long_sums(self, task: step_tasks.Task, work: Multiplication) -> None:
        """Note sums of so many products that they may leave their format."""
        fmt, share, shape = self.parameters.multiply_format, task.share, work.shape
        if not isinstance(fmt, Fixed) or share is None:
            return
        taps, positions = (prod(shape.kernel), shape.out_height * shape.out_width) if shape else (1, 1)
        products = {FPROP: share.rows, BPROP: taps * share.outputs, UPDATE: positions * share.samples}[work.direction]
        if products > fmt.most_products:
            self.notes[f"layer {work.layer!r}: sums of {products} products in its {work.direction} may leave "
                       f"{fmt.sums.bits} bits, which hold {fmt.most_products} of the largest; they saturate"] = None

    def _vector(self, to: _Lowered, work: Vector) -> None:
        to.add(VectorOperation.PROGRAM, self._program(work.program).body())

    def _transform(self, to: _Lowered, work: TransformTiles) -> None:
        """Its descriptors, which write different words, or add to them one after the other."""
        maps = replace(work.maps, buffer=self.at(work.maps.buffer))
        operation, tile_bodies = transform_bodies(replace(work, maps=maps, tiles=self.at(work.tiles)))
        bodies = [self._announced(body, work) for body in tile_bodies]
        to.add_parts([f"{to.task.name}.{number}" for number in range(len(bodies))], operation, bodies)

    def _lines(self, to: _Lowered, work: LineTransform) -> None:
        operation, body = line_body(replace(work, source=self.at(work.source), target=self.at(work.target)))
        to.add(operation, self._announced(body, work))

    def _announced(self, body: dict[str, Any], work: TransformTiles | LineTransform | Encode) -> dict[str, Any]:
        """A body with the counter that it advances where it goes, if that is another die."""
        return body | ({"arrival": self._counter(work.exchange)} if "remote" in body else {})

    def _encode(self, to: _Lowered, work: Encode) -> None:
        to.add(TransferOperation.ENCODE, self._announced(encode_body(work, self.at), work))
        self._note_levels(to, work.part)

    def _decode(self, to: _Lowered, work: Decode) -> None:
        to.add(TransferOperation.DECODE, decode_body(work, self.at))
        self._note_levels(to, work.part)

    def _predict(self, to: _Lowered, work: Predict) -> None:
        to.add(TransferOperation.PREDICT, predict_body(work, self.at))
        self._note_levels(to, work.part, predicts=True)

    def _note_levels(self, to: _Lowered, part: CodePart | SkipPart, predicts: bool = False) -> None:
        """That the last task has levels which the host may set, if it has."""
        if isinstance(part, CodePart):
            self.levels.setdefault(part.layer, []).append(LevelPlace(to.die, to.builder.count - 1, part, predicts))

    def _tile(self, to: _Lowered, work: TileCopy) -> None:
        source, target, (rows, columns) = self.at(work.source), self.at(work.target), work.shape
        operation = TransferOperation.ADD if work.added else TransferOperation.COPY
        body = {"source": source.pointer, "destination": target.pointer, "columns": columns,
                "rows": rows, "planes": work.planes, "source_row_stride": source.stride,
                "destination_row_stride": target.stride, "source_plane_stride": work.apart[0],
                "destination_plane_stride": work.apart[1]}
        if work.index is not None:
            body |= {"scatter" if work.index.scatter else "gather": 1, "index": self.at(work.index.numbers).pointer}
        if work.members is None and work.die is None:
            to.add(operation, body)
            return
        body |= {"remote": 1, "arrival_enable": 1, "arrival": self._counter(work.exchange)}
        if work.members is None:
            to.add(operation, body | {"destination_die": work.die})
        else:
            to.add(TransferOperation.TRANSFORM, body | spread(work.members, work.members_apart))

    def _rows(self, to: _Lowered, work: RowsByNumber) -> None:
        numbers, table, rows = map(self.at, (work.numbers, work.table, work.rows))
        source, target = (rows, table) if work.added else (table, rows)
        to.add(TransferOperation.ADD if work.added else TransferOperation.COPY, {
            "source": source.pointer, "source_row_stride": source.stride, "destination": target.pointer,
            "destination_row_stride": target.stride, "columns": rows.columns, "rows": rows.rows, "planes": 1,
            "scatter" if work.added else "gather": 1, "index": numbers.pointer})

    def _lookup(self, to: _Lowered, work: LookupCopy) -> None:
        """A tile of as many rows as the host says; of one, as long as it says nothing."""
        self._tile(to, replace(work, rows=1).typical)
        self.counts.setdefault(work.layer, []).append(CountPlace(to.die, to.builder.count - 1, work.owner, work.worker))

    def _signal(self, to: _Lowered, work: Signal) -> None:
        """A copy of a word, of which the other die is told."""
        place = self.at(self.step.any)
        to.add(TransferOperation.COPY, {
            "source": place.pointer, "destination": place.part("join", 1, 1, 1).pointer, "columns": 1, "rows": 1,
            "planes": 1}, after=[to.builder.done(work.engine)], remote=(work.die, self._counter(work.exchange)))

    def _reduction(self, to: _Lowered, work: Reduction) -> None:
        """A message."""
        body = {"source": self.at(work.source).pointer, "destination": self.at(work.target).pointer,
                "words": work.target.columns, "group": work.row,
                "message": work.message % MESSAGES}
        if work.phase is Phase.UPDATE:
            rate = factor_word(self.parameters.memory_format, self.rule.rate * work.rate)
            body |= {"update": UpdateOperation.SGD, "rate": rate}
        to.add(COLLECTIVE_OPERATIONS[work.phase], body,
               after=[] if work.after is None else [to.builder.advanced(self._counter(work.after), 0)])

    def _group_row(self, to: _Lowered, work: GroupRow) -> None:
        to.add(CollectiveOperation.SET_GROUP, group_body(work.ring, to.die, work.row))

    def _optimisation(self, to: _Lowered, work: Optimisation) -> None:
        to.add(OPTIMISER_OPERATIONS[self.rule.kind], self._optimiser_body(work))

    def _optimiser_body(self, work: Optimisation) -> dict[str, Any]:
        rule, weights = self.rule, work.weights
        kept = {name: self.at(buffer).pointer for name, buffer in work.kept.items()}
        body = {"gradient": self.at(work.gradients).pointer, "weights": self.at(weights).pointer, **kept,
                "columns": weights.columns, "rows": weights.rows, "rate": self.rate,
                "decay": factor_word(self.parameters.memory_format, rule.momentum),
                "epsilon": epsilon_word(rule),
                "wide_weights": int(rule.wide), "wide_state": int(rule.wide and rule.law.stateful),
                "stochastic": int(rule.stochastic)}
        if weights.rows > 1:
            body |= {"stride": weights.stride, "state_stride": weights.columns}
        if work.generator is not None:
            body["generator"] = self.at(work.generator).pointer
        return body


#: How a task, and what comes from other dies, becomes part of a die's program.
ITEMS: dict[type, Callable[[_Lowering, int, Any], None]] = {
    step_tasks.Task: _Lowering._task, Arrivals: _Lowering._arrive}
#: For each kind of work how it becomes descriptors.
LOWERS: dict[type, Callable[[_Lowering, _Lowered, Any], None]] = {
    Multiplication: _Lowering._multiply, Vector: _Lowering._vector, TileCopy: _Lowering._tile,
    TransformTiles: _Lowering._transform, LineTransform: _Lowering._lines, Encode: _Lowering._encode,
    Decode: _Lowering._decode, Predict: _Lowering._predict, RowsByNumber: _Lowering._rows,
    LookupCopy: _Lowering._lookup, Reduction: _Lowering._reduction, GroupRow: _Lowering._group_row,
    Optimisation: _Lowering._optimisation, Signal: _Lowering._signal}
