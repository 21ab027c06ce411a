"""Cycles of the stages of Winograd tiles by hand, from docs/winograd.md."""

from dataclasses import replace

import pytest

from plinth.machine.transforms import TransformBlocks, blocks_cost, place_cycles, place_flits, word_cycles
from plinth_hw.isa.parameters import preset

#: Beats of 8 words, flits of 2; and one that moves a beat a cycle within.
NARROW = preset("ndp-demo-winograd")
WIDE = replace(NARROW, transfer_words=8)
#: Ten tiles of 12 channels, a full block and a half: 14.5 of 16 places are read, 8 of 9 written.
BLOCKS = TransformBlocks(tiles=10, columns=12, places=16, middle=12, elements=9, read=14.5, written=8)


def test_words_and_places() -> None:
    assert (word_cycles(NARROW), word_cycles(WIDE)) == (1 / 2, 1 / 8)
    assert [place_flits(NARROW, columns) for columns in (1, 2, 8, 9, 12, 16)] == [1, 1, 4, 5, 6, 8]
    assert [place_flits(WIDE.within, columns) for columns in (1, 8, 9, 12, 16)] == [1, 1, 2, 2, 2]
    # 24 words at ten a cycle take longer than two flits of 8, but not than six of 2.
    assert (place_cycles(NARROW, 12), place_cycles(WIDE, 12)) == (6, 2.4)


@pytest.mark.parametrize(("die", "leaves", "begin", "turn", "flits"), [
    # A full block has four flits, a place 4 + 2 of them and two blocks' time; or one, 1 + 1 and two.
    (NARROW, False, 115 + 37 * 4, 8, 6), (NARROW, True, 115 + 37 * 4, 8, 6),
    (WIDE, False, 115 + 37, 2, 2), (WIDE, True, 115 + 37, 2, 6)])
def test_a_task_takes_its_first_blocks_and_its_turns(die, leaves: bool, begin: int, turn: int, flits: int) -> None:
    cost = blocks_cost(die, BLOCKS, leaves)
    # Twelve words lie in two beats, wherever they begin.
    assert cost.begin == begin
    assert cost.latency == begin + 10 * 16 * turn and cost.interval == cost.latency + 32
    assert (cost.reads, cost.writes) == (10 * 14.5 * 16, 10 * 8 * 16)
    assert (cost.flits, cost.packets) == (10 * 8 * flits, 10 * 8 * 2)
    assert (cost.passes, cost.adds) == (1, 0)


def test_places_or_elements_decide_and_what_is_added_to_is_written_twice() -> None:
    few, more = BLOCKS._replace(columns=3), BLOCKS._replace(columns=3, elements=25)
    # Two flits a block of three words.
    assert blocks_cost(NARROW, few, False).latency == 115 + 37 * 2 + 10 * 16 * 2
    assert blocks_cost(NARROW, more, False).latency == 115 + 53 * 2 + 10 * 25 * 2
    added = blocks_cost(NARROW, BLOCKS, False, passes=5, added=True, adds=7.0)
    assert (added.writes, added.passes, added.adds) == (2 * 10 * 8 * 16, 5, 7)
    assert (added.descriptors, added.words) == (5, added.reads + added.writes)
