"""`plinth verilog`: the Verilog of a die for other tools."""

from pathlib import Path
from typing import Any

import pytest

from plinth import cli
from plinth_hw import emit
from plinth_hw.die import Die
from plinth_hw.isa.parameters import PRESETS, DieParameters, preset


def test_it_writes_what_the_generator_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    """That of `python -m plinth_hw`: cells, under the preset's name."""
    def verilog(die: Die, name: str, array_form: str = "cells", **options: Any) -> str:
        asked.append((die.parameters, name, array_form))
        return f"module {name}();\nendmodule\n"

    asked: list[tuple[DieParameters, str, str]] = []
    monkeypatch.setattr(emit, "verilog", verilog)
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path / "build"))
    monkeypatch.chdir(tmp_path)
    for arguments, path in ((["--out", "new/die.v"], Path("new/die.v")),
                            ([], tmp_path / "build" / "verilog" / "fpga-tiny.v")):
        cli.main(["verilog", "fpga-tiny", *arguments])
        assert path.read_text(encoding="utf-8") == "module fpga_tiny();\nendmodule\n"
        assert capsys.readouterr().out == f"{path}: 30 bytes, 1 modules\n"
    assert asked == [(preset("fpga-tiny"), "fpga_tiny", "cells")]


@pytest.mark.parametrize("arguments, needles", [
    (["verilog", "ndp-huge"], ["preset 'ndp-huge' is unknown; choose one of ", *PRESETS]),
    (["verilog", "ndp\x1b[2Jdemo"], [r"preset 'ndp\x1b[2Jdemo' is unknown"]),
    (["serial", "ndp-huge"], ["preset 'ndp-huge' is unknown; choose one of ", *PRESETS]),
    (["verilog"], ["Missing argument 'PRESET'"]),
    (["verilog", "ndp-tiny", "--out", "."], ["'.' is a folder, a pipe or a device; give the name of a file"])])
def test_mistakes_are_one_line(arguments: list[str], needles: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    error = capsys.readouterr().err
    assert stop.value.code == 2 and error.count("\n") == 1
    assert all(needle in error for needle in needles), error


def test_a_file_that_cannot_be_written_is_known_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                               capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("plinth.runtime.verilog.synthesizable_verilog", lambda parameters: pytest.fail("for nothing"))
    with pytest.raises(SystemExit) as stop:
        cli.main(["verilog", "ndp-tiny", "--out", str(tmp_path / "file" / "die.v")])
    assert stop.value.code == 2 and "cannot be written" in capsys.readouterr().err
