"""Yosys where the user's cache cannot be written, and where it fails."""

import multiprocessing
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
import wasmtime
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


@pytest.fixture(autouse=True)
def builtin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Amaranth's own Yosys, which this process has not loaded yet."""
    monkeypatch.setenv("AMARANTH_USE_YOSYS", "builtin")
    tools._builtin_yosys.cache_clear()


@pytest.fixture
def caches(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The variable as Yosys is loaded, which is not loaded here."""
    seen: list[str | None] = []

    def load() -> Callable[[str], tuple[int, str, str]]:
        seen.append(os.environ.get("XDG_CACHE_HOME"))
        return lambda script: (0, script, "")

    monkeypatch.setattr(tools, "_builtin_yosys", load)
    return seen


def test_a_home_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What wasmtime compiles is kept in our caches; the variable is as it was before."""
    monkeypatch.setenv("HOME", "/proc/none")
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert "module top" in emit.verilog(Inverter(), "top")
    assert "XDG_CACHE_HOME" not in os.environ
    assert (tmp_path / "wasm" / "wasmtime").is_dir()


@pytest.mark.parametrize(("usual", "kept"), [("/proc/none", "build/wasm"), ("mine", "mine")])
def test_where_what_is_compiled_is_kept(usual: str, kept: str, caches: list[str | None], tmp_path: Path,
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    usual = str(tmp_path / usual)
    monkeypatch.setenv("XDG_CACHE_HOME", usual)
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path / "build"))
    assert "write_verilog" in tools.verilog_of("")
    assert caches == [str(tmp_path / kept)] and os.environ["XDG_CACHE_HOME"] == usual
    assert not (tmp_path / "build").exists()


def test_a_failure_of_what_runs_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> None:
        raise wasmtime.WasmtimeError("mmap failed to allocate\nCannot allocate memory")

    monkeypatch.setattr(tools, "_builtin_yosys", load)
    with refused(tools.ToolError, "Yosys failed: Cannot allocate memory; see that there are room on the disk"):
        emit.verilog(Inverter(), "top")


def test_a_netlist_that_yosys_refuses() -> None:
    """The next one is written as ever: nothing is left of a run."""
    before = emit.verilog(Inverter(), "top")
    with refused(tools.ToolError, "Yosys failed: ERROR: Parser error in line 1: syntax error; see that there are room"):
        tools.verilog_of("nonsense")
    assert emit.verilog(Inverter(), "top") == before


def test_a_program_that_ran_it_ends_in_silence() -> None:
    """What it was loaded into is freed while there is what frees it, though another module holds ours to the end."""
    code = (r"import threading; from plinth_hw import tools; threading.held = tools; "
            r"print(tools.verilog_of('module \\top\nend\n'))")
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True)
    assert done.returncode == 0 and "module top" in done.stdout and not done.stderr, done.stderr


def test_processes_that_are_forked_write_the_same() -> None:
    """The threads of what was loaded are not theirs."""
    netlist = "module \\top\nend\n"
    text = tools.verilog_of(netlist)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        assert pool.submit(tools.verilog_of, netlist).result(timeout=60) == text


def test_a_yosys_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a process."""
    program = tmp_path / "yosys"
    program.write_text("#!/bin/sh\ntest $1 = -V && echo Yosys 0.50 || exec cat\n")
    program.chmod(0o755)
    monkeypatch.setenv("YOSYS", str(program))
    monkeypatch.setenv("AMARANTH_USE_YOSYS", "system")
    assert tools.verilog_of("a netlist").startswith("read_rtlil <<rtlil\na netlist\nrtlil\nproc")


@pytest.mark.slow
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "plinth.cli", "verilog", "fpga-tiny", "--out", str(tmp_path / "die.v")]
    done = subprocess.run(command, text=True, capture_output=True,
                          env={**os.environ, "PLINTH_BUILD": str(tmp_path / "build")},
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
    # On a slow machine what goes on is told before.
    told = [line for line in done.stderr.splitlines() if not line.startswith("writing the Verilog of ")]
    assert done.returncode == 2 and len(told) == 1 and "Traceback" not in done.stderr, done.stderr
    assert not (tmp_path / "die.v").exists()


def test_where_a_program_is() -> None:
    yosys = "1. Executing Verilog-2005 frontend: die.v\nStoring 3\n3.12.4. Executing OPT_EXPR pass (folding).\n x"
    assert tools.stage(yosys) == "3.12.4. Executing OPT_EXPR pass" and tools.stage("nothing\n") == ""
    for line, said in (("Info: Running Static placer...", "Running Static placer"),
                       ("Info: iter=9 steplen=1.2", "iter=9"),
                       ("Info:   at iteration #5: temp = 0.0, wirelen = 3", "at iteration #5"),
                       ("Info: Routing 171 arcs.", "Routing 171 arcs"),
                       ("Info:       4171 |        0        171 |", "router's iteration 4171")):
        assert tools.stage(f"{yosys}\n{line}\n") == said


def test_a_program_that_runs_tells_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_tool.py").write_text(
        "import time\ndef run_slow_tool(arguments):\n"
        "    with open(arguments[0], 'w') as log:\n        log.write('2. Executing SLOW pass.\\n')\n"
        "    time.sleep(1)\n    return 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(tools, "_LOOK_SECONDS", 0.05)
    told: set[str] = set()
    monkeypatch.setattr(tools.Activity, "update", lambda self, done, note: told.add(note or ""))
    tools.run("slow-tool", ["its.log"], tmp_path, "all.log", own_log="its.log")
    assert told - {""} == {"2. Executing SLOW pass"} and (tmp_path / "its.log").exists()
