"""Random irregular networks."""

from itertools import pairwise

import numpy as np
import pytest

from plinth.network.sparse.irregular import IrregularNet


@pytest.mark.parametrize("degrees", ["uniform", "power-law"])
@pytest.mark.parametrize("density", [0.02, 0.1, 0.7, 1.0])
def test_rows(degrees: str, density: float) -> None:
    matrix = IrregularNet(widths=(300, 2000), density=density, degrees=degrees, seed=2).rows(0, np.arange(2000))
    assert matrix.shape == (2000, 300) and matrix.dtype == np.float32
    counts = np.diff(matrix.indptr)
    assert counts.min() >= 1 and counts.max() <= 300
    assert abs(counts.mean() / (300 * density) - 1) < 0.06
    order = np.repeat(np.arange(2000), counts) * 300 + matrix.indices
    assert (np.diff(order) > 0).all(), "columns ascend, each once"
    assert matrix.indices.min() == 0 and matrix.indices.max() == 299
    columns = np.bincount(matrix.indices, minlength=300)
    assert columns.std() <= 1.3 * np.sqrt(columns.mean()), "columns are equally likely"


def test_degrees_follow_their_law() -> None:
    def counts(**changes: object) -> np.ndarray:
        network = IrregularNet(**{"widths": (4000, 20_000), "density": 0.01, **changes})  # type: ignore[arg-type]
        return network.row_degrees(0, np.arange(20_000))

    even = counts()
    assert even.min() == 1 and even.max() == 79
    middle = np.bincount(even)[2:79]
    assert middle.std() < 1.5 * np.sqrt(middle.mean()), "equally likely"
    law = counts(degrees="power-law", exponent=2.5)
    assert law.max() > 500 and np.median(law) < 30
    # The share of rows with more than k entries falls as k^-1.5.
    tail = [(law > bound).mean() for bound in (25, 50, 100, 200)]
    assert all(abs(more / less - 2**-1.5) < 0.06 for less, more in pairwise(tail)), tail
    steep = counts(degrees="power-law", exponent=8.0)
    assert steep.max() < law.max() / 3 and abs(steep.mean() - 40) < 1
    assert abs(counts(degrees="power-law", exponent=2.0).mean() / 40 - 1) < 0.05


def test_one_connection_a_row() -> None:
    for degrees in ("uniform", "power-law"):
        network = IrregularNet(widths=(10, 50), density=0.1, degrees=degrees)
        counts = network.row_degrees(0, np.arange(50))
        assert counts.min() == 1 and counts.mean() < 2
    assert (IrregularNet(widths=(10, 50), density=0.1).row_degrees(0, np.arange(50)) == 1).all()
    assert IrregularNet(widths=(1, 3), density=1.0).rows(0, np.arange(3)).nnz == 3


def test_rows_are_made_alone_and_by_seed() -> None:
    network = IrregularNet(widths=(60, 90, 40), density=0.2, degrees="power-law", seed=9)
    for layer, width in ((0, 90), (1, 40)):
        chosen = np.array([31, 0, 39, 5])
        whole = network.rows(layer, np.arange(width))
        assert np.array_equal(whole[chosen].toarray(), network.rows(layer, chosen).toarray())
    other = IrregularNet(widths=(60, 90, 40), density=0.2, degrees="power-law", seed=8)
    assert not np.array_equal(network.rows(0, [0, 1, 2]).toarray(), other.rows(0, [0, 1, 2]).toarray())
    assert network.rows(1, []).shape == (0, 90)


@pytest.mark.parametrize(("changes", "message"), [
    ({"widths": (10,)}, "widths must be those of 1 to"), ({"widths": (10, 0)}, "from 0 to 10"),
    ({"density": 0.0}, "density must be from 0.1, which is one connection a row, to 1, not 0.0"),
    ({"density": 0.05}, "not 0.05"), ({"density": 1.5}, "not 1.5"), ({"degrees": "even"}, "not 'even'"),
    ({"exponent": 1.0}, "exponent must be above 1"), ({"seed": -1}, "seed must be")])
def test_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        IrregularNet(**{"widths": (10, 10), "density": 0.5, **changes})


def test_layers_out_of_range() -> None:
    with pytest.raises(ValueError, match="layer must be from 0 to 0, not 1"):
        IrregularNet(widths=(10, 10), density=0.5).rows(1, [0])
