"""Join all commands into one program, and run a command line."""

from __future__ import annotations

from collections.abc import Sequence

import click

from plinth.cli import arrays, exporting, planning, profiling, running, showing, sparse, training
from plinth.cli.group import cli, said

__all__ = ["arrays", "cli", "exporting", "planning", "profiling", "run", "running", "showing", "sparse", "training"]


def run(arguments: Sequence[str] | None) -> None:
    """Run the command that a command line names.

    Raises
    ------
    UserError
        For whatever the user can mend, wrong options as well.
    SystemExit
        Of code 2 behind the help that no command at all gives.
    """
    try:
        cli.main(args=None if arguments is None else list(arguments), prog_name="plinth", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        raise SystemExit(2) from None
    except click.ClickException as error:
        raise said(error) from None
