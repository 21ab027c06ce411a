"""Codes of regions, MPT's own quantiser (:mod:`plinth_hw.isa.codes`): words to codes, and codes to fills.

::

    flit --> exponent --> shift --> + n --> region, step --> field of some codes    RegionEncoder
    bits --> some codes --> step, region, - n --> leading bit --> flit of fills     RegionDecoder

A quantum D is a power of two, so nothing is multiplied: of a magnitude in units of D seven bits count, and the leading
bit of these and n tells the region. Throughput: a flit a cycle, of more than :data:`CODES` words so many a cycle.
Latency: five cycles encoding, four decoding, and there one more of a run's first field. Source: MPT section V.A, Figure
10.
"""

from collections.abc import Sequence
from itertools import pairwise

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.codes.bits import FIELD, WORD
from plinth_hw.comm.codes.block import BIASED, LEVEL, run_flit_layout
from plinth_hw.comm.codes.block_decode import Bits
from plinth_hw.isa.codes import BIAS, EXPONENT_BITS, FRACTION_BITS, NAN, REGION_BITS, REGIONS
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.choice import leading, select
from plinth_hw.lib.count import index_bits

#: Codes that are made, or read, a cycle at most: such that those of most bits fit into a field.
CODES = 4
#: Bits of a magnitude in units of D; log2 n of the codes of most bits; what says of how many bits codes are, log2 n,
#: or 0.
SIZE, _MOST = 7, REGION_BITS[-1] - 3
NUMBER = unsigned(_MOST.bit_length())
#: Where a word lies: ``step`` of a ``region``; ``beyond``: of all regions.
_PLACE = data.StructLayout({"step": unsigned(_MOST), "region": unsigned((REGIONS - 1).bit_length()),
                            "beyond": unsigned(1)})


def sized(word: Value, above: Value) -> Value:
    """Magnitude of a word in units of D, whose exponent is so far ``above`` the scale's, if it is not :func:`beyond`.
    """
    return Mux(above.as_signed() < 0, 0, (Cat(word[FRACTION_BITS - SIZE + 1:FRACTION_BITS], 1)
                                          >> (SIZE - 1 - above)[:index_bits(SIZE)])[:SIZE])


def beyond(above: Value) -> Value:
    """A word's magnitude has more than :data:`SIZE` bits."""
    return above.as_signed() >= SIZE


def scaled(size: Value, number: Value) -> Value:
    """A magnitude and n, as if of most steps, which puts the leading bit to where it is then."""
    return ((size + (1 << number)) << _less(number))[:SIZE + _MOST]


def _less(number: Value) -> Value:
    return (_MOST - number)[:len(number)]


def located(m: Module, name: str, places: Value, negative: Value, far: Value, number: Value) -> Signal:
    """Where a word lies by what :func:`scaled` says, if it is not too ``far`` from the scale for that."""
    place = Signal(_PLACE, name=f"{name}_place")
    m.d.comb += [
        place.step.eq((places >> place.region)[:_MOST] >> _less(number)),
        place.region.eq(leading(places[_MOST:_MOST + REGIONS])[1]),
        place.beyond.eq(far | places[_MOST + REGIONS:].any()
                        | (place.region.all() & (place.step >= (1 << number) - 1 - negative))),
    ]
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


#: What goes with a word from step to step: its sign; it is NaN; it is there.
_OTHERS = {"negative": 1, "none": 1, "there": 1}


