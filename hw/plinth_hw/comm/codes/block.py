"""Blocks of a run, as both encoders of :mod:`plinth_hw.isa.codes` take them.

::

    flit --> its words, mask, largest exponent --> block

The next block comes in while one is worked on.

Throughput: a flit a cycle, a block one more. Latency: last flit of a block to the block two cycles.
"""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.codes.bits import WORD
from plinth_hw.comm.flit import payload_layout
from plinth_hw.isa.codes import ABOVE, BIAS, BLOCK, EXPONENT_BITS, FLOOR, FRACTION_BITS
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.choice import ones
from plinth_hw.lib.count import index_bits

#: Level of a code, and an exponent as its field has it, with room for sums.
LEVEL, BIASED = signed(EXPONENT_BITS), EXPONENT_BITS + 2


def run_flit_layout(parameters: DieParameters) -> data.StructLayout:
    """A flit of a run: ``data``, the first ``words`` of which count; which of them a ``mask`` names; ``ends``: it is
    the run's last one."""
    lanes = parameters.flit_words
    return data.StructLayout({"data": payload_layout(parameters), "words": unsigned(lanes.bit_length()),
                              "mask": unsigned(lanes), "ends": unsigned(1)})


#: A block: ``words``, ``mask``, +0 and unmasked behind a run; ``largest`` exponent field; ``empty``: all words are +0;
#: ``ends``: it is the run's last one.
WHOLE_BLOCK = data.StructLayout({
    "words": data.ArrayLayout(unsigned(WORD), BLOCK), "mask": unsigned(BLOCK), "largest": unsigned(EXPONENT_BITS),
    "empty": unsigned(1), "ends": unsigned(1)})


class Blocks(wiring.Component):
    """Collects blocks.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    i : In stream of :func:`run_flit_layout`
    o : Out stream of :data:`WHOLE_BLOCK`

    Raises
    ------
    ValueError
        If a flit is longer than a block.
    """

    def __init__(self, parameters: DieParameters):
        if parameters.flit_words > BLOCK:
            raise ValueError(f"flit_words must be at most a block of {BLOCK}, not {parameters.flit_words}")
        self.parameters = parameters
        super().__init__({"i": In(stream.Signature(run_flit_layout(parameters))),
                          "o": Out(stream.Signature(WHOLE_BLOCK))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes, flit, block = self.parameters.flit_words, self.i.payload, self.o.payload
        # A flit: its words, masked ones of them, the largest exponent.
        words = Signal(data.ArrayLayout(WORD, lanes), name="flit_words", reset_less=True)
        mask, ends, valid = Signal(lanes, name="flit_mask"), Signal(name="flit_ends"), Signal(name="flit_valid")
        top, any_ = Signal(EXPONENT_BITS, name="flit_top", reset_less=True), Signal(name="flit_any", reset_less=True)
        arriving, takes = [Mux(lane < flit.words, flit.data[lane], 0) for lane in range(lanes)], Signal(name="takes")
        largest = _largest(m, [word[FRACTION_BITS:WORD - 1] for word in arriving])
        m.d.comb += [takes.eq(valid & ~self.o.valid), self.i.ready.eq(~valid | takes)]
        with m.If(takes):
            m.d.sync += valid.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                valid.eq(1), mask.eq(flit.mask & ones(flit.words, lanes)), ends.eq(flit.ends),
                *(words[lane].eq(word) for lane, word in enumerate(arriving)),
                top.eq(largest), any_.eq(Cat(arriving).any())]
        place, empty = Signal(index_bits(BLOCK // lanes), name="place"), Signal(init=1, name="empty")
        m.d.comb += block.empty.eq(empty)
        with m.If(takes):
            for first in range(0, BLOCK, lanes):
                with m.If(place == first // lanes):
                    m.d.sync += [*(block.words[first + lane].eq(words[lane]) for lane in range(lanes)),
                                 block.mask[first:first + lanes].eq(mask)]
            m.d.sync += [place.eq(place + 1), block.ends.eq(ends), empty.eq(empty & ~any_)]
            with m.If(top > block.largest):
                m.d.sync += block.largest.eq(top)
            with m.If(ends | (place == BLOCK // lanes - 1)):
                m.d.sync += [self.o.valid.eq(1), place.eq(0)]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [self.o.valid.eq(0), block.words.eq(0), block.mask.eq(0), block.largest.eq(0), empty.eq(1)]
        return m


class BlockBounds:
    """Between which exponents a code's first part describes blocks, by its level; a cycle after the level.

    Attributes
    ----------
    least : Signal
        The least exponent: blocks of smaller words have it as well.
    """

    def __init__(self, m: Module, level: Value):
        self.least, self._most = Signal(BIASED, name="least"), Signal(BIASED, name="most")
        m.d.sync += [self.least.eq(level + (BIAS - FLOOR)), self._most.eq(level + (BIAS + ABOVE))]

    def top(self, block: Any) -> Value:
        """Exponent of a block of :data:`WHOLE_BLOCK`."""
        return Mux(block.largest > self.least, block.largest, self.least)

    def escapes(self, block: Any) -> Value:
        """A block has more planes than a code can have."""
        return block.largest > self._most


def _largest(m: Module, exponents: Sequence[Value]) -> Value:
    """The largest one, by a tree of comparisons."""
    level = list(exponents)
    while len(level) > 1:
        pairs = []
        for first, second in zip(level[::2], level[1::2], strict=True):
            larger = Signal(EXPONENT_BITS, name="larger")
            m.d.comb += larger.eq(Mux(first > second, first, second))
            pairs.append(larger)
        level = pairs
    return level[0]
