"""Blocks of flits that come in one order and go in another.

A block is ``down`` x ``across`` places of ``sectors`` flits each. It comes and goes in one of three orders of its three
loops; in two of them the innermost one is a line of places. One block is written while another one is read: the memory
has a half for each.

Throughput: a flit a cycle in and out. Latency: last flit of a block in to its first one out 2 cycles.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from plinth_hw.lib.count import index_bits
from plinth_hw.lib.fifo import FIFO
from plinth_hw.lib.ram import UNCHECKED

#: Blocks that are known before they come.
BLOCKS = 16


class Order(enum.Enum, shape=unsigned(2)):
    """Loops of a block, the outermost one first."""

    #: Down, across, sectors: as memory has them.
    PLACES = 0
    #: Down, sectors, across.
    ACROSS = 1
    #: Across, sectors, down.
    DOWN = 2


def sizes_layout(places: int, sectors: int) -> data.StructLayout:
    """Of a block, one less each."""
    return data.StructLayout({"down": unsigned(index_bits(places)), "across": unsigned(index_bits(places)),
                              "sectors": unsigned(index_bits(sectors))})


class BlockTurn(wiring.Component):
    """Turns blocks.

    Parameters
    ----------
    shape : ShapeLike
        A flit.
    places, sectors : int
        Of a block, at most: places each way, and flits of each.
    tag : ShapeLike
        What goes with a block.

    Members
    -------
    block : In stream of ``sizes``, ``put`` and ``get`` (:class:`Order`), ``tag``
        Of each block, in order; taken before its flits are.
    i : In stream of ``shape``
    o : Out stream of ``data``, ``tag``, ``ends_line``
    """

    def __init__(self, shape: Any, places: int, sectors: int, tag: Any):
        self.shape = shape
        self.sizes = sizes_layout(places, sectors)
        self.block_layout = data.StructLayout({"sizes": self.sizes, "put": Order, "get": Order, "tag": tag})
        super().__init__({
            "block": In(stream.Signature(self.block_layout)), "i": In(stream.Signature(shape)),
            "o": Out(stream.Signature(data.StructLayout({
                "data": shape, "tag": tag, "ends_line": unsigned(1)}))),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        depth = 2 << sum(field.width for _, field in self.sizes)
        m.submodules.kept = kept = Memory(shape=self.shape, depth=depth, init=[], attrs=UNCHECKED)
        write, read = kept.write_port(), kept.read_port()
        # The block that is coming, and those that have come, of which the first is being read.
        m.submodules.coming = coming = FIFO(self.block_layout, BLOCKS)
        m.submodules.whole = whole = FIFO(self.block_layout, 2)
        wiring.connect(m, wiring.flipped(self.block), coming.i)
        head, payload = whole.o.payload, self.o.payload
        puts, gets = Signal(name="puts"), Signal(name="gets")
        put_half, get_half = Signal(name="put_half"), Signal(name="get_half")
        put, _, put_ends = self._walk(m, "put", puts, coming.o.payload.sizes, coming.o.payload.put)
        get, line_ends, get_ends = self._walk(m, "get", gets, head.sizes, head.get)
        m.d.comb += [
            self.i.ready.eq(coming.o.valid & whole.i.ready), puts.eq(self.i.valid & self.i.ready),
            write.en.eq(puts), write.addr.eq(Cat(put, put_half)), write.data.eq(self.i.payload),
            coming.o.ready.eq(puts & put_ends), whole.i.valid.eq(puts & put_ends),
            whole.i.payload.eq(coming.o.payload),
            gets.eq(whole.o.valid & (~self.o.valid | self.o.ready)),
            read.en.eq(gets), read.addr.eq(Cat(get, get_half)), payload.data.eq(read.data),
            whole.o.ready.eq(gets & get_ends),
        ]
        m.d.sync += [put_half.eq(put_half ^ (puts & put_ends)), get_half.eq(get_half ^ (gets & get_ends))]
        with m.If(gets):
            m.d.sync += [payload.tag.eq(head.tag), payload.ends_line.eq(line_ends)]
        with m.If(gets | self.o.ready):
            m.d.sync += self.o.valid.eq(gets)
        return m

    def _walk(self, m: Module, name: str, step: Signal, sizes: Any, order: Any) -> tuple[Value, Value, Value]:
        """A flit's place in a half; it is the last one of the innermost loop, of the block."""
        place = Signal(self.sizes, name=f"{name}_place")
        ends = {loop: place[loop] == sizes[loop] for loop, _ in self.sizes}
        line_ends = Mux(order == Order.ACROSS, ends["across"], ends["down"])
        places = order == Order.PLACES
        moves = {
            "sectors": places | line_ends,
            "across": Mux(places, ends["sectors"], (order == Order.ACROSS) | (ends["down"] & ends["sectors"])),
            "down": Mux(order == Order.DOWN, 1, ends["across"] & ends["sectors"]),
        }
        for loop, moved in moves.items():
            with m.If(step & moved):
                m.d.sync += place[loop].eq(Mux(ends[loop], 0, place[loop] + 1))
        return place.as_value(), Mux(places, ends["sectors"], line_ends), Cat(*ends.values()).all()
