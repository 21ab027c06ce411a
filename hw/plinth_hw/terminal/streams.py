"""Standard output and error of a program, whatever they are: closed, full, of an old encoding, or a pipe without a
reader.

Characters that the encoding cannot hold are replaced: by ASCII where there is a letter or a line that means the same,
else as Python writes them (``\\xe9``). What cannot be written to standard output ends the program by an
:class:`OutputError`; standard error falls silent, for nobody could be told.
"""

import os
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

#: What stands for characters that an encoding does not have, one for one, so that columns stay where they are: both
#: micro signs, dashes, the mark of a cut text, signs; lines of tables and bars; quotation marks.
REPLACEMENTS = str.maketrans(
    "\u00b5\u03bc\u2013\u2014\u2026\u00d7\u2022\u2264\u2265\u2192\u2500\u2501\u2550\u257a\u2578\u2502\u2503\u2551\u2588"
    "\u2018\u2019\u201c\u201d", "uu--.x*<>>-----|||#''\"\"")


def replaced(text: str, encoding: str) -> str:
    """The text with what ``encoding`` cannot hold replaced."""
    with suppress(UnicodeEncodeError):
        text.encode(encoding)
        return text
    return "".join(_letter(letter, encoding) for letter in text)


def _letter(letter: str, encoding: str) -> str:
    for choice in (letter, letter.translate(REPLACEMENTS)):
        with suppress(UnicodeEncodeError):
            choice.encode(encoding)
            return choice
    if unicodedata.name(letter, "").startswith("BOX DRAWINGS"):
        return "+"
    return letter.encode("ascii", "backslashreplace").decode()


class OutputError(Exception):
    """Standard output cannot be written.

    It is no OSError, so that whoever writes a file beside a message does not take it for that file's.
    """

    def __init__(self, cause: OSError) -> None:
        super().__init__(f"standard output: {cause.strerror or cause}")
        self.cause = cause


class Stream:
    """A text stream in front of another one.

    It has no ``buffer``: click would write UTF-8 there, past an encoding of ASCII.

    Parameters
    ----------
    stream : TextIO
    fatal : bool
        Whether a failure is raised, or else silences the stream.
    """

    def __init__(self, stream: TextIO, *, fatal: bool) -> None:
        self._stream, self._fatal = stream, fatal
        self._failure: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self._stream, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stream)

    def write(self, text: str) -> int:
        """Write text, with characters that the encoding cannot hold replaced.

        Raises
        ------
        OutputError
            If the stream cannot be written, now or before.
        """
        self._check()
        if self._failure is None:
            try:
                try:
                    self._stream.write(text)
                except UnicodeEncodeError:
                    self._stream.write(replaced(text, self._stream.encoding))
            except OSError as error:
                self._fail(error)
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write several texts, as :meth:`write` does."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Hand everything to the system.

        Raises
        ------
        OutputError
            If it does not take it, or has not taken what came before.
        """
        self._check()
        if self._failure is None:
            try:
                self._stream.flush()
            except OSError as error:
                self._fail(error)

    def _fail(self, error: OSError) -> None:
        """From now on nothing is written, nor what waits to be, at the end of the interpreter."""
        self._failure = error
        with suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)
        self._check()

    def _check(self) -> None:
        """Raise the failure, each time: libraries that try a stream swallow what they meet, as click does."""
        if self._fatal and self._failure is not None:
            raise OutputError(self._failure)


def open_descriptors() -> None:
    """Open those of the three standard descriptors that are closed, onto nothing: else the next file that is opened
    gets the number, and whatever children print goes there."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


@contextmanager
def standard_streams() -> Iterator[None]:
    """Puts a :class:`Stream` in front of standard output and error; a closed one takes everything."""
    open_descriptors()
    before = sys.stdout, sys.stderr
    with open(os.devnull, "w", encoding="utf-8") as nothing:
        sys.stdout = Stream(before[0] or nothing, fatal=True)  # type: ignore[assignment]
        sys.stderr = Stream(before[1] or nothing, fatal=False)  # type: ignore[assignment]
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before
