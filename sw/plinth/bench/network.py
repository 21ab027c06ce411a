"""What goes over links alone, simulated against counted on co-simulated dies: scatters and gathers of Winograd tiles
and rings of a step, and plain tiles from everyone to everyone, with hot spots and without.

A case is a step of which all other operations are left out; it is lowered, counted and simulated as any step.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from statistics import mean

from plinth.array.array import Array, ring
from plinth.bench.pool import spread
from plinth.bench.row import BenchRow
from plinth.bench.steps import built, memory_words
from plinth.buffers import Buffer
from plinth.driver.driver import Driver
from plinth.lower.training import lower_step
from plinth.network.layers import Convolution, Dense, Flatten, Shape, SoftmaxCrossEntropy
from plinth.network.network import Network, perceptron
from plinth.partition.graph import from_network
from plinth.plan.planners.mpt import grouped
from plinth.runtime.arrays import cosim_array
from plinth.sharding import Sharding
from plinth.simulate.costs import DieCosts
from plinth.simulate.routes import LinkRoutes
from plinth.simulate.tasks import TaskByTask
from plinth.step.between import Barrier, Reduce, Regroup
from plinth.step.build import step_of
from plinth.step.operations import Operation
from plinth.step.step import Step
from plinth.step.tasks import Arrivals, Item, Task, TileCopy, arrivals_of
from plinth.step.tensors import Place
from plinth.step.tile_operations import Gather, Scatter
from plinth_hw.isa.operations import Engine
from plinth_sim.array.simulate import simulate

#: Words of a plain tile.
WORDS = 1024
#: Who sends to whom, in order, by the numbers of a die and of the dies.
PATTERNS: dict[str, Callable[[int, int], list[int]]] = {
    "everyone to everyone, the next first": lambda die, dies: [(die + turn) % dies for turn in range(1, dies)],
    "everyone to everyone, die 0 first": lambda die, dies: [other for other in range(dies) if other != die],
    "everyone to die 0": lambda die, dies: [0] if die else [],
    "die 0 to everyone": lambda die, dies: [] if die else list(range(1, dies)),
    "every other die to die 0, all to the next": lambda die, dies: (
        [(die + 1) % dies] if die % 2 or not die else [0, die + 1]),
    "everyone to the opposite die": lambda die, dies: [(die + dies // 2) % dies],
}
RINGS = "rings of all gradients"
#: What of a step goes alone.
KINDS: dict[str, Callable[[Step], Iterable[Operation]]] = {
    "scatter of a layer's tiles": lambda step: (
        scatter for scatter in step.operations_of(Scatter) if not scatter.outputs),
    "gather of a layer's tiles": lambda step: step.operations_of(Gather),
    RINGS: lambda step: step.operations_of(Reduce, Regroup, Barrier),
}
#: Eight and sixteen dies.
ARRAYS: tuple[Array, ...] = (ring(8, preset="ndp-demo-winograd"), ring(16, preset="ndp-tiny-winograd"))
#: Where the table stands.
TABLE = "network"


@dataclass(frozen=True)
class TrafficCase:
    """Traffic on an array: a pattern of plain tiles, or operations of a kind of a step, its layers on ``1 << levels``
    groups."""

    what: str
    array: Array
    levels: int = 0

    @property
    def name(self) -> str:
        """The case as tables show it."""
        return self.what + (f", {1 << self.levels} x {self.array.dies >> self.levels}" if self.what in KINDS else "")


@dataclass(frozen=True)
class CountedCycles:
    """Cycles of a traffic case, as the RTL counted them and as they were simulated."""

    case: TrafficCase
    counted: int
    simulated: int

    @property
    def error(self) -> float:
        """The relative error of the simulated cycles."""
        return self.simulated / self.counted - 1


@dataclass(frozen=True)
class TilePattern:
    """Every die sends tiles to others, each to a place of the sender's own."""

    pattern: str
    dies: int
    exchange: int
    name: str = "tiles"
    node: None = None

    def tasks(self, die: int, most: int | None = None) -> Iterator[Item]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        goes = PATTERNS[self.pattern]
        source = Buffer("sent", 0, 1, WORDS, WORDS)
        for other in goes(die, self.dies):
            target = Buffer("received", die * WORDS, 1, WORDS, WORDS)
            yield Task(f"tile[{other}]", Engine.TRANSFER, TileCopy(source, target, other, self.exchange), (source,))
        came = [other for other in range(self.dies) if die in goes(other, self.dies)]
        if came:
            places = tuple(Buffer("received", other * WORDS, 1, WORDS, WORDS) for other in came)
            yield Arrivals(self.exchange, places, len(came))


@dataclass(frozen=True)
class Last:
    """A word is read of all that others have sent, so that a die's graph ends once it has come."""

    operations: tuple[Operation, ...]
    any: Buffer
    name: str = "last"
    node: None = None

    def tasks(self, die: int, most: int | None = None) -> Iterator[Item]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        came = tuple(buffer for operation in self.operations for arrivals in arrivals_of(operation.tasks(die))
                     for buffer in arrivals.buffers)
        word = self.any.part("last", 0, 1, 1, 1)
        yield Task(self.name, Engine.TRANSFER, TileCopy(word, self.any.part("last", 1, 1, 1, 1)), came)


