"""What of Winograd tiles goes by lines between dies that have whole columns of them (MPT's 1-D, section V): one
direction is transformed where words come from, the other where they go."""

from functools import lru_cache

import numpy as np

from plinth.array.array import Array
from plinth.machine.transforms import word_cycles
from plinth.partition.cuts import Factors, parts
from plinth.partition.graph import Node
from plinth.partition.groups import TILES, ProcessGroups
from plinth.partition.regions import Layout


def tile_words(node: Node, here: Layout, phase: str, kind: str, factors: Factors, coded: bool, array: Array | None
               ) -> tuple[int, int]:
    """Places of a map that words of a scatter or gather are of, and how many of each: of whole tiles, tiles and their
    elements; where outputs are gathered, tiles and outputs of their columns; where lines are scattered, a line's
    tiles for each row of the map, and columns of a tile.

    What goes in codes, and errors of inputs, which overlap, are whole tiles. Lines of outputs cost nothing. Those of a
    scatter have a second pass where they go to: they are chosen where links that they leave free take longer than it.
    """
    tiling = node.tiling
    assert tiling is not None and node.window is not None
    whole = tiling.positions, tiling.elements
    if coded or not tiling.column(parts(here.ep, factors)) or (phase, kind) == ("bprop", "gather"):
        return whole
    if kind == "gather":
        return tiling.positions, tiling.line_elements
    rows = (node.window.size if phase == "fprop" else node.window.output)[0]
    lines = rows * tiling.tiles[1], tiling.form.sides[1]
    free = 1 - lines[0] * lines[1] / (whole[0] * whole[1])
    return lines if array is not None and free * _link_cycles(array, here.groups(TILES, factors)) > word_cycles(
        array.die_parameters()) else whole


@lru_cache(maxsize=256)
def _link_cycles(array: Array, clusters: ProcessGroups) -> float:
    """Cycles of the fullest link for a word that each die shares evenly with its cluster."""
    at, to = np.array([(sender, receiver) for members in clusters.members for sender in members for receiver in members
                       if sender != receiver]).T
    routes = array.for_tiles.all_routes
    loads = np.zeros(len(routes.links))
    for _, over in routes.walk(at, to):
        np.add.at(loads, over, 1 / clusters.size)
    return float((loads / array.directed_rates).max())
