"""Rows about links: what of their rate rings and tiles use, by themselves and through a link layer."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import prod
from typing import Any

import numpy as np

from plinth.array.array import Array, clusters, full, ring, torus
from plinth.bench.row import BenchRow, random_words
from plinth.bench.workers import FULL, NARROW, workers
from plinth.driver.driver import Driver
from plinth.lower.builder import GraphBuilder
from plinth.lower.program import assemble, ring_setup
from plinth.network.network import perceptron
from plinth.partition.cuts import Levels
from plinth.partition.graph import DP, OP, from_network
from plinth.partition.groups import RING, ProcessGroups, process_groups
from plinth.partition.ring_order import along_links, ring_hops
from plinth.runtime.arrays import cosim_array, golden_array
from plinth.sharding import Ring, Sharding
from plinth.simulate.costs import DieCosts
from plinth.simulate.workload import workload
from plinth.step.between import Reduce
from plinth.step.build import step_of
from plinth_hw.isa.formats import FP32, factor_word
from plinth_hw.isa.operations import CollectiveOperation, Engine, TransferOperation, UpdateOperation
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_sim.array.simulate import simulate

#: Memory of a die, in words.
MEMORY_WORDS = 1 << 22
#: Wires of a link of ``ndp-demo-links`` in one direction, with ``start``; cycles from a damaged frame to the same flit
#: again, over wires of 5 cycles (docs/network.md).
FRAME_BITS, REPLAY_FRAMES = 165, 26


def _ring(parameters: DieParameters, dies: int, words: int, bit_errors: float = 0.0, *,
          rings: ProcessGroups | None = None, array: Array | None = None) -> int:
    """Cycles of an all-reduce with SGD from the first die's start to the last die's end, in rings over the links of an
    array; left out: in one of all dies by their numbers, over the links of a ring."""
    setup, step, links = [], [], None if array is None else array.timed()
    for die in range(dies):
        setup.append(ring_setup(parameters, rings.of(die) if rings else range(dies), die, 0))
        builder = GraphBuilder(parameters)
        gradients, weights = builder.allocate("g", 1, words), builder.allocate("w", 1, words)
        builder.add("all_reduce", Engine.COLLECTIVE, CollectiveOperation.ALL_REDUCE, {
            "source": gradients.pointer, "destination": weights.pointer, "words": words, "group": 0,
            "update": UpdateOperation.SGD, "message": 0, "rate": factor_word(FP32, 0.1)},
            reads=[gradients], writes=[weights])
        step.append(builder)
    program = assemble(setup, step, memory_words=MEMORY_WORDS)
    drivers = [Driver(devices, program, memory_words=MEMORY_WORDS, links=array)
               for devices in (cosim_array(parameters, dies, MEMORY_WORDS, bit_errors=bit_errors, links=links)[0],
                               golden_array(parameters, dies, MEMORY_WORDS))]
    for driver in drivers:
        for die in range(dies):
            driver.write(die, gradients, random_words(words, die).reshape(1, words))
            driver.write(die, weights, random_words(words, 99).reshape(1, words))
        driver.step(0)
    for die in range(dies):
        if not np.array_equal(drivers[0].read(die, weights), drivers[1].read(die, weights)):
            raise AssertionError(f"die {die}: the reduced weights differ from the golden model's")
    records = [drivers[0].records(die)[0] for die in range(dies)]
    return max(record.end for record in records) - min(record.start for record in records)


def ring_efficiency(name: str, die: str) -> list[BenchRow]:
    """Ring reduce, update and broadcast of 256 KiB on four dies, against what the links allow."""
    parameters = preset(die)
    dies = 4
    rate = parameters.flit_words * parameters.link_rate

    def efficiency(words: int) -> tuple[float, int]:
        cycles = _ring(parameters, dies, words)
        return float(2 * (dies - 1) * words / dies / rate / cycles), cycles

    large, cycles = efficiency(65536)
    small, small_cycles = efficiency(1024)
    chunk = parameters.chunk_words
    hop = (_ring(parameters, 4, chunk) - _ring(parameters, 2, chunk)) / 4
    return [BenchRow(name, large, "bound / cycles", "filling and emptying the ring",
                     {"bytes": 262144, "dies": dies, "preset": die, "cycles": cycles, "cycles_4KiB": small_cycles,
                      "efficiency_4KiB": small, "link_words_per_cycle": float(rate), "directions": 1,
                      "hop_cycles": hop})]


#: Words of each die's gradient.
RING_WORDS = 32768
#: Arrays whose dies are all in one ring along the links: a ring and tori of even and odd sides; and full ones.
RING_ARRAYS = (ring(8), torus(2, 4), torus(3, 3), torus(4, 4), torus(3, 5))
FULL_ARRAYS = (full(4), full(8))
#: MPT's workers with the host that joins groups, which are simulated. Words of their dies' gradients, at least, which
#: take as many cycles of their links as :data:`RING_WORDS` of the others'; and a member of the ring.
CLUSTER_ARRAYS = (clusters(4, 4), clusters(16, 16))
CLUSTER_WORDS, MEMBER_WORDS = 8 * RING_WORDS, 16384


def _along_and_by_numbers(array: Array, over: Levels, words: int, rate: Fraction,
                          cycles_of: Callable[[ProcessGroups], float]) -> dict[str, Any]:
    """Cycles of rings over some levels along the links, and beside it in the order of the dies' numbers; and against
    what links of ``rate`` words a cycle allow."""
    by_numbers = process_groups(RING, over, array.factors)
    orders = {"along_links": along_links(array, by_numbers), "by_numbers": by_numbers}
    cycles = {groups: cycles_of(groups) for groups in dict.fromkeys(orders.values())}
    bound, hops = float(2 * (by_numbers.size - 1) * words / by_numbers.size / rate), array.all_routes.hops[:array.dies]
    return {"efficiency": bound / cycles[orders["along_links"]],
            **{f"cycles_{name}": cycles[groups] for name, groups in orders.items()},
            **{f"hops_{name}": ring_hops(hops.astype(np.int64), groups.members[0])
               for name, groups in orders.items()}}


def _counted(array: Array, over: Levels, rate: Fraction) -> dict[str, Any]:
    """Rings over some levels on co-simulated dies."""
    return _along_and_by_numbers(array, over, RING_WORDS, rate, lambda groups: _ring(
        array.die_parameters(), array.dies, RING_WORDS, rings=groups, array=array))


def _simulated(array: Array, over: Levels, rate: Fraction) -> dict[str, Any]:
    """Rings over some levels by the simulator: of a layer whose outputs are cut at the other levels."""
    others = prod(factor for level, factor in enumerate(array.factors) if level not in over)
    words, parameters = max(CLUSTER_WORDS, MEMBER_WORDS * array.dies // others), array.die_parameters()
    # A row of weights is that of the bias.
    graph = from_network(perceptron("ring", (63, words // 64 * others)))
    splits = tuple(tuple(DP if level in over or not node.weighted else OP for level in range(array.levels))
                   for node in graph.nodes)

    def cycles(groups: ProcessGroups) -> float:
        copies = tuple((variable.qualified(node.name), Ring(groups, 1, parameters.chunk_words))
                       for node in graph.nodes for variable in node.variables)
        step = step_of(Sharding(graph=graph, splits=splits, batch=array.dies, factors=array.factors, array=array,
                                copies=copies), parameters)
        step.operations[:] = list(step.operations_of(Reduce))
        work = workload(step, array, DieCosts(array))
        return simulate(work.machine, work.activities).seconds * float(array.clock_mhz) * 1e6

    return {"bytes": 4 * words, **_along_and_by_numbers(array, over, words, rate, cycles)}


def _ring_row(name: str, details: dict[str, dict[str, Any]], **more: Any) -> BenchRow:
    """The least efficiency of some rings."""
    return BenchRow(name, min(detail["efficiency"] for detail in details.values()), "bound / cycles",
                    "filling and emptying the ring", more)


def ring_efficiency_torus() -> list[BenchRow]:
    """An all-reduce of 128 KiB over all dies of each of :data:`RING_ARRAYS`, in a ring along the links, against what
    links to neighbours allow: the least of the tori; beside it, in the order of the dies' numbers."""
    details = {array.name: _counted(array, tuple(range(array.levels)), array.rate) for array in RING_ARRAYS}
    tori = {name: detail for name, detail in details.items() if name.startswith("torus")}
    return [_ring_row("ring_efficiency_torus", tori, bytes=4 * RING_WORDS, preset="ndp-demo", arrays=details)]


