"""Samples as projections take them: FP32, finite, and none that tells nothing; a wrong one is refused by its number."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.errors import UserError
from plinth.files.forms import described, is_integer

Floats = NDArray[np.float32]
#: Largest magnitude of a value: the squares of as many as a sample can have add up to a number of FP32.
MAXIMUM_VALUE = 1e15
#: Most features of a sample: those that a network's input can have beside a basis in memory.
MAXIMUM_FEATURES = 1 << 16
#: Values that are looked at together: they stay in a cache meanwhile.
_CHUNK = 1 << 16


def check_fraction(name: str, value: Any, remedy: str) -> float:
    """A number from 0 to 1.

    Raises
    ------
    UserError
        If it is none; the line names it by ``name`` and ends in ``remedy``.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating)) or not 0 <= value <= 1:
        raise UserError(f"{name} must be a number from 0 to 1, not {described(value)}; {remedy}")
    return float(value)


def check_count(name: str, value: Any, low: int, high: int, remedy: str) -> int:
    """An integer from ``low`` to ``high``.

    Raises
    ------
    UserError
        If it is none; the line names it by ``name`` and ends in ``remedy``.
    """
    value = int(value) if isinstance(value, np.integer) else value
    if not is_integer(value, low, high):
        raise UserError(f"{name} must be an integer from {low} to {high}, not {described(value)}; {remedy}")
    return int(value)


def checked(x: Any, features: int | None = None, *, first: int = 0, step: int = 1, constant: bool = True) -> Floats:
    """Samples ``[samples, features]`` as FP32.

    Parameters
    ----------
    x : array_like
        Real numbers, a row each sample.
    features : int or None
        How many a sample must have; None: any number, at least 1.
    first, step : int
        Messages number the samples ``first``, ``first + step``, and so on.
    constant : bool
        Whether a sample may have one value throughout, zero among others. Of one feature every sample has.

    Raises
    ------
    UserError
        If they are no such rows, of another width, or one is not finite, too large for FP32, or constant.
    """
    array = _rows(x, features, first, step)
    # Beyond FP32 they become infinite, and are refused below.
    with np.errstate(over="ignore"):
        samples = np.ascontiguousarray(array, dtype=np.float32)
    chunk = max(1, _CHUNK // samples.shape[1])
    for start in range(0, len(samples), chunk):
        part = samples[start:start + chunk]
        largest, least = part.max(axis=1), part.min(axis=1)
        # NaN compares as false.
        wrong = np.flatnonzero(~((largest <= MAXIMUM_VALUE) & (least >= -MAXIMUM_VALUE)))
        if len(wrong):
            raise _refusal(first + step * (start + int(wrong[0])), array[start + wrong[0]])
        same = np.flatnonzero(largest == least)
        if len(same) and not constant and samples.shape[1] > 1:
            raise UserError(f"sample {first + step * (start + int(same[0]))}: all {samples.shape[1]} values are "
                            f"{largest[same[0]]:g}, which tells one feature from none other; leave it out, or allow "
                            "such samples with constant=True")
    return samples


def _rows(x: Any, features: int | None, first: int, step: int) -> NDArray[Any]:
    """The samples as an array of two dimensions of real numbers."""
    wanted = "any number of" if features is None else str(features)
    try:
        array = np.asarray(x)
    except ValueError:
        raise _odd_row(x, features, first, step) from None
    if array.dtype.kind not in "biuf" or array.ndim != 2 or not array.shape[1]:
        raise UserError(f"samples must be real numbers [samples, features], with {wanted} features, not {array.dtype} "
                        f"{list(array.shape)}; give a row each sample")
    if array.shape[1] > MAXIMUM_FEATURES:
        raise UserError(f"samples have {array.shape[1]} features, more than {MAXIMUM_FEATURES}; give fewer")
    if features is not None and array.shape[1] != features:
        number = f"sample {first}" if len(array) else "samples"
        raise UserError(f"{number}: has {array.shape[1]} features, where the projection has {features}; give samples "
                        "of the data that it was made of")
    return array


def _odd_row(x: Sequence[Any], features: int | None, first: int, step: int) -> UserError:
    """The error that rows of a list differ in length, naming the first that does."""
    lengths = [len(row) if hasattr(row, "__len__") else 1 for row in x]
    wanted = lengths[0] if features is None else features
    odd = next((place for place, length in enumerate(lengths) if length != wanted), 0)
    return UserError(f"sample {first + step * odd}: has {lengths[odd]} features, where others have {wanted}; give each "
                     "as many")


def _refusal(number: int, row: NDArray[Any]) -> UserError:
    """The error that a sample has a value that no projection takes, naming its first such feature."""
    values = row.astype(np.float64)
    feature = int(np.flatnonzero(~(np.abs(values) <= MAXIMUM_VALUE))[0])
    problem = "not finite" if not np.isfinite(values[feature]) else f"beyond +-{MAXIMUM_VALUE:g}"
    return UserError(f"sample {number}: feature {feature} is {values[feature]:g}, {problem}; mend the sample, or leave "
                     "it out")
