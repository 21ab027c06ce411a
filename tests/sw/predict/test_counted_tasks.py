"""Formulas of tasks against tasks counted on co-simulated dies, alone and in a row."""

from statistics import mean

import pytest
from tests.support import counted
from tests.support.counted import COPIES, PROGRAMS, Counted

from plinth.machine.control import CONTROL
from plinth_hw.isa.parameters import preset

#: Before a test puts fewer in their place.
convolutions = counted.convolution_shapes


def check(tasks: list[Counted], least: float, most: float, average: float) -> None:
    """Whether ratios of counted to formula cycles are within bounds, and on the average how far from 1."""
    for task in tasks:
        assert all(least <= ratio <= most for ratio in task.ratios), task
    assert mean(ratio for task in tasks for ratio in task.ratios) == pytest.approx(1, abs=average)


@pytest.mark.slow
@pytest.mark.xdist_group("tiny-dies")
@pytest.mark.parametrize("name", ["ndp-tiny", "hypar-tiny"])
def test_few_tasks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counted, "matrix_shapes", lambda parameters: [(4, 4, 16), (32, 32, 64)])
    monkeypatch.setattr(counted, "convolution_shapes", lambda parameters: convolutions(parameters)[:1])
    monkeypatch.setattr(counted, "vector_shapes", lambda parameters: [(2, 10), (64, 4), (8, 10_000)])
    monkeypatch.setattr(counted, "copy_shapes", lambda parameters: [(4, 8), (64, 16)])
    tasks, control = counted.on_one_die(preset(name))
    copies, others = counted.on_a_ring(preset(name))
    # The large program does not fit the scratchpad.
    assert len(tasks) == 9 + 2 * len(PROGRAMS) + 2 and len(copies) == 4
    vector = [task for task in tasks if task.name in PROGRAMS]
    check([task for task in tasks if task not in vector and task.name != COPIES[0]], 0.5, 1.7, 0.15)
    for task in vector:
        assert task.ratios[0] == pytest.approx(1, abs=0.12), task
    check([*copies, *(task for task in tasks if task.name == COPIES[0])], 0.8, 1.15, 0.05)
    for key, cycles in (control | others).items():
        assert abs(cycles - CONTROL[key]) < 200, (key, cycles)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", ["ndp-demo", "hypar-demo"])
def test_many_tasks(name: str) -> None:
    tasks, control = counted.on_one_die(preset(name))
    copies, others = counted.on_a_ring(preset(name))
    check([task for task in tasks if task.name not in (*PROGRAMS, COPIES[0])], 0.7, 1.8, 0.03)
    for task in tasks:
        if task.name in PROGRAMS:
            assert task.ratios[0] == pytest.approx(1, abs=0.1 if task.shape[0] > 2 else 0.15), task
    check([*copies, *(task for task in tasks if task.name == COPIES[0])], 0.75, 1.15, 0.02)
    assert control["issue"] == CONTROL["issue"] and abs(others["arrival"] - CONTROL["arrival"]) < 20
