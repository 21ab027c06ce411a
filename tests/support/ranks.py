"""Work of processes that ``mpiexec`` starts: ``python -m tests.support.ranks FOLDER`` is a rank's."""

import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from plinth.runtime.mpi import MpiTransport, world

ROOT = Path(__file__).resolve().parents[2]
#: Seconds after which ranks are taken to hang.
PATIENCE = 300


def mpiexec(ranks: int, *command: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command of this Python in several ranks, with the launcher of its environment, until all have ended."""
    own = Path(sys.executable).with_name("mpiexec")
    launcher = str(own) if own.exists() else shutil.which("mpiexec")
    assert launcher is not None, "no mpiexec: `make` installs that of the lock file"
    return subprocess.run([launcher, "-n", str(ranks), sys.executable, *command], cwd=ROOT, text=True,
                          capture_output=True, timeout=PATIENCE, **options)


def in_ranks(processes: Sequence[Sequence[int]], work: Callable[[Any], Any]) -> list[Any]:
    """``work(transport)`` in a rank for each of ``processes``; what it returns in each."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "work").write_bytes(pickle.dumps((processes, work)))
        run = mpiexec(len(processes), "-m", "tests.support.ranks", str(folder))
        assert run.returncode == 0, run.stderr
        return [pickle.loads((folder / str(rank)).read_bytes()) for rank in range(len(processes))]


def main() -> None:
    """A rank: it reads its work, and writes what comes of it."""
    folder, ranks = Path(sys.argv[1]), world()
    processes, work = pickle.loads((folder / "work").read_bytes())
    with MpiTransport(ranks.communicator, processes) as transport:
        outcome = work(transport)
    (folder / str(ranks.rank)).write_bytes(pickle.dumps(outcome))


if __name__ == "__main__":
    main()
