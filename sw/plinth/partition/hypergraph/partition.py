"""One entry for all ways to partition a sparse network's layers among processors."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from plinth.errors import UserError
from plinth.partition.hypergraph import annealing, greedy, partitioner
from plinth.partition.hypergraph.owners import (
    ROUNDING,
    Integers,
    Pattern,
    Reals,
    SparsePartition,
    caps,
    checked,
    place_inputs,
    row_weights,
    shares,
)
from plinth.partition.hypergraph.structured import structured
from plinth.partition.hypergraph.sweeps import Progress, swept
from plinth.partition.hypergraph.volume import column_cost, traffic

#: Ways to partition.
WAYS = ("structured", "partitioner", "greedy", "random", "best")
#: Allowed excess of a part over its share of a layer's nonzeros: the paper's.
IMBALANCE = 0.01


def partition(patterns: Iterable[Pattern], parts: int, how: str = "best", *, weights: Sequence[float] | None = None,
              imbalance: float = IMBALANCE, seed: int = 0, start: SparsePartition | None = None,
              progress: Progress | None = None) -> SparsePartition:
    """Owners of the inputs and of each layer's rows.

    Parameters
    ----------
    patterns : iterable of csr_array
        The layers in their order, outputs x inputs. All ways but ``best`` look at them one at a time, once.
    parts : int
        Processors.
    how : str
        ``structured``   by the rings and blocks of regular patterns;
        ``partitioner``  the paper's phases by Mt-KaHyPar, the extra ``partition``;
        ``greedy``       grown layer by layer, without it;
        ``random``       the paper's baseline, rows dealt out evenly, whatever they weigh;
        ``best``         the best of all that apply, then annealing of all layers together.
    weights : sequence of float, optional
        What shares of each layer's nonzeros processors get, in any unit; left out, even ones.
    imbalance : float
        Allowed excess over a share. Where rows do not allow it, the least possible is, and a note says so.
    seed : int
        The same seed has the same result.
    start : SparsePartition, optional
        A partition that ``best`` improves, in place of trying all ways; balanced as is asked for.
    progress : callable, optional
        Called with what is done, the number of steps done, and of all steps (0 if nobody knows).

    Raises
    ------
    UserError
        If layers are none, no patterns, do not chain, or have fewer rows than there are parts; weights are not one
        positive number a part; the way is unknown, does not apply, or is not installed; a start is given to another
        way than ``best``, is of another network or other parts, or not balanced.
    """
    if how not in WAYS:
        raise UserError(f"way {how!r} to partition is unknown; give one of {', '.join(WAYS)}")
    targets = shares(parts, weights)
    if not (np.isfinite(imbalance) and imbalance >= 0):
        raise UserError(f"imbalance {imbalance} is not a number from 0 on; give for example {IMBALANCE}")
    layers = checked(patterns, parts)
    if start is not None and how != "best":
        raise UserError(f"a partition to start from is given, but way {how!r} starts anew; choose 'best'")
    if how == "best":
        return _best(list(layers), targets, imbalance, seed, start, progress)
    found = _Phases(how, targets, imbalance, seed, progress)
    return found.partition(layers)


class _Phases:
    """One way, layer by layer; what the result needs of layers is noted as they pass."""

    def __init__(self, how: str, targets: Reals, imbalance: float, seed: int, progress: Progress | None) -> None:
        self.how, self.targets, self.imbalance, self.seed, self.progress = how, targets, imbalance, seed, progress
        self.notes: list[str] = []
        self.loads: list[tuple[Integers, float]] = []
        self.first: Pattern = None

    def partition(self, layers: Iterable[Pattern]) -> SparsePartition:
        """The partition, by the chosen way."""
        parts = len(self.targets)
        owners = list(self._owners(self._seen(layers)))
        for layer, (row_loads, ratio) in enumerate(self.loads if self.how != "random" else (), 1):
            _state_balance(self.notes, layer, owners[layer - 1], row_loads, self.targets, self.imbalance, ratio)
        return SparsePartition(parts, place_inputs(self.first, owners[0], parts), tuple(owners), tuple(self.notes))

    def _seen(self, layers: Iterable[Pattern]) -> Iterator[Pattern]:
        for layer, pattern in enumerate(layers, 1):
            self.first = pattern if self.first is None else self.first
            row_loads = row_weights(pattern)
            self.loads.append((row_loads, caps(row_loads, self.targets, self.imbalance)[1]))
            yield pattern
            if self.progress is not None:
                self.progress(self.how, layer, 0)

    def _owners(self, layers: Iterator[Pattern]) -> Iterator[Integers]:
        if self.how == "random":
            yield from greedy.random(layers, self.targets, self.seed)
        elif self.how == "greedy":
            yield from greedy.greedy(layers, self.targets, self.imbalance, self.seed)
        elif self.how == "partitioner":
            partitioner.require()
            for layer, (owners, note) in enumerate(
                    partitioner.phases(layers, self.targets, self.imbalance, self.seed), 1):
                self.notes += [f"layer {layer}: {note}"] * bool(note)
                yield owners
        else:
            found = structured(layers, self.targets, self.imbalance)
            if found is None:
                raise UserError(f"layer {len(self.loads)}: the pattern is not of rings and blocks, or they cannot be "
                                "balanced; choose 'partitioner', 'greedy' or 'best'")
            yield from found[1:]


def _starts(patterns: list[Pattern], targets: Reals, imbalance: float, seed: int, notes: list[str],
            progress: Progress | None) -> dict[str, SparsePartition]:
    """Partitions by all ways that apply; what is missing is noted."""
    ways = ["structured", "greedy"]
    if partitioner.available():
        ways.append("partitioner")
    else:
        notes.append("Mt-KaHyPar is not installed (extra 'partition'): the best of the other ways")
    starts: dict[str, SparsePartition] = {}
    for how in ways:
        try:
            starts[how] = _Phases(how, targets, imbalance, seed, progress).partition(patterns)
        except UserError:
            # Irregular patterns; all else has been checked.
            continue
    return starts


def _check_start(start: SparsePartition, patterns: list[Pattern], limits: Sequence[Reals]) -> None:
    """Refuse a start of another network, of other parts, or with a part above its limit."""
    if start.parts != len(limits[0]):
        raise UserError(f"the partition to start from has {start.parts} parts, not {len(limits[0])}; give one of "
                        f"{len(limits[0])}")
    for number, layer in enumerate(traffic(patterns, start).layers):
        if (layer.loads > limits[number]).any():
            raise UserError(f"layer {number + 1}: the partition to start from has an imbalance of {layer.balance():.3f}"
                            "; give a balanced one, or allow more imbalance")


def _best(patterns: list[Pattern], targets: Reals, imbalance: float, seed: int, begun: SparsePartition | None,
          progress: Progress | None) -> SparsePartition:
    """The best of all ways that apply, then annealing of all layers together, or sweeps where it is not to be had."""
    parts = len(targets)
    notes: list[str] = []
    limits = [caps(row_weights(pattern), targets, imbalance)[0] for pattern in patterns]
    if begun is None:
        starts = _starts(patterns, targets, imbalance, seed, notes, progress)
    else:
        _check_start(begun, patterns, limits)
        starts = {"start": begun}
    words = {how: _words(patterns, start.layers, parts) for how, start in starts.items()}
    start = starts[min(words, key=lambda how: words[how])]
    layers = start.layers
    without = annealing.anneals(patterns, parts) if parts > 1 else ""
    if parts > 1 and not without:
        layers = tuple(annealing.together(patterns, layers, limits, seed, progress))
    elif parts > 1:
        notes.append(f"{without}: sweeps, layer by layer, in its place")
        # Structure is found faster, and as well, without Mt-KaHyPar.
        layers = tuple(swept(patterns, start.layers, targets, imbalance, seed,
                             partitioner="partitioner" in starts and "structured" not in starts, progress=progress))
    assert _words(patterns, layers, parts) <= min(words.values())
    return SparsePartition(parts, place_inputs(patterns[0], layers[0], parts), layers, (*notes, *start.notes))


def _words(patterns: Sequence[Pattern], layers: Sequence[Integers], parts: int) -> int:
    """Words of one direction, all layers."""
    return column_cost(patterns[0], None, layers[0], parts) + sum(
        column_cost(pattern, columns, rows, parts)
        for pattern, (columns, rows) in zip(patterns[1:], pairwise(layers), strict=True))


def _state_balance(notes: list[str], layer: int, owners: Integers, row_loads: Integers, targets: Reals,
                   imbalance: float, ratio: float) -> None:
    """A note if a layer is not as balanced as was asked, because its rows do not allow it."""
    loads = np.bincount(owners, weights=row_loads, minlength=len(targets))
    reached = float((loads / (targets * row_loads.sum())).max())
    if min(ratio, reached) > (1 + imbalance) * (1 + ROUNDING):
        notes.append(f"layer {layer}: its rows allow an imbalance of {ratio:.3f} at best, not {1 + imbalance:.3f}; it "
                     f"has {reached:.3f}")
