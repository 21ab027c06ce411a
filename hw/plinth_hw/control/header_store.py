"""Header store: what the scheduler keeps of each task until it completes, 16 words for each place of each engine.

::

    stamp of each engine --+--> register of each, zero but for one --> OR --> memory {engine, place, word}
    header words ----------+                                                      |
                                                              word <-- register --+

A stamp, the cycle of a start, waits while header words come. A word is written in the cycle after it was taken, and
read two cycles after its address; what is read for use was written in an earlier cycle: a task is known two cycles
after its last word was taken, and completes after its stamp.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Value, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from plinth_hw.control.dispatch import ADDRESS_WORD, STARTED_WORD, STORED_WORDS
from plinth_hw.control.task_ring import PLACE_BITS
from plinth_hw.lib.arbiter import lowest
from plinth_hw.lib.choice import one_registered
from plinth_hw.lib.ram import UNCHECKED

#: Bits of a stored word's number.
STORED_BITS = exact_log2(STORED_WORDS)


class HeaderStore(wiring.Component):
    """The store; engines go by their position.

    Parameters
    ----------
    engines : int

    Members
    -------
    valid : In(1)
        A word of a header comes.
    engine, place, index, word, address : In
        Where it belongs, and the word; word :data:`~plinth_hw.control.dispatch.ADDRESS_WORD` is ``address``.
    stamp, stamped : In(engines), Out(engines)
        The engine's youngest started task has a stamp, until it is taken; the lowest engine goes first.
    stamp_place, started_at : In, arrays
        By engine, the place of that task, and the stamp.
    read_engine, read_place, read_index : In
        What is read in this cycle.
    read_word : Out(32)
        What was read two cycles ago.
    """

    def __init__(self, engines: int) -> None:
        self.engines = engines
        position = range(max(2, engines))
        super().__init__({
            "valid": In(1),
            "engine": In(position), "place": In(PLACE_BITS), "index": In(STORED_BITS), "word": In(32),
            "address": In(32),
            "stamp": In(engines), "stamped": Out(engines),
            "stamp_place": In(data.ArrayLayout(unsigned(PLACE_BITS), engines)),
            "started_at": In(data.ArrayLayout(unsigned(32), engines)),
            "read_engine": In(position), "read_place": In(PLACE_BITS), "read_index": In(STORED_BITS),
            "read_word": Out(32),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words = words = memory.Memory(
            shape=32, depth=1 << STORED_BITS + PLACE_BITS + ceil_log2(self.engines), init=[], attrs=UNCHECKED)
        write, read = words.write_port(), words.read_port()
        m.d.comb += [
            read.en.eq(1), read.addr.eq(self._address(self.read_engine, self.read_place, self.read_index)),
        ]
        m.d.sync += self.read_word.eq(read.data)
        m.d.comb += self.stamped.eq(Mux(self.valid, 0, lowest(self.stamp)))
        place, is_address = self._address(self.engine, self.place, self.index), self.index == ADDRESS_WORD
        sources = [(self.valid & ~is_address, place, self.word), (self.valid & is_address, place, self.address), *(
            (self.stamped[engine], self._address(Const(engine, 4), self.stamp_place[engine],
                                                 Const(STARTED_WORD, STORED_BITS)), self.started_at[engine])
            for engine in range(self.engines))]
        m.d.sync += write.en.eq(Cat(taken for taken, _, _ in sources).any())
        m.d.comb += Cat(write.addr, write.data).eq(one_registered(
            m, "source", [taken for taken, _, _ in sources], [Cat(address, word) for _, address, word in sources]))
        return m

    def _address(self, engine: Value, place: Value, index: Value) -> Value:
        return Cat(index, place, engine[:ceil_log2(self.engines)])
