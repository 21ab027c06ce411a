"""The ``plinth`` command.

Whatever a user can mend ends in one line on standard error and exit code 2; Ctrl-C ends in 130. Commands import what
they need when they run: `--help` and typing errors wait for nothing.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from plinth.errors import UserError, one_line

if TYPE_CHECKING:
    from rich.console import Console

    from plinth.backends import Window
    from plinth.model.array import Array
    from plinth.model.network import Network
    from plinth.model.update import UpdateRule

#: Rows of `plinth bench`, in the order in which they run.
BENCH_NAMES = ("gemm_utilisation", "gemm_core_utilisation", "fixed_gemm_utilisation", "board_gemm_utilisation",
               "conv_utilisation_early", "conv_utilisation_mid1",
               "conv_utilisation_late1", "conv_utilisation_mid2", "conv_utilisation_late2",
               *(f"winograd_{what}_{layer}" for layer in ("early", "mid1", "late1", "mid2", "late2")
                 for what in ("utilisation", "speedup", "backward_speedup")),
               "scatter_efficiency", "gather_efficiency", "train_step_utilisation",
               "ring_efficiency", "transfer_efficiency", "ring_efficiency_links", "transfer_efficiency_links",
               "link_goodput_ber_1e-5", "serial_efficiency", "harness_efficiency", "thread_scaling", "cosim_rate",
               "busy_machine_share", "digits_accuracy_nearest", "digits_accuracy_adagrad",
               "joint_over_hypar", "plan_vgg_e_seconds", "plan_1000_layers_seconds", "help_seconds_over_click",
               "plan_vgg_e_joint_seconds", "plan_1000_layers_command_seconds", "plan_200_branches_seconds",
               "hybrid_speedup", "mpt_speedup_rtl",
               "rs_utilisation_conv1", "rs_utilisation_conv2",
               "rs_utilisation_conv3", "rs_utilisation_conv4", "rs_utilisation_conv5", "rs_utilisation_vgg_conv3_1",
               "rs_dram_words_per_mac", "systolic_dram_words_per_mac", "simulate_vgg_e_16_seconds",
               "simulate_vgg_e_1024_seconds", "agreement_error_mean", "agreement_error_worst",
               "agreement_holdout_mean", "agreement_holdout_worst", "agreement_mpt_mean", "agreement_mpt_worst",
               "prediction_error_mean", "prediction_error_worst", "ranking_regret_worst", "network_error_mean",
               "network_error_worst", "prediction_false_drops", "prediction_bits_f23_2d", "prediction_bits_f23_1d",
               "prediction_bits_f43_2d", "prediction_bits_f43_1d", "skip_bits_f23_forward", "skip_bits_f23_backward",
               "skip_bits_f43_forward", "skip_bits_f43_backward")
#: Rows of `plinth accuracy`; `plinth.bench.accuracy` has them.
ACCURACY_NAMES = ("fp32", "mixed", "nearest", "stochastic", "adagrad")
#: Costs of `plinth simulate`; `plinth.simulate.costs` has them.
COST_NAMES = ("die", "paper")
#: Planners of `plinth plan`; `plinth.plan.planning` has them.
PLANNER_NAMES = ("data", "model", "one-weird-trick", "hypar", "exhaustive", "joint", "mpt")
#: Objects and rounds after which Python looks for cycles among them: plans and steps are many small objects without
#: any, and as it comes, looking takes a fourth of the time of the larger ones.
COLLECTED = 50_000, 20, 50
#: Papers of `plinth reproduce`; `plinth.reproduce` has a file of each.
PAPERS = ("hypar", "mpt")
#: Number formats, and machines of a training run with their presets by format.
FORMATS = ("fp32", "mixed", "fixed")
MACHINES = {"ndp": {"fp32": "ndp-demo", "mixed": "ndp-demo-mixed"},
            "fpga": {"fixed": "fpga-demo"},
            "hypar": {"fp32": "hypar-demo", "mixed": "hypar-demo-mixed", "fixed": "hypar-demo-fixed"}}
#: Defaults of the main job: sixteen epochs reach 95% test accuracy for every seed that was tried.
EPOCHS, BATCH, RATE = 16, 128, 0.15
#: Updates, as `plinth.model.update` has them, and the rate of those of Adagrad.
UPDATES = ("sgd", "momentum", "adagrad", "adagrad-printed")
ADAGRAD_RATE, ADAGRAD_EPOCHS = 0.01, 24
#: Epochs and rate of other networks: 97% for each of twelve seeds; of `lenet-c` on --data mnist 94%.
JOBS = {"digits-cnn": (30, 0.12), "lenet-c": (8, 0.05)}


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="plinth", message="%(prog)s %(version)s")
def cli() -> None:
    """Plinth: a training accelerator in RTL, its golden model, and the software that drives both."""


def _console(*, stderr: bool = False) -> Console:
    """Where tables and colours go."""
    from rich.console import Console

    return Console(stderr=stderr)


def _print_json(value: Any, indent: int | None = None) -> None:
    from plinth.output import json_text

    click.echo(json_text(value, indent=indent))


def _window(text: str | None, out: Path, dies: int) -> Window | None:
    """``die=0,from=1000,to=2000`` as a window."""
    from plinth.backends import Window

    if text is None:
        return None
    match = re.fullmatch(r"die=(\d{1,4}),from=(\d{1,18}),to=(\d{1,18})", text)
    if not match:
        raise UserError(f"--waves {text!r} is not of the form die=0,from=1000,to=2000")
    die, start, stop = (int(number) for number in match.groups())
    if die >= dies or start >= stop:
        raise UserError(f"--waves {text!r}: the die must be below {dies} and from below to")
    return Window(die, start, stop, out / f"die{die}.vcd")


def _recorded(window: Window) -> str:
    """Path of the waves, or why there are none: a VCD without a time is only a header."""
    with open(window.path) as lines:
        if any(line.startswith("#") for line in lines):
            return str(window.path)
    return f"none, the run ended before cycle {window.start}"


def _preset(machine: str | None, number_format: str | None) -> str:
    """Preset of a machine, by name or in full, and number format: without either the first that has the other."""
    from plinth_hw.isa.parameters import PRESETS

    if machine is None:
        return next(presets[number_format or "fp32"] for presets in MACHINES.values()
                    if (number_format or "fp32") in presets)
    if machine not in MACHINES and machine not in PRESETS:
        raise UserError(f"preset {machine!r} is unknown; choose one of {', '.join((*MACHINES, *PRESETS))}")
    presets = MACHINES.get(machine) or {PRESETS[machine].number_format: machine}
    if number_format is None:
        return next(iter(presets.values()))
    if number_format not in presets:
        raise UserError(f"{machine!r} does not compute in --format {number_format}, but in {' or '.join(presets)}")
    return presets[number_format]


def _array(name: str | None, dies: int | None, machine: str | None, number_format: str | None) -> Array:
    """The array of a training run, with the preset that was asked for."""
    from dataclasses import replace

    from plinth.model.array import ring
    from plinth.model.array_file import load_array
    from plinth_hw.isa.parameters import LONE_ENGINES, PRESETS

    if name is None:
        wanted = _preset(machine, number_format)
        if dies is None:
            dies = 1 if PRESETS[wanted].engines <= LONE_ENGINES else 4
        try:
            return ring(dies, preset=wanted)
        except ValueError as error:
            raise UserError(f"--dies {dies} cannot be: {error}") from None
    array = load_array(name)
    if dies is not None and dies != array.dies:
        raise UserError(f"--dies {dies} does not fit array {array.name!r}, which has {array.dies}; leave --dies out")
    wanted = _preset(array.preset if machine is None else machine, number_format)
    try:
        return replace(array, preset=wanted)
    except ValueError as error:
        raise UserError(f"array {array.name!r} cannot be of preset {wanted!r}: {error}") from None


def _rule(array: Array, update: str | None, wide: bool | None, usual_rate: float, **options: Any) -> UpdateRule:
    """The update that was asked for, or what the array's dies do best."""
    from plinth.model.update import rule_for

    parameters = array.die_parameters()
    if options["rate"] is None:
        options["rate"] = ADAGRAD_RATE if rule_for(parameters, update).squares else usual_rate
    try:
        return rule_for(parameters, update, wide=wide, **options)
    except ValueError as error:
        raise UserError(f"{error}; mend --update and its options") from None


