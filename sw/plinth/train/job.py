"""The training job from network to report: plan, lower, run on an array, compare, save."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import islice, permutations
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from plinth.array.array import Array
from plinth.driver.device import DeviceArray as Devices
from plinth.driver.driver import Driver
from plinth.driver.executor import Executor, check_settings
from plinth.driver.statistics import DieStatistics
from plinth.errors import UserError, one_line
from plinth.files.reports import report
from plinth.lower.places import HostView, host_view
from plinth.lower.stages import check_network
from plinth.lower.tensors import Floats
from plinth.lower.training import check_array, lower_training, trained_sharding
from plinth.network.network import Network
from plinth.network.parameters import Parameters, Predictor
from plinth.output import check_writable, write_json
from plinth.plan.plan import Plan
from plinth.plan.plan_file import check_use
from plinth.plan.planning import check_prediction, plan_network, predicted_seconds
from plinth.runtime.arrays import WaveWindow, bitstream_digest, cosim_array, golden_array, serial_array
from plinth.runtime.numpy_executor import NumpyExecutor
from plinth.runtime.transports import ProcessTransport
from plinth.step.build import step_of
from plinth.step.layers.sparse import SparseProducts
from plinth.step.pairs import (
    between_processes,
    joined_messages_between,
    messages_between,
    row_words_between,
    words_between,
)
from plinth.step.step import Step
from plinth.train import checkpoint
from plinth.train.checkpoint import Checkpoint
from plinth.train.checks import Checks, against_float64
from plinth.train.data import Dataset, Samples, samples
from plinth.train.evaluation import evaluate
from plinth.train.float64 import float64_predictor
from plinth.train.folder import REPORT, RunFolder
from plinth.train.layers import layer_report
from plinth.train.resume import starting_point, state_scale
from plinth.train.scale import Conversion, Scale, held_operands, held_targets
from plinth.train.session import Session, StepResult
from plinth.train.settings import RunSettings, network_digest, tiles_of
from plinth.update.rule import UpdateRule
from plinth_hw.installation import commit, release
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters

if TYPE_CHECKING:
    from plinth_sim.rtl.remote_links import Lockstep

#: Devices in this process: golden dies, numpy without dies, and dies in RTL. Others are behind ``"serial"`` ports.
GOLDEN, NUMPY, COSIM = DEVICES = "golden", "numpy", "cosim"
#: What sums the gradients of processes that compute in numpy: rings, in the order of dies, or MPI's library.
RING, LIBRARY = REDUCTIONS = "ring", "library"
#: Of how many steps in numpy, which run much faster than the float64 reference, one is compared with it.
NUMPY_CHECK_STEPS = 100


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """What somebody asks for."""

    network: Network
    #: Where to train, and what to split it by: a planner, which counts words by a model, or a plan's file.
    array: Array
    planner: str
    model: str
    plan: Plan | None
    #: Samples, those of a file or of a data set with a name, or themselves; None: the digits.
    data: Path | Samples | None = None
    #: Factors on samples and targets; None: the automatic ones.
    scale: Scale | None
    epochs: int
    batch: int
    rule: UpdateRule
    seed: int
    device: str
    #: With the devices "golden" and "numpy": what joins this process to others, which train together; the dies of each.
    transport: ProcessTransport | None = None
    #: With the device "numpy", in several processes: "library", whose all-reduce sums gradients in place of rings.
    reduce: str = RING
    #: With the device "cosim": likewise; each of these processes has all golden dies beside its own in RTL.
    lockstep: "Lockstep | None" = None
    #: With the device "serial": name and rate in baud of each die's port.
    ports: tuple[tuple[str, int], ...] = ()
    #: And the folder of the bitstream that the dies must hold; None: any of the array's parameters.
    bitstream: Path | None = None
    memory_words: int
    threads: int | None = None
    #: Whether the result has the weights behind the last step: all processes gather them.
    returned: bool = True
    #: The file of weights; of several processes all have it, and that of die 0 writes it.
    save: Path | None = None
    #: Steps after which it is written too, besides the end of each epoch; None: no others.
    save_every: int | None = None
    resume: Path | None = None
    #: Go on from ``resume`` with settings that are not its own.
    change: bool = False
    #: What was said of the network's Winograd tiles, by option.
    tile_options: Mapping[str, str] = field(default_factory=dict)
    steps: int | None = None
    window: WaveWindow | None = None
    #: Folder of the report; None: it is not written. Of several processes that train together one has it.
    out: RunFolder | None = None
    #: What messages call the plan.
    plan_name: str = "plan"
    #: Largest share of a step's kinks that the dies may decide; None: by the number format.
    kinks: float | None = None
    #: Besides the first ones the steps are compared with the float64 reference whose number is a multiple; None: of
    #: dies all steps, with the device "numpy" each :data:`NUMPY_CHECK_STEPS`.
    check_every: int | None = None


@dataclass(frozen=True)
class JobResult:
    """The report and what its picture needs."""

    report: dict[str, Any]
    plan: Plan
    losses: list[float]
    #: Those behind the last step; none, if they were not asked for.
    parameters: Parameters


#: Counters of an engine, and what reports call them.
COUNTERS = {"tasks": "tasks", "busy": "busy_cycles", "stall_input": "stall_input_cycles",
            "stall_output": "stall_output_cycles", "stall_memory": "stall_memory_cycles", "words": "payload_words",
            "useful_macs": "useful_macs", "issued_macs": "issued_macs"}
#: Called before the first step with the number of steps, and after every step.
Progress = Callable[[StepResult | None, int], None]


def run_job(options: JobOptions, progress: Progress, say: Callable[[str], None]) -> JobResult:
    """Train a network as the options say, and report what was measured. In ``options.out``, if there is a folder,
    ``report.json`` is written last, and only then; what an earlier run left there is removed before the first step,
    once nothing that is read can be wrong any more.

    Weights are saved after each epoch and after the last step; if the run is interrupted or a device fails, those after
    the last step that was done. A step that is not finite or further from the float64 reference than its format may be
    ends the run; the report's ``failure`` says which, and weights after it are not saved. Of steps that are not
    compared with the reference this holds for the loss, and for weights that are saved, or are there when the run ends.

    Raises
    ------
    UserError
        For whatever the user can mend.
    """
    started = time.perf_counter()
    say = _printable(say)
    network, array = options.network, options.array
    parameters = array.die_parameters()
    if options.device == "serial":
        parameters = parameters.with_window
    if options.device != NUMPY:
        check_array(array)
    dataset = samples(options.data, network, _conversion(options))
    if options.reduce == LIBRARY and options.transport is not None:
        say("note: MPI's library sums gradients in an order of its own: weights equal those of rings but for rounding")
    if options.scale is None:
        say(f"note: scale=auto is scale={dataset.scale}")
    steps_per_epoch = len(dataset.train_x) // options.batch
    if steps_per_epoch < 1:
        raise UserError(f"a batch of {options.batch} is larger than the {len(dataset.train_x)} training "
                        "samples; give a smaller batch=")
    plan = _plan(options)
    view, executors = _made_ready(options, plan, parameters, steps_per_epoch, say)
    for note in view.notes:
        say(f"note: {note}")
    settings = _settings(options, plan, dataset)
    start = starting_point(network, settings, options.seed, options.resume, parameters=parameters,
                           steps_per_epoch=steps_per_epoch, change=options.change, say=say)
    check_writable(options.save)
    if options.out is not None:
        options.out.hold()
    driver, golden, digest = executors()
    if options.transport is not None or options.lockstep is not None:
        check_settings("settings", driver.told("settings", settings.texts | _agreed(options, start)))
    checks = against_float64(network, options.rule, parameters.number_format, kinks=options.kinks)
    checked = options.check_every != 0
    session = Session(network, dataset, view, driver, golden, checks if checked else None, options.batch, start.seed,
                      options.check_every or (NUMPY_CHECK_STEPS if options.device == NUMPY else 1))
    session.load_parameters(start.parameters)
    if start.kept:
        session.load_kept(start.kept)
    driver.clear_counters()
    if options.out is not None:
        options.out.clear()
    setup_seconds = time.perf_counter() - started
    before = driver.cycles
    total = (options.epochs - start.epoch) * steps_per_epoch - start.step
    total = total if options.steps is None else min(total, options.steps)
    progress(None, total)
    training_started = time.perf_counter()

    def save(reached: Checkpoint, arrays: Iterable[tuple[str, Floats]], step: int) -> None:
        try:
            checkpoint.save(options.save if 0 in driver.numbers else None, network, reached, arrays)
        except checkpoint.NotFiniteError as odd:
            checks.fail(_not_finite(odd.what, step))

    def reached(result: StepResult, of: Executor) -> Checkpoint:
        """How far training has come, without weights."""
        epochs, step = divmod(result.epoch * steps_per_epoch + result.step + 1, steps_per_epoch)
        return Checkpoint({}, epochs, start.seed, step, settings, session.generators(of) if step else (),
                          options.rule.kept,
                          state_scale=state_scale(settings, parameters) if options.rule.kept else None)

    #: Behind the last step, unless it has been saved: of the golden model, which is near where the dies are not.
    latest: tuple[Checkpoint, list[tuple[str, Floats]]] | None = None
    try:
        for done, result in enumerate(islice(_steps(session, start, options.epochs), total), 1):
            progress(result, total)
            if not isfinite(result.loss):
                checks.fail(_not_finite("loss", done))
            if checks.failure is not None:
                break
            if options.save and (done == total or result.step + 1 == steps_per_epoch
                                 or (options.save_every and done % options.save_every == 0)):
                checks.finish()
                if checks.failure is not None:
                    break
                save(reached(result, driver), session.each_array(driver), done)
                latest = None
                if checks.failure is not None:
                    break
            elif options.save and session.equal:
                of = session.drivers[-1]
                # All processes read; the one that writes holds them.
                latest = reached(result, of), [array for array in session.each_array(of) if 0 in driver.numbers]
    except (KeyboardInterrupt, UserError):
        if latest is not None:
            save(*latest, len(session.losses))
        raise
    wall = time.perf_counter() - training_started
    checks.finish()
    # Before weights are gathered and samples of the test predicted.
    sent = [] if options.transport is None else _sent(options.transport, driver)
    last_weights, finite = {}, True
    for name, values in session.each_parameter(driver):
        finite = finite and bool(np.isfinite(values).all())
        if options.returned:
            last_weights[name] = values
    if session.losses and not finite:
        checks.fail(_not_finite("weights", len(session.losses)))
    report = _report(options, session, checks, driver, plan, dataset, digest, seed=start.seed, wall=wall,
                     setup=setup_seconds, cycles=driver.cycles - before)
    if options.transport is not None:
        report["between_ranks"] = _between_ranks(options, options.transport, sent, driver, plan, session)
    if options.out is not None:
        write_json(options.out.path / REPORT, report)
    return JobResult(report, plan, session.losses, last_weights)


def _not_finite(what: str, step: int) -> str:
    """The failure of a step of which something is not finite, where float64 has not been asked why."""
    return f"step {step}: {what} not finite; give a smaller rate=, or scale samples to about 1 (scale=auto)"


#: The array under test, the golden model that it is compared with, and the SHA-256 of co-simulated dies' Verilog.
Executors = tuple[Executor, Executor | None, str | None]


def _made_ready(options: JobOptions, plan: Plan, parameters: DieParameters, steps: int, say: Callable[[str], None]
                ) -> tuple[HostView, Callable[[], Executors]]:
    """Where the host reads and writes, and what makes what runs the plan's step; ``steps`` are those of an epoch."""
    array, dies = options.array, options.array.dies
    if options.device == NUMPY:
        check_network(options.network)
        step = step_of(trained_sharding(plan, parameters, options.rule), parameters)
        return HostView(**host_view(step, lists=False)), lambda: (_numpy_executor(options, step), None, None)
    verilog_digest = bitstream_digest(options.bitstream, parameters) if options.bitstream else None
    memory_words = min(options.memory_words, parameters.most_memory_words)
    # Memory on the chip is small: each batch is written before its step.
    program = lower_training(options.network, plan, parameters, rule=options.rule,
                             steps=steps if parameters.axi_ports else 1, memory_words=memory_words)

    def driver(devices: Devices, digest: int | None = None) -> Driver:
        return Driver(devices, program, memory_words=memory_words, links=array, verilog_digest=digest)

    def executors() -> Executors:
        golden = driver(golden_array(parameters, dies, memory_words, options.transport))
        if options.device == GOLDEN:
            return golden, None, None
        if options.device == "serial":
            return driver(serial_array(parameters, options.ports), verilog_digest), golden, None
        say(f"building {dies} x {parameters.name} (cached after the first time)")
        devices, digest = cosim_array(parameters, dies, memory_words, threads=options.threads, links=array.timed(),
                                      window=options.window, lockstep=options.lockstep)
        return driver(devices), golden, digest

    return program, executors


