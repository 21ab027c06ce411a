"""Tests of :mod:`plinth.step.sums` and :mod:`plinth.step.slots`."""

import pytest

from plinth.array.array import Array
from plinth.network.network import perceptron
from plinth.partition.graph import from_network
from plinth.plan.planners.simple import model
from plinth.predict import schedule
from plinth.predict.time import StepTime
from plinth.sharding import Sharding
from plinth.step.between import Exchange
from plinth.step.build import step_of
from plinth.step.slots import Slots
from plinth.step.step import Step
from plinth.step.sums import FEW, Sum
from plinth.step.tasks import Task
from plinth_hw.isa.parameters import preset

PARAMETERS = preset("ndp-tiny")


def _step(dies: int) -> Step:
    graph = from_network(perceptron("three", (2 * dies, 2 * dies, 2 * dies, 4)))
    return step_of(Sharding(graph=graph, splits=model(graph, dies.bit_length() - 1), batch=4 * dies), PARAMETERS)


@pytest.mark.parametrize("dies", (2, 8))
def test_slots_lie_one_behind_the_other_and_begin_with_a_beat(dies: int) -> None:
    exchange = next(operation for operation in _step(dies).operations if isinstance(operation, Exchange) and isinstance(
        operation.targets, Slots))
    whole, end = exchange.targets.buffer(0), 0
    for slot in exchange.targets:
        buffer = slot.buffer(0)
        assert buffer.place == whole.place and buffer.address % PARAMETERS.beat_words == 0
        assert end <= buffer.address < end + PARAMETERS.beat_words
        end = buffer.address + buffer.words
    assert len(list(exchange.targets)) == dies and end <= whole.words == exchange.targets.place_words()


@pytest.mark.parametrize("most", (1, 2, 3, 5, 40))
def test_groups_of_a_sum_stand_for_its_tasks(most: int) -> None:
    sums = [operation for operation in _step(32).operations if isinstance(operation, Sum)]
    assert sums
    for operation in sums:
        alone, grouped = list(operation.tasks(0)), list(operation.tasks(0, most))
        assert len(grouped) <= FEW * most and all(isinstance(task, Task) for task in grouped)
        assert sum(task.count for task in grouped) == len(alone)
        assert {buffer.place for task in alone for buffer in task.reads} == {
            buffer.place for task in grouped for buffer in task.reads}
        assert {buffer.place for task in alone for buffer in task.writes} == {
            buffer.place for task in grouped for buffer in task.writes}


def test_a_walk_through_groups_of_a_sum_takes_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = from_network(perceptron("one", (256, 256, 4)))
    array = Array(name="torus", topology="torus", dies=128, dimensions=(16, 8), preset="ndp-tiny")
    splits = model(graph, array.levels)
    cycles = []
    for most in (schedule.MOST_TASKS, 1000):
        monkeypatch.setattr(schedule, "MOST_TASKS", most)
        cycles.append(StepTime(graph, 256, array).cycles(splits))
    assert cycles[0] == pytest.approx(cycles[1], rel=0.02)
