"""The widest hidden layers that fit a device: S_L of S_G, after Deep3 (section 4).

All hidden widths have one common share of the network's own, rounded down, each at least one; the output layer stays
whole. Memory grows with the share, so that the largest one that fits is found by halving.
"""

from collections.abc import Callable
from dataclasses import dataclass

from plinth.errors import UserError
from plinth.network.layers import Convolution, Dense
from plinth.network.local import makers, narrowed, widths_of
from plinth.network.network import Network
from plinth.units import size

#: Shares among which the one of least cost is looked for, at most.
MOST_SHARES = 32


def hidden_layers(network: Network) -> tuple[Dense | Convolution, ...]:
    """The layers whose widths S_G says: those that train a matrix, but the last one.

    Raises
    ------
    UserError
        If there are none, or one has no width that could be another.
    """
    *hidden, _ = makers(network)
    scalable: list[Dense | Convolution] = []
    for layer in hidden:
        if not isinstance(layer, (Dense, Convolution)):
            raise UserError(f"layer {layer.name!r} ({layer.kind}) of network {network.name!r} has no width that could "
                            "be smaller; leave it out, or give a network of dense layers and convolutions")
        scalable.append(layer)
    if not scalable:
        raise UserError(f"network {network.name!r} has no hidden layer, of which a part could be trained; give one "
                        "with at least two layers with weights")
    return tuple(scalable)


def hidden_widths(network: Network) -> tuple[int, ...]:
    """S_G: outputs or channels of the hidden layers.

    Raises
    ------
    UserError
        As :func:`hidden_layers`.
    """
    hidden_layers(network)
    return widths_of(network)[1:-1]


def with_widths(network: Network, widths: tuple[int, ...]) -> Network:
    """The network with other outputs or channels of its hidden layers.

    Raises
    ------
    UserError
        As :func:`hidden_layers`.
    ValueError
        If there are more or fewer widths than hidden layers.
    """
    return narrowed(network, dict(zip((layer.name for layer in hidden_layers(network)), widths, strict=True)))


@dataclass(frozen=True)
class Widest:
    """The hidden layers that were chosen.

    Attributes
    ----------
    widths, whole : tuple of int
        S_L and S_G.
    needed_bytes, limit_bytes : int
        Memory that training with S_L takes, and that there is.
    rule : str
        By which they were chosen, in words.
    """

    widths: tuple[int, ...]
    whole: tuple[int, ...]
    needed_bytes: int
    limit_bytes: int
    rule: str


def shares(whole: tuple[int, ...], step: int = 1) -> list[tuple[int, ...]]:
    """All widths of one common share, ascending, the whole ones last; each a multiple of ``step``, but where the whole
    is none."""
    most = max(whole)
    scaled = [tuple(max(min(step, width), number * width // most // step * step) for width in whole)
              for number in range(1, most)]
    return [*dict.fromkeys((*scaled, whole))]


def widest(network: Network, limit_bytes: int, memory_bytes: Callable[[Network], int], *,
           cost: Callable[[Network], float] | None = None, step: int = 1) -> Widest:
    """The widest hidden layers that fit, or, of those that fit, those of least cost for each multiply-add.

    Parameters
    ----------
    network : Network
        The global one.
    limit_bytes : int
    memory_bytes : callable
        What training a network takes, in bytes.
    cost : callable or None
        What training a batch of a network costs; None: the widest.
    step : int
        What hidden widths are multiples of: 2 of dies of 16 bits, which move channels in pairs.

    Raises
    ------
    UserError
        If not even the narrowest fit, or a layer has no width that could be another.
    """
    whole = hidden_widths(network)
    choices = shares(whole, step)

    def fits(widths: tuple[int, ...]) -> bool:
        try:
            return memory_bytes(with_widths(network, widths)) <= limit_bytes
        except UserError:
            # Too wide for a field, a scratchpad or the largest memory: the narrowest have been lowered before.
            return False

    least = memory_bytes(with_widths(network, choices[0]))
    if least > limit_bytes:
        raise UserError(f"network {network.name!r} with hidden layers of {', '.join(map(str, choices[0]))} takes "
                        f"{size(least)} and does not fit {size(limit_bytes)}; give more memory, a smaller batch or "
                        "fewer inputs")
    low, high = 0, len(choices)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(choices[middle]) else (low, middle)
    chosen, rule = choices[low], "the widest of one common share that fit"
    if cost is not None:
        some = [choices[number] for number in {round(low * place / (MOST_SHARES - 1)) for place in range(MOST_SHARES)}]
        networks = {widths: with_widths(network, widths) for widths in some}
        chosen = min(some, key=lambda widths: cost(networks[widths]) / networks[widths].macs)
        rule = "the least cost for each multiply-add of those of one common share that fit"
    return Widest(chosen, whole, memory_bytes(with_widths(network, chosen)), limit_bytes, rule)
