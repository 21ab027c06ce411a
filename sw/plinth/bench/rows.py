"""The rows of ``build/bench.json``, one function each."""

import statistics
from collections.abc import Callable
from dataclasses import asdict
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.bench import (
    accuracy,
    agreement,
    busy,
    commands,
    die_tables,
    exchanges,
    harness,
    hypergraph,
    links,
    local,
    models,
    mpi_cosim,
    network,
    numpy_loop,
    pipeline,
    planning,
    prediction,
    profile,
    projection,
    pruned,
    ranks,
    row_stationary,
    serial,
    simulation,
    sparse,
    sparse_dies,
    sparse_ranks,
    steps,
    tables,
    winograd,
    workers,
)
from plinth.bench.row import BenchRow, random_words
from plinth.driver.driver import Driver
from plinth.driver.statistics import TaskRecord
from plinth.lower.builder import GraphBuilder
from plinth.lower.program import assemble, ring_setup
from plinth.machine.convolution import ConvolutionShape, FeatureMap, forward
from plinth.machine.tiles import interleave_m_log2
from plinth.network.layers import Convolution
from plinth.network.zoo import NETWORKS
from plinth.runtime.arrays import cosim_array, golden_array
from plinth_hw.isa.formats import Q3_12, Fixed
from plinth_hw.isa.operations import Engine, MatrixOperation
from plinth_hw.isa.parameters import DieParameters, preset

#: Memory of a die in a benchmark, in words.
MEMORY_WORDS = 1 << 22


def _operands(parameters: DieParameters, count: int, seed: int) -> NDArray[Any]:
    """Normally distributed numbers, as words; fixed-point ones so small that sums of 256 products keep within their
    format."""
    if not isinstance(fmt := parameters.memory_format, Fixed):
        return random_words(count, seed)
    numbers = np.random.default_rng(seed).standard_normal(count) / 8
    return np.rint(numbers * 2**fmt.fraction_bits).astype(np.int16).view(np.uint16)


def _gemm(parameters: DieParameters, m: int, n: int, k: int) -> tuple[TaskRecord, dict[str, int]]:
    """Record and engine counters of one GEMM on one die, its result checked against the golden model."""
    builder = GraphBuilder(parameters)
    a, b, c = (builder.allocate(name, rows, columns)
               for name, rows, columns in (("a", m, k), ("b", k, n), ("c", m, n)))
    builder.add("gemm", Engine.MATRIX, MatrixOperation.GEMM, {
        "a": a.pointer, "a_stride": a.stride, "b": b.pointer, "b_stride": b.stride, "c": c.pointer,
        "c_stride": c.stride, "m": m, "n": n, "k": k,
        "interleave_m_log2": interleave_m_log2(parameters, m, n)}, reads=[a, b], writes=[c])
    memory_words = MEMORY_WORDS if parameters.axi_ports else parameters.block_ram_words
    setup = [ring_setup(parameters, [0], 0, 0)] if parameters.ports else []
    program = assemble(setup, [builder], memory_words=memory_words)
    arrays = [cosim_array(parameters, 1, memory_words)[0],
              golden_array(parameters, 1, memory_words)]
    drivers = [Driver(array, program, memory_words=memory_words) for array in arrays]
    for driver in drivers:
        driver.write(0, a, _operands(parameters, m * k, 1).reshape(m, k))
        driver.write(0, b, _operands(parameters, k * n, 2).reshape(k, n))
        driver.clear_counters()
        driver.step(0)
    if not np.array_equal(drivers[0].read(0, c), drivers[1].read(0, c)):
        raise AssertionError("the GEMM of the RTL differs from the golden model's")
    return drivers[0].records(0)[0], asdict(drivers[0].counters(0)[Engine.MATRIX])


def _gemm_rows(name: str, parameters: DieParameters, size: int, core: str = "") -> list[BenchRow]:
    """A cube of ``size`` on one die, from the task's start to its last write response, and, as row ``core``, between
    the first and the last multiply-add."""
    record, counters = _gemm(parameters, size, size, size)
    pes = parameters.rows * parameters.columns
    whole = record.end - record.start
    between = counters["last_busy"] - counters["first_busy"] + 1
    detail = {"m": size, "n": size, "k": size, "array": f"{parameters.rows}x{parameters.columns}", "cycles": whole,
              "core_cycles": between, "counters": counters}
    unit = "useful multiply-adds / (PEs x cycles)"
    rows = [BenchRow(name, size**3 / (pes * whole), unit, "loading the first panels and storing the last tile", detail)]
    if core:
        rows.append(BenchRow(core, size**3 / (pes * between), unit, "tile changes", detail))
    return rows


