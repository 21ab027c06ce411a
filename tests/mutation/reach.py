"""Which tests enter which functions, measured on the tree as it is.

Every test file runs once, in a process of its own, so that caches and fixtures of one hide nothing from another; its
slow tests run apart. What child processes enter is not seen.
"""

import ast
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Any

from tests.mutation.mutants import Mutant
from tests.mutation.sandbox import Sandbox

from plinth.output import write_whole

#: What a test that builds a simulator costs beside its own time, where its build cannot be one that is there.
BUILD_SECONDS = 25.0
_BUILDS = "sim/plinth_sim/rtl/verilator.py:_build"
#: A test file of the regression ends well within this, slow tests included.
_WALL_SECONDS = 4 * 3600.0
#: pytest's expressions for the tests of `make test-quick`, and for those that `make test` runs besides.
QUICK, SLOW = "not slow and not long", "slow and not long"


@dataclass(frozen=True)
class Test:
    """A test as it was measured."""

    name: str
    seconds: float
    functions: frozenset[str]

    @property
    def file(self) -> str:
        return self.name.split("::")[0]


class _Imports:
    """Which files of the tree a file imports, by its text, functions included, and theirs in turn."""

    def __init__(self, root: Path, files: Iterable[str]):
        self._root = root
        self._modules: dict[str, str] = {}
        for file in files:
            parts = Path(file).with_suffix("").parts
            module = ".".join(parts if parts[0] == "tests" else parts[1:])
            self._modules[module.removesuffix(".__init__")] = file
        self._direct: dict[str, set[str]] = {}

    def _names(self, file: str) -> Iterator[str]:
        for node in ast.walk(ast.parse((self._root / file).read_bytes())):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)

    def __call__(self, file: str) -> set[str]:
        files, ahead = {file}, [file]
        while ahead:
            loader = ahead.pop()
            if loader not in self._direct:
                names = {".".join(name.split(".")[:count]) for name in self._names(loader)
                         for count in range(1, name.count(".") + 2)}
                self._direct[loader] = {self._modules[name] for name in names if name in self._modules}
            new = self._direct[loader] - files
            files |= new
            ahead += new
        return files


class Reach:
    """What tests enter, measured when it is asked for.

    Test files whose imports do not lead to a source are left out. A measurement is kept until the test file changes; of
    quick tests also, until the source that it is asked about does. A change elsewhere that makes a test enter other
    functions costs at most a test that is missed, never a false kill. Tests that fail without a mutant are left out,
    and said to be.

    Parameters
    ----------
    sandboxes : sequence of Sandbox
        In which no mutants run: as many files are measured at once.
    cache : Path
        Where measurements are kept.
    say : callable
        Told which file is being measured, and which tests are left out.
    """

    def __init__(self, sandboxes: Sequence[Sandbox], cache: Path, say: Callable[[str], None]):
        #: Of what is kept; and of what is being measured, by file and kind of tests.
        self._lock, self._measuring = Lock(), defaultdict[str, Lock](Lock)
        self._root, self._cache, self._say = sandboxes[0].root, cache, say
        self._idle: SimpleQueue[Sandbox] = SimpleQueue()
        for sandbox in sandboxes:
            self._idle.put(sandbox)
        self._pool = ThreadPoolExecutor(len(sandboxes))
        self._kept: dict[str, dict[str, Any]] = (
            json.loads(cache.read_text(encoding="utf-8")) if cache.exists() else {})
        self._digests = {path.relative_to(self._root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()[:12]
                         for folder in ("hw", "sim", "sw", "tests") for path in (self._root / folder).rglob("*.py")}
        self._imports = _Imports(self._root, self._digests)

    def _measured(self, file: str, source: str, marks: str) -> tuple[list[Test], set[str]]:
        """Tests of a file, and what runs, or is there to run, when it is loaded: functions, files.

        Raises
        ------
        RuntimeError
            If the file does not load on the tree as it is.
        """
        entry = file if marks == QUICK else f"{file} -m {marks}"
        with self._lock:
            measuring = self._measuring[entry]
        with measuring:
            kept = self._kept.get(entry, {})
            known = kept.get("digests", {})
            deciding = (file,) if marks == SLOW else (file, source)
            if "imported" not in kept or any(known.get(path) != self._digests[path] for path in deciding):
                self._say(f"measuring {entry}")
                kept = self._measure(file, marks)
                with self._lock:
                    self._kept[entry] = kept
                    write_whole(self._cache, lambda part: part.write_text(json.dumps(self._kept), encoding="utf-8"))
        tests = [Test(name, seconds, frozenset(functions)) for name, (seconds, functions) in kept["tests"].items()
                 if name not in kept.get("failed", [])]
        return tests, {*kept["imported"], *kept["files"]}

    def _measure(self, file: str, marks: str) -> dict[str, Any]:
        """Run the tests of a file: what is kept of that. Those that fail are left out."""
        sandbox = self._idle.get()
        try:
            result = sandbox.folder / "reach.json"
            result.unlink(missing_ok=True)
            sandbox.forget_results()
            outcome = sandbox.pytest([file, "-m", marks, "--maxfail=0"], _WALL_SECONDS, MUTATION_REACH=str(result))
            kept: dict[str, Any] = json.loads(result.read_text(encoding="utf-8")) if result.exists() else {}
        finally:
            self._idle.put(sandbox)
        if outcome.verdict != "passed" and not kept.get("failed"):
            raise RuntimeError(f"{outcome.by or file}: fails on the tree as it is; mend it first")
        for test in kept.get("failed", []):
            self.leave_out(test)
        return {**kept, "digests": self._digests}

    def close(self) -> None:
        """Begin no further measurement; those that run end with their sandboxes."""
        self._pool.shutdown(cancel_futures=True)

    def _has_slow(self, file: str) -> bool:
        return "mark.slow" in (self._root / file).read_text(encoding="utf-8")

    def leave_out(self, test: str) -> None:
        """Say that a test decides nothing."""
        self._say(f"{test}: fails on the tree as it is, and is not counted")

    def tests(self, mutant: Mutant, files: Iterable[str], marks: str = QUICK) -> list[Test]:
        """The tests of some files that may notice a mutant, nearest first: those that enter its function, then those
        that share a file with one (a fixture, a cache or an import may enter it once for all); outside of functions,
        those that enter any function of its file, then those of every file that loads it. The cheapest come first in
        each class.
        """
        function, prefix = f"{mutant.file}:{mutant.function}", f"{mutant.file}:"

        def near(test: Test) -> bool:
            return (function in test.functions if mutant.function
                    else any(entered.startswith(prefix) for entered in test.functions))

        with self._lock:
            leading = [file for file in files if mutant.file in self._imports(file)
                       and (marks != SLOW or self._has_slow(file))]
        candidates: list[Test] = []
        for tests, loaded in self._pool.map(partial(self._measured, source=mutant.file, marks=marks), leading):
            if any(map(near, tests)) or (function if mutant.function else mutant.file) in loaded:
                candidates += tests
        return sorted(candidates, key=lambda test: (not near(test), seconds(test, mutant), test.name))


def seconds(test: Test, mutant: Mutant) -> float:
    """What a test should take on a mutant: simulators of mutated hardware are built anew."""
    return test.seconds + (BUILD_SECONDS if mutant.file.startswith("hw/") and _BUILDS in test.functions else 0)
