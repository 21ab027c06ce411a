"""Rows about projections of samples: time a sample, and error beside that of principal components."""

import json
import time
from collections.abc import Callable
from statistics import mean, median
from typing import Any

import numpy as np

from plinth.bench.row import BenchRow
from plinth.output import json_text
from plinth.projection.compare import PRINCIPAL, RANDOM, compared, principal
from plinth.projection.fit import fit
from plinth.projection.samples import Floats
from plinth.projection.selection import DIRECTIONS, GREEDY, SELECTIONS
from plinth.runtime.launcher import printed
from plinth.train.data import named
from plinth.train.datasets import labelled

#: Coordinates, by data set.
LIMITS = {"digits": 32, "mnist": 128}
#: Samples that are timed, and turns; choices of samples that are looked at first.
FEW, MANY, TURNS, SEEDS = 5_000, 50_000, 7, 5


def _samples(name: str) -> Floats:
    """All samples of a data set."""
    return labelled(name)[0].astype(np.float32, copy=False)


def generated(x: Floats, count: int, seed: int = 0) -> Floats:
    """Samples made of real ones ``[samples, features]``: each lies between two of them, drawn with equal chances, at a
    share of the way that is uniform from 0 to 1."""
    rng = np.random.default_rng(seed)
    first, second = rng.integers(len(x), size=(2, count))
    share = rng.random((count, 1), dtype=np.float32)
    return share * x[first] + (1 - share) * x[second]


def _seconds(x: Floats, limit: int | None) -> tuple[float, int]:
    """Time of the fit and of all coordinates a sample, and how many coordinates there are."""
    begun = time.perf_counter()
    projection = fit(x, limit=limit)
    projection.project(x)
    return (time.perf_counter() - begun) / len(x), projection.size


def _times(name: str, limit: int | None) -> dict[str, Any]:
    """Times a sample of few and of many samples, in turns, the medians of them, and coordinates."""
    x = generated(_samples(name), MANY)
    turns = [(_seconds(x[:FEW], limit), _seconds(x, limit)) for _ in range(TURNS + 1)][1:]
    few, many = (median(turn[place][0] for turn in turns) for place in (0, 1))
    return {"ratio": many / few, "seconds_a_sample": [few, many], "coordinates": [turns[0][0][1], turns[0][1][1]],
            "turns": [[seconds for seconds, _ in turn] for turn in turns]}


def print_times() -> None:
    """Print the times of all cases as JSON."""
    cases: list[tuple[str, int | None]] = [*LIMITS.items(), ("digits", None)]
    print(json_text({f"{name}, {'no limit' if limit is None else f'l = {limit}'}": _times(name, limit)
                     for name, limit in cases}))


def projection_linear() -> list[BenchRow]:
    """Time a sample of 50,000 samples over that of 5,000, fit and coordinates together, on one thread: with limits that
    bind, and of a stream without one, whose test all samples go through and which comes to as many coordinates. Samples
    lie between two real ones (:func:`generated`). The worst case."""
    cases = json.loads(printed(1, ["-c", "from plinth.bench.projection import print_times; print_times()"]))
    ratios = {name: case["ratio"] for name, case in cases.items()}
    worst = max(ratios, key=lambda name: ratios[name])
    return [BenchRow("projection_linear", ratios[worst], "time a sample, 50,000 / 5,000 samples",
                     f"{worst}: few samples stay in caches, and tuning takes as long of few as of many", cases)]


def projection_error_over_pca() -> list[BenchRow]:
    """Frobenius error over that of principal components of as many, of all samples of a data set; mean of five choices
    of the samples that are looked at first, the worse of two data sets. Beside it other selections, and errors and
    times on training and other samples."""
    cases: dict[str, dict[str, Any]] = {}
    for name, limit in LIMITS.items():
        x = _samples(name)
        least = principal(x, limit).error(x)
        ratios = {selection: [fit(x, limit=limit, selection=selection, seed=seed).error(x) / least
                              for seed in range(SEEDS)] for selection in SELECTIONS}
        names = [f"selection {DIRECTIONS}", f"selection {GREEDY}", PRINCIPAL, RANDOM]
        cases[name] = {"limit": limit, "principal": least, "ratios": ratios,
                       "split": [vars(row) for row in compared(named(name), limit, seeds=(), names=names)]}
    means = {name: mean(case["ratios"][DIRECTIONS]) for name, case in cases.items()}
    worst = max(means, key=lambda name: means[name])
    return [BenchRow("projection_error_over_pca", means[worst], "Frobenius error / that of principal components",
                     f"{worst}: the 5 % of the samples that are looked at", cases)]


#: Every row's name and the function that makes it.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {
    "projection_linear": projection_linear, "projection_error_over_pca": projection_error_over_pca}
