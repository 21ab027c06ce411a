"""MPT's evaluation (Zhang et al., MICRO 2018, section VII): its layers, networks and systems on our array of clusters.

The paper's systems (Table IV), as far as they are built: direct convolution and Winograd layers with data parallelism,
F(4x4,3x3) and trained kernels; MPT with 16 groups and 16 clusters for every layer, F(2x2,3x3) and trained tiles; and
MPT with groups, clusters and transform chosen for each layer. A layer of Table II stands behind one of 1x1 that has a
single input channel, so that it has an error to give back; what that one and the loss take alone is taken off.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from plinth.model.array import Array, clusters
from plinth.model.layers import AUTO, OFF, SPATIAL, Convolution, MeanSquaredError, Shape
from plinth.model.network import Network
from plinth.model.winograd import with_tiles
from plinth.model.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.plan.cost.time import StepTime
from plinth.plan.plan import Plan
from plinth.plan.planners.mpt import grouped, mpt
from plinth.plan.planning import arranged, given_plan
from plinth.reproduce.paper import paper
from plinth.simulate import step

#: The paper's data.
MPT = paper("mpt")
#: Section VII.A: groups, clusters, samples of a step.
GROUPS, CLUSTERS, BATCH = 16, 16, 256
#: Table II, and Table I.
LAYERS = ("mpt-early", "mpt-mid-1", "mpt-late-1", "mpt-mid-2", "mpt-late-2")
CNNS = ("wrn-40-10", "resnet-34", "fractalnet-4-4")


@dataclass(frozen=True)
class System:
    """Table IV: what convolutions are, what is trained, and how layers are arranged."""

    winograd: str | int
    weights: str
    arranged: str


SYSTEMS = {"d_dp": System(OFF, SPATIAL, "data"), "w_dp": System(AUTO, SPATIAL, "data"),
           "w_mp": System(2, "winograd", "groups"), "w_mp*": System(AUTO, "winograd", "mpt")}


@dataclass(frozen=True)
class Step:
    """A simulated step."""

    seconds: float
    joules: float

    def __sub__(self, other: "Step") -> "Step":
        return Step(self.seconds - other.seconds, self.joules - other.joules)


def array(dies: int = GROUPS * CLUSTERS) -> Array:
    """The paper's workers, or one of them."""
    return clusters(GROUPS, CLUSTERS) if dies > 1 else clusters(1, 1)


def mean(values: list[float]) -> float:
    """Geometric mean."""
    return float(prod(values) ** (1 / len(values)))


def layer(name: str, kernel: int = 3) -> Network:
    """A layer of Table II behind another one, with kernels of another size if need be; of size 0: that one alone."""
    (conv, loss), source = NETWORKS[name].layers, NETWORKS[name].input
    assert isinstance(conv, Convolution)
    stem = Convolution(name="stem", channels=source.channels, kernel=(1, 1), bias=False)
    own = () if not kernel else (
        replace(conv, inputs=("stem",), kernel=(kernel, kernel), padding=(kernel // 2, kernel // 2)),)
    layers = (stem, *own, MeanSquaredError(name=loss.name))
    return Network(name=name, input=Shape((1, *source[1:])), layers=layers)


def plan_of(network: Network, system: str, dies: int = GROUPS * CLUSTERS) -> Plan:
    """The plan of a system."""
    given, where = SYSTEMS[system], array(dies)
    has = any(isinstance(one, Convolution) and one.kernel != (1, 1) for one in network.layers)
    made = with_tiles(network, given.winograd, given.weights) if has else network
    made = arranged(made, where, given.arranged, BATCH)
    graph = from_network(made)
    splits = mpt(StepTime(graph, BATCH, where)) if given.arranged == "mpt" else grouped(
        graph, where, where.group_levels if given.arranged == "groups" else 0)
    return given_plan(graph, where, splits, BATCH)


@lru_cache(maxsize=128)
def simulated(name: str, system: str, dies: int = GROUPS * CLUSTERS, kernel: int = 3) -> Step:
    """A step of a CNN, or of a layer alone; ``kernel`` of a layer."""
    if name in CNNS:
        return _step(NETWORKS[name], system, dies)
    return _step(layer(name, kernel), system, dies) - _step(layer(name, 0), "d_dp", dies)


def _step(network: Network, system: str, dies: int) -> Step:
    plan = plan_of(network, system, dies)
    found = step.simulated(plan, array(dies))
    return Step(found.result.seconds, sum(found.joules.values()))


@lru_cache(maxsize=8)
def words(name: str) -> dict[str, dict[int, int]]:
    """Words that all workers send in a step of a network with tiles of F(2x2,3x3), by layer and by number of groups."""
    plan = plan_of(NETWORKS[name], "w_mp")
    found: dict[str, dict[int, int]] = {}
    for levels in (0, 2, 4):
        other = replace(plan, splits=grouped(plan.graph, array(), levels))
        for one in other.reductions:
            found.setdefault(one.layer, {})[1 << levels] = one.words
        for transfer in other.transfers:
            found.setdefault(transfer.exchange.layer, {}).setdefault(1 << levels, 0)
            found[transfer.exchange.layer][1 << levels] += transfer.words
    return found