def _form(array: Array, update: str | None, wide: bool | None, stochastic: bool) -> UpdateRule:
    """The update that a step is planned with, whatever its numbers."""
    return _rule(array, update, wide, RATE, rate=None, stochastic=stochastic).form


def _update_options(command: Any) -> Any:
    """Options of :func:`_form`."""
    for option in (
            click.option("--stochastic", is_flag=True,
                         help="round fixed-point weights and states of 16 bits at random"),
            click.option("--wide/--narrow", default=None, help="fixed-point weights and states of 32 or 16 bits; "
                         "default: wide with --update adagrad"),
            click.option("--update", type=click.Choice(UPDATES), help="rule by which weights are updated; default: "
                         "the plan's, or sgd, on dies with an optimiser engine adagrad")):
        command = option(command)
    return command


def _tile_options(command: Any) -> Any:
    """Options of :func:`_tiled`."""
    for option in (
            click.option("--weights", type=click.Choice(["spatial", "winograd"]),
                         help="what Winograd layers train: kernels, or elements of tiles; default: as the network "
                         "says"),
            click.option("--winograd", type=click.Choice(["off", "auto", "2", "4"]),
                         help="outputs of a Winograd tile each way, where a convolution has such a transform; default: "
                         "as the network says")):
        command = option(command)
    return command


