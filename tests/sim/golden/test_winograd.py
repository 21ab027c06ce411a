"""Winograd's matrices against the sums that they save, tiles against loops, layers against direct convolution."""

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest
from tests.sim.golden.test_reference import assert_equal_to_differences, chain
from tests.support import reference

from plinth_hw.isa.winograd import OUTPUTS, Form, form, terms, transform, transposed
from plinth_sim.golden import winograd

FORMS = [(kernel, outputs) for kernel, many in OUTPUTS.items() for outputs in many]
#: The same with each padding, and the sides of a map: edge tiles are cut in some, and one tile is the whole map in one.
LAYERS = [(kernel, outputs, padding, sides) for kernel, outputs in FORMS
          for padding in (*itertools.product(*(range(taps) for taps in kernel)),
                          (0, kernel[1] - 1, kernel[0] - 1, 0), (kernel[0] - 1, 0, 0, kernel[1] // 2))
          for sides in ((8, 7), (5, 6))]
#: Worst of y, dw and dx in FP32, relative to the largest; direct convolution has 3e-7.
ERRORS = {(3, 2): 1e-6, (3, 4): 4e-6, (5, 2): 1.2e-5}


def times(matrix, vector):
    return [sum(c * x for c, x in zip(row, vector, strict=True)) for row in matrix]


@pytest.mark.parametrize(("outputs", "taps"), [(m, r) for m in range(1, 6) for r in range(1, 6)])
def test_products_make_the_filter(outputs, taps) -> None:
    """In rational numbers, so exactly."""
    draw = random.Random(outputs * 10 + taps)
    algorithm = transform(outputs, taps)
    data, weights = ([Fraction(draw.randint(-99, 99), draw.randint(1, 9)) for _ in range(count)]
                     for count in (algorithm.size, taps))
    products = [x * w for x, w in zip(times(algorithm.b, data), times(algorithm.g, weights), strict=True)]
    assert times(algorithm.a, products) == [sum(weights[k] * data[i + k] for k in range(taps)) for i in range(outputs)]


def test_the_usual_matrices() -> None:
    algorithm = transform(2, 3)
    assert algorithm.a == ((1, 1, 1, 0), (0, 1, -1, 1))
    assert algorithm.b == ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, -1, 0, 1))
    assert transform(4, 3).b[0] == (4, 0, -5, 0, 1, 0) and transform(4, 3).g[3] == tuple(
        Fraction(1, 24) * 2**power for power in range(3))


@pytest.mark.parametrize(("kernel", "outputs"), FORMS)
def test_tiles_are_made_of_small_integers(kernel, outputs) -> None:
    for algorithm in form(kernel, outputs).transforms:
        for matrix in (algorithm.a, algorithm.b):
            for rows in (matrix, transposed(matrix)):
                assert max(len(terms(row)) for row in rows) <= (3 if algorithm.size <= 4 else 6)
                assert all(power in (1, 2, 4, 8) for row in rows for _, power in ((at, abs(p)) for at, p in terms(row)))


def direct(x, weights, padding):
    """y[i, j] = sum of x[i + a, j + b] w[a, b], by loops over taps."""
    kernel = weights.shape[:2]
    padded = np.pad(x, ((0, 0), (padding[0], padding[-2]), (padding[1], padding[-1]), (0, 0)))
    rows, columns = (side - taps + 1 for side, taps in zip(padded.shape[1:3], kernel, strict=True))
    return sum(padded[:, a:a + rows, b:b + columns] @ weights[a, b] for a in range(kernel[0]) for b in range(kernel[1]))


def spread(tile_form: Form, weights):
    """W = G w G^T."""
    down, across = (np.array([[float(value) for value in row] for row in algorithm.g])
                    for algorithm in tile_form.transforms)
    return np.einsum("ua,vb,abio->uvio", down, across, weights)


