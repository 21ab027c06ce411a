"""MPT's evaluation (Zhang et al., MICRO 2018, section VII): its layers, networks and systems on our array of clusters.

The paper's systems (Table IV): direct convolution and Winograd layers with data parallelism, F(4x4,3x3) and trained
kernels; MPT with 16 groups and 16 clusters for every layer, F(2x2,3x3) and trained tiles; MPT with groups, clusters and
transform chosen for each layer; and both with predicted gathers and skipped scatters. A layer of Table II stands with a
ReLU behind one of 1x1 that has a single input channel, and a ReLU, so that it has an error to give back; what that one
and the loss take alone, data parallel on the same array, is taken off. Systems that are data parallel have all of a
worker's I/O in rings (:func:`plinth.array.array.data_parallel_workers`).

Predictions are in one round. Words are those that the block code takes (:mod:`plinth.partition.predicted`), or those of
section V.B: quantised words of 6 bits, gathers that save 34.0 % with these, scatters that save 39.3 %; of errors, of
which it says nothing, those of tiles that are not found dead, and of errors of inputs those of inputs that were sent.
Codes keep up with links, or are made as by our stages.
"""

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from math import isqrt, prod

from plinth.array.array import AT_LINKS, BUILT, Array, clusters, data_parallel_workers
from plinth.network.layers import AUTO, OFF, SPATIAL, Convolution, MeanSquaredError, Relu, Shape
from plinth.network.network import Network
from plinth.network.winograd import with_tiles
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import EP, from_network
from plinth.plan.plan import Plan
from plinth.plan.planners.mpt import grouped, mpt
from plinth.plan.planning import arranged, given_plan
from plinth.predict.time import StepTime
from plinth.reproduce.paper import paper
from plinth.simulate import step
from plinth.simulate.workload import MOST_TASKS

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
    #: In which gathers are predicted.
    rounds: int = 0


SYSTEMS = {"d_dp": System(OFF, SPATIAL, "data"), "w_dp": System(AUTO, SPATIAL, "data"),
           "w_mp": System(2, "winograd", "groups"), "w_mp+": System(2, "winograd", "groups", 1),
           "w_mp*": System(AUTO, "winograd", "mpt"), "w_mp+*": System(AUTO, "winograd", "mpt", 1)}


@dataclass(frozen=True)
class Codes:
    """What codes are made by, and words of each part of a gather and of what is skipped over all; none: as measured."""

    by: str
    shares: tuple[float, ...] = ()


#: Section V.B, 2-D: bits of a quantised word, what gathers and scatters save.
_QUANTISED, _GATHERED, _SCATTERED = 6 / 32, 0.340, 0.393
#: Ours, as a model that keeps up with links; with the words that the paper states; as our stages are built.
CODES = {"ours": Codes(AT_LINKS),
         "stated": Codes(AT_LINKS, (_QUANTISED, 1 - _GATHERED - _QUANTISED, 1 - _SCATTERED,
                                    1 - _GATHERED - _QUANTISED, 1 - _SCATTERED)),
         "built": Codes(BUILT)}


@dataclass(frozen=True)
class SimulatedStep:
    """Seconds and energy of a simulated step.

    Attributes
    ----------
    seconds, forward : float
        Of all, and until the last task of fprop is done.
    joules, dram_joules : float
        Of all, and of words of memory.
    """

    seconds: float
    forward: float
    joules: float
    dram_joules: float

    @property
    def backward(self) -> float:
        """Seconds of the step behind fprop."""
        return self.seconds - self.forward

    def __sub__(self, other: "SimulatedStep") -> "SimulatedStep":
        return SimulatedStep(*(getattr(self, field.name) - getattr(other, field.name) for field in fields(self)))


def array(dies: int = GROUPS * CLUSTERS, codes: str | None = None) -> Array:
    """The paper's workers as they are for MPT, as many groups as clusters; ``codes`` of the array."""
    side = isqrt(dies)
    return clusters(side, side, codes)


def workers(system: str, dies: int = GROUPS * CLUSTERS, codes: str = "ours") -> Array:
    """The array of a system: with all links in rings where it is data parallel; ``codes`` of those that predict."""
    settings = SYSTEMS[system]
    if settings.arranged == "data":
        return data_parallel_workers(dies)
    return array(dies, CODES[codes].by if settings.rounds else None)


def mean(values: list[float]) -> float:
    """The geometric mean of values."""
    return float(prod(values) ** (1 / len(values)))