def _predict_options(command: Any) -> Any:
    """Of commands that make a plan."""
    for option in (
            click.option("--shares", metavar="SHARE,..",
                         help="words that predicted gathers take over those of all elements, a share a part, then "
                         "those of scatters of inputs and of errors and of the gather of errors of inputs; default: "
                         "as the network says, or as measured"),
            click.option("--predict", type=click.Choice(["0", "1", "2", "regions"]),
                         help="rounds in which dies that gather tile elements find out which the ReLU behind needs; 0: "
                         "all are sent; regions: in one, by MPT's own quantiser; default: as the network says")):
        command = option(command)
    return command


def _shares(text: str | None) -> tuple[float, ...] | None:
    """``0.12,0.36,0.61,0.49,0.57`` as numbers."""
    if text is not None and not re.fullmatch(r"\d{1,4}(\.\d{1,9})?(,\d{1,4}(\.\d{1,9})?)*", text):
        raise UserError(f"--shares {text[:40]!r} are not numbers from 0 to 1 with commas between, as "
                        "0.12,0.36,0.61,0.49,0.57")
    return None if text is None else tuple(map(float, text.split(",")))


def _tiled(network: Network, winograd: str | None, weights: str | None, predict: str | None = None,
           shares: str | None = None) -> Network:
    """The network with the settings of convolutions that were asked for."""
    from plinth.model.winograd import with_tiles

    try:
        return with_tiles(network, int(winograd) if winograd in ("2", "4") else winograd, weights,
                          int(predict) if predict in ("0", "1", "2") else predict, _shares(shares))
    except ValueError as error:
        raise UserError(str(error)) from None


def _able(array: Array, network: Network) -> Array:
    """The array, or, if the network has Winograd layers that its dies cannot make, one of dies alike that can."""
    from dataclasses import replace

    from plinth.model.winograd import predicts, tiled
    from plinth_hw.isa.parameters import PRESETS

    kinds = ("predict", "winograd") if predicts(network) else ("winograd",)
    able = [found for kind in kinds if (found := f"{array.preset}-{kind}") in PRESETS]
    return replace(array, preset=able[0]) if able and tiled(network) else array


def _network_or_plan(network: str | None, plan: Path | None) -> tuple[str | None, Path | None]:
    """Whether NETWORK is a network or the file of a plan, which names its own."""
    from plinth.plan.plan_file import is_plan

    if network is not None and network.endswith((".yaml", ".yml", ".json")) and Path(network).is_file() and is_plan(
            Path(network)):
        if plan is not None:
            raise UserError(f"{network} and --plan {plan} are both plans; leave one of them out")
        return None, Path(network)
    return network, plan


def _devices(texts: tuple[str, ...]) -> tuple[str, tuple[tuple[str, int], ...]]:
    """``cosim``, ``golden`` or ``serial``, and of the last the name and rate of each port."""
    from plinth.driver.line import BAUD

    if len(texts) == 1 and texts[0] in ("cosim", "golden"):
        return texts[0], ()
    found = []
    for text in texts:
        match = re.fullmatch(r"serial:([^@]+)(?:@([1-9]\d{1,7}))?", text)
        if not match:
            raise UserError(f"--device {text!r} is none of cosim, golden and serial:PORT[@BAUD]" if len(texts) == 1 else
                            f"--device {text!r}: of several, each must be serial:PORT[@BAUD]")
        found.append((match[1], int(match[2] or BAUD)))
    if len({name for name, _ in found}) < len(found):
        raise UserError("--device names a port twice; there is one die behind a port")
    return "serial", tuple(found)


@cli.command()
@click.argument("network", required=False)
@click.option("--dies", type=int, help="dies of a ring, any number; default: 4, or 1 of a preset for one")
@click.option("--array", "array_name", help="array by name, or a .yaml file, instead of a ring of --dies")
@click.option("--planner", type=click.Choice(PLANNER_NAMES), help="how layers are split; default: data")
@click.option("--plan", "plan_file", type=click.Path(path_type=Path, dir_okay=False),
              help="a plan that `plinth plan --out` wrote, instead of a planner")
@click.option("--data", type=click.Path(path_type=Path, dir_okay=False),
              help="an .npz file with arrays x and y, or a data set by name: digits (default), mnist")
