"""Rings of dies in one process."""

import numpy as np
import pytest

from plinth.runtime import rings
from plinth.runtime.memory import Floats
from plinth.runtime.rings import MemberRows, OwnerChunks, RingPasses
from plinth.step.tasks import Phase


class Nobody:
    """No other process."""

    def incoming(self, rank: int, tag: int, words: int, place: Floats | None = None) -> rings.Incoming:
        raise AssertionError("nothing comes from another process")

    def outgoing(self, rank: int, tag: int, words: int) -> rings.Outgoing:
        raise AssertionError("nothing goes to another process")


@pytest.mark.parametrize(("members", "words"), [(1, 1000), (1, 99), (1, 100), (1, 101), (3, 1000), (3, 192), (3, 5),
                                                  (1, 1), (2, 65), (3, 33)])
def test_updates_some_words_at_a_time_have_the_same_bits(members: int, words: int, monkeypatch: pytest.MonkeyPatch
                                                         ) -> None:
    """All words are updated once, whatever goes at a time, and gradients stay as they are."""
    monkeypatch.setattr(rings, "UPDATE_WORDS", 100)
    generator = np.random.default_rng(0)
    gradients = generator.standard_normal((members, words)).astype(np.float32)
    weights = generator.standard_normal(words).astype(np.float32)
    rows = [MemberRows(gradient.copy(), weights.copy()) for gradient in gradients]
    for _ in RingPasses(Phase.UPDATE, 0.3, OwnerChunks(words, 16, members), rows, [0] * members, Nobody(), 0).begin():
        raise AssertionError("it waits for another process")
    total = np.empty(words, np.float32)
    for first in range(0, words, 16):
        owner = first // 16 % members
        chunk = gradients[(owner + 1) % members, first:first + 16].copy()
        for step in range(1, members):
            chunk += gradients[(owner + 1 + step) % members, first:first + 16]
        total[first:first + 16] = chunk
    for row, gradient in zip(rows, gradients, strict=True):
        assert np.array_equal(row.target, weights - np.float32(0.3) * total)
        assert np.array_equal(row.source, gradient)
