"""How far something is: told to a callback, shown as a bar, or kept to itself."""

from collections.abc import Callable
from typing import Any, TypeAlias

from plinth.api.arguments import shown
from plinth.errors import UserError
from plinth_hw.terminal.activity import Activity

#: What the argument ``progress`` may be: called with what is done, of how much (0: nobody knows), and what; True for a
#: bar on standard error, or lines where that is no terminal; None for silence.
Progress: TypeAlias = Callable[[float, float, str], object] | bool | None


class Told(Activity):
    """An activity that shows nothing: it tells a callback, if there is one, and keeps what is said.

    Attributes
    ----------
    said : list of str
    """

    def __init__(self, what: str, callback: Callable[[float, float, str], object] | None) -> None:
        super().__init__(what)
        # There is nobody for lines of a caller's own.
        self.bar = True
        self.said: list[str] = []
        self._callback = callback

    def __enter__(self) -> "Told":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin(self, what: str, unit: str = "", total: float = 0) -> None:
        """Go on with something else."""
        self._what, self._note, self._done, self._total = what, "", 0.0, total
        self._tell()

    def update(self, done: float, total: float | None = None, note: str | None = None) -> None:
        """So much is done, of how much, and what else is to be told."""
        self._done = done
        self._total = self._total if total is None else total
        self._note = self._note if note is None else note
        self._tell()

    def say(self, text: str) -> None:
        """Keep a line that the run says, such as a note, for the result."""
        self.said.append(text)

    def _tell(self) -> None:
        if self._callback is not None:
            self._callback(self._done, self._total, f"{self._what}: {self._note}" if self._note else self._what)


def activity(progress: Any, what: str, unit: str) -> Activity:
    """The activity that an argument ``progress`` asks for; a context.

    Raises
    ------
    UserError
        If it is none of a callable, True, False and None.
    """
    if progress is True:
        return Activity(what, unit)
    if progress is not None and progress is not False and not callable(progress):
        raise UserError(f"progress must be a callable of (done, total, text), True or None, not {shown(progress)}")
    return Told(what, progress or None)
