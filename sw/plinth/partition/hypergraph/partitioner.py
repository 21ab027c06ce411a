"""Layers partitioned by Mt-KaHyPar, in a child process of its own: it may crash, or take too long.

What is known to harm it is kept from it: vertices without weight, of which version 1.7 crashes when they are fixed;
nets of one pin; one fixed vertex for each column. It may exceed its limits where weights differ much: rows are moved
until all parts are within them.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from plinth.errors import UserError, one_line
from plinth.network.sparse.matrices import identical_rows
from plinth.partition.hypergraph.greedy import grown
from plinth.partition.hypergraph.model import Hypergraph, contracted, phase
from plinth.partition.hypergraph.moves import Surroundings, within
from plinth.partition.hypergraph.owners import Integers, Pattern, Reals, caps, longest_first, row_weights

#: Seconds after which a child process is ended.
SECONDS = 600.0
_WORKER = Path(__file__).with_name("worker.py")


class PartitionerError(Exception):
    """Mt-KaHyPar has ended without a result; the text says how."""


def available() -> bool:
    """Whether Mt-KaHyPar is installed."""
    return find_spec("mtkahypar") is not None


def require() -> None:
    """Refuse to go on without Mt-KaHyPar.

    Raises
    ------
    UserError
        If it is not installed.
    """
    if not available():
        raise UserError("Mt-KaHyPar is not installed; install the extra 'partition' (pip install 'plinth[partition]'), "
                        "or choose 'greedy', 'random', or, of regular patterns, 'structured'")


def solve(graph: Hypergraph, limits: Reals, seed: int, seconds: float = SECONDS) -> Integers:
    """A part for each vertex, by Mt-KaHyPar: few words, and about within the limits.

    Parameters
    ----------
    graph : Hypergraph
        Free vertices first.
    limits : array of float
        Most that each part may weigh.
    seed : int
        The same seed has the same parts.
    seconds : float
        Time limit.

    Raises
    ------
    PartitionerError
        If it crashes, fails, or takes too long.
    """
    small = graph.reduced()
    free = int((small.fixed < 0).sum())
    if not len(small.costs):
        # Nothing can be cut.
        return np.concatenate([longest_first(small.weights[:free], limits / limits.sum()), graph.fixed[free:]])
    # Each vertex weighs at least 1; what that adds to a part is added to its limit.
    weights = np.maximum(small.weights, 1)
    room = -(-int((small.weights[:free] == 0).sum()) // len(limits))
    terminal = np.bincount(small.fixed[free:], minlength=len(limits))
    parts = _run(replace(small, weights=weights), np.floor(limits).astype(np.int64) + terminal + room, seed, seconds)
    return np.concatenate([parts[:free], graph.fixed[free:]])


def _run(graph: Hypergraph, limits: Integers, seed: int, seconds: float, *, default: bool = False) -> Integers:
    """A part for each vertex, as Mt-KaHyPar finds it in a child process; ``default``: by its default preset."""
    with tempfile.TemporaryDirectory(prefix="plinth-partition-") as folder:
        problem, result = Path(folder, "problem.npz"), Path(folder, "parts.npy")
        np.savez(problem, weights=graph.weights, fixed=graph.fixed, starts=graph.starts, pins=graph.pins,
                 costs=graph.costs, limits=limits, seed=seed, default=default)
        try:
            ran = subprocess.run([sys.executable, "-P", str(_WORKER), str(problem), str(result)], timeout=seconds,
                                 capture_output=True, text=True, errors="replace")
        except subprocess.TimeoutExpired:
            raise PartitionerError(f"Mt-KaHyPar took more than {seconds:g} s") from None
        if ran.returncode < 0:
            raise PartitionerError(f"Mt-KaHyPar crashed with signal {-ran.returncode}")
        if ran.returncode or not result.exists():
            last = ran.stderr.strip().splitlines()[-1:] or [f"exit code {ran.returncode}"]
            raise PartitionerError(f"Mt-KaHyPar failed: {one_line(last[0], 200)}")
        found: Integers = np.load(result)
    return found


def stated_phases(patterns: Iterable[Pattern], targets: Reals, imbalance: float, seed: int) -> Iterator[Integers]:
    """The paper's phases as they stand, to compare with: a fixed vertex without weight for each column, Mt-KaHyPar's
    default preset; limits are not held where it exceeds them.

    Raises
    ------
    PartitionerError
        If it crashes, fails, or takes too long.
    """
    columns: Integers | None = None
    for pattern in patterns:
        limits, _ = caps(row_weights(pattern), targets, imbalance)
        graph = phase(pattern, columns, len(targets))
        columns = _run(graph, np.floor(limits).astype(np.int64), seed, SECONDS, default=True)[:pattern.shape[0]]
        yield columns


def units_of(pattern: Pattern, targets: Reals, imbalance: float) -> Integers:
    """The unit of each row: its class of identical rows where whole classes can be balanced as well as rows, else the
    row itself."""
    weights, classes = row_weights(pattern), identical_rows(pattern)
    of_class = np.bincount(classes, weights=weights).astype(np.int64)
    if len(of_class) >= len(targets) and caps(of_class, targets, imbalance)[1] <= caps(weights, targets, imbalance)[1]:
        return classes
    return np.arange(len(classes))


def phases(patterns: Iterable[Pattern], targets: Reals, imbalance: float, seed: int, seconds: float = SECONDS
           ) -> Iterator[tuple[Integers, str]]:
    """The paper's phases: layer by layer the owners of its rows, given those of its columns, and a note if Mt-KaHyPar
    failed, empty if not. A layer that fails is partitioned by :func:`plinth.partition.hypergraph.greedy.grown`."""
    columns: Integers | None = None
    for pattern in patterns:
        note, units = "", units_of(pattern, targets, imbalance)
        limits, _ = caps(row_weights(pattern), targets, imbalance)
        around = Surroundings(pattern, columns, None, None, limits)
        try:
            parts = solve(contracted(phase(pattern, columns, len(targets)), units), limits, seed, seconds)
            owners = within(around, units, parts[:int(units.max()) + 1], targets)
        except PartitionerError as error:
            note = f"{error}: greedy instead"
            owners = grown(around, targets, seed)
        columns = owners
        yield owners, note
