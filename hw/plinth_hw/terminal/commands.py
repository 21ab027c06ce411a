"""Commands of click whose interruption is one line: click itself would begin with an empty one."""

from typing import Any

import click

from plinth_hw.terminal.program import Interruption


class _Interruptible(click.Command):
    """What commands and groups of them share: Ctrl-C passes click as an :class:`Interruption`."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, or that of the group which was asked for; what it returns.

        Raises
        ------
        Interruption
            In place of KeyboardInterrupt.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interruption from None


class Command(_Interruptible):
    """A command that an interruption ends with one line."""


class CommandGroup(_Interruptible, click.Group):
    """A group of such commands."""
