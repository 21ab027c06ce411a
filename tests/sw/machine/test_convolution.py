"""ConvolutionShape tasks on the golden model against direct convolution in float64."""

import numpy as np
import pytest
from tests.support.convolutions import PASSES, Placed, direct, random_layer
from tests.support.refusal import refused

from plinth.buffers import Buffer
from plinth.machine.convolution import ConvolutionShape, FeatureMap, Grid, forward, parts
from plinth.network.layers import Convolution, Shape
from plinth_hw.isa.formats import FP16
from plinth_hw.isa.layout import pack, unpack
from plinth_hw.isa.matrix_bodies import MatrixBody
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_sim.golden import convolution

TINY = preset("ndp-tiny")
MIXED = preset("ndp-tiny", multiply_format=FP16)


def run(memory: np.ndarray, parameters: DieParameters, bodies: list[dict]) -> int:
    """Run tasks; returns the sum of their useful multiply-adds."""
    useful = 0
    for fields in bodies:
        body = unpack(MatrixBody, pack(MatrixBody, fields))
        useful += convolution.execute(memory, body, [0] * 16, parameters.multiply_format).useful_macs
    return useful


def inner_macs(layer: ConvolutionShape, images: int) -> int:
    """Multiply-adds with elements of the map, counted place by place."""
    rows, columns = (sum(0 <= out * step + tap - padding < size for out in range(outs) for tap in range(taps))
                     for outs, taps, step, padding, size in zip(
                         (layer.out_height, layer.out_width), layer.kernel, layer.stride, layer.padding[:2],
                         (layer.height, layer.width), strict=True))
    return images * rows * columns * layer.inputs * layer.outputs


@pytest.mark.parametrize("parameters", [TINY, MIXED], ids=["fp32", "fp16"])
@pytest.mark.parametrize("seed", range(40))
def test_passes(parameters: DieParameters, seed: int) -> None:
    """All passes of a random layer, of any kernel, stride, padding and storage, with and without accumulation."""
    rng = np.random.default_rng(seed)
    layer, images = random_layer(rng)
    placed = Placed(layer, images, parameters, rng, packed=parameters is MIXED)
    memory = np.full(placed.at + 8, 0x7FC00000, dtype=np.uint32)
    shapes = {"x": (images, layer.height, layer.width, layer.inputs),
              "w": (*layer.kernel, layer.inputs, layer.outputs),
              "dz": (images, layer.out_height, layer.out_width, layer.outputs)}
    values = {name: rng.normal(size=shape).astype(np.float16 if placed.packed else np.float32)
              for name, shape in shapes.items()}
    for name, value in values.items():
        placed.write(memory, name, value)
    exact = direct(layer, *(values[name].astype(np.float64) for name in shapes))
    for name in PASSES:
        useful = run(memory, parameters, placed.bodies(name))
        result = placed.read(memory, name, exact[name].shape)
        np.testing.assert_allclose(result, exact[name], rtol=1e-4, atol=1e-4, err_msg=f"{name} of {layer}")
        assert useful == inner_macs(layer, images), (name, layer)
        again = rng.normal(size=exact[name].shape).astype(np.float32)
        placed.write(memory, name, again)
        run(memory, parameters, placed.bodies(name, accumulate=True))
        np.testing.assert_allclose(placed.read(memory, name, exact[name].shape), exact[name] + again, rtol=1e-4,
                                   atol=1e-4, err_msg=f"{name} of {layer}, accumulated")
    written = np.zeros(len(memory), dtype=bool)
    for buffer in placed.buffers.values():
        for row in range(buffer.rows):
            written[buffer.address + row * buffer.stride:][:buffer.row_words] = True
    assert (memory[~written] == 0x7FC00000).all()


