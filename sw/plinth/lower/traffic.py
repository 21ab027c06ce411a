"""The proof that no class of a plan's traffic waits for itself on the links of its array, from the descriptors: by all
routes that are in force for it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from plinth.array.array import Array
from plinth.errors import UserError
from plinth.lower.builder import GraphBuilder
from plinth.lower.fences import RouteSetting, fenced, sends, settings
from plinth_hw.isa.operations import Traffic

Pairs = set[tuple[int, int]]
Sets = frozenset[RouteSetting]


def traffic(graphs: Sequence[Sequence[GraphBuilder]]) -> dict[int, Pairs]:
    """Who sends to whom in each traffic class, under whatever routes.

    Parameters
    ----------
    graphs : sequence of sequence of GraphBuilder
        For each die the graphs that it runs, one after the other.
    """
    found: dict[int, Pairs] = {}
    for (number, _), pairs in phases(graphs).items():
        found.setdefault(number, set()).update(pairs)
    return found


def phases(graphs: Sequence[Sequence[GraphBuilder]]) -> dict[tuple[int, tuple[Sets, ...]], Pairs]:
    """The same, apart by the tasks that have set the class's routes before: of each graph those.

    Raises
    ------
    UserError
        If routes are set while packets of theirs may be under way.
    """
    found: dict[tuple[int, tuple[Sets, ...]], Pairs] = {}
    kind_of = {number: graphs[0][0].parameters.traffic(number) for number in range(graphs[0][0].parameters.classes)}
    past: dict[Traffic, tuple[Sets, ...]] = dict.fromkeys(Traffic, ())
    nexts: list[dict[int, int]] = [{} for _ in graphs]
    for at_once in zip(*graphs, strict=True):
        sent = sends(at_once, nexts)
        for one, sets in fenced(at_once, sent, kind_of).items():
            key = one.traffic_class, (*past[kind_of[one.traffic_class]], *([sets] if sets else []))
            found.setdefault(key, set()).add((one.die, one.to))
        done = settings(at_once)
        for kind in Traffic:
            if mine := frozenset(one for one in done if one.traffic is kind):
                past[kind] = (*past[kind], mine)
    return found


def following(array: Array, graphs: Sequence[Sequence[GraphBuilder]], sets: Sequence[Sets]) -> NDArray[np.int64]:
    """The link over which each node sends to each die, by its place in the array's, once some tasks have set routes.

    Raises
    ------
    UserError
        If one sets a route of a die that there is not, or by a port without a link.
    """
    number = {(node, port): place for place, (node, port, _, _) in enumerate(array.directed())}
    found = array.following.copy()
    for some in sets:
        for one in sorted(some):
            for other, port in one.ports:
                if other >= array.dies or (other != one.die and (one.die, port) not in number):
                    raise UserError(f"die {one.die} of array {array.name!r} cannot set a route to die {other} by port "
                                    f"{port}: there is no such die, or no link at that port; correct the routes")
                if other != one.die:
                    found[one.die, other] = number[one.die, port]
    return found


def check_circles(array: Array, graphs: Sequence[Sequence[GraphBuilder]]) -> None:
    """Refuse graphs whose packets could wait for each other in a circle, or be under way while their routes change.

    Raises
    ------
    UserError
        With the circle, or the tasks.
    """
    found = phases(graphs)
    for number, sets in sorted(found, key=lambda key: (key[0], len(key[1]))):
        routes = following(array, graphs, sets) if sets else array.following
        if circle := array.circle(found[number, sets], routes):
            raise UserError(f"array {array.name!r} cannot run this plan: packets of class {number} would wait for each "
                            f"other for ever: {circle}; give routes that form no circle, or choose another plan")
