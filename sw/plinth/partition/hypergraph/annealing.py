"""Annealing of all layers together, by the C++ program ``annealing.cpp``: numpy makes a hundredth of its moves.

It is compiled when it is first needed, by the compiler that co-simulation uses (``CXX``, else ``g++``), and kept in the
cache. Where there is no compiler, :mod:`plinth.partition.hypergraph.sweeps` improve one layer after the other.
"""

import ctypes
import functools
import math
import os
import platform
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from plinth.errors import one_line
from plinth.network.sparse.matrices import identical_rows
from plinth.partition.hypergraph.owners import Integers, Pattern, Reals, row_weights
from plinth_hw.cache import cached_folder, digest
from plinth_hw.installation import cache_root

SOURCE = Path(__file__).with_suffix(".cpp")
LIBRARY = "annealing.so"
FLAGS = ("-std=c++17", "-O3", "-shared", "-fPIC")
#: Seconds that compiling may take.
SECONDS = 120
#: Counts of pins that are held, nets x parts, at most; rows and columns of a layer together: a count has two bytes.
MOST_COUNTS, MOST_SIDES = 1 << 28, 0xFFFF
#: Visits of vertices that a search makes about, and between two reports of how far it is; fewest and most sweeps.
VISITS, REPORTED = 4_000_000, 100_000
FEWEST, MOST = 40, 1600
#: First and last temperature in words, for units of one row. Of larger ones, which add more words by a move, they rise
#: with the root of the rows that a unit has.
HOT, COOL = 1.0, 0.15
#: Sweeps of single rows after those of units.
SINGLE = 10


class AnnealingError(Exception):
    """The program cannot be compiled or loaded; the text says why."""


