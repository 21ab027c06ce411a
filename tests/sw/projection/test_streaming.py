"""Streams of samples: which join the dictionary, and what basis and coordinates are then."""

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.worker_threads import in_threads

from plinth.errors import UserError
from plinth.projection import streaming
from plinth.projection.basis import GrowingBasis
from plinth.projection.projection import DICTIONARY, Projection, of_dictionary, padded
from plinth.projection.streaming import GrowthValidation, StreamingProjection
from plinth.train.data import digits

DIGITS = digits().train_x


def low_rank(samples: int, features: int, rank: int, seed: int = 0) -> NDArray[np.float32]:
    """Samples within so many directions."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((samples, rank)) @ rng.standard_normal((rank, features))).astype(np.float32)


def streamed(x: NDArray[np.float32], **settings: object) -> StreamingProjection:
    stream = StreamingProjection(x.shape[1], **settings)  # type: ignore[arg-type]
    stream.extend(x)
    return stream


def by_hand(x: NDArray[np.float32], beta: float) -> NDArray[np.float64]:
    """The dictionary, one sample after the other, by least squares."""
    units: list[NDArray[np.float64]] = []
    for sample in x.astype(np.float64):
        unit = sample / np.linalg.norm(sample)
        if units:
            matrix = np.array(units).T
            left = unit - matrix @ np.linalg.lstsq(matrix, unit)[0]
            if np.linalg.norm(left) <= beta:
                continue
        units.append(unit)
    return np.array(units)


@pytest.mark.parametrize("beta", [0.3, 0.1])
def test_the_dictionary_is_that_of_the_definition(beta: float) -> None:
    projection = streamed(DIGITS[:500], beta=beta).projection
    assert np.allclose(projection.dictionary, by_hand(DIGITS[:500], beta), atol=1e-6)


def test_no_sample_is_left_by_more_than_the_tolerance() -> None:
    projection = streamed(DIGITS).projection
    assert projection.residuals(DIGITS).max() <= 0.1 + 1e-6
    assert projection.error(DIGITS) < 0.05 and 30 < projection.size < 64


@pytest.mark.parametrize("beta", [0.1, 0.003, 0.0])
def test_the_basis_is_orthonormal_at_any_tolerance(beta: float) -> None:
    """Samples lie close together: one pass of Gram-Schmidt, or FP32, would leave rows far from orthogonal."""
    rng = np.random.default_rng(0)
    x = (1 + 0.01 * rng.standard_normal((300, 40))).astype(np.float32)
    projection = streamed(x, beta=beta).projection
    assert np.abs(projection.basis @ projection.basis.T - np.eye(projection.size)).max() < 1e-6
    assert projection.size == (40 if beta < 0.01 else 1)
    rows = GrowingBasis(40)
    for sample in x[:40].astype(np.float64):
        rows.add(rows.residual(sample / np.linalg.norm(sample)))
    assert np.abs(rows.rows @ rows.rows.T - np.eye(40)).max() < 1e-14


def test_what_lies_in_the_span_adds_nothing() -> None:
    x = low_rank(400, 30, 7)
    stream = streamed(x, beta=0.0)
    assert stream.size == 7
    stream.extend(x[::-1])
    stream.extend(np.repeat(x[:1], 3, axis=0) * np.float32(1.7))
    assert stream.size == 7 and stream.samples == 803


def test_samples_of_tiny_norm_do_not_fill_the_dictionary() -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([low_rank(100, 30, 4), 1e-5 * rng.standard_normal((100, 30)).astype(np.float32)])
    stream = streamed(x)
    assert (stream.size, stream.tiny) == (4, 100)
    assert streamed(x, floor=0.0).size == 30
    # Before any that is larger they are what the data are.
    assert streamed(x[100:]).size == streamed(x[::-1]).size == 30


def test_zeros_are_told_by_any_basis() -> None:
    x = DIGITS[:50].copy()
    x[[0, 17]] = 0
    stream = StreamingProjection(64, constant=True)
    coordinates = stream.extend(x)
    assert not coordinates[[0, 17]].any() and np.isfinite(coordinates).all()
    assert stream.projection.residuals(np.zeros((2, 64))).tolist() == [0, 0]
    assert stream.projection.error(np.zeros((2, 64))) == 0


def test_magnitudes_do_not_matter() -> None:
    """Squares of these are beyond FP32."""
    sizes = [streamed(DIGITS[:300] * np.float32(factor)).projection.basis for factor in (1, 2.0**40, 2.0**-40)]
    assert np.array_equal(sizes[0], sizes[1]) and np.array_equal(sizes[0], sizes[2])


@pytest.mark.parametrize("block", [1, 7, 4096])
def test_blocks_and_batches_do_not_matter(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = streamed(DIGITS).projection
    monkeypatch.setattr(streaming, "BLOCK", block)
    stream = StreamingProjection(64)
    for start in range(0, len(DIGITS), 311):
        stream.extend(DIGITS[start:start + 311])
    assert np.array_equal(stream.projection.basis, expected.basis)
    assert np.array_equal(stream.projection.dictionary, expected.dictionary)


def test_coordinates_of_a_stream_are_padded_as_the_basis_grows() -> None:
    stream = StreamingProjection(64)
    first = stream.extend(DIGITS[:40])
    size = stream.size
    stream.extend(DIGITS[40:])
    whole = padded(first, stream.size)
    assert size < stream.size and not whole[:, size:].any()
    assert np.allclose(whole[:, :size], stream.projection.project(DIGITS[:40])[:, :size], atol=1e-5)
    restored = stream.projection.restored(whole)
    left = np.linalg.norm(DIGITS[:40] - restored, axis=1) / np.linalg.norm(DIGITS[:40], axis=1)
    assert left.max() <= 0.1 + 1e-6
    with pytest.raises(UserError, match=r"cannot be padded to 3 columns"):
        padded(first, 3)


def test_a_limit_ends_growth() -> None:
    stream = streamed(DIGITS, limit=12)
    assert stream.size == 12 and stream.full and stream.samples == len(DIGITS)
    assert np.array_equal(stream.projection.basis, streamed(DIGITS).projection.basis[:12])
    assert streamed(DIGITS, limit=1000).limit == 64


def test_growth_ends_when_accuracy_stalls() -> None:
    asked: list[int] = []

    def accuracy(projection: Projection) -> float:
        asked.append(projection.size)
        return min(0.9, projection.size / 20)

    stream = streamed(DIGITS, validation=GrowthValidation(accuracy=accuracy, every=4, gain=0.01, patience=2))
    assert asked == [4, 8, 12, 16, 20, 24, 28][:len(asked)] and stream.size == asked[-1] == 28
    assert stream.full and stream.accuracies[16] == 0.8
    with pytest.raises(UserError, match=r"accuracy at 4 coordinates is nan; give a share from 0 to 1"):
        streamed(DIGITS, validation=GrowthValidation(accuracy=lambda projection: np.nan, every=4))


def test_coordinates_of_the_dictionary_are_weights_of_its_samples() -> None:
    projection = streamed(DIGITS, limit=20, coordinates=DICTIONARY).projection
    weights = projection.project(DIGITS[:50])
    expected = np.linalg.lstsq(projection.dictionary.T.astype(np.float64), DIGITS[:50].T.astype(np.float64))[0].T
    assert np.allclose(weights, expected, atol=1e-3)
    of_basis = Projection(projection.basis, projection.dictionary, projection.beta)
    assert np.allclose(projection.restored(weights), of_basis.restored(of_basis.project(DIGITS[:50])), atol=1e-4)
    assert projection.condition == pytest.approx(np.linalg.cond(projection.dictionary), rel=1e-3)
    assert projection.condition > 10 and np.abs(np.triu(projection.triangle, 1)).max() < 1e-6


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("limit", [None, 20])
def test_ranks_come_to_the_bits_of_one(ranks: int, limit: int | None) -> None:
    alone = streamed(DIGITS, limit=limit)

    def work(others: object) -> tuple[Projection, int, int, NDArray[np.float32]]:
        stream = StreamingProjection(64, limit=limit, ranks=others)  # type: ignore[arg-type]
        parts = [stream.extend(part[others.own::ranks]) for part in (DIGITS[:600], DIGITS[600:])]  # type: ignore[attr-defined]
        return stream.projection, stream.samples, stream.tiny, parts[1]

    for own, (projection, samples, tiny, coordinates) in enumerate(in_threads(ranks, work)):
        assert np.array_equal(projection.basis, alone.projection.basis)
        assert np.array_equal(projection.dictionary, alone.projection.dictionary)
        assert (samples, tiny) == (alone.samples, alone.tiny)
        assert np.allclose(coordinates, alone.projection.project(DIGITS[600:])[own::ranks], atol=1e-5)


def test_a_rank_may_have_no_samples() -> None:
    def work(others: object) -> int:
        stream = StreamingProjection(64, ranks=others)  # type: ignore[arg-type]
        assert len(stream.extend(DIGITS[:2][others.own::3])) == (others.own < 2)  # type: ignore[attr-defined]
        return stream.size

    assert in_threads(3, work) == [2, 2, 2]


def test_validation_is_asked_on_the_first_rank_and_ends_growth_on_all() -> None:
    asked: list[int] = []

    def work(others: object) -> int:
        def accuracy(projection: Projection) -> float:
            asked.append(others.own)  # type: ignore[attr-defined]
            return 0.5

        stream = StreamingProjection(64, ranks=others, validation=GrowthValidation(  # type: ignore[arg-type]
            accuracy=accuracy, every=5, patience=1))
        stream.extend(DIGITS[others.own::2])  # type: ignore[attr-defined]
        return stream.size

    assert in_threads(2, work) == [10, 10] and set(asked) == {0}


def test_a_wrong_sample_of_a_rank_is_refused_on_all() -> None:
    def work(others: object) -> str:
        x = DIGITS.copy()
        x[17, 5] = np.nan
        with pytest.raises(UserError) as caught:
            StreamingProjection(64, ranks=others).extend(x[others.own::2])  # type: ignore[arg-type, attr-defined]
        return str(caught.value)

    assert in_threads(2, work) == 2 * ["sample 17: feature 5 is nan, not finite; mend the sample, or leave it out"]


def with_value(value: object, feature: int | slice = 5) -> NDArray[np.float64]:
    x = DIGITS[:30].astype(np.float64)
    x[17, feature] = value
    return x


@pytest.mark.parametrize(("x", "message"), [
    (with_value(np.nan), "sample 17: feature 5 is nan, not finite"),
    (with_value(-np.inf), "sample 17: feature 5 is -inf, not finite"),
    (with_value(1e300), r"sample 17: feature 5 is 1e\+300, beyond \+-1e\+15"),
    (with_value(0, slice(None)), "sample 17: all 64 values are 0, which"),
    (with_value(0.25, slice(None)), r"sample 17: all 64 values are 0.25, which .* constant=True"),
    (DIGITS[:30, :63], "sample 0: has 63 features, where the projection has 64"),
    ([[1.0] * 64, [2.0] * 63], "sample 1: has 63 features, where others have 64"),
    (DIGITS[0], r"samples must be real numbers \[samples, features\], with 64 features, not float32 \[64\]"),
    ([["a"] * 64], "samples must be real numbers"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_wrong_samples_are_refused_by_number_and_none_is_taken(x: object, message: str) -> None:
    stream = StreamingProjection(64)
    with pytest.raises(UserError, match=message):
        stream.extend(x)
    assert not stream.size and not stream.samples


def test_numbers_of_samples_go_on_in_a_stream() -> None:
    stream = StreamingProjection(64)
    stream.extend(DIGITS[:100])
    with pytest.raises(UserError, match="sample 117: feature 5 is nan"):
        stream.extend(with_value(np.nan))
    with pytest.raises(UserError, match="sample 17: feature 5 is inf"):
        stream.projection.project(with_value(np.inf))


@pytest.mark.parametrize(("settings", "message"), [
    ({"beta": 1.5}, "beta must be a number from 0 to 1, not 1.5; it is the share"),
    ({"beta": -0.1}, "beta must be a number from 0 to 1"), ({"beta": float("nan")}, "beta must be a number"),
    ({"beta": "10 %"}, "beta must be a number"), ({"limit": 0}, "limit must be an integer from 1"),
    ({"limit": 2.5}, "limit must be an integer"), ({"floor": 2}, "floor must be a number from 0 to 1"),
    ({"coordinates": "pca"}, "projection: unknown kind of coordinates the text 'pca'; known are")])
def test_settings_out_of_range_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        StreamingProjection(64, **settings)  # type: ignore[arg-type]


def test_a_given_dictionary_has_full_rank() -> None:
    projection = of_dictionary(DIGITS[:10], coordinates=DICTIONARY)
    assert projection.size == 10 and projection.error(DIGITS[:10]) < 1e-6
    rows = DIGITS[:10].copy()
    rows[7] = 0.5 * rows[2] + 3 * rows[4]
    with pytest.raises(UserError, match="sample 7: lies in the span of the 7 before it"):
        of_dictionary(rows)
    rows[3] = 0
    with pytest.raises(UserError, match="sample 3: all 64 values are 0"):
        of_dictionary(rows)
