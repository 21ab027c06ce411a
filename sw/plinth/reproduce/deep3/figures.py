"""The tables: equations and Table 2, Table 3, the rows of Table 4, Figure 5, and the setup."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from statistics import fmean, stdev
from typing import NamedTuple

from plinth.errors import UserError
from plinth.local.tuning import SHARE
from plinth.network.network import Network
from plinth.network.zoo import NETWORKS
from plinth.profile.costs import KernelCosts
from plinth.projection.fit import TUNING
from plinth.projection.streaming import BETA
from plinth.reproduce.deep3 import equations as worked
from plinth.reproduce.deep3 import runs, times
from plinth.reproduce.deep3.cases import (
    APPLICATIONS,
    BATCH,
    PLATFORMS,
    Application,
    Platform,
    Widths,
    network,
    parameters,
    training_words,
    widest,
)
from plinth.reproduce.paper import CLAIMS, Draft, Value, paper
from plinth_hw.isa.formats import Q3_12

DEEP3 = paper("deep3")
#: Columns of local widths, by the readings of :mod:`plinth.reproduce.deep3.cases`, and of their weights.
READINGS = {"hidden": "hidden alone", "common": "with input", "inputs": "l", "share": "share at l", "kib": "KiB"}
#: Further columns of the memories.
FITTING = {"inputs": "with all inputs", "alone": "weights alone", "kib": "KiB of weights"}
#: The link of platform 2 with words of 16 bits, 1 Gb/s (section 7.1); nothing else of it is printed.
ETHERNET = KernelCosts(flop_seconds=0.0, act_seconds=0.0, err_seconds=0.0, net_seconds=0.0,
                       word_seconds=Q3_12.bits / 1e9)


@lru_cache(maxsize=1)
def published() -> Mapping[str, float]:
    """The paper's numbers by their ids."""
    return {entry.id.removeprefix("deep3."): float(entry.value) for key in DEEP3.tables for entry in DEEP3.entries(key)
            if not isinstance(entry.value, str)}


def cells() -> Iterator[tuple[Application, Platform]]:
    """Applications on platforms, in the order of Table 4."""
    for application in APPLICATIONS:
        for platform in PLATFORMS:
            yield application, platform


def printed(application: Application, platform: Platform, quantity: str) -> float:
    """A number of Table 4."""
    return published()[f"table4.{application.name}.{platform.key}.{quantity}"]


class ReadWidths(NamedTuple):
    """A local network as read from Table 4: inputs by execution, then the share of hidden units by the reduction."""

    inputs: float
    share: float


def read_widths(application: Application, platform: Platform) -> ReadWidths:
    """The local network of a cell of Table 4, by execution."""
    inputs = application.inputs_of(printed(application, platform, "execution_improvement"))
    assert inputs is not None
    share = application.hidden_share(printed(application, platform, "circuitry_reduction"), inputs)
    assert share is not None
    return ReadWidths(inputs, share)


def read_networks(application: Application, platform: Platform) -> tuple[Network, Network]:
    """The global network of a cell of Table 4, and its local one."""
    return network(application.widths), network(application.scaled(*read_widths(application, platform)))


def equations(draft: Draft) -> None:
    """Equations 1 to 3, Table 2 and Adagrad: each as printed, if our function gives what was worked by hand, or keeps
    to what is asked."""
    projection = worked.projection()
    for what, function in (("equation 1", worked.sgd), ("equation 2", worked.iteration),
                           ("equation 3", lambda: worked.constrained(projection)),
                           ("Table 2, T_FP", worked.forward), ("Table 2, T_BP", worked.backward),
                           ("Table 2, T_comm", worked.message), ("Adagrad, section 7", worked.adagrad_printed)):
        formula = draft.paper("", what)
        draft.add("", what, formula if function() else f"not {formula}")
    draft.add("", "l of the digits", projection.size)
    draft.notes.append(
        f"equation 3: its constraints, on the digits for training, of which {100 * projection.beta:g} % may be left; "
        f"{projection.size} of {projection.features} directions")


def preprocessing(draft: Draft) -> None:
    """Table 3: that the overall overhead is the sum of its two parts; and what projecting as much takes here."""
    draft.further = {"here": "here"}
    for application, platform in cells():
        key = f"table3.{application.name}.{platform.key}"
        parts = [published()[f"{key}.{part}"] for part in ("tuning", "projection")]
        inputs = round(read_widths(application, platform).inputs)
        draft.add(application.name, f"{platform.key}, projection", None, {
            "here": times.projection_seconds(application.samples, application.widths[0], inputs)})
        draft.add(application.name, f"{platform.key}, overall", sum(parts))
    draft.notes.append("here: seconds of this host, one thread, for random samples as many and as wide, with l as read "
                       "by execution (table circuitry); another host has others")


