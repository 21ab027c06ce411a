"""Flits and links: what travels between dies.

A packet is a run of flits of one class with the same header sideband, ended by ``tail``. Payload rates
and "words" count ``data`` only; the sideband travels beside it.
"""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.parameters import DieParameters


class ControlKind(enum.Enum, shape=unsigned(2)):
    """Single-flit packets of class 0; ``message`` and ``chunk`` hold the argument."""

    #: Advance update counter ``message`` by one.
    ADVANCE = 0
    #: Die ``source`` has stopped with an error; passed on round the array.
    ERROR = 1


def flit_layout(parameters: DieParameters) -> data.StructLayout:
    """Payload and sideband of a flit."""
    return data.StructLayout({
        "data": data.ArrayLayout(unsigned(32), parameters.flit_words),
        #: valid words in ``data`` minus one
        "words": unsigned(max(1, (parameters.flit_words - 1).bit_length())),
        "destination": unsigned(parameters.die_bits),
        "source": unsigned(parameters.die_bits),
        "kind": ControlKind,
        "group": unsigned(4),
        "message": unsigned(8),
        "chunk": unsigned(20),
        "traffic_class": unsigned(max(1, (parameters.classes - 1).bit_length())),
        "tail": unsigned(1),
        #: reserved: link-level sequence number and CRC
        "sequence": unsigned(8),
        "crc": unsigned(16),
    })


class LinkSignature(wiring.Signature):
    """One direction of a link, seen from the sender. No ready: credits say what may be sent.

    Members: ``valid`` Out, ``flit`` Out; ``credit`` In, one bit a class: the receiver's input buffer of
    that class has freed one flit. The sender starts with ``link_buffer_flits`` credits a class.
    """

    def __init__(self, parameters: DieParameters):
        super().__init__({
            "valid": Out(1),
            "flit": Out(flit_layout(parameters)),
            "credit": In(parameters.classes),
        })


def link_buffer_flits(parameters: DieParameters) -> int:
    """Depth of a router input buffer of one class: two chunks, so that a link of up to a chunk's
    time round trip runs at full rate."""
    return 2 * parameters.chunk_words // parameters.flit_words
