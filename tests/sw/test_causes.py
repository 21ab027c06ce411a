"""What a failing step comes from, as its line says: samples, targets, divergence in float64 as well, or the dies."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plinth import cli
from plinth.network.layers import Dense, MeanSquaredError, Shape
from plinth.network.network import Network, perceptron
from plinth.network.parameters import initial_parameters, layer_vectors
from plinth.train.checks import FoundStep, against_float64
from plinth.update.kinds import ADAGRAD_PRINTED, MOMENTUM, SGD
from plinth.update.rule import UpdateRule

NETWORK = perceptron("small", (12, 16, 6))
REGRESSION = Network(name="fit", input=Shape((4,)), layers=(Dense(name="fc", outputs=2), MeanSquaredError(name="loss")))
GENERATOR = np.random.default_rng(0)
X, Y = GENERATOR.random((32, 12)).astype(np.float32), GENERATOR.integers(0, 6, 32)


def cause(x: np.ndarray, y: np.ndarray, rule: UpdateRule, number_format: str = "fp32", network: Network = NETWORK,
          factor: float = 1.0) -> str:
    """Of a first step that is not finite, from initial weights times a factor."""
    checks = against_float64(network, rule, number_format)
    first = initial_parameters(network, 0)
    before = [np.float32(factor) * layer.join(first) for layer in layer_vectors(network)]
    states = [None if rule.kind == SGD else np.zeros(len(values)) for values in before]
    nothing = [np.zeros(len(values)) for values in before]
    checks.step(FoundStep(np.zeros((len(x), 6), np.float32), float("nan"), nothing, before, states,
                          [[values] for values in before]), x, y, {})
    start, text = (checks.failure or "none").split("; ", 1)
    assert start == "step 1: loss not finite"
    return text


@pytest.mark.parametrize(("number_format", "size"), [("fp32", 3e38), ("mixed", 6e4)])
def test_samples_that_are_too_large_are_to_be_scaled(number_format: str, size: float) -> None:
    assert f"are too large for format {number_format}; scale them to about 1, as by scale=auto" in cause(
        np.float32(size) * X, Y, UpdateRule(rate=0.1), number_format)


@pytest.mark.parametrize(("number_format", "size"), [("fp32", 1e-42), ("mixed", 1e-6), ("fixed", 1e-4)])
def test_samples_that_are_too_small_are_to_be_scaled(number_format: str, size: float) -> None:
    assert f"so small that their products vanish in format {number_format}; scale them to about 1" in cause(
        np.float32(size) * X, Y, UpdateRule(rate=0.1), number_format)


def test_targets_that_are_too_large_are_to_be_scaled() -> None:
    x, y = X[:, :4], (1e6 * GENERATOR.random((32, 2))).astype(np.float32)
    assert cause(x, y, UpdateRule(rate=0.1), "mixed", REGRESSION).startswith("targets of up to 9.9e+05 are")


@pytest.mark.parametrize(("rule", "number_format"), [
    (UpdateRule(SGD, rate=1e30), "fp32"), (UpdateRule(MOMENTUM, rate=1e3), "fp32"),
    (UpdateRule(SGD, rate=1e5), "mixed"), (UpdateRule(SGD, rate=1e3), "fixed")])
def test_a_rate_that_float64_diverges_with_as_well(rule: UpdateRule, number_format: str) -> None:
    assert cause(X, Y, rule, number_format) == "training diverges, in float64 as well; give a smaller rate="


def test_divergence_has_the_remedies_of_its_rule_and_samples() -> None:
    rule = UpdateRule(ADAGRAD_PRINTED, rate=0.01, epsilon=1e-8)
    assert cause(X, Y, rule).endswith("as well; give a smaller rate= or a larger epsilon=")
    assert "; scale samples of up to 1e+03 to about 1 (scale=auto), or give a smaller rate=" in cause(
        1000 * X, Y, UpdateRule(rate=100.0))


@pytest.mark.parametrize("rule", [UpdateRule(SGD, rate=0.1), UpdateRule(MOMENTUM, rate=0.05),
                                  UpdateRule(ADAGRAD_PRINTED, rate=0.005, epsilon=0.01)], ids=str)
def test_a_wrong_step_of_a_rule_that_trains(rule: UpdateRule) -> None:
    assert cause(X, Y, rule) == "float64 does not diverge from the same weights, so that the dies' step is wrong"
    assert cause(X, Y, rule, "mixed").endswith("asks for more than its 16 bits, which format=fp32 does not")


def test_weights_that_have_left_the_format_already() -> None:
    """As a step before left them, which was right."""
    assert cause(X, Y, UpdateRule(rate=0.1), factor=1e37).startswith("training diverges")


@pytest.mark.parametrize("machine", ["ndp", "fpga"])
def test_what_deep3_prints_diverges_with_a_small_epsilon(machine: str, tmp_path: Path,
                                                        capsys: pytest.CaptureFixture[str]) -> None:
    """Not a wrong step; of fixed-point dies quotients beyond their ends count."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["train", "--device", "golden", "--dies", "1", "--machine", machine, "--update", "adagrad-printed",
                  "--rate", "0.01", "--epsilon", "1e-6", "--steps", "5", "--out", str(tmp_path)])
    report: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
    assert ended.value.code == 2
    assert "training diverges, in float64 as well; give a smaller rate= or a larger epsilon=" in report["failure"]
    assert machine == "ndp" or report["saturations"][0]["results"] > 1000
