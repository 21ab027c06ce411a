"""Cycles of the optimiser engine's tasks by hand, from the periods of docs/optimiser.md."""

from dataclasses import replace

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


@pytest.mark.parametrize(("name", "rows", "columns", "kept", "row", "first_and_last"), [
    # Three beats of 8 words: three periods; the first block of 2 + kept vectors, the last one of 1 + kept.
    ("fpga-demo", 3, 20, 2, 24, 7 * 3), ("fpga-demo", 3, 20, 0, 24, 3 * 3), ("fpga-demo", 1, 1, 1, 8, 5),
    # Beats of 4 words take a period of 8 cycles as well; of blocks of 16 beats two, and a third of one.
    ("fpga-tiny", 2, 4 * 33, 1, 8 * 33, 5 * 16), ("fpga-tiny", 2, 4 * 15, 3, 8 * 15, 9 * 15)])
def test_a_task_alone(name: str, rows: int, columns: int, kept: int, row: int, first_and_last: int) -> None:
    die = preset(name)
    cost = optimiser_formula(die, rows, columns, kept)
    # Memory's latency twice, and 51 cycles.
    assert cost.latency == cost.interval == rows * row + first_and_last + 2 * 50 + 51
    beats = -(-columns // die.beat_words)
    assert (cost.reads, cost.writes) == (die.beat_words * beats * rows * (2 + kept),
                                         die.beat_words * beats * rows * (1 + kept))
    # A number for each weight, another one of what is kept.
    assert cost.adds == cost.multiplies == rows * columns * (2 if kept else 1)


def test_long_beats_take_a_cycle_a_word() -> None:
    few, more = (optimiser_formula(replace(DIE, beat_words=32), rows, 64, 0) for rows in (1, 2))
    assert more.latency - few.latency == 64