@click.option("--epochs", type=click.IntRange(1, 10_000), help=f"default: {EPOCHS}, or what a network of the zoo needs")
@click.option("--steps", type=click.IntRange(1), help="stop after so many steps")
@click.option("--batch", type=click.IntRange(1, 65_536), help=f"default: the plan's, or {BATCH}")
@click.option("--rate", type=click.FloatRange(0, min_open=True),
              help=f"learning rate; default: {RATE}, or as --epochs; of adagrad {ADAGRAD_RATE}")
@_tile_options
@_predict_options
@_update_options
@click.option("--momentum", type=click.FloatRange(0, 1, max_open=True), default=0.9, show_default=True,
              help="what momentum keeps of its state")
@click.option("--epsilon", type=click.FloatRange(0, min_open=True), default=1e-6, show_default=True,
              help="what adagrad adds to its sum of squares")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True)
@click.option("--format", "number_format", type=click.Choice(FORMATS),
              help="FP32; FP16 products with FP32 sums; Q3.12 throughout. Default: the first that the machine has")
@click.option("--device", "devices", multiple=True, default=("cosim",), show_default=True, metavar="DEVICE",
              help="cosim, golden, or serial:PORT[@BAUD], once a die in the order of their numbers")
@click.option("--bitstream", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
              help="folder of `make bitstream` whose bitstream the dies behind serial:PORT must hold")
@click.option("--machine", "--preset", "machine",
              help="ndp, hypar, fpga, or a die preset in full; default: the array's, or ndp")
@click.option("--memory", "memory_mib", type=click.IntRange(1, 8192), default=16, show_default=True,
              help="memory of a die in MiB")
@click.option("--threads", type=click.IntRange(1, 256), help="simulation threads; default: all processors")
@click.option("--save", type=click.Path(path_type=Path, dir_okay=False), help="checkpoint after each epoch")
@click.option("--resume", type=click.Path(path_type=Path, dir_okay=False), help="go on from a checkpoint")
@click.option("--waves", help="record a window of one die as VCD: die=0,from=1000,to=2000")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="folder of report and picture")
@click.option("--json", "as_json", is_flag=True, help="print the report as JSON, nothing else")
def train(network: str | None, dies: int | None, array_name: str | None, planner: str | None, plan_file: Path | None,
          epochs: int | None, batch: int | None, rate: float | None, update: str | None, momentum: float,
          epsilon: float, wide: bool | None, stochastic: bool, machine: str | None, number_format: str | None,
          devices: tuple[str, ...], bitstream: Path | None, memory_mib: int, waves: str | None, out: Path | None,
          winograd: str | None, weights: str | None, predict: str | None, shares: str | None, as_json: bool,
          **options: Any) -> None:
    """Train NETWORK (a name, a file, or a plan's file); every weight is compared with the golden model's."""
    from dataclasses import replace

    from plinth.backends import build_root
    from plinth.model.network_file import load_network
    from plinth.model.zoo import NETWORKS
    from plinth.output import write_json
    from plinth.plan.plan_file import load_plan
    from plinth.plan.planning import arranged
    from plinth.report.picture import draw
    from plinth.report.progress import training_progress
    from plinth.report.table import training_table
    from plinth.training.job import JobOptions, run_job
    from plinth_hw.isa.parameters import PRESETS

    if planner is not None and plan_file is not None:
        raise UserError("--planner and --plan both say how layers are split; leave one of them out")
    network, plan_file = _network_or_plan(network, plan_file)
    if planner is not None and plan_file is not None:
        raise UserError("--planner and a plan both say how layers are split; leave one of them out")
    device, ports = _devices(devices)
    array: Array | None = None
    given = load_network(network) if network else None
    if plan_file is not None:
        made = load_plan(plan_file, given)
        batch, given = batch or made.batch, given or made.definition or NETWORKS[made.network]
        if array_name is None and dies is None and made.hardware is not None:
            array = made.hardware
            if machine is not None or number_format is not None:
                array = replace(array, preset=_preset(machine or array.preset, number_format))
        if update is None:
            update, stochastic = made.rule.kind, stochastic or made.rule.stochastic
            wide = made.rule.wide if wide is None else wide
    given, batch = _tiled(given or load_network("digits-mlp"), winograd, weights, predict, shares), batch or BATCH
    network = network or given.name
    if array is None:
        array = _array(array_name, (len(ports) or None) if dies is None else dies, machine, number_format)
        array = array if machine in PRESETS else _able(array, given)
    if plan_file is None:
        given = arranged(given, array, planner or "data", batch)
    if ports and len(ports) != array.dies:
        raise UserError(f"the array has {array.dies} dies, but {len(ports)} --device serial:PORT; give one for each")
    usual_epochs, usual_rate = JOBS.get(network, (EPOCHS, RATE))
    rule = _rule(array, update, wide, usual_rate, rate=rate, momentum=momentum, epsilon=epsilon, stochastic=stochastic)
    if waves is not None and device != "cosim":
        raise UserError(f"--waves records simulated RTL, which --device {device} does not run; leave one of them out")
    if bitstream is not None and not ports:
        raise UserError(f"--bitstream is what dies behind serial:PORT hold, not those of --device {device}; leave one "
                        "of them out")
    out = out or build_root() / "train"
    job = JobOptions(network=given, array=array, batch=batch, planner=planner or "data", plan=plan_file,
                     epochs=epochs or (max(usual_epochs, ADAGRAD_EPOCHS) if rule.squares else usual_epochs), rule=rule,
                     memory_words=(memory_mib << 20) // array.die_parameters().word_bytes,
                     window=_window(waves, out, array.dies), out=out, device=device, ports=ports, bitstream=bitstream,
                     **options)
    console = _console(stderr=as_json)
    with training_progress(console) as live:
        line = live.add_task("train", total=None, state="", cycles=0, start=False, visible=False)
        cycles = 0

        def progress(result: Any, total: int) -> None:
            nonlocal cycles
            if result is None:
                live.update(line, total=total, visible=True)
                live.start_task(line)
                return
            cycles += result.cycles
            right = "" if result.accuracy is None else f" accuracy {result.accuracy:.1%}"
            state = f"loss {result.loss:.4f}{right}"
            live.update(line, advance=1, state=f"epoch {result.epoch + 1} {state}", cycles=cycles)
            if not console.is_terminal and (result.step == 0 or live.tasks[line].completed == total):
                done = int(live.tasks[line].completed)
                console.print(f"epoch {result.epoch + 1}, step {done}/{total}: {state}, {cycles:,} cycles")

        found = run_job(job, progress, console.print)
    write_json(out / "plan.json", found.plan.to_data())
    draw(out / "report.png", found.report)
    if as_json:
        _print_json(found.report)
    else:
        training_table(console, found.report)
        console.print(f"report: {out / 'report.json'}, picture: {out / 'report.png'}", soft_wrap=True, markup=False)
        if job.window:
            console.print(f"waves: {_recorded(job.window)}", soft_wrap=True, markup=False)
    if found.report["bit_exact"] is False:
        raise UserError("the RTL's weights differ from the golden model's; please report this with "
                        "report.json")
    if found.report["failure"] is not None:
        raise UserError(f"{found.report['failure']} (see {out / 'report.json'})")


