"""Strips of a Winograd layer: they are its tiles, in order, and there are some where products, or maps, are long."""

from collections.abc import Sequence
from itertools import combinations, pairwise
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


def gathered(die: DieParameters, images: int, map_tiling: Tiling, channels: int, elements: int, dies: int, added: bool,
             sizes: Sequence[int]) -> tuple[float, tuple[int, ...]]:
    """Cycles until the last map of strips of so many lines, or images, is there, and the strips that a die has sent
    before each one's maps: a strip on its way takes a descriptor of 160 cycles, its words to leave the die, its part of
    the links of a ring, and 300 cycles from its last word to its maps."""
    down, across = map_tiling.tiles
    tiles = down * across if images > 1 else across
    words = elements * channels * tiles
    leaves, link = words * dies / 8, words * dies * (dies + 2) / 8 / die.flit_words
    # What waits behind the engine and in the router's buffer, as cycles of links.
    room = (256 * 8 // die.flit_words + die.inject_buffer_flits) / (words * (dies - 1) / die.flit_words) * link
    # A place of a tile's elements, and of what is made of it, a beat of 8 words a cycle.
    maps = tiles * (map_tiling.elements + 2 * 2) * ceil(channels / 8)
    columns = images > 1 and (added or across < images)
    ahead = []
    for number in range(len(sizes)):
        sent = min(number + 2, len(sizes))
        while sent < len(sizes) and sum(sizes[number + 1:sent + 1]) * link <= room + 300:
            sent += 1
        ahead.append(sent)
    engine, links, came = 0.0, 0.0, []
    for number, size in enumerate(sizes):
        while len(came) < ahead[number]:
            engine += 160
            links = max(links, engine) + sizes[len(came)] * link
            engine = max(engine + sizes[len(came)] * leaves, links - room)
            came.append(links + 300)
        count = across if columns else size if images > 1 else 1
        engine = max(engine, came[number]) + count * 160 + size * maps
    return engine, tuple(ahead)


@pytest.mark.parametrize(("images", "side", "channels", "elements", "dies"), [
    (1, 16, 32, 1, 8), (1, 24, 16, 2, 4), (1, 10, 96, 1, 4), (6, 8, 32, 1, 8), (9, 6, 24, 3, 2), (12, 4, 40, 1, 4),
    (1, 4, 8, 1, 8), (3, 12, 12, 2, 16), (1, 16, 128, 4, 2), (1, 40, 4, 1, 8), (20, 4, 4, 1, 8), (1, 30, 2, 1, 4),
    (1, 16, 12, 1, 8), (1, 24, 2, 2, 8), (1, 24, 2, 1, 16)])
@pytest.mark.parametrize("added", [False, True])
def test_the_strips_of_a_gather_are_the_quickest(images: int, side: int, channels: int, elements: int, dies: int,
                                                 added: bool) -> None:
    """Of all ways to put up to 24 pieces together as up to five strips."""
    die = preset("ndp-demo-winograd", transfer_words=8)
    map_tiling = tiling(side)
    count = images if images > 1 else map_tiling.tiles[0]
    assert count <= 24
    ways = {tuple(high - low for low, high in pairwise((0, *some, count))): None
            for strips in range(5) for some in combinations(range(1, count), strips)}
    costs = {way: gathered(die, images, map_tiling, channels, elements, dies, added, way) for way in ways}
    best = min(ways, key=lambda way: costs[way][0])
    cut = gather_strips(die, images, map_tiling, channels, elements, dies, added)
    if cut is None:
        assert len(best) == 1
        return
    sizes = tuple(strip.images if images > 1 else strip.lines for strip in cut.strips)
    assert len(best) > 1 and costs[sizes][0] == pytest.approx(costs[best][0])
    assert cut.ahead == costs[sizes][1]


def test_many_lines_are_put_together_in_pieces() -> None:
    """Of 56 lines each cut lies at a multiple of three, of which there are at most 24; so do images."""
    die = preset("ndp-bench", transforms=TRANSFORMS, transfer_words=16)
    cuts = gather_strips(die, 1, tiling(112), 128, 1, 8, False)
    assert cuts is not None and len(cuts.strips) > 1
    assert all(strip.line % 3 == 0 for strip in cuts.strips)
    strips = tile_strips(die, 50, (2, 2), 36, 256, 256)
    assert len(strips) > 1 and all(strip.image % 3 == 0 for strip in strips)
