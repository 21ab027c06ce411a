"""Runs of words to strings of bits, and back: both parts of a code.

::

    flit --> Blocks --+--> BlockEncoder ----+--> BitPacker --> word          RunEncoder
                      +--> ElementEncoder --+

    word --> BitReader --+--> BlockDecoder ----+--> flit                     RunDecoder
    flit of fills -------+--> ElementDecoder --+

Throughput and latency: those of the parts.
"""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.codes.bits import COUNT, PACKED, WORD, BitPacker, BitReader
from plinth_hw.comm.codes.block import LEVEL, Blocks, run_flit_layout
from plinth_hw.comm.codes.block_decode import BlockDecoder
from plinth_hw.comm.codes.block_encode import BlockEncoder
from plinth_hw.comm.codes.element_decode import ElementDecoder
from plinth_hw.comm.codes.element_encode import ElementEncoder
from plinth_hw.isa.parameters import DieParameters

#: What a part of a code is: ``follows``, it is a next one, of masked words, from level ``known`` on; to ``exact`` words
#: or to level ``lower``; ``first``: level of the first part, which it is without ``follows``.
PART = data.StructLayout({"first": LEVEL, "known": LEVEL, "lower": LEVEL, "exact": unsigned(1), "follows": unsigned(1)})


class RunEncoder(wiring.Component):
    """Codes runs.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    part : In, :data:`PART`
        Stable while a run is under way.
    i : In stream of :func:`~plinth_hw.comm.codes.block.run_flit_layout`
    o : Out stream of :data:`~plinth_hw.comm.codes.bits.PACKED`
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({"part": In(PART), "i": In(stream.Signature(run_flit_layout(parameters))),
                          "o": Out(stream.Signature(PACKED))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.blocks = blocks = Blocks(self.parameters)
        m.submodules.planes = planes = BlockEncoder()
        m.submodules.elements = elements = ElementEncoder()
        m.submodules.packer = packer = BitPacker()
        part, follows = self.part, self.part.follows
        wiring.connect(m, wiring.flipped(self.i), blocks.i)
        wiring.connect(m, packer.o, wiring.flipped(self.o))
        m.d.comb += [
            planes.level.eq(part.first),
            *(getattr(elements, name).eq(part[name]) for name in ("first", "known", "lower", "exact")),
            planes.i.payload.eq(blocks.o.payload), planes.i.valid.eq(blocks.o.valid & ~follows),
            elements.i.payload.eq(blocks.o.payload), elements.i.valid.eq(blocks.o.valid & follows),
            blocks.o.ready.eq(Mux(follows, elements.i.ready, planes.i.ready)),
            packer.i.payload.eq(Mux(follows, elements.o.payload, planes.o.payload)),
            packer.i.valid.eq(Mux(follows, elements.o.valid, planes.o.valid)),
            planes.o.ready.eq(packer.i.ready & ~follows), elements.o.ready.eq(packer.i.ready & follows),
        ]
        return m


class RunDecoder(wiring.Component):
    """Decodes runs.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    part : In, :data:`PART`
        Stable while a run is under way.
    clear : In(1)
        Forgets the bits behind a run's last one.
    run : In stream
        Words of a run, at least 1, of a first part.
    word : In stream of words
    i : In stream of :func:`~plinth_hw.comm.codes.block.run_flit_layout`
        Fills, of a next part.
    o : Out stream of the same
        Better fills, or words.
    taken : Out
        Bits of the string that are done with in this cycle.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        flit, word = stream.Signature(run_flit_layout(parameters)), stream.Signature(unsigned(WORD))
        super().__init__({"part": In(PART), "clear": In(1), "run": In(word), "word": In(word), "i": In(flit),
                          "o": Out(flit), "taken": Out(COUNT)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.reader = reader = BitReader()
        m.submodules.blocks = blocks = BlockDecoder(self.parameters)
        m.submodules.elements = elements = ElementDecoder(self.parameters)
        part, follows = self.part, self.part.follows
        wiring.connect(m, wiring.flipped(self.word), reader.i)
        wiring.connect(m, wiring.flipped(self.run), blocks.run)
        wiring.connect(m, wiring.flipped(self.i), elements.i)
        count = Signal.like(reader.count, name="bits_there")
        m.d.comb += [
            reader.clear.eq(self.clear), blocks.level.eq(part.first),
            *(getattr(elements, name).eq(part[name]) for name in ("known", "lower", "exact")),
            count.eq(reader.count), self.taken.eq(Mux(follows, elements.bits.take, blocks.bits.take)),
            reader.take.eq(self.taken),
            blocks.bits.peek.eq(reader.peek), elements.bits.peek.eq(reader.peek),
            blocks.bits.count.eq(Mux(follows, 0, count)), elements.bits.count.eq(Mux(follows, count, 0)),
            self.o.payload.eq(Mux(follows, elements.o.payload, blocks.o.payload)),
            self.o.valid.eq(Mux(follows, elements.o.valid, blocks.o.valid)),
            blocks.o.ready.eq(self.o.ready & ~follows), elements.o.ready.eq(self.o.ready & follows),
        ]
        return m
