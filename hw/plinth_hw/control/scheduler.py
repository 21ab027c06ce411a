"""Task scheduler: fetches a task graph and runs it on the engines.

::

    fetch_memory --> fetch --> dispatch --+-- header -----> sequencer --> start, operation
                                          +-- addresses --> queues -----> body        of each engine
    advance_in --> update counters <-- poll, advance --> sequencer <-- done
    record_memory <-- record writer <-- words ---------- sequencer --> FIFO --> advance_out

Every descriptor goes through in 65 cycles or a memory latency, whichever is longer. An engine has up to
``queue_depth`` bodies waiting here and ``RING_TASKS`` tasks between fetch and completion. See :mod:`sequencer`
for the latencies of starts and completions; a start reaches its engine a cycle later, and is known to be taken, and has
its time, a cycle after it was. Source: MPT section VI.A.
"""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from plinth_hw.control.bases import BodyAddresses
from plinth_hw.control.dispatch import Dispatch, engine_order
from plinth_hw.control.engine import EngineSignature
from plinth_hw.control.errors import Cause
from plinth_hw.control.fetch import DescriptorFetch
from plinth_hw.control.queues import BodyQueues
from plinth_hw.control.record import RecordWriter
from plinth_hw.control.sequencer import RemoteAdvance, TaskSequencer
from plinth_hw.control.task_ring import EngineStatus
from plinth_hw.control.update_counters import UpdateCounters
from plinth_hw.isa.limits import reset_value
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.registers import BASE_COUNT, Register
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.memory.port import TASK_BITS, ReadPort, WritePort

#: Bodies that wait for their engine, for each engine.
QUEUE_DEPTH = 4
#: Remote advances that may wait for the network.
REMOTE_QUEUE = 4


