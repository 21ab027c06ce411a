"""Networks known by name, one module a source."""

from plinth.network.network import Network
from plinth.network.zoo import digits, hypar, mpt, vgg

#: Networks by name.
NETWORKS: dict[str, Network] = {
    network.name: network
    for network in (*digits.NETWORKS, *hypar.NETWORKS, *vgg.NETWORKS, *mpt.NETWORKS)
}
