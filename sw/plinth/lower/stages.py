"""Which networks can be lowered."""

from plinth.errors import UserError
from plinth.network.layers import Flatten, Layer
from plinth.network.network import INPUT, Network
from plinth.partition.graph import from_network


def check_network(network: Network) -> None:
    """Refuse what can be planned but not lowered: a step of a plan takes activations, pools and flattens to follow the
    layer before, which nothing else reads then.

    Raises
    ------
    UserError
        If a layer cannot be lowered; it is named.
    """
    nodes = {node.name for node in from_network(network).nodes}
    ends: dict[str, str] = {INPUT: INPUT}
    #: What layers with work of their own have read as it is.
    read: set[str] = set()
    for layer in network.layers:
        if layer.name not in nodes:
            before = ends.pop(layer.inputs[0], None)
            if before is None or (layer.inputs[0] in read and not isinstance(layer, Flatten)):
                raise _refused(network, layer, f"reads {layer.inputs[0]!r} beside another layer; activations, "
                               "pools and flattens are lowered where nothing else reads their input")
            if not isinstance(layer, Flatten) and before == INPUT:
                raise _refused(network, layer, "stands before the first layer with weights; put one before it")
            ends[layer.name] = before
            continue
        for name in layer.inputs:
            if name not in ends:
                raise _refused(network, layer, f"reads {name!r} beside an activation, a pool or a flatten of it; "
                               "read what comes out of that")
        read.update(layer.inputs)
        ends[layer.name] = layer.name


def _refused(network: Network, layer: Layer, why: str) -> UserError:
    return UserError(f"network {network.name!r}: layer {layer.name!r} ({layer.kind}) {why}; such a network can be "
                     "planned but not lowered")
