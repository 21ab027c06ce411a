"""A sharding: how a network's training step is split over the dies of an array, and nothing about when.

It is all that a step follows from, beside what a die can hold (:func:`plinth.step.build.step_of`). Planners look at
thousands, so that one is not checked when it is made; a Plan is (:meth:`Sharding.check`).
"""

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from plinth.array.array import Array
from plinth.errors import UserError
from plinth.files.forms import described, is_integer
from plinth.limits import MAXIMUM_BATCH, MAXIMUM_DIES
from plinth.partition import regions
from plinth.partition.axes import ELEMENTS
from plinth.partition.cuts import Factors, halves
from plinth.partition.graph import Node, PlanGraph
from plinth.partition.groups import RING, ProcessGroups
from plinth.partition.lists import check_lists
from plinth.partition.regions import Layout, Lists, Partition, Splits
from plinth.partition.ring_order import along_links
from plinth.update.rule import PLAIN, UpdateRule

#: Pieces of rows in which the gradient of a layer goes round its rings, at most.
MOST_PIECES = 4


@dataclass(frozen=True)
class Ring:
    """How the copies of a layer's weights and its bias are kept equal: sums of their gradients go round rings of dies.

    Parameters
    ----------
    groups : ProcessGroups
        The rings, each its dies in the order in which words go round: chunk c of a message belongs to member c mod N,
        and its sum starts at the member after the owner.
    pieces : int
        Messages in which the gradient goes: pieces of rows of each die's matrix, or, with ``elements``, one for each
        element of Winograd tiles that a die has, and the bias.
    elements : bool
        Pieces are elements of tiles, whose weights have learning rates of their own.
    """

    groups: ProcessGroups
    pieces: int = 1
    elements: bool = False


#: For each node of a graph, None where it has no weights; or none at all: as a target suits.
Copies = tuple[Ring | None, ...]


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
    copies : Copies
        How the copies of each layer's weights are kept equal; left out: in rings along the array's links, in as many
        pieces as suit the dies.
    """

    graph: PlanGraph
    splits: Splits
    batch: int
    factors: Factors = ()
    lists: Partition = ()
    array: Array | None = None
    rule: UpdateRule = PLAIN
    copies: Copies = ()

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
        if kind != RING:
            return self.layouts[number].groups(kind, self.factors)
        given = self.copies[number] if self.copies else None
        return along_links(self.array, self.layouts[number].groups(kind, self.factors)) if given is None else (
            given.groups)

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
        self._check_copies()

    def _check_copies(self) -> None:
        if self.copies and len(self.copies) != len(self.graph.nodes):
            raise UserError(f"network {self.graph.name!r} has {len(self.graph.nodes)} nodes, but copies are given for "
                            f"{len(self.copies)}")
        for number, (node, ring) in enumerate(zip(self.graph.nodes, self.copies, strict=False)):
            if (ring is not None) != node.weighted:
                raise UserError(f"layer {node.name!r} has {'' if node.weighted else 'no '}weights, but "
                                f"{'no ' if ring is None else ''}rings are given for it")
            if ring is None:
                continue
            wanted = self.layouts[number].groups(RING, self.factors)
            if sorted(map(sorted, ring.groups.members)) != sorted(map(sorted, wanted.members)):
                raise UserError(f"rings of layer {node.name!r} are not those of the dies that have the same of its "
                                "weights; make the plan again with `plinth plan`")
            if ring.elements and not node.free:
                raise UserError(f"layer {node.name!r} has no Winograd tiles that are trained, whose elements could be "
                                "pieces of its gradient; make the plan again with `plinth plan`")
            low, high = 1, 1 if node.window or node.gathers else MOST_PIECES
            if ring.elements:
                low = high = self._element_pieces(node, number)
            if not is_integer(ring.pieces, low, high):
                most = f"{low}" if low == high else f"{low} to {high}"
                raise UserError(f"the gradient of layer {node.name!r} goes in {most} piece{'s' * (high > 1)}, not "
                                f"{described(ring.pieces)}; make the plan again with `plinth plan`")

    def _element_pieces(self, node: Node, number: int) -> int:
        """Elements of a layer's tiles that a die has, at most, and one for the bias."""
        return int(self.layouts[number].weights.lengths(ELEMENTS, node.matrix[0], self.factors).max()) + 1
