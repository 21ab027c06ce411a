"""Pairs of dies that send each other something, against the matrix of all pairs."""

from math import prod

import numpy as np
import pytest

from plinth.array.array import ring
from plinth.partition.axes import CHANNELS, KEPT_DIES, SAMPLES, Region, pattern, plane
from plinth.partition.cuts import Factors, Whole
from plinth.partition.pairs import Pairs, pairs
from plinth.predict.links import Links

FACTORS: tuple[Factors, ...] = ((2,) * 7, (3, 5, 8), (4, 4, 6), (66,), (2, 33))


def random_region(generator: np.random.Generator, levels: int) -> Region:
    """Levels in any order on two axes, or on none, and some of stages."""
    where, order = generator.integers(4, size=levels), generator.permutation(levels)
    staged = int(order[0]) if generator.random() < 0.3 else None
    stage = () if staged is None else (Whole(staged, int(generator.integers(2))),)
    samples, channels = (tuple(int(level) for level in order if where[level] == axis and level != staged)
                         for axis in range(2))
    return Region.of(samples=(*stage, *samples), channels=(*stage, *channels))


@pytest.mark.parametrize("factors", FACTORS, ids=str)
def test_pairs_are_those_of_the_matrix(factors: Factors) -> None:
    """Sizes that divide into their parts, and others, some with less elements than parts."""
    assert prod(factors) > KEPT_DIES
    generator, some = np.random.default_rng(1), 0
    for _ in range(60):
        source, target = (random_region(generator, len(factors)) for _ in range(2))
        batch, channels = (int(size) for size in generator.integers(1, 200, size=2))
        sizes = plane(batch, channels)
        found = pairs(source, target, sizes, factors)
        words = np.zeros((prod(factors),) * 2, dtype=np.int64)
        np.add.at(words, (found.at, found.to), found.words)
        assert (words == pattern(source, target, sizes, factors)).all() and (found.words > 0).all()
        assert len(set(zip(found.at.tolist(), found.to.tolist(), strict=True))) == len(found.at)
        some += bool(len(found.at))
    assert some > 30


def test_loads_of_many_dies_are_those_of_a_walk_pair_by_pair() -> None:
    """Over an array that is larger than what is looked up in a table."""
    array = ring(96)
    links, dies = Links(array), np.arange(96)
    words = np.random.default_rng(2).integers(0, 5, size=(96, 96))
    np.fill_diagonal(words, 0)
    for moved, sent in ((Pairs.of(words), words), (Pairs.of(words).back, words.T)):
        loads = np.zeros(len(array.all_routes.links))
        for at in dies:
            for to in np.flatnonzero(sent[at]):
                for _, over in array.all_routes.walk(np.array([at]), np.array([to])):
                    loads[over] += sent[at, to]
        load = links._load(moved)
        assert load.hops == 48 and load.latency > 0
        assert load.cycles == pytest.approx((loads / array.directed_rates).max())


def test_regions_by_axes_of_other_names_meet_as_well() -> None:
    factors = (2,) * 7
    source = Region.of(**{SAMPLES: (0, 1, 2), CHANNELS: (3,), "elements": (4, 5, 6)})
    target = Region.of(**{SAMPLES: (4, 5, 6), CHANNELS: (0, 1), "elements": (3,)})
    sizes = (*plane(24, 10), ("elements", 36))
    found, words = pairs(source, target, sizes, factors), pattern(source, target, sizes, factors)
    assert words.any() and len(found.at) == np.count_nonzero(words) and (words[found.at, found.to] == found.words).all()
