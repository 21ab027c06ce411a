"""A campaign: mutants drawn from rooms, each against the tests that may notice it."""

import difflib
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import yaml
from tests.mutation.mutants import Mutant, draw, mutants
from tests.mutation.reach import QUICK, SLOW, Reach, Test, seconds
from tests.mutation.rooms import REGRESSION, Room, test_files
from tests.mutation.sandbox import Sandbox

from plinth.errors import UserError
from plinth_hw.cache import digest

#: The nearest tests run first, as many as take so long together.
FIRST_SECONDS = 12.0
#: Processor time for a run: so many times what it should take, and as much for the start of pytest and a build.
CPU_FACTOR, CPU_START_SECONDS = 5.0, 90.0
#: Time on the wall: a busy machine gives a process a small share of it.
WALL_FACTOR = 12.0
#: Of the rest of the regression as many tests run on a mutant as should take so long, nearest and cheapest first.
REST_SECONDS = 900.0
#: Mutants that no test can kill, by their keys, and why.
Equivalents = dict[tuple[str, str, str, str], str]
EQUIVALENTS = Path(__file__).with_name("equivalent.yaml")
#: What a stage of judging gives.
Outcome = TypeVar("Outcome")


@dataclass(frozen=True)
class Judged:
    """A mutant and what became of it."""

    room: str
    mutant: Mutant
    #: "killed", "survived" or "equivalent"
    verdict: str
    #: The test that killed it, or the reason why none can.
    by: str
    seconds: float = 0.0
    #: Whether the quick tests of its room had passed, so that the rest of the regression decided.
    late: bool = False

    def diff(self) -> str:
        """The change, as lines of a unified diff without a header."""
        lines = difflib.ndiff(self.mutant.before.split("\n"), self.mutant.after.split("\n"))
        return "\n".join(line for line in lines if line[0] in "+-")

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The mutant's."""
        return self.mutant.key

    @classmethod
    def again(cls, mutant: Mutant, data: dict[str, Any]) -> "Judged":
        """What :meth:`to_data` says of a mutant."""
        return cls(data["room"], mutant, data["verdict"], data["by"], data["seconds"], data["late"])

    def to_data(self) -> dict[str, Any]:
        """As JSON has it."""
        mutant = {name: value for name, value in asdict(self.mutant).items() if name not in ("start", "stop", "new")}
        return {"room": self.room, **mutant, "verdict": self.verdict, "by": self.by, "late": self.late,
                "seconds": round(self.seconds, 1)}


def read_equivalents(path: Path = EQUIVALENTS) -> Equivalents:
    """The mutants that are known to be equivalent.

    Raises
    ------
    UserError
        If an entry is not complete.
    """
    result: Equivalents = {}
    for number, entry in enumerate(yaml.safe_load(path.read_text(encoding="utf-8")) or [], 1):
        missing = {"file", "before", "after", "reason"} - entry.keys()
        if missing:
            raise UserError(f"{path}: entry {number} has no {', '.join(sorted(missing))}; add it")
        texts = (entry["file"], entry.get("function", ""), entry["before"].strip("\n"), entry["after"].strip("\n"))
        result[texts] = entry["reason"]
    return result


def tree_digest(root: Path) -> str:
    """Of code and tests, but for what judges them: while it is the same, so are verdicts."""
    paths = sorted(path for folder in ("hw", "sim", "sw", "tests") for path in (root / folder).rglob("*.py")
                   if not path.is_relative_to(root / "tests" / "mutation"))
    return digest(*(part for path in paths for part in (str(path.relative_to(root)), path.read_bytes())))


def data_key(data: dict[str, Any]) -> tuple[str, ...]:
    """The key of a mutant that :meth:`Judged.to_data` has written."""
    return tuple(data[part] for part in ("file", "function", "before", "after"))


