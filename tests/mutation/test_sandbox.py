"""Mutants of a small tree, judged by real runs of pytest in a copy of it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.mutation import mutants, plugin
from tests.mutation.campaign import Judge, run
from tests.mutation.reach import Reach
from tests.mutation.rooms import Room
from tests.mutation.sandbox import Sandbox

pytestmark = pytest.mark.slow

_CODE = """
LIMIT = 3

def count():
    number = START
    while number < LIMIT:
        number += 1
    return number - START

def idle():
    return 5

def begin():
    return 0

START = begin()
"""
_TESTS = """
import counting

def test_count():
    assert counting.count() == 3

def test_nothing():
    counting.idle()
"""
#: Of the regression, but of no room.
_FAR_TESTS = """
import counting, pytest
from pathlib import Path

@pytest.mark.slow
@pytest.mark.parametrize("name", Path("tests/sw/names").read_text().split())
def test_idle(name):
    assert counting.idle() < 6

def test_broken():
    assert counting.idle() == 6
"""
ROOM = Room(("hw/counting",), ("tests/hw",))


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path / "build"))
    root = tmp_path / "tree"
    shutil.copytree(Path(plugin.__file__).parent, root / "tests/mutation",
                    ignore=shutil.ignore_patterns("test_*", "__pycache__"))
    for file, text in (("hw/counting/__init__.py", _CODE), ("tests/hw/test_counting.py", _TESTS),
                       ("tests/sw/test_far.py", _FAR_TESTS), ("tests/sw/names", "first second"),
                       ("pytest.ini", "[pytest]\nmarkers = slow\n    long\n")):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text)
    yield root
    assert (root / "hw/counting/__init__.py").read_text() == _CODE
    assert not any((tmp_path / "build/mutate").glob("tree-*"))


@pytest.fixture
def sandbox(tree: Path) -> Iterator[Sandbox]:
    with Sandbox(tree) as sandbox:
        yield sandbox


def mutant_of(root: Path, kind: str, after: str) -> mutants.Mutant:
    file = "hw/counting/__init__.py"
    mutant, = (candidate for candidate in mutants.mutants(file, (root / file).read_bytes())
               if (candidate.kind, candidate.after) == (kind, after))
    return mutant


def judged(sandbox: Sandbox, kind: str, after: str) -> tuple[str, str]:
    mutant = mutant_of(sandbox.root, kind, after)
    reach = Reach([sandbox], sandbox.folder / "kept.json", lambda text: None)
    judgement = Judge(sandbox, reach).judge("room", ROOM, mutant)
    assert (sandbox.root / mutant.file).read_text() == _CODE
    return judgement.verdict, judgement.by


def test_mutants_are_killed_and_survive_by_what_their_tests_see(sandbox: Sandbox) -> None:
    build = sandbox.folder / "build"
    kept = [build / "verilator/key", build / "verilog/modules/key"]
    results = [build / "verilog/die-key", build / "agreement", build / "report.json"]
    for path in kept + results:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    assert judged(sandbox, "comparison", "while number <= LIMIT:") == (
        "killed", "tests/hw/test_counting.py::test_count")
    assert all(path.exists() for path in kept) and not any(path.exists() for path in results)
    # Outside of functions, and of the same length within a second.
    assert judged(sandbox, "constant", "LIMIT = 4") == ("killed", "tests/hw/test_counting.py::test_count")
    # By a slow test of another room; the quick one beside it fails anyway.
    # Of two that take nothing, either may have been measured as the cheaper one.
    assert judged(sandbox, "constant", "return 6") in {
        ("killed", f"tests/sw/test_far.py::test_idle[{name}]") for name in ("first", "second")}
    # A test that is not there any more kills nothing.
    (sandbox.root / "tests/sw/names").write_text("second")
    assert judged(sandbox, "constant", "return 6") == ("killed", "tests/sw/test_far.py::test_idle[second]")
    # No test enters what runs when the module is imported.
    assert judged(sandbox, "constant", "return 1") == ("killed", "tests/hw/test_counting.py::test_count")


def test_a_mutant_without_end_is_killed(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.mutation.campaign.CPU_START_SECONDS", 3)
    assert judged(sandbox, "statement", "pass") == ("killed", "no end")


def test_a_test_file_that_does_not_load_is_refused(sandbox: Sandbox) -> None:
    (sandbox.root / "tests/hw/test_counting.py").write_text("import nowhere\n" + _TESTS)
    with pytest.raises(RuntimeError, match=r"tests/hw/test_counting\.py: fails on the tree as it is"):
        judged(sandbox, "constant", "return 6")


def test_several_at_once_and_an_early_end(tree: Path, tmp_path: Path) -> None:
    drawn = [("room", mutant_of(tree, *change)) for change in (
        ("constant", "LIMIT = 4"), ("constant", "return 4"), ("comparison", "while number <= LIMIT:"))]
    verdicts = {judgement.mutant.after: judgement.verdict for judgement in run(
        tree, {"room": ROOM}, drawn, 2, tmp_path / "kept.json", lambda text: None)}
    assert verdicts == {"LIMIT = 4": "killed", "return 4": "survived", "while number <= LIMIT:": "killed"}
    several = run(tree, {"room": ROOM}, drawn, 1, tmp_path / "kept.json", lambda text: None)
    next(several)
    several.close()  # type: ignore[attr-defined]
