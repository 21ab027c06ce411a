"""Files of arrays, read as untrusted."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from plinth.errors import UserError

#: Largest file that is read, in bytes, also when unpacked.
MAXIMUM_BYTES = 1 << 32


@contextmanager
def untrusted_npz(path: Path, what: str, remedy: str) -> Iterator[Any]:
    """An open ``.npz`` file without pickled objects; what goes wrong inside is the file's fault.

    Parameters
    ----------
    what, remedy : str
        What the file ought to be, and where a good one comes from, for messages.

    Raises
    ------
    UserError
        If it cannot be read, is too large or damaged, or lacks an array.
    """
    try:
        if path.stat().st_size > MAXIMUM_BYTES:
            raise UserError(f"{path}: larger than {MAXIMUM_BYTES} bytes; {remedy}")
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MAXIMUM_BYTES:
                raise UserError(f"{path}: unpacks to more than {MAXIMUM_BYTES} bytes; {remedy}")
        with np.load(path, allow_pickle=False) as file:
            yield file
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error}); check the path") from error
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError) as error:
        raise UserError(f"{path}: damaged or not {what} ({error}); {remedy}") from error