def gemm_utilisation() -> list[BenchRow]:
    """256x256x256 on 16x16 FP32."""
    return _gemm_rows("gemm_utilisation", preset("ndp-bench"), 256, "gemm_core_utilisation")


def fixed_gemm_utilisation() -> list[BenchRow]:
    """256x256x256 on 16x16 Q3.12."""
    return _gemm_rows("fixed_gemm_utilisation", preset("ndp-bench", multiply_format=Q3_12), 256)


def board_gemm_utilisation() -> list[BenchRow]:
    """128x128x128 on the die of a board, in its block RAM."""
    return _gemm_rows("board_gemm_utilisation", preset("fpga-ulx3s"), 128)


@cache
def _convolution(network: str, images: int) -> tuple[ConvolutionShape, list[TaskRecord], dict[str, int]]:
    """Shape, records and engine counters of a network's convolution, forward, on one die; its result checked
    against the golden model."""
    parameters = preset("ndp-bench")
    definition = NETWORKS[network]
    shape = next(ConvolutionShape.of(layer, definition.input) for layer in definition.layers
                 if isinstance(layer, Convolution))
    builder = GraphBuilder(parameters)
    x = builder.allocate("x", images * shape.height * shape.width, shape.inputs)
    w = builder.allocate("w", shape.taps, shape.outputs)
    z = builder.allocate("z", images * shape.out_height * shape.out_width, shape.outputs)
    maps = FeatureMap(x, shape.height, shape.width), FeatureMap(z, shape.out_height, shape.out_width)
    for number, body in enumerate(forward(shape, parameters, maps[0], w, maps[1])):
        # Each task has rows of z for itself.
        own = z.part(f"z[{number}]", 0, z.rows, z.columns, z.stride)
        builder.add(f"convolution[{number}]", Engine.MATRIX, MatrixOperation.CONVOLUTION, body, reads=[x, w],
                    writes=[own])
    memory_words = 2 * MEMORY_WORDS
    program = assemble([ring_setup(parameters, [0], 0, 0)], [builder], memory_words=memory_words)
    drivers = [Driver(array, program, memory_words=memory_words)
               for array in (cosim_array(parameters, 1, memory_words)[0],
                             golden_array(parameters, 1, memory_words))]
    for driver in drivers:
        for seed, buffer in enumerate((x, w)):
            words = random_words(buffer.rows * buffer.columns, seed)
            driver.write(0, buffer, words.reshape(buffer.rows, buffer.columns))
        driver.clear_counters()
        driver.step(0)
    if not np.array_equal(drivers[0].read(0, z), drivers[1].read(0, z)):
        raise AssertionError(f"the convolution of {network} on the RTL differs from the golden model's")
    return shape, drivers[0].records(0), asdict(drivers[0].counters(0)[Engine.MATRIX])


def _direct_cycles(network: str, images: int) -> int:
    """From the first task's start to the last write response."""
    _, records, _ = _convolution(network, images)
    return max(record.end for record in records) - min(record.start for record in records)


def conv_utilisation(name: str, network: str, images: int) -> list[BenchRow]:
    """A layer of MPT's Table II on 16x16 FP32, from the first task's start to the last write response. Multiplied
    with padding counts, the edges of tiles do not."""
    shape, records, counters = _convolution(network, images)
    parameters = preset("ndp-bench")
    cycles = _direct_cycles(network, images)
    macs = images * shape.out_height * shape.out_width * shape.taps * shape.outputs
    available = parameters.rows * parameters.columns * cycles
    useful = sum(record.useful_macs for record in records)
    return [BenchRow(name, macs / available, "multiply-adds, with padding / (PEs x cycles)",
                     "rows of tiles beyond the last position" if shape.out_height % 2 else "loading the first panels",
                     {"network": network, "images": images, "cycles": cycles, "useful": useful / available,
                      "issued_with_edges": counters["issued_macs"] / available, "counters": counters,
                      "cycles_of_tasks": [record.end - record.start for record in records]})]


