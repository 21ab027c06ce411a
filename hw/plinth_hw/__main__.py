"""Writes the synthesizable Verilog of a die: ``python -m plinth_hw PRESET [--out FILE]``."""

import os
import sys
import time
from pathlib import Path

import click

from plinth_hw import emit
from plinth_hw.isa.parameters import PRESETS, preset


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", metavar="PRESET", type=click.Choice(list(PRESETS)))
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), default=None,
              help="file to write [default: standard output]")
def main(name: str, out: Path | None) -> None:
    """Write the synthesizable Verilog of the die PRESET. Its top module is the preset's name, with
    underscores."""
    from plinth_hw.die import Die  # takes a moment: not for --help and typing errors

    start = time.perf_counter()
    parameters = preset(name)
    text = emit.verilog(Die(parameters), name.replace("-", "_"))
    if out is None:
        click.echo(text, nl=False)
        return
    scratch = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        try:
            scratch.write_text(text, encoding="utf-8")
            scratch.replace(out)
        finally:
            scratch.unlink(missing_ok=True)
    except OSError as error:
        click.echo(f"plinth_hw: error: {out}: {error.strerror}; name a file that can be written", err=True)
        sys.exit(2)
    click.echo(f"{out}: {len(text):,} bytes, {text.count('endmodule'):,} modules "
               f"({time.perf_counter() - start:.1f} s)")


if __name__ == "__main__":
    main(prog_name="python -m plinth_hw")
