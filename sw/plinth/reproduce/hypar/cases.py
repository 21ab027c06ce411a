"""HyPar's evaluation (Song et al., HPCA 2019, section 6): its networks, splits and the time of a step.

Words are those of :mod:`plinth.predict.published` in the variant ``figure-8``, by which the splits are chosen, too.
The paper's simulator is not public; performance follows from one formula with one fitted constant,

    time = GB moved + K x GMAC x (batch / 256) x (16 / accelerators),        K = 2/7 GB for each GMAC,

where GMAC counts, for a sample, weights times positions of the layer's input map. Nothing overlaps. K was fitted to
the HyPar bars of Figure 6.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from math import prod

from plinth.network.zoo import NETWORKS
from plinth.partition.graph import DP, MP, PlanGraph, from_network
from plinth.partition.regions import Splits
from plinth.plan.planners import simple
from plinth.plan.planners.hypar import hypar
from plinth.predict.exact import ExactWords
from plinth.predict.published import PublishedWords
from plinth.reproduce.paper import paper

#: The paper's data.
HYPAR = paper("hypar")
#: The fitted constant: GB that take as long as a GMAC of a sample, at batch 256 on 16 accelerators.
GB_PER_GMAC = Fraction(HYPAR.data["fitted"][0]["value"])
CONSTANT: str = HYPAR.data["fitted"][0]["formula"]
#: Setup of section 6.1.
BATCH, LEVELS = 256, 4
#: The ten networks of section 6.1; of AlexNet the tower that the paper's figures imply.
NAMES = ("sfc", "sconv", "lenet-c", "cifar-c", "alexnet-tower", "vgg-a", "vgg-b", "vgg-c", "vgg-d", "vgg-e")


def gmacs(graph: PlanGraph) -> float:
    """10^9 multiply-adds of a sample as the fit counts them: weights times positions of the input map."""
    return sum(node.weights * node.input_positions for node in graph.nodes) / 1e9


def compute_gb(graph: PlanGraph, batch: int, levels: int) -> float:
    """GB that take as long as the compute of a step."""
    return float(GB_PER_GMAC * batch / BATCH * Fraction(1 << LEVELS, 1 << levels)) * gmacs(graph)


class HyParCase:
    """A network on an array: splits, GB moved, and the time that the formula gives."""

    def __init__(self, graph: PlanGraph, batch: int = BATCH, levels: int = LEVELS) -> None:
        self.graph, self.batch, self.levels = graph, batch, levels
        self.words, self.exact = PublishedWords(graph, batch), ExactWords(graph, batch)
        self.compute = compute_gb(graph, batch, levels)
        self.splits: dict[str, Splits] = {
            "hypar": hypar(self.words, levels), "data": simple.data(graph, levels),
            "model": simple.model(graph, levels), "trick": simple.one_weird_trick(graph, levels)}
        self.planned_exact = hypar(self.exact, levels)

    def gb(self, splits: Splits) -> float:
        """GB that the published model counts."""
        return self.words.total_bytes(splits) / 1e9 if splits[0] else 0.0

    def exact_gb(self, splits: Splits) -> float:
        """GB that the dies really move."""
        return self.exact.total_bytes(splits) / 1e9

    def time(self, splits: Splits) -> float:
        """Time of a step, in GB."""
        return self.gb(splits) + self.compute

    def gain(self, splits: Splits) -> float:
        """Performance against Data Parallelism."""
        return self.time(self.splits["data"]) / self.time(splits)

    def number(self, layer: str) -> int:
        """Number of a layer's node."""
        return next(number for number, node in enumerate(self.graph.nodes) if node.name == layer)


@lru_cache(maxsize=32)
def case(name: str, levels: int = LEVELS) -> HyParCase:
    """A network of the zoo at the paper's batch."""
    return HyParCase(from_network(NETWORKS[name]), levels=levels)


def code(splits: Iterable[str]) -> str:
    """0 for dp, 1 for mp."""
    return "".join("1" if split == MP else "0" for split in splits)


def vector(code_: str) -> tuple[str, ...]:
    return tuple(MP if digit == "1" else DP for digit in code_)


def mean(values: Sequence[float]) -> float:
    """The geometric mean of values."""
    return float(prod(values) ** (1 / len(values)))


def stated(splits: Splits, network: HyParCase, part: str) -> str:
    """Splits of a level ("H1") over the weighted layers, or of a layer over the levels."""
    if part in ("H1", "H2", "H3", "H4"):
        return code(splits[number][int(part[1]) - 1] for number in network.graph.weighted)
    return code(splits[network.number(part)])


def with_mean(values: Sequence[float]) -> list[float]:
    """Values of all networks, and their geometric mean."""
    return [*values, mean(values)]
