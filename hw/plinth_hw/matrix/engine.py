"""Matrix engine: GEMM and convolution tasks on the systolic array.

::

    body, start --> sequencer --+-- panels of A --> operand buffer --+
                                +-- panels of B --> operand buffer --+--> feeder --> systolic array
                                +-- panels --------------------------+                 |       ^
                                +-- tiles of C (accumulate) --> preload buffer --------|-------+
                                +-- tiles of C ---------------> output buffer <--------+

Loads, multiplication, drain and stores of consecutive panels, tiles and tasks overlap. Throughput: R C
multiply-adds a cycle while operands arrive in time; :mod:`tokens` says which tiles follow each other without
a pause, :mod:`operands` what a panel costs. Source: MPT section VI.B.
"""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from plinth_hw import emit
from plinth_hw.control.engine import EngineSignature, account
from plinth_hw.isa.operations import ErrorCode
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.matrix.feeder import SystolicFeeder
from plinth_hw.matrix.geometry import Geometry
from plinth_hw.matrix.operands import OperandBuffer
from plinth_hw.matrix.output import OutputBuffer
from plinth_hw.matrix.preload import PreloadBuffer
from plinth_hw.matrix.sequencer import SystolicSequencer
from plinth_hw.matrix.systolic import SystolicArray
from plinth_hw.matrix.tokens import TokenControl
from plinth_hw.memory.port import ReadPort, WritePort

#: Tasks between start and completion, at most: those of which tiles are in the array or the buffers.
MAXIMUM_TASKS = 255


class MatrixEngine(wiring.Component):
    """Runs matrix tasks, see :class:`~plinth_hw.isa.matrix_bodies.MatrixBody`.

    ``payload_words`` of a task are the words of C that it stored, ``busy`` are cycles in which a
    slot of any task was multiplied, ``stall_cycles`` as of :func:`~plinth_hw.control.engine.account`.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    engine : Out(EngineSignature)
    a_memory, b_memory, c_memory : Out(ReadPort)
        Operands, and C of tasks that accumulate.
    store_memory : Out(WritePort)

    Raises
    ------
    ValueError
        If the multiply format does not divide a word, the accumulate format is not a word, or no interleave shape fits.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        self.geometry = Geometry(parameters)
        super().__init__({
            "engine": Out(EngineSignature(parameters)),
            "a_memory": Out(ReadPort(parameters)),
            "b_memory": Out(ReadPort(parameters)),
            "c_memory": Out(ReadPort(parameters)),
            "store_memory": Out(WritePort(parameters)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        geometry, parameters = self.geometry, self.parameters
        m.submodules.sequencer = sequencer = SystolicSequencer(geometry)
        a_buffer = OperandBuffer(geometry, geometry.a_span, geometry.a_banks, geometry.a_half_lines, clipped=True)
        b_buffer = OperandBuffer(geometry, geometry.b_span, geometry.b_banks, geometry.b_half_lines)
        m.submodules.feeder = feeder = SystolicFeeder(geometry)
        array = SystolicArray(
            parameters.multiply_format, parameters.sum_format, parameters.rows, parameters.columns,
            parameters.interleave)
        m.submodules.tokens = tokens = TokenControl(geometry, array)
        preload = PreloadBuffer(geometry)
        output = OutputBuffer(geometry, array)
        for name, part in (("a_buffer", a_buffer), ("b_buffer", b_buffer), ("array", array), ("preload", preload),
                           ("output", output)):
            emit.part(m, platform, part, "matrix", name)

        for source, sink in ((sequencer.a_load, a_buffer.job), (sequencer.b_load, b_buffer.job),
                             (sequencer.feed, feeder.job), (sequencer.preload, preload.job),
                             (sequencer.store, output.job), (a_buffer.read, feeder.a_read),
                             (b_buffer.read, feeder.b_read)):
            wiring.connect(m, source, sink)
        for port, inner in ((self.engine.body, sequencer.body), (self.engine.start, sequencer.start),
                            (self.a_memory, a_buffer.port), (self.b_memory, b_buffer.port),
                            (self.c_memory, preload.port), (self.store_memory, output.port)):
            wiring.connect(m, wiring.flipped(port), inner)
        m.d.comb += [
            sequencer.operation.eq(self.engine.operation),
            sequencer.release.eq(feeder.release), sequencer.a_released.eq(feeder.a_released),
            sequencer.b_released.eq(feeder.b_released),
            feeder.a_steps.eq(a_buffer.steps), feeder.b_steps.eq(b_buffer.steps),
            a_buffer.hurry.eq(feeder.hurry), b_buffer.hurry.eq(feeder.hurry),

            array.slot.eq(feeder.slot), array.valid.eq(feeder.valid), array.first.eq(feeder.first),
            array.preload.eq(feeder.preload), array.last.eq(feeder.last),
            *(array.a[row].eq(feeder.a_read.data[row][:-1]) for row in range(parameters.rows)),
            *(array.b[column].eq(feeder.b_read.data[column]) for column in range(parameters.columns)),
            array.drain_start.eq(tokens.drain_start), array.load_start.eq(tokens.load_start),
            array.load_data.eq(preload.data),

            tokens.captured.eq(feeder.captured), tokens.captured_option.eq(feeder.captured_option),
            feeder.capture_ready.eq(tokens.capture_ready),
            tokens.preload_wanted.eq(feeder.preload_wanted), tokens.preload_taken.eq(feeder.preload_taken),
            feeder.preload_ready.eq(tokens.preload_ready),
            tokens.preload_full.eq(preload.full), preload.start.eq(tokens.preload_start),

            output.option.eq(tokens.option), tokens.room.eq(output.room), output.reserve.eq(tokens.reserve),
            output.valid.eq(array.drain_valid), output.data.eq(array.drain_data),
        ]
        self._report(m, sequencer, feeder, output, a_buffer.words + b_buffer.words + preload.words)
        return m

    def _report(self, m: Module, sequencer: SystolicSequencer, feeder: SystolicFeeder, output: OutputBuffer,
                loaded: object) -> None:
        """Completion and strobes."""
        done, strobes = self.engine.done, self.engine.strobes
        failed, stored = Signal(name="failed"), Signal(32, name="stored")
        _, finished, stalled = account(m, self.engine, sequencer.began, MAXIMUM_TASKS)
        m.d.comb += [
            failed.eq(output.ended.payload != ErrorCode.NONE),
            done.valid.eq(output.ended.valid & (failed | feeder.total.valid)),
            output.ended.ready.eq(finished), feeder.total.ready.eq(finished & ~failed),
            done.payload.error.eq(output.ended.payload),
            done.payload.payload_words.eq(stored),
            done.payload.useful_macs.eq(Mux(failed, 0, feeder.total.payload)),
            strobes.words.eq(output.words + loaded),  # type: ignore[operator]
            strobes.useful_macs.eq(feeder.useful_macs), strobes.issued_macs.eq(feeder.issued_macs),
            strobes.busy.eq(feeder.issued_macs != 0),
        ]
        with m.If(stalled):
            with m.If(feeder.blocked):
                m.d.comb += strobes.stall_output.eq(1)
            with m.Elif(sequencer.running | feeder.waiting):
                m.d.comb += strobes.stall_input.eq(1)
            with m.Else():
                m.d.comb += strobes.stall_memory.eq(1)
        m.d.sync += stored.eq(Mux(finished, 0, stored + output.words))
