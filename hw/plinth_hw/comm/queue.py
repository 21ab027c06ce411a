"""Queues and round-robin choice, shared by the blocks of the network.

A queue's storage is a memory read without a clock (look-up-table RAM on an FPGA): a payload taken in
cycle t is offered from cycle t + 1. One payload a cycle in and out.
"""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

#: Words of a look-up-table RAM.
SECTION = 16


class Queue(wiring.Component):
    """First in, first out.

    Parameters
    ----------
    shape : ShapeLike
        Payload.
    depth : int
        Places; a power of two.

    Members
    -------
    i, o : streams of ``shape``
        In and out.

    Raises
    ------
    ValueError
        If ``depth`` is not a power of two.
    """

    def __init__(self, shape: Any, depth: int):
        if depth < 1 or depth & (depth - 1):
            raise ValueError(f"Queue depth must be a power of two, not {depth!r}")
        self._shape = shape
        self._depth = depth
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    @property
    def depth(self) -> int:
        """Places."""
        return self._depth

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.storage = storage = Memory(shape=self._shape, depth=self._depth, init=[])
        write, read = storage.write_port(), storage.read_port(domain="comb")
        bits = (self._depth - 1).bit_length()
        written, taken = Signal(bits + 1), Signal(bits + 1)
        put, get = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq((written ^ taken) != self._depth),
            self.o.valid.eq(written != taken),
            put.eq(self.i.valid & self.i.ready),
            get.eq(self.o.valid & self.o.ready),
            write.addr.eq(written[:bits]), write.data.eq(self.i.payload), write.en.eq(put),
            read.addr.eq(taken[:bits]), self.o.payload.eq(read.data),
        ]
        m.d.sync += [written.eq(written + put), taken.eq(taken + get)]
        return m


class Chain(wiring.Component):
    """Queues of :data:`SECTION` places, one behind the other.

    Wide payloads need no choice between the parts of a large memory. A payload comes out a cycle later for each queue.

    Parameters
    ----------
    shape : ShapeLike
        Payload.
    depth : int
        Places; a multiple of :data:`SECTION`.

    Members
    -------
    i, o : streams of ``shape``
        In and out.
    """

    def __init__(self, shape: Any, depth: int):
        self._queues = [Queue(shape, SECTION) for _ in range(depth // SECTION)]
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for number, queue in enumerate(self._queues):
            m.submodules[f"section_{number}"] = queue
        wiring.connect(m, wiring.flipped(self.i), self._queues[0].i)
        for before, after in pairwise(self._queues):
            wiring.connect(m, before.o, after.i)
        wiring.connect(m, self._queues[-1].o, wiring.flipped(self.o))
        return m


#: Bits whose parity, shifted in, makes a register of so many bits go through all values but 0.
_TAPS = {1: (0,), 2: (0, 1), 3: (1, 2), 4: (2, 3), 5: (2, 4), 6: (4, 5), 7: (5, 6), 8: (3, 4, 5, 7), 9: (4, 8),
         10: (6, 9), 11: (8, 10), 12: (3, 9, 10, 11)}


def following(place: Value) -> Value:
    """The value after ``place`` in a cycle through all values, 0 included, of that many bits.

    For places of a ring that only go round: a shift register, with a third of a counter's logic.
    """
    bits = len(place)
    return Cat(Cat(*(place[tap] for tap in _TAPS[bits])).xor() ^ ~place[:bits - 1].any(), place[:bits - 1])


def stepped(count: Value, up: Value, down: Value) -> Value:
    """``count`` and one more for ``up``, one less for ``down``; in one adder."""
    return (count + Cat(up ^ down, (down & ~up).replicate(len(count) - 1)))[:len(count)]


def lowest(requests: Value) -> Value:
    """The lowest set bit alone."""
    return Cat(requests[bit] & ~requests[:bit].any() for bit in range(len(requests)))


def round_robin(m: Module, name: str, requests: Value, last: Value) -> Signal:
    """One-hot choice among ``requests``, next in turn after the one-hot ``last``."""
    width = len(requests)
    later, grant = Signal(width, name=f"{name}_later"), Signal(width, name=f"{name}_grant")
    m.d.comb += [
        # Bits above the last one chosen.
        later.eq(requests & Cat(last[:bit].any() for bit in range(width))),
        grant.eq(Mux(later.any(), lowest(later), lowest(requests))),
    ]
    return grant
