"""Count the words and messages that processors send under a partition, and the balance of their work.

A column's value goes from its owner to each other part that reads it (fprop), and one partial sum comes back from each
of them (bprop). With lambda the number of distinct parts among readers and owner, a column costs lambda - 1 words in
each direction. A message is what one processor sends another one of a layer's columns, in one direction.

Inputs of the network have no layer before them. They are placed with one of their readers
(:func:`plinth.partition.hypergraph.owners.place_inputs`); which words of layer 1 count is said by the caller:

    "both"   both directions, as if the inputs were a layer's outputs: the paper's Vol(k), for every k
    "fprop"  one direction: nobody needs the error of an input
    "none"   none: inputs are read where they are needed
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from plinth.errors import UserError
from plinth.partition.hypergraph.owners import Integers, Pattern, Reals, SparsePartition, readers

#: Counting rules for the columns of layer 1.
FIRST_LAYER = ("both", "fprop", "none")
_ANOTHER = "it is of another network: partition this one"


@dataclass(frozen=True, eq=False)
class LayerTraffic:
    """What one layer makes processors send for one input vector.

    Parameters
    ----------
    fprop, bprop : array of int, parts x parts
        Words from a sender (row) to a receiver (column).
    loads : array of int
        Nonzeros of each part.
    columns : int
        Columns of the layer.
    """

    fprop: Integers
    bprop: Integers
    loads: Integers
    columns: int

    @property
    def words(self) -> int:
        """Words in both directions: the sum over columns of 2 (lambda - 1)."""
        return int(self.fprop.sum() + self.bprop.sum())

    @property
    def sent(self) -> Integers:
        """Words that each processor sends, in both directions."""
        return self.fprop.sum(axis=1) + self.bprop.sum(axis=1)

    @property
    def messages(self) -> Integers:
        """Messages that each processor sends, in both directions."""
        return np.count_nonzero(self.fprop, axis=1) + np.count_nonzero(self.bprop, axis=1)

    def balance(self, targets: Reals | None = None) -> float:
        """Largest ratio of a part's nonzeros to its share of them, without targets an even one; 1 if there are none."""
        return _balance(self.loads, targets)


@dataclass(frozen=True, eq=False)
class PartitionTraffic:
    """Words, messages and work of processors for one input vector under a partition, layer by layer."""

    layers: tuple[LayerTraffic, ...]

    @property
    def words(self) -> int:
        """Words of all layers in both directions."""
        return sum(layer.words for layer in self.layers)

    @property
    def volume(self) -> float:
        """Mean over the columns of all layers of lambda - 1: words of one direction a column."""
        return self.words / 2 / sum(layer.columns for layer in self.layers)

    @property
    def sent(self) -> Integers:
        """Words that each processor sends: their mean and largest are Volume of the paper's Table 1."""
        return np.sum([layer.sent for layer in self.layers], axis=0)

    @property
    def messages(self) -> Integers:
        """Messages that each processor sends: their mean and largest are Messages of the paper's Table 1."""
        return np.sum([layer.messages for layer in self.layers], axis=0)

    @property
    def loads(self) -> Integers:
        """Nonzeros of each processor, of all layers: largest over mean is imb of the paper's Table 1."""
        return np.sum([layer.loads for layer in self.layers], axis=0)

    def balance(self, targets: Reals | None = None) -> float:
        """The worst layer's balance: processors wait for each other in every layer."""
        return max(layer.balance(targets) for layer in self.layers)

    def table(self) -> dict[str, float]:
        """The columns of the paper's Table 1: words and messages sent by a processor, mean and largest, and the
        imbalance of all work; beside them the imbalance of the worst layer."""
        sent, messages = self.sent, self.messages
        return {"volume_avg": float(sent.mean()), "volume_max": float(sent.max()),
                "messages_avg": float(messages.mean()), "messages_max": float(messages.max()),
                "imbalance": _balance(self.loads, None), "imbalance_layer": self.balance()}


def layer_traffic(pattern: Pattern, columns: Integers, rows: Integers, parts: int) -> LayerTraffic:
    """What one layer makes processors send, with both directions counted.

    Parameters
    ----------
    pattern : csr_array
        Outputs x inputs.
    columns, rows : array of int
        Owner of each column and of each row.
    parts : int
        Processors.
    """
    reads = readers(pattern, rows, parts)
    reads[np.arange(len(columns)), columns] = False
    column, receiver = np.nonzero(reads)
    words = np.bincount(columns[column] * parts + receiver, minlength=parts * parts).reshape(parts, parts)
    loads = np.bincount(rows, weights=np.diff(pattern.indptr), minlength=parts).astype(np.int64)
    return LayerTraffic(words, words.T, loads, len(columns))


def traffic(patterns: Iterable[Pattern], partition: SparsePartition, first_layer: str = "both") -> PartitionTraffic:
    """Count the words, messages and work of processors for one input vector under a partition.

    Parameters
    ----------
    patterns : iterable of csr_array
        The layers that were partitioned; they are looked at one at a time.
    partition : SparsePartition
        Owners of their rows.
    first_layer : str
        Counting rule for the columns of layer 1: one of :data:`FIRST_LAYER`.

    Raises
    ------
    UserError
        If the rule is unknown, or the partition is of another network: it has other numbers of layers, rows or columns.
    """
    if first_layer not in FIRST_LAYER:
        raise UserError(f"counting rule {first_layer!r} for layer 1 is unknown; give one of {', '.join(FIRST_LAYER)}")
    layers = [_checked_traffic(pattern, partition, layer) for layer, pattern in enumerate(patterns)]
    if len(layers) != len(partition.layers):
        raise UserError(f"the network has {len(layers)} layers, its partition {len(partition.layers)}; {_ANOTHER}")
    first = layers[0]
    silent = np.zeros_like(first.fprop)
    layers[0] = LayerTraffic(silent if first_layer == "none" else first.fprop,
                             first.bprop if first_layer == "both" else silent, first.loads, first.columns)
    return PartitionTraffic(tuple(layers))


def _checked_traffic(pattern: Pattern, partition: SparsePartition, layer: int) -> LayerTraffic:
    """What a layer makes processors send, if the partition has an owner for each of its rows and columns."""
    if layer < len(partition.layers):
        columns, rows = partition.columns(layer), partition.layers[layer]
        if (len(rows), len(columns)) == pattern.shape:
            return layer_traffic(pattern, columns, rows, partition.parts)
        owned = f"owners of {len(rows)} rows and {len(columns)} columns"
    else:
        owned = "none of its rows' owners"
    raise UserError(f"layer {layer + 1}: {pattern.shape[0]} rows and {pattern.shape[1]} columns, but the partition has "
                    f"{owned}; {_ANOTHER}")


def column_cost(pattern: Pattern, columns: Integers | None, rows: Integers, parts: int) -> int:
    """The sum over columns of lambda - 1, the words of one direction; without owners of columns each is with one of its
    readers."""
    reads = readers(pattern, rows, parts)
    if columns is not None:
        reads[np.arange(len(columns)), columns] = True
    return int(np.maximum(reads.sum(axis=1) - 1, 0).sum())


def _balance(loads: Integers, targets: Reals | None) -> float:
    ideal = loads.sum() * (np.full(len(loads), 1 / len(loads)) if targets is None else targets)
    return float((loads / ideal).max()) if loads.any() else 1.0
