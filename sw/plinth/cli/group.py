"""The group of commands, and what they print with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from plinth.cli.flags import name_flags
from plinth.errors import UserError
from plinth_hw.terminal.commands import CommandGroup

if TYPE_CHECKING:
    from rich.console import Console


class _Commands(CommandGroup):
    """The commands of the program, whose errors name flags in the place of arguments."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for; what it returns.

        Raises
        ------
        UserError
            Of the command, with flags.
        """
        try:
            return super().invoke(ctx)
        except UserError as error:
            name_flags(error)
            raise


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="plinth", message="%(prog)s %(version)s")
def cli() -> None:
    """Plinth: a training accelerator in RTL, its golden model, and the software that drives both."""


def said(error: click.ClickException) -> UserError:
    """An error of click, as other errors are told."""
    hint = ""
    if isinstance(error, click.UsageError):
        hint = f"; see {'plinth' if error.ctx is None else error.ctx.command_path} --help"
    return UserError(f"{error.format_message().rstrip('.')}{hint}")


def new_console(*, stderr: bool = False) -> Console:
    """Make the console to which tables and colours are printed."""
    from rich.console import Console

    return Console(stderr=stderr)


def print_json(value: Any, indent: int | None = None) -> None:
    from plinth.output import json_text

    click.echo(json_text(value, indent=indent))