@cli.command()
@click.argument("preset")
@click.option("--dies", type=click.IntRange(1, 64), default=1, show_default=True, help="dies of a ring, a port each")
@click.option("--memory", "memory_mib", type=click.IntRange(1, 8192), default=16, show_default=True,
              help="memory of a die in MiB")
@click.option("--threads", type=click.IntRange(1, 256), help="simulation threads; default: all processors")
def serial(preset: str, dies: int, memory_mib: int, threads: int | None) -> None:
    """Co-simulate dies of PRESET with a host bridge each; print the ports that lead to them, until Ctrl-C."""
    from plinth.backends import pseudo_terminals
    from plinth_hw.isa.parameters import PRESETS

    if preset not in PRESETS:
        raise UserError(f"preset {preset!r} is unknown; choose one of {', '.join(PRESETS)}")
    parameters = PRESETS[preset]
    memory_words = min(parameters.words_of(memory_mib << 18), parameters.most_memory_words)
    with pseudo_terminals(parameters, dies, memory_words, threads=threads) as terminals:
        for die, name in enumerate(terminals.names):
            click.echo(f"die {die}: serial:{name}")
        with suppress(KeyboardInterrupt):
            terminals.serve()


@cli.command("eval")
@click.argument("checkpoint", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--network", default="digits-mlp", show_default=True, help="network of the checkpoint")
@click.option("--data", type=click.Path(path_type=Path, dir_okay=False),
              help="an .npz file with arrays x and y, or a data set by name: digits (default), mnist")
@click.option("--json", "as_json", is_flag=True, help="print JSON, nothing else")
def evaluate(checkpoint: Path, network: str, data: Path | None, as_json: bool) -> None:
    """Loss and accuracy of a saved CHECKPOINT on training and test samples (computed on the host in float64)."""
    from plinth.backends import float64_predictor
    from plinth.model.network_file import load_network
    from plinth.training import checkpoint as checkpoints
    from plinth.training.data import samples
    from plinth.training.evaluation import evaluate as evaluated

    made = load_network(network)
    found = checkpoints.load(checkpoint, made)
    given = samples(data, made)
    predict = float64_predictor(made)
    result = {"network": made.name, "epochs": found.epoch, "seed": found.seed}
    texts = []
    for what, word, x, y in (("train", "training", given.train_x, given.train_y),
                             ("test", "test", given.test_x, given.test_y)):
        loss, right = evaluated(made, predict, found.parameters, x, y, classes=bool(given.classes))
        result |= {f"{what}_accuracy": right, f"{what}_loss": loss}
        texts.append(f"{word} loss {loss:.4f}" if right is None else f"{word} accuracy {right:.2%}")
    if as_json:
        _print_json(result)
    else:
        click.echo(f"{made.name} after {found.epoch} epochs (seed {found.seed}): {', '.join(texts)}")


@cli.command()
@click.option("--only", type=click.Choice(BENCH_NAMES), help="run one row")
@click.option("--json", "as_json", is_flag=True, help="print JSON, nothing else")
def bench(only: str | None, as_json: bool) -> None:
    """Measure utilisation and speed; rows go to bench.json in the build folder."""
    from plinth.backends import build_root
    from plinth.bench.run import run_benches

    console = _console(stderr=True)
    rows = run_benches(build_root() / "bench.json", only, console)
    if as_json:
        _print_json(rows)


@cli.command()
@click.option("--only", default="", metavar="TEXT", help="steps whose [hold-outs/]network/preset/array contains this; "
              "or 'network', traffic alone; docs/agreement.md stays as it is")
@click.option("--json", "as_json", is_flag=True, help="print JSON, nothing else")
def agreement(only: str, as_json: bool) -> None:
    """Compare simulated and predicted with co-simulated cycles of steps; into docs/agreement.md."""
    from plinth.bench import agreement as steps
    from plinth.bench import network

    def say(text: str) -> None:
        click.echo(text, err=True)

    alone = only == network.TABLE
    found = [] if alone else steps.measure(say=say, only=only)
    traffic = network.measure(say) if alone or not only else []
    if not only:
        steps.write_page(found)
        network.write_page(traffic)
    if as_json:
        _print_json([row.to_data() for row in [*(steps.rows(found) if found else ()), *network.rows(traffic)]])
    else:
        tables = [steps.table(found), steps.holdout_table(found)] if found else []
        click.echo("\n\n".join([*tables, *([network.table(traffic)] if traffic else [])]))


@cli.command()
@click.option("--only", type=click.Choice(ACCURACY_NAMES), help="one row; docs/formats.md stays as it is")
@click.option("--seeds", type=click.IntRange(2, 1000), default=10, show_default=True, help="runs of each row")
@click.option("--json", "as_json", is_flag=True, help="print JSON, nothing else")
def accuracy(only: str | None, seeds: int, as_json: bool) -> None:
    """Train the digits in every number format on the golden model; into docs/formats.md."""
    from dataclasses import asdict

    from plinth.bench import accuracy as formats

    found = formats.measure((only,) if only else ACCURACY_NAMES, seeds, lambda text: click.echo(text, err=True))
    if not only and seeds == formats.SEEDS:
        formats.write_page(found)
    if as_json:
        _print_json([asdict(one) for one in found])
    else:
        click.echo(formats.table(found))


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="print JSON, nothing else")
def doctor(as_json: bool) -> None:
    """Which tools were found, which version, and the command that mends what is missing."""
    from plinth import doctor as tools

    rows = tools.run()
    if as_json:
        _print_json([row.to_data() for row in rows])
    else:
        tools.show(rows)
    if not all(row.found for row in rows if row.needed):
        sys.exit(2)


