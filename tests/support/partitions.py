"""Random lists of parts and owners for the layers of a plan."""

import random
from math import prod

from plinth.partition.cuts import Factors, Indices, runs_of
from plinth.partition.graph import PlanGraph
from plinth.partition.regions import Lists, Partition, Splits


def random_parts(rng: random.Random, size: int, count: int) -> list[list[int]]:
    """Any indices, each in one of the parts: neighbouring ones or not, some parts perhaps empty."""
    order = list(range(size))
    if rng.random() < 0.6:
        rng.shuffle(order)
    edges = sorted(rng.randint(0, size) for _ in range(count - 1))
    return [sorted(order[low:high]) for low, high in zip([0, *edges], [*edges, size], strict=True)]


def random_lists(rng: random.Random, graph: PlanGraph, splits: Splits, batch: int, factors: Factors, *,
                 some: float = 0.7) -> Partition:
    """Lists of some axes of some layers, over one or more of the levels that split them; owners of some."""
    dies = list(range(prod(factors)))

    def axis(number: int, split: str, size: int) -> tuple[Indices, ...] | None:
        levels = [level for level, level_split in enumerate(splits[number]) if level_split == split]
        if not levels or rng.random() > some:
            return None
        count = prod(factors[level] for level in levels[:rng.randint(1, len(levels))])
        return tuple(runs_of(part) for part in random_parts(rng, size, count))

    lists = []
    for number, node in enumerate(graph.nodes):
        owners = tuple(rng.sample(dies, len(dies))) if rng.random() < some / 2 else None
        lists.append(Lists(axis(number, "dp", batch), axis(number, "mp", node.input_channels),
                           axis(number, "op", node.output_channels) if node.weighted else None, owners))
    return tuple(lists)
