"""Where MPI's launcher is; the doctor asks, too, where numpy may be missing."""

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
