"""Credits over a link as counts, so that none is lost with a frame.

One end counts all credits of a class that its router has given back; frames tell the counts, class by class in turn.
The other end gives its router a pulse a class and cycle, until it has given as many as the count says. Counts are only
compared, never subtracted, so they need not count as numbers do (:func:`~plinth_hw.lib.count.counted`); no more credits
are under way than places, which all have different counts.
"""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.link_frame import credit_bits
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.count import counted, index_bits


class LinkCredits(wiring.Component):
    """Counts of both directions.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    clear : In(1)
        The link begins anew.
    freed : In(classes)
        The router behind the link's receiving side has freed a place.
    take : In(1)
        A frame takes ``told_class`` and ``told``; the next class's turn.
    told_class, told : Out
        For frames that go out.
    heard : In(1), heard_class, heard_count : In
        Of each good frame that comes.
    credit : Out(classes)
        For the router that sends.
    """

    def __init__(self, parameters: DieParameters):
        self._classes = parameters.classes
        self._bits = credit_bits(parameters)
        index = index_bits(parameters.classes)
        super().__init__({
            "clear": In(1), "freed": In(self._classes), "take": In(1),
            "told_class": Out(index), "told": Out(self._bits),
            "heard": In(1), "heard_class": In(index), "heard_count": In(self._bits),
            "credit": Out(self._classes),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        freed = [Signal(self._bits, name=f"freed_{number}") for number in range(self._classes)]
        known = [Signal(self._bits, name=f"known_{number}") for number in range(self._classes)]
        credited = [Signal(self._bits, name=f"credited_{number}") for number in range(self._classes)]
        m.d.comb += self.told.eq(Array(freed)[self.told_class])
        with m.If(self.take):
            m.d.sync += self.told_class.eq(Mux(self.told_class == self._classes - 1, 0, self.told_class + 1))
        for number in range(self._classes):
            gives = Signal(name=f"gives_{number}")
            m.d.comb += gives.eq(known[number] != credited[number])
            m.d.sync += self.credit[number].eq(gives)
            with m.If(self.freed[number]):
                m.d.sync += freed[number].eq(counted(freed[number]))
            with m.If(gives):
                m.d.sync += credited[number].eq(counted(credited[number]))
            with m.If(self.heard & (self.heard_class == number)):
                m.d.sync += known[number].eq(self.heard_count)
            with m.If(self.clear):
                m.d.sync += [freed[number].eq(0), known[number].eq(0), credited[number].eq(0),
                             self.credit[number].eq(0)]
        return m
