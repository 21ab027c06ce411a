"""Bits that gathers take, of layers of trained networks, over sending all elements.

Beside each other, headers, maps and all rounds counted:

=============  ========================================================================================
paper          MPT's regions, 6 bits in 2-D and 5 in 1-D, then whole words of each unit that is not found dead, by
               the sign-aware bound, at the scale of each layer that takes the fewest bits of the very batch
pooled_paper   the same by a destination that knows of max-pools, as the code's does
oracle         the words of each unit of which a neuron lives, and a bit a word for the map
pooled_oracle  the same of units of which a neuron is read: lives, and, before a max-pool, is the largest of its window
one_round,     the block code in one round and in two, at the levels of each layer that take the fewest bits of
two_rounds     another batch, as a host could set them by the words of steps before; it knows of max-pools
unpooled       the same in two rounds as if it did not
=============  ========================================================================================

The paper's own scheme knows of no pools: it finds units that are *dead*, of which no neuron lives; the code those that
are *unread* as well, of which none is read. What the code itself saves shows where both know of pools, or neither does.

A unit is a tile where sources hold single elements (2-D), and a line of it where they hold whole lines (1-D); then
elements are those behind the first direction, m instead of T a line.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plinth.reproduce.sparsity.layers import Array, Mask, MeasuredConvolution, layers
from plinth.reproduce.sparsity.networks import RECIPES, trained
from plinth_hw.isa.codes import LEVELS, REGION_BITS, shifts
from plinth_sim.golden import prediction, regions

#: Bits of MPT's codes: section V.B.
PAPER_BITS = {False: 6, True: 5}
#: Samples of a batch, and of that by which levels are set.
BATCH, BEFORE = 32, 8
Levels = NDArray[np.int64]


@dataclass(frozen=True)
class Sent:
    """Bits and units of gathers, added up over layers.

    Attributes
    ----------
    all, paper, pooled_paper, oracle, pooled_oracle, one_round, two_rounds, unpooled : int
        Bits.
    units, dead, unread : int
        Units, those of which no neuron lives, and those of which none is read.
    paper_found, one_round_found, two_rounds_found : int
        Of the dead ones, those that were found.
    one_round_unread, two_rounds_unread : int
        Of the unread ones.
    dropped : int
        Neurons that live, or of the code: are read, and were found dead, of all of these.
    """

    all: int = 0
    paper: int = 0
    pooled_paper: int = 0
    oracle: int = 0
    pooled_oracle: int = 0
    one_round: int = 0
    two_rounds: int = 0
    unpooled: int = 0
    units: int = 0
    dead: int = 0
    unread: int = 0
    paper_found: int = 0
    one_round_found: int = 0
    two_rounds_found: int = 0
    one_round_unread: int = 0
    two_rounds_unread: int = 0
    dropped: int = 0

    def __add__(self, other: "Sent") -> "Sent":
        return Sent(**{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)})

    def share(self, name: str) -> float:
        """Bits that are sent over all bits."""
        return float(getattr(self, name) / self.all)

    @property
    def over_pooled_paper(self) -> float:
        """Bits of the code in two rounds over those of MPT's scheme, both of which know of max-pools."""
        return self.two_rounds / self.pooled_paper

    @property
    def unpooled_over_paper(self) -> float:
        """Bits of the code in two rounds over those of MPT's scheme, neither of which knows of max-pools."""
        return self.unpooled / self.paper

    def found_dead(self, name: str) -> float:
        """The share of dead units that the prediction finds."""
        return float(getattr(self, f"{name}_found") / max(self.dead, 1))

    def found_unread(self, name: str) -> float:
        """The share of unread units that the prediction finds."""
        return float(getattr(self, f"{name}_unread") / max(self.unread, 1))


class Chosen(NamedTuple):
    """Levels of a layer's rounds, ``[T, T']`` each; the last ones of a code that knows of no pools."""

    one_round: list[Levels]
    two_rounds: list[Levels]
    unpooled: list[Levels]


def chosen(layer: MeasuredConvolution, lines: bool) -> Chosen:
    """Levels that take the fewest bits of a batch: the first of those about the median of magnitudes, the second lower
    by 3 to 5."""
    elements = layer.elements(lines)
    middle = int(np.floor(np.log2(max(float(np.median(np.abs(elements))), 2.0**-90))))
    below = np.broadcast_to(np.array(shifts(*layer.way(lines))), elements.shape[:2])

    def least(candidates: Iterable[list[Levels]], pooled: bool = True) -> list[Levels]:
        return min(candidates, key=lambda levels: _code(layer, elements, lines, levels, pooled).total)

    firsts = [np.clip(middle + more - below, LEVELS.start + 8, LEVELS.stop - 1) for more in range(-1, 4)]
    twos = [[first, first - less] for first in firsts for less in range(3, 6)]
    two = least(twos)
    return Chosen(least([first] for first in firsts), two, least(twos, False) if layer.pooled else two)


def _code(layer: MeasuredConvolution, elements: Array, lines: bool, levels: list[Levels], pooled: bool = True
          ) -> prediction.GatheredTiles:
    return prediction.gathered(layer.way(lines), elements.view(np.uint32), levels, layer.after, layer.inside,
                               pooled and layer.pooled)


