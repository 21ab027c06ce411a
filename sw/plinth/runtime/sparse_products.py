"""Products of a step's sparse layers on one die: over the blocks in which its weights lie, where these pay."""

from functools import partial

from scipy.sparse import csr_array

from plinth.machine.blocks import BlockCover
from plinth.runtime.memory import Floats, Kernel
from plinth.runtime.sparse_kernels import GAIN, RATES, BlockProducts, CsrProducts
from plinth.step.tasks import BPROP, FPROP, UPDATE


class DieProducts:
    """Makes the kernels of a layer's products on a die.

    Parameters
    ----------
    pattern : csr_array
        Of the die's rows over its columns, ``[rows of z, rows of x]``.
    cover : BlockCover
        The blocks in which its weights lie.
    samples : int
        Columns of x and z.
    """

    def __init__(self, pattern: csr_array, cover: BlockCover, samples: int) -> None:
        self._positions = cover.positions
        blocks = GAIN * RATES.blocks_ns(cover, samples) <= RATES.csr_ns(pattern, samples)
        self._products = BlockProducts(cover, samples) if blocks else CsrProducts(pattern, samples)

    def kernel(self, direction: str, w: Floats, x: Floats, z: Floats) -> Kernel:
        """A product.

        Parameters
        ----------
        direction : str
            ``fprop``: ``z`` = W ``x``; ``bprop``: ``x`` = W^T ``z``; ``update``: ``w`` = ``z`` ``x``^T at W's entries.
        w : array
            Words of the blocks.
        x, z : array
            ``[channels, samples]``.
        """
        products = self._products
        if isinstance(products, BlockProducts):
            return {FPROP: partial(products.forward, w, x, z), BPROP: partial(products.backward, w, z, x),
                    UPDATE: partial(products.gradient, z, x, w)}[direction]
        return partial({FPROP: self._forward, BPROP: self._backward, UPDATE: self._gradient}[direction], w, x, z)

    # Over single entries, which are taken out of the blocks and put back.

    def _forward(self, w: Floats, x: Floats, z: Floats) -> None:
        self._products.forward(w[self._positions], x, z)

    def _backward(self, w: Floats, x: Floats, z: Floats) -> None:
        self._products.backward(w[self._positions], z, x)

    def _gradient(self, w: Floats, x: Floats, z: Floats) -> None:
        entries = w[self._positions]
        self._products.gradient(z, x, entries)
        w[self._positions] = entries