def _batches(tests: Sequence[Test], mutant: Mutant) -> Iterator[Sequence[Test]]:
    """Tests of each run: the first few, then all others."""
    first, total = 0, 0.0
    for test in tests:
        if first and total + seconds(test, mutant) > FIRST_SECONDS:
            break
        first, total = first + 1, total + seconds(test, mutant)
    for batch in (tests[:first], tests[first:]):
        if batch:
            yield batch


def _affordable(tests: Sequence[Test], mutant: Mutant, budget: float) -> Sequence[Test]:
    """The first tests, as many as should take no longer than the budget."""
    return tests[:sum(total <= budget for total in accumulate(seconds(test, mutant) for test in tests))]


@dataclass
class Judging:
    """A mutant that no test has killed yet.

    Attributes
    ----------
    budget : float
        Seconds of a processor that are left for tests of the rest.
    entered : bool
        Whether a test enters it.
    left_out : int
        Tests that were not affordable.
    seconds : float
        That judging has taken.
    """

    room: str
    mutant: Mutant
    budget: float
    entered: bool = False
    left_out: int = 0
    seconds: float = 0.0


class Judge:
    """Judges mutants, one at a time.

    Parameters
    ----------
    sandbox : Sandbox
    reach : Reach
    """

    def __init__(self, sandbox: Sandbox, reach: Reach):
        self._sandbox, self._reach = sandbox, reach
        #: Tests that were run without a mutant, and whether they passed.
        self._sound: dict[str, bool] = {}

    def judge(self, name: str, room: Room, mutant: Mutant) -> Judged:
        """Run tests of a mutant until one fails; one that does not end counts as failed.

        The quick tests of its room run first, those of the nearest folder before the others; then the quick tests of
        the rest of the regression, and then all of its slow ones, as far as they are affordable.
        """
        outcome = self.quick(name, room, mutant)
        return outcome if isinstance(outcome, Judged) else self.slow(outcome)

    def quick(self, name: str, room: Room, mutant: Mutant) -> "Judged | Judging":
        """Run the quick tests of a mutant; if none fails, what its slow ones go on with."""
        root, judging = self._sandbox.root, Judging(name, mutant, REST_SECONDS)
        near = room.near(root, mutant.file)
        far = [file for file in room.test_files(root) if file not in near]
        rest = [file for file in test_files(root, REGRESSION) if file not in near and file not in far]
        for files, late in ((near, False), (far, False), (rest, True)):
            if killed := self._killed(judging, files, QUICK, late):
                return killed
        return judging

    def slow(self, judging: "Judging") -> Judged:
        """Run the slow tests of a mutant."""
        if killed := self._killed(judging, test_files(self._sandbox.root, REGRESSION), SLOW, True):
            return killed
        left_out = judging.left_out
        reason = ("no test enters it" if not judging.entered
                  else f"{left_out} tests of the rest did not run" if left_out else "")
        return Judged(judging.room, judging.mutant, "survived", reason, judging.seconds, True)

    def _killed(self, judging: "Judging", files: Sequence[str], marks: str, late: bool) -> Judged | None:
        """The verdict, if a test of some files kills a mutant; ``late``: as far as they are affordable."""
        start, mutant = time.monotonic(), judging.mutant
        noticing = self._reach.tests(mutant, files, marks)
        tests = _affordable(noticing, mutant, judging.budget) if late else noticing
        judging.budget -= late * sum(seconds(test, mutant) for test in tests)
        judging.left_out += len(noticing) - len(tests)
        judging.entered |= bool(noticing)
        by = next(filter(None, (self._killer(mutant, batch) for batch in _batches(tests, mutant))), "")
        judging.seconds += time.monotonic() - start
        return Judged(judging.room, mutant, "killed", by, judging.seconds, late) if by else None

    def _killer(self, mutant: Mutant, tests: Sequence[Test]) -> str:
        """The first of some tests, in their order, that fails on a mutant alone, or what else kills it, or ""."""
        while tests:
            limit = CPU_FACTOR * sum(seconds(test, mutant) for test in tests) + CPU_START_SECONDS
            outcome = self._sandbox.judge(mutant, [test.name for test in tests], limit, WALL_FACTOR * limit)
            if outcome.verdict == "passed":
                break
            if outcome.verdict == "timeout" or self._is_sound(outcome.by):
                return outcome.by
            self._reach.leave_out(outcome.by)
            tests, judged = [test for test in tests if test.name != outcome.by], tests
            if len(tests) == len(judged):
                break
        return ""

    def _is_sound(self, test: str) -> bool:
        """Whether a test passes on the tree as it is."""
        if not test.startswith("tests/"):
            return True
        if test not in self._sound:
            limit = WALL_FACTOR * CPU_START_SECONDS
            outcome = (self._sandbox.run([test], limit) if "::" in test
                       else self._sandbox.pytest([test, "--collect-only"], limit))
            self._sound[test] = outcome.verdict == "passed"
        return self._sound[test]


