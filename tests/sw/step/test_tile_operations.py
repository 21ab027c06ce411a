"""Where products that go back are cut, and in which order strips go."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.networks import tiled

from plinth.step.build import step_of
from plinth.step.tensors import Elements, Part
from plinth.step.tile_operations import Gather, InStrips, Tiles
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
