"""Random task graphs over all engines: the same on every die, with different data."""

from dataclasses import replace
from typing import Any

import numpy as np

from plinth.buffers import Buffer
from plinth.driver.program import NamedDescriptor, Program
from plinth.lower.builder import GraphBuilder
from plinth.lower.program import assemble, ring_setup
from plinth.machine.convolution import ConvolutionShape, FeatureMap, forward, input_gradient, weight_gradient
from plinth.machine.row_stationary_tasks import RowStationary
from plinth.step.vector import VectorProgram
from plinth_hw.isa.descriptors import HEADER_WORDS, WAITS, TaskHeader
from plinth_hw.isa.formats import factor_word
from plinth_hw.isa.layout import pack, unpack
from plinth_hw.isa.operations import (
    CollectiveOperation,
    Engine,
    MatrixOperation,
    OptimiserOperation,
    TransferOperation,
    UpdateOperation,
    VectorOperation,
)
from plinth_hw.isa.parameters import ROW_STATIONARY, DieParameters
from plinth_hw.isa.vector_body import VectorFunction, VectorOp

ELEMENTWISE = (VectorOp.ADD, VectorOp.SUB, VectorOp.MUL, VectorOp.MAX, VectorOp.RELU_MASK)


#: Kinds of tasks, and the engine that each needs.
KINDS = {"gemm": Engine.MATRIX, "convolution": Engine.MATRIX, "vector": Engine.VECTOR, "transfer": Engine.TRANSFER,
         "collective": Engine.COLLECTIVE, "half": Engine.VECTOR, "optimiser": Engine.OPTIMISER}


def part(buffer: Buffer, rows: int, columns: int) -> Buffer:
    """The first rows and columns of a buffer."""
    return buffer.part(buffer.name, 0, rows, columns, buffer.stride)


