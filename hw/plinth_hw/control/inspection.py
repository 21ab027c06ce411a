"""What is read of the tasks of an engine when the host, or an error, asks: combinational."""

from amaranth.hdl import Module, Mux, unsigned
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.control.dispatch import ADDRESS_WORD
from plinth_hw.control.header_store import STORED_BITS
from plinth_hw.control.task_ring import PLACE_BITS
from plinth_hw.isa.descriptors import HEADER_WORDS, WAITS
from plinth_hw.lib.choice import select
from plinth_hw.memory.port import TASK_BITS


class InspectKind(enum.Enum, shape=unsigned(2)):
    """What is asked."""

    #: Address of the task that waits, or else of the oldest started one, or else 0.
    TASK = 0
    #: Counter value that the next task waits for.
    WAIT = 1
    #: Address of the task with ``number``; without, of the oldest unfinished one, or 0.
    OLDEST = 2
    #: Counter that the next task waits for, with bit 31, or 0.
    COUNTER = 3


class Inspection(wiring.Component):
    """Where the answer lies; engines go by their position.

    Parameters
    ----------
    engines : int

    Members
    -------
    engine, kind : In, In(InspectKind)
        What is asked, of which engine.
    number : In
        With OLDEST: number of the task that is meant, or 0.
    loaded, pending, tail, head, old : In, arrays
        By engine, as of :class:`~plinth_hw.control.task_ring.TaskRing`.
    place, index : Out
        The word of the header store.
    wait, waits : Out, Out(1)
        The lowest pending wait of the next task, if it waits.
    adds_base : Out(1)
        The answer is the sum of that word and the base of the counter waited for.
    none : Out(1)
        There is no such task or wait: the answer is 0.
    """

    def __init__(self, engines: int) -> None:
        pointer = data.ArrayLayout(unsigned(PLACE_BITS + 1), engines)
        super().__init__({
            "engine": In(range(max(2, engines))), "kind": In(InspectKind), "number": In(TASK_BITS),
            "loaded": In(engines), "pending": In(data.ArrayLayout(unsigned(WAITS), engines)),
            "tail": In(pointer), "head": In(pointer), "old": In(pointer),
            "place": Out(PLACE_BITS), "index": Out(STORED_BITS),
            "wait": Out(range(WAITS)), "waits": Out(1), "adds_base": Out(1), "none": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        loaded, pending, tail, head, old = (select(list(by_engine), self.engine) for by_engine in (
            self.loaded, self.pending, self.tail, self.head, self.old))
        named = self.number.any()
        for index in reversed(range(WAITS)):
            with m.If(pending[index]):
                m.d.comb += self.wait.eq(index)
        m.d.comb += [
            self.place.eq(Mux(named, self.number, Mux(loaded & (self.kind != InspectKind.OLDEST), head, old))),
            self.index.eq(Mux(self.adds_base, HEADER_WORDS - WAITS + self.wait, ADDRESS_WORD)),
            self.waits.eq(loaded & pending.any()),
            self.adds_base.eq(self.kind == InspectKind.WAIT),
            self.none.eq(((old == tail) & ~named) | (self.adds_base & ~self.waits)),
        ]
        return m
