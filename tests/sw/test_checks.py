"""Steps that are wrong in the dies and in their golden model alike: the float64 reference sees each of them."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.networks import random_data
from tests.support.sessions import MEMORY_WORDS, RULE, session

from plinth import cli
from plinth.cli.flags import with_flags
from plinth.driver.driver import Driver
from plinth.lower.program import DieGraph
from plinth.lower.training import TrainingProgram, lower_training
from plinth.network.file import load_network
from plinth.network.layers import Dense, MeanSquaredError, Shape
from plinth.network.network import Network, perceptron
from plinth.network.parameters import ReferenceStep, TermSizes, initial_parameters
from plinth.plan.planning import data_parallel
from plinth.train import checks, job
from plinth.train.checkpoint import Checkpoint, NotFiniteError, save
from plinth.train.checks import BOUNDS, Bound, Bounds, Checks, FoundStep, Generators, against_float64, step_errors
from plinth.train.data import Dataset
from plinth.train.session import Session
from plinth.update.rule import UpdateRule
from plinth_hw.isa import layout
from plinth_hw.isa.descriptors import HEADER_WORDS
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.update_bodies import CollectiveBody

DIES = 2
PRESETS = ["ndp-tiny", "ndp-demo-mixed", "fpga-demo"]
NETWORK = perceptron("small", (12, 16, 8, 6))


def lowered(name: str, rate: float = RULE.rate) -> TrainingProgram:
    plan = data_parallel(NETWORK, dies=DIES, batch=32)
    return lower_training(NETWORK, plan, preset(name), rule=UpdateRule(rate=rate), steps=1, memory_words=MEMORY_WORDS)


def stepped(program: TrainingProgram, network: Network = NETWORK) -> Session:
    """The session after a step."""
    run = session(network, data_parallel(network, dies=DIES, batch=32),
                  random_data(network, 32, np.random.default_rng(0)), program)
    next(iter(run.epoch(0)))
    return run


def failure(run: Session) -> str:
    assert run.checks is not None
    return run.checks.failure or "none"


def with_rate(program: TrainingProgram, layer: str, factor: float) -> TrainingProgram:
    """The learning rate of one layer's update times a factor, in the descriptors of all dies."""
    def changed(graph: DieGraph) -> DieGraph:
        tasks = []
        for task in graph.tasks:
            if task.engine is Engine.COLLECTIVE and task.name.startswith(f"{layer}."):
                body = layout.unpack(CollectiveBody, task.words[HEADER_WORDS:])
                rate = np.uint32(body.rate).view(np.float32) * np.float32(factor)
                words = layout.pack(CollectiveBody, vars(body) | {"rate": int(rate.view(np.uint32))})
                rest = task.words[HEADER_WORDS + len(words):]
                task = replace(task, words=(*task.words[:HEADER_WORDS], *words, *rest))
            tasks.append(task)
        assert tuple(tasks) != graph.tasks
        return replace(graph, tasks=tuple(tasks))
    return replace(program, step=[changed(graph) for graph in program.step])


def after_step(monkeypatch: pytest.MonkeyPatch, change: Callable[[Driver], None]) -> None:
    """Something else in memory than the step has left."""
    right = Driver.step

    def step(self: Driver, index: int) -> int:
        cycles = right(self, index)
        change(self)
        return cycles
    monkeypatch.setattr(Driver, "step", step)


@pytest.mark.parametrize("name", PRESETS)
def test_a_right_step_passes(name: str) -> None:
    run = stepped(lowered(name))
    assert run.checks is not None and failure(run) == "none"
    # What rounding weights and a sum over dies accounts for is all of a descent, in fixed point of an update as well;
    # there is no state.
    assert all(value > 0 for error, value in run.checks.largest.items()
               if error not in ("state", "descent") and (name, error) != ("fpga-demo", "update"))
    assert run.checks.largest["descent"] < 1e-7


@pytest.mark.parametrize("name", PRESETS)
def test_a_learning_rate_twice_too_large(name: str) -> None:
    error = "descent" if name == "fpga-demo" else "update"
    assert f"step 1: {error} error of layer 'fc1'" in failure(stepped(lowered(name, 2 * RULE.rate)))


@pytest.mark.parametrize("name", PRESETS)
def test_a_learning_rate_too_large_in_the_last_layer_only(name: str) -> None:
    assert "step 1: update error of layer 'fc3'" in failure(stepped(with_rate(lowered(name), "fc3", 1.5)))