def _numpy_executor(options: JobOptions, step: Step) -> NumpyExecutor:
    """What runs a step in numpy, of the dies of this process; collective."""
    if options.transport is None:
        return NumpyExecutor(step)
    from plinth.runtime.mpi import MpiTransport
    from plinth.runtime.mpi_messages import MpiMessages

    if not isinstance(options.transport, MpiTransport):
        raise UserError("processes compute in numpy together as ranks of MPI alone; give a transport of theirs")
    return NumpyExecutor(step, MpiMessages(options.transport, library=options.reduce == LIBRARY))


def _printable(say: Callable[[str], None]) -> Callable[[str], None]:
    """Says lines as terminals may show them: notes quote what files hold."""
    return lambda text: say(one_line(text))


def _plan(options: JobOptions) -> Plan:
    """The plan that was given, or that of the planner, for the rule that weights are updated by.

    Raises
    ------
    UserError
        If the plan is not for this network, batch and array.
    """
    network, array = options.network, options.array
    if options.plan is None:
        return plan_network(network, array, planner=options.planner, model=options.model, batch=options.batch,
                            rule=options.rule).plan
    plan = options.plan
    check_use(plan, options.plan_name, array=array, batch=options.batch)
    check_prediction(plan, options.plan_name)
    if plan.rule == options.rule.form:
        return plan
    plan = plan.resharded(rule=options.rule)
    return plan if plan.predicted_seconds is None else replace(plan, predicted_seconds=predicted_seconds(plan, array))


