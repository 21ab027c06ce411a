"""Cycles of codes and predictions, from the rates of the stages (docs/prediction.md, docs/transfer.md)."""

from fractions import Fraction

import pytest

from plinth.machine.codes import (
    block_word,
    named_word,
    prediction_cycles,
    region_word,
    runs_cycles,
    skipped_word,
)

#: A cycle more for each 32 words, whose mask is sent or read.
MASK = Fraction(1, 32)


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16])
def test_a_word_takes_its_part_of_a_flit_and_of_a_mask(lanes: int) -> None:
    assert skipped_word(lanes) == Fraction(1, lanes) + MASK
    # Codes of regions: flits of at most four words.
    for decodes in (False, True):
        assert region_word(lanes, None, decodes) == Fraction(1, min(lanes, 4)) + MASK
    # Of a next part masks are sent; or they are known, and the words that they name come.
    assert region_word(lanes, 0.25, False) == Fraction(1, lanes) + MASK
    assert region_word(lanes, 0.25, True) == Fraction(1, lanes) + Fraction(1, 4)


@pytest.mark.parametrize(("lanes", "bits", "encoded", "decoded"), [
    # A block of 16 words of so many bits: as many planes, a cycle each, and two cycles more.
    (8, 8, Fraction(10, 16), Fraction(10, 16)), (2, 16, Fraction(18, 16), Fraction(18, 16)),
    # Words that come more slowly than their planes.
    (2, 4, Fraction(1, 2), Fraction(1, 2)), (1, 4, 1, 1),
    # Words that come nearly as fast as their planes.
    (2, 7, Fraction(9, 16), Fraction(9, 16))])
def test_a_block_takes_its_planes_or_its_words(lanes: int, bits: int, encoded: Fraction, decoded: Fraction) -> None:
    assert block_word(lanes, bits / 32, False) == encoded
    assert block_word(lanes, bits / 32, True) == decoded


def test_words_that_masks_name_take_longer_to_a_lower_level() -> None:
    assert named_word(2, 0.5, True) == pytest.approx(0.5 + 1.65 * 0.5)
    assert named_word(4, 0.1, False) == pytest.approx(0.25 + 7.0 * 0.1)


def test_runs_and_predictions() -> None:
    # Encoding 37 cycles a run; decoding 39 and memory's latency of 50 twice.
    assert runs_cycles(3, 200, 0.5, False) == 3 * (100 + 37)
    assert runs_cycles(3, 200, 0.5, True) == 3 * (100 + 39 + 100)
    # Two passes over 36 elements of 5 tiles, three flits each.
    assert prediction_cycles(4, 36, 5, 12) == 36 * 5 * 3 * 2 + 50
