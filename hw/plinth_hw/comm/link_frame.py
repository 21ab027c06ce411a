"""Frames of the link layer: what one end of a link tells the other in each frame time.

A frame always has what its sender has received, and what room it has made; beside it, a flit or none. So nothing that
is lost is lost for good: the next frame says it again.
"""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

from plinth_hw.comm.flit import flit_layout
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.count import count_bits, index_bits
from plinth_hw.lib.crc import CRC24_BITS

#: Flits that may be on their way, or be sent again.
WINDOW = 64
#: Bits of a flit's number, of a count of requests to send again.
SEQUENCE_BITS, RESEND_BITS = WINDOW.bit_length(), 2


class FrameKind(enum.Enum, shape=unsigned(2)):
    """What a frame is for."""

    #: The sender has not heard of the other end since it began.
    HELLO = 0
    #: It has; it has not heard that the other end knows.
    READY = 1
    #: The link is up; no flit.
    IDLE = 2
    #: The link is up; with a flit.
    FLIT = 3


def credit_bits(parameters: DieParameters) -> int:
    """Bits of a count of credits: none to all places of a buffer may be under way."""
    return count_bits(parameters.link_buffer_flits)


def body_layout(parameters: DieParameters) -> data.StructLayout:
    """A frame without its check."""
    return data.StructLayout({
        "kind": FrameKind,
        #: Of a flit its number; else that of the next one.
        "sequence": unsigned(SEQUENCE_BITS),
        #: Number of the flit that the sender expects; all before it have come.
        "expected": unsigned(SEQUENCE_BITS),
        #: How often the sender has asked for flits to be sent again, from ``expected`` on; and how often it has been
        #: asked, and done so.
        "resend": unsigned(RESEND_BITS), "resent": unsigned(RESEND_BITS),
        #: Credits that the sender has given back in all, of one class; as :func:`~plinth_hw.lib.count.counted`.
        "credit_class": unsigned(index_bits(parameters.classes)),
        "credits": unsigned(credit_bits(parameters)),
        "flit": flit_layout(parameters),
    })


def passed_layout(parameters: DieParameters) -> data.StructLayout:
    """A flit for the router, or none."""
    return data.StructLayout({"valid": unsigned(1), "flit": flit_layout(parameters)})


class Heard(data.Struct):
    """What a good frame of a link that is up says of the flits that went the other way."""

    valid: unsigned(1)
    expected: unsigned(SEQUENCE_BITS)
    resend: unsigned(RESEND_BITS)


def frame_layout(parameters: DieParameters) -> data.StructLayout:
    """A frame as it is on the wires."""
    return data.StructLayout({"body": body_layout(parameters), "check": unsigned(CRC24_BITS)})