def _conversion(options: JobOptions) -> Conversion:
    """How samples become numbers of the array's dies."""
    parameters = options.array.die_parameters()
    fmt, name = parameters.multiply_format, parameters.number_format
    return Conversion(options.scale, held_operands(fmt, name),
                      held_targets(fmt, name, options.batch * options.network.output.elements))


def _settings(options: JobOptions, plan: Plan, dataset: Dataset) -> RunSettings:
    """What a checkpoint says of the run."""
    return RunSettings(
        epochs=options.epochs, batch=options.batch, rule=options.rule,
        number_format=options.array.die_parameters().number_format, scale=dataset.scale, data=dataset.name,
        data_sha256=dataset.sha256, network_sha256=network_digest(options.network), tiles=tiles_of(options.network),
        tile_options=options.tile_options, preset=options.array.preset, array=options.array.name,
        dies=options.array.dies, planner=plan.planner, model=plan.model)


def executor_settings(options: JobOptions) -> dict[str, str]:
    """What decides how processes talk to each other, by option: they have to compare it before they do."""
    return {"device": f"device={options.device}", "reduce": f"reduce={options.reduce}"}


def _agreed(options: JobOptions, start: Checkpoint) -> dict[str, str]:
    """What else has to be the same in all processes, as messages say it, by name: where training starts, and what
    decides how many steps it takes and when all are asked for what one writes."""
    return {"seed": f"seed={start.seed}", "start": start.progress,
            "weights": f"first weights of SHA-256 {start.digest[:8]}",
            "steps": "no steps=" if options.steps is None else f"steps={options.steps}",
            "save": "save=" if options.save else "no save=",
            "kinks": "no kinks=" if options.kinks is None else f"kinks={options.kinks!r}",
            **{name: f"no {name}=" if value is None else f"{name}={value}" for name, value in (
                ("save_every", options.save_every), ("check_every", options.check_every))},
            "version": f"version {commit() or release()}"}