def network(tiles: bool) -> Network:
    """A convolution by trained tiles, F(2x2,3x3), and a classifier; or a classifier alone, for what does not depend on
    it."""
    if not tiles:
        return perceptron("traffic", (16, 10))
    return Network(name="traffic", input=Shape((16, 8, 8)), layers=(
        Convolution(name="conv", channels=16, kernel=(3, 3), padding=(1, 1), winograd=2, weights="winograd"),
        Flatten(name="flat"), Dense(name="fc", outputs=10), SoftmaxCrossEntropy(name="loss")))


def step_of_case(case: TrafficCase) -> Step:
    """A step of the case's traffic and nothing else."""
    array, graph = case.array, from_network(network(case.what in KINDS))
    splits = grouped(graph, array, case.levels)
    sharding = Sharding(graph=graph, splits=splits, batch=2 * array.dies, factors=array.factors, array=array)
    step = step_of(sharding, array.die_parameters())
    if case.what in PATTERNS:
        step.places += [Place("sent", WORDS), Place("received", array.dies * WORDS)]
        kept: list[Operation] = [TilePattern(case.what, array.dies, step.next_exchange())]
    else:
        kept = list(KINDS[case.what](step))
    step.operations[:] = [*kept, Last(tuple(kept), step.any)]
    return step


def simulated(case: TrafficCase) -> int:
    """Cycles of a case by the simulator."""
    array = case.array
    work = TaskByTask(step_of_case(case), LinkRoutes(array), DieCosts(array), [1.0] * array.dies)
    return round(simulate(work.machine, work.activities).seconds * float(array.clock_mhz) * 1e6)


def compare(case: TrafficCase) -> CountedCycles:
    """Count a case on the RTL, and simulate it.

    Raises
    ------
    UserError
        If a tool fails.
    """
    array, step = case.array, step_of_case(case)
    words = memory_words(step.parameters)
    program = lower_step(step, 1, words)
    dies, _ = cosim_array(built(array), array.dies, words, links=array.timed())
    driver = Driver(dies, program, memory_words=words, links=array)
    return CountedCycles(case, driver.step(0), simulated(case))


def cases() -> list[TrafficCase]:
    """All of them."""
    traffic = []
    for array in ARRAYS:
        traffic += [TrafficCase(pattern, array) for pattern in PATTERNS]
        # One group has no tiles to send, and as many as dies no rings.
        traffic += [TrafficCase(kind, array, levels + (kind != RINGS))
                    for kind in KINDS for levels in range(array.levels)]
    return traffic


def measure(say: Callable[[str], None] = lambda text: None) -> list[CountedCycles]:
    """Every case, in order."""
    asked = cases()
    counts: dict[int, CountedCycles] = {}
    for place, count in spread(compare, asked):
        counts[place] = count
        say(f"{count.case.name} on {count.case.array.name}: {100 * count.error:+.1f} %")
    return [counts[place] for place in range(len(asked))]


def table(counts: list[CountedCycles]) -> str:
    """The comparisons as a Markdown table."""
    lines = ["| traffic | preset | array | counted | simulated | error |", "| --- | --- | --- | ---: | ---: | ---: |"]
    lines += [f"| {count.case.name} | `{count.case.array.preset}` | {count.case.array.name} | {count.counted:,} | "
              f"{count.simulated:,} | {100 * count.error:+.1f} % |" for count in counts]
    errors = [100 * abs(count.error) for count in counts]
    return "\n".join([*lines, "", f"{len(counts)} cases: mean error {mean(errors):.1f} %, worst {max(errors):.1f} %."])


def tables(counts: list[CountedCycles]) -> dict[str, str]:
    """Tables of the page, by their markers."""
    return {TABLE: table(counts)}


def rows(counts: list[CountedCycles]) -> list[BenchRow]:
    """Mean and worst error, if something was measured."""
    if not counts:
        return []
    errors = [abs(count.error) for count in counts]
    detail = {"cases": [{"traffic": count.case.name, "preset": count.case.array.preset, "array": count.case.array.name,
                         "counted_cycles": count.counted, "simulated_cycles": count.simulated,
                         "simulated_error": count.error} for count in counts]}
    worst = counts[errors.index(max(errors))].case
    return [BenchRow("network_error_mean", mean(errors), "|simulated / counted - 1|", "what transforms take", detail),
            BenchRow("network_error_worst", max(errors), "|simulated / counted - 1|",
                     f"{worst.name} on {worst.array.name}",
                     detail)]


def network_errors() -> list[BenchRow]:
    """Simulated against counted cycles of what goes over links alone."""
    return rows(measure())


#: Every row's name and the function that makes it.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = dict.fromkeys(("network_error_mean", "network_error_worst"),
                                                                 network_errors)
