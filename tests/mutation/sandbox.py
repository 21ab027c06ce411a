"""A copy of the tree in which mutants run, and pytest in it; the user's files are only read."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tests.mutation.mutants import Mutant

from plinth_hw.installation import cache_root, output_root

#: What no test reads.
_LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "build", "__pycache__", "*.egg-info", ".*_cache")
_ROOTS = ("hw", "sim", "sw")


@dataclass(frozen=True)
class Outcome:
    """How a run of pytest ended."""

    #: "passed", "failed", or "timeout"
    verdict: str
    #: The test that failed first, or what else went wrong.
    by: str


class Sandbox:
    """A copy of the tree with a build folder of its own, which starts with the simulators that are built already.

    Use as a context manager: the copy goes at its end.
    """

    def __init__(self, root: Path):
        self.source = root
        folder = output_root().resolve() / "mutate"
        folder.mkdir(parents=True, exist_ok=True)
        for stale in folder.glob("tree-*"):
            if not Path("/proc", stale.name.split("-")[1]).exists():
                shutil.rmtree(stale, ignore_errors=True)
        self.folder = Path(tempfile.mkdtemp(prefix=f"tree-{os.getpid()}-", dir=folder))
        self.root = self.folder / "plinth"
        self._running: subprocess.Popen[str] | None = None
        self._closed = False
        self._builds = self.folder / "build" / "verilator"

    def __enter__(self) -> "Sandbox":
        shutil.copytree(self.source, self.root, ignore=_LEFT_OUT)
        self._builds.mkdir(parents=True)
        for built in (cache_root() / "verilator").glob("*"):
            if built.is_dir() and "." not in built.name:
                # Links: builds are never written again. One that is being replaced is not needed.
                shutil.copytree(built, self._builds / built.name, copy_function=os.link, dirs_exist_ok=True)
                log = built.with_name(f"{built.name}.log")
                if log.is_file():
                    os.link(log, self._builds / log.name)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def stop(self) -> None:
        """End what runs, its children included; nothing starts after that."""
        self._closed = True
        self._end()

    def _end(self) -> None:
        if self._running is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._running.pid, signal.SIGKILL)
            self._running.wait()

    def pytest(self, arguments: Sequence[str], wall_seconds: float, **environment: str) -> Outcome:
        """Run pytest in the copy.

        Parameters
        ----------
        arguments : sequence of str
        wall_seconds : float
            Limit for tests that wait without computing; the plugin's limit of processor time is the one for others.
        environment : str
            Variables of the plugin.

        Raises
        ------
        RuntimeError
            If pytest does not run, or the sandbox has been stopped.
        """
        env = {**os.environ, **environment, "PYTHONPATH": os.pathsep.join(str(self.root / name) for name in _ROOTS),
               "PLINTH_BUILD": str(self.folder / "build"), "PLINTH_COMPILE": "quick", "PLINTH_THREADS": "1",
               "PYTHONHASHSEED": "0"}
        log = self.folder / "log"
        with open(log, "w", encoding="utf-8") as handle:
            self._running = subprocess.Popen(
                [sys.executable, "-m", "pytest", "-q", "-x", "--tb=line", "-p", "no:cacheprovider", "-p",
                 "tests.mutation.plugin", *arguments], cwd=self.root, env=env, text=True, stdin=subprocess.DEVNULL,
                stdout=handle, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                code = None if self._closed else self._running.wait(wall_seconds)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                self._end()
        if self._closed:
            raise RuntimeError("stopped")
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        if code in (0, 5):  # 5: a file without a test of the kind asked for
            return Outcome("passed", "")
        if code is None or code in (-signal.SIGXCPU, -signal.SIGKILL):
            return Outcome("timeout", "no end")
        if code == 4:  # pytest's own: bad usage
            raise RuntimeError("\n".join(["pytest does not run in the copy:", *lines[-20:]]))
        named = [line.split(" ", 1)[1].split(" - ")[0] for line in lines if line.startswith(("FAILED ", "ERROR "))]
        return Outcome("failed", named[0] if named else lines[-1] if lines else f"exit code {code}")

    def run(self, tests: Sequence[str], wall_seconds: float, **environment: str) -> Outcome:
        """Run some tests, in their order, with variables of the plugin; one that is not there fails."""
        wanted = self.folder / "tests.json"
        wanted.write_text(json.dumps(list(tests)), encoding="utf-8")
        files = list(dict.fromkeys(test.split("::")[0] for test in tests))
        return self.pytest(files, wall_seconds, MUTATION_TESTS=str(wanted), **environment)

    def judge(self, mutant: Mutant, tests: Sequence[str], cpu_seconds: float, wall_seconds: float) -> Outcome:
        """Run some tests, in their order, on a mutant; what they built of it goes."""
        path = self.root / mutant.file
        source = path.read_bytes()
        before = {built.name for built in self._builds.iterdir()}
        self._forget(path)
        path.write_bytes(mutant.applied(source))
        try:
            return self.run(tests, wall_seconds, MUTATION_SECONDS=str(int(cpu_seconds)))
        finally:
            path.write_bytes(source)
            self._forget(path)
            self.forget_results()
            for built in self._builds.iterdir():
                if built.name not in before:
                    shutil.rmtree(built) if built.is_dir() else built.unlink()

    def forget_results(self) -> None:
        """Remove what tests keep in the build folder but simulators and modules of dies, which are found by their
        contents: a mutant's results serve no other, and what tests keep, others would not enter again.
        """
        build = self.folder / "build"
        for kept in (*build.iterdir(), *(build / "verilog").glob("*")):
            if kept.name in ("verilator", "verilog", "modules"):
                continue
            if kept.is_dir():
                shutil.rmtree(kept)
            else:
                kept.unlink()

    @staticmethod
    def _forget(path: Path) -> None:
        """Compiled code is told apart by size and second, which a mutant may share with the original."""
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            compiled.unlink()
