"""Work of processes that ``mpiexec`` starts: ``python -m tests.support.ranks FOLDER`` is a rank's."""

import io
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from plinth import cli
from plinth.host import mpi_launcher
from plinth.runtime.mpi import MpiTransport, World, world
from plinth.runtime.mpi_cosim import MpiLockstep

ROOT = Path(__file__).resolve().parents[2]
#: Seconds after which ranks are taken to hang.
PATIENCE = 300


def mpiexec(ranks: int, *command: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command of this Python in several ranks, with the launcher of its environment, until all have ended; in
    their environment ``OUT`` is a folder for their results, which tests that run beside each other do not share."""
    with tempfile.TemporaryDirectory() as out:
        return subprocess.run([mpi_launcher(), "-n", str(ranks), sys.executable, *command], cwd=ROOT, text=True,
                              capture_output=True, timeout=PATIENCE, env=os.environ | {"OUT": out}, **options)


def in_ranks(processes: Sequence[Sequence[int]], work: Callable[[Any], Any],
             join: type[MpiTransport] | type[MpiLockstep] = MpiTransport) -> list[Any]:
    """``work(transport)`` in a rank for each of ``processes``, which are joined by a transport or in lockstep; what it
    returns in each."""
    return in_world(len(processes), _joined, processes, work, join)


def commands(ranks: int, cases: Sequence[Sequence[Sequence[str]]]) -> list[list[tuple[int, str, str]]]:
    """Commands of ``plinth`` one after the other, each in all ranks together, in the same processes.

    Parameters
    ----------
    ranks : int
    cases : sequence of sequence of sequence of str
        Of each command the arguments of each rank.

    Returns
    -------
    list of list of (int, str, str)
        Of each command and rank the exit code, standard output and standard error.
    """
    outcomes = in_world(ranks, _commands, cases)
    return [[outcome[number] for outcome in outcomes] for number in range(len(cases))]


def in_world(ranks: int, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """``work(world, *arguments)`` of a module in each rank; what it returns."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "work").write_bytes(pickle.dumps((work, arguments)))
        run = mpiexec(ranks, "-m", "tests.support.ranks", str(folder))
        assert run.returncode == 0, run.stderr
        return [pickle.loads((folder / str(rank)).read_bytes()) for rank in range(ranks)]


def _joined(ranks: World, processes: Sequence[Sequence[int]], work: Callable[[Any], Any],
            join: type[MpiTransport] | type[MpiLockstep]) -> Any:
    with join(ranks.communicator, processes) as joined:
        return work(joined)


def _commands(ranks: World, cases: Sequence[Sequence[Sequence[str]]]) -> list[tuple[int, str, str]]:
    outcomes = []
    for arguments in cases:
        code, out, err = 0, io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            try:
                cli.main([*arguments[ranks.rank]])
            except SystemExit as stop:
                code = int(stop.code or 0)
        outcomes.append((code, out.getvalue(), err.getvalue()))
    return outcomes


def main() -> None:
    """A rank: it reads its work, and writes what comes of it."""
    folder, ranks = Path(sys.argv[1]), world()
    work, arguments = pickle.loads((folder / "work").read_bytes())
    (folder / str(ranks.rank)).write_bytes(pickle.dumps(work(ranks, *arguments)))


if __name__ == "__main__":
    # What is pickled is of the module by its name.
    from tests.support import ranks

    ranks.main()
