"""Codes of regions, MPT's own quantiser (:mod:`plinth_hw.isa.codes`): words to codes, and codes to fills.

::

    flit --> shift by exponent --> + n --> region, step --> field of some codes      RegionEncoder
    bits --> some codes --> step, region --> - n --> leading bit --> flit of fills   RegionDecoder

A quantum D is a power of two, so nothing is multiplied: of a magnitude in units of D seven bits count, and the leading
bit of these and n tells the region. Throughput: a flit a cycle, of more than :data:`CODES` words so many a cycle.
Latency: one cycle each. Source: MPT section V.A, Figure 10.
"""

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.codes.bits import FIELD, WORD
from plinth_hw.comm.codes.block import BIASED, LEVEL, run_flit_layout
from plinth_hw.comm.codes.block_decode import Bits
from plinth_hw.isa.codes import BIAS, EXPONENT_BITS, FRACTION_BITS, NAN, REGION_BITS, REGIONS
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.count import index_bits

#: Codes that are made, or read, a cycle at most: such that those of most bits fit into a field.
CODES = 4
#: Bits of which a code is made; log2 n of the codes of most bits; what says of how many bits codes are, log2 n, or 0.
_SIZE, _MOST = 7, REGION_BITS[-1] - 3
NUMBER = unsigned(_MOST.bit_length())
#: Where a word lies: ``step`` of a ``region``; ``beyond``: of all regions.
_PLACE = data.StructLayout({"step": unsigned(_MOST), "region": unsigned((REGIONS - 1).bit_length()),
                            "beyond": unsigned(1)})


def placed(m: Module, name: str, word: Value, scale: Value, number: Value) -> Signal:
    """Where a word lies, of codes of n = 2^number steps at a biased scale."""
    place, size = Signal(_PLACE, name=f"{name}_place"), Signal(_SIZE, name=f"{name}_size")
    # As if of most steps, which puts the leading bit to where it is then.
    places = Signal(_SIZE + _MOST, name=f"{name}_places")
    above, less = Signal(BIASED, name=f"{name}_above"), (_MOST - number)[:len(number)]
    distance = above.as_signed()
    m.d.comb += [
        above.eq(word[FRACTION_BITS:WORD - 1] - scale),
        size.eq(Mux(distance < 0, 0, Cat(word[FRACTION_BITS - _SIZE + 1:FRACTION_BITS], 1)
                    >> (_SIZE - 1 - above)[:index_bits(_SIZE)])),
        places.eq((size + (1 << number)) << less), place.step.eq((places >> place.region)[:_MOST] >> less),
        place.beyond.eq((distance >= _SIZE) | places[_MOST + REGIONS:].any()
                        | (place.region.all() & (place.step >= (1 << number) - 1 - word[-1]))),
    ]
    for region in range(1, REGIONS):
        with m.If(places[_MOST + region]):
            m.d.comb += place.region.eq(region)
    return place


def _bits(codes: Value, number: Value) -> Value:
    """Of so many codes: 4, 5 or 6 each."""
    return (codes << 2) + Mux(number[1], Mux(number[0], codes << 1, codes), 0)


def _together(codes: Sequence[Value], number: Value) -> Value:
    """Codes of ``number`` and 3 bits one behind the other."""
    packed: Value = Const(0)
    for bits in REGION_BITS:
        packed = Mux(number == bits - 3, Cat(code[:bits] for code in codes), packed)
    return packed


