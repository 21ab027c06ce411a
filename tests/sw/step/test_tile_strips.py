"""Strips of a Winograd layer: they are its tiles, in order, and there are some where products are long."""

import pytest

from plinth.step.tile_strips import TileStrip, tile_strips
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.winograd import TRANSFORMS


@pytest.mark.parametrize(("images", "tiles", "channels", "least"), [
    (1, (14, 14), 128, 2), (4, (4, 4), 256, 2), (4, (2, 2), 512, 0), (64, (7, 5), 96, 2), (1, (3, 3), 16, 0)])
@pytest.mark.parametrize("transfer_words", [0, 16])
def test_strips_are_all_tiles_in_order(images: int, tiles: tuple[int, int], channels: int, least: int,
                                       transfer_words: int) -> None:
    """The 16 tiles of four images with few lines are one row of PEs; products of few channels are short."""
    parameters = preset("ndp-bench", transforms=TRANSFORMS, transfer_words=transfer_words)
    found = tile_strips(parameters, images, tiles, 36, channels, channels)
    assert len(found) >= least
    rows = [strip.rows(tiles) for strip in found]
    assert [first for first, _ in rows] == [sum(count for _, count in rows[:place]) for place in range(len(rows))]
    if found:
        assert sum(count for _, count in rows) == images * tiles[0] * tiles[1]
        assert all(strip.lines == tiles[0] or images == 1 for strip in found)
    if not least:
        assert not found


def test_rows_of_a_strip_are_of_all_images() -> None:
    assert TileStrip(2, 3, 0, 4).rows((4, 5)) == (40, 60)
    assert TileStrip(0, 1, 2, 9).rows((14, 14)) == (28, 126)


def test_row_stationary_dies_have_none() -> None:
    assert not tile_strips(preset("hypar-demo"), 1, (14, 14), 36, 128, 128)
