"""What the plan of `mpt` is worth on co-simulated dies: late layers on rings of full links with narrow ones inside
clusters (MPT, sections III, IV and VII)."""

from collections.abc import Callable
from fractions import Fraction
from math import isqrt
from typing import Any

from plinth.array.array import Array
from plinth.bench.row import BenchRow
from plinth.bench.steps import kept_step, lowered_step, text
from plinth.network.layers import Convolution, Dense, Flatten, Layer, Relu, Shape, SoftmaxCrossEntropy
from plinth.network.network import Network
from plinth.partition.graph import from_network
from plinth.partition.regions import Splits
from plinth.plan.planning import SPLITTERS, given_plan, task
from plinth.simulate.step import simulated
from plinth.update.rule import PLAIN

#: Links of the paper's 64x64 dies, 60 GB/s both full ones together and 10 GB/s, as words a cycle of 8x8 dies: like
#: memory they go by a side of the array.
FULL, NARROW = Fraction(15, 8), Fraction(5, 16)
#: Samples of a step: one a die, as the paper has 256 for 256 workers.
BATCH = 8


def workers(groups: int, clusters: int, preset: str) -> Array:
    """MPT's workers without the host: die = group x clusters + cluster.

    Ports 0 and 1 lead to the next and the previous die, by full links, those of a group one behind the other, and
    where the host would join groups the next one; ports from 2 on to the other dies of a cluster in its row and its
    column, in a grid as square as can be, by narrow links.
    """
    dies = groups * clusters
    rows = next(rows for rows in range(isqrt(groups), 0, -1) if groups % rows == 0)
    columns = groups // rows
    links = [(die, 0, (die + 1) % dies, 1) for die in range(dies)]
    for cluster in range(clusters):
        for group in range(groups):
            row, column = divmod(group, columns)
            ends = [(row * columns + other, 1 + other, 2 + column) for other in range(column + 1, columns)]
            ends += [(other * columns + column, columns + other, columns + 1 + row) for other in range(row + 1, rows)]
            links += [(group * clusters + cluster, port, other * clusters + cluster, there)
                      for other, port, there in ends]
    return Array(name=f"workers-{groups}x{clusters}", topology="links", dies=dies, preset=preset, link_rate=FULL,
                 wiring=tuple(links), wiring_rates=(None,) * dies + (NARROW,) * (len(links) - dies))


#: What is counted: planner, how convolutions are computed, and what of them is trained. MPT's w_mp and w_dp;
#: data parallelism whose rings carry tiles, as w_mp's, and d_dp.
STEPS: dict[str, tuple[str, int | str, str]] = {
    "mpt": ("mpt", 2, "winograd"), "data": ("data", 2, "spatial"), "data, tiles trained": ("data", 2, "winograd"),
    "data, direct convolution": ("data", "off", "spatial")}


def late_layers(channels: int, side: int, winograd: int | str = 2, weights: str = "winograd") -> Network:
    """Two convolutions of many channels on small maps and a classifier; unless told otherwise tiles F(2x2,3x3) are
    trained."""
    layers: list[Layer] = []
    for number in (1, 2):
        layers += [Convolution(name=f"conv{number}", channels=channels, kernel=(3, 3), padding=(1, 1),
                               winograd=winograd, weights=weights), Relu(name=f"relu{number}")]
    layers += [Flatten(name="flat"), Dense(name="fc", outputs=10), SoftmaxCrossEntropy(name="loss")]
    return Network(name=f"late-{channels}x{side}x{side}", input=Shape((channels, side, side)), layers=tuple(layers))


def counted(network: Network, array: Array, splits: Splits) -> int:
    """Cycles of a step on co-simulated dies."""
    return kept_step(network, array, lowered_step(network, array, splits, BATCH), BATCH).cycles


def mpt_speedup_rtl(count: Callable[[Network, Array, Splits], int] = counted) -> list[BenchRow]:
    """MPT's w_dp, data parallelism of kernels by tiles, over its w_mp, the plan of `mpt`: steps of eight dies, counted,
    and as predicted and simulated. In detail what else is data parallel, too."""
    array = workers(4, 2, "ndp-demo-winograd")
    details: dict[str, dict[str, Any]] = {}
    for name, (planner, winograd, weights) in STEPS.items():
        network = late_layers(64, 4, winograd, weights)
        graph = from_network(network)
        problem = task(graph, array, "exact", BATCH, PLAIN)
        splits = SPLITTERS[planner](problem)
        steps = count(network, array, splits)
        predicted = problem.time.cycles(splits)
        run = simulated(given_plan(graph, array, splits, BATCH), array)
        cycles = run.result.seconds * float(array.clock_mhz) * 1e6
        details[name] = {"splits": text(splits), "counted": steps, "predicted": predicted,
                         "prediction_error": predicted / steps - 1, "simulated": cycles, "error": cycles / steps - 1}
    mpt, *others = details
    speedups = {name: {what: details[name][what] / details[mpt][what] for what in ("counted", "predicted", "simulated")}
                for name in others}
    own = speedups["data"]
    return [BenchRow("mpt_speedup_rtl", own["counted"], "cycles of data / of mpt, eight dies",
                     "gathers that add, and tiles on narrow links",
                     {"network": late_layers(64, 4).name, "batch": BATCH, "array": array.name, "preset": array.preset,
                      "words_per_cycle": {"full": str(FULL), "narrow": str(NARROW)}, **details, "speedups": speedups,
                      "speedup_error": own["predicted"] / own["counted"] - 1})]


#: Every row's name and the function that makes it.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {"mpt_speedup_rtl": mpt_speedup_rtl}
