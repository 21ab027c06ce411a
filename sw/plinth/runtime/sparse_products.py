"""Products of a step's sparse layers on one die: over the blocks in which its weights lie, where these pay."""

from functools import partial

from plinth.runtime.memory import Floats, Kernel
from plinth.runtime.sparse_kernels import GAIN, RATES, BlockKernels, CsrProducts, WorkMemories, kept_words
from plinth.step.pattern_weights import PatternWeights
from plinth.step.tasks import BPROP, FPROP, UPDATE


class DieProducts:
    """Makes the kernels of a layer's products on a die.

    Parameters
    ----------
    weights : PatternWeights
        Of the layer.
    die : int
    samples : int
        Columns of x and z.
    work : WorkMemories
        Of all layers, one after the other.
    """

    def __init__(self, weights: PatternWeights, die: int, samples: int, work: WorkMemories) -> None:
        layout = weights.layout(die)
        self._products: BlockKernels | CsrProducts
        if GAIN * RATES.blocks_ns(layout, samples) <= RATES.csr_ns(layout.nonzeros, layout.shape[0], samples):
            kept = None if layout.useful == 1 else kept_words(weights.cover(die))
            self._products = BlockKernels(layout, samples, kept, work)
        else:
            self._positions = weights.cover(die).positions
            self._products = CsrProducts(weights.local(die), samples)

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
        if isinstance(products, BlockKernels):
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
