"""Communication models by name."""

from collections.abc import Callable, Sequence
from typing import Protocol

from plinth.names import EXACT, PUBLISHED
from plinth.partition.graph import PlanGraph
from plinth.partition.regions import Splits
from plinth.predict.dynamic import Problem
from plinth.predict.exact import ExactWords
from plinth.predict.published import PublishedWords


class CountsWords(Protocol):
    """What planners that count words need of a communication model."""

    name: str
    #: Splits that the model knows.
    splits: tuple[str, ...]
    graph: PlanGraph
    batch: int

    def level(self, above: Splits, splits: Sequence[str]) -> Problem:
        """Costs of the choices at the level below ``above``."""
        ...

    def total_bytes(self, splits: Splits) -> float:
        """Bytes that a training step moves."""
        ...


#: Models by the name that --model takes.
MODELS: dict[str, Callable[..., CountsWords]] = {EXACT: ExactWords, PUBLISHED: PublishedWords}
