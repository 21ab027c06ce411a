"""Lowered task graphs as input of the array simulator: every descriptor a task, with its waits, on its engine.

Of each descriptor of each die, in program order::

    fetch --> body, waits --> start --> engine --> done: counter here, counter on another die

What control does (docs/control.md) is simulated as it stands: descriptors come one behind the other, and wait for a
place among their engine's headers and bodies; engines start their tasks in order. A vector task loads, computes and
stores on three units that overlap; a matrix or transfer task holds its engine for what one more task of its kind costs,
and ends later; what routers can hold of a tile lands in its own time. Cycles come from the planners' cost table. What
goes on at the same time shares a die's read and write channels, its memory, the landing of tiles, and links, whose
tiles stand in one queue. A "second" of the simulator is a cycle here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plinth.driver.program import Task as Descriptor
from plinth.lower.training import TrainingProgram
from plinth.model.array import Array
from plinth.model.routes import routes
from plinth.plan.cost import row_stationary, systolic
from plinth.plan.cost.copies import MEMORY_LATENCY, Copy, lookups
from plinth.plan.cost.machine import (
    COPIES,
    LINK_LATENCY,
    Machine,
    Work,
    full_words,
    moved_words,
    unlike,
)
from plinth_hw.isa import layout
from plinth_hw.isa.tasks import (
    BODIES,
    DESCRIPTOR_WORDS,
    HEADER_WORDS,
    OPERATIONS,
    WAITS,
    CollectiveOperation,
    Engine,
    MatrixOperation,
    TaskHeader,
    TransferOperation,
    VectorOp,
)
from plinth_sim.array import machine as simulated
from plinth_sim.array.machine import Activity, Flow, Task, Wait

#: Headers and bodies that control holds for an engine.
HEADERS, QUEUED_BODIES = 8, 4
#: Cycles in which a word of a body goes to its engine.
BODY_WORD_CYCLES = 2


@dataclass(frozen=True)
class _Decoded:
    """A descriptor's fields."""

    name: str
    engine: Engine
    operation: Any
    header: Any
    body: Any


def _decode(task: Descriptor) -> _Decoded:
    header = layout.unpack(TaskHeader, task.words)
    operation = OPERATIONS[task.engine](header.operation)
    return _Decoded(task.name, task.engine, operation, header,
                    layout.unpack(BODIES[operation], task.words[HEADER_WORDS:]))


