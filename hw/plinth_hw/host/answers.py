"""From words to frames on the line: made once, kept, and sent as often as asked for.

::

    i -> bits -> check ----+
           |-> byte -> COBS -> slots of block RAM -> o (bytes)
                                      ^
    send (slot) ----------------------+

Bytes of a block go into its slot behind a place for its code, which is written when the block ends. A frame in a slot
ends with its delimiter. A word takes 33 cycles, a frame 34 more; a byte is offered four cycles after the one before was
taken.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.host.check import SerialCheck
from plinth_hw.host.requests import WORD
from plinth_hw.isa.frames import BLOCK_BYTES, DELIMITER
from plinth_hw.lib.ram import UNCHECKED


class AnswerStore(wiring.Component):
    """Answers in slots.

    Parameters
    ----------
    slots, slot_bytes : int
        Powers of two; an answer with its delimiter has room in a slot.

    Members
    -------
    slot : In(range(slots))
        Where the words of ``i`` go; holds from the first of an answer until ``done``.
    i : In(stream of :data:`~plinth_hw.host.requests.WORD`)
        Words of an answer but for its check. Not taken while its slot is being sent.
    done : Out(1)
        The answer is complete; one cycle.
    send : In(stream of range(slots))
        Send what a slot holds. Taken when the frame before has been sent.
    o : Out(stream of 8 bits)
        The line.

    Raises
    ------
    ValueError
        If a number is no power of two.
    """

    def __init__(self, slots: int, slot_bytes: int) -> None:
        self.slots, self.slot_bytes = slots, slot_bytes
        self._place_bits = exact_log2(slot_bytes)
        exact_log2(slots)
        super().__init__({"slot": In(range(slots)), "i": In(stream.Signature(WORD)), "done": Out(1),
                          "send": In(stream.Signature(range(slots))), "o": Out(stream.Signature(8))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.storage = storage = Memory(shape=8, depth=self.slots * self.slot_bytes, init=[], attrs=UNCHECKED)
        write, read = storage.write_port(), storage.read_port()
        sends, sent = Signal(), Signal.like(self.slot)
        self._write(m, write, sends & (sent == self.slot))
        self._send(m, read, sends, sent)
        return m

    def _write(self, m: Module, write: Any, kept: Value) -> None:
        """Words of ``i`` into ``slot``."""
        m.submodules.check = check = SerialCheck()
        word, byte, last, bit = Signal(32), Signal(8), Signal(), Signal(5)
        place, code_place = Signal(self._place_bits, init=1), Signal(self._place_bits)
        code = Signal(8, init=1)
        close, puts = Signal(), Signal()  # the block ends; a byte goes into it
        m.d.comb += [
            write.addr.eq(Cat(Mux(close, code_place, place), self.slot)),
            write.data.eq(Mux(close, code, byte)), write.en.eq(close | puts),
            check.bit.eq(word[0]), byte.eq(word[:8]),
        ]
        with m.If(close):
            m.d.sync += [code_place.eq(place), place.eq(place + 1), code.eq(1)]
        with m.Elif(puts):
            m.d.sync += [place.eq(place + 1), code.eq(code + 1)]
        with m.FSM():
            with m.State("WORD"):
                m.d.comb += self.i.ready.eq(~kept)
                m.d.sync += [word.eq(self.i.payload.word), last.eq(self.i.payload.last)]
                with m.If(self.i.valid & self.i.ready):
                    m.next = "BITS"
            for state in ("BITS", "CHECK"):
                with m.State(state):
                    m.d.sync += [word.eq(word >> 1), bit.eq(bit + 1)]
                    # A byte at its first bit; the end of a block that it filled at the second one.
                    with m.If(bit[:3] == 0):
                        m.d.comb += [close.eq(byte == 0), puts.eq(byte != 0)]
                    with m.If(bit[:3] == 1):
                        m.d.comb += close.eq(code == BLOCK_BYTES + 1)
                    if state == "BITS":
                        m.d.comb += check.take.eq(1)
                        with m.If(bit.all()):
                            m.next = "WORD"
                            with m.If(last):
                                m.next = "CHECK"
                    else:
                        m.d.comb += [check.give.eq(1), byte.eq(check.o)]
                        with m.If(bit.all()):
                            m.next = "CODE"
            with m.State("CODE"):
                m.d.comb += [close.eq(1), check.start.eq(1)]
                m.next = "DELIMITER"
            with m.State("DELIMITER"):
                # Its place is the one that the last block's end left for a code.
                m.d.comb += [write.addr.eq(Cat(code_place, self.slot)), byte.eq(DELIMITER), write.en.eq(1),
                             self.done.eq(1)]
                m.d.sync += [place.eq(1), code_place.eq(0), code.eq(1)]
                m.next = "WORD"

    def _send(self, m: Module, read: Any, sends: Signal, sent: Signal) -> None:
        """Slots to ``o``."""
        place, reads, gives = Signal(self._place_bits), Signal(), Signal()
        m.d.comb += [self.send.ready.eq(~sends), read.addr.eq(Cat(place, sent)), read.en.eq(1)]
        # Block RAM is slow: what it gives goes to a register, and no further.
        m.d.sync += [reads.eq(sends & ~reads & ~gives & ~self.o.valid), gives.eq(reads)]
        with m.If(~sends):
            m.d.sync += [sends.eq(self.send.valid), sent.eq(self.send.payload), place.eq(0)]
        with m.Elif(gives):
            m.d.sync += [self.o.payload.eq(read.data), self.o.valid.eq(1), place.eq(place + 1)]
        with m.Elif(self.o.valid & self.o.ready):
            m.d.sync += [self.o.valid.eq(0), sends.eq(self.o.payload != DELIMITER)]