class Scheduler(wiring.Component):
    """Runs task graphs on the engines of a die.

    Parameters
    ----------
    parameters : DieParameters
    queue_depth : int
        Bodies that wait for their engine, for each engine; a power of two.

    Members
    -------
    start, base : In
        Pulse while not ``running``: run the graph whose first descriptor is at word address ``base``.
    halted : In(1)
        Level: fetch and start nothing more; tasks under way complete.
    running : Out(1)
        From ``start`` until every task has completed and every record is in memory.
    finished : Out(1)
        Pulse in the last cycle of ``running``.
    dies : In
        Dies of the array.
    cycle : In(32)
        Time for records.
    base_number : Out, base_address : In
        A base register, and what it holds, in the same cycle.
    record_base, record_count, record_write, record_data : In, Out, In, In
        See :class:`RecordWriter` (``base``, ``count``, ``count_write``, ``count_data``).
    engine_0 ... : In(EngineSignature)
        Engines in the order of :func:`engine_order`.
    status_0 ... : Out(EngineStatus)
        State of each engine.
    completed : Out(engines)
        Pulse for each completed task.
    progress : Out(1)
        A task was fetched, started or completed, a cycle ago.
    fetch_memory : Out(ReadPort)
    record_memory : Out(WritePort)
    advance_out : Out(stream of RemoteAdvance)
    advance_in : In(stream of counter number)
    host_... : as in :class:`UpdateCounters`
    inspect_... : as in :class:`TaskSequencer`
    fetch_cause, task_cause : Out(Cause)
        A bad descriptor; a task that its engine rejected.
    fetch_address : Out
        Descriptor that was requested last.
    asked_number : In, fetched, recorded : Out
        Of a request of ``fetch_memory`` or of ``record_memory`` with this ``task``: address of the descriptor, or of
        the task whose record it is.
    """

    def __init__(self, parameters: DieParameters, queue_depth: int = QUEUE_DEPTH) -> None:
        self.parameters = parameters
        self.queue_depth = queue_depth
        self.engines = engine_order(parameters)
        self.count = len(self.engines)
        bits = parameters.address_bits
        counter = range(parameters.counters)
        super().__init__({
            "start": In(1),
            "base": In(bits),
            "halted": In(1),
            "running": Out(1),
            "finished": Out(1),
            "dies": In(parameters.die_bits + 1, init=reset_value(Register.DIES, parameters)),
            "cycle": In(32),
            "base_number": Out(range(BASE_COUNT)), "base_address": In(bits),
            "record_base": In(bits),
            "record_count": Out(32),
            "record_write": In(1),
            "record_data": In(32),
            **{f"engine_{e}": In(EngineSignature(parameters)) for e in range(self.count)},
            **{f"status_{e}": Out(EngineStatus) for e in range(self.count)},
            "completed": Out(self.count),
            "progress": Out(1),
            "fetch_memory": Out(ReadPort(parameters)),
            "record_memory": Out(WritePort(parameters)),
            "advance_out": Out(stream.Signature(RemoteAdvance)),
            "advance_in": In(stream.Signature(counter)),
            "host_valid": In(1),
            "host_ready": Out(1),
            "host_index": In(counter),
            "host_is_base": In(1),
            "host_write": In(1),
            "host_write_data": In(32),
            "host_read_data": Out(32),
            "inspect_valid": In(1),
            "inspect_engine": In(range(max(2, self.count))),
            "inspect_kind": In(2),
            "inspect_number": In(TASK_BITS),
            "inspect_ready": Out(1),
            "inspect_data": Out(32),
            "inspect_counter": Out(8),
            "fetch_cause": Out(Cause),
            "task_cause": Out(Cause),
            "fetch_address": Out(bits),
            "asked_number": In(TASK_BITS), "fetched": Out(bits), "recorded": Out(32),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.fetch = fetch = DescriptorFetch(self.parameters)
        m.submodules.dispatch = dispatch = Dispatch(self.parameters)
        m.submodules.queues = queues = BodyQueues(
            [self.parameters.body_words(engine) for engine in self.engines], self.queue_depth)
        m.submodules.addresses = addresses = BodyAddresses(self.parameters)
        m.submodules.sequencer = sequencer = TaskSequencer(self.parameters)
        m.submodules.writer = writer = RecordWriter(self.parameters)
        m.submodules.counters = counters = UpdateCounters(self.parameters.counters)
        m.submodules.remote = remote = FIFO(RemoteAdvance, REMOTE_QUEUE, Storage.BLOCK)

        connect(m, flipped(self.fetch_memory), fetch.memory)
        connect(m, flipped(self.record_memory), writer.memory)
        connect(m, flipped(self.advance_in), counters.remote)
        connect(m, fetch.o, dispatch.i)
        connect(m, sequencer.local, counters.local)
        connect(m, sequencer.remote, remote.i)
        connect(m, remote.o, flipped(self.advance_out))
        m.d.comb += [
            fetch.start.eq(self.start),
            fetch.base.eq(self.base),
            fetch.stop.eq(self.halted),
            self.fetch_address.eq(fetch.requested),
            fetch.asked_number.eq(self.asked_number), self.fetched.eq(fetch.asked),
            writer.asked_number.eq(self.asked_number), self.recorded.eq(writer.asked),

            dispatch.address.eq(fetch.address),
            dispatch.halted.eq(self.halted), dispatch.dies.eq(self.dies),
            dispatch.room.eq(sequencer.room & queues.room),
            self.fetch_cause.eq(dispatch.error),

            queues.i_valid.eq(dispatch.body_valid),
            queues.i_engine.eq(dispatch.position),
            addresses.position.eq(dispatch.position), addresses.index.eq(fetch.o.payload.index),
            addresses.word.eq(dispatch.word), self.base_number.eq(addresses.number),
            addresses.base.eq(self.base_address), queues.i_word.eq(addresses.o),

            sequencer.header_valid.eq(dispatch.header_valid),
            sequencer.header_index.eq(dispatch.header_index),
            sequencer.header_word.eq(dispatch.word), sequencer.header_address.eq(fetch.address),
            sequencer.position.eq(dispatch.position),
            sequencer.commit.eq(dispatch.commit),
            sequencer.delivered.eq(queues.delivered),
            sequencer.halted.eq(self.halted),
            sequencer.cycle.eq(self.cycle),
            sequencer.inspect_valid.eq(self.inspect_valid),
            sequencer.inspect_engine.eq(self.inspect_engine),
            sequencer.inspect_kind.eq(self.inspect_kind),
            sequencer.inspect_number.eq(self.inspect_number),
            self.inspect_ready.eq(sequencer.inspect_ready),
            self.inspect_data.eq(sequencer.inspect_data),
            self.inspect_counter.eq(sequencer.inspect_counter),
            self.completed.eq(sequencer.completed),
            self.task_cause.eq(sequencer.cause),

            counters.poll_valid.eq(sequencer.poll_valid),
            counters.poll_index.eq(sequencer.poll_index),
            sequencer.poll_ready.eq(counters.poll_ready),
            sequencer.poll_base.eq(counters.poll_base),
            sequencer.slack.eq(counters.slack),
            counters.host_valid.eq(self.host_valid),
            self.host_ready.eq(counters.host_ready),
            counters.host_index.eq(self.host_index),
            counters.host_is_base.eq(self.host_is_base),
            counters.host_write.eq(self.host_write),
            counters.host_write_data.eq(self.host_write_data),
            self.host_read_data.eq(counters.host_read_data),

            writer.base.eq(self.record_base),
            writer.count_write.eq(self.record_write),
            writer.count_data.eq(self.record_data),
            self.record_count.eq(writer.count),
            sequencer.record_ready.eq(writer.ready),
            writer.word_valid.eq(sequencer.record_valid),
            writer.word.eq(sequencer.record_word),
        ]
        for e in range(self.count):
            port = getattr(self, f"engine_{e}")
            connect(m, getattr(queues, f"body_{e}"), flipped(port.body))
            connect(m, flipped(port.done), getattr(sequencer, f"done_{e}"))
            # Engines are far: a start goes there by a register, and that it was taken comes back by one.
            start = getattr(sequencer, f"start_{e}")
            offered, taken = Signal(name=f"offered_{e}"), Signal(name=f"taken_{e}")
            m.d.sync += [offered.eq(Mux(offered, ~port.start.ready, start.valid & ~taken)),
                         taken.eq(offered & port.start.ready)]
            m.d.comb += [
                port.start.valid.eq(offered), port.start.payload.eq(start.payload), start.ready.eq(taken),
                port.operation.eq(getattr(sequencer, f"operation_{e}")),
                getattr(self, f"status_{e}").eq(getattr(sequencer, f"status_{e}")),
            ]

        m.d.comb += self.finished.eq(
            self.running & ~self.halted & ~fetch.active & sequencer.empty & writer.idle)
        m.d.sync += self.progress.eq(dispatch.commit | sequencer.started.any() | sequencer.completed.any())
        with m.If(self.start):
            m.d.sync += self.running.eq(1)
        with m.Elif(self.finished):
            m.d.sync += self.running.eq(0)
        return m
