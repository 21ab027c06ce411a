"""Rows about tiles between the dies of a cluster: what of links or memory a scatter and a gather of a step use."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from plinth.array.array import Array, ring
from plinth.bench.row import BenchRow
from plinth.bench.winograd import bench_die
from plinth.driver.driver import Driver
from plinth.driver.statistics import TaskRecord
from plinth.lower.training import lower_training
from plinth.network.layers import Convolution, MeanSquaredError, Shape
from plinth.network.network import Network
from plinth.network.parameters import initial_parameters
from plinth.partition.graph import from_network
from plinth.plan.planning import given_plan
from plinth.runtime.arrays import cosim_array, golden_array
from plinth.train.data import Dataset
from plinth.train.session import Session
from plinth.update.rule import UpdateRule

#: Memory of a die in words; channels and side of the map of each die's image; elements of an F(2x2,3x3) tile.
MEMORY_WORDS, CHANNELS, SIDE, ELEMENTS = 1 << 22, 32, 16, 16


def _array() -> Array:
    """Eight of the dies that rows of Winograd layers have, whose transforms move a beat a cycle."""
    return ring(8, preset=bench_die().name)


@cache
def _records() -> tuple[tuple[TaskRecord, ...], ...]:
    """What the tasks of a step took, die by die: a layer whose elements are split over all of them, its weights checked
    against the golden model."""
    array = _array()
    network = Network(name="exchange", input=Shape((CHANNELS, SIDE, SIDE)), layers=(
        Convolution(name="conv", channels=CHANNELS, kernel=(3, 3), padding=(1, 1), bias=False, winograd=2,
                    weights="winograd"), MeanSquaredError(name="loss")))
    levels = array.dies.bit_length() - 1
    plan = given_plan(from_network(network), array, (("ep",) * levels, ("dp",) * levels), array.dies, UpdateRule())
    parameters = bench_die()
    program = lower_training(network, plan, parameters, rule=UpdateRule(), steps=1, memory_words=MEMORY_WORDS)
    dies, golden = (Driver(die_array, program, memory_words=MEMORY_WORDS, links=array.directed())
                    for die_array in (cosim_array(parameters, array.dies, MEMORY_WORDS, links=array.directed())[0],
                                      golden_array(parameters, array.dies, MEMORY_WORDS)))
    generator = np.random.default_rng(0)
    x, y = (generator.standard_normal((array.dies, CHANNELS * SIDE**2)).astype(np.float32) for _ in range(2))
    session = Session(network, Dataset(x, y, x[:0], y[:0], 0), program, dies, golden, None, array.dies, 0)
    session.load_parameters(initial_parameters(network, 0))
    next(iter(session.epoch(0)))
    if not session.equal:
        raise AssertionError("the step of the RTL differs from the golden model's")
    return tuple(tuple(dies.records(die)) for die in range(array.dies))


def bounds(array: Array, words: int, memory_words: int) -> dict[str, float]:
    """Cycles in which the fullest link carries ``words`` from each die to each other one, and a memory reads and writes
    ``memory_words``: both as the array's preset has them."""
    at, to = (indices.ravel() for indices in np.divmod(np.arange(array.dies**2), array.dies))
    loads = np.zeros(len(array.directed()))
    for _, over in array.all_routes.walk(at, to):
        np.add.at(loads, over, words)
    return {"links": float((loads / array.directed_rates).max()),
            "memory": memory_words / float(array.die_parameters().memory_words_per_cycle)}


def _row(name: str, begin: str, end: Callable[[tuple[TaskRecord, ...]], int], memory_words: int,
         limit: str) -> BenchRow:
    array, records = _array(), _records()
    tile_words = ELEMENTS * (SIDE // 2) ** 2 * CHANNELS
    least = bounds(array, tile_words // array.dies, memory_words)
    first = min(record.start for mine in records for record in mine if record.task.startswith(begin))
    cycles = max(map(end, records)) - first
    detail: dict[str, Any] = {
        "array": array.name, "preset": f"{array.preset}, transforms of {bench_die().transfer_words} words a cycle",
        "transform": "F(2x2,3x3)", "channels": CHANNELS, "side": SIDE,
        "words_of_a_die": tile_words, "bounds": least, "cycles": cycles, "cycles_to_the_last_arrival": max(
            min(record.start for record in mine if record.task.startswith(
                "conv.fprop" if name.startswith("scatter") else "conv.untile")) for mine in records) - first}
    return BenchRow(name, max(least.values()) / cycles, "what links or memory allow / cycles", limit, detail)


def exchange_rows() -> list[BenchRow]:
    """On a ring of 8 dies each makes tiles of its image and sends an eighth of their elements to each other one, until
    products may begin everywhere; and products come back, until the last map is made of them."""
    words = ELEMENTS * (SIDE // 2) ** 2 * CHANNELS
    return [
        _row("scatter_efficiency", "conv.scatter", lambda mine: min(
            record.start for record in mine if record.task.startswith("conv.fprop")), 2 * words,
            "the first tiles of a link, and the last ones' way"),
        _row("gather_efficiency", "conv.gather", lambda mine: max(
            record.end for record in mine if record.task.startswith("conv.untile")), 3 * words + SIDE**2 * CHANNELS,
            "the last strip's way, and its maps")]


#: Names and functions of these rows.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = dict.fromkeys(
    ("scatter_efficiency", "gather_efficiency"), exchange_rows)
