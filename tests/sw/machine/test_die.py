"""Cycles of tasks: formulas."""

from dataclasses import replace
from fractions import Fraction

import pytest
from tests.support.convolutions import square

from plinth.machine.copies import Copy, rows_formula
from plinth.machine.die import DieCycles, machine
from plinth.machine.links import LINK_LATENCY
from plinth.machine.memory import SPAN_CYCLES, row_words
from plinth.machine.products import DIRECTIONS, Product
from plinth.machine.systolic_cycles import matrix_formula, matrix_memory
from plinth.machine.vector import FORWARD, ProgramWork, full_words, vector_formula
from plinth_hw.isa.parameters import PRESETS, SYSTOLIC, preset

TINY = preset("ndp-tiny")


@pytest.mark.parametrize("name", [die.name for die in PRESETS.values() if die.machine == SYSTOLIC])
def test_a_large_product_takes_its_multiplications(name: str) -> None:
    parameters = PRESETS[name]
    pes = parameters.rows * parameters.columns
    size = 32 * parameters.rows
    alone, row = matrix_formula(parameters, size, size, size)
    # With few slots memory cannot keep up.
    most = 1.2 if parameters.interleave >= 8 else 1.4
    assert size ** 3 / pes <= row < alone < most * size ** 3 / pes
    assert matrix_formula(parameters, 1, 1, 1)[1] >= parameters.interleave


def test_room_for_two_tiles_hides_stores_behind_short_sums() -> None:
    """With room for one, the next tile's sums wait until it is stored; behind long sums it has been anyway."""
    two = preset("ndp-demo")
    one = replace(two, output_buffer_words=two.tile_words)
    assert two.output_buffer_words == 2 * two.tile_words
    assert matrix_formula(one, 64, 64, 8)[1] > 1.3 * matrix_formula(two, 64, 64, 8)[1]
    assert matrix_formula(one, 64, 64, 64) == matrix_formula(two, 64, 64, 64)


def test_nothing_takes_nothing() -> None:
    machine = DieCycles(TINY)
    assert not any((*machine.vector(FORWARD, 0, 5), *machine.copy(Copy.part(0, 5)),
                    *machine.product(Product("update", 0, 5, 5)).cycles))


def test_a_further_member_of_a_ring_adds_a_hop_of_sums_and_one_of_results() -> None:
    die = DieCycles(TINY)
    few, more = (die.ring_latency(members, (members - 1) * LINK_LATENCY) for members in (4, 5))
    assert more - few == 2 * die.control["hop"] > 0


@pytest.mark.parametrize(("members", "links", "cycles"), [
    # Two members over one link of 5 cycles: what was counted. Further ones add two hops of 28 each, further cycles of
    # latency come twice.
    (2, 5, 340), (2, 8, 340 + 2 * 3), (3, 10, 340 + 2 * 28), (4, 15, 340 + 4 * 28), (5, 40, 340 + 6 * 28 + 2 * 20)])
def test_rings_take_hops_and_latencies(members: int, links: int, cycles: int) -> None:
    assert DieCycles(TINY).ring_latency(members, links) == cycles


def test_rows_of_embeddings_are_those_of_the_formula() -> None:
    die = DieCycles(TINY)
    assert die.rows(40, 6) == rows_formula(TINY, 40, 6) < die.rows(40, 6, 9.0) == rows_formula(TINY, 40, 6, 9.0)


def test_short_runs_and_words_in_memory_cost() -> None:
    assert matrix_formula(TINY, 64, 4, 64, 1)[1] > 2 * matrix_formula(TINY, 64, 4, 64)[1]
    words, share = matrix_memory(TINY, 64, 4, 64)
    assert words >= 64 * 64 + 64 * 4 and 0 < share <= 1
    assert matrix_memory(TINY, 0, 4, 64) == (0, 0)


@pytest.mark.parametrize(("columns", "beats", "cycles"), [
    # A word a beat of 8: rows of whole beats; rows that begin in either half; rows of 10 words, which begin at even
    # words; and of an odd number of words.
    (32, 2, 4), (16, 1, 2), (8, 1, 1.5), (20, 2, 3.5), (7, 1, 1.5), (6, 10 / 8, 2.0)])
def test_packed_rows_take_two_cycles_a_beat(columns: int, beats: float, cycles: float) -> None:
    die, rows = preset("ndp-demo-mixed"), 48
    load, compute, store = vector_formula(die, ProgramWork(1, 1), rows, columns)
    full = rows * row_words(die, columns)
    slowly, more = (rows * (max(cycles, bound) - max(full / rows / die.beat_words, bound))
                    for bound in (SPAN_CYCLES, 0.0))
    _, one_more, _ = vector_formula(die, ProgramWork(1, 1, wise=1), rows, columns)
    assert one_more > compute
    words = rows * beats * die.beat_words
    loaded, stored = ProgramWork(1, 1).packed(1, 0), ProgramWork(1, 1).packed(0, 1)
    assert vector_formula(die, loaded, rows, columns) == pytest.approx((load + slowly, one_more, store))
    assert vector_formula(die, stored, rows, columns) == pytest.approx((load, one_more, store + more))
    assert full_words(die, loaded, rows, columns) == pytest.approx((words, full))
    assert full_words(die, stored, rows, columns) == pytest.approx((full, words))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_packed_maps_of_an_odd_number_of_channels_have_gaps(direction: str) -> None:
    for channels, packing, run in ((6, 1, 18), (6, 2, 18), (5, 1, 15), (5, 2, 5), (1, 2, 1)):
        assert Product(direction, 4, channels, channels, square(8, 3, 1, 1)).run(packing) == run
    assert Product(direction, 4, 5, 5).run(2) == 0


def test_tiles_over_slow_links_take_what_the_links_take() -> None:
    slow = machine(preset("ndp-demo", link_rate=Fraction(1, 16)))
    copy = Copy(128, 20, 20, 20)
    link = 16 * copy.flits(slow.parameters)
    assert slow.copy(copy, link)[1] == pytest.approx(link)


@pytest.mark.parametrize(("columns", "beats", "cycles"), [
    # Rows of a beat, of less, of whole beats, across beats: 32 rows are under way for 56 cycles.
    (8, 1, 1.75), (2, 1, 1.75), (16, 2, 2), (10, 2, 2), (5, 1.5, 1.75)])
def test_short_rows_wait_for_memory(columns: int, beats: float, cycles: float) -> None:
    die, rows = preset("ndp-demo"), 64
    assert row_words(die, columns) == beats * die.beat_words
    load, _, store = vector_formula(die, ProgramWork(1, 1), rows, columns)
    assert load - vector_formula(die, ProgramWork(0, 1), rows, columns)[0] == pytest.approx(rows * cycles)
    assert store - vector_formula(die, ProgramWork(1, 0), rows, columns)[2] == pytest.approx(rows * beats)
