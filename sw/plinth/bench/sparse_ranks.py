"""Rows about sparse networks on ranks of MPI: how much faster two are than one, in inference and in SGD."""

import json
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np

from plinth.array.array import ring
from plinth.bench.row import BenchRow
from plinth.network.parameters import initial_parameters
from plinth.network.sparse.layers import layered
from plinth.network.sparse.radix_net import trained_network
from plinth.output import json_text
from plinth.partition.graph import from_network
from plinth.plan.planners.hypergraph import hypergraph
from plinth.runtime.launcher import printed
from plinth.runtime.mpi import MpiTransport, world
from plinth.runtime.mpi_messages import MpiMessages
from plinth.runtime.numpy_executor import NumpyExecutor
from plinth.sharding import Sharding
from plinth.step.build import step_of
from plinth.update.rule import UpdateRule

#: Neurons of a layer; layers; samples of a step.
NEURONS, LAYERS, BATCH = (4096, 16384), 12, 64
#: Steps that are left out, and that are measured, of each turn; turns.
FIRST, STEPS, TURNS = 3, 20, 5
#: What is measured.
INFERENCE, SGD = KINDS = "inference", "sgd"


def print_seconds(neurons: int) -> None:
    """Run a rank's part of the rows: of a RadiX-Net whose rows are partitioned among all ranks, a die each, the first
    prints the seconds of a step of either kind. All ranks wait for each other before and behind the steps."""
    ranks = world()
    network = layered(trained_network(neurons, LAYERS, seed=0))
    graph, array = from_network(network), ring(ranks.size)
    splits, lists = hypergraph(graph, array.levels, array.dies, "structured")
    step = step_of(Sharding(graph=graph, splits=splits, batch=BATCH, factors=array.factors, lists=lists, array=array,
                            rule=UpdateRule(rate=0.01)), array.die_parameters())
    samples = np.random.default_rng(0).random((BATCH, neurons), np.float32)
    with MpiTransport(ranks.communicator, [(rank,) for rank in range(ranks.size)], nap_seconds=1.0) as transport:
        executor = NumpyExecutor(step, MpiMessages(transport))
        executor.view.load(executor, initial_parameters(network, 0))
        executor.view.write_batch(executor, samples, samples)
        seconds = {}
        for kind, run in ((INFERENCE, executor.predict), (SGD, executor.step)):
            for number in range(FIRST + STEPS):
                if number == FIRST:
                    ranks.communicator.Barrier()
                    started = time.perf_counter()
                run()
            ranks.communicator.Barrier()
            seconds[kind] = (time.perf_counter() - started) / STEPS
    if ranks.rank == 0:
        print(json_text(seconds))


def _seconds(ranks: int, neurons: int) -> dict[str, float]:
    """Seconds of a step of either kind on so many ranks."""
    program = f"from plinth.bench.sparse_ranks import print_seconds; print_seconds({neurons})"
    kinds: dict[str, float] = json.loads(printed(ranks, ["-c", program]))
    return kinds


def _scaling(kind: str) -> list[BenchRow]:
    """How much faster two ranks are than one, of the size that gains less: RadiX-Nets of 12 layers, batch 64, one BLAS
    thread a rank; the median of turns."""
    cases = {}
    for neurons in NEURONS:
        turns = [(_seconds(1, neurons)[kind], _seconds(2, neurons)[kind]) for _ in range(TURNS)]
        ratios = sorted(one / two for one, two in turns)
        cases[neurons] = {"ratio": median(ratios), "least": ratios[0], "most": ratios[-1],
                          "seconds": min(one for one, _ in turns), "seconds_2_ranks": min(two for _, two in turns)}
    return [BenchRow(f"sparse_{kind}_scaling", min(case["ratio"] for case in cases.values()),
                     "seconds of a step of one rank / of two", "rows that both need are sent layer by layer, and "
                     "memory, which has one way for both",
                     {"layers": LAYERS, "batch": BATCH, "neurons": {str(neurons): case for neurons, case in
                                                                   cases.items()}})]


#: Names and functions of these rows.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {
    f"sparse_{kind}_scaling": partial(_scaling, kind) for kind in KINDS}
