"""Start a run anew or from a checkpoint, with whose settings its own are compared."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plinth.errors import UserError
from plinth.network.network import Network
from plinth.network.parameters import FirstParameters, KeptVectors, Parameters
from plinth.step.step import loss_scale
from plinth.train import checkpoint
from plinth.train.checkpoint import Checkpoint
from plinth.train.scale import Held, held_operands
from plinth.train.settings import RunSettings
from plinth.update.rule import STATE, STATE_LOW
from plinth_hw.isa.parameters import DieParameters

#: Settings that decide which samples a step takes.
_ORDER = ("seed", "batch", "data")


def state_scale(settings: RunSettings, parameters: DieParameters) -> float:
    """Factor of the states that dies keep over states of the loss's own gradients."""
    return settings.rule.state_scale(loss_scale(parameters.multiply_format))


def starting_point(network: Network, settings: RunSettings, seed: int, resume: Path | None, *,
                   parameters: DieParameters, steps_per_epoch: int, change: bool, say: Callable[[str], None]
                   ) -> Checkpoint:
    """Weights, what is kept beside them, and the step that is next.

    Parameters
    ----------
    settings : RunSettings
        Of the run.
    resume : Path or None
        A checkpoint to go on from; None: weights are drawn by the seed.
    change : bool
        Go on with settings that are not the checkpoint's, and say which.
    say : callable
        Takes a line for the user.

    Raises
    ------
    UserError
        If the checkpoint cannot be read, has other settings, all epochs already, no state of its update, or weights or
        states that the number format does not hold or with which no step of FP32 stays finite.
    """
    if resume is None:
        return Checkpoint(FirstParameters(network, seed), 0, seed)
    saved = checkpoint.load(resume, network)
    checkpoint.check_state(saved, resume)
    changed = _compare(saved, settings, seed, resume, change, say)
    if saved.epoch >= settings.epochs:
        raise UserError(f"{resume}: has {saved.progress} already; give epochs= above {saved.epoch}")
    if saved.step and not changed.isdisjoint(_ORDER):
        say(f"note: other samples follow, so that epoch {saved.epoch + 1}, of which {saved.step} steps had been done, "
            "begins anew")
        saved = replace(saved, step=0, generators=())
    if saved.step >= steps_per_epoch:
        raise UserError(f"{resume}: has done {saved.step} steps of an epoch of {steps_per_epoch}; give the x= and "
                        "batch= that it was trained with")
    return replace(saved, seed=seed, kept=_kept(saved, settings, parameters, resume, change, say),
                   parameters=_held_parameters(saved, network, parameters, resume))


def _compare(saved: Checkpoint, settings: RunSettings, seed: int, resume: Path, change: bool,
             say: Callable[[str], None]) -> set[str]:
    """Names of settings that are not the checkpoint's."""
    differences = [] if saved.seed == seed else [("seed", f"seed={saved.seed}", f"seed={seed}")]
    if saved.settings is None:
        say(f"note: {resume} does not say batch, update, format and samples that it was trained with; training goes on "
            "with those of the command line and its defaults")
    else:
        differences += saved.settings.differences(settings)
    if differences:
        before, now = (", ".join(filter(None, texts)) for texts in list(zip(*differences, strict=True))[1:])
        if not change:
            raise UserError(f"{resume}: was trained with {before}, not {now}; go on as it was trained, or give "
                            "change= to go on with what is new")
        say(f"note: {resume} was trained with {before}; training goes on with {now}")
    if saved.settings is not None and saved.settings.place != settings.place:
        say(f"note: {resume} was trained on {saved.settings.place}; training goes on on {settings.place}: sums have "
            "another order, and so other roundings")
    return {name for name, *_ in differences}


def _kept(saved: Checkpoint, settings: RunSettings, parameters: DieParameters, resume: Path, change: bool,
          say: Callable[[str], None]) -> KeptVectors:
    """Vectors beside the weights, as dies of this run keep them; nothing, if the rule starts without."""
    rule = settings.rule
    if not saved.update or saved.update != rule.kept:
        if saved.update and not change:
            raise UserError(f"{resume}: holds the state of update {saved.update!r}, but training goes on with "
                            f"{rule.kept or rule.kind!r}; give the options that it was trained with, or change= to "
                            "leave the state out")
        if saved.update:
            say(f"note: the state of update {saved.update!r} is left out")
        return {}
    factor = 1.0 if saved.state_scale is None else state_scale(settings, parameters) / saved.state_scale
    with np.errstate(over="ignore"):  # what the format does not hold is refused
        kept = {name: {vector: values * np.float32(factor) if vector in (STATE, STATE_LOW) else values
                       for vector, values in vectors.items()} for name, vectors in saved.kept.items()}
    held = held_operands(parameters.memory_format, parameters.number_format)
    for name, vectors in kept.items():
        for vector, values in vectors.items():
            _check(values, held, f"{resume}: {vector.replace('_', ', ')} of {name!r}", saved, parameters)
    return kept


def _held_parameters(saved: Checkpoint, network: Network, parameters: DieParameters, resume: Path) -> Parameters:
    """The weights, if the number format holds all of them."""
    held = held_operands(parameters.multiply_format, parameters.number_format)
    for name, values in saved.parameters.items():
        _check(values, held, f"{resume}: values of {name!r}", saved, parameters)
    return saved.parameters


def _check(values: NDArray[np.float32], held: Held, what: str, saved: Checkpoint, parameters: DieParameters) -> None:
    """Refuse numbers that the format does not hold, or with which no step of FP32 would stay finite."""
    if not held.has(values):
        count = int(held.beyond(values).sum())
        same = saved.settings is not None and saved.settings.number_format == parameters.number_format
        remedy = ("go back to an earlier checkpoint, or train again" if same or parameters.number_format == "fp32" else
                  "go on in the format= that they were trained in")
        raise UserError(f"{what} are from {values.min():.6g} to {values.max():.6g}, {count} of {values.size} beyond "
                        f"the {held} that training in {parameters.number_format} takes; {remedy}")
