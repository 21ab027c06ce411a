"""Measure how training scales over clusters of hosts: the tables of docs/cluster.md.

``python -m plinth.bench.cluster`` simulates steps of vgg-e on hosts of the rates in ``host.yaml`` beside this file,
which ``plinth array host`` measured, and writes the tables; with ``--check`` it compares them with the page instead,
and with ``--measure`` it also measures steps of the numpy executor anew. What is not measured is the same on every
machine.

Of more hosts than an array has, the step is that of as many as it has, each of which stands for a ring of several, data
parallel above the plan (:func:`larger`).
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from plinth.array.array import Array
from plinth.array.file import load_array
from plinth.array.host import HostRates
from plinth.bench.harness import training
from plinth.bench.host import cases, fitted, host_array, shortest, timed
from plinth.bench.page import default_page, write_tables
from plinth.machine.host import MOST_UNROLLED
from plinth.network.network import Network
from plinth.network.parameters import initial_parameters
from plinth.network.zoo import NETWORKS
from plinth.runtime.numpy_executor import NumpyExecutor
from plinth.simulate.costs import HostCosts
from plinth.simulate.step import Simulated, planned, simulated
from plinth.step.between import Reduce
from plinth.step.layers.products import Products
from plinth.step.tasks import Phase
from plinth.units import duration, size
from plinth.update.rule import UpdateRule

#: The page.
PAGE = "cluster.md"
#: The host that tables are of: what `plinth array host` wrote.
HOST = Path(__file__).with_name("host.yaml")
#: Ranks, gigabits a second of links, microseconds from host to host, and samples of each rank.
RANKS, GIGABITS, MICROSECONDS, SAMPLES = (64, 1024, 16384), (10.0, 100.0), 5.0, (1, 16)
#: Ranks of arrays that are simulated, at most.
MOST_SIMULATED = 1024
NETWORK = "vgg-e"
#: Planners of the hybrid, of which the one of the shortest simulated step counts.
HYBRIDS = ("hypar", "joint")
#: Networks and batches that played no part in fitting rates, on one host.
HELD_OUT = (("lenet-c", 32), ("lenet-c", 256), ("digits-cnn", 32), ("digits-cnn", 256), ("digits-mlp", 32),
            ("digits-mlp", 512), ("alexnet", 4), ("vgg-e", 1))
#: Cycles of one co-simulated die of preset ndp-demo in a second of a processor that does nothing else
#: (:func:`measured_die_cycles`).
DIE_CYCLES = 148_000.0
#: Cycles of epochs, which are latencies of links between ranks; and microseconds of a hop.
EPOCHS, HOPS = (5, 50, 500), (1.0, 5.0)
#: Turns of measured steps, and seconds of all of them at most.
TURNS, STEP_SECONDS = 30, 10.0


def rates() -> HostRates:
    """The rates of the host that tables are of."""
    found = load_array(str(HOST)).host
    assert found is not None
    return found


class ClusterStep(NamedTuple):
    """A step on ranks: seconds of it, bytes that a rank needs, and whether it was simulated."""

    seconds: float
    memory_bytes: float
    planner: str
    simulated: bool


class RingCost(NamedTuple):
    """Seconds of a reduction: what a member does itself, its words on a link, and latencies."""

    own: float
    link: float
    latency: float


def message(array: Array, members: int, words: int) -> RingCost:
    """A message of so many words in a ring of so many hosts, as the simulator has it; of one host its update::

        own      (N - 1) / N 11 words / memory rate + 2 (N - 1) (9 call + 2 message)
        link     (N - 1) / N 2 words / link rate
        latency  2 (N - 1) latency
    """
    costs = HostCosts(array)
    if members == 1:
        return RingCost(costs.update(words).seconds, 0.0, 0.0)
    hops = members - 1
    return RingCost(costs.ring_work(Phase.UPDATE, words, members).seconds,
                    2e-9 * hops / members * words / float(array.rate), 1e-9 * costs.host.ring_latency(
                        members, 2 * hops * array.link_latency))


def larger(one: Simulated, times: int) -> float:
    """Seconds of the step on so many times as many hosts, of which each of the simulated ones stands for as many that
    are data parallel, each with samples of its own: reductions are in rings so much larger, all else is the same. What
    members do themselves is added up, latencies go on beside each other; of variables that no ring had, words are
    added as if nothing hid them."""
    array, seconds, later = one.array, one.result.seconds, 0.0
    for reduction in one.step.operations_of(Reduce):
        if words := max(map(reduction.words, range(array.dies))):
            members = reduction.rings.size
            before, behind = message(array, members, words), message(array, members * times, words)
            seconds += behind.own - before.own + (behind.link if members == 1 else 0.0)
            later = max(later, behind.latency - before.latency)
    return float(seconds + later)


def unrolled_bytes(one: Simulated) -> float:
    """Bytes in which the numpy executor unrolls windows of convolutions and their errors, beside the places of the
    step, on the first host."""
    words = 0.0
    shapes = {products.node.name: products for products in one.step.operations_of(Products)}
    for operation in shapes.values():
        shape, part = operation.shape(0), operation.z.part(0)
        if shape is not None and part.words:
            each = shape.out_height * shape.out_width * shape.taps
            words += 2 * each * max(1, min(part.samples, MOST_UNROLLED // each))
    return 4 * words


@lru_cache(maxsize=4)
def simulation(network: str, array: Array, planner: str, batch: int) -> Simulated:
    """A planner's step, simulated; the last few are kept, for :func:`larger`."""
    plan, step = planned(NETWORKS[network], array, planner=planner, model="exact", batch=batch)
    return simulated(plan, array, step=step)


