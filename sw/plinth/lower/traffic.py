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
    by_class: dict[int, Pairs] = {}
    for (number, _), pairs in phases(graphs).items():
        by_class.setdefault(number, set()).update(pairs)
    return by_class


def phases(graphs: Sequence[Sequence[GraphBuilder]]) -> dict[tuple[int, tuple[Sets, ...]], Pairs]:
    """Who sends to whom in each traffic class, apart by the tasks that have set the class's routes before: of each
    graph those.

    Raises
    ------
    UserError
        If routes are set while packets of theirs may be under way.
    """
    by_phase: dict[tuple[int, tuple[Sets, ...]], Pairs] = {}
    kind_of = {number: graphs[0][0].parameters.traffic(number) for number in range(graphs[0][0].parameters.classes)}
    past: dict[Traffic, tuple[Sets, ...]] = dict.fromkeys(Traffic, ())
    nexts: list[dict[int, int]] = [{} for _ in graphs]
    for at_once in zip(*graphs, strict=True):
        sent = sends(at_once, nexts)
        for send, sets in fenced(at_once, sent, kind_of).items():
            key = send.traffic_class, (*past[kind_of[send.traffic_class]], *([sets] if sets else []))
            by_phase.setdefault(key, set()).add((send.die, send.to))
        done = settings(at_once)
        for kind in Traffic:
            if mine := frozenset(setting for setting in done if setting.traffic is kind):
                past[kind] = (*past[kind], mine)
    return by_phase


def following(array: Array, graphs: Sequence[Sequence[GraphBuilder]], sets: Sequence[Sets]) -> NDArray[np.int64]:
    """The link over which each node sends to each die, by its place in the array's, once some tasks have set routes.

    Raises
    ------
    UserError
        If one sets a route of a die that there is not, or by a port without a link.
    """
    number = {(node, port): place for place, (node, port, _, _) in enumerate(array.directed())}
    routes = array.following.copy()
    for some in sets:
        for setting in sorted(some):
            for other, port in setting.ports:
                if other >= array.dies or (other != setting.die and (setting.die, port) not in number):
                    raise UserError(f"die {setting.die} of array {array.name!r} cannot set a route to die {other} by "
                                    f"port {port}: there is no such die, or no link at that port; correct the routes")
                if other != setting.die:
                    routes[setting.die, other] = number[setting.die, port]
    return routes


def check_circles(array: Array, graphs: Sequence[Sequence[GraphBuilder]]) -> None:
    """Refuse graphs whose packets could wait for each other in a circle, or be under way while their routes change.

    Raises
    ------
    UserError
        With the circle, or the tasks.
    """
    by_phase = phases(graphs)
    for number, sets in sorted(by_phase, key=lambda key: (key[0], len(key[1]))):
        routes = following(array, graphs, sets) if sets else array.following
        if circle := array.circle(by_phase[number, sets], routes):
            raise UserError(f"array {array.name!r} cannot run this plan: packets of class {number} would wait for each "
                            f"other for ever: {circle}; give routes that form no circle, or choose another plan")
