"""Transfer tasks of an embedding on one die: rows of its slice of the table, and what is added to their gradient.

::

    fprop   Z = rows of W                            transfer, COPY with ``gather``
    update  dW = +0                                  vector, at the beginning of the step
            row of dW = row of dW + row of dZ        transfer, ADD with ``scatter``, samples and positions ascending

Row numbers lie in die memory as the network's input. Where rows of the table are split over dies, the numbers of what
others hold are those of spare rows behind the slice (:class:`~plinth.lower.places.RowNumbers`): they hold zeros, so
that the sum of the dies' Z has each row once, and take what has no place in the slice's gradient.
"""

from dataclasses import dataclass

from plinth.driver.program import Buffer
from plinth.lower.builder import GraphBuilder
from plinth.lower.places import Part, WeightSlice
from plinth_hw.isa.tasks import Engine, TransferOperation


@dataclass(frozen=True)
class Rows:
    """Transfer tasks of an embedding on a die, called as :class:`~plinth.lower.products.Products`; does nothing where
    the die's part is empty."""

    name: str
    builder: GraphBuilder
    piece: WeightSlice
    #: Part of the output.
    z_part: Part

    def fprop(self, numbers: Buffer, table: Buffer, z: Buffer) -> None:
        """``z`` = rows of the table, a row a number."""
        if self.z_part.words:
            self.builder.add(f"{self.name}.gather", Engine.TRANSFER, TransferOperation.COPY, {
                "source": table.pointer, "source_row_stride": table.stride, "destination": z.pointer,
                "destination_row_stride": z.stride, "columns": z.columns, "rows": z.rows, "planes": 1, "gather": 1,
                "index": numbers.pointer}, reads=[numbers, table], writes=[z])

    def update(self, numbers: Buffer, dz: Buffer, gradient: Buffer) -> None:
        """Rows of ``dz`` added to those of the gradient, which holds +0 before."""
        if self.z_part.words and self.piece.words:
            self.builder.add(f"{self.name}.scatter", Engine.TRANSFER, TransferOperation.ADD, {
                "source": dz.pointer, "source_row_stride": dz.stride, "destination": gradient.pointer,
                "destination_row_stride": gradient.stride, "columns": dz.columns, "rows": dz.rows, "planes": 1,
                "scatter": 1, "index": numbers.pointer}, reads=[numbers, dz, gradient], writes=[gradient])
