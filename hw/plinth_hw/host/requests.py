"""From bytes of the line to the words of requests.

::

    byte -> COBS -> bits -> check
                     |-> word -> ring of block RAM -> o        words of checked frames only
                              written | committed | taken

A word is written when the next one begins, and so that the last of a frame, its check, is known as such. At the
delimiter a frame whose check is right is committed, and the words of any other are forgotten; so are those of a frame
with a broken byte, and of one that finds the ring full. Whatever was on the line before, a frame behind a delimiter is
read. Latency: ``o`` is valid four cycles after the delimiter, and a word in three cycles. A byte takes ten.
"""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.host.check import SerialCheck
from plinth_hw.isa.frames import BLOCK_BYTES, DELIMITER
from plinth_hw.lib.ram import UNCHECKED

#: A word of a frame, and whether it is the last.
WORD = data.StructLayout({"word": 32, "last": 1})


class RequestReader(wiring.Component):
    """Words of checked requests.

    Parameters
    ----------
    ring_words : int
        Words of requests that wait; a power of two.

    Members
    -------
    byte, valid, broken : In
        From :class:`~plinth_hw.host.uart.Receiver`.
    o : Out(stream of :data:`WORD`)
        Words of frames, the check, which is right, as the last.

    Raises
    ------
    ValueError
        If ``ring_words`` is no power of two.
    """

    def __init__(self, ring_words: int) -> None:
        self.ring_words = ring_words
        self._address_bits = exact_log2(ring_words)
        super().__init__({"byte": In(8), "valid": In(1), "broken": In(1), "o": Out(stream.Signature(WORD))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits = self._address_bits
        m.submodules.check = check = SerialCheck()
        m.submodules.ring = ring = Memory(shape=WORD, depth=self.ring_words, init=[], attrs=UNCHECKED)
        write, read = ring.write_port(), ring.read_port()
        written, committed, taken = (Signal(bits + 1, name=name) for name in ("written", "committed", "taken"))
        word, held = Signal(32), Signal()  # bytes of the word under way; it is complete, and not written
        left = Signal(8, init=1)  # bytes of the block under way and the next one's code
        zero = Signal()  # behind the block
        shift, shifts, byte_number = Signal(8), Signal(4), Signal(2)
        spoilt, put, full = Signal(), Signal(), Signal()
        last, whole = Signal(init=1), Signal()  # of the block is next; a delimiter would end a frame that is right
        starts = Signal()  # a byte of the frame goes into the word
        # Bytes are far apart: what one of them finds has been so for cycles.
        valid, broken, delimits, matches = Signal(), Signal(), Signal(), Signal()
        m.d.sync += [valid.eq(self.valid), broken.eq(self.broken), delimits.eq(self.byte == DELIMITER),
                     matches.eq(check.matches), full.eq((written ^ taken) == 1 << bits), last.eq(left == 1),
                     whole.eq(held & ~full & ~spoilt & last & matches)]
        m.d.comb += [
            write.addr.eq(written[:bits]), write.data.word.eq(word), write.en.eq(put & ~full),
            check.bit.eq(shift[0]), check.take.eq(shifts != 0),
        ]
        with m.If(shifts != 0):
            m.d.sync += [shift.eq(shift >> 1), word.eq(Cat(word[1:], shift[0])), shifts.eq(shifts - 1)]
            with m.If(shifts == 1):
                m.d.sync += [byte_number.eq(byte_number + 1), held.eq(byte_number.all())]
        with m.If(put):
            m.d.sync += held.eq(0)
            with m.If(full):
                m.d.sync += spoilt.eq(1)
            with m.Else():
                m.d.sync += written.eq(written + 1)
        with m.If(starts):
            m.d.sync += shifts.eq(8)
            m.d.comb += put.eq(held)
        with m.If(broken):
            m.d.sync += spoilt.eq(1)
        with m.If(valid):
            with m.If(delimits):
                m.d.comb += [put.eq(held), write.data.last.eq(1), check.start.eq(1)]
                m.d.sync += [left.eq(1), zero.eq(0), byte_number.eq(0), spoilt.eq(0), held.eq(0)]
                with m.If(whole):
                    m.d.sync += committed.eq(written + 1)
                with m.Else():
                    m.d.sync += written.eq(committed)
            with m.Elif(last):
                m.d.sync += [left.eq(self.byte), zero.eq(self.byte <= BLOCK_BYTES), shift.eq(0)]
                m.d.comb += starts.eq(zero)
            with m.Else():
                m.d.sync += [left.eq(left - 1), shift.eq(self.byte)]
                m.d.comb += starts.eq(1)

        # Block RAM is slow: what it gives goes to a register, and no further.
        gives = Signal()
        m.d.comb += [read.addr.eq(taken[:bits]), read.en.eq(1)]
        m.d.sync += gives.eq((taken != committed) & ~self.o.valid & ~gives)
        with m.If(gives):
            m.d.sync += [self.o.payload.eq(read.data), self.o.valid.eq(1), taken.eq(taken + 1)]
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        return m
