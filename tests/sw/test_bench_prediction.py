"""Rows about predicted gathers: each says what is known of max-pools, beside MPT's scheme with the same knowledge."""

from types import SimpleNamespace

import pytest

from plinth.bench import prediction
from plinth.reproduce.sparsity import gathers


def test_rows_compare_schemes_with_the_same_knowledge(monkeypatch) -> None:
    sent = gathers.Sent(all=200, paper=100, pooled_paper=80, oracle=90, pooled_oracle=50, one_round=70, two_rounds=60,
                        unpooled=65, units=10, dead=5, unread=6, two_rounds_found=4)
    monkeypatch.setattr(gathers, "network", lambda name, outputs, lines: [sent, sent])
    monkeypatch.setattr(prediction, "trained", lambda name: SimpleNamespace(accuracy=0.5))
    share, both, neither = prediction.prediction_bits(2, True)
    assert [(row.name, row.value) for row in (share, both, neither)] == [
        ("prediction_bits_f23_1d", pytest.approx(60 / 200)), ("prediction_over_mpt_f23_1d", pytest.approx(60 / 80)),
        ("prediction_over_mpt_unpooled_f23_1d", pytest.approx(65 / 100))]
    assert "pools known" in share.unit and "both knowing" in both.unit and "neither knowing" in neither.unit
    assert "0.750 of the bits of MPT's scheme where both know of pools, 0.650 where neither" in share.limited_by
    assert {"pooled_paper", "over_pooled_paper", "unpooled_over_paper"} <= set(share.detail[prediction.NETWORK])
    assert {row.name for row in (share, both, neither)} <= set(prediction.BENCHES)
