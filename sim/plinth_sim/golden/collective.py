"""Golden model of the ring-reduce collective engine: bit-exact, order as in the contract.

A message of ``words`` words is cut in chunks of ``chunk_words`` (the last may be short, nothing is
padded). Chunk c belongs to member o = c mod N, and its sum starts at the member after the owner:

    sum = ((G[o+1] + G[o+2]) + ... + G[o+N-1]) + G[o]        member indices modulo N, N-1 adds

Update by the owner: NONE gives ``sum``; SGD gives ``w - (rate * sum)``, product and difference each
rounded to nearest even. Every NaN result is the canonical quiet NaN; with N = 1 and NONE, and in an
all-gather, words are copied as they are. Fixed-point sums saturate
(:func:`~plinth_sim.golden.arithmetic.updated`).

:func:`member` is one member's part in it, a coroutine that knows nothing of the others but the words that come from
the one before and go to the next; wherever members live, the bits are these. The other functions let all members run
in step.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth_hw.isa.formats import FP32, Format, factor_word, word_type
from plinth_hw.isa.operations import CollectiveOperation, UpdateOperation
from plinth_sim.golden import arithmetic, matrix

Array = np.ndarray
Words = NDArray[np.unsignedinteger]
#: A member at work: gives words, takes words.
Member = Generator[Words, Any, None]


def owners(words: int, members: int, chunk_words: int) -> Array:
    """Owner (member index) of each word of a message."""
    return (np.arange(words) // chunk_words) % members


def member(operation: CollectiveOperation, index: int, members: int, source: Words, target: Words, rate: int,
           chunk_words: int, update: UpdateOperation, fmt: Format = FP32,
           tell: Callable[[int], None] = lambda ends: None) -> Member:
    """One member of a ring at work; its destination, ``target``, is written in place.

    Every ``yield`` gives words for the next member and takes words from the one before. These are all chunks of one
    owner, one after the other: in the reduction their sums so far, in the gathering their results.

    Parameters
    ----------
    index, members : int
        This member's place in the ring, and the members of the ring.
    source, target : arrays of words
        Bit patterns of ``fmt``, of one size. ``source`` is read when the member starts, ``target`` (with SGD: the
        weights) when its own chunks have been summed.
    rate : int
        Of the update, as tasks hold it (:func:`~plinth_hw.isa.formats.factor_word`).
    tell : callable
        Is told how many numbers were beyond a fixed-point format: of each step of a sum, and of the update.

    Raises
    ------
    ValueError
        If what comes from the member before has another size than what was expected: messages differ in words.
    """
    source = source.copy()
    owner = owners(source.size, members, chunk_words)
    mine = owner == index
    if operation is CollectiveOperation.ALL_GATHER:
        target[mine] = source[mine]
    else:
        total = source[owner == (index - 1) % members]
        for stage in range(1, members):
            own = source[owner == (index - 1 - stage) % members]
            total, ends = arithmetic.add_words(fmt, _matching((yield total), own.size), own)
            tell(ends)
        if update != UpdateOperation.NONE:
            total, ends = arithmetic.updated(fmt, target[mine], total, rate)
            tell(ends)
        target[mine] = total
    if operation is not CollectiveOperation.REDUCE_SCATTER:
        words = target[mine]
        for stage in range(1, members):
            other = owner == (index - stage) % members
            words = _matching((yield words), int(other.sum()))
            target[other] = words


def resume(member: Member, words: Words | None) -> Words | None:
    """Start a member with None, or give it words: what it sends then, or None once it has all that it needs."""
    try:
        return member.send(words)
    except StopIteration:
        return None


def _matching(words: Words, size: int) -> Words:
    if words.size != size:
        raise ValueError(f"The members' messages differ: {words.size} words came where {size} were expected")
    return words


def _check(arrays: Sequence[Array], chunk_words: int, fmt: Format) -> list[Array]:
    if not arrays:
        raise ValueError("A group needs at least one member")
    flat = [np.ascontiguousarray(a).reshape(-1) for a in arrays]
    for a in flat:
        if a.dtype != matrix.storage(fmt):
            raise TypeError(f"Messages must be {matrix.storage(fmt)}, not {a.dtype}")
        if a.size != flat[0].size:
            raise ValueError(f"All members' messages must have {flat[0].size} words, not {a.size}")
    if chunk_words < 1:
        raise ValueError(f"chunk_words must be positive, not {chunk_words!r}")
    return flat


def _run(operation: CollectiveOperation, sources: Sequence[Array], weights: Sequence[Array] | None, rate: float,
         chunk_words: int, update: UpdateOperation, fmt: Format) -> list[Array]:
    """All members, in step: each takes what the one before has sent."""
    flat = _check(sources, chunk_words, fmt)
    if weights is None and update != UpdateOperation.NONE:
        raise ValueError(f"Update {update} needs weights, not None")
    before = [np.zeros_like(a) for a in flat] if weights is None else _check(weights, chunk_words, fmt)
    if len(before) != len(flat) or before[0].size != flat[0].size:
        raise ValueError("weights must have the same members and words as gradients")
    results = [old.copy() for old in before]
    words = word_type(fmt)
    ring = [member(operation, index, len(flat), source.view(words), target.view(words), factor_word(fmt, rate),
                   chunk_words, update, fmt) for index, (source, target) in enumerate(zip(flat, results, strict=True))]
    sent = [resume(member, None) for member in ring]
    while sent[0] is not None:
        sent = [resume(member, words) for member, words in zip(ring, sent[-1:] + sent[:-1], strict=True)]
    return results


def reduce_scatter(gradients: Sequence[Array], weights: Sequence[Array] | None, rate: float,
                   chunk_words: int, update: UpdateOperation = UpdateOperation.NONE, fmt: Format = FP32
                   ) -> list[Array]:
    """Destination of every member after REDUCE_SCATTER.

    ``weights`` holds each member's destination before the operation (for SGD its weights; None: zeros,
    not for SGD). Words that a member does not own keep that value.

    Raises
    ------
    TypeError
        If an array is not of the format's numbers: float32, or int16 of fixed point.
    ValueError
        If sizes differ, or SGD has no weights.
    """
    return _run(CollectiveOperation.REDUCE_SCATTER, gradients, weights, rate, chunk_words, update, fmt)


def all_gather(sources: Sequence[Array], chunk_words: int, fmt: Format = FP32) -> list[Array]:
    """Destination of every member after ALL_GATHER: word by word the owner's source."""
    return _run(CollectiveOperation.ALL_GATHER, sources, None, 0.0, chunk_words, UpdateOperation.NONE, fmt)


def all_reduce(gradients: Sequence[Array], weights: Sequence[Array] | None, rate: float,
               chunk_words: int, update: UpdateOperation = UpdateOperation.NONE, fmt: Format = FP32) -> list[Array]:
    """Destination of every member after ALL_REDUCE: reduce-scatter with update, then all-gather."""
    return _run(CollectiveOperation.ALL_REDUCE, gradients, weights, rate, chunk_words, update, fmt)
