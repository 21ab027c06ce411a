"""From a network to a Plan."""

from plinth.errors import UserError
from plinth.model.network import Network
from plinth.plan.graph import from_network
from plinth.plan.plan import CHUNK_WORDS, MAXIMUM_DIES, Plan
from plinth.plan.planners import simple


def levels_of(dies: int) -> int:
    """Levels of an array.

    Raises
    ------
    UserError
        If the dies are not a power of two, or too many.
    """
    if not 1 <= dies <= MAXIMUM_DIES or dies & (dies - 1):
        raise UserError(f"a plan is for 1, 2, 4, ... or {MAXIMUM_DIES} dies, not {dies}; choose a power of two")
    return dies.bit_length() - 1


def data_parallel(network: Network, *, dies: int, batch: int, chunk_words: int = CHUNK_WORDS) -> Plan:
    """Every layer data-parallel on a ring of dies.

    Raises
    ------
    UserError
        If the dies are no power of two, or a size is out of range.
    """
    graph = from_network(network)
    return Plan(graph=graph, planner="data", model="exact", array=f"ring-{dies}", batch=batch,
                chunk_words=chunk_words, splits=simple.data(graph, levels_of(dies)))
