"""Sparse layers on four co-simulated demo dies: RadiX-Net by the hypergraph and at random, and a pruned perceptron."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.reports import assert_report_exact

import plinth
from plinth import cli
from plinth.bench.sparse_dies import BATCH, DIES, NEURONS, radix_net, volume

pytestmark = pytest.mark.long

STEPS = 5


def test_radix_net_sends_the_words_of_its_hypergraph() -> None:
    draws, words, cycles = np.random.default_rng(0), dict[str, int](), dict[str, float]()
    x, y = (draws.random((2 * BATCH * STEPS, NEURONS), dtype=np.float32) for _ in range(2))
    for planner in ("hypergraph", "random-rows"):
        plan = plinth.plan(radix_net(4), f"ring-{DIES}", planner=planner, batch=BATCH)
        report = plinth.train(plan, x, y, device="cosim", steps=STEPS, rate=0.5).report
        assert report["compared_steps"] == STEPS
        assert_report_exact(report)
        words[planner], cycles[planner] = report["injected_words"], report["cycles"]
        assert words[planner] == STEPS * BATCH * volume(plan.plan)
    # What the planner finds may become less.
    assert words["hypergraph"] <= STEPS * 110_592 < 0.1 * words["random-rows"]
    assert cycles["hypergraph"] < cycles["random-rows"]


def test_a_pruned_perceptron_is_as_accurate_as_the_dense_one(tmp_path: Path) -> None:
    dense, pruned, weights = tmp_path / "dense", tmp_path / "pruned.yaml", tmp_path / "dense.npz"
    cli.main(["train", "digits-mlp", "--device", "golden", "--save", str(weights), "--out", str(dense)])
    cli.main(["sparse", "prune", "digits-mlp", "--weights", str(weights), "--share", "0.1", "--out", str(pruned)])
    cli.main(["train", str(pruned), "--array", f"ring-{DIES}", "--planner", "hypergraph", "--update", "momentum",
              "--rate", "0.2", "--epochs", "8", "--out", str(tmp_path / "sparse")])
    reports: list[dict[str, Any]] = [json.loads((tmp_path / name / "report.json").read_text())
                                     for name in ("dense", "sparse")]
    assert_report_exact(reports[1])
    assert reports[1]["test_accuracy"] >= reports[0]["test_accuracy"] - 0.01
