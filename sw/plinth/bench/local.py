"""Rows about local networks: accuracy beside synchronous training, words and virtual time to equal accuracy, many
kernels, kernels of fixed point, and what choosing n_push costs.

Four kernels, one of them four times as slow, each on a link of its own; virtual time by the usual costs
(:data:`plinth.local.training.USUAL_COSTS`), unless a row says otherwise. Batches have 100 samples, updates are
Adagrad's. Of each way of training the best of the rates of :data:`RATES` counts, of synchronous training the best of
without and with dropout as well; figures are means over seeds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf
from statistics import fmean, stdev
from typing import Any

from plinth.bench.pool import spread
from plinth.bench.row import BenchRow
from plinth.local.coordinator import Ending, Point
from plinth.local.devices import kernel_devices
from plinth.local.draws import BALANCED, UNIFORM
from plinth.local.job import DROPPED, one_thread
from plinth.local.push import CORRECTED, PRINTED, corrected_push, printed_push, whole_push
from plinth.local.synchronous import Baseline, times_of, train_synchronously
from plinth.local.training import USUAL_COSTS, LocalTraining, planned_kernels
from plinth.local.tuning import tune
from plinth.network.layers import Tanh
from plinth.network.network import Network, perceptron
from plinth.profile.costs import KernelCosts
from plinth.projection.fit import fit
from plinth.train.data import Dataset, named
from plinth.update.kinds import ADAGRAD
from plinth.update.rule import UpdateRule

#: Data sets, and the widths of a perceptron with tanh for each.
WIDTHS = {"digits": (64, 256, 128, 10), "mnist": (784, 512, 256, 10), "watch": (600, 1024, 512, 7),
          "segments": (18, 512, 256, 7)}
KERNELS, SLOWER, BATCH, SEEDS, FEW_SEEDS = "3*numpy,numpy/4", (1.0, 1.0, 1.0, 4.0), 100, 5, 3
#: Learning rates that each way of training is tried with.
RATES = (0.02, 0.05)
#: Steps of synchronous training, and how many times as many batches local networks train on, all kernels together: as
#: many each.
STEPS, MORE_BATCHES = 1500, 4
#: Samples of a step of synchronous training, of all kernels together, where words and times are taken.
TOGETHER = (100, 400)
#: Validations whose mean is the accuracy behind a run, and validations of a run.
LAST, VALIDATIONS = 5, 40
#: Batches of a set where nothing else is said, those that words and times are taken with, and those behind which
#: accuracy is compared.
PUSH, PUSHES, SHORT_PUSH = 10, (10, 20, 40), 2
#: Batches where golden dies take part, which are slow.
FIXED_BATCHES = 1200
#: Accuracies that words and times are taken to, of the test samples.
LEVELS = {"mnist": 0.92, "digits": 0.97}
#: n_push of the sweep, and rates of links in bits a second.
SWEPT, LINKS = (2, 3, 5, 10, 15, 20, 30, 40, 60, 80), (1e8, 1e9, 1e10)
#: Input features that samples are projected to.
PROJECTED = 128


@dataclass(frozen=True, kw_only=True)
class LocalCase:
    """A run.

    Attributes
    ----------
    data : str
    seed : int
    rate : float
    kernels : str
        Of local networks, as users name them; empty: synchronous training.
    share : float
        Of the units of each hidden layer that a local network has, or that dropout leaves.
    push, batches : int
        Of synchronous training its steps.
    batch : int
        Samples of a step of synchronous training.
    accuracy : float or None
        At which it ends.
    merge, draw : str
    link : float
        Bits a second.
    projected : int
        Features that samples are projected to; 0: none.
    """

    data: str
    seed: int
    rate: float
    kernels: str = KERNELS
    share: float = 0.5
    push: int = PUSH
    batches: int = STEPS * MORE_BATCHES
    batch: int = BATCH
    accuracy: float | None = None
    merge: str = "auto"
    draw: str = UNIFORM
    link: float = 1e9
    projected: int = 0

    @property
    def costs(self) -> KernelCosts:
        """What batches and messages of a kernel cost."""
        return replace(USUAL_COSTS, word_seconds=32 / self.link)

    @property
    def samples(self) -> Dataset:
        """Samples, projected if that is asked for."""
        return _samples(self.data, self.projected)

    @property
    def network(self) -> Network:
        """The global network."""
        widths = WIDTHS[self.data]
        return perceptron(self.data, (self.projected or widths[0], *widths[1:]), Tanh)

    def training(self) -> LocalTraining:
        """The run by local networks."""
        network, devices = self.network, kernel_devices(self.kernels)
        hidden = [max(1, int(width * self.share)) for width in WIDTHS[self.data][1:-1]]
        widths = (network.input.elements, *hidden, WIDTHS[self.data][-1])
        kernels = planned_kernels(network, devices, [widths] * len(devices), batch=BATCH, rule=ADAGRAD, rate=self.rate,
                                  epsilon=None, memory_mib=16, costs=[self.costs] * len(devices))
        return LocalTraining(network=network, dataset=self.samples, kernels=kernels, batch=BATCH, seed=self.seed,
                             merge=self.merge, draw=self.draw)


@cache
def _samples(data: str, projected: int) -> Dataset:
    dataset = named(data)
    if not projected:
        return dataset
    projection = fit(dataset.train_x, limit=projected)
    return replace(dataset, train_x=projection.project(dataset.train_x), test_x=projection.project(dataset.test_x))


def curve(case: LocalCase) -> list[Point]:
    """The validations of a run."""
    training = case.training() if case.kernels else replace(case, kernels=KERNELS).training()
    ending = Ending(batches=case.batches, accuracy=case.accuracy)
    # What ends at an accuracy is looked at more often: as often as a few batches a kernel.
    often = 20 if case.accuracy is not None else max(1, case.batches // VALIDATIONS)
    with one_thread():
        if case.kernels:
            return training.run_virtually(push=case.push, ending=ending,
                                          validate_every=max(1, often // case.push)).curve
        way = Baseline(batch=case.batch, rule=UpdateRule(ADAGRAD, rate=case.rate), dropped=1 - case.share)
        costs = [case.costs] * len(SLOWER)
        return train_synchronously(
            training.network, training.dataset, way, seed=case.seed, times=times_of(costs, SLOWER), costs=costs,
            slower=SLOWER, ending=ending, validate=training.validate(),
            validate_every=5 if case.accuracy is not None else often)[1]


def synchronous(data: str, seed: int, **settings: Any) -> list[LocalCase]:
    """Ways to train synchronously: each rate, without dropout and with it, and with all batches that are given."""
    batches = settings.pop("batch", (BATCH,))
    return [LocalCase(data=data, seed=seed, rate=rate, kernels="", share=1 - dropped, batches=STEPS, batch=batch,
                      **settings) for rate in RATES for dropped in (0.0, DROPPED) for batch in batches]


def local(data: str, seed: int, **settings: Any) -> list[LocalCase]:
    """Ways to train by local networks: each rate."""
    return [LocalCase(data=data, seed=seed, rate=rate, **settings) for rate in RATES]


def curves(cases: Sequence[LocalCase]) -> dict[LocalCase, list[Point]]:
    """The validations of some runs, each once."""
    distinct = list(dict.fromkeys(cases))
    return {distinct[place]: found for place, found in spread(curve, distinct)}


def final(points: Sequence[Point]) -> float:
    """Accuracy behind a run: the mean of its last validations."""
    return fmean(point.accuracy or 0.0 for point in points[-LAST:])


def reached(points: Sequence[Point], accuracy: float) -> Point | None:
    """The first validation with so much; None: there is none."""
    return next((point for point in points if (point.accuracy or 0.0) >= accuracy), None)


def by_way(found: Mapping[LocalCase, list[Point]], cases: Sequence[LocalCase], value: Callable[[list[Point]], float]
           ) -> dict[LocalCase, list[float]]:
    """A value of each run, by what its seed leaves the same."""
    values: dict[LocalCase, list[float]] = {}
    for case in cases:
        values.setdefault(replace(case, seed=0), []).append(value(found[case]))
    return values


def _text(way: LocalCase) -> str:
    """A way to train, in words."""
    if not way.kernels:
        return f"synchronous, rate {way.rate}, {'dropout' if way.share < 1 else 'no dropout'}, batch {way.batch}"
    return f"share {way.share}, rate {way.rate}, n_push {way.push}, {way.kernels}"


def _detail(values: Mapping[LocalCase, Sequence[float]]) -> dict[str, dict[str, float]]:
    return {_text(way): {"mean": fmean(found), "deviation": stdev(found) if len(found) > 1 else 0.0}
            for way, found in values.items()}


def local_accuracy_gap() -> list[BenchRow]:
    """Accuracy of local networks of half and of a quarter of the units below that of the best synchronous training, of
    each data set; the worst of them. Beside it those of units drawn as often as each other."""
    cases: dict[tuple[str, str], list[LocalCase]] = {}
    for data in WIDTHS:
        for seed in range(SEEDS):
            cases.setdefault((data, "synchronous"), []).extend(synchronous(data, seed))
            ways: dict[str, dict[str, Any]] = {"half": {}}
            if seed < FEW_SEEDS:
                ways |= {"quarter": {"share": 0.25}, "balanced": {"draw": BALANCED}}
            for name, settings in ways.items():
                cases.setdefault((data, name), []).extend(local(data, seed, push=SHORT_PUSH, **settings))
    found = curves([case for own in cases.values() for case in own])
    by_ways = {key: by_way(found, own, final) for key, own in cases.items()}
    best = {key: max(map(fmean, values.values())) for key, values in by_ways.items()}
    gaps = {name: {data: best[data, "synchronous"] - best[data, name] for data in WIDTHS}
            for name in ("half", "quarter", "balanced")}
    detail = {"gaps": gaps, "accuracies": {f"{data}, {name}": _detail(values)
                                           for (data, name), values in by_ways.items()}}
    return [BenchRow(name, max(gaps[share].values()), f"accuracy, mean of {seeds} seeds, worst of four data sets",
                     f"{share} of the units of a layer see each batch", detail)
            for name, share, seeds in (("local_accuracy_gap", "half", SEEDS),
                                       ("local_accuracy_gap_quarter", "quarter", FEW_SEEDS))]


def _least(found: Mapping[LocalCase, list[Point]], cases: Sequence[LocalCase], value: Callable[[Point], float]
           ) -> tuple[float, dict[str, Any]]:
    """The least mean of a value at the accuracy where runs ended; of ways all of whose runs reached it."""
    def of(points: list[Point]) -> float:
        accuracy = LEVELS[cases[0].data]
        point = reached(points, accuracy)
        return inf if point is None else value(point)

    values = by_way(found, cases, of)
    return min(map(fmean, values.values())), {
        _text(way): None if inf in own else fmean(own) for way, own in values.items()}


def words_and_time() -> list[BenchRow]:
    """Words, and virtual time, of synchronous training over those of local networks, to one accuracy of 28x28 digits:
    the best way of each. Local networks answer after ten, twenty or forty batches. Beside it local networks with all
    units, and local networks of projected samples."""
    data, seeds = "mnist", range(SEEDS)
    settings = {"accuracy": LEVELS[data]}
    groups = {
        "synchronous": [case for seed in seeds for case in synchronous(data, seed, batch=TOGETHER, **settings)],
        **{name: [case for seed in seeds for push in PUSHES for case in local(data, seed, push=push, **settings, **own)]
           for name, own in (("half", {}), ("whole", {"share": 1.0}), ("projected", {"projected": PROJECTED}))},
        "synchronous, projected": [case for seed in seeds for case in synchronous(
            data, seed, projected=PROJECTED, batch=TOGETHER, **settings)]}
    found = curves([case for own in groups.values() for case in own])
    words = {name: _least(found, own, lambda point: point.words) for name, own in groups.items()}
    times = {name: _least(found, own, lambda point: point.seconds) for name, own in groups.items()}
    detail = {"accuracy": LEVELS[data], "words": {name: own for name, (_, own) in words.items()},
              "seconds": {name: own for name, (_, own) in times.items()}}
    unit = "words of synchronous training / words of local networks"
    return [
        BenchRow("deep3_words_ratio", words["synchronous"][0] / words["half"][0], unit,
                 "batches that parts of a network need more", detail),
        BenchRow("deep3_words_ratio_projected", words["synchronous"][0] / words["projected"][0], unit,
                 "what projection leaves of samples", detail),
        BenchRow("deep3_time_ratio", times["synchronous"][0] / times["half"][0],
                 "virtual seconds of synchronous training / of local networks",
                 "batches that parts of a network need more", detail | {
                     "whole_units": times["synchronous"][0] / times["whole"][0]})]


def sixteen_kernels() -> list[BenchRow]:
    """Accuracy with sixteen kernels of half the units below that with four, each of which trains on as many batches:
    the worst of the digits and of 28x28 digits. Beside it sixteen kernels on as many batches as four together."""
    batches = {"4": STEPS * MORE_BATCHES, "16": 4 * STEPS * MORE_BATCHES, "16 on a quarter": STEPS * MORE_BATCHES}
    groups = {(data, name): [case for seed in range(FEW_SEEDS) for case in local(
        data, seed, kernels=f"{name.partition(' ')[0]}*numpy", batches=count)]
        for data in ("digits", "mnist") for name, count in batches.items()}
    found = curves([case for own in groups.values() for case in own])
    ways = {key: by_way(found, own, final) for key, own in groups.items()}
    best = {key: max(map(fmean, values.values())) for key, values in ways.items()}
    return [BenchRow("deep3_sixteen_kernels", max(best[data, "4"] - best[data, "16"] for data in ("digits", "mnist")),
                     "accuracy, mean of three seeds, worst of two data sets", "differences of stale weights", {
                         "on_as_many_batches": {data: best[data, "4"] - best[data, "16 on a quarter"]
                                                for data in ("digits", "mnist")},
                         **{f"{data}, {name}": _detail(values) for (data, name), values in ways.items()}})]


def fixed_kernel() -> list[BenchRow]:
    """Accuracy with one kernel of four in Q3.12, a golden die, below that with all in FP32, and with all in Q3.12; the
    digits."""
    kernels = {"fp32": "4*numpy", "one": "3*numpy,golden:fpga-demo", "all": "4*golden:fpga-demo"}
    groups = {name: [LocalCase(data="digits", seed=seed, rate=RATES[0], kernels=own, batches=FIXED_BATCHES)
                     for seed in range(SEEDS)] for name, own in kernels.items()}
    found = curves([case for own in groups.values() for case in own])
    ways = {name: by_way(found, own, final) for name, own in groups.items()}
    best = {name: max(map(fmean, values.values())) for name, values in ways.items()}
    return [BenchRow("fixed_kernel_gap", best["fp32"] - best["one"], "accuracy, mean of five seeds",
                     "roundings of Q3.12", {"all_fixed_gap": best["fp32"] - best["all"], **{
                         name: _detail(values) for name, values in ways.items()}})]


def _tuned(case: LocalCase) -> tuple[float, float, float]:
    """n_push by the corrected cost model and by the printed one, and n0."""
    training = case.training()
    with one_thread():
        n0 = tune(training).n0
    computing, message = training.computing_seconds, training.message_seconds
    return corrected_push(computing, message, n0), printed_push(computing, message), n0


def n_push_regret() -> list[BenchRow]:
    """Virtual time to one accuracy at the n_push that the tuner chooses over the best of a sweep, at three rates of
    links; the digits, the worst of them."""
    data = "digits"
    bases = {link: [LocalCase(data=data, seed=seed, link=link, accuracy=LEVELS[data], rate=RATES[0],
                         batches=4 * STEPS * MORE_BATCHES) for seed in range(2 * SEEDS)] for link in LINKS}
    flat = [case for own in bases.values() for case in own]
    tuned = {flat[place]: found for place, found in spread(_tuned, flat)}
    chosen = {case: {CORRECTED: whole_push(corrected, CORRECTED), PRINTED: whole_push(printed, PRINTED)}
              for case, (corrected, printed, _) in tuned.items()}
    found = curves([replace(case, push=push) for case in flat for push in (*SWEPT, *chosen[case].values())])

    def seconds(case: LocalCase, push: int) -> float:
        point = reached(found[replace(case, push=push)], LEVELS[data])
        return inf if point is None else point.seconds

    detail, regrets = {}, {}
    for link, own in bases.items():
        swept = {push: fmean(seconds(case, push) for case in own) for push in SWEPT}
        times = {way: fmean(seconds(case, chosen[case][way]) for case in own) for way in (CORRECTED, PRINTED)}
        regrets[link] = times[CORRECTED] / min(swept.values())
        detail[f"{link:g}"] = {"swept": swept, "times": times, "n0": [tuned[case][2] for case in own],
                               "pushes": [chosen[case] for case in own],
                               "printed_regret": times[PRINTED] / min(swept.values())}
    return [BenchRow("n_push_regret", max(regrets.values()), "seconds / seconds of the best of a sweep",
                     "n0 of a share of the samples", detail | {"regrets": {f"{k:g}": v for k, v in regrets.items()}})]


#: Every row's name and the function that makes it.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {
    **dict.fromkeys(("local_accuracy_gap", "local_accuracy_gap_quarter"), local_accuracy_gap),
    **dict.fromkeys(("deep3_words_ratio", "deep3_words_ratio_projected", "deep3_time_ratio"), words_and_time),
    "deep3_sixteen_kernels": sixteen_kernels, "fixed_kernel_gap": fixed_kernel, "n_push_regret": n_push_regret}
