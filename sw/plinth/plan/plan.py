"""A Plan: what of a network is split over which dies, and which reductions follow. Plain data."""

from dataclasses import asdict, dataclass
from typing import Any

from plinth.errors import UserError
from plinth.model.network import Network

#: Version of the plan format.
PLAN_VERSION = 1
#: Most dies of a plan: a die number has 10 bits.
MAXIMUM_DIES = 1024


@dataclass(frozen=True, kw_only=True)
class LayerSplit:
    """How one layer is split: ``"dp"`` splits the batch and copies the weights."""

    layer: str
    split: str


@dataclass(frozen=True, kw_only=True)
class Reduction:
    """Sum of one variable's gradients over dies, update by the owner of each chunk, broadcast.

    Chunk c (``chunk_words`` words, the last may be short) belongs to ``members[c % len(members)]`` and its
    sum starts at the member after the owner.
    """

    variable: str
    words: int
    chunk_words: int
    members: tuple[int, ...]
    group: int

    @property
    def link_words(self) -> int:
        """Words that all members together send: every chunk makes N - 1 hops reduced and N - 1 finished."""
        return 2 * (len(self.members) - 1) * self.words


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A network split over an array of dies joined in a ring."""

    version: int
    network: str
    planner: str
    dies: int
    batch: int
    splits: tuple[LayerSplit, ...]
    reductions: tuple[Reduction, ...]

    def to_data(self) -> dict[str, Any]:
        """The plan as YAML or JSON can hold it."""
        data = asdict(self)
        data["splits"] = [dict(split) for split in data["splits"]]
        data["reductions"] = [{**reduction, "members": list(reduction["members"])}
                              for reduction in data["reductions"]]
        return data


def data_parallel(network: Network, *, dies: int, batch: int, chunk_words: int) -> Plan:
    """Every layer data-parallel: each die takes ``batch / dies`` samples and reduces every layer's gradient.

    The variable of a layer is its weights followed by its bias, one message.

    Raises
    ------
    UserError
        If the batch does not divide over the dies, or there are too many or no dies.
    """
    if not 1 <= dies <= MAXIMUM_DIES:
        raise UserError(f"--dies must be from 1 to {MAXIMUM_DIES}, not {dies}")
    if batch < 1 or batch % dies:
        raise UserError(f"a batch of {batch} does not divide over {dies} dies; choose a multiple of {dies}")
    return Plan(
        version=PLAN_VERSION, network=network.name, planner="data", dies=dies, batch=batch,
        splits=tuple(LayerSplit(layer=layer.name, split="dp") for layer in network.weighted),
        reductions=tuple(Reduction(variable=layer.name, words=network.layer_parameters(layer.name),
                                   chunk_words=chunk_words, members=tuple(range(dies)), group=0)
                         for layer in network.weighted))
