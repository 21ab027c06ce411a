"""Values that are kept from question to question, so many at most."""

from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

#: Values kept, where nothing else is said: of a large network's planner some hundreds, of each kind.
MOST_KNOWN = 1 << 15


class Known(dict[Key, Value]):
    """A cache: values by key. One more than ``most`` empties it first, so that a process that plans for one network
    after another does not grow; to find a value costs what it does in any dict.

    Parameters
    ----------
    most : int
        Values kept.
    """

    #: Of those that are unpickled, too, which are filled before they have a limit of their own.
    most = MOST_KNOWN

    def __init__(self, most: int = MOST_KNOWN) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: Key, value: Value) -> None:
        if len(self) >= self.most and key not in self:
            self.clear()
        super().__setitem__(key, value)
