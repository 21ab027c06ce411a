"""``plinth train --winograd`` on the RTL: tiles that a planner splits over dies, in steps of the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.support.dies import PREDICTING
from tests.support.reports import assert_report_exact

from plinth import cli
from plinth_hw.isa.parameters import PRESETS

pytestmark = pytest.mark.xdist_group("tiny-predict-dies")


def test_a_planner_splits_the_elements_of_tiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By `mpt`, on the RTL; by the plan that it wrote, on the golden model: the same words, the same losses."""
    array, plan, data = (tmp_path / name for name in ("array.yaml", "plan.yaml", "few.npz"))
    monkeypatch.setitem(PRESETS, PREDICTING.name, PREDICTING)
    array.write_text(f"version: 1\nname: four\ntopology: ring\ndies: 4\npreset: {PREDICTING.name}\n")
    generator = np.random.default_rng(0)
    np.savez(data, x=generator.random((12, 1, 8, 8), dtype=np.float32), y=generator.integers(0, 10, 12))
    how = ["digits-cnn", "--winograd", "2", "--weights", "winograd", "--array", str(array), "--planner", "mpt",
           "--batch", "4"]
    cli.main(["plan", *how, "--out", str(plan)])
    reports = []
    for arguments in ([*how, "--device", "cosim"], [str(plan), "--device", "golden"]):
        cli.main(["train", *arguments, "--data", str(data), "--steps", "2", "--out", str(tmp_path)])
        reports.append(json.loads((tmp_path / "report.json").read_text()))
    trained, again = reports
    assert_report_exact(trained)
    assert trained["compared_steps"] == trained["steps"] == 2
    assert trained["plan"]["layers"][1]["splits"] == ["ep", "ep"]
    for key in ("last_loss", "test_loss", "plan", "predicted_injected_words"):
        assert trained[key] == again[key], key
