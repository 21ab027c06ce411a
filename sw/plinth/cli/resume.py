"""The option --resume: what is not given on the command line is as the checkpoint's run had it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from plinth.cli.flags import name_flags
from plinth.errors import UserError
from plinth.names import MODEL_NAMES, PLANNER_NAMES
from plinth.update.law import NUMBERS

if TYPE_CHECKING:
    from plinth.train.checkpoint import Header

#: Options, by parameter, that say again what others do: what these were in the checkpoint is nothing to go by then.
_INSTEAD = {
    "array_name": ("dies",), "dies": ("array_name",),
    # Dies of another format have another default, and need not have a lowering of what a planner finds.
    "machine": ("number_format", "planner", "model"), "number_format": ("machine", "planner", "model"),
    "update": ("rate", *NUMBERS, "wide", "stochastic"),
    "plan_file": ("array_name", "dies", "machine", "planner", "model", "winograd", "weights", "predict", "shares"),
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
            from plinth.api.choices import network_or_plan
            from plinth.train.checkpoint import check_state, load_header

            named = opts.get("network")
            _, plan = network_or_plan(named if isinstance(named, str) else None, opts.get("plan_file"))
            header = load_header(value)
            check_state(header, value)
            options = _options(header)
            names = {*opts, *(["plan_file"] if plan else [])}
            for name in names:
                if name != "update" or opts[name] != options.get(name):
                    for other in _INSTEAD.get(name, ()):
                        options.pop(other, None)
            _check_types(ctx, value, {name: setting for name, setting in options.items() if name not in opts})
            ctx.default_map = options
        return value, args


def _check_types(ctx: click.Context, checkpoint: Path, settings: Mapping[str, Any]) -> None:
    """Refuse settings that an option of the command does not take."""
    for option in ctx.command.params:
        if settings.get(option.name or "") is not None:
            try:
                option.type_cast_value(ctx, settings[option.name or ""])
            except click.BadParameter as error:
                raise UserError(f"{checkpoint}: its setting {option.opts[0]} cannot be: {error.message.rstrip('.')}; "
                                "give a file that `plinth train --save` wrote") from None


def naming_checkpoint(command: Callable[..., None]) -> Callable[..., None]:
    """A command with ``--resume`` whose errors name the checkpoint where they speak of an option that it gave and
    nobody typed."""
    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except UserError as error:
            name_flags(error)
            context = click.get_current_context()
            typed = _given(context, str(error))
            checkpoint = context.params.get("resume")
            if not typed or str(error).startswith(f"{checkpoint}: "):
                raise
            raise UserError(f"{checkpoint}: training goes on with its {', '.join(typed)}: {error}",
                            error.notes) from error

    return run


def _given(context: click.Context, message: str) -> list[str]:
    """Options that a message speaks of and the checkpoint gave, as they would be typed."""
    typed = []
    for option in context.command.params:
        value = context.params.get(option.name or "")
        words = [word for word in (*option.opts, *option.secondary_opts) if word.startswith("--")]
        if context.get_parameter_source(option.name or "") is ParameterSource.DEFAULT_MAP and value is not None and any(
                re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", message) for word in words):
            if not isinstance(value, bool):
                typed.append(f"{option.opts[0]} {value}")
            elif value or option.secondary_opts:
                typed.append(option.opts[0] if value else option.secondary_opts[0])
    return typed


def _options(header: Header) -> dict[str, Any]:
    """Values of parameters of ``plinth train`` by which the run of a checkpoint goes on, as far as names say them."""
    from plinth.array.file import load_array
    from plinth.network.zoo import NETWORKS
    from plinth.train.datasets import DATASETS
    from plinth_hw.isa.parameters import PRESETS

    options: dict[str, Any] = {"seed": header.seed}
    if isinstance(header.network, str) and header.network in NETWORKS:
        options["network"] = header.network
    settings = header.settings
    if settings is None:
        return options
    rule = settings.rule
    options |= {"epochs": settings.epochs, "batch": settings.batch, "scale": str(settings.scale), "update": rule.kind,
                "rate": rule.rate, **{name: getattr(rule, name) for name in NUMBERS}, "wide": rule.wide,
                "stochastic": rule.stochastic, **settings.tile_options}
    if settings.preset in PRESETS:
        options["machine"] = settings.preset
    if settings.data in DATASETS:
        options["data"] = settings.data
    if settings.planner in PLANNER_NAMES and settings.model in MODEL_NAMES:
        options |= {"planner": settings.planner, "model": settings.model}
    if settings.array == f"ring-{settings.dies}":
        options["dies"] = settings.dies
    elif not settings.array.endswith((".yaml", ".yml")):
        with suppress(UserError):  # one of a file has to be given again
            options["array_name"] = load_array(settings.array).name
    return options
