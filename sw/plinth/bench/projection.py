"""Rows about projections of samples: time a sample, and error beside that of principal components."""

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import mean, median
from typing import Any

import numpy as np

from plinth.bench.row import BenchRow
from plinth.output import json_text
from plinth.projection.compare import PRINCIPAL, RANDOM, compared, principal
from plinth.projection.fit import fit
from plinth.projection.samples import Floats
from plinth.projection.selection import DIRECTIONS, GREEDY, SELECTIONS
from plinth.projection.streaming import StreamingProjection
from plinth.runtime.launcher import printed
from plinth.train.data import named
from plinth.train.datasets import labelled

#: Coordinates, by data set.
LIMITS = {"digits": 32, "mnist": 128}
#: Samples that are timed, of them those of a batch of a stream, and turns; choices of samples that are looked at first.
FEW, MANY, STREAMED, TURNS, SEEDS = 5_000, 50_000, 1_000, 7, 5


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


def _fitted(limit: int, x: Floats) -> int:
    """Fit a projection and compute all coordinates; how many there are of a sample."""
    projection = fit(x, limit=limit)
    projection.project(x)
    return projection.size


def _tested(stream: StreamingProjection, x: Floats) -> int:
    """Let batches of samples go through a stream that knows them; how many coordinates there are of a sample."""
    for start in range(0, len(x), STREAMED):
        stream.extend(x[start:start + STREAMED])
    return stream.size


def _times(x: Floats, work: Callable[[Floats], int]) -> dict[str, Any]:
    """Times a sample of many samples at once, and of as many in parts of few, each as a data set of its own, in turns
    behind one that does not count: medians, the median of their ratios, and coordinates."""
    def seconds(parts: Sequence[Floats]) -> float:
        begun = time.perf_counter()
        for part in parts:
            work(part)
        return (time.perf_counter() - begun) / MANY

    few = [x[start:start + FEW] for start in range(0, MANY, FEW)]
    turns = [(seconds(few), seconds([x])) for _ in range(TURNS + 1)][1:]
    return {"ratio": median(many / parts for parts, many in turns),
            "seconds_a_sample": [median(turn[place] for turn in turns) for place in (0, 1)],
            "coordinates": [work(few[0]), work(x)], "turns": turns}


def print_times() -> None:
    """Print the times of all cases as JSON."""
    cases = {}
    for name, limit in LIMITS.items():
        x = generated(_samples(name), MANY)
        cases[f"{name}, fit and coordinates, l = {limit}"] = _times(x, partial(_fitted, limit))
        stream = StreamingProjection(x.shape[1])
        stream.extend(x)
        cases[f"{name}, stream, l = {stream.size}"] = _times(x, partial(_tested, stream))
    print(json_text(cases))


def projection_linear() -> list[BenchRow]:
    """Time a sample of 50,000 samples over that of 5,000, on one thread: fit and coordinates with limits that bind; and
    a stream without a limit, in batches of 1,000, whose test all samples go through, and which knows them, so that it
    grows no more. Samples lie between two real ones (:func:`generated`). The worst case."""
    cases = json.loads(printed(1, ["-c", "from plinth.bench.projection import print_times; print_times()"]))
    ratios = {name: case["ratio"] for name, case in cases.items()}
    worst = max(ratios, key=lambda name: ratios[name])
    return [BenchRow("projection_linear", ratios[worst], "time a sample, 50,000 / 5,000 samples",
                     f"{worst}: a fit looks at as many samples first of few as of many", cases)]


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