@pytest.mark.parametrize(("kernel", "outputs", "padding", "sides"), LAYERS)
def test_tiles_of_integers(kernel, outputs, padding, sides) -> None:
    """Integers are exact in FP32, so what tiles make is what loops do; and a gather is a scatter's transpose."""
    rng = np.random.default_rng(5)
    tile_form = form(kernel, outputs)
    inputs, out_lattices = tile_form.lattices(sides, padding)
    x = rng.integers(-2, 3, (2, *sides, 2)).astype(np.float32)
    weights = rng.integers(-1, 2, (*kernel, 2, 3)) * 576.0
    wanted = direct(x.astype(np.float64), weights, padding)
    tiles = winograd.scatter(inputs, x)
    assert math.prod(tiles.shape[3:5]) == tile_form.elements
    products = np.einsum("nxyuvi,uvio->nxyuvo", tiles.astype(np.float64), spread(tile_form, weights))
    np.testing.assert_array_equal(winograd.gather(out_lattices, products.astype(np.float32), wanted.shape[1:3]), wanted)
    for pair, shape in ((inputs, sides), (out_lattices, wanted.shape[1:3])):
        maps = rng.integers(-2, 3, (2, *shape, 2)).astype(np.float32)
        tiles = winograd.scatter(pair, maps)
        others = rng.integers(-2, 3, tiles.shape).astype(np.float32)
        assert np.vdot(tiles, others) == np.vdot(maps, winograd.gather(pair, others, shape))


