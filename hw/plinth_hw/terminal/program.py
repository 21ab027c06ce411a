"""The frame around a program: whatever happens within ends in one line and an exit code, never in a traceback.

======================================  =========  ==================================================
what ended it                           exit code  standard error
======================================  =========  ==================================================
what a user can mend                    2          one line: what, and the remedy; behind it notes
a file or standard output, by a system  2          one line: which, why, and the remedy
a pipe that nobody reads any more       141        nothing, as other tools
Ctrl-C, SIGTERM, SIGHUP                 130        one line; child processes are ended first
======================================  =========  ==================================================

An error of the program itself keeps its traceback: it is to be reported.
"""

import errno
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from plinth_hw.terminal.streams import OutputError, standard_streams

#: Exit codes, beside 0 and what a program says itself.
MENDABLE, INTERRUPTED, NO_READER = 2, 130, 141
#: Signals that interrupt. SIGHUP comes when a terminal goes away; under nohup it is ignored and stays so.
SIGNALS = (signal.SIGINT, signal.SIGTERM, *((signal.SIGHUP,) if hasattr(signal, "SIGHUP") else ()))


def _parents() -> dict[int, list[int]]:
    """Of all processes of the system the children; nothing where there is no /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            # The name, in parentheses, may hold anything.
            parent = int(entry.read_text(errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.parent.name))
    return children


def end_children() -> None:
    """Ask all processes that this one has started, and those that they have, to end."""
    children, waiting = _parents(), [os.getpid()]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            waiting.append(child)
            with suppress(OSError):
                os.kill(child, signal.SIGTERM)


def end_with_parent() -> None:
    """In a worker, at its start: end when the process that started it does, however that ends."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="parent").start()


class Interruption(BaseException):
    """An interruption on its way through a library that would answer KeyboardInterrupt itself, as click does."""


@contextmanager
def _interruptible(last: bool) -> Iterator[Callable[[], None]]:
    """Within, each of :data:`SIGNALS` that is not ignored ends child processes and raises KeyboardInterrupt, until
    what this yields is called: then they are ignored, and with ``last`` behind it, too."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    own = os.getpid()

    def interrupt(number: int, _: FrameType | None) -> NoReturn:
        if os.getpid() != own:
            # A worker that was forked: it ends as if there were no handler.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        end_children()
        raise KeyboardInterrupt

    usual = (signal.SIG_DFL, signal.default_int_handler)
    before = {number: handler for number in SIGNALS if (handler := signal.getsignal(number)) in usual}

    def ignore() -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)

    try:
        for number in before:
            signal.signal(number, interrupt)
        yield ignore
    finally:
        ignore()
        if not last:
            for number, handler in before.items():
                signal.signal(number, handler)


#: What is said where memory ends.
OUT_OF_MEMORY = "more memory is needed than there is; give smaller files, networks or batches"


@contextmanager
def program(name: str, mendable: tuple[type[Exception], ...] = (), *, kept: str = "", last: bool = True
            ) -> Iterator[None]:
    """Run a program within; it ends as the table above says, by SystemExit unless the code is 0.

    Parameters
    ----------
    name : str
        What messages begin with.
    mendable : tuple of exception classes
        Their text is the message, their notes (:pep:`678`) are further lines, and the exit code is 2.
    kept : str
        What is still there after an interruption, as its line ends.
    last : bool
        Whether the process ends behind it; its caller gets its signals back if not.
    """
    with standard_streams(), _interruptible(last) as ignore_signals, _quiet_end(last):
        try:
            try:
                try:
                    yield
                finally:
                    sys.stdout.flush()
            except (KeyboardInterrupt, Interruption):
                ignore_signals()
                _interrupted(name, kept)
            except mendable as error:
                _end(name, str(error), getattr(error, "__notes__", ()))
            except MemoryError:
                _end(name, OUT_OF_MEMORY)
            except OSError as error:
                where = f"{error.filename}: " if error.filename else ""
                _end(name, f"{where}{error.strerror or error}; {_remedy(error)}")
            except Exception as error:
                _end_of_click(name, kept, error)
                raise
        except OutputError as error:
            if error.cause.errno == errno.EPIPE:
                raise SystemExit(NO_READER) from None
            _end(name, f"{error}; send it to where there is room")
        finally:
            sys.stderr.flush()


@contextmanager
def _quiet_end(last: bool) -> Iterator[None]:
    """Libraries warn of objects that were not used: there was no time to, if this process ends early."""
    try:
        yield
    except SystemExit:
        if last:
            warnings.simplefilter("ignore")
        raise


def _remedy(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "make room, or choose another place"
    return "choose another place, or mend this one"


def _end(name: str, message: str, notes: Sequence[str] = ()) -> NoReturn:
    lines = [f"{name}: error: {_printable(' '.join(message.split()))}", *notes]
    print("\n  ".join(lines), file=sys.stderr)
    raise SystemExit(MENDABLE) from None


def _printable(text: str) -> str:
    """Text without what steers a terminal: names of files may have anything in them."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def _interrupted(name: str, kept: str) -> NoReturn:
    print(f"{name}: interrupted{'; ' * bool(kept)}{kept}", file=sys.stderr)
    raise SystemExit(INTERRUPTED) from None


def _end_of_click(name: str, kept: str, error: Exception) -> None:
    """Exceptions of click, if the program uses it, end it as click would, Ctrl-C as elsewhere."""
    if "click" not in sys.modules:
        return
    import click

    if isinstance(error, click.Abort):
        _interrupted(name, kept)
    if isinstance(error, click.ClickException):
        error.show()
        raise SystemExit(error.exit_code) from None
