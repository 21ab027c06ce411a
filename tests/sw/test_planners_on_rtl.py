"""The convolutional digits job on four demo dies of both machines, three steps under every planner."""

import json
from pathlib import Path

import pytest
from tests.support.reports import assert_report_exact

from plinth import cli, names

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("demo-dies")]


#: Planners of sparse layers have tests of their own (tests/sw/test_sparse_on_rtl.py).
PLANNERS = [name for name in names.PLANNER_NAMES if name not in ("exhaustive", "hypergraph", "random-rows")]


@pytest.mark.parametrize("planner", PLANNERS)
def test_three_steps(planner: str, tmp_path: Path) -> None:
    cli.main(["train", "digits-cnn", "--planner", planner, "--batch", "16", "--steps", "3", "--out", str(tmp_path)])
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["compared_steps"] == 3
    assert report["planner"] == planner
    assert_report_exact(report)


def test_three_steps_on_row_stationary_dies(tmp_path: Path) -> None:
    cli.main(["train", "digits-cnn", "--machine", "hypar", "--dies", "4", "--batch", "16", "--steps", "3",
              "--out", str(tmp_path)])
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["preset"] == "hypar-demo"
    assert report["compared_steps"] == 3
    assert_report_exact(report)
