"""Training steps under plans: how their cycles are counted, and what a hybrid plan is worth."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from plinth.array.array import ARRAYS, Array
from plinth.bench.row import BenchRow
from plinth.driver.driver import Driver
from plinth.driver.program import program_digest
from plinth.lower.training import TrainingProgram, lower_training
from plinth.names import RINGS
from plinth.network.layers import MeanSquaredError
from plinth.network.network import Network
from plinth.network.parameters import initial_parameters
from plinth.network.zoo import NETWORKS
from plinth.output import write_json
from plinth.partition.graph import from_network
from plinth.partition.regions import Partition, Splits
from plinth.plan.plan import Plan
from plinth.plan.planning import SPLITTERS, PlanningProblem, given_plan, task
from plinth.plan.row_copies import CopyChoice, chosen_copies, touched_shares
from plinth.runtime import verilog
from plinth.runtime.arrays import cosim_array
from plinth.train.data import Dataset, digits, table_rows
from plinth.train.session import Session
from plinth.update.rule import PLAIN, UpdateRule
from plinth_hw.cache import cached_folder, digest
from plinth_hw.installation import cache_root
from plinth_hw.isa.parameters import DieParameters, preset

#: Samples of a step, and memory of a die in words.
BATCH, MEMORY_WORDS = 128, 1 << 22
#: Words a cycle of a link for the hybrid plan.
RATES = (Fraction(1), Fraction(1, 8))


def memory_words(parameters: DieParameters) -> int:
    """Words of a co-simulated die's memory."""
    return min(MEMORY_WORDS, parameters.most_memory_words)


def step_plan(network: Network, array: Array, splits: Splits, batch: int = BATCH, rule: UpdateRule = PLAIN,
              lists: Partition = (), copies: str = RINGS) -> Plan:
    """A plan of given splits, whose tables' copies are kept equal one way, and touched as much as by its samples."""
    plan = given_plan(from_network(network), array, splits, batch, rule, lists)
    if copies == RINGS:
        return plan
    sharding = replace(plan.sharding, touched=touched_shares(plan.sharding, _samples(network, batch).train_x))
    chosen = chosen_copies(sharding, array.die_parameters(), lambda said: 0.0, CopyChoice(copies), [])
    return replace(plan, sharding=replace(sharding, copies=chosen))


def lowered_step(network: Network, array: Array, splits: Splits, batch: int = BATCH, rule: UpdateRule = PLAIN,
                 lists: Partition = (), copies: str = RINGS) -> TrainingProgram:
    """The task graphs of a step."""
    return lowered_plan(network, step_plan(network, array, splits, batch, rule, lists, copies), array)


def lowered_plan(network: Network, plan: Plan, array: Array) -> TrainingProgram:
    """The task graphs of a plan's step."""
    parameters = array.die_parameters()
    # Memory on the chip holds a batch at a time.
    steps = len(_samples(network, plan.batch).train_x) // plan.batch if parameters.axi_ports else 1
    return lower_training(network, plan, parameters, rule=plan.rule, steps=steps,
                          memory_words=memory_words(parameters))


def _samples(network: Network, batch: int) -> Dataset:
    """Digits for the networks of the zoo; for others as much as a step needs, drawn evenly."""
    if NETWORKS.get(network.name) == network:
        return digits()
    generator, rows, (size, classes) = np.random.default_rng(0), table_rows(network), (
        network.input.elements, network.output.elements)
    x = (generator.integers(rows, size=(batch, size)) if rows
         else generator.random((batch, size), dtype=np.float32))
    if isinstance(network.layers[-1], MeanSquaredError):
        targets = generator.random((batch, classes), dtype=np.float32)
        return Dataset(x, targets, x[:0], targets[:0], 0)
    y = generator.integers(classes, size=batch)
    return Dataset(x, y, x[:0], y[:0], classes)


def built(array: Array) -> DieParameters:
    """The dies of an array, as they are built: rates of links are registers, so that all rates run on one model."""
    parameters = array.die_parameters()
    return replace(parameters, link_rate=preset(array.preset).link_rate)


@dataclass(frozen=True)
class CountedTasks:
    """Tasks of one operation.

    Attributes
    ----------
    name, engine : str
        As :func:`operation_of` says; the engine's name in small letters.
    tasks : int
        On all dies.
    cycles : float
        In which one of them is under way on a die, summed over dies.
    """

    name: str
    engine: str
    tasks: int
    cycles: float


@dataclass(frozen=True)
class CountedStep:
    """What a step takes on the RTL, and its tasks by name."""

    cycles: int
    tasks: tuple[CountedTasks, ...]


def under_way(spans: Iterable[tuple[float, float]]) -> float:
    """How much of time some spans cover, each from a begin to an end."""
    covered, last = 0.0, float("-inf")
    for begin, end in sorted(spans):
        covered += max(0.0, end - max(begin, last))
        last = max(last, end)
    return covered


