"""Properties of the machine that runs this process: MPI's launcher, memory. The doctor asks, too, where there may be no
numpy."""

import re
import shutil
import sys
from pathlib import Path

from plinth.errors import UserError
from plinth_hw.installation import install


def found_launcher() -> str:
    """Path of the ``mpiexec`` of this Python's environment, else of PATH; empty if there is none."""
    own = Path(sys.executable).with_name("mpiexec")
    return str(own) if own.exists() else shutil.which("mpiexec") or ""


def mpi_launcher() -> str:
    """Path of the ``mpiexec`` that starts ranks of this Python.

    Raises
    ------
    UserError
        If there is none.
    """
    if not (launcher := found_launcher()):
        raise UserError(f"there is no mpiexec in this environment or on PATH; {install('mpi')}")
    return launcher


def free_memory() -> int | None:
    """Bytes of memory that programs can still get; None if the system does not say."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    match = re.search(r"MemAvailable:\s+(\d+) kB", text)
    return int(match[1]) << 10 if match else None
