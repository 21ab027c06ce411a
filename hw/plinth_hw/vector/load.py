"""Load stage of the vector engine: regions from memory into one half of the scratchpad.

::

    moves --> StridedLoad --> beats --> reg --> unpack --> reg --> scratchpad
          \\-> places ----------------> RegionWalk ----------^

A beat a cycle, a packed beat (two groups of 16 bits) every two; requests run ahead of data, over the moves of
a task too.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.delay import delayed
from plinth_hw.memory.channel import StridedLoad
from plinth_hw.memory.line_tracker import LineTracker
from plinth_hw.memory.port import ReadPort
from plinth_hw.memory.scratchpad import VectorWritePort, give
from plinth_hw.vector.body import BodyReadPort
from plinth_hw.vector.checks import LOAD_BASE
from plinth_hw.vector.moves import COUNT_BITS, MoveFetch, MoveTask, RegionWalk, scratchpad_lines
from plinth_hw.vector.units import units


class LoadStage(wiring.Component):
    """Runs the loads of one task after the other.

    Members
    -------
    i : In stream of Task
        Taken when the task before is handed on; its half of the scratchpad is unused.
    o : Out stream of Task
        The same task, its words counted, when the scratchpad holds all it loads.
    body : Out(BodyReadPort)
    port : Out(ReadPort)
    half : Out(1), write : Out(VectorWritePort)
        Which half is written, and how.
    words : Out
        Words taken from memory in the cycle before.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({
            "i": In(stream.Signature(MoveTask(parameters))), "o": Out(stream.Signature(MoveTask(parameters))),
            "body": Out(BodyReadPort()), "port": Out(ReadPort(parameters)),
            "half": Out(1),
            "write": Out(VectorWritePort(parameters.beat_words, scratchpad_lines(parameters), parameters.word_bits)),
            "words": Out(parameters.beat_words.bit_length()),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.moves = moves = MoveFetch(self.parameters, LOAD_BASE)
        m.submodules.load = load = StridedLoad(self.parameters, COUNT_BITS, COUNT_BITS)
        m.submodules.walk = walk = RegionWalk(self.parameters)
        wiring.connect(m, moves.read, wiring.flipped(self.body))
        wiring.connect(m, moves.command, load.command)
        wiring.connect(m, load.port, wiring.flipped(self.port))
        task = self.o.payload
        beat = load.o.payload
        # A move's place is there before its beats.
        step = load.o.valid
        taken = Signal()
        finished = Signal()
        left = Signal.like(task.summary.loads)
        m.d.comb += [
            moves.task.eq(task), moves.count.eq(task.summary.loads),
            walk.place.eq(moves.place.payload), walk.row.eq(beat.row), walk.column.eq(beat.column),
            walk.mask.eq(beat.mask), walk.row_last.eq(beat.row_last),
            walk.take.eq(step), load.o.ready.eq(walk.final),
            taken.eq(step & walk.final),
            finished.eq(taken & beat.last),
            moves.place.ready.eq(finished),
            self.half.eq(task.half),
            self.write.mask.eq(delayed(m, "inside", walk.inside, LineTracker.latency)),
            *give(self.write, walk.command),
        ]
        m.d.sync += self.words.eq(Mux(taken, beat.words, 0))
        self._unpack(m, walk, beat)

        self._tasks(m, moves, left, finished)
        return m

    def _unpack(self, m: Module, walk: RegionWalk, beat: Any) -> None:
        """Words of a beat, or of half a packed one, with its command."""
        banks, bits = self.parameters.beat_words, self.parameters.word_bits
        words = Signal(banks * bits, reset_less=True)
        m.d.sync += words.eq(Cat(beat.data[lane] for lane in range(banks)))
        packed, upper_half = delayed(m, "packed", Cat(walk.place.packed, walk.upper), LineTracker.latency - 1)
        # Registers for the beat and for each half of a packed one, zero but for the one wanted: none has to be chosen.
        for lane in range(banks):
            whole = Signal(bits, name=f"whole_{lane}", reset_less=True)
            m.d.sync += whole.eq(Mux(packed, 0, words.word_select(lane, bits)))
            if not units(self.parameters).packs:
                m.d.comb += self.write.data[lane].eq(whole)
                continue
            lower, upper = (Signal(bits // 2, name=f"{name}_{lane}", reset_less=True) for name in ("lower", "upper"))
            m.d.sync += [
                lower.eq(Mux(packed & ~upper_half, words.word_select(lane, bits // 2), 0)),
                upper.eq(Mux(packed & upper_half, words.word_select(banks + lane, bits // 2), 0)),
            ]
            m.d.comb += self.write.data[lane].eq(whole | lower | upper)

    def _tasks(self, m: Module, moves: MoveFetch, left: Signal, finished: Signal) -> None:
        """Takes a task, and hands it on when all is loaded."""
        task = self.o.payload
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [task.eq(self.i.payload), left.eq(self.i.payload.summary.loads)]
                with m.If(self.i.valid):
                    m.next = "START"
            with m.State("START"):
                m.d.comb += moves.start.eq(1)
                m.next = "LOAD"
            with m.State("LOAD"):
                m.d.sync += [left.eq(left - finished), task.words.eq(task.words + self.words)]
                with m.If(left == 0):
                    m.next = "HAND_ON"
            with m.State("HAND_ON"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.next = "IDLE"
