"""Properties of a die's router and links: packets that it takes and holds, and latencies (docs/network.md)."""

from plinth_hw.isa.parameters import DieParameters

#: Latency, in cycles, of the links that constants of control are of: that of the co-simulation's, which counted them.
LINK_LATENCY = 5
#: Cycles in which a router that does not look ahead looks up the route of a packet.
LOOKUP_CYCLES = 3


def buffered(parameters: DieParameters, links: int = 0) -> int:
    """Flits that routers hold between a die and another, so many links away: in the buffer of the first, and in those
    behind the links."""
    return parameters.inject_buffer_flits + links * parameters.link_buffer_flits


def waiting(parameters: DieParameters) -> int:
    """Flits that wait for the network behind a die's engine."""
    return parameters.leaving_flits * parameters.within.flit_words // parameters.flit_words


def lookups(parameters: DieParameters, packets: float, flits: float, hops: int) -> float:
    """Cycles in which the input behind a link looks up the routes of a tile's packets that go on, while all dies send
    over as many links.

    A router that looks ahead knows all routes in time. Any other knows that of a packet that goes where the last one
    went that did not end there. Over two links all do so; over more, those of several dies come in turn, but in runs:
    while a router looks up a route, its own die's packets leave, so that a run is as long as a lookup, and a packet
    that is shorter has its part of one.
    """
    return min(LOOKUP_CYCLES * packets, flits) if hops > 2 and not parameters.looks_ahead else 0.0
