"""Credits over a link as counts, so that none is lost with a frame.

One end counts all credits of a class that its router has given back; frames tell the counts, class by class in turn.
The other end gives its router as many pulses as a count is ahead of those it has given, one a class and cycle.
"""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.link_frame import credit_bits
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.count import index_bits


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
    failed : Out(1)
        Pulse: a count that cannot be.
    """

    def __init__(self, parameters: DieParameters):
        self._classes = parameters.classes
        self._most = parameters.link_buffer_flits
        self._bits = credit_bits(parameters)
        index = index_bits(parameters.classes)
        super().__init__({
            "clear": In(1), "freed": In(self._classes), "take": In(1),
            "told_class": Out(index), "told": Out(self._bits),
            "heard": In(1), "heard_class": In(index), "heard_count": In(self._bits),
            "credit": Out(self._classes), "failed": Out(1),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        freed = [Signal(self._bits, name=f"freed_{number}") for number in range(self._classes)]
        known = [Signal(self._bits, name=f"known_{number}") for number in range(self._classes)]
        given = [Signal(self._bits, name=f"given_{number}") for number in range(self._classes)]
        m.d.comb += self.told.eq(Array(freed)[self.told_class])
        with m.If(self.take):
            m.d.sync += self.told_class.eq(Mux(self.told_class == self._classes - 1, 0, self.told_class + 1))
        for number in range(self._classes):
            mine = Signal(name=f"heard_{number}")
            news = Signal(self._bits, name=f"news_{number}")
            gives = Signal(name=f"gives_{number}")
            m.d.comb += [
                mine.eq(self.heard & (self.heard_class == number)),
                # What has not been given yet is part of it: no more than all places of the buffer.
                news.eq(self.heard_count - given[number]),
                gives.eq(known[number] != given[number]),
            ]
            with m.If(mine & (news > self._most)):
                m.d.comb += self.failed.eq(1)
            m.d.sync += [freed[number].eq(freed[number] + self.freed[number]), self.credit[number].eq(gives),
                         given[number].eq(given[number] + gives)]
            with m.If(mine):
                m.d.sync += known[number].eq(self.heard_count)
            with m.If(self.clear):
                m.d.sync += [freed[number].eq(0), known[number].eq(0), given[number].eq(0),
                             self.credit[number].eq(0)]
        return m
