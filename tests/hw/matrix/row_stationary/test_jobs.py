"""Sizes that follow from a row-stationary die's parameters: each width holds its largest number, and is no wider."""

from typing import Any

import pytest
from tests.support.refusal import refused

from plinth_hw.isa.formats import FP16, Q3_12
from plinth_hw.isa.parameters import preset
from plinth_hw.matrix.row_stationary.jobs import Sizes

#: Changes of hypar-tiny, and of each die: operands of a word, of a beat and of a half of the ifmap buffer; words of a
#: region of a bank; bits of a word of memory's address, of an operand and of a sum.
DIES: list[tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]] = [
    ({}, (1, 4, 512, 64), (32, 32, 32)),
    ({"multiply_format": FP16}, (2, 8, 1024, 64), (32, 16, 32)),
    ({"multiply_format": Q3_12, "address_bits": 20}, (1, 4, 512, 64), (20, 16, 48)),
    ({"rows": 4, "columns": 6, "beat_words": 8, "operand_buffer_words": 768, "output_buffer_words": 6 * 144,
      "flit_words": 2, "memory_words_per_cycle": 8}, (1, 8, 768, 72), (32, 32, 32)),
    ({"beat_words": 16, "feed_words": 8, "operand_buffer_words": 80, "psum_words": 17, "filter_words": 232,
      "flit_words": 4, "memory_words_per_cycle": 16}, (1, 16, 80, 64), (32, 32, 32)),
]


def bits(most: int) -> int:
    """Of numbers from 0 to ``most``."""
    return next(count for count in range(65) if 2**count > most)


@pytest.mark.parametrize(("changes", "counts", "widths"), DIES)
def test_sizes(changes: dict[str, Any], counts: tuple[int, ...], widths: tuple[int, ...]) -> None:
    parameters = preset("hypar-tiny", **changes)
    sizes = Sizes(parameters)
    packing, lanes, half, bank = counts
    assert (2**sizes.element_log2, sizes.lanes, sizes.half_words, sizes.bank_words) == counts
    assert (sizes.address_bits, sizes.operand_bits, sizes.word_bits) == widths
    assert sizes.operand_address_bits == widths[0] + bits(packing - 1)
    feed = parameters.feed_words
    assert (sizes.feed, sizes.beat_words) == (feed, lanes // packing)
    assert (sizes.lane_bits, sizes.feed_bits) == (bits(lanes - 1), bits(feed - 1))
    assert sizes.stream_bits == bits(2 * half), "of the whole buffer, none to all"
    assert sizes.filter_bits == bits(parameters.psum_words)
    assert sizes.tap_bits == bits(parameters.filter_words // feed), "a tap takes a line at least"
    assert sizes.psum_bits == bits(2 * bank - 1), "places in both regions"


@pytest.mark.parametrize(("changes", "message"), [
    ({"filter_words": 8}, None),
    ({"filter_words": 4},
     "filter_words = 4 must have at least half as many lines of 4 words as a beat has operands, 4"),
    ({"operand_buffer_words": 516, "beat_words": 8, "flit_words": 2},
     "operand_buffer_words = 516 must be a multiple of beat_words = 8"),
    ({"output_buffer_words": 4 * 2 * 16}, None),
    ({"output_buffer_words": 4 * 2 * 18}, "half a bank of psums, 18 words, must be a multiple of feed_words = 4")])
def test_whole_lines(changes: dict[str, int], message: str | None) -> None:
    if message is None:
        Sizes(preset("hypar-tiny", **changes))
    else:
        with refused(ValueError, message):
            Sizes(preset("hypar-tiny", **changes))
