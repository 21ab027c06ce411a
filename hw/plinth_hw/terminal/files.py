"""Files of which readers see the old one or the whole new one, whatever ends the program or fills the disk.

A symbolic link stays: the file that it points to is written, from beside that file.
"""

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def followed(path: Path) -> Path:
    """What is written for ``path``: where it leads to if it is a symbolic link, which need not exist yet."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def is_same(path: Path, other: Path) -> bool:
    """Whether two paths lead to one file, by links or otherwise; there need not be one yet."""
    try:
        return path.samefile(other)
    except OSError:
        return os.path.realpath(path) == os.path.realpath(other)


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Keeps other programs that ask for it out of a folder, until the context or the process ends, however that ends.

    Nothing is left in the folder. File systems without locks keep nobody out.

    Raises
    ------
    BlockingIOError
        If another program has the folder.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            pass
        yield
    finally:
        os.close(descriptor)


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A file beside ``path``, to be filled, which is gone behind; folders are made."""
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    path = followed(path)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from error
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a file beside ``path``, then put it in its place; folders are made.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    with beside(path) as temporary:
        write(temporary)
        os.replace(temporary, followed(path))


def write_text(path: Path, text: str) -> None:
    """The same with text, as UTF-8."""
    write_whole(path, lambda place: place.write_text(text, encoding="utf-8"))
