"""How copies of tables are kept equal: around rings, by servers, or by gathered rows, whichever makes a step shortest.

The gradient of a table of rows by number is sparse: samples touch some rows. Parallax (section 3.1) leaves dense
variables to all-reduce and sparse ones to parameter servers; how much that gains depends on the share of rows that one
worker touches, *alpha*, on the network, and on what else goes on in a step. So each way is predicted as the step that
it makes: first all tables one way, then table by table what makes the best of these steps shorter. The number of pieces
of a table that servers own then is searched for as Parallax does (section 3.2), on predicted steps: a piece less is a
message less to each worker, and rows of fewer owners.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.errors import UserError, quoted
from plinth.files.documents import nearest
from plinth.names import AUTO_COPIES, GATHERED_ROWS, RINGS, SERVERS
from plinth.network.variables import Gradient
from plinth.partition.axes import SAMPLES
from plinth.partition.graph import DP, Node, PlanGraph
from plinth.partition.pieces import search, searched
from plinth.partition.row_costs import VariableLoad, words_of_ways
from plinth.sharding import MAXIMUM_PIECES, Copies, Gathered, Server, Sharding, Sync, Touched
from plinth.step.copies import copies_of
from plinth.units import duration
from plinth_hw.isa.parameters import DieParameters

#: Batches of samples by which it is measured what share of rows they touch, at most.
MEASURED_BATCHES = 32


@dataclass(frozen=True)
class CopyChoice:
    """Settings by which ways are chosen.

    Parameters
    ----------
    ways : str
        One way for all tables, or :data:`~plinth.names.AUTO_COPIES`: for each the best.
    tolerance : float
        Share of a step's time by which a way has to be shorter than an earlier one of rings, gathered rows, servers, to
        be taken in its place.
    dense_from : float or None
        Share of touched rows from which a table is taken for dense, and goes round rings; None: never.
    """

    ways: str = AUTO_COPIES
    tolerance: float = 0.0
    dense_from: float | None = None

    def dense(self, share: float | None) -> bool:
        """Whether a table of which samples touch such a share of rows is taken for dense."""
        return share is not None and self.dense_from is not None and share >= self.dense_from


def touched_shares(sharding: Sharding, numbers: NDArray[Any]) -> Touched:
    """Measure the share of its rows that a die's samples touch in a step, for each table.

    Parameters
    ----------
    sharding : Sharding
    numbers : array ``[samples, numbers]``
        Row numbers, in the order in which batches are made of them; a batch that is not whole counts as far as it goes.

    Returns
    -------
    Touched
        Means over dies with samples, and over up to :data:`MEASURED_BATCHES` batches.
    """
    shares: list[tuple[str, float]] = []
    for number, node in enumerate(sharding.graph.nodes):
        if not node.gathers:
            continue
        (variable,) = (variable for variable in node.variables if variable.gradient is Gradient.ROWS)
        lengths = sharding.layouts[number].input.lengths(SAMPLES, sharding.batch, sharding.factors)
        counts = []
        for first in range(0, min(len(numbers), MEASURED_BATCHES * sharding.batch), sharding.batch):
            batch = numbers[first:first + sharding.batch]
            for low, high in _parts(lengths.tolist(), len(batch)):
                counts.append(len(np.unique(batch[low:high])))
        if counts:
            shares.append((variable.qualified(node.name), float(np.mean(counts)) / variable.shape[0]))
    return tuple(shares)


def named_shares(graph: PlanGraph, shares: float | Mapping[str, float]) -> Touched:
    """The shares of touched rows of tables, one of all, or by layer.

    Raises
    ------
    UserError
        If the network has no tables, or not that layer.
    """
    tables = {node.name: node.variables[0].qualified(node.name) for node in graph.nodes if node.gathers}
    if not tables:
        raise UserError(f"network {graph.name!r} has no embedding, of whose rows samples could touch a share; leave "
                        "touched= out")
    if not isinstance(shares, Mapping):
        return tuple((name, shares) for name in tables.values())
    for layer in shares:
        if layer not in tables:
            raise UserError(f"network {graph.name!r} has no embedding {quoted(str(layer))}, of whose rows samples "
                            f"touch a share; {nearest(str(layer), tables)}")
    return tuple((tables[layer], share) for layer, share in shares.items())


def _parts(lengths: list[int], samples: int) -> Iterator[tuple[int, int]]:
    """Neighbouring samples of each die that has some, as far as there are samples."""
    ends = np.cumsum([0, *(length for length in lengths if length)])
    yield from ((low, min(high, samples)) for low, high in pairwise(ends.tolist()) if low < samples)


def _ways(sharding: Sharding, number: int, node: Node, ring: Sync, choice: CopyChoice, share: float | None
          ) -> dict[str, Sync]:
    """The ways in which copies of a table may be kept equal, by name, in the order in which ties are decided."""
    ways = {RINGS: ring}
    if set(sharding.splits[number]) <= {DP} and not choice.dense(share) and sharding.dies > 1:
        rows, dies = node.matrix[1], sharding.dies
        pieces = min(rows, dies, MAXIMUM_PIECES)
        ways[GATHERED_ROWS] = Gathered()
        ways[SERVERS] = _served(pieces)
    return ways


def _served(pieces: int) -> Server:
    """A table in so many pieces, of a die each, rows in turn."""
    return Server(tuple(range(pieces)), pieces, interleaved=True)


def chosen_copies(sharding: Sharding, target: DieParameters, seconds: Callable[[Copies], float], choice: CopyChoice,
                  notes: list[str]) -> Copies:
    """How copies of each variable are kept equal.

    Parameters
    ----------
    sharding : Sharding
        What is said of copies in it does not count.
    target : DieParameters
        Of its dies.
    seconds : callable
        The time of a step whose copies are kept equal so.
    choice : CopyChoice
    notes : list of str
        Takes a line for each table: how long a step is by each way, and why.

    Raises
    ------
    UserError
        If a way is asked for that a table cannot take.
    """
    rings = dict(copies_of(sharding, target))
    shares = dict(sharding.touched)
    tables: dict[str, dict[str, Sync]] = {}
    elements: dict[str, int] = {}
    for number, node in enumerate(sharding.graph.nodes):
        if node.gathers:
            name = node.variables[0].qualified(node.name)
            tables[name] = _ways(sharding, number, node, rings[name], choice, shares.get(name))
            elements[name] = prod(node.matrix)
    if choice.ways not in (AUTO_COPIES, RINGS):
        missing = [name for name, ways in tables.items() if choice.ways not in ways]
        if missing and sharding.dies > 1:
            why = "its rows are taken for dense; choose" if choice.dense(shares.get(missing[0])) else (
                "a level splits its layer by more than the batch; choose planner=parallax, planner=data or")
            raise UserError(f"copies of variable {missing[0]!r} cannot be kept equal by {choice.ways}, as {why} "
                            f"copies={AUTO_COPIES}")
        if not tables:
            raise UserError(f"network {sharding.graph.name!r} has no table whose rows could be kept equal by "
                            f"{choice.ways}; choose copies={RINGS}")

    def copies(ways: tuple[str, ...]) -> Copies:
        said = {name: tables[name].get(way, tables[name][RINGS])
                for name, way in zip(tables, ways, strict=True)}
        return tuple(sorted((rings | said).items()))

    predicted: dict[Copies, float] = {}

    def time(ways: tuple[str, ...]) -> float:
        said = copies(ways)
        if said not in predicted:
            predicted[said] = seconds(said)
        return predicted[said]

    if choice.ways != AUTO_COPIES:
        return copies((choice.ways,) * len(tables))
    pure = [(way,) * len(tables) for way in dict.fromkeys(way for ways in tables.values() for way in ways)]
    best = pure[0] if pure else ()
    for ways in pure[1:]:
        if time(ways) < time(best) * (1 - choice.tolerance):
            best = ways
    # Until no table alone makes the step shorter: what is best for one may depend on the others.
    before: tuple[str, ...] = ()
    while before != best:
        before = best
        for place, ways_of_table in enumerate(tables.values()):
            for way in ways_of_table:
                ways = (*best[:place], way, *best[place + 1:])
                if time(ways) < time(best) * (1 - choice.tolerance):
                    best = ways
    tried: dict[str, Mapping[int, float]] = {}
    for name, way in zip(tables, best, strict=True):
        if way == SERVERS:
            tried[name] = _pieces_searched(tables[name], lambda: time(best), choice.tolerance)
    for place, (name, ways_of_table) in enumerate(tables.items()):
        times = {way: time((*best[:place], way, *best[place + 1:])) for way in ways_of_table}
        notes.append(_why(name, ways_of_table, times, best[place], shares.get(name), choice)
                     + _pieces_told(ways_of_table, tried.get(name, {}))
                     + _words_told(elements[name], sharding.dies, ways_of_table, shares.get(name)))
    return copies(best)


def _pieces_searched(ways: dict[str, Sync], time: Callable[[], float], tolerance: float) -> Mapping[int, float]:
    """Put a table in the number of pieces that makes the step of ``time`` shortest; returns the times that were tried.
    More pieces than dies have no further owner."""
    server = ways[SERVERS]
    assert isinstance(server, Server)
    most = len(server.owners)

    def measure(pieces: int) -> float:
        ways[SERVERS] = _served(pieces)
        return time()

    found = searched(measure, search(most, most, tolerance=tolerance, repeats=1))
    ways[SERVERS] = _served(found.pieces)
    return found.samples


def _words_told(elements: int, dies: int, ways: Mapping[str, Sync], share: float | None) -> str:
    """What a die sends by each way, where it is known how many rows are touched: Table 3, each die a machine."""
    if share is None or len(ways) == 1:
        return ""
    words = words_of_ways(VariableLoad(elements, share), dies)
    return f"; a die sends {', '.join(f'{words[way]:,.0f} words by {way}' for way in ways)} (Table 3)"


def _pieces_told(ways: Mapping[str, Sync], tried: Mapping[int, float]) -> str:
    if len(tried) < 2:
        return ""
    server = ways[SERVERS]
    assert isinstance(server, Server)
    taken = len(server.owners)
    others = ", ".join(f"{duration(time)} in {pieces}" for pieces, time in tried.items() if pieces != taken)
    return f"; in {'one piece' if taken == 1 else f'{taken} pieces'}, as it is {others}"


def _why(name: str, ways: Mapping[str, Sync], times: Mapping[str, float], taken: str, share: float | None,
         choice: CopyChoice) -> str:
    touched = "any number of rows" if share is None else f"{share:.2%} of rows"
    if len(ways) == 1:
        why = (f"from {choice.dense_from:.2%} on it is taken for dense" if choice.dense(share) else
               "no other die has a copy, or a level splits more than the layer's batch")
        return f"{name} ({touched} touched): {taken}, as {why}"
    others = ", ".join(f"{duration(time)} by {way}" for way, time in times.items() if way != taken)
    missed = choice.tolerance > 0 and min(times.values()) < times[taken]
    shorter = f"; one has to be {choice.tolerance:.2%} shorter" if missed else ""
    return f"{name} ({touched} touched): {taken}, a step of {duration(times[taken])}; {others}{shorter}"

