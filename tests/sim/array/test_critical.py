"""The critical path of a simulated step: who let whom start, and how long the step waits for each alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from plinth_sim.array.machine import EngineTask, Flow, SimulatedArray, SimulatedDie, SimulatedLink, Wait
from plinth_sim.array.simulate import SimulatedRun, simulate

MACHINE = SimulatedArray(dies=(SimulatedDie(words_per_second=10.0), SimulatedDie(words_per_second=10.0)),
                         links=(SimulatedLink(name="link", words_per_second=2.0),))


def task(name: str, seconds: float, *after: str, engine: str = "matrix", latency: float = 0.0, delay: float = 0.0,
         words: float = 0.0, die: int = 0) -> EngineTask:
    return EngineTask(name=name, die=die, engine=engine, seconds=seconds, latency=latency, words=words,
                      waits=[Wait(counter, 1, delay) for counter in after])


def path(*tasks: EngineTask | Flow) -> dict[str, float]:
    """Seconds of each task on the critical path, by name."""
    result = simulate(MACHINE, tasks)
    seconds = result.critical_seconds
    assert seconds.sum() == pytest.approx(result.seconds)
    return {task.name: float(value) for task, value in zip(tasks, seconds, strict=True) if value}


def test_a_chain_is_its_own_path() -> None:
    assert path(task("a", 1.0), task("b", 2.0, "a", engine="vector"), task("c", 4.0, "b")) == {
        "a": 1.0, "b": 2.0, "c": 4.0}


def test_what_others_hide_is_on_no_path() -> None:
    assert path(task("long", 5.0), task("short", 1.0, engine="vector"), task("last", 1.0, "long", "short", engine="x")
                ) == {"long": 5.0, "last": 1.0}


def test_an_engines_order_is_a_reason_to_wait() -> None:
    """The second task's wait is met long before its engine is free."""
    assert path(task("first", 3.0), task("other", 1.0, engine="vector"), task("second", 2.0, "other")) == {
        "first": 3.0, "second": 2.0}


def test_latencies_and_delays_count_for_what_they_stand_behind() -> None:
    assert path(task("a", 1.0, latency=0.5), task("b", 2.0, "a", engine="vector", delay=0.25)) == {"a": 1.75, "b": 2.0}
    # An engine goes on during the latency of its task, which the end of the step waits for if nothing else does.
    assert path(task("a", 1.0, latency=9.0), task("b", 2.0)) == {"a": 10.0}
    assert path(task("a", 1.0, latency=0.5), task("b", 2.0)) == {"a": 1.0, "b": 2.0}


def test_what_waits_for_a_counter_waits_for_who_raises_it_last() -> None:
    raised = [EngineTask(name=name, die=0, engine=name, seconds=seconds, signals=["n"])
              for name, seconds in (("one", 1.0), ("two", 2.0), ("three", 3.0))]
    for count, name in enumerate(("one", "two", "three"), 1):
        last = EngineTask(name="last", die=1, engine="matrix", seconds=9.0, waits=[Wait("n", count)])
        assert path(*raised, last) == {name: float(count), "last": 9.0}


def test_a_flow_without_an_engine_has_its_time() -> None:
    flow = Flow(name="flow", links=np.array([0]), words=np.array([8.0]), latency=0.5, waits=[Wait("a")])
    assert path(task("a", 1.0), flow, task("b", 1.0, "flow")) == {"a": 1.0, "flow": 4.5, "b": 1.0}


def test_what_sharing_makes_longer_counts_for_who_is_slowed_down() -> None:
    """Two tasks share a memory; busy is what each takes alone."""
    tasks = [task("a", 1.0, words=10.0), task("b", 1.0, words=20.0, engine="vector")]
    result = simulate(MACHINE, tasks)
    assert result.alone.tolist() == [1.0, 2.0] and result.seconds == pytest.approx(3.0)
    assert result.critical_seconds.tolist() == pytest.approx([0.0, 3.0])


def test_nothing_has_no_path() -> None:
    assert simulate(MACHINE, []).critical_seconds.tolist() == []
    assert path(task("a", 0.0)) == {}
    delayed = EngineTask(name="late", die=0, engine="matrix", seconds=1.0, waits=[Wait("late", 0, 2.0)])
    assert path(delayed) == {"late": 3.0}


def _checked(result: SimulatedRun) -> None:
    for number, cause in enumerate(result.causes.tolist()):
        if cause >= 0:
            assert result.starts[cause] <= result.starts[number] + 1e-9
            assert min(result.ends[cause], result.dones[cause]) <= result.starts[number] + 1e-9
    assert result.critical_seconds.sum() == pytest.approx(result.seconds)
    assert (result.critical_seconds >= -1e-9).all()


@given(some.data())
def test_paths_of_random_steps_add_up(data: some.DataObject) -> None:
    """Ties, zero times, shared memories: a cause never starts behind what it lets start."""
    tasks: list[EngineTask] = []
    for number in range(data.draw(some.integers(1, 14))):
        before = data.draw(some.lists(some.integers(0, max(0, number - 1)), max_size=3, unique=True)) if number else []
        tasks.append(task(f"{number}", data.draw(some.sampled_from((0.0, 0.5, 1.0))),
                          *(f"{earlier}" for earlier in before), engine=data.draw(some.sampled_from("xy")),
                          die=data.draw(some.integers(0, 1)), latency=data.draw(some.sampled_from((0.0, 0.5))),
                          delay=data.draw(some.sampled_from((0.0, 0.25))),
                          words=data.draw(some.sampled_from((0.0, 5.0, 20.0)))))
    _checked(simulate(MACHINE, tasks))


def test_progress_counts_as_it_is_told_to() -> None:
    told: list[tuple[int, int]] = []
    tasks = [task(f"{number}", 1.0) for number in range(10_000)]
    simulate(MACHINE, tasks, lambda *now: told.append(now), [3 * (number % 2) for number in range(10_000)])
    assert told and told == sorted(told) and told[-1][0] < told[-1][1] == 15_000
    assert all(done % 3 == 0 for done, _ in told)
