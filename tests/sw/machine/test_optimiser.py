"""Cycles of the optimiser engine's tasks by hand, from the periods of docs/optimiser.md."""

import pytest

from plinth.machine.optimiser import optimiser_formula
from plinth_hw.isa.parameters import preset

#: Beats of 8 words.
DIE = preset("fpga-demo")


@pytest.mark.parametrize(("columns", "kept", "row"), [
    (8, 0, 8),  # a period, which the three cycles of its write fit in
    (8, 3, 12),  # four writes of a beat, each with two cycles beside it
    (16, 3, 16), (24, 3, 24),  # periods of two beats and of three
    (8 * 32, 3, 8 * 32), (8 * 32 + 1, 3, 8 * 33)])
def test_a_further_row_takes_its_periods_or_its_writes(columns: int, kept: int, row: int) -> None:
    few, more = (optimiser_formula(DIE, rows, columns, kept) for rows in (5, 6))
    assert DIE.beat_words == 8
    assert more.latency - few.latency == more.interval - few.interval == row


def test_random_bits_take_a_read_and_a_write_of_their_state() -> None:
    exact, stochastic = (optimiser_formula(DIE, 5, 16, 1, stochastic=random) for random in (False, True))
    assert stochastic.latency - exact.latency == stochastic.interval - exact.interval == 2
    assert stochastic.reads - exact.reads == stochastic.writes - exact.writes == DIE.beat_words
