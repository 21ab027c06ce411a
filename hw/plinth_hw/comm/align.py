"""Aligns words that come in sectors with where they go, as the flits of packets.

::

    piece --> counts --> current --+-------------------------+
                                   v                         v
    sector ----------------------> rotate --+--> choice of lanes --> flit
                                            v   ^
                                       sector before

A piece is a run of words that begins in some lane of its first sector and goes to some lane of its first flit; one
piece or several, whose words follow each other where they go, become a packet. With s and d the two lanes, every sector
is rotated by (s - d) mod F, F = ``flit_words``, and a flit takes its lanes from two successive ones; one that a piece
leaves unfinished waits for the lanes of the next. Sectors of a piece that is thrown away are taken, and give no flit.

Throughput: a flit a cycle, and each of a packet's pieces a cycle at least, one more where s > d and the piece lies in
two sectors or more. Latency: piece to its first sector, and sector to flit, one cycle.
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
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.lib.rotator import rotate


def aligned_piece_layout(parameters: DieParameters, tag: Any, note: Any = 0) -> data.StructLayout:
    """``origin``: lane of the first word in its sector; ``run``: where the words go; ``empty``: there are none, but a
    flit; ``dropped``: they are thrown away, as a packet of their own (``tail``) from lane 0 to lane 0; ``tail``: the
    next piece's words are no more of this packet; ``tag``: what goes with its flits; ``note``: what is told while it
    is the current one."""
    return data.StructLayout({
        "origin": unsigned(index_bits(parameters.flit_words)), "run": run_layout(parameters), "empty": unsigned(1),
        "dropped": unsigned(1), "tail": unsigned(1), "tag": tag, "note": note})


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
    tag, note : ShapeLike
        What goes with the flits of a piece, and what is told of it.

    Members
    -------
    piece : In stream of :func:`aligned_piece_layout`
    sector : In of F words, sector_valid : In(1)
        The current piece's next one.
    sector_taken : Out(1)
        It is made use of; another one may come.
    sector_first, sector_last : Out(1)
        It is the piece's first one; its last one.
    note : Out
        Of the current piece; anything while there is none.
    given : Out(1)
        Pulse: the last cycle of the current piece, in which ``note`` is still its own.
    o : Out stream of :func:`aligned_flit_layout`
    idle : Out(1)
        Of all pieces that were taken all flits have been.
    """

    def __init__(self, parameters: DieParameters, tag: Any, note: Any = 0):
        self._parameters = parameters
        self._piece = aligned_piece_layout(parameters, tag, note)
        super().__init__({
            "piece": In(stream.Signature(self._piece)), "note": Out(note), "given": Out(1), "idle": Out(1),
            "sector": In(payload_layout(parameters)), "sector_valid": In(1),
            "sector_taken": Out(1), "sector_first": Out(1), "sector_last": Out(1),
            "o": Out(stream.Signature(aligned_flit_layout(parameters, tag))),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        flit_words = self._parameters.flit_words
        lane_bits, width = exact_log2(flit_words), index_bits(flit_words)
        current = self._current(m)
        head, counts = current.payload.piece, current.payload.counts
        flits_made = Signal.like(counts.last_flit, name="flits_made")
        opens, fresh = Signal(init=1, name="opens"), Signal(init=1, name="fresh")
        step, prime, last = Signal(name="step"), Signal(name="prime"), Signal(name="last")
        needs, unfinished = Signal(name="needs"), Signal(name="unfinished")
        free = ~self.o.valid | self.o.ready
        begin, end = Signal(width, name="begin"), Signal(width + 1, name="end")
        m.d.comb += [
            prime.eq(counts.primes & opens), last.eq(head.empty | (~prime & (flits_made == counts.last_flit))),
            needs.eq(~head.empty & ~(last & counts.spare)),
            step.eq(current.valid & (prime | free) & (self.sector_valid | ~needs)),
            self.sector_taken.eq(step & needs), self.sector_first.eq(opens),
            self.sector_last.eq(~prime & (flits_made == counts.last_sector)),
            self.given.eq(step & last), current.ready.eq(self.given), self.note.eq(head.note),
            self.idle.eq(~current.valid & ~self.o.valid),

            begin.eq(Mux(fresh, head.run.address[:lane_bits], 0)),
            end.eq(Mux(last & (counts.word_end != 0), counts.word_end, flit_words)),
            unfinished.eq(last & ~head.tail & (counts.word_end != 0)),
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
            m, "sector", [self.sector[lane] for lane in range(flit_words)], counts.shift, 0, lane_bits, up=False)))
        with m.If(self.sector_taken):
            m.d.sync += before.eq(rotated)

        #: A packet goes on from the piece before; a flit does.
        inside, begun = Signal(name="inside"), Signal(name="begun")
        with m.If(free):
            m.d.sync += self.o.valid.eq(step & ~prime & ~unfinished & ~head.dropped)
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
                from_before = counts.from_before[lane]
                with m.If(lane >= begin):
                    m.d.sync += payload.data[lane].eq(Mux(from_before, before[lane], rotated[lane]))
        return m

    def _current(self, m: Module) -> Any:
        """The piece whose flits are made, from registers, with what follows from it: the numbers of its ``last_flit``
        and of the flit with its ``last_sector``, and by how many lanes its sectors ``shift``; whether its first sector
        ``primes``, as it gives no flit; its last flit is ``spare``, as it needs no sector; lanes of flits that come
        ``from_before``; lanes of its last flit (``word_end``), 0 if all."""
        flit_words, piece = self._parameters.flit_words, self.piece.payload
        lane_bits, width = exact_log2(flit_words), index_bits(flit_words)
        layout = data.StructLayout({
            "last_flit": piece.run.words.shape(), "last_sector": piece.run.words.shape(), "shift": unsigned(width),
            "primes": unsigned(1), "spare": unsigned(1), "from_before": unsigned(flit_words),
            "word_end": unsigned(width)})
        m.submodules.pieces = pieces = FIFO(
            data.StructLayout({"piece": self._piece, "counts": layout}), 2, Storage.HEAD)
        counts = pieces.i.payload.counts
        # Where the piece begins in a higher lane than its destination, a sector is taken before the first flit, unless
        # that is all; the last flit may need none. So its flits and the sectors that it takes differ by one at most,
        # and their parities tell which are more.
        origin, destination = Signal(width, name="origin"), Signal(width, name="destination")
        flits = Signal.like(counts.last_flit, name="flits")
        odd_sectors, alone = Signal(name="odd_sectors"), Signal(name="alone")
        m.d.comb += [
            pieces.i.valid.eq(self.piece.valid), self.piece.ready.eq(pieces.i.ready),
            pieces.i.payload.piece.eq(piece),
            origin.eq(piece.origin[:lane_bits]), destination.eq(piece.run.address[:lane_bits]),
            odd_sectors.eq(((origin + piece.run.words + (flit_words - 1)) >> lane_bits)[0]),
            flits.eq((destination + piece.run.words + (flit_words - 1)) >> lane_bits),
            alone.eq((flits == 1) & odd_sectors), counts.shift.eq((origin - destination)[:lane_bits]),
            counts.last_flit.eq(flits - 1), counts.last_sector.eq(flits - 1 - counts.spare),
            counts.primes.eq((origin > destination) & ~alone & ~piece.empty),
            counts.spare.eq(flits[0] ^ counts.primes ^ odd_sectors),
            counts.from_before.eq(Cat(~alone & (counts.shift != 0) & (counts.shift + lane < flit_words)
                                      for lane in range(flit_words))),
            counts.word_end.eq((destination + piece.run.words)[:lane_bits]),
        ]
        return pieces.o
