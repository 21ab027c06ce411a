"""What rounding weights and states to memory accounts for, what it does not, and what a few steps can say."""

import json
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.sw.test_updates import FIXED, FLOAT, trained

from plinth import cli
from plinth.buffers import Buffer
from plinth.lower.places import LayerWeights
from plinth.network.parameters import LayerVector
from plinth.network.variables import weights
from plinth.step.weights import WeightSlice
from plinth.train.checks import FoundStep
from plinth.train.stored import NARROW_PLACE, WIDE_PLACE, NumberStorage, OwnUpdate, norm, storage
from plinth.train.unsaturated import bias_error, gain_error, sample_errors
from plinth.update.kinds import MOMENTUM
from plinth.update.rule import UpdateRule
from plinth_hw.isa.formats import FP32, Q3_12, Fixed, Format

NEAREST = NumberStorage(NARROW_PLACE, 0.5)
RANDOM = NumberStorage(NARROW_PLACE, 1.0, random=True)


def distance(held: NumberStorage, stored: np.ndarray, wanted: np.ndarray) -> float:
    return held.distance(stored, wanted, np.full(wanted.shape, 0.01), np.zeros(wanted.shape))


def rounded(values: np.ndarray, place: float) -> np.ndarray:
    return np.asarray(np.rint(values / place) * place)


def test_the_nearest_number_is_right_and_its_neighbour_wrong() -> None:
    wanted = np.random.default_rng(0).standard_normal(1000)
    assert distance(NEAREST, rounded(wanted, NARROW_PLACE), wanted) == 0
    floor = np.floor(wanted / NARROW_PLACE) * NARROW_PLACE
    assert distance(NEAREST, floor, wanted) > 0.01 * np.linalg.norm(floor - wanted)


def test_wide_numbers_are_compared_in_their_own_places() -> None:
    wanted = np.random.default_rng(0).standard_normal(1000)
    wide = storage("fixed", UpdateRule(MOMENTUM, wide=True))
    assert distance(wide, rounded(wanted, WIDE_PLACE), wanted) == 0
    narrow = rounded(wanted, NARROW_PLACE)
    assert distance(wide, narrow, wanted) == pytest.approx(np.linalg.norm(narrow - wanted), rel=1e-6)


@pytest.mark.parametrize(("shift", "right"), [(0.0, True), (-0.25, False), (0.25, False)])
def test_random_rounding_has_no_bias(shift: float, right: bool) -> None:
    generator = np.random.default_rng(1)
    wanted = generator.standard_normal(5000)
    stored = np.floor(wanted / NARROW_PLACE + np.clip(generator.random(5000) + shift, 0, 1)) * NARROW_PLACE
    assert (distance(RANDOM, stored, wanted) == 0) == right


def test_rounding_that_ought_to_be_random_is_not_the_nearest() -> None:
    wanted = np.random.default_rng(2).standard_normal(5000)
    assert distance(RANDOM, rounded(wanted, NARROW_PLACE), wanted) > 0


def test_what_is_beyond_the_format_is_stored_as_its_end() -> None:
    rule = UpdateRule(MOMENTUM, rate=0.5)
    update = OwnUpdate(rule, storage("fixed", rule), 8.0, np.array([0.5, -0.9]))
    before = np.array([0.9, -0.2])
    # In memory 0.9 * 7.2 + 4 and 0.9 * -1.6 - 7.2, of which both are beyond +-8.
    most, least = (8 - NARROW_PLACE) / 8, -1.0
    assert update.state_error(before, np.array([most, least])) == 0
    assert update.saturated(np.zeros(2), before, np.array([most, least])) == 2
    assert update.state_error(before, np.array([most / 2, least])) > 0.1


