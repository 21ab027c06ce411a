"""Reads runs of words from memory and gives them in sectors as wide as a flit.

::

    command --> room --> port.request
                         port.data --> beats FIFO --+
                                            sector ---+--> o

A beat has S = ``beat_words / flit_words`` sectors. Beats are asked for only when there is room for them, so the
memory's read side never waits.
"""


from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.comm.flit import payload_layout
from plinth_hw.isa.parameters import DieParameters
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


def covered(words: data.View, unit: int) -> tuple:
    """First place, and number, of the units of so many words that a run lies in."""
    bits = exact_log2(unit)
    end = words.address[:bits] + words.words + (unit - 1)
    return words.address[bits:], end[bits:]


class RunReader(wiring.Component):
    """Reads runs of words.

    Parameters
    ----------
    parameters : DieParameters
    beats : int
        Places for beats; a power of two, at least 16.

    Members
    -------
    command : In stream of :func:`run_layout`
        Taken when there is room for all its beats.
    kept : In(1)
        The first of them has been read by the command before, which did not let it go.
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
            "command": In(stream.Signature(run_layout(parameters))), "kept": In(1),
            "task": In(TASK_BITS), "port": Out(ReadPort(parameters)),
            "sector": In(index_bits(parameters.beat_words // parameters.flit_words)),
            "o": Out(payload_layout(parameters)), "valid": Out(1), "pop": In(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        beat_words, flit_words = self._parameters.beat_words, self._parameters.flit_words
        run, bits = self.command.payload, exact_log2(beat_words)
        m.submodules.beats = queue = FIFO(unsigned(self._parameters.beat_bits), self._beats, Storage.SECTIONS)
        # A place that gets free is known here before it is one of the first queue's.
        places = self._beats - self._beats // SECTION + 1
        room = Signal(range(places + 1), init=places)
        end, beats = Signal(len(run.words) + 1, name="end"), Signal(len(run.words) + 1 - bits, name="beats")
        takes, fits = Signal(name="takes"), Signal(name="fits")
        request = self.port.request
        m.d.comb += [
            # One beat less where the first is kept.
            end.eq(run.address[:bits] + run.words + Cat(Const(beat_words - 1, bits),
                                                        self.kept.replicate(len(beats)))),
            beats.eq(end[bits:]), fits.eq(room >= beats),
            request.valid.eq(self.command.valid & fits & beats.any()),
            request.payload.address.eq(run.address[bits:] + self.kept), request.payload.beats.eq(beats),
            request.payload.task.eq(self.task), self.command.ready.eq(fits & (request.ready | ~beats.any())),
            takes.eq(self.command.valid & self.command.ready),
            queue.i.payload.eq(self.port.data.payload), queue.i.valid.eq(self.port.data.valid),
            self.port.data.ready.eq(1),
            self.o.as_value().eq(
                Array(queue.o.payload.word_select(place, len(self.o.as_value()))
                      for place in range(beat_words // flit_words))[self.sector]),
            self.valid.eq(queue.o.valid), queue.o.ready.eq(self.pop),
        ]
        m.d.sync += room.eq(room + self.pop - Mux(takes, beats, 0))
        return m
