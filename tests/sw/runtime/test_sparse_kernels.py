"""Products of sparse layers in numpy, over blocks and over single nonzeros, against dense float64."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.support.sparse_patterns import pruned_net, random_net

from plinth.machine.blocks import given_cover
from plinth.machine.covers import cover
from plinth.network.sparse.radix_net import UNIFORM, RadixNet
from plinth.runtime import sparse_kernels
from plinth.runtime.sparse_kernels import BlockProducts, CsrProducts, InputRows, SparseKernel, sparse_products

Make = Callable[[csr_array, int], SparseKernel]


def block_cost(rows: int, columns: int) -> float:
    return 20 + rows * columns


#: Each way to multiply: without fill, with fill and outputs in many blocks, as one block, and by scipy.
KERNELS: dict[str, Make] = {
    "exact": lambda pattern, samples: BlockProducts(cover(pattern, 16, 32), samples),
    "filled": lambda pattern, samples: BlockProducts(cover(pattern, 8, 8, block_cost), samples),
    "whole": lambda pattern, samples: BlockProducts(
        given_cover(pattern, [(np.arange(pattern.shape[0]), np.arange(pattern.shape[1]))]), samples),
    "csr": CsrProducts,
}


def checked(pattern: csr_array, products: SparseKernel, samples: int) -> None:
    """All three products, twice with other operands in the same buffers, which hold something before."""
    rng = np.random.default_rng(samples)
    rows, columns = pattern.shape
    dense = np.zeros(pattern.shape)
    mask = csr_array((np.ones(pattern.nnz), pattern.indices, pattern.indptr), shape=pattern.shape).toarray() > 0
    y, x_error = np.full((rows, samples), np.nan, np.float32), np.full((columns, samples), np.nan, np.float32)
    gradient = np.full(products.stored, np.nan, np.float32)
    for _ in range(2):
        values = rng.uniform(-1, 1, pattern.nnz).astype(np.float32)
        dense[mask] = values
        weights = products.pack(values)
        assert weights.dtype == np.float32 and weights.shape == (products.stored,)
        assert (products.unpack(weights) == values).all()
        x, error = (rng.uniform(-1, 1, (size, samples)).astype(np.float32) for size in (columns, rows))
        products.forward(weights, x, y)
        products.backward(weights, error, x_error)
        products.gradient(error, x, gradient)
        for found, expected in ((y, dense @ x.astype(np.float64)), (x_error, dense.T @ error.astype(np.float64)),
                                (products.unpack(gradient), (error.astype(np.float64) @ x.T)[mask])):
            assert np.allclose(found, expected, rtol=1e-4, atol=1e-4 * max(1, samples / 16))
        # An update leaves 0 where no nonzero is.
        assert (products.pack(products.unpack(gradient)) == gradient).all()


@pytest.mark.parametrize("samples", [1, 3, 16, 70])
@pytest.mark.parametrize("kind", KERNELS)
def test_patterns(kind: str, samples: int) -> None:
    """Random ones, with rows and columns without a nonzero; one nonzero; all of them; none."""
    rng = np.random.default_rng(0)
    striped = np.kron(rng.random((6, 8)) < 0.4, np.ones((3, 2)))
    striped[4] = striped[:, 5] = 0
    single = np.zeros((9, 7))
    single[3, 5] = 1
    others = striped, single, np.ones((17, 9)), np.ones((1, 40)), np.zeros((4, 5))
    for pattern in (*random_net(rng, [40, 50, 30], 0.2), *pruned_net([30, 60], 0.1, 0), *map(csr_array, others)):
        checked(pattern, KERNELS[kind](pattern, samples), samples)


@pytest.mark.parametrize("samples", [1, 32])
@pytest.mark.parametrize("tile_words", [1 << 9, sparse_kernels.TILE_WORDS], ids=["tiled", "whole"])
def test_radix_net(samples: int, tile_words: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All layers behind a permutation, and rows of them, a few blocks at a time, and all at once."""
    monkeypatch.setattr(sparse_kernels, "TILE_WORDS", tile_words)
    network = RadixNet(neurons=256, layers=8, seed=2, weights=UNIFORM)
    for layer in range(4, 8):
        for rows in (np.arange(256), np.sort(np.random.default_rng(layer).permutation(256)[:100])):
            pattern = network.rows(layer, rows)
            checked(pattern, BlockProducts(cover(pattern, 32, 32), samples), samples)


