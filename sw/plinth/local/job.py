"""A training run by local networks, from what somebody asks for to its report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from plinth.errors import UserError, quoted
from plinth.files.reports import report
from plinth.local.coordinator import PATIENCE_SECONDS, Coordinator, CoordinatorRun, Ending, Point
from plinth.local.devices import KernelDevice
from plinth.local.draws import UNIFORM
from plinth.local.links import KernelLinks, ThreadLinks, VirtualLinks
from plinth.local.merging import AUTO
from plinth.local.push import (
    CORRECTED,
    MEASURED,
    PRINTED,
    PUSHES,
    corrected_push,
    measured_push,
    printed_push,
    whole_push,
)
from plinth.local.synchronous import Baseline, train_synchronously
from plinth.local.training import LocalTraining, planned_kernels
from plinth.local.tuning import tune
from plinth.names import DATA_PARALLEL
from plinth.network.local import shared_widths, widths_of
from plinth.network.network import Network
from plinth.network.parameters import Parameters
from plinth.output import check_writable, write_json
from plinth.profile.costs import KernelCosts
from plinth.projection.projection import Projection
from plinth.train import checkpoint
from plinth.train.checkpoint import Checkpoint
from plinth.train.data import Dataset
from plinth.train.folder import REPORT, RunFolder
from plinth.train.settings import RunSettings, network_digest, tiles_of
from plinth_hw.installation import commit, release
from plinth_hw.terminal.activity import Activity

#: Clocks: that of the host, or one on which kernels take as long as their profiles say.
REAL, VIRTUAL = CLOCKS = "real", "virtual"
#: Seconds between checkpoints of a run that lasts.
SAVE_SECONDS = 60.0
#: Endings behind which the baseline is trained.
ENDED = ("accuracy", "batches")
#: Share of units that dropout leaves out in the baseline.
DROPPED = 0.5


@dataclass(frozen=True, kw_only=True)
class LocalOptions:
    """What somebody asks for.

    Attributes
    ----------
    network : Network
    dataset : Dataset
    devices : sequence of KernelDevice
    widths : sequence of sequence of int
        S_L of each kernel.
    costs : sequence of KernelCosts or None
        Of each kernel; None: the usual ones.
    batch, batches : int
        Samples of a kernel's batch, and batches of all kernels together.
    accuracy : float or None
        Training ends once a validation finds so much.
    update : str
    rate, epsilon : float or None
        The rule, and numbers of it; None: its defaults.
    push : int or str
        n_push, or how it is chosen (:data:`~plinth.local.push.PUSHES`).
    merge, draw, clock : str
    baseline : bool
        Whether the global network is trained synchronously as well.
    """

    network: Network
    dataset: Dataset
    devices: Sequence[KernelDevice]
    widths: Sequence[Sequence[int]]
    costs: Sequence[KernelCosts] | None = None
    batch: int
    batches: int
    accuracy: float | None = None
    update: str
    rate: float | None = None
    epsilon: float | None = None
    seed: int = 0
    push: int | str = CORRECTED
    merge: str = AUTO
    draw: str = UNIFORM
    clock: str = REAL
    memory_mib: int
    patience_seconds: float = PATIENCE_SECONDS
    validate_every: int | None = None
    baseline: bool = True
    save: Path | None = None
    out: RunFolder | None = None
    projection: Mapping[str, Any] | None = None
    projected: Projection | None = None
    profiled: Sequence[bool] | None = None

    def texts(self) -> dict[str, str]:
        """What has to be the same in all processes of a run, as messages say it, by name."""
        return {"network": f"network {network_digest(self.network)[:8]}", "data": f"data {self.dataset.sha256[:8]}",
                "kernels": f"kernels={','.join(device.name for device in self.devices)}",
                "local": f"local={self.widths}", "batch": f"batch={self.batch}", "seed": f"seed={self.seed}",
                "update": f"update={self.update} rate={self.rate} epsilon={self.epsilon}",
                "version": f"version {commit() or release()}"}


@dataclass(frozen=True)
class LocalResult:
    """The report of a run, and the weights behind it."""

    report: dict[str, Any]
    parameters: Parameters


#: What makes the links to the kernels of a run that is not in virtual time.
MakeLinks = Callable[[LocalTraining, Callable[[int, int], object]], KernelLinks]


def in_threads(training: LocalTraining, progress: Callable[[int, int], object]) -> ThreadLinks:
    """All kernels in threads of this process; ``progress`` is told how many of them are ready, of how many."""
    return ThreadLinks(training.opened(progress=progress), [kernel.device.slower for kernel in training.kernels])


def in_virtual_time(training: LocalTraining, progress: Callable[[int, int], object]) -> VirtualLinks:
    """All kernels on a virtual clock; ``progress`` as of :func:`in_threads`."""
    return training.virtual_links(training.opened(progress=progress))


def made(options: LocalOptions) -> LocalTraining:
    """The training that the options ask for.

    Raises
    ------
    UserError
        For whatever the user can mend.
    """
    kernels = planned_kernels(options.network, options.devices, options.widths, batch=options.batch,
                              rule=options.update, rate=options.rate, epsilon=options.epsilon,
                              memory_mib=options.memory_mib, costs=options.costs, profiled=options.profiled)
    return LocalTraining(network=options.network, dataset=options.dataset, kernels=kernels, batch=options.batch,
                         seed=options.seed, merge=options.merge, draw=options.draw)


def run_local(options: LocalOptions, told: Activity, links: MakeLinks = in_threads) -> LocalResult:
    """Train a network by local ones, and report what was measured. In ``options.out``, if there is a folder,
    ``report.json`` is written last.

    Parameters
    ----------
    told : Activity
        Hears how far the run is, and what its user may not expect.
    links : callable
        Joins the coordinator to the kernels, where the clock is real.

    Raises
    ------
    UserError
        For whatever the user can mend; also if all kernels were lost, once weights and report have been written.
    """
    started = time.perf_counter()
    training = made(options)
    check_writable(options.save, None if options.save is None or options.projected is None else projection_file(
        options.save))
    with ExitStack() as held:
        if options.out is not None:
            options.out.hold()
            options.out.clear()
        held.enter_context(one_thread())
        for note in (*_projecting(options), *_merging(training)):
            told.say(f"note: {note}")
        push, choices = _push(options, training, told)
        told.begin("starting kernels", "kernels")
        joined = (in_virtual_time if options.clock == VIRTUAL else links)(training, told.update)
        setup = time.perf_counter() - started
        run = _trained(options, training, push, told, joined)
        wall = time.perf_counter() - started - setup
        fault = _saved(options, run.curve, run.parameters)
        baselines = _compared(options, training, run, told) if options.baseline and run.ended in ENDED else []
    found = _report(options, training, run, push=push, choices=choices, baselines=baselines, wall=wall, setup=setup)
    if options.out is not None:
        write_json(options.out.path / REPORT, found)
    if fault is not None:
        raise fault
    return LocalResult(found, run.parameters)


def _saved(options: LocalOptions, curve: Sequence[Point], parameters: Parameters) -> UserError | None:
    """Save what was learnt; the error, if it cannot be written, so that the report is not lost with it."""
    try:
        _save(options, curve, parameters)
    except UserError as error:
        return error
    return None


def _save(options: LocalOptions, curve: Sequence[Point], parameters: Parameters) -> None:
    """Write the checkpoint, if one is asked for and anything was learnt, and the projection beside it."""
    if options.save is None or not curve:
        return
    steps = max(1, len(options.dataset.train_x) // options.batch)
    epochs, step = divmod(curve[-1].batches, steps)
    checkpoint.save(options.save, options.network, Checkpoint(parameters, epochs, options.seed, step, RunSettings(
        epochs=-(-options.batches // steps), batch=options.batch,
        rule=options.devices[0].rule(options.update, options.rate, options.epsilon),
        number_format=options.devices[0].parameters.number_format, scale=options.dataset.scale,
        data=options.dataset.name, data_sha256=options.dataset.sha256,
        network_sha256=network_digest(options.network), tiles=tiles_of(options.network),
        preset=options.devices[0].preset, array="ring-1", dies=1, planner=DATA_PARALLEL)))
    if options.projected is not None:
        options.projected.to_file(projection_file(options.save))


def projection_file(save: Path) -> Path:
    """The file of a projection beside that of a checkpoint."""
    return save.with_name(f"{save.stem}.projection.npz")


def one_thread() -> Any:
    """A context in which BLAS uses one thread: kernels are many, and their products small."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)


