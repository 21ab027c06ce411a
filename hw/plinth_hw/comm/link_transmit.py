"""Sending side of a link: keeps flits until the other end has them, and sends them again when it asks.

::

    i --> ring of WINDOW flits --> o
          acked <= next <= written

Flits are numbered modulo twice the window. ``expected`` of the other end lets places go; a new count of ``resend``
takes ``next`` back to it, and so does a time without progress. Latency: a flit taken in cycle t is on ``o`` from t + 2
on. Throughput: a flit each ``take``.
"""

from typing import Any

from amaranth.hdl import Module, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.flit import flit_layout
from plinth_hw.comm.link_frame import RESEND_BITS, SEQUENCE_BITS, WINDOW, Heard
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.count import count_bits, count_of, counted
from plinth_hw.lib.ram import UNCHECKED

#: Cycles for which a source may go on giving flits once there is no ``room``: an eighth of the window.
LEAD = WINDOW // 8 - 1
#: Replays in a row, without a flit that has come, after which a link has failed.
MOST_REPLAYS = 64


def sent_layout(parameters: DieParameters) -> data.StructLayout:
    """A flit on its way into a frame, or none; ``sequence`` and ``resent`` as in the frame."""
    return data.StructLayout({"valid": unsigned(1), "sequence": unsigned(SEQUENCE_BITS),
                              "resent": unsigned(RESEND_BITS), "flit": flit_layout(parameters)})


class LinkTransmit(wiring.Component):
    """Flits until they have come.

    Parameters
    ----------
    parameters : DieParameters
    patience : int
        Cycles without progress after which flits are sent again.

    Members
    -------
    clear : In(1)
        The link begins anew: forget all.
    i : In stream of :func:`~plinth_hw.comm.flit.flit_layout`
        Flits; taken while there is a place.
    heard : In(Heard)
        Of each good frame.
    take : In(1)
        A frame is made of ``o``; in the next cycle ``o`` is what comes then.
    o : Out, :func:`sent_layout`
    room : Out(1)
        There are places for flits of :data:`LEAD` cycles from now on.
    replays : Out(1)
        Pulse: flits are sent again.
    failed : Out(1)
        Pulse: :data:`MOST_REPLAYS` in a row were in vain, or the other end expects what was never sent.
    """

    def __init__(self, parameters: DieParameters, patience: int):
        self._parameters = parameters
        self._patience = patience
        super().__init__({
            "clear": In(1), "i": In(stream.Signature(flit_layout(parameters))), "heard": In(Heard), "take": In(1),
            "o": Out(sent_layout(parameters)), "room": Out(1), "replays": Out(1), "failed": Out(1),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.flits = flits = Memory(shape=flit_layout(self._parameters), depth=WINDOW, init=[],
                                            attrs=UNCHECKED)
        write, read = flits.write_port(), flits.read_port()
        place_bits = SEQUENCE_BITS - 1
        written, acked, upcoming = (Signal(SEQUENCE_BITS, name=name) for name in ("written", "acked", "upcoming"))
        wanted, resent = Signal(RESEND_BITS), Signal(RESEND_BITS)
        # Flits that have not come as far as is known, and those of them that have been sent, (again) or not; more than
        # the window is less than none.
        outstanding, ahead = Signal(SEQUENCE_BITS), Signal(SEQUENCE_BITS)
        put, get, overtaken = Signal(), Signal(), Signal()
        m.d.comb += [
            outstanding.eq(written - acked), ahead.eq(upcoming - acked), overtaken.eq(self._is_negative(ahead)),
            self.i.ready.eq(~outstanding[-1]), put.eq(self.i.valid & self.i.ready),
            write.addr.eq(written[:place_bits]), write.data.eq(self.i.payload), write.en.eq(put),
            get.eq(self.take & (upcoming != written) & ~overtaken),
            read.addr.eq(upcoming[:place_bits]), read.en.eq(self.take), self.o.flit.eq(read.data),
        ]
        m.d.sync += self.room.eq(~outstanding[-1] & ~outstanding[-4:-1].all())
        with m.If(put):
            m.d.sync += written.eq(written + 1)
        with m.If(self.take):
            m.d.sync += [self.o.valid.eq(get), self.o.sequence.eq(upcoming), self.o.resent.eq(resent)]

        asked, late, progress = Signal(), Signal(), Signal()
        quiet, tries = Signal(count_bits(self._patience)), Signal(count_bits(MOST_REPLAYS))
        m.d.comb += [
            progress.eq(self.heard.valid & (self.heard.expected != acked)), asked.eq(wanted != resent),
            late.eq(quiet == count_of(self._patience, len(quiet))),
        ]
        with m.If(self.heard.valid):
            m.d.sync += [acked.eq(self.heard.expected), wanted.eq(self.heard.resend)]
        with m.If(asked | late | overtaken):
            m.d.sync += [upcoming.eq(acked), resent.eq(wanted)]
        with m.Elif(get):
            m.d.sync += upcoming.eq(upcoming + 1)
        m.d.sync += quiet.eq(counted(quiet))
        with m.If(progress | asked | late | (outstanding == 0)):
            m.d.sync += quiet.eq(0)
        m.d.comb += [
            self.replays.eq((asked | late) & (outstanding != 0)),
            self.failed.eq(self._is_negative(outstanding)
                           | (self.replays & ~progress & (tries == count_of(MOST_REPLAYS, len(tries))))),
        ]
        with m.If(progress):
            m.d.sync += tries.eq(0)
        with m.Elif(self.replays):
            m.d.sync += tries.eq(counted(tries))
        with m.If(self.clear):
            m.d.sync += [written.eq(0), acked.eq(0), upcoming.eq(0), wanted.eq(0), resent.eq(0), quiet.eq(0),
                         tries.eq(0), self.o.valid.eq(0), self.o.sequence.eq(0), self.o.resent.eq(0)]
        return m

    @staticmethod
    def _is_negative(distance: Value) -> Value:
        """Beyond the window, modulo twice the window."""
        return distance[-1] & distance[:-1].any()