class TaskGraphs:
    """The workload of one step of a program.

    Parameters
    ----------
    program : TrainingProgram
        Lowered for the array.
    array : Array
        Its links.
    machine : Machine
        Cycles of tasks on one die.

    Attributes
    ----------
    given : plinth_sim.array.machine.Machine
        Dies and links for the simulator. Behind the array's links stand, as links of their own, each die's read and
        write channel and its landing of tiles, and the queue of tiles behind each link, all in cycles.
    """

    def __init__(self, program: TrainingProgram, array: Array, machine: Machine):
        self.program, self.array, self.machine = program, array, machine
        self.parameters = program.parameters
        links = array.directed()
        self._number = {(die, port): number for number, (die, port, _, _) in enumerate(links)}
        self._peer = {(die, port): other for die, port, other, _ in links}
        self._ports = routes(links, program.dies)
        dies, beat = range(program.dies), float(self.parameters.beat_words)
        self._reads, self._writes, self._landings, self._queues = (
            len(links) + place * program.dies for place in range(4))
        named = [(f"{die}.{port}", float(array.rate)) for die, port, _, _ in links]
        named += [(f"{die} {what}", rate) for what, rate in (("reads", beat), ("writes", beat), ("landing", 1.0))
                  for die in dies]
        self.given = simulated.Machine(
            dies=tuple(simulated.Die(words_per_second=float(self.parameters.memory_words_per_cycle)) for _ in dies),
            links=(*(simulated.Link(name=name, words_per_second=rate) for name, rate in named),
                   *(simulated.Link(name=f"{die}.{port} tiles", words_per_second=1.0, queue=True)
                     for die, port, _, _ in links)))
        self._rings = self._members()
        #: For each ring's message, the dies that have joined it.
        self._joined: dict[tuple[tuple[int, ...], int], list[str]] = {}

    def activities(self) -> list[Activity]:
        """Tasks and flows of all dies."""
        found: list[Activity] = []
        for die, graph in enumerate(self.program.step):
            found += self._die(die, [_decode(task) for task in graph.tasks])
        return found

    def _members(self) -> list[dict[int, tuple[int, ...]]]:
        """For each die and group, the ring's members from that die on."""
        following = [{int(task.body.group): int(task.body.next_die) for task in map(_decode, graph.tasks)
                      if task.operation is CollectiveOperation.SET_GROUP} for graph in self.program.setup]
        found: list[dict[int, tuple[int, ...]]] = []
        for die, groups in enumerate(following):
            rings = {}
            for group in groups:
                ring = [die]
                while (place := following[ring[-1]][group]) != die:
                    ring.append(place)
                rings[group] = tuple(ring)
            found.append(rings)
        return found

    def _path(self, die: int, other: int) -> list[int]:
        """Links from a die to another."""
        found = []
        while die != other:
            port = self._ports[die][other]
            assert port is not None
            found.append(self._number[die, port])
            die = self._peer[die, port]
        return found

    def _die(self, die: int, tasks: Sequence[_Decoded]) -> Iterator[Activity]:
        """One die's program."""
        control, counts = self.machine.control, dict.fromkeys(Engine, 0)
        for number, task in enumerate(tasks):
            engine, place = task.engine, counts[task.engine]
            counts[engine] += 1
            key = f"{die}:{number}:{task.name}"
            room = []
            if place >= QUEUED_BODIES:
                room.append(Wait(f"{die}.{engine.name}.started", place - QUEUED_BODIES + 1))
            if place >= HEADERS:
                room.append(Wait(f"{die}.{engine.value}", place - HEADERS + 1))
            yield Task(name=f"{key}.fetch", die=die, engine="fetch", seconds=DESCRIPTOR_WORDS, waits=room)
            yield Task(name=f"{key}.body", die=die, engine=f"{engine.name} body",
                       seconds=BODY_WORD_CYCLES * self.machine.parameters.body_words(engine),
                       waits=[Wait(f"{key}.fetch")])
            waits = [Wait(f"{key}.body")]
            for index in range(WAITS):
                if task.header.wait_enable >> index & 1:
                    waits.append(Wait(f"{die}.{task.header.wait_counter[index]}", task.header.wait_value[index],
                                      control["issue"]))
            if engine is Engine.VECTOR and place >= 2:
                # The half of the scratchpad is free once its stores have been read.
                waits.append(Wait(f"{die}.vector.read", place - 1))
            yield Task(name=f"{key}.start", die=die, engine=self._unit(task), seconds=0.0, waits=waits,
                       signals=[f"{die}.{engine.name}.started"])
            signals = [f"{die}.{task.header.advance}"] if task.header.advance_enable else []
            started = [Wait(f"{key}.start")]
            if engine is Engine.MATRIX:
                yield self._matrix(key, die, task, started, signals)
            elif engine is Engine.VECTOR:
                yield from self._vector(key, die, task, started, signals)
            elif engine is Engine.TRANSFER:
                yield from self._transfer(key, die, task, started, signals)
            else:
                yield from self._reduce(key, die, place, task, started, signals)
            if task.header.remote_enable:
                yield self._arrival([key], die, int(task.header.remote_die), int(task.header.remote_counter))

    def _unit(self, task: _Decoded) -> str:
        """What a task's start waits for."""
        if task.engine is Engine.COLLECTIVE:
            return f"block {int(task.body.message) % self.parameters.reduce_blocks}"
        return {Engine.MATRIX: "matrix", Engine.VECTOR: "vector load", Engine.TRANSFER: "transfer"}[task.engine]

    def _arrival(self, keys: Sequence[str], die: int, other: int, counter: int) -> Flow:
        """A counter of another die advances once a task's words are there: after some activities."""
        hops = len(self._path(die, other))
        latency = (self.machine.control["arrival"] - self.machine.control["issue"]
                   + hops * self.array.link_latency - LINK_LATENCY)
        return Flow(name=f"{keys[0]}.arrival", latency=max(0.0, latency),
                    waits=[Wait(key) for key in keys], signals=[f"{other}.{counter}"])

    def _work(self, name: str, die: int, engine: str, seconds: float, reads: float, writes: float,
              waits: Sequence[Wait], *, latency: float = 0.0, signals: Sequence[str] = ()) -> Flow:
        """Work of an engine of a die that reads and writes words of its memory, whole beats of them."""
        return Flow(name=name, die=die, engine=engine, seconds=seconds, latency=latency,
                    links=np.array([self._reads + die, self._writes + die]), words=np.array([reads, writes]),
                    dies=np.array([die]), die_words=np.array([reads + writes]), waits=waits, signals=signals)

    # Engines.

    def _matrix(self, key: str, die: int, task: _Decoded, waits: list[Wait], signals: list[str]) -> Flow:
        body, beat = task.body, self.parameters.beat_words
        if task.operation is MatrixOperation.ROW_STATIONARY:
            work = row_stationary.task_work(self.parameters, body)
            alone, row = self.machine.scaled(*_row_stationary_product(body), (work.alone, work.row))
            reads, writes = work.read, work.written
        else:
            name = "update" if body.transpose_a else "bprop" if body.transpose_b else "fprop"
            convolution = task.operation is MatrixOperation.CONVOLUTION
            shape = systolic.Shape(
                int(body.m), int(body.n), int(body.k), int(body.interleave_m_log2), bool(body.transpose_a),
                bool(body.transpose_b), int(body.a_run) if convolution else 0, body.a_stride % beat == 0,
                body.b_stride % beat == 0, body.c_stride % beat == 0)
            found = systolic.cost(self.parameters, shape)
            alone, row = self.machine.scaled(f"convolution-{name}" if convolution else name,
                                             (shape.m, shape.n, shape.k), (found.alone, found.row))
            reads, writes = beat * found.reads, beat * found.writes
        return self._work(key, die, "matrix", row, reads, writes, waits, latency=max(0.0, alone - row),
                          signals=signals)

    def _vector(self, key: str, die: int, task: _Decoded, waits: list[Wait], signals: list[str]) -> Iterator[Activity]:
        body, beat = task.body, self.parameters.beat_words
        work, name = vector_work(body)
        load, compute, store = self.machine.vector(name, body.rows, body.columns, work)
        row, (read, written) = (moved_words(self.parameters, 1, body.columns),
                                full_words(self.parameters, work, body.rows, body.columns))
        words = read + work.row_loads * row, written + work.row_stores * row
        before = MEMORY_LATENCY * load / (MEMORY_LATENCY + 5 + words[0] / beat)
        behind = MEMORY_LATENCY * store / (MEMORY_LATENCY + words[1] / beat)
        yield self._work(f"{key}.load", die, "vector load", load - before, words[0], 0.0, waits, latency=before)
        yield Task(name=f"{key}.compute", die=die, engine="vector", seconds=compute, waits=[Wait(f"{key}.load")])
        yield self._work(f"{key}.store", die, "vector store", store - behind, 0.0, words[1],
                         [Wait(f"{key}.compute")], signals=[f"{die}.vector.read"])
        yield Flow(name=key, latency=behind, waits=[Wait(f"{key}.store")], signals=signals)

    def _transfer(self, key: str, die: int, task: _Decoded, waits: list[Wait],
                  signals: list[str]) -> Iterator[Activity]:
        body, parameters = task.body, self.parameters
        other = int(body.destination_die) if body.remote else die
        path = self._path(die, other)
        rows, columns = int(body.rows * body.planes), int(body.columns)
        copy = Copy(rows, columns, int(body.source_row_stride), int(body.destination_row_stride),
                    *(int(pointer.offset) % parameters.beat_words for pointer in (body.source, body.destination)))
        # What meets on the way is simulated: longer ways cost what one link does.
        added = task.operation is TransferOperation.ADD
        if body.gather or body.scatter:
            table = self.program.gradients[task.name.rpartition(".")[0]]
            alone, row = self.machine.rows(rows, columns, added * unlike(table.shape[1], table.slices[die].inputs))
        else:
            alone, row = self.machine.copy(COPIES[min(len(path), 1)], copy)
        flits, read, written = copy.flits(parameters), copy.read(parameters), copy.written(parameters)
        # What buffers hold on the way lands in its own time: it does not hold the sender up.
        held = copy.held(parameters, len(path)) if path else 0.0
        loads = {self._reads + die: read, self._landings + other: flits * (1 - held),
                 self._writes + other: written * (1 - held)}
        for place, link in enumerate(path):
            loads[link] = flits * parameters.flit_words
            # Packets that go on wait for their routes behind the link.
            loads[self._queues + link] = flits + (place + 1 < len(path)) * lookups(copy, parameters, len(path))
        if added:
            # What is added to is read.
            loads[self._reads + other] = loads.get(self._reads + other, 0.0) + written
        stored = written * (1 + added)
        places, amounts = ([die], [read + stored]) if other == die else ([die, other], [read, stored * (1 - held)])
        yield Flow(name=key, links=np.array(list(loads)), words=np.array(list(loads.values())), seconds=row,
                   latency=max(0.0, alone - row), dies=np.array(places), die_words=np.array(amounts), die=die,
                   engine="transfer", waits=waits, signals=signals)
        arrived = [key]
        if held:
            arrived.append(f"{key}.held")
            yield Flow(name=arrived[-1], links=np.array([self._landings + other, self._writes + other]),
                       words=held * np.array([flits, written]), seconds=row, dies=np.array([other]),
                       die_words=np.array([held * stored]), waits=waits)
        if body.arrival_enable:
            yield self._arrival(arrived, die, other, int(body.arrival))

    def _reduce(self, key: str, die: int, place: int, task: _Decoded, waits: list[Wait],
                signals: list[str]) -> Iterator[Activity]:
        """A reduction: the dies of a ring go on together once all have started."""
        ring, message = self._rings[die][int(task.body.group)], int(task.body.message)
        joined = self._joined.setdefault((tuple(sorted(ring)), message), [])
        joined += [one.counter for one in waits]
        name = f"ring {sorted(ring)} {message}"
        if len(joined) == len(ring):
            yield self._ring(name, ring, float(task.body.words), joined)
        # Tasks of an engine end in order.
        before = [Wait(f"{die}.{Engine.COLLECTIVE.value}", place)] if place else []
        yield Task(name=key, die=die, engine=self._unit(task), seconds=0.0, waits=[Wait(name), *before],
                   signals=signals)

    def _ring(self, name: str, ring: Sequence[int], words: float, joined: Sequence[str]) -> Flow:
        size = len(ring)
        waits = [Wait(one) for one in joined]
        if size == 1:
            return Flow(name=name, seconds=words / self.parameters.flit_words,
                        latency=self.machine.control["reduce"], waits=waits, dies=np.array(ring),
                        die_words=np.array([3 * words]))
        share, hops = 2 * (size - 1) / size * words, 0
        loads: dict[int, float] = {}
        for die, other in zip(ring, (*ring[1:], ring[0]), strict=True):
            path = self._path(die, other)
            hops = max(hops, len(path))
            for link in path:
                loads[link] = loads.get(link, 0.0) + share
        latency = self.machine.ring_latency(size, hops, self.array.link_latency)
        return Flow(name=name, links=np.array(list(loads)), words=np.array(list(loads.values())),
                    latency=max(0.0, latency), dies=np.array(ring), die_words=np.full(size, 2 * share), waits=waits)


