"""Counts the sums that a matrix engine stores at an end of their fixed-point format.

::

    the engine's write data --> words that are -2^i or 2^i, of those that are written --> count

Sums have i integer bits. One that leaves its format stays at the least or largest number; both, rounded to FP32 on the
way to memory, have a magnitude of 2^i, and so have the last 2^(i - 25) below it. A sum that leaves the format and comes
back is not seen. Where memory is fixed-point, its own least and largest numbers count.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.formats import FP32, Fixed
from plinth_hw.isa.parameters import DieParameters


def end_bits(sums: Fixed) -> int:
    """FP32 bits of what both ends of a format of sums have as their magnitude."""
    return FP32.bias + sums.integer_bits << FP32.fraction_bits


def _at_end(word: Value, parameters: DieParameters) -> Value:
    """Whether a stored word is at an end."""
    if isinstance(parameters.memory_format, Fixed):
        size, sign = word[:-1], word[-1]
        return (size ^ sign.replicate(len(size))).all()
    assert isinstance(parameters.sum_format, Fixed)
    return word[:-1] == end_bits(parameters.sum_format)


class SumsAtEnds(wiring.Component):
    """Counts written words.

    Parameters
    ----------
    parameters : DieParameters
        Of fixed-point operands.

    Members
    -------
    valid : In(1)
        A beat is taken; ``data`` In, ``strobe`` In: its words, and which of them are written.
    count : Out
        Of the beat of a cycle ago.

    Raises
    ------
    TypeError
        If operands are not fixed-point.
    """

    def __init__(self, parameters: DieParameters) -> None:
        if not isinstance(parameters.sum_format, Fixed):
            raise TypeError(f"Sums must be fixed-point, not {parameters.sum_format}")
        self._parameters = parameters
        self._words = parameters.beat_words
        super().__init__({"valid": In(1), "data": In(parameters.beat_bits), "strobe": In(self._words),
                          "count": Out(self._words.bit_length())})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        hits = Signal(self._words)
        words = [self.data.word_select(word, self._parameters.word_bits) for word in range(self._words)]
        m.d.comb += hits.eq(Cat(_at_end(word, self._parameters) for word in words)
                            & self.strobe & self.valid.replicate(self._words))
        m.d.sync += self.count.eq(sum(hits))
        return m
