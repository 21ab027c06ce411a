"""Annealing of all layers: words are exact, limits hold, a seed has one result, and it does without a compiler."""

from pathlib import Path

import numpy as np
import pytest
from tests.support.sparse_patterns import pruned_net, radix_net

from plinth.partition.hypergraph import annealing, partitioner
from plinth.partition.hypergraph.annealing import AnnealingError, annealed, anneals, require, together
from plinth.partition.hypergraph.greedy import greedy
from plinth.partition.hypergraph.owners import Integers, Pattern, Reals, canonical, caps, row_weights, shares
from plinth.partition.hypergraph.partition import partition
from plinth.partition.hypergraph.volume import column_cost

TARGETS, IMBALANCE = shares(5, [2, 1, 1, 2, 3]), 0.03


def words(patterns: list[Pattern], layers: list[Integers]) -> int:
    """Words of one direction of all layers."""
    return sum(column_cost(pattern, layers[layer - 1] if layer else None, layers[layer], 5)
               for layer, pattern in enumerate(patterns))


def network(kind: str) -> tuple[list[Pattern], list[Integers], list[Reals]]:
    """A network, its phases, and its limits."""
    patterns = pruned_net([60, 70, 40, 50], 0.15, 2) if kind == "irregular" else radix_net(128, 5, copies=8)
    patterns = [canonical(pattern) for pattern in patterns]
    return (patterns, list(greedy(patterns, TARGETS, IMBALANCE, 0)),
            [caps(row_weights(pattern), TARGETS, IMBALANCE)[0] for pattern in patterns])


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A compiler in the place of the real one, and a cache of its own."""
    program = tmp_path / "compiler"
    monkeypatch.setenv("CXX", str(program))
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path / "cache"))
    return program


@pytest.mark.parametrize("kind", ["irregular", "regular"])
def test_fewer_words_within_limits(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patterns, begun, limits = network(kind)
    monkeypatch.setattr(annealing, "VISITS", 20_000)
    told: list[tuple[str, int, int]] = []
    found = together(patterns, begun, limits, 1, lambda *step: told.append(step))
    assert words(patterns, found) < 0.97 * words(patterns, begun)
    for pattern, owners, most in zip(patterns, found, limits, strict=True):
        assert (np.bincount(owners, weights=row_weights(pattern), minlength=5) <= most).all()
    assert all(map(np.array_equal, found, together(patterns, begun, limits, 1)))
    assert not all(map(np.array_equal, found, together(patterns, begun, limits, 2)))
    assert told[-1][1] == told[-1][2] and [done for _, done, _ in told] == sorted({done for _, done, _ in told})


@pytest.mark.parametrize("kind", ["irregular", "regular"])
def test_words_are_counted_exactly(kind: str) -> None:
    """Hot, so that nearly all that is drawn is done: what the program counts is what owners say."""
    patterns, begun, limits = network(kind)
    # The last layer's readers decide nothing; before it all owners do.
    units = [np.unique(annealing.identical_rows(pattern) * 5 + owners, return_inverse=True)[1]
             for pattern, owners in zip(patterns, begun, strict=True)]
    library, problem = require(), annealing._problem(patterns, begun, units)
    most = np.floor(np.concatenate(limits)).astype(np.int64)
    state = library.plinth_annealing_new(5, len(patterns), len(problem.owners), problem.nets, *(
        array.ctypes.data for array in (problem.weights, problem.layers, problem.owners, problem.starts,
                                        problem.nets_of, most)), 0)
    ratios = np.array([0], np.uint64)
    least = library.plinth_annealing_run(state, ratios.ctypes.data, 0)
    assert least == words(patterns, begun)
    for _ in range(20):
        least = library.plinth_annealing_run(state, np.array([1 << 28], np.uint64).ctypes.data, 1)
        best = np.empty_like(problem.owners)
        library.plinth_annealing_best(state, best.ctypes.data)
        ends = np.cumsum([int(unit.max()) + 1 for unit in units])[:-1]
        layers = [owners[unit] for owners, unit in zip(np.split(best, ends), units, strict=True)]
        assert least == words(patterns, layers)
    library.plinth_annealing_free(state)
    assert least < words(patterns, begun)


def test_never_more_words_than_before() -> None:
    patterns, begun, limits = network("irregular")
    best = together(patterns, begun, limits, 0)
    single = [np.arange(len(owners)) for owners in best]
    hot = annealed(patterns, best, limits, single, 100, 50, 3, 0)
    assert all(map(np.array_equal, hot, best))


def test_best_is_annealed_and_the_same_again(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns, _, _ = network("irregular")
    monkeypatch.setattr(partitioner, "find_spec", lambda name: None)
    monkeypatch.setattr(annealing, "VISITS", 20_000)
    one, other = (partition(patterns, 5, "best", imbalance=0.03, seed=3) for _ in range(2))
    assert one == other and one.notes == ("Mt-KaHyPar is not installed (extra 'partition'): the best of the other "
                                          "ways",)
    greedily = partition(patterns, 5, "greedy", imbalance=0.03, seed=3)
    assert words(patterns, list(one.layers)) < 0.96 * words(patterns, list(greedily.layers))


@pytest.mark.parametrize("text, told", [
    (None, "no C++ compiler "),
    ("#!/bin/sh\necho 'annealing.cpp:1: error: no' >&2\nexit 1\n", "compiler failed: annealing.cpp:1: error: no"),
])
def test_without_a_compiler_layers_are_swept(text: str | None, told: str, compiler: Path,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    if text is not None:
        compiler.write_text(text, encoding="utf-8")
        compiler.chmod(0o755)
    with pytest.raises(AnnealingError):
        require()
    patterns, _, _ = network("irregular")
    monkeypatch.setattr(partitioner, "find_spec", lambda name: None)
    found = partition(patterns[:2], 3, "best", imbalance=0.1)
    note = next(note for note in found.notes if "sweeps, layer by layer" in note)
    assert told in note and "\n" not in note


def test_a_cache_that_cannot_be_written_is_said(compiler: Path, tmp_path: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX")
    (tmp_path / "cache").write_text("", encoding="utf-8")
    with pytest.raises(AnnealingError, match="cache"):
        require()


def test_too_large_networks_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns, _, _ = network("irregular")
    assert anneals(patterns, 4) == ""
    monkeypatch.setattr(annealing, "MOST_COUNTS", 4 * 170 - 1)
    assert "too large" in anneals(patterns, 4)
    monkeypatch.setattr(annealing, "MOST_COUNTS", 4 * 170)
    assert anneals(patterns, 4) == ""
    monkeypatch.setattr(annealing, "MOST_SIDES", 129)
    assert "too large" in anneals(patterns, 4)
