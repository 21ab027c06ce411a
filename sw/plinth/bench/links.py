"""Rows about links: what of their rate rings and tiles use, by themselves and through a link layer."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from plinth.array.array import Array, full, ring, torus
from plinth.bench.row import Row, random_words
from plinth.driver.driver import Driver
from plinth.lower.builder import GraphBuilder
from plinth.lower.program import assemble, ring_setup
from plinth.partition.groups import RING, process_groups
from plinth.partition.ring_order import along_links, ring_hops
from plinth.runtime.arrays import cosim_array, golden_array
from plinth_hw.isa.formats import FP32, factor_word
from plinth_hw.isa.operations import CollectiveOperation, Engine, TransferOperation, UpdateOperation
from plinth_hw.isa.parameters import DieParameters, preset

#: Memory of a die, in words.
MEMORY_WORDS = 1 << 22
#: Wires of a link of ``ndp-demo-links`` in one direction, with ``start``; cycles from a damaged frame to the same flit
#: again, over wires of 5 cycles (docs/network.md).
FRAME_BITS, REPLAY_FRAMES = 165, 26


def _ring(parameters: DieParameters, dies: int, words: int, bit_errors: float = 0.0, *,
          order: Sequence[int] | None = None, array: Array | None = None) -> int:
    """Cycles of an all-reduce with SGD from the first die's start to the last die's end, in a ring of all dies in some
    order over the links of an array; left out: in that of their numbers, over those of a ring."""
    setup, step, links = [], [], None if array is None else array.timed()
    for die in range(dies):
        setup.append(ring_setup(parameters, list(order or range(dies)), die, 0))
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


def ring_efficiency(name: str, die: str) -> list[Row]:
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
    return [Row(name, large, "bound / cycles", "filling and emptying the ring",
                {"bytes": 262144, "dies": dies, "preset": die, "cycles": cycles, "cycles_4KiB": small_cycles,
                 "efficiency_4KiB": small, "link_words_per_cycle": float(rate), "directions": 1,
                 "hop_cycles": hop})]


#: Arrays whose dies are all in one ring along the links: a ring, tori of even and odd sides, and a full one.
RING_ARRAYS = (ring(8), torus(2, 4), torus(3, 3), torus(4, 4), torus(3, 5), full(8))


def ring_efficiency_torus() -> list[Row]:
    """An all-reduce of 128 KiB over all dies of each of :data:`RING_ARRAYS`, in a ring along the links, against what
    links to neighbours allow: the least of the tori; beside it, in the order of the dies' numbers."""
    words, detail, found = 32768, {}, []
    for array in RING_ARRAYS:
        parameters, dies = array.die_parameters(), array.dies
        groups = process_groups(RING, tuple(range(array.levels)), array.factors)
        orders = {"along_links": along_links(array, groups).members[0], "by_numbers": groups.members[0]}
        bound = float(2 * (dies - 1) * words / dies / array.rate)
        counted: dict[tuple[int, ...], int] = {}
        for order in orders.values():
            if order not in counted:
                counted[order] = _ring(parameters, dies, words, order=order, array=array)
        detail[array.name] = {
            "efficiency": bound / counted[orders["along_links"]],
            **{f"cycles_{name}": counted[order] for name, order in orders.items()},
            **{f"hops_{name}": ring_hops(array.ways.hops[:dies].astype(np.int64), order)
               for name, order in orders.items()}}
        if array.topology == "torus":
            found.append(bound / counted[orders["along_links"]])
    return [Row("ring_efficiency_torus", min(found), "bound / cycles", "filling and emptying the ring",
                {"bytes": 4 * words, "preset": "ndp-demo", "arrays": detail})]


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


def transfer_efficiency(name: str, die: str) -> list[Row]:
    """A tile of 64 KiB from one die's memory to the next one's, until a task there may read it."""
    parameters, words = preset(die), 16384
    rate = parameters.flit_words * parameters.link_rate
    cycles = _tile(parameters, words, TransferOperation.COPY)
    adding = _tile(parameters, words, TransferOperation.ADD)
    return [Row(name, float(words / rate / cycles), "payload words / (link rate x cycles)",
                "the latency of memory at both ends and of the link",
                {"bytes": 4 * words, "preset": die, "cycles": cycles, "cycles_add": adding,
                 "link_words_per_cycle": float(rate)})]


def link_goodput() -> list[Row]:
    """A tile of 64 KiB, and a ring all-reduce of 64 KiB on four dies, over wires with a wrong bit in 100,000: payload
    over what rate, frames and go-back-N allow (docs/network.md); the lesser of the two."""
    parameters, words, wrong = preset("ndp-demo-links"), 16384, 1e-5
    damaged = 1 - (1 - wrong) ** FRAME_BITS
    frames = (1 - damaged) / (1 - damaged + REPLAY_FRAMES * damaged)
    bound = parameters.flit_words * min(float(parameters.link_rate), frames)
    tile = _tile(parameters, words, TransferOperation.COPY, wrong)
    ring = _ring(parameters, 4, words, wrong)
    shares = {"tile": words / bound / tile, "ring": 2 * 3 * words / 4 / bound / ring}
    return [Row("link_goodput_ber_1e-5", min(shares.values()), "payload / what rate, frames and replay allow",
                "the ring: latencies of its hops, and what waits while a link sends again",
                {"bytes": 4 * words, "cycles_tile": tile, "cycles_ring": ring, **shares, "frames_that_count": frames,
                 "bound_words_per_cycle": bound})]


#: Names and functions of these rows.
BENCHES: dict[str, Callable[[], list[Row]]] = {
    **{f"{kind}_efficiency{end}": partial(function, f"{kind}_efficiency{end}", f"ndp-demo{end.replace('_', '-')}")
       for end in ("", "_links") for kind, function in (("ring", ring_efficiency), ("transfer", transfer_efficiency))},
    "ring_efficiency_torus": ring_efficiency_torus,
    "link_goodput_ber_1e-5": link_goodput,
}
