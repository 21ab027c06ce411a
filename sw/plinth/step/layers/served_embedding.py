"""Embeddings whose tables servers own: rows come from their owners, and sums of their errors go back; or of whose rows
all dies with copies gather the sums of errors from each other.

::

    pull    C = rows that the samples look up        transfer, of every owner, each row once
    gather  Z = C by row numbers                     transfer, on the worker
    ...
    scatter E += errors of Z by row numbers          transfer, on the worker: the sum of equal rows' errors
    push    slots = E                                transfer, to every owner
    sums    dT += slots, in the order of dies        transfer, on the owner, by the rows' numbers
    update  T = rule(dT)                             as of any other variable that one die has

Where every die has the whole table it owns all rows: it pulls them from itself alone, and pushes sums to all others.
Source: Parallax section 3.1 (parameter servers and AllGatherv for sparse variables); the order of sums is this
project's.
"""

from plinth.sharding import Gathered
from plinth.step.layers.embedding import EmbeddingLayer, RowGather
from plinth.step.lookups import AllRows, LookupCounts, LookupLists, Lookups, RowCache, RowSlots
from plinth.step.operations import Clear
from plinth.step.reductions import Reductions
from plinth.step.row_moves import RowPull, RowPush, RowSums
from plinth.step.tensors import Tensor
from plinth.step.weights import Matrix


class ServedEmbedding(EmbeddingLayer):
    """Builds the operations of an embedding whose rows move one by one."""

    def network_input(self, place: int) -> Tensor:
        step, node = self.step, self.node
        number = len(step.inputs)
        numbers = super(EmbeddingLayer, self).network_input(place)
        self.lookups = step.lookups[number] = Lookups(
            node.name, step.weights[node.name], numbers,
            step.sharding.touched_share(node.variables[0].qualified(node.name)),
            replicated=isinstance(step.sharding.row_sync(self.number), Gathered))
        self.lists = step.reserve(LookupLists(f"{node.name}.lists", self.lookups))
        step.reserve(LookupCounts(f"{node.name}.counts", step.dies))
        return numbers

    def multiply(self, x: Tensor, z: Tensor) -> None:
        step, node = self.step, self.node
        (self.planned,) = (reduction for reduction in step.sharding.reductions if reduction.layer == node.name)
        self.cache = step.reserve(RowCache(f"{node.name}.rows", self.lookups))
        self.sums = step.reserve(RowCache(f"{node.name}.row_errors", self.lookups))
        step.add(RowPull(self.planned, node, step.next_exchange(), self.lookups, self.lists, self.cache))
        step.add(RowGather(node, x, z, self.cache, False))
        step.add(Clear(f"{node.name}.rows.zero", node, step.parameters, AllRows(self.sums), step.any))
        step.add(Clear(f"{node.name}.zero", node, step.parameters, Matrix(step.gradients[node.name]), step.any))

    def differentiate(self, x: Tensor, z: Tensor, error: Tensor, reductions: Reductions) -> None:
        step, node, gradient = self.step, self.node, self.step.gradients[self.node.name]
        slots = step.reserve(RowSlots(f"{node.name}.slots", self.lookups))
        step.add(RowGather(node, x, error, self.sums, True))
        step.add(RowPush(self.planned, node, step.next_exchange(), self.lookups, self.sums, slots))
        step.add(RowSums(node, self.lookups, self.lists, self.sums, slots, gradient))
        for piece in reductions.pieces(self.number):
            reductions.add(self.number, piece)
