"""Words that the dies really move, of the exchanges and reductions of a step (:mod:`plinth.partition.exchanges`), for
planners that look at thousands of splits: equal to :func:`plinth.partition.exchanges.total_words` where nothing splits
elements of tiles, which planners that count words do not.

For a batch of B, a layer with raw output R, weights W and bias b, cut in nd parts by batch, nm by input and no by
output channels (the products of the factors of its dp, mp and op levels), and an edge that carries M elements, they are

    node   2 B R (nm - 1)                       partial sums to the owner, errors from it
           2 (nd - 1) (W + nm b)                ring reduction of the gradients
    edge   2 (B M no - overlap)                 no of the consumer; overlap = what owners need themselves

The overlap is :func:`plinth.partition.axes.overlap`. What the rule of owners leaves is pairwise: an mp node has a
owner label, batch or channels, and its first consumer must agree.
"""

from collections.abc import Hashable, Sequence

from plinth.names import EXACT
from plinth.partition.axes import Region
from plinth.partition.cuts import Factors, halves
from plinth.partition.exchanges import edge_exchange, exchange_words, sum_exchange
from plinth.partition.graph import DP, MP, OP, PlanGraph
from plinth.partition.regions import Layout, Splits, layout, layouts, ring_words
from plinth.predict.dynamic import INFEASIBLE, Problem

#: A choice at one level: the split, and of the first consumer mp, or dp for anything else.
Label = tuple[str, str]


def node_words(graph: PlanGraph, number: int, here: Layout, batch: int, factors: Factors) -> int:
    """Words of a node's own partial sums, errors and gradients."""
    node = graph.nodes[number]
    if not node.weighted:
        return 0
    sums = exchange_words(sum_exchange(node, here, "fprop"), batch, factors) if here.mp else 0
    return 2 * sums + ring_words(node, here, factors)


def edge_words(graph: PlanGraph, number: int, owned: Region, need: Layout, batch: int, factors: Factors) -> int:
    """Words between an owner and a consumer, forwards and backwards."""
    return 2 * exchange_words(edge_exchange(graph, number, owned, need.input, "fprop"), batch, factors)


class ExactWords:
    """The exact model, for planners that decide level by level."""

    name = EXACT
    #: Splits that the model knows.
    splits: tuple[str, ...] = (DP, MP, OP)

    def __init__(self, graph: PlanGraph, batch: int, factors: Factors | None = None) -> None:
        self.graph, self.batch, self.factors = graph, batch, factors
        # Of the many regions of a level those of equal nodes and edges are counted once.
        self._node_shapes = [(node.weighted, node.matrix if node.weighted else (), node.bias, node.raw_elements,
                              node.output_channels) for node in graph.nodes]
        self._edge_shapes = [(edge.elements, edge.channels) for edge in graph.edges]

    def _factors(self, levels: int) -> Factors:
        """Of the highest levels."""
        return halves(levels) if self.factors is None else self.factors[:levels]

    def total_bytes(self, splits: Splits) -> int:
        """Bytes that all dies send in a training step."""
        factors = self._factors(len(splits[0]))
        regions = layouts(self.graph, splits, (), factors)
        words = sum(node_words(self.graph, number, here, self.batch, factors) for number, here in enumerate(regions))
        return 4 * (words + sum(
            edge_words(self.graph, number, regions[edge.producer].owned, regions[edge.consumer], self.batch, factors)
            for number, edge in enumerate(self.graph.edges)))

    def level(self, above: Splits, splits: Sequence[str]) -> Problem:
        """What choices at the next level cost, given those above it: the words of an array of that many levels."""
        graph, factors = self.graph, self._factors(len(above[0]) + 1)
        labels: list[list[Label]] = []
        regions: list[list[Layout]] = []
        for number in range(len(graph.nodes)):
            vector = above[number]
            outputs = graph.outputs[number]
            first = above[graph.edges[outputs[0]].consumer] if outputs else (DP,) * len(vector)
            weighted = graph.nodes[number].weighted
            mine: list[Label] = []
            for split in graph.choices(number, splits):
                mine += [(split, DP), (split, MP)] if split == MP and weighted else [(split, DP)]
            labels.append(mine)
            regions.append([layout(weighted, (*vector, split), (*first, reader), graph.nodes[number].free)
                            for split, reader in mine])
        known: dict[Hashable, int] = {}

        def own(number: int, here: Layout) -> int:
            key = self._node_shapes[number], here.output, here.owned, here.weights, here.ring
            words = known.get(key)
            if words is None:
                words = known[key] = node_words(graph, number, here, self.batch, factors)
            return words

        def between(number: int, owned: Region, need: Layout) -> int:
            key = self._edge_shapes[number], owned, need.input
            words = known.get(key)
            if words is None:
                words = known[key] = edge_words(graph, number, owned, need, self.batch, factors)
            return words

        nodes = [[own(number, here) for here in regions[number]] for number in range(len(graph.nodes))]
        pairs: list[list[list[float]]] = []
        for number, edge in enumerate(graph.edges):
            decides = graph.nodes[edge.producer].weighted and graph.outputs[edge.producer][0] == number
            pairs.append([[
                INFEASIBLE if decides and label[0] == MP and (label[1] == MP) != (other[0] == MP) else
                between(number, here.owned, need)
                for other, need in zip(labels[edge.consumer], regions[edge.consumer], strict=True)]
                for label, here in zip(labels[edge.producer], regions[edge.producer], strict=True)])
        return Problem([[label[0] for label in mine] for mine in labels], nodes, pairs)