@pytest.mark.parametrize("factor", [0.99, 1.01])
@pytest.mark.parametrize("name", PRESETS[:2])
def test_a_learning_rate_a_hundredth_off(name: str, factor: float) -> None:
    """Less than 16 bits may be off; but the step down the dies' own gradient is FP32's."""
    assert "step 1: " in failure(stepped(with_rate(lowered(name), "fc2", factor)))
    assert name == "ndp-tiny" or "descent error of layer 'fc2'" in failure(
        stepped(with_rate(lowered(name), "fc2", factor)))


@pytest.mark.parametrize("name", PRESETS[1:])
def test_an_update_that_forgets_the_loss_scale(name: str) -> None:
    program = lowered(name)
    assert program.gradient_scale > 1
    assert "step 1: update error" in failure(stepped(lowered(name, RULE.rate * program.gradient_scale)))


@pytest.mark.parametrize(("name", "factor"), [("ndp-tiny", 0.9), ("ndp-demo-mixed", 0.9), ("fpga-demo", 0.4)])
def test_predictions_that_are_too_small(name: str, factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def change(driver: Driver) -> None:
        predictions = driver.program.predictions  # type: ignore[attr-defined]
        for die, buffer in enumerate(predictions.buffers):
            driver.write_floats(die, buffer, np.float32(factor) * driver.read_floats(die, buffer))
    after_step(monkeypatch, change)
    assert "step 1: prediction error" in failure(stepped(lowered(name)))


def test_a_loss_that_is_not_that_of_the_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Session._result
    monkeypatch.setattr(Session, "_result", lambda *arguments: (right(*arguments)[0] + 1.0, None))
    assert "step 1: loss error" in failure(stepped(lowered("fpga-demo")))


def test_a_die_whose_weights_stay_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(driver: Driver) -> None:
        buffer = driver.program.weights["fc2"].buffers[1]  # type: ignore[attr-defined]
        values = driver.read_floats(1, buffer)
        values[0, 3] += np.float32(1e-3)
        driver.write_floats(1, buffer, values)
    after_step(monkeypatch, change)
    assert "step 1: update error of layer 'fc2'" in failure(stepped(lowered("ndp-tiny")))


@pytest.mark.parametrize("what", ["weights", "predictions"])
def test_what_is_not_finite(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def change(driver: Driver) -> None:
        buffer = driver.program.weights["fc2"].buffers[1]  # type: ignore[attr-defined]
        if what == "predictions":
            buffer = driver.program.predictions.buffers[0]  # type: ignore[attr-defined]
        values = driver.read_floats(1 if what == "weights" else 0, buffer)
        values[0, 0] = np.inf if what == "weights" else np.nan
        driver.write_floats(1 if what == "weights" else 0, buffer, values)
    after_step(monkeypatch, change)
    assert f"step 1: {what} not finite; float64 does not diverge" in failure(stepped(lowered("ndp-tiny")))


def train(tmp_path: Path, *options: str, device: str = "golden") -> tuple[int, dict[str, Any]]:
    """Exit code and report of ``plinth train``."""
    code = 0
    try:
        cli.main(["train", "--device", device, "--preset", "ndp-tiny", "--dies", "1", "--batch", "16", "--steps",
                  "3", "--out", str(tmp_path), *options])
    except SystemExit as stop:
        code = int(stop.code or 0)
    report: dict[str, Any] = json.loads((tmp_path / "report.json").read_text(), parse_constant=pytest.fail)
    return code, report


def test_a_run_that_is_right_says_how_far_it_is_off(tmp_path: Path) -> None:
    code, report = train(tmp_path)
    assert code == 0 and report["failure"] is None and report["steps"] == 3
    assert all(0 < report[f"{name}_error"] < 1e-5 for name in ("prediction", "gradient", "update", "descent"))
    assert 0 <= report["loss_error"] < 1e-5
    for name, error in report["errors"].items():
        assert error["largest"] <= report[f"{name}_error"] and error["median"] <= error["median_allowed"]


def test_a_run_ends_at_the_first_wrong_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is saved of it, the report says why, and the exit code is not 0."""
    right = job.lower_training
    monkeypatch.setattr(job, "lower_training", lambda *arguments, rule, **more: right(
        *arguments, rule=replace(rule, rate=2 * rule.rate), **more))
    code, report = train(tmp_path, "--save", str(tmp_path / "w.npz"))
    assert code == 2 and report["steps"] == 1
    assert report["failure"].startswith("step 1: update error of layer 'fc1'")
    assert report["failure"] in capsys.readouterr().err
    assert report["update_error"] == pytest.approx(1, abs=1e-4)
    assert not (tmp_path / "w.npz").exists()


def test_a_run_that_fails_by_its_medians_leaves_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss that is a tenth too small, which single steps of Q3.12 might be."""
    right = Session._result
    monkeypatch.setattr(Session, "_result", lambda *arguments: (0.9 * right(*arguments)[0], None))
    code, report = train(tmp_path, "--preset", "fpga-demo", "--steps", "10", "--save", str(tmp_path / "w.npz"))
    assert code == 2 and report["failure"].startswith("median of 10 steps up to step 10: loss error")
    assert not (tmp_path / "w.npz").exists()


def test_a_run_whose_loss_is_not_finite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report = train(tmp_path, "--rate", "1e30")
    assert code == 2 and report["steps"] == 2
    assert report["losses"][1] is None and report["last_loss"] is None and report["test_loss"] is None
    assert ("step 2: loss not finite; training diverges, in float64 as well; give a smaller --rate"
            in capsys.readouterr().err)


@pytest.mark.parametrize("device, saved", [("golden", True), ("numpy", True), ("numpy", False)])
def test_weights_that_are_not_finite_end_a_run_that_compares_nothing(
        device: str, saved: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The loss of its only step is that of the weights before."""
    file = tmp_path / "w.npz"
    code, report = train(tmp_path, "--rate", "3e38", "--scale", "1024", "--steps", "1", "--check", "0",
                         *(["--save", str(file)] if saved else []), device=device)
    assert code == 2 and report["failure"].startswith("step 1: weights not finite; give a smaller rate=")
    assert report["checked_steps"] == 0 and not file.exists()
    assert with_flags(report["failure"]) in capsys.readouterr().err


def test_losses_between_the_steps_that_are_compared_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                                                  ) -> None:
    right = Session._result
    monkeypatch.setattr(Session, "_result", lambda run, batch: (
        float("nan") if len(run.losses) == 9 else right(run, batch)[0], None))
    code, report = train(tmp_path, "--steps", "20", device="numpy")
    assert code == 2 and report["steps"] == 10 and report["checked_steps"] == 8
    assert report["failure"].startswith("step 10: loss not finite; give a smaller rate=")


def test_arrays_that_are_not_finite_are_not_saved(tmp_path: Path) -> None:
    """They would not be read again; the file that was there stays, and only what comes before is asked for."""
    network = load_network("digits-mlp")
    first, path = initial_parameters(network, 0), tmp_path / "w.npz"
    save(path, network, Checkpoint(first, 1, 0))
    before, asked = path.read_bytes(), []

    def arrays(odd: str) -> Iterator[tuple[str, NDArray[np.float32]]]:
        for name, values in {**first, "fc1.weights:squares": first["fc1.weights"]}.items():
            asked.append(name)
            yield name, np.where(name == odd, np.float32(np.inf), values)

    for place in (path, None):
        for odd, what in (("fc1.weights:squares", "states"), ("fc2.weights", "weights")):
            asked.clear()
            with pytest.raises(NotFiniteError, match=f"{what} are not finite"):
                save(place, network, Checkpoint({}, 1, 0), arrays(odd))
            assert asked[-1] == odd and path.read_bytes() == before and os.listdir(tmp_path) == ["w.npz"]
    save(path, network, Checkpoint({}, 1, 0), Checkpoint(first, 2, 3).arrays())
    assert path.read_bytes() == before


def test_medians_are_bounded_once_there_are_enough_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rate that is a little too large in every step, which a single step of 16 bits might be."""
    bound = Bound(0.5, 0.02)
    monkeypatch.setitem(checks.BOUNDS, "fixed", Bounds(2.0**-11, bound, bound, bound, bound))
    ones = np.ones(4)
    wanted = ReferenceStep(ones, 1.0, [ones], TermSizes(2.0, 1.0, 5.0, [1.0]), 0)
    found_step = FoundStep(np.float32(ones), 1.0, [1.2 * ones], [np.float32(0 * ones)], [None],
                           [[np.float32(-1.2 * RULE.rate * ones)]])
    checker = Checks(lambda *_: wanted, RULE, ["fc"], "fixed")
    for _ in range(checks.MEDIAN_STEPS):
        checker.finish()
        assert checker.failure is None
        checker.forget()
        checker.step(found_step, ones, ones, {})
    checker.finish()
    assert checker.failure is not None and "median of 8 steps up to step 8: gradient error 0.04" in checker.failure


@pytest.mark.parametrize(("number_format", "exact"), [("fp32", 1e-3), ("mixed", 0.05)])
@pytest.mark.parametrize("factor", [0.0, 2.0, -1.0])
def test_a_softmax_that_knows_its_samples_is_bounded_still(number_format: str, exact: float, factor: float) -> None:
    """Predictions are 1 / 2,500 off the targets; a right step passes, one whose gradient is none does not."""
    network = perceptron("fit", (4, 2))
    ones = np.ones(10)
    wanted = ReferenceStep(np.ones((2, 2)), 1.0, [ones], TermSizes(2.0, 1.0, 5000.0, [1.0]), 0)

    def judged(gain: float) -> str | None:
        checker = replace(against_float64(network, RULE, number_format), reference=lambda *_: wanted, causes=None)
        own = gain * ones
        checker.step(FoundStep(np.ones((2, 2), np.float32), 1.0, [own], [np.float32(0 * ones)], [None],
                               [[np.float32(-RULE.rate * own)]]), ones, ones, {})
        return checker.failure
    assert judged(1 + exact / 2) is None
    assert "gradient error of layer" in str(judged(factor))


@pytest.mark.parametrize(("states", "fault"), [
    (((1, 2), (1, 2), (3, 4)), None), (((1, 2), (1, 5), (3, 4)), "die 1 does not go on from the state that was left"),
    (((1, 2), (1, 2), (3, 2)), None), (((1, 2), (1, 2), (1, 2)), "no generator of random bits goes on"),
    (((1, 1), (1, 1), (3, 4)), "die 1 has the random bits of die 0"),
    (((1, 2), (1, 2), (3, 3)), "die 1 has the random bits of die 0")])
def test_generators_of_random_bits(states: tuple[tuple[int, ...], ...], fault: str | None) -> None:
    actual = Generators(*states).fault()
    assert actual is None if fault is None else fault in str(actual)


def test_a_gradient_that_vanishes_is_as_far_off_as_its_terms() -> None:
    """Least squares at the solution: samples pull at the weights as before, and cancel."""
    network = Network(name="fit", input=Shape((4,)), layers=(
        Dense(name="fc", outputs=2), MeanSquaredError(name="loss")))
    generator = np.random.default_rng(0)
    x, targets = (generator.standard_normal((50, size)).astype(np.float32) for size in (4, 2))
    design = np.column_stack([x, np.ones(50)]).astype(np.float64)
    weights = np.linalg.lstsq(design, targets.astype(np.float64), rcond=None)[0].astype(np.float32).ravel()
    checker = against_float64(network, RULE, "fp32")
    single = design.astype(np.float32)
    predictions = single @ weights.reshape(5, 2)
    gradient = (single.T @ (predictions - targets) * np.float32(2 / targets.size)).ravel()
    found_step = FoundStep(predictions, float(((predictions - targets).astype(np.float64)**2).mean()),
                           [gradient.astype(np.float64)], [weights], [None],
                           [[weights - np.float32(RULE.rate) * gradient]])
    checker.step(found_step, x, targets, {})
    assert checker.failure is None
    assert checker.largest["gradient"] > 1e-3
    checker.step(replace(found_step, gradients=[found_step.gradients[0] + 1e-3]), x, targets, {})
    assert checker.failure is not None and "step 2: gradient error of layer 'fc'" in checker.failure


def test_rounding_a_weight_is_no_error() -> None:
    """Updates smaller than the weights' last place."""
    before = np.float32([1.0, -3.0, 0.1])
    wanted = before.astype(np.float64) - 1e-9
    step = ReferenceStep(np.ones(1), 1.0, [np.ones(3)], TermSizes(1.0, 1.0, 1.0, [1.0]), 0)

    def error(after: np.ndarray) -> float:
        found_step = FoundStep(np.float32([1]), 1.0, [np.ones(3)], [before], [None], [[after]])
        rule = UpdateRule(rate=1e-9)
        return next(each.value for each in step_errors(["fc"], rule, step, found_step) if each.name == "update")
    assert error(wanted.astype(np.float32)) == 0
    assert error(np.nextafter(before, np.float32(9))) > 10


@pytest.mark.parametrize(("kind", "amplifies"), [("rmsprop", True), ("adagrad", False), ("momentum", False)])
def test_roundings_of_small_gradients_count_where_a_rule_makes_large_steps_of_them(kind: str, amplifies: bool) -> None:
    """Gradients of all magnitudes, which a state of their squares makes alike; some are 0, and exact."""
    rng, rule = np.random.default_rng(0), UpdateRule(kind, rate=0.1, epsilon=1e-8, decay=0.5)
    slope = rng.standard_normal(400) * 10.0**rng.uniform(-5, 0, 400)
    slope[::5] = 0
    noise = np.where(slope == 0, 0, rng.standard_normal(400) * 1e-7)
    before, state = np.zeros(400, np.float32), slope**2
    step = ReferenceStep(np.ones(1), 1.0, [slope], TermSizes(1.0, 1.0, 1.0, [1.0]), 0)
    after = rule.apply(before, slope + noise, state)
    found_step = FoundStep(np.float32([1]), 1.0, [slope + noise], [before], [state], [[after]],
                           [rule.next_state(slope + noise, state)])
    errors = {each.name: each for each in step_errors(["fc"], rule, step, found_step)}
    gradient, update = errors["gradient"], errors["update"]
    assert gradient.scale == 1.0 and (update.scale > 1000) == amplifies == (update.scale != 1.0)
    assert not amplifies or 0.1 < update.value / update.scale / gradient.value < 3


@pytest.mark.parametrize("number_format", ["fp32", "mixed"])
def test_an_update_that_is_left_out_is_beyond_any_amplified_bound(number_format: str) -> None:
    """One gradient is large, all others nearly nothing, of which RMSProp makes steps as large."""
    rule, slope = UpdateRule("rmsprop", rate=0.1, epsilon=1e-30), np.full(400, 1e-9)
    slope[0] = 1.0
    before, state = np.zeros(400, np.float32), slope**2
    step = ReferenceStep(np.ones(1), 1.0, [slope], TermSizes(1.0, 1.0, 1.0, [1.0]), 0)
    found_step = FoundStep(np.float32([1]), 1.0, [slope], [before], [state], [[before]],
                           [rule.next_state(slope, state)])
    bounds = BOUNDS[number_format]
    errors = {each.name: each for each in step_errors(["fc"], rule, step, found_step, bounds=bounds)}
    update = errors["update"]
    assert update.value == pytest.approx(1) and update.scale > 10
    assert update.value > 1.9 * bounds.update.largest * update.scale


@pytest.mark.parametrize("kind", ["sgd", "momentum", "rmsprop"])
def test_gradients_of_three_dies_may_cancel(kind: str) -> None:
    """The ring adds them in FP32, where much of the sum is rounding then; a right step passes."""
    network = Network(name="fit", input=Shape((8,)), layers=(
        Dense(name="fc", outputs=4), MeanSquaredError(name="loss")))
    generator = np.random.default_rng(0)
    first, second = generator.standard_normal((2, 8))
    x = np.float32([first, second, (first + second) / 2])
    variables = initial_parameters(network, 0)
    weights, bias = (np.asarray(variables[name], np.float64) for name in ("fc.weights", "fc.bias"))
    error = np.outer([1, 1, -2], 3 * generator.standard_normal(4)) + 1e-5 * generator.standard_normal((3, 4))
    targets = (x @ weights.reshape(8, 4) + bias - error).astype(np.float32)
    rule = UpdateRule(kind, rate=0.01)
    plan = data_parallel(network, dies=3, batch=3)
    program = lower_training(network, plan, preset("ndp-tiny"), rule=rule, steps=1, memory_words=MEMORY_WORDS)
    data = Dataset(x, targets, x, targets, 0)
    run = session(network, plan, data, program, rule=rule)
    next(iter(run.epoch(0)))
    assert run.checks is not None and run.checks.failure is None
    parts = [run.driver.read_floats(die, program.gradients["fc"].buffers[die]) for die in range(3)]
    assert np.linalg.norm(np.abs(parts).sum(axis=0)) > 2000 * np.linalg.norm(np.sum(parts, axis=0))


def test_dies_count_what_becomes_an_end_of_its_format() -> None:
    """Weights beyond the format; other formats have no such counters."""
    run = stepped(lowered("fpga-demo"))
    before = run.driver.saturations(0)
    assert before is not None and before["sums"] == 0 and before["results"] < 10
    run.load_parameters({name: np.float32(100) * values for name, values in run.parameters(run.driver).items()})
    next(iter(run.epoch(0)))
    for die in range(DIES):
        saturations = run.driver.saturations(die)
        assert saturations is not None and saturations["results"] > 100 and saturations["sums"] > 100
    assert stepped(lowered("ndp-demo-mixed")).driver.saturations(0) is None
