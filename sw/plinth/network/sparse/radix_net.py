"""RadiX-Net networks as the Sparse DNN Graph Challenge has them (Kepner, Robinett: "RadiX-Net", 2019).

All layers have N = 16 n neurons, n a power of two, and 32 connections a neuron. Neuron j belongs to *ring class*
j mod n. A *base network* has B = log2 n layers of radix 2; layer t of them, from 0, connects classes at the offset
d = 2^t. The network is copies of the base, one behind the other, cut off where it ends. Copy c has a permutation pi_c
of the N inputs, the same in front of each of its layers, the identity in copy 0::

    W[j, i] != 0   where   j = pi_c(i)  or  j = pi_c(i) - d   (mod n)          i an input, j an output

So 32 inputs feed an output and 32 outputs an input, and the rows of a class have one pattern. In copy 0 as many paths
lead from each input to each output, 16^(B - 1). Behind another copy this does not hold, since its permutation stands
between its layers.

The law is that of the published network with N = 1,024. Its permutations follow no law that is known, so here they are
drawn: networks have the published structure, and the published weights in copy 0 alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from plinth.limits import MAXIMUM_SEED
from plinth.network.sparse import draws
from plinth.network.sparse.activations import ClippedRelu, SparseSigmoid
from plinth.network.sparse.matrices import MAXIMUM_NEURONS, check_entries, check_layer, csr, row_list
from plinth.network.sparse.network import MAXIMUM_LAYERS, SparseNetwork

#: Neurons of a ring class, and connections of a neuron.
CLASS_NEURONS, CONNECTIONS = 16, 32
#: What all weights of the Graph Challenge are.
CHALLENGE_WEIGHT = 1 / 16
#: The Graph Challenge's bias by the number of neurons of a layer.
CHALLENGE_BIASES = {1024: -0.3, 4096: -0.35, 16384: -0.4, 65536: -0.45}
#: Ways to make weights: all 1/16, or each drawn from [-1, 1).
CONSTANT, UNIFORM = "constant", "uniform"


@dataclass(frozen=True, kw_only=True)
class RadixNet:
    """Weights of a RadiX-Net network, made a few rows at a time: a :class:`~.network.LayerSource`.

    Parameters
    ----------
    neurons : int
        N, of each layer: 16 times a power of two from 2 on.
    layers : int
        Any number.
    seed : int
        Of the permutations, and of weights that are drawn.
    weights : str
        ``"constant"``: all 1/16; ``"uniform"``: drawn from [-1, 1), by seed, layer, row and column.

    Raises
    ------
    ValueError
        If a number is out of range.
    """

    neurons: int
    layers: int
    seed: int = 0
    weights: str = CONSTANT
    #: Neurons of the input, then of each layer.
    widths: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        classes, odd = divmod(self.neurons, CLASS_NEURONS)
        if odd or classes < 2 or classes & (classes - 1) or self.neurons > MAXIMUM_NEURONS:
            raise ValueError(f"neurons of a RadiX-Net network must be 16 times a power of two, from 32 to "
                             f"{MAXIMUM_NEURONS}, not {self.neurons!r}; take for example 1024")
        if not 1 <= self.layers <= MAXIMUM_LAYERS:
            raise ValueError(f"layers must be from 1 to {MAXIMUM_LAYERS}, not {self.layers!r}")
        if not 0 <= self.seed <= MAXIMUM_SEED:
            raise ValueError(f"seed must be from 0 to {MAXIMUM_SEED}, not {self.seed!r}")
        if self.weights not in (CONSTANT, UNIFORM):
            raise ValueError(f"weights must be {CONSTANT!r} or {UNIFORM!r}, not {self.weights!r}")
        object.__setattr__(self, "widths", (self.neurons,) * (self.layers + 1))

    @property
    def classes(self) -> int:
        """Number of ring classes, n = N / 16."""
        return self.neurons // CLASS_NEURONS

    @property
    def base_layers(self) -> int:
        """Layers of the base network, B."""
        return self.classes.bit_length() - 1

    def copy_and_offset(self, layer: int) -> tuple[int, int]:
        """Which copy of the base network a layer is in, and the offset d of its classes."""
        copy, base_layer = divmod(layer, self.base_layers)
        return copy, 1 << base_layer

    def input_classes(self, copy: int) -> NDArray[np.int64]:
        """The ring class of each input of a layer of a copy behind the permutation, ``pi_c(i) mod n``: ``[N]``."""
        if copy == 0:
            return np.arange(self.neurons) % self.classes
        return draws.permutation(draws.stream(self.seed, draws.PERMUTATION, copy), self.neurons) % self.classes

    def class_columns(self, layer: int) -> NDArray[np.int64]:
        """The inputs that feed the outputs of each ring class, ascending: ``[n, 32]``. Rows of W are these by class."""
        copy, offset = self.copy_and_offset(layer)
        members = _members(self, copy)
        return np.sort(np.concatenate((members, np.roll(members, -offset, axis=0)), axis=1), axis=1)

    def rows(self, layer: int, rows: ArrayLike) -> csr_array:
        check_layer(layer, self.layers)
        outputs = row_list(rows, self.neurons)
        check_entries(len(outputs) * CONNECTIONS, f"layer {layer}")
        columns = self.class_columns(layer)[outputs % self.classes]
        if self.weights == UNIFORM:
            positions = outputs[:, None] * self.neurons + columns
            values = draws.symmetric(draws.stream(self.seed, draws.WEIGHTS, layer), positions).ravel()
        else:
            values = np.full(columns.size, CHALLENGE_WEIGHT, np.float32)
        starts = np.arange(len(outputs) + 1, dtype=np.int64) * CONNECTIONS
        return csr(values, columns.ravel(), starts, (len(outputs), self.neurons))


@lru_cache(maxsize=2)
def _members(network: RadixNet, copy: int) -> NDArray[np.int64]:
    """The inputs of each ring class behind a copy's permutation, ``[n, 16]``; layers of a copy follow each other."""
    order = np.argsort(network.input_classes(copy), kind="stable").reshape(network.classes, CLASS_NEURONS)
    order.flags.writeable = False
    return order


