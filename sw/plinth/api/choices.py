"""Networks, arrays and update rules that were asked for, and the defaults of what was not.

Messages name arguments, as ``dies=``; :mod:`plinth.cli.flags` has the words of the command line.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from plinth import defaults
from plinth.array.array import Array, ring
from plinth.array.file import load_array
from plinth.errors import UserError, quoted
from plinth.network.network import Network
from plinth.network.winograd import predicts, tiled, with_tiles
from plinth.network.zoo import NETWORKS
from plinth.plan.plan import Plan
from plinth.plan.plan_file import is_plan
from plinth.update.kinds import LAWS
from plinth.update.rule import UpdateRule, rule_for
from plinth_hw.isa.parameters import LONE_ENGINES, PRESETS, DieParameters


def die_of(preset: str) -> DieParameters:
    """Parameters of a die by its preset's name.

    Raises
    ------
    UserError
        If there is no such preset; the message lists those that exist.
    """
    if preset not in PRESETS:
        raise UserError(f"preset {quoted(preset)} is unknown; choose one of {', '.join(PRESETS)}")
    return PRESETS[preset]


def preset_of(machine: str | None, number_format: str | None) -> str:
    """Preset of a machine, by name or in full, and number format: without either the first that has the other.

    Raises
    ------
    UserError
        If there is no such machine, or it does not compute in this format.
    """
    if machine is None:
        return next(presets[number_format or "fp32"] for presets in defaults.MACHINES.values()
                    if (number_format or "fp32") in presets)
    if machine not in defaults.MACHINES and machine not in PRESETS:
        raise UserError(f"preset {machine!r} is unknown; choose one of {', '.join((*defaults.MACHINES, *PRESETS))}")
    presets = defaults.MACHINES.get(machine) or {PRESETS[machine].number_format: machine}
    if number_format is None:
        return next(iter(presets.values()))
    if number_format not in presets:
        raise UserError(f"{machine!r} does not compute in format={number_format}, but in {' or '.join(presets)}")
    return presets[number_format]


def _of_preset(array: Array, preset: str) -> Array:
    """The array with dies of a preset."""
    try:
        return replace(array, preset=preset)
    except ValueError as error:
        raise UserError(f"array {array.name!r} cannot be of preset {preset!r}: {error}") from None


def array_of(source: str | Array | None, dies: int | None = None, machine: str | None = None,
             number_format: str | None = None) -> Array:
    """The array that was asked for, by default a ring of :data:`plinth.defaults.DIES`.

    Parameters
    ----------
    source : str, Array or None
        A name, the path of a YAML file, or the array itself; None: a ring.
    dies : int or None
        How many dies the ring has, or the array must have. None: as many as by default, one of a preset for one.
    machine, number_format : str or None
        As :func:`preset_of`; None: the array's.

    Raises
    ------
    UserError
        If there is no such array, or it cannot have so many dies or dies of this kind.
    """
    if source is None:
        wanted = preset_of(machine, number_format)
        if dies is None:
            dies = 1 if PRESETS[wanted].engines <= LONE_ENGINES else defaults.DIES
        try:
            return ring(dies, preset=wanted)
        except ValueError as error:
            raise UserError(f"dies={dies} cannot be: {error}") from None
    array = source if isinstance(source, Array) else load_array(source)
    if dies is not None and dies != array.dies:
        raise UserError(f"dies={dies} does not fit array {array.name!r}, which has {array.dies}; leave dies= out")
    if machine is None and number_format is None:
        return array
    return _of_preset(array, preset_of(array.preset if machine is None else machine, number_format))


def able_array(array: Array, network: Network) -> Array:
    """The array, or, if the network has Winograd layers that its dies cannot make, one of dies alike that can."""
    kinds = ("predict", "winograd") if predicts(network) else ("winograd",)
    able = [preset for kind in kinds if (preset := f"{array.preset}-{kind}") in PRESETS]
    return replace(array, preset=able[0]) if able and tiled(network) else array


def array_for(network: Network, source: str | Array | None, dies: int | None = None, machine: str | None = None,
              number_format: str | None = None) -> Array:
    """The array that was asked for, of dies that can do what a network needs, unless their preset was named in full.

    Parameters
    ----------
    network : Network
        With the settings of its convolutions.
    source, dies, machine, number_format
        As :func:`array_of`.

    Raises
    ------
    UserError
        As :func:`array_of`.
    """
    array = array_of(source, dies, machine, number_format)
    return array if machine in PRESETS else able_array(array, network)


def array_of_plan(plan: Plan, network: Network, source: str | Array | None, dies: int | None = None,
                  machine: str | None = None, number_format: str | None = None) -> Array:
    """The array that a plan is used on: its own, unless another was asked for, which it is to be compared with.

    Parameters
    ----------
    plan : Plan
    network : Network
        The plan's network.
    source, dies, machine, number_format
        As :func:`array_of`, beside the plan.

    Raises
    ------
    UserError
        As :func:`array_of`.
    """
    if source is not None or dies is not None or plan.hardware is None:
        return array_for(network, source, dies, machine, number_format)
    if machine is None and number_format is None:
        return plan.hardware
    return _of_preset(plan.hardware, preset_of(machine or plan.hardware.preset, number_format))


def planner_of(planner: str | None, array: Array) -> str:
    """The planner that was asked for, or the default one of an array's dies."""
    narrow = array.die_parameters().number_format != "fp32"
    return planner or (defaults.NARROW_PLANNER if narrow else defaults.PLANNER)


