"""What of Winograd tiles goes by lines, and what it costs links."""

import pytest

from plinth.array.array import Array, ring
from plinth.bench.workers import workers
from plinth.network.winograd import with_tiles
from plinth.network.zoo import NETWORKS
from plinth.partition import lines
from plinth.partition.graph import from_network
from plinth.partition.groups import TILES
from plinth.partition.regions import layouts
from plinth.plan.planners.mpt import grouped

RING, WORKERS = ring(4, preset="ndp-demo-winograd"), workers(4, 2, "ndp-demo-winograd")


def words(array: Array | None, levels: int, phase: str, kind: str, outputs: int = 2, *, coded: bool = False
          ) -> tuple[int, int]:
    """Of conv2 of the digits' network: maps of 4 x 4."""
    graph = from_network(with_tiles(NETWORKS["digits-cnn"], outputs, "winograd"))
    cut_array = array or RING
    here = layouts(graph, grouped(graph, cut_array, levels), (), cut_array.factors)[1]
    assert graph.nodes[1].name == "conv2" and graph.nodes[1].window.size == (4, 4)
    return lines.tile_words(graph.nodes[1], here, phase, kind, cut_array.factors, coded, array)


@pytest.mark.parametrize(("levels", "outputs", "lines_", "whole"), [
    (1, 2, (4, 8), (4, 16)), (2, 2, (4, 8), (4, 16)), (1, 4, (1, 24), (1, 36)), (2, 4, (1, 36), (1, 36))])
def test_outputs_are_gathered_by_lines_of_dies_that_have_columns(levels, outputs, lines_, whole) -> None:
    assert words(RING, levels, "fprop", "gather", outputs) == words(None, levels, "fprop", "gather", outputs) == lines_
    for phase, coded in (("fprop", True), ("bprop", False)):
        assert words(RING, levels, phase, "gather", outputs, coded=coded) == whole


def test_scatters_go_by_lines_over_links_that_take_longer_than_a_second_pass() -> None:
    """Of narrow links in clusters of four, not of a ring's full ones; and never in codes."""
    for phase in ("fprop", "bprop"):
        assert words(WORKERS, 2, phase, "scatter") == (8, 4)
        assert words(WORKERS, 2, phase, "scatter", coded=True) == words(RING, 2, phase, "scatter") == (4, 16)
        assert words(WORKERS, 3, phase, "scatter") == (4, 16)


def test_a_link_carries_what_goes_over_it() -> None:
    """Of a ring of four each die sends a quarter to each neighbour, and to the die between them, over two links all one
    way round."""
    graph = from_network(with_tiles(NETWORKS["digits-cnn"], 2, "winograd"))
    here = layouts(graph, grouped(graph, RING, 2), (), RING.factors)[1]
    cycles = lines._link_cycles(RING, here.groups(TILES, RING.factors))
    assert cycles == pytest.approx((1 + 2) / 4 / float(RING.rate))
