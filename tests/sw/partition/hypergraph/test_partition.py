"""The entry: every way, what results hold, and what is refused."""

import subprocess
import sys
from collections.abc import Iterator
from statistics import geometric_mean

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.support.sparse_patterns import pruned_net, radix_net

from plinth.errors import UserError
from plinth.partition.hypergraph import partitioner
from plinth.partition.hypergraph.figures import compared
from plinth.partition.hypergraph.model import phase
from plinth.partition.hypergraph.owners import Pattern, canonical, caps, longest_first, row_weights, shares
from plinth.partition.hypergraph.partition import WAYS, _state_balance, partition
from plinth.partition.hypergraph.partitioner import PartitionerError
from plinth.partition.hypergraph.volume import traffic

needs_partitioner = pytest.mark.skipif(not partitioner.available(), reason="extra 'partition' is not installed")
REGULAR = radix_net(128, 5, seed=1, copies=8)
IRREGULAR = pruned_net([80, 60, 60, 48], 0.15, 1)


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Mt-KaHyPar."""
    monkeypatch.setattr(partitioner, "find_spec", lambda name: None)


def test_ways_are_ordered_as_they_should(without: None) -> None:
    rows = compared(REGULAR, 4, ["random", "greedy", "structured", "best"])
    assert rows["best"]["volume"] <= min(rows["structured"]["volume"], rows["greedy"]["volume"])
    assert rows["structured"]["ratios"]["volume"] < 0.45 and rows["greedy"]["ratios"]["volume"] < 0.5
    rows = compared(IRREGULAR, 4, ["random", "greedy", "best"], imbalance=0.03)
    assert rows["greedy"]["ratios"]["volume"] < 0.95 and rows["best"]["volume"] < 0.985 * rows["greedy"]["volume"]
    assert rows["best"]["imbalance_layer"] <= 1.03 and rows["greedy"]["imbalance_layer"] <= 1.03
    assert geometric_mean([2, 8]) == pytest.approx(4)


@pytest.mark.parametrize("how", ["structured", "greedy", "random", "best"])
def test_the_same_seed_has_the_same_result(how: str, without: None) -> None:
    patterns = radix_net(64, 3, copies=8)
    one, other = (partition(patterns, 4, how, seed=5) for _ in range(2))
    assert one == other
    assert one.parts == 4 and [len(rows) for rows in one.layers] == [64] * 3


def test_layers_come_one_at_a_time(without: None) -> None:
    """All ways but best take layers as they come, and look at each once."""
    for how in ("structured", "greedy", "random"):
        given: list[int] = []

        def layers(given: list[int] = given) -> Iterator[Pattern]:
            for number, pattern in enumerate(REGULAR):
                given.append(number)
                yield pattern

        told: list[tuple[str, int, int]] = []
        found = partition(layers(), 4, how, progress=lambda *step, told=told: told.append(step))
        assert given == list(range(5)) and found == partition(REGULAR, 4, how)
        assert told == [(how, number, 0) for number in range(1, 6)]


def test_random_is_even_in_rows() -> None:
    found = partition(IRREGULAR, 7, "random", seed=1)
    for rows in found.layers:
        count = np.bincount(rows, minlength=7)
        assert count.max() - count.min() <= 1
    shared = partition(IRREGULAR, 3, "random", weights=[1, 2, 3], seed=1)
    assert [np.bincount(rows).tolist() for rows in shared.layers] == [[10, 20, 30], [10, 20, 30], [8, 16, 24]]


def test_balance_that_rows_do_not_allow_is_stated(without: None) -> None:
    pattern = csr_array(np.ones((10, 6)))
    found = partition([pattern], 4, "greedy")
    assert found.notes == ("layer 1: its rows allow an imbalance of 1.200 at best, not 1.010; it has 1.200",)
    assert sorted(np.bincount(found.layers[0]).tolist()) == [2, 2, 3, 3]
    assert partition([pattern], 5, "greedy").notes == ()
    # Placed longest first, loads are 7 and 5; 6 and 6 are found all the same, and nothing is to be said.
    notes: list[str] = []
    weights, halves = np.array([3, 3, 2, 2, 2]), shares(2, None)
    _, ratio = caps(weights, halves, 0.01)
    for owners, told in (([0, 0, 1, 1, 1], 0), ([0, 1, 0, 1, 0], 1)):
        _state_balance(notes, 1, np.array(owners), weights, halves, 0.01, ratio)
        assert ratio > 1.16 and len(notes) == told


def test_limits_are_the_least_that_rows_allow() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        rows, parts = int(rng.integers(3, 9)), int(rng.integers(1, 4))
        targets = shares(parts, rng.uniform(0.2, 3, size=parts).tolist())
        weights = np.full(rows, int(rng.integers(1, 9)))
        least = min(max(np.bincount(choice, weights=weights, minlength=parts) / targets / weights.sum())
                    for choice in np.array(np.meshgrid(*[range(parts)] * rows)).reshape(rows, -1).T)
        assert caps(weights, targets, 0.0)[1] == pytest.approx(max(least, 1))
    weights = rng.integers(1, 50, size=200)
    limits, ratio = caps(weights, shares(16, None), 0.01)
    assert ratio == 1.01 and (np.bincount(longest_first(weights, shares(16, None)), weights=weights) <= limits).all()


def test_rows_without_nonzeros(without: None) -> None:
    patterns = [csr_array((12, 8)), csr_array(np.eye(12)), csr_array(np.triu(np.ones((12, 12)), 7))]
    for how in ("greedy", "random", "best"):
        found = partition(patterns, 3, how)
        assert [len(rows) for rows in found.layers] == [12, 12, 12]
        assert sorted(np.bincount(found.layers[0], minlength=3).tolist()) == [4, 4, 4]
        assert traffic(patterns, found).layers[0].words == 0


def test_one_part_sends_nothing(without: None) -> None:
    for how in ("structured", "greedy", "random", "best"):
        assert traffic(REGULAR, partition(REGULAR, 1, how)).words == 0


@pytest.mark.parametrize("patterns, parts, options, message", [
    (REGULAR, 300, {}, "layer 1: 128 rows are fewer than 300 parts; give at most 128 parts"),
    (REGULAR, 0, {}, "0 parts; give at least 1"),
    (REGULAR, 2, {"weights": [1, 0]}, "weight 0 of part 1 is not positive; give a positive number for each part"),
    (REGULAR, 2, {"weights": [1, float("nan")]}, "weight nan of part 1 is not positive"),
    (REGULAR, 2, {"weights": [1]}, "1 weights for 2 parts; give one for each part"),
    (REGULAR, 2, {"how": "hash"}, "way 'hash' to partition is unknown; give one of structured, partitioner, greedy"),
    (REGULAR, 2, {"imbalance": -1}, "imbalance -1 is not a number from 0 on"),
    ([], 2, {}, "no layer to partition; give a pattern for each layer"),
    ([REGULAR[0], csr_array(np.ones((9, 7)))], 2, {}, "layer 2: 7 columns, but layer 1 has 128 rows"),
    ([np.ones((4, 4))], 2, {}, "layer 1: ndarray is no pattern; give a scipy.sparse.csr_array"),
    (IRREGULAR, 2, {"how": "structured"}, "layer 1: the pattern is not of rings and blocks"),
])
def test_refusals(patterns: list[Pattern], parts: int, options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match="^" + message.replace("(", r"\(").replace(".", r"\.")) as refusal:
        partition(patterns, parts, **{"how": "greedy", **options})
    assert "\n" not in str(refusal.value)


def test_missing_partitioner(without: None) -> None:
    with pytest.raises(UserError, match=r"Mt-KaHyPar is not installed; install the extra 'partition'"):
        partition(REGULAR, 4, "partitioner")
    assert "not installed" in partition(IRREGULAR, 2, "best").notes[0]


@pytest.mark.parametrize("program, told", [
    ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "Mt-KaHyPar crashed with signal 11"),
    ("import time; time.sleep(600)", "Mt-KaHyPar took more than 0.5 s"),
    ("raise ValueError('no such preset')", "Mt-KaHyPar failed: ValueError: no such preset"),
])
def test_a_partitioner_that_fails(program: str, told: str, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found out, and the layer is partitioned all the same."""
    worker = tmp_path / "worker.py"
    worker.write_text(program)
    monkeypatch.setattr(partitioner, "_WORKER", worker)
    pattern, targets = canonical(IRREGULAR[0]), shares(4, None)
    limits, _ = caps(row_weights(pattern), targets, 0.01)
    seconds = 0.5 if "sleep" in program else 600
    with pytest.raises(PartitionerError, match=told):
        partitioner.solve(phase(pattern, None, 4), limits, 0, seconds)
    (owners, note), = partitioner.phases([pattern], targets, 0.01, 0, seconds)
    assert note == f"{told}: greedy instead"
    assert (np.bincount(owners, weights=row_weights(pattern)) <= limits).all()