def means_note(values: list[float]) -> str:
    """What a row of a mean says where the paper does not say which it printed."""
    return (f"the paper does not say which mean; ours: geometric {mean(values):.4g}, arithmetic "
            f"{sum(values) / len(values):.4g}")


def groups(name: str, system: str) -> int:
    """Groups of a layer of Table II in a system."""
    plan = plan_of(layer(name), system)
    node = next(number for number, node in enumerate(plan.graph.nodes) if node.name == "conv")
    return 1 << plan.splits[node].count(EP)


def layer(name: str, kernel: int = 3) -> Network:
    """A layer of Table II behind another one, with kernels of another size if need be; of size 0: that one alone."""
    (conv, loss), source = NETWORKS[name].layers, NETWORKS[name].input
    assert isinstance(conv, Convolution)
    stem = Convolution(name="stem", channels=source.channels, kernel=(1, 1), bias=False), Relu(name="before")
    own = () if not kernel else (
        replace(conv, inputs=(), kernel=(kernel, kernel), padding=(kernel // 2, kernel // 2)), Relu(name="behind"))
    layers = (*stem, *own, MeanSquaredError(name=loss.name))
    return Network(name=name, input=Shape((1, *source[1:])), layers=layers)


def plan_of(network: Network, system: str, where: Array | None = None, codes: str = "ours") -> Plan:
    """The plan of a system, on its array unless another one is given; ``codes`` of those that predict."""
    settings, by = SYSTEMS[system], CODES[codes]
    where = where or workers(system, codes=codes)
    has = any(isinstance(layer, Convolution) and layer.kernel != (1, 1) for layer in network.layers)
    tiled = with_tiles(network, settings.winograd, settings.weights, settings.rounds,
                       by.shares if settings.rounds else ()) if has else network
    tiled = arranged(tiled, where, settings.arranged, BATCH)
    graph = from_network(tiled)
    splits = mpt(StepTime(graph, BATCH, where)) if settings.arranged == "mpt" else grouped(
        graph, where, where.group_levels if settings.arranged == "groups" else 0)
    return given_plan(graph, where, splits, BATCH)


@lru_cache(maxsize=128)
def simulated(name: str, system: str, dies: int = GROUPS * CLUSTERS, kernel: int = 3,
              codes: str = "ours") -> SimulatedStep:
    """A step of a CNN, or of a layer alone; ``kernel`` of a layer."""
    where = workers(system, dies, codes)
    if name in CNNS:
        return _step(NETWORKS[name], system, where, codes)
    return _step(layer(name, kernel), system, where, codes) - _step(layer(name, 0), "d_dp", where, codes)


def _step(network: Network, system: str, where: Array, codes: str) -> SimulatedStep:
    plan = plan_of(network, system, where, codes)
    assert plan.hardware is not None
    # Arrays with switches, which are compared with each other, by one model whatever their size.
    simulation = step.simulated(plan, plan.hardware, most_tasks=0 if plan.hardware.switches else MOST_TASKS)
    forward = max(done for done, what in zip(simulation.result.dones.tolist(), simulation.work.purposes, strict=True)
                  if what.phase == "fprop")
    return SimulatedStep(simulation.result.seconds, forward, sum(simulation.joules.values()), simulation.joules["dram"])


@dataclass(frozen=True)
class StepWords:
    """Words that all workers send in a step: of gradients round their rings, and of tiles."""

    weights: int
    tiles: int

    @property
    def all(self) -> int:
        """Words of gradients and of tiles together."""
        return self.weights + self.tiles


@lru_cache(maxsize=32)
def words(name: str, dies: int = GROUPS * CLUSTERS) -> dict[str, StepWords]:
    """Count the words of a CNN, or of a layer within a network, with tiles of F(2x2,3x3): data parallel, in as many
    groups as clusters, and as chosen layer by layer."""
    where, alone = array(dies), name not in CNNS
    plan = plan_of(layer(name) if alone else NETWORKS[name], "w_mp", where)
    chosen = {"data": grouped(plan.graph, where, 0), "groups": grouped(plan.graph, where, where.group_levels),
              "chosen": mpt(StepTime(plan.graph, BATCH, where))}
    sent = {}
    for what, splits in chosen.items():
        other = plan.resharded(splits=splits)
        sent[what] = StepWords(
            sum(reduction.words for reduction in other.reductions if not alone or reduction.layer == "conv"),
            sum(transfer.words for transfer in other.transfers if not alone or transfer.exchange.layer == "conv"))
    return sent