def _projecting(options: LocalOptions) -> list[str]:
    """What samples were projected to, in a line; nothing if they were not."""
    if (own := options.projection) is None:
        return []
    times = "" if own["factor"] == 1 else f", times {own['factor']:g}, which all kernels hold"
    return [f"samples of {own['features']} features are projected to {own['size']}{times}: error "
            f"{own['train_error']:.1%} of those for training, {own['test_error']:.1%} of those for testing"]


def _merging(training: LocalTraining) -> list[str]:
    """How differences are merged, in a line."""
    holders, divided = training.holders, training.divided
    most = max(holders.values())
    if not divided:
        return [f"differences are added: up to {most:.3g} kernels are expected to hold a weight"]
    if len(divided) == len(holders):
        return [f"differences are divided by holders: up to {most:.3g} kernels are expected to hold a weight"]
    names = ", ".join(name for name in holders if name in divided)
    return [f"differences of {names} are divided by holders, of whom up to {most:.3g} are expected; others are added"]


def _push(options: LocalOptions, training: LocalTraining, told: Activity) -> tuple[int, dict[str, Any]]:
    """n_push, and what it could be by each way of choosing."""
    computing, message = training.computing_seconds, training.message_seconds
    choices: dict[str, Any] = {PRINTED: printed_push(computing, message), CORRECTED: None, MEASURED: None, "n0": None}
    if isinstance(options.push, int):
        return options.push, choices
    if options.push == PRINTED:
        return whole_push(choices[PRINTED], PRINTED), choices
    told.begin("tuning n_push", "trials")
    tuned = tune(training, told.update)
    choices |= {CORRECTED: corrected_push(computing, message, tuned.n0), "n0": tuned.n0,
                MEASURED: measured_push(computing, message, tuned.batches)}
    return whole_push(choices[options.push], options.push), choices