def test_order_of_the_input_gradient() -> None:
    """Taps descend: a sum that any other order would round differently."""
    layer = ConvolutionShape(height=6, width=6, inputs=1, outputs=3, kernel=(3, 3), padding=(1, 1))
    rng = np.random.default_rng(1)
    placed = Placed(layer, 1, TINY, rng, packed=False)
    memory = np.zeros(placed.at, dtype=np.uint32)
    w = rng.normal(size=(3, 3, 1, 3)).astype(np.float32)
    dz = (rng.normal(size=(6, 6, 3)) * 10.0 ** rng.integers(-4, 5, (6, 6, 3))).astype(np.float32)
    placed.write(memory, "w", w)
    placed.write(memory, "dz", dz)
    run(memory, TINY, placed.bodies("input_gradient"))
    expected = np.zeros((6, 6, 1), dtype=np.float32)
    for y in range(6):
        for x in range(6):
            for u in reversed(range(3)):
                for v in reversed(range(3)):
                    i, j = y - u + 1, x - v + 1
                    for n in range(3):
                        term = dz[i, j, n] if 0 <= i < 6 and 0 <= j < 6 else np.float32(0)
                        expected[y, x, 0] = expected[y, x, 0] + term * w[u, v, 0, n]
    assert placed.read(memory, "input_gradient", (6, 6, 1)).tobytes() == expected.tobytes()


def test_parts_save_tiles() -> None:
    """The last rows of a grid get a task of their own where it saves enough."""
    bench = preset("ndp-bench")
    late = parts(bench, Grid(4, 7, 7), 512, 4608)
    assert [(part.image, part.row, part.rows, part.positions) for part in late] == [(0, 0, 7, 189), (3, 6, 1, 7)]
    assert len(parts(bench, Grid(1, 56, 56), 128, 1152)) == len(parts(TINY, Grid(1, 3, 3), 4, 9)) == 1
    for grid in (Grid(4, 14, 14), Grid(2, 5, 9), Grid(1, 1, 1), Grid(3, 1, 50)):
        grid_parts = parts(bench, grid, 70, 300)
        assert sum(part.positions for part in grid_parts) == grid.images * grid.rows * grid.columns


@pytest.mark.parametrize(("change", "message"), [
    ({"kernel": (3, 0)}, r"kernel must be positive, not \(3, 0\)"), ({"outputs": 0}, "outputs must be positive, not 0"),
    ({"stride": (0, 1)}, r"stride must be positive, not \(0, 1\)"),
    ({"padding": (0, -1)}, r"padding must not be negative, not \(0, -1\)"),
    ({"padding": (1, 1, -2, 1)}, r"padding must not be negative, not \(1, 1, -2, 1\)"),
    ({"height": 1, "padding": (0, 1, 1, 1)}, r"3 x 3 does not fit a map of 1 x 5 with padding \(0, 1, 1, 1\)"),
    ({"height": 2, "padding": (0, 0)}, r"a kernel of 3 x 3 does not fit a map of 2 x 5 with padding \(0, 0\)")])
def test_bad_layers(change: dict, message: str) -> None:
    sizes = {"height": 5, "width": 5, "inputs": 2, "outputs": 2, "kernel": (3, 3), "padding": (1, 1)}
    with refused(ValueError, message):
        ConvolutionShape(**sizes | change)


def test_shape_of_a_networks_layer() -> None:
    layer = Convolution(name="c", channels=4, kernel=(3, 2), stride=(1, 2), padding=(1, 0))
    shape = ConvolutionShape.of(layer, Shape((3, 8, 9)))
    assert shape == ConvolutionShape(height=8, width=9, inputs=3, outputs=4, kernel=(3, 2), stride=(1, 2),
                                     padding=(1, 0))
    assert Shape((4, shape.out_height, shape.out_width)) == layer.output([Shape((3, 8, 9))])


def test_shapes_must_agree() -> None:
    layer = ConvolutionShape(height=5, width=5, inputs=2, outputs=3, kernel=(3, 3))
    x = FeatureMap(Buffer("x", 0, 25, 2, 2), 5, 5)
    z = FeatureMap(Buffer("z", 100, 9, 3, 3), 3, 3)
    with refused(ValueError, r"The weights must have the shape \(18, 3\), not \(18, 4\)"):
        forward(layer, TINY, x, Buffer("w", 50, 18, 4, 4), z)
    with refused(ValueError, "24 positions are no whole images of 5 x 5"):
        FeatureMap(Buffer("x", 0, 24, 2, 2), 5, 5)
    wide = ConvolutionShape(height=1, width=1, inputs=1 << 16, outputs=1, kernel=(1, 1))
    with refused(ValueError, "channels must be at most 65535, not 65536"):
        forward(wide, TINY, FeatureMap(Buffer("x", 0, 1, 1 << 16, 1 << 16), 1, 1),
                Buffer("w", 0, 1 << 16, 1, 1), FeatureMap(Buffer("z", 0, 1, 1, 1), 1, 1))