@cli.command("list")
@click.option("--json", "as_json", is_flag=True, help="print JSON, nothing else")
def show_list(as_json: bool) -> None:
    """Networks, arrays and presets that have names."""
    from plinth.report.listing import listing, show

    if as_json:
        _print_json(listing())
    else:
        show(_console())


@cli.command()
@click.argument("what", type=click.Choice(["network", "array", "plan"]))
def schema(what: str) -> None:
    """JSON Schema of the files that describe WHAT."""
    from plinth.model.array_file import array_schema
    from plinth.model.network_file import network_schema
    from plinth.plan.plan_file import plan_schema

    made = {"network": network_schema, "array": array_schema, "plan": plan_schema}[what]()
    _print_json(made, indent=2)


@cli.command()
@click.argument("network")
@click.option("--array", "array_name", default="hypar-16", show_default=True, help="array by name, or a .yaml file")
@click.option("--planner", type=click.Choice(PLANNER_NAMES), default="joint", show_default=True)
@click.option("--model", type=click.Choice(["exact", "published"]), default="exact", show_default=True,
              help="how words are counted: as the dies move them, or as HyPar publishes")
@click.option("--batch", type=click.IntRange(1, 1 << 20), default=256, show_default=True)
@click.option("--parts", type=click.Path(path_type=Path, dir_okay=False),
              help="a .yaml file with lists of parts, by layer: docs/partition.md")