@functools.cache
def _library(compiler: str, root: Path) -> ctypes.CDLL:
    """The compiled program.

    Raises
    ------
    AnnealingError
        If there is no compiler, it fails, or the cache cannot be written.
    """
    text = SOURCE.read_text(encoding="utf-8")
    try:
        version = subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=SECONDS).stdout
        folder = root / "annealing" / digest(text, *FLAGS, version, platform.machine())
        with cached_folder(folder, LIBRARY) as scratch:
            if scratch is not None:
                ran = subprocess.run([compiler, *FLAGS, str(SOURCE), "-o", str(scratch / LIBRARY)], capture_output=True,
                                     text=True, errors="replace", timeout=SECONDS)
                if ran.returncode:
                    said = ran.stderr.strip().splitlines()[:1] or [f"exit code {ran.returncode}"]
                    raise AnnealingError(f"{compiler} failed: {one_line(said[0], 200)}")
        library = ctypes.CDLL(str(folder / LIBRARY))
    except FileNotFoundError as error:
        raise AnnealingError(f"no C++ compiler {compiler}") from error
    except subprocess.TimeoutExpired as error:
        raise AnnealingError(f"{compiler} took more than {SECONDS} s") from error
    except OSError as error:
        raise AnnealingError(one_line(f"{error.filename or root}: {error.strerror or error}", 200)) from error
    i32, i64, u64, array = ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64, ctypes.c_void_p
    for name, result, arguments in (
            ("new", array, [i32, i32, i32, i32, *[array] * 6, u64]), ("run", i64, [array, array, i32]),
            ("best", None, [array, array]), ("free", None, [array])):
        function = getattr(library, f"plinth_annealing_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def require() -> ctypes.CDLL:
    """The compiled program.

    Raises
    ------
    AnnealingError
        If there is none.
    """
    return _library(os.environ.get("CXX") or "g++", cache_root())


@dataclass(frozen=True, eq=False)
class _Problem:
    """Vertices and nets of a network, as the program has them: units of all layers, one layer behind the other."""

    owners: npt.NDArray[np.int32]
    weights: npt.NDArray[np.int32]
    layers: npt.NDArray[np.int32]
    starts: Integers
    nets_of: npt.NDArray[np.int32]
    nets: int


def _problem(patterns: Sequence[Pattern], owners: Sequence[Integers], units: Sequence[Integers]) -> _Problem:
    """Units of each layer's rows are from 0; rows of a unit have the same columns and owner."""
    counts = [int(unit.max()) + 1 for unit in units]
    first_vertex = np.cumsum([0, *counts])
    first_net = np.cumsum([0, *(pattern.shape[1] for pattern in patterns)])
    vertex, net = [], []
    for layer, (pattern, unit) in enumerate(zip(patterns, units, strict=True)):
        reader = np.unique(unit, return_index=True)[1]
        read = pattern[reader]
        vertex.append(first_vertex[layer] + np.repeat(np.arange(counts[layer]), np.diff(read.indptr)))
        net.append(first_net[layer] + read.indices.astype(np.int64))
        if layer + 1 < len(patterns):
            vertex.append(first_vertex[layer] + unit)
            net.append(first_net[layer + 1] + np.arange(len(unit)))
    vertices, nets = np.concatenate(vertex), np.concatenate(net)
    order = np.lexsort((nets, vertices))
    return _Problem(
        np.concatenate([owner[np.unique(unit, return_index=True)[1]] for owner, unit in zip(owners, units, strict=True)]
                       ).astype(np.int32),
        np.concatenate([np.bincount(unit, weights=row_weights(pattern)) for pattern, unit in
                        zip(patterns, units, strict=True)]).astype(np.int32),
        np.repeat(np.arange(len(patterns)), counts).astype(np.int32),
        np.concatenate([[0], np.cumsum(np.bincount(vertices, minlength=first_vertex[-1]))]).astype(np.int64),
        nets[order].astype(np.int32), int(first_net[-1]))


def anneals(patterns: Sequence[Pattern], parts: int) -> str:
    """Why a network cannot be annealed as a whole; empty if it can: the program is there, and holds the network."""
    if not fits(patterns, parts):
        return "the network is too large to be annealed as a whole"
    try:
        require()
    except AnnealingError as error:
        return str(error)
    return ""


def together(patterns: Sequence[Pattern], layers: Sequence[Integers], limits: Sequence[Reals], seed: int,
             progress: Callable[[str, int, int], None] | None = None) -> list[Integers]:
    """Owners of each layer's rows with the fewest words that were seen, from given ones: first rows of the same columns
    and owner move together, then single rows.

    Parameters
    ----------
    patterns, layers, limits, seed
        What :func:`annealed` takes.
    progress : callable
        Told of what is done, the sweeps that are done, and their number.

    Raises
    ------
    AnnealingError
        If the program cannot be compiled or loaded.
    """
    parts, single = len(limits[0]), [np.arange(pattern.shape[0]) for pattern in patterns]
    units = [np.unique(identical_rows(pattern) * parts + owners, return_inverse=True)[1]
             for pattern, owners in zip(patterns, layers, strict=True)]
    vertices, rows = sum(int(unit.max()) + 1 for unit in units), sum(map(len, single))
    sweeps, scale = sweeps_of(vertices), math.sqrt(rows / vertices)
    further = SINGLE if vertices < rows else 0

    def told(done: int) -> None:
        if progress is not None:
            progress("annealing", done, sweeps + further)

    found = annealed(patterns, layers, limits, units, scale * HOT, scale * COOL, sweeps, seed, told)
    if further:
        found = annealed(patterns, found, limits, single, COOL, COOL / 4, further, seed,
                         lambda done: told(sweeps + done))
    return found


def fits(patterns: Sequence[Pattern], parts: int) -> bool:
    """Whether the program holds a network's counts of pins."""
    columns = sum(pattern.shape[1] for pattern in patterns)
    return columns * parts <= MOST_COUNTS and max(sum(pattern.shape) for pattern in patterns) <= MOST_SIDES


def sweeps_of(vertices: int) -> int:
    """Sweeps of a search over so many vertices: fewer of more, so that the time is bounded."""
    return min(max(VISITS // vertices, FEWEST), MOST)


def annealed(patterns: Sequence[Pattern], layers: Sequence[Integers], limits: Sequence[Reals],
             units: Sequence[Integers], hot: float, cool: float, sweeps: int, seed: int,
             progress: Callable[[int], None] = lambda sweeps: None) -> list[Integers]:
    """Owners of each layer's rows with the fewest words that were seen, from given ones.

    Parameters
    ----------
    patterns : sequence of csr_array
        Layers in canonical form.
    layers : sequence of arrays of int
        Owners of each layer's rows to begin with, within the limits.
    limits : sequence of arrays of float
        Most that each part of each layer may weigh.
    units : sequence of arrays of int
        The unit of each row; rows of a unit have the same columns and owner, and keep together.
    hot, cool : float
        First and last temperature in words, above 0; it falls by the same ratio from sweep to sweep.
    sweeps : int
        Sweeps; each visits as many vertices as there are.
    seed : int
        The same seed has the same result.
    progress : callable
        Told of the sweeps that are done.

    Raises
    ------
    AnnealingError
        If the program cannot be compiled or loaded.
    """
    library, problem = require(), _problem(patterns, layers, units)
    parts = len(limits[0])
    most = np.floor(np.concatenate(list(limits))).astype(np.int64)
    temperatures = hot * (cool / hot) ** (np.arange(sweeps) / max(sweeps - 1, 1))
    ratios = np.array([int(math.exp(-1 / temperature) * 2**32) for temperature in temperatures.tolist()], np.uint64)
    pointers = [array.ctypes.data for array in (problem.weights, problem.layers, problem.owners, problem.starts,
                                                problem.nets_of, most)]
    state = library.plinth_annealing_new(parts, len(patterns), len(problem.owners), problem.nets, *pointers, seed)
    try:
        step = max(1, REPORTED // len(problem.owners))
        for begin in range(0, sweeps, step):
            now = np.ascontiguousarray(ratios[begin:begin + step])
            library.plinth_annealing_run(state, now.ctypes.data, len(now))
            progress(begin + len(now))
        best = np.empty_like(problem.owners)
        library.plinth_annealing_best(state, best.ctypes.data)
    finally:
        library.plinth_annealing_free(state)
    ends = np.cumsum([int(unit.max()) + 1 for unit in units])
    return [owners[unit].astype(np.int64) for owners, unit in zip(np.split(best, ends[:-1]), units, strict=True)]
