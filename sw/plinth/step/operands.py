"""What the matrix engine reads where its operands have 16 bits: narrow copies of weights and of Winograd tiles, made by
the vector engine; and FP32 copies of maps that are narrow, of which tiles can be made."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from plinth.buffers import Buffer
from plinth.partition.graph import Node
from plinth.step.granularity import folding
from plinth.step.operations import Sweep
from plinth.step.step import Step
from plinth.step.sums import Sum
from plinth.step.tensors import Part, Placed, Tensor, Tiles, folded
from plinth.step.vector import VectorProgram
from plinth.step.weights import Weights, WeightSlice


@dataclass(frozen=True)
class Operands:
    """Weights as a matrix on each die: themselves, or a narrow copy."""

    name: str
    weights: Weights
    packed: bool

    def slice(self, die: int) -> WeightSlice:
        """The part of the operands that a die has."""
        return self.weights.slice(die)

    def part(self, die: int) -> Part:
        """Rows and columns of the matrix."""
        piece = self.weights.slice(die)
        return Part(0, piece.rows + piece.spare, 0, piece.outputs, 1)

    def buffer(self, die: int) -> Buffer:
        """The part of a die's memory where it lies."""
        part = self.part(die)
        width = -(-part.channels // 2) if self.packed else part.channels
        return Buffer(self.name, 0, part.rows, part.channels, max(1, width), packed=self.packed)

    def matrix(self, die: int) -> Buffer:
        """The matrix on a die, with its spare rows."""
        return self.buffer(die)

    def place_words(self) -> int:
        """Words of memory, of the die that needs most."""
        return max(buffer.rows * buffer.stride for buffer in map(self.buffer, range(prod(self.weights.factors))))


@dataclass(frozen=True)
class Planes:
    """The matrices of all elements that a die has of tiles, one below the other."""

    of: Tiles

    def part(self, die: int) -> Part:
        """The part of the planes that a die has."""
        here = self.of.at(die)
        return replace(here.part, samples=here.count * here.part.samples)


def _copy(step: Step, source: Placed, target: Placed) -> VectorProgram:
    """A program that copies a region, converted if one is narrow."""
    program = VectorProgram(step.parameters)
    program.load("x", source)
    program.store("x", target)
    return program


def narrow_weights(step: Step, node: Node, weights: Weights) -> Operands:
    """Weights as the matrix engine reads them, in pieces that fit the vector scratchpad."""
    if not step.narrow:
        return Operands(weights.name, weights, False)
    operand = step.reserve(Operands(f"{node.name}.operand", weights, True))
    program = _copy(step, Operands(weights.name, weights, False), operand)
    step.add(Sweep(f"{node.name}.narrow", node, step.parameters, program, program, operand, 1, pieces=1))
    return operand


def narrow_tiles(step: Step, node: Node, tiles: Tiles) -> Tiles:
    """Tiles as the matrix engine reads them."""
    if not step.narrow:
        return tiles
    operand = step.reserve(tiles.narrowed(f"{tiles.name}.operand"))
    part = tiles.part(0)
    # Rows of an odd number of channels do not follow each other without a gap.
    fold = 1 if part.channels % 2 else folding(step.parameters, part.positions, part.channels)
    program = _copy(step, folded(tiles, fold), folded(operand, fold))
    step.add(Sweep(f"{tiles.name}.narrow", node, step.parameters, program, program, Planes(tiles), 1, fold=fold))
    return operand


def add_tiles(step: Step, node: Node, tiles: Sequence[Tiles], total: Tiles) -> None:
    """Tiles of which each die has the same, added in their order."""
    part = total.part(0)
    fold = folding(step.parameters, part.positions, part.channels)
    step.add(Sum(f"{total.name}.sum", node, step.parameters, [folded(summand, fold) for summand in tiles], total, 1,
                 Planes(total), fold))


def widened(step: Step, node: Node, name: str, narrow: Tensor) -> Tensor:
    """An FP32 copy of a narrow map."""
    wide = step.reserve(narrow.like(name))
    program = _copy(step, narrow, wide)
    step.add(Sweep(name, node, step.parameters, program, program, wide, 1))
    return wide
