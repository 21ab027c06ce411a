"""Rows about the row-stationary machine: convolution layers on the RTL of ``hypar-paper``, and their memory traffic on
both machines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from plinth.bench.pool import spread
from plinth.bench.row import BenchRow
from plinth.buffers import Buffer
from plinth.driver.driver import Driver
from plinth.lower.builder import GraphBuilder
from plinth.lower.program import assemble, ring_setup
from plinth.machine.convolution import ConvolutionShape, ConvolutionWindow, FeatureMap
from plinth.machine.die import DieCycles
from plinth.machine.products import BPROP, DIRECTIONS, FPROP, MAKERS, Product
from plinth.runtime.arrays import cosim_array, golden_array
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import preset

#: Memory of the die, in words.
MEMORY_WORDS = 1 << 23


def _square(inputs: int, outputs: int, size: int, kernel: int, stride: int, padding: int) -> ConvolutionShape:
    return ConvolutionShape(height=size, width=size, inputs=inputs, outputs=outputs, kernel=(kernel, kernel),
                            stride=(stride, stride), padding=(padding, padding))


#: AlexNet's layers as Eyeriss's Table II has them (filters over the channels of one group), batch 4; VGG-A's third.
ALEXNET = {"conv1": (_square(3, 96, 227, 11, 4, 0), 4), "conv2": (_square(48, 256, 27, 5, 1, 2), 4),
           "conv3": (_square(256, 384, 13, 3, 1, 1), 4), "conv4": (_square(192, 384, 13, 3, 1, 1), 4),
           "conv5": (_square(192, 256, 13, 3, 1, 1), 4)}
LAYERS = ALEXNET | {"vgg_conv3_1": (_square(128, 256, 56, 3, 1, 1), 1)}
#: Presets of the two machines.
ROW_STATIONARY, SYSTOLIC = "hypar-paper", "ndp-bench"


@dataclass(frozen=True)
class Measured:
    """A product on the RTL, from the first task's start to the last write response."""

    cycles: int
    #: Multiply-adds with elements of the maps.
    useful: int
    #: Words of the beats that memory moved, descriptors included.
    words: int
    tasks: int


@dataclass(frozen=True)
class ProductCase:
    """A layer's product on one die of a preset."""

    preset: str
    layer: str
    shape: ConvolutionShape
    images: int
    direction: str


#: What has been measured.
_measured: dict[ProductCase, Measured] = {}


def _all(name: str, layers: Sequence[str], directions: Sequence[str]) -> dict[tuple[str, str], Measured]:
    """Products of layers on a preset, by layer and direction, spread over the processors."""
    cases = [ProductCase(name, layer, *LAYERS[layer], direction) for layer in layers for direction in directions]
    missing = [case for case in cases if case not in _measured]
    for place, product in spread(measure, missing) if missing else ():
        _measured[missing[place]] = product
    return {(case.layer, case.direction): _measured[case] for case in cases}


