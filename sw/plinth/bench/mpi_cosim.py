"""Row about co-simulated dies shared among ranks; ``python -m plinth.bench.mpi_cosim DIES`` is what a rank runs."""

import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from plinth.bench import harness
from plinth.bench.row import BenchRow
from plinth.errors import UserError
from plinth.runtime.mpi import world
from plinth.runtime.mpi_cosim import MpiLockstep
from plinth.runtime.processes import split_dies

#: Dies, ranks of one thread each, and pairs of runs.
DIES, RANKS, PAIRS = 8, 2, 3


def _rate_of_ranks(dies: int, ranks: int) -> float:
    """Die-cycles a second of dies shared among ranks of one thread each.

    Raises
    ------
    UserError
        If there is no launcher, or a rank fails, with what it complains of.
    """
    own = Path(sys.executable).with_name("mpiexec")
    launcher = str(own) if own.exists() else shutil.which("mpiexec")
    if launcher is None:
        raise UserError("there is no mpiexec; put that of this machine's MPI on PATH")
    run = subprocess.run([launcher, "-n", str(ranks), sys.executable, "-m", "plinth.bench.mpi_cosim", str(dies)],
                         capture_output=True, text=True)
    if run.returncode:
        raise UserError(f"ranks ended with exit code {run.returncode}: {run.stderr.strip().splitlines()[-1:]}")
    return float(run.stdout)


def mpi_cosim_scaling() -> list[BenchRow]:
    """Eight dies on two ranks of one thread each over one process of two threads; median of three pairs."""
    pairs = [(_rate_of_ranks(DIES, RANKS), harness.rate(DIES, RANKS)) for _ in range(PAIRS)]
    return [BenchRow("mpi_cosim_scaling", statistics.median(ranks / threads for ranks, threads in pairs), "ratio",
                     "an exchange each epoch, and dies that belong to one rank",
                     {"pairs": [{"two_ranks": ranks, "two_threads": threads} for ranks, threads in pairs]})]


def main() -> None:
    """A rank; the first one prints the rate."""
    dies, ranks = int(sys.argv[1]), world()
    with MpiLockstep(ranks.communicator, split_dies(dies, ranks.size)) as lockstep:
        rate = harness.rate(dies, 1, lockstep)
    if ranks.rank == 0:
        print(rate)


#: Every row's name and the function that makes it.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {"mpi_cosim_scaling": mpi_cosim_scaling}

if __name__ == "__main__":
    main()
