"""What a FIFO promises, in place of a FIFO: what invariants say of its payloads is then short."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.lib.fifo import Storage


class Queue(wiring.Component):
    """A FIFO that offers what it takes a cycle later, as its proofs (``fifo-lut-...``, ``fifo-head-...``) say it is:
    their claims leave it no choice but in the payload of an offer that is none, which is free here too.

    Attributes
    ----------
    count : Signal
        Payloads held.
    places : list of Signal
        The oldest first.
    free : Signal
        The payload that is offered without ``valid``: an input of the proof.

    Raises
    ------
    ValueError
        If the FIFO is of another kind.
    """

    def __init__(self, shape: Any, depth: int, storage: Storage = Storage.LUT) -> None:
        if storage not in (Storage.LUT, Storage.HEAD):
            raise ValueError(f"Only a FIFO of a latency of one cycle has a model, not one in {storage!r}")
        self.depth = depth
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)), "empty": Out(1)})
        width = len(Value.cast(self.i.payload))
        self.count = Signal(range(depth + 1))
        self.places = [Signal(width, name=f"place_{place}") for place in range(depth)]
        self.free = Signal(width)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        put, get, last = Signal(), Signal(), Signal.like(self.count)
        m.d.comb += [
            self.i.ready.eq(self.count != self.depth), self.o.valid.eq(self.count != 0), self.empty.eq(self.count == 0),
            Value.cast(self.o.payload).eq(Mux(self.o.valid, self.places[0], self.free)),
            put.eq(self.i.valid & self.i.ready), get.eq(self.o.valid & self.o.ready), last.eq(self.count - get),
        ]
        m.d.sync += self.count.eq(last + put)
        for place, (held, after) in enumerate(zip(self.places, [*self.places[1:], self.places[-1]], strict=True)):
            m.d.sync += held.eq(Mux(put & (last == place), Value.cast(self.i.payload), Mux(get, after, held)))
        return m