def measure(case: ProductCase) -> Measured:
    """A product on the RTL; its result is checked against the golden model's."""
    name, layer, shape, images, direction = case.preset, case.layer, case.shape, case.images, case.direction
    parameters = preset(name)
    builder = GraphBuilder(parameters)
    x, z = (builder.allocate(place, images * rows, columns, dense=True) for place, rows, columns in (
        ("x", shape.height * shape.width, shape.inputs), ("z", shape.out_height * shape.out_width, shape.outputs)))
    w = builder.allocate("w", shape.taps, shape.outputs, dense=True)
    maps = FeatureMap(x, shape.height, shape.width), FeatureMap(z, shape.out_height, shape.out_width)
    maker = MAKERS[parameters.machine](parameters, layer)
    if direction == FPROP:
        groups, (first, second, result) = maker.forward(shape, maps[0], w, maps[1]), (x, w, z)
    elif direction == BPROP:
        groups, (first, second, result) = maker.input_gradient(shape, maps[1], w, maps[0]), (z, w, x)
    else:
        groups, (first, second, result) = maker.weight_gradient(shape, maps[0], maps[1], w), (x, z, w)
    for bodies in groups:
        builder.add_parts([direction] * len(bodies), Engine.MATRIX, maker.operation(False), bodies,
                          reads=[first, second], writes=[result])
    program = assemble([ring_setup(parameters, [0], 0, 0)], [builder], memory_words=MEMORY_WORDS)
    drivers = [Driver(array, program, memory_words=MEMORY_WORDS) for array in (
        cosim_array(parameters, 1, MEMORY_WORDS)[0], golden_array(parameters, 1, MEMORY_WORDS))]
    for driver in drivers:
        for seed, buffer in enumerate((first, second)):
            driver.write(0, buffer, _random_words(buffer, seed))
        driver.clear_counters()
        driver.step(0)
    if not np.array_equal(drivers[0].read(0, result), drivers[1].read(0, result)):
        raise AssertionError(f"{direction} of {layer} on the RTL of {name} differs from the golden model's")
    records = drivers[0].records(0)
    return Measured(max(record.end for record in records) - min(record.start for record in records),
                    sum(record.useful_macs for record in records), drivers[0].memory_words_moved(0), len(records))


def _random_words(buffer: Buffer, seed: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    values = np.random.default_rng(seed).standard_normal((buffer.rows, buffer.columns))
    return values.astype(np.float32).view(np.uint32)


def bound(layer: str, direction: str) -> float:
    """Utilisation by the mapping's own formula, padding counted as work."""
    parameters, (shape, images) = preset(ROW_STATIONARY), LAYERS[layer]
    product = Product(direction, images, shape.inputs, shape.outputs, ConvolutionWindow(
        (shape.height, shape.width), shape.kernel, shape.stride, shape.padding, (shape.out_height, shape.out_width)))
    cycles = DieCycles(parameters).product(product).cycles[0]
    return images * _macs(shape) / (parameters.rows * parameters.columns * cycles)


def _macs(shape: ConvolutionShape) -> int:
    """Multiply-adds of an image, padding and all."""
    return shape.out_height * shape.out_width * shape.taps * shape.outputs


def rs_utilisation(layer: str) -> list[BenchRow]:
    """fprop on 12x14 FP32; in detail also bprop and updateGrad."""
    parameters, (shape, images) = preset(ROW_STATIONARY), LAYERS[layer]
    pes, value = parameters.rows * parameters.columns, 0.0
    detail: dict[str, Any] = {"images": images}
    for (_, direction), product in _all(ROW_STATIONARY, [layer], DIRECTIONS).items():
        available = pes * product.cycles
        value = value or product.useful / available
        detail[direction] = {
            "useful": product.useful / available, "with_padding": images * _macs(shape) / available,
            "bound_with_padding": bound(layer, direction), "cycles": product.cycles, "tasks": product.tasks,
            "dram_words_per_mac": product.words / product.useful}
    return [BenchRow(f"rs_utilisation_{layer}", value, "useful multiply-adds / (PEs x cycles)",
                     "rows and columns of the array that the layer leaves over; padding", detail)]


def dram_words_per_mac(name: str, row: str) -> list[BenchRow]:
    """Words that memory moves for a multiply-add of AlexNet's convolutions, fprop."""
    products = {layer: product for (layer, _), product in _all(name, list(ALEXNET), [FPROP]).items()}
    value = sum(product.words for product in products.values()) / sum(product.useful for product in products.values())
    return [BenchRow(row, value, "words / useful multiply-add", "maps that are loaded again for further filters",
                     {"preset": name,
                      **{layer: product.words / product.useful for layer, product in products.items()}})]


#: Every row's name and the function that makes it.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {
    **{f"rs_utilisation_{layer}": partial(rs_utilisation, layer) for layer in LAYERS},
    **{row: partial(dram_words_per_mac, name, row) for row, name in (
        ("rs_dram_words_per_mac", ROW_STATIONARY), ("systolic_dram_words_per_mac", SYSTOLIC))},
}
