"""Moves of rows between parts, with exact differences in words.

A layer is seen between owners of its columns and owners of the next layer's rows, both fixed. Its rows are in units
that move together. With n(Q, p) the units of part p that read column Q, and o(Q, p) 1 for the owner of Q, moving unit u
from p to q changes the words of one direction by

    sum over Q of u of [n(Q, q) = 0] (1 - o(Q, q)) - [n(Q, p) = 1] (1 - o(Q, p))     columns of this layer
    + sum over rows i of u of [p reads i] - [q reads i]                              columns of the next one

where "reads" is said of the next layer. Columns with the same readers are one with a multiplicity m in place of 1, and
o counts the owners among them. :class:`LayerMoves` keeps these sums for every unit and part, and brings them up to date
after each move; a move costs what the unit's columns have readers.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from plinth.network.sparse.matrices import identical_rows
from plinth.partition.hypergraph.owners import Integers, Pattern, Reals, longest_first, readers, row_weights

#: Passes over all units in which they may change parts; a temperature, in words, at which only equal choices are drawn
#: by lot.
PASSES, COLD = 12, 0.01
#: Moves after which estimates of what comes in exchange are made anew.
REFRESHED = 32


@dataclass(frozen=True, eq=False)
class Surroundings:
    """The parts of the layers before and behind, between which a layer's rows are placed.

    Parameters
    ----------
    pattern : csr_array
        The layer.
    columns : array of int or None
        Owner of each column; None in layer 1, whose columns are with one of their readers.
    following : csr_array or None
        The next layer; None for the last one, or if it is not to count.
    following_rows : array of int or None
        Owner of each row of the next layer.
    limits : array of float
        Most that each part may weigh.
    """

    pattern: Pattern
    columns: Integers | None
    following: Pattern | None
    following_rows: Integers | None
    limits: Reals


class LayerMoves:
    """Units of a layer's rows, their parts, and what moves between parts would change.

    Parameters
    ----------
    around : Surroundings
        The layer and what it is placed between.
    units : array of int
        The unit of each row, from 0; rows of a unit have the same columns.
    parts : array of int
        The part of each unit; -1 for a unit that has none yet.

    Attributes
    ----------
    parts : array of int
        The part of each unit.
    loads : array of int
        Nonzeros of each part.
    weights : array of int
        Nonzeros of each unit.
    change : int
        Words of one direction that all moves so far have added.
    """

    def __init__(self, around: Surroundings, units: Integers, parts: Integers) -> None:
        pattern, count, self.limits = around.pattern, int(units.max()) + 1, around.limits
        width = len(self.limits)
        self.weights = np.bincount(units, weights=row_weights(pattern), minlength=count).astype(np.int64)
        first = np.unique(units, return_index=True)[1]
        by_column = csr_array(csr_array(pattern[first]).T)
        by_column.sort_indices()
        # Columns with the same readers are one.
        same = identical_rows(by_column)
        readers_of = csr_array(by_column[np.unique(same, return_index=True)[1]])
        kinds = readers_of.shape[0]
        size = np.bincount(same, minlength=kinds)
        # What it costs that a part reads a column which does not read it yet.
        self._cost: Reals = np.repeat(size[:, None], width, axis=1).astype(np.float64)
        if around.columns is not None:
            self._cost -= np.bincount(same * width + around.columns, minlength=kinds * width).reshape(kinds, width)
        self._starts, self._readers = readers_of.indptr.astype(np.int64), readers_of.indices.astype(np.int64)
        of_units = csr_array(readers_of.T)
        self._unit_starts, self._columns = of_units.indptr.astype(np.int64), of_units.indices.astype(np.int64)
        self.parts, self.change = parts.copy(), 0
        placed = np.flatnonzero(parts >= 0)
        self.loads = np.bincount(parts[placed], weights=self.weights[placed], minlength=width).astype(np.int64)
        pin = parts[self._readers]
        kind = np.repeat(np.arange(kinds), np.diff(self._starts))
        self._count = np.bincount((kind * width + pin)[pin >= 0], minlength=kinds * width).reshape(kinds, width)
        # What entering a part costs a unit: columns that the part does not read, rows that it does not read next.
        incidence = csr_array((np.ones(len(self._columns)), self._columns, self._unit_starts),
                              shape=(count, kinds))
        self.entry: Reals = incidence @ np.where(self._count == 0, self._cost, 0)
        if around.following is not None and around.following_rows is not None:
            silent = ~readers(around.following, around.following_rows, width)
            members = csr_array((np.ones(len(units)), (units, np.arange(len(units)))), shape=(count, len(units)))
            self._silent: Reals = members @ silent.astype(np.float64)
            self.entry += self._silent
        else:
            self._silent = np.zeros((count, width))
        # What leaving its part spares a unit: columns that no other unit of the part reads, rows not read there next.
        alone = (pin >= 0) & (self._count[kind, pin] == 1)
        self.spared: Reals = np.bincount(self._readers[alone], weights=self._cost[kind, pin][alone],
                                         minlength=count).astype(np.float64)
        self.spared[placed] += self._silent[placed, parts[placed]]

    def differences(self, unit: int) -> Reals:
        """Words that a move of a unit to each part would add; of its own part 0."""
        added: Reals = self.entry[unit] - self.spared[unit]
        if self.parts[unit] >= 0:
            added[self.parts[unit]] = 0
        return added

    def all_differences(self) -> Reals:
        """Words that a move of each unit to each part would add, units x parts; to its own part 0."""
        added: Reals = self.entry - self.spared[:, None]
        placed = np.flatnonzero(self.parts >= 0)
        added[placed, self.parts[placed]] = 0
        return added

    def move(self, unit: int, to: int) -> int:
        """Move a unit to another part, or give one that has none its first; returns the words that it adds."""
        came_from, added = int(self.parts[unit]), int(self.entry[unit, to] - self.spared[unit])
        columns = self._columns[self._unit_starts[unit]:self._unit_starts[unit + 1]]
        if came_from >= 0:
            self._leave(unit, columns, came_from)
        self._enter(unit, columns, to)
        self.change += added
        return added

    def _leave(self, unit: int, columns: Integers, part: int) -> None:
        left = self._count[columns, part] - 1
        self._count[columns, part] = left
        self.parts[unit] = -1
        self.loads[part] -= self.weights[unit]
        gone, one = columns[left == 0], columns[left == 1]
        if len(gone):
            pins, cost = self._pins(gone, part)
            self.entry[:, part] += np.bincount(pins, cost, len(self.entry))
        if len(one):
            pins, cost = self._pins(one, part)
            own = self.parts[pins] == part
            self.spared += np.bincount(pins[own], cost[own], len(self.spared))
        self.spared[unit] = 0

    def _enter(self, unit: int, columns: Integers, part: int) -> None:
        before = self._count[columns, part]
        new, one = columns[before == 0], columns[before == 1]
        if len(one):
            pins, cost = self._pins(one, part)
            own = self.parts[pins] == part
            self.spared -= np.bincount(pins[own], cost[own], len(self.spared))
        if len(new):
            pins, cost = self._pins(new, part)
            self.entry[:, part] -= np.bincount(pins, cost, len(self.entry))
        self._count[columns, part] = before + 1
        self.parts[unit] = part
        self.loads[part] += self.weights[unit]
        self.spared[unit] = self._cost[new, part].sum() + self._silent[unit, part]

    def _pins(self, columns: Integers, part: int) -> tuple[Integers, Reals]:
        """Units that read some columns, a unit for each reading, and what the column costs in a part."""
        starts = self._starts[columns]
        lengths = self._starts[columns + 1] - starts
        ends = np.cumsum(lengths)
        places = np.arange(ends[-1]) + np.repeat(starts - ends + lengths, lengths)
        return self._readers[places], np.repeat(self._cost[columns, part], lengths)


def anneal(moves: LayerMoves, temperature: float, rng: np.random.Generator) -> None:
    """Let each unit choose a part once, in random order, by the Boltzmann law at a temperature in words; where the part
    has no room, a unit of it comes in exchange. No part gets heavier than its limit.

    At low temperatures only moves that spare words are left, and such as change nothing.
    """
    limits, weights = moves.limits, moves.weights
    noise = temperature * rng.gumbel(size=moves.entry.shape)
    bounds = temperature * rng.exponential(size=len(weights))
    returns = _returns(moves)
    wanted = np.argmin(_with_exchanges(moves, returns) - noise, axis=1)
    since = 0
    for unit in rng.permutation(np.flatnonzero(wanted != moves.parts)).tolist():
        part = int(moves.parts[unit])
        tight = moves.loads + weights[unit] > limits
        tight[part] = False
        # What comes in exchange is estimated, then counted.
        to = int(np.argmin(moves.differences(unit) + np.where(tight, returns[:, part], 0) - noise[unit]))
        if to == part:
            continue
        first = moves.move(unit, to)
        since += 1
        if tight[to] and not _exchange(moves, unit, part, to, first, bounds[unit], noise):
            moves.move(unit, part)
        elif since >= REFRESHED:
            returns, since = _returns(moves), 0


def _exchange(moves: LayerMoves, unit: int, part: int, to: int, first: int, bound: float, noise: Reals) -> bool:
    """Whether a unit of the part that another one has moved to comes back in exchange: if there is room, and both moves
    add no more words than a bound."""
    others = np.flatnonzero(moves.parts == to)
    weights, room = moves.weights[others], moves.limits - moves.loads
    others = others[(others != unit) & (weights <= room[part]) & (weights >= -room[to])]
    if not len(others):
        return False
    other = int(others[np.argmin(moves.entry[others, part] - moves.spared[others] - noise[others, part])])
    if first + moves.move(other, part) <= bound:
        return True
    moves.move(other, to)
    return False


def _returns(moves: LayerMoves) -> Reals:
    """Words that the cheapest move of a unit of each part to each other one would add; parts x parts."""
    order = np.argsort(moves.parts, kind="stable")
    held = np.unique(moves.parts)
    least = np.full((len(moves.limits), len(moves.limits)), np.inf)
    least[held] = np.minimum.reduceat(moves.all_differences()[order], np.searchsorted(moves.parts[order], held), axis=0)
    return least


def _with_exchanges(moves: LayerMoves, returns: Reals) -> Reals:
    """Words that a move of each unit to each part would add, with the cheapest unit that comes in exchange where the
    part has no room; units x parts."""
    tight = moves.loads + moves.weights[:, None] > moves.limits
    tight[np.arange(len(tight)), moves.parts] = False
    return moves.all_differences() + np.where(tight, returns.T[moves.parts], 0)


def mend(moves: LayerMoves) -> bool:
    """Move units out of parts that are too heavy, and in exchange lighter ones into them, those first that add the
    fewest words for what they spare in weight; returns whether all parts are within their limits."""
    while (over := np.flatnonzero(moves.loads > moves.limits)).size:
        heavy = int(over[np.argmax(moves.loads[over] - moves.limits[over])])
        units = np.flatnonzero((moves.parts == heavy) & (moves.weights > 0))
        others = np.flatnonzero(moves.parts != heavy)
        added, weights, room = moves.all_differences(), moves.weights, moves.limits - moves.loads
        alone = np.where(weights[units, None] <= room, added[units] / weights[units, None], np.inf)
        lighter = weights[units, None] - weights[others]
        both = added[units[:, None], moves.parts[others]] + added[others, heavy]
        exchanged = np.where((lighter > 0) & (lighter <= room[moves.parts[others]]), both / np.maximum(lighter, 1),
                             np.inf)
        least = min(alone.min(initial=np.inf), exchanged.min(initial=np.inf))
        if least == np.inf:
            return False
        if alone.min(initial=np.inf) == least:
            unit, to = divmod(int(np.argmin(alone)), len(room))
            moves.move(int(units[unit]), to)
        else:
            unit, other = divmod(int(np.argmin(exchanged)), len(others))
            to = int(moves.parts[others[other]])
            moves.move(int(units[unit]), to)
            moves.move(int(others[other]), heavy)
    return True


def within(around: Surroundings, units: Integers, parts: Integers, targets: Reals) -> Integers:
    """Owners of a layer's rows by the parts of their units, mended where a part is too heavy: units move, then rows;
    if that is not enough, rows are dealt out anew, longest first, and change places as long as that spares words."""
    moves = LayerMoves(around, units, parts)
    if mend(moves):
        return moves.parts[units]
    single = np.arange(len(units))
    moves = LayerMoves(around, single, moves.parts[units])
    if mend(moves):
        return moves.parts
    moves = LayerMoves(around, single, longest_first(row_weights(around.pattern), targets))
    improve(moves, np.random.default_rng(0))
    return moves.parts


def improve(moves: LayerMoves, rng: np.random.Generator) -> None:
    """Let units change parts and places as long as that spares words, :data:`PASSES` times at most."""
    for _ in range(PASSES):
        before = moves.change
        anneal(moves, COLD, rng)
        if moves.change >= before:
            break
