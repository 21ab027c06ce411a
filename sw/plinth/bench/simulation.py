"""Rows about the array simulator: how long `plinth simulate` takes, the whole command."""

import json
from collections.abc import Callable
from statistics import median

from plinth.bench.commands import timed
from plinth.bench.row import BenchRow

#: Network that is simulated.
NETWORK = "vgg-e"


def _row(name: str, array: str, runs: int) -> list[BenchRow]:
    arguments = ("simulate", NETWORK, "--array", array, "--planner", "hypar", "--batch", "256", "--json")
    simulations = [timed(*arguments) for _ in range(runs)]
    step = json.loads(simulations[0].output)
    detail = {"bytes": simulations[0].bytes, "runs": [ran.seconds for ran in simulations],
              **{key: step[key] for key in ("tasks", "events", "seconds", "energy_joules")}}
    return [BenchRow(name, median(ran.seconds for ran in simulations), "seconds",
                     "imports" if runs > 1 else "making tasks of the plan, and events", detail)]


def simulate_vgg_e_16_seconds() -> list[BenchRow]:
    """VGG-E on HyPar's sixteen dies; median of three."""
    return _row("simulate_vgg_e_16_seconds", "hypar-16", 3)


def simulate_vgg_e_1024_seconds() -> list[BenchRow]:
    """VGG-E on 1,024 dies."""
    return _row("simulate_vgg_e_1024_seconds", "hypar-1024", 1)


#: Every row's name and the function that makes it.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {
    "simulate_vgg_e_16_seconds": simulate_vgg_e_16_seconds,
    "simulate_vgg_e_1024_seconds": simulate_vgg_e_1024_seconds,
}
