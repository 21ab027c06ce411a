"""Links of arrays by their topology: which ports of which nodes they join, and what they carry.

Ring::                                torus, rows x columns, die = row x columns + column::

    port 0 to the next die,               ports 0 and 1 to the next and the previous column,
    port 1 to the previous                ports 2 and 3 to the next and the previous row

Full: the port to die d is d, or d - 1 behind the own number. A side of two dies has two links, one round each
way; a side of one has none. H-tree: dies are leaves of a binary tree of switches without dies; a switch has ports
0 and 1 down and 2 up, a die port 0, and each level up the links have twice the rate (HyPar, section 5).

Clusters (MPT, section IV): groups x clusters of dies, die = group x clusters + cluster::

    ports 0 and 1 to the next and the previous die of the group, at the ends to the host, a switch, which so closes
    rings of a group and joins those of several; ports from 2 on to the other dies of the cluster in its row and in its
    column, in a grid as square as can be (a flattened butterfly), at ``narrow_rate``

A grid has whole rows, of 6 dies 2 x 3; where that would be long and dies need more ports than a router has, its last
row is short, of 17 dies 4 x 5 with 2 in the last row. From any die to any other lead at most two links either way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

#: What a link joins: a node and its port, and those at the other end.
Ends = tuple[int, int, int, int]


@dataclass(frozen=True)
class Link:
    """A link between two nodes, carrying ``rate`` words a cycle each way after ``latency`` cycles.

    Nodes below the number of dies are dies, the others switches.
    """

    a: int
    a_port: int
    b: int
    b_port: int
    rate: Fraction
    latency: int


def ring_ends(dies: int) -> list[Ends]:
    """The ends of the links of a ring, as (die, port, die, port)."""
    return [(die, 0, (die + 1) % dies, 1) for die in range(dies) if dies > 1]


def torus_ends(rows: int, columns: int) -> list[Ends]:
    """The ends of the links of a torus, as (die, port, die, port): rows first."""
    across = [(row * columns + column, 0, row * columns + (column + 1) % columns, 1)
              for row in range(rows) for column in range(columns) if columns > 1]
    down = [(row * columns + column, 2, (row + 1) % rows * columns + column, 3)
            for row in range(rows) for column in range(columns) if rows > 1]
    return across + down


def full_ends(dies: int) -> list[Ends]:
    """The ends of the links of a fully connected array, as (die, port, die, port)."""
    return [(first, second - 1, second, first) for first in range(dies) for second in range(first + 1, dies)]


def cluster_grid(groups: int, most_ports: int) -> tuple[int, int]:
    """Rows and columns of the dies of a cluster, as square as can be; the last row may be short."""
    rows = next(rows for rows in range(isqrt(groups), 0, -1) if groups % rows == 0)
    columns = groups // rows
    if columns > 2 * rows and rows + columns > most_ports:
        columns = isqrt(groups - 1) + 1
        rows = -(-groups // columns)
    return rows, columns


def cluster_links(groups: int, clusters: int, rate: Fraction, narrow: Fraction, latency: int, most_ports: int
                  ) -> list[Link]:
    """Links of an array of clusters: rings of groups through the host at ``rate``, and grids of clusters at ``narrow``.

    Parameters
    ----------
    rate, narrow : Fraction
        Words a cycle and direction.
    latency : int
        Cycles from end to end.
    most_ports : int
        Ports of a router, beyond which a long grid becomes nearly square.
    """
    links, host = [], groups * clusters
    for group in range(groups if clusters > 1 else 0):
        first = group * clusters
        joined = [(first + cluster, 0, first + cluster + 1, 1) for cluster in range(clusters - 1)]
        joined += [(host, 2 * group, first, 1), (first + clusters - 1, 0, host, 2 * group + 1)]
        links += [Link(*ends, rate=rate, latency=latency) for ends in joined]
    rows, columns = cluster_grid(groups, most_ports)
    for cluster in range(clusters):
        for group in range(groups):
            row, column = divmod(group, columns)
            # To the column c of its row by port 2 + c, or one less behind its own, then likewise to rows.
            others = [(row * columns + c, 2 + c - 1, 2 + column) for c in range(column + 1, columns)]
            others += [(r * columns + column, columns + r, columns + 1 + row) for r in range(row + 1, rows)]
            others = [ends for ends in others if ends[0] < groups]
            links += [Link(group * clusters + cluster, port, other * clusters + cluster, there, rate=narrow,
                           latency=latency) for other, port, there in others]
    return links


def tree_links(dies: int, rate: Callable[[int], Fraction], latency: int) -> list[Link]:
    """Links of an H-tree: switch i (from 1, the root) has below it the nodes 2i and 2i + 1, the dies follow the last
    switch. ``rate`` has the words a cycle and direction of each level, from 1 below the root on."""
    def node(place: int) -> int:
        return place - dies if place >= dies else dies + place - 1

    return [Link(node(place // 2), place % 2, node(place), 0 if place >= dies else 2,
                 rate=rate(place.bit_length() - 1), latency=latency)
            for place in range(2, 2 * dies)]


def star_links(dies: int, rate: Fraction, latency: int) -> list[Link]:
    """Links of all dies to the one switch, the node behind them, whose ports have the dies' numbers; ``latency`` is
    that of each, so that from die to die it counts twice."""
    return [Link(die, 0, dies, die, rate=rate, latency=latency) for die in range(dies) if dies > 1]
