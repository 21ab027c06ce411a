"""The proof that no class of a plan's traffic waits for itself on the links of its array, from the descriptors."""

from collections.abc import Sequence

from plinth.errors import UserError
from plinth.lower.builder import GraphBuilder
from plinth.model.array import Array


def traffic(graphs: Sequence[Sequence[GraphBuilder]]) -> dict[int, set[tuple[int, int]]]:
    """Who sends to whom in each traffic class.

    Parameters
    ----------
    graphs : sequence of sequence of GraphBuilder
        For each die the graphs that it runs, one after the other.
    """
    found: dict[int, set[tuple[int, int]]] = {}
    for die, some in enumerate(graphs):
        nexts: dict[int, int] = {}
        for graph in some:
            for number, other in graph.sends(nexts):
                found.setdefault(number, set()).add((die, other))
    return found


def check_circles(array: Array, graphs: Sequence[Sequence[GraphBuilder]]) -> None:
    """Refuse graphs whose packets could wait for each other in a circle.

    Raises
    ------
    UserError
        With the circle.
    """
    for number, pairs in sorted(traffic(graphs).items()):
        if circle := array.circle(pairs):
            raise UserError(f"array {array.name!r} cannot run this plan: packets of class {number} would wait for each "
                            f"other for ever: {circle}; give routes that form no circle, or choose another plan")
