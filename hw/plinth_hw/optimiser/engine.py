"""Optimiser: updates of weights of fixed-point dies that keep state, or more than 16 bits.

::

    engine.body --> BodyStore --fields--> BlockWalk --requests--> read.request
                        |                  |     +---blocks--+
                        v                  v                 v
                      checks            writes    read.data -> BeatUpdate (old beats, UpdatePipeline, new beats)
                                           v                 |
                                         BlockWrites <-------+ --> write

Blocks of beats overlap: one is read while the one before is updated and that before it is written. Tasks do not: one
begins when memory holds all of the one before, whose successor's body is taken meanwhile. The state of the generator of
random bits is read in front of the first block and written behind the last one, as a vector of a beat.

Latency: start to the first request 18 cycles.
Throughput: a word a cycle with beats of 8 words or more, as long as memory gives and takes what it needs, at most five
beats read and four written in the cycles of a beat's words. Formulas: :mod:`plinth_sim.golden.optimiser`.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from plinth_hw.control.engine import EngineSignature
from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.operations import ErrorCode, OptimiserOperation
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.count import population
from plinth_hw.lib.fifo import FIFO
from plinth_hw.memory.port import ReadPort, WritePort
from plinth_hw.optimiser.beats import BeatUpdate
from plinth_hw.optimiser.body import OptimiserBodyStore
from plinth_hw.optimiser.walk import WRITES, BlockWalk, write_layout
from plinth_hw.optimiser.write_back import BlockWrites
from plinth_hw.shapes import either


class OptimiserEngine(wiring.Component):
    """Runs updates, see :class:`~plinth_hw.isa.update_bodies.OptimiserBody`.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    engine : Out(EngineSignature)
        ``done.error`` is BAD_OPERATION for an unknown operation; BAD_OPERAND if there are no words, a pointer that is
        used or the offset from row to row is no whole number of beats, or Adagrad adds nothing to its state.
        ``payload_words`` counts the words read and written but for the generator's, when they are updated;
        ``stall_cycles`` the cycles of the task in which none was.
    read : Out(ReadPort), write : Out(WritePort)
    ends : Out(2)
        How many sums of states, quotients and sums of weights are beyond the ends of their format in this cycle.

    Raises
    ------
    ValueError
        If words are not fixed-point numbers.
    """

    def __init__(self, parameters: DieParameters) -> None:
        if not isinstance(parameters.memory_format, Fixed):
            raise ValueError(f"The optimiser updates fixed-point weights, not {parameters.memory_format}")
        self.parameters = parameters
        super().__init__({"engine": Out(EngineSignature(parameters)), "read": Out(ReadPort(parameters)),
                          "write": Out(WritePort(parameters)), "ends": Out(2)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        engine = self.engine
        m.submodules.body = body = OptimiserBodyStore(self.parameters)
        m.submodules.walk = walk = BlockWalk(self.parameters)
        m.submodules.update = update = BeatUpdate(self.parameters)
        m.submodules.writes = writes = BlockWrites(self.parameters)
        m.submodules.due = due = FIFO(write_layout(self.parameters), WRITES)
        wiring.connect(m, wiring.flipped(engine.body), body.body)
        wiring.connect(m, walk.block, update.block)
        wiring.connect(m, walk.write, due.i)
        wiring.connect(m, due.o, writes.i)
        number, operation = Signal.like(engine.start.payload), Signal.like(engine.operation)
        seeds = Signal()
        m.d.comb += [
            body.operation.eq(operation),
            walk.field_valid.eq(body.valid), walk.field.eq(body.field), walk.used.eq(body.used),
            walk.generator.eq(body.rule.stochastic), writes.generator.eq(update.generator),
            walk.task.eq(number), walk.free.eq(writes.free),
            walk.taken.eq(writes.i.ready), update.vector.eq(writes.vector),
            update.rule.eq(body.rule), update.end_lane.eq(walk.end_lane), update.place.eq(writes.place),
            update.read.eq(writes.read), writes.task.eq(number), writes.end_lane.eq(walk.end_lane),
            writes.updated.eq(update.updated), writes.beat.eq(update.new_beat), self.ends.eq(update.ends),
        ]
        with m.If(engine.start.valid & engine.start.ready):
            m.d.sync += [number.eq(engine.start.payload), operation.eq(engine.operation)]
        read = self.read
        known, error = Signal(name="known"), engine.done.payload.error
        wiring.connect(m, walk.request, wiring.flipped(read.request))
        wiring.connect(m, writes.port, wiring.flipped(self.write))
        m.d.comb += [
            known.eq(operation <= max(code.value for code in OptimiserOperation)),
            # Room for beats is made before they are asked for.
            read.data.ready.eq(1), update.beat_valid.eq(read.data.valid & ~seeds), update.beat.eq(read.data.payload),
            update.seeded.eq(read.data.valid & seeds),
            update.seed.eq(read.data.payload.as_value()[:len(update.seed)]),
        ]
        with m.If(walk.start):
            m.d.sync += seeds.eq(body.rule.stochastic)
        with m.Elif(read.data.valid):
            m.d.sync += seeds.eq(0)
        with m.FSM() as run:
            with m.State("START"):
                m.d.comb += engine.start.ready.eq(body.staged)
                with m.If(engine.start.valid & body.staged):
                    m.next = "LOAD"
            with m.State("LOAD"):
                m.d.comb += body.load.eq(1)
                m.next = "FIELDS"
            with m.State("FIELDS"), m.If(~body.valid):
                m.d.sync += error.eq(either(known, ErrorCode.BAD_OPERAND, ErrorCode.BAD_OPERATION))
                m.next = "REPORT"
                with m.If(known & ~body.bad):
                    m.d.sync += error.eq(ErrorCode.NONE)
                    m.d.comb += walk.start.eq(1)
                    m.next = "BLOCKS"
            with m.State("BLOCKS"), m.If(walk.done & writes.idle):
                m.next = "REPORT"
            with m.State("REPORT"):
                m.d.comb += engine.done.valid.eq(1)
                with m.If(engine.done.ready):
                    m.next = "START"
        self._count(m, body, walk, update, ~(run.ongoing("START") | run.ongoing("REPORT")))
        return m

    def _count(self, m: Module, body: OptimiserBodyStore, walk: BlockWalk, update: BeatUpdate, running: Value) -> None:
        """Strobes, and what of them a task adds up."""
        engine, strobes, done = self.engine, self.engine.strobes, self.engine.done.payload
        words, stalled = Signal(range(2 * len(body.used))), Signal()
        stall_cycles, payload_words = Signal(32), Signal(32)
        m.d.sync += words.eq(population(body.used) + population(body.used[1:]))
        m.d.comb += [
            stalled.eq(running & ~update.word), done.stall_cycles.eq(stall_cycles),
            done.payload_words.eq(payload_words),
            strobes.busy.eq(update.word), strobes.words.eq(Mux(update.word, words, 0)),
            strobes.stall_output.eq(stalled & walk.full),
            strobes.stall_memory.eq(stalled & ~walk.full & walk.done & ~update.waiting),
            strobes.stall_input.eq(stalled & ~walk.full & ~(walk.done & ~update.waiting)),
        ]
        m.d.sync += [stall_cycles.eq(stall_cycles + stalled), payload_words.eq(payload_words + strobes.words)]
        with m.If(engine.start.valid & engine.start.ready):
            m.d.sync += [stall_cycles.eq(0), payload_words.eq(0)]
