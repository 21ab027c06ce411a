"""Random numbers by position."""

import numpy as np
import pytest

from plinth.network.sparse import draws


def test_bits_are_those_of_splitmix64() -> None:
    """The first five numbers of the published generator from the seed 1234567."""
    wanted = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert draws.bits(1234567, np.arange(5)).tolist() == wanted
    assert draws.bits(1234567, np.array([4, 1])).tolist() == [wanted[4], wanted[1]]


def test_numbers_are_uniform_and_exact_in_float32() -> None:
    key = draws.stream(3, draws.WEIGHTS, 7)
    numbers = draws.symmetric(key, np.arange(100_000)).astype(np.float64)
    assert -1 <= numbers.min() < -0.999 and 0.999 < numbers.max() < 1
    assert abs(numbers.mean()) < 0.01 and abs(numbers.var() - 1 / 3) < 0.005
    assert (numbers * 2**23 == np.round(numbers * 2**23)).all()
    shares = draws.unit(key, np.arange(100_000))
    assert 0 <= shares.min() < 0.001 and 0.999 < shares.max() < 1 and abs(shares.mean() - 0.5) < 0.005


def test_streams_differ() -> None:
    streams = [draws.stream(*path) for path in ((0, 1, 2), (0, 2, 1), (1, 1, 2), (0, 1), (0, 1, 2, 0), (2**63 - 1, 1))]
    assert len(set(streams)) == len(streams) and draws.stream(0, 1, 2) == streams[0]
    assert sorted(draws.permutation(streams[0], 50)) == list(range(50))
    assert draws.permutation(streams[0], 50).tolist() != draws.permutation(streams[1], 50).tolist()


@pytest.mark.parametrize("count", [1, 2, 3, 16, 17, 1000])
def test_distinct_is_a_permutation_under_each_key(count: int) -> None:
    keys = np.repeat(draws.bits(5, np.arange(40)), count)
    numbers = draws.distinct(keys, np.tile(np.arange(count), 40), count).reshape(40, count)
    assert (np.sort(numbers, axis=1) == np.arange(count)).all()
    if count == 1000:
        assert len({tuple(row) for row in numbers}) == 40
        # Correlated rows would show as a mean far from that of independent ones.
        assert abs(np.corrcoef(numbers)[np.triu_indices(40, 1)].mean()) < 0.01
        first = draws.distinct(draws.bits(5, np.arange(20_000)), np.zeros(20_000), count)
        assert np.bincount(first, minlength=count).std() < 1.2 * np.sqrt(20)
