"""Costs of products on the row-stationary machine: bounds, agreement with lowered tasks."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from tests.support.convolutions import square
from tests.support.row_stationary import task_work

from plinth.buffers import Buffer
from plinth.machine import choices, mappings
from plinth.machine.choices import balanced
from plinth.machine.convolution import ConvolutionShape, ConvolutionWindow, FeatureMap
from plinth.machine.die import DieCycles
from plinth.machine.mappings import pieces, work
from plinth.machine.products import BPROP, DIRECTIONS, FPROP, UPDATE, Product, row_stationary_parts
from plinth.machine.row_stationary_tasks import RowStationary
from plinth_hw.isa.parameters import DieParameters, preset

DEMO, MIXED, PAPER = (preset(f"hypar-{name}") for name in ("demo", "demo-mixed", "paper"))
#: AlexNet's convolutions, batch 4: channels (of one group), filters, size, kernel, stride, padding.
ALEXNET = {"conv1": (3, 96, 227, 11, 4, 0), "conv2": (48, 256, 27, 5, 1, 2), "conv3": (256, 384, 13, 3, 1, 1),
           "conv4": (192, 384, 13, 3, 1, 1), "conv5": (192, 256, 13, 3, 1, 1)}


@pytest.mark.parametrize("layer", ALEXNET)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_no_product_is_faster_than_its_multiplications(layer: str, direction: str) -> None:
    inputs, outputs, *window = ALEXNET[layer]
    product = Product(direction, 4, inputs, outputs, square(*window))
    cycles, words, share = DieCycles(PAPER).product(product)
    m, n, k = product.gemm
    assert m * n * k / 168 <= cycles[1] < cycles[0]
    assert 0 < share < 1
    assert m * n * k / 168 / cycles[0] > (0.85 if direction == FPROP else 0.25)
    assert words > 4 * outputs


@pytest.mark.parametrize("die", [DEMO, MIXED], ids=lambda die: die.name)
@pytest.mark.parametrize("shape", [(32, 288, 10), (1, 1, 1), (17, 100, 31), (128, 64, 64)])
def test_costs_are_those_of_the_tasks_that_are_lowered(shape: tuple[int, int, int], die: DieParameters) -> None:
    samples, inputs, outputs = shape
    x, w, z = (Buffer(name, 0, rows, columns, columns) for name, rows, columns in (
        ("x", samples, inputs), ("w", inputs, outputs), ("z", samples, outputs)))
    maker = RowStationary(die)
    groups = {"fprop": maker.dense_forward(x, w, z), "bprop": maker.dense_input_gradient(z, w, x),
              "update": maker.dense_weight_gradient(x, z, w)}
    for direction, bodies in groups.items():
        costs = work(die, row_stationary_parts(die, Product(direction, *shape)))
        tasks = [task_work(die, SimpleNamespace(**body)) for group in bodies for body in group]
        assert costs.row == pytest.approx(sum(task.row for task in tasks))
        assert costs.read + costs.written == pytest.approx(sum(task.read + task.written for task in tasks))


@pytest.mark.parametrize("window", [square(7, 3, 2, 1), square(8, 3, 2, 1), square(9, 2, 3, 1), square(5, 1, 2, 0)])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_convolutions_are_costed_as_they_are_lowered(direction: str, window: ConvolutionWindow) -> None:
    """Strides that divide nothing, taps that meet no places."""
    size, output = window.size[0], window.output[0]
    layer = ConvolutionShape(height=size, width=size, inputs=6, outputs=10, kernel=window.kernel, stride=window.stride,
                             padding=window.padding)
    x, z = (FeatureMap(Buffer(name, 0, 4 * side * side, channels, channels), side, side)
            for name, side, channels in (("x", size, 6), ("z", output, 10)))
    w = Buffer("w", 0, layer.taps, 10, 10)
    maker = RowStationary(DEMO)
    make = {FPROP: lambda: maker.forward(layer, x, w, z), BPROP: lambda: maker.input_gradient(layer, z, w, x),
            UPDATE: lambda: maker.weight_gradient(layer, x, z, w)}[direction]
    parts = row_stationary_parts(DEMO, Product(direction, 4, 6, 10, window))
    sizes = [(task.images, task.rows, task.windows, task.run, loops.channels, loops.kernel_rows, loops.kernel_columns)
             for loops, mapping in parts for task in pieces(loops, mapping)]
    fields = ("images", "rows", "windows", "window_run", "channels", "kernel_rows", "kernel_columns")
    assert [tuple(body[field] for field in fields) for group in make() for body in group] == sizes


@pytest.mark.parametrize("direction", [FPROP, BPROP])
def test_narrow_operands_take_fewer_words_and_no_more_cycles(direction: str) -> None:
    product = Product(direction, 8, 64, 96, square(*ALEXNET["conv5"][2:]))
    narrow, wide = (work(die, row_stationary_parts(die, product)) for die in (MIXED, DEMO))
    assert 0.45 * wide.read < narrow.read < 0.9 * wide.read
    assert narrow.row <= 1.01 * wide.row


def test_an_empty_product_takes_nothing() -> None:
    assert DieCycles(DEMO).product(Product(UPDATE, 0, 5, 5)).cycles == (0, 0)


#: Convolutions, some whose sizes do not divide, and connected layers.
CONVOLUTIONS = [Product(direction, 3, inputs, outputs, square(*window)) for direction in DIRECTIONS
                for inputs, outputs, *window in ((3, 17, 19, 5, 2, 2), (20, 33, 13, 3, 1, 1), (64, 64, 14, 3, 1, 1))]
CONNECTED = [Product(direction, *shape) for direction in DIRECTIONS
             for shape in ((16, 100, 70), (37, 600, 10), (5, 31, 1000))]


@pytest.mark.parametrize(("die", "product"), [
    *((die, product) for die in (DEMO, PAPER) for product in CONVOLUTIONS),
    *((die, product) for die in (DEMO, MIXED, PAPER) for product in CONNECTED)])
def test_only_mappings_that_are_worse_are_left_out(die: DieParameters, product: Product,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    parts = row_stationary_parts(die, product)
    # All that fit are costed where any number of cycles is few enough.
    monkeypatch.setattr(choices._Space, "enough", lambda *_: np.inf)
    for loops, mapping in parts:
        assert choices._choose.__wrapped__(die, loops) == mapping


@pytest.mark.parametrize("product", CONVOLUTIONS + CONNECTED)
def test_tasks_of_a_size_are_costed_once(product: Product) -> None:
    parts = row_stationary_parts(PAPER, product)
    more, total = 0.0, np.zeros(3)
    for loops, mapping in parts:
        tasks = [(task.images, task.rows, task.windows, task.run) for task in pieces(loops, mapping)]
        assert Counter(tasks) == {tuple(size): count for *size, count in mappings._sizes(loops, mapping)}
        for task in tasks:
            row, around, *words = mappings.costs(PAPER, loops, mapping, *task)
            more, total = max(more, around), total + np.array([row, *words])
    costs = work(PAPER, parts)
    assert (costs.alone - costs.row, costs.row, costs.read, costs.written) == pytest.approx((more, *total))


def test_balanced_parts() -> None:
    assert balanced(13, 12) == [7, 5, 4, 3, 2, 1]
    assert balanced(12, 12) == [12, 6, 4, 3, 2, 1]
    assert balanced(1, 5) == [1]
