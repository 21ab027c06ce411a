"""A sharding: how a network's training step is split over the dies of an array, and nothing about when.

It is all that a step follows from, beside what a die can hold (:func:`plinth.step.build.step_of`). Planners look at
thousands, so that one is not checked when it is made; a Plan is (:meth:`Sharding.check`).
"""

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from plinth.errors import UserError
from plinth.model.array import MAXIMUM_DIES, Array
from plinth.model.forms import described, is_integer
from plinth.model.update import PLAIN, UpdateRule
from plinth.partition import regions
from plinth.partition.cuts import Factors, halves
from plinth.partition.graph import PlanGraph
from plinth.partition.groups import ProcessGroups
from plinth.partition.lists import check_lists
from plinth.partition.regions import Layout, Lists, Partition, Splits

#: Largest batch.
MAXIMUM_BATCH = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Sharding:
    """How a network is split over dies.

    Parameters
    ----------
    graph : PlanGraph
        The network.
    splits : Splits
        For each node of the graph, for each level of the array, the axis that is cut there.
    batch : int
        Samples of a step, over all dies.
    factors : Factors
        In how many parts each level cuts the dies; left out: every level halves.
    lists : Partition
        What is cut by list, for each node; left out: nothing.
    array : Array or None
        Whose links say which rings may go at once; None: all may.
    rule : UpdateRule
        How weights are updated.
    """

    graph: PlanGraph
    splits: Splits
    batch: int
    factors: Factors = ()
    lists: Partition = ()
    array: Array | None = None
    rule: UpdateRule = PLAIN

    def __post_init__(self) -> None:
        object.__setattr__(self, "factors", self.factors or halves(len(self.splits[0]) if self.splits else 0))
        lists = tuple(None if one == Lists() else one for one in self.lists)
        object.__setattr__(self, "lists", lists if any(lists) else ())

    def __getstate__(self) -> dict[str, Any]:
        """Its fields, without what was found out about them."""
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @property
    def levels(self) -> int:
        """Levels of the array."""
        return len(self.factors)

    @property
    def dies(self) -> int:
        """Dies of the array."""
        return prod(self.factors)

    @cached_property
    def layouts(self) -> tuple[Layout, ...]:
        """Regions of each node."""
        return regions.layouts(self.graph, self.splits, self.lists, self.factors)

    def groups(self, kind: str, number: int) -> ProcessGroups:
        """The groups of a node's dies, of a kind of :mod:`plinth.partition.groups`."""
        return self.layouts[number].groups(kind, self.factors)

    def check(self) -> None:
        """Refuse what cannot be.

        Raises
        ------
        UserError
            If a split or a list does not fit its layer, the array has another number of dies, or a size is out of
            range.
        """
        levels = regions.check_splits(self.graph, self.splits)
        if len(self.factors) != levels or not all(is_integer(factor, 2, MAXIMUM_DIES) for factor in self.factors) or (
                self.dies > MAXIMUM_DIES):
            raise UserError(f"an array of {levels} levels needs as many factors from 2 on, of at most {MAXIMUM_DIES} "
                            f"dies together, not {described(list(self.factors))}")
        if self.array is not None and self.array.dies != self.dies:
            raise UserError(f"the plan is for {self.dies} dies, but array {self.array.name!r} has {self.array.dies}")
        if not is_integer(self.batch, 1, MAXIMUM_BATCH):
            raise UserError(f"a batch must be an integer from 1 to {MAXIMUM_BATCH}, not {described(self.batch)}")
        regions.check_elements(self.graph, self.splits, self.factors)
        check_lists(self.graph, self.splits, self.lists, self.batch, self.factors)
