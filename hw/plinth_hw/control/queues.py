"""Body queues: hold the bodies of fetched tasks and hand each to its engine.

::

    i (one word a cycle) --> one memory, {engine, place of a body, word}, a ring of ``depth`` bodies for each engine
                                  | one word a cycle, engines in turn
                  body_0 <-- register      body_1 <-- register      ...

An engine that does not take its next body blocks no other engine until ``depth`` descriptors of its own wait
here. From ``i_word`` to ``body``: 3 cycles. Throughput: one word a cycle in and out, of which one engine gets
at most one in two cycles: a body of 56 words takes 112 cycles.
"""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from plinth_hw.control.engine import BodyWord
from plinth_hw.lib.arbiter import RoundRobin
from plinth_hw.lib.choice import one_of, one_registered
from plinth_hw.lib.delay import delayed
from plinth_hw.lib.ram import UNCHECKED


class BodyQueues(wiring.Component):
    """Body words of several engines, ``depth`` bodies deep each.

    Parameters
    ----------
    bodies : sequence of int
        Words of a body of each engine.
    depth : int
        Bodies that may wait for an engine; a power of two, at least 1.

    Members
    -------
    i_valid : In(1)
        Store the ``i_word`` of the next cycle for engine ``i_engine``; only for bodies begun while there was ``room``.
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

    def __init__(self, bodies: Sequence[int], depth: int) -> None:
        if depth < 1 or depth & (depth - 1):
            raise ValueError(f"Queue depth must be a power of two, not {depth!r}")
        self.bodies = tuple(bodies)
        self.engines = engines = len(self.bodies)
        self.depth = depth
        super().__init__({
            "i_valid": In(1),
            "i_engine": In(range(max(2, engines))),
            "i_word": In(32),
            "room": Out(engines),
            "delivered": Out(engines),
            **{f"body_{e}": Out(stream.Signature(BodyWord)) for e in range(engines)},
        })

    def _rings(self) -> tuple[list[int], int]:
        """First word of each engine's ring, a multiple of the ring's size, and words of all."""
        sizes = {e: self.depth << ceil_log2(words) for e, words in enumerate(self.bodies)}
        first, at = [0] * self.engines, 0
        for e in sorted(sizes, key=lambda e: -sizes[e]):
            first[e], at = at, at + sizes[e]
        return first, at

    def elaborate(self, platform: object) -> Module:
        m = Module()
        first, total = self._rings()
        m.submodules.words = words = memory.Memory(
            shape=32, depth=total, init=[], attrs=UNCHECKED)  # a word is known, and read, in the cycle after its write
        write, read = words.write_port(), words.read_port()
        wants = Signal(self.engines)
        m.submodules.turn = turn = RoundRobin(self.engines)
        m.d.comb += [turn.requests.eq(wants), turn.taken.eq(1)]
        arrives = Signal(self.engines)  # the memory presents a word of this engine
        stored: list[Value] = []
        written_at: list[Value] = []
        read_at: list[Value] = []
        for e, count in enumerate(self.bodies):
            body = getattr(self, f"body_{e}")
            bits, place_bits = ceil_log2(count), ceil_log2(self.depth)
            stores, reads = Signal(name=f"stores_{e}"), Signal(name=f"reads_{e}")
            # Body and word of it to be written next and read next; bodies modulo twice the depth.
            put, put_word = Signal(place_bits + 1, name=f"put_{e}"), Signal(bits, name=f"put_word_{e}")
            get, get_word = Signal(place_bits + 1, name=f"get_{e}"), Signal(bits, name=f"get_word_{e}")
            last = Signal(name=f"last_{e}")
            stored.append(stores)
            # A word is there, of the next cycle; after one was read, known by the time that the next one may be.
            more = Signal(name=f"more_{e}")
            m.d.comb += [
                stores.eq(self.i_valid & (self.i_engine == e)),
                reads.eq(turn.grant[e]),
                wants[e].eq(more & ~arrives[e] & (~body.valid | body.ready)),
                self.room[e].eq((put ^ get) != self.depth),
                last.eq(body.payload.index == count - 1),
                body.payload.last.eq(last),
                self.delivered[e].eq(body.valid & body.ready & last),
            ]
            m.d.sync += [arrives[e].eq(reads), more.eq((put != get) | (put_word != get_word))]
            for steps, number, word in ((stores, put, put_word), (reads, get, get_word)):
                with m.If(steps):
                    m.d.sync += word.eq(word + 1)
                    with m.If(word == count - 1):
                        m.d.sync += [word.eq(0), number.eq(number + 1)]
            with m.If(reads):
                m.d.sync += body.payload.index.eq(get_word)
            with m.If(arrives[e]):
                m.d.sync += [body.valid.eq(1), body.payload.word.eq(read.data)]
            with m.Elif(body.ready):
                m.d.sync += body.valid.eq(0)
            for places, number, word in ((written_at, put, put_word), (read_at, get, get_word)):
                places.append(Cat(word, number[:place_bits]) | first[e])
        m.d.comb += [
            write.en.eq(delayed(m, "stores", self.i_valid, 1)), write.data.eq(self.i_word),
            write.addr.eq(one_registered(m, "place", stored, written_at)),
            read.en.eq(1), read.addr.eq(one_of(turn.grant, read_at)),
        ]
        return m
