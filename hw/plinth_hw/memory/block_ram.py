"""On-chip block RAM behind the internal memory ports.

::

    read.request -> burst counter -> RAM (one cycle) -> register -> read.data
    write.request -> burst counter -\\
    write.data ---------------------+-> RAM with an enable a word -> read-visible; response

Latency: first read beat three cycles after its request; a write's response one cycle after its last
beat. Throughput: one beat a cycle each way, requests back to back without gaps. Reads see every
write whose beat was taken in an earlier cycle.

Deep memories are cut into slices of a word that are as deep as the whole and fill block RAMs, so that nothing is chosen
among them after reading; what is read is registered before it leaves, as a block RAM takes most of a cycle.
"""

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In
from amaranth.utils import ceil_log2

from plinth_hw.isa.parameters import DieParameters
from plinth_hw.memory.port import ReadPort, WritePort

#: Bits of a block RAM whose words have a power of two of them: an ECP5's or, half of it, that of a series 7.
BLOCK_BITS = 1 << 14


class BlockMemory(wiring.Component):
    """Memory of ``beats`` beats. Addresses count modulo its size rounded up to a power of two.

    Parameters
    ----------
    parameters : DieParameters
    beats : int
        Size.
    init : iterable of int
        First contents, one integer a beat (word 0 in the low bits).

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

    def __init__(self, parameters: DieParameters, beats: int, init: tuple[int, ...] | list[int] = ()):
        if not isinstance(beats, int) or isinstance(beats, bool):
            raise TypeError(f"Beats must be an integer, not {beats!r}")
        if beats < 1:
            raise ValueError(f"Beats must be positive, not {beats!r}")
        self.parameters = parameters
        self.beats = beats
        self.init = list(init)
        super().__init__({"read": In(ReadPort(parameters)), "write": In(WritePort(parameters))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = self.parameters.beat_bits
        word_bits = self.parameters.word_bits
        address_bits = ceil_log2(self.beats)
        slice_bits = BLOCK_BITS >> address_bits or 1
        if slice_bits >= word_bits:
            slice_bits = width

        # A beat is in the RAM's output register; one is in the register behind it.
        read_step, out_step = Signal(), Signal()
        read_left = Signal(7)
        fetched, read_valid = Signal(), Signal()
        read_data, beat = Signal(width), Signal(width, reset_less=True)
        m.d.comb += [
            out_step.eq(~read_valid | self.read.data.ready),
            read_step.eq((read_left != 0) & (~fetched | out_step)),
            self.read.request.ready.eq((read_left == 0) | (read_step & (read_left == 1))),
            self.read.data.valid.eq(read_valid),
            self.read.data.payload.eq(beat),
        ]
        read_address = Signal(address_bits)
        with m.If(read_step):
            m.d.sync += [fetched.eq(1), read_left.eq(read_left - 1), read_address.eq(read_address + 1)]
        with m.Elif(out_step):
            m.d.sync += fetched.eq(0)
        with m.If(out_step):
            m.d.sync += [read_valid.eq(fetched), beat.eq(read_data)]
        with m.If(self.read.request.valid & self.read.request.ready):
            m.d.sync += [read_left.eq(self.read.request.payload.beats),
                         read_address.eq(self.read.request.payload.address)]

        write_step = Signal()
        write_left = Signal(7)
        write_address = Signal(address_bits)
        m.d.comb += [
            self.write.data.ready.eq(write_left != 0),
            write_step.eq(self.write.data.valid & self.write.data.ready),
            self.write.request.ready.eq((write_left == 0) | (write_step & (write_left == 1))),
        ]
        written, strobe = Cat(self.write.data.payload.data), self.write.data.payload.strobe
        for first in range(0, width, slice_bits):
            part = slice(first, first + slice_bits)
            init = [(whole >> first) & ((1 << slice_bits) - 1) for whole in self.init]
            m.submodules[f"memory_{first}"] = memory = Memory(shape=unsigned(slice_bits), depth=self.beats, init=init)
            read_port = memory.read_port()
            write_port = memory.write_port(granularity=min(slice_bits, word_bits))
            words = slice(first // word_bits, first // word_bits + len(write_port.en))
            m.d.comb += [
                read_port.en.eq(read_step), read_port.addr.eq(read_address), read_data[part].eq(read_port.data),
                write_port.addr.eq(write_address), write_port.data.eq(written[part]),
                write_port.en.eq(strobe[words] & write_step.replicate(len(write_port.en))),
            ]
        m.d.sync += self.write.response.eq(write_step & (write_left == 1))
        with m.If(write_step):
            m.d.sync += [write_left.eq(write_left - 1), write_address.eq(write_address + 1)]
        with m.If(self.write.request.valid & self.write.request.ready):
            m.d.sync += [write_left.eq(self.write.request.payload.beats),
                         write_address.eq(self.write.request.payload.address)]
        return m
