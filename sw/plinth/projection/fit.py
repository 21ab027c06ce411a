"""Makes the projection of samples in memory: tuned on a small part of them where a limit binds, else streamed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.errors import UserError
from plinth.files.documents import check_choice
from plinth.projection.projection import BASIS, COORDINATES, DICTIONARY, Projection
from plinth.projection.ranks import OneRank, Ranks, of_first
from plinth.projection.samples import Floats, check_count, check_fraction
from plinth.projection.selection import DIRECTIONS, FIRST, GREEDY, SELECTIONS, selected
from plinth.projection.streaming import (
    BETA,
    FLOOR,
    GrowthValidation,
    StallWatch,
    StreamingProjection,
    check_limit,
    together_checked,
)

#: Share of the samples that tuning looks at, and most samples of it, a coordinate: those of a limit of l are 16 l.
TUNING, TUNING_SAMPLES = 0.05, 16


def fit(x: Any, *, beta: float = BETA, limit: int | None = None, selection: str | None = None, tuning: float = TUNING,
        coordinates: str = BASIS, floor: float = FLOOR, constant: bool = False, seed: int = 0,
        validation: GrowthValidation | None = None, ranks: Ranks | None = None) -> Projection:
    """Make the projection of samples.

    With a limit, a random part of the samples is looked at first. If they need more coordinates than the limit at the
    tolerance, the projection is chosen on that part and the limit is its size. Otherwise all samples go through
    a :class:`~plinth.projection.streaming.StreamingProjection`, which ends growing at the limit.

    Parameters
    ----------
    x : array_like ``[samples, features]``
        Real numbers; with ``ranks`` those of this rank, as :mod:`plinth.projection.ranks` deals them.
    beta : float
        Tolerance: the share of a sample's norm that may be left of it, 0 to 1.
    limit : int or None
        Most coordinates; None, or more than features: as many as these.
    selection : str or None
        What is chosen where the limit binds. ``directions``: the leading directions of the dictionary's span; least
        error. ``greedy``: samples, by what their directions explain. ``first``: the first ones of the stream. None:
        directions, or, of coordinates ``D^+ a``, which need a dictionary of as many samples, greedy.
    tuning : float
        Share of the samples that is looked at first: at least as many as the limit, at most 16 times that.
    coordinates : str
        ``basis`` or ``dictionary`` (:class:`~plinth.projection.projection.Projection`).
    floor : float
        Samples of a norm below this share of the largest so far do not join the dictionary.
    constant : bool
        Whether constant samples, such as one of zeros, are taken.
    seed : int
        Of the choice of samples that are looked at first.
    validation : GrowthValidation or None
        Ends the growth when accuracy stalls; asked on the first rank.
    ranks : Ranks or None
        Processes that have a share of the samples each. Collective; all have the same arguments but ``x``, and get the
        same projection, the bits of one rank with all samples (on one kind of processor: the first rank decides).

    Returns
    -------
    Projection
        Of as many coordinates as the samples need, and at most the limit.

    Raises
    ------
    UserError
        If a setting is out of its range; if there are no samples, or fewer than the limit; if a sample is refused
        (:class:`~plinth.projection.streaming.StreamingProjection`).
    """
    ranks = ranks or OneRank()
    if limit is not None:
        check_limit(limit)
    check_fraction("tuning", tuning, "it is a share of the samples")
    check_choice(coordinates, COORDINATES, "projection", "kind of coordinates")
    selection = check_choice(_default(coordinates) if selection is None else selection, SELECTIONS, "projection",
                             "selection")
    if (coordinates, selection) == (DICTIONARY, DIRECTIONS):
        raise UserError(f"coordinates of the dictionary need as many samples in it: selection {DIRECTIONS!r} has more; "
                        f"choose {GREEDY!r}, or coordinates={BASIS!r}")
    check_count("seed", seed, 0, 2**32 - 1, "it numbers a choice of samples")
    samples, counts = together_checked(x, None, ranks, 0, constant)
    total, features = sum(counts), samples.shape[1]
    if not total:
        raise UserError("there are no samples; give at least one")
    if limit is not None and total < min(limit, features):
        raise UserError(f"there are {total} samples, fewer than the limit of {limit} coordinates; give as many, or a "
                        f"limit of at most {total}")
    stream = StreamingProjection(features, beta=beta, limit=limit, coordinates=coordinates, floor=floor,
                                 constant=constant, validation=validation, ranks=ranks)
    if limit is not None and limit < features and selection != FIRST:
        numbers = _tuning_numbers(total, limit, tuning, seed)
        parts = ranks.told(samples[numbers[numbers % ranks.size == ranks.own] // ranks.size])
        (tuned,) = of_first(ranks, lambda: (_tuned(_dealt(parts, numbers), stream, selection, validation),))
        if tuned is not None:
            return tuned
    stream.take(samples, counts)
    return stream.projection


def _default(coordinates: str) -> str:
    return GREEDY if coordinates == DICTIONARY else DIRECTIONS


def _tuning_numbers(total: int, limit: int, tuning: float, seed: int) -> NDArray[np.int64]:
    """Numbers of the samples that are looked at first, ascending."""
    count = min(total, max(limit, min(TUNING_SAMPLES * limit, int(tuning * total))))
    return np.sort(np.random.default_rng(seed).choice(total, count, replace=False))


def _dealt(parts: list[Floats], numbers: NDArray[np.int64]) -> Floats:
    """Samples of all ranks in the order of their numbers."""
    whole = np.empty((len(numbers), parts[0].shape[1]), np.float32)
    for own, part in enumerate(parts):
        whole[numbers % len(parts) == own] = part
    return whole


def _tuned(samples: Floats, stream: StreamingProjection, selection: str, validation: GrowthValidation | None
           ) -> Projection | None:
    """The projection that is chosen on a part of the samples; None if the limit of a stream does not bind there."""
    free = StreamingProjection(stream.features, beta=stream.beta, coordinates=stream.coordinates, floor=stream.floor,
                               constant=stream.constant)
    free.extend(samples)
    if free.size <= stream.limit:
        return None
    make = selected(selection, free.projection, samples, stream.limit)
    watch, size = StallWatch(validation), 1
    while size < stream.limit and not watch.stalled(size, make):
        size += 1
    return make(size)
