"""Rows about Winograd layers: MPT's Table II as a training step of one die has them, tiles trained, against the same
step of direct convolution."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from math import prod
from typing import Any

import numpy as np

from plinth.bench.row import BenchRow
from plinth.driver.driver import Driver
from plinth.driver.statistics import TaskRecord
from plinth.lower.training import lower_training
from plinth.network.layers import Convolution, MeanSquaredError, Shape
from plinth.network.network import Network
from plinth.network.parameters import initial_parameters
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.plan.planning import data_parallel
from plinth.runtime.arrays import cosim_array, golden_array
from plinth.train.data import Dataset
from plinth.train.session import Session
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.isa.winograd import TRANSFORMS

#: Rows' endings, the networks whose layer they are of, and images: as many as the direct rows have.
LAYERS = {"early": ("mpt-early", 1), "mid1": ("mpt-mid-1", 4), "late1": ("mpt-late-1", 4), "mid2": ("mpt-mid-2", 4),
          "late2": ("mpt-late-2", 4)}
#: Memory of a die in words, and channels of the step's input, of which a 1x1 layer makes the layer's.
MEMORY_WORDS, CHANNELS = 1 << 25, 16
#: Outputs of a tile each way.
OUTPUTS = 4
#: Cycles of direct convolution by itself, of a network's layer and images.
Direct = Callable[[str, int], int]
#: What tasks of the layer are called, forward and back: operands to results. The update stage is not among them.
FORWARD = ("conv.scatter", "conv.fprop", "conv.untile")
BACKWARD = ("conv.error_scatter", "conv.bprop", "conv.error_untile", "conv.input_error", "conv.update_grad")
UPDATES = ("conv.rates", "conv.all_reduce")


def bench_die() -> DieParameters:
    """``ndp-bench`` with transforms, which move a beat a cycle within it."""
    return preset("ndp-bench", transforms=TRANSFORMS, transfer_words=16)


def layer_network(network: str, winograd: int | str) -> Network:
    """The layer of a network of Table II behind a small one, so that its inputs have errors."""
    definition = NETWORKS[network]
    layer = next(layer for layer in definition.layers if isinstance(layer, Convolution))
    # What is trained are kernels, or tiles.
    settings: dict[str, Any] = {} if winograd == "off" else {"winograd": winograd, "weights": "winograd"}
    return Network(name=network, input=Shape((CHANNELS, *definition.input[1:])), layers=(
        Convolution(name="before", channels=definition.input[0], kernel=(1, 1), bias=False),
        replace(layer, inputs=("before",), **settings), MeanSquaredError(name="loss")))


@cache
def _records(network: str, images: int, winograd: int | str) -> tuple[TaskRecord, ...]:
    """What a training step's tasks took, its weights and outputs checked against the golden model."""
    parameters, definition = bench_die(), layer_network(network, winograd)
    plan = data_parallel(definition, dies=1, batch=images)
    program = lower_training(definition, plan, parameters, rule=UpdateRule(), steps=1, memory_words=MEMORY_WORDS)
    dies, golden = (Driver(array, program, memory_words=MEMORY_WORDS)
                    for array in (cosim_array(parameters, 1, MEMORY_WORDS)[0],
                                  golden_array(parameters, 1, MEMORY_WORDS)))
    generator = np.random.default_rng(0)
    x, y = (generator.standard_normal((images, size)).astype(np.float32)
            for size in (definition.input.elements, definition.output.elements))
    session = Session(definition, Dataset(x, y, x[:0], y[:0], 0), program, dies, golden, None, images, 0)
    session.load_parameters(initial_parameters(definition, 0))
    next(iter(session.epoch(0)))
    predictions, expected = (program.predictions.gather(driver) for driver in (dies, golden))
    if not (session.equal and np.array_equal(predictions, expected)):
        raise AssertionError(f"the step of {network} on the RTL differs from the golden model's")
    return tuple(dies.records(0))


def _cycles(records: tuple[TaskRecord, ...], names: tuple[str, ...]) -> int:
    """From the first start to the last end of tasks with some names."""
    named = [record for record in records if record.task.startswith(names)]
    return max(record.end for record in named) - min(record.start for record in named)


