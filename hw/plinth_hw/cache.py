"""Results that are kept in folders, made once whoever asks for them, and believed only while they are what was kept.

A folder is filled under another name and renamed when it is complete, so that there is never half of one; a lock file
beside it keeps concurrent makers from doing the work twice. ``SHA256SUMS`` in it has the checksums of its results, as
``sha256sum --check`` reads them. They are compared before a result is used: loading a damaged library would end the
process by a signal. What is damaged, incomplete or unreadable, or has no checksum, is made again, with a line that says
so.
"""

import fcntl
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: File of the checksums of a folder's results.
CHECKSUMS = "SHA256SUMS"

_log = logging.getLogger(__name__)


def digest(*parts: str | bytes) -> str:
    """Hash of strings, in order, for naming a cached result."""
    total = hashlib.sha256()
    for part in parts:
        encoded = part.encode() if isinstance(part, str) else part
        total.update(len(encoded).to_bytes(8, "little"))
        total.update(encoded)
    return total.hexdigest()[:24]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock on a file; the system releases it when the process ends, however it ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _checksums(folder: Path, results: tuple[str, ...]) -> str:
    """Lines of :data:`CHECKSUMS`."""
    lines = []
    for name in results:
        with open(folder / name, "rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
    return "".join(lines)


def _is_whole(folder: Path, results: tuple[str, ...]) -> bool:
    """Whether all results are in the folder, and what they were when they were kept."""
    try:
        return (folder / CHECKSUMS).read_bytes() == _checksums(folder, results).encode()
    except OSError:
        return False


def _remove(path: Path) -> None:
    """Remove a file or a folder, as far as the system lets."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


@contextmanager
def cached_folder(folder: Path, *results: str) -> Iterator[Path | None]:
    """Makes a result folder atomically: yields a scratch folder to fill, or None if the results exist.

    The scratch folder becomes ``folder`` when the block ends without an exception. A folder whose results are damaged
    is replaced; those who read or run the old ones keep them.

    Parameters
    ----------
    folder : Path
        Named after a hash of all that decides the results.
    results : str
        Files of the folder that are used later. What else is put into it, is for people.

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    if _is_whole(folder, results):
        yield None
        return
    with locked(folder.with_name(f"{folder.name}.lock")):
        if _is_whole(folder, results):
            yield None
            return
        for stale in folder.parent.glob(f"{folder.name}.part-*"):
            _remove(stale)
        if os.path.lexists(folder):
            fault = "was damaged" if (folder / CHECKSUMS).exists() else "has no checksums"
            _log.warning("%s %s; building it again", folder, fault)
        scratch = Path(tempfile.mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
        # Of the same name pattern, so that the next maker removes what a killed one left.
        damaged = scratch.with_name(f"{scratch.name}-damaged")
        try:
            yield scratch
            (scratch / CHECKSUMS).write_text(_checksums(scratch, results), encoding="utf-8")
            if os.path.lexists(folder):
                folder.rename(damaged)
            scratch.rename(folder)
        finally:
            _remove(scratch)
            _remove(damaged)
