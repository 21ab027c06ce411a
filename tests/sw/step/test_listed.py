"""Tasks of steps, and descriptors of what is lowered of them, are those that are listed.

Tests beside this one say that tasks are right: values against float64, words against a plan's definitions, places,
waits, the RTL. What they leave open, such as names, shares of products, or how groups are cut, is as planners, reports
and records have it; here it is kept. A line that changes shows which operation did (:mod:`tests.support.listed`).
"""

import pytest
from tests.support.listed import STEPS, listing, read


@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_as_it_is_listed(name: str) -> None:
    assert listing(name).splitlines() == read()[name].splitlines()


def test_all_steps_are_listed() -> None:
    assert list(read()) == list(STEPS)
