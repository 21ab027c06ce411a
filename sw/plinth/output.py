"""Writing files: readers see the old file or the whole new one."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from plinth.errors import UserError


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a file beside ``path``, then put it in its place; folders are made.

    Raises
    ------
    UserError
        If the file cannot be written.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); choose another place") from error
    finally:
        with suppress(OSError):
            temporary.unlink()