def ring_efficiency_full() -> list[BenchRow]:
    """An all-reduce of 128 KiB over all dies of each of :data:`FULL_ARRAYS`, against what links to neighbours allow."""
    details = {array.name: _counted(array, tuple(range(array.levels)), array.rate) for array in FULL_ARRAYS}
    return [_ring_row("ring_efficiency_full", details, bytes=4 * RING_WORDS, preset="ndp-demo", arrays=details)]


def ring_efficiency_clusters() -> list[BenchRow]:
    """An all-reduce of 128 KiB over all dies of groups x clusters without a host, and over those of each cluster, whose
    links are narrow; with the host, which cannot be co-simulated, also over those of each group, simulated: 1 MiB, or
    64 KiB a member, whichever is more. The least of all."""
    array = workers(4, 2, "ndp-demo")
    details = {f"{array.name}, {what}": _counted(array, over, rate) for what, over, rate in (
        ("all dies", tuple(range(array.levels)), FULL), ("each cluster", (0, 1), NARROW))}
    for array in CLUSTER_ARRAYS:
        levels, groups, narrow = tuple(range(array.levels)), array.group_levels, array.narrow_rate
        assert narrow is not None
        details |= {f"{array.name}, {what}, simulated": _simulated(array, over, rate) for what, over, rate in (
            ("all dies", levels, array.rate), ("each group", levels[groups:], array.rate),
            ("each cluster", levels[:groups], narrow))}
    return [_ring_row("ring_efficiency_clusters", details, bytes=4 * RING_WORDS, rings=details)]


