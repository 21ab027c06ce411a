"""Commands that `make bench` times."""

import pytest

from plinth.bench.commands import EMPTY, branches, timed
from plinth.errors import UserError
from plinth.partition.graph import from_network
from plinth.plan.planners.hypar import hypar
from plinth.plan.planners.simple import data, model
from plinth.predict.exact import ExactWords


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