@_tile_options
@_predict_options
@_update_options
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="write the plan, .yaml or .json")
@click.option("--picture", type=click.Path(path_type=Path, dir_okay=False), help="draw the plan as a PNG")
@click.option("--json", "as_json", is_flag=True, help="print the result as JSON, nothing else")
def plan(network: str, array_name: str, planner: str, model: str, batch: int, parts: Path | None, update: str | None,
         wide: bool | None, stochastic: bool, winograd: str | None, weights: str | None,
         predict: str | None, shares: str | None, out: Path | None, picture: Path | None, as_json: bool) -> None:
    """Split NETWORK (a name or a file) over an array, layer by layer and level by level."""
    from plinth.model.array_file import load_array
    from plinth.model.network_file import load_network
    from plinth.partition.graph import from_network
    from plinth.plan.lists_file import load_lists
    from plinth.plan.planning import arranged, plan_network
    from plinth.report.plan import draw_plan, plan_report, show_plan

    if out is not None and out.suffix not in (".yaml", ".yml", ".json"):
        raise UserError(f"--out {out} must end in .yaml or .json")
    if picture is not None and picture.suffix != ".png":
        raise UserError(f"--picture {picture} must end in .png")
    given = _tiled(load_network(network), winograd, weights, predict, shares)
    array = _able(load_array(array_name), given)
    given = arranged(given, array, planner, batch)
    planned = plan_network(given, array, planner=planner, model=model, batch=batch,
                           lists=None if parts is None else load_lists(parts, from_network(given)),
                           rule=_form(array, update, wide, stochastic))
    if out is not None:
        from plinth.plan.plan_file import save_plan

        save_plan(out, planned.plan)
    if picture is not None:
        draw_plan(picture, planned)
    if as_json:
        _print_json(plan_report(planned))
    else:
        show_plan(_console(), planned)
        for what, path in (("plan", out), ("picture", picture)):
            if path is not None:
                click.echo(f"{what}: {path}")


