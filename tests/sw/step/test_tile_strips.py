"""Strips of a Winograd layer: they are its tiles, in order, and there are some where products, or maps, are long."""

from collections.abc import Sequence
from math import ceil

import pytest

from plinth.machine.tiles import TASK_PERIOD, interleave_m_log2
from plinth.network.layers import Convolution, MeanSquaredError, Shape
from plinth.network.network import Network
from plinth.partition.graph import Tiling, from_network
from plinth.step.tile_strips import TileStrip, gather_strips, tile_strips
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.isa.winograd import TRANSFORMS


@pytest.mark.parametrize(("images", "tiles", "channels", "least"), [
    (1, (14, 14), 128, 2), (4, (4, 4), 256, 2), (4, (2, 2), 512, 0), (64, (7, 5), 96, 2), (1, (3, 3), 16, 0)])
@pytest.mark.parametrize("transfer_words", [0, 16])
def test_strips_are_all_tiles_in_order(images: int, tiles: tuple[int, int], channels: int, least: int,
                                       transfer_words: int) -> None:
    """The 16 tiles of four images with few lines are one row of PEs; products of few channels are short."""
    parameters = preset("ndp-bench", transforms=TRANSFORMS, transfer_words=transfer_words)
    strips = tile_strips(parameters, images, tiles, 36, channels, channels)
    assert len(strips) >= least
    rows = [strip.rows(tiles) for strip in strips]
    assert [first for first, _ in rows] == [sum(count for _, count in rows[:place]) for place in range(len(rows))]
    if strips:
        assert sum(count for _, count in rows) == images * tiles[0] * tiles[1]
        assert all(strip.lines == tiles[0] or images == 1 for strip in strips)
    if not least:
        assert not strips


def ended(parameters: DieParameters, lines: Sequence[int], inputs: int, outputs: int) -> float:
    """Cycles of the tiles of F(4x4,3x3) of a map of 14 lines of 14, cut into strips of so many lines: one engine makes
    tiles and maps, the other multiplies."""
    def place(channels: int) -> float:
        return max(ceil(channels / parameters.flit_words), 2 * channels / float(parameters.memory_words_per_cycle))

    def product(rows: int) -> float:
        # A tile of C has the interleave's places a PE, along the side that the engine chooses.
        log2, depth = interleave_m_log2(parameters, rows, outputs), parameters.interleave
        m, n = parameters.rows << log2, (parameters.columns * depth) >> log2
        return ceil(rows / m) * ceil(outputs / n) * inputs * max(depth, (m + n) / parameters.beat_words)

    transfers, products, ready = 0.0, 0.0, []
    for count in lines:
        transfers += 36 * 14 * count * place(inputs)
        products = max(products, transfers) + 36 * (product(14 * count) + TASK_PERIOD)
        ready.append(products)
    for count, begin in zip(lines, ready, strict=True):
        transfers = max(transfers, begin) + 36 * 14 * count * place(outputs)
    return transfers


@pytest.mark.parametrize(("inputs", "outputs"), [(32, 512), (512, 32), (128, 256), (64, 160), (160, 64), (48, 700)])
def test_the_strips_are_the_quickest(inputs: int, outputs: int) -> None:
    """Of all ways to cut the lines of a map in up to three."""
    parameters = preset("ndp-bench", transforms=TRANSFORMS)
    lines = [strip.lines for strip in tile_strips(parameters, 1, (14, 14), 36, inputs, outputs)] or [14]
    ways = [[14], *([first, 14 - first] for first in range(1, 14)),
            *([first, second - first, 14 - second] for second in range(2, 14) for first in range(1, second))]
    assert ended(parameters, lines, inputs, outputs) == min(ended(parameters, way, inputs, outputs) for way in ways)


def test_rows_of_a_strip_are_of_all_images() -> None:
    assert TileStrip(2, 3, 0, 4).rows((4, 5)) == (40, 60)
    assert TileStrip(0, 1, 2, 9).rows((14, 14)) == (28, 126)


def test_row_stationary_dies_have_none() -> None:
    assert not tile_strips(preset("hypar-demo"), 1, (14, 14), 36, 128, 128)


def tiling(side: int) -> Tiling:
    """F(2x2,3x3) of a map of so many rows."""
    graph = from_network(Network(name="one", input=Shape((8, side, side)), layers=(
        Convolution(name="conv", channels=8, kernel=(3, 3), padding=(1, 1), winograd=2, weights="winograd"),
        MeanSquaredError(name="loss"))))
    map_tiling = graph.nodes[0].tiling
    assert map_tiling is not None
    return map_tiling


@pytest.mark.parametrize(("images", "side", "channels", "cut"), [
    (1, 16, 32, True), (1, 56, 128, True), (6, 16, 32, True), (1, 4, 8, False), (2, 2, 16, False)])
@pytest.mark.parametrize("added", [False, True])
def test_a_gather_goes_in_strips_where_maps_are_longer_than_tasks(images: int, side: int, channels: int, cut: bool,
                                                                  added: bool) -> None:
    """The shortest strip is the last one, whose maps nothing hides, where links hide all others."""
    map_tiling = tiling(side)
    gather = gather_strips(preset("ndp-bench", transforms=TRANSFORMS, transfer_words=16), images, map_tiling, channels,
                           1, 8, added)
    assert (gather is not None) == cut
    if gather is None:
        return
    rows = [strip.rows(map_tiling.tiles) for strip in gather.strips]
    assert [first for first, _ in rows] == [sum(count for _, count in rows[:place]) for place in range(len(rows))]
    assert sum(count for _, count in rows) == images * map_tiling.positions
    assert gather.ahead == tuple(sorted(gather.ahead)) and gather.ahead[-1] == len(rows)
    assert all(sent > number + (number + 1 < len(rows)) for number, sent in enumerate(gather.ahead))
    if (images, side) == (1, 16):
        assert rows[-1][1] == min(count for _, count in rows)


@pytest.mark.parametrize("transfer_words", [0, 4])
def test_no_gather_goes_in_strips_where_nothing_waits_for_links(transfer_words: int) -> None:
    die = preset("ndp-bench", transforms=TRANSFORMS, transfer_words=transfer_words)
    assert gather_strips(die, 1, tiling(56), 128, 1, 8, False) is None
