"""The option --resume: what is not given on the command line is as the checkpoint's run had it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from plinth.cli.options import network_or_plan

if TYPE_CHECKING:
    from plinth.training.checkpoint import Header

#: Options, by parameter, that say again what others do: what these were in the checkpoint is nothing to go by then.
_INSTEAD = {
    "array_name": ("dies",), "dies": ("array_name",),
    "machine": ("number_format",), "number_format": ("machine",),
    "update": ("rate", "momentum", "epsilon", "wide", "stochastic"),
    "plan_file": ("array_name", "dies", "machine", "planner", "winograd", "weights", "predict", "shares"),
}


class ResumeOption(click.Option):
    """Reads the checkpoint's settings before other options get their values: they are these options' defaults."""

    def __init__(self, *names: Any, **settings: Any) -> None:
        super().__init__(*names, is_eager=True, **settings)

    def handle_parse_result(self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
                            ) -> tuple[Any, list[str]]:
        """The path; ``opts`` are what the command line gives."""
        value, args = super().handle_parse_result(ctx, opts, args)
        if isinstance(value, Path):
            from plinth.training.checkpoint import load_header

            named = opts.get("network")
            _, plan = network_or_plan(named if isinstance(named, str) else None, opts.get("plan_file"))
            found = _options(load_header(value))
            given = {*opts, *(["plan_file"] if plan else [])}
            for name in given:
                if name != "update" or opts[name] != found.get(name):
                    for other in _INSTEAD.get(name, ()):
                        found.pop(other, None)
            ctx.default_map = found
        return value, args


def _options(header: Header) -> dict[str, Any]:
    """Values of parameters of ``plinth train`` by which the run of a checkpoint goes on, as far as names say them."""
    from plinth.errors import UserError
    from plinth.model.array_file import load_array
    from plinth.model.zoo import NETWORKS
    from plinth.plan.planning import PLANNERS
    from plinth.training.datasets import DATASETS
    from plinth_hw.isa.parameters import PRESETS

    found: dict[str, Any] = {"seed": header.seed}
    if isinstance(header.network, str) and header.network in NETWORKS:
        found["network"] = header.network
    settings = header.settings
    if settings is None:
        return found
    rule = settings.rule
    found |= {"epochs": settings.epochs, "batch": settings.batch, "scale": str(settings.scale), "update": rule.kind,
              "rate": rule.rate, "momentum": rule.momentum, "epsilon": rule.epsilon, "wide": rule.wide,
              "stochastic": rule.stochastic, **settings.tile_options}
    if settings.preset in PRESETS:
        found["machine"] = settings.preset
    if settings.data in DATASETS:
        found["data"] = settings.data
    if settings.planner in PLANNERS:
        found["planner"] = settings.planner
    if settings.array == f"ring-{settings.dies}":
        found["dies"] = settings.dies
    elif not settings.array.endswith((".yaml", ".yml")):
        with suppress(UserError):  # one of a file has to be given again
            found["array_name"] = load_array(settings.array).name
    return found
