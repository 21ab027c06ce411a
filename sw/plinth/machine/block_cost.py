"""What a dense block of a sparse layer's matrix takes on a die, as covers are chosen by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from plinth.machine.blocks import BlockCover, Integers, empty_cover
from plinth.machine.copies import INDEXED_CYCLES
from plinth.machine.tiles import TASK_PERIOD
from plinth_hw.isa.parameters import SYSTOLIC, DieParameters

if TYPE_CHECKING:
    # It takes a while, and most networks need none.
    from scipy.sparse import csr_array

#: Most rows and columns of a block.
MOST_ROWS = MOST_COLUMNS = 4096
#: Products of a block in a step: fprop, bprop and updateGrad. Words that a mask moves for each of the gradient.
PRODUCTS, MASK_WORDS = 3, 3


def is_run(numbers: Integers) -> bool:
    """Whether row or column numbers are contiguous: each is one more than the number before it."""
    return bool((np.diff(numbers) == 1).all())


@dataclass(frozen=True)
class BlockCost:
    """Cycles of a block of so many rows and columns, of so many samples: of its product, in tiles of as many slots as
    the array interleaves, or of the rows of samples that are gathered for it and added where it belongs, whatever takes
    longer, as they go on side by side; and of its task.

    Parameters
    ----------
    array_rows, array_columns, interleave, beat_words, flit_words : int
        Of the matrix engine, memory and the transfer engine.
    samples : int
    fill : bool
        Whether blocks may be filled up.
    """

    array_rows: int
    array_columns: int
    interleave: int
    beat_words: int
    flit_words: int
    samples: int
    fill: bool = True

    @classmethod
    def of(cls, parameters: DieParameters, samples: int, *, fill: bool = True) -> BlockCost:
        """The cost of blocks on dies with these parameters, at so many samples a step."""
        interleave = parameters.interleave if parameters.machine == SYSTOLIC else 1
        return cls(parameters.rows, parameters.columns, interleave, parameters.beat_words,
                   parameters.within.flit_words, samples, fill)

    def __call__(self, rows: int, columns: int) -> float:
        """Cycles of a block whose rows and columns lie anywhere."""
        return self._cycles(rows, columns, rows + columns)

    def _cycles(self, rows: int, columns: int, moved: int) -> float:
        product = columns * self._step(rows)
        return TASK_PERIOD + max(product, moved * max(INDEXED_CYCLES, self.samples / self.flit_words))

    def _step(self, rows: int) -> float:
        """Cycles of a k step over all tiles of so many rows, in the best shape of tiles."""
        depth = self.interleave.bit_length() - 1
        shapes = ((self.array_rows << log2, self.array_columns * self.interleave >> log2) for log2 in range(depth + 1))
        return min(-(-rows // tile_m) * -(-self.samples // tile_n) * max(self.interleave,
                                                                         (tile_m + tile_n) / self.beat_words)
                   for tile_m, tile_n in shapes)

    def of_cover(self, cover: BlockCover) -> float:
        """Cycles of a step with the blocks of a cover: three products of each, where rows and columns that are
        contiguous are not moved; the update of their words, and where some fill up, the mask of their gradient."""
        heights, widths = np.diff(cover.row_starts), np.diff(cover.column_starts)
        moved = sum(np.where(run, 0, sizes) for run, sizes in zip(cover.contiguous(), (heights, widths), strict=True))
        known: dict[tuple[int, ...], float] = {}
        products = 0.0
        for shape in zip(heights.tolist(), widths.tolist(), np.asarray(moved).tolist(), strict=True):
            if shape not in known:
                known[shape] = self._cycles(*shape)
            products += known[shape]
        masked = MASK_WORDS / self.beat_words if cover.useful < 1 else 0.0
        return PRODUCTS * products + cover.packed * (1 / self.flit_words + masked)

    def best(self, pattern: csr_array) -> BlockCover:
        """The cover of a pattern by which a step takes the fewest cycles: one without fill, or one that may have some,
        if it may. A pattern without entries, which may have no columns, has no blocks."""
        from plinth.machine.covers import area, covers

        if not pattern.nnz:
            return empty_cover(pattern.shape)
        return min(dict.fromkeys(covers(pattern, MOST_ROWS, MOST_COLUMNS, (area, self), fill=self.fill)),
                   key=self.of_cover)
