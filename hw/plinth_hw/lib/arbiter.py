"""Choice among requests: fixed priority, and round robin.

Requests and grants are one bit each; at most one grant is set, and none where nothing is requested. A grant comes in
the cycle of its request.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.lib.choice import index_of
from plinth_hw.lib.count import index_bits


def lowest(requests: Value) -> Value:
    """The lowest set bit alone."""
    return requests & ~above(requests)


def above(requests: Value) -> Value:
    """All bits above the lowest set one; none if none is."""
    return Cat(requests[:bit].any() for bit in range(len(requests)))


def in_turn(m: Module, name: str, requests: Value, first: Value) -> Signal:
    """The lowest of ``requests`` that is in ``first``, or else the lowest of all: one-hot."""
    width = len(requests)
    later, grant = Signal(width, name=f"{name}_later"), Signal(width, name=f"{name}_grant")
    m.d.comb += [
        later.eq(requests & first),
        grant.eq(Mux(later.any(), lowest(later), lowest(requests))),
    ]
    return grant


class RoundRobin(wiring.Component):
    """Grants requests in turn: whoever was granted last comes last.

    A request that stays is granted after at most ``width`` - 1 others.

    Parameters
    ----------
    width : int
        Requests, at least 1.

    Members
    -------
    requests : In(width)
    taken : In(1)
        The grant of this cycle, if there is one, is made use of: the turn moves on.
    grant : Out(width)
        One-hot, or 0 without a request.
    index : Out
        Its number, or 0.
    last : Out(width)
        What was granted, and taken, last: bit 0 after reset.

    Raises
    ------
    ValueError
        If ``width`` is not positive.
    """

    def __init__(self, width: int):
        if width < 1:
            raise ValueError(f"An arbiter needs requests, not {width!r}")
        self.width = width
        super().__init__({
            "requests": In(width), "taken": In(1), "grant": Out(width), "index": Out(index_bits(width)),
            "last": Out(width, init=1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        first = Signal(self.width, init=(1 << self.width) - 2)  # above the last one
        m.d.comb += [self.grant.eq(in_turn(m, "turn", self.requests, first)), self.index.eq(index_of(self.grant))]
        with m.If(self.taken & self.requests.any()):
            m.d.sync += [self.last.eq(self.grant), first.eq(above(self.grant))]
        return m
