"""Yosys where the user's cache cannot be written, and where it fails."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from amaranth._toolchain import yosys
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from tests.support.refusal import refused

from plinth_hw import emit, tools


class Inverter(wiring.Component):
    """A netlist that is soon made."""

    i: In(1)
    o: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.o.eq(~self.i)
        return m


@pytest.mark.parametrize("usual", [None, "/proc/none"])
def test_a_home_that_cannot_be_written(usual: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What wasmtime compiles is kept in our caches; the variable is as it was before."""
    monkeypatch.setenv("HOME", "/proc/none")
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path))
    if usual is None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", usual)
    assert "module top" in emit.verilog(Inverter(), "top")
    assert os.environ.get("XDG_CACHE_HOME") == usual
    assert (tmp_path / "wasm" / "wasmtime").is_dir()


def test_a_home_that_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "mine"))
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path / "build"))
    seen: list[str | None] = []
    monkeypatch.setattr(yosys._BuiltinYosys, "run", lambda *_, **__: seen.append(os.environ.get("XDG_CACHE_HOME")))
    monkeypatch.setenv("AMARANTH_USE_YOSYS", "builtin")
    tools.verilog_of("")
    assert seen == [str(tmp_path / "mine")] and not (tmp_path / "build").exists()


def test_a_failure_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> str:
        raise yosys.YosysError("Traceback (most recent call last):\n  File x\nWasmtimeError: File too large")

    monkeypatch.setenv("AMARANTH_USE_YOSYS", "builtin")
    monkeypatch.setattr(yosys._BuiltinYosys, "run", run)
    with refused(tools.ToolError, "Yosys failed: WasmtimeError: File too large; see that there are room on the disk"):
        emit.verilog(Inverter(), "top")


@pytest.mark.slow
@pytest.mark.parametrize("command", [("-m", "plinth_hw"), ("-m", "plinth.cli", "verilog")])
def test_a_full_disk_is_one_line(command: tuple[str, ...], tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, *command, "fpga-tiny", "--out", str(tmp_path / "die.v")], text=True,
                          capture_output=True, env={**os.environ, "PLINTH_BUILD": str(tmp_path / "build")},
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "Traceback" not in done.stderr, done.stderr
    assert not (tmp_path / "die.v").exists()
