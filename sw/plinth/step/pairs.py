"""Words and messages that dies send each other in a step, pair by pair: what processes that have the dies count on
their wires."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from plinth.partition.cuts import Integers
from plinth.step.between import Reduce
from plinth.step.layers.sparse import SparseProducts
from plinth.step.operations import Operation, entry_of
from plinth.step.predicted_gather import CodedGather, MaskExchange
from plinth.step.step import Step
from plinth.step.tasks import Phase, tasks_of

#: Of kinds of operations that a predicted gather is made of, whether one comes behind the gather's first part.
LATER_PARTS: dict[type, Callable[[Any], bool]] = {
    CodedGather: lambda gather: gather.later, MaskExchange: lambda masks: True}
#: Kinds of operations of many tasks that send nothing to other dies.
ALONE: dict[type, bool] = {SparseProducts: True}


#: By layer, how many rows of its table each owner (row) has for each worker (column).
Rows = Mapping[str, Integers]


def words_between(step: Step, *, whole: bool = False, rings: bool = True, rows: Rows | None = None) -> Integers:
    """Words that die s (row) sends to die t (column) in a step: of the exchanges of its sharding, of its rings, and of
    rows of tables.

    Parameters
    ----------
    whole : bool
        Of exchanges in codes, whose words depend on data, those of all words; else the expected ones.
    rings : bool
        Of all messages of rings, else those of all-gathers alone.
    rows : Rows or None
        Rows that move one by one, of layers that are not there none; None: as predictions take it.
    """
    sharding = step.sharding
    sent = np.zeros((step.dies, step.dies), dtype=np.int64)
    for exchange in sharding.exchanges:
        sent += sharding.words_between(replace(exchange, coded=None) if whole else exchange)
    np.fill_diagonal(sent, 0)
    sent += row_words_between(step, rows)
    for reduction, ring in _rings(step, library=not rings):
        chunk, words_in_all = reduction.parameters.chunk_words, reduction.words(ring[0])
        chunks = np.arange(0, words_in_all, chunk)
        own = np.bincount(np.arange(len(chunks)) % len(ring), np.minimum(chunk, words_in_all - chunks), len(ring))
        sent[ring, np.roll(ring, -1)] += _handed_on(reduction.phase, own.astype(np.int64))
    return sent


def row_words_between(step: Step, rows: Rows | None = None) -> Integers:
    """Words of rows of tables, and of their gradients, that die s (row) sends to die t (column).

    Parameters
    ----------
    rows : Rows or None
        As of :func:`words_between`; of several steps together.
    """
    sent = np.zeros((step.dies, step.dies), dtype=np.int64)
    for lookups in step.lookups.values():
        moved = lookups.traffic.expected if rows is None else rows.get(lookups.layer)
        if moved is not None:
            # Replicated rows are where they are looked up.
            sent += lookups.width * (moved.T if lookups.replicated else moved + moved.T)
    np.fill_diagonal(sent, 0)
    return sent


def messages_between(step: Step) -> Integers:
    """Messages that die s (row) sends to die t (column) in a step: of each descriptor one to each die that it goes to,
    and in each turn of a ring one to the next member, be it empty."""
    sent = np.zeros((step.dies, step.dies), dtype=np.int64)
    for operation in step.operations:
        sent += _descriptors(operation, step.dies)
    for reduction, ring in _rings(step):
        sent[ring, np.roll(ring, -1)] += _handed_on(reduction.phase, np.ones(len(ring), np.int64))
    np.fill_diagonal(sent, 0)
    return sent


def joined_messages_between(step: Step, processes: Sequence[Sequence[int]], *, rings: bool = True) -> Integers:
    """Messages that process r (row) sends to process s (column) in a step, if all that an operation moves from one to
    the other goes in one, in place of the parts of a predicted gather all words; and in each turn of a ring what is
    not empty. Without ``rings`` those of all-gathers alone."""
    turns = np.zeros((step.dies, step.dies), dtype=np.int64)
    for reduction, ring in _rings(step, library=not rings):
        chunks = -(-reduction.words(ring[0]) // reduction.parameters.chunk_words)
        turns[ring, np.roll(ring, -1)] += _handed_on(reduction.phase, (np.arange(len(ring)) < chunks).astype(np.int64))
    sent = between_processes(turns, processes)
    for operation in step.operations:
        later = entry_of(LATER_PARTS, operation)
        if later is None or not later(operation):
            sent += between_processes(_descriptors(operation, step.dies), processes) > 0
    return sent


def between_processes(between: Integers, processes: Sequence[Sequence[int]]) -> Integers:
    """The words that processes send each other, of those that their dies send: 0 within one."""
    sent = np.array([[between[np.ix_(mine, theirs)].sum() for theirs in processes] for mine in processes])
    np.fill_diagonal(sent, 0)
    return sent


def _rings(step: Step, *, library: bool = False) -> Iterator[tuple[Reduce, list[int]]]:
    """Each message of a ring, and its members; but sums if the library makes them."""
    for reduction in step.operations_of(Reduce):
        if not library or reduction.phase is Phase.GATHER:
            for ring in reduction.rings.members:
                if len(ring) > 1 and reduction.words(ring[0]) and reduction.message(ring[0]) is not None:
                    yield reduction, list(ring)


def _handed_on(phase: Phase, own: Integers) -> Integers:
    """Of what each member owns, what each hands on in the turns of a message: in a reduce-scatter all but its own, in
    an all-gather all but what the member behind it owns."""
    whole = own.sum()
    return (phase is not Phase.GATHER) * (whole - own) + (phase is not Phase.SUM) * (whole - np.roll(own, -1))


def _descriptors(operation: Operation, dies: int) -> Integers:
    """Descriptors of each die (row) that go to each die (column)."""
    sent = np.zeros((dies, dies), dtype=np.int64)
    # Products stay on their die, and a layer has thousands of blocks.
    for die in range(dies if entry_of(ALONE, operation) is None else 0):
        for task in tasks_of(operation.tasks(die)):
            for other in task.work.receivers:
                sent[die, other] += task.work.descriptors
    return sent
