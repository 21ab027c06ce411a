"""Sizes of products, and which tasks and mappings each machine makes of them."""

import pytest

from plinth.buffers import Buffer
from plinth.machine.convolution import ConvolutionWindow, FeatureMap
from plinth.machine.die import DieCycles
from plinth.machine.mappings import work
from plinth.machine.products import BPROP, DIRECTIONS, FPROP, UPDATE, Product, matrix_tasks, row_stationary_parts
from plinth.machine.systolic_cycles import cost, shape
from plinth_hw.isa.operations import MatrixOperation
from plinth_hw.isa.parameters import preset

#: 7 x 9 places, kernels of 3 x 2, every second row: 3 x 8 positions.
WINDOW = ConvolutionWindow((7, 9), (3, 2), (2, 1), (0, 0), (3, 8))


@pytest.mark.parametrize(("direction", "window", "gemm", "run", "packed"), [
    (FPROP, None, (5, 11, 6), 0, 0), (BPROP, None, (5, 6, 11), 0, 0), (UPDATE, None, (6, 11, 5), 0, 0),
    (FPROP, WINDOW, (5 * 24, 11, 36), 12, 12), (UPDATE, WINDOW, (36, 11, 5 * 24), 12, 12),
    # 63 places share the 24 positions' taps: 11 outputs of 6 taps, 25.1 of 66 a place. 11 do not end with a word.
    (BPROP, WINDOW, (5 * 63, 6, 26), 22, 11)])
def test_sizes(direction: str, window: ConvolutionWindow | None, gemm: tuple[int, int, int], run: int, packed: int,
               ) -> None:
    product = Product(direction, 5, 6, 11, window)
    assert (product.gemm, product.run(1), product.run(2)) == (gemm, run, packed)
    assert product.weights == (6 if window else 1) * 6 * 11
    assert product.name == ("convolution-" if window else "") + direction and not product.empty


def test_a_run_is_no_longer_than_all_taps() -> None:
    """Of a kernel of four columns over a stride of four each place meets one."""
    strided = ConvolutionWindow((4, 16), (1, 4), (1, 4), (0, 0), (4, 4))
    product = Product(BPROP, 1, 3, 10, strided)
    assert product.gemm == (64, 3, 10) and product.run(1) == 10
    assert Product(FPROP, 1, 3, 10, strided).run(1) == 12


@pytest.mark.parametrize("sizes", [(0, 5, 5), (5, 0, 5), (5, 5, 0)])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_nothing_of_any_size_is_empty(direction: str, sizes: tuple[int, int, int]) -> None:
    product = Product(direction, *sizes)
    assert product.empty
    for name in ("ndp-demo", "hypar-demo"):
        assert DieCycles(preset(name)).product(product) == ((0.0, 0.0), 0.0, 0.0)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("window", [None, WINDOW])
def test_a_die_costs_a_product_as_its_machine_does(direction: str, window: ConvolutionWindow | None) -> None:
    product = Product(direction, 5, 6, 11, window)
    systolic, stationary = preset("ndp-demo-mixed"), preset("hypar-demo")
    walked = cost(systolic, shape(systolic, product.name, *product.gemm, product.run(2)))
    cycles, words, memory = DieCycles(systolic).product(product)
    assert cycles == (walked.alone, walked.row) and words == 8 * (walked.reads + walked.writes)
    assert memory == max(words / 10, walked.reads) / walked.row
    costed = work(stationary, row_stationary_parts(stationary, product))
    assert DieCycles(stationary).product(product) == (
        (costed.alone, costed.row), costed.read + costed.written, (costed.read + costed.written) / 10 / costed.row)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_connected_layers_are_products_of_matrices(direction: str) -> None:
    """Samples x inputs, inputs x outputs, samples x outputs: the body's sizes are the product's."""
    x, w, z = Buffer("x", 100, 5, 6, 8), Buffer("w", 200, 6, 11, 12), Buffer("z", 300, 5, 11, 16)
    a, b, c = {FPROP: (x, w, z), BPROP: (z, w, x), UPDATE: (x, z, w)}[direction]
    operation, ((body,),) = matrix_tasks(preset("ndp-demo"), "fc", direction, None, a, b, c)
    assert operation == MatrixOperation.GEMM
    assert (body["m"], body["n"], body["k"]) == Product(direction, 5, 6, 11).gemm
    assert (body["transpose_a"], body["transpose_b"]) == (direction == UPDATE, direction == BPROP)
    assert [body[f"{side}_stride"] for side in "abc"] == [a.stride, b.stride, c.stride]
    assert [body[side]["offset"] for side in "abc"] == [a.address, b.address, c.address]
    assert matrix_tasks(preset("hypar-demo"), "fc", direction, None, a, b, c).operation == (
        MatrixOperation.ROW_STATIONARY)


def test_maps_of_images() -> None:
    maps = FeatureMap(Buffer("x", 100, 2 * 12, 6, 8), 3, 4)
    assert (maps.images, maps.channels, maps.row_words, maps.image_words) == (2, 6, 32, 96)
    assert maps.pointer(1, 2, 3)["offset"] == 100 + 96 + 64 + 24