def _steps(session: Session, start: Checkpoint, epochs: int) -> Iterator[StepResult]:
    """All steps from where training starts."""
    yield from session.epoch(start.epoch, start.step, start.generators)
    for epoch in range(start.epoch + 1, epochs):
        yield from session.epoch(epoch)


def _report(options: JobOptions, session: Session, checks: Checks, driver: Executor, plan: Plan, dataset: Dataset,
            digest: str | None, *, seed: int, wall: float, setup: float, cycles: int) -> dict[str, Any]:
    """Everything measured, as :mod:`plinth.files.reports` says; from counters and comparisons, never from estimates."""
    dies, parameters = options.array.dies, options.array.die_parameters()
    steps = len(session.losses)
    # Without checks nothing is in float64, which takes several times the memory of the weights.
    own = options.check_every == 0 and isinstance(driver, NumpyExecutor)
    test_loss, test_accuracy = evaluate(
        options.network, _predictor_of(driver) if own else float64_predictor(options.network),
        {} if own else session.parameters(driver), dataset.test_x, dataset.test_y, classes=bool(dataset.classes))
    engines: dict[str, dict[str, int]] = {}
    counted = driver.statistics()
    for die in counted:
        for engine, counters in die.counters.items():
            values = {name: getattr(counters, key) for key, name in COUNTERS.items()}
            total = engines.setdefault(engine.name.lower(), dict.fromkeys(values, 0))
            for key, value in values.items():
                total[key] += value
    if counted:
        # Dies count what they multiply; which of it fills blocks up they cannot know.
        engines[Engine.MATRIX.name.lower()]["useful_macs"] -= steps * _fill(options, plan, parameters)
    links, injected = [list(die.link_words) for die in counted], [die.injected_words for die in counted]
    macs = engines[Engine.MATRIX.name.lower()]["useful_macs"] if counted else 0
    pes = parameters.rows * parameters.columns
    rtl = options.device not in (GOLDEN, NUMPY)
    view = session.program
    # Of rows that move one by one the batches' in place of those that the plan expects.
    looked_up = view.row_words(session.rows) - steps * view.row_words(view.expected_rows()) if steps else 0
    return report("train", {
        "network": options.network.name, "parameters": options.network.parameters,
        "notes": list(options.network.notes),
        "preset": parameters.name, "device": options.device, "planner": plan.planner, "array": options.array.name,
        "dies": dies, "word_bytes": parameters.word_bytes, "batch": options.batch, "update": options.rule.title,
        "update_rule": asdict(options.rule), "seed": seed, "epochs": options.epochs, "scale": asdict(dataset.scale),
        "steps": steps,
        "last_loss": session.losses[-1] if steps else None,
        "test_accuracy": test_accuracy, "test_loss": test_loss,
        "bit_exact": session.equal and session.compared_steps == steps > 0 if rtl else None,
        "compared_steps": session.compared_steps, "checked_steps": checks.compared_steps,
        "failure": checks.failure, **{f"{name}_error": value for name, value in checks.largest.items()},
        "errors": checks.to_data(),
        "unsaturated_steps": None if checks.unsaturated is None else checks.unsaturated.to_data(),
        "verdict_steps": checks.verdict_steps, "kinks": checks.kinks.decided, **checks.kinks.to_data(),
        "cycles": cycles, "cycles_per_step": cycles / steps if steps else None,
        "predicted_cycles_per_step": None if plan.predicted_seconds is None else (
            plan.predicted_seconds * float(options.array.clock_mhz) * 1e6),
        "wall_seconds": wall, "setup_seconds": setup,
        "die_cycles_per_second": cycles * dies / wall if rtl and wall else None,
        "matrix_utilisation": macs / (pes * cycles * dies) if cycles else None,
        "engine_counters": engines,
        "link_words": sum(map(sum, links)) if counted and rtl else None, "link_words_by_port": links,
        "injected_words": sum(injected) if counted and rtl else None, "injected_words_by_die": injected,
        "predicted_injected_words": steps * plan.words + looked_up,
        "injected_words_bounds": [steps * words for words in plan.word_bounds],
        "gather_thresholds": session.levels,
        "saturations": driver.saturated(),
        "layers": layer_report(plan, session.program.realised if rtl and steps else None, counted),
        "plan": plan.to_data(),
        "verilog_sha256": digest, "commit": commit(),
        "losses": session.losses, "timeline": _timeline(counted[0]) if rtl and counted else [],
    })


