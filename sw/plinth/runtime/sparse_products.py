"""Products over the entries of a sparse matrix, in numpy: rows of maps are channels."""

from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_array

from plinth.machine.blocks import BlockCover
from plinth.runtime.memory import Floats, Kernel
from plinth.step.tasks import BPROP, FPROP, UPDATE

#: Numbers that the products of entries take at a time: they stay in the cache.
_AT_ONCE = 1 << 16


def sparse_kernel(direction: str, pattern: csr_array, cover: BlockCover, w: Floats, x: Floats, z: Floats) -> Kernel:
    """A product of a sparse layer.

    Parameters
    ----------
    direction : str
        ``fprop``: ``z`` = W ``x``; ``bprop``: ``x`` = W^T ``z``; ``update``: ``w`` = ``z`` ``x``^T at W's entries.
    pattern : csr_array
        Of W ``[rows of z, rows of x]``.
    cover : BlockCover
        Its blocks.
    w : array
        Their words.
    x, z : array
        ``[channels, samples]``.
    """
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    step = max(1, _AT_ONCE // x.shape[1])

    def matrix() -> csr_array:
        return csr_array((w[cover.positions], pattern.indices, pattern.indptr), shape=pattern.shape)

    def update() -> None:
        for first in range(0, cover.nonzeros, step):
            some = slice(first, first + step)
            w[cover.positions[some]] = np.einsum("eb,eb->e", z[rows[some]], x[pattern.indices[some]])

    kernels: dict[str, Callable[[], object]] = {
        FPROP: lambda: np.copyto(z, matrix() @ x), BPROP: lambda: np.copyto(x, matrix().T @ z), UPDATE: update}
    return kernels[direction]
