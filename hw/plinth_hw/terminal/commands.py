"""Commands of click whose interruption is one line: click itself would begin with an empty one."""

from typing import Any

import click

from plinth_hw.terminal.program import Interruption


class Command(click.Command):
    """A command."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run it."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interruption from None


class Group(click.Group):
    """A group of commands."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interruption from None
