"""What number formats and updates do to accuracy: the digits, trained by the golden model over ten seeds.

One die, a batch of 128, test accuracy after the last epoch. Each variant is that of `plinth train` with the options
that the table names.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from plinth.bench.pool import spread
from plinth.bench.row import BenchRow
from plinth.driver.driver import Driver
from plinth.lower.training import lower_training
from plinth.network.parameters import initial_parameters
from plinth.network.zoo import NETWORKS
from plinth.plan.planning import data_parallel
from plinth.runtime.arrays import golden_array
from plinth.train.data import digits
from plinth.train.evaluation import evaluate
from plinth.train.float64 import float64_predictor
from plinth.train.session import Session
from plinth.update.kinds import ADAGRAD
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import preset

NETWORK, BATCH, SEEDS, MEMORY_WORDS = "digits-mlp", 128, 10, 1 << 22
#: The page of the table.
PAGE = "formats.md"


@dataclass(frozen=True)
class Variant:
    """A format with an update."""

    title: str
    options: str
    preset: str
    rule: UpdateRule
    epochs: int


#: As in the command's defaults: sixteen epochs at 0.15, and, of Adagrad, as many as it takes.
VARIANTS = {
    "fp32": Variant("FP32", "--machine ndp", "ndp-demo", UpdateRule(rate=0.15), 16),
    "mixed": Variant("FP16 products, FP32 sums", "--format mixed", "ndp-demo-mixed", UpdateRule(rate=0.15), 16),
    "nearest": Variant("Q3.12, to nearest", "--machine fpga --update sgd", "fpga-demo", UpdateRule(rate=0.15), 16),
    "stochastic": Variant("Q3.12, stochastic", "--machine fpga --update sgd --stochastic", "fpga-demo",
                          UpdateRule(rate=0.15, stochastic=True), 16),
    "adagrad": Variant("Q3.12, Adagrad, states of 32 bits", "--machine fpga", "fpga-demo",
                       UpdateRule(ADAGRAD, rate=0.01, wide=True), 24),
}


@dataclass(frozen=True)
class SeedAccuracies:
    """Test accuracies of a variant, by seed."""

    variant: str
    accuracies: tuple[float, ...]

    def to_data(self) -> dict[str, Any]:
        """The row of an accuracy report for this format."""
        return {"name": self.variant, "test_accuracies": list(self.accuracies)}


def _trained(case: tuple[str, int]) -> float:
    """Test accuracy of a variant and seed."""
    variant, seed = VARIANTS[case[0]], case[1]
    parameters, network, samples = preset(variant.preset), NETWORKS[NETWORK], digits()
    plan = data_parallel(network, dies=1, batch=BATCH)
    program = lower_training(network, plan, parameters, rule=variant.rule, steps=len(samples.train_x) // BATCH,
                             memory_words=MEMORY_WORDS)
    driver = Driver(golden_array(parameters, 1, MEMORY_WORDS), program, memory_words=MEMORY_WORDS)
    session = Session(network, samples, program, driver, None, None, BATCH, seed)
    session.load_parameters(initial_parameters(network, seed))
    for epoch in range(variant.epochs):
        for _ in session.epoch(epoch):
            pass
    _, right = evaluate(network, float64_predictor(network), session.parameters(driver), samples.test_x,
                        samples.test_y, classes=True)
    assert right is not None
    return right


def measure(names: Sequence[str] = tuple(VARIANTS), seeds: int = SEEDS,
            say: Callable[[str], None] = lambda text: None) -> list[SeedAccuracies]:
    """Accuracies of variants; one run a process."""
    cases = [(name, seed) for name in names for seed in range(seeds)]
    accuracies: dict[tuple[str, int], float] = {}
    for place, right in spread(_trained, cases):
        name, seed = cases[place]
        accuracies[name, seed] = right
        say(f"{len(accuracies)}/{len(cases)}: {name}, seed {seed}: {right:.2%}")
    return [SeedAccuracies(name, tuple(accuracies[name, seed] for seed in range(seeds))) for name in names]


def table(accuracies: Sequence[SeedAccuracies]) -> str:
    """The accuracies as the Markdown table of docs/formats.md."""
    lines = ["| format, update | `plinth train` | epochs, rate | mean | worst | best | deviation |",
             "| --- | --- | --- | ---: | ---: | ---: | ---: |"]
    for by_seed in accuracies:
        variant, some = VARIANTS[by_seed.variant], by_seed.accuracies
        lines.append(f"| {variant.title} | `{variant.options}` | {variant.epochs}, {variant.rule.rate:g} "
                     f"| {mean(some):.2%} | {min(some):.2%} | {max(some):.2%} | {stdev(some):.2%} |")
    return "\n".join(lines)


def tables(accuracies: Sequence[SeedAccuracies]) -> dict[str, str]:
    """Tables of the page, by their markers."""
    return {"accuracy": table(accuracies)}


def rows(name: str) -> list[BenchRow]:
    """Mean accuracy of a variant."""
    (by_seed,) = measure([name])
    return [BenchRow(f"digits_accuracy_{name}", mean(by_seed.accuracies), "test accuracy, mean of ten seeds",
                     "roundings of Q3.12", {"accuracies": by_seed.accuracies})]


#: Every row's name and the function that makes it.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {
    f"digits_accuracy_{name}": lambda name=name: rows(name) for name in ("nearest", "adagrad")}  # type: ignore[misc]
