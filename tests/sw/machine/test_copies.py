"""What tiles cost: counted cycles of docs/memory.md and docs/network.md, from the formulas."""

import pytest

from plinth.machine.copies import BEAT_CYCLES, BEATS, Copy, copy_formula
from plinth.machine.links import LOOKUP_CYCLES, buffered, lookups
from plinth.machine.memory import MEMORY_LATENCY
from plinth_hw.isa.parameters import preset

DIE = preset("ndp-demo")
ROWS = 4096
#: Cycles of a row whose beat is its own.
BEAT = (MEMORY_LATENCY + BEAT_CYCLES) / BEATS


@pytest.mark.parametrize(("columns", "source", "target", "cycles"), [
    (1, 1, 20, 1.0), (2, 2, 20, 1.0), (3, 3, 20, 2.5), (5, 5, 20, 3.5), (1, 8, 1, BEAT), (2, 8, 2, BEAT),
    (3, 20, 3, 2.0), (5, 20, 5, 3.0), (10, 10, 10, 5.0), (64, 64, 64, 32.0), (64, 256, 64, 32.0)])
def test_rows_take_what_was_counted(columns: int, source: int, target: int, cycles: float) -> None:
    """Rows that all dies send to themselves, 4,096 at once."""
    assert Copy(ROWS, columns, source, target).cycles(DIE) == pytest.approx(ROWS * cycles)


def test_rows_that_follow_each_other_share_flits_beats_and_packets() -> None:
    joined, apart = Copy(ROWS, 1, 8, 1), Copy(ROWS, 1, 1, 8)
    assert (joined.flits(DIE), joined.packets(DIE)) == (ROWS / 2, ROWS / 64)
    assert (joined.read(DIE), joined.written(DIE)) == (8 * ROWS, ROWS)
    assert (apart.flits(DIE), apart.packets(DIE)) == (ROWS, ROWS)
    assert (apart.read(DIE), apart.written(DIE)) == (ROWS, 8 * ROWS)


def test_where_rows_begin_counts() -> None:
    """Two words that begin in an odd one lie in two flits, and turning them takes a cycle more."""
    even, odd = (Copy(ROWS, 2, 8, 8, source_at=at) for at in (0, 1))
    assert odd.cycles(DIE) == 2 * ROWS > even.cycles(DIE)
    assert Copy(ROWS, 4, 16, 16, target_at=6).written(DIE) == 2 * Copy(ROWS, 4, 16, 16).written(DIE)


@pytest.mark.parametrize(("columns", "hops", "counted"), [
    (1, 2, 2.13), (1, 3, 5.76), (1, 4, 8.83), (3, 3, 10.84), (3, 4, 17.06), (5, 3, 13.72), (5, 4, 19.89),
    (64, 2, 68.27), (64, 3, 111.4), (64, 4, 148.3)])
def test_routes_are_looked_up_behind_links(columns: int, hops: int, counted: float) -> None:
    """Cycles a row that were counted while all eight dies of a ring sent so far."""
    copy = Copy(ROWS, columns, columns, 20 if columns < 20 else columns)
    link = hops * copy.flits(DIE) / float(DIE.link_rate)
    cycles = max(link, hops * copy.flits(DIE) + (hops - 1) * lookups(DIE, copy.packets(DIE), copy.flits(DIE), hops))
    assert cycles / ROWS == pytest.approx(counted, rel=0.25 if columns == 1 else 0.2 if columns == 3 else 0.1)
    assert lookups(DIE, copy.packets(DIE), copy.flits(DIE), hops) <= LOOKUP_CYCLES * copy.packets(DIE)


def test_a_copy_ends_while_routers_hold_its_last_flits() -> None:
    copy = Copy(ROWS, 64, 64, 64)
    within, (free, _), (slow, row) = (copy_formula(DIE, copy, link)
                                      for link in (None, 0.0, 2 * copy.flits(DIE)))
    assert within[0] > free > copy.cycles(DIE)
    assert row == 2 * copy.flits(DIE) and row - slow == pytest.approx(2 * buffered(DIE, 0), abs=100)
    assert buffered(DIE, 2) == 128 + 2 * 128
