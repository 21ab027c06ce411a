"""The words of a record: those that the header store has, then the time, stall cycles, payload words and multiply-adds.

::

    word of the store, tag and engine, time, results of each engine --> register of each, zero but for one --> OR --> o

Those of an engine follow by themselves after ``begin``, a cycle each, beside whatever else the scheduler does. A word
comes a cycle after it was chosen.
"""

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.control.engine import Done
from plinth_hw.control.fetch import header_word
from plinth_hw.isa.operations import Engine
from plinth_hw.lib.choice import one_registered, select

#: Words of a record after ``begin``: the time, and those of the engine.
_PARTS = 5


class ResultWords(wiring.Component):
    """Hands on the words of one record at a time.

    Parameters
    ----------
    engines : sequence of Engine
        In the order of their positions.

    Members
    -------
    hand, hand_tag, word : In(1), In(1), In(32)
        Hand on ``word``; or of word 3 of a header the tag, with the number of the engine. Not while ``busy``.
    begin, engine, ended_at : In(1), In, In(32)
        From the next cycle on, hand on the time and the results of this engine; not while ``busy``.
    done_0 ... : In(Done)
        Results; those of the engine stay until it is accepted.
    busy : Out(1)
        Time or results are chosen.
    valid, o : Out(1), Out(32)
        A word of the record.
    accept : Out(engines)
        A cycle before the last of ``busy``: in that one the results of that engine are taken.
    """

    def __init__(self, engines: Sequence[Engine]) -> None:
        self.engines = list(engines)
        count = len(self.engines)
        super().__init__({
            "hand": In(1), "hand_tag": In(1), "word": In(32),
            "begin": In(1), "engine": In(range(max(2, count))), "ended_at": In(32),
            **{f"done_{e}": In(Done) for e in range(count)},
            "busy": Out(1), "valid": Out(1), "o": Out(32), "accept": Out(count),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        engine, part = Signal.like(self.engine, name="of"), Signal(range(_PARTS), name="part")
        numbers = [Const(kind.value, 16) for kind in self.engines]
        sources = [(self.hand, self.word),
                   (self.hand_tag, Cat(header_word(self.word, 3).tag, select(numbers, self.engine))),
                   (self.busy & (part == 0), self.ended_at)]
        for position, kind in enumerate(self.engines):
            result = getattr(self, f"done_{position}")
            words = [result.stall_cycles, result.payload_words]
            if kind is Engine.MATRIX:  # others have no multiply-adds
                words += [result.useful_macs[:32], result.useful_macs[32:]]
            sources += [(self.busy & (part == number) & (engine == position), word)
                        for number, word in enumerate(words, 1)]
        m.d.comb += self.o.eq(one_registered(m, "held", *zip(*sources, strict=True)))
        m.d.comb += self.accept.eq(Cat(
            self.busy & (part == _PARTS - 2) & (engine == position) for position in range(len(self.engines))))
        m.d.sync += self.valid.eq(self.hand | self.hand_tag | self.busy)
        with m.If(self.begin):
            m.d.sync += [self.busy.eq(1), engine.eq(self.engine)]
        with m.If(self.busy):
            m.d.sync += part.eq(part + 1)
            with m.If(part == _PARTS - 1):
                m.d.sync += [self.busy.eq(0), part.eq(0)]
        return m
