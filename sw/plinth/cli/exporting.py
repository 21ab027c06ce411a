"""Commands that take a die into other people's designs: `verilog`, `header`."""

from __future__ import annotations

from pathlib import Path

import click

from plinth import defaults
from plinth.cli.group import cli
from plinth.errors import UserError
from plinth_hw.terminal.activity import Activity
from plinth_hw.terminal.options import IntegerRange, Name, OutputFile, RealRange


@cli.command()
@click.argument("preset", type=Name())
@click.option("--out", type=OutputFile(), help="file to write, .v; default: PRESET.v, with --bridge PRESET-serial.v, "
              "in verilog/ of the build folder")
@click.option("--bridge", is_flag=True, help="with a host bridge in front: a serial line in place of AXI4-Lite, behind "
              "which memory is, too")
@click.option("--baud", type=IntegerRange(1, 100_000_000), help="rate of the serial line; default: 3000000")
@click.option("--clock", "clock_mhz", type=RealRange(0, 100_000, min_open=True), metavar="MHZ",
              help=f"clock of constraints and of the serial line; default: {defaults.CLOCK_MHZ:g}")
@click.option("--constraints", is_flag=True, help="write .sdc and .xdc beside it, for synthesis out of context")
@click.option("--fusesoc", is_flag=True, help="write a FuseSoC core beside it, with constraints and waivers of lint")
@click.option("--filelist", is_flag=True, help="write a list of files for simulators beside it, .f, and waivers of "
              "Verilator's lint")
@click.option("--vivado", is_flag=True, help="write a script beside it that makes an IP for Vivado, _ip.tcl")
def verilog(preset: str, out: Path | None, bridge: bool, baud: int | None, clock_mhz: float | None, **kinds: bool
            ) -> None:
    """Write the synthesizable Verilog of a die, and what other tools need beside it; its top module is PRESET, with
    underscores, and _serial behind with a host bridge."""
    from plinth.api.choices import die_of
    from plinth.driver.line import BAUD
    from plinth.output import check_ending, check_writable, write_whole
    from plinth.runtime.verilog import export, export_places
    from plinth_hw.installation import output_root

    parameters = die_of(preset)
    if baud is not None and not bridge:
        raise UserError("--baud is of a host bridge; give --bridge as well, or leave it out")
    if clock_mhz is not None and not (bridge or kinds["constraints"] or kinds["fusesoc"]):
        raise UserError("--clock is of constraints and of a serial line; give --constraints, --fusesoc or --bridge as "
                        "well, or leave it out")
    asked = [kind for kind, wanted in kinds.items() if wanted]
    if asked:
        check_ending("--out", out, ".v")
    path = out or output_root() / "verilog" / f"{preset}{'-serial' if bridge else ''}.v"
    check_writable(*export_places(path, asked))
    with Activity(f"writing the Verilog of {preset}"):
        files = export(parameters, path, asked, clock_mhz=clock_mhz or defaults.CLOCK_MHZ,
                       baud=(baud or BAUD) if bridge else None)
    for place, text in files.items():
        write_whole(place, lambda part, text=text: part.write_text(text, encoding="utf-8"))  # type: ignore[misc]
    click.echo(f"{path}: {len(files[path]):,} bytes, {files[path].count('endmodule'):,} modules")
    for place in files:
        if place != path:
            click.echo(str(place))


@cli.command()
@click.argument("preset", type=Name())
@click.option("--out", type=OutputFile(), help="file to write; default: headers/PRESET.h in the build folder")
@click.option("--bridge", is_flag=True, help="of the die as `plinth verilog --bridge` has it: with a memory window, of "
              "which its parameters' digest tells")
def header(preset: str, out: Path | None, bridge: bool) -> None:
    """Write registers, descriptors, records and codes of a die as a C header, for software without a driver."""
    from plinth.api.choices import die_of
    from plinth.output import check_writable, write_whole
    from plinth_hw.installation import output_root
    from plinth_hw.isa.c_header import c_header

    parameters = die_of(preset)
    text = c_header(parameters.with_window if bridge else parameters)
    path = out or output_root() / "headers" / f"{preset}.h"
    check_writable(path)
    write_whole(path, lambda place: place.write_text(text, encoding="utf-8"))
    click.echo(f"{path}: {text.count('#define'):,} names")