def run(root: Path, rooms: dict[str, Room], drawn: Sequence[tuple[str, Mutant]], jobs: int, cache: Path,
        say: Callable[[str], None]) -> Iterator[Judged]:
    """Judge mutants, ``jobs`` of them at once, and give each as it is done: all of them by quick tests, then those that
    survive these by slow ones.

    Raises
    ------
    RuntimeError
        If a test file does not load on the tree as it is.
    """
    with ExitStack() as stack:
        sandboxes = [stack.enter_context(Sandbox(root)) for _ in range(2 * jobs)]
        reach = Reach(sandboxes[:jobs], cache, say)
        idle: SimpleQueue[Judge] = SimpleQueue()
        for sandbox in sandboxes[jobs:]:
            idle.put(Judge(sandbox, reach))

        def asked(ask: Callable[[Judge], Outcome]) -> Outcome:
            worker = idle.get()
            try:
                return ask(worker)
            finally:
                idle.put(worker)

        pool = ThreadPoolExecutor(jobs)
        try:
            alive: list[Judging] = []
            for future in as_completed([pool.submit(asked, partial(Judge.quick, name=name, room=rooms[name],
                                                                   mutant=mutant)) for name, mutant in drawn]):
                outcome = future.result()
                if isinstance(outcome, Judged):
                    yield outcome
                else:
                    alive.append(outcome)
                    mutant = outcome.mutant
                    say(f"survives quick tests: {mutant.file} {mutant.function}: {mutant.before!r} -> {mutant.after!r}")
            slow = [pool.submit(asked, partial(Judge.slow, judging=judging)) for judging in alive]
            for judged in as_completed(slow):
                yield judged.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for sandbox in sandboxes:
                sandbox.stop()
            reach.close()
            pool.shutdown()


def chosen(root: Path, rooms: dict[str, Room], seed: int, count: int, equivalents: Equivalents,
           ) -> list[tuple[str, Mutant]]:
    """``count`` mutants, spread evenly over the rooms, and those equivalent ones that were drawn before the last."""
    result: list[tuple[str, Mutant]] = []
    for number, (name, room) in enumerate(rooms.items()):
        left = (count + number) // len(rooms)
        for mutant in draw(root, room.files(root), seed):
            if not left:
                break
            left -= mutant.key not in equivalents
            result.append((name, mutant))
    return result


def named(root: Path, rooms: dict[str, Room], keys: Collection[tuple[str, str, str, str]]) -> list[tuple[str, Mutant]]:
    """Mutants by their keys, as far as the tree still has them."""
    return [(name, mutant) for name, room in rooms.items() for file in room.files(root)
            for mutant in mutants(file, (root / file).read_bytes()) if mutant.key in keys]


def unmatched(root: Path, rooms: dict[str, Room], equivalents: Equivalents) -> list[str]:
    """Entries of the file of equivalents that are a mutant of these rooms no more."""
    files = [file for room in rooms.values() for file in room.files(root)]
    known = {mutant.key for file in files for mutant in mutants(file, (root / file).read_bytes())}
    folders = tuple(folder + "/" for room in rooms.values() for folder in room.sources)
    return [f"{file}: {before}" for file, function, before, after in equivalents
            if file.startswith(folders) and (file, function, before, after) not in known]
