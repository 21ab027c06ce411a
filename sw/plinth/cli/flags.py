"""Flags of the command line in the place of arguments that the library's messages name."""

from __future__ import annotations

import re

from plinth.errors import UserError
from plinth.update.law import NUMBERS

#: Flags by the argument that a message names, ``batch=``, or gives a value, ``batch=16``.
FLAGS = {"check_every": "--check", "clock_mhz": "--clock-mhz", "dense_from": "--dense-from",
         "lists": "--parts", "memory_mib": "--memory", "micro_batches": "--micro-batches",
         "profiles": "--profile", "save_every": "--save-every", "x": "--data", **{name: f"--{name}" for name in (
             "accuracy", "array", "baseline", "batch", "beta", "bitstream", "change", "clock", "copies", "cost",
             "device", "die", "dies", "draw", "epochs", "format", "kernels", "kinks", "local", "machine", "memory",
             "merge", "metric", "model", "out", "patience", "plan", "planner", "predict", "push", "rate", "reduce",
             "resume", "save", "scale", "seed", "shares", "slow", "steps", "stochastic", "threads", "tolerance",
             "touched", "update", "validate", "watts", "waves", "weights", "wide", "winograd", *NUMBERS)}}
#: Flags by the argument and its value, of arguments whose flag says their value.
SWITCHES = {"stochastic=True": "--stochastic", "wide=True": "--wide", "wide=False": "--narrow",
            "baseline=False": "--no-baseline"}
_ARGUMENT = re.compile(rf"(?<![\w/.='\"-])(?:({'|'.join(SWITCHES)})\b|({'|'.join(FLAGS)})=(?=(\S?)))")


def with_flags(text: str) -> str:
    """A message with flags in the place of arguments, but for those of commands, between backticks."""
    parts = text.split("`")
    parts[::2] = [_ARGUMENT.sub(_flag, part) for part in parts[::2]]
    return "`".join(parts)


def _flag(match: re.Match[str]) -> str:
    switch, name, behind = match.groups()
    return SWITCHES[switch] if switch else FLAGS[name] + " " * (behind not in ("", *",;:)."))


def name_flags(error: UserError) -> None:
    """Let an error and its notes speak of flags."""
    error.args = (with_flags(str(error)),)
    error.__notes__ = list(map(with_flags, error.notes))