def _trained(options: LocalOptions, training: LocalTraining, push: int, told: Activity, links: KernelLinks
             ) -> CoordinatorRun:
    told.begin("training", "batches", options.batches)
    coordinator = training.coordinator(
        links, push=push, ending=Ending(batches=options.batches, accuracy=options.accuracy),
        validate_every=options.validate_every, patience_seconds=options.patience_seconds)
    said, saved = 0, time.monotonic()

    def progress(now: Coordinator) -> None:
        nonlocal said, saved
        if time.monotonic() - saved > SAVE_SECONDS:
            _save(options, now.curve, now.weights())
            saved = time.monotonic()
        told.update(now.batches, options.batches, _state(now))
        for event in now.events[said:]:
            told.say(event)
        said = len(now.events)

    return coordinator.run(progress)


def _state(now: Coordinator) -> str:
    """Accuracy, and sets of each kernel, those of many kernels together."""
    last = now.curve[-1] if now.curve else None
    value = "" if last is None else f"loss {last.loss:.4f}, " if last.accuracy is None else f"{last.accuracy:.1%}, "
    counts = [f"{kernel.name} {'lost' if kernel.lost else kernel.merged}" for kernel in now.kernels]
    return f"{value}sets: {', '.join(counts)}" if len(counts) <= 8 else f"{value}{now.merged} sets"


def _compared(options: LocalOptions, training: LocalTraining, run: CoordinatorRun, told: Activity
              ) -> list[dict[str, Any]]:
    """The baselines; those that there are, if somebody interrupts them: the run itself has ended."""
    found = []
    try:
        for baseline in _baselines(options, training, run, told):
            found.append(baseline)
    except KeyboardInterrupt:
        told.say("note: the baseline was interrupted; the report is without it")
    return found


