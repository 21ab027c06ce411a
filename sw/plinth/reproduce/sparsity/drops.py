"""Random and adversarial tiles through prediction: no neuron that lives may be found dead.

Each neuron is computed in the gather's own order of roundings, from exact words, with a bias; schemes are the block
code in one round and in two, the same before a max-pool, and MPT's regions with the sign-aware bound. Before a pool the
largest of a window's neurons are to be kept, if they live, all of those that are equal. MPT's bound as it is printed
runs along on the same tiles: what it drops shows that these tiles can tell.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from plinth_hw.isa.codes import shifts
from plinth_hw.isa.winograd import TRANSFORMS, transform
from plinth_sim.golden import prediction, regions

Array = NDArray[np.float32]
#: Tiles that go through at a time.
CHUNK = 1 << 13
#: Tiles of standard normal words; of words of very different sizes; of which one neuron is nearly 0; the same of words
#: just below the next quantum, with the signs that make truncation matter most for that neuron; of mostly negative
#: words; of which two neurons of a pool's window are nearly the same, or just that.
KINDS = ("normal", "wide", "cancelling", "truncated", "negative", "tied")
#: Level of the first round, and scale and bits of regions: sizes of words are about 1.
LEVEL, SCALE, BITS = 0, -3, (6, 5)


@dataclass(frozen=True)
class Tally:
    """What went through.

    Attributes
    ----------
    tiles, live, dead : int
        Tiles; neurons that live, and those that the block code's two rounds found dead.
    pooled_live, pooled_dead : int
        Neurons that live and are the largest of their window, and those that were found dead before a pool.
    dropped : int
        Live neurons that a scheme found dead, all schemes together; before a pool of those that are the largest.
    printed : int
        Live neurons that the printed rule finds dead.
    """

    tiles: int = 0
    live: int = 0
    dead: int = 0
    pooled_live: int = 0
    pooled_dead: int = 0
    dropped: int = 0
    printed: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(**{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)})


def ways() -> list[prediction.Way]:
    """All transforms of dies, in two dimensions and in one."""
    return [(a if both else None, a) for a in (transform(*sizes).a for sizes in TRANSFORMS) for both in (True, False)]


def drawn(way: prediction.Way, kind: str, count: int, rng: np.random.Generator) -> Array:
    """Tiles ``[T, T', count]`` of a kind."""
    down, across = (None if matrix is None else np.array(matrix, dtype=np.float32) for matrix in way)
    assert across is not None
    shape = (len(across) if down is None else down.shape[1], across.shape[1], count)
    words = rng.standard_normal(shape, dtype=np.float32)
    if kind == "wide":
        words *= np.exp2(rng.integers(-12, 6, shape)).astype(np.float32)
    if kind == "negative":
        words -= 2
    if kind in ("cancelling", "truncated"):
        i, j = int(rng.integers(len(across) if down is None else len(down))), int(rng.integers(len(across)))
        row = np.eye(shape[0], dtype=np.float32)[i] if down is None else down[i]
        coefficients = np.outer(row, across[j])[:, :, None]
        if kind == "truncated":
            quanta = rng.integers(0, 9, shape) + 1 - np.exp2(-rng.integers(5, 20, shape))
            words = (np.where(coefficients < 0, -1, 1) * quanta * 2.0**SCALE).astype(np.float32)
        u, v = rng.choice(np.argwhere(coefficients[:, :, 0]))
        over = prediction.neurons(way, words)[i, j] - np.exp2(-rng.integers(0, 24, count)).astype(np.float32)
        words[u, v] -= over / coefficients[u, v, 0]
    if kind == "tied":
        unit = np.zeros((*shape[:2], 1), dtype=np.float32)
        neurons = prediction.neurons(way, words)
        i, j = int(rng.integers(len(neurons))), int(rng.integers(neurons.shape[1]))
        other = (i ^ 1, j) if rng.random() < 0.5 else (i, j ^ 1)
        u, v = (int(rng.integers(side)) for side in shape[:2])
        unit[u, v] = 1
        moved = prediction.neurons(way, unit)
        slope = float((moved[i, j] - moved[other])[0])
        if slope:
            apart = np.exp2(-rng.integers(0, 24, count)).astype(np.float32) * rng.integers(-1, 2, count)
            words[u, v] -= ((neurons[i, j] - neurons[other] - apart) / slope).astype(np.float32)
    return words


def through(way: prediction.Way, elements: Array, bias: Array) -> Tally:
    """Tiles ``[T, T', count]`` through all schemes."""
    def after(ends: prediction.Ends) -> prediction.Ends:
        return prediction.plus(ends, bias)

    words, neurons = elements.view(np.uint32), prediction.neurons(way, elements)
    true = after((neurons, neurons))[1] > 0
    first = np.broadcast_to(LEVEL - np.array(shifts(*way)), words.shape[:2])
    bits = BITS[way[0] is None]
    codes = regions.quantised(words, bits, SCALE)
    sound, printed = (~prediction.live(way, ends(codes, bits, SCALE), after)
                      for ends in (regions.ends, regions.printed_ends))
    # What is dead remains dead: the last round has the drops of the first.
    two_rounds, pooled = (~prediction.gathered(way, words, [first, first - 3], after, pooled=some).live
                          for some in (False, True))
    biased = after((neurons, neurons))[1]
    largest = true & (biased == prediction.largest(biased))
    dropped = sum(int((kept & dead).sum()) for kept, dead in ((true, sound), (true, two_rounds), (largest, pooled)))
    return Tally(elements.shape[2], int(true.sum()), int(two_rounds.sum()), int(largest.sum()), int(pooled.sum()),
                 dropped, int((true & printed).sum()))


def parts(count: int, seed: int, which: Sequence[prediction.Way]) -> Iterator[Tally]:
    """Draw at least ``count`` tiles, equally many of each kind and way, and tally what is dropped of them, some at a
    time."""
    rng, done = np.random.default_rng(seed), 0
    while done < count:
        for way in which:
            for kind in KINDS:
                bias = rng.standard_normal(dtype=np.float32) * np.float32(rng.random() < 0.5)
                yield through(way, drawn(way, kind, CHUNK, rng), np.full(CHUNK, bias, dtype=np.float32))
                done += CHUNK


def dropped(count: int, seed: int = 0, which: Sequence[prediction.Way] | None = None) -> Tally:
    """Tally what is dropped of at least ``count`` tiles, of all ways unless some are given."""
    return sum(parts(count, seed, ways() if which is None else which), Tally())
