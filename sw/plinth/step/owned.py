"""What each die of a ring owns of a message, and the vectors that it keeps of that from step to step.

A message is cut in chunks; chunk c belongs to member c mod N of its ring (docs/collective.md). What a die keeps lies
dense in places of its own: the chunks of the first piece of the weights that it owns, one behind the other, then those
of the next one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plinth.buffers import Buffer
from plinth.partition.groups import ProcessGroups
from plinth.step.weights import WeightPiece, Weights
from plinth_hw.isa.parameters import DieParameters


class OwnedChunks(NamedTuple):
    """Chunks of a die's slice of weights: the first word there, and in the places of what is kept; how many rows of
    how many words, and how far apart those of the slice are."""

    first: int
    kept: int
    rows: int
    columns: int
    stride: int

    def of(self, whole: Buffer) -> Buffer:
        """The part of a slice's buffer where the chunks lie."""
        return whole.part(whole.name, self.first, self.rows, self.columns, self.stride)

    def view(self, flat: NDArray[Any]) -> NDArray[Any]:
        """A view ``[rows, columns]`` of the chunks in a slice's words."""
        return np.lib.stride_tricks.as_strided(
            flat[self.first:], (self.rows, self.columns), (self.stride * flat.itemsize, flat.itemsize))

    def beside(self, place: Buffer) -> Buffer:
        """The part of a kept vector's place where the chunks lie."""
        return place.part(place.name, self.kept, self.rows, self.columns, self.columns)


def _blocks(first: int, words: int, index: int, members: int, chunk: int, kept: int) -> list[OwnedChunks]:
    """What a member owns of a message: whole chunks, and a last one that is shorter."""
    whole, rest = divmod(words, chunk)
    rows = max(0, -(-(whole - index) // members))
    blocks = [OwnedChunks(first + index * chunk, kept, rows, chunk, members * chunk)] if rows else []
    if rest and whole % members == index:
        blocks.append(OwnedChunks(first + whole * chunk, kept + rows * chunk, 1, rest, rest))
    return blocks


@dataclass(frozen=True)
class Owned:
    """What each die owns of a layer's weights, which are reduced in some pieces."""

    weights: Weights
    rings: ProcessGroups
    pieces: Sequence[WeightPiece]
    parameters: DieParameters

    def words(self) -> int:
        """On the die that owns most."""
        # Of each piece at most a chunk above a die's share, and as much again to begin with a beat.
        return len(self.pieces) * self.parameters.chunk_words + -(-self.weights.place_words() // self.rings.size)

    def blocks(self, die: int) -> Iterator[tuple[WeightPiece, OwnedChunks]]:
        """The chunks that a die owns, piece by piece."""
        kept, members, beat = 0, self.rings.of(die), self.parameters.beat_words
        for piece in self.pieces:
            first, words = piece.words(self.parameters, self.weights.slice(die))
            for block in _blocks(first, words, self.rings.number(die), len(members), self.parameters.chunk_words, kept):
                yield piece, block
                kept = -(-(block.kept + block.rows * block.columns) // beat) * beat


@dataclass(frozen=True)
class Kept:
    """A vector beside the weights of a layer: what each die owns of it."""

    name: str
    owned: Owned
    packed = False

    def place_words(self) -> int:
        """Words of memory, of the die that needs most."""
        return self.owned.words()

    def buffer(self, die: int) -> Buffer:
        """The part of a die's memory where it lies, as one row."""
        words = self.place_words()
        return Buffer(self.name, 0, 1, words, words)


@dataclass(frozen=True)
class Generator:
    """State of each die's generator of random bits: 32 bits."""

    name: str
    parameters: DieParameters
    packed = False

    def place_words(self) -> int:
        """Words of memory, of the die that needs most."""
        return self.parameters.words_of(1)

    def buffer(self, die: int) -> Buffer:
        """The part of a die's memory where it lies."""
        return Buffer(self.name, 0, 1, self.place_words(), self.place_words())
