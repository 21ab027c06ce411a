"""Body queues: hold the bodies of fetched tasks and hand each to its engine.

::

    i (one word a cycle) --> one memory, a ring of ``depth`` * 64 words for each engine
                                  | one word a cycle, engines in turn
                  body_0 <-- register      body_1 <-- register      ...

An engine that does not take its next body blocks no other engine until ``depth`` descriptors of its own wait
here. From ``i`` to ``body``: 3 cycles. Throughput: one word a cycle in and out, of which one engine gets
at most one in two cycles: a body takes 112 cycles.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.control.engine import BodyWord
from plinth_hw.isa.tasks import BODY_WORDS, DESCRIPTOR_WORDS
from plinth_hw.memory.scratchpad import UNCHECKED


def next_after(m: Module, requests: Value, previous: Value) -> Signal:
    """Index of the lowest bit of ``requests`` above ``previous``, or else of the lowest."""
    count = len(requests)
    chosen = Signal(range(max(2, count)))
    above = Signal(count)
    m.d.comb += above.eq(Cat(requests[i] & (previous < i) for i in range(count)))
    for group in (requests, above):
        for i in reversed(range(count)):
            with m.If(group[i]):
                m.d.comb += chosen.eq(i)
    return chosen


def round_robin(m: Module, requests: Value, granted: Value) -> tuple[Signal, Signal]:
    """Rotating priority over the bits of ``requests``: ``(any, index)`` of the next one after the last that
    was ``granted``."""
    previous = Signal(range(max(2, len(requests))))
    chosen, found = next_after(m, requests, previous), Signal()
    m.d.comb += found.eq(requests.any())
    with m.If(granted):
        m.d.sync += previous.eq(chosen)
    return found, chosen


class BodyQueues(wiring.Component):
    """Body words of ``engines`` engines, ``depth`` descriptors deep each.

    Parameters
    ----------
    engines : int
        How many engines.
    depth : int
        Ring of each engine in units of 64 words; a power of two, at least 1.

    Members
    -------
    i_valid : In(1)
        Store ``i_word`` for engine ``i_engine``; only for bodies begun while there was ``room``.
    i_engine : In
        Position of the engine.
    i_word : In(32)
        Words of a body in ascending order.
    room : Out(engines)
        The ring of that engine has room for a whole body.
    body_0 ... : Out(stream of BodyWord)
        To each engine.
    delivered : Out(engines)
        Pulse: the engine takes the last word of a body.

    Raises
    ------
    ValueError
        If the depth is not a power of two.
    """

    def __init__(self, engines: int, depth: int) -> None:
        if depth < 1 or depth & (depth - 1):
            raise ValueError(f"Queue depth must be a power of two, not {depth!r}")
        self.engines = engines
        self.depth = depth
        super().__init__({
            "i_valid": In(1),
            "i_engine": In(range(max(2, engines))),
            "i_word": In(32),
            "room": Out(engines),
            "delivered": Out(engines),
            **{f"body_{e}": Out(stream.Signature(BodyWord)) for e in range(engines)},
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ring_words = self.depth * DESCRIPTOR_WORDS
        pointer_bits = (ring_words - 1).bit_length()
        m.submodules.words = words = memory.Memory(
            shape=32, depth=ring_words * (1 << len(self.i_engine) if self.engines > 1 else 1), init=[],
            attrs=UNCHECKED)  # a word is counted, and only then read, in the cycle after its write
        write = words.write_port()
        read = words.read_port()

        write_pointers = [Signal(pointer_bits, name=f"write_{e}") for e in range(self.engines)]
        read_pointers = [Signal(pointer_bits, name=f"read_{e}") for e in range(self.engines)]
        levels = [Signal(range(ring_words + 1), name=f"level_{e}") for e in range(self.engines)]
        wants = Signal(self.engines)
        found, chosen = round_robin(m, wants, Const(1))
        arrives = Signal(self.engines)  # the memory presents a word of this engine

        def address(pointers: list[Signal], engine: Value) -> Value:
            pointer = pointers[0]
            for e in range(1, self.engines):
                pointer = Mux(engine == e, pointers[e], pointer)
            return Cat(pointer, engine) if self.engines > 1 else pointer

        m.d.comb += [
            write.en.eq(self.i_valid),
            write.data.eq(self.i_word),
            write.addr.eq(address(write_pointers, self.i_engine)),
            read.en.eq(found),
            read.addr.eq(address(read_pointers, chosen)),
        ]
        for e in range(self.engines):
            body = getattr(self, f"body_{e}")
            stores, reads = Signal(name=f"stores_{e}"), Signal(name=f"reads_{e}")
            index = Signal(range(BODY_WORDS), name=f"index_{e}")
            m.d.comb += [
                stores.eq(self.i_valid & (self.i_engine == e)),
                reads.eq(found & (chosen == e)),
                wants[e].eq((levels[e] != 0) & ~arrives[e] & (~body.valid | body.ready)),
                self.room[e].eq(levels[e] <= ring_words - BODY_WORDS),
                self.delivered[e].eq(body.valid & body.ready & body.payload.last),
            ]
            m.d.sync += [
                levels[e].eq(levels[e] + stores - reads),
                arrives[e].eq(reads),
            ]
            with m.If(stores):
                m.d.sync += write_pointers[e].eq(write_pointers[e] + 1)
            with m.If(reads):
                m.d.sync += read_pointers[e].eq(read_pointers[e] + 1)
            with m.If(arrives[e]):
                m.d.sync += [
                    body.valid.eq(1),
                    body.payload.index.eq(index),
                    body.payload.word.eq(read.data),
                    body.payload.last.eq(index == BODY_WORDS - 1),
                    index.eq(Mux(index == BODY_WORDS - 1, 0, index + 1)),
                ]
            with m.Elif(body.ready):
                m.d.sync += body.valid.eq(0)
        return m