@needs_partitioner
def test_partitioner_phases() -> None:
    one, other = (partition(IRREGULAR, 4, "partitioner", imbalance=0.03, seed=1) for _ in range(2))
    assert one == other and one.notes == ()
    found = traffic(IRREGULAR, one)
    assert found.balance() <= 1.03
    assert found.volume < 0.95 * traffic(IRREGULAR, partition(IRREGULAR, 4, "random")).volume
    best = traffic(IRREGULAR, partition(IRREGULAR, 4, "best", imbalance=0.03, seed=1))
    assert best.volume < 0.98 * found.volume and best.balance() <= 1.03


@needs_partitioner
def test_what_the_partitioner_crashes_of_is_kept_from_it() -> None:
    """Two layers of N = 1,024, rows contracted, columns fixed: 64 units. Fixed vertices without weight end it."""
    patterns = radix_net(1024, 2)
    for weights in (None, [1, 1, 2, 4]):
        found = partition(patterns, 4, "partitioner", weights=weights)
        assert found.notes == () and traffic(patterns, found).balance(shares(4, weights)) < 1.011
    assert traffic(patterns, partition(patterns, 4, "partitioner")).volume < 0.1
    empty = [csr_array(np.vstack([np.eye(6), np.zeros((4, 6))])), csr_array(np.ones((8, 10)))]
    assert partition(empty, 2, "partitioner").notes == ()


