"""Cells of Table 1: a network on so many processors, partitioned (H) and with rows dealt out at random (R)."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from plinth.network.sparse.radix_net import RadixNet
from plinth.partition.hypergraph.volume import PartitionTraffic, traffic
from plinth.reproduce.paper import paper
from plinth.reproduce.sparse_dnn.partitions import patterns, stored

SPARSE_DNN = paper("sparse-dnn")
#: Layers of the networks that the paper trains, and its numbers of processors.
LAYERS, PROCESSORS = 120, (32, 64, 128, 256, 512)
#: How H is partitioned, and the seed of all permutations and of R.
HOW, SEED = "structured", 0


@dataclass(frozen=True)
class SentAmounts:
    """What a partition makes a processor send for one input vector: words and messages, mean and largest over
    processors, of all layers and both directions; largest over mean work, of all layers and of the worst one; the same
    words and messages without those of layer 1."""

    vol_avg: float
    vol_max: float
    msg_avg: float
    msg_max: float
    imb: float
    imb_layer: float
    later_vol_avg: float
    later_msg_avg: float

    @classmethod
    def of(cls, found: PartitionTraffic) -> "SentAmounts":
        """Amounts of a partition, from the traffic of all its layers."""
        later = replace(found, layers=found.layers[1:])
        # One layer has none behind it.
        sent, messages = (later.sent, later.messages) if later.layers else (np.zeros(1), np.zeros(1))
        table = found.table()
        return cls(table["volume_avg"], table["volume_max"], table["messages_avg"], table["messages_max"],
                   table["imbalance"], table["imbalance_layer"], float(sent.mean()), float(messages.mean()))


@dataclass(frozen=True)
class Cell:
    """A network on so many processors; ``seconds`` is what partitioning took, when it was done, ``notes`` say which
    layers' rows do not allow the balance that is asked for."""

    h: SentAmounts
    r: SentAmounts
    seconds: float
    notes: tuple[str, ...] = ()

    def ratio(self, what: str) -> float:
        """H over R, of ``vol_avg`` and so on."""
        return float(getattr(self.h, what) / getattr(self.r, what))


@lru_cache(maxsize=64)
def cell(neurons: int, parts: int, layers: int = LAYERS) -> Cell:
    """Both partitions and what they send.

    Raises
    ------
    UserError
        If there are more parts than rows, or the cache cannot be written.
    """
    network = RadixNet(neurons=neurons, layers=layers, seed=SEED)
    found = {how: stored(network, parts, how, SEED) for how in (HOW, "random")}
    h, r = (SentAmounts.of(traffic(patterns(network), each.partition)) for each in found.values())
    return Cell(h, r, found[HOW].seconds, found[HOW].partition.notes)
