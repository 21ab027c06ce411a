"""Reads runs of beats from memory and gives them in sectors as wide as a flit.

::

    command --> room --> port.request
                         port.data --> beats FIFO --+
                                            sector ---+--> o

A beat has S = ``beat_words / flit_words`` sectors. Beats are asked for only when there is room for them, so the
memory's read side never waits.
"""


from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.arith.carry import Digits, table_sum
from plinth_hw.comm.flit import payload_layout
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.choice import select
from plinth_hw.lib.count import index_bits
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.lib.ram import SECTION
from plinth_hw.memory.port import TASK_BITS, ReadPort

#: Longest packet of a transfer in beats.
PACKET_BEATS = 32


def packet_words(parameters: DieParameters) -> int:
    """Longest packet of a transfer; packets do not cross multiples of it in the destination."""
    return min(parameters.chunk_words, PACKET_BEATS * parameters.beat_words)


def packet_buffer_beats(parameters: DieParameters) -> int:
    """Places of a buffer of beats: at least two packets."""
    return max(16, 2 * packet_words(parameters) // parameters.beat_words)


def run_layout(parameters: DieParameters) -> data.StructLayout:
    """``address``: first word; ``words``: how many, at least 1; they are in one packet's reach."""
    return data.StructLayout({"address": unsigned(parameters.address_bits),
                              "words": unsigned(packet_words(parameters).bit_length())})


def beats_layout(parameters: DieParameters) -> data.StructLayout:
    """``address``: first beat; ``beats_rest``: how many follow it."""
    bits = exact_log2(parameters.beat_words)
    return data.StructLayout({"address": unsigned(parameters.address_bits - bits),
                              "beats_rest": unsigned(exact_log2(packet_words(parameters)) - bits + 1)})


class RunReader(wiring.Component):
    """Reads runs of beats.

    Parameters
    ----------
    parameters : DieParameters
    beats : int
        Places for beats; a power of two, at least 16.

    Members
    -------
    command : In stream of :func:`beats_layout`
        Taken when there is room for all its beats.
    task : In
        Of the command, as of requests.
    port : Out(ReadPort)
    sector : In
        Which sector of the oldest beat is looked at.
    o : Out, ``flit_words`` words, valid : Out(1)
        That sector, and whether it is there.
    pop : In(1)
        Lets the oldest beat go.

    Latency: command to request none, data to sector one cycle for each 16 of ``beats``.
    """

    def __init__(self, parameters: DieParameters, beats: int):
        self._parameters = parameters
        self._beats = beats
        super().__init__({
            "command": In(stream.Signature(beats_layout(parameters))),
            "task": In(TASK_BITS), "port": Out(ReadPort(parameters)),
            "sector": In(index_bits(parameters.beat_words // parameters.flit_words)),
            "o": Out(payload_layout(parameters)), "valid": Out(1), "pop": In(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        command, request = self.command.payload, self.port.request
        m.submodules.beats = queue = FIFO(unsigned(self._parameters.beat_bits), self._beats, Storage.SECTIONS)
        # A place that gets free is known here before it is one of the first queue's.
        places = self._beats - self._beats // SECTION + 1
        room = Signal(range(places + 1), init=places)
        takes, fits = Signal(name="takes"), Signal(name="fits")
        # Less a beat and the rest, and more the one that is let go.
        rest = Signal.like(room)
        left = table_sum(m, platform, "left", [
            Digits((room, takes, rest), lambda room, *_: room, lambda room, takes, rest: takes & ~rest)],
            carry=self.pop)
        m.d.comb += [
            rest.eq(command.beats_rest),
            fits.eq(room > command.beats_rest),
            request.valid.eq(self.command.valid & fits), self.command.ready.eq(fits & request.ready),
            request.payload.address.eq(command.address), request.payload.beats.eq(command.beats_rest + 1),
            request.payload.task.eq(self.task), takes.eq(request.valid & request.ready),
            queue.i.payload.eq(self.port.data.payload), queue.i.valid.eq(self.port.data.valid),
            self.port.data.ready.eq(1),
            self.o.as_value().eq(select(
                [queue.o.payload.word_select(place, len(self.o.as_value()))
                 for place in range(self._parameters.beat_words // self._parameters.flit_words)], self.sector)),
            self.valid.eq(queue.o.valid), queue.o.ready.eq(self.pop),
        ]
        m.d.sync += room.eq(left)
        return m
