"""Lowers a data-parallel plan to the task graph of one training step.

On each die, with its share of the batch cut in strips of rows so that the vector engine follows the matrix
engine strip by strip::

    fprop   Z[l] = A[l-1] W[l]            matrix, a task a strip
            A[l] = relu(Z[l] + b[l])      vector
    loss    d[L] = (softmax(Z + b) - t) / batch, p, db[L]            vector
    bprop   E[l] = d[l+1] W[l+1]^T        matrix, a task a strip
            d[l] = E[l] where A[l] > 0, db[l] = column sums of d[l]   vector
    update  dW[l] = A[l-1]^T d[l]         matrix, whole share at once
            W[l], b[l] -= rate * sum over dies of dW[l], db[l]        collective, one message a layer

With FP16 operands (a mixed-precision die) the matrix engine reads X, A, d and a copy of W in FP16; weights
and gradients stay FP32, and errors are scaled up by :data:`LOSS_SCALE`, which the learning rate takes back::

    copy    H[l] = FP16(W[l])             vector, before fprop

Weights of a layer are followed by its bias in memory, and gradients alike, so that one message reduces both.
Column sums add strip after strip: ``db = (strip 0) + (strip 1) + ...``, rows ascending in each strip.
"""

from dataclasses import dataclass

import numpy as np

from plinth.errors import UserError
from plinth.lower.builder import Buffer, GraphBuilder
from plinth.lower.chain import Block, chain
from plinth.lower.program import Program, assemble, ring_setup
from plinth.lower.vector import VectorProgram, region_lines, scratchpad_lines
from plinth.model.network import Network
from plinth.plan.cost.machine import interleave_m_log2
from plinth.plan.graph import DP
from plinth.plan.plan import Plan
from plinth_hw.isa.formats import FP16
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.tasks import (
    CollectiveOperation,
    Engine,
    MatrixOperation,
    UpdateOperation,
    VectorFunction,
    VectorOp,
    VectorOperation,
)

#: Base registers that move from step to step.
INPUT_BASE = 1
TARGET_BASE = 2
#: Factor on errors in mixed precision; a power of two, so that it rounds nothing.
LOSS_SCALE = 1024.0