def train_step_utilisation() -> list[BenchRow]:
    """Multiply-adds over those that all PEs could do, in whole training steps of the digits network on four demo
    dies."""
    session, driver, _, program = harness.training(4, None)
    driver.clear_counters()
    cycles = sum(result.cycles for result in session.epoch(0))
    counters = [driver.counters(die)[Engine.MATRIX] for die in range(4)]
    pes = program.parameters.rows * program.parameters.columns
    value = sum(counter.useful_macs for counter in counters) / (pes * cycles * 4)
    steps = len(session.losses)
    busy = {engine.name.lower(): values.busy / steps for engine, values in driver.counters(0).items()}
    return [BenchRow("train_step_utilisation", value, "useful multiply-adds / (PEs x cycles)",
                     "dependencies: element-wise work between products, and the last layer's reduction, which "
                     "nothing hides", {"cycles_per_step": cycles / steps, "busy_cycles_per_step_die_0": busy,
                                       "issued_macs": sum(counter.issued_macs for counter in counters)})]


def harness_efficiency() -> list[BenchRow]:
    """The compiled harness with one die, against a bare loop of the same model; median of five pairs."""
    _, _, array, _ = harness.training(1, 1)
    pairs = []
    for _ in range(5):
        bare = array.bare_eval(200_000)
        pairs.append((harness.rate(1, 1), bare))
    ratio, whole, bare = sorted((whole / bare, whole, bare) for whole, bare in pairs)[2]
    return [BenchRow("harness_efficiency", ratio, "die-cycles a second / bare cycles a second",
                     "memory model and link queues", {"harness": whole, "bare": bare})]


def thread_scaling() -> list[BenchRow]:
    """Four dies on two threads over one thread; median of three pairs."""
    pairs = [(harness.rate(4, 2), harness.rate(4, 1)) for _ in range(3)]
    ratio = statistics.median(two_threads / one_thread for two_threads, one_thread in pairs)
    return [BenchRow("thread_scaling", ratio, "ratio", "meetings once a link latency, shared caches",
                     {"pairs": [{"two_threads": two_threads, "one_thread": one_thread}
                                for two_threads, one_thread in pairs]})]


def cosim_rate() -> list[BenchRow]:
    """Die-cycles a second of ``make train``'s four dies, all together."""
    return [BenchRow("cosim_rate", harness.rate(4, None), "die-cycles a second", "evaluation of the Verilated dies",
                     {})]


#: Every row's name and the function that makes it.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {
    "gemm_utilisation": gemm_utilisation, "gemm_core_utilisation": gemm_utilisation,
    "fixed_gemm_utilisation": fixed_gemm_utilisation, "board_gemm_utilisation": board_gemm_utilisation,
    **{f"conv_utilisation_{layer}": partial(conv_utilisation, f"conv_utilisation_{layer}", network, images)
       for layer, network, images in (("early", "mpt-early", 1), ("mid1", "mpt-mid-1", 4), ("late1", "mpt-late-1", 4),
                                      ("mid2", "mpt-mid-2", 4), ("late2", "mpt-late-2", 4))},
    **winograd.benches(_direct_cycles), **exchanges.BENCHES,
    "train_step_utilisation": train_step_utilisation, **links.BENCHES, **serial.BENCHES,
    "harness_efficiency": harness_efficiency, "thread_scaling": thread_scaling, "cosim_rate": cosim_rate,
    **mpi_cosim.BENCHES, **busy.BENCHES, **accuracy.BENCHES, **planning.BENCHES, **commands.BENCHES,
    **pipeline.BENCHES, **steps.BENCHES,
    **row_stationary.BENCHES, **simulation.BENCHES, **agreement.BENCHES, **models.BENCHES, **prediction.BENCHES,
    **network.BENCHES, **workers.BENCHES, **numpy_loop.BENCHES, **ranks.BENCHES,
    **hypergraph.BENCHES, **pruned.BENCHES, **sparse.BENCHES, **sparse_dies.BENCHES, **sparse_ranks.BENCHES,
    **tables.BENCHES, **die_tables.BENCHES, **projection.BENCHES, **profile.BENCHES, **local.BENCHES,
}