@cli.command()
@click.argument("source", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("target", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--network", required=True, help="whose weights these are, by name or file")
@_tile_options
def convert(source: Path, target: Path, network: str, winograd: str | None, weights: str | None) -> None:
    """Make checkpoint TARGET of checkpoint SOURCE: kernels as elements of Winograd tiles, where the network trains
    those, and elements as the nearest kernels."""
    from plinth.model.network_file import load_network
    from plinth.training import checkpoint

    given = _tiled(load_network(network), winograd, weights)
    checkpoint.save(target, given, checkpoint.load(source, given, convert=True))
    click.echo(f"checkpoint: {target}")


def _slow(texts: tuple[str, ...]) -> dict[int, float]:
    """``3=1.5`` as a die and how many times longer it takes."""
    found: dict[int, float] = {}
    for text in texts:
        match = re.fullmatch(r"(\d{1,4})=(\d{1,6}(?:\.\d{1,6})?)", text)
        if not match or not 0.001 <= float(match[2]) <= 100_000 or int(match[1]) in found:
            raise UserError(f"--slow {text!r} is not a die, once, and a factor from 0.001 to 100000, as 3=1.5")
        found[int(match[1])] = float(match[2])
    return found


@cli.command()
@click.argument("network", required=False)
@click.option("--array", "array_name", help="array by name, or a .yaml file; default: the plan's, or hypar-16")
@click.option("--plan", "plan_file", type=click.Path(path_type=Path, dir_okay=False),
              help="a plan that `plinth plan --out` wrote, instead of a planner")
@click.option("--planner", type=click.Choice(PLANNER_NAMES), help="how layers are split; default: hypar")
@click.option("--model", type=click.Choice(["exact", "published"]), help="how a planner counts words; default: exact")
@click.option("--batch", type=click.IntRange(1, 1 << 20), help="default: 256")
@_tile_options
@_predict_options
@_update_options
@click.option("--cost", type=click.Choice(COST_NAMES), default="die", show_default=True,
              help="the array's dies by their engines' formulas, or HyPar's as its paper states them")
@click.option("--slow", "slow", multiple=True, metavar="DIE=FACTOR",
              help="this die's tasks take longer by a factor; may be given several times")
@click.option("--trace", "trace_file", type=click.Path(path_type=Path, dir_okay=False),
              help="write the step for Perfetto, .json")
@click.option("--picture", type=click.Path(path_type=Path, dir_okay=False), help="draw the step as a PNG")
@click.option("--json", "as_json", is_flag=True, help="print the result as JSON, nothing else")
def simulate(network: str | None, array_name: str | None, plan_file: Path | None, planner: str | None,
             model: str | None, batch: int | None, update: str | None, wide: bool | None, stochastic: bool, cost: str,
             slow: tuple[str, ...], winograd: str | None, weights: str | None,
             predict: str | None, shares: str | None, trace_file: Path | None,
             picture: Path | None, as_json: bool) -> None:
    """Simulate a training step of NETWORK (a name, a file, or a plan's file): time, energy, where they go."""
    from plinth.model.array_file import load_array
    from plinth.model.network_file import load_network
    from plinth.plan.plan_file import check_use
    from plinth.plan.planning import arranged, check_prediction
    from plinth.report.progress import simulation_progress
    from plinth.report.simulation import draw_simulation, show_simulation, simulation_report
    from plinth.simulate import step

    for option, path, suffix in (("--trace", trace_file, ".json"), ("--picture", picture, ".png")):
        if path is not None and path.suffix != suffix:
            raise UserError(f"{option} {path} must end in {suffix}")
    factors = _slow(slow)
    network, plan_file = _network_or_plan(network, plan_file)
    if plan_file is not None:
        for option, value in (("--planner", planner), ("--model", model), ("--batch", batch),
                              ("--winograd", winograd), ("--weights", weights), ("--predict", predict),
                              ("--shares", shares)):
            if value is not None:
                raise UserError(f"{option} and --plan both say how the network is split; leave one of them out")
        if update is not None or wide is not None or stochastic:
            raise UserError("--update, --wide and --stochastic are said by the plan; leave them out, or plan again "
                            "with `plinth plan`")
        plan_ = step.load(plan_file, network)
        assert plan_.hardware is not None
        array = load_array(array_name) if array_name else plan_.hardware
        check_use(plan_, str(plan_file), array=array)
        check_prediction(plan_, str(plan_file))
    else:
        if network is None:
            raise UserError("nothing to simulate; give a NETWORK or --plan FILE")
        given = _tiled(load_network(network), winograd, weights, predict, shares)
        array = _able(load_array(array_name or "hypar-16"), given)
        given = arranged(given, array, planner or "hypar", batch or 256)
        plan_ = step.planned(given, array, planner=planner or "hypar", model=model or "exact",
                             batch=batch or 256, rule=_form(array, update, wide, stochastic))
    step.check_memory(plan_, array)
    console = _console(stderr=as_json)
    with simulation_progress(sys.stderr.isatty()) as live:
        line = live.add_task("simulate", total=None, visible=False)
        found = step.simulated(plan_, array, cost=cost, slow=factors, progress=lambda done, total: live.update(
            line, completed=done, total=total, visible=True))
    if trace_file is not None:
        step.write_trace(trace_file, found)
    if picture is not None:
        draw_simulation(picture, found)
    if as_json:
        _print_json(simulation_report(found))
    else:
        show_simulation(console, found)
        for what, path in (("trace", trace_file), ("picture", picture)):
            if path is not None:
                click.echo(f"{what}: {path}")


@cli.command()
@click.argument("paper", type=click.Choice(PAPERS))
@click.option("--figure", "figures", multiple=True, metavar="KEY",
              help="only this figure, or table by its name; may be given several times")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="folder of the pictures")
@click.option("--json", "as_json", is_flag=True, help="print the figures as JSON, nothing else")
def reproduce(paper: str, figures: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """Compute the numbers of PAPER anew and print them beside its own, each with what agreement is worth."""
    from plinth.backends import build_root
    from plinth.report.progress import reproduction_progress
    from plinth.reproduce import tables
    from plinth.reproduce.paper import paper as published

    given = published(paper)
    with reproduction_progress(sys.stderr.isatty()) as live:
        line = live.add_task("reproduce", total=len(set(figures)) or len(given.tables), key="", values=0)
        found = given.computed(figures, lambda key, tables, values: live.update(
            line, completed=tables, key=key, values=values))
    pictures = given.draw(out or build_root() / "reproduce" / paper, found)
    if as_json:
        _print_json(given.report(found))
    else:
        tables.show(_console(), given, found)
        for picture in pictures:
            click.echo(f"picture: {picture}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point; exits with 0, 2 or 130."""
    gc.set_threshold(*COLLECTED)
    try:
        cli.main(args=list(arguments) if arguments is not None else None, prog_name="plinth",
                 standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(2)
    except click.ClickException as error:
        hint = "; see plinth --help" if isinstance(error, click.UsageError) else ""
        _fail(f"{error.format_message().rstrip('.')}{hint}")
    except UserError as error:
        _fail(str(error))
    except MemoryError:
        _fail("more memory is needed than there is; give smaller files, networks or batches")
    except (KeyboardInterrupt, click.Abort):
        click.echo("plinth: interrupted; epochs that were saved are kept", err=True)
        sys.exit(130)


def _fail(message: str) -> None:
    click.echo(f"plinth: error: {one_line(message)}", err=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
