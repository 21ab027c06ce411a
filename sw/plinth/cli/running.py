"""The command that trains by several processes: `run`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from platform import node
from typing import TYPE_CHECKING, Any, NoReturn

import click

from plinth import limits
from plinth.cli.group import cli, said
from plinth.cli.local import check_local, local_job, train_locally, without_local
from plinth.cli.resume import naming_checkpoint
from plinth.cli.training import Run, train, train_job, typed
from plinth.errors import UserError, cause
from plinth_hw.terminal.commands import Command
from plinth_hw.terminal.options import IntegerRange
from plinth_hw.terminal.program import MENDABLE, OUT_OF_MEMORY

if TYPE_CHECKING:
    from plinth.local.training import LocalTraining
    from plinth.runtime.mpi import World

#: Options of `train` that are others here, or none.
_OTHERS = ("devices", "bitstream", "threads")


class _OfRanks(Command):
    """A command that no rank goes on with if one cannot read its options, or the files that they name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line; a rank that cannot tells the others, and all end.

        Raises
        ------
        UserError
            In the lowest rank with this fault.
        SystemExit
            In the other ranks.
        """
        try:
            return super().parse_args(ctx, args)
        except (UserError, click.ClickException) as error:
            from plinth.runtime.mpi import world

            fault = said(error) if isinstance(error, click.ClickException) else error
            try:
                ranks = world()
            except UserError:
                raise fault from None
            _end_together(ranks, fault)
            raise


def _options() -> list[click.Parameter]:
    """Those of `train` but those that are others here, and those of ranks."""
    own: list[click.Parameter] = [
        click.Option(["--device"], type=click.Choice(["golden", "numpy", "cosim"]), default="golden", show_default=True,
                     help="golden: bit for bit as dies; numpy: fast, equal to rounding; cosim: dies in RTL"),
        click.Option(["--threads"], type=IntegerRange(1, limits.MAXIMUM_THREADS),
                     help="simulation threads of each process with --device cosim; default: this machine's processors, "
                     "shared by its processes"),
        click.Option(["--reduce"], type=click.Choice(["ring", "library"]), default="ring", show_default=True,
                     help="what sums gradients with --device numpy: rings, with the same bits in any number of ranks, "
                     "or MPI's all-reduce")]
    return [*(parameter for parameter in train.params if parameter.name not in _OTHERS), *own]


@cli.command("run", cls=_OfRanks, params=_options())
@naming_checkpoint
def run(device: str, threads: int | None, **options: Any) -> None:
    """Train NETWORK (a name, a file, or a plan's file; default: digits-mlp) on the golden model, in RTL or in numpy,
    its dies shared among the processes that `mpiexec -n P plinth run` starts together, each with one die or several;
    without mpiexec by one process."""
    check_local(options, typed())
    if options["local"] is not None:
        _run_locally(options)
        return
    options = without_local(options)
    from contextlib import ExitStack
    from dataclasses import replace

    from plinth.api.ranks import joined
    from plinth.driver.driver import RemoteDieError
    from plinth.driver.executor import check_settings
    from plinth.runtime.launcher import alone
    from plinth.runtime.mpi import world
    from plinth.runtime.processes import split_dies
    from plinth.train.job import executor_settings, run_job

    ranks = world()
    asked: Run | None = None
    fault: BaseException | None = None
    try:
        asked = train_job(devices=(device,), bitstream=None, threads=threads, **options)
        shares = split_dies(asked.job.array.dies, ranks.size)
    except click.ClickException as error:
        fault = said(error)
    except MemoryError:
        fault = UserError(OUT_OF_MEMORY)
    except BaseException as error:
        # Whatever it is, the other ranks wait for this one's word.
        fault = error
    _end_together(ranks, fault)
    assert asked is not None
    if ranks.size == 1:
        if alone():
            click.echo("note: mpiexec did not start this process: it is the only rank, with all dies", err=True)
        asked.train()
        return
    try:
        check_settings("settings", ranks.communicator.allgather(executor_settings(asked.job)))
    except UserError as error:
        _say_once(ranks, error, dict.fromkeys(range(ranks.size), cause(error)))
    _say_places(ranks)
    job, ends = joined(ranks, asked.job, shares)
    try:
        with ExitStack() as open_ends:
            open_ends.enter_context(ends)
            if ranks.rank == 0:
                # What is written behind the last step is no matter of the other ranks.
                replace(asked, job=job).train(open_ends.close)
            else:
                run_job(replace(job, out=None), lambda result, total: None, lambda text: None)
    except RemoteDieError:
        # The rank whose error it is says it.
        sys.exit(MENDABLE)
    except (UserError, MemoryError) as error:
        fault = error if isinstance(error, UserError) else UserError(OUT_OF_MEMORY)
        _say_once(ranks, fault, ends.endings | {ranks.rank: cause(fault)})


def _run_locally(options: dict[str, Any]) -> None:
    """Train by local networks: the first rank coordinates kernels on the others; one rank alone has them in threads."""
    from dataclasses import replace

    from plinth.driver.executor import check_settings
    from plinth.local.job import VIRTUAL, made, one_thread
    from plinth.local.ranks import MpiLinks, serve
    from plinth.runtime.mpi import check_threads, world

    ranks = world()
    if ranks.size == 1:
        train_locally(*local_job(options))
        return
    fault: BaseException | None = None
    try:
        check_threads()
        job, as_json = local_job(options)
        if job.clock == VIRTUAL:
            raise UserError("clock=virtual runs all kernels in one process; leave it out, or mpiexec")
    except (UserError, MemoryError) as error:
        fault = error if isinstance(error, UserError) else UserError(OUT_OF_MEMORY)
    _end_together(ranks, fault)
    # What fits a kernel is measured, by one rank.
    job = replace(job, widths=ranks.communicator.bcast(job.widths))
    try:
        training = made(job)
    except UserError as error:
        fault = error
    _end_together(ranks, fault)
    try:
        check_settings("settings", ranks.communicator.allgather(job.texts()))
    except UserError as error:
        _say_once(ranks, error, dict.fromkeys(range(ranks.size), cause(error)))
    _say_places(ranks)
    communicator = ranks.communicator.Dup()
    if ranks.rank:
        with one_thread():
            serve(communicator, training)
        return
    links = MpiLinks(communicator)

    def joined(training: LocalTraining, progress: Callable[[int, int], object]) -> MpiLinks:
        links.await_ready(len(training.kernels), progress)
        return links

    try:
        train_locally(job, as_json, joined)
    finally:
        links.close()
        if links.abandoned:
            # MPI would wait for what a rank that has ended was sent.
            sys.stdout.flush()
            communicator.Abort(0 if sys.exc_info()[1] is None else MENDABLE)


def _end_together(ranks: World, fault: BaseException | None) -> None:
    """Go on if no rank has found a fault in what is asked for; else all end, and one of them says why."""
    from plinth.runtime.mpi import told_by_all

    faults = dict(enumerate(told_by_all(ranks, None if fault is None else cause(fault))))
    if isinstance(fault, UserError):
        _say_once(ranks, fault, faults)
    if fault is not None:
        raise fault
    if any(faults.values()):
        sys.exit(MENDABLE)


def _say_places(ranks: World) -> None:
    """Rank 0 says which process of which host each rank is: of one that dies launchers name that. Collective."""
    hosts: dict[str, list[str]] = {}
    for rank, (host, process) in enumerate(ranks.communicator.allgather((node(), os.getpid()))):
        hosts.setdefault(host, []).append(f"{rank} (process {process})")
    for host, named in hosts.items() if ranks.rank == 0 else ():
        click.echo(f"ranks on {host}: {', '.join(named)}", err=True)


def _say_once(ranks: World, error: UserError, faults: Mapping[int, str | None]) -> NoReturn:
    """End with an error, but silently where a lower rank has the same; with the rank's number if some have not."""
    same = [rank for rank, fault in sorted(faults.items()) if fault == faults[ranks.rank]]
    if ranks.rank != same[0]:
        sys.exit(MENDABLE)
    if len(same) == ranks.size:
        raise error
    named = UserError(f"rank {ranks.rank}: {error}")
    for note in getattr(error, "__notes__", ()):
        named.add_note(note)
    raise named from error
