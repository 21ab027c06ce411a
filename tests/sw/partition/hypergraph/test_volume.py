"""Words, messages and balance, counted anew with sets."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.support.sparse_patterns import random_net

from plinth.errors import UserError
from plinth.partition.hypergraph.owners import Pattern, SparsePartition, place_inputs
from plinth.partition.hypergraph.volume import FIRST_LAYER, column_cost, traffic


def counted(patterns: list[Pattern], partition: SparsePartition, first_layer: str
            ) -> tuple[list[dict[tuple[int, int], int]], list[dict[tuple[int, int], int]]]:
    """Words by (sender, receiver) of each layer, forward and back, column by column."""
    forward, back = [], []
    for layer, pattern in enumerate(patterns):
        dense, owners = pattern.toarray(), partition.layers[layer]
        columns = partition.inputs if layer == 0 else partition.layers[layer - 1]
        fprop: dict[tuple[int, int], int] = {}
        bprop: dict[tuple[int, int], int] = {}
        for column in range(dense.shape[1]):
            reading = {int(owners[row]) for row in range(dense.shape[0]) if dense[row, column]}
            for reader in reading - {int(columns[column])}:
                there, home = (int(columns[column]), reader), (reader, int(columns[column]))
                if layer or first_layer != "none":
                    fprop[there] = fprop.get(there, 0) + 1
                if layer or first_layer == "both":
                    bprop[home] = bprop.get(home, 0) + 1
        forward.append(fprop)
        back.append(bprop)
    return forward, back


def networks(count: int, seed: int) -> list[tuple[list[Pattern], SparsePartition]]:
    """Small networks with random owners; some parts own nothing, some rows and columns are empty."""
    rng = np.random.default_rng(seed)
    cases = []
    for _ in range(count):
        sizes = rng.integers(5, 30, size=rng.integers(2, 6)).tolist()
        parts = int(rng.integers(1, 6))
        layers = tuple(rng.integers(parts, size=rows) for rows in sizes[1:])
        cases.append((random_net(rng, sizes, rng.uniform(0.05, 0.5)),
                      SparsePartition(parts, rng.integers(parts, size=sizes[0]), layers)))
    return cases


@pytest.mark.parametrize("first_layer", FIRST_LAYER)
def test_words_and_messages(first_layer: str) -> None:
    for patterns, partition in networks(20, 1):
        forward, back = counted(patterns, partition, first_layer)
        found = traffic(patterns, partition, first_layer)
        for layer, fprop, bprop in zip(found.layers, forward, back, strict=True):
            for words, expected in ((layer.fprop, fprop), (layer.bprop, bprop)):
                assert {(int(sender), int(receiver)): int(words[sender, receiver])
                        for sender, receiver in zip(*np.nonzero(words), strict=True)} == expected
        everything = [pairs for direction in (forward, back) for pairs in direction]
        assert found.words == sum(sum(pairs.values()) for pairs in everything)
        for part in range(partition.parts):
            assert found.sent[part] == sum(words for pairs in everything for (sender, _), words in pairs.items()
                                           if sender == part)
            assert found.messages[part] == sum(sender == part for pairs in everything for sender, _ in pairs)
        table = found.table()
        assert table["volume_avg"] == found.words / partition.parts
        assert table["volume_max"] == max(found.sent) and table["messages_max"] == max(found.messages)


def test_words_are_connectivity() -> None:
    for patterns, partition in networks(20, 2):
        for layer, pattern in enumerate(patterns):
            columns, rows = partition.columns(layer), partition.layers[layer]
            dense = pattern.toarray()
            touched = [{int(rows[row]) for row in np.flatnonzero(dense[:, column])} | {int(columns[column])}
                       for column in range(dense.shape[1])]
            cost = column_cost(pattern, columns, rows, partition.parts)
            assert cost == sum(len(parts) - 1 for parts in touched)
            assert traffic(patterns, partition).layers[layer].words == 2 * cost


def test_balance_is_of_nonzeros() -> None:
    pattern = csr_array(np.array([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]]))
    found = traffic([pattern], SparsePartition(2, np.zeros(4, dtype=int), (np.array([0, 1, 1, 0]),)))
    assert found.layers[0].loads.tolist() == [3, 3] and found.balance() == 1
    assert found.balance(np.array([0.25, 0.75])) == 2
    found = traffic([pattern], SparsePartition(2, np.zeros(4, dtype=int), (np.array([0, 0, 1, 1]),)))
    assert found.table()["imbalance_layer"] == pytest.approx(4 / 3)


def test_inputs_are_with_a_reader() -> None:
    for patterns, partition in networks(20, 3):
        rows = partition.layers[0]
        inputs = place_inputs(patterns[0], rows, partition.parts)
        dense = patterns[0].toarray()
        for column, owner in enumerate(inputs):
            reading = set(rows[np.flatnonzero(dense[:, column])].tolist())
            assert int(owner) in reading if reading else 0 <= owner < partition.parts
        assert column_cost(patterns[0], inputs, rows, partition.parts) == column_cost(
            patterns[0], None, rows, partition.parts)


def test_unknown_counting_rule() -> None:
    patterns, partition = networks(1, 4)[0]
    with pytest.raises(UserError, match="counting rule 'once' for layer 1 is unknown; give one of both, fprop, none"):
        traffic(patterns, partition, "once")


def test_partitions_are_values() -> None:
    one, other = (SparsePartition(2, np.array([0, 1]), (np.array([1, 0]),)) for _ in range(2))
    assert one == other and hash(one) == hash(other)
    assert one != SparsePartition(2, np.array([0, 1]), (np.array([1, 1]),))
    with pytest.raises(ValueError, match="read-only"):
        one.layers[0][0] = 0
