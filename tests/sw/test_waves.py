"""``plinth train --waves``: a VCD of the window, and one clear line for what cannot be."""

from pathlib import Path

import pytest
from tests.support import vcd

from plinth import cli

TRAIN = ["train", "--dies", "2", "--preset", "ndp-tiny", "--batch", "8", "--steps", "1"]


@pytest.mark.slow
@pytest.mark.xdist_group("tiny-dies")
def test_a_window_is_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main([*TRAIN, "--waves", "die=1,from=1000,to=2000", "--out", str(tmp_path)])
    path = tmp_path / "die1.vcd"
    assert vcd.cycles(path) == (1000, 1999)
    assert {"axil_awaddr", "axi_0_rdata", "link_in_1_credit", "irq"} <= vcd.signals(path)
    assert f"waves: {path}" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.xdist_group("tiny-dies")
def test_a_window_after_the_end_is_not_claimed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main([*TRAIN, "--waves", "die=0,from=900000000,to=900000010", "--out", str(tmp_path)])
    assert "waves: none, the run ended before cycle 900000000" in capsys.readouterr().out


@pytest.mark.parametrize(("waves", "needle"), [
    ("here", "not of the form `die=0,from=1000,to=2000`"),
    ("", "not of the form"),
    ("die=0,from=1000", "not of the form"),
    ("die=0,from=-1,to=3", "not of the form"),
    ("die=2,from=1,to=2", "'die' must be below 2"),
    ("die=1,from=5,to=5", "'from' below 'to'"),
    ("die=1,from=6,to=5", "'from' below 'to'")])
def test_a_bad_window_ends_in_one_line(waves: str, needle: str, tmp_path: Path,
                                       capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main([*TRAIN, "--waves", waves, "--out", str(tmp_path / "out")])
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert error.count("\n") == 1 and error.startswith("plinth: error: --waves") and needle in error
    assert not (tmp_path / "out").exists()


def test_the_golden_model_has_no_waves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main([*TRAIN, "--device", "golden", "--waves", "die=0,from=1,to=2", "--out", str(tmp_path / "out")])
    assert stop.value.code == 2
    assert "--waves records the RTL's simulation" in capsys.readouterr().err