def operation_of(task: str) -> str:
    """The name of the operation that a task is of: up to a bracket, without numbers of parts."""
    return re.sub(r"(\.\d+)+$", "", task.partition("[")[0])


def _by_name(driver: Driver, dies: int) -> Iterator[CountedTasks]:
    """The tasks of the step that a driver's dies did last."""
    spans: dict[tuple[str, str], list[list[tuple[float, float]]]] = {}
    for die in range(dies):
        for record in driver.records(die):
            key = operation_of(record.task), record.engine.name.lower()
            spans.setdefault(key, [[] for _ in range(dies)])[die].append((record.start, record.end))
    for (name, engine), by_die in spans.items():
        yield CountedTasks(name, engine, sum(map(len, by_die)), sum(map(under_way, by_die)))


def counted_step(network: Network, array: Array, program: TrainingProgram, batch: int = BATCH) -> CountedStep:
    """The first step of a training run on co-simulated dies."""
    die = built(array)
    words = memory_words(die)
    dies, _ = cosim_array(die, array.dies, words, links=array.timed())
    driver = Driver(dies, program, memory_words=words, links=array)
    session = Session(network, _samples(network, batch), program, driver, None, None, batch, 0)
    session.load_parameters(initial_parameters(network, 0))
    return CountedStep(int(next(iter(session.epoch(0))).cycles), tuple(_by_name(driver, array.dies)))


def kept_step(network: Network, array: Array, program: TrainingProgram, batch: int = BATCH) -> CountedStep:
    """Count a step as :func:`counted_step` does, once for the same Verilog, harness, program and links: counts lie in
    the cache, so that a measurement that was ended goes on where it was."""
    die = built(array)
    key = (verilog.die_digest(die), verilog.harness_digest(), program_digest(program), array.timed(),
           str(array.rate), array.directed_rates.tolist(), network.name, batch,
           *((array.route_table, str(array.port_rates)) if array.routes or array.has_rates else ()))
    folder = cache_root() / "agreement" / digest(repr(key))
    with verilog.tool_errors(), cached_folder(folder, "step.json") as scratch:
        if scratch is not None:
            write_json(scratch / "step.json", {
                **asdict(counted_step(network, array, program, batch)), "network": network.name, "batch": batch,
                "array": array.name, "preset": array.preset})
    counted = json.loads((folder / "step.json").read_text(encoding="utf-8"))
    return CountedStep(int(counted["cycles"]), tuple(CountedTasks(**task) for task in counted["tasks"]))


class Counter:
    """Counts the cycles of a training step on co-simulated demo dies; the same plan on the same array once."""

    def __init__(self) -> None:
        self._counted: dict[tuple[str, str, str, Fraction, Splits], int] = {}

    def __call__(self, network: str, array: Array, splits: Splits) -> int:
        """Cycles of the first step of a training run."""
        key = network, array.name, array.preset, array.rate, splits
        if key not in self._counted:
            definition = NETWORKS[network]
            self._counted[key] = counted_step(definition, array, lowered_step(definition, array, splits)).cycles
        return self._counted[key]


def _task(network: str, array: Array) -> PlanningProblem:
    return task(from_network(NETWORKS[network]), array, "exact", BATCH)


def text(splits: Splits) -> str:
    """A plan in one line, layer by layer."""
    return " ".join("/".join(vector) for vector in splits[:-1])


def hybrid_speedup(count: Callable[[str, Array, Splits], int] | None = None) -> list[BenchRow]:
    """Step of the data-parallel plan over that of the joint plan, on four dies, links at full rate and at 1/8."""
    count = count or Counter()
    detail: dict[str, Any] = {"network": "digits-cnn", "array": "ring-4", "batch": BATCH}
    speedup = 0.0
    for rate in RATES:
        array = replace(ARRAYS["ring-4"], link_rate=rate)
        problem = _task("digits-cnn", array)
        plans = {name: SPLITTERS[name](problem) for name in ("data", "joint")}
        counted = {name: count("digits-cnn", array, splits) for name, splits in plans.items()}
        predicted = {name: problem.time.cycles(splits) for name, splits in plans.items()}
        speedup = counted["data"] / counted["joint"]
        detail[f"rate {rate}"] = {
            "joint": text(plans["joint"]), "counted": counted, "predicted": predicted, "speedup": speedup,
            "predicted_speedup": predicted["data"] / predicted["joint"]}
    return [BenchRow("hybrid_speedup", speedup, "cycles of data / of joint, links of 1/8 word a cycle",
                     "convolutions, which both plans split alike", detail)]


#: Every row's name and the function that makes it.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {
    "hybrid_speedup": hybrid_speedup,
}
