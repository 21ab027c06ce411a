"""The ``plinth`` command.

Whatever a user can mend ends in one line on standard error, or, of a file with several faults, a line each, and exit
code 2; Ctrl-C ends in 130. Commands import what they need when they run: `--help` and typing errors wait for nothing.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

import click

from plinth.cli import planning, showing, training
from plinth.cli.group import cli
from plinth.errors import UserError, one_line

__all__ = ["cli", "main", "planning", "showing", "training"]

#: Objects and rounds after which Python looks for cycles among them: plans and steps are many small objects without
#: any, and as it comes, looking takes a fourth of the time of the larger ones.
COLLECTED = 50_000, 20, 50


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point; exits with 0, 2 or 130."""
    gc.set_threshold(*COLLECTED)
    try:
        cli.main(args=list(arguments) if arguments is not None else None, prog_name="plinth",
                 standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(2)
    except click.ClickException as error:
        hint = "; see plinth --help" if isinstance(error, click.UsageError) else ""
        _fail(f"{error.format_message().rstrip('.')}{hint}")
    except UserError as error:
        _fail(str(error), error.notes)
    except MemoryError:
        _fail("more memory is needed than there is; give smaller files, networks or batches")
    except (KeyboardInterrupt, click.Abort):
        click.echo("plinth: interrupted; what was saved is kept", err=True)
        sys.exit(130)


def _fail(message: str, notes: Sequence[str] = ()) -> None:
    click.echo("\n  ".join([f"plinth: error: {one_line(message)}", *notes]), err=True)
    sys.exit(2)