def challenge_network(neurons: int, layers: int, seed: int = 0) -> SparseNetwork:
    """A network of the Graph Challenge: weights 1/16, its bias, ReLU clipped at 32.

    Raises
    ------
    ValueError
        If a number is out of range, or the Graph Challenge has no bias for so many neurons.
    """
    source = RadixNet(neurons=neurons, layers=layers, seed=seed)
    if neurons not in CHALLENGE_BIASES:
        raise ValueError(f"the Graph Challenge has no bias for {neurons} neurons; take one of "
                         f"{', '.join(map(str, CHALLENGE_BIASES))}, or make a SparseNetwork with a bias of your own")
    return SparseNetwork(name=f"radix-net-{neurons}x{layers}", source=source,
                         biases=(CHALLENGE_BIASES[neurons],) * layers, activations=(ClippedRelu(),) * layers)


def trained_network(neurons: int, layers: int, seed: int = 0, biases: bool = False) -> SparseNetwork:
    """A network as the paper on sparse partitions trains it: weights drawn from [-1, 1), sigmoid, mean squared error.

    Parameters
    ----------
    biases : bool
        Whether each row has a bias that is trained and begins with 0. (The paper leaves this open.)

    Raises
    ------
    ValueError
        If a number is out of range.
    """
    source = RadixNet(neurons=neurons, layers=layers, seed=seed, weights=UNIFORM)
    first: Sequence[float | NDArray[np.float64]] = (
        [np.zeros(neurons) for _ in range(layers)] if biases else [0.0] * layers)
    return SparseNetwork(name=f"radix-net-{neurons}x{layers}", source=source, biases=first,
                         activations=(SparseSigmoid(),) * layers)
