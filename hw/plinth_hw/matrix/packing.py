"""Loads of operands that lie several to a word: they count operands instead of words.

A beat of W words holds E = W << :func:`element_log2` operands, operand 0 in the low bits of word 0.
"""

from dataclasses import fields
from typing import Any

from amaranth.hdl import Module

from plinth_hw.isa.parameters import DieParameters


def element_log2(parameters: DieParameters) -> int:
    """Logarithm of the operands in a word.

    Raises
    ------
    ValueError
        If the multiply format does not divide a word, or the accumulate format is not a word.
    """
    bits = parameters.multiply_format.bits
    if bits not in (32, 16, 8):
        raise ValueError(f"Multiply format must have 32, 16 or 8 bits, not {bits}")
    if parameters.accumulate_format.bits != 32:
        raise ValueError(f"Accumulate format must have 32 bits, not {parameters.accumulate_format.bits}")
    return (32 // bits).bit_length() - 1


class _ElementParameters(DieParameters):
    """Of a load that counts operands: its addresses may be wider than fields, which hold addresses of words."""

    def _check_fields(self) -> None:
        pass


def element_parameters(parameters: DieParameters) -> DieParameters:
    """Parameters of a load that counts operands instead of words: for it a beat has E narrow "words"."""
    log2 = element_log2(parameters)
    if not log2:
        return parameters
    changes = {"beat_words": parameters.beat_words << log2, "axi_ports": parameters.axi_ports << log2,
               "address_bits": parameters.address_bits + log2,
               "operand_buffer_words": parameters.operand_buffer_words << log2}
    return _ElementParameters(**{field.name: getattr(parameters, field.name) for field in fields(parameters)} | changes)


def connect_elements(m: Module, inner: Any, port: Any, bits: int) -> None:
    """Connects the port of such a load to a read port that is passed on; operands have ``bits`` bits."""
    raw = port.data.payload.as_value()
    m.d.comb += [
        port.request.valid.eq(inner.request.valid), inner.request.ready.eq(port.request.ready),
        port.request.payload.eq(inner.request.payload),
        inner.data.valid.eq(port.data.valid), port.data.ready.eq(inner.data.ready),
        *(inner.data.payload[lane].eq(raw.word_select(lane, bits)) for lane in range(len(raw) // bits)),
    ]
