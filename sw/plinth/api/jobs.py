"""Options of a training run, as commands and the library take them, completed by those of plan, array and network."""

from collections.abc import Container, Mapping, Sequence
from typing import Any

from plinth import defaults
from plinth.api.choices import (
    array_for,
    array_of_plan,
    epochs_of,
    network_of_plan,
    planner_of,
    rule_of,
    with_settings,
)
from plinth.array.array import Array
from plinth.errors import UserError
from plinth.network.file import load_network
from plinth.network.network import Network
from plinth.plan.plan import Plan
from plinth.plan.planning import arranged
from plinth.train.job import COSIM, NUMPY, JobOptions
from plinth.update.law import NUMBERS


def training_job(*, network: Network | None = None, plan: Plan | None = None, array: str | Array | None = None,
                 dies: int | None = None, machine: str | None = None, number_format: str | None = None,
                 planner: str | None = None, model: str | None = None, batch: int | None = None,
                 epochs: int | None = None, rate: float | None = None, update: str | None = None,
                 numbers: Mapping[str, float | None] | None = None, wide: bool | None = None,
                 stochastic: bool | None = None, tiles: Mapping[str, Any] | None = None,
                 tile_options: Mapping[str, str] | None = None, memory_mib: int = defaults.MEMORY_MIB, seed: int = 0,
                 device: str, ports: Sequence[tuple[str, int]] = (), **rest: Any) -> JobOptions:
    """The complete options of a training run: an argument that is None is the plan's, or the default.

    Parameters
    ----------
    network : Network or None
        None: the plan's, or the default one.
    plan : Plan or None
        Instead of a planner.
    array, dies, machine, number_format
        As :func:`plinth.api.choices.array_of`.
    planner, model : str or None
        How the network is split, and how the planner counts words, by name.
    batch, epochs : int or None
        Samples of a step, and passes through the samples.
    update, rate, wide, stochastic
        As :func:`plinth.api.choices.rule_of`.
    numbers : mapping of str to float or None
        Numbers of the rule by name (:data:`plinth.update.law.NUMBERS`).
    tiles : mapping or None
        Arguments of :func:`plinth.api.choices.with_settings`.
    tile_options : mapping or None
        The same as checkpoints hold them.
    memory_mib : int
        Memory of a die in MiB.
    rest
        Further fields of :class:`~plinth.train.job.JobOptions`.

    Raises
    ------
    UserError
        If there is no such array or rule, or they do not fit each other.
    """
    definition = with_settings(network or (load_network(defaults.NETWORK) if plan is None else network_of_plan(plan)),
                               **(tiles or {}))
    if plan is None:
        where = array_for(definition, array, dies, machine, number_format)
        planner, model, batch = planner_of(planner, where), model or defaults.MODEL, batch or defaults.BATCH
        definition = arranged(definition, where, planner, batch)
    else:
        where = array_of_plan(plan, definition, array, dies, machine, number_format)
        planner, model, batch = plan.planner, plan.model, batch or plan.batch
        if update is None:
            update = plan.rule.kind
            # What is wide is not rounded at random.
            stochastic = plan.rule.stochastic and not wide if stochastic is None else stochastic
            wide = plan.rule.wide if wide is None else wide
    if where.host is not None and device != NUMPY:
        raise UserError(f"array {where.name!r} is of hosts, which run numpy and are no dies; choose device={NUMPY}, "
                        "or another array")
    if ports and len(ports) != where.dies:
        raise UserError(f"the array has {where.dies} dies, but {len(ports)} device=serial:PORT; give one for each")
    rule = rule_of(where, update, wide, definition.name, rate=rate, stochastic=bool(stochastic), **(numbers or {}))
    return JobOptions(network=definition, array=where, batch=batch, planner=planner, model=model, plan=plan,
                      epochs=epochs or epochs_of(definition.name, rule), rule=rule, seed=seed, device=device,
                      ports=tuple(ports), memory_words=(memory_mib << 20) // where.die_parameters().word_bytes,
                      tile_options=tile_options or {}, **rest)


def check_used(job: JobOptions, options: Container[str]) -> None:
    """Refuse options that were given although they have no effect on a training run.

    Parameters
    ----------
    job : JobOptions
    options : container of str
        Names of the options.

    Raises
    ------
    UserError
        Naming the first of them.
    """
    simulated = f"the RTL's simulation, which device={job.device} does not run; leave one of them out"
    for name, used, reason in (
            ("waves", job.device == COSIM, f"waves= records {simulated}"),
            ("threads", job.device == COSIM, f"threads= are those of {simulated}"),
            ("bitstream", job.device == "serial", "bitstream= is what dies behind serial:PORT hold, not those of "
                                                  f"device={job.device}; leave one of them out"),
            ("memory_mib", job.device != NUMPY, f"memory_mib= is that of dies, and device={NUMPY} has none; leave "
                                                     "it out"),
            *((number, number in job.rule.numbers, f"update {job.rule.kind!r} has no {number}=; leave it out")
              for number in NUMBERS),
            ("save_every", job.save is not None, "save_every= says how often save= is written, and there is none; "
                                                 "leave one out, or give both"),
            ("reduce", job.device == NUMPY, f"reduce= is of sums by device={NUMPY}, those of dies go round rings; "
                                            "leave it out"),
            ("change", job.resume is not None, "change= is for runs that go on from a checkpoint, without resume= "
                                               "there is none; leave it out")):
        if not used and name in options:
            raise UserError(reason)
