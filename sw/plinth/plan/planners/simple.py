"""Planners without a search: everything one way, or one way for each kind of layer."""

from plinth.partition.graph import DP, MP, OP, PlanGraph
from plinth.partition.regions import Splits


def data(graph: PlanGraph, levels: int) -> Splits:
    """Everything data-parallel."""
    return tuple((DP,) * levels for _ in graph.nodes)


def model(graph: PlanGraph, levels: int) -> Splits:
    """Everything model-parallel that can be; of sparse layers the outputs are split."""
    kinds = (OP if node.pattern is not None else MP if MP in graph.choices(number) else DP
             for number, node in enumerate(graph.nodes))
    return tuple((kind,) * levels for kind in kinds)


def one_weird_trick(graph: PlanGraph, levels: int) -> Splits:
    """Convolutions data-parallel, fully connected layers model-parallel.

    Embeddings go with the convolutions; a junction goes with the node that it reads first.
    """
    kinds: list[str] = []
    for number, node in enumerate(graph.nodes):
        if node.junction and graph.inputs[number]:
            kinds.append(kinds[graph.edges[graph.inputs[number][0]].producer])
        else:
            kinds.append(MP if node.kind == "dense" else DP)
    return tuple((kind,) * levels for kind in kinds)