class RandomGraph:
    """Appends random tasks to a graph over a pool of square buffers.

    Parameters
    ----------
    parameters : DieParameters
    seed : int
    size : int
        Rows and columns of each buffer.
    buffers : int
        How many; few of them make many dependencies.
    """

    def __init__(self, parameters: DieParameters, seed: int, *, size: int = 12, buffers: int = 5):
        self.parameters = parameters
        self.size = size
        self.rng = np.random.default_rng(seed)
        self.builder = GraphBuilder(parameters)
        self.packed = parameters.packing > 1
        self.generator = self.builder.allocate("generator", 1, 2)
        self.pool = [self.builder.allocate(f"b{index}", size, size) for index in range(buffers)]
        self.operands = ([self.builder.allocate(f"h{index}", size, size, packed=True) for index in range(2)]
                         if self.packed else self.pool)

    def pick(self, count: int) -> list[Buffer]:
        """Different buffers of the pool."""
        return [self.pool[index] for index in self.rng.permutation(len(self.pool))[:count]]

    def extent(self) -> int:
        """A random extent of a matrix."""
        return int(self.rng.integers(1, self.size + 1))

    def _operands(self) -> tuple[Buffer, Buffer, Buffer]:
        """Operands of a product, and where its sums go."""
        (c,) = self.pick(1)
        choices = [buffer for buffer in self.operands if buffer is not c]
        a, b = (choices[int(index)] for index in self.rng.integers(0, len(choices), 2))
        return a, b, c

    def _rows(self, name: str, passes: list[list[list[dict[str, Any]]]], reads: list[Buffer], write: Buffer) -> None:
        """One of some products of the row-stationary machine, which may add to what is there."""
        groups = passes[int(self.rng.integers(len(passes)))]
        accumulate = int(self.rng.integers(2))
        for number, body in enumerate(body for group in groups for body in group):
            self.builder.add(f"{name}[{number}]", Engine.MATRIX, MatrixOperation.ROW_STATIONARY,
                             body | {"accumulate": body["accumulate"] | accumulate}, reads=[*reads, write],
                             writes=[write])

    def gemm(self, name: str) -> None:
        """A product of random shape, transposes and interleave."""
        a, b, c = self._operands()
        if self.parameters.machine == ROW_STATIONARY:
            maker, (m, n, k) = RowStationary(self.parameters), (self.extent() for _ in range(3))
            z = part(c, m, n)
            self._rows(name, [maker.dense_forward(part(a, m, k), part(b, k, n), z),
                              maker.dense_input_gradient(part(a, m, k), part(b, n, k), z),
                              maker.dense_weight_gradient(part(a, k, m), part(b, k, n), z)], [a, b], c)
            return
        depth = self.parameters.interleave.bit_length()
        self.builder.add(name, Engine.MATRIX, MatrixOperation.GEMM, {
            "a": a.pointer, "a_stride": a.stride, "b": b.pointer, "b_stride": b.stride,
            "c": c.pointer, "c_stride": c.stride,
            "m": self.extent(), "n": self.extent(), "k": self.extent(),
            "transpose_a": int(self.rng.integers(2)), "transpose_b": int(self.rng.integers(2)),
            "accumulate": int(self.rng.integers(2)),
            "interleave_m_log2": int(self.rng.integers(depth))}, reads=[a, b, c], writes=[c])

    def convolution(self, name: str) -> None:
        """A pass of a small layer between parts of buffers."""
        a, b, c = self._operands()
        height, width, inputs, down, right = (int(size) for size in self.rng.integers(1, 4, 5))
        layer = ConvolutionShape(height=height, width=width, inputs=inputs, outputs=self.extent(), kernel=(2, 2),
                                 stride=(down, right), padding=(1, 1))
        positions, places = height * width, layer.out_height * layer.out_width
        if max(layer.taps, positions, places) > self.size:
            return
        x, z = (FeatureMap(part(a, positions, inputs), height, width),
                FeatureMap(part(c, places, layer.outputs), layer.out_height, layer.out_width))
        if self.parameters.machine == ROW_STATIONARY:
            maker = RowStationary(self.parameters)
            dz, dx = (FeatureMap(part(buffer, *sizes), *extent) for buffer, sizes, extent in (
                (b, (places, layer.outputs), (layer.out_height, layer.out_width)),
                (c, (positions, inputs), (height, width))))
            self._rows(name, [maker.forward(layer, x, part(b, layer.taps, layer.outputs), z),
                              maker.input_gradient(layer, dz, part(a, layer.taps, layer.outputs), dx),
                              maker.weight_gradient(layer, x, dz, part(c, layer.taps, layer.outputs))], [a, b], c)
            return
        kind = int(self.rng.integers(3))
        flags: dict[str, bool] = {"accumulate": bool(self.rng.integers(2))}
        if kind == 0:
            bodies = forward(layer, self.parameters, x, part(b, layer.taps, layer.outputs), z, **flags)
        elif kind == 1:
            dz = FeatureMap(part(a, places, layer.outputs), layer.out_height, layer.out_width)
            bodies = input_gradient(layer, self.parameters, dz, part(b, layer.taps, layer.outputs),
                                    FeatureMap(part(c, positions, inputs), height, width), **flags)
        else:
            dz = FeatureMap(part(b, places, layer.outputs), layer.out_height, layer.out_width)
            bodies = weight_gradient(layer, self.parameters, x, dz, part(c, layer.taps, layer.outputs), **flags)
        for number, body in enumerate(bodies):
            self.builder.add(f"{name}[{number}]", Engine.MATRIX, MatrixOperation.CONVOLUTION, body, reads=[a, b, c],
                             writes=[c])

    def vector(self, name: str) -> None:
        """An element-wise operation, a reduction with broadcast, and sometimes a function."""
        a, b, c = self.pick(3)
        program = VectorProgram(self.parameters, self.extent(), self.extent())
        program.load("x", a)
        program.load("y", b)
        program.run(ELEMENTWISE[int(self.rng.integers(len(ELEMENTWISE)))], "z", "x", "y")
        shape = "row" if self.rng.integers(2) else "column"
        program.run(VectorOp.SUM if self.rng.integers(2) else VectorOp.MAXIMUM, "s", "z", shape=shape)
        if self.rng.integers(2):
            program.run(VectorOp.FUNCTION, "s", "s", VectorFunction.RECIPROCAL)
        program.run(VectorOp.MUL, "z", "z", "s")
        if self.rng.integers(2):
            program.run(VectorOp.SCALE, "z", "z", immediate=float(self.rng.standard_normal()))
        program.store("z", c)
        self.builder.add(name, Engine.VECTOR, VectorOperation.PROGRAM, program.body(), reads=[a, b, c],
                         writes=[c])

    def half(self, name: str) -> None:
        """Convert a buffer to narrow operands."""
        (a,) = self.pick(1)
        h = self.operands[int(self.rng.integers(2))]
        program = VectorProgram(self.parameters, self.size, self.size)
        program.load("x", a)
        program.store("x", h)
        self.builder.add(name, Engine.VECTOR, VectorOperation.PROGRAM, program.body(), reads=[a], writes=[h])

    def transfer(self, name: str) -> None:
        """A strided copy at odd offsets."""
        a, b = self.pick(2)
        rows, columns = int(self.rng.integers(1, self.size)), int(self.rng.integers(1, self.size))
        shift = int(self.rng.integers(0, self.size - columns + 1))
        self.builder.add(name, Engine.TRANSFER, TransferOperation.COPY, {
            "source": {"offset": a.address + shift, "base": 0}, "destination": b.pointer, "columns": columns,
            "rows": rows, "planes": 1, "source_row_stride": a.stride, "destination_row_stride": b.stride},
            reads=[a, b], writes=[b])

    def collective(self, name: str, message: int) -> None:
        """An all-reduce, reduce-scatter or all-gather over the ring."""
        a, b = self.pick(2)
        self.builder.add(name, Engine.COLLECTIVE, CollectiveOperation(int(self.rng.integers(3))), {
            "source": a.pointer, "destination": b.pointer,
            "words": int(self.rng.integers(1, a.words + 1)), "group": 0,
            "update": UpdateOperation(int(self.rng.integers(2))), "message": message,
            "rate": factor_word(self.parameters.memory_format, abs(self.rng.standard_normal()))},
            reads=[a, b], writes=[b])

    def optimiser(self, name: str) -> None:
        """An update of any rule; vectors beside the weights and the gradient are other buffers, and so is the state of
        the generator."""
        gradient, state, state_low, weights, weights_low = self.pick(5)
        lanes = self.parameters.beat_words
        flags = {flag: int(self.rng.integers(2)) for flag in ("wide_weights", "wide_state", "stochastic")}
        buffers = {"gradient": gradient, "state": state, "state_low": state_low, "weights": weights,
                   "weights_low": weights_low}
        words = gradient.words // lanes * lanes
        stride = int(self.rng.integers(1, words // lanes + 1)) * lanes
        self.builder.add(name, Engine.OPTIMISER, OptimiserOperation(int(self.rng.integers(len(OptimiserOperation)))), {
            **{field: buffer.pointer for field, buffer in buffers.items()}, "generator": self.generator.pointer,
            "columns": int(self.rng.integers(1, stride + 1)), "rows": int(self.rng.integers(1, words // stride + 1)),
            "stride": stride, "state_stride": stride, "rate": self._factor(), "decay": self._factor(),
            "epsilon": 1 + int(self.rng.integers(1 << 28)), **flags},
            reads=[*buffers.values(), self.generator], writes=[state, state_low, weights, weights_low, self.generator])

    def _factor(self) -> int:
        return factor_word(self.parameters.memory_format, float(self.rng.standard_normal()))

    def fill(self, tasks: int) -> None:
        """Append so many random tasks."""
        kinds = [kind for kind, engine in KINDS.items() if engine in self.parameters.engines
                 and (kind != "half" or self.packed)]
        for index in range(tasks):
            kind = self.rng.choice(kinds)
            if kind == "collective":
                self.collective(f"{index}.collective", index % 256)
            else:
                getattr(self, kind)(f"{index}.{kind}")


def random_program(parameters: DieParameters, dies: int, seed: int, tasks: int, memory_words: int,
                   **sizes: int) -> tuple[Program, list[Buffer]]:
    """The same random graph on every die of a ring, and its buffers; ``sizes`` as :class:`RandomGraph`."""
    graphs = [RandomGraph(parameters, seed, **sizes) for _ in range(dies)]
    for graph in graphs:
        graph.fill(tasks)
    setup = [ring_setup(parameters, range(dies), die, 0) for die in range(dies) if parameters.ports]
    program = assemble(setup, [graph.builder for graph in graphs], memory_words=memory_words)
    return program, list(graphs[0].builder.buffers.values())


def tangled(program: Program, seed: int) -> Program:
    """The program with as many waits as a task can name, and advances of counters on the next die, which is
    this one where there is no network.

    A task waits for nothing that comes later in the order of the graphs, which are equal on all dies, so the
    program still ends; what it leaves in memory stays as it is.
    """
    rng = np.random.default_rng(seed)
    dies = program.dies
    # Counters as far as the tasks so far advance them, on each die.
    reached: list[dict[int, int]] = [{} for _ in range(dies)]
    words: list[list[NamedDescriptor]] = [[] for _ in range(dies)]
    for tasks in zip(*(graph.tasks for graph in program.step), strict=True):
        sent = []
        for die, task in enumerate(tasks):
            header = vars(task_header(task)).copy()
            enable = header["wait_enable"]
            counters, values = list(header["wait_counter"]), list(header["wait_value"])
            for slot in range(WAITS):
                if not enable >> slot & 1 and reached[die]:
                    counters[slot] = int(rng.choice(sorted(reached[die])))
                    values[slot] = int(rng.integers(1, reached[die][counters[slot]] + 1))
                    enable |= 1 << slot
            header.update(wait_enable=enable, wait_counter=counters, wait_value=values)
            if (dies > 1 or not program.parameters.ports) and rng.random() < 0.5:
                header.update(remote_enable=1, remote_die=(die + 1) % dies,
                              remote_counter=int(rng.integers(8, program.parameters.counters)))
                sent.append(((die + 1) % dies, header["remote_counter"]))
            words[die].append(replace(task, words=pack(TaskHeader, header) + task.words[HEADER_WORDS:]))
            sent.append((die, header["advance"]))
        for die, counter in sent:
            reached[die][counter] = reached[die].get(counter, 0) + 1
    step = [replace(graph, tasks=tuple(words[die]), advances=reached[die])
            for die, graph in enumerate(program.step)]
    return replace(program, step=step)


def task_header(task: NamedDescriptor) -> Any:
    """The header of a task's descriptor."""
    return unpack(TaskHeader, task.words)