def circuitry(draft: Draft) -> None:
    """Table 4, circuitry: reductions by the widest layers that fit a memory, and widths that printed reductions leave.
    """
    draft.further = READINGS
    reductions: dict[str, list[float]] = {}
    left: dict[str, list[float]] = {}
    for application, platform in cells():
        reduction = printed(application, platform, "circuitry_reduction")
        share = read_widths(application, platform).share
        weights = application.multiply_adds / reduction * platform.word_bytes / 1024
        fitting = fitted(application, platform, platform.memories[platform.nearest])
        draft.add(application.name, platform.key, None if fitting is None else application.reduction(fitting), {
            "hidden": application.hidden_share(reduction), "common": application.common_share(reduction),
            "inputs": _range(application, platform), "share": share, "kib": weights})
        reductions.setdefault(application.name, []).append(reduction)
        left.setdefault(platform.key, []).append(weights)
    for name, (gpu, fpga, cpu) in reductions.items():
        draft.add(CLAIMS, f"FPGA over others, {name}", fpga / max(gpu, cpu))
    for platform in PLATFORMS:
        draft.notes.append(
            f"{platform.key}: its three printed reductions leave weights of "
            f"{', '.join(f'{size:.0f}' for size in left[platform.key])} KiB ({platform.word_bytes} bytes each), which "
            "no one size of memory explains")
    draft.notes.append(
        "columns are what the printed reduction leaves. hidden alone: share of hidden units, all inputs kept; with "
        "input: share of hidden units and inputs; l: inputs with which the whole network has as many times fewer "
        "multiply-adds as execution is faster, and beside it the share of hidden units that is then left; KiB: weights")
    draft.notes.append("in all nine cells l by execution is below the features, and the share left below 1; nothing "
                       "in the paper says that execution is bound by multiply-adds")


def fitted(application: Application, platform: Platform, limit: int) -> tuple[float, ...] | None:
    """The widest layers of one share, the input's among them, whose training fits so many bytes."""
    return widest(application.common, training_words, limit / platform.word_bytes, max(application.widths))


def _range(application: Application, platform: Platform) -> str:
    """What l is by execution, and what it may be, as that is rounded."""
    execution = printed(application, platform, "execution_improvement")
    inputs, least, most = (application.inputs_of(execution + half) for half in (0.0, 0.05, -0.05))
    return f"{inputs:.0f} ({least:.0f} to {most:.0f})"


def memories(draft: Draft) -> None:
    """Reductions by the widest layers that fit each memory on a platform's chip."""
    draft.further = FITTING
    for platform in PLATFORMS:
        for memory, size in platform.memories.items():
            for application in APPLICATIONS:
                limit, steps = size / platform.word_bytes, max(application.widths)
                widths = fitted(application, platform, size)
                draft.add(f"{platform.key}, {memory}", application.name, _reduction(application, widths), {
                    "inputs": _reduction(application, widest(application.scaled_hidden, training_words, limit, steps)),
                    "alone": _reduction(application, widest(application.common, parameters, limit, steps)),
                    "kib": None if widths is None else parameters(widths) * platform.word_bytes / 1024})
    draft.notes.append(
        f"training keeps weights, gradients and Adagrad's sums, samples of a batch of {BATCH}, and each other unit's "
        "activation and error; layers have one share of the global ones', the input among them, the output is whole")
    draft.notes.append("with all inputs: the input is not projected; weights alone: nothing but weights is kept in "
                       "that memory")
    draft.notes.append(
        "the paper says neither which memory a local network is to fit nor which part of Virtex-6 it has: sizes are "
        "those of data sheets (cases.py), block RAM of the smallest part, of that of board ML605, and of the one with "
        "most")


def _reduction(application: Application, widths: Widths | None) -> float | None:
    return None if widths is None else application.reduction(widths)


