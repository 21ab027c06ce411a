"""What the mutation tool changes, what it leaves alone, and that it draws, runs and counts as it says."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.mutation import __main__ as main_module
from tests.mutation import campaign, mutants, reach
from tests.mutation.rooms import ROOMS, Room
from tests.mutation.sandbox import Outcome

from plinth.errors import UserError

ROOT = Path(__file__).resolve().parents[2]


def lines(source: str) -> set[tuple[str, str]]:
    """(kind, changed line) of every mutant of a text."""
    return {(mutant.kind, mutant.after) for mutant in mutants.mutants("a.py", source.encode())}


@pytest.mark.parametrize("source, kind, wanted", [
    ("a < b", "comparison", "a <= b"),
    ("a not in b", "comparison", "a in b"),
    ("x = a * (b + 1)  # b + 2", "arithmetic", "x = a * (b - 1)  # b + 2"),
    ("x = 7", "constant", "x = 8"),
    ("x = 0x10", "constant", "x = 0xf"),
    ("x = True", "truth", "x = False"),
    ("if ready:\n    pass", "condition", "if not (ready):"),
    ("x = a and b", "condition", "x = a or b"),
    ("x = ~a", "condition", "x = a"),
    ("x = f(a, b + c)", "arguments", "x = f(b + c, a)"),
    ("x = a.any()", "call", "x = a.all()"),
    ("f(a)", "statement", "pass"),
    ("x.y = 1", "statement", "pass"),
    ("x += y", "arithmetic", "x -= y"),
    ("with m.If(a):\n    pass", "condition", "with m.If(~(a)):"),
    ("m.d.comb += [a.eq(b), c.eq(d)]", "statement", "m.d.comb += [c.eq(d)]"),
    ("m.d.sync += a.eq(b)", "statement", "pass"),
    ("class A(B):\n    x: In(8)", "constant", "x: In(9)"),
    ("x = 'µ', a + b", "arithmetic", "x = 'µ', a - b"),
    ("if a:\n    raise ValueError(b + c)", "statement", "pass"),
])
def test_small_changes(source: str, kind: str, wanted: str) -> None:
    assert (kind, wanted) in lines(source)


@pytest.mark.parametrize("source", [
    '"""A docstring, 1 + 2."""', "x: dict[int, 3]", "def f(x: A | B) -> C | D:\n    pass", "assert a < b, c + d",
    "print(a, b + 1)", "x = f'{a + 1}'", "x = 'a' + b", "@f(1)\ndef g():\n    pass", "x = f(name=a + b, strict=True)",
    "raise_ = A", "x = einsum('ij->i', a, optimize=True)", "x = Signal(reset_less=True)",
    "def __repr__(self):\n    return 1 + 2", "if __name__ == '__main__':\n    x = 1"])
def test_what_no_test_should_care_for_is_left_alone(source: str) -> None:
    assert lines(source) == set()


def test_a_negative_size_is_made_no_lower() -> None:
    assert {after for _, after in lines("y = x.reshape(n, -1)")} == {
        "y = x.reshape(n, 1)", "y = x.reshape(n, -0)", "y = x.reshape(-1, n)"}


def test_arguments_that_commute_are_not_swapped() -> None:
    assert ("arguments", "x = np.clip(a, c, b)") in lines("x = np.clip(a, b, c)")
    assert not lines("x = np.clip(a, b)") and not lines("x = gcd(a, b)") and not lines("x = y.swapaxes(a, b)")
    assert lines("x = a.clip(b, c)") == {("arguments", "x = a.clip(c, b)")}


def test_messages_of_errors_are_left_alone() -> None:
    assert lines("raise ValueError(a + b)") == {("statement", "pass")}


def test_a_mutant_is_known_by_its_text_and_place() -> None:
    source = "class A:\n    def f(self):\n        def g():\n            return a < b\n"
    moved = "\n\nx = y\n" + source
    first, = mutants.mutants("a.py", source.encode())
    second, = mutants.mutants("a.py", moved.encode())
    assert first.function == "A.f.<locals>.g" and first.line == 4
    assert first.key == second.key and second.line == 7
    assert second.applied(moved.encode()) == moved.replace("<", "<=").encode()


def test_the_draw_depends_on_seed_and_text_alone(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = a + b\ny = 1 if a else 2\nz = min(a, b)\n")
    (tmp_path / "b.py").write_text("u = f(a, b)\nv = a < b\n")
    files = ["a.py", "b.py"]
    first = [mutant.key for mutant in mutants.draw(tmp_path, files, 1)]
    assert first == [mutant.key for mutant in mutants.draw(tmp_path, files, 1)]
    assert first != [mutant.key for mutant in mutants.draw(tmp_path, files, 2)]
    (tmp_path / "a.py").write_text("x = a + b\n")
    later = [mutant.key for mutant in mutants.draw(tmp_path, files, 1)]
    assert later == [key for key in first if key in later] and len(later) < len(first)


def test_what_does_not_compile_or_changes_nothing_is_not_drawn(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("for x in y:\n    continue\n")
    assert [mutant.after for mutant in mutants.draw(tmp_path, ["a.py"], 1)] == ["pass"]
    (tmp_path / "a.py").write_text("def f():\n    f(*a, 1 .real, -1)\n")
    assert all("pass" in mutant.after or compile(mutant.applied((tmp_path / "a.py").read_bytes()), "a", "exec")
               for mutant in mutants.draw(tmp_path, ["a.py"], 1))


def test_every_room_has_sources_and_tests_that_mirror_them() -> None:
    for room in ROOMS.values():
        files = room.files(ROOT)
        assert files and all((ROOT / file).is_file() for file in files)
        tests = room.test_files(ROOT)
        assert tests and all((ROOT / test).is_file() for test in tests)
        assert any(room.near(ROOT, file) for file in files)
    assert ROOMS["hardware"].near(ROOT, "hw/plinth_hw/comm/router.py") == sorted(
        f"tests/hw/comm/{file.name}" for file in (ROOT / "tests/hw/comm").glob("test_*.py"))
    assert "tests/sw/step/layers/test_pool_programs.py" in ROOMS["lower"].near(
        ROOT, "sw/plinth/step/layers/pool_programs.py")


class _Sandbox:
    """Stands in for a copy of the tree: which of its tests fail on a mutant, and which fail anyway."""

    def __init__(self, root: Path, kill: str = "", broken: bool = False):
        self.root, self.kill, self.broken = root, kill, broken
        self.ran: list[list[str]] = []

    def judge(self, mutant: mutants.Mutant, tests: list[str], cpu: float, wall: float) -> Outcome:
        self.ran.append(tests)
        return Outcome("failed", self.kill) if self.kill in tests else Outcome("passed", "")

    def run(self, tests: list[str], wall: float) -> Outcome:
        return Outcome("failed" if self.broken else "passed", tests[0])


class _Reach:
    def __init__(self) -> None:
        self.left_out: list[str] = []

    def tests(self, mutant: mutants.Mutant, files: list[str], marks: str) -> list[campaign.Test]:
        kind, costs = ("slow", (200,)) if marks == reach.SLOW else ("test", (1, 10, 100))
        return [campaign.Test(f"{file}::{kind}_{cost}", cost, frozenset()) for file in files for cost in costs]

    def leave_out(self, test: str) -> None:
        self.left_out.append(test)


@pytest.fixture
def tree(tmp_path: Path) -> tuple[Path, Room, mutants.Mutant]:
    for file in ("src/sub/a.py", "tests/sw/src/sub/test_a.py", "tests/sw/src/test_b.py", "tests/hw/test_c.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("x = 1\n")
    room = Room(("src",), ("tests/sw/src",))
    return tmp_path, room, mutants.mutants("src/sub/a.py", b"x = 1\n")[0]


NEAR, FAR, REST = (f"tests/{file}::" for file in ("sw/src/sub/test_a.py", "sw/src/test_b.py", "hw/test_c.py"))


def judge(sandbox: _Sandbox, room: Room, mutant: mutants.Mutant, reach: _Reach | None = None) -> campaign.Judged:
    return campaign.Judge(sandbox, reach or _Reach()).judge("room", room, mutant)  # type: ignore[arg-type]


def test_nearest_tests_run_first_and_all_before_a_mutant_survives(tree) -> None:
    root, room, mutant = tree
    sandbox = _Sandbox(root)
    judgement = judge(sandbox, room, mutant)
    assert (judgement.verdict, judgement.by, judgement.late) == ("survived", "", True)
    assert sandbox.ran == [*([place + name for name in names] for place in (NEAR, FAR, REST)
                             for names in (("test_1", "test_10"), ("test_100",))),
                           [REST + "slow_200"], [NEAR + "slow_200", FAR + "slow_200"]]


@pytest.mark.parametrize("test, late, runs", [
    (NEAR + "test_100", False, 2), (FAR + "test_100", False, 4), (REST + "test_1", True, 5),
    (NEAR + "slow_200", True, 8)])
def test_the_first_test_that_fails_ends_it(tree, test: str, late: bool, runs: int) -> None:
    root, room, mutant = tree
    sandbox = _Sandbox(root, kill=test)
    judgement = judge(sandbox, room, mutant)
    assert (judgement.verdict, judgement.by, judgement.late, len(sandbox.ran)) == ("killed", test, late, runs)


def test_a_test_that_fails_anyway_kills_nothing(tree) -> None:
    root, room, mutant = tree
    sandbox, reach = _Sandbox(root, kill=FAR + "test_1", broken=True), _Reach()
    assert judge(sandbox, room, mutant, reach).verdict == "survived"
    assert reach.left_out == [FAR + "test_1"]
    assert [FAR + "test_10"] in sandbox.ran  # the others run all the same


def test_the_rest_of_the_regression_is_cut_where_it_takes_long(tree, monkeypatch: pytest.MonkeyPatch) -> None:
    root, room, mutant = tree
    monkeypatch.setattr(campaign, "REST_SECONDS", 111 + 200)
    sandbox = _Sandbox(root)
    assert judge(sandbox, room, mutant).by == "2 tests of the rest did not run"
    assert sandbox.ran[4:] == [[REST + "test_1", REST + "test_10"], [REST + "test_100"], [REST + "slow_200"]]


def test_equivalents_are_extra(tree) -> None:
    root, room, _ = tree
    (root / "src/sub/a.py").write_text("x = 1\ny = 2\n")
    rooms = {"room": room}
    drawn = [mutant.key for _, mutant in campaign.chosen(root, rooms, 1, 2, {})]
    known = {drawn[0]: "reason"}
    again = [mutant.key for _, mutant in campaign.chosen(root, rooms, 1, 2, known)]
    assert again[:2] == drawn and len(again) == 3
    assert campaign.unmatched(root, rooms, known) == []
    gone = {("src/sub/a.py", "", "z = 1", "z = 2"): "reason"}
    assert campaign.unmatched(root, rooms, gone) == ["src/sub/a.py: z = 1"]


def test_an_equivalent_without_a_reason_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "equivalent.yaml"
    path.write_text("- {file: a.py, before: x, after: y}\n")
    with pytest.raises(UserError, match="entry 1 has no reason"):
        campaign.read_equivalents(path)
    assert all(campaign.read_equivalents().values())


def test_what_was_judged_on_the_same_tree_is_not_judged_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One campaign of two rooms in parts, whose first part is interrupted."""
    for file, text in (("hw/a.py", "def f(x):\n    return x + 1\n"), ("sw/b.py", "def g(x):\n    return x - 2\n")):
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).write_text(text)
    monkeypatch.setattr(main_module, "_ROOT", tmp_path)
    rooms = {"one": Room(("hw",), ()), "two": Room(("sw",), ())}
    monkeypatch.setattr(campaign, "read_equivalents", dict)
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path / "build"))
    asked: list[str] = []

    def run(root: Path, rooms: Any, drawn: Any, *_: Any) -> Iterator[campaign.Judged]:
        for name, mutant in drawn:
            if len(asked) == 1:
                asked.append("interrupted")
                raise KeyboardInterrupt
            asked.append(mutant.file)
            yield campaign.Judged(name, mutant, "killed", "a test", 1.0)

    monkeypatch.setattr(campaign, "run", run)

    def judged(count: int = 4, *arguments: str) -> dict[str, Any]:
        CliRunner().invoke(main_module.main, ["--count", str(count), *arguments])
        data: dict[str, Any] = json.loads((tmp_path / "build" / "mutate.json").read_text())
        return data

    monkeypatch.setattr(main_module, "ROOMS", {"one": rooms["one"]})
    assert len(judged(2)["mutants"]) == 1 and asked == ["hw/a.py", "interrupted"]
    monkeypatch.setattr(main_module, "ROOMS", rooms)
    whole = judged()
    assert whole["whole"] and len(whole["mutants"]) == 4 and whole["share"] == 1
    assert asked[2:] == ["hw/a.py", "sw/b.py", "sw/b.py"]
    judged()
    assert len(asked) == 5
    (tmp_path / "hw/a.py").write_text("def f(x):\n    return x + 2\n")
    judged()
    assert len(asked) == 9
    judged(4, "--fresh")
    assert len(asked) == 13