@pytest.mark.parametrize("rule", FIXED, ids=str)
def test_saturations_by_the_rule_are_counted_as_dies_do(rule: UpdateRule, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among them numbers at an end which gain less than dies can tell; were these counted here, as many others could
    saturate unseen."""
    run = trained("fpga-tiny", rule, 1, 1)
    checks = run.checks
    assert checks is not None
    judged: list[tuple[int, int]] = []
    step = checks.step

    def saved(found_step: FoundStep, *arguments: Any) -> None:
        judged.append((found_step.saturated, checks._saturating(found_step)))
        step(found_step, *arguments)
    monkeypatch.setattr(checks, "step", saved)
    kept = run.kept(run.driver)
    most = Q3_12.most * NARROW_PLACE
    run.load_kept({layer: {name: np.full_like(values, most if name == "state" else 0)
                           for name, values in vectors.items()} for layer, vectors in kept.items()})
    list(run.epoch(1))
    assert judged and all(counted == wanted for counted, wanted in judged)
    assert rule.kind == "sgd" or any(counted for counted, _ in judged)


def test_a_sample_that_is_missing_stands_out() -> None:
    """Not so one error that all samples share."""
    parts = np.random.default_rng(3).standard_normal((32, 200))
    whole = parts.sum(axis=0)
    (right,) = sample_errors([1.05 * whole], [whole], [[part] for part in parts])
    (missing,) = sample_errors([whole - parts[7]], [whole], [[part] for part in parts])
    assert right < 1e-6 and missing == pytest.approx(0.8, abs=0.1)


def test_a_gain_is_apart_from_roundings() -> None:
    generator = np.random.default_rng(4)
    wanted, roundings = generator.standard_normal(2000), 0.05 * generator.standard_normal(2000)
    assert gain_error(wanted + roundings, wanted) < 0.005
    assert gain_error(1.05 * wanted + roundings, wanted) == pytest.approx(0.05, abs=0.005)
    assert gain_error(np.zeros(3), np.ones(3)) == 1 and gain_error(np.ones(3), np.zeros(3)) == 0


def test_a_bias_is_compared_by_itself() -> None:
    wanted = np.concatenate([np.full(90, 1.0), np.full(10, 0.5)])
    actual = np.concatenate([np.full(90, 1.0), np.full(10, 0.25)])
    assert bias_error(actual, wanted, 10) == pytest.approx(0.5)
    assert bias_error(actual, wanted, 0) == 0


@pytest.mark.parametrize("rule", [FLOAT[0], FIXED[1], FIXED[4]], ids=str)
def test_nothing_changes_between_steps(rule: UpdateRule) -> None:
    """But what the host loads."""
    run = trained("fpga-tiny" if rule in FIXED else "ndp-tiny", rule, 2, 2)
    assert run.checks is not None and run.checks.failure is None
    kept = run.kept(run.driver)
    run.load_kept(kept)
    list(run.epoch(2))
    assert run.checks.failure is None
    for vectors in run.program.kept.values():
        for place in vectors.values():
            place.spread(np.zeros_like(place.reading().of(run.driver)), run.driver)
    list(run.epoch(3))
    assert run.checks.failure is not None and run.checks.failure.startswith("step 4: state error")


@pytest.mark.parametrize("rule", [FLOAT[0], FIXED[0], FIXED[1]], ids=str)
@pytest.mark.parametrize("lost", ["weights", "state", "nothing"])
def test_a_run_goes_on_from_what_was_loaded(rule: UpdateRule, lost: str) -> None:
    """As from a checkpoint; a die that has not got it is told of."""
    run = trained("fpga-tiny" if rule in FIXED else "ndp-tiny", rule, 2, 1)
    assert run.checks is not None
    weights = {name: 1.01 * values for name, values in run.parameters(run.driver).items()}
    kept = run.kept(run.driver)
    run.load_parameters(weights)
    run.load_kept(kept)
    layer = run.network.weighted[-1].name
    if lost == "weights":
        die, buffer = 1, run.program.weights[layer].buffers[1]
        run.driver.write_floats(die, buffer, np.zeros((1, buffer.columns), np.float32))
    elif lost == "state":
        for place in run.program.kept[layer].values():
            place.spread(np.zeros_like(place.reading().of(run.driver)), run.driver)
    list(run.epoch(1))
    if lost == "nothing" or (lost == "state" and not any(kept.values())):
        assert run.checks.failure is None
    else:
        assert run.checks.failure is not None and run.checks.failure.startswith("before step 2: ")
        assert layer in run.checks.failure and "loaded" in run.checks.failure


def report(tmp_path: Path, *options: str) -> dict[str, object]:
    cli.main(["train", "--device", "golden", "--preset", "fpga-demo", "--dies", "1", "--batch", "16", "--out",
              str(tmp_path), *options])
    written: dict[str, object] = json.loads((tmp_path / "report.json").read_text())
    return written


def test_a_short_run_says_how_many_steps_a_verdict_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short_run = report(tmp_path, "--steps", "3")
    assert short_run["verdict_steps"] == 8 and short_run["steps"] == 3
    first = short_run["unsaturated_steps"]
    assert isinstance(first, dict) and first["judged"] == 3
    assert all(error["largest"] <= error["largest_allowed"] for error in first["errors"].values())
    assert "checked from 8 steps on, here are 3" in " ".join(capsys.readouterr().out.split())
    report(tmp_path, "--steps", "8")
    assert "medians" not in capsys.readouterr().out


def test_wider_rounding_is_not_taken_for_a_state() -> None:
    """A state of FP32 that is a last place off is within rounding, a thousandth is not."""
    rule = UpdateRule(MOMENTUM)
    update = OwnUpdate(rule, storage("fp32", rule), 1.0, np.linspace(0.1, 1, 50))
    before = np.linspace(-1, 1, 50)
    after = (0.9 * before + update.gradient).astype(np.float32).astype(np.float64)
    assert update.state_error(before, after) == 0
    assert update.state_error(before, 1.001 * after) > 1e-4
    assert replace(update, gradient=2 * update.gradient).state_error(before, after) > 0.1


@pytest.mark.parametrize("rule", [UpdateRule("momentum"), UpdateRule("rmsprop", decay=0.9), UpdateRule(rate=0.1)],
                         ids=lambda rule: rule.kind)
def test_a_sum_over_dies_that_cancels_is_as_far_off_as_its_terms(rule: UpdateRule) -> None:
    """Three dies whose parts nearly cancel, added in FP32 one by one; a part that is missing is seen still."""
    generator = np.random.default_rng(5)
    first, second = (generator.standard_normal(200).astype(np.float32) for _ in range(2))
    third = (-(first.astype(np.float64) + second) + 1e-5 * generator.standard_normal(200)).astype(np.float32)
    exact = first.astype(np.float64) + second + third
    rounding = 3 * 2.0**-24 * (np.abs(first) + np.abs(second) + np.abs(third)).astype(np.float64)
    weights = np.zeros(200, np.float32)

    def errors(dies: np.ndarray, tolerance: np.ndarray | float) -> tuple[float, float]:
        update = OwnUpdate(rule, storage("fp32", rule), 1.0, exact, tolerance)
        state = rule.next_state(dies, np.zeros(200)).astype(np.float32).astype(np.float64)
        taken = rule.rate * rule.direction(dies, state)
        return update.state_error(np.zeros(200), state), update.weight_error(
            weights, state, [(weights - taken).astype(np.float32)])
    ring = ((second + third) + first).astype(np.float64)
    assert max(errors(ring, 0.0)) > 1e-4 and max(errors(ring, rounding)) < 1e-6
    assert max(errors((second + third).astype(np.float64), rounding)) > 0.1


@pytest.mark.parametrize("fmt", [FP32, Q3_12], ids=str)
def test_dies_sums_are_within_their_rounding_in_any_order(fmt: Format) -> None:
    """Four dies' gradients, which cancel, and in fixed point saturate on their way: the sum in float64 is as far off as
    it says, and not as far again."""
    dies, generator = range(4), np.random.default_rng(6)
    words = generator.integers(-30000, 30000, (4, 1000)) if isinstance(fmt, Fixed) else None
    parts = generator.standard_normal((4, 1000)).astype(np.float32) if words is None else (
        words * NARROW_PLACE).astype(np.float32)
    shape = (1, 10, 100)
    held = LayerWeights(LayerVector("fc", [weights(10, 100)]), shape, [WeightSlice(1, 0, 10, 0, 100, False)] * 4,
                        [Buffer("gradient", 0, 1, 1000, 1000)] * 4, [tuple(dies)])
    die_sum = held.sums(fmt).make(list(parts[:, None, :]))
    most, worst = Q3_12.most * NARROW_PLACE, np.zeros(1000)
    for order in permutations(dies):
        total = parts[order[0]]
        for die in order[1:]:
            total = total + parts[die]
            if words is not None:
                total = np.clip(total, -most - NARROW_PLACE, most)
        values = die_sum.values if words is None else np.clip(die_sum.values, -most - NARROW_PLACE, most)
        worst = np.maximum(worst, np.abs(total - values))
    assert np.all(worst <= die_sum.rounding) and worst.max() > die_sum.rounding.max() / 8


def test_sizes_that_fp32_does_not_hold_are_finite() -> None:
    assert norm(np.full(4, 1e30, np.float32)) == pytest.approx(2e30)
    assert norm(np.zeros(4, np.float32)) > 0
