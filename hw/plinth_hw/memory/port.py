"""The internal memory port, spoken by every engine; AXI4 and block RAM are adaptors behind it.

Addresses count beats of ``beat_words`` words, each ``word_bits`` wide. Reads: a request for ``beats`` consecutive
beats, then that many data beats, in the order of the requests of that port. Writes: a request, then its data beats on a
stream of their own (they may come before, with or after the request), then one response when the memory has taken the
last of them.
"""

from amaranth.hdl import unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.isa.parameters import MAX_BEATS, DieParameters

#: Bits of the number by which a request names the task that it is of, as the engine was given it with ``start``.
TASK_BITS = 4


def on_chip(parameters: DieParameters) -> bool:
    """Whether memory is on the chip alone: it answers at once, and lies all over it, so that requests and read data go
    through one more register each."""
    return not parameters.axi_ports


def request_layout(parameters: DieParameters) -> data.StructLayout:
    """Payload of a read or write request; ``task`` is its task's number, or 0: it is of none."""
    beat_log2 = exact_log2(parameters.beat_words)
    return data.StructLayout({"address": unsigned(parameters.address_bits - beat_log2),
                              "beats": unsigned(MAX_BEATS.bit_length()), "task": unsigned(TASK_BITS)})


def beat_layout(parameters: DieParameters) -> data.ArrayLayout:
    """One beat: ``beat_words`` words, word 0 at the lowest address."""
    return data.ArrayLayout(unsigned(parameters.word_bits), parameters.beat_words)


class ReadPort(wiring.Signature):
    """Seen from the client (use ``In(ReadPort(...))`` on the memory's side).

    Members: ``request`` Out stream of :func:`request_layout`; ``data`` In stream of
    :func:`beat_layout`, in order.
    """

    def __init__(self, parameters: DieParameters):
        super().__init__({
            "request": Out(stream.Signature(request_layout(parameters))),
            "data": In(stream.Signature(beat_layout(parameters))),
        })


class WritePort(wiring.Signature):
    """Seen from the client.

    Members: ``request`` Out stream; ``data`` Out stream of ``{data, strobe}`` (a strobe bit a word);
    ``response`` In: one pulse a request, in order, once memory holds it (no backpressure).
    """

    def __init__(self, parameters: DieParameters):
        super().__init__({
            "request": Out(stream.Signature(request_layout(parameters))),
            "data": Out(stream.Signature(data.StructLayout({
                "data": beat_layout(parameters), "strobe": unsigned(parameters.beat_words)}))),
            "response": In(1),
        })