def step_on(network: str, array: Array, planners: Iterable[str], batch: int, times: int = 1) -> ClusterStep:
    """The shortest of the steps that some planners make, on so many times an array's hosts."""
    found = []
    for planner in planners:
        one = simulation(network, array, planner, batch)
        seconds = one.result.seconds if times == 1 else larger(one, times)
        found.append(ClusterStep(seconds, one.step.memory_bytes() + unrolled_bytes(one), planner, times == 1))
    return min(found)


@dataclass(frozen=True)
class ClusterRow:
    """Steps of vgg-e on so many ranks, data parallel and hybrid."""

    ranks: int
    gigabits: float
    samples: int
    data: ClusterStep
    hybrid: ClusterStep

    def cells(self) -> list[str]:
        """The row's values as the table shows them."""
        best = "data" if self.data.seconds <= self.hybrid.seconds else self.hybrid.planner
        return [f"{self.ranks:,}", f"{self.gigabits:g}", str(self.samples), f"{self.data.seconds:.3f}",
                f"{self.hybrid.seconds:.3f}", best, f"{self.data.seconds / self.hybrid.seconds:.2f}",
                f"{self.ranks * self.samples / min(self.data.seconds, self.hybrid.seconds):,.0f}",
                size(self.data.memory_bytes), size(self.hybrid.memory_bytes),
                "simulated" if self.data.simulated else "formula"]