def test_ways_are_documented() -> None:
    assert all(f"``{how}``" in (partition.__doc__ or "") for how in WAYS)


def test_the_worker_needs_nothing_of_plinth() -> None:
    text = partitioner._WORKER.read_text(encoding="utf-8")
    assert "plinth." not in text.partition('"""\n\nimport')[2]
    loaded = subprocess.run([sys.executable, "-c", "import sys, plinth.partition.hypergraph.partition\n"
                             "print('mtkahypar' in sys.modules)"], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "False"


def test_best_goes_on_from_a_partition(without: None) -> None:
    start = partition(IRREGULAR, 4, "greedy", imbalance=0.03)
    found = partition(IRREGULAR, 4, "best", imbalance=0.03, start=start)
    assert traffic(IRREGULAR, found).words < 0.98 * traffic(IRREGULAR, start).words
    assert found.notes == () and traffic(IRREGULAR, found).balance() <= 1.03


@pytest.mark.parametrize("patterns, parts, options, message", [
    (IRREGULAR, 4, {"how": "greedy"}, "a partition to start from is given, but way 'greedy' starts anew; choose"),
    (IRREGULAR, 3, {}, "the partition to start from has 4 parts, not 3; give one of 3"),
    (REGULAR, 4, {}, "layer 1: 128 rows and 128 columns, but the partition has owners of 60 rows and 80 columns; it is "
                     "of another network: partition this one"),
    (IRREGULAR, 4, {"imbalance": 0.0}, "layer 1: the partition to start from has an imbalance of 1."),
])
def test_starts_that_are_refused(patterns: list[Pattern], parts: int, options: dict[str, object], message: str,
                                 without: None) -> None:
    start = partition(IRREGULAR, 4, "random")
    with pytest.raises(UserError, match="^" + message.replace(".", r"\.")):
        partition(patterns, parts, **{"how": "best", "imbalance": 0.5, "start": start, **options})
