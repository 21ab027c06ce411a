"""Types of what is typed on command lines: each refuses in one line what no command can mean.

Nothing stands for a file, a folder or a name: an empty text comes from a variable of a shell that is not set, and paths
would take it for the working folder. Numbers are finite and in the digits 0 to 9.
"""

import math
import os
from pathlib import Path
from typing import Any

import click


class _Named(click.ParamType):
    """Refuses an empty text, then converts as the next class does."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value, or a message of one line."""
        if isinstance(value, str) and not value.strip():
            self.fail(f"{value!r} names nothing; give a name, or leave it out", param, ctx)
        return super().convert(value, param, ctx)


class Name(_Named, click.types.StringParamType):
    """A name, or what stands for one."""


class InputFile(_Named, click.Path):
    """A path of a file that is read, which the reader finds missing or not; no folder, and never empty."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)


class Folder(_Named, click.Path):
    """A folder, to be read or filled."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, file_okay=False)


class OutputFile(click.Path):
    """A file that is to be written: no folder, and no name that could only be one's, which paths do not tell apart."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, or a message of one line."""
        if str(value) == "-":
            self.fail("nothing is written to standard output; give the name of a file (./- for one of this name)",
                      param, ctx)
        if os.path.basename(value) in ("", ".", "..") or (os.path.exists(value) and not os.path.isfile(value)):
            self.fail(f"{str(value)!r} is a folder, a pipe or a device; give the name of a file", param, ctx)
        return super().convert(value, param, ctx)


class _Plain(click.ParamType):
    """Refuses what Python reads as a number and people do not, then converts as the next class does."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or a message of one line."""
        if isinstance(value, str) and not (value.isascii() and "_" not in value):
            self.fail(f"{value!r} is not a number in the digits 0 to 9", param, ctx)
        number = super().convert(value, param, ctx)
        if isinstance(number, float) and not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


class UnboundedInteger(_Plain, click.types.IntParamType):
    """An integer without bounds, for sizes that the command bounds itself."""


class IntegerRange(_Plain, click.IntRange):
    """An integer between bounds."""


class RealRange(_Plain, click.FloatRange):
    """A finite number between bounds."""
