"""HyPar's networks through the array simulator, in the settings that its figures are compared with.

=========== ======================= ======================= ======================================== =========
setting     dies                    links                   words                                    overlap
=========== ======================= ======================= ======================================== =========
stated      168 PEs, 250 MHz        1600 Mb/s, H-tree       Tables 1 and 2, from partner to partner  yes
K links     168 PEs, 250 MHz        125 Mb/s, H-tree        Tables 1 and 2, from partner to partner  no
torus       168 PEs, 250 MHz        62.5 Mb/s, 4x4 torus    Tables 1 and 2, from partner to partner  no
our dies    preset hypar-paper      1600 Mb/s, H-tree       as our dies move them                    yes
=========== ======================= ======================= ======================================== =========

125 Mb/s are what the fitted constant K means: 2/7 GB take as long as three products of a GMAC for 256 samples on 16
x 168 PEs at 250 MHz, so that the array moves 0.25 GB/s, where 16 links of 1600 Mb/s would move 3.2 GB/s. No other
constant is fitted. The torus' 32 links together carry what the 16 of a level of the H-tree do. The first three count
multiply-adds as the formula does: weights times positions of the input map, three products a layer.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from plinth.array.array import ARRAYS, Array
from plinth.partition.graph import PlanGraph
from plinth.partition.regions import Splits
from plinth.plan.plan import Plan
from plinth.reproduce.hypar.cases import BATCH, NAMES, HyParCase, case
from plinth.sharding import Sharding
from plinth.simulate.routes import LinkRoutes
from plinth.simulate.step import simulated
from plinth_sim.array.energy import PICO, Counts, Energy

#: Words a cycle of a link by K, over those stated: 0.25 GB/s over 3.2 GB/s.
K_SHARE = Fraction(5, 64)
#: Tasks of a step, over all dies, up to which it is simulated task by task: figures simulate many.
MOST_TASKS = 24_000


@dataclass(frozen=True, kw_only=True)
class SimulationSetting:
    """A setting that a network is simulated with: array, costs and rules."""

    array: Array
    paper: bool = True
    overlap: bool = False


@dataclass(frozen=True)
class SimulatedOutcome:
    """Seconds of a step, and what was done in it."""

    seconds: float
    counts: Counts
    #: Where the cycles come from.
    source: str


def _k_links(array: Array) -> Array:
    return replace(array, link_rate=array.rate * K_SHARE)


def _slower(array: Array) -> Array:
    """With links half as fast."""
    return replace(array, link_rate=array.rate / 2)


STATED = SimulationSetting(array=ARRAYS["hypar-16"], overlap=True)
K_LINKS = SimulationSetting(array=_k_links(ARRAYS["hypar-16"]))
#: The torus numbered row by row: of partners two columns or rows apart all go the same way round.
ROW_TORUS = SimulationSetting(array=_k_links(ARRAYS["torus-16"]))
HALF_ROW_TORUS = SimulationSetting(array=_slower(ROW_TORUS.array))
#: Rows and columns numbered in Gray code: links join dies whose numbers differ in one bit, the partners of every level.
LINK_TORUS = SimulationSetting(array=replace(
    ROW_TORUS.array, name="torus-16-gray", topology="links", dimensions=(),
    wiring=tuple((die, bit, die ^ 1 << bit, bit) for die in range(16) for bit in range(4) if not die >> bit & 1)))
#: Its 32 links together carry 25.6 Gb/s, as the H-tree's 16 links of each level do.
TORUS = SimulationSetting(array=_slower(LINK_TORUS.array))
#: The row-stationary dies of this project, in the paper's size.
OUR_DIES = SimulationSetting(array=ARRAYS["hypar-16"], paper=False, overlap=True)
OUR_TORUS = replace(OUR_DIES, array=ARRAYS["torus-16"])


def tree(dies: int, *, whole: bool) -> SimulationSetting:
    """An H-tree of any size with links as K has them: as fast as of 16 dies, or sharing the same total."""
    rate = K_LINKS.array.rate * (Fraction(16, dies) if whole else 1)
    return SimulationSetting(array=replace(K_LINKS.array, name=f"h-tree-{dies}", dies=dies, link_rate=rate))


def our_tree(dies: int) -> SimulationSetting:
    """Our dies on an H-tree of any size, each with a link as stated."""
    return replace(OUR_DIES, array=replace(OUR_DIES.array, name=f"h-tree-{dies}", dies=dies))


@lru_cache(maxsize=64)
def _routes(array: Array) -> LinkRoutes:
    return LinkRoutes(array)


@lru_cache(maxsize=1024)
def outcome(graph: PlanGraph, splits: Splits, batch: int, setting: SimulationSetting) -> SimulatedOutcome:
    """Simulate a step with a setting of the paper."""
    if setting.paper:
        graph = replace(graph, nodes=tuple(replace(node, output_positions=node.input_positions)
                                           for node in graph.nodes))
    plan = Plan(sharding=Sharding(graph=graph, splits=splits, batch=batch), planner="hypar",
                model="published" if setting.paper else "exact", array=setting.array.name)
    simulation = simulated(plan, setting.array, cost="paper" if setting.paper else "die", routes=_routes(setting.array),
                           overlap=setting.overlap, form="published" if setting.paper else "exact",
                           # Trees of all sizes by one model, as they are compared with each other.
                           most_tasks=0 if setting.array.switches else MOST_TASKS)
    return SimulatedOutcome(simulation.result.seconds, simulation.result.counts, simulation.source)


def gains(series: str, setting: SimulationSetting, against: SimulationSetting | None = None) -> list[float]:
    """Performance of a series in a setting against Data Parallelism in the same or another one, of all networks."""
    ratios = []
    for name in NAMES:
        network = case(name)
        splits = network.planned_exact if series == "hypar" and not setting.paper else network.splits[series]
        ratios.append(outcome(network.graph, network.splits["data"], BATCH, against or setting).seconds
                      / outcome(network.graph, splits, BATCH, setting).seconds)
    return ratios


@dataclass(frozen=True, kw_only=True)
class AccessReading:
    """A way to count the accesses that the paper leaves open."""

    #: Of its column; the first reading is ours.
    heading: str = ""
    setting: SimulationSetting = STATED
    #: Accesses of 5 pJ for each multiply-add in a PE's own scratchpads.
    scratchpads: int = 0
    #: Further accesses of memory for each word that is added to another die's.
    reads: int = 0

    def joules(self, counts: Counts) -> float:
        """Energy of a step."""
        energy = Energy()
        more = (self.scratchpads * counts.multiplies * energy.sram
                + self.reads * (counts.adds - counts.multiplies) * energy.dram)
        return sum(counts.joules(energy).values()) + more * PICO


READINGS = {"ours": AccessReading(), "our_dies": AccessReading(heading="dies", setting=OUR_DIES),
            "stored": AccessReading(heading="stored", reads=2),
            "scratchpads": AccessReading(heading="pads", scratchpads=4)}


def saving(network: HyParCase, series: str, reading: AccessReading, against: str = "data") -> float:
    """Energy of a step under one series' splits over that under another's."""
    setting = reading.setting
    array = setting.array
    if array.dies != 1 << network.levels:
        setting = replace(setting, array=replace(array, name=f"h-tree-{1 << network.levels}", dies=1 << network.levels))
    spent = {}
    for name in (against, series):
        splits = network.planned_exact if name == "hypar" and not setting.paper else network.splits[name]
        spent[name] = reading.joules(outcome(network.graph, splits, network.batch, setting).counts)
    return spent[against] / spent[series]
