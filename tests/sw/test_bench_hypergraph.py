"""Rows about partitions of sparse networks: the least that the worst cell could be; pruned layers, every cell."""

from pathlib import Path
from statistics import geometric_mean

import pytest

from plinth.bench import hypergraph, pruned
from plinth.bench.pruned import PrunedNet
from plinth.partition.hypergraph import annealing, partitioner
from plinth.reproduce.sparse_dnn import figures
from plinth.reproduce.sparse_dnn.cases import Cell, SentAmounts
from plinth.reproduce.sparse_dnn.formulas import least_words, random_words


def test_the_worst_volume_says_the_least_that_even_rows_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    """H sends .4 of R's words, but where even rows need more just that: N = 1,024, P = 512."""
    def cell(neurons: int, parts: int) -> Cell:
        words = random_words(neurons, 120, parts)
        few = max(0.4 * words, least_words(neurons, 120, parts))
        return Cell(SentAmounts(few, few, 1, 1, 1, 1, few, 1), SentAmounts(words, 2 * words, 1, 1, 1, 1, words, 1), 1)

    monkeypatch.setattr(figures, "cell", cell)
    hypergraph._tables.cache_clear()
    worst, mean = hypergraph.hypergraph_volume()
    hypergraph._tables.cache_clear()
    cells = [name for name in worst.detail if name.startswith("n")]
    assert len(cells) == 20 and worst.value == max(worst.detail[name] for name in cells)
    assert mean.value == pytest.approx(geometric_mean(worst.detail[name] for name in cells))
    least = worst.detail["least"]
    assert set(least) == set(cells) and all(worst.detail[name] >= least[name] * (1 - 1e-9) for name in cells)
    name = "n1024, P = 512, ratio_vol_avg"
    assert worst.detail[name] == pytest.approx(least[name]) and least[name] == pytest.approx(
        15 * 2 * 120 * 1024 / 512 / random_words(1024, 120, 512) / 0.62)
    limit = worst.limited_by.partition(": with even rows any partition needs 32 P / N - 1 words a column: ")
    assert limit[2] == f"{least[limit[0]]:.3f} is the least there is"


@pytest.mark.skipif(not partitioner.available(), reason="extra 'partition' is not installed")
def test_pruned_layers_by_every_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path))
    monkeypatch.setattr(annealing, "VISITS", 20_000)
    monkeypatch.setattr(pruned, "PROCESSORS", (2, 4))
    monkeypatch.setattr(pruned, "NETWORKS", {"a": PrunedNet((60, 50, 40), 0.15, 0.3, 0.6, 0)})
    row, = pruned.pruned()
    assert set(row.detail) == {"a, P = 2", "a, P = 4"}
    assert row.value == geometric_mean(cell["ratio"] for cell in row.detail.values()) < 1
    for cell in row.detail.values():
        assert cell["imbalance"] <= 1.06 and cell["words"]["annealed"] == cell["ratio"] * cell["words"]["phases"]
    # What was partitioned is kept.
    again, = pruned.pruned()
    assert again == row


def test_networks_are_pruned_as_they_say() -> None:
    assert len(pruned.NETWORKS) == 5 and len(pruned.PROCESSORS) == 2
    for network in pruned.NETWORKS.values():
        patterns = network.patterns()
        assert [pattern.shape for pattern in patterns] == list(zip(network.widths[1:], network.widths, strict=False))
        for pattern in patterns:
            assert pattern.nnz / pattern.shape[0] / pattern.shape[1] == pytest.approx(network.share, rel=0.01)