class RegionEncoder(wiring.Component):
    """Codes runs.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    scale, number : In
        log2 of D; log2 n. Stable while there is something under way.
    i : In stream of :func:`~plinth_hw.comm.codes.block.run_flit_layout`
    o : Out stream of :data:`~plinth_hw.comm.codes.bits.FIELD`
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({"scale": In(LEVEL), "number": In(NUMBER), "i": In(stream.Signature(
            run_flit_layout(parameters))), "o": Out(stream.Signature(FIELD))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes, flit, field = self.parameters.flit_words, self.i.payload, self.o.payload
        some = min(lanes, CODES)
        groups = lanes // some
        place, left = Signal(index_bits(groups), name="place"), Signal.like(flit.words, name="left")
        scale, free, last = Signal(BIASED, name="biased_scale"), Signal(name="free"), Signal(name="last")
        codes = []
        for lane in range(some):
            word = Signal(WORD, name=f"word_{lane}")
            with m.Switch(place):
                for group in range(groups):
                    with m.Case(group):
                        m.d.comb += word.eq(flit.data[group * some + lane])
            position, code = placed(m, f"word_{lane}", word, scale, self.number), Signal(REGION_BITS[-1])
            none = word[FRACTION_BITS:WORD - 1].all() & word[:FRACTION_BITS].any()
            step = Mux(position.beyond, ((1 << self.number) - 1 - word[-1])[:_MOST], position.step)
            whole = step | (Mux(position.beyond, REGIONS - 1, position.region) << self.number)
            number = whole | (word[-1] << (self.number + 2))
            m.d.comb += code.eq(Mux(lane < left, Mux(none, (2 * REGIONS << self.number) - 1, number), 0))
            codes.append(code)
        m.d.comb += [
            scale.eq(self.scale + BIAS), left.eq(flit.words - place * some), free.eq(~self.o.valid | self.o.ready),
            last.eq((left <= some) | (place == groups - 1)), self.i.ready.eq(free & last),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(self.i.valid & free):
            m.d.sync += [
                self.o.valid.eq(1), field.bits.eq(_together(codes, self.number)), field.ends.eq(flit.ends & last),
                field.count.eq(_bits(Mux(last, left, some), self.number)), place.eq(Mux(last, 0, place + 1)),
            ]
        return m


class RegionDecoder(wiring.Component):
    """Decodes runs.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    scale, number : In
        As of :class:`RegionEncoder`.
    run : In stream
        How many words it has, at least 1.
    bits : Out(Bits)
    o : Out stream of :func:`~plinth_hw.comm.codes.block.run_flit_layout`
        Without a mask.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({
            "scale": In(LEVEL), "number": In(NUMBER), "run": In(stream.Signature(unsigned(WORD))), "bits": Out(Bits()),
            "o": Out(stream.Signature(run_flit_layout(parameters)))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes, flit, bits = self.parameters.flit_words, self.o.payload, self.bits
        some = min(lanes, CODES)
        groups = lanes // some
        place, decoded, left = (Signal(shape, name=name) for shape, name in (
            (index_bits(groups), "place"), (WORD, "decoded"), (WORD, "left")))
        scale, now = Signal(BIASED, name="biased_scale"), Signal(range(some + 1), name="now")
        takes, ends, last = (Signal(name=name) for name in ("takes", "ends", "last"))
        need = Signal.like(bits.take, name="need")
        m.d.comb += [
            scale.eq(self.scale + BIAS), left.eq(self.run.payload - decoded), ends.eq(left <= some),
            last.eq(ends | (place == groups - 1)), now.eq(Mux(ends, left, some)), need.eq(_bits(now, self.number)),
            takes.eq(self.run.valid & (~self.o.valid | self.o.ready) & (bits.count >= need)),
            self.run.ready.eq(takes & ends), bits.take.eq(Mux(takes, need, 0)),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(takes):
            m.d.sync += [self.o.valid.eq(last), flit.words.eq(place * some + now), flit.ends.eq(ends),
                         place.eq(Mux(last, 0, place + 1)), decoded.eq(Mux(ends, 0, decoded + some))]
        for lane in range(some):
            code = Signal(REGION_BITS[-1], name=f"code_{lane}")
            for length in REGION_BITS:
                with m.If(self.number == length - 3):
                    m.d.comb += code.eq(bits.peek[lane * length:][:length])
            word = self._fill(m, f"fill_{lane}", code, scale)
            for group in range(groups):
                with m.If(takes & (place == group)):
                    m.d.sync += flit.data[group * some + lane].eq(word)
        return m

    def _fill(self, m: Module, name: str, code: Value, scale: Value) -> Value:
        """Of a code."""
        number = self.number
        size, leads = Signal(_SIZE, name=f"{name}_size"), Signal(range(_SIZE), name=f"{name}_leads")
        n = (1 << number)[:_MOST + 1]
        region = (code >> number)[:2]
        m.d.comb += size.eq((((code & (n - 1)[:_MOST]) + n) << region) - n)
        for place in range(_SIZE):
            with m.If(size[place]):
                m.d.comb += leads.eq(place)
        fraction = (size << (_SIZE - 1 - leads)[:index_bits(_SIZE)])[:_SIZE - 1]
        exponent = Mux(size == 0, 0, (scale + leads)[:EXPONENT_BITS])
        negative = (code >> (number + 2))[0]
        return Mux(code == (2 * REGIONS << number) - 1, NAN,
                   Cat(Const(0, FRACTION_BITS - _SIZE + 1), fraction, exponent, negative))
