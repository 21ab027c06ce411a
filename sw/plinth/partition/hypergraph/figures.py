"""What the ways to partition reach, beside each other: the numbers of the paper's Table 1, and what sweeps gain."""

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from plinth.partition.hypergraph.owners import Pattern
from plinth.partition.hypergraph.partition import IMBALANCE, partition
from plinth.partition.hypergraph.volume import traffic


def compared(patterns: Sequence[Pattern], parts: int, ways: Sequence[str], *, weights: Sequence[float] | None = None,
             imbalance: float = IMBALANCE, seed: int = 0, first_layer: str = "both") -> dict[str, dict[str, Any]]:
    """For each way what its partition makes processors send.

    Parameters
    ----------
    patterns : sequence of csr_array
        The layers.
    parts, weights, imbalance, seed
        As :func:`plinth.partition.hypergraph.partition.partition` takes them.
    ways : sequence of str
        Ways to partition; the others are compared with the first one.
    first_layer : str
        Counting rule for the words of layer 1, of :mod:`plinth.partition.hypergraph.volume`.

    Returns
    -------
    dict
        For each way: ``volume`` (mean over columns of lambda - 1), the columns of Table 1 (``volume_avg`` and so on,
        words and messages a processor), ``seconds`` that it took, ``notes``, and ``ratios`` of volume, words and
        messages to those of the first way (None where that has none).

    Raises
    ------
    UserError
        As :func:`~plinth.partition.hypergraph.partition.partition` does.
    """
    rows: dict[str, dict[str, Any]] = {}
    for how in ways:
        began = perf_counter()
        found = partition(patterns, parts, how, weights=weights, imbalance=imbalance, seed=seed)
        seconds = perf_counter() - began
        sent = traffic(patterns, found, first_layer)
        rows[how] = {"volume": sent.volume, **sent.table(), "seconds": seconds, "notes": found.notes}
    first = rows[ways[0]]
    for row in rows.values():
        row["ratios"] = {name: row[name] / first[name] if first[name] else None for name in (
            "volume", "volume_avg", "volume_max", "messages_avg", "messages_max")}
    return rows
