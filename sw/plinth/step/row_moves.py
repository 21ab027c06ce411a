"""The operations of a step that move rows of tables between who owns them and the dies that look them up."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from plinth.partition.cuts import Integers
from plinth.partition.graph import Node
from plinth.sharding import ReductionDefinition
from plinth.step.lookups import LookupLists, Lookups, RowCache, RowSlots
from plinth.step.tasks import Arrivals, Item, LookupCopy, Task
from plinth.step.weights import Weights
from plinth_hw.isa.operations import Engine


@dataclass(frozen=True)
class RowMoves(ABC):
    """Rows that go between their owners and workers.

    Parameters
    ----------
    planned : ReductionDefinition
        The definition that it realises, one way of it.
    node : Node
    number : int
        Of the exchange.
    lookups : Lookups
    """

    planned: ReductionDefinition = field(compare=False)
    node: Node
    number: int
    lookups: Lookups

    @property
    @abstractmethod
    def name(self) -> str:
        """What its tasks are called."""

    @abstractmethod
    def tasks(self, die: int, most: int | None = None) -> Iterator[Item]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""

    @abstractmethod
    def expected_rows(self) -> Integers:
        """Rows that die s (row) sends to die t (column), and keeps, as predictions take it."""


@dataclass(frozen=True)
class RowPull(RowMoves):
    """Every owner sends each worker the rows that its samples look up, to the next die first.

    Parameters
    ----------
    lists : LookupLists
        Of the rows.
    cache : RowCache
        Where workers get them.
    """

    lists: LookupLists
    cache: RowCache

    @property
    def name(self) -> str:
        """What its tasks are called."""
        return f"{self.node.name}.pull"

    def tasks(self, die: int, most: int | None = None) -> Iterator[Item]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        lookups = self.lookups
        # Its own rows come last: others wait for theirs.
        for worker in sorted(lookups.served(die), key=lambda worker: worker == die):
            source, target, index = lookups.table.matrix(die), self.cache.of(die, worker), self.lists.of(die, worker)
            own = worker == die
            work = LookupCopy(self.node.name, die, worker, source, target, index, lookups.expected(die, worker),
                              die=None if own else worker, exchange=-1 if own else self.number)
            yield Task(f"{self.name}.own" if own else f"{self.name}[{worker}]", Engine.TRANSFER, work, (source, index),
                       (target,) if own else (), 1, self.node)
        others = [self.cache.of(owner, die) for owner in lookups.sources(die) if owner != die]
        if others:
            yield Arrivals(self.number, tuple(others), len(others))

    def expected_rows(self) -> Integers:
        expected = self.lookups.traffic.expected
        return np.diag(np.diagonal(expected)) if self.lookups.replicated else expected


@dataclass(frozen=True)
class RowPush(RowMoves):
    """Every worker sends each owner the sums of the errors of its rows, to the next die first; its own stay.

    Parameters
    ----------
    sums : RowCache
        Of workers.
    slots : RowSlots
        Of owners.
    """

    sums: RowCache
    slots: RowSlots

    @property
    def name(self) -> str:
        """What its tasks are called."""
        return f"{self.node.name}.push"

    def tasks(self, die: int, most: int | None = None) -> Iterator[Item]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        lookups = self.lookups
        for owner in lookups.owners(die):
            if owner != die:
                source, target = self.sums.of(owner, die), self.slots.of(owner, die)
                work = LookupCopy(self.node.name, owner, die, source, target, None, lookups.expected(owner, die),
                                  die=owner, exchange=self.number)
                yield Task(f"{self.name}[{owner}]", Engine.TRANSFER, work, (source,), (), 1, self.node)
        others = [self.slots.of(die, worker) for worker in lookups.workers(die) if worker != die]
        if others:
            yield Arrivals(self.number, tuple(others), len(others))

    def expected_rows(self) -> Integers:
        return self.lookups.traffic.expected.T


@dataclass(frozen=True)
class RowSums:
    """Every owner adds what workers have sent, and its own, to the gradient of its rows, in the order of dies."""

    node: Node
    lookups: Lookups
    lists: LookupLists
    sums: RowCache
    slots: RowSlots
    gradient: Weights

    @property
    def name(self) -> str:
        """What its tasks are called."""
        return f"{self.node.name}.sums"

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        lookups = self.lookups
        for worker in sorted(lookups.workers(die)):
            source = (self.sums if worker == die else self.slots).of(die, worker)
            target, index = self.gradient.matrix(die), self.lists.of(die, worker)
            work = LookupCopy(self.node.name, die, worker, source, target, index, lookups.expected(die, worker),
                              scatter=True, added=True)
            yield Task(f"{self.name}[{worker}]", Engine.TRANSFER, work, (source, index, target), (target,), 1,
                       self.node)