def _units(neurons: Mask, lines: bool) -> Mask:
    """Units of which a neuron is named."""
    return np.asarray(neurons.any(axis=1 if lines else (0, 1)))


def _regions(layer: MeasuredConvolution, words: NDArray[np.uint32], lines: bool, bits: int, scale: int, pooled: bool
             ) -> tuple[int, Mask]:
    """Bits of MPT's scheme at a scale, and neurons not found dead; ``pooled``: it knows of max-pools."""
    elements, run = words.shape[0] * words.shape[1], words[0, 0].size
    ends = regions.ends(regions.quantised(words, bits, scale), bits, scale)
    live = prediction.live(layer.way(lines), ends, layer.after, layer.inside, pooled and layer.pooled)
    needed = int(_units(live, lines).sum()) * (words.shape[1] if lines else elements)
    return elements * (regions.string_bits(run, bits) + regions.string_bits(run, 1)) + 32 * needed, live


def by_regions(layer: MeasuredConvolution, lines: bool, bits: int, pooled: bool = False) -> tuple[int, Mask]:
    """Bits of MPT's scheme at the scale that takes the fewest, and neurons not found dead."""
    elements = layer.elements(lines)
    middle = int(np.floor(np.log2(np.abs(elements).std()))) - 3
    return min((_regions(layer, elements.view(np.uint32), lines, bits, scale, pooled)
                for scale in range(middle - 3, middle + 4)), key=lambda pair: pair[0])


class Ratio(NamedTuple):
    """Shares of all units: those that are dead, and those found so by regions of so many bits, and by the block code,
    whatever pools there are."""

    dead: float
    by_bits: dict[int, float]
    code: float


def ratio(name: str, outputs: int, lines: bool) -> Ratio:
    """The ratios of all layers of a network behind the first, together."""
    units = dead = code = 0
    by_bits = dict.fromkeys(REGION_BITS, 0)
    for layer, before in pairs(name, outputs):
        alive = _units(layer.live, lines)
        units, dead = units + alive.size, dead + int((~alive).sum())
        for bits in by_bits:
            by_bits[bits] += int((~_units(by_regions(layer, lines, bits)[1], lines)).sum())
        gathered = _code(layer, layer.elements(lines), lines, chosen(before, lines).unpooled, False)
        code += int((~_units(gathered.live, lines)).sum())
    return Ratio(dead / units, {bits: count / units for bits, count in by_bits.items()}, code / units)


def measured(layer: MeasuredConvolution, levels: Chosen, lines: bool) -> Sent:
    """Measure the gathers of a layer on a batch."""
    elements, live, read = layer.elements(lines), layer.live, layer.read
    words = elements.view(np.uint32)
    one_round, two_rounds = (_code(layer, elements, lines, some) for some in (levels.one_round, levels.two_rounds))
    unpooled = _code(layer, elements, lines, levels.unpooled, False)
    paper, by_paper = by_regions(layer, lines, PAPER_BITS[lines])
    pooled_paper, by_pooled_paper = by_regions(layer, lines, PAPER_BITS[lines], True) if layer.pooled else (
        paper, by_paper)
    dead, unread = (~_units(some, lines) for some in (live, read))
    unit = words.shape[1] if lines else words.shape[0] * words.shape[1]
    oracle, pooled_oracle = (words.size + 32 * unit * int((~some).sum()) for some in (dead, unread))

    def found_among(scheme: Mask, those: Mask) -> int:
        return int((~_units(scheme, lines) & those).sum())

    return Sent(
        all=32 * words.size, paper=paper, pooled_paper=pooled_paper, oracle=oracle, pooled_oracle=pooled_oracle,
        one_round=32 * one_round.total, two_rounds=32 * two_rounds.total, unpooled=32 * unpooled.total, units=dead.size,
        dead=int(dead.sum()), unread=int(unread.sum()), paper_found=found_among(by_paper, dead),
        one_round_found=found_among(one_round.live, dead), two_rounds_found=found_among(two_rounds.live, dead),
        one_round_unread=found_among(one_round.live, unread), two_rounds_unread=found_among(two_rounds.live, unread),
        dropped=sum(int((true & ~some).sum()) for true, some in (
            (live, by_paper), (read, by_pooled_paper), (read, one_round.live), (read, two_rounds.live),
            (live, unpooled.live))))


def pairs(name: str, outputs: int) -> Iterator[tuple[MeasuredConvolution, MeasuredConvolution]]:
    """Layers of a network with a batch of test images, and with one of training images."""
    model, images = trained(name), RECIPES[name].images()
    return zip(layers(model, outputs, images.test_x[:BATCH], images.test_y[:BATCH]),
               layers(model, outputs, images.train_x[:BEFORE], images.train_y[:BEFORE]), strict=True)


def network(name: str, outputs: int, lines: bool) -> list[Sent]:
    """Measure the gathers of each layer of a network behind the first."""
    return [measured(layer, chosen(before, lines), lines) for layer, before in pairs(name, outputs)]
