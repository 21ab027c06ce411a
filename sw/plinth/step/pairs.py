"""Words that dies send each other in a step, pair by pair: what processes that have the dies count on their wires."""

from dataclasses import replace

import numpy as np

from plinth.partition.cuts import Integers
from plinth.partition.exchanges import words
from plinth.step.between import Reduce
from plinth.step.step import Step
from plinth.step.tasks import Phase


def words_between(step: Step, *, whole: bool = False, rings: bool = True) -> Integers:
    """Words that die s (row) sends to die t (column) in a step: of the exchanges of its sharding, and of its rings.

    Of exchanges in codes, whose words depend on data, these are the expected ones; ``whole``: those of all words.
    Without ``rings`` those of all-gathers alone.
    """
    sharding = step.sharding
    sent = np.zeros((step.dies, step.dies), dtype=np.int64)
    for exchange in sharding.exchanges:
        if exchange.moves(step.batch, step.factors):
            plain = replace(exchange, coded=None) if whole else exchange
            sent += words(plain, step.batch, step.factors)
    np.fill_diagonal(sent, 0)
    for reduction in step.operations:
        if isinstance(reduction, Reduce) and (rings or reduction.phase is Phase.GATHER):
            _add_rings(reduction, sent)
    return sent


def _add_rings(reduction: Reduce, sent: Integers) -> None:
    """Each member hands on, in a reduce-scatter, all chunks but its own, and in an all-gather all but those of the
    member behind it."""
    chunk = reduction.parameters.chunk_words
    for ring in reduction.rings.members:
        count, whole = len(ring), reduction.words(ring[0])
        if count < 2 or reduction.message(ring[0]) is None:
            continue
        chunks = np.arange(0, whole, chunk)
        own = np.bincount(np.arange(len(chunks)) % count, np.minimum(chunk, whole - chunks), count).astype(np.int64)
        for number, die in enumerate(ring):
            behind = (number + 1) % count
            sent[die, ring[behind]] += ((reduction.phase is not Phase.GATHER) * (whole - own[number])
                                        + (reduction.phase is not Phase.SUM) * (whole - own[behind]))
