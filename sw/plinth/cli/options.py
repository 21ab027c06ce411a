"""Options that several commands have; what is made of them is in :mod:`plinth.api.choices`."""

from __future__ import annotations

import os
import re
from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from plinth import defaults
from plinth.errors import UserError
from plinth.names import MODEL_NAMES, PLANNER_NAMES
from plinth.update.kinds import LAWS
from plinth.update.law import NUMBERS
from plinth_hw.terminal.options import Name, RealRange, UnboundedInteger

if TYPE_CHECKING:
    from plinth.network.network import Network


def array_options(command: Any) -> Any:
    """Add the options that name an array, as :func:`plinth.api.choices.array_of` takes them."""
    for option in (
            click.option("--format", "number_format", type=click.Choice(defaults.FORMATS),
                         help="FP32; FP16 products with FP32 sums; Q3.12 throughout. Default: the first that the "
                         "machine has"),
            click.option("--machine", "--preset", "machine", type=Name(),
                         help="ndp, hypar, fpga, or a die preset in full; default: the array's, or ndp"),
            click.option("--dies", type=UnboundedInteger(), help=f"dies of a ring, any number; default: "
                         f"{defaults.DIES}, or 1 of a preset for one"),
            click.option("--array", "array_name", type=Name(),
                         help="array by name, or a .yaml file, instead of a ring of --dies; default: the plan's, or "
                         f"ring-{defaults.DIES}")):
        command = option(command)
    return command


def planner_option(command: Any) -> Any:
    """Add the option that says how layers are split."""
    return click.option("--planner", type=click.Choice(PLANNER_NAMES),
                        help=f"how layers are split; default: {defaults.PLANNER}, of dies of 16-bit formats "
                        f"{defaults.NARROW_PLANNER}")(command)


def model_option(command: Any) -> Any:
    """Add the option that says how planners count words."""
    return click.option("--model", type=click.Choice(MODEL_NAMES), help="how a planner counts words: as the dies move "
                        f"them, or as HyPar publishes; default: {defaults.MODEL}")(command)


def update_options(command: Any) -> Any:
    """Add the options that name an update rule, as :func:`plinth.api.choices.form_of` takes them."""
    for option in (
            click.option("--stochastic", is_flag=True,
                         help="round fixed-point weights and states of 16 bits at random"),
            click.option("--wide/--narrow", default=None, help="fixed-point weights and states of 32 or 16 bits; "
                         "default: wide with --update adagrad"),
            click.option("--update", type=click.Choice(list(LAWS)), help="update rule; default: the plan's, else "
                         "adagrad on dies with an optimiser engine, sgd on others")):
        command = option(command)
    return command


def rate_option(command: Any) -> Any:
    """Add the option for the learning rate of an update rule."""
    own = " and ".join(f"{kind} {law.defaults['rate']}" for kind, law in LAWS.items() if "rate" in law.defaults)
    return click.option("--rate", type=RealRange(0, min_open=True),
                        help=f"learning rate; default: {defaults.RATE}, or as --epochs; of {own}")(command)


def number_options(command: Any) -> Any:
    """Add an option for each number of an update rule; it is None where it is the rule's default."""
    for name, number in reversed(list(NUMBERS.items())):
        of = {kind: law.defaults.get(name, number.default) for kind, law in LAWS.items() if name in law.numbers}
        usual = " and ".join(f"{kind} {value:g}" for kind, value in of.items())
        usual = f"of {usual}" if len(of) > 1 else f"{number.default:g}"
        command = click.option(f"--{name}", type=RealRange(
            0, number.below, min_open=number.positive, max_open=number.below is not None),
            help=f"{number.what}; default: {usual}")(command)
    return command


def tile_options(command: Any) -> Any:
    """Add the options for Winograd tiles, as :func:`plinth.api.choices.with_settings` takes them."""
    for option in (
            click.option("--weights", type=click.Choice(["spatial", "winograd"]),
                         help="what Winograd layers train: kernels, or elements of tiles; default: as the network "
                         "says"),
            click.option("--winograd", type=click.Choice(["off", "auto", "2", "4"]),
                         help="m of Winograd tiles F(m x m, r x r), where a convolution has such a transform; auto: by "
                         "its kernel; off: direct convolution; default: as the network says")):
        command = option(command)
    return command


def predict_options(command: Any) -> Any:
    """Add the options for predicted gathers to a command that makes a plan."""
    for option in (
            click.option("--shares", metavar="SHARE,..",
                         help="for predicted step times: shares of all words that are sent where zeros and dead "
                         "neurons are left out: in gathers of outputs (one a part), then in scatters of inputs, in "
                         "scatters of errors, in gathers of input errors; default: as the network says, or as "
                         "measured"),
            click.option("--predict", type=click.Choice(["0", "1", "2", "regions"]),
                         help="leave out tile elements whose neurons the next ReLU zeroes, found in 1 or 2 rounds of "
                         "messages; 0: send all; regions: in one round, by MPT's own quantiser; default: as the "
                         "network says")):
        command = option(command)
    return command


def shares_of(text: str | None) -> tuple[float, ...] | None:
    """Convert ``--shares`` such as ``0.12,0.36,0.61,0.49,0.57`` to numbers."""
    if text is not None and not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,9})?(,[0-9]{1,4}(\.[0-9]{1,9})?)*", text):
        raise UserError(f"--shares {text[:40]!r} are not numbers from 0 to 1 with commas between, as "
                        "0.12,0.36,0.61,0.49,0.57")
    return None if text is None else tuple(map(float, text.split(",")))


def file_of(name: str | Path | None, known: Container[str] = ()) -> Path | None:
    """The file that a name stands for where a file may be named as well; None: something that has this name."""
    return None if name is None or str(name) in known or not os.path.isfile(name) else Path(name)


def open_network(name_or_path: str) -> Network:
    """A network by name or file; what was made of a file that its reader may not expect is said in one line."""
    from plinth.errors import one_line
    from plinth.network.file import load_network

    network = load_network(name_or_path)
    if network.notes:
        click.echo(one_line(f"note: {name_or_path}: {'; '.join(network.notes)}"), err=True)
    return network
