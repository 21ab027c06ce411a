"""What is simulated: dies with memories, links, and the tasks and flows of a step. Plain data.

Units are seconds and words of 32 bits. Names of dies are their numbers; names of tasks and flows are any text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_NOWHERE: Integers = np.zeros(0, dtype=np.int64)
_NOTHING: Floats = np.zeros(0, dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class SimulatedDie:
    """One die's memory and speed.

    Parameters
    ----------
    words_per_second : float
        What its memory moves, reads and writes together.
    vaults : int
        Parts of the memory with a queue each; each moves an equal share.
    speed : float
        Seconds and latencies of its tasks are divided by it; 0.5 is a straggler that takes twice as long.

    Raises
    ------
    ValueError
        If a value is not above zero.
    """

    words_per_second: float
    vaults: int = 1
    speed: float = 1.0

    def __post_init__(self) -> None:
        for what, value in (("words_per_second", self.words_per_second), ("vaults", self.vaults),
                            ("speed", self.speed)):
            if not 0 < value < float("inf"):
                raise ValueError(f"{what} of a die must be above 0, not {value}")


@dataclass(frozen=True, kw_only=True)
class SimulatedLink:
    """One direction of a link.

    Parameters
    ----------
    words_per_second : float
        What it carries.
    queue : bool
        It is a queue: what goes through stays in its order, so all wait for one that others hold up further on.
    within : bool
        It is a part of a die, or stands behind a link: its words are not counted as words on links.
    turns : bool
        It serves requests in turn, as memories do: of those who would fill it, one moves as much more than another as
        its :attr:`Flow.turn` is longer.

    Raises
    ------
    ValueError
        If it carries nothing.
    """

    name: str
    words_per_second: float
    queue: bool = False
    within: bool = False
    turns: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.words_per_second < float("inf"):
            raise ValueError(f"link {self.name!r} must carry more than 0 words a second, not {self.words_per_second}")


@dataclass(frozen=True, kw_only=True)
class SimulatedArray:
    """Dies and links."""

    dies: tuple[SimulatedDie, ...]
    links: tuple[SimulatedLink, ...] = ()


class Wait(NamedTuple):
    """Until a counter has reached a value, and ``delay`` seconds more.

    Every task and flow raises the counter of its own name, and those of its ``signals``, by one when it is done.
    """

    counter: str
    reaches: int = 1
    delay: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineTask:
    """Work of one engine of one die. An engine's tasks start in the order in which they are given.

    Parameters
    ----------
    name : str
        Unique.
    die, engine
        Where it runs; an engine is any text.
    seconds : float
        For which it holds the engine if nobody else takes memory's rate.
    latency : float
        From the end of that until it is done, while the engine may go on.
    words : float
        Words that it moves in memory, spread evenly over the vaults.
    vaults : mapping of int to float
        Further words, of single vaults.
    waits, signals
        Before it starts; and counters beside its own that it raises by one when it is done.
    adds, multiplies, sram_words : float
        Counted for energy, with the words in memory.
    """

    name: str
    die: int
    engine: str
    seconds: float
    latency: float = 0.0
    words: float = 0.0
    vaults: Mapping[int, float] = field(default_factory=dict)
    waits: Sequence[Wait] = ()
    signals: Sequence[str] = ()
    adds: float = 0.0
    multiplies: float = 0.0
    sram_words: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Flow:
    """Words on their way: a message on the links of its path, or many that go on together at one pace.

    Parameters
    ----------
    name : str
        Unique.
    links, words : arrays of equal length
        Numbers of links, each once, in the order of the way, and the words that each carries.
    latency : float
        From the last word's start until it has arrived.
    seconds : float
        For which it goes on at least.
    dies, die_words : arrays of equal length
        Dies, each once, and the words that their memories move for it.
    die, engine
        The engine that it holds, in order with its tasks, while words leave; None and "": none.
    together : float
        Words that it and others like it have on one link, which share links with the rest as one flow.
    turn : float
        Where links or memories serve in turn, words that it moves when its turn comes, in one unit for all flows.
    exposed : float
        Seconds that it takes more where its words move half as fast as they could alone, and s - 1 times as much at 1/s
        of that; only what is served in turn slows it so.
    waits, signals
        As of tasks.
    adds, multiplies, sram_words : float
        Counted for energy, with the words on links and in memories.
    """

    name: str
    links: Integers = field(default_factory=lambda: _NOWHERE)
    words: Floats = field(default_factory=lambda: _NOTHING)
    latency: float = 0.0
    seconds: float = 0.0
    dies: Integers = field(default_factory=lambda: _NOWHERE)
    die_words: Floats = field(default_factory=lambda: _NOTHING)
    die: int | None = None
    engine: str = ""
    together: float = 0.0
    turn: float = 1.0
    exposed: float = 0.0
    waits: Sequence[Wait] = ()
    signals: Sequence[str] = ()
    adds: float = 0.0
    multiplies: float = 0.0
    sram_words: float = 0.0


Activity = EngineTask | Flow


def check(machine: SimulatedArray, activities: Sequence[Activity]) -> None:
    """Look through what is to be simulated.

    Raises
    ------
    ValueError
        If a name stands twice, a die, vault or link does not exist, a number is negative or not finite, or a counter
        that is waited for is raised less often.
    """
    dies, links, endless = len(machine.dies), len(machine.links), float("inf")
    raised: dict[str, int] = {}
    names: set[str] = set()
    for activity in activities:
        if activity.name in names:
            raise ValueError(f"two tasks are called {activity.name!r}")
        names.add(activity.name)
        for counter in (activity.name, *activity.signals):
            raised[counter] = raised.get(counter, 0) + 1
        if activity.die is not None and not 0 <= activity.die < dies:
            raise ValueError(f"{activity.name!r} is for die {activity.die}; dies are 0 to {dies - 1}")
        numbers = [activity.seconds, activity.latency, activity.adds, activity.multiplies, activity.sram_words]
        if isinstance(activity, EngineTask):
            numbers += (activity.words, *activity.vaults.values())
            for vault in activity.vaults:
                if not 0 <= vault < machine.dies[activity.die].vaults:
                    raise ValueError(f"{activity.name!r} uses vault {vault} of die {activity.die}, which has "
                                     f"{machine.dies[activity.die].vaults}")
        else:
            # Lists: most flows are on few links, where numpy takes longer.
            for places, words, what, count in (
                    (activity.links.tolist(), activity.words.tolist(), "link", links),
                    (activity.dies.tolist(), activity.die_words.tolist(), "die", dies)):
                if len(places) != len(words):
                    raise ValueError(f"{activity.name!r} names {len(places)} {what}s, but words for {len(words)}")
                if places and not (min(places) >= 0 and max(places) < count):
                    raise ValueError(f"{activity.name!r} names a {what} that does not exist; there are {count}")
                if len(places) > 1 and len(set(places)) < len(places):
                    raise ValueError(f"{activity.name!r} names a {what} twice")
                numbers += words
            numbers += (activity.together, activity.exposed)
            if not 0 < activity.turn < endless:
                raise ValueError(f"{activity.name!r} has turns of {activity.turn}, which must be positive and finite")
        for number in numbers:
            if not 0 <= number < endless:
                raise ValueError(f"{activity.name!r}: seconds, latencies, words and counts are at least 0, not "
                                 f"{number}")
    for activity in activities:
        for counter, reaches, delay in activity.waits:
            if not 0 <= delay < endless:
                raise ValueError(f"{activity.name!r} waits {delay} seconds behind {counter!r}, not at least 0")
            if reaches > raised.get(counter, 0):
                raise ValueError(f"{activity.name!r} waits for {reaches} of {counter!r}, which is raised "
                                 f"{raised.get(counter, 0)} times")
