"""What a step moved and took, layer by layer: predicted by the plan, counted by the dies' completion records."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from plinth.driver.statistics import DieStatistics
from plinth.partition.exchanges import ExchangeDefinition
from plinth.partition.graph import LOSS
from plinth.plan.plan import Plan
from plinth.sharding import ReductionDefinition
from plinth.step.step import Realised
from plinth_hw.isa.operations import Engine


def layer_report(plan: Plan, realised: Realised | None, dies: Sequence[DieStatistics]) -> list[dict[str, Any]]:
    """For each layer its splits, transfers and reduction with words, and matrix cycles of the last step.

    Parameters
    ----------
    plan : Plan
    realised : mapping of (Engine, str) to definition, or None
        Of the step that dies ran which definition each task realises; None: nothing is counted.
    dies : sequence of DieStatistics
        Of that step.
    """
    words: dict[ExchangeDefinition | ReductionDefinition, int] = defaultdict(int)
    cycles: dict[str, int] = defaultdict(int)
    for die in dies:
        spent: dict[str, int] = defaultdict(int)
        for record in die.records:
            name = record.task.split("[")[0]
            if realised is not None and (record.engine, name) in realised:
                words[realised[record.engine, name]] += record.payload_words
            elif record.engine is Engine.MATRIX:
                spent[name.rpartition(".")[0]] += record.end - record.start
        for name, count in spent.items():
            cycles[name] = max(cycles[name], count)
    layers = []
    for node, splits in zip(plan.graph.nodes, plan.splits, strict=True):
        if node.kind == LOSS:
            continue
        transfers = [{"direction": transfer.exchange.phase, "kind": transfer.exchange.kind,
                      "consumer": transfer.exchange.consumer,
                      "predicted_injected_words": transfer.words, "injected_words_bounds": list(transfer.bounds),
                      "injected_words": None if realised is None else words[transfer.exchange]}
                     for transfer in plan.transfers if transfer.exchange.layer == node.name]
        reduction = next((reduction for reduction in plan.reductions if reduction.layer == node.name), None)
        layers.append({
            "layer": node.name, "kind": node.kind, "splits": list(splits), "transfers": transfers,
            "reduction": None if reduction is None else {
                "predicted_injected_words": reduction.words,
                "injected_words": None if realised is None else words[reduction]},
            "matrix_cycles": None if realised is None or not node.weighted else cycles[node.name]})
    return layers
