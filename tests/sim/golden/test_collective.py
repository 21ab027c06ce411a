"""The collective golden model against a word-by-word evaluation of the contract's formula."""

import numpy as np
import pytest

from plinth_hw.isa.formats import Q3_12, factor_word
from plinth_hw.isa.operations import CollectiveOperation, UpdateOperation
from plinth_sim.golden.collective import all_gather, all_reduce, member, owners, reduce_scatter, resume


def formula(gradients: list[np.ndarray], weights: list[np.ndarray], rate: float, chunk_words: int,
            word: int) -> np.float32:
    members = len(gradients)
    owner = (word // chunk_words) % members
    total = gradients[(owner + 1) % members][word]
    for step in range(2, members):
        total = np.float32(total + gradients[(owner + step) % members][word])
    if members > 1:
        total = np.float32(total + gradients[owner][word])
    return np.float32(weights[owner][word] - np.float32(np.float32(rate) * total))


@pytest.mark.parametrize("members", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("words", [1, 5, 64, 203])
def test_all_reduce_follows_the_formula(members: int, words: int) -> None:
    rng = np.random.default_rng(members * 1000 + words)
    gradients = [rng.standard_normal(words).astype(np.float32) for _ in range(members)]
    weights = [rng.standard_normal(words).astype(np.float32) for _ in range(members)]
    results = all_reduce(gradients, weights, 0.1, 8, UpdateOperation.SGD)
    assert len(results) == members
    for word in range(words):
        expected = formula(gradients, weights, 0.1, 8, word)
        for result in results:
            assert result[word].tobytes() == expected.tobytes()


def test_order_matters() -> None:
    gradients = [np.full(4, value, np.float32) for value in (1e8, 1.0, -1e8, 1.0)]
    (result, *_) = all_reduce(gradients, None, 0.0, 1)
    # owner 0 adds 1, -1e8, 1, 1e8; owner 1 adds -1e8, 1, 1e8, 1, ...
    assert len(set(result.tolist())) > 1


def test_reduce_scatter_keeps_foreign_chunks() -> None:
    rng = np.random.default_rng(3)
    gradients = [rng.standard_normal(21).astype(np.float32) for _ in range(3)]
    before = [np.full(21, member, np.float32) for member in range(3)]
    results = reduce_scatter(gradients, before, 0.0, 4)
    full = all_reduce(gradients, None, 0.0, 4)[0]
    for index, result in enumerate(results):
        mine = owners(21, 3, 4) == index
        np.testing.assert_array_equal(result[mine], full[mine])
        assert (result[~mine] == index).all()


def test_nan_is_canonical_after_an_add_and_untouched_in_a_gather() -> None:
    odd = np.array([0xFFC12345], np.uint32).view(np.float32)
    ones = np.ones(1, np.float32)
    assert all_reduce([odd, ones], None, 0.0, 4)[1].view(np.uint32)[0] == 0x7FC00000
    assert all_gather([odd, ones], 4)[1].view(np.uint32)[0] == 0xFFC12345
    assert all_reduce([odd], None, 0.0, 4)[0].view(np.uint32)[0] == 0xFFC12345


def test_results_beyond_a_fixed_format_are_told() -> None:
    """Of three members with a chunk of two words each: steps of sums, products and differences, by who makes them."""
    gradients = np.array([[5, 0, 0, 6, -5, 1], [5, 0, 3, 6, -4, 1], [-8, 0, 6, -6, 1, -3]])
    weights = np.array([[0, 0, 0, 0, 0, 0], [0, 0, -4, 0, 0, 0], [0, 0, 0, 0, -7, 5]])
    told = [[], [], []]
    targets = Q3_12.encode(weights).astype(np.int16).view(np.uint16)
    ring = [member(CollectiveOperation.REDUCE_SCATTER, index, 3,
                   Q3_12.encode(gradient).astype(np.int16).view(np.uint16), targets[index], factor_word(Q3_12, 1.5), 2,
                   UpdateOperation.SGD, Q3_12, told[index].append)
            for index, gradient in enumerate(gradients)]
    sent = [resume(member, None) for member in ring]
    while sent[0] is not None:
        sent = [resume(member, words) for member, words in zip(ring, sent[-1:] + sent[:-1], strict=True)]
    # Chunk 0 is summed by 1, 2, 0: 5 - 8 + 5; chunk 1 by 2, 0, 1: 6 + 0 + 3 and -6 + 6 + 6, times 1.5, from -4 and 0;
    # chunk 2 by 0, 1, 2: -5 - 4 + 1 and 1 + 1 - 3, times 1.5, from -7 and 5.
    assert told == [[0, 0, 0], [1, 1, 3], [0, 0, 1]]
    assert (targets.view(np.int16)[[0, 1, 2], [0, 2, 4]] / 4096).tolist() == [-3, -8, 1]


def test_bad_arguments_are_named() -> None:
    with pytest.raises(TypeError, match="float32"):
        all_gather([np.zeros(3)], 4)
    with pytest.raises(ValueError, match="needs weights"):
        all_reduce([np.zeros(3, np.float32)], None, 0.1, 4, UpdateOperation.SGD)
    with pytest.raises(ValueError, match="3 words, not 4"):
        all_gather([np.zeros(3, np.float32), np.zeros(4, np.float32)], 4)
    with pytest.raises(ValueError, match="at least one member"):
        all_gather([], 4)
    with pytest.raises(ValueError, match="positive, not 0"):
        all_gather([np.zeros(3, np.float32)], 0)
    with pytest.raises(ValueError, match="same members and words"):
        all_reduce([np.zeros(3, np.float32)], [np.zeros(2, np.float32)], 0.1, 4)
    with pytest.raises(ValueError, match="same members and words"):
        all_reduce([np.zeros(3, np.float32)], [np.zeros(3, np.float32)] * 2, 0.1, 4)
