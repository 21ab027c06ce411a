"""Commands that make arrays: `array host`, of hosts with this machine's rates."""

from __future__ import annotations

import re
from pathlib import Path

import click

from plinth.cli.group import cli, new_console
from plinth.errors import UserError
from plinth.limits import MAXIMUM_DIES
from plinth_hw.terminal.activity import Activity
from plinth_hw.terminal.commands import Command, CommandGroup
from plinth_hw.terminal.options import IntegerRange, OutputFile, RealRange

#: Gigabits a second of units that --rate takes, and what links may have: hosts' links carry up to 16 words a
#: nanosecond.
UNITS = {"Mb": 0.001, "Gb": 1.0, "Tb": 1000.0}
LEAST_GIGABITS, MOST_GIGABITS = 0.001, 512.0
#: Of links without a rate and a latency of their own.
GIGABITS, MICROSECONDS = 10.0, 5.0


@cli.group("array", cls=CommandGroup)
def array_group() -> None:
    """Make arrays."""


array_group.command_class = Command


def _gigabits(text: str | None) -> float | None:
    """``10Gb`` as gigabits a second."""
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(Mb|Gb|Tb)", text)
    gigabits = float(match[1]) * UNITS[match[2]] if match else 0.0
    if not LEAST_GIGABITS <= gigabits <= MOST_GIGABITS:
        raise UserError(f"--rate {text[:40]!r} is not a rate from 1Mb to {MOST_GIGABITS:g}Gb a second, as 10Gb or "
                        "2.5Gb")
    return gigabits


@array_group.command("host")
@click.option("--out", type=OutputFile(), required=True, help="the array's file, .yaml")
@click.option("--ranks", "hosts", type=IntegerRange(1, MAXIMUM_DIES), default=1, show_default=True,
              help="hosts of the array, each at a link to one switch")
@click.option("--rate", metavar="RATE", help="what a link carries a second each way, as 10Gb; default: as measured "
              f"between two ranks, else {GIGABITS:g}Gb")
@click.option("--latency", type=RealRange(0.002, 2000), help="microseconds from host to host; default: as measured "
              f"between two ranks, else {MICROSECONDS:g}")
def host(out: Path, hosts: int, rate: str | None, latency: float | None) -> None:
    """Measure what this machine's numpy does, and write an array whose machines are hosts of these rates.

    `mpiexec -n 2 plinth array host` also measures what goes between two ranks. Hosts have as many threads as BLAS has
    here (OPENBLAS_NUM_THREADS)."""
    from plinth.array.file import array_to_yaml
    from plinth.bench import host as measured
    from plinth.output import check_ending, check_writable, write_whole

    gigabits = _gigabits(rate)
    check_ending("--out", out, ".yaml", ".yml")
    ranks = measured.ranks()
    if ranks is None or ranks.rank == 0:
        check_writable(out)
    between = None if ranks is None else measured.between_ranks(ranks.communicator, ranks.rank)
    if ranks is not None and ranks.rank:
        return
    some = measured.cases()
    with Activity("measuring", "kernels") as activity:
        kernels = measured.timed(some, lambda done: activity.update(done, len(some)))
    rates = measured.fitted(kernels)
    if between is not None:
        rates, gigabits, latency = measured.with_messages(rates, between, gigabits, latency)
    array = measured.host_array(rates, hosts, gigabits or GIGABITS, latency or MICROSECONDS,
                                memory_bytes=measured.memory_bytes())
    write_whole(out, lambda path: path.write_text(array_to_yaml(array), encoding="utf-8"))
    measured.show(new_console(), array, kernels)
    click.echo(f"array: {out}")
