"""What a proof is: a block, claims about it, and twins of the block that are broken so that a claim fails."""

import importlib
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType

from tests.prove.harness import Harness, Start


@dataclass(frozen=True)
class Twin:
    """The block with one line changed: the claim must fail within ``cycles``.

    Parameters
    ----------
    claim : str
    before, after : str
        Part of the source of the block's module, which occurs once, and what stands in its place.
    """

    claim: str
    before: str
    after: str
    cycles: int = 12


def changed(code: ModuleType, changes: Iterable[tuple[str, str]]) -> ModuleType:
    """A module with parts of its source replaced.

    Raises
    ------
    ValueError
        If one of them does not occur in it once.
    """
    source = inspect.getsource(code)
    for before, after in changes:
        if source.count(before) != 1:
            raise ValueError(f"{code.__name__} has {before!r} {source.count(before)} times, not once")
        source = source.replace(before, after)
    twin = ModuleType(code.__name__)
    twin.__file__ = code.__file__
    exec(compile(source, f"<twin of {code.__name__}>", "exec"), twin.__dict__)
    return twin


@dataclass(frozen=True)
class Proof:
    """Claims about one block.

    Parameters
    ----------
    name : str
    module : str
        Where the block stands.
    build : callable
        Fills a harness with the block, taken from the module that it is given.
    cycles : int
        Length of the induction; or, with ``bounded``, the cycles after reset for which the claims are shown to hold.
    twins : tuple of Twin
        At least one for each claim.
    """

    name: str
    module: str
    build: Callable[[Harness, ModuleType], None]
    cycles: int
    twins: tuple[Twin, ...]
    bounded: bool = False
    #: Changes that twins have as well, so that less time passes until their first access.
    shortcuts: tuple[tuple[str, str], ...] = ()
    #: FIFOs within the block are what is proved of FIFOs (:class:`~tests.prove.queue.Queue`).
    queues: bool = False
    #: Claims rest on state that a reset sets: through one they hold from any state, without one they do not.
    resets: bool = True
    #: Where a twin is looked for, memories are registers: so many cycles go by that it is quicker.
    mapped: bool = False

    @property
    def how(self) -> str:
        """By which it is shown."""
        return f"the first {self.cycles} cycles" if self.bounded else f"induction over {self.cycles}, no bound"

    def harness(self, twin: Twin | None = None, start: Start = Start.INITIAL) -> Harness:
        """The block, or its twin with the one claim that must fail, in its surroundings."""
        harness = Harness(None if twin is None else twin.claim, start)
        code = changed(importlib.import_module(self.module),
                       () if twin is None else ((twin.before, twin.after), *self.shortcuts))
        if self.queues:
            vars(code)["FIFO"] = harness.queue
        self.build(harness, code)
        return harness