def iterations(draft: Draft) -> None:
    """Table 4, iterations: of data of ours, those of local networks over those of synchronous training."""
    draft.further = {"plain": "here", "deviation": "deviation", "dropout": "here, over dropout", "inputs": "inputs",
                     "share": "share"}
    for application in APPLICATIONS:
        stand = runs.STANDS[application.name]
        try:
            dataset = stand.samples()
        except UserError as error:
            draft.notes.append(f"{application.name}: nothing of ours: {error}")
            continue
        features = dataset.train_x.shape[1]
        steps = {dropped: runs.baseline_steps(stand, dataset, dropped) for dropped in (0.0, runs.DROPPED)}
        for platform in PLATFORMS:
            inputs, share = read_widths(application, platform)
            # As large a part of our features, unless there are several times fewer of them.
            kept = round(inputs * features / application.widths[0]) if features > application.widths[0] / 2 else round(
                inputs)
            found = runs.local_steps(stand, dataset, kept, share)
            draft.add(application.name, platform.key, None, {
                "plain": _over(found, steps[0.0], stand.batches), "deviation": _deviation(found, steps[0.0]),
                "dropout": _over(found, steps[runs.DROPPED], stand.batches), "inputs": kept, "share": share})
        draft.notes.append(
            f"{application.name}: data set {stand.data}, {features} features, hidden {stand.hidden}, "
            f"{dataset.classes} classes, to {100 * stand.accuracy:g} % of test samples, Adagrad of {stand.rate:g}, "
            f"{stand.seeds} seed{'s' if stand.seeds > 1 else ''}; synchronous training takes {_mean(steps[0.0])} "
            f"steps, with dropout of half the units {_mean(steps[runs.DROPPED])}")
    draft.notes.append(
        f"here: batches of each of {runs.KERNELS} kernels alike, which answer after {runs.PUSH}, over steps of one "
        f"kernel without dropout, batches of {BATCH}; or over those with dropout, as the paper has it. A bound: "
        "the accuracy was not reached")
    draft.notes.append("local networks have the inputs and the share of hidden units that are read by execution "
                       "(table circuitry); samples are projected, those of synchronous training are not")


Steps = list[float | None] | list[int | None]


def _reached(steps: Steps) -> list[float]:
    return [step for step in steps if step is not None]


def _mean(steps: Steps) -> str:
    reached = _reached(steps)
    return f"{fmean(reached):.3g}" if len(reached) == len(steps) else "more than were run"


def _over(found: Steps, baseline: Steps, most: int) -> Value:
    """Mean steps over the baseline's; a bound, if a run did not reach the accuracy; None, if the baseline did not."""
    if len(_reached(baseline)) < len(baseline):
        return None
    if len(_reached(found)) < len(found):
        return f">{most / fmean(_reached(baseline)):.2g}"
    return fmean(_reached(found)) / fmean(_reached(baseline))


def _deviation(found: Steps, baseline: Steps) -> float | None:
    """Standard deviation of the ratios seed by seed; None of one seed, or where a run did not reach the accuracy."""
    if len(found) < 2 or None in found or None in baseline:
        return None
    return stdev(own / other for own, other in zip(_reached(found), _reached(baseline), strict=True))


def speeds(draft: Draft) -> None:
    """Table 4, times: by Table 2 with one fitted constant a platform, by its own rows, and measured here."""
    draft.further = {"here": "here", "profile": "by profile", "products": "by products"}
    costs, found = times.host_costs(), dict[Network, float]()

    def seconds(of: Network) -> float:
        if of not in found:
            found[of] = times.batch_seconds(of)
        return found[of]

    units = {}
    for platform in PLATFORMS:
        pairs = [read_networks(application, platform) for application in APPLICATIONS]
        units[platform.key] = times.fitted_unit(
            pairs, [printed(application, platform, "time_per_iteration_reduction") for application in APPLICATIONS])
    for application, platform in cells():
        whole, local = read_networks(application, platform)
        projected = application.scaled(read_widths(application, platform).inputs, 1.0)
        executed = network(projected)
        ratio = {name: printed(application, platform, name)
                 for name in ("time_per_iteration_reduction", "iterations_increase")}
        draft.add(application.name, f"{platform.key}, time per iteration",
                  times.reduction(whole, local, units[platform.key]),
                  {"here": seconds(whole) / seconds(local), "products": whole.macs / local.macs,
                   "profile": costs.batch(whole, BATCH) / costs.batch(local, BATCH)})
        draft.add(application.name, f"{platform.key}, training", _truncated(
            ratio["time_per_iteration_reduction"] / ratio["iterations_increase"]))
        draft.add(application.name, f"{platform.key}, execution", application.reduction(projected),
                  {"profile": costs.forward(whole, BATCH) / costs.forward(executed, BATCH)})
    for application in APPLICATIONS:
        platform = PLATFORMS[1]
        local = read_networks(application, platform)[1]
        draft.add("message", f"{application.name}, P2", 1e3 * ETHERNET.message(local.macs))
    gains = [printed(application, platform, "training_improvement") for application, platform in cells()]
    draft.add(CLAIMS, "training, least to most", f"{min(gains):g}-{max(gains):g}")
    draft.notes.append(
        "time per iteration: a batch of the global network over one of the local, by Table 2, in which a unit's "
        "activation and error cost as many multiply-adds as come nearest to the platform's three values: "
        + ", ".join(f"{key} {unit:,.0f}" for key, unit in units.items()))
    draft.notes.append(f"here: training batches of {BATCH} in numpy on one thread of this host, the shortest of "
                       f"{times.STEPS} each; by profile: Table 2 with the coefficients that `plinth profile numpy` "
                       "measures on it, of execution T_FP. Another host has others. Networks as read by execution")
    draft.notes.append("by products: what Table 2 gives if units and messages cost nothing, the printed circuitry "
                       "reduction but for rounded widths; the paper prints more than that for Visual on P2")
    draft.notes.append("a message: weights of the local network one way, 16 bits each at 1 Gb/s, the one constant of "
                       "Table 2 that the paper prints; without alpha_net, and without headers")