def _phases(records: tuple[TaskRecord, ...], names: tuple[str, ...]) -> dict[str, list[int]]:
    """Of tasks of each name the first start and the last end, from the first of all on, and cycles of all in sum."""
    groups = {name: [record for record in records if record.task.startswith(name)] for name in names}
    begin = min(record.start for group in groups.values() for record in group)
    return {name: [min(record.start for record in group) - begin, max(record.end for record in group) - begin,
                   sum(record.end - record.start for record in group)] for name, group in groups.items() if group}


def bound(network: str, images: int) -> dict[str, float]:
    """The least cycles of a layer's forward pass: multiply-adds of all tiles' elements, edges too, and words that must
    move."""
    parameters, graph = bench_die(), from_network(layer_network(network, OUTPUTS))
    node = graph.nodes[1]
    assert node.tiling is not None and node.window is not None
    tiles, elements = images * node.tiling.positions, node.tiling.elements
    macs = tiles * elements * node.input_channels * node.output_channels
    words = {"maps in": images * prod(node.window.size) * node.input_channels,
             "input tiles, written and read": 2 * tiles * elements * node.input_channels,
             "weights": elements * node.input_channels * node.output_channels,
             "output tiles, written and read": 2 * tiles * elements * node.output_channels,
             "maps out": images * prod(node.window.output) * node.output_channels}
    rate = float(parameters.memory_words_per_cycle)
    return {"multiply_adds / PEs": macs / (parameters.rows * parameters.columns),
            "words / memory rate": sum(words.values()) / rate, "multiply_adds": macs, **words, "memory rate": rate}


def winograd_rows(ending: str, whole: Direct) -> list[BenchRow]:
    """A layer forward: what of its bound it reaches, and how much faster it is than direct convolution, in a step or by
    itself, whichever takes less; both ways back together likewise, in a step."""
    network, images = LAYERS[ending]
    tiled, direct = (_records(network, images, winograd) for winograd in (OUTPUTS, "off"))
    terms = bound(network, images)
    least = max(terms["multiply_adds / PEs"], terms["words / memory rate"])
    forward, step, alone = _cycles(tiled, FORWARD), _cycles(direct, FORWARD), whole(network, images)
    plain = min(step, alone)
    back, plain_back = _cycles(tiled, BACKWARD), _cycles(direct, BACKWARD)
    common = {"network": network, "images": images, "transform": f"F({OUTPUTS},3)", "trained": "tiles"}
    limit = "transforms: what of them is not hidden behind products"
    return [
        BenchRow(f"winograd_utilisation_{ending}", least / forward,
                 "max(multiply-adds / PEs, words / memory rate) / cycles", limit,
                 {**common, "bound": least, **terms, "cycles": forward, "start, end, sum of tasks": _phases(
                tiled, FORWARD)}),
        BenchRow(f"winograd_speedup_{ending}", plain / forward, "cycles of direct convolution / of Winograd", limit,
                 {**common, "cycles": forward, "cycles_direct_in_a_step": step, "cycles_direct_by_itself": alone}),
        BenchRow(f"winograd_backward_speedup_{ending}", plain_back / back,
                 "cycles of bprop and updateGrad, direct convolution / Winograd", "sums of tiles that overlap",
                 {**common, "cycles": back, "cycles_direct": plain_back, **{
                f"{what}_with_updates": _cycles(records, (*BACKWARD, *UPDATES))
                for what, records in (("cycles", tiled), ("cycles_direct", direct))},
                  "start, end, sum of tasks": _phases(tiled, BACKWARD),
                  "direct, start, end, sum of tasks": _phases(direct, BACKWARD)})]


def benches(whole: Direct) -> dict[str, Callable[[], list[BenchRow]]]:
    """Names and functions of these rows, given what direct convolution takes by itself."""
    return {f"winograd_{kind}_{ending}": partial(winograd_rows, ending, whole)
            for ending in LAYERS for kind in ("utilisation", "speedup", "backward_speedup")}