@pytest.mark.parametrize("samples", [3, 32])
@pytest.mark.parametrize("kind", KERNELS)
def test_some_rows_of_x_come_later(kind: str, samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of X in another order, with others between; those that come later are not read before, and fewer blocks that
    need none of them than pay do not go ahead."""
    monkeypatch.setattr(sparse_kernels, "AHEAD_BLOCKS", 2)
    rng = np.random.default_rng(1)
    pattern = RadixNet(neurons=256, layers=8, seed=2, weights=UNIFORM).rows(0, np.arange(256))
    covers = {"exact": cover(pattern, 16, 32), "filled": cover(pattern, 8, 8, block_cost),
              "whole": given_cover(pattern, [(np.arange(256), np.arange(256))])}

    def make(inputs: InputRows | None) -> SparseKernel:
        return CsrProducts(pattern, samples, inputs) if kind == "csr" else BlockProducts(covers[kind], samples, inputs)

    values = rng.uniform(-1, 1, pattern.nnz).astype(np.float32)
    dense = csr_array((values, pattern.indices, pattern.indptr), shape=pattern.shape).toarray()
    x = rng.uniform(-1, 1, (300, samples)).astype(np.float32)
    error = rng.uniform(-1, 1, (256, samples)).astype(np.float32)
    for own in (np.arange(256) % 16 < 9, np.ones(256, np.bool_), np.zeros(256, np.bool_)):
        numbers = rng.permutation(300)[:256]
        products = make(InputRows(300, numbers, own))
        assert products.divided == (own.any() and not own.all() and kind != "whole")
        weights, late = products.pack(values), np.delete(np.arange(300), numbers[own])
        there, y = x.copy(), np.full((256, samples), np.nan, np.float32)
        there[late] = np.nan
        products.forward_own(weights, there, y)
        products.forward_rest(weights, x, y)
        assert np.allclose(y, dense @ x[numbers], atol=1e-4)
        whole, gradient = np.empty_like(y), np.empty(products.stored, np.float32)
        products.forward(weights, x, whole)
        assert np.array_equal(y, whole)
        products.gradient(error, x, gradient)
        assert np.allclose(products.unpack(gradient), (error @ x[numbers].T)[dense != 0], atol=1e-3)
        x_error = np.empty((256, samples), np.float32)
        products.backward(weights, error, x_error)
        assert np.allclose(x_error, dense.T @ error, atol=1e-3)
        if kind != "csr":
            # Whole blocks go ahead: sums are those without rows that come later.
            plain = make(None)
            plain.forward(plain.pack(values), np.ascontiguousarray(x[numbers]), whole)
            assert np.array_equal(y, whole)
    monkeypatch.setattr(sparse_kernels, "AHEAD_BLOCKS", 1000)
    assert make(InputRows(300, np.arange(256), np.arange(256) < 200)).divided == (kind == "csr")


def test_what_is_not_finite_stays_out_of_fill() -> None:
    pattern = csr_array(np.array([[1.0, 0], [1, 1]]))
    products = KERNELS["whole"](pattern, 1)
    gradient = np.empty(4, np.float32)
    products.gradient(np.array([[np.inf], [1]], np.float32), np.array([[1], [np.nan]], np.float32), gradient)
    assert gradient[1] == 0 and np.isinf(gradient[0]) and gradient[2] == 1 and np.isnan(gradient[3])


def test_which_kernel_is_taken() -> None:
    """Blocks for RadiX-Net and for what is nearly dense; scipy for what is random or has rows of one pattern each."""
    rng = np.random.default_rng(0)
    pattern = RadixNet(neurons=1024, layers=8, seed=0).rows(7, np.arange(1024))
    for samples in (1, 64, 1024):
        products = sparse_products(pattern, samples)
        assert isinstance(products, BlockProducts) and products.cover.useful == 1
        assert [group.shape for group in products.cover.groups()] == [(64, 16, 32)]
    for density, kind in ((0.05, CsrProducts), (0.1, CsrProducts), (0.5, BlockProducts)):
        assert type(sparse_products(random_net(rng, [400, 500], density)[0], 64)) is kind
    whole = sparse_products(random_net(rng, [400, 500], 0.5)[0], 64)
    assert isinstance(whole, BlockProducts) and whole.cover.count == 1
    checked(csr_array((4, 5)), sparse_products(csr_array((4, 5)), 2), 2)


@pytest.mark.parametrize("kind", KERNELS)
def test_bad_operands(kind: str) -> None:
    pattern = csr_array(np.eye(3))
    with pytest.raises(ValueError, match="samples of a product must be at least 1, not 0"):
        KERNELS[kind](pattern, 0)
    products = KERNELS[kind](pattern, 2)
    weights, x = products.pack(np.ones(3)), np.ones((3, 2), np.float32)
    for bad in (x.astype(np.float64), np.ones((2, 3), np.float32).T, np.ones((2, 2), np.float32)):
        for product, operands in ((products.forward, (weights, bad, x)), (products.forward, (weights, x, bad)),
                                  (products.backward, (weights, bad, x)), (products.gradient, (x, bad, weights))):
            with pytest.raises(ValueError, match="must be C-contiguous float32") as caught:
                product(*operands)
            assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="weights of a sparse product"):
        products.forward(weights[:-1], x, x)
    with pytest.raises(ValueError, match="must be 3, one a nonzero"):
        products.pack(np.ones(4))


def test_bad_pattern() -> None:
    with pytest.raises(ValueError, match="twice"):
        sparse_products(csr_array((np.ones(2), [1, 1], [0, 2]), shape=(1, 3)), 4)
