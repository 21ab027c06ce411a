"""Which of xdist's workers runs which tests, and in what order."""

from collections.abc import Iterable

import pytest
from xdist.scheduler import LoadGroupScheduling


def group(nodeid: str) -> str:
    """Tests that run together with one of this name, which ends in ``@`` and its ``xdist_group`` if it has one; else
    they are those of its file."""
    at = nodeid.rfind("@")
    return nodeid[at + 1:] if at > nodeid.rfind("]") else nodeid.partition("::")[0]


class FilesTogether(LoadGroupScheduling):
    """As ``--dist loadgroup``, but a test without a group is in that of its file: what they share (fixtures of the
    module, cached functions) is made by one worker. And xdist looks through all groups that a worker has had after
    every test, which are hundreds then, not ten thousand."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)


def longest_first(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Tests in their groups, those groups first that have most slow tests, and then those that have most tests: no
    long one is left to the end, when other workers have nothing more to do."""
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        groups.setdefault(group(item.nodeid), []).append(item)
    return [item for members in sorted(groups.values(), key=_length, reverse=True) for item in members]


def _length(members: list[pytest.Item]) -> tuple[int, int]:
    return sum(item.get_closest_marker("slow") is not None for item in members), len(members)