@pytest.mark.parametrize(("kernel", "outputs"), FORMS)
def test_errors_in_fp32(kernel, outputs) -> None:
    rng = np.random.default_rng(6)
    sides, padding = (13, 12), tuple(taps // 2 for taps in kernel)
    tile_form = form(kernel, outputs)
    inputs, out_lattices = tile_form.lattices(sides, padding)
    x = rng.standard_normal((2, *sides, 16)).astype(np.float32)
    error = rng.standard_normal((2, *sides, 16)).astype(np.float32)
    w = rng.standard_normal((*kernel, 16, 16))
    spread_w = spread(tile_form, w).astype(np.float32)
    x_tiles, error_tiles = winograd.scatter(inputs, x), winograd.scatter(out_lattices, error)
    y = winograd.gather(out_lattices, np.einsum("nxyuvi,uvio->nxyuvo", x_tiles, spread_w), sides)
    dx = winograd.gather(inputs, np.einsum("nxyuvo,uvio->nxyuvi", error_tiles, spread_w), sides)
    dw = np.einsum("nxyuvi,nxyuvo->uvio", x_tiles, error_tiles).astype(np.float64)
    down, across = (np.array([[float(value) for value in row] for row in algorithm.g])
                    for algorithm in tile_form.transforms)
    dw = np.einsum("ua,vb,uvio->abio", down, across, dw)
    layers = chain(("convolution", {"kernel": kernel, "padding": padding}), ("mean-squared-error", {}))
    layer = reference.forward(layers, [(w, None)], x)["convolution0"]
    exact = reference.gradients(
        chain(("convolution", {"kernel": (1, 1)}), ("convolution", {"kernel": kernel, "padding": padding}),
              ("mean-squared-error", {})), [(np.eye(16)[None, None], None), (w, None)], x,
        layer - error * layer.size / 2).layers
    wanted_dx = direct(error.astype(np.float64), w[::-1, ::-1].swapaxes(2, 3),
                       tuple(taps - 1 - pad for taps, pad in zip(kernel, padding, strict=True)))
    bound = ERRORS[max(kernel), outputs]
    for ours, theirs in ((y, layer), (dw, exact[1][0]), (dx, wanted_dx)):
        assert np.abs(ours - theirs).max() <= bound * np.abs(theirs).max()


def test_order_of_sums() -> None:
    """Terms two by two in the order of columns, 5 as 4 and then 1; tiles in the order of rows, then columns."""
    big, unit = np.float32(2.0**24), np.float32(1.0)

    def sum_of(row, *values):
        return winograd.weighted((row,), np.array(values, dtype=np.float32)[:, None], 0)[0, 0]

    corner, ends = transform(4, 3).b[0], transform(4, 3).b[1]  # 4, 0, -5, 0, 1, 0; 0, 4, 4, -1, -1, 0
    assert sum_of(corner, big / 4, 0, -unit / 4, 0, unit, 0) == big + 2  # (+ 1 is a tie), (1/4 + 1)
    assert sum_of(corner, big / 4, 0, -unit / 4, 0, 0, 0) == big  # 5/4 at once would be + 2
    assert sum_of(ends, 0, big / 4, unit / 4, big, unit, 0) == 0  # both pairs are ties; one by one: - 1
    assert sum_of(corner, *(-0.0,) * 6).view(np.uint32) == 0  # - 4 x - x of -0 are +0
    single = (*(Fraction(0),) * 5, Fraction(1))
    assert sum_of(single, *(-0.0,) * 6).view(np.uint32) == 1 << 31
    with pytest.raises(ValueError, match="must not be all zero"):
        sum_of((Fraction(0),) * 6, *(0.0,) * 6)

    inputs, _ = form((3, 3), 2).lattices((4, 4), (1, 1))
    tiles = np.zeros((1, 2, 2, 4, 4, 1), dtype=np.float32)
    # Element (1, 1) alone puts 1 at places 1 and 2 of both directions; all four tiles meet in the middle.
    for place, value in zip(itertools.product(range(2), range(2)), (big, unit, unit, -big), strict=True):
        tiles[(0, *place, 1, 1, 0)] = value
    gathered = winograd.gather(inputs, tiles, (4, 4))
    assert gathered.shape == (1, 4, 4, 1)
    assert gathered[0, 0, 0, 0] == big and gathered[0, 3, 3, 0] == -big
    assert set(gathered.ravel()) <= {big, -big, unit}


@pytest.mark.parametrize(("kernel", "outputs", "padding", "sides"), LAYERS[::3])
def test_a_layer_equals_direct_convolution(kernel, outputs, padding, sides) -> None:
    """With W = G w G^T; then dw = G^T dW G."""
    rng = np.random.default_rng(7)
    w, bias, x = rng.standard_normal((*kernel, 2, 3)), rng.standard_normal(3), rng.standard_normal((2, *sides, 2))
    tile_form = form(kernel, outputs)
    settings = {"kernel": kernel, "padding": padding}
    first = ("convolution", {})
    results = []
    for kind, weights in ((("convolution", settings), w), (("winograd", {**settings, "tile": outputs}),
                                                           spread(tile_form, w))):
        layers = chain(first, kind, ("mean-squared-error", {}))
        parameters = [(np.eye(2)[None, None], None), (weights, bias)]
        y = reference.forward(layers, parameters, x)[layers[1].name]
        gradients = reference.gradients(layers, parameters, x, np.ones(y.shape))
        results.append((y, gradients.layers))
    (y, gradients), (tile_y, tile_gradients) = results
    np.testing.assert_allclose(tile_y, y, atol=1e-10 * np.abs(y).max())
    np.testing.assert_allclose(tile_gradients[0][0], gradients[0][0], rtol=1e-10)
    np.testing.assert_allclose(tile_gradients[1][1], gradients[1][1], rtol=1e-12)
    down, across = (np.array([[float(value) for value in row] for row in algorithm.g])
                    for algorithm in tile_form.transforms)
    np.testing.assert_allclose(np.einsum("ua,vb,uvio->abio", down, across, tile_gradients[1][0]), gradients[1][0],
                               atol=1e-10 * np.abs(gradients[1][0]).max())


@pytest.mark.parametrize(("kernel", "outputs"), FORMS)
def test_a_layer_equals_differences(kernel, outputs) -> None:
    """Of weights that no kernel of taps has."""
    rng = np.random.default_rng(8)
    tile_form = form(kernel, outputs)
    padding = tuple(taps - 1 for taps in kernel)
    layers = chain(("convolution", {}), ("winograd", {"kernel": kernel, "padding": padding, "tile": outputs}),
                   ("mean-squared-error", {}))
    sizes = [algorithm.size for algorithm in tile_form.transforms]
    weights = [(rng.standard_normal((1, 1, 1, 2)), rng.standard_normal(2)),
               (rng.standard_normal((*sizes, 2, 2)) / 8, rng.standard_normal(2))]
    x = rng.standard_normal((2, 3, 4, 1))
    target = rng.standard_normal(reference.forward(layers, weights, x)["winograd1"].shape)
    assert_equal_to_differences(layers, weights, x, target)


@pytest.mark.parametrize(("kernel", "outputs", "padding", "sides"), LAYERS[1::4])
def test_scales_of_layers_are_sums_of_magnitudes(kernel, outputs, padding, sides) -> None:
    """Of all terms of a tile, by loops over tiles; of a convolution by tiles, with W = G w G^T, and behind others."""
    rng = np.random.default_rng(9)
    tile_form = form(kernel, outputs)
    w, bias, x = rng.standard_normal((*kernel, 2, 3)), rng.standard_normal(3), rng.standard_normal((1, *sides, 2))
    (down, across), _ = tile_form.lattices(sides, padding)
    shares = [np.abs(np.einsum("iu,ua->iua", np.array(algorithm.a, dtype=float), np.array(algorithm.b, dtype=float)))
              for algorithm in tile_form.transforms]
    out_sides = [side + pad + far - taps + 1 for side, pad, far, taps in zip(
        sides, padding[:2], padding[-2:], kernel, strict=True)]
    wide = np.pad(np.abs(x), ((0, 0), *((pad, pad + 8) for pad in padding[:2]), (0, 0)))
    wanted = np.zeros((1, *out_sides, 3))
    for row, column in np.ndindex(down.count, across.count):
        (m, n), (high, broad) = (down.step, across.step), (down.reach, across.reach)
        window = wide[:, row * m:row * m + high, column * n:column * n + broad]
        tile = np.einsum("iua,jvb,uvco,nabc->nijo", *shares, np.abs(spread(tile_form, w)), window) + np.abs(bias)
        here = wanted[:, row * m:row * m + m, column * n:column * n + n]
        here[...] = tile[:, :here.shape[1], :here.shape[2]]
    settings = {"kernel": kernel, "padding": padding, "tile": outputs}
    for kind, weights in (("winograd", spread(tile_form, w)), ("convolution", w)):
        ran = reference.outputs(chain((kind, settings), ("relu", {}), ("convolution", {})),
                             [(weights, bias), (np.ones((1, 1, 3, 2)), None)], x)
        np.testing.assert_allclose(ran[f"{kind}0"].scale, wanted, rtol=1e-12)
        np.testing.assert_allclose(ran["relu1"].scale, wanted, rtol=1e-12)
        terms = np.abs(ran["relu1"].value) + wanted  # roundings of tiles come through
        np.testing.assert_allclose(ran["convolution2"].scale, terms @ np.ones((3, 2)), rtol=1e-12)


def test_what_there_is_not() -> None:
    with pytest.raises(ValueError, match="a kernel of 4x4 has no Winograd transform here, only 3x3, 5x5"):
        form((4, 4), 2)
    with pytest.raises(ValueError, match="a kernel of 5x5 makes 2 outputs a tile each way, not 4; use"):
        form((5, 5), 4)
    with pytest.raises(ValueError, match="a padding of 3 is not between 0 and 2"):
        form((3, 3), 2).lattices((8, 8), (1, 3))
    with pytest.raises(ValueError, match="a padding of 3 is not between 0 and 2"):
        form((3, 3), 2).lattices((8, 8), (1, 1, 3, 1))
    with pytest.raises(ValueError, match="a kernel of 5 taps does not fit in 2 places with padding 1 and 0"):
        form((5, 5), 2).lattices((2, 8), (1, 1, 0, 1))
    with pytest.raises(ValueError, match="a kernel of 5 taps does not fit in 2 places with padding 1"):
        form((5, 5), 2).lattices((8, 2), (1, 1))
    with pytest.raises(ValueError, match="outputs and taps must be positive, not 0 and 3"):
        transform(0, 3)
    with pytest.raises(ValueError, match="a coefficient must be an integer, not 1/4"):
        winograd.weighted(transposed(transform(4, 3).g), np.zeros((6, 1), dtype=np.float32), 0)
