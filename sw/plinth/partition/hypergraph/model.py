"""The hypergraph of one layer, whose cut is the words that the layer makes processors send.

The paper's phase (section 5): a vertex for each row, as heavy as its nonzeros; for each column a vertex of no weight,
fixed to the column's owner; a net for each column, of cost 2, with the rows that have a nonzero there and the column's
fixed vertex. A net that touches lambda parts costs 2 (lambda - 1), one word less than parts in each direction.

:func:`two_sided` sees the next layer, too: rows of this one are its columns. Their readers there are fixed, so that a
net for each row, with the row and its readers, counts the next layer's words exactly.

:meth:`Hypergraph.reduced` is the same problem in fewer vertices: one terminal a part in place of a fixed vertex a
column, nets with the same pins added up, nets that cannot be cut left out. :func:`contracted` joins rows.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from plinth.network.sparse.matrices import identical_rows
from plinth.partition.hypergraph.owners import Integers, Pattern, readers, row_weights

#: Words of a cut net a part: one for the value (fprop), one for its error (bprop).
NET_COST = 2


@dataclass(frozen=True, eq=False)
class Hypergraph:
    """Vertices with weights, some of them fixed to parts, and nets with costs.

    Parameters
    ----------
    weights : array of int
        Weight of each vertex.
    fixed : array of int
        For each vertex the part that it is fixed to, or -1.
    starts, pins : array of int
        Vertices of net n are ``pins[starts[n]:starts[n + 1]]``.
    costs : array of int
        Cost of each net for each part that it touches but one.
    parts : int
        Parts.
    """

    weights: Integers
    fixed: Integers
    starts: Integers
    pins: Integers
    costs: Integers
    parts: int

    def cut(self, parts: Integers) -> int:
        """The sum over nets of cost x (lambda - 1), of a part for each vertex."""
        touched = np.zeros((len(self.costs), self.parts), dtype=np.bool_)
        touched[np.repeat(np.arange(len(self.costs)), np.diff(self.starts)), parts[self.pins]] = True
        return int((self.costs * np.maximum(touched.sum(axis=1) - 1, 0)).sum())

    def reduced(self) -> "Hypergraph":
        """The same problem with one fixed vertex for each part that has any, behind the free vertices, which keep
        their order; nets of the same pins are one, nets of one pin none. Its cut is smaller by a constant, what nets
        of fixed vertices alone cost."""
        free = self.fixed < 0
        count = int(free.sum())
        held = np.unique(self.fixed[~free])
        names = np.empty(len(self.fixed), dtype=np.int64)
        names[free] = np.arange(count)
        names[~free] = count + np.searchsorted(held, self.fixed[~free])
        incidence = _incidence(self, names, count + len(held))
        cuttable = np.diff(incidence.indptr) > 1
        cuttable &= np.bincount(np.repeat(np.arange(len(self.costs)), np.diff(incidence.indptr)),
                                weights=incidence.indices < count, minlength=len(self.costs)) > 0
        incidence = csr_array(incidence[np.flatnonzero(cuttable)])
        groups = identical_rows(incidence)
        first = np.unique(groups, return_index=True)[1]
        nets = csr_array(incidence[first])
        weights = np.concatenate([self.weights[free], np.bincount(
            names[~free] - count, weights=self.weights[~free], minlength=len(held)).astype(np.int64)])
        return Hypergraph(weights, np.concatenate([np.full(count, -1), held]), nets.indptr.astype(np.int64),
                          nets.indices.astype(np.int64), _added(groups, self.costs[cuttable], len(first)), self.parts)


def phase(pattern: Pattern, columns: Integers | None, parts: int) -> Hypergraph:
    """The paper's hypergraph of a layer: vertices are its rows, then, fixed, its columns.

    Parameters
    ----------
    pattern : csr_array
        Outputs x inputs.
    columns : array of int or None
        Owner of each column; None in layer 1, whose columns follow the rows: it has no fixed vertices.
    parts : int
        Parts.
    """
    rows, count = pattern.shape
    by_column = pattern.tocsc()
    starts, pins = by_column.indptr.astype(np.int64), by_column.indices.astype(np.int64)
    weights, fixed = row_weights(pattern), np.full(rows, -1)
    if columns is not None:
        pins = np.insert(pins, starts[1:], rows + np.arange(count))
        starts = starts + np.arange(count + 1)
        weights = np.concatenate([weights, np.zeros(count, dtype=np.int64)])
        fixed = np.concatenate([fixed, columns])
    return Hypergraph(weights, fixed, starts, pins, np.full(count, NET_COST), parts)


def two_sided(pattern: Pattern, columns: Integers | None, following: Pattern | None, following_rows: Integers | None,
              parts: int) -> Hypergraph:
    """The hypergraph of a layer between owners of its columns and owners of the next layer's rows: its cut is the words
    of both layers.

    Parameters
    ----------
    pattern, columns, parts
        As for :func:`phase`.
    following, following_rows : csr_array and array of int, or None
        The next layer and the owners of its rows; None for the last layer, and both are left out.
    """
    graph = phase(pattern, columns, parts)
    if following is None or following_rows is None:
        return graph
    rows, reader = np.nonzero(readers(following, following_rows, parts))
    # Terminals of the parts stand behind all other vertices.
    first = len(graph.weights)
    count = np.bincount(rows, minlength=pattern.shape[0])
    ends = np.cumsum(count)
    pins = np.insert(first + reader, ends - count, np.arange(len(count)))
    starts = np.concatenate([[0], ends + np.arange(1, len(count) + 1)])
    return Hypergraph(np.concatenate([graph.weights, np.zeros(parts, dtype=np.int64)]),
                      np.concatenate([graph.fixed, np.arange(parts)]),
                      np.concatenate([graph.starts, graph.starts[-1] + starts[1:]]),
                      np.concatenate([graph.pins, pins]),
                      np.concatenate([graph.costs, np.full(len(count), NET_COST)]), parts)


def contracted(graph: Hypergraph, groups: Integers) -> Hypergraph:
    """The hypergraph with one vertex in place of each group of free vertices.

    Parameters
    ----------
    graph : Hypergraph
        Free vertices first.
    groups : array of int
        The group of each free vertex, from 0.
    """
    count = int(groups.max()) + 1
    names = np.concatenate([groups, count + np.arange(len(graph.weights) - len(groups))])
    incidence = _incidence(graph, names, int(names.max()) + 1)
    fixed = np.concatenate([np.full(count, -1), graph.fixed[len(groups):]])
    return Hypergraph(_added(names, graph.weights, len(fixed)), fixed, incidence.indptr.astype(np.int64),
                      incidence.indices.astype(np.int64), graph.costs, graph.parts)


def _incidence(graph: Hypergraph, names: Integers, count: int) -> Pattern:
    """Nets x vertices, of so many that have new names; each pin once."""
    # Sums are made in place: starts are copied.
    incidence = csr_array((np.ones(len(graph.pins), dtype=np.int64), names[graph.pins], graph.starts.copy()),
                          shape=(len(graph.costs), count))
    incidence.sum_duplicates()
    return incidence


def _added(groups: Integers, values: Integers, count: int) -> Integers:
    return np.bincount(groups, weights=values, minlength=count).astype(np.int64)