def _truncated(value: float) -> float:
    """One digit behind the point, the others left off."""
    # Quotients such as 3.9 / 1.3 may be a little below what they are.
    return int(10 * value + 1e-9) / 10


def scaling(draft: Draft) -> None:
    """Figure 5's kind of curve: speed-up of time to equal accuracy by the number of kernels."""
    draft.further = {"together": "synchronous", "ours_ms": "ours, ms", "together_ms": "synchronous, ms",
                     "batches": "batches of all"}
    draft.add("setup", "parameters", float(NETWORKS["alexnet"].parameters))
    for link in runs.LINKS:
        first_own, first_together = runs.scaled_locally(link, 1)[0], runs.scaled_together(link, 1)
        curve: dict[str, list[float]] = {"ours": [], "together": []}
        for kernels in runs.COUNTS:
            (seconds, batches), together = runs.scaled_locally(link, kernels), runs.scaled_together(link, kernels)
            curve["ours"].append(first_own / seconds)
            curve["together"].append(first_together / together)
            draft.add(link, f"{kernels} kernel{'s' if kernels > 1 else ''}", first_own / seconds, {
                "together": first_together / together, "ours_ms": 1e3 * seconds, "together_ms": 1e3 * together,
                "batches": batches})
        draft.points[link] = curve
        fastest = min(runs.scaled_together(link, kernels) for kernels in runs.COUNTS)
        draft.add(CLAIMS, f"speed-up of {runs.COUNTS[-1]} kernels, {link}", curve["ours"][-1],
                  note="excellent is read as at least half of the kernels")
        draft.add(CLAIMS, f"synchronous time over ours, {runs.COUNTS[-1]} kernels, {link}",
                  together / seconds, note=f"{link}: the shortest synchronous time, of whatever number of kernels, "
                  f"over ours of {runs.COUNTS[-1]} is {fastest / seconds:.3g}")
    draft.points["kernels"] = list(runs.COUNTS)
    own = runs.scaled_locally("1 Gb/s", 1)[1]
    draft.add(CLAIMS, "batches of one kernel over steps with dropout",
              own / min(runs.scaled_steps(batch, runs.DROPPED) for batch in runs.TOGETHER),
              note="without dropout synchronous training takes "
              f"{min(runs.scaled_steps(batch, 0.0) for batch in runs.TOGETHER):.3g} steps, one kernel of half networks "
              f"{own:.3g} batches")
    draft.notes.append(
        f"virtual time until {100 * runs.SCALED_ACCURACY:g} % of the digits for testing are right, mean of "
        f"{runs.SCALED_SEEDS} seeds; network {runs.SCALED_NETWORK}, local networks {runs.SCALED_WIDTHS}, Adagrad of "
        f"{runs.SCALED_RATE:g}, kernels answer after {runs.PUSH} batches of {BATCH}")
    draft.notes.append(
        "1 Gb/s: kernels of 50 thousand million operations a second, 0.1 ms a message; 10 Gb/s: 10 thousand million, "
        "50 us. Each kernel has a link of its own to the coordinator")
    draft.notes.append(
        f"synchronous: the shortest of batches of {', '.join(map(str, runs.TOGETHER))} of all kernels together, with "
        "dropout and without; gradients go round a ring of the same links. Speed-ups are over one kernel of the same "
        "way")


def setup(draft: Draft) -> None:
    """The settings of section 7 that are settings of ours, too."""
    draft.add("", "batch", BATCH)
    draft.add("", "beta", 100 * BETA)
    draft.add("", "tuning subset, most", 100 * max(SHARE, TUNING))
    draft.add("", "fixed point, FPGA",
              f"1 sign + {Q3_12.integer_bits} integer + {Q3_12.fraction_bits} fraction bits")