def _tile(parameters: DieParameters, words: int, operation: TransferOperation, bit_errors: float = 0.0) -> int:
    """Cycles from the start of a task that sends words to the next die to that of one there that waited for them."""
    setup, step = [], []
    for die in range(2):
        setup.append(ring_setup(parameters, [0, 1], die, 0))
        builder = GraphBuilder(parameters)
        source, target, after = (builder.allocate(name, 1, size) for name, size in (
            ("source", words), ("target", words), ("after", 1)))
        if die == 0:
            builder.add("send", Engine.TRANSFER, operation, {
                "source": source.pointer, "destination": target.pointer, "columns": words, "rows": 1, "planes": 1,
                "remote": 1, "destination_die": 1, "arrival_enable": 1, "arrival": len(Engine)}, reads=[source])
        else:
            builder.expect([target], len(Engine), 1)
            builder.add("after", Engine.TRANSFER, TransferOperation.COPY, {
                "source": target.pointer, "destination": after.pointer, "columns": 1, "rows": 1, "planes": 1},
                reads=[target], writes=[after])
        step.append(builder)
    program = assemble(setup, step, memory_words=MEMORY_WORDS)
    drivers = [Driver(array, program, memory_words=MEMORY_WORDS)
               for array in (cosim_array(parameters, 2, MEMORY_WORDS, bit_errors=bit_errors)[0],
                             golden_array(parameters, 2, MEMORY_WORDS))]
    for driver in drivers:
        driver.write(0, source, random_words(words, 1).reshape(1, words))
        driver.write(1, target, random_words(words, 2).reshape(1, words))
        driver.step(0)
    if not np.array_equal(drivers[0].read(1, target), drivers[1].read(1, target)):
        raise AssertionError("the tile of the RTL differs from the golden model's")
    return drivers[0].records(1)[0].start - drivers[0].records(0)[0].start


def transfer_efficiency(name: str, die: str) -> list[BenchRow]:
    """A tile of 64 KiB from one die's memory to the next one's, until a task there may read it."""
    parameters, words = preset(die), 16384
    rate = parameters.flit_words * parameters.link_rate
    cycles = _tile(parameters, words, TransferOperation.COPY)
    adding = _tile(parameters, words, TransferOperation.ADD)
    return [BenchRow(name, float(words / rate / cycles), "payload words / (link rate x cycles)",
                     "the latency of memory at both ends and of the link",
                     {"bytes": 4 * words, "preset": die, "cycles": cycles, "cycles_add": adding,
                      "link_words_per_cycle": float(rate)})]


def link_goodput() -> list[BenchRow]:
    """A tile of 64 KiB, and a ring all-reduce of 64 KiB on four dies, over wires with a wrong bit in 100,000: payload
    over what rate, frames and go-back-N allow (docs/network.md); the lesser of the two."""
    parameters, words, wrong = preset("ndp-demo-links"), 16384, 1e-5
    damaged = 1 - (1 - wrong) ** FRAME_BITS
    frames = (1 - damaged) / (1 - damaged + REPLAY_FRAMES * damaged)
    bound = parameters.flit_words * min(float(parameters.link_rate), frames)
    tile = _tile(parameters, words, TransferOperation.COPY, wrong)
    ring = _ring(parameters, 4, words, wrong)
    shares = {"tile": words / bound / tile, "ring": 2 * 3 * words / 4 / bound / ring}
    return [BenchRow("link_goodput_ber_1e-5", min(shares.values()), "payload / what rate, frames and replay allow",
                     "the ring: latencies of its hops, and what waits while a link sends again",
                     {"bytes": 4 * words, "cycles_tile": tile, "cycles_ring": ring, **shares,
                      "frames_that_count": frames, "bound_words_per_cycle": bound})]


#: Names and functions of these rows.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {
    **{f"{kind}_efficiency{end}": partial(function, f"{kind}_efficiency{end}", f"ndp-demo{end.replace('_', '-')}")
       for end in ("", "_links") for kind, function in (("ring", ring_efficiency), ("transfer", transfer_efficiency))},
    "ring_efficiency_torus": ring_efficiency_torus,
    "ring_efficiency_full": ring_efficiency_full,
    "ring_efficiency_clusters": ring_efficiency_clusters,
    "link_goodput_ber_1e-5": link_goodput,
}
