"""The command that trains by several processes: `run`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from plinth.cli.group import cli
from plinth.cli.training import Run, train, train_job
from plinth.errors import UserError
from plinth_hw.terminal.program import MENDABLE

if TYPE_CHECKING:
    from plinth.runtime.mpi import World

#: Options of `train` for dies in RTL, and on boards.
_OF_RTL = ("devices", "bitstream", "threads", "waves")


@cli.command("run", params=[parameter for parameter in train.params if parameter.name not in _OF_RTL])
def run(**options: Any) -> None:
    """Train NETWORK (a name, a file, or a plan's file; default: digits-mlp) on the golden model, its dies shared among
    the processes that `mpiexec -n P plinth run` starts together, each with one die or several; without mpiexec by one
    process."""
    from dataclasses import replace

    from plinth.driver.driver import RemoteDieError
    from plinth.runtime.mpi import MpiTransport, world
    from plinth.runtime.processes import split_dies
    from plinth.train.job import GOLDEN, run_job

    ranks = world()
    asked: Run | None = None
    fault: UserError | None = None
    try:
        asked = train_job(devices=(GOLDEN,), bitstream=None, threads=None, waves=None, **options)
        shares = split_dies(asked.job.array.dies, ranks.size)
    except UserError as error:
        fault = error
    _end_together(ranks, fault)
    assert asked is not None
    if ranks.size == 1:
        asked.train()
        return
    try:
        with MpiTransport(ranks.communicator, shares) as transport:
            if ranks.rank == 0:
                replace(asked, job=replace(asked.job, transport=transport)).train()
            else:
                run_job(replace(asked.job, transport=transport, out=None), lambda result, total: None,
                        lambda text: None)
    except RemoteDieError:
        # The rank whose error it is says it.
        sys.exit(MENDABLE)
    except UserError as error:
        raise _of_rank(ranks, error) from error


def _of_rank(ranks: World, error: UserError) -> UserError:
    named = UserError(f"rank {ranks.rank}: {error}")
    for note in getattr(error, "__notes__", ()):
        named.add_note(note)
    return named


def _end_together(ranks: World, fault: UserError | None) -> None:
    """Go on if no rank has found a fault in what is asked for; else all end, and one of them says why."""
    faults = ranks.communicator.allgather(None if fault is None else str(fault))
    if not any(faults):
        return
    first = next(rank for rank, text in enumerate(faults) if text is not None)
    if fault is None or first != ranks.rank:
        sys.exit(MENDABLE)
    raise fault if len(set(faults)) == 1 else _of_rank(ranks, fault)
