"""Cycles of the stages of Winograd tiles by hand, from docs/winograd.md."""

from dataclasses import replace

import pytest

from plinth.machine.transforms import TransformBlocks, blocks_cost, place_cycles, place_flits, word_cycles
from plinth_hw.isa.parameters import preset

#: Beats of 8 words, flits of 2; and one that moves a beat a cycle within.
NARROW = preset("ndp-demo-winograd")
WIDE = replace(NARROW, transfer_words=8)
#: Ten tiles of 12 channels, a full block and a half: 14.5 of 16 places are read, 8 of 9 written.
BLOCKS = TransformBlocks(tiles=10, columns=12, taken=16, middle=12, made=9, read=14.5, written=8)


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
    # Twelve words lie in two beats, wherever they begin; every other place begins within a flit of 8.
    assert cost.begin == begin
    assert cost.latency == begin + 10 * (16 * turn + 14.5 / 2 * (die is WIDE)) and cost.interval == cost.latency + 32
    assert (cost.reads, cost.writes) == (10 * 14.5 * 16, 10 * 8 * 16)
    assert (cost.flits, cost.packets) == (10 * 8 * flits, 10 * 8 * 2)
    assert (cost.passes, cost.adds) == (1, 0)


def test_places_or_elements_decide_and_what_is_added_to_is_read() -> None:
    few, more = BLOCKS._replace(columns=4), BLOCKS._replace(columns=4, made=25)
    # Two flits a block of four words.
    assert blocks_cost(NARROW, few, False).latency == 115 + 37 * 2 + 10 * 16 * 2
    assert blocks_cost(NARROW, more, False).latency == 115 + 53 * 2 + 10 * 25 * 2
    added = blocks_cost(NARROW, BLOCKS, False, passes=5, added=True, adds=7.0)
    assert (added.writes, added.added, added.passes, added.adds) == (10 * 8 * 16, 10 * 8 * 16, 5, 7)
    assert (added.descriptors, added.words) == (5, added.reads + added.added + added.writes)
    # In their turn the tiles have a beat, and what they are added to another.
    assert (added.turn, blocks_cost(NARROW, BLOCKS, False).turn) == (16, 8)


@pytest.mark.parametrize(("columns", "read", "written"), [
    (4, 0, 0), (5, 0.5, 0), (7, 0.5, 0), (8, 0, 0), (11, 0.5, 0.5), (12, 0, 0), (13, 0.5, 0.5), (16, 0, 0)])
def test_every_other_place_of_an_odd_number_of_words_takes_a_flit_more(columns: int, read: float, written: float
                                                                        ) -> None:
    """As it is read; as it is written where a block is of a whole beat, whose words then lie in five flits."""
    taken, made = (BLOCKS._replace(columns=columns, taken=one, made=other, read=one, written=other)
                   for one, other in ((16, 4), (4, 16)))
    even = 4 * -(-columns // 8) if columns > 8 else -(-columns // 2)
    for blocks, more in ((taken, read), (made, written)):
        cost = blocks_cost(NARROW, blocks, False)
        assert cost.latency - cost.begin == 10 * 16 * (even + more)


@pytest.mark.parametrize(("columns", "scattered", "gathered", "errors_scattered"), [
    (4, 14244, 13965, 13965), (5, 23263, 23578, 20654), (6, 20833, 20443, 20444), (7, 29855, 30057, 27228),
    (8, 27416, 26915, 26915), (11, 55577, 54576, 55035), (12, 52280, 51611, 51779), (16, 52504, 52003, 52003)])
def test_what_was_counted_of_a_layer(columns: int, scattered: int, gathered: int, errors_scattered: int) -> None:
    """Seven columns of 7 x 8 tiles F(2x2,3x3) of 14 x 14 maps on the RTL, with nothing beside it: the input's windows
    made tiles, tiles of the output made maps, its errors made tiles."""
    inside = (4 * 7 - 2) ** 2 / 7 ** 2
    for counted, (taken, made, read, written) in ((scattered, (16, 16, inside, 16)), (gathered, (16, 4, 16, 4)),
                                                  (errors_scattered, (4, 16, 4, 16))):
        cost = blocks_cost(NARROW, TransformBlocks(56, columns, taken, 8, made, read, written), False)
        assert 7 * cost.interval == pytest.approx(counted, rel=0.016)
