"""Runs of words to strings of bits, and back: both parts of the block code, and of regions, and skip code.

::

    flit --+--> Blocks --+--> BlockEncoder ----+--> BitPacker --+--> words   RunEncoder
           |             +--> ElementEncoder --+                |
           +--> RegionEncoder -----------------+                |
           +--> SkipEncoder ------------------------------------+

    words ---+--> BitReader --+--> BlockDecoder ----+--> flit                RunDecoder
             |                +--> RegionDecoder ---+
    fills ---|----------------+--> ElementDecoder --+
    masks ---+--> SkipDecoder ----------------------+

The next part of regions, words as they are, is skip code of masks that are given, and decoded with fills.
Throughput and latency: those of the parts.
"""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.codes.bits import WORD, BitPacker, BitReader
from plinth_hw.comm.codes.block import LEVEL, Blocks, run_flit_layout
from plinth_hw.comm.codes.block_decode import BlockDecoder
from plinth_hw.comm.codes.block_encode import BlockEncoder
from plinth_hw.comm.codes.element_decode import ElementDecoder
from plinth_hw.comm.codes.element_encode import ElementEncoder
from plinth_hw.comm.codes.regions import NUMBER, RegionDecoder, RegionEncoder
from plinth_hw.comm.codes.skip_code import MAP, SkipDecoder, SkipEncoder
from plinth_hw.comm.codes.string_read import Words
from plinth_hw.comm.codes.string_write import string_flit_layout
from plinth_hw.isa.parameters import DieParameters

#: What a part of a code is: ``follows``, it is a next one, of masked words, from level ``known`` on; to ``exact`` words
#: or to level ``lower``; ``first``: level of the first part, which it is without ``follows``. Or, with ``skips``, skip
#: code, of masks that are ``sent``, or ``given``, or ``maps`` alone. Or, with ``regions``, log2 n, codes of these, of
#: the scale ``first``.
PART = data.StructLayout({"first": LEVEL, "known": LEVEL, "lower": LEVEL, **dict.fromkeys(
    ("exact", "follows", "skips", "sent", "given", "maps"), unsigned(1)), "regions": NUMBER})


