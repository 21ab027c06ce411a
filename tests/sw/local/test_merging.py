"""How differences of kernels come into the global weights."""

import numpy as np
import pytest

from plinth.local.merging import ADD, AUTO, DIVIDE, GlobalModel, divided_variables, expected_holders
from plinth.network.local import LocalPart

VALUES = np.arange(12, dtype=np.float32).reshape(3, 4)


def part(rows: list[int], columns: list[int], factor: float = 1.0) -> dict[str, LocalPart]:
    return {"w": LocalPart((np.array(rows), np.array(columns)), factor)}


def test_differences_are_added_where_the_part_lies() -> None:
    model, own = GlobalModel({"w": VALUES}), part([0, 2], [1, 3], 2.0)
    assert model.held(own)["w"].tolist() == [[2, 6], [18, 22]]
    model.merge(own, {"w": np.array([[2, 4], [6, 8]], np.float32)})
    wanted = VALUES.copy()
    wanted[[[0], [2]], [1, 3]] += [[1, 2], [3, 4]]
    assert np.array_equal(model.values()["w"], wanted)


def test_differences_are_divided_by_those_who_hold_a_weight_now() -> None:
    model = GlobalModel({"w": np.zeros((3, 4), np.float32)}, frozenset({"w"}))
    first, second, third = part([0, 1], [0, 1]), part([1, 2], [1, 2]), part([1], [1])
    for own in (first, second, third):
        model.held(own)
    model.merge(first, {"w": np.full((2, 2), 6, np.float32)})
    assert model.values()["w"].tolist() == [[6, 6, 0, 0], [6, 2, 0, 0], [0, 0, 0, 0]]
    model.release(third)
    model.merge(second, {"w": np.full((2, 2), 6, np.float32)})
    assert model.values()["w"].tolist() == [[6, 6, 0, 0], [6, 8, 6, 0], [0, 6, 6, 0]]


def test_what_was_read_is_a_copy() -> None:
    model, own = GlobalModel({"w": VALUES}), part([0, 1, 2], [0, 1, 2, 3])
    model.held(own)["w"][...] = 99
    model.values()["w"][...] = 99
    assert np.array_equal(model.values()["w"], VALUES)


def test_variables_that_many_are_expected_to_hold_are_divided() -> None:
    shares = [{"hidden": 0.25, "out": 0.5, "bias": 1.0}] * 4
    holders = expected_holders(shares)
    assert holders == pytest.approx({"hidden": 1, "out": 2, "bias": 4})
    assert divided_variables(AUTO, holders) == {"bias"}
    assert divided_variables(ADD, holders) == frozenset() and divided_variables(DIVIDE, holders) == {*holders}
    assert divided_variables(AUTO, expected_holders(shares * 4)) == {*holders}
