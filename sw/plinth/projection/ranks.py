"""Processes that have a share of the samples each, as Deep3 shares them out by MPI (section 7.1).

Samples are dealt: of ``size`` ranks the one numbered ``own`` has samples ``own``, ``own + size``, and so on. So any
number of ranks sees the stream in the same order, as many samples of each rank at a time.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from plinth.errors import UserError

Value = TypeVar("Value")


class Ranks(Protocol):
    """The ranks of a program, as :class:`~plinth.runtime.mpi_messages.MpiMessages` joins them."""

    own: int
    size: int

    def told(self, value: Any) -> list[Any]:
        """What each rank says. Collective."""
        ...


class OneRank:
    """A program that has all samples itself."""

    own, size = 0, 1

    def told(self, value: Any) -> list[Any]:
        """What each rank says: its own value."""
        return [value]


def together(ranks: Ranks, work: Callable[[], Value]) -> tuple[Value, list[Value]]:
    """What a function gives here, and what it gives on each rank; if it refuses something anywhere, all raise the error
    of the first rank that does. Collective.

    Raises
    ------
    UserError
        On all ranks, if the function raises it on any.
    """
    value: Any = None
    problem: str | None = None
    try:
        value = work()
    except UserError as error:
        problem = str(error)
    told = ranks.told((value, problem))
    for _, other in told:
        if other is not None:
            raise UserError(other)
    return value, [other for other, _ in told]


def of_first(ranks: Ranks, work: Callable[[], Value]) -> Value:
    """What a function gives on the first rank, told to all; others do not call it. Collective.

    Raises
    ------
    UserError
        On all ranks, if the function raises it.
    """
    _, (value, *_) = together(ranks, lambda: work() if ranks.own == 0 else None)
    assert value is not None
    return value