def _baselines(options: LocalOptions, training: LocalTraining, run: CoordinatorRun, told: Activity
               ) -> Iterator[dict[str, Any]]:
    """The global network, trained synchronously in as many steps of one batch as each kernel has trained on batches, on
    average; curves without dropout and with it."""
    count = len(training.kernels)
    steps = max(1, run.curve[-1].batches // count)
    every = max(1, steps // max(1, len(run.curve)))
    rule = training.in_numpy().kernels[0].step.rule
    for dropped in (0.0, DROPPED):
        told.begin(f"training synchronously {'with' if dropped else 'without'} dropout", "steps", steps)
        _, curve = train_synchronously(
            options.network, options.dataset, Baseline(batch=options.batch, rule=rule, dropped=dropped),
            seed=options.seed, costs=[kernel.costs for kernel in training.kernels],
            times=[kernel.batch_seconds for kernel in training.kernels],
            slower=[kernel.device.slower for kernel in training.kernels], validate=training.validate(),
            ending=Ending(batches=steps - steps % every or steps, accuracy=options.accuracy), validate_every=every)
        yield {"dropped_share": dropped, "curve": [_point(point) for point in curve]}


def _point(point: Point) -> dict[str, Any]:
    return {"sets": point.merged, "merged_batches": point.batches, "exchanged_words": point.words,
            "seconds": point.seconds, "test_loss": point.loss, "test_accuracy": point.accuracy}


def _report(options: LocalOptions, training: LocalTraining, run: CoordinatorRun, *, push: int,
            choices: Mapping[str, Any], baselines: list[dict[str, Any]], wall: float, setup: float) -> dict[str, Any]:
    last = run.curve[-1] if run.curve else None
    kernels = []
    for plan, record in zip(training.kernels, run.kernels, strict=True):
        kernels.append({
            "kernel": record.name, "layer_widths": list(plan.local.widths), "macs_share": plan.local.share,
            "update": plan.step.rule.title,
            "sets": record.sent, "merged_sets": record.merged, "dropped_sets": record.dropped,
            "merged_batches": record.batches,
            "mean_staleness": fmean(record.staleness) if record.staleness else None,
            "largest_staleness": max(record.staleness, default=None),
            "set_words": record.words_sent, "answer_words": record.words_received, "seconds": record.seconds,
            "cycles": int(record.counted.get("cycles", 0)), "bit_exact": record.bit_exact,
            "lost": record.lost})
    return report("local", {
        "network": options.network.name, "parameters": options.network.parameters, "notes": list(options.network.notes),
        "layer_widths": list(widths_of(options.network)), "batch": options.batch, "update": options.update,
        "seed": options.seed, "data": options.dataset.name, "scale": asdict(options.dataset.scale),
        "clock": options.clock, "merge": options.merge, "divided": sorted(training.divided), "draw": options.draw,
        "push": push, "printed_push": choices[PRINTED], "corrected_push": choices[CORRECTED],
        "measured_push": choices[MEASURED], "n0": choices["n0"],
        "merged_batches": sum(record.batches for record in run.kernels), "ended": run.ended,
        "test_loss": None if last is None else last.loss, "test_accuracy": None if last is None else last.accuracy,
        "seconds": run.seconds, "wall_seconds": wall, "setup_seconds": setup,
        "kernels": kernels, "incidents": run.events, "curve": [_point(point) for point in run.curve],
        "synchronous": baselines, "commit": commit()} | (
            {} if options.projection is None else {"projection": dict(options.projection)}))


def parsed_widths(text: str, network: Network) -> tuple[int, ...]:
    """S_L of a text: widths with commas between, or a share of each hidden layer's units, such as ``1/2``.

    Raises
    ------
    UserError
        If it is neither.
    """
    whole = widths_of(network)
    numerator, slash, denominator = text.partition("/")
    if slash and numerator.isdecimal() and denominator.isdecimal() and len(text) < 12:
        if not 0 < int(numerator) <= int(denominator):
            raise UserError(f"local={text}: a share of the units must be above 0 and at most 1")
        return shared_widths(network, int(numerator) / int(denominator))
    numbers = text.split(",")
    if not all(number.strip().isdecimal() and len(number) < 12 for number in numbers):
        raise UserError(f"local={quoted(text)}: give widths with commas between, such as "
                        f"{','.join(map(str, whole))}, a share of the units such as 1/2, or auto")
    return tuple(map(int, numbers))


def parsed_push(text: str) -> int | str:
    """n_push of a text: a number, or how it is chosen.

    Raises
    ------
    UserError
        If it is neither.
    """
    if text in PUSHES:
        return text
    if not (text.isdecimal() and 1 <= int(text) <= 1 << 20):
        raise UserError(f"push={quoted(text)}: give a number of batches from 1, or one of {', '.join(PUSHES)}")
    return int(text)


def usual_batches(dataset: Dataset, batch: int, epochs: int) -> int:
    """Batches of all kernels together in so many passes through the training samples."""
    return max(1, epochs * (len(dataset.train_x) // batch))
