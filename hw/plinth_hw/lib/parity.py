"""Parities of many sets of the same bits, with what they have in common said once."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from amaranth.hdl import Module, Signal, Value


@cache
def shared(rows: tuple[frozenset[int], ...], bits: int) -> tuple[list[tuple[int, int]], list[list[int]]]:
    """Pairs of terms to add, each of which is a further term (``bits``, ``bits`` + 1, ...), and the terms that are left
    of each row. Of all pairs the one that most rows have goes first, as long as two rows have it (C. Paar, 1997)."""
    table = np.zeros((len(rows), bits), dtype=np.int32)
    for number, row in enumerate(rows):
        table[number, sorted(row)] = 1
    pairs: list[tuple[int, int]] = []
    common = np.triu(table.T @ table, 1)
    while common.size and common.max() > 1:
        one, other = (int(place) for place in np.unravel_index(int(common.argmax()), common.shape))
        both = table[:, one] & table[:, other]
        table[:, one] -= both
        table[:, other] -= both
        table = np.column_stack([table, both])
        pairs.append((one, other))
        grown = np.zeros((len(common) + 1, len(common) + 1), dtype=np.int32)
        grown[:-1, :-1] = common
        for place in (one, other, len(common)):
            with_place = table.T @ table[:, place]
            grown[place, place + 1:] = with_place[place + 1:]
            grown[:place, place] = with_place[:place]
        common = grown
    return pairs, [np.flatnonzero(row).tolist() for row in table]


def parities(m: Module, name: str, word: Value, rows: Sequence[frozenset[int]]) -> list[Value]:
    """For each row the XOR of its bits of ``word``, at least one. The 24 rows of a CRC of 139 bits take six tenths of
    the look-up tables that they take by themselves."""
    pairs, left = shared(tuple(rows), len(word))
    terms: list[Value] = [word[bit] for bit in range(len(word))]
    for number, (one, other) in enumerate(pairs):
        term = Signal(name=f"{name}_{number}")
        m.d.comb += term.eq(terms[one] ^ terms[other])
        terms.append(term)
    found = []
    for row in left:
        total = terms[row[0]]
        for place in row[1:]:
            total = total ^ terms[place]
        found.append(total)
    return found
