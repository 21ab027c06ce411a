"""HyPar's planner: Algorithm 1 between two halves of the array, Algorithm 2 from level to level.

Algorithm 1 is the dynamic programme of :mod:`plinth.predict.dynamic`: linear in the layers of a chain, over a frontier
where the graph has junctions. Ties go to dp. Algorithm 2 takes the levels from the top, each with the splits above it
fixed; all halves of a level are alike.
"""

from collections.abc import Sequence

from plinth.partition.graph import DP, MP
from plinth.partition.regions import Splits
from plinth.predict.dynamic import minimise
from plinth.predict.models import CountsWords


def hypar(words: CountsWords, levels: int, splits: Sequence[str] = (DP, MP)) -> Splits:
    """Splits that HyPar chooses under a communication model."""
    chosen: Splits = tuple(() for _ in words.graph.nodes)
    for _ in range(levels):
        _, labels = minimise(words.graph, words.level(chosen, splits))
        chosen = tuple((*vector, split) for vector, split in zip(chosen, labels, strict=True))
    return chosen
