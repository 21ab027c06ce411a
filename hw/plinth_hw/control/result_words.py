"""The words of a record that come from an engine: the time, stall cycles, payload words, multiply-adds.

A cycle each, the first in the cycle after ``begin``, beside whatever else the scheduler does.
"""

from collections.abc import Sequence

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.control.engine import Done
from plinth_hw.isa.tasks import Engine
from plinth_hw.lib.choice import one_registered

#: ``part`` of the time; those of the four words of the engine follow.
_TIME = 7


class ResultWords(wiring.Component):
    """Hands on the results of one engine at a time.

    Parameters
    ----------
    engines : sequence of Engine
        In the order of their positions.

    Members
    -------
    begin, engine, ended_at : In(1), In, In(32)
        Hand on the results of this engine, and the time; not while ``busy``.
    done_0 ... : In(Done)
        Results; those of the engine stay until it is accepted.
    busy : Out(1)
        A word comes in this cycle.
    word : Out(32)
        It.
    accept : Out(engines)
        With the last word: the results of that engine are taken.
    """

    def __init__(self, engines: Sequence[Engine]) -> None:
        self.engines = list(engines)
        count = len(self.engines)
        super().__init__({
            "begin": In(1), "engine": In(range(max(2, count))), "ended_at": In(32),
            **{f"done_{e}": In(Done) for e in range(count)},
            "busy": Out(1), "word": Out(32), "accept": Out(count),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        engine, part = Signal.like(self.engine, name="of"), Signal(3, init=_TIME, name="part")
        following = Signal.like(part, name="following")
        wanted: list[Value] = []
        sources: list[Value] = []
        m.d.comb += following.eq(part + 1)
        for position, kind in enumerate(self.engines):
            result = getattr(self, f"done_{position}")
            words = [result.stall_cycles, result.payload_words]
            if kind is Engine.MATRIX:  # others have no multiply-adds
                words += [result.useful_macs[:32], result.useful_macs[32:]]
            for number, source in enumerate(words):
                wanted.append(self.busy & (following == number) & (engine == position))
                sources.append(source)
        held = one_registered(m, "held", wanted, sources)
        with m.If(self.begin):
            m.d.sync += [self.busy.eq(1), engine.eq(self.engine)]
        with m.If(self.busy):
            m.d.comb += self.word.eq(Mux(part[2], self.ended_at, 0) | held)
            m.d.sync += part.eq(following)
            with m.If(part == 3):
                m.d.comb += self.accept.bit_select(engine, 1).eq(1)
                m.d.sync += [self.busy.eq(0), part.eq(_TIME)]
        return m