def _fill(options: JobOptions, plan: Plan, parameters: DieParameters) -> int:
    """Multiply-adds of a step on all dies, of zeros that fill blocks of sparse layers up."""
    if not any(node.pattern is not None for node in plan.sharding.graph.nodes):
        return 0
    step = step_of(trained_sharding(plan, parameters, options.rule), parameters)
    return sum(products.fill(die) for products in step.operations_of(SparseProducts) for die in range(step.dies))


def _predictor_of(executor: Executor) -> Predictor:
    """What numpy predicts by the weights in its memory."""
    assert isinstance(executor, NumpyExecutor)
    return lambda _, x: (outputs.astype(np.float64) for outputs in executor.predictions(x))


def _sent(transport: ProcessTransport, driver: Executor) -> list[list[tuple[int, int, int]]]:
    """Of each process the others that it has sent something, and how many words and messages; collective."""
    return driver.told("words sent", [(rank, transport.words[rank], transport.messages[rank])
                                      for rank in sorted(transport.words)])


def _between_ranks(options: JobOptions, transport: ProcessTransport, counted: list[list[tuple[int, int, int]]],
                   driver: Executor, plan: Plan, session: Session) -> list[dict[str, int]]:
    """What each process has sent each other one in all steps, as :func:`_sent` counts it, beside what the plan says.
    Numpy sends what dies leave out; sums by the library are counted by nobody."""
    parameters = options.array.die_parameters()
    rings = options.reduce == RING
    step = driver.built if isinstance(driver, NumpyExecutor) else step_of(
        trained_sharding(plan, parameters, options.rule), parameters)
    steps = len(session.losses)
    between = steps * words_between(step, whole=options.device == NUMPY, rings=rings, rows={}) + row_words_between(
        step, session.rows)
    if options.device == NUMPY:
        planned_messages = joined_messages_between(step, transport.processes, rings=rings)
    else:
        planned_messages = between_processes(messages_between(step), transport.processes)
    planned_words = between_processes(between, transport.processes)
    found = {(rank, other): (words, messages) for rank, sent in enumerate(counted) for other, words, messages in sent}
    pairs = []
    for pair in permutations(range(len(transport.processes)), 2):
        words, messages = found.get(pair, (0, 0))
        if planned_words[pair] or words:
            pairs.append({"from_rank": pair[0], "to_rank": pair[1],
                          "sent_words": words, "predicted_sent_words": int(planned_words[pair]),
                          "messages": messages, "predicted_messages": steps * int(planned_messages[pair])})
    return pairs


def _timeline(die: DieStatistics) -> list[dict[str, Any]]:
    """Tasks of a die's last step, in cycles from the first one's start."""
    zero = min((record.start for record in die.records), default=0)
    return [{"task": record.task, "engine": record.engine.name.lower(), "start_cycle": record.start - zero,
             "end_cycle": record.end - zero} for record in die.records]
