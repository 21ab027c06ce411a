"""The stream FIFO.

::

    i --> ring of places --> o                               Storage.LUT
    i --> ring of places --> register of the RAM --> o       Storage.BLOCK
    i --+-> ring of places -+-> register --> o               Storage.HEAD, Storage.PINS
        +-------------------+
    i --> ring of 16 --> ring of 16 --> ... --> o            Storage.SECTIONS

Throughput: one payload a cycle in and out at once, full or not. Latency: see :class:`Storage`. Neither ``i.ready``
depends on ``o.ready`` nor ``o.valid`` on ``i.valid`` in the same cycle, so FIFOs in a loop are no combinational loop.
``i.ready`` and ``o.valid`` come from registers.
"""

import enum
from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from plinth_hw.lib.count import in_ring, index_bits
from plinth_hw.lib.ram import FEW, FLIP_FLOPS, LUT_RAM, SECTION, UNCHECKED

#: Places up to which a FIFO that may be in block RAM is in look-up-table RAM, with a register behind it.
SHORT = 64


class Storage(enum.Enum):
    """What a FIFO keeps its payloads in; and so, when a payload that an empty one takes in cycle t is offered."""

    #: Look-up-table RAM, read without a clock: from t + 1 on.
    LUT = "lut"
    #: Block RAM, or a register behind look-up-table RAM if there are at most :data:`SHORT` places: from t + 2 on.
    BLOCK = "block"
    #: As ``LUT``, with the oldest payload in a register: from t + 1 on. Of two places: a register slice of a stream,
    #: with no path through it in either direction.
    HEAD = "head"
    #: As ``HEAD``, of two places, before pins: ``i.ready`` is 0 in reset and a cycle longer; ``o.payload`` is 0 in
    #: reset and changes with a new offer alone.
    PINS = "pins"
    #: Look-up-table RAMs of :data:`~plinth_hw.lib.ram.SECTION` places one behind the other: wide payloads need no
    #: choice between the parts of a large memory. From t + ``depth`` / ``SECTION`` on.
    SECTIONS = "sections"


class FIFO(wiring.Component):
    """First in, first out.

    Parameters
    ----------
    shape : ShapeLike
        Payload.
    depth : int
        Places; with ``Storage.SECTIONS`` a multiple of :data:`~plinth_hw.lib.ram.SECTION`. A power of two is cheapest;
        with ``Storage.HEAD``, one more as well.
        With ``Storage.BLOCK`` the register behind the RAM holds one payload more.
    storage : Storage

    Members
    -------
    i, o : In and Out stream of ``shape``
    empty : Out(1)
        All that was taken has been given.

    Attributes
    ----------
    latency : int
        Cycles from a payload on ``i`` to the same on ``o``, if nothing else is held.

    Raises
    ------
    ValueError
        If ``depth`` is not positive, or 1 with ``Storage.HEAD``, or other than 2 with ``Storage.PINS``, or there is no
        such number of sections.
    """

    def __init__(self, shape: Any, depth: int, storage: Storage = Storage.LUT):
        least = 2 if storage in (Storage.HEAD, Storage.PINS) else 1
        if depth < least:
            raise ValueError(f"FIFO depth must be at least {least}, not {depth!r}")
        if storage is Storage.PINS and depth > 2:
            raise ValueError(f"Depth of a FIFO before pins must be 2, not {depth!r}")
        if storage is Storage.SECTIONS and depth % SECTION:
            raise ValueError(f"Depth of a FIFO in sections must be a multiple of {SECTION}, not {depth!r}")
        self.shape = shape
        self.depth = depth
        self.storage = storage
        self.latency = {Storage.BLOCK: 2, Storage.SECTIONS: depth // SECTION}.get(storage, 1)
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)), "empty": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        if self.storage is Storage.SECTIONS:
            self._sections(m)
        else:
            self._ring(m)
        return m

    def _ring(self, m: Module) -> None:
        """Places are written and read in turn. Pointers that meet after a payload came in mean that all places hold
        one, after one went out that none does."""
        block, pins = self.storage is Storage.BLOCK, self.storage is Storage.PINS
        head = pins or self.storage is Storage.HEAD
        places = self.depth - head
        bits = index_bits(places)
        written, taken = Signal(bits, name="write_pointer"), Signal(bits, name="read_pointer")
        after_written, after_taken = in_ring(written, places), in_ring(taken, places)
        # Some place holds a payload, some does not.
        holds, room = Signal(), Signal(init=not pins)
        put, get, passes = Signal(name="put"), Signal(name="get"), Signal()
        m.d.comb += [
            self.i.ready.eq(room), put.eq(self.i.valid & self.i.ready & ~passes),
        ]
        pushed, offered = Value.cast(self.i.payload), Value.cast(self.o.payload)
        if places == 1 and not block:
            # What passes by is written as well, while the place is free.
            stored = Signal(len(pushed), name="place", reset_less=True)
            with m.If(self.i.valid & room):
                m.d.sync += stored.eq(pushed)
        else:
            attributes = (UNCHECKED | (LUT_RAM if places <= SHORT else {}) if block else
                          FLIP_FLOPS if places <= FEW else {})
            m.submodules.storage = storage = Memory(shape=self.shape, depth=places, init=[], attrs=attributes)
            write, read = storage.write_port(), storage.read_port(domain="sync" if block else "comb")
            stored = Value.cast(read.data)
            # What passes by is written as well, where the next payload comes.
            m.d.comb += [write.addr.eq(written), write.data.eq(self.i.payload),
                         write.en.eq(self.i.valid & room), read.addr.eq(taken)]
        if pins:
            m.d.sync += room.eq(~holds)
        with m.If(put & ~get):
            m.d.sync += [holds.eq(1), room.eq(after_written != taken)]
        with m.Elif(get & ~put):
            m.d.sync += [holds.eq(after_taken != written), room.eq(1)]
        with m.If(put):
            m.d.sync += written.eq(after_written)
        with m.If(get):
            m.d.sync += taken.eq(after_taken)

        if not (block or head):
            m.d.comb += [self.o.valid.eq(holds), get.eq(holds & self.o.ready), self.empty.eq(~holds),
                         offered.eq(stored)]
            return
        # A place is read after the cycle in which it is written.
        m.d.comb += [get.eq(holds & (~self.o.valid | self.o.ready)), self.empty.eq(~holds & ~self.o.valid)]
        if block:
            m.d.comb += [read.en.eq(get), offered.eq(stored)]
        else:
            first = Signal(len(offered), reset_less=not pins)
            # Room for all of two places is none held, but in reset.
            none = room if pins else ~holds
            m.d.comb += [passes.eq(self.i.valid & none & (~self.o.valid | self.o.ready)), offered.eq(first)]
            with m.If(get | passes if pins else ~self.o.valid | self.o.ready):
                m.d.sync += first.eq(Mux(holds, stored, pushed))
        with m.If(get | self.o.ready | passes):
            m.d.sync += self.o.valid.eq(get | passes)

    def _sections(self, m: Module) -> None:
        sections = [FIFO(self.shape, SECTION) for _ in range(self.depth // SECTION)]
        for number, section in enumerate(sections):
            m.submodules[f"section_{number}"] = section
        wiring.connect(m, wiring.flipped(self.i), sections[0].i)
        for before, after in pairwise(sections):
            wiring.connect(m, before.o, after.i)
        wiring.connect(m, sections[-1].o, wiring.flipped(self.o))
        m.d.comb += self.empty.eq(Cat(section.empty for section in sections).all())
