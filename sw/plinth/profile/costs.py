"""The cost of training a local network on a device and of sending it, after Deep3 (Table 2).

For a network of layers ``s`` with ``n_s`` units, a batch of ``b`` samples::

    T_FP   = b (alpha_flop sum n_s n_s+1 + alpha_act sum n_s)
    T_BP   = b (2 alpha_flop sum n_s n_s+1 + alpha_err sum n_s)
    T_comm = alpha_net + words / bandwidth

The table is of one sample, and of fully connected layers: here the products are the network's multiply-adds, whatever
its layers, and the units are the elements of its input and of the outputs of all layers that train something. What a
batch costs beside its samples (calls, waits) is a coefficient of its own, which the table has not.
"""

from dataclasses import dataclass

from plinth.network.network import Network


def units(network: Network) -> int:
    """Units of a network, for one sample: elements of its input, and of the outputs of layers that train something."""
    return network.input.elements + sum(network.shapes[layer.name].output.elements for layer in network.weighted)


@dataclass(frozen=True, kw_only=True)
class KernelCosts:
    """Coefficients of a device, in seconds.

    Attributes
    ----------
    flop_seconds : float
        Of a multiply-add of one sample, with what it reads and writes (alpha_flop).
    act_seconds, err_seconds : float
        Of a unit's activation of one sample, and of the error that is propagated to it (alpha_act, alpha_err).
    batch_seconds : float
        Of a batch, however large.
    net_seconds, word_seconds : float
        Of a message, however long (alpha_net), and of each of its words (bits a word over BW).
    """

    flop_seconds: float
    act_seconds: float
    err_seconds: float
    batch_seconds: float = 0.0
    net_seconds: float
    word_seconds: float

    def forward(self, network: Network, batch: int) -> float:
        """Seconds of forward propagation of a batch, T_FP."""
        return batch * (self.flop_seconds * network.macs + self.act_seconds * units(network))

    def backward(self, network: Network, batch: int) -> float:
        """Seconds of backward propagation and update of a batch, T_BP."""
        return batch * (2 * self.flop_seconds * network.macs + self.err_seconds * units(network))

    def batch(self, network: Network, batch: int) -> float:
        """Seconds of training on a batch."""
        return self.batch_seconds + self.forward(network, batch) + self.backward(network, batch)

    def message(self, words: int) -> float:
        """Seconds of a message one way, T_comm."""
        return self.net_seconds + words * self.word_seconds
