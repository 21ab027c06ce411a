"""The main job in full, on every number of dies and in both formats."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.reports import assert_report_exact

from plinth import cli, names
from plinth.array.array import ARRAYS
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.partition.regions import Splits
from plinth.plan.planning import SPLITTERS, task
from plinth.report import figures

pytestmark = pytest.mark.long

README = Path(__file__).resolve().parents[2] / "README.md"


#: Reports of the convolutional job by its plan: planners that agree share a run.
_reports: dict[Splits, dict[str, Any]] = {}


@pytest.mark.parametrize("planner", names.PLANNER_NAMES)
def test_the_convolutional_job_under_every_planner(planner: str, tmp_path: Path) -> None:
    splits = SPLITTERS[planner](task(from_network(NETWORKS["digits-cnn"]), ARRAYS["ring-4"], "exact", 128))
    if splits not in _reports:
        cli.main(["train", "digits-cnn", "--planner", planner, "--out", str(tmp_path)])
        _reports[splits] = json.loads((tmp_path / "report.json").read_text())
    report = _reports[splits]
    assert [layer["splits"] for layer in report["plan"]["layers"]] == [list(vector) for vector in splits[:-1]]
    assert_report_exact(report)
    assert report["test_accuracy"] >= 0.97


def test_the_convolutional_job_on_row_stationary_dies(tmp_path: Path) -> None:
    cli.main(["train", "digits-cnn", "--machine", "hypar", "--dies", "4", "--out", str(tmp_path)])
    report: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
    assert_report_exact(report)
    assert report["test_accuracy"] >= 0.97


def test_the_convolutional_job_by_tiles(tmp_path: Path) -> None:
    """``make train NETWORK=digits-cnn WINOGRAD=auto DIES=8``."""
    cli.main(["train", "digits-cnn", "--dies", "8", "--winograd", "auto", "--out", str(tmp_path)])
    report: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
    assert report["preset"] == "ndp-demo-winograd"
    assert_report_exact(report)
    assert report["compared_steps"] == report["steps"]
    assert report["test_accuracy"] >= 0.97


@pytest.mark.parametrize(("dies", "number_format"), [(1, "fp32"), (2, "fp32"), (4, "fp32"), (8, "fp32"),
                                                     (4, "mixed"), (4, "fixed")])
def test_the_main_job(dies: int, number_format: str, tmp_path: Path) -> None:
    cli.main(["train", "--dies", str(dies), "--format", number_format, "--out", str(tmp_path)])
    report: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
    assert_report_exact(report)
    assert report["test_accuracy"] >= 0.95
    if (dies, number_format) == (4, "fp32"):
        text = README.read_text(encoding="utf-8")
        for line in figures.training_lines(report):
            assert line in text
