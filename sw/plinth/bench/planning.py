"""Rows about planners: how good the joint planner is, and how long planning takes."""

import time
from collections.abc import Callable
from statistics import median

from plinth.array.array import ARRAYS, Array
from plinth.bench.commands import TORUS_1024, chain_1000
from plinth.bench.row import BenchRow
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import PlanGraph, from_network
from plinth.partition.regions import Splits
from plinth.plan.planners.hypar import hypar
from plinth.plan.planning import SPLITTERS, PlanningProblem, task
from plinth.predict.models import MODELS

#: HyPar's array of 16 dies, and its batch.
ARRAY, BATCH = ARRAYS["hypar-16"], 256


def joint_over_hypar() -> list[BenchRow]:
    """Predicted step of HyPar's plan over that of the joint plan, on every network of the zoo; the worst."""
    ratios = {}
    for name, network in NETWORKS.items():
        problem = task(from_network(network), ARRAY, "exact", BATCH)
        hypar, joint = (problem.time.cycles(SPLITTERS[planner](problem)) for planner in ("hypar", "joint"))
        ratios[name] = hypar / joint
    worst = min(ratios, key=ratios.__getitem__)
    return [BenchRow("joint_over_hypar", ratios[worst], "predicted step of hypar / of joint",
                     f"{worst}: the best plan that is known is HyPar's",
                     {"array": ARRAY.name, "batch": BATCH, **ratios})]


def _seconds(plan: Callable[[], Splits]) -> float:
    """Wall time of planning."""
    started = time.perf_counter()
    plan()
    return time.perf_counter() - started


def _times(name: str, graph: PlanGraph, array: Array) -> BenchRow:
    """Time of HyPar's planner, graph given, under the exact model, median of five; in detail those of the others."""
    first = median(_seconds(lambda: hypar(MODELS["exact"](graph, BATCH), array.levels)) for _ in range(5))
    detail = {"published": _seconds(lambda: hypar(MODELS["published"](graph, BATCH), array.levels)),
              "joint": _seconds(lambda: SPLITTERS["joint"](_task(graph, array))),
              "layers": len(graph.weighted), "levels": array.levels, "batch": BATCH}
    return BenchRow(name, first, "seconds", "costs of pairs of neighbouring layers", detail)


def _task(graph: PlanGraph, array: Array) -> PlanningProblem:
    return task(graph, array, "exact", BATCH)


def plan_vgg_e_seconds() -> list[BenchRow]:
    """HyPar's planner on VGG-E, four levels."""
    return [_times("plan_vgg_e_seconds", from_network(NETWORKS["vgg-e"]), ARRAY)]


def plan_1000_layers_seconds() -> list[BenchRow]:
    """HyPar's planner on a chain of a thousand layers, ten levels."""
    return [_times("plan_1000_layers_seconds", from_network(chain_1000()), TORUS_1024)]


#: Every row's name and the function that makes it.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {
    "joint_over_hypar": joint_over_hypar, "plan_vgg_e_seconds": plan_vgg_e_seconds,
    "plan_1000_layers_seconds": plan_1000_layers_seconds,
}
