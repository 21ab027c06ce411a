"""Store stage of the vector engine: regions from one half of the scratchpad to memory.

::

    moves --> StridedStore -- beats wanted --> RegionWalk --> reg --> scratchpad --> pack --> FIFO --> write
          \\-> places --------------------------^

A beat a cycle, a packed beat (two groups of 16 bits) every two. The half is free once the last beat has been
read, before memory has answered.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.delay import delayed
from plinth_hw.memory.channel import StridedStore
from plinth_hw.memory.line_tracker import LineTracker
from plinth_hw.memory.port import WritePort
from plinth_hw.memory.rotators import SharedReadRotator
from plinth_hw.memory.scratchpad import VectorReadPort, give
from plinth_hw.vector.body import BodyReadPort
from plinth_hw.vector.checks import STORE_BASE
from plinth_hw.vector.moves import COUNT_BITS, MoveFetch, MoveTask, RegionWalk, scratchpad_lines
from plinth_hw.vector.units import units

#: Beats between the walk and memory; a power of two.
DEPTH = 16


class StoreStage(wiring.Component):
    """Runs the stores of one task after the other.

    Members
    -------
    i : In stream of Task
        Taken when the task before is handed on.
    o : Out stream of Task
        The same task, its words counted, after memory's last response.
    body : Out(BodyReadPort)
    port : Out(WritePort)
    half : Out(1), read : Out(VectorReadPort)
        Which half is read, and how; data come ``SharedReadRotator.latency`` cycles later.
    free : Out(1)
        Pulse: the half has been read.
    words : Out
        Words handed to memory in this cycle.
    waits : Out(1)
        Data wait for memory to take them.
    all_given : Out(1)
        Of the task at hand only responses are missing.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({
            "i": In(stream.Signature(MoveTask(parameters))), "o": Out(stream.Signature(MoveTask(parameters))),
            "body": Out(BodyReadPort()), "port": Out(WritePort(parameters)),
            "half": Out(1),
            "read": Out(VectorReadPort(parameters.beat_words, scratchpad_lines(parameters), parameters.word_bits)),
            "free": Out(1), "words": Out(parameters.beat_words.bit_length()),
            "waits": Out(1), "all_given": Out(1),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        banks = self.parameters.beat_words
        m.submodules.moves = moves = MoveFetch(self.parameters, STORE_BASE)
        m.submodules.store = store = StridedStore(self.parameters, COUNT_BITS, COUNT_BITS, fetch_depth=DEPTH)
        m.submodules.walk = walk = RegionWalk(self.parameters)
        wiring.connect(m, moves.read, wiring.flipped(self.body))
        wiring.connect(m, moves.command, store.command)
        wiring.connect(m, store.port, wiring.flipped(self.port))
        task = self.o.payload
        beat = store.fetch.payload
        # A move's place is there before its beats.
        step = store.fetch.valid
        m.d.comb += [
            moves.task.eq(task), moves.count.eq(task.summary.stores),
            walk.place.eq(moves.place.payload), walk.row.eq(beat.row), walk.column.eq(beat.column),
            walk.mask.eq(beat.mask), walk.row_last.eq(beat.row_last),
            walk.take.eq(step), store.fetch.ready.eq(walk.final),
            moves.place.ready.eq(step & walk.final & beat.last),
            self.half.eq(task.half), self.words.eq(store.words),
        ]
        m.d.comb += give(self.read, walk.command)
        finished = self._pack(m, store, data.View(_ReadStep(banks), Cat(
            step, walk.final, step & walk.final & beat.last, walk.upper, walk.place.packed, walk.inside)))

        read_left, stored_left = (Signal.like(task.summary.stores) for _ in range(2))
        with m.FSM() as stage:
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [task.eq(self.i.payload), read_left.eq(self.i.payload.summary.stores),
                             stored_left.eq(self.i.payload.summary.stores)]
                with m.If(self.i.valid):
                    m.next = "START"
            with m.State("START"):
                m.d.comb += [moves.start.eq(1), self.free.eq(task.summary.stores == 0)]
                m.next = "STORE"
            with m.State("STORE"):
                m.d.comb += self.free.eq(finished & (read_left == 1))
                m.d.sync += [read_left.eq(read_left - finished), stored_left.eq(stored_left - store.done),
                             task.words.eq(task.words + self.words)]
                with m.If(stored_left == 0):
                    m.next = "HAND_ON"
            with m.State("HAND_ON"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.next = "IDLE"
        m.d.comb += [
            self.waits.eq(store.i.valid),
            self.all_given.eq(stage.ongoing("STORE") & (read_left == 0) & ~store.i.valid),
        ]
        return m

    def _pack(self, m: Module, store: StridedStore, read_step: Any) -> Signal:
        """From scratchpad groups to beats; returns a pulse at the end of each move."""
        banks = self.parameters.beat_words
        step = delayed(m, "step", read_step, LineTracker.latency + SharedReadRotator.latency)
        group = [self.read.data[lane] for lane in range(banks)]
        bits = self.parameters.word_bits
        # Where an even lane is not inside, its word is not written.
        packed = Cat(Mux(step.inside[lane] | (lane % 2 == 0), group[lane][:bits // 2], 0) for lane in range(banks))
        # A packed beat comes in halves: there is a memory for each.
        put, taken = Signal(range(2 * DEPTH), name="put"), Signal(range(2 * DEPTH), name="taken")
        words = []
        for side, name in enumerate(("lower", "upper")):
            m.submodules[name] = memory = Memory(shape=bits * banks // 2, depth=DEPTH, init=[])
            write, read = memory.write_port(), memory.read_port(domain="comb")
            whole = Cat(group[side * banks // 2:(side + 1) * banks // 2])
            m.d.comb += [write.addr.eq(put), write.en.eq(step.valid), write.data.eq(whole), read.addr.eq(taken)]
            if units(self.parameters).packs:
                with m.If(step.packed):
                    m.d.comb += [write.en.eq(step.valid & (step.upper == side)), write.data.eq(packed)]
            words.append(read.data)
        m.d.sync += [put.eq(put + (step.valid & step.final)), taken.eq(taken + (store.i.valid & store.i.ready))]
        m.d.comb += [store.i.valid.eq(put != taken), store.i.payload.as_value().eq(Cat(words))]
        finished = Signal()
        m.d.comb += finished.eq(step.valid & step.last)
        return finished


class _ReadStep(data.StructLayout):
    """A read of the scratchpad: whether it is one, last of its beat, of its move; its half of a packed
    beat; and the lanes inside the row."""

    def __init__(self, banks: int):
        super().__init__({"valid": unsigned(1), "final": unsigned(1), "last": unsigned(1),
                          "upper": unsigned(1), "packed": unsigned(1), "inside": unsigned(banks)})
