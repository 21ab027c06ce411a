"""Makes the bitstream of a board, or what Vivado makes it of: ``python -m plinth_hw.board BOARD PRESET [--clock MHZ]
[--baud N] ...``."""

import importlib
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from plinth_hw.board import flow
from plinth_hw.installation import output_root
from plinth_hw.isa.parameters import PRESETS, preset
from plinth_hw.terminal.commands import Command
from plinth_hw.terminal.files import write_text
from plinth_hw.terminal.options import Folder, IntegerRange, OutputFile, RealRange
from plinth_hw.terminal.program import program
from plinth_hw.tools import ToolError

#: What makes the serial die: a function of the die's parameters, the clock in Hz (Fraction) and the baud rate.
DESIGN = "plinth_hw.host.top:serial_die"


def _design(where: str) -> Callable[..., Any]:
    """The function at MODULE:FUNCTION."""
    module, _, name = where.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise click.BadParameter(f"{where}: {error}; name a function that can be imported as MODULE:FUNCTION") from None


@click.command(cls=Command, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("board", metavar="BOARD", type=click.Choice(list(flow.BOARDS)))
@click.argument("name", metavar="PRESET", type=click.Choice(list(PRESETS)), required=False)
@click.option("--clock", metavar="MHZ", type=RealRange(min=0, min_open=True), default=80.0, show_default=True,
              help="clock of the die; a little less where the PLL cannot make it")
@click.option("--baud", type=IntegerRange(min=1), default=3_000_000, show_default=True,
              help="bits a second of the serial line")
@click.option("--seed", metavar="N", type=IntegerRange(min=1),
              help="of the first placement; the next ones have those that follow [default: 1]")
@click.option("--seeds", metavar="N", type=IntegerRange(min=1),
              help="placements to try until one meets the clock [default: 3]")
@click.option("--out", type=Folder(), default=None,
              help="folder for plinth.bit and its reports [default: build/bitstream/BOARD/PRESET]")
@click.option("--design", metavar="MODULE:FUNCTION", default=DESIGN, show_default=True,
              help="what makes the serial die of parameters, clock and baud rate")
@click.option("--pins", type=OutputFile(), default=None,
              help="only write the board's pin constraints to this file")
def main(board: str, name: str | None, clock: float, baud: int, seed: int | None, seeds: int | None, out: Path | None,
         design: str, pins: Path | None) -> None:
    """Make plinth.bit, with its reports, of the die PRESET for BOARD; for arty-a7-100 the sources and scripts of it."""
    try:
        if pins is not None:
            write_text(pins, flow.constraints(board))
            click.echo(str(pins))
            return
        if name is None:
            raise click.UsageError("Missing argument 'PRESET'.")
        make, parameters = _design(design), preset(name)
        folder = out or output_root() / "bitstream" / board / name

        def die(clock_hz: Fraction) -> Any:
            return make(parameters, clock_hz, baud)

        if not flow.BOARDS[board].is_open:
            if seed or seeds:
                raise click.UsageError(f"Vivado places {board}, without seeds; leave --seed and --seeds out.")
            actual, _, files = flow.sources(board, parameters, die, round(clock * 1e6), folder)
            click.echo(f"{folder}: {', '.join(sorted(files))}, for {float(actual) / 1e6:g} MHz; make the bitstream by "
                       f"Vivado there: vivado -mode batch -source {flow.NAME}.tcl")
            return
        first, count = seed or 1, seeds or 3
        report = flow.build(board, parameters, die, round(clock * 1e6), baud, folder, range(first, first + count))
    except (ToolError, ValueError) as error:
        click.echo(f"plinth_hw.board: error: {error}", err=True)
        sys.exit(2)
    except OSError as error:
        click.echo(f"plinth_hw.board: error: {error.filename}: {error.strerror}; name what can be written", err=True)
        sys.exit(2)
    click.echo(report.text() + str(folder / f"{flow.NAME}.bit"))


if __name__ == "__main__":
    with program("plinth_hw.board"):
        main(prog_name="python -m plinth_hw.board", standalone_mode=False)
