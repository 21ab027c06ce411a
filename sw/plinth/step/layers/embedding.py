"""Embeddings: rows of a table are gathered; errors are added to the rows of its gradient."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from plinth.buffers import Buffer
from plinth.partition.axes import SAMPLES, Region
from plinth.partition.graph import Node
from plinth.step.layers.weighted import WeightedLayer
from plinth.step.operations import Clear
from plinth.step.reductions import Reductions
from plinth.step.tasks import RowsByNumber, Task
from plinth.step.tensors import Placed, Tensor
from plinth.step.weights import Matrix
from plinth_hw.isa.operations import Engine


class RowTable(Protocol):
    """Interface of what rows are gathered from, or added to, by their numbers."""

    def rows(self, die: int) -> int:
        """Rows of a die that numbers may name."""
        ...

    def table_rows(self, die: int) -> int:
        """Rows of the table that a die's numbers are of."""
        ...

    def matrix(self, die: int) -> Buffer:
        """A die's rows of the table, or its copies of them: ``[rows, width]``."""
        ...


@dataclass(frozen=True)
class RowGather:
    """Rows of an embedding's table to its output, or those of the output's error added to the table's gradient. Nothing
    where the die's part is empty.

    Row numbers lie in die memory as the network's input. Where rows of the table are split over dies, the numbers of
    what others hold are those of spare rows behind the slice: they hold zeros, so that the sum of the dies' outputs has
    each row once, and take what has no place in the slice's gradient.
    """

    node: Node
    numbers: Tensor
    #: Output, or its error.
    z: Tensor
    table: RowTable
    added: bool

    @property
    def name(self) -> str:
        """What its tasks are called: the layer, and whether rows are gathered or errors scattered to them."""
        return f"{self.node.name}.{'scatter' if self.added else 'gather'}"

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        own_rows = self.table.rows(die)
        if not self.z.part(die).words or (self.added and not own_rows):
            return
        numbers, table, rows = self.numbers.buffer(die), self.table.matrix(die), self.z.buffer(die)
        work = RowsByNumber(numbers, table, rows, self.added, self.table.table_rows(die), own_rows)
        reads, writes = ((numbers, rows, table), table) if self.added else ((numbers, table), rows)
        yield Task(self.name, Engine.TRANSFER, work, reads, (writes,), 1, self.node)


class EmbeddingLayer(WeightedLayer):
    """Builds the operations of an embedding, whose input is the network's."""

    def network_input(self, place: int) -> Tensor:
        self.step.tables[len(self.step.inputs)] = self.step.weights[self.node.name]
        return super().network_input(place)

    def network_part(self) -> tuple[Region, int, int]:
        # Row numbers are no channels: each die has all of its samples.
        region = self.here.input
        return Region.of(region.owners, samples=region.cuts(SAMPLES)), 1, self.node.input_elements

    def multiply(self, x: Tensor, z: Tensor) -> None:
        step, node = self.step, self.node
        step.add(RowGather(node, x, z, step.weights[node.name], False))
        step.add(Clear(f"{node.name}.zero", node, step.parameters, Matrix(step.gradients[node.name]), step.any))

    def finish(self, summands: list[Placed]) -> Tensor:
        if self.here.mp or self.activation is not None or self.z is None:
            return super().finish(summands)
        # Rows lie at their owners as they are.
        self.output = self.z
        return self.z

    def differentiate(self, x: Tensor, z: Tensor, error: Tensor, reductions: Reductions) -> None:
        gradient = self.step.gradients[self.node.name]
        for piece in reductions.pieces(self.number):
            self.step.add(RowGather(self.node, x, error, gradient, True))
            reductions.add(self.number, piece)
