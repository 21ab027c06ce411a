"""The command that measures what training costs on a device: `profile`."""

from __future__ import annotations

import re
from pathlib import Path

import click

from plinth import defaults, limits
from plinth.cli.group import cli, new_console, print_json
from plinth.cli.options import file_of, open_network
from plinth.errors import UserError
from plinth_hw.terminal.activity import Activity
from plinth_hw.terminal.options import IntegerRange, Name, OutputFile, RealRange

#: Bytes of the units that --memory takes.
UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def _bytes(text: str | None) -> int | None:
    """``512KiB`` as bytes."""
    if text is None:
        return None
    match = re.fullmatch(r"([1-9][0-9]{0,11})(B|KiB|MiB|GiB)?", text)
    count = int(match[1]) * UNITS[match[2] or ""] if match else 0
    if not 1 <= count <= limits.MAXIMUM_MEMORY_MIB << 20:
        raise UserError(f"--memory {text[:40]!r} is not a number of bytes up to {limits.MAXIMUM_MEMORY_MIB}MiB, as "
                        "512KiB or 16MiB")
    return count


@cli.command()
@click.argument("device", type=Name())
@click.option("--network", type=Name(), help="choose its local layers (S_L), and fit Table 2 to its range; default: "
              "none")
@click.option("--batch", type=IntegerRange(1, limits.MAXIMUM_BATCH), default=defaults.BATCH, show_default=True,
              help="samples of a batch of --network")
@click.option("--metric", type=click.Choice(defaults.METRICS), default=defaults.METRIC, show_default=True,
              help="memory: the widest layers that fit; others: those of least cost for each multiply-add that fit")
@click.option("--memory", metavar="SIZE", help="what local layers are to fit, as 512KiB, and what a die has; default: "
              f"a host's cache as measured, block RAM, or {defaults.MEMORY_MIB}MiB")
@click.option("--machine", "--preset", "machine", type=Name(),
              help=f"of dies: a machine, or a die preset in full; default: {defaults.PROFILE_MACHINE}")
@click.option("--clock-mhz", type=RealRange(0, 100_000, min_open=True),
              help="clock of dies whose cycles are counted: it is not measured; default: "
              f"{defaults.CLOCK_MHZ:g}")
@click.option("--watts", type=RealRange(0, 1_000_000, min_open=True),
              help="power of the device, for energy: nothing here measures one")
@click.option("--picture", type=OutputFile(), help="draw the profile as a PNG")
@click.option("--out", type=OutputFile(), help="write the profile, .json")
@click.option("--json", "as_json", is_flag=True, help="print the profile as JSON, nothing else")
def profile(device: str, network: str | None, batch: int, metric: str, memory: str | None, machine: str | None,
            clock_mhz: float | None, watts: float | None, picture: Path | None, out: Path | None, as_json: bool
            ) -> None:
    """Measure what training costs on DEVICE: numpy, mpi, golden, cosim or serial:PORT[@BAUD].

    Operations, transfers and whole batches are timed over sizes and fitted; with --network the hidden layers are chosen
    that suit the device."""
    from plinth.api.profiling import profile_job
    from plinth.network.zoo import NETWORKS
    from plinth.output import check_ending, check_places, check_writable
    from plinth.profile.job import run_profile
    from plinth.profile.profile import save_profile
    from plinth.report.profile import draw_profile, show_profile

    check_ending("--out", out, ".json")
    check_ending("--picture", picture, ".png")
    check_places({"--out": out, "--picture": picture}, {"--network": file_of(network, NETWORKS)})
    check_writable(out, picture)
    job = profile_job(device, None if network is None else open_network(network), batch=batch, metric=metric,
                      memory_bytes=_bytes(memory), machine=machine, clock_mhz=clock_mhz, watts=watts)
    with Activity(f"making {device} ready", "steps") as activity:
        found = run_profile(job, activity.begin, activity.update)
        report = found.to_data()
        if out is not None:
            save_profile(out, found)
        if picture is not None:
            activity.begin(f"drawing {picture}")
            draw_profile(picture, report)
    if as_json:
        print_json(report)
        return
    show_profile(new_console(), report)
    for what, path in (("profile", out), ("picture", picture)):
        if path is not None:
            click.echo(f"{what}: {path}")