class RunEncoder(wiring.Component):
    """Codes runs.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    part : In, :data:`PART`
        Stable from a cycle before a run is under way.
    i : In stream of :func:`~plinth_hw.comm.codes.block.run_flit_layout`
    o : Out stream of :func:`~plinth_hw.comm.codes.string_write.string_flit_layout`
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({"part": In(PART), "i": In(stream.Signature(run_flit_layout(parameters))),
                          "o": Out(stream.Signature(string_flit_layout(parameters)))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.blocks = blocks = Blocks(self.parameters)
        m.submodules.planes = planes = BlockEncoder()
        m.submodules.elements = elements = ElementEncoder()
        m.submodules.packer = packer = BitPacker()
        m.submodules.skip = skip = SkipEncoder(self.parameters)
        m.submodules.regions = regions = RegionEncoder(self.parameters)
        part, follows, quantises = self.part, self.part.follows, Signal(name="quantises")
        whole, skips = Signal(name="whole"), Signal(name="skips")
        packed, flit = packer.o.payload, self.o.payload
        m.d.sync += [whole.eq((part.regions != 0) & follows), quantises.eq((part.regions != 0) & ~follows),
                     skips.eq(part.skips | ((part.regions != 0) & follows))]
        m.d.comb += [
            skip.sent.eq(part.sent & ~whole), skip.given.eq(part.given | whole),
            skip.maps.eq(part.maps), regions.scale.eq(part.first), regions.number.eq(part.regions),
            *(coder.i.payload.eq(self.i.payload) for coder in (blocks, regions, skip)),
            blocks.i.valid.eq(self.i.valid & ~skips & ~quantises), regions.i.valid.eq(self.i.valid & quantises),
            skip.i.valid.eq(self.i.valid & skips),
            self.i.ready.eq(Mux(skips, skip.i.ready, Mux(quantises, regions.i.ready, blocks.i.ready))),
            flit.eq(skip.o.payload), self.o.valid.eq(packer.o.valid | skip.o.valid),
            packer.o.ready.eq(self.o.ready), skip.o.ready.eq(self.o.ready),
            planes.level.eq(part.first),
            *(getattr(elements, name).eq(part[name]) for name in ("first", "known", "lower", "exact")),
            planes.i.payload.eq(blocks.o.payload), planes.i.valid.eq(blocks.o.valid & ~follows),
            elements.i.payload.eq(blocks.o.payload), elements.i.valid.eq(blocks.o.valid & follows),
            blocks.o.ready.eq(Mux(follows, elements.i.ready, planes.i.ready)),
            packer.i.payload.eq(Mux(quantises, regions.o.payload, Mux(
                follows, elements.o.payload, planes.o.payload))),
            packer.i.valid.eq(planes.o.valid | elements.o.valid | regions.o.valid),
            *(coder.o.ready.eq(packer.i.ready) for coder in (planes, elements, regions)),
        ]
        with m.If(~skips):
            m.d.comb += [flit.data[0].eq(packed.word), flit.mask.eq(packed.there), flit.last.eq(packed.last)]
        return m


class RunDecoder(wiring.Component):
    """Decodes runs.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    part : In, :data:`PART`
        Stable from a cycle before a run is under way.
    clear : In(1)
        A run's last flit has been given: forgets the bits behind it.
    run : In stream
        Words of a run, at least 1; not of a next part.
    words : Out(Words)
    mask : In stream of words
        Of skip code that was not sent with masks.
    map : Out stream of :data:`~plinth_hw.comm.codes.skip_code.MAP`
        Masks that were sent, and are given a place.
    i : In stream of :func:`~plinth_hw.comm.codes.block.run_flit_layout`
        Fills, of a next part.
    o : Out stream of the same
        Better fills, or words.
    taken : Out
        Bits of the string that are done with in this cycle; all of a run's are before its last flit is offered.
    beyond : Out(1)
        A mask that was sent has named words behind its run; until the next one begins.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        flit, word = stream.Signature(run_flit_layout(parameters)), stream.Signature(unsigned(WORD))
        super().__init__({
            "part": In(PART), "clear": In(1), "run": In(word), "words": Out(Words(parameters)), "mask": In(word),
            "map": Out(stream.Signature(MAP)), "i": In(flit), "o": Out(flit),
            "taken": Out(range(WORD * parameters.flit_words + 1)), "beyond": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.reader = reader = BitReader()
        m.submodules.blocks = blocks = BlockDecoder(self.parameters)
        m.submodules.elements = elements = ElementDecoder(self.parameters)
        m.submodules.skip = skip = SkipDecoder(self.parameters)
        m.submodules.regions = regions = RegionDecoder(self.parameters)
        part, follows, skips = self.part, self.part.follows, self.part.skips
        quantised = Signal(name="quantised")
        wiring.connect(m, wiring.flipped(self.i), elements.i)
        wiring.connect(m, wiring.flipped(self.mask), skip.mask)
        wiring.connect(m, skip.map, wiring.flipped(self.map))
        words = self.words
        # Of those that have no run each takes none.
        bits = elements.bits.take | regions.bits.take | blocks.bits.take
        m.d.sync += quantised.eq((part.regions != 0) & ~follows)
        m.d.comb += [
            skip.sent.eq(part.sent), skip.stored.eq(part.given), self.beyond.eq(skip.beyond),
            skip.words.peek.eq(words.peek), skip.words.count.eq(Mux(skips, words.count, 0)),
            reader.i.payload.eq(words.peek[0]), reader.i.valid.eq((words.count != 0) & ~skips),
            words.take.eq(Mux(skips, skip.words.take, reader.i.valid & reader.i.ready)),
            elements.whole.eq(part.regions != 0),
            regions.scale.eq(part.first), regions.number.eq(part.regions),
            *(coder.run.payload.eq(self.run.payload) for coder in (blocks, regions, skip)),
            blocks.run.valid.eq(self.run.valid & ~skips & ~quantised), skip.run.valid.eq(self.run.valid & skips),
            regions.run.valid.eq(self.run.valid & quantised),
            self.run.ready.eq(Mux(skips, skip.run.ready, Mux(quantised, regions.run.ready, blocks.run.ready))),
            reader.clear.eq(self.clear), blocks.level.eq(part.first),
            *(getattr(elements, name).eq(part[name]) for name in ("known", "lower", "exact")),
            elements.clear.eq(self.clear), reader.take.eq(bits),
            self.taken.eq(Mux(skips, skip.words.take * WORD, bits)),
            *(coder.bits.peek.eq(reader.peek) for coder in (blocks, elements, regions)),
            *(coder.bits.there.eq(reader.there) for coder in (blocks, elements, regions)),
            self.o.payload.eq(Mux(skips, skip.o.payload, Mux(follows, elements.o.payload, Mux(
                quantised, regions.o.payload, blocks.o.payload)))),
            self.o.valid.eq(skip.o.valid | elements.o.valid | regions.o.valid | blocks.o.valid),
            *(coder.o.ready.eq(self.o.ready) for coder in (skip, elements, regions, blocks)),
        ]
        return m
