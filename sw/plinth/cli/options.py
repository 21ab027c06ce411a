"""Options that several commands have, and what is made of them."""

from __future__ import annotations

import os
import re
from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from plinth.cli.names import ADAGRAD_EPSILONS, ADAGRAD_RATES, MACHINES, RATE, UPDATES
from plinth.errors import UserError, quoted

if TYPE_CHECKING:
    from plinth.model.array import Array
    from plinth.model.network import Network
    from plinth.model.update import UpdateRule
    from plinth_hw.isa.parameters import DieParameters


def die_of(preset: str) -> DieParameters:
    """Parameters of a die by its preset's name.

    Raises
    ------
    UserError
        If there is no such preset; the message lists those that exist.
    """
    from plinth_hw.isa.parameters import PRESETS

    if preset not in PRESETS:
        raise UserError(f"preset {quoted(preset)} is unknown; choose one of {', '.join(PRESETS)}")
    return PRESETS[preset]


def preset_of(machine: str | None, number_format: str | None) -> str:
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


def array_of(name: str | None, dies: int | None, machine: str | None, number_format: str | None) -> Array:
    """The array of a training run, with the preset that was asked for."""
    from dataclasses import replace

    from plinth.model.array import ring
    from plinth.model.array_file import load_array
    from plinth_hw.isa.parameters import LONE_ENGINES, PRESETS

    if name is None:
        wanted = preset_of(machine, number_format)
        if dies is None:
            dies = 1 if PRESETS[wanted].engines <= LONE_ENGINES else 4
        try:
            return ring(dies, preset=wanted)
        except ValueError as error:
            raise UserError(f"--dies {dies} cannot be: {error}") from None
    array = load_array(name)
    if dies is not None and dies != array.dies:
        raise UserError(f"--dies {dies} does not fit array {array.name!r}, which has {array.dies}; leave --dies out")
    wanted = preset_of(array.preset if machine is None else machine, number_format)
    try:
        return replace(array, preset=wanted)
    except ValueError as error:
        raise UserError(f"array {array.name!r} cannot be of preset {wanted!r}: {error}") from None


def rule_of(array: Array, update: str | None, wide: bool | None, usual_rate: float, **options: Any) -> UpdateRule:
    """The update that was asked for, or what the array's dies do best; a rate or an epsilon of None is the rule's
    default."""
    from plinth.model.update import rule_for

    parameters = array.die_parameters()
    kind = rule_for(parameters, update).kind
    for name, default in (("rate", ADAGRAD_RATES.get(kind, usual_rate)), ("epsilon", ADAGRAD_EPSILONS.get(kind))):
        if options.get(name) is None:
            options[name] = default
    options = {name: value for name, value in options.items() if value is not None}
    try:
        rule = rule_for(parameters, update, wide=wide, **options)
    except ValueError as error:
        raise UserError(f"{error}; mend --update and its options") from None
    if rule.wide and rule.stochastic:
        raise UserError("--stochastic rounds what has 16 bits, and wide weights and states have 32; give --narrow, or "
                        "leave --stochastic out")
    return rule


def form_of(array: Array, update: str | None, wide: bool | None, stochastic: bool) -> UpdateRule:
    """The update that a step is planned with, whatever its numbers."""
    return rule_of(array, update, wide, RATE, rate=None, stochastic=stochastic).form


def update_options(command: Any) -> Any:
    """Options of :func:`form_of`."""
    for option in (
            click.option("--stochastic", is_flag=True,
                         help="round fixed-point weights and states of 16 bits at random"),
            click.option("--wide/--narrow", default=None, help="fixed-point weights and states of 32 or 16 bits; "
                         "default: wide with --update adagrad"),
            click.option("--update", type=click.Choice(UPDATES), help="update rule; default: the plan's, else "
                         "adagrad on dies with an optimiser engine, sgd on others")):
        command = option(command)
    return command


def tile_options(command: Any) -> Any:
    """Options of :func:`with_settings`."""
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
    """Of commands that make a plan."""
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


def _shares(text: str | None) -> tuple[float, ...] | None:
    """``0.12,0.36,0.61,0.49,0.57`` as numbers."""
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
    from plinth.model.network_file import load_network

    network = load_network(name_or_path)
    if network.notes:
        click.echo(one_line(f"note: {name_or_path}: {'; '.join(network.notes)}"), err=True)
    return network


def with_settings(network: Network, winograd: str | None, weights: str | None, predict: str | None = None,
                  shares: str | None = None) -> Network:
    """The network with the settings of convolutions that were asked for."""
    from plinth.model.winograd import with_tiles

    try:
        return with_tiles(network, int(winograd) if winograd in ("2", "4") else winograd, weights,
                          int(predict) if predict in ("0", "1", "2") else predict, _shares(shares))
    except ValueError as error:
        raise UserError(str(error)) from None


def able_array(array: Array, network: Network) -> Array:
    """The array, or, if the network has Winograd layers that its dies cannot make, one of dies alike that can."""
    from dataclasses import replace

    from plinth.model.winograd import predicts, tiled
    from plinth_hw.isa.parameters import PRESETS

    kinds = ("predict", "winograd") if predicts(network) else ("winograd",)
    able = [found for kind in kinds if (found := f"{array.preset}-{kind}") in PRESETS]
    return replace(array, preset=able[0]) if able and tiled(network) else array


def network_or_plan(network: str | None, plan: Path | None) -> tuple[str | None, Path | None]:
    """Whether NETWORK is a network or the file of a plan, which names its own."""
    from plinth.plan.plan_file import is_plan

    if network is not None and network.endswith((".yaml", ".yml", ".json")) and Path(network).is_file() and is_plan(
            Path(network)):
        if plan is not None:
            raise UserError(f"{network} and --plan {plan} are both plans; leave one of them out")
        return None, Path(network)
    return network, plan


def said_by_plan(**options: Any) -> None:
    """Refuses what was given beside a plan, which says it."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise UserError(f"--{given[0]} and a plan both say how the network is split; leave one of them out")
