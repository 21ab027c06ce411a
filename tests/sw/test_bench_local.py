"""Rows about local networks: what they make of runs, of stated curves; and one short run of each kind."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from plinth.bench import local
from plinth.bench.local import LocalCase
from plinth.bench.rows import BENCHES
from plinth.local.coordinator import Point


def points(accuracy: float, seconds: float = 1.0, words: int = 100) -> list[Point]:
    """A curve that is flat behind its first point."""
    return [Point(merged=n, batches=n, words=n * words, seconds=n * seconds, loss=1.0,
                  accuracy=0.5 if n == 1 else accuracy) for n in range(1, 8)]


def stated(monkeypatch: pytest.MonkeyPatch, of: object) -> list[LocalCase]:
    """Curves by a function of cases, in place of runs; the cases that were asked for."""
    asked: list[LocalCase] = []

    def curves(cases: Sequence[LocalCase]) -> dict[LocalCase, list[Point]]:
        asked.extend(cases)
        return {case: of(case) for case in cases}  # type: ignore[operator]

    monkeypatch.setattr(local, "curves", curves)
    return asked


def test_rows_are_those_that_the_command_knows() -> None:
    assert set(local.BENCHES) <= set(BENCHES)


def test_gaps_are_of_the_best_way_of_each_and_of_the_worst_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(case: LocalCase) -> list[Point]:
        best = case.rate == 0.05
        if not case.kernels:
            return points((0.95 if best and case.share == 1 else 0.9) + 0.001 * case.seed)
        return points((0.94 if case.data == "watch" else 0.948) - (0 if best else 0.1) - 0.02 * (case.share < 0.5)
                      + 0.001 * case.seed)

    asked = stated(monkeypatch, of)
    half, quarter = local.local_accuracy_gap()
    assert half.value == pytest.approx(0.01) and half.name == "local_accuracy_gap"
    # Three seeds in place of five are a thousandth lower.
    assert quarter.value == pytest.approx(0.031)
    together = {case.batches for case in asked if not case.kernels}
    assert {case.batches for case in asked if case.kernels} == {4 * steps for steps in together}


def test_words_and_times_are_those_of_the_best_ways_that_all_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(case: LocalCase) -> list[Point]:
        if not case.kernels:
            reaches = case.share == 1 or case.seed > 0
            return points(0.95 if reaches else 0.7, 8.0 if case.share == 1 else 1.0, 1000 if case.batch == 100 else 700)
        return points(0.95, {10: 3.0, 20: 2.0, 40: 4.0}[case.push] / (4 if case.projected else 1),
                      {10: 50, 20: 40, 40: 20}[case.push] // (2 if case.projected else 1))

    stated(monkeypatch, of)
    words, projected, time = local.words_and_time()
    assert (words.value, projected.value, time.value) == (700 / 20, 700 / 10, 8.0 / 2.0)
    assert time.detail["words"]["synchronous"]["synchronous, rate 0.02, dropout, batch 100"] is None


def test_sixteen_kernels_train_as_many_batches_each(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(case: LocalCase) -> list[Point]:
        if case.kernels.startswith("16") and case.batches < 10000:
            return points(0.88)
        return points(0.897 if case.kernels.startswith("16") and case.data == "mnist" else 0.9)

    asked = stated(monkeypatch, of)
    (row,) = local.sixteen_kernels()
    assert row.value == pytest.approx(0.003) and row.detail["on_as_many_batches"]["mnist"] == pytest.approx(0.02)
    each = {case.kernels: max(other.batches for other in asked if other.kernels == case.kernels) for case in asked}
    assert each["16*numpy"] == 4 * each["4*numpy"]


def test_a_fixed_kernel_is_one_of_four(monkeypatch: pytest.MonkeyPatch) -> None:
    accuracies = {"4*numpy": 0.98, "3*numpy,golden:fpga-demo": 0.979}
    stated(monkeypatch, lambda case: points(accuracies.get(case.kernels, 0.97)))
    (row,) = local.fixed_kernel()
    assert row.value == pytest.approx(0.001) and row.detail["all_fixed_gap"] == pytest.approx(0.01)


def test_short_runs_of_each_kind_have_curves() -> None:
    case = LocalCase(data="digits", seed=0, rate=0.02, push=4, batches=24)
    assert local.curve(case)[-1].batches >= 24
    together = local.curve(replace(case, kernels="", batches=80, batch=50))
    assert together[-1].batches == 80 and len(together) == 40
    assert local.curve(replace(case, projected=8))[-1].accuracy is not None
    assert local.reached(together, 0.0) == together[0] and local.reached(together, 2.0) is None
