"""The FuseSoC core of a die: linted, and its other targets set up, by FuseSoC itself."""

import subprocess
import sys
from pathlib import Path

import pytest

from plinth import cli
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import PRESETS, preset
from plinth_sim.rtl import verilator

CORE = "plinth:die:ndp_tiny:0.1.0"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """FuseSoC on the cores of a folder, which it also works in; it looks at nothing outside."""
    (folder / "fusesoc.conf").touch()
    environment = verilator.environment() | {"XDG_DATA_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}
    return subprocess.run(
        [sys.executable, "-m", "fusesoc.main", "--config", str(folder / "fusesoc.conf"), "--cores-root", str(folder),
         "run", "--work-root", str(folder / "work"), *arguments, CORE],
        cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@pytest.mark.slow
def test_fusesoc_takes_the_core(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Of one engine, so that this is quick; `make lint` is for the rest.
    monkeypatch.setitem(PRESETS, "ndp-tiny", preset("ndp-tiny", engines=frozenset({Engine.TRANSFER})))
    cli.main(["verilog", "ndp-tiny", "--out", str(tmp_path / "die.v"), "--fusesoc", "--clock", "80"])
    for target, tool, files in (("ecp5", "yosys", ["die.v"]),
                                ("vivado", "vivado", ["die.v", "die.xdc", "die_ooc.tcl"])):
        setup = run(tmp_path, "--setup", f"--target={target}")
        assert setup.returncode == 0, setup.stdout
        scripts = "".join(path.read_text() for path in (tmp_path / "work").iterdir() if path.is_file())
        assert tool in scripts and all(file in scripts for file in files)
    assert "-period 12.500" in (tmp_path / "die.xdc").read_text()

    linted = run(tmp_path, "--target=lint")
    assert linted.returncode == 0 and "Warning" not in linted.stdout, linted.stdout
    (tmp_path / "die.vlt").write_text("`verilator_config\n")
    linted = run(tmp_path, "--target=lint")
    assert linted.returncode != 0 and "%Warning-UNUSEDSIGNAL" in linted.stdout, linted.stdout
