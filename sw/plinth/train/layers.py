"""What a step moved and took, layer by layer: predicted by the plan, counted by the dies' completion records."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from plinth.driver.statistics import DieStatistics
from plinth.partition.graph import LOSS
from plinth.plan.plan import Plan
from plinth.step.step import transfer_name
from plinth.step.tasks import Phase
from plinth_hw.isa.operations import Engine


def layer_report(plan: Plan, dies: Sequence[DieStatistics]) -> list[dict[str, Any]]:
    """For each layer its splits, transfers and reduction with words, and matrix cycles of the last step.

    Without statistics of dies nothing is counted.
    """
    words: dict[str, int] = defaultdict(int)
    cycles: dict[str, int] = defaultdict(int)
    for die in dies:
        spent: dict[str, int] = defaultdict(int)
        for record in die.records:
            name = record.task.split("[")[0]
            if record.engine in (Engine.TRANSFER, Engine.COLLECTIVE):
                words[name] += record.payload_words
            elif record.engine is Engine.MATRIX:
                spent[name.rpartition(".")[0]] += record.end - record.start
        for name, count in spent.items():
            cycles[name] = max(cycles[name], count)
    found = []
    for node, splits in zip(plan.graph.nodes, plan.splits, strict=True):
        if node.kind == LOSS:
            continue
        transfers = [{"direction": one.exchange.phase, "kind": one.exchange.kind, "consumer": one.exchange.consumer,
                      "predicted_injected_words": one.words, "injected_words_bounds": list(one.bounds),
                      "injected_words": words[transfer_name(one.exchange)] if dies else None}
                     for one in plan.transfers if one.exchange.layer == node.name]
        reduction = next((one for one in plan.reductions if one.layer == node.name), None)
        found.append({
            "layer": node.name, "kind": node.kind, "splits": list(splits), "transfers": transfers,
            "reduction": None if reduction is None else {
                "predicted_injected_words": reduction.words,
                "injected_words": sum(words[f"{node.name}.{phase.value}"] for phase in Phase) if dies else None},
            "matrix_cycles": cycles[node.name] if dies and node.weighted else None})
    return found