def row(ranks: int, gigabits: float, samples: int, planners: Sequence[str] = HYBRIDS) -> ClusterRow:
    """A row of the table of steps."""
    most = min(ranks, MOST_SIMULATED)
    array = host_array(rates(), most, gigabits, MICROSECONDS, memory_bytes=load_array(str(HOST)).memory_bytes)
    times, batch = ranks // most, samples * most
    return ClusterRow(ranks, gigabits, samples, step_on(NETWORK, array, ("data",), batch, times),
                      step_on(NETWORK, array, planners, batch, times))


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of a page; all columns but the last are numbers."""
    lines = [headings, [*["---:"] * (len(headings) - 1), "---"], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def steps_table(say: Callable[[str], object]) -> str:
    """Steps of vgg-e by ranks, links and samples of a rank."""
    rows = []
    for samples in SAMPLES:
        for gigabits in GIGABITS:
            for ranks in RANKS:
                say(f"{ranks} ranks, {gigabits:g} Gb/s, {samples} samples each")
                rows.append(row(ranks, gigabits, samples).cells())
    return table(("ranks", "Gb/s", "samples a rank", "data, s", "hybrid, s", "shorter", "data / hybrid", "samples/s",
                  "memory a rank, data", "hybrid", "how"), rows)


def cosimulated(epoch: int, hop_microseconds: float, die_cycles: float = DIE_CYCLES) -> float:
    """Cycles a second of a rank with one die that goes on with its neighbours once an epoch::

        epoch / (epoch / die's rate + hop)
    """
    return epoch / (epoch / die_cycles + 1e-6 * hop_microseconds)


def cosimulation_table() -> str:
    """Die-cycles a second of co-simulation over ranks."""
    rows = [[str(epoch), f"{hop:g}", f"{cosimulated(epoch, hop):,.0f}", f"{cosimulated(epoch, hop) / DIE_CYCLES:.1%}",
             *(f"{count * cosimulated(epoch, hop) / 1e6:,.1f}" for count in RANKS)] for epoch in EPOCHS for hop in HOPS]
    headings = ["epoch, cycles", "hop, µs", "cycles/s of a rank", "of a die alone",
                *(f"{count:,} ranks, 10^6 die-cycles/s" for count in RANKS)]
    lines = [headings, ["---:"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def executor_step(network: Network, batch: int, host_rates: HostRates, turns: int = TURNS) -> tuple[float, float]:
    """Seconds of a step on one host: of the numpy executor, measured, and simulated."""
    array = host_array(host_rates, 1, GIGABITS[0], MICROSECONDS)
    # Samples at random teach nothing: weights stay where they are, and numbers ordinary ones.
    plan, step = planned(network, array, planner="data", model="exact", batch=batch, rule=UpdateRule(rate=1e-6))
    executor, generator = NumpyExecutor(step), np.random.default_rng(0)
    executor.view.load(executor, initial_parameters(network, 0))
    channels, *sides = network.input
    x = generator.standard_normal((batch, *(sides or (1, 1)), channels)).astype(np.float32)
    executor.view.write_batch(executor, x, np.eye(network.output.elements, dtype=np.float32)[
        generator.integers(0, network.output.elements, batch)])
    expected = simulated(plan, array, step=step).result.seconds
    return 1e-9 * shortest([executor.step], turns, STEP_SECONDS), float(expected)


def executor_table(say: Callable[[str], object]) -> str:
    """Measured and simulated steps of networks that played no part in the fit, by rates that are fitted before: what
    else runs on a machine slows both."""
    say("kernels")
    fresh, rows = fitted(timed(cases())), []
    for name, batch in HELD_OUT:
        say(f"{name}, batch {batch}")
        took, expected = executor_step(NETWORKS[name], batch, fresh)
        rows.append([str(batch), duration(took), duration(expected), f"{expected / took - 1:+.1%}", name])
    return table(("batch", "measured", "simulated", "error", "network"), rows)


def measured_die_cycles() -> float:
    """Cycles of a co-simulated die in a second of processor time, which other programs take nothing from: an epoch of
    training on one thread, with harness and driver."""
    session, _, array, _ = training(1, 1)
    cycles, begin = array.stats()["die_cycles"], time.process_time()
    for _ in session.epoch(0):
        pass
    return float((array.stats()["die_cycles"] - cycles) / (time.process_time() - begin))


def tables(say: Callable[[str], object] = lambda text: None, *, measure: bool = False) -> dict[str, str]:
    """Tables of the page by the names of their markers; those that are measured only where it is asked for."""
    return {"steps": steps_table(say), "cosimulation": cosimulation_table(),
            **({"executor": executor_table(say)} if measure else {})}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the tables, or compare them; exit code 1 if one differs."""
    parser = argparse.ArgumentParser(prog="python -m plinth.bench.cluster", description="Tables of docs/cluster.md.")
    parser.add_argument("--check", action="store_true", help="compare with the page, write nothing")
    parser.add_argument("--measure", action="store_true", help="measure steps of the numpy executor and the rate of a "
                        "co-simulated die anew as well")
    asked = parser.parse_args(arguments)
    page = default_page(PAGE)
    if asked.measure:
        print(f"a co-simulated die: {measured_die_cycles():,.0f} cycles a second", file=sys.stderr)
    made = tables(lambda text: print(text, file=sys.stderr), measure=asked.measure and not asked.check)
    if not asked.check:
        write_tables(page, made)
        return 0
    text = page.read_text(encoding="utf-8")
    wrong = [name for name, lines in made.items() if f"<!-- {name} -->\n{lines}\n<!-- /{name} -->" not in text]
    for name in wrong:
        print(f"{page}: table {name!r} differs; make it anew with python -m plinth.bench.cluster", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
