# amaranth: UnusedElaboratable=no
"""Compute stage of the vector engine: the program of a task on one half of the scratchpad.

::

    InstructionFetch --> GroupWalk --> read command --> group of a, then of b --> half a group, twice
                             |  0           2                  7                       9
                             |                                        lanes, or on lane 0 the function unit
                             |                                                       9 + L
                             +--> write command, as late as its result ----------------> reg --> scratchpad

The read port gives a and b of a group in two cycles, in which W/2 lanes compute it; nothing in the pipeline
ever waits. The next instruction starts once the last result is written. For an instruction with G groups
along the lanes' direction and K elements along the other one, cycles from one instruction to the next:

    element-wise    2 G K + 10 + L
    reduction       8 ceil(G / 4) K + 10 + L     K the elements that are reduced
    function        elements + 10 + L

with the latency L of the :mod:`~plinth_hw.vector.units`. The next instruction is read meanwhile.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw import emit
from plinth_hw.control.engine import ends_signature
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.vector_body import VectorOp, VectorRegion
from plinth_hw.lib.choice import one_of, one_registered
from plinth_hw.memory.scratchpad import VectorWritePort, vector_command
from plinth_hw.shapes import shape_of
from plinth_hw.vector.body import BodyReadPort
from plinth_hw.vector.checks import TWO_SOURCES
from plinth_hw.vector.groups import BATCH, GroupWalk, Operand, broadcast, operand
from plinth_hw.vector.instructions import Decoded, InstructionFetch
from plinth_hw.vector.lane import LOOP_CYCLES, LaneDecoder
from plinth_hw.vector.moves import MoveTask, scratchpad_lines
from plinth_hw.vector.pairs import PairReader
from plinth_hw.vector.units import units

#: Cycles from a step of the walk to the lanes: two of commands, then the operands'.
_LANES = 2 + PairReader.latency
#: Cycles, beside the latency, for which the instruction holds after its last step: until the last result is
#: on its way to the scratchpad, where the first read of the next instruction comes later.
_DRAIN = _LANES - 1


class ComputeStage(wiring.Component):
    """Runs the programs of tasks, one after the other.

    Members
    -------
    i : In stream of Task
        Taken when the task before is handed on.
    o : Out stream of Task
        The same task when the scratchpad holds its results.
    body : Out(BodyReadPort)
    half : Out(1), write : Out(VectorWritePort)
        Which half is used, and how.
    read : Out of :func:`~plinth_hw.memory.scratchpad.vector_command`
    data_0, data_1 : In
        Of each bank of both halves, two cycles after the command.
    busy : Out(1)
        A program runs.
    ends : Out
        With fixed-point lanes only: results that were beyond the format, a cycle after they came.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        self.units = units(parameters)
        self._longest = max(self.units.latencies.values())
        banks, lines, width = parameters.beat_words, scratchpad_lines(parameters), parameters.word_bits
        super().__init__({
            "i": In(stream.Signature(MoveTask(parameters))), "o": Out(stream.Signature(MoveTask(parameters))),
            "body": Out(BodyReadPort()), "half": Out(1),
            "read": Out(wiring.Signature(vector_command(banks, lines))),
            **{f"data_{half}": In(data.ArrayLayout(unsigned(width), banks)) for half in range(2)},
            "write": Out(VectorWritePort(banks, lines, width, words=banks // 2)),
            "busy": Out(1),
            **ends_signature(parameters, parameters.beat_words // 2),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        banks, lines = self.parameters.beat_words, scratchpad_lines(self.parameters)
        assert LOOP_CYCLES == 2 * BATCH
        m.submodules.fetch = fetch = InstructionFetch()
        m.submodules.walk = walk = GroupWalk(banks, lines)
        m.submodules.reader = reader = PairReader(banks, lines, self.parameters.word_bits)
        wiring.connect(m, fetch.body, wiring.flipped(self.body))
        m.d.comb += [reader.data_0.eq(self.data_0), reader.data_1.eq(self.data_1), reader.half.eq(self.half)]
        m.d.comb += [getattr(self.read, name).eq(getattr(reader.command, name)) for name in self.read.signature.members]
        task = self.o.payload
        summary = task.summary
        instruction = Signal(Decoded)
        left = Signal.like(summary.instructions)
        is_function = Signal()
        result_latency = Signal(range(self._longest + 1))
        drain = Signal(range(_DRAIN + self._longest + 1))
        m.d.comb += [
            fetch.place.eq(task.body), fetch.count.eq(summary.instructions), self.half.eq(task.half),
            walk.instruction.eq(fetch.o.payload), walk.rows.eq(summary.rows), walk.columns.eq(summary.columns),
            is_function.eq(instruction.op == VectorOp.FUNCTION),
        ]
        with m.Switch(instruction.op):
            for op, cycles in self.units.latencies.items():
                with m.Case(op):
                    m.d.sync += result_latency.eq(cycles)

        with m.FSM() as stage:
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [task.eq(self.i.payload), left.eq(self.i.payload.summary.instructions)]
                with m.If(self.i.valid):
                    m.next = "START"
            with m.State("START"):
                m.d.comb += fetch.start.eq(1)
                m.next = "INSTRUCTION"
            with m.State("INSTRUCTION"):
                with m.If(left == 0):
                    m.next = "HAND_ON"
                with m.Else():
                    m.d.comb += [fetch.o.ready.eq(1), walk.load.eq(1)]
                    m.d.sync += instruction.eq(fetch.o.payload)
                    with m.If(fetch.o.valid):
                        m.d.sync += left.eq(left - 1)
                        m.next = "SHAPE"
            with m.State("SHAPE"):
                m.next = "GROUPS"
            with m.State("GROUPS"):
                m.d.comb += walk.run.eq(1)
                m.d.sync += drain.eq(_DRAIN + result_latency)
                with m.If(walk.done):
                    m.next = "DRAIN"
            with m.State("DRAIN"):
                m.d.sync += drain.eq(drain - 1)
                with m.If(drain == 1):
                    m.next = "INSTRUCTION"
            with m.State("HAND_ON"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.next = "IDLE"
        m.d.comb += self.busy.eq(~stage.ongoing("IDLE") & ~stage.ongoing("HAND_ON"))

        steps = self._commands(m, platform, walk, reader.command, instruction)
        results, beyond = self._lanes(m, platform, instruction, is_function, reader, steps[_LANES - 1], walk.reduces)
        self._write(m, walk, instruction.op, is_function, result_latency, steps, results, beyond)
        return m

    def _commands(self, m: Module, platform: Any, walk: GroupWalk, read: Any, instruction: Any) -> dict[int, Any]:
        """Read commands; returns the steps under way, by cycles since the walk gave them."""
        banks, lines = self.parameters.beat_words, scratchpad_lines(self.parameters)
        position = walk.o
        region = Signal(shape_of(VectorRegion))
        m.d.comb += region.eq(Mux(position.upper, instruction.b.as_value(), instruction.a.as_value()))
        source, target = (operand(m, platform, name, Operand(banks, lines), operand_region, position, walk.along_rows)
                          for name, operand_region in (("source", region), ("target", instruction.dst)))
        valid, second, broadcasts = (Signal(name=name) for name in ("valid", "second", "broadcasts"))
        m.d.sync += [
            valid.eq(position.valid), second.eq(position.upper), broadcasts.eq(broadcast(region, walk.along_rows)),
            read.enable.eq(valid), read.line.eq(source.line), read.skew.eq(source.skew),
            read.along_rows.eq(source.along_rows), read.broadcast.eq(broadcasts), read.second.eq(second),
        ]
        m.d.comb += [read.capacity.eq(0), read.column_low.eq(0)]
        steps = {cycle: Signal(_Step(banks, lines), name=f"step_{cycle}")
                 for cycle in range(1, _LANES + self._longest)}
        m.d.sync += [
            steps[1].valid.eq(position.valid), steps[1].upper.eq(position.upper), steps[1].first.eq(position.first),
            steps[1].last.eq(position.last | ~walk.reduces), steps[1].tail.eq(position.tail),
        ]
        for cycle in range(2, _LANES + self._longest):
            m.d.sync += steps[cycle].eq(steps[cycle - 1])
        m.d.sync += steps[2].target.eq(target)
        return steps

    def _lanes(self, m: Module, platform: Any, instruction: Any, is_function: Any, reader: PairReader, before: Any,
               reduces: Any) -> tuple[list[Any], list[Any]]:
        """Results, of the half group given a latency before, and of fixed-point lanes whether they are beyond the
        format; ``before``: the step a cycle before its lanes."""
        results, beyond = [], []
        immediates = self.units.immediates(instruction.immediate)
        immediate = one_registered(m, "immediate", [Cat(instruction.op == op for op in ops).any()
                                                    for ops in immediates], immediates.values())
        m.d.sync += reader.no_b.eq(~Cat(instruction.op == op for op in TWO_SOURCES).any())
        m.submodules.function = function = self.units.function()
        m.submodules.decoder = decoder = LaneDecoder()
        m.d.comb += [function.function.eq(instruction.function), decoder.op.eq(instruction.op),
                     decoder.again.eq(reduces & ~before.first)]
        for number in range(self.parameters.beat_words // 2):
            lane = self.units.lane()
            emit.place(m, platform, lane, name=f"lane_{number}", module=lane.module_name)
            m.d.comb += [lane.control.eq(decoder.o), lane.a.eq(reader.a[number]), lane.b.eq(reader.b[number]),
                         lane.immediate.eq(immediate)]
            if number == 0:
                m.d.comb += [function.i.eq(lane.chosen), function.wanted.eq(is_function)]
                results.append(lane.o | function.o)
            else:
                results.append(lane.o)
            if not self.units.packs:
                beyond.append(lane.beyond)
        return results, beyond

    def _write(self, m: Module, walk: GroupWalk, op: Any, is_function: Any, result_latency: Any,
               steps: dict[int, Any], results: list[Any], beyond: list[Any]) -> None:
        banks, lines = self.parameters.beat_words, scratchpad_lines(self.parameters)
        half = banks // 2
        step, valid = Signal(_Step(banks, lines)), Signal(name="result_valid")
        latencies = sorted(set(self.units.latencies.values()))
        now = [result_latency == cycles for cycles in latencies]
        before = [steps[_LANES + cycles - 1] for cycles in latencies]
        m.d.comb += step.eq(one_registered(m, "result_step", now, before))
        m.d.sync += valid.eq(one_of(now, [earlier.valid for earlier in before]))
        for cycles in latencies[:-1]:
            # Done with: the next instruction may take its results later.
            with m.If(result_latency == cycles):
                m.d.sync += steps[_LANES + cycles].valid.eq(0)
        write = self.write
        m.d.sync += [
            write.enable.eq(valid & step.last), write.line.eq(step.target.line),
            write.skew.eq(step.target.skew), write.along_rows.eq(step.target.along_rows),
        ]
        m.d.comb += [write.capacity.eq(0), write.column_low.eq(0)]
        inside = [(~step.tail | (lane <= walk.last_lane)) & (step.upper if lane >= half else ~step.upper)
                  for lane in range(banks)]
        for lane in range(banks):
            m.d.sync += write.mask[lane].eq(Mux(is_function, lane == 0, inside[lane]))
        m.d.sync += Cat(write.data[lane] for lane in range(half)).eq(Cat(results))
        if beyond:
            m.d.sync += self.ends.eq(Mux(valid, sum(
                over & (inside[lane] | inside[lane + half]) for lane, over in enumerate(beyond)), 0))


class _Step(data.StructLayout):
    """A step of the walk on its way to its result."""

    def __init__(self, banks: int, lines: int):
        super().__init__({"valid": unsigned(1), "upper": unsigned(1), "first": unsigned(1),
                          "last": unsigned(1), "tail": unsigned(1), "target": Operand(banks, lines)})
