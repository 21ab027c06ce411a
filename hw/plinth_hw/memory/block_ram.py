# amaranth: UnusedElaboratable=no
# Slices that share a module are elaborated once.
"""On-chip block RAM behind the internal memory ports.

::

    read.request -> burst counter -> RAM (one cycle) -> reg -> FIFO -> read.data
    write.request -> burst counter -\\
    write.data ---------------------+-> reg -> RAM with an enable a word -> read-visible; response

Latency: first read beat four cycles after its request; a write's response one cycle after its last
beat. Throughput: one beat a cycle each way, requests back to back without gaps. Reads that are asked for in the cycle
of a write's response, or later, see it; a word that is read while it is written is junk, its neighbours are not.

Deep memories are cut into slices of a word that are as deep as the whole and fill block RAMs, so that nothing is chosen
among them after reading. They lie all over an FPGA: what is written, and where, comes to them from registers, what is
read is registered before it leaves; and whether it may step is in registers.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import ceil_log2

from plinth_hw import emit
from plinth_hw.arith.carry import counted_down, loaded_sum
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.count import stepped
from plinth_hw.lib.fifo import FIFO
from plinth_hw.lib.ram import UNCHECKED
from plinth_hw.memory.port import ReadPort, WritePort

#: Bits of a block RAM whose words have a power of two of them: an ECP5's or, half of it, that of a series 7.
BLOCK_BITS = 1 << 14
#: Beats that are read and not yet taken; those on the way are half as many.
_FOUND = 8


class BlockMemory(wiring.Component):
    """Memory of ``beats`` beats. Addresses count modulo its size rounded up to a power of two.

    Parameters
    ----------
    parameters : DieParameters
    beats : int
        Size.

    Members
    -------
    read : In(ReadPort)
    write : In(WritePort)

    Raises
    ------
    TypeError
        If ``beats`` is not an integer.
    ValueError
        If ``beats`` is not positive.
    """

    def __init__(self, parameters: DieParameters, beats: int):
        if not isinstance(beats, int) or isinstance(beats, bool):
            raise TypeError(f"Beats must be an integer, not {beats!r}")
        if beats < 1:
            raise ValueError(f"Beats must be positive, not {beats!r}")
        self.parameters = parameters
        self.beats = beats
        super().__init__({"read": In(ReadPort(parameters)), "write": In(WritePort(parameters))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = self.parameters.beat_bits
        word_bits = self.parameters.word_bits
        slice_bits = BLOCK_BITS >> ceil_log2(self.beats) or 1
        if slice_bits >= word_bits:
            slice_bits = width

        m.submodules.reads = reads = _Burst(self.read)
        m.submodules.writes = writes = _Burst(self.write)
        # Each RAM has a register beside it, and nothing that is late reaches all of them. A beat is read when the FIFO
        # has a place for it.
        m.submodules.queue = queue = FIFO(self.read.data.payload.shape(), _FOUND)
        read_data, near = Signal(width), Signal(width, reset_less=True)
        fetched, taken = Signal(2), Signal()
        places, room = Signal(range(_FOUND + 1), init=_FOUND), Signal(init=1)
        places_left = stepped(places, taken, reads.step)
        m.d.comb += [
            reads.step.eq(reads.busy & room), queue.i.valid.eq(fetched[1]), Cat(queue.i.payload).eq(near),
            self.write.data.ready.eq(writes.busy), writes.step.eq(writes.busy & self.write.data.valid),
        ]
        m.d.sync += [
            self.write.response.eq(writes.step & writes.last), fetched.eq(Cat(reads.step, fetched)), near.eq(read_data),
            taken.eq(queue.o.valid & queue.o.ready), places.eq(places_left), room.eq(places_left != 0),
        ]
        connect(m, queue.o, flipped(self.read.data))
        for burst, port in ((reads, self.read), (writes, self.write)):
            connect(m, flipped(port.request), burst.request)
        written = Signal(width, reset_less=True)
        strobe = Signal(self.parameters.beat_words)
        place = Signal.like(writes.address, reset_less=True)
        m.d.sync += [written.eq(Cat(self.write.data.payload.data)), place.eq(writes.address),
                     strobe.eq(Mux(writes.step, self.write.data.payload.strobe, 0))]
        for first in range(0, width, slice_bits):
            part = slice(first, first + slice_bits)
            memory = _Slice(self.beats, slice_bits, slice_bits // min(slice_bits, word_bits))
            emit.place(m, platform, memory, name=f"memory_{first}",
                       module=f"plinth_block_ram_{self.beats}x{slice_bits}")
            words = slice(first // word_bits, first // word_bits + len(memory.strobe))
            m.d.comb += [
                memory.read.eq(1), memory.read_address.eq(reads.address), read_data[part].eq(memory.read_data),
                memory.write_address.eq(place), memory.write_data.eq(written[part]), memory.strobe.eq(strobe[words]),
            ]
        return m


class _Slice(wiring.Component):
    """RAM of some bits of every beat, read a cycle later; all slices share a module, with the zeros that it begins
    with."""

    def __init__(self, beats: int, bits: int, parts: int) -> None:
        address = unsigned(ceil_log2(beats))
        self.beats, self.bits, self.parts = beats, bits, parts
        super().__init__({"read": In(1), "read_address": In(address), "read_data": Out(bits),
                          "strobe": In(parts), "write_address": In(address), "write_data": In(bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=unsigned(self.bits), depth=self.beats, init=[], attrs=UNCHECKED)
        read, write = memory.read_port(), memory.write_port(granularity=self.bits // self.parts)
        m.d.comb += [
            read.en.eq(self.read), read.addr.eq(self.read_address), self.read_data.eq(read.data),
            write.en.eq(self.strobe), write.addr.eq(self.write_address), write.data.eq(self.write_data),
        ]
        return m


class _Burst(wiring.Component):
    """Addresses of the beats of requests, back to back. What is told of a beat comes from registers.

    Members
    -------
    request : In
        Stream of requests.
    step : In(1)
        To the next beat; while ``busy`` only.
    busy, last : Out(1)
        There is a beat; it is its request's last.
    address : Out
        Its address.
    """

    def __init__(self, port: Any) -> None:
        layout = port.request.payload.shape()
        super().__init__({"request": In(stream.Signature(layout)), "step": In(1), "busy": Out(1), "last": Out(1),
                          "address": Out(layout["address"].shape)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        asked = self.request.payload
        left = Signal(signed(len(asked.beats) + 1))
        ready = self.request.ready
        m.d.comb += [ready.eq(~self.busy | (self.step & self.last)), self.last.eq(left[-1])]
        with m.If(ready):
            m.d.sync += self.busy.eq(self.request.valid)
        with m.If(ready | self.step):
            m.d.sync += [
                left.eq(counted_down(m, platform, "next_left", ready, asked.beats, left)),
                self.address.eq(loaded_sum(m, platform, "next_address", ready, asked.address, self.address,
                                           Const(1, 1))),
            ]
        return m
