"""What launchers of MPI programs tell a process, and what it tells them where it never comes to MPI itself."""

import array
import fcntl
import os
import stat
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from contextlib import suppress

from plinth.errors import UserError
from plinth.host import mpi_launcher

#: Where launchers say how many processes they have started, and which this one is: MPICH's, Open MPI's, Slurm's.
LAUNCHED = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
NUMBERS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
#: The descriptor of standard error, as launchers have it.
STANDARD_ERROR = 2
#: Seconds for which a process that is about to end all waits until the launcher has read what it has said.
READ_SECONDS = 5.0
#: One BLAS thread a rank, as ranks share the machine.
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
#: Seconds after which ranks are taken to hang.
PATIENCE = 600


def launched() -> dict[str, int]:
    """The number of processes that were started together, by the launchers' variables that say so; those of one are
    left out."""
    return {name: int(text) for name in LAUNCHED if (text := os.environ.get(name, "")).isdecimal() and int(text) > 1}


def alone() -> bool:
    """Whether no launcher has started this process, not even as the one of its run."""
    return not any(os.environ.get(name, "").isdecimal() for name in LAUNCHED)


def who() -> str:
    """``"rank 3: "``, of one of several processes before it knows that from MPI; of one alone nothing."""
    numbers = [text for name in NUMBERS if (text := os.environ.get(name, "")).isdecimal()]
    return f"rank {numbers[0]}: " if launched() and numbers else ""


def await_reader(descriptor: int, seconds: float = READ_SECONDS) -> None:
    """Wait until all that was written to a pipe has been read, or so long; for what is no pipe, not at all.

    Launchers carry what their processes say, and drop what they have not read when they are told to end them: the line
    that says why would be lost.
    """
    until, unread = time.monotonic() + seconds, array.array("i", [0])
    with suppress(OSError):
        while stat.S_ISFIFO(os.fstat(descriptor).st_mode) and time.monotonic() < until:
            fcntl.ioctl(descriptor, termios.FIONREAD, unread)
            if not unread[0]:
                return
            time.sleep(1e-3)


def end_others(code: int) -> None:
    """End the processes that were started with this one, if it never came to MPI, where they wait for it.

    Other launchers do that of their own; MPICH's waits for a process that ends by an exit code, but takes its word (a
    line of PMI version 1) and then ends with that code itself.
    """
    channel = os.environ.get("PMI_FD", "")
    if launched() and channel.isdecimal() and "mpi4py.MPI" not in sys.modules:
        await_reader(STANDARD_ERROR)
        with suppress(OSError):
            os.write(int(channel), f"cmd=abort exitcode={code}\n".encode())


def rank_command(ranks: int, program: Sequence[str]) -> list[str]:
    """What starts a program of this Python in several ranks.

    Raises
    ------
    UserError
        If there is no launcher.
    """
    return [mpi_launcher(), "-n", str(ranks), sys.executable, *program]


def printed(ranks: int, program: Sequence[str], seconds: float = PATIENCE) -> str:
    """What a program of this Python prints in several ranks, one BLAS thread each, in at most so many seconds.

    Raises
    ------
    UserError
        If there is no launcher, or the program fails: its last words.
    """
    run = subprocess.run(rank_command(ranks, program), text=True, capture_output=True, timeout=seconds, check=False,
                         env=os.environ | ENVIRONMENT)
    if run.returncode:
        raise UserError(run.stderr.strip().removeprefix("plinth: error: "))
    return run.stdout
