"""Splits of the elements of Winograd tiles: who sends what to whom, counted by what each die has, one by one."""

import random
from itertools import product

import numpy as np
import pytest

from plinth.network.winograd import with_tiles
from plinth.network.zoo import NETWORKS
from plinth.partition import exchanges, regions
from plinth.partition.graph import SPLITS, from_network
from plinth.partition.groups import RING


def owned(size: int, digits: list[tuple[int, int]]) -> set[int]:
    """What is left of a range after it is cut in parts, one digit after the other."""
    indices = np.arange(size)
    for digit, parts in digits:
        indices = np.array_split(indices, parts)[digit]
    return set(indices.tolist())


class Ownership:
    """Of a layer: what every die has, by its digits alone."""

    def __init__(self, node, vector, factors, batch) -> None:
        self.dies = list(product(*(range(factor) for factor in factors)))
        levels = {split: [level for level, level_split in enumerate(vector) if level_split == split]
                  for split in SPLITS}

        def had(size: int, *splits: str) -> list[set[int]]:
            return [owned(size, [(die[level], factors[level]) for split in splits for level in levels[split]])
                    for die in self.dies]

        self.samples, self.cluster_samples = had(batch, "dp", "ep"), had(batch, "dp")
        self.elements = had(node.tiling.elements, "ep")
        self.inputs, self.outputs = had(node.input_channels, "mp"), had(node.output_channels, "op")
        #: Dies of a cluster have all digits but those of elements in common.
        self.cluster = [tuple(digit for level, digit in enumerate(die) if level not in levels["ep"])
                        for die in self.dies]

    def scattered(self, channels: list[set[int]], tiles: int) -> np.ndarray:
        """Words that die s (row) sends to die t."""
        words = np.zeros((len(self.dies),) * 2, dtype=int)
        for s, t in np.ndindex(words.shape):
            if s != t and self.cluster[s] == self.cluster[t]:
                words[s, t] = len(self.samples[s]) * len(self.elements[t]) * len(channels[s]) * tiles
        return words


@pytest.mark.parametrize("seed", range(40))
def test_every_sender_receiver_and_word_follows_from_ownership(seed: int) -> None:
    rng = random.Random(seed)
    network = with_tiles(NETWORKS["digits-cnn"], rng.choice((2, 4)), rng.choice(("spatial", "winograd")))
    graph, factors = from_network(network), rng.choice(((2,), (2, 2), (3,), (2, 2, 2), (3, 2), (2, 3), (2, 2, 2, 2)))
    splits = tuple(tuple(rng.choice(graph.choices(number)) for _ in factors) for number in range(len(graph.nodes)))
    batch = rng.choice((8, 16, 7, 12, 3))
    here = regions.layouts(graph, splits, (), factors)
    counted = {}
    for exchange in exchanges.exchanges(graph, here, factors):
        words = exchanges.words(exchange, batch, factors)
        assert words.sum() == exchanges.exchange_words(exchange, batch, factors)
        if exchange.kind in ("scatter", "gather", "bias"):
            counted[exchange.layer, exchange.phase, exchange.kind] = words
    expected = {}
    for number, (node, vector) in enumerate(zip(graph.nodes, splits, strict=True)):
        if node.tiling is None or "ep" not in vector:
            continue
        own = Ownership(node, vector, factors, batch)
        tiles = node.tiling.positions
        ins, outs = own.scattered(own.inputs, tiles), own.scattered(own.outputs, tiles)
        (side, _), gathered = node.tiling.form.sides, outs.T
        if len(own.elements[0]) % side == 0 and len({len(some) for some in own.elements}) == 1:
            # Whole columns, of which as many words as outputs go back.
            gathered = gathered // side * node.tiling.outputs
        expected |= {(node.name, "fprop", "scatter"): ins, (node.name, "fprop", "gather"): gathered,
                     (node.name, "bprop", "scatter"): outs}
        if graph.inputs[number]:
            expected[node.name, "bprop", "gather"] = ins.T
        if node.free:
            rows = [[len(own.outputs[s]) if s != t and own.cluster[s] == own.cluster[t] else 0
                     for t in range(len(own.dies))] for s in range(len(own.dies))]
            expected[node.name, "bprop", "bias"] = np.array(rows)
    assert counted.keys() == expected.keys()
    for key, words in expected.items():
        assert (counted[key] == words).all(), key


def test_rings_of_tiles_are_those_of_equal_elements_and_of_kernels_all() -> None:
    for weights, members, words in (("winograd", (0, 2), 4 * 4 // 2 * 8 + 8), ("spatial", (0, 1, 2, 3), 9 * 8 + 8)):
        graph = from_network(with_tiles(NETWORKS["digits-cnn"], 2, weights))
        splits = tuple(("dp", "ep") if node.tiling else ("dp", "dp") for node in graph.nodes)
        node, here = graph.nodes[0], regions.layouts(graph, splits, (), (2, 2))[0]
        ring = next(message for message in regions.ring_messages(node, here, (2, 2), here.groups(RING, (2, 2)))
                    if 0 in message.members)
        assert (ring.members, ring.words) == (members, words)
