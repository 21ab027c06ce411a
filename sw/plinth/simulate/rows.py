"""Split a simulated step by layer and direction: cycles, words and energy, each of which adds up to what is told of the
whole step."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from plinth.simulate.step import Simulated
from plinth.step.tasks import DIRECTIONS, UPDATE
from plinth_sim.array.energy import Counts
from plinth_sim.array.machine import EngineTask

#: Engines of dies in the order of tables, whose cycles count as busy; simulated control has others beside them.
ENGINES = ("matrix", "vector", "transfer", "collective", "optimiser")


@dataclass(frozen=True, kw_only=True)
class LayerRow:
    """Cycles, words and energy that a step spends on a layer in a direction.

    Attributes
    ----------
    layer : str
        A node of the plan's graph: a layer with what follows it (bias, activation, pool), a junction, or the loss.
    direction : {"fprop", "bprop", "update"}
        ``update``: the weights' gradient, its reduction over dies, and the weights' update.
    cycles : float
        Of the step, those for which work of this row is on its critical path: what the next work on it waits for. Of
        all rows they add up to the step.
    busy_cycles : float
        For which engines of all dies do this row's tasks, each as fast as it goes alone.
    injected_words : int
        That dies send to other dies, as the plan counts them.
    dram_words : float
        That the dies' memories read and write.
    energy_joules : float
    """

    layer: str
    direction: str
    cycles: float
    busy_cycles: float
    injected_words: int
    dram_words: float
    energy_joules: float


def layer_rows(simulation: Simulated) -> list[LayerRow]:
    """A row for each layer and direction that the step does anything for, layers in the order of the network."""
    plan, work, result, hertz = simulation.plan, simulation.work, simulation.result, simulation.hertz
    words: dict[tuple[str, str], int] = defaultdict(int)
    for transfer in plan.transfers:
        words[transfer.exchange.layer, transfer.exchange.phase] += transfer.words
    for reduction in plan.reductions:
        words[reduction.layer, UPDATE] += reduction.words
    # Of each row: seconds on the critical path, busy ones, adds, multiplies, and words of SRAM, DRAM and links.
    sums: dict[tuple[str, str], np.ndarray] = defaultdict(lambda: np.zeros(7))
    outer = np.array([not link.within for link in work.machine.links], dtype=bool)
    for activity, purpose, critical, alone in zip(work.activities, work.purposes, result.critical_seconds.tolist(),
                                                  result.alone.tolist(), strict=True):
        if isinstance(activity, EngineTask):
            dram, links = activity.words + sum(activity.vaults.values()), 0.0
        else:
            dram, links = float(activity.die_words.sum()), float(activity.words[outer[activity.links]].sum())
        sums[purpose.layer, purpose.direction] += (critical, alone * (activity.engine in ENGINES), activity.adds,
                                                   activity.multiplies, activity.sram_words, dram, links)
    rows = []
    for node in plan.graph.nodes:
        for direction in DIRECTIONS:
            key = node.name, direction
            critical, busy, adds, multiplies, sram, dram, links = sums[key].tolist()
            if sums[key].any() or words[key]:
                joules = Counts(adds=adds, multiplies=multiplies, sram_words=sram, dram_words=dram, link_words=links
                                ).joules(simulation.energy)
                rows.append(LayerRow(layer=node.name, direction=direction, cycles=critical * hertz,
                                     busy_cycles=busy * hertz, injected_words=words[key], dram_words=dram,
                                     energy_joules=sum(joules.values())))
    return rows
