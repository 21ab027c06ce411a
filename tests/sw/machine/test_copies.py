"""What tiles cost: counted cycles of docs/memory.md and docs/network.md, from the formulas."""

from dataclasses import replace

import pytest

from plinth.machine.copies import BEAT_CYCLES, BEATS, Copy, copy_formula, indexed_cycles, rows_formula, unlike
from plinth.machine.links import LOOKUP_CYCLES, buffered, lookups, waiting
from plinth.machine.memory import MEMORY_LATENCY
from plinth_hw.isa.parameters import LEAVING_FLITS, preset

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


def _lanes(unit: int, columns: int, stride: int, at: int, rows: int) -> float:
    """Units that each of so many rows touches, one by one."""
    return sum(len({word // unit for word in range(at + row * stride, at + row * stride + columns)})
               for row in range(rows)) / rows


@pytest.mark.parametrize(("columns", "source", "target", "source_at", "target_at"), [
    (3, 5, 7, 0, 0), (3, 5, 7, 2, 5), (8, 9, 16, 3, 0), (8, 9, 16, 0, 4), (1, 3, 2, 1, 1), (17, 20, 18, 6, 7),
    (2, 8, 8, 7, 0), (4, 6, 5, 1, 2), (64, 65, 67, 0, 1), (65, 70, 80, 0, 0)])
def test_rows_with_gaps_touch_units_of_their_own(columns: int, source: int, target: int, source_at: int,
                                                 target_at: int) -> None:
    """Beats of 8 words, flits of 2."""
    copy = Copy(40, columns, source, target, source_at, target_at)
    beats_read, beats_written, flits = (40 * _lanes(*lanes, 40) for lanes in (
        (8, columns, source, source_at), (8, columns, target, target_at), (2, columns, target, target_at)))
    assert copy.read(DIE) == pytest.approx(8 * beats_read) and copy.written(DIE) == pytest.approx(8 * beats_written)
    assert copy.flits(DIE) == pytest.approx(flits)
    assert copy.packets(DIE) == 40 * -(-columns // 64)
    # A flit a cycle; a slot more where the words lie over flits and in a higher lane of the source.
    turned = 0
    for row in range(40):
        begin, end = (source_at + row * source) % 2, (target_at + row * target) % 2
        turned += begin == 1 and end == 0 and columns > 1
    assert copy.cycles(DIE) == pytest.approx(max(flits + turned, beats_read * 66 / 61))


def test_joined_rows_are_at_least_a_packet() -> None:
    assert [Copy(rows, 8, 8, 8).packets(DIE) for rows in (1, 7, 8, 9, 16)] == [1, 1, 1, 9 / 8, 2]
    assert Copy.part(3, 5) == Copy(3, 5, 5, 20, 0, 0)


def test_copies_by_hand() -> None:
    # 64 rows of four flits.
    copy, small = Copy(64, 8, 8, 8), Copy(16, 8, 8, 8)
    assert copy_formula(DIE, copy) == (50 + 40 + 256, 50 + 52 + 256)
    # Routers hold 128 of 256 flits, or all of 64; the first flit comes after 61 cycles, the next copy's after 73.
    assert (copy.held(DIE), small.held(DIE)) == (0.5, 1.0)
    assert copy_formula(DIE, copy, 1024.0) == (61 + 512, 1024)
    assert copy_formula(DIE, copy, 300.0) == (61 + 256, 50 + 23 + 256)
    assert copy_formula(DIE, small, 200.0) == (61 + 64, 200)
    # Behind the engine of a die that moves a beat a cycle within, flits of 8 words wait, each of which is four.
    wide = replace(DIE, transfer_words=8)
    behind = 4 * LEAVING_FLITS
    assert (waiting(DIE), waiting(wide), buffered(wide), buffered(wide, 2)) == (0, behind, 128, 128 + 2 * 128)
    assert Copy(1024, 8, 8, 8).held(wide) == (behind + 128) / 4096


def test_routes_are_looked_up_over_more_than_two_links() -> None:
    assert [lookups(DIE, 10, 100, hops) for hops in (1, 2, 3, 4)] == [0, 0, 30, 30]
    assert lookups(DIE, 10, 25, 3) == 25
    assert lookups(preset("ndp-demo-routes"), 10, 100, 3) == 0


def test_indexed_rows_take_four_cycles_at_least() -> None:
    # Rows of one flit, which take a cycle: from 50 + 52 + 64 on a copy's 166 cycles are 64 times 4, and a latency more.
    assert rows_formula(DIE, 64, 2) == (50 + 40 + 64 + 140, 50 + 52 + 64 + 140)
    # Rows of four flits take what a copy does, and a latency more.
    assert rows_formula(DIE, 64, 8) == (50 + 40 + 256 + 50, 50 + 52 + 256 + 50)


@pytest.mark.parametrize(("columns", "unlike"), [(2, 100.0), (2, 3.0), (2, 1.0), (8, 1e6), (64, 1e6), (64, 20.0)])
def test_adds_wait_for_those_under_way_to_the_same_row(columns: int, unlike: float) -> None:
    """``t = p + l**2 / (2 t unlike)``, found by halving; no row waits longer than an add takes."""
    rows = 256
    alone, row = rows_formula(DIE, rows, columns)
    period = (row - MEMORY_LATENCY) / rows
    add = 125 + 2 * -(-columns // 2)
    pairs = max(1.0, min(unlike, 32 * 64 / columns))
    low, high = period, 1e4
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if middle > period + add ** 2 / (2 * middle * pairs) else (middle, high)
    more = MEMORY_LATENCY + rows * max(0.0, min(low, add) - period)
    assert rows_formula(DIE, rows, columns, unlike) == pytest.approx((alone + more, row + more))


def test_equal_rows_are_as_likely_as_the_table_is_small() -> None:
    assert (unlike(100, 25), unlike(100, 1), unlike(100, 0)) == (400, 10_000, 10_000)


@pytest.mark.parametrize(("rows", "columns", "gathered", "added"), [
    (16, 64, 702, 762), (32, 64, 1214, 1274), (128, 64, 4334, 4394), (32, 16, 416, 479), (128, 16, 1232, 1301),
    (128, 32, 2266, 2326)])
def test_copies_with_a_row_index_list_take_what_was_counted(rows: int, columns: int, gathered: int, added: int) -> None:
    """On ``ndp-demo``, alone: gathers, which take what scatters do, and scatters that add, within 9 cycles."""
    copy = Copy(rows, columns, columns + 8, columns)
    alone, _ = copy_formula(DIE, copy)
    for adds, counted in ((False, gathered), (True, added)):
        assert alone + indexed_cycles(DIE, copy, added=adds, remote=False) == pytest.approx(counted, abs=9.5)


def test_numbers_of_rows_by_hand() -> None:
    """64 rows of 8 words, four flits and one beat each: four cycles a row, as many as its flits take."""
    copy = Copy(64, 8, 16, 8)
    assert indexed_cycles(DIE, copy, added=False, remote=False) == 50 + 10 + 5 + 16
    assert indexed_cycles(DIE, copy, added=True, remote=False) == 50 + 10 + 5 + 16 + 60
    assert indexed_cycles(DIE, copy, added=True, remote=True) == 50
    assert indexed_cycles(DIE, Copy(32, 2, 8, 2), added=False, remote=False) == pytest.approx(32 * (4 - BEAT) + 62)
