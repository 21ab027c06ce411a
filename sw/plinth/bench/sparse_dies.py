"""Rows about sparse layers on co-simulated dies: words on links, and what layers of RadiX-Net make of the array."""

from collections.abc import Callable
from typing import Any

import numpy as np

from plinth.api.planning import plan as plan_of
from plinth.api.training import train
from plinth.array.array import ring
from plinth.bench.row import BenchRow, random_words
from plinth.bench.steps import memory_words
from plinth.driver.driver import Driver
from plinth.lower.training import lower_step
from plinth.network.network import Network
from plinth.network.sparse.layers import layered
from plinth.network.sparse.radix_net import trained_network
from plinth.partition.graph import from_network
from plinth.partition.hypergraph.owners import SparsePartition
from plinth.partition.hypergraph.volume import traffic
from plinth.plan.plan import Plan
from plinth.plan.planning import SPLITTERS, given_plan, task
from plinth.runtime.arrays import cosim_array, golden_array
from plinth.step.build import step_of
from plinth.step.layers.sparse import SparseProducts
from plinth.step.step import Step
from plinth.step.tasks import FPROP
from plinth_hw.isa.parameters import preset

#: Neurons of each layer, samples of a step, and dies that send words.
NEURONS, BATCH, DIES = 1024, 64, 4


def radix_net(layers: int) -> Network:
    """A RadiX-Net of so many layers as a network that trains: sigmoids, weights of U[-1, 1), seed 0."""
    return layered(trained_network(NEURONS, layers, seed=0))


def volume(plan: Plan) -> int:
    """Words of a sample by the hypergraph of the layers, whose owners the plan lists."""
    layers = [(node.pattern.matrix(), lists.outputs) for node, lists in zip(
        plan.sharding.graph.nodes, plan.sharding.lists, strict=True) if node.pattern is not None and lists is not None]
    owners = [np.zeros(layers[0][0].shape[1], np.int64)]
    for matrix, parts in layers:
        owners.append(np.full(matrix.shape[0], -1))
        for die, part in enumerate(parts or ()):
            for first, end in part:
                owners[-1][first:end] = die
    return traffic([matrix for matrix, _ in layers], SparsePartition(plan.dies, owners[0], tuple(owners[1:])),
                   first_layer="none").words


def words_on_dies() -> list[BenchRow]:
    """A step of four layers on four demo dies, compared with the golden model's, by the hypergraph and at random."""
    draws = np.random.default_rng(0)
    network, (x, y) = radix_net(4), (draws.random((2 * BATCH, NEURONS), dtype=np.float32) for _ in range(2))
    details: dict[str, dict[str, Any]] = {}
    for planner in ("hypergraph", "random-rows"):
        plan = plan_of(network, ring(DIES), planner=planner, batch=BATCH)
        report = train(plan, x, y, device="cosim", steps=1).report
        if not report["bit_exact"]:
            raise AssertionError(f"a step by {planner} differs from the golden model's")
        details[planner] = {"injected_words": report["injected_words"], "link_words": report["link_words"],
                            "volume": BATCH * volume(plan.plan), "cycles": report["cycles"],
                            "predicted_cycles": report["predicted_cycles_per_step"]}
    own = details["hypergraph"]
    return [BenchRow("sparse_words_on_dies", own["injected_words"] / own["volume"],
                     "words counted / words of the hypergraph", "nothing: dies send what the partition implies",
                     {"neurons": NEURONS, "layers": 4, "batch": BATCH, "dies": DIES, **details})]


def layer_alone(network: Network, number: int, array_preset: str = "ndp-bench") -> tuple[Step, SparseProducts]:
    """A step of one die that is fprop of the sparse layer of a number, and what clears its sums."""
    array = ring(1, preset=array_preset)
    graph = from_network(network)
    plan = given_plan(graph, array, SPLITTERS["data"](task(graph, array, "exact", BATCH)), BATCH)
    step = step_of(plan.sharding, array.die_parameters())
    products = [products for products in step.operations_of(SparseProducts) if products.direction == FPROP][number]
    step.operations[:] = [operation for operation in step.operations
                          if operation.name in (products.name, f"{products.name}.zero")]
    return step, products


def fprop_cycles(step: Step, products: SparseProducts) -> int:
    """Cycles of a layer's fprop on a co-simulated die, from the first task's start to the last one's end; what it gives
    is compared with the golden model's.

    Raises
    ------
    AssertionError
        If it differs.
    """
    parameters = step.parameters
    words = memory_words(parameters)
    program = lower_step(step, 1, words)
    drivers = [Driver(array, program, memory_words=words)
               for array in (cosim_array(parameters, 1, words)[0], golden_array(parameters, 1, words))]
    sides = products.x.side.tensor.buffer(0), products.weights.matrix(0), products.z.side.tensor.buffer(0)
    x, w, z = (program.buffers[side.place]._replace(**{
        key: getattr(side, key) for key in ("rows", "columns", "stride")}) for side in sides)
    for driver in drivers:
        for buffers, host_words in program.host_words:
            driver.write(0, buffers[0], host_words.words(0).reshape(1, -1))
        driver.write(0, x, random_words(x.rows * x.columns, 1).reshape(x.rows, x.columns))
        weights = np.where(products.weights.slice(0).entries < 0, 0, random_words(w.columns, 2))
        driver.write(0, w, weights.astype(np.uint32).reshape(1, -1))
        driver.step(0)
    if not np.array_equal(drivers[0].read(0, z), drivers[1].read(0, z)):
        raise AssertionError("fprop of a sparse layer of the RTL differs from the golden model's")
    records = drivers[0].records(0)
    return max(record.end for record in records) - min(record.start for record in records)


def die_utilisation() -> list[BenchRow]:
    """Layers of a base of RadiX-Net, each alone on a die of ndp-bench; the row is the last one's, of the largest
    blocks."""
    parameters, details = preset("ndp-bench"), list[dict[str, Any]]()
    layers = (NEURONS // 16).bit_length() - 1
    network = radix_net(layers)
    for number in range(layers):
        step, products = layer_alone(network, number)
        cover, cycles = products.weights.cover(0), fprop_cycles(step, products)
        details.append({"layer": number, "blocks": [list(group.shape) for group in cover.groups()],
                        "useful": cover.useful, "cycles": cycles, "utilisation": BATCH * cover.nonzeros / (
                            parameters.rows * parameters.columns * cycles)})
    *others, last = details
    return [BenchRow("sparse_die_utilisation", last["utilisation"], "useful multiply-adds / (PEs x cycles)",
                     "memory, which moves a block's words while it is multiplied; blocks of other layers have 16 rows "
                     f"and fill half of the slots: {min(layer['utilisation'] for layer in others):.2f} at least",
                     {"neurons": NEURONS, "batch": BATCH, "layers": details})]


#: Every row's name and the function that makes it.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {
    "sparse_words_on_dies": words_on_dies, "sparse_die_utilisation": die_utilisation,
}
