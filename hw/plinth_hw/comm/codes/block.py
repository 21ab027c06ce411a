"""Blocks of a run, as both encoders of :mod:`plinth_hw.isa.codes` take them.

::

    flit --> words, mask, largest exponent --> block

The next block comes in while one is worked on.

Throughput: a flit a cycle, a block one more. Latency: last flit of a block to the block one cycle.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.codes.bits import WORD
from plinth_hw.comm.flit import payload_layout
from plinth_hw.isa.codes import BLOCK, EXPONENT_BITS, FRACTION_BITS
from plinth_hw.isa.parameters import DieParameters
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
        place, empty = Signal(index_bits(BLOCK // lanes), name="place"), Signal(init=1, name="empty")
        words = [Mux(lane < flit.words, flit.data[lane], 0) for lane in range(lanes)]
        tops: list[Value] = [block.largest]
        for lane, word in enumerate(words):
            exponent, top = (Signal(EXPONENT_BITS, name=f"{name}_{lane}") for name in ("exponent", "top"))
            m.d.comb += [exponent.eq(word[FRACTION_BITS:WORD - 1]),
                         top.eq(Mux(exponent > tops[-1], exponent, tops[-1]))]
            tops.append(top)
        m.d.comb += [self.i.ready.eq(~self.o.valid), block.empty.eq(empty)]
        with m.If(self.i.valid & self.i.ready):
            for first in range(0, BLOCK, lanes):
                with m.If(place == first // lanes):
                    m.d.sync += [block.words[first + lane].eq(word) for lane, word in enumerate(words)]
                    m.d.sync += block.mask[first:first + lanes].eq(
                        flit.mask & ((1 << flit.words) - 1)[:lanes])
            m.d.sync += [block.largest.eq(tops[-1]), place.eq(place + 1), block.ends.eq(flit.ends),
                         empty.eq(empty & ~Cat(words).any())]
            with m.If(flit.ends | (place == BLOCK // lanes - 1)):
                m.d.sync += [self.o.valid.eq(1), place.eq(0)]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [self.o.valid.eq(0), block.words.eq(0), block.mask.eq(0), block.largest.eq(0), empty.eq(1)]
        return m
