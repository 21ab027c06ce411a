"""Aligns words that come in sectors with where they go, as the flits of packets.

::

    piece  --+-------------------------+
             v                         v
    sector --> rotate --+--> choice of lanes --> flit
                        v   ^
                   sector before

A piece is a run of words that begins in some lane of its first sector and goes to some lane of its first flit; one
piece or several, whose words follow each other where they go, become a packet. With s and d the two lanes, every sector
is rotated by (s - d) mod F, F = ``flit_words``, and a flit takes its lanes from two successive ones; one that a piece
leaves unfinished waits for the lanes of the next.

Throughput: a flit a cycle, and each of a packet's pieces a cycle at least, one more where s > d and the piece lies in
two sectors or more. Latency: sector to flit one cycle.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.comm.flit import payload_layout
from plinth_hw.comm.run_reader import run_layout
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.count import index_bits
from plinth_hw.lib.rotator import rotate


def aligned_piece_layout(parameters: DieParameters, tag: Any) -> data.StructLayout:
    """``origin``: lane of the first word in its sector; ``run``: where the words go; ``empty``: there are none, but a
    flit; ``tail``: the next piece's words are no more of this packet; ``tag``: what goes with it."""
    return data.StructLayout({
        "origin": unsigned(index_bits(parameters.flit_words)), "run": run_layout(parameters), "empty": unsigned(1),
        "tail": unsigned(1), "tag": tag})


def aligned_flit_layout(parameters: DieParameters, tag: Any) -> data.StructLayout:
    """A flit of a packet: ``data``, and in how many lanes (``words``); ``address`` of the packet's first word; ``tag``
    of the piece; ``tail``: it is the packet's last flit."""
    return data.StructLayout({
        "data": payload_layout(parameters),
        "words": unsigned(parameters.flit_words.bit_length()),
        "address": unsigned(parameters.address_bits), "tail": unsigned(1), "tag": tag})


class Aligner(wiring.Component):
    """Makes flits of pieces.

    Parameters
    ----------
    parameters : DieParameters
    tag : ShapeLike
        What goes with a piece.

    Members
    -------
    piece : In stream of :func:`aligned_piece_layout`
    sector : In of F words, sector_valid : In(1)
        The piece's next one.
    sector_taken : Out(1)
        It is made use of; another one may come.
    sector_first, sector_last : Out(1)
        It is the piece's first one; its last one.
    o : Out stream of :func:`aligned_flit_layout`
    """

    def __init__(self, parameters: DieParameters, tag: Any):
        self._parameters = parameters
        super().__init__({
            "piece": In(stream.Signature(aligned_piece_layout(parameters, tag))),
            "sector": In(payload_layout(parameters)), "sector_valid": In(1),
            "sector_taken": Out(1), "sector_first": Out(1), "sector_last": Out(1),
            "o": Out(stream.Signature(aligned_flit_layout(parameters, tag))),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        flit_words = self._parameters.flit_words
        lane_bits, width = exact_log2(flit_words), index_bits(flit_words)
        # Where the piece begins in a higher lane than its destination, a sector is taken before the first flit, unless
        # that is all; the last flit may need none. So its flits and the sectors that it takes differ by one at most,
        # and their parities tell which are more.
        head = self.piece.payload
        origin, destination = Signal(width, name="origin"), Signal(width, name="destination")
        flits, flits_made = Signal(len(head.run.words), name="flits"), Signal(len(head.run.words), name="flits_made")
        left = Signal.like(flits, name="left")
        odd_sectors, shift = Signal(name="odd_sectors"), Signal(width, name="shift")
        opens, fresh = Signal(init=1, name="opens"), Signal(init=1, name="fresh")
        step, primes, prime = Signal(name="step"), Signal(name="primes"), Signal(name="prime")
        last, spare, needs = Signal(name="last"), Signal(name="spare"), Signal(name="needs")
        alone, unfinished = Signal(name="alone"), Signal(name="unfinished")
        free = ~self.o.valid | self.o.ready
        begin, end = Signal(width, name="begin"), Signal(width + 1, name="end")
        word_end = Signal(width)
        m.d.comb += [
            origin.eq(head.origin[:lane_bits]), destination.eq(head.run.address[:lane_bits]),
            shift.eq((origin - destination)[:lane_bits]),
            flits.eq((destination + head.run.words + (flit_words - 1)) >> lane_bits), left.eq(flits - flits_made),
            odd_sectors.eq(((origin + head.run.words + (flit_words - 1)) >> lane_bits)[0]),
            alone.eq((flits == 1) & odd_sectors), primes.eq((origin > destination) & ~alone),
            spare.eq(flits[0] ^ primes ^ odd_sectors),
            prime.eq(~head.empty & primes & opens),
            last.eq(head.empty | (~prime & (left == 1))),
            needs.eq(~head.empty & ~(last & spare)),
            step.eq(self.piece.valid & (prime | free) & (self.sector_valid | ~needs)),
            self.sector_taken.eq(step & needs), self.sector_first.eq(opens),
            self.sector_last.eq(~prime & (left == Mux(spare, 2, 1))),
            self.piece.ready.eq(step & last),

            begin.eq(Mux(fresh, destination, 0)),
            word_end.eq((destination + head.run.words)[:lane_bits]),
            end.eq(Mux(last & (word_end != 0), word_end, flit_words)),
            unfinished.eq(last & ~head.tail & (word_end != 0)),
        ]
        with m.If(step):
            m.d.sync += [opens.eq(last), fresh.eq(last | prime)]
            with m.If(last):
                m.d.sync += flits_made.eq(0)
            with m.Elif(~prime):
                m.d.sync += flits_made.eq(flits_made + 1)
        rotated = Signal(self.sector.shape())
        before = Signal.like(rotated)
        m.d.comb += rotated.as_value().eq(Cat(*rotate(
            m, "sector", [self.sector[lane] for lane in range(flit_words)], shift, 0, lane_bits, up=False)))
        with m.If(self.sector_taken):
            m.d.sync += before.eq(rotated)

        #: A packet goes on from the piece before; a flit does.
        inside, begun = Signal(name="inside"), Signal(name="begun")
        with m.If(free):
            m.d.sync += self.o.valid.eq(step & ~prime & ~unfinished)
        with m.If(step & ~prime):
            payload = self.o.payload
            m.d.sync += [
                begun.eq(unfinished), payload.words.eq(Mux(begun, payload.words, 0) + end - begin),
                payload.tag.eq(head.tag), payload.tail.eq(last & head.tail),
            ]
            with m.If(last):
                m.d.sync += inside.eq(~head.tail)
            with m.If(~inside):
                m.d.sync += payload.address.eq(head.run.address)
            for lane in range(flit_words):
                from_before = ~alone & (shift != 0) & (shift + lane < flit_words)
                with m.If(lane >= begin):
                    m.d.sync += payload.data[lane].eq(Mux(from_before, before[lane], rotated[lane]))
        return m
