"""Commands that `make bench` times, and how rows are run."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from plinth.bench import run
from plinth.bench.commands import EMPTY, branches, timed
from plinth.bench.row import BenchRow, kept_rows
from plinth.errors import UserError
from plinth.partition.graph import from_network
from plinth.plan.planners.hypar import hypar
from plinth.plan.planners.simple import data, model
from plinth.predict.exact import ExactWords
from plinth_hw.terminal.activity import Activity


def test_commands_run_in_an_interpreter_of_their_own() -> None:
    ours, empty = timed("--help"), timed("--help", program=EMPTY)
    assert "Commands:" in ours.output and "Commands:" not in empty.output and "--help" in empty.output
    assert min(ours[:3]) > 0 and min(empty[:3]) > 0


def test_a_command_that_fails_says_why() -> None:
    with pytest.raises(UserError, match="no-such-network"):
        timed("plan", "no-such-network")


@pytest.mark.parametrize("count", [1, 16, 17, 200])
def test_branches_lie_side_by_side(count: int) -> None:
    graph = from_network(branches(count))
    assert len(graph.outputs[0]) == count
    assert sum(node.kind == "add" for node in graph.nodes) == (0, 1, 2, 14)[(1, 16, 17, 200).index(count)]
    words = ExactWords(graph, 64)
    assert words.total_bytes(hypar(words, 1)) <= min(words.total_bytes(planner(graph, 1)) for planner in (data, model))


@pytest.mark.parametrize(("only", "shown"), [(None, ["one", "two", "three"]), ("two", ["two"]),
                                             ("together", ["one", "two"]), ("three", ["three"])])
def test_rows_that_are_asked_for_are_shown(only: str | None, shown: list[str], tmp_path: Path,
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name of a row, or of what measures several; all that was measured is kept."""
    def row(name: str) -> BenchRow:
        return BenchRow(name, 1.0, "ratio", "nothing", {}, None)

    def both() -> list[BenchRow]:
        return [row("one"), row("two")]

    monkeypatch.setattr(run, "BENCHES", {"together": both, "two": both, "three": lambda: [row("three")]})
    path = tmp_path / "bench.json"
    with Activity(Console(file=io.StringIO())) as activity:
        rows = run.run_benches(path, only, activity)
    assert [found["name"] for found in rows] == shown
    assert list(kept_rows(path)) == (["three"] if only == "three" else ["one", "two"] + (
        ["three"] if only is None else []))
