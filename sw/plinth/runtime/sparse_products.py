"""Products of a step's sparse layers on one die: over the blocks in which its weights lie, where these pay."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from plinth.machine.blocks import BlockCover, BlockShapes
from plinth.machine.sparse_products import by_blocks
from plinth.runtime.memory import Floats, Kernel
from plinth.runtime.sparse_kernels import BlockKernels, CsrProducts, InputRows, WorkMemories, kept_words
from plinth.step.tasks import BPROP, FPROP, UPDATE

if TYPE_CHECKING:
    # It takes a while, and most networks need none.
    from scipy.sparse import csr_array


class DieProducts:
    """Makes the kernels of a layer's products on a die.

    Parameters
    ----------
    layout : BlockShapes
        The blocks in which the die's weights lie.
    cover, local : callable
        Give them with the places of entries, and the pattern of its rows, which are not held where blocks do without.
    samples : int
        Columns of x and z.
    work : WorkMemories
        Of all layers of the die, one after the other.
    inputs : InputRows or None
        Rows of x in ``fprop`` and ``update``; None: those of the columns' numbers.
    """

    def __init__(self, layout: BlockShapes, cover: Callable[[], BlockCover], local: Callable[[], csr_array],
                 samples: int, work: WorkMemories, inputs: InputRows | None = None) -> None:
        self._products: BlockKernels | CsrProducts
        if by_blocks(layout.shapes(), layout.nonzeros, layout.shape[0], samples):
            kept = None if layout.useful == 1 else kept_words(cover())
            self._products = BlockKernels(layout, samples, kept, work, inputs)
        else:
            self._positions = cover().positions
            self._products = CsrProducts(local(), samples, inputs)
        #: Weights of single entries, from the first part of a product to the second.
        self._entries: Floats | None = None

    def parts(self, w: Floats, x: Floats, z: Floats) -> tuple[Kernel, Kernel] | None:
        """``fprop`` in two parts, of which the first needs only rows of x that are there before others; None: there is
        nothing to do in one of them."""
        products = self._products
        if not products.divided:
            return None
        if isinstance(products, BlockKernels):
            return partial(products.forward_own, w, x, z), partial(products.forward_rest, w, x, z)
        return partial(self._forward_own, w, x, z), partial(self._forward_rest, w, x, z)

    def kernel(self, direction: str, w: Floats, x: Floats, z: Floats) -> Kernel:
        """A product.

        Parameters
        ----------
        direction : str
            ``fprop``: ``z`` = W ``x``; ``bprop``: ``x`` = W^T ``z``; ``update``: ``w`` = ``z`` ``x``^T at W's entries.
        w : array
            Words of the blocks.
        x, z : array
            ``[channels, samples]``; x of ``fprop`` and ``update`` ``[rows of inputs, samples]``.
        """
        products = self._products
        if isinstance(products, BlockKernels):
            return {FPROP: partial(products.forward, w, x, z), BPROP: partial(products.backward, w, z, x),
                    UPDATE: partial(products.gradient, z, x, w)}[direction]
        return partial({FPROP: self._forward, BPROP: self._backward, UPDATE: self._gradient}[direction], w, x, z)

    # Over single entries, which are taken out of the blocks and put back.

    def _forward(self, w: Floats, x: Floats, z: Floats) -> None:
        self._products.forward(w[self._positions], x, z)

    def _forward_own(self, w: Floats, x: Floats, z: Floats) -> None:
        self._entries = w[self._positions]
        self._products.forward_own(self._entries, x, z)

    def _forward_rest(self, w: Floats, x: Floats, z: Floats) -> None:
        assert self._entries is not None
        self._products.forward_rest(self._entries, x, z)
        self._entries = None

    def _backward(self, w: Floats, x: Floats, z: Floats) -> None:
        self._products.backward(w[self._positions], z, x)

    def _gradient(self, w: Floats, x: Floats, z: Floats) -> None:
        entries = w[self._positions]
        self._products.gradient(z, x, entries)
        w[self._positions] = entries
