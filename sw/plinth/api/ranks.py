"""A training job whose dies the ranks of an MPI program share."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from plinth.driver.executor import check_settings
from plinth.errors import UserError, cause
from plinth.files.forms import described
from plinth.runtime.mpi import IDLE_SECONDS, NAP_SECONDS, MpiTransport, World, check_threads, told_by_all
from plinth.runtime.mpi_cosim import MpiLockstep, threads_of_rank
from plinth.runtime.processes import split_dies
from plinth.train.job import COSIM, NUMPY, JobOptions, executor_settings


@contextmanager
def shared(communicator: Any, asked: Callable[[], JobOptions]) -> Iterator[JobOptions]:
    """What is asked for, with the transport that joins the communicator's ranks, if there are several. Collective.

    Raises
    ------
    UserError
        In all ranks, if one of them is asked for what cannot be, or they have different devices or reductions.
    """
    if not all(callable(getattr(communicator, name, None)) for name in ("Get_size", "Get_rank", "Dup", "improbe")):
        raise UserError(f"executor must be a communicator of mpi4py, not {described(communicator)}")
    if not communicator or communicator.Is_inter():
        raise UserError("executor must be a communicator of the ranks that train together, not "
                        f"{'an intercommunicator' if communicator else 'COMM_NULL'}; give none where a rank trains "
                        "by itself")
    job: JobOptions | None = None
    fault: UserError | None = None
    try:
        check_threads()
        job = asked()
        shares = split_dies(job.array.dies, communicator.Get_size())
    except UserError as error:
        fault = error
    own = World(communicator, communicator.Get_size(), communicator.Get_rank())
    faults = told_by_all(own, None if fault is None else cause(fault))
    if fault is not None:
        raise fault
    for rank, text in enumerate(faults):
        if text is not None:
            raise UserError(f"rank {rank}: {text}")
    assert job is not None
    check_settings("settings", communicator.allgather(executor_settings(job)))
    if len(shares) == 1:
        yield job
        return
    shared_job, ends = joined(own, job, shares)
    with ends:
        yield shared_job


def joined(ranks: World, job: JobOptions, shares: Sequence[Sequence[int]]
           ) -> tuple[JobOptions, MpiTransport | MpiLockstep]:
    """A job whose dies several ranks share, and what joins them, to be entered where the job runs. Collective.

    Parameters
    ----------
    ranks : World
    job : JobOptions
        Of all dies; co-simulated ones share the machine's processors if it says no number of threads.
    shares : sequence of sequences of int
        The dies of each rank.
    """
    if job.device == COSIM:
        lockstep = MpiLockstep(ranks.communicator, shares)
        return replace(job, lockstep=lockstep, threads=job.threads or threads_of_rank(ranks)), lockstep
    # What numpy sends goes by itself: there are letters where ranks end alone.
    transport = MpiTransport(ranks.communicator, shares,
                             nap_seconds=IDLE_SECONDS if job.device == NUMPY else NAP_SECONDS)
    return replace(job, transport=transport), transport
