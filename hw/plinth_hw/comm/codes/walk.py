"""Walks the runs of a task that codes: masks and words to be read.

::

    rows --> groups of 32 words --> piece of a mask's word, piece of the group's words

Throughput: a piece a cycle, and a row one cycle more. Latency: start to first piece 2 cycles.
"""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.codes.bits import WORD
from plinth_hw.comm.tile_read import PieceUse, tile_piece_layout
from plinth_hw.isa.parameters import DieParameters

#: Words of a group: those that a word of a mask is of.
GROUP = WORD


def side_layout(parameters: DieParameters) -> data.StructLayout:
    """Rows in memory: the ``first`` one's first word, and the ``stride`` to the next."""
    return data.StructLayout({"first": unsigned(parameters.address_bits), "stride": unsigned(WORD)})


class CodeWalk(wiring.Component):
    """Walks runs.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    start : In(1)
        Pulse: all else is there.
    rows, columns : In(32)
        Runs, and words of each.
    words, masks : In, :func:`side_layout`
    worded, masked : In(1)
        Whether words of runs are read, and of masks; one of them at least.
    piece : Out stream of :func:`~plinth_hw.comm.tile_read.tile_piece_layout`
        Each a packet of its own, from lane 0 on; ``last`` marks a run's.
    done : Out(1)
        Everything has been given.

    All inputs but ``start`` are stable from then until ``done``.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        side = In(side_layout(parameters))
        super().__init__({
            "start": In(1), "rows": In(WORD), "columns": In(WORD), "words": side, "masks": side, "worded": In(1),
            "masked": In(1), "piece": Out(stream.Signature(tile_piece_layout(parameters))), "done": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        piece = self.piece.payload
        rows, left = Signal(WORD, name="rows_left"), Signal(WORD, name="words_left")
        last, of_mask = Signal(name="last"), Signal(name="of_mask")
        bits = self.parameters.address_bits
        (row, mask_row), (at, mask_at) = ([Signal(bits, name=f"{name}_{what}") for name in ("words", "mask")]
                                          for what in ("row", "at"))
        m.d.comb += [
            last.eq(left <= GROUP), piece.tail.eq(1), piece.use.eq(Mux(of_mask, PieceUse.INDEX, PieceUse.TILE)),
            piece.source.eq(Mux(of_mask, mask_at, at)), piece.run.words.eq(Mux(of_mask, 1, Mux(last, left, GROUP))),
            piece.last.eq(last & ~of_mask), piece.run.address.eq(0), piece.more.eq(0),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.done.eq(1)
                m.d.sync += [row.eq(self.words.first), mask_row.eq(self.masks.first), rows.eq(self.rows)]
                with m.If(self.start):
                    m.next = "ROW"
            with m.State("ROW"):
                m.d.sync += [
                    at.eq(row), row.eq(row + self.words.stride), mask_at.eq(mask_row),
                    mask_row.eq(mask_row + self.masks.stride), left.eq(self.columns), rows.eq(rows - 1)]
                m.next = "WORDS"
                with m.If(self.masked):
                    m.next = "MASK"
                with m.If(rows == 0):
                    m.next = "IDLE"
            with m.State("MASK"):
                m.d.comb += [self.piece.valid.eq(1), of_mask.eq(1)]
                with m.If(self.piece.ready):
                    m.d.sync += mask_at.eq(mask_at + 1)
                    with m.If(self.worded):
                        m.next = "WORDS"
                    with m.Else():
                        m.d.sync += left.eq(left - GROUP)
                        with m.If(last):
                            m.next = "ROW"
            with m.State("WORDS"):
                m.d.comb += self.piece.valid.eq(1)
                with m.If(self.piece.ready):
                    m.d.sync += [at.eq(at + GROUP), left.eq(left - GROUP)]
                    with m.If(last):
                        m.next = "ROW"
                    with m.Elif(self.masked):
                        m.next = "MASK"
        return m
