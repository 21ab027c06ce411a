"""How far workers may be ahead of each other, and training by it in virtual time."""

from collections.abc import Callable

import pytest

from plinth.workers.clocks import Clocks, VirtualRun, virtual_run


def test_who_is_too_far_ahead_may_not_begin() -> None:
    clocks = Clocks(3, 2)
    for _ in range(3):
        assert clocks.may_begin(0)
        clocks.end(0)
    assert not clocks.may_begin(0) and clocks.may_begin(1)
    assert clocks.awaited(0) == [1, 2] and clocks.awaited(1) == []
    clocks.end(1)
    assert not clocks.may_begin(0)
    clocks.end(2)
    assert clocks.may_begin(0)
    clocks.end(0)
    assert not clocks.may_begin(0)
    # Nobody waits for who has left.
    clocks.leave(1)
    assert not clocks.may_begin(0)
    clocks.leave(2)
    assert clocks.may_begin(0)


def test_without_a_bound_everybody_may() -> None:
    clocks = Clocks(2, None)
    for _ in range(50):
        clocks.end(0)
    assert clocks.may_begin(0)


def run(bound: int | None, duration: Callable[[int, int], float], workers: int = 3, steps: int = 6
        ) -> tuple[VirtualRun, list[tuple[float, int, int, tuple[int, ...]]]]:
    """A run whose loss is the worker, and what each pulled: when, who, of which step, and the steps of all so far."""
    done, pulls, now = [0] * workers, [], [0.0]

    def pull(worker: int, step: int) -> int:
        pulls.append((now[0], worker, step, tuple(done)))
        return worker

    def compute(worker: int, step: int, pulled: int) -> tuple[float, Callable[[], object]]:
        assert pulled == worker and done[worker] == step

        def update() -> None:
            done[worker] += 1

        return float(worker), update

    found = virtual_run(workers, steps, bound, duration, pull, compute)
    assert done == [steps] * workers and len(found.seconds) == workers * steps
    assert found.seconds == sorted(found.seconds)
    return found, pulls


def test_steps_together_are_of_the_same_values() -> None:
    found, pulls = run(0, lambda worker, step: 5.0 if worker == step % 3 else 1.0)
    for _, _, step, done in pulls:
        assert done == (step,) * 3
    # Each step takes what its slowest worker does, whose update is the last one of three.
    assert found.seconds[2::3] == [5.0 * (step + 1) for step in range(6)]
    assert found.staleness == [0, 1, 2] * 6


@pytest.mark.parametrize("bound", [1, 2, 4])
def test_the_bound_is_kept_and_used(bound: int) -> None:
    found, pulls = run(bound, lambda worker, step: 10.0 if worker == 0 else 1.0)
    leads = [step - min(done) for _, _, step, done in pulls]
    assert max(leads) == bound
    assert found.seconds[-1] == 60.0
    # An update is behind at most those of the others in its step, and in all that either may be ahead.
    assert 2 < max(found.staleness) <= 2 * (2 * bound + 1)


def test_a_slow_worker_holds_up_nobody_without_a_bound() -> None:
    found, _ = run(None, lambda worker, step: 100.0 if worker == 0 else 1.0)
    ends = {worker: max(time for time, loss in zip(found.seconds, found.losses, strict=True) if loss == worker)
            for worker in range(3)}
    assert ends == {0: 600.0, 1: 6.0, 2: 6.0}
