"""HyPar's communication model, its Tables 1 and 2, with every multiplier that the paper leaves open by name.

For two halves of an array, layer l with weights W and output F (the map behind pooling, for the batch; A(E) = A(F)):

    Table 1   dp  weight_sum A(W)            mp  output_sum A(F)
    Table 2   dp-dp 0      dp-mp  dp_mp (A(F)/4 + A(E)/4)      mp-mp  mp_mp A(E)/2      mp-dp  mp_dp A(E)/2

Below other levels, kd of which split layer l by batch and km by model, A(W) = W/2^km and, in Table 1, A(F) = B/2^kd F.
In Table 2 the *view* says whose split sizes the map: "right" as the output of layer l, B/2^kd F, or "left" as the
input of layer l + 1, B/2^kd' F/2^km' with that layer's kd' and km'. Level h of the array counts 2^(h-1) times, an
element four bytes; biases do not count.

Variants: ``plain`` takes the tables as printed, each amount once. It gives the Model Parallelism bars of the five VGGs
in the paper's Figure 8, but half of the bars of Data Parallelism and HyPar, and other splits than the text states.
``literal`` doubles the sums, as the worked examples of section 3.4 do, and takes Table 2 as printed. ``figure-8``
doubles dp-mp, too, and moves nothing at mp-mp and mp-dp (the sum leaves each half what it needs); it gives the bars of
Data Parallelism and HyPar, and all splits that are stated.

Junctions are not in the paper. One without weights has nothing to add up; at mp it holds half of the channels of
map and error, so that a change between its split and its neighbour's is priced as dp-mp and no change is free. What
the loss reads costs nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from plinth.errors import UserError
from plinth.names import PUBLISHED
from plinth.partition.cuts import Factors
from plinth.partition.graph import DP, LOSS, MP, PlanGraph
from plinth.partition.regions import Splits
from plinth.predict.dynamic import Problem


@dataclass(frozen=True, kw_only=True)
class TableReading:
    """One reading of Tables 1 and 2."""

    name: str
    weight_sum: float
    output_sum: float
    dp_mp: float
    mp_mp: float
    mp_dp: float
    #: "left" or "right".
    view: str


VARIANTS = {variant.name: variant for variant in (
    TableReading(name="plain", weight_sum=1, output_sum=1, dp_mp=1, mp_mp=1, mp_dp=1, view="left"),
    TableReading(name="literal", weight_sum=2, output_sum=2, dp_mp=1, mp_mp=1, mp_dp=1, view="left"),
    TableReading(name="figure-8", weight_sum=2, output_sum=2, dp_mp=2, mp_mp=0, mp_dp=0, view="left"),
)}


class PublishedWords:
    """The published model, for planners that decide level by level.

    Raises
    ------
    UserError
        If a level of the array has another number of parts than two.
    """

    name = PUBLISHED
    #: Splits that the model knows.
    splits: tuple[str, ...] = (DP, MP)

    def __init__(self, graph: PlanGraph, batch: int, variant: str = "figure-8",
                 factors: Factors | None = None) -> None:
        if factors and set(factors) != {2}:
            raise UserError(f"the published model knows halves of an array, but {prod(factors)} dies have levels of "
                            f"{', '.join(map(str, factors))} parts; choose model=exact")
        self.graph, self.batch, self.variant = graph, batch, VARIANTS[variant]

    def node_elements(self, number: int, split: str, kd: int, km: int) -> float:
        """Table 1: between two halves of a group, below kd and km levels of each kind."""
        node = self.graph.nodes[number]
        if not node.weighted:
            return 0
        if split == DP:
            return self.variant.weight_sum * node.weights / (1 << km)
        return self.variant.output_sum * self.batch * node.map_elements / (1 << kd)

    def edge_elements(self, number: int, split: str, other: str, counts: tuple[int, int], others: tuple[int, int]
                      ) -> float:
        """Table 2: of map and error together."""
        edge, variant = self.graph.edges[number], self.variant
        consumer = self.graph.nodes[edge.consumer]
        if consumer.kind == LOSS or split == other == DP:
            return 0
        halvings = sum(others) if variant.view == "left" else counts[0]
        amount = self.batch * edge.elements / (1 << halvings)
        if not self.graph.nodes[edge.producer].weighted:
            return 0 if split == other else variant.dp_mp * amount / 2
        if split == DP:
            return variant.dp_mp * amount / 2
        return (variant.mp_mp if other == MP else variant.mp_dp) * amount / 2

    def level(self, above: Splits, splits: Sequence[str] = (DP, MP)) -> Problem:
        """What choices at the next level cost, in elements over the whole array."""
        graph, times = self.graph, 1 << len(above[0])
        counts = [(vector.count(DP), vector.count(MP)) for vector in above]
        labels = [[split for split in graph.choices(number, splits) if split in self.splits]
                  for number in range(len(graph.nodes))]
        nodes = [[times * self.node_elements(number, split, *counts[number]) for split in mine]
                 for number, mine in enumerate(labels)]
        pairs = [[[times * self.edge_elements(number, split, other, counts[edge.producer], counts[edge.consumer])
                   for other in labels[edge.consumer]] for split in labels[edge.producer]]
                 for number, edge in enumerate(graph.edges)]
        return Problem(labels, nodes, pairs)

    def total_bytes(self, splits: Splits) -> float:
        """Bytes that cross between halves in a training step, over all levels.

        Raises
        ------
        UserError
            If a layer is split by output channels, which the paper does not know.
        """
        total: float = 0
        for level in range(len(splits[0])):
            above = [vector[:level] for vector in splits]
            counts = [(vector.count(DP), vector.count(MP)) for vector in above]
            for number, vector in enumerate(splits):
                if vector[level] not in self.splits:
                    raise UserError(f"the published model knows dp and mp, not {vector[level]!r} of layer "
                                    f"{self.graph.nodes[number].name!r}; choose model=exact")
                total += (1 << level) * self.node_elements(number, vector[level], *counts[number])
            for number, edge in enumerate(self.graph.edges):
                total += (1 << level) * self.edge_elements(
                    number, splits[edge.producer][level], splits[edge.consumer][level], counts[edge.producer],
                    counts[edge.consumer])
        return 4 * total