@dataclass
class _StepBuilder:
    """One die's step graph under construction."""

    blocks: tuple[Block, ...]
    parameters: DieParameters
    samples: int
    batch: int
    rate: float
    steps: int
    builder: GraphBuilder

    def __post_init__(self) -> None:
        half = self.half = self.parameters.multiply_format == FP16
        self.scale = LOSS_SCALE if half else 1.0
        for layer in self.blocks:
            self.builder.allocate(f"{layer.name}.parameters", 1, layer.parameters)
        for layer in self.blocks:
            self.builder.allocate(f"{layer.name}.gradients", 1, layer.parameters)
            self.builder.allocate(f"{layer.name}.product", self.samples, layer.outputs)
            self.builder.allocate(f"{layer.name}.output", self.samples, layer.outputs, packed=half)
            self.builder.allocate(f"{layer.name}.error", self.samples, layer.outputs, packed=half)
            if half:
                self.builder.allocate(f"{layer.name}.operand", layer.inputs, layer.outputs, packed=True)
        self.builder.allocate("probabilities", self.samples, self.blocks[-1].outputs)
        self.builder.allocate("input", self.samples, self.blocks[0].inputs, base=INPUT_BASE, copies=self.steps,
                              packed=half)
        self.builder.allocate("target", self.samples, self.blocks[-1].outputs, base=TARGET_BASE,
                              copies=self.steps)
        beat = self.parameters.beat_words
        widest = max(layer.outputs for layer in self.blocks)
        # The largest program (bprop) holds two full regions and two rows.
        room = scratchpad_lines(self.parameters) - 4 * -(-widest // beat)
        self.strip = min(self.samples, 2 * self.parameters.rows,
                         room // (2 * region_lines(self.parameters, 1, widest, "full")))
        if self.strip < 1:
            raise UserError(f"a layer of {widest} outputs does not fit the vector scratchpad of preset "
                            f"{self.parameters.name!r}; choose a larger preset or a narrower layer")

    def weights(self, layer: Block, kind: str) -> Buffer:
        """The matrix in a layer's parameters or gradients."""
        whole = self.builder.buffers[f"{layer.name}.{kind}"]
        return whole.part(f"{layer.name}.{kind}.weights", 0, layer.inputs, layer.outputs)

    def bias(self, layer: Block, kind: str) -> Buffer:
        """The row behind it."""
        whole = self.builder.buffers[f"{layer.name}.{kind}"]
        return whole.part(f"{layer.name}.{kind}.bias", layer.inputs * layer.outputs, 1, layer.outputs)

    def strips(self, name: str) -> list[Buffer]:
        """A sample-major buffer, strip by strip."""
        whole = self.builder.buffers[name]
        return [whole.part(f"{name}[{start}]", start * whole.stride, min(self.strip, self.samples - start),
                           whole.columns, whole.stride)
                for start in range(0, self.samples, self.strip)]

    def gemm(self, name: str, a: Buffer, b: Buffer, c: Buffer, *, transpose_a: bool = False,
             transpose_b: bool = False, reads: list[Buffer] | None = None) -> None:
        """``c = op(a) op(b)``; ``reads`` replaces (a, b) where dependencies are finer than operands."""
        k = a.rows if transpose_a else a.columns
        self.builder.add(name, Engine.MATRIX, MatrixOperation.GEMM, {
            "a": a.pointer, "a_stride": a.stride, "b": b.pointer, "b_stride": b.stride,
            "c": c.pointer, "c_stride": c.stride, "m": c.rows, "n": c.columns, "k": k,
            "transpose_a": int(transpose_a), "transpose_b": int(transpose_b),
            "interleave_m_log2": interleave_m_log2(self.parameters, c.rows, c.columns),
        }, reads=reads if reads is not None else [a, b], writes=[c])

    def vector(self, name: str, program: VectorProgram) -> None:
        """Append a vector task."""
        self.builder.add(name, Engine.VECTOR, VectorOperation.PROGRAM, program.body(),
                         reads=program.reads, writes=program.writes)

    def program(self, strip: Buffer) -> VectorProgram:
        """An empty program over a strip."""
        return VectorProgram(self.parameters, strip.rows, strip.columns)

    def column_sum(self, program: VectorProgram, layer: Block, first: bool) -> None:
        """Sum region "d" over its rows into the layer's bias gradient."""
        bias = self.bias(layer, "gradients")
        if first:
            program.run(VectorOp.SUM, "db", "d", shape="row")
        else:
            program.load("db", bias, "row")
            program.run(VectorOp.SUM, "part", "d", shape="row")
            program.run(VectorOp.ADD, "db", "db", "part")
        program.store("db", bias)

    def operand(self, layer: Block) -> Buffer:
        """A layer's weights as the matrix engine reads them."""
        return self.builder.buffers[f"{layer.name}.operand"] if self.half else self.weights(layer,
                                                                                           "parameters")

    def copy_weights(self) -> None:
        """FP16 copies of the weights, in pieces that fit the vector scratchpad."""
        for layer in self.blocks:
            weights, operand = self.weights(layer, "parameters"), self.operand(layer)
            row_lines = region_lines(self.parameters, 1, layer.outputs, "full")
            rows = scratchpad_lines(self.parameters) // row_lines
            for start in range(0, layer.inputs, rows):
                count = min(rows, layer.inputs - start)
                program = VectorProgram(self.parameters, count, layer.outputs)
                program.load("w", weights.part(weights.name, start * weights.stride, count, layer.outputs))
                program.store("w", operand.part(operand.name, start * operand.stride, count, layer.outputs,
                                                operand.stride))
                self.vector(f"{layer.name}.to_fp16[{start}]", program)

    def forward(self) -> None:
        """fprop, and the loss with its gradient."""
        if self.half:
            self.copy_weights()
        previous = self.strips("input")
        for layer in self.blocks:
            last = layer is self.blocks[-1]
            products, outputs = self.strips(f"{layer.name}.product"), self.strips(f"{layer.name}.output")
            for index, (x, z, y) in enumerate(zip(previous, products, outputs, strict=True)):
                self.gemm(f"{layer.name}.fprop[{index}]", x, self.operand(layer), z)
                if last:
                    self.loss(layer, index, z)
                else:
                    program = self.program(y)
                    program.load("z", z)
                    program.load("b", self.bias(layer, "parameters"), "row")
                    program.run(VectorOp.ADD, "z", "z", "b")
                    program.run(VectorOp.RELU, "z", "z")
                    program.store("z", y)
                    self.vector(f"{layer.name}.relu[{index}]", program)
            previous = outputs

    def loss(self, layer: Block, index: int, y: Buffer) -> None:
        """Softmax, cross-entropy gradient and bias gradient of one strip."""
        program = self.program(y)
        program.load("z", y)
        program.load("t", self.strips("target")[index])
        program.load("b", self.bias(layer, "parameters"), "row")
        program.run(VectorOp.ADD, "z", "z", "b")
        program.run(VectorOp.MAXIMUM, "m", "z", shape="column")
        program.run(VectorOp.SUB, "z", "z", "m")
        program.run(VectorOp.FUNCTION, "z", "z", VectorFunction.EXPONENTIAL)
        program.run(VectorOp.SUM, "m", "z")
        program.run(VectorOp.FUNCTION, "m", "m", VectorFunction.RECIPROCAL)
        program.run(VectorOp.MUL, "z", "z", "m")
        program.run(VectorOp.SUB, "d", "z", "t")
        program.run(VectorOp.SCALE, "d", "d", immediate=self.scale / self.batch)
        program.store("z", self.strips("probabilities")[index])
        self.column_sum(program, layer, first=index == 0)
        program.store("d", self.strips(f"{layer.name}.error")[index])
        self.vector(f"{layer.name}.loss[{index}]", program)

    def backward(self) -> None:
        """updateGrad, bprop and the collectives, last layer first."""
        for number in reversed(range(len(self.blocks))):
            layer = self.blocks[number]
            errors = self.strips(f"{layer.name}.error")
            below = self.blocks[number - 1] if number else None
            if below:
                products = self.strips(f"{below.name}.product")
                for index, (d, z, e) in enumerate(zip(errors, products, self.strips(f"{below.name}.error"),
                                                      strict=True)):
                    self.gemm(f"{below.name}.bprop[{index}]", d, self.operand(layer), z, transpose_b=True)
                    program = self.program(e)
                    program.load("d", z)
                    program.load("a", self.strips(f"{below.name}.output")[index])
                    program.run(VectorOp.RELU_MASK, "d", "d", "a")
                    self.column_sum(program, below, first=index == 0)
                    program.store("d", e)
                    self.vector(f"{below.name}.relu_backward[{index}]", program)
            source = f"{below.name}.output" if below else "input"
            self.gemm(f"{layer.name}.update_grad", self.builder.buffers[source],
                      self.builder.buffers[f"{layer.name}.error"], self.weights(layer, "gradients"),
                      transpose_a=True, reads=[*self.strips(source), *errors])
            parameters = self.builder.buffers[f"{layer.name}.parameters"]
            self.builder.add(f"{layer.name}.all_reduce", Engine.COLLECTIVE, CollectiveOperation.ALL_REDUCE, {
                "source": self.builder.buffers[f"{layer.name}.gradients"].pointer,
                "destination": parameters.pointer, "words": layer.parameters, "group": 0,
                "update": UpdateOperation.SGD, "message": number,
                "rate": int(np.float32(self.rate / self.scale).view(np.uint32)),
            }, reads=[self.weights(layer, "gradients"), self.bias(layer, "gradients")],
                writes=[self.weights(layer, "parameters"), self.bias(layer, "parameters")])


def lower_training(network: Network, plan: Plan, parameters: DieParameters, *, rate: float, steps: int,
                   memory_words: int) -> Program:
    """The graphs of a data-parallel training step on every die of the plan.

    Parameters
    ----------
    rate : float
        Learning rate, rounded to FP32.
    steps : int
        Steps of an epoch: inputs and targets of that many batches lie in memory, and two base registers
        step through them.
    memory_words : int
        Memory of a die.

    Raises
    ------
    UserError
        If a layer cannot be lowered, or the network does not fit the die's memory or its vector scratchpad.
    """
    blocks = chain(network)
    if plan.batch % plan.dies:
        raise UserError(f"a batch of {plan.batch} does not divide over {plan.dies} dies; choose a multiple of "
                        f"{plan.dies}")
    other = next((node.name for node, splits in zip(plan.graph.nodes, plan.splits, strict=True)
                  if set(splits) - {DP}), None)
    if other:
        raise UserError(f"layer {other!r} is not data-parallel in the plan by {plan.planner!r}, and only such plans "
                        "are lowered yet; choose planner data")
    members, group = list(range(plan.dies)), 0
    setup, step = [], []
    for die in range(plan.dies):
        setup.append(ring_setup(parameters, members, die, group))
        stage = _StepBuilder(blocks, parameters, plan.batch // plan.dies, plan.batch, rate, steps,
                             GraphBuilder(parameters))
        stage.forward()
        stage.backward()
        step.append(stage.builder)
    return assemble(setup, step, memory_words=memory_words, gradient_scale=stage.scale)