def network_of_plan(plan: Plan) -> Network:
    """The network that a plan is for."""
    return plan.definition or NETWORKS[plan.network]


def network_or_plan(network: str | None, plan: Path | None) -> tuple[str | None, Path | None]:
    """Whether NETWORK is a network or the file of a plan, which names its own.

    Raises
    ------
    UserError
        If there are two plans.
    """
    if network is not None and network.endswith((".yaml", ".yml", ".json")) and Path(network).is_file() and is_plan(
            Path(network)):
        if plan is not None:
            raise UserError(f"{network} and plan={plan} are both plans; leave one of them out")
        return None, Path(network)
    return network, plan


def said_by_plan(**options: Any) -> None:
    """Refuse what was given beside a plan, which says it.

    Raises
    ------
    UserError
        If one of the options is not None.
    """
    names = [name for name, value in options.items() if value is not None]
    if names:
        raise UserError(f"{names[0]}= and a plan both say how the network is split; leave one of them out")


def with_settings(network: Network, winograd: str | int | None = None, weights: str | None = None,
                  predict: str | int | None = None, shares: Sequence[float] | None = None) -> Network:
    """The network with the settings of convolutions that were asked for; None: as the network says.

    Raises
    ------
    UserError
        As :func:`plinth.network.winograd.with_tiles`.
    """
    try:
        return with_tiles(network, int(winograd) if winograd in ("2", "4") else winograd, weights,
                          int(predict) if predict in ("0", "1", "2") else predict,
                          None if shares is None else tuple(shares))
    except ValueError as error:
        raise UserError(str(error)) from None


def _job(network: str) -> tuple[int, float]:
    """Epochs and rate of plain descent of a network by its name."""
    return defaults.JOBS.get(network, (defaults.EPOCHS, defaults.RATE))


def epochs_of(network: str, rule: UpdateRule) -> int:
    """Epochs that a network by its name is trained for by default."""
    return max(_job(network)[0], rule.law.epochs)


def rule_of(array: Array, update: str | None, wide: bool | None, network: str, **options: Any) -> UpdateRule:
    """The update that was asked for, or what the array's dies do best.

    Parameters
    ----------
    array : Array
    update : str or None
        Kind of the rule.
    wide : bool or None
        Whether fixed-point weights and states have 32 bits.
    network : str
        Name of the network, which plain descent has a default rate for.
    options
        Further fields of :class:`~plinth.update.rule.UpdateRule`; a number of None is the rule's default.

    Raises
    ------
    UserError
        If there is no such rule, or not with these numbers on such dies.
    """
    parameters = array.die_parameters()
    law = LAWS[rule_for(parameters, update).kind]
    options = {"rate": _job(network)[1], **law.defaults,
               **{name: value for name, value in options.items() if value is not None}}
    try:
        rule = rule_for(parameters, update, wide=wide, **options)
    except ValueError as error:
        raise UserError(f"{error}; mend update= and its options") from None
    if rule.wide and rule.stochastic:
        raise UserError("stochastic= rounds what has 16 bits, and wide weights and states have 32; give wide=False, or "
                        "leave stochastic= out")
    return rule


def form_of(array: Array, update: str | None, wide: bool | None, stochastic: bool) -> UpdateRule:
    """The update that a step is planned with, whatever its numbers.

    Raises
    ------
    UserError
        As :func:`rule_of`.
    """
    return rule_of(array, update, wide, "", rate=None, stochastic=stochastic).form
