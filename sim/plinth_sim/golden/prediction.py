"""Golden model of the prediction of neurons that a ReLU makes 0, and of gathers that send what the others need.

Tile elements are ``[T, T', ..]``, neurons ``[m, m', ..]``; a *way* is A^T down and across, ``[m, T]`` each. Where
sources hold whole lines, they have done the direction down in full, and elements are ``[m, T', ..]``: no matrix down.

**Bound.** Of a row of A^T, with c+ and c- its coefficients above and below zero, and elements from low to high::

    high' = sum of c+ high, c- low          low' = sum of c+ low, c- high

first down, then across, each in the very order of roundings of :func:`plinth_sim.golden.winograd.weighted`, that is of
the gather. RN32(a + b) and RN32(2^k a) do not fall as a or b rise, so, by induction over that tree of sums, the
*rounded* high is at least the *rounded* neuron: no guard for roundings is needed. Infinities fit in; where a neuron is
NaN, its high is NaN or +infinity. What stands between gather and ReLU does the same: a bias or a residual is added
(RN32(high + b)). A frozen affine is part of weights and bias. A neuron is *dead* iff its high is 0 or below; NaN is
not.

**Elements needed** are those that a neuron that is not dead has a coefficient for. What lies outside a map is dead. A
fill lies between its element's ends (:mod:`plinth_hw.isa.codes`), so a dead neuron made of fills is 0 or below as well,
and the ReLU makes the same +0 of it, and the same mask for errors; the others are made of exact words.

**Pools.** Where a max-pool of 2x2 windows, each within a tile, is all that reads what the ReLU makes, a neuron is dead
as well if its high is below another's low in its window. Of a window take the neuron of the largest low: no low is
above its own high, so it is not dead, if its high is above 0, and made of exact words. What is below another's low, and
above 0, is below that one, of words as of fills: it neither wins nor ties. So the pool makes the same of the window,
and gives errors to the same neurons, +0 to the others if errors are finite; what a ReLU's mask then says of these does
not matter. A NaN is neither below a low, nor is its low above anything. Of a window that hangs over the edge of the map
a pool must not read anything.

**Rounds.** All elements are sent to the first level. Neurons are predicted, and elements needed go to the next level,
and so on, in the end to exact words. In a later round all fills are read as of the new level: of elements that were
not needed, too, which are then between ends no wider than those known, so that what was dead remains dead, and nothing
but the fills has to be kept.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plinth_hw.isa.winograd import Matrix
from plinth_sim.golden import arithmetic, codes
from plinth_sim.golden.codes import Mask, Words
from plinth_sim.golden.winograd import weighted

Array = NDArray[np.float32]
Way = tuple[Matrix | None, Matrix]
Ends = tuple[Array, Array]
#: From a neuron's ends as it is gathered to those before its ReLU.
After = Callable[[Ends], Ends]
Levels = NDArray[np.int64]


def neurons(way: Way, elements: Array) -> Array:
    """Neurons of elements: what the gather makes of them."""
    down, across = way
    return weighted(across, elements if down is None else weighted(down, elements, 0), 1)


def bounds(way: Way, elements: Ends) -> Ends:
    """Ends of neurons of those of elements: as above."""
    down, across = way
    return _weighted(across, elements if down is None else _weighted(down, elements, 0), 1)


def _weighted(matrix: Matrix, elements: Ends, axis: int) -> Ends:
    """A direction: each column becomes two, of coefficients above and below zero, which keeps the order of terms."""
    parted = tuple(tuple(part for value in row for part in (max(value, 0 * value), min(value, 0 * value)))
                   for row in matrix)
    low, high = elements

    def both(above: Array, below: Array) -> Array:
        paired = np.stack([above, below], axis=axis + 1)
        return weighted(parted, paired.reshape(*above.shape[:axis], -1, *above.shape[axis + 1:]), axis)

    return both(low, high), both(high, low)


def plus(neuron: Ends, terms: Any) -> Ends:
    """With a bias or a residual added."""
    low, high = neuron
    return tuple(arithmetic.add(end, np.broadcast_to(terms, end.shape)) for end in (low, high))  # type: ignore[return-value]


def needed(way: Way, live: Mask) -> Mask:
    """Elements that neurons which live have a coefficient for."""
    down, across = way
    return _supports(across, live if down is None else _supports(down, live, 0), 1)


def _supports(matrix: Matrix, live: Mask, axis: int) -> Mask:
    places = np.moveaxis(live, axis, 0)
    supports = [np.logical_or.reduce([place for value, place in zip(column, places, strict=True) if value])
                for column in zip(*matrix, strict=True)]
    return np.moveaxis(np.array(supports), 0, axis)


def of_units(way: Way, live: Mask) -> Mask:
    """Elements of the units of which a neuron lives: of tiles, or, where sources hold lines, of these."""
    down, across = way
    units = np.asarray(live.any(axis=1 if down is None else (0, 1), keepdims=True))
    rows = live.shape[0] if down is None else len(down[0])
    return np.broadcast_to(units, (rows, len(across[0]), *live.shape[2:]))


def live(way: Way, elements: Ends, after: After, inside: Any = True, pooled: bool = False) -> Mask:
    """Neurons that are not dead; ``pooled``: a max-pool of 2x2 windows follows the ReLU."""
    low, high = after(bounds(way, elements))
    alive = ~(high <= 0) & inside
    return alive & ~(high < largest(low)) if pooled else alive


def largest(values: Array) -> Array:
    """Of neurons ``[m, m', ..]`` each one's largest of its 2x2, of numbers."""
    down, across, *others = values.shape
    windows = values.reshape(down // 2, 2, across // 2, 2, *others)
    maxima = np.fmax.reduce(windows, axis=(1, 3), keepdims=True)
    return np.broadcast_to(maxima, windows.shape).reshape(values.shape)


def ends(fills: Words, levels: Levels) -> Ends:
    """Ends of elements ``[T, T', ..]`` of their fills; levels ``[T, T']``."""
    low, high = np.empty(fills.shape, dtype=np.float32), np.empty(fills.shape, dtype=np.float32)
    for place, level in np.ndenumerate(levels):
        low[place], high[place] = codes.ends(fills[place], int(level))
    return low, high


class GatheredTiles(NamedTuple):
    """A predicted gather.

    Attributes
    ----------
    elements : ``[T, T', ..]``
        What the destination has: exact words where ``mask`` says so, fills elsewhere.
    mask : ``[T, T', ..]``
        Elements that were needed after the last prediction.
    live : ``[m, m', ..]``
        Neurons that the last prediction did not find dead.
    words : ``[1 + rounds]``
        On links: each part's strings, a run of each element, in whole words; the last part makes words exact.
    mask_words : int
        Sent back to sources, of all rounds.
    """

    elements: Words
    mask: Mask
    live: Mask
    words: tuple[int, ...]
    mask_words: int

    @property
    def total(self) -> int:
        """All words on links."""
        return sum(self.words) + self.mask_words


def gathered(way: Way, words: Words, levels: Sequence[Levels], after: After, inside: Any = True,
             pooled: bool = False) -> GatheredTiles:
    """Elements ``[T, T', ..]`` sent in a round for each of ``levels``, falling, ``[T, T']`` each; ``pooled`` as of
    :func:`live`."""
    runs = words.reshape(*words.shape[:2], -1)
    fills, sent = np.empty_like(runs), [0] * (len(levels) + 1)
    for place, level in np.ndenumerate(levels[0]):
        sent[0] += -(-codes.first_bits(runs[place], int(level)) // 32)
        fills[place] = codes.filled(runs[place], int(level))
    mask = np.ones(words.shape, dtype=bool)
    for number, here in enumerate(levels):
        alive = live(way, ends(fills.reshape(words.shape), here), after, inside, pooled)
        mask = needed(way, alive)
        lower = levels[number + 1] if number + 1 < len(levels) else None
        for place, level in np.ndenumerate(here):
            run, old, named = runs[place], fills[place], mask[place].ravel()
            there = None if lower is None else int(lower[place])
            sent[number + 1] += -(-int(codes.following(run, old, named, int(level), there).bits.sum()) // 32)
            new = run if there is None else codes.refined(run, old, int(level), there)
            fills[place] = np.where(named, new, old)
    mask_words = len(levels) * levels[0].size * -(-runs.shape[2] // 32)
    return GatheredTiles(fills.reshape(words.shape), mask, alive, tuple(sent), mask_words)
