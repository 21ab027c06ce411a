"""`plinth verilog`: the Verilog of a die for other tools."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from plinth import cli
from plinth_hw import emit
from plinth_hw.die import Die
from plinth_hw.host.top import SerialDie
from plinth_hw.isa.parameters import PRESETS, DieParameters, preset


def module(top: Any, name: str) -> str:
    """Verilog of a component with nothing but its ports."""
    ports = [("input", "clk"), ("input", "rst"), *(("output" if port.is_output else "input", port.name)
                                                   for port in emit.ports(top))]
    return "\n".join([f"module {name}({', '.join(name for _, name in ports)});", *(
        f"  {way} {port};" for way, port in ports), "endmodule", ""])


def test_it_writes_what_the_generator_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    """Cells, under the preset's name."""
    def verilog(die: Die, name: str, array_form: str = "cells", **options: Any) -> str:
        asked.append((die.parameters, name, array_form))
        return module(die, name)

    asked: list[tuple[DieParameters, str, str]] = []
    monkeypatch.setattr(emit, "verilog", verilog)
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path / "build"))
    monkeypatch.chdir(tmp_path)
    for arguments, path in ((["--out", "new/die.v"], Path("new/die.v")),
                            ([], tmp_path / "build" / "verilog" / "fpga-tiny.v")):
        cli.main(["verilog", "fpga-tiny", *arguments])
        text = path.read_text(encoding="utf-8")
        assert text.startswith("module fpga_tiny(") and text.endswith("endmodule\n")
        assert capsys.readouterr().out == f"{path}: {len(text):,} bytes, 1 modules\n"
    assert asked == [(preset("fpga-tiny"), "fpga_tiny", "cells")]


def test_it_writes_a_host_bridge_and_what_stands_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                        capsys: pytest.CaptureFixture[str]) -> None:
    def verilog(top: SerialDie, name: str, *_: Any, **options: Any) -> str:
        asked.append((top.parameters, top.bridge.cycles_per_bit))
        return module(top, name)

    asked: list[tuple[DieParameters, Fraction | int]] = []
    monkeypatch.setattr(emit, "verilog", verilog)
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path / "build"))
    monkeypatch.chdir(tmp_path)
    cli.main(["verilog", "fpga-tiny", "--bridge", "--clock", "25", "--baud", "2000000", "--constraints", "--filelist"])
    folder = tmp_path / "build" / "verilog"
    names = [f"fpga-tiny-serial.{ending}" for ending in ("v", "sdc", "xdc", "vlt", "f")]
    assert capsys.readouterr().out.splitlines() == [
        f"{folder / names[0]}: {(folder / names[0]).stat().st_size:,} bytes, 1 modules", *(
            str(folder / name) for name in names[1:])]
    ((parameters, cycles),) = asked
    assert parameters.has_window and cycles == Fraction(25, 2)
    assert "uart TxD" in (folder / names[0]).read_text()
    assert "-period 40.000" in (folder / names[1]).read_text()
    assert (folder / names[4]).read_text() == "fpga-tiny-serial.v\n"
    assert 'lint_off -rule UNDRIVEN -file "*fpga-tiny-serial.v"\n' in (folder / names[3]).read_text()


@pytest.mark.parametrize("arguments, needles", [
    (["verilog", "ndp-huge"], ["preset 'ndp-huge' is unknown; choose one of ", *PRESETS]),
    (["verilog", "ndp\x1b[2Jdemo"], [r"preset 'ndp\x1b[2Jdemo' is unknown"]),
    (["serial", "ndp-huge"], ["preset 'ndp-huge' is unknown; choose one of ", *PRESETS]),
    (["verilog"], ["Missing argument 'PRESET'"]),
    (["verilog", "ndp-tiny", "--baud", "9600"], ["--baud is of a host bridge; give --bridge as well"]),
    (["verilog", "ndp-tiny", "--bridge", "--clock", "1"], ["a line of 3000000 baud is too fast for a clock of "
                                                           "1 MHz, which has to be 4 times as fast"]),
    (["verilog", "ndp-tiny", "--clock", "50"], ["--clock is of constraints and of a serial line; give --constraints"]),
    (["verilog", "ndp-tiny", "--vivado", "--out", "my die.v"], ["other tools would take the name 'my die' apart"]),
    (["verilog", "ndp-tiny", "--fusesoc", "--out", "die.core"], ["--out die.core must end in .v"]),
    (["verilog", "ndp-tiny", "--out", "-"], ["nothing is written to standard output; give the name of a file"]),
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
    monkeypatch.setattr("plinth.runtime.verilog.export", lambda *_, **__: pytest.fail("for nothing"))
    with pytest.raises(SystemExit) as stop:
        cli.main(["verilog", "ndp-tiny", "--out", str(tmp_path / "file" / "die.v")])
    assert stop.value.code == 2 and "cannot be written" in capsys.readouterr().err
