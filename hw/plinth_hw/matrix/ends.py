"""Counts the sums that a matrix engine stores at an end of their fixed-point format.

::

    the engine's write data --> least and largest numbers, of those that are written --> count

A sum that is beyond memory's format is stored as its least or largest number; a sum that is just that counts as well.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.parameters import DieParameters


def _at_end(word: Value) -> Value:
    """Whether a number is its format's least or largest."""
    size, sign = word[:-1], word[-1]
    return (size ^ sign.replicate(len(size))).all()


class SumsAtEnds(wiring.Component):
    """Counts written words.

    Parameters
    ----------
    parameters : DieParameters
        Of fixed-point numbers.

    Members
    -------
    valid : In(1)
        A beat is taken; ``data`` In, ``strobe`` In: its words, and which of them are written.
    count : Out
        Of the beat of two cycles ago.

    Raises
    ------
    TypeError
        If numbers are not fixed-point.
    """

    def __init__(self, parameters: DieParameters) -> None:
        if not isinstance(parameters.memory_format, Fixed):
            raise TypeError(f"Numbers must be fixed-point, not {parameters.memory_format}")
        self._parameters = parameters
        self._words = parameters.beat_words
        super().__init__({"valid": In(1), "data": In(parameters.beat_bits), "strobe": In(self._words),
                          "count": Out(self._words.bit_length())})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        hits = Signal(self._words)
        words = [self.data.word_select(word, self._parameters.word_bits) for word in range(self._words)]
        m.d.sync += [hits.eq(Cat(_at_end(word) for word in words) & self.strobe & self.valid.replicate(self._words)),
                     self.count.eq(sum(hits))]
        return m
