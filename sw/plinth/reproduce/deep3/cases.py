"""Deep3's applications and platforms (section 7.1), and which local networks a printed reduction leaves.

The paper prints by what factor a local network has less circuitry than the global one, and not its widths, S_L. Three
readings of S_L, all with one common share of the hidden units:

hidden alone
    All inputs are kept.
with the input
    The input is projected onto the same share of its features.
by execution
    Projection leaves l inputs, by which the whole network is executed as much faster as Table 4 says, if execution is
    its multiply-adds; the share of hidden units then follows from the reduction.

Widths may be fractions where no network is made of them.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from scipy.optimize import brentq

from plinth.network.layers import Tanh
from plinth.network.network import Network, perceptron

#: Samples of a batch (section 7.1).
BATCH = 100
#: The smallest share of hidden units that is looked at.
_LEAST_SHARE = 1e-6
#: Arrays as large as the weights that training keeps: weights, gradients, and the sums of Adagrad.
TRAINED_ARRAYS = 3

Widths = Sequence[float]


def multiply_adds(widths: Widths) -> float:
    """Multiply-adds of a sample's forward propagation in a perceptron."""
    return sum(inputs * outputs for inputs, outputs in pairwise(widths))


def network(widths: Widths) -> Network:
    """The perceptron of some widths, with tanh behind hidden layers."""
    return perceptron("deep3", tuple(max(1, round(width)) for width in widths), Tanh)


@dataclass(frozen=True, kw_only=True)
class Application:
    """A data set and its network (Tables 3 and 4).

    Attributes
    ----------
    name : str
    widths : tuple of int
        S_G, with features and classes at its ends.
    samples : int
    """

    name: str
    widths: tuple[int, ...]
    samples: int

    @cached_property
    def multiply_adds(self) -> float:
        """Multiply-adds of a sample's forward propagation in the global network."""
        return multiply_adds(self.widths)

    def scaled(self, inputs: float, share: float) -> tuple[float, ...]:
        """Widths with so many inputs and a share of the hidden units."""
        return (inputs, *(share * width for width in self.widths[1:-1]), self.widths[-1])

    def reduction(self, widths: Widths) -> float:
        """How many times fewer multiply-adds a network of other widths has."""
        return self.multiply_adds / multiply_adds(widths)

    def share_of(self, reduction: float, widths: Callable[[float], Widths]) -> float | None:
        """The share by which the network has so many times fewer multiply-adds.

        Parameters
        ----------
        reduction : float
        widths : callable
            Widths of a share.

        Returns
        -------
        float or None
            None: no share up to 1 does.
        """
        if self.reduction(widths(1.0)) > reduction:
            return None
        return float(brentq(lambda share: self.reduction(widths(share)) - reduction, _LEAST_SHARE, 1.0))

    def hidden_share(self, reduction: float, inputs: float | None = None) -> float | None:
        """The share of hidden units that a reduction leaves, where so many inputs are kept; None: all of them."""
        kept = self.widths[0] if inputs is None else inputs
        return self.share_of(reduction, lambda share: self.scaled(kept, share))

    def scaled_hidden(self, share: float) -> tuple[float, ...]:
        """Widths of one share of hidden units, with all inputs."""
        return self.scaled(self.widths[0], share)

    def common(self, share: float) -> tuple[float, ...]:
        """Widths of one share of inputs and hidden units."""
        return self.scaled(share * self.widths[0], share)

    def common_share(self, reduction: float) -> float | None:
        """The share of inputs and hidden units that a reduction leaves."""
        return self.share_of(reduction, self.common)

    def inputs_of(self, reduction: float) -> float | None:
        """The inputs that a reduction leaves where all hidden units are kept; None: even none are too many."""
        inputs = (self.multiply_adds / reduction - multiply_adds(self.widths[1:])) / self.widths[1]
        return inputs if inputs > 0 else None


@dataclass(frozen=True, kw_only=True)
class Platform:
    """A platform.

    Attributes
    ----------
    key : str
        As entries name it.
    word_bytes : int
        Of a number: 16 bits of fixed point on the FPGA, else 32.
    memories : mapping of str to int
        Bytes of its memories on the chip.
    nearest : str
        The one that the local network of a kernel is to fit.
    """

    key: str
    word_bytes: int
    memories: Mapping[str, int]
    nearest: str


_KIB = 1 << 10
#: A block RAM of a Virtex-6, 36 Kb.
_BLOCK_BYTES = 36 * _KIB // 8
APPLICATIONS = (Application(name="Visual", widths=(200, 1000, 300, 9), samples=54_129),
                Application(name="Smart-Sensing", widths=(5625, 3000, 500, 19), samples=9_120),
                Application(name="Audio", widths=(617, 200, 26), samples=7_797))
#: The paper names no memory and no part of the Virtex-6 family. Sizes: Tegra K1 and its Cortex-A15 as NVIDIA describes
#: them; block RAM by Xilinx's family overview (DS150), of its smallest part, of that of the board ML605, and of the one
#: with most; Core i7-2600K as Intel describes it.
PLATFORMS = (
    Platform(key="P1", word_bytes=4, memories={"GPU's L2": 128 * _KIB, "CPU's L2": 2048 * _KIB}, nearest="GPU's L2"),
    Platform(key="P2", word_bytes=2, memories={
        "LX75T": 156 * _BLOCK_BYTES, "LX240T": 416 * _BLOCK_BYTES, "SX475T": 1064 * _BLOCK_BYTES}, nearest="LX240T"),
    Platform(key="P3", word_bytes=4, memories={"a core's L2": 256 * _KIB, "L3": 8192 * _KIB}, nearest="L3"))


def parameters(widths: Widths) -> float:
    """Weights and biases of a perceptron."""
    return multiply_adds(widths) + sum(widths[1:])


def training_words(widths: Widths) -> float:
    """Words that training on a batch keeps: weights, their gradients and sums of squares, samples, and of each other
    unit its activation and its error."""
    return TRAINED_ARRAYS * parameters(widths) + BATCH * (widths[0] + 2 * sum(widths[1:]))


def widest(widths: Callable[[float], Widths], words: Callable[[Widths], float], limit_words: float, steps: int
           ) -> tuple[float, ...] | None:
    """The widths of the largest share that fit.

    Parameters
    ----------
    widths : callable
        Widths of a share, which are rounded.
    words : callable
        What a network of some widths takes; it grows with each of them.
    limit_words : float
    steps : int
        Shares are multiples of one over it.

    Returns
    -------
    tuple or None
        None: not even the smallest share fits.
    """
    def rounded(step: int) -> tuple[float, ...]:
        return tuple(max(1, int(width + 1e-9)) for width in widths(step / steps))

    fitting = bisect_right(range(1, steps + 1), limit_words, key=lambda step: words(rounded(step)))
    return rounded(fitting) if fitting else None
