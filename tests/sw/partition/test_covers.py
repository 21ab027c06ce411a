"""Covers: dies need any index sets of an axis, of which each index has one owner."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plinth.partition.axes import CHANNELS, SAMPLES, Region, alike, common, overlap, pattern, plane
from plinth.partition.cuts import Cover, Listed, pieces, runs_of
from plinth.partition.exchanges import ExchangeDefinition, exchange_words, words
from plinth.step.tensors import Tensor

SIZE, BATCH, DIES = 12, 3, 4
FACTORS = (2, 2)

SETS = st.lists(st.sets(st.integers(0, SIZE - 1)), min_size=DIES, max_size=DIES)
OWNERS = st.lists(st.integers(0, DIES - 1), min_size=SIZE, max_size=SIZE)


def cover(sets: list[set[int]], owners: tuple[int, ...] | None = None) -> Region:
    return Region.of(owners, samples=(), channels=(Cover((0, 1), tuple(runs_of(sorted(indices)) for indices in sets)),))


def partition(owner: list[int]) -> tuple[Region, list[set[int]]]:
    sets = [{index for index, die in enumerate(owner) if die == number} for number in range(DIES)]
    return Region.of(channels=(Listed((0, 1), tuple(runs_of(sorted(indices)) for indices in sets)),)), sets


def exchange(source: Region, target: Region, positions: int = 2) -> ExchangeDefinition:
    return ExchangeDefinition("layer", "fprop", "copy", "reader", source, target, SIZE, positions)


@given(SETS, OWNERS)
@settings(max_examples=60, deadline=None)
def test_what_moves_is_what_is_needed_and_not_owned(sets: list[set[int]], owner: list[int]) -> None:
    """To those that need it, and back from them."""
    owners, owned = partition(owner)
    needs = cover(sets)
    wanted = np.array([[len(here & there) * (s != t) for t, there in enumerate(sets)] for s, here in enumerate(owned)])
    assert (pattern(owners, needs, plane(BATCH, SIZE), FACTORS) == BATCH * wanted).all()
    assert (pattern(needs, owners, plane(BATCH, SIZE), FACTORS) == BATCH * wanted.T).all()
    kept = [len(here & there) for here, there in zip(owned, sets, strict=True)]
    assert (common(CHANNELS, SIZE, owners, needs, FACTORS) == kept).all()
    assert overlap(owners, needs, plane(BATCH, SIZE), FACTORS) == BATCH * sum(kept)
    for source, target in ((owners, needs), (needs, owners)):
        moved = exchange(source, target)
        assert exchange_words(moved, BATCH, FACTORS) == words(moved, BATCH, FACTORS).sum() == 2 * BATCH * wanted.sum()


@given(SETS, OWNERS)
@settings(max_examples=40, deadline=None)
def test_every_die_gets_what_it_needs_piece_by_piece(sets: list[set[int]], owner: list[int]) -> None:
    owners, _ = partition(owner)
    whole = np.arange(BATCH * 2 * SIZE).reshape(BATCH, 2, SIZE)
    source, target = (Tensor(name, BATCH, 2, SIZE, region, FACTORS) for name, region in (
        ("owned", owners), ("needed", cover(sets))))
    for die in range(DIES):
        there = target.part(die)
        received = np.full((BATCH, 2, there.channels), -1)
        for sender in range(DIES):
            here = source.part(sender)
            values = whole[here.index()]
            for mine, theirs in here.meet(there):
                received[:, :, theirs.channel:theirs.channel + theirs.channels] = values[
                    :, :, mine.channel:mine.channel + mine.channels]
        assert (received == whole[:, :, sorted(sets[die])]).all()


@given(SETS, st.permutations(range(DIES)))
@settings(max_examples=30, deadline=None)
def test_owners_of_seats_say_where(sets: list[set[int]], owners: list[int]) -> None:
    """Die ``owners[seat]`` needs what the seat does."""
    needs = cover(sets, tuple(owners))
    assert [int(count) for count in needs.lengths(CHANNELS, SIZE, FACTORS)] == [
        len(sets[owners.index(die)]) for die in range(DIES)]
    assert (needs.lengths(SAMPLES, BATCH, FACTORS) == BATCH).all()


def test_a_cover_is_like_itself_and_no_partition() -> None:
    """Though its parts lie in the order of indices, and have as many elements."""
    sets = [{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9, 10, 11}]
    needs, (owners, _) = cover(sets), partition([index // 3 for index in range(SIZE)])
    assert needs != owners and alike(needs, owners, plane(BATCH, SIZE), FACTORS)
    shifted = cover([{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, 0}])
    assert not alike(shifted, owners, plane(BATCH, SIZE), FACTORS) and alike(
        shifted, shifted, plane(BATCH, SIZE), FACTORS)
    assert overlap(cover([{5}] * 4), cover([{5}] * 4), plane(1, SIZE), FACTORS) == 4


def test_parts_of_one_cover_have_indices_in_common_not_positions() -> None:
    both = Cover((0, 1), (((1, 3),), ((2, 4),), ((7, 8),), ()))
    assert pieces(both, 0, 2, both, 2, 4) == ((1, 0, 1),)
    assert pieces(both, 0, 2, both, 4, 5) == ()


def test_one_side_owns_what_moves() -> None:
    with pytest.raises(ValueError, match="both sides of an exchange of layer 'layer' are covers, so that no die owns"):
        exchange_words(exchange(cover([{0}] * 4), cover([{1}] * 4)), BATCH, FACTORS)
