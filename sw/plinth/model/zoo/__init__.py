"""Networks known by name, one module a source."""

from plinth.model.network import Network
from plinth.model.zoo import digits

#: Networks by name.
NETWORKS: dict[str, Network] = {
    network.name: network for network in (*digits.NETWORKS,)
}
