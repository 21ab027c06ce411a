"""The one exception class for what a user can mend, a wrong file, flag, size or tool; text as terminals may show it.

What files hold reaches people through these messages, so they are made safe here, where they are made.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb

#: Longest message, in characters.
MAXIMUM_MESSAGE = 1000
#: Most characters of a message's end, which has the remedy, that are kept when it is cut.
_TAIL = 300


def one_line(text: str, most: int = MAXIMUM_MESSAGE) -> str:
    """Text on one line, without what steers a terminal or reorders text, cut in the middle.

    White space becomes single spaces; control and formatting characters (escape sequences, bidirectional overrides)
    and halves of surrogates are shown as Python writes them, ``\\x1b``.
    """
    text = " ".join(text.split())
    if not text.isprintable():
        text = "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
    tail = min(_TAIL, most // 2)
    return text if len(text) <= most else f"{text[:most - tail - 5]} ... {text[-tail:]}"


def quoted(text: str, most: int = 64) -> str:
    """A name from a file or a flag as messages show it: in quotes, escaped, cut."""
    return repr(text if len(text) <= most else f"{text[:most]}...")


def cause(error: BaseException) -> str:
    """What an error says, on one line, to who has not seen its traceback: of others than :class:`UserError` what it is
    and where it was raised, too."""
    if isinstance(error, UserError):
        return str(error)
    # An interruption is no fault of the code that it meets.
    text, frames = one_line(str(error)), extract_tb(error.__traceback__) if isinstance(error, Exception) else ()
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}{f': {text}' if text else ''}{where}"


class UserError(Exception):
    """One line that says where, what, and the remedy; the command line prints it and exits with 2.

    Parameters
    ----------
    message : str
        The line.
    notes : sequence of str
        Further lines, one for each of several faults. Python shows them behind the message, as the command line does.
    """

    def __init__(self, message: str, notes: Sequence[str] = ()) -> None:
        super().__init__(one_line(message))
        for note in notes:
            self.add_note(one_line(note))

    @property
    def notes(self) -> tuple[str, ...]:
        """Further lines beside the message, one for each of several faults."""
        return tuple(getattr(self, "__notes__", ()))


@contextmanager
def about(where: str | Path, kind: type[Exception] | None = None) -> Iterator[None]:
    """Errors of what is done within are told of a file, or of a part of one, whose name comes before them.

    Parameters
    ----------
    where : str or Path
        The file or its part.
    kind : exception class, optional
        Which errors; left out: :class:`UserError`.

    Raises
    ------
    UserError
        In place of them.
    """
    kind = kind or UserError
    try:
        yield
    except kind as error:
        raise UserError(f"{where}: {error}", getattr(error, "notes", ())) from error
