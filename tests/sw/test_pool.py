"""Measurements spread over processes."""

import os
import signal

import pytest

from plinth.bench.pool import spread
from plinth.errors import UserError
from plinth_sim.rtl.cosim import default_threads


def threads_of(item: int) -> tuple[int, int]:
    if item < 0:
        raise UserError(f"there is no {item}")
    if item == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return item, default_threads()


def test_every_result_comes_once_and_simulations_have_one_thread() -> None:
    assert sorted(spread(threads_of, [5, 6, 7])) == [(0, (5, 1)), (1, (6, 1)), (2, (7, 1))]
    assert list(spread(threads_of, [])) == []


def test_an_error_is_that_of_the_measurement() -> None:
    with pytest.raises(UserError, match="there is no -1"):
        list(spread(threads_of, [1, -1, 2]))


def test_a_process_that_is_killed_is_said() -> None:
    with pytest.raises(UserError, match="ended from outside"):
        list(spread(threads_of, [1, 0, 2]))
