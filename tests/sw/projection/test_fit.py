"""Projections of samples in memory: chosen where a limit binds, shared out over ranks, beside others, on disk."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.ranks import in_ranks
from tests.support.worker_threads import in_threads

from plinth.bench import projection as bench
from plinth.bench.projection import generated
from plinth.errors import UserError
from plinth.projection.compare import PRINCIPAL, RANDOM, RAW, compared, principal, random_directions, table
from plinth.projection.fit import fit
from plinth.projection.projection import DICTIONARY, Projection
from plinth.projection.selection import DIRECTIONS, FIRST, GREEDY, greedy_samples, leading_directions
from plinth.projection.streaming import GrowthValidation, StreamingProjection
from plinth.runtime.mpi_messages import MpiMessages
from plinth.train.data import digits

DATASET = digits()
DIGITS = DATASET.train_x


def error_of(x: NDArray[np.float32], rows: NDArray[np.float32]) -> float:
    """Frobenius error onto the span of rows, by least squares."""
    q = np.linalg.qr(rows.T.astype(np.float64))[0]
    return float(np.linalg.norm(x - (x @ q) @ q.T) / np.linalg.norm(x))


def test_without_a_limit_all_samples_are_streamed() -> None:
    stream = StreamingProjection(64)
    stream.extend(DIGITS)
    projection = fit(DIGITS)
    assert np.array_equal(projection.basis, stream.projection.basis)
    # A limit that does not bind changes nothing.
    assert np.array_equal(fit(DIGITS, limit=64).basis, projection.basis)
    assert np.array_equal(fit(DIGITS, limit=60).basis, projection.basis)


def test_errors_of_selections_at_a_limit_that_binds() -> None:
    least = principal(DIGITS, 32).error(DIGITS)
    ratios = {selection: fit(DIGITS, limit=32, selection=selection).error(DIGITS) / least
              for selection in (DIRECTIONS, GREEDY, FIRST)}
    assert 1 < ratios[DIRECTIONS] < 1.4 < ratios[GREEDY] < ratios[FIRST]
    assert fit(DIGITS, limit=32).size == 32 and fit(DIGITS, limit=32, tuning=1.0).error(DIGITS) / least < 1.1


def test_a_greedy_choice_is_the_best_next_one() -> None:
    x = DIGITS[:40]
    chosen = greedy_samples(x, 4)
    for number in range(4):
        errors = [error_of(x, x[[*chosen[:number], place]]) for place in range(len(x))]
        assert chosen[number] == int(np.argmin(errors))


def test_a_greedy_choice_ends_where_others_lie_in_the_span() -> None:
    x = np.random.default_rng(0).standard_normal((20, 5)).astype(np.float32)
    assert len(greedy_samples(np.repeat(x[:3], 4, axis=0), 10)) == 3
    assert not greedy_samples(np.zeros((4, 5), np.float32), 2)


def test_leading_directions_lie_in_the_span_and_are_the_best_there() -> None:
    span = np.linalg.qr(DIGITS[:40].T.astype(np.float64))[0].T
    rows = leading_directions(span, DIGITS[:200], 10)
    assert np.allclose(rows @ rows.T, np.eye(10)) and np.allclose(rows @ span.T @ span, rows)
    inside = DIGITS[:200] @ span.T
    energies = np.linalg.svd(inside, compute_uv=False)[:10] ** 2
    assert np.allclose(((DIGITS[:200] @ rows.T) ** 2).sum(axis=0), energies, rtol=1e-4)


def test_the_samples_that_are_looked_at_are_few_and_of_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    from plinth.projection import fit as module

    seen = []
    monkeypatch.setattr(module, "_tuned", lambda samples, *others: seen.append(samples))
    for limit, seed in ((8, 0), (32, 0), (50, 0), (32, 0), (32, 1)):
        fit(DIGITS, limit=limit, seed=seed)
    assert [len(samples) for samples in seen] == [71, 71, 71, 71, 71]
    assert np.array_equal(seen[1], seen[3]) and not np.array_equal(seen[1], seen[4])
    fit(DIGITS[:100], limit=32)
    fit(np.tile(DIGITS, (10, 1)), limit=8)
    assert [len(samples) for samples in seen[5:]] == [32, 128]


def test_validation_ends_a_choice_too() -> None:
    validation = GrowthValidation(accuracy=lambda projection: 0.7, every=6, patience=2)
    assert fit(DIGITS, limit=32, validation=validation).size == 18
    assert fit(DIGITS, limit=32, selection=FIRST, validation=validation).size == 18


def shared(ranks: object, **settings: object) -> Projection:
    return fit(DIGITS[ranks.own::ranks.size], ranks=ranks, **settings)  # type: ignore[arg-type, attr-defined]


@pytest.mark.parametrize("settings", [{}, {"limit": 32}, {"limit": 32, "selection": GREEDY},
                                      {"limit": 20, "coordinates": DICTIONARY, "selection": FIRST}], ids=str)
def test_ranks_get_the_bits_of_one(settings: dict[str, object]) -> None:
    alone = fit(DIGITS, **settings)  # type: ignore[arg-type]
    for projection in in_threads(3, partial(shared, **settings)):
        assert np.array_equal(projection.basis, alone.basis)
        assert np.array_equal(projection.dictionary, alone.dictionary)


def of_mpi(transport: object) -> list[bytes]:
    messages = MpiMessages(transport)  # type: ignore[arg-type]
    return [shared(messages, **settings).basis.tobytes() for settings in ({}, {"limit": 32})]


def test_ranks_of_mpi_get_the_bits_of_one() -> None:
    expected = [fit(DIGITS).basis.tobytes(), fit(DIGITS, limit=32).basis.tobytes()]
    assert in_ranks([[0], [1]], of_mpi) == [expected, expected]


def test_ranks_with_samples_of_other_widths_are_refused() -> None:
    def work(ranks: object) -> str:
        with pytest.raises(UserError) as caught:
            fit(DIGITS[:40, :60 + ranks.own], ranks=ranks)  # type: ignore[arg-type, attr-defined]
        return str(caught.value)

    assert in_threads(2, work) == 2 * ["ranks have samples of 60, 61 features; give all ranks samples of the same data"]


@pytest.mark.parametrize(("settings", "message"), [
    ({"limit": 2000}, None), ({"x": DIGITS[:20], "limit": 32}, "there are 20 samples, fewer than the limit of 32"),
    ({"x": np.zeros((0, 64))}, "there are no samples"), ({"beta": 2}, "beta must be"),
    ({"selection": "best"}, "unknown selection the text 'best'; known are"),
    ({"tuning": 5}, "tuning must be a number from 0 to 1"),
    ({"coordinates": DICTIONARY, "selection": DIRECTIONS}, "choose 'greedy', or coordinates='basis'"),
    ({"seed": -1}, "seed must be an integer")], ids=str)
def test_settings_that_cannot_be(settings: dict[str, object], message: str | None) -> None:
    settings = {"x": DIGITS} | settings
    if message is None:
        assert fit(**settings).size < 64  # type: ignore[arg-type]
        return
    with pytest.raises(UserError, match=message):
        fit(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("settings", [{}, {"limit": 32}, {"limit": 16, "coordinates": DICTIONARY}], ids=str)
def test_a_projection_comes_back_from_its_file(settings: dict[str, object], tmp_path: Path) -> None:
    projection = fit(DIGITS, **settings)  # type: ignore[arg-type]
    paths = [tmp_path / "a.npz", tmp_path / "b.npz"]
    for path in paths:
        projection.to_file(path)
    loaded = Projection.load(str(paths[0]))
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert np.array_equal(loaded.project(DATASET.test_x), projection.project(DATASET.test_x))
    assert (loaded.beta, loaded.coordinates) == (projection.beta, projection.coordinates)


def altered(projection: Projection, **changes: object) -> Projection:
    return Projection(**{name: changes.get(name, getattr(projection, name))  # type: ignore[arg-type]
                         for name in ("basis", "dictionary", "beta", "coordinates")})


WEIGHTS = fit(DIGITS, limit=16, coordinates=DICTIONARY)
TWICE = WEIGHTS.dictionary.copy()
TWICE[3] = TWICE[2]


@pytest.mark.parametrize(("changes", "message"), [
    ({"basis": 2 * WEIGHTS.basis}, "rows of the basis are not orthonormal"),
    ({"basis": 1e30 * WEIGHTS.basis}, "rows of the basis are not orthonormal"),
    ({"basis": WEIGHTS.basis * np.nan}, "basis has a number that is not finite"),
    ({"basis": WEIGHTS.basis.astype(np.float64)}, "where rows of float32 numbers belong"),
    ({"basis": WEIGHTS.basis[:, :60]}, "do not fit each other"), ({"basis": WEIGHTS.basis[:9]}, "as many samples"),
    ({"dictionary": 2 * WEIGHTS.dictionary}, "has not norm 1"),
    ({"dictionary": WEIGHTS.dictionary[::-1]}, "that grew by a sample at a time"),
    ({"dictionary": TWICE}, "lies in the span of those before it"),
    ({"beta": 7.0}, "beta must be a number from 0 to 1"),
    ({"coordinates": "pca"}, "unknown kind of coordinates")], ids=lambda value: value if isinstance(value, str) else "")
def test_a_file_that_holds_no_projection_is_refused(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    altered(WEIGHTS, **changes).to_file(tmp_path / "a.npz")
    with pytest.raises(UserError, match=message) as caught:
        Projection.load(tmp_path / "a.npz")
    assert str(tmp_path / "a.npz") in str(caught.value)


def test_principal_components_have_the_least_error_and_random_directions_the_most() -> None:
    rows = {row.name: row for row in compared(DATASET, 32, seeds=())}
    errors = [rows[name].error for name in (PRINCIPAL, f"selection {DIRECTIONS}", f"selection {GREEDY}",
                                            f"selection {FIRST}", RANDOM)]
    assert errors == sorted(errors) and rows[RAW].size == 64
    sizes = np.linalg.svd(DIGITS.astype(np.float64), compute_uv=False) ** 2
    assert rows[PRINCIPAL].error == pytest.approx((sizes[32:].sum() / sizes.sum()) ** 0.5, rel=1e-4)
    text = table(list(rows.values()))
    assert text.count("\n") == 8 and f"| {PRINCIPAL} | 32 | 0.102 | 0.106 |" in text


def test_a_network_trains_on_coordinates() -> None:
    (row,) = compared(DATASET, 32, steps=100, names=[f"selection {DIRECTIONS}"])
    assert row.size == 32 and 0.9 < row.accuracies[0] <= 1 and row.deviation == 0
    assert f"| {row.accuracies[0]:.3f} | 0.000 |" in table([row])


def test_random_directions_are_orthonormal_and_of_the_seed() -> None:
    projection = random_directions(64, 32, 5)
    assert np.allclose(projection.basis @ projection.basis.T, np.eye(32), atol=1e-6)
    assert np.array_equal(projection.basis, random_directions(64, 32, 5).basis)


def test_times_are_a_sample_of_few_and_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "MANY", 400)
    monkeypatch.setattr(bench, "FEW", 100)
    monkeypatch.setattr(bench, "STREAMED", 60)
    stream, given = StreamingProjection(64), []
    stream.extend(DIGITS[:400])
    times = bench._times(DIGITS[:400], lambda x: given.append(len(x)) or bench._tested(stream, x))  # type: ignore[func-returns-value]
    assert times["coordinates"] == 2 * [stream.size] and len(times["turns"]) == bench.TURNS
    assert given == (bench.TURNS + 1) * [100, 100, 100, 100, 400] + [100, 400]
    assert bench._fitted(16, DIGITS[:400]) == 16


def test_generated_samples_lie_between_real_ones() -> None:
    x = np.array([[0, 0], [1, 0], [0, 1]], np.float32)
    made = generated(x, 500)
    assert made.shape == (500, 2) and made.dtype == np.float32
    assert made.min() >= 0 and (made.sum(axis=1) <= 1 + 1e-6).all() and len(np.unique(made, axis=0)) > 100
    assert np.array_equal(made, generated(x, 500))