def _row_stationary_product(body: Any) -> tuple[str, tuple[int, int, int]]:
    """Kind of a task of the row-stationary machine, and m, n, k of the product."""
    convolution = body.kernel_rows * body.kernel_columns > 1 or body.map_rows > 1
    sums = body.images * body.rows * body.windows
    name = "update" if body.window_run > 1 else "fprop" if body.w_filter == 1 else "bprop"
    return (f"convolution-{name}" if convolution else name,
            (int(sums), int(body.filters), int(body.channels * body.kernel_rows * body.kernel_columns)))


def vector_work(body: Any) -> tuple[Work, str]:
    """What a vector program does, and the measured program that it is most like."""
    regions = [(int(region.is_row), int(region.is_column)) for region in body.regions]
    loads = [regions[int(body.load[number].region)] for number in range(body.loads)]
    stores = [regions[int(body.store[number].region)] for number in range(body.stores)]
    wise = sums = reductions = functions = column_functions = 0
    for number in range(body.instructions):
        one = body.program[number]
        target, source = regions[int(one.dst)], regions[int(one.a)]
        if one.op in (VectorOp.SUM, VectorOp.MAXIMUM):
            sums += target[0] and not source[0]
            reductions += not (target[0] and not source[0])
        elif target == (0, 0):
            functions += one.op is VectorOp.FUNCTION
            wise += one.op is not VectorOp.FUNCTION
        else:
            column_functions += target[1] and one.op is VectorOp.FUNCTION
    row_loads, row_stores = sum(map(any, loads)), sum(map(any, stores))
    packed_loads, packed_stores = (sum(int(moves[number].packed) for number in range(count)) for moves, count in (
        (body.load, body.loads), (body.store, body.stores)))
    work = Work(len(loads) - row_loads, len(stores) - row_stores, row_loads, row_stores, wise=wise, sums=sums,
                reductions=reductions, functions=functions, column_functions=column_functions,
                packed_loads=packed_loads, packed_stores=packed_stores)
    if reductions:
        name = "loss"
    elif sums:
        name = "backward" if work.stores else "bias"
    elif work.stores > 1 or work.loads > 3:
        name = "unpool" if wise > 3 else "sum"
    else:
        name = "pool" if work.loads > 1 else "forward"
    return work, name
