"""Tiles' flits of as many words as the transfer engine moves a cycle, and those of the network, which are narrower.

::

    wide flit --> choice of a part --> flit           FlitSplit
    flit --> part of a wide flit --> wide flit        FlitJoin

Both have words in the lanes where they lie in the destination, so that a flit is a part of a wide one, or of its
beginning or end. What has no words (ADVANCE) is a flit of either.

Throughput: a flit of the network a cycle. Latency: :class:`FlitSplit` none, :class:`FlitJoin` one cycle from the last
part's.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.comm.flit import PacketKind, address_fields, flit_layout
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.choice import select


def _first_lane(parameters: DieParameters, flit: Value, first: Value) -> Value:
    """Lane of a wide flit in which a flit's words begin: of a packet's first one by its address, else 0."""
    return Mux(first, address_fields(flit)[:exact_log2(parameters.transfer_words)], 0)


class FlitSplit(wiring.Component):
    """Makes flits of wide ones.

    Parameters
    ----------
    parameters : DieParameters
        With ``transfer_words``.

    Members
    -------
    i : In stream of :func:`~plinth_hw.comm.flit.flit_layout` of the die ``within``
    o : Out stream of :func:`~plinth_hw.comm.flit.flit_layout`
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({"i": In(stream.Signature(flit_layout(parameters.within))),
                          "o": Out(stream.Signature(flit_layout(parameters)))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parameters, wide, flit = self.parameters, self.i.payload, self.o.payload
        lane_bits = exact_log2(parameters.flit_words)
        parts = parameters.transfer_words // parameters.flit_words
        bits = exact_log2(parameters.transfer_words)
        begin, end = Signal(bits, name="begin"), Signal(bits, name="end")
        # The packet's first wide flit; this one's first part.
        first, opens = Signal(init=1, name="first"), Signal(init=1, name="opens")
        following, part = Signal(range(parts), name="following"), Signal(range(parts), name="part")
        last, moves = Signal(name="last"), Signal(name="moves")
        m.d.comb += [
            begin.eq(_first_lane(parameters, wide, first)), end.eq(begin + wide.words),
            part.eq(Mux(opens, begin[lane_bits:], following)),
            last.eq((part == end[lane_bits:]) | (wide.kind == PacketKind.ADVANCE)),
            self.o.valid.eq(self.i.valid), self.i.ready.eq(self.o.ready & last), moves.eq(self.o.valid & self.o.ready),
            *(flit[name].eq(wide[name]) for name, _ in flit.shape() if name not in ("data", "words", "tail")),
            flit.data.as_value().eq(select([
                Cat(wide.data[number * parameters.flit_words + lane] for lane in range(parameters.flit_words))
                for number in range(parts)], part)),
            flit.words.eq(Mux(last, end[:lane_bits], parameters.flit_words - 1) - Mux(opens, begin[:lane_bits], 0)),
            flit.tail.eq(wide.tail & last),
        ]
        with m.If(moves):
            m.d.sync += [opens.eq(last), following.eq(part + 1)]
            with m.If(last):
                m.d.sync += first.eq(wide.tail)
        return m


class FlitJoin(wiring.Component):
    """Makes wide flits of flits.

    Parameters
    ----------
    parameters : DieParameters
        With ``transfer_words``.

    Members
    -------
    i : In stream of :func:`~plinth_hw.comm.flit.flit_layout`
    o : Out stream of :func:`~plinth_hw.comm.flit.flit_layout` of the die ``within``
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({"i": In(stream.Signature(flit_layout(parameters))),
                          "o": Out(stream.Signature(flit_layout(parameters.within)))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parameters, flit, wide = self.parameters, self.i.payload, self.o.payload
        lane_bits, words = exact_log2(parameters.flit_words), parameters.flit_words
        parts = parameters.transfer_words // words
        # The packet's first flit; the wide one's first part.
        first, opens = Signal(init=1, name="first"), Signal(init=1, name="opens")
        following, part = Signal(range(parts), name="following"), Signal(range(parts), name="part")
        whole, takes = Signal(name="whole"), Signal(name="takes")
        m.d.comb += [
            part.eq(Mux(first, _first_lane(parameters, flit, first)[lane_bits:], following)),
            whole.eq(flit.tail | (part == parts - 1)), self.i.ready.eq(~self.o.valid | self.o.ready),
            takes.eq(self.i.valid & self.i.ready),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(takes):
            m.d.sync += [
                self.o.valid.eq(whole), opens.eq(whole), first.eq(flit.tail), following.eq(part + 1),
                wide.words.eq(Mux(opens, 0, wide.words + 1) + flit.words),
                *(wide[name].eq(flit[name]) for name, _ in flit.shape() if name not in ("data", "words")),
            ]
            for number in range(parts):
                with m.If(part == number):
                    m.d.sync += [wide.data[number * words + lane].eq(flit.data[lane]) for lane in range(words)]
        return m
