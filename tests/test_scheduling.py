"""How tests are spread over xdist's workers."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.scheduling import group, longest_first


@pytest.mark.parametrize(("nodeid", "name"), [
    ("tests/a.py::test", "tests/a.py"), ("tests/a.py::test[1]", "tests/a.py"), ("tests/a.py::test[b@c]", "tests/a.py"),
    ("tests/a.py::test@dies", "dies"), ("tests/a.py::test[b@c]@dies", "dies")])
def test_a_test_is_in_its_group_or_that_of_its_file(nodeid: str, name: str) -> None:
    assert group(nodeid) == name


def test_slow_groups_come_first_and_then_large_ones() -> None:
    def item(nodeid: str, slow: bool = False) -> Any:
        return SimpleNamespace(nodeid=nodeid, get_closest_marker=lambda name: object() if slow else None)

    items = [item("a::1"), item("b::1"), item("b::2"), item("a::2@c"), item("d::1", True), item("b::3@c", True),
             item("b::4@c", True)]
    assert [each.nodeid for each in longest_first(items)] == ["a::2@c", "b::3@c", "b::4@c", "d::1", "b::1", "b::2",
                                                              "a::1"]
