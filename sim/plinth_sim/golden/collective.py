"""Golden model of the ring-reduce collective engine: float32, bit-exact, order as in the contract.

A message of ``words`` words is cut in chunks of ``chunk_words`` (the last may be short, nothing is
padded). Chunk c belongs to member o = c mod N, and its sum starts at the member after the owner:

    sum = ((G[o+1] + G[o+2]) + ... + G[o+N-1]) + G[o]        member indices modulo N, N-1 adds

Update by the owner: NONE gives ``sum``; SGD gives ``w - (rate * sum)``, product and difference each
rounded to nearest even. Every NaN result is the canonical quiet NaN; with N = 1 and NONE, and in an
all-gather, words are copied as they are.
"""

from collections.abc import Sequence

import numpy as np

from plinth_hw.isa.formats import FP32
from plinth_hw.isa.tasks import UpdateOperation

Array = np.ndarray


def _canonical(values: Array) -> Array:
    nan = np.isnan(values)
    if nan.any():
        values.view(np.uint32)[nan] = FP32.quiet_nan
    return values


def owners(words: int, members: int, chunk_words: int) -> Array:
    """Owner (member index) of each word of a message."""
    return (np.arange(words) // chunk_words) % members


def _check(arrays: Sequence[Array], chunk_words: int) -> list[Array]:
    if not arrays:
        raise ValueError("A group needs at least one member")
    flat = [np.ascontiguousarray(a).reshape(-1) for a in arrays]
    for a in flat:
        if a.dtype != np.float32:
            raise TypeError(f"Messages must be float32, not {a.dtype}")
        if a.size != flat[0].size:
            raise ValueError(f"All members' messages must have {flat[0].size} words, not {a.size}")
    if chunk_words < 1:
        raise ValueError(f"chunk_words must be positive, not {chunk_words!r}")
    return flat


def _reduce(gradients: list[Array], owner: Array) -> Array:
    """Sum of every word, in its chunk's order."""
    members = len(gradients)
    total = np.empty_like(gradients[0])
    with np.errstate(all="ignore"):
        for o in range(members):
            mine = owner == o
            partial = gradients[(o + 1) % members][mine].copy()
            for step in range(2, members + 1):
                partial = _canonical(partial + gradients[(o + step) % members][mine])
            total[mine] = partial
    return total


def _update(total: Array, weights: Array, rate: float, update: UpdateOperation) -> Array:
    if update == UpdateOperation.NONE:
        return total
    with np.errstate(all="ignore"):
        step = _canonical(np.float32(rate) * total)
        return _canonical(weights - step)


def reduce_scatter(gradients: Sequence[Array], weights: Sequence[Array] | None, rate: float,
                   chunk_words: int, update: UpdateOperation = UpdateOperation.NONE) -> list[Array]:
    """Destination of every member after REDUCE_SCATTER.

    ``weights`` holds each member's destination before the operation (for SGD its weights; None: zeros,
    not for SGD). Words that a member does not own keep that value.

    Raises
    ------
    TypeError
        If an array is not float32.
    ValueError
        If sizes differ, or SGD has no weights.
    """
    flat = _check(gradients, chunk_words)
    if weights is None and update != UpdateOperation.NONE:
        raise ValueError(f"Update {update} needs weights, not None")
    before = [np.zeros_like(a) for a in flat] if weights is None else _check(weights, chunk_words)
    if len(before) != len(flat) or before[0].size != flat[0].size:
        raise ValueError("weights must have the same members and words as gradients")
    owner = owners(flat[0].size, len(flat), chunk_words)
    total = _reduce(flat, owner)
    results = []
    for member, old in enumerate(before):
        mine = owner == member
        new = old.copy()
        new[mine] = _update(total[mine], old[mine], rate, update)
        results.append(new)
    return results


def all_gather(sources: Sequence[Array], chunk_words: int) -> list[Array]:
    """Destination of every member after ALL_GATHER: word by word the owner's source."""
    flat = _check(sources, chunk_words)
    owner = owners(flat[0].size, len(flat), chunk_words)
    result = np.empty_like(flat[0])
    for member, source in enumerate(flat):
        mine = owner == member
        result.view(np.uint32)[mine] = source.view(np.uint32)[mine]
    return [result.copy() for _ in flat]


def all_reduce(gradients: Sequence[Array], weights: Sequence[Array] | None, rate: float,
               chunk_words: int, update: UpdateOperation = UpdateOperation.NONE) -> list[Array]:
    """Destination of every member after ALL_REDUCE: reduce-scatter with update, then all-gather."""
    return all_gather(reduce_scatter(gradients, weights, rate, chunk_words, update), chunk_words)
