"""Commands that run a network or hold what it has learnt: `train`, `serial`, `eval`, `convert`."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from plinth import defaults, limits
from plinth.cli.flags import with_flags
from plinth.cli.group import cli, new_console, print_json
from plinth.cli.local import check_local, local_job, local_options, train_locally, without_local
from plinth.cli.options import (
    array_options,
    file_of,
    model_option,
    number_options,
    open_network,
    planner_option,
    predict_options,
    rate_option,
    shares_of,
    tile_options,
    update_options,
)
from plinth.cli.resume import ResumeOption, naming_checkpoint
from plinth.errors import UserError
from plinth.update.law import NUMBERS
from plinth_hw.terminal.activity import Activity
from plinth_hw.terminal.options import Folder, InputFile, IntegerRange, Name, OutputFile, RealRange

if TYPE_CHECKING:
    from plinth.runtime.arrays import WaveWindow
    from plinth.train.folder import RunFolder
    from plinth.train.job import JobOptions


def _window(text: str | None, out: Path, dies: int) -> WaveWindow | None:
    """``die=0,from=1000,to=2000`` as a window."""
    from plinth.runtime.arrays import WaveWindow

    if text is None:
        return None
    match = re.fullmatch(r"die=([0-9]{1,4}),from=([0-9]{1,18}),to=([0-9]{1,18})", text)
    if not match:
        raise UserError(f"--waves {text!r} is not of the form `die=0,from=1000,to=2000`")
    die, start, stop = (int(number) for number in match.groups())
    if die >= dies or start >= stop:
        raise UserError(f"--waves {text!r}: 'die' must be below {dies}, and 'from' below 'to'")
    return WaveWindow(die, start, stop, out / f"die{die}.vcd")


def typed() -> set[str]:
    """Options of the running command that stand on its command line, by parameter."""
    context = click.get_current_context()
    return {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}


def _recorded(window: WaveWindow) -> str:
    """Path of the waves, or why there are none: a VCD without a time is only a header. Another process may have written
    them where this one cannot see them."""
    if not window.path.exists():
        return f"{window.path}, where the process of die {window.die} runs"
    with open(window.path) as lines:
        if any(line.startswith("#") for line in lines):
            return str(window.path)
    return f"none, the run ended before cycle {window.start}"


def _devices(texts: tuple[str, ...]) -> tuple[str, tuple[tuple[str, int], ...]]:
    """``cosim``, ``golden`` or ``serial``, and of the last the name and rate of each port."""
    from plinth.driver.line import BAUD
    from plinth.train.job import DEVICES

    if len(texts) == 1 and texts[0] in DEVICES:
        return texts[0], ()
    ports = []
    for text in texts:
        match = re.fullmatch(r"serial:([^@]+)(?:@([1-9][0-9]{1,7}))?", text)
        if not match:
            raise UserError(f"--device {text!r}: of several, each must be serial:PORT[@BAUD]" if len(texts) > 1 else
                            f"--device {text!r} is none of {', '.join(sorted(DEVICES))} and serial:PORT[@BAUD]")
        ports.append((match[1], int(match[2] or BAUD)))
    if len({name for name, _ in ports}) < len(ports):
        raise UserError("--device names a port twice; there is one die behind a port")
    return "serial", tuple(ports)


@dataclass(frozen=True)
class Run:
    """A training run that a command line asks for: its job, and where its results go."""

    job: JobOptions
    folder: RunFolder
    as_json: bool

    def train(self, done: Callable[[], object] = lambda: None) -> None:
        """Train, with progress; write report and picture, and show the report. Between the two calls ``done``.

        Raises
        ------
        UserError
            For whatever the user can mend, and for a wrong step, of which there is a report.
        """
        from plinth.output import write_json
        from plinth.report.picture import draw
        from plinth.report.progress import TrainingProgress
        from plinth.report.table import training_table
        from plinth.train.folder import PICTURE, PLAN, REPORT
        from plinth.train.job import run_job

        job, out = self.job, self.folder.path
        with self.folder, Activity(f"setting up {job.network.name} on {job.array.name}") as activity:
            run = run_job(job, TrainingProgress(activity), lambda text: activity.say(with_flags(text)))
            done()
            activity.begin(f"writing the report to {out}")
            if out / PLAN in self.folder.outputs():
                write_json(out / PLAN, run.plan.to_data(out))
            draw(out / PICTURE, run.report)
        if self.as_json:
            print_json(run.report)
        else:
            console = new_console()
            training_table(console, run.report)
            console.print(f"report: {out / REPORT}, picture: {out / PICTURE}", soft_wrap=True, markup=False)
            if job.window:
                console.print(f"waves: {_recorded(job.window)}", soft_wrap=True, markup=False)
        if run.report["bit_exact"] is False:
            raise UserError("the RTL's weights differ from the golden model's; please report this with "
                            "report.json")
        if run.report["failure"] is not None:
            raise UserError(f"{run.report['failure']} (see {out / REPORT})")


def train_job(*, network: str | None, array_name: str | None, planner: str | None, model: str | None,
              plan_file: Path | None, devices: tuple[str, ...], wide: bool | None, stochastic: bool,
              waves: str | None, out: Path | None, winograd: str | None, weights: str | None, predict: str | None,
              shares: str | None, as_json: bool, scale: str, **options: Any) -> Run:
    """Make the training run that the running command's options ask for.

    Raises
    ------
    UserError
        If they do not fit each other, or files cannot be read or written.
    """
    from dataclasses import replace

    from plinth.api.choices import network_or_plan, said_by_plan
    from plinth.api.jobs import check_used, training_job
    from plinth.array.array import ARRAYS
    from plinth.network.zoo import NETWORKS
    from plinth.output import check_places
    from plinth.plan.plan_file import load_plan
    from plinth.train.datasets import DATASETS
    from plinth.train.folder import RunFolder
    from plinth.train.scale import parse_scale
    from plinth_hw.installation import output_root

    out = out or output_root() / "train"
    network, plan_file = network_or_plan(network, plan_file)
    folder = RunFolder(out, plan_file)
    files = {"NETWORK": file_of(network, NETWORKS), "--plan": plan_file, "--array": file_of(array_name, ARRAYS),
             "--data": file_of(options["data"], DATASETS)}
    if plan_file is not None:
        said_by_plan(planner=planner, model=model, winograd=winograd, weights=weights, predict=predict,
                     shares=shares)
    given, (device, ports) = typed(), _devices(devices)
    definition = open_network(network) if network else None
    plan = load_plan(plan_file, definition) if plan_file is not None else None
    dies = options.pop("dies")
    if ports and dies is None and (plan is None or array_name is not None):
        dies = len(ports)
    # What is asked to be wide is not rounded, whatever a checkpoint says.
    typed_wide = wide and given & {"wide", "stochastic"} == {"wide"}
    tile_options = {"winograd": winograd, "weights": weights, "predict": predict, "shares": shares}
    job = training_job(
        network=definition, plan=plan, plan_name=str(plan_file), array=array_name, dies=dies, planner=planner,
        model=model, wide=wide, stochastic=False if typed_wide else stochastic or None,
        tiles=tile_options | {"shares": shares_of(shares)},
        tile_options={name: text for name, text in tile_options.items() if text is not None},
        numbers={name: options.pop(name) for name in NUMBERS}, device=device, ports=ports, scale=parse_scale(scale),
        out=folder, returned=False, **options)
    check_used(job, given)
    job = replace(job, window=_window(waves, out, job.array.dies))
    written: dict[str, Path | None] = {f"{path.name} of --out": path for path in folder.outputs()}
    written["--waves"] = None if job.window is None else job.window.path
    check_places(written, {"--resume": job.resume})
    check_places(written | {"--save": job.save}, files)
    return Run(job, folder, as_json)


@cli.command()
@click.argument("network", type=Name(), required=False)
@array_options
@planner_option
@model_option
@click.option("--plan", "plan_file", type=InputFile(),
              help="a plan that `plinth plan --out` wrote, instead of a planner")
@click.option("--data", type=InputFile(),
              help="an .npz file with arrays x and y, or a data set by name: digits (default), mnist, watch, segments, "
              "asv, kjv")
@click.option("--scale", default="1", show_default=True, metavar="auto|FACTOR[,TARGETS]",
              help="multiply samples by a factor, and targets of mean-squared-error by another; auto: by the powers of "
              "two that bring the largest magnitudes above 1/2 and up to 1")
@click.option("--epochs", type=IntegerRange(1, limits.MAXIMUM_EPOCHS),
              help=f"default: {defaults.EPOCHS}, or what a network of the zoo needs")
@click.option("--steps", type=IntegerRange(1), help="stop after so many steps")
@click.option("--batch", type=IntegerRange(1, limits.MAXIMUM_BATCH), help=f"default: the plan's, or {defaults.BATCH}")
@rate_option
@tile_options
@predict_options
@update_options
@number_options
@click.option("--kinks", type=RealRange(0, 1), metavar="SHARE",
              help="largest share of a step's kinks (ReLUs, windows of max-pools) that roundings of the dies may "
              f"decide; a run of more ends; default: {defaults.KINKS[0]}, with 16 bits {defaults.KINKS[1]}")
@click.option("--seed", type=IntegerRange(0, limits.MAXIMUM_SEED), default=0, show_default=True)
@click.option("--device", "devices", multiple=True, default=(defaults.DEVICE,), show_default=True, metavar="DEVICE",
              help="cosim, golden, numpy, or serial:PORT[@BAUD], once a die in the order of their numbers")
@click.option("--bitstream", type=Folder(), metavar="FOLDER",
              help="folder of `make bitstream` whose bitstream the dies behind serial:PORT must hold")
@click.option("--memory", "memory_mib", type=IntegerRange(1, limits.MAXIMUM_MEMORY_MIB),
              default=defaults.MEMORY_MIB, show_default=True, help="memory of a die in MiB")
@click.option("--threads", type=IntegerRange(1, limits.MAXIMUM_THREADS),
              help="simulation threads; default: all processors")
@click.option("--save", type=OutputFile(), help="checkpoint after each epoch and at the end, also by Ctrl-C")
@click.option("--save-every", type=IntegerRange(1), metavar="STEPS", help="checkpoint also after so many steps each")
@click.option("--check", "check_every", type=IntegerRange(0), metavar="STEPS",
              help="compare every STEPS-th step with the float64 reference, and the first eight; 0: none; default: "
              "all, with --device numpy every 100th")
@click.option("--resume", cls=ResumeOption, type=InputFile(),
              help="go on from a checkpoint, with its settings where no others are given")
@click.option("--change", is_flag=True, help="go on with settings that are not those of --resume, and say which")
@click.option("--waves", help="record a window of one die as VCD: die=0,from=1000,to=2000")
@local_options
@click.option("--out", type=Folder(), help="folder of report and picture")
@click.option("--json", "as_json", is_flag=True, help="print the report as JSON, nothing else")
@naming_checkpoint
def train(**options: Any) -> None:
    """Train NETWORK (a name, a file, or a plan's file; default: digits-mlp). Every weight of simulated dies, or of a
    board's, is compared with the golden model's. With --local parts of it are trained on kernels of any kind, each at
    its own pace."""
    check_local(options, typed())
    if options["local"] is not None:
        train_locally(*local_job(options))
    else:
        train_job(**without_local(options)).train()


@cli.command()
@click.argument("preset", type=Name())
@click.option("--dies", type=IntegerRange(1, 64), default=1, show_default=True, help="dies of a ring, a port each")
@click.option("--memory", "memory_mib", type=IntegerRange(1, limits.MAXIMUM_MEMORY_MIB),
              default=defaults.MEMORY_MIB, show_default=True, help="memory of a die in MiB")
@click.option("--threads", type=IntegerRange(1, limits.MAXIMUM_THREADS),
              help="simulation threads; default: all processors")
def serial(preset: str, dies: int, memory_mib: int, threads: int | None) -> None:
    """Co-simulate dies of PRESET with a host bridge each; print the ports that lead to them, until Ctrl-C."""
    from plinth.api.choices import die_of
    from plinth.runtime.arrays import pseudo_terminals

    parameters = die_of(preset)
    memory_words = min(parameters.words_of(memory_mib << 18), parameters.most_memory_words)
    with Activity(f"building {dies} x {preset} (cached after the first time)"):
        terminals = pseudo_terminals(parameters, dies, memory_words, threads=threads)
    with terminals:
        for die, name in enumerate(terminals.names):
            click.echo(f"die {die}: serial:{name}")
        with suppress(KeyboardInterrupt):
            terminals.serve()


@cli.command("eval")
@click.argument("checkpoint", type=InputFile())
@click.option("--network", type=Name(), default=defaults.NETWORK, show_default=True, help="network of the checkpoint")
@tile_options
@click.option("--data", type=InputFile(),
              help="an .npz file with arrays x and y, or a data set by name: digits (default), mnist, watch, segments, "
              "asv, kjv")
@click.option("--scale", metavar="FACTOR[,TARGETS]",
              help="factors on samples and on targets; default: those that the checkpoint was trained with")
@click.option("--projection", type=InputFile(), metavar="FILE",
              help="of a checkpoint of `plinth train --local` on projected samples, the projection that lies beside it")
@click.option("--json", "as_json", is_flag=True, help="print JSON, nothing else")
def evaluate(checkpoint: Path, network: str, data: Path | None, winograd: str | None, weights: str | None,
             scale: str | None, projection: Path | None, as_json: bool) -> None:
    """Loss and accuracy of a saved CHECKPOINT on training and test samples (computed on the host in float64); with the
    --winograd and --weights that it was trained with."""
    from dataclasses import replace

    from plinth.api.choices import with_settings
    from plinth.files.reports import report
    from plinth.network.file import load_network
    from plinth.train import checkpoint as checkpoints
    from plinth.train.data import samples
    from plinth.train.evaluation import evaluate as evaluated
    from plinth.train.float64 import float64_predictor
    from plinth.train.scale import UNSCALED, Conversion, parse_scale

    definition = with_settings(load_network(network), winograd, weights)
    whole, projected = definition, None
    if projection is not None:
        from plinth.local.samples import loaded_projection, of_inputs

        projected = loaded_projection(projection, whole)
        definition = of_inputs(whole, projected.size)
    restored = checkpoints.load(checkpoint, definition)
    trained = UNSCALED if restored.settings is None else restored.settings.scale
    dataset = samples(data, whole, Conversion(trained if scale is None else parse_scale(scale)))
    if projected is not None:
        dataset = replace(dataset, train_x=projected.project(dataset.train_x), test_x=projected.project(dataset.test_x))
    predict = float64_predictor(definition)
    result = {"network": definition.name, "epochs_done": restored.epoch, "epoch_steps": restored.step,
              "seed": restored.seed, "scale": vars(dataset.scale)}
    texts = []
    for what, word, x, y in (("train", "training", dataset.train_x, dataset.train_y),
                             ("test", "test", dataset.test_x, dataset.test_y)):
        with Activity(f"evaluating {len(x):,} {word} samples"):
            loss, right = evaluated(definition, predict, restored.parameters, x, y, classes=bool(dataset.classes))
        result |= {f"{what}_accuracy": right, f"{what}_loss": loss}
        texts.append(f"{word} loss {loss:.4f}" if right is None else f"{word} accuracy {right:.2%}")
    if as_json:
        print_json(report("eval", result))
    else:
        if dataset.scale != trained:
            click.echo(f"note: {checkpoint} was trained with --scale {trained}, not {dataset.scale}")
        click.echo(f"{definition.name} after {restored.progress} (seed {restored.seed}): {', '.join(texts)}")


@cli.command()
@click.argument("source", type=InputFile())
@click.argument("target", type=OutputFile())
@click.option("--network", type=Name(), required=True, help="whose weights these are, by name or file")
@tile_options
def convert(source: Path, target: Path, network: str, winograd: str | None, weights: str | None) -> None:
    """Make checkpoint TARGET of checkpoint SOURCE: kernels as elements of Winograd tiles, where the network trains
    those, and elements as the nearest kernels, which are another function if no kernel has these elements."""
    from plinth.api.choices import with_settings
    from plinth.network.file import load_network
    from plinth.network.zoo import NETWORKS
    from plinth.output import check_places
    from plinth.train import checkpoint

    definition = with_settings(load_network(network), winograd, weights)
    check_places({"TARGET": target}, {"SOURCE": source, "--network": file_of(network, NETWORKS)})
    with Activity(f"converting {source}"):
        restored = checkpoint.load(source, definition, convert=True)
        checkpoint.save(target, definition, restored)
    if restored.left_out:
        parts = ", ".join(f"{share:.2%} of {name}" for name, share in restored.left_out.items())
        click.echo("note: this is another function: no kernel has the tiles that were trained, so it is that of the "
                   f"nearest kernels, which leave out {parts}; `plinth eval` says what either is worth")
    click.echo(f"checkpoint: {target}")
