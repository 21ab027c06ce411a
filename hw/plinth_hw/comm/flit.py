"""Flits and links: what travels between dies.

A packet is a run of flits of one class with the same header sideband, ended by ``tail``. Payload rates
and "words" count ``data`` only; the sideband travels beside it. Which of the sideband's fields have a meaning
depends on the class:

=============================  ===========================================================
class                          fields
=============================  ===========================================================
0, control                     ``kind`` (ADVANCE or ERROR), ``message``; of an ERROR the die that had it in
                               ``chunk``
1 + b, collective, block b     ``group``, ``message``; ``chunk``, for observers of links only
the last one, tile transfer    ``kind`` (STORE, ADD or ADVANCE), the address in
                               ``message``, ``group`` and ``chunk`` (:func:`address_fields`)
=============================  ===========================================================

A die passes on all fields, but takes out of its router only those that it uses (:func:`taken_layout`).
"""

from typing import Any

from amaranth.hdl import Cat, Value, unsigned
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.packets import Sideband
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.count import index_bits
from plinth_hw.shapes import shape_of


class PacketKind(enum.Enum, shape=unsigned(2)):
    """What a packet of class 0 or of the transfer class asks for."""

    #: A single flit without payload: advance update counter ``message`` by one; in the transfer class once all
    #: that came before it is in memory.
    ADVANCE = 0
    #: A single flit without payload, class 0 only: die ``chunk`` has stopped with an error. It ends at the next
    #: die on port ``message``.
    ERROR = 1
    #: The payload goes to consecutive words from the address on.
    STORE = 2
    #: The payload is added to what lies there.
    ADD = 3


def payload_layout(parameters: DieParameters) -> data.ArrayLayout:
    """Words of a flit."""
    return data.ArrayLayout(unsigned(parameters.word_bits), parameters.flit_words)


def flit_layout(parameters: DieParameters) -> data.StructLayout:
    """Payload and sideband of a flit."""
    sideband = shape_of(Sideband)
    return data.StructLayout({
        "data": payload_layout(parameters),
        #: valid words in ``data`` minus one
        "words": unsigned(index_bits(parameters.flit_words)),
        "destination": unsigned(parameters.die_bits),
        "kind": PacketKind,
        **{name: sideband[name].shape for name in ("group", "message", "chunk")},
        "traffic_class": unsigned(index_bits(parameters.classes)),
        "tail": unsigned(1),
    })


_COLLECTIVE = ("data", "words", "group", "message", "tail")
_TRANSFER = ("data", "words", "kind", "group", "message", "chunk", "tail")


def taken_layout(parameters: DieParameters, traffic_class: int) -> data.StructLayout:
    """What the die that a flit of a class is for takes of it; of a control packet's ``chunk`` a die number."""
    flit = flit_layout(parameters)
    if traffic_class == 0:
        return data.StructLayout({"kind": PacketKind, "message": flit["message"].shape,
                                  "chunk": unsigned(parameters.die_bits)})
    names = _TRANSFER if traffic_class == parameters.transfer_class else _COLLECTIVE
    return data.StructLayout({name: flit[name].shape for name in names})


def address_fields(flit: Any) -> Value:
    """The fields that hold the word address of a transfer packet's first word, or its counter; 32 bits.

    With an address that is no multiple of ``flit_words`` the first flit's words lie in the lanes from its low
    part on; all others begin in lane 0.
    """
    return Cat(flit.message, flit.group, flit.chunk)


class LinkSignature(wiring.Signature):
    """One direction of a link, seen from the sender. No ready: credits say what may be sent.

    Members: ``valid`` Out, ``flit`` Out; ``credit`` In, one bit a class: the receiver's input buffer of
    that class has freed one flit. The sender starts with ``DieParameters.link_buffer_flits`` credits a class.
    """

    def __init__(self, parameters: DieParameters):
        super().__init__({
            "valid": Out(1),
            "flit": Out(flit_layout(parameters)),
            "credit": In(parameters.classes),
        })
