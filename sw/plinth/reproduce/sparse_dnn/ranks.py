"""Points of the figures of scaling: steps that are measured on one rank or two of this machine, in programs of their
own, and steps that are simulated on hosts of given rates. Each is kept in the cache: what was interrupted goes on
behind the last that was done."""

import json
import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from plinth.array.array import Array
from plinth.array.file import load_array
from plinth.machine import host as machine_host
from plinth.machine import sparse_products
from plinth.network.parameters import initial_parameters
from plinth.network.sparse.layers import layered
from plinth.network.sparse.radix_net import RadixNet, trained_network
from plinth.output import json_text, write_json
from plinth.partition.graph import from_network
from plinth.plan.planners.hypergraph import given_owners
from plinth.reproduce.sparse_dnn import parts, scaling
from plinth.reproduce.sparse_dnn.partitions import kept
from plinth.reproduce.sparse_dnn.parts import LayerParts, network_parts
from plinth.reproduce.sparse_dnn.scaling import ScalingPoint, simulated_point
from plinth.runtime.launcher import printed
from plinth.runtime.mpi import MpiTransport, world
from plinth.runtime.mpi_messages import MpiMessages
from plinth.runtime.numpy_executor import NumpyExecutor
from plinth.runtime.verilog import tool_errors
from plinth.sharding import Sharding
from plinth.step.build import step_of
from plinth.update.rule import UpdateRule
from plinth_hw.cache import cached_folder, digest
from plinth_hw.installation import cache_root

#: Hosts as ``plinth array host`` measured their kernels and the rate between two ranks; docs/reproduce.md says where.
HOST_FILE = Path(__file__).with_name("host.yaml")
#: Steps that are left out, and that are measured, of each kind; the shortest counts.
FIRST, STEPS = 2, 8
#: Seconds after which a measurement is taken to hang; a step of 16,384 neurons is built in minutes.
MOST_SECONDS = 3600
#: Learning rate of the paper.
RATE = 0.01
#: File of a point in the cache.
SECONDS = "seconds.json"


def _sources() -> str:
    """Digest of what is measured: kernels, executor and step."""
    rooms = Path(__file__).resolve().parents[2]
    files = [rooms / "machine" / name for name in ("sparse_products.py", "blocks.py", "covers.py")]
    paths = sorted([*files, *(rooms / "runtime").rglob("*.py"), *(rooms / "step").rglob("*.py")])
    return digest(*(part for path in paths for part in (path.name, path.read_bytes())))


@lru_cache(maxsize=1)
def host() -> Array:
    """Two hosts with the rates that simulated points have, on every machine the same (:data:`HOST_FILE`)."""
    return load_array(str(HOST_FILE))


def hosts(ranks: int) -> Array:
    """So many hosts of these rates, each at a link to one switch of what two ranks have between them."""
    return replace(host(), name=f"hosts-{ranks}", dies=ranks)


def print_seconds(neurons: int, layers: int, how: str, samples: int, seed: int) -> None:
    """Run a rank's part of a measured point: rank 0 prints the seconds of a step, and of fprop alone. All ranks wait
    for each other before and behind each."""
    ranks = world()
    network = layered(trained_network(neurons, layers, seed=seed))
    owners = kept(RadixNet(neurons=neurons, layers=layers, seed=seed), ranks.size, how, seed).layers
    graph, array = from_network(network), hosts(ranks.size)
    splits, lists = given_owners(graph, array.levels, array.dies, owners)
    step = step_of(Sharding(graph=graph, splits=splits, batch=samples, factors=array.factors, lists=lists, array=array,
                            rule=UpdateRule(rate=RATE)), array.die_parameters())
    x = np.random.default_rng(seed).random((samples, neurons), np.float32)
    with MpiTransport(ranks.communicator, [(rank,) for rank in range(ranks.size)], nap_seconds=1.0) as transport:
        executor = NumpyExecutor(step, MpiMessages(transport))
        executor.view.load(executor, initial_parameters(network, seed))
        executor.view.write_batch(executor, x, x)
        least = []
        for run in (executor.predict, executor.step):
            times = []
            for _ in range(FIRST + STEPS):
                ranks.communicator.Barrier()
                started, used = time.perf_counter(), time.process_time()
                run()
                ranks.communicator.Barrier()
                seconds, used = time.perf_counter() - started, time.process_time() - used
                # Another program may have had the processor meanwhile; of two ranks each waits for the other.
                times.append(min(seconds, used) if ranks.size == 1 else seconds)
            least.append(min(times[FIRST:]))
    if ranks.rank == 0:
        print(json_text(ScalingPoint(*least).to_data()))


def measured(neurons: int, layers: int, ranks: int, how: str, samples: int, seed: int) -> ScalingPoint:
    """A step of so many inputs on one rank or two of this machine, the shortest of some; SpFF is the shortest of as
    many of fprop alone. Of one rank processor time counts where it is shorter.

    Raises
    ------
    UserError
        If there is no launcher, or a rank fails.
    """
    setting = (neurons, layers, how, samples, seed)
    key = digest(_sources(), repr(setting))
    folder = cache_root() / "scaling" / f"measured-{neurons}-{ranks}-{how}-{samples}-{key}"
    # Ranks look for it when they run.
    kept(RadixNet(neurons=neurons, layers=layers, seed=seed), ranks, how, seed)
    with tool_errors(), cached_folder(folder, SECONDS) as scratch:
        if scratch is not None:
            program = f"from plinth.reproduce.sparse_dnn.ranks import print_seconds; print_seconds(*{setting!r})"
            write_json(scratch / SECONDS, json.loads(printed(ranks, ["-c", program], MOST_SECONDS)))
    return ScalingPoint(**json.loads((folder / SECONDS).read_text(encoding="utf-8")))


def simulated(neurons: int, layers: int, ranks: int, how: str, samples: int, seed: int) -> ScalingPoint:
    """The same on so many hosts of this machine's rates, by the array simulator; kept as well.

    Raises
    ------
    UserError
        If the cache cannot be written.
    """
    network, array = RadixNet(neurons=neurons, layers=layers, seed=seed), hosts(ranks)
    key = digest(_simulation(), repr((array.host, array.rate, array.link_latency, layers, seed)))
    folder = cache_root() / "scaling" / f"simulated-{neurons}-{ranks}-{how}-{samples}-{key}"
    with tool_errors(), cached_folder(folder, SECONDS) as scratch:
        if scratch is not None:
            point = simulated_point(_parts(network, ranks, how, seed), array, samples)
            write_json(scratch / SECONDS, point.to_data())
    return ScalingPoint(**json.loads((folder / SECONDS).read_text(encoding="utf-8")))


@lru_cache(maxsize=1)
def _simulation() -> str:
    """Digest of what simulates."""
    return digest(*(Path(module.__file__ or "").read_bytes() for module in (
        parts, scaling, sparse_products, machine_host)))


@lru_cache(maxsize=1)
def _parts(network: RadixNet, ranks: int, how: str, seed: int) -> list[LayerParts]:
    return list(network_parts(network, kept(network, ranks, how, seed)))
