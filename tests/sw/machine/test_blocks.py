"""Dense blocks that cover sparse patterns, against the definition: each nonzero in one block, fill elsewhere."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.support.sparse_patterns import pruned_net, random_net

from plinth.machine.blocks import BlockCover, check_pattern, given_cover
from plinth.machine.covers import area, cover, cover_cost
from plinth.network.sparse.radix_net import RadixNet
from plinth.step.digest import digest


def engine(rows: int, columns: int) -> float:
    """A task of an array of 16 columns: outputs in multiples of 16, a cycle an input, and a start."""
    return 20 + -(-rows // 16) * 16 * (columns + 4)


def numbered(dense: Any) -> csr_array:
    """A pattern whose values are 1, 2, 3 .. in its order."""
    pattern = csr_array(np.asarray(dense, np.float64))
    pattern.data = np.arange(1.0, pattern.nnz + 1)
    return pattern


def checked(blocks: BlockCover, pattern: csr_array, most: tuple[int, int]) -> None:
    """By brute force: blocks are within the limits, in order, and what is packed adds up to the pattern, each nonzero
    once."""
    values = np.arange(1.0, pattern.nnz + 1)
    packed, whole = blocks.pack(values), np.zeros(pattern.shape)
    held = 0
    for number in range(blocks.count):
        rows, columns = blocks.block(number)
        assert 1 <= len(rows) <= most[0] and 1 <= len(columns) <= most[1]
        assert (np.diff(rows) > 0).all() and (np.diff(columns) > 0).all()
        block = packed[blocks.packed_starts[number]:blocks.packed_starts[number + 1]].reshape(len(rows), len(columns))
        assert (block != 0).any(axis=0).all() and (block != 0).any(axis=1).all()
        whole[np.ix_(rows, columns)] += block
        held += np.count_nonzero(block)
    expected = csr_array((values, pattern.indices, pattern.indptr), shape=pattern.shape).toarray()
    assert held == pattern.nnz and (whole == expected).all()
    assert blocks.useful == (pattern.nnz / blocks.packed if blocks.packed else 1)
    assert (blocks.unpack(packed + (packed == 0)) == values).all()
    sources = blocks.sources()
    assert (sources[blocks.positions] == np.arange(pattern.nnz)).all() and (packed[sources < 0] == 0).all()
    shapes = [group.shape for group in blocks.groups()]
    assert shapes == sorted(set(shapes), key=lambda shape: (-shape[1], -shape[2]))
    assert sum(group.count for group in blocks.groups()) == blocks.count


@pytest.mark.parametrize("cost", [area, engine], ids=["area", "engine"])
@pytest.mark.parametrize("most", [(16, 32), (8, 8), (1, 1), (5, 100), (100, 7)], ids=str)
def test_random_patterns(cost: Callable[[int, int], float], most: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    patterns = [*random_net(rng, [40, 50, 30], 0.2), *pruned_net([30, 60], 0.1, 0)]
    # Rows and columns without a nonzero, rows that are the same, one nonzero, all, one row, none.
    striped = np.kron(rng.random((6, 8)) < 0.4, np.ones((3, 2)))
    striped[4] = striped[:, 5] = 0
    single = np.zeros((9, 7))
    single[3, 5] = 1
    others = striped, single, np.ones((17, 9)), np.ones((1, 40)), np.zeros((4, 5))
    for pattern in (*patterns, *map(csr_array, others)):
        blocks = cover(pattern, *most, cost)
        checked(blocks, pattern, most)
        assert cover_cost(blocks, cost) <= cover_cost(cover(pattern, *most, cost, fill=False), cost)
        assert cover(pattern, *most, fill=False).useful == 1


@pytest.mark.parametrize("neurons", [32, 256, 1024])
def test_radix_net_is_exact(neurons: int) -> None:
    """All layers of the base behind a permutation, by area and by an engine's cycles."""
    network = RadixNet(neurons=neurons, layers=64, seed=3)
    base = network.base_layers
    for layer in range(base, 2 * base):
        pattern = network.rows(layer, np.arange(neurons))
        for cost in (area, engine):
            blocks = cover(pattern, 32, 32, cost)
            checked(blocks, pattern, (32, 32))
            assert blocks.useful == 1
            group, = blocks.groups()
            assert group.shape == ((neurons // 32, 32, 32) if layer == 2 * base - 1 else (neurons // 16, 16, 32))


def test_rows_of_a_part_are_exact() -> None:
    """Rows of a class that one part owns are a block, whichever they are."""
    network, rng = RadixNet(neurons=512, layers=16, seed=1), np.random.default_rng(0)
    for layer in range(5, 10):
        for share in (0.5, 0.1):
            rows = np.sort(rng.permutation(512)[:int(share * 512)])
            pattern = network.rows(layer, rows)
            blocks = cover(pattern, 32, 32)
            checked(blocks, pattern, (32, 32))
            assert blocks.useful == 1 and blocks.count == len(np.unique(rows % (16 if layer == 9 else 32)))


def test_columns_that_are_the_same() -> None:
    """Where a class of rows is half a block and one of columns fills it, columns are taken."""
    network = RadixNet(neurons=256, layers=8, seed=0)
    pattern = network.rows(4, np.arange(256))
    for fill in (True, False):
        blocks = cover(pattern, 32, 16, lambda rows, columns: 512, fill=fill)
        checked(blocks, pattern, (32, 16))
        assert [group.shape for group in blocks.groups()] == [(16, 32, 16)]
    assert [group.shape for group in cover(pattern, 32, 16).groups()] == [(32, 16, 16)]


def test_planted_blocks_are_found() -> None:
    """Full blocks in disorder, in a pattern with some nonzeros elsewhere, so that no rows are the same."""
    rng = np.random.default_rng(2)
    dense = np.kron(np.eye(12), np.ones((8, 8)))[rng.permutation(96)][:, rng.permutation(96)]
    dense[np.arange(96), rng.permutation(96)] = 1
    pattern = csr_array(dense)

    def cost(rows: int, columns: int) -> float:
        return 8 + rows * columns

    blocks = cover(pattern, 8, 8, cost)
    checked(blocks, pattern, (8, 8))
    full = [group for group in blocks.groups() if group.shape[1:] == (8, 8)]
    assert full[0].count == 12 and cover_cost(blocks, cost) <= 12 * 72 + (pattern.nnz - 12 * 64) * 9
    assert cover_cost(blocks, cost) < 0.75 * cover_cost(cover(pattern, 8, 8, cost, fill=False), cost)


def test_similar_rows_are_joined() -> None:
    """Rows that share most of their columns, two of which one alone has."""
    rng = np.random.default_rng(4)
    dense = np.zeros((32, 200))
    for row in range(32):
        dense[row, 40 * (row % 4):40 * (row % 4) + 38] = 1
        dense[row, 40 * (row % 4) + 38 + row // 4 % 2] = 1
    pattern = csr_array(dense[rng.permutation(32)])
    blocks = cover(pattern, 16, 64, lambda rows, columns: 100 + 16 * columns)
    checked(blocks, pattern, (16, 64))
    assert [group.shape for group in blocks.groups()] == [(4, 8, 40)] and blocks.useful == 39 / 40


def test_classes_larger_than_bicliques() -> None:
    """Rows that are the same by hundreds, more than a biclique takes, beside others."""
    rng = np.random.default_rng(6)
    dense = np.vstack([np.repeat(rng.random((2, 300)) < 0.3, 300, axis=0), rng.random((40, 300)) < 0.1])
    pattern = csr_array(dense[rng.permutation(640)].astype(np.float32))
    blocks = cover(pattern, 400, 400, lambda rows, columns: 500 + rows * columns)
    checked(blocks, pattern, (400, 400))
    assert blocks.groups()[0].shape[1] == 300 and blocks.useful > 0.8


def test_covers_are_values() -> None:
    pattern = random_net(np.random.default_rng(1), [50, 60], 0.15)[0]
    blocks, again = (cover(pattern, 8, 8, engine) for _ in range(2))
    assert blocks == again and hash(blocks) == hash(again) and digest(blocks) == digest(again)
    assert pickle.loads(pickle.dumps(blocks)) == blocks
    other = cover(pattern, 8, 4, engine)
    assert other != blocks and digest(other) != digest(blocks)
    with pytest.raises(ValueError, match="read-only"):
        blocks.rows[0] = 3
    assert digest(replace(blocks, positions=blocks.positions[::-1])) != digest(blocks)


def test_given_blocks() -> None:
    """Of blocks that overlap the first has the nonzero; rows without any are left out."""
    pattern = numbered([[1, 1, 0], [1, 1, 1], [0, 0, 0]])
    rows = np.arange(3)
    blocks = given_cover(pattern, [(rows[:2], rows[:2]), (rows, rows)])
    checked(blocks, pattern, (3, 3))
    assert [blocks.block(number)[0].tolist() for number in range(2)] == [[0, 1], [1]]
    assert blocks.pack(pattern.data).tolist() == [1, 2, 3, 4, 5] and blocks.useful == 1


def bad_pattern(columns: list[int]) -> csr_array:
    return csr_array((np.ones(3), columns, [0, 1, 3]), shape=(2, 4))


@pytest.mark.parametrize("make, kind, message", [
    (lambda: check_pattern(np.eye(3)), TypeError, "csr_array with two dimensions, not ndarray"),
    (lambda: check_pattern(csr_array(np.eye(3)).tocsc()), TypeError, "not csc_array"),
    (lambda: check_pattern(bad_pattern([0, 2, 1])), ValueError, "columns of row 1 .* do not ascend; call sort_indices"),
    (lambda: check_pattern(bad_pattern([0, 3, 3])), ValueError, "row 1 .* has column 3 twice; call sum_duplicates"),
    (lambda: cover(bad_pattern([0, 3, 3]), 4, 4), ValueError, "row 1 .* twice"),
    (lambda: cover(numbered(np.eye(3)), 0, 4), ValueError, "rows of a block must be at least 1, not 0"),
    (lambda: cover(numbered(np.eye(3)), 4, 2.5), ValueError, "columns of a block must be at least 1, not 2.5"),
    (lambda: cover(numbered(np.eye(3)), 4, 4, lambda *_: 0), ValueError, "must be a finite number above 0, not 0"),
    (lambda: given_cover(numbered(np.eye(3)), [(np.arange(2), np.arange(2))]), ValueError,
     "holds the nonzero of row 2 and column 2"),
    (lambda: given_cover(numbered(np.eye(3)), [(np.array([1, 0]), np.arange(3))]), ValueError,
     "row numbers of block 0 .* do not ascend"),
    (lambda: given_cover(numbered(np.eye(3)), [(np.arange(3), np.arange(4))]), ValueError, "from 0 to 2, not 0 to 3"),
    (lambda: given_cover(numbered(np.eye(3)), [(np.arange(3), np.arange(0))]), ValueError,
     "block 0 .* must have column"),
    (lambda: cover(numbered(np.eye(3)), 1, 1).pack(np.ones(4)), ValueError, "must be 3, one a nonzero"),
    (lambda: cover(numbered(np.eye(3)), 1, 1).unpack(np.ones(4)), ValueError, "must be 3, not"),
    (lambda: replace(cover(numbered(np.eye(3)), 1, 1), positions=np.zeros(3, int)), ValueError, "one place"),
    (lambda: replace(cover(numbered(np.eye(3)), 1, 1), columns=np.arange(2), column_starts=np.arange(3)), ValueError,
     "has 3 blocks of rows, but 2 of columns"),
    (lambda: BlockCover((1 << 16, 1 << 16), np.arange(1 << 16), np.array([0, 1 << 16]), np.arange(1 << 16),
                        np.array([0, 1 << 16]), np.zeros(0, int)), ValueError, "4294967296 words, more than"),
    (lambda: replace(cover(numbered(np.eye(3)), 1, 1), positions=np.arange(3) + 1), ValueError, "from 0 to 2"),
])
def test_refusals(make: Callable[[], object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
