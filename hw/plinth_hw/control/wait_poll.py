"""Polls of the waits of loaded tasks: which wait next, of which counter, and what follows from the answer.

::

    waits --> engine in turn --> register --> its pending waits in turn --> valid, engine, wait --> counter
                                                                                |
                                                       two cycles later: slack, awaited --> met

A wait that is met is chosen no more, but for one poll of an engine that has none left. The choice is made two cycles
ahead. The answer comes two cycles after the poll, when the engine's next load cannot have ended yet. By then the wait
may be another task's: whatever is polled is what lies at the head of that engine's queue.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from plinth_hw.isa.descriptors import WAITS
from plinth_hw.lib.arbiter import RoundRobin, above, in_turn
from plinth_hw.lib.choice import index_of, select


class WaitPoll(wiring.Component):
    """Polls waits in turn; engines go by their position.

    Parameters
    ----------
    engines : int
    counters : int
        Update counters.

    Members
    -------
    waits : In(engines)
        The engine's next task is loaded, and waits.
    pending : In, array of ``WAITS`` bits
        By engine, the waits of that task that are not met yet.
    keep, keep_engine, keep_counters : In(1), In, In(32)
        The counters, a byte each, that the engine's next task waits for.
    look, look_engine, look_wait : In
        With ``look``, ``counter`` is that of this wait, and ``taken`` must not be.
    valid, taken : Out(1), In(1)
        A wait is to be polled; it is.
    engine, wait : Out
        That wait.
    counter : Out
        Its counter.
    slack, awaited : In(32)
        Two cycles after ``taken``: counter less base, and the value that the task waits for.
    met : Out, array of ``WAITS`` bits
        By engine, the wait that is met.
    """

    def __init__(self, engines: int, counters: int) -> None:
        self.engines = engines
        position = range(max(2, engines))
        by_engine = data.ArrayLayout(unsigned(WAITS), engines)
        super().__init__({
            "waits": In(engines), "pending": In(by_engine),
            "keep": In(1), "keep_engine": In(position), "keep_counters": In(32),
            "look": In(1), "look_engine": In(position), "look_wait": In(range(WAITS)),
            "valid": Out(1), "taken": In(1), "engine": Out(position), "wait": Out(range(WAITS)),
            "counter": Out(range(counters)),
            "slack": In(32), "awaited": In(32), "met": Out(by_engine),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._choose(m)
        m.submodules.numbers = numbers = memory.Memory(
            shape=data.ArrayLayout(8, WAITS), depth=1 << ceil_log2(max(2, self.engines)), init=[])
        keep, recall = numbers.write_port(), numbers.read_port(domain="comb")
        m.d.comb += [
            keep.en.eq(self.keep), keep.addr.eq(self.keep_engine), keep.data.eq(self.keep_counters),
            recall.addr.eq(Mux(self.look, self.look_engine, self.engine)),
            self.counter.eq(select([recall.data[wait] for wait in range(WAITS)],
                                   Mux(self.look, self.look_wait, self.wait))),
        ]
        chosen = Cat(self.wait, self.engine)
        asked, asked_0, asked_1 = Signal(2, name="asked"), Signal.like(chosen, name="asked_0"), Signal.like(
            chosen, name="asked_1")
        shortfall = Signal(32, name="shortfall")
        m.d.sync += [asked.eq(Cat(self.taken, asked[0])), asked_0.eq(chosen), asked_1.eq(asked_0)]
        m.d.comb += [
            shortfall.eq(self.slack - self.awaited),
            *(self.met[engine][wait].eq(asked[1] & ~shortfall[31] & (asked_1 == engine * WAITS + wait))
              for engine in range(self.engines) for wait in range(WAITS)),
        ]
        return m

    def _choose(self, m: Module) -> None:
        """The wait after the one that was polled last of the engine after the one that was."""
        polled = [Signal(range(WAITS), name=f"polled_{engine}") for engine in range(self.engines)]
        free = ~self.valid | self.taken
        m.submodules.turn = turn = RoundRobin(self.engines)
        m.d.comb += [turn.requests.eq(self.waits), turn.taken.eq(free)]
        follows, following = Signal(name="follows"), Signal.like(self.engine, name="following")  # the engine after it
        last = (Const(1, WAITS) << select(polled, following))[:WAITS]
        wait = index_of(in_turn(m, "wait", select(list(self.pending), following), above(last)))
        with m.If(free):
            m.d.sync += [follows.eq(self.waits.any()), following.eq(turn.index),
                         self.valid.eq(follows), self.engine.eq(following), self.wait.eq(wait)]
            for engine, before in enumerate(polled):
                with m.If(follows & (following == engine)):
                    m.d.sync += before.eq(wait)
