# amaranth: UnusedElaboratable=no
"""The command that makes bitstreams: what it passes on, and what it refuses."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from plinth_hw.board import flow
from plinth_hw.board.__main__ import main
from plinth_hw.board.report import Report
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.tools import ToolError

REPORT = Report(80.0, 90.0, {"from": "a.Q", "to": "b.D", "logic_ns": 1.0, "routing_ns": 2.0},
                {"TRELLIS_FF": (4, 8)}, {1: 90.0})
HERE = f"{__name__}:die"


def die(parameters: DieParameters, clock_hz: Fraction, baud: int) -> Any:
    """Stands in for what makes a serial die."""
    return parameters.name, clock_hz, baud


def test_what_is_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def build(board: str, parameters: DieParameters, design: Any, clock_hz: int, baud: int, folder: Path,
              seeds: range) -> Report:
        assert (board, clock_hz, baud, folder, list(seeds)) == ("ulx3s-85f", 62_500_000, 9600, tmp_path, [4, 5])
        assert design(Fraction(1)) == (parameters.name, 1, 9600) == ("ndp-tiny", 1, 9600)
        return REPORT

    monkeypatch.setattr(flow, "build", build)
    outcome = CliRunner().invoke(main, ["ulx3s-85f", "ndp-tiny", "--clock", "62.5", "--baud", "9600", "--seed", "4",
                                        "--seeds", "2", "--out", str(tmp_path), "--design", HERE])
    assert outcome.exit_code == 0, outcome.output
    assert "margin +12.5 %" in outcome.output and outcome.output.endswith(f"{tmp_path / 'plinth.bit'}\n")


@pytest.mark.parametrize(("arguments", "words"), [
    (["ulx4m", "ndp-tiny"], "'ulx4m' is not one of 'ulx3s-85f'"),
    (["ulx3s-85f", "ndp-huge"], "'ndp-huge' is not one of"),
    (["ulx3s-85f"], "Missing argument 'PRESET'"),
    (["ulx3s-85f", "ndp-tiny", "--clock", "0"], "--clock"),
    (["ulx3s-85f", "ndp-tiny", "--design", HERE, "--clock", "900"], "must be from 3.125 to 400 MHz, not 900"),
    (["ulx3s-85f", "ndp-tiny", "--design", "nothing:at_all"], "a function that can be imported as MODULE:FUNCTION"),
    (["ulx3s-85f", "ndp-tiny", "--design", f"{__name__}:none"], "MODULE:FUNCTION"),
    (["ulx3s-85f", "--pins", "/dev/null/x"], "/dev/null/x: Not a directory; name what can be written")])
def test_bad_input(arguments: list[str], words: str) -> None:
    refusal = CliRunner().invoke(main, arguments)
    assert refusal.exit_code == 2 and words in refusal.output, refusal.output
    assert "Traceback" not in refusal.output


def test_a_missing_tool_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*arguments: Any) -> Report:
        raise ToolError("the wheel x is not installed")

    monkeypatch.setattr(flow, "build", build)
    refusal = CliRunner().invoke(main, ["ulx3s-85f", "ndp-tiny", "--design", HERE])
    assert (refusal.exit_code, refusal.output) == (2, "plinth_hw.board: error: the wheel x is not installed\n")
