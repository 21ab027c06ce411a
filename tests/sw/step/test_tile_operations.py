"""Where products that go back are cut, and in which order strips go."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.networks import tiled

from plinth.step.build import step_of
from plinth.step.tasks import Members
from plinth.step.tensors import Elements, Part
from plinth.step.tile_operations import Gather, InStrips, Scatter, Tiles
from plinth_hw.isa.parameters import preset


@pytest.mark.parametrize(("words", "groups"), [(511, 1), (512, 2), (1023, 3), (1024, 4)])
def test_products_go_back_some_2048_words_at_a_time(words: int, groups: int) -> None:
    part = Part(0, 1, 0, 1, 1)
    mine, theirs = Elements(3, 8, part), Elements(0, 16, part)
    element_groups = list(Gather._groups(mine, theirs, words))
    assert len(element_groups) == groups
    assert [element for first, count in element_groups for element in range(first, first + count)] == list(range(3, 11))


@pytest.mark.parametrize(("batch", "groups"), [(32, 1), (64, 2), (128, 4), (256, 8)])
def test_what_goes_to_all_goes_some_2048_words_at_a_time(batch: int, groups: int) -> None:
    """Of eight elements, of a fourth of the samples, four tiles of four channels each; strips are of the last group."""
    _, plan = tiled(2, None, batch=batch)
    step = step_of(plan.sharding, preset("ndp-demo-winograd"))
    gather = next(operation for operation in step.operations
                  if isinstance(operation, Gather) and operation.name == "conv2.error_gather")
    assert gather.members(1) is not None and isinstance(gather.source, Tiles)
    mine = gather.source.at(1)
    ((here, _),) = mine.part.meet(gather.targets[0].part(1))
    rows = here.samples * gather.source.positions
    assert groups == max(1, mine.count * rows * here.channels // 2048)
    runs = list(gather.runs(1))
    assert [element for first, count, _ in runs for element in range(first, first + count)] == list(
        range(mine.first, mine.first + mine.count))
    assert len(runs) == groups and {tiles for *_, tiles in runs} == {(0, rows)}
    strips = ((0, rows // 4), (rows // 4, rows - rows // 4))
    for strip, tiles in enumerate(strips):
        cut = list(dataclasses.replace(gather, strips=strips, strip=strip).runs(1))
        # What is not cut goes with the first strip.
        assert cut == [*([] if strip else runs[:-1]), (*runs[-1][:2], tiles)]


@pytest.mark.parametrize(("cut", "order"), [
    (True, "s0 s1 p0 p1 s2 m0 p2 p3 m1 p4 p5 m2"), (False, "s0 s1 s2 p0 p1 p2 p3 p4 p5 m0 m1 m2")])
def test_strips_are_multiplied_between_those_beside_them(cut: bool, order: str) -> None:
    """The next strip's tiles are made, and the maps of the one before, beside a strip's products."""
    def operation(name: str, count: int, strips: Any = None) -> Any:
        return SimpleNamespace(tasks=lambda die, most: [f"{name}{number}" for number in range(count)], strips=strips)

    strips = SimpleNamespace(of=lambda die: cut)
    tasks: Any = InStrips(operation("s", 3), operation("p", 6), operation("m", 3, strips)).tasks(0)
    assert " ".join(tasks) == order


@pytest.mark.parametrize(("counts", "members"), [
    ({3: 2}, None), ({3: 2, 5: 2}, Members(3, 2, 2, 2, 0)), ({3: 3, 5: 2}, Members(3, 2, 2, 2, 1)),
    ({0: 5, 1: 5, 2: 5, 3: 5, 4: 4, 5: 4, 6: 4, 7: 4}, Members(0, 1, 8, 4, 4)),
    ({0: 3, 4: 3, 8: 2}, Members(0, 4, 3, 2, 2)),
    ({0: 2, 4: 3, 8: 3}, None), ({0: 4, 4: 2, 8: 2}, None), ({0: 4, 4: 3, 8: 2}, None), ({0: 2, 4: 2, 9: 2}, None),
    ({5: 2, 3: 2}, None), ({0: 2, 4: 1, 8: 2}, None)])
def test_one_task_reaches_dies_at_equal_distances_of_equal_shares(counts: dict[int, int], members: Members | None
                                                                  ) -> None:
    """Dies in the order of their elements, and how many each has: the first ones may have one more."""
    class Shares(Tiles):
        def __init__(self) -> None: ...

        def at(self, die: int) -> Any:
            place = list(counts).index(die)
            return SimpleNamespace(first=sum(list(counts.values())[:place]), count=counts[die])

    class ToAll(Scatter):
        def __init__(self) -> None:
            vars(self)["targets"] = [Shares()]

        def peers(self, die: int) -> list[int]:
            return sorted(counts)

    assert ToAll().members(0) == members
