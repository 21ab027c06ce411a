"""The row about pipeline stages: what they are worth where gradients are long and links are slow."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from plinth.array.array import Array, ring
from plinth.bench.row import BenchRow
from plinth.bench.steps import kept_step, lowered_plan
from plinth.names import JOINT, PIPELINE
from plinth.network.network import Network, perceptron
from plinth.partition.graph import from_network
from plinth.plan.plan import Plan
from plinth.plan.planning import SPLITTERS, given_plan, plan_network, task

#: A deep, narrow network, four dies with links of 1/8 of a word a cycle, and the samples of a step.
NETWORK, ARRAY, BATCH = perceptron("narrow-deep", (64,) * 9 + (10,)), ring(4, link_rate=Fraction(1, 8)), 64


def plans(network: Network, array: Array, batch: int) -> dict[str, Plan]:
    """The plan of `pipeline`, and that of `joint` from among those without stages."""
    staged = plan_network(network, array, planner=PIPELINE, batch=batch).plan
    graph = from_network(network)
    splits = SPLITTERS[JOINT](task(graph, array, "exact", batch))
    return {PIPELINE: staged, JOINT: replace(given_plan(graph, array, splits, batch), planner=JOINT)}


def pipeline_gain() -> list[BenchRow]:
    """The counted step of the best plan without stages over that with stages and micro-batches."""
    found = plans(NETWORK, ARRAY, BATCH)
    counted = {name: kept_step(NETWORK, ARRAY, lowered_plan(NETWORK, plan, ARRAY), BATCH).cycles
               for name, plan in found.items()}
    staged = found[PIPELINE]
    return [BenchRow("pipeline_gain", counted[JOINT] / counted[PIPELINE], "counted step without stages / with",
                     "small products, and the first and last micro-batch",
                     {"counted": counted, "micro_batches": staged.sharding.micro_batches, "batch": BATCH,
                      "predicted_seconds": staged.predicted_seconds, "splits": ["/".join(vector) for vector in
                                                                                staged.splits]})]


#: Every row's name and the function that makes it.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {"pipeline_gain": pipeline_gain}
