"""Kinks that the dies decide: counted beside the errors, bounded, and avoided by initial values."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plinth import cli
from plinth.defaults import KINKS
from plinth.network import layers
from plinth.network.parameters import ReferenceStep, TermSizes, initial_parameters
from plinth.network.winograd import with_tiles
from plinth.network.zoo import NETWORKS
from plinth.train import kinks
from plinth.train.kinks import Kinks

DIGITS = NETWORKS["digits-cnn"]


def train(tmp_path: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code and report of two steps of the digits' convolutions, on golden dies."""
    code = 0
    try:
        cli.main(["train", "digits-cnn", "--device", "golden", "--dies", "1", "--batch", "64", "--steps", "2", "--out",
                  str(tmp_path), *arguments])
    except SystemExit as ended:
        code = int(ended.code or 0)
    report: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
    return code, report


@pytest.mark.parametrize("weights", ["spatial", "winograd"])
def test_initial_values_leave_no_black_pixel_to_roundings(weights: str, tmp_path: Path) -> None:
    code, report = train(tmp_path, "--winograd", "4", "--weights", weights)
    assert code == 0 and report["failure"] is None
    assert report["kink_share"]["largest"] < 2e-3 and report["kink_difference"]["largest"] < 0.02


def test_what_dies_decide_of_black_pixels_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                     capsys: pytest.CaptureFixture[str]) -> None:
    """With zero biases the reference takes the dies' side of thousands of exact zeros: errors do not show it."""
    monkeypatch.setattr(layers, "TILE_BIAS", 0.0)
    code, report = train(tmp_path, "--winograd", "4")
    assert code == 2 and report["steps"] == 1 and report["gradient_error"] < 1e-5
    assert report["kinks"] > 1000 and report["kink_share"]["largest"] > 2 * report["kink_share"]["largest_allowed"]
    assert report["kink_difference"]["largest"] > 0.05
    shown = capsys.readouterr()
    assert "taken as the dies did" in " ".join(shown.out.split())
    assert "step 1: dies decide 2." in shown.err and "or allow as many with --kinks 0.03" in shown.err
    code, report = train(tmp_path, "--winograd", "4", "--kinks", "0.03")
    assert code == 0 and report["steps"] == 2 and report["kink_share"]["largest_allowed"] == 0.03
    assert report["kink_share"]["mean"] < report["kink_share"]["largest"]


def test_other_layers_begin_with_zero_biases() -> None:
    plain, small, large = (initial_parameters(network, 0) for network in (
        DIGITS, with_tiles(DIGITS, 2, None), with_tiles(DIGITS, 4, None)))
    for name, values in plain.items():
        np.testing.assert_array_equal(values, small[name])
    for layer in DIGITS.weighted:
        tiled, weights, bias = layer.kind == "convolution", f"{layer.name}.weights", f"{layer.name}.bias"
        np.testing.assert_array_equal(plain[weights], large[weights])
        assert (plain[bias] == 0).all() and (large[bias] == (layers.TILE_BIAS if tiled else 0)).all()


def test_shares_are_of_what_has_a_kink() -> None:
    def step(decided: int, kinked: int, difference: float) -> ReferenceStep:
        return ReferenceStep(np.ones(1), 1.0, [], TermSizes(1.0, 1.0, 1.0, []), decided, kinked, difference)
    counter = Kinks(0.25)
    assert counter.count(step(0, 0, 0.0)) is None and counter.count(step(1, 4, 0.1)) is None
    assert "dies decide 40.00% of the kinks, beyond 25.00%" in (counter.count(step(2, 5, 0.5)) or "")
    data = counter.to_data()
    assert counter.decided == 3 and data["kink_share"] == pytest.approx(
        {"largest": 0.4, "mean": 0.65 / 3, "largest_allowed": 0.25})
    assert data["kink_difference"] == pytest.approx({"largest": 0.5, "mean": 0.2})


def test_the_command_has_the_default_of_the_checks() -> None:
    assert (kinks.SHARES["fp32"], kinks.SHARES["mixed"]) == KINKS and kinks.SHARES["mixed"] == kinks.SHARES["fixed"]
