"""Compiled co-simulation of row-stationary dies against the golden model: all products, same driver, same memory."""

import pytest
from tests.support.compiled import compare
from tests.support.dies import ROWS as TINY
from tests.support.dies import ROWS_FIXED, ROWS_MIXED

from plinth.buffers import Buffer
from plinth.driver.driver import DieError, Driver
from plinth.driver.program import Program
from plinth.lower.builder import GraphBuilder
from plinth.lower.program import assemble, ring_setup
from plinth.machine.convolution import ConvolutionShape, FeatureMap
from plinth.machine.row_stationary_tasks import RowStationary
from plinth_hw.isa.operations import Engine, MatrixOperation
from plinth_hw.isa.parameters import DieParameters
from plinth_sim.rtl.cosim import CosimArray

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tiny-dies")]

MEMORY_WORDS = 1 << 17


def program(die: DieParameters, *layers: ConvolutionShape, images: int = 2) -> tuple[Program, list[Buffer]]:
    """Each layer and a fully connected one behind it, forwards and backwards; where operands are narrow, what the one
    computes is not what the other reads."""
    builder, maker = GraphBuilder(die), RowStationary(die)
    buffers: list[Buffer] = []
    half = die.packing > 1

    def place(name: str, rows: int, columns: int, packed: bool = False) -> Buffer:
        buffers.append(builder.allocate(name, rows, columns, packed=packed))
        return buffers[-1]

    def operand(sums: Buffer) -> Buffer:
        return place(f"{sums.name} operand", sums.rows, sums.columns, True) if half else sums

    def add(name: str, groups: list, reads: list[Buffer], write: Buffer) -> None:
        for number, group in enumerate(groups):
            builder.add_parts([f"{name} {number}.{part}" for part in range(len(group))], Engine.MATRIX,
                              maker.operation(False), group, reads=[*reads, *([write] if number else [])],
                              writes=[write])

    for number, layer in enumerate(layers):
        inside, outside = images * layer.height * layer.width, images * layer.out_height * layer.out_width
        x, dx = (place(f"{name}{number}", inside, layer.inputs, half and name == "x") for name in ("x", "dx"))
        z, dz = (place(f"{name}{number}", outside, layer.outputs) for name in ("z", "dz"))
        w, dw = (place(f"{name}{number}", layer.taps, layer.outputs, half and name == "w") for name in ("w", "dw"))
        v, dv = (place(f"{name}{number}", layer.outputs, 9, half and name == "v") for name in ("v", "dv"))
        y, dy = (place(f"{name}{number}", outside, 9, half and name == "dy") for name in ("y", "dy"))
        a, e = operand(z), operand(dz)
        maps = [FeatureMap(buffer, layer.height, layer.width) for buffer in (x, dx)]
        outer = [FeatureMap(buffer, layer.out_height, layer.out_width) for buffer in (z, e)]
        add(f"fprop {number}", maker.forward(layer, maps[0], w, outer[0]), [x, w], z)
        add(f"fc fprop {number}", maker.dense_forward(a, v, y), [a, v], y)
        add(f"fc update {number}", maker.dense_weight_gradient(a, dy, dv), [a, dy], dv)
        add(f"fc bprop {number}", maker.dense_input_gradient(dy, v, dz), [dy, v], dz)
        add(f"update {number}", maker.weight_gradient(layer, maps[0], outer[1], dw), [x, e], dw)
        add(f"bprop {number}", maker.input_gradient(layer, outer[1], w, maps[1]), [e, w], dx)
    return assemble([ring_setup(die, [0], 0, 0)], [builder], memory_words=MEMORY_WORDS), buffers


def layer(size: int, inputs: int, outputs: int, kernel: int, stride: int, padding: int) -> ConvolutionShape:
    return ConvolutionShape(height=size, width=size + 1, inputs=inputs, outputs=outputs, kernel=(kernel, kernel),
                            stride=(stride, stride), padding=(padding, padding))


@pytest.mark.parametrize("die", [TINY, ROWS_MIXED, ROWS_FIXED], ids=["fp32", "mixed", "fixed"])
@pytest.mark.parametrize(("memory_latency", "write_latency"), [(20, 20), (1, 1), (200, 100)])
def test_products_give_equal_memory(memory_latency: int, write_latency: int, die: DieParameters) -> None:
    compare(*program(die, layer(7, 6, 5, 3, 1, 1), layer(9, 3, 7, 5, 2, 2)), 3, memory_words=MEMORY_WORDS,
            memory_latency=memory_latency, write_latency=write_latency)


@pytest.mark.parametrize("operation", [MatrixOperation.GEMM, MatrixOperation.CONVOLUTION])
def test_operations_of_other_machines_stop_the_die(operation: MatrixOperation) -> None:
    builder = GraphBuilder(TINY)
    builder.add("victim", Engine.MATRIX, operation, {"m": 1, "n": 1, "k": 1})
    program = assemble([ring_setup(TINY, [0], 0, 0)], [builder], memory_words=MEMORY_WORDS)
    with CosimArray(TINY, 1, MEMORY_WORDS) as rtl, pytest.raises(DieError, match="BAD_OPERATION"):
        Driver(rtl, program, memory_words=MEMORY_WORDS).step(0)