class RegionEncoder(wiring.Component):
    """Codes runs.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    scale, number : In
        log2 of D; log2 n. Stable from a cycle before there is something under way.
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
        scale, steps, last = Signal(BIASED, name="biased_scale"), Signal(name="steps"), Signal(name="last")
        number = Signal.like(self.number, name="steps_log2")
        # Some words, how many they are, and whether they are the run's last ones, in each step.
        group = data.StructLayout({"count": range(some + 1), "ends": 1})
        names = ("chosen", "shifted", "summed", "found")
        groups_, valids = [Signal(group, name=f"{name}_group", reset_less=True) for name in names], [
            Signal(name=f"{name}_valid") for name in names]
        m.d.sync += [scale.eq(self.scale + BIAS), number.eq(self.number)]
        m.d.comb += [
            left.eq(flit.words - place * some), steps.eq(~self.o.valid | self.o.ready),
            last.eq((left <= some) | (place == groups - 1)), self.i.ready.eq(steps & last),
        ]
        codes = [self._code(m, lane, select(list(flit.data)[lane::some], place), lane < left, (scale, number), steps)
                 for lane in range(some)]
        with m.If(steps):
            m.d.sync += [
                groups_[0].count.eq(Mux(last, left, some)), groups_[0].ends.eq(flit.ends & last),
                valids[0].eq(self.i.valid), *(after.eq(before) for before, after in pairwise(groups_)),
                *(after.eq(before) for before, after in pairwise([*valids, self.o.valid])),
                field.bits.eq(_together(codes, number)), field.ends.eq(groups_[-1].ends),
                field.count.eq(_bits(groups_[-1].count, number))]
            with m.If(self.i.valid):
                m.d.sync += place.eq(Mux(last, 0, place + 1))
        return m

    def _code(self, m: Module, lane: int, word: Value, there: Value, levels: tuple[Signal, Signal], steps: Signal
              ) -> Signal:
        """The code of a word, if it is ``there``, else 0; of a biased scale and log2 n. In four steps: how far it is
        above the scale; its size; that with n; where it lies."""
        scale, number = levels
        chosen, shifted, summed, found = (Signal(data.StructLayout(layout), name=f"{name}_{lane}", reset_less=True)
                                          for name, layout in (
            ("chosen", {"word": WORD, "above": BIASED, "there": 1}),
            ("shifted", {"size": SIZE, "far": 1, **_OTHERS}),
            ("summed", {"places": SIZE + _MOST, "far": 1, **_OTHERS}), ("found", {"place": _PLACE, **_OTHERS})))
        own, negative = chosen.word[FRACTION_BITS:WORD - 1], found.negative
        place = located(m, f"word_{lane}", summed.places, summed.negative, summed.far, number)
        with m.If(steps):
            m.d.sync += [
                chosen.word.eq(word), chosen.above.eq(word[FRACTION_BITS:WORD - 1] - scale), chosen.there.eq(there),
                shifted.size.eq(sized(chosen.word, chosen.above)), shifted.far.eq(beyond(chosen.above)),
                shifted.negative.eq(chosen.word[-1]), shifted.there.eq(chosen.there),
                shifted.none.eq(own.all() & chosen.word[:FRACTION_BITS].any()),
                summed.places.eq(scaled(shifted.size, number)), summed.far.eq(shifted.far),
                found.place.eq(place),
                *(after[name].eq(before[name]) for before, after in pairwise((shifted, summed, found))
                  for name in _OTHERS)]
        position, code = found.place, Signal(REGION_BITS[-1], name=f"code_{lane}")
        step = Mux(position.beyond, ((1 << number) - 1 - negative)[:_MOST], position.step)
        whole = step | (Mux(position.beyond, REGIONS - 1, position.region) << number)
        m.d.comb += code.eq(Mux(found.there, Mux(found.none, (2 * REGIONS << number) - 1, whole | (
            negative << (number + 2))), 0))
        return code


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
        place, left = Signal(index_bits(groups), name="place"), Signal(WORD, name="left")
        scale, number = Signal(BIASED, name="biased_scale"), Signal.like(self.number, name="steps_log2")
        # A run is under way; its next codes, how many bits these are, and whether they are its last ones.
        inside, now = Signal(name="inside"), Signal(range(some + 1), name="now")
        need, ends = Signal.like(bits.take, name="need"), Signal(name="ends")
        follow, rest = Signal.like(now, name="follow"), Signal(WORD, name="rest")
        takes, last, steps, closes = (Signal(name=name) for name in ("takes", "last", "steps", "closes"))
        m.d.sync += [scale.eq(self.scale + BIAS), number.eq(self.number)]
        m.d.comb += [
            last.eq(ends | (place == groups - 1)), steps.eq(~self.o.valid | self.o.ready),
            takes.eq(inside & bits.there & steps), self.run.ready.eq(takes & ends), bits.take.eq(Mux(takes, need, 0)),
            rest.eq(Mux(inside, left - some, self.run.payload)),
            closes.eq(Mux(inside, left <= 2 * some, self.run.payload <= some)), follow.eq(Mux(closes, rest, some)),
        ]
        with m.If(takes | ~inside):
            m.d.sync += [inside.eq(Mux(inside, ~ends, self.run.valid)), left.eq(rest), ends.eq(closes),
                         now.eq(follow), need.eq(_bits(follow, number))]
        # What has been taken of a flit, and what that will be; the flit is whole, the run's last one.
        step = data.StructLayout({"words": flit.words.shape(), "ends": 1, "place": place.shape(), "whole": 1})
        names = ("taken", "scaled", "led")
        notes = [Signal(step, name=f"{name}_note", reset_less=True) for name in names]
        valids = [Signal(name=f"{name}_valid") for name in names]
        words = [self._fill(m, lane, bits.peek, (scale, number), steps) for lane in range(some)]
        with m.If(takes):
            m.d.sync += place.eq(Mux(last, 0, place + 1))
        with m.If(steps):
            m.d.sync += [
                notes[0].words.eq(place * some + now), notes[0].ends.eq(ends), notes[0].place.eq(place),
                notes[0].whole.eq(last), *(after.eq(before) for before, after in pairwise(notes)),
                valids[0].eq(takes), *(after.eq(before) for before, after in pairwise(valids)),
                self.o.valid.eq(valids[-1] & notes[-1].whole), flit.words.eq(notes[-1].words),
                flit.ends.eq(notes[-1].ends)]
            for group in range(groups):
                with m.If(notes[-1].place == group):
                    m.d.sync += [flit.data[group * some + lane].eq(word) for lane, word in enumerate(words)]
        return m

    def _fill(self, m: Module, lane: int, peek: Value, levels: tuple[Signal, Signal], steps: Signal) -> Value:
        """The fill of a lane's code, in three steps: the code; its size; the leading bit of that."""
        scale, number = levels
        name, code = f"fill_{lane}", Signal(REGION_BITS[-1], name=f"code_{lane}", reset_less=True)
        kinds = {"negative": 1, "none": 1}
        sized_, led = (Signal(data.StructLayout({**layout, **kinds}), name=f"{name}_{step}", reset_less=True)
                       for step, layout in (("sized", {"size": SIZE}), (
                           "led", {"size": SIZE, "leads": range(SIZE), "zero": 1})))
        n = (1 << number)[:_MOST + 1]
        region, (any_, leads) = (code >> number)[:2], leading(sized_.size)
        with m.If(steps):
            for length in REGION_BITS:
                with m.If(number == length - 3):
                    m.d.sync += code.eq(peek[lane * length:][:length])
            m.d.sync += [
                sized_.size.eq((((code & (n - 1)[:_MOST]) + n) << region) - n),
                sized_.negative.eq(code >> (number + 2)),
                sized_.none.eq(code == (2 * REGIONS << number) - 1), led.leads.eq(leads), led.size.eq(sized_.size),
                led.zero.eq(~any_), *(led[kind].eq(sized_[kind]) for kind in kinds)]
        fraction = (led.size << (SIZE - 1 - led.leads)[:index_bits(SIZE)])[:SIZE - 1]
        exponent = Mux(led.zero, 0, (scale + led.leads)[:EXPONENT_BITS])
        return Mux(led.none, NAN, Cat(Const(0, FRACTION_BITS - SIZE + 1), fraction, exponent, led.negative))
