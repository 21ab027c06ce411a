# amaranth: UnusedElaboratable=no
"""Writes the synthesizable Verilog of a die, and what other designs need with it:
``python -m plinth_hw PRESET [--out FILE [--fusesoc]] [--constraints FOLDER [--clock MHZ]]``."""

import sys
import time
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from plinth_hw import emit
from plinth_hw.integrate import constraints, core_file
from plinth_hw.isa.parameters import PRESETS, preset
from plinth_hw.terminal.activity import Activity
from plinth_hw.terminal.commands import Command
from plinth_hw.terminal.files import write_text
from plinth_hw.terminal.options import Folder, OutputFile, RealRange
from plinth_hw.terminal.program import program
from plinth_hw.tools import ToolError

#: Waivers of `verilator --lint-only`, each with its reason.
WAIVERS = files("plinth_hw") / "waivers.vlt"


def _write(files: Mapping[Path, str]) -> None:
    """Write files, each whole or not at all."""
    for path, text in files.items():
        try:
            write_text(path, text)
        except OSError as error:
            click.echo(f"plinth_hw: error: {path}: {error.strerror}; name a file that can be written", err=True)
            sys.exit(2)


def _constraints(die: Any, stem: Path, clock: float) -> dict[Path, str]:
    """Both constraint files of a die."""
    title = f"Die {die.parameters.name}"
    return {stem.with_name(f"{stem.name}.{dialect}"): constraints.text(die, title, clock, dialect)
            for dialect in constraints.DIALECTS}


def _fusesoc(die: Any, top: str, stem: Path, clock: float) -> dict[Path, str]:
    """What stands beside the Verilog of a FuseSoC core."""
    return {**_constraints(die, stem, clock),
            stem.with_name(f"{stem.name}.vlt"): WAIVERS.read_text(encoding="utf-8"),
            stem.with_name(f"{stem.name}.tcl"): core_file.OUT_OF_CONTEXT,
            stem.with_name(f"{stem.name}.core"): core_file.text(
                stem.name, top, f"Die {die.parameters.name} of Plinth, a DNN training accelerator")}


@click.command(cls=Command, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", metavar="PRESET", type=click.Choice(list(PRESETS)))
@click.option("--out", type=OutputFile(), default=None,
              help="file to write [default: standard output, unless only constraints are asked for]")
@click.option("--fusesoc", is_flag=True, help="write a FuseSoC core, constraints and lint waivers beside the file")
@click.option("--constraints", "folder", type=Folder(), default=None,
              help="folder to write die.sdc and die.xdc into, for synthesis out of context")
@click.option("--clock", metavar="MHZ", type=RealRange(min=0, min_open=True), default=constraints.CLOCK_MHZ,
              show_default=True, help="clock of the constraints")
def main(name: str, out: Path | None, fusesoc: bool, folder: Path | None, clock: float) -> None:
    """Write the synthesizable Verilog of the die PRESET. Its top module is the preset's name, with
    underscores."""
    from plinth_hw.die import Die  # takes a moment: not for --help and typing errors

    if fusesoc and (out is None or out.suffix != ".v"):
        raise click.UsageError("--fusesoc writes further files beside one: name it with --out, to end in .v")
    start = time.perf_counter()
    die = Die(preset(name))
    top = name.replace("-", "_")
    if folder is not None:
        files = _constraints(die, folder / "die", clock)
        _write(files)
        click.echo("\n".join(map(str, files)), err=out is None)
        if out is None:
            return
    with Activity(f"writing the Verilog of {name}"):
        text = emit.verilog(die, top)
    if out is None:
        click.echo(text, nl=False)
        return
    files = {out: text, **(_fusesoc(die, top, out.with_suffix(""), clock) if fusesoc else {})}
    _write(files)
    click.echo(f"{out}: {len(text):,} bytes, {text.count('endmodule'):,} modules "
               f"({time.perf_counter() - start:.1f} s)")
    for path in [path for path in files if path != out]:
        click.echo(str(path))


if __name__ == "__main__":
    with program("plinth_hw", (ToolError,)):
        main(prog_name="python -m plinth_hw", standalone_mode=False)
