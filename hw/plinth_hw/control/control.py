"""Control block of a die: registers, scheduler, counters and errors, joined.

::

    axil <--> registers --- start, bases --> scheduler <--> engines
                 |   |                           |
                 |   +--- performance counters <-+-- strobes of engines, memory, network
                 +------- errors <-- descriptors, tasks, memory, watchdog, other dies
                 |           +-----> halted, error_out
                 +------- recovery --> resets of what is not drawn here but registers, counters and routes

See :mod:`registers`, :mod:`scheduler`, :mod:`counters`, :mod:`errors` and :mod:`recovery` for times. Source: MPT
section VI.A.
"""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from plinth_hw.control.counters import BusyPeriod, PerformanceCounters
from plinth_hw.control.dispatch import engine_order
from plinth_hw.control.engine import EngineSignature
from plinth_hw.control.errors import SCHEDULER, Errors, Watchdog
from plinth_hw.control.inspection import InspectKind
from plinth_hw.control.recovery import Recovery
from plinth_hw.control.registers import ENGINE_COUNTERS, AXI4LiteSignature, Registers, counter_count
from plinth_hw.control.routes import lost_layout, rates_layout, route_write_layout
from plinth_hw.control.scheduler import Scheduler
from plinth_hw.control.sequencer import RemoteAdvance
from plinth_hw.control.window import MemoryWindow
from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.operations import Engine, ErrorCode
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.arbiter import lowest
from plinth_hw.lib.choice import index_of
from plinth_hw.lib.delay import delayed
from plinth_hw.memory.crossbar import fault_layout
from plinth_hw.memory.port import ReadPort, WritePort
from plinth_hw.shapes import either, shape_of

#: Bits that an engine's strobes add to its counters in a cycle, in the order of the registers.
STROBES = ("busy", "stall_input", "stall_output", "stall_memory", "words", "useful_macs", "issued_macs")
#: The first of them are states, of which an engine is in one at most.
STATES = 4
#: Those of them that only the matrix engine has; the counters of other engines stay 0.
MACS = ("useful_macs", "issued_macs")


class ReceiveFault(data.Struct):
    """A packet names words beyond the memory."""

    valid: unsigned(1)
    #: This die sent it.
    own: unsigned(1)


class Control(wiring.Component):
    """What the host sees of a die, and what starts its tasks.

    Parameters
    ----------
    parameters : DieParameters
    readers, writers : sequence of (Engine or None)
        Owner of each client of the memory crossbar, in its order; None is the scheduler. The memory window is one more,
        the last.

    Members
    -------
    axil : In(AXI4LiteSignature)
        The host.
    irq : Out(1)
        Level: done or error.
    busy, done, error : Out(1)
        As in STATUS.
    engine_0 ... : In(EngineSignature)
        Engines in the order of :func:`engine_order`.
    fetch_memory : Out(ReadPort)
    record_memory : Out(WritePort)
    window_read : Out(ReadPort), window_store : Out(WritePort)
        With a memory window only.
    limit : Out
        Memory size in beats.
    read_fault, write_fault : In
        From the crossbar: a request beyond the memory.
    read_failed, write_failed : In
        From the crossbar: a request that memory could not serve.
    receive_fault : In(ReceiveFault)
        A tile's packet named an address beyond the memory.
    drained : In(1)
        The crossbar has nothing under way.
    reset, drain, flush, apart : Out(1)
        As of :class:`~plinth_hw.control.recovery.Recovery`.
    words_read, words_written, injected_words, transit_words, port_words : In
        Words that moved in this cycle; the last three on dies with a network only.
    sums_at_ends, results_beyond : In
        Of fixed-point dies only: sums that the matrix engine stored at an end of the format, and results of the
        others that were beyond it, in this cycle.
    advance_out : Out(stream of RemoteAdvance), advance_in : In(stream of counter number)
        To and from other dies.
    halted : Out(1)
        There is an error.
    error_out : Out(1), error_source : Out
        Pulse: the other dies are to be told that this one has stopped; and the die that had the error.
    error_in : In(stream of die number)
        Another die has stopped.
    lost : In, :func:`~plinth_hw.control.routes.lost_layout`
        A packet came to which no route leads on.
    die, dies, rates, route_write : Out
        Settings of the network; of a die without one only ``die`` and ``dies``.
    links_up, links_lost, bad_frames, replays : In(ports)
        With a link layer only, of each link: it is up; pulses: it went down after use, a frame came with a wrong check,
        flits are sent again.
    verilog_digest : In(32)
        Register VERILOG_DIGEST.
    """

    def __init__(self, parameters: DieParameters, readers: Sequence[Engine | None],
                 writers: Sequence[Engine | None]) -> None:
        self.parameters = parameters
        self.readers = tuple(readers)
        self.writers = tuple(writers)
        self.engines = engine_order(parameters)
        reading, writing = (fault_layout(len(owners) + parameters.has_window)
                            for owners in (self.readers, self.writers))
        words = parameters.beat_words.bit_length()
        link_words = parameters.flit_words.bit_length()
        all_links = range(parameters.flit_words * parameters.ports + 1)
        super().__init__({
            "axil": In(AXI4LiteSignature()),
            "irq": Out(1), "busy": Out(1), "done": Out(1), "error": Out(1),
            **{f"engine_{e}": In(EngineSignature(parameters)) for e in range(len(self.engines))},
            "fetch_memory": Out(ReadPort(parameters)),
            "record_memory": Out(WritePort(parameters)),
            **({"window_read": Out(ReadPort(parameters)), "window_store": Out(WritePort(parameters))}
               if parameters.has_window else {}),
            "limit": Out(parameters.address_bits - words + 2),
            "read_fault": In(reading), "write_fault": In(writing),
            "read_failed": In(reading), "write_failed": In(writing),
            "receive_fault": In(ReceiveFault),
            "drained": In(1), "reset": Out(1), "drain": Out(1), "flush": Out(1), "apart": Out(1),
            "words_read": In(words), "words_written": In(words),
            **({"sums_at_ends": In(words), "results_beyond": In(words + 2)}
               if isinstance(parameters.multiply_format, Fixed) else {}),
            "advance_out": Out(stream.Signature(RemoteAdvance)),
            "advance_in": In(stream.Signature(range(parameters.counters))),
            "halted": Out(1), "error_out": Out(1), "error_source": Out(parameters.die_bits),
            "error_in": In(stream.Signature(unsigned(parameters.die_bits))),
            "lost": In(lost_layout(parameters)),
            "die": Out(parameters.die_bits), "dies": Out(parameters.die_bits + 1),
            **({"injected_words": In(all_links), "transit_words": In(all_links),
                "port_words": In(data.ArrayLayout(unsigned(link_words), parameters.ports)),
                "rates": Out(rates_layout(parameters)),
                "route_write": Out(route_write_layout(parameters))} if parameters.ports else {}),
            **({"links_up": In(parameters.ports), "links_lost": In(parameters.ports),
                "bad_frames": In(parameters.ports), "replays": In(parameters.ports)} if parameters.link_phits else {}),
            "verilog_digest": In(32),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parameters = self.parameters
        m.submodules.registers = registers = Registers(parameters)
        m.submodules.recovery = recovery = Recovery()
        scheduler = Scheduler(parameters)
        m.submodules.scheduler = ResetInserter(recovery.reset)(scheduler)
        m.submodules.errors = errors = Errors(9 if parameters.link_phits else 8)
        m.submodules.watchdog = watchdog = Watchdog()
        cycle = Signal(64)
        m.d.sync += cycle.eq(cycle + 1)

        for name in ("fetch_memory", "record_memory", "advance_out", "advance_in"):
            connect(m, flipped(getattr(self, name)), getattr(scheduler, name))
        for e in range(len(self.engines)):
            connect(m, flipped(getattr(self, f"engine_{e}")), getattr(scheduler, f"engine_{e}"))
            m.d.comb += getattr(registers, f"status_{e}").eq(getattr(scheduler, f"status_{e}"))
        connect(m, flipped(self.axil), registers.axil)
        m.d.comb += [
            scheduler.start.eq(registers.start), scheduler.base.eq(registers.task_base),
            scheduler.halted.eq(errors.halted), scheduler.dies.eq(registers.dies), scheduler.cycle.eq(cycle),
            registers.base_number.eq(scheduler.base_number), scheduler.base_address.eq(registers.base_address),
            scheduler.record_base.eq(registers.record_base),
            scheduler.record_write.eq(registers.record_write),
            scheduler.record_data.eq(registers.record_data),
            registers.record_count.eq(scheduler.record_count),
            registers.running.eq(scheduler.running | recovery.stopping), registers.stopped.eq(recovery.stopped),
            recovery.stop.eq(registers.stop), recovery.clear.eq(registers.clear_error),
            recovery.drained.eq(self.drained), self.reset.eq(recovery.reset), self.drain.eq(recovery.drain),
            self.flush.eq(recovery.flush), self.apart.eq(recovery.apart),
            registers.cycle.eq(cycle),
            registers.code.eq(errors.code), registers.task.eq(errors.task), registers.info.eq(errors.info),
            registers.error.eq(errors.error), errors.clear.eq(registers.clear_error),

            scheduler.host_valid.eq(registers.host_valid), registers.host_ready.eq(scheduler.host_ready),
            scheduler.host_index.eq(registers.host_index),
            scheduler.host_is_base.eq(registers.host_is_base),
            scheduler.host_write.eq(registers.host_write),
            scheduler.host_write_data.eq(registers.host_write_data),
            registers.host_read_data.eq(scheduler.host_read_data),

            self.die.eq(registers.die), self.dies.eq(registers.dies),
            self.limit.eq(registers.memory_words >> exact_log2(parameters.beat_words)),
            self.error_out.eq(errors.raised & ~recovery.apart), self.halted.eq(errors.halted),
            self.error_source.eq(Mux(errors.code == ErrorCode.REMOTE, errors.info.die, registers.die)),
            self.busy.eq(registers.running), self.done.eq(registers.done), self.error.eq(errors.error),
            self.irq.eq(registers.done | errors.error),

            watchdog.limit.eq(registers.watchdog),
            watchdog.active.eq(scheduler.running & ~errors.halted),
        ]
        if parameters.ports:
            m.d.comb += [self.route_write.eq(registers.route_write), self.rates.eq(registers.rates)]
        if parameters.link_phits:
            m.d.comb += registers.links_up.eq(self.links_up)
        m.d.comb += registers.verilog_digest.eq(self.verilog_digest)
        if parameters.has_window:
            self._window(m, registers, recovery)
        with m.If(scheduler.start | registers.stop | recovery.stopping):
            m.d.sync += registers.done.eq(0)
        with m.Elif(scheduler.finished):
            m.d.sync += registers.done.eq(1)
        self._causes(m, registers, scheduler, errors, watchdog)
        self._inspect(m, registers, scheduler, errors)
        moved = self._count(m, registers, scheduler, cycle)
        # Tiles of other dies land without a task.
        m.d.comb += watchdog.progress.eq(scheduler.progress | delayed(m, "moved", moved, 1))
        return m

    def _window(self, m: Module, registers: Registers, recovery: Recovery) -> None:
        """Memory for the host, which asks for nothing while the crossbar forgets what it was asked."""
        m.submodules.window = window = MemoryWindow(self.parameters)
        connect(m, window.read, flipped(self.window_read))
        connect(m, window.store, flipped(self.window_store))
        m.d.comb += [window.limit.eq(self.limit), window.hold.eq(recovery.stopping),
                     *(getattr(window, name).eq(getattr(registers, f"window_{name}"))
                       for name in ("set", "reads", "valid", "write", "data", "strobe")),
                     *(getattr(registers, f"window_{name}").eq(getattr(window, name))
                       for name in ("address", "ready", "failed", "found", "idle"))]

    def _causes(self, m: Module, registers: Registers, scheduler: Scheduler, errors: Errors,
                watchdog: Watchdog) -> None:
        """What stops the die, the most telling first."""
        m.d.sync += errors.cause_0.eq(scheduler.fetch_cause)
        m.d.comb += errors.cause_1.eq(scheduler.task_cause)
        self._blame(m, errors.cause_2, scheduler)
        m.d.comb += [
            errors.cause_4.valid.eq(self.error_in.valid), errors.cause_4.code.eq(ErrorCode.REMOTE),
            errors.cause_4.engine.eq(SCHEDULER), errors.cause_4.die.eq(self.error_in.payload),
            self.error_in.ready.eq(1),
        ]
        # A tile of another die is no fault of a task here.
        own_tile = self.receive_fault.own
        m.d.comb += [
            errors.cause_5.valid.eq(self.receive_fault.valid), errors.cause_5.engine.eq(Engine.TRANSFER.value),
            errors.cause_5.code.eq(either(own_tile, ErrorCode.BAD_ADDRESS, ErrorCode.BAD_PACKET)),
            errors.cause_5.lookup.eq(own_tile),
        ]
        # No task is known that a packet without a route, or a write to the route table, is of.
        refused = [(errors.cause_7, ErrorCode.BAD_ROUTE, registers.bad_route)] if self.parameters.ports else []
        for cause, code, event in ((errors.cause_6, ErrorCode.NO_ROUTE, self.lost), *refused):
            m.d.comb += [cause.valid.eq(event.valid), cause.code.eq(code), cause.engine.eq(SCHEDULER),
                         cause.die.eq(event.die)]
        if self.parameters.link_phits:
            cause = errors.cause_8
            m.d.comb += [cause.valid.eq(self.links_lost.any()), cause.code.eq(ErrorCode.LINK),
                         cause.engine.eq(SCHEDULER), cause.port.eq(index_of(lowest(self.links_lost)))]
        # A hang is to blame on the first engine whose task waits, or else runs.
        hung, blamed = Signal(8, init=SCHEDULER, name="hung"), Signal(name="blamed")
        statuses = [getattr(scheduler, f"status_{e}") for e in range(len(self.engines))]
        for name in ("runs", "waits"):
            for kind, status in reversed(list(zip(self.engines, statuses, strict=True))):
                with m.If(getattr(status, name)):
                    m.d.comb += [hung.eq(kind.value), blamed.eq(1)]
        m.d.comb += [
            errors.cause_3.valid.eq(watchdog.expired), errors.cause_3.code.eq(ErrorCode.TIMEOUT),
            errors.cause_3.task.eq(scheduler.fetch_address), errors.cause_3.engine.eq(hung),
            errors.cause_3.lookup.eq(blamed),
        ]

    def _blame(self, m: Module, cause: data.View, scheduler: Scheduler) -> None:
        """An access to memory is of the task that asked for it; of none, if it was for a tile of another die or for the
        host. Told a cycle later; one beyond memory before one that memory could not serve, a read before a write."""
        events = [(self.read_fault, ErrorCode.BAD_ADDRESS), (self.write_fault, ErrorCode.BAD_ADDRESS),
                  (self.read_failed, ErrorCode.MEMORY), (self.write_failed, ErrorCode.MEMORY)]
        valid, code = Signal(name="blames"), Signal(shape_of(ErrorCode), name="blamed_code")
        reads, number = Signal(name="blamed_read"), Signal.like(cause.number, name="blamed_number")
        index = Signal(max(len(event.index) for event, _ in events), name="blamed_client")
        # What a die that is stopped still gets of memory is nobody's any more.
        m.d.sync += valid.eq(Cat(event.valid for event, _ in events).any() & ~self.reset)
        for event, its_code in reversed(events):
            with m.If(event.valid):
                m.d.sync += [code.eq(its_code), index.eq(event.index), number.eq(event.task),
                             reads.eq(event is self.read_fault or event is self.read_failed)]
        own, lookup = Signal(name="blames_scheduler"), Signal(name="blamed_task")
        engine = Signal.like(cause.engine, name="blamed_engine", init=SCHEDULER)
        m.d.comb += [
            cause.valid.eq(valid), cause.code.eq(code), cause.number.eq(number), cause.engine.eq(engine),
            cause.lookup.eq(lookup), scheduler.asked_number.eq(number),
            cause.task.eq(Mux(own, Mux(reads, scheduler.fetched, scheduler.recorded), 0)),
        ]
        with m.Switch(Cat(index, reads)):
            for is_read, owners in enumerate((self.writers, self.readers)):
                for client, owner in enumerate(owners):
                    with m.Case(is_read << len(index) | client):
                        if owner is None:
                            m.d.comb += own.eq(1)
                        else:
                            m.d.comb += [engine.eq(owner.value), lookup.eq(number.any())]

    def _inspect(self, m: Module, registers: Registers, scheduler: Scheduler, errors: Errors) -> None:
        """The scheduler's header store answers the errors first, then the host."""
        position = Signal.like(scheduler.inspect_engine)
        for index, engine in enumerate(self.engines):
            with m.If(errors.info.engine == engine.value):
                m.d.comb += position.eq(index)
        asks, for_errors = Signal(name="asks"), Signal(name="for_errors")  # a question is under way
        engine, kind, number = (Signal.like(port) for port in (
            scheduler.inspect_engine, scheduler.inspect_kind, scheduler.inspect_number))
        m.d.comb += [
            scheduler.inspect_valid.eq(asks), scheduler.inspect_engine.eq(engine),
            scheduler.inspect_number.eq(number), scheduler.inspect_kind.eq(kind),
            errors.lookup_done.eq(for_errors & scheduler.inspect_ready),
            errors.lookup_task.eq(scheduler.inspect_data), errors.lookup_counter.eq(scheduler.inspect_counter),
            registers.inspect_ready.eq(~for_errors & scheduler.inspect_ready),
            registers.inspect_data.eq(scheduler.inspect_data),
        ]
        with m.If(scheduler.inspect_ready):
            m.d.sync += asks.eq(0)
        with m.Elif(~asks):
            m.d.sync += [
                asks.eq(errors.lookup_valid | registers.inspect_valid), for_errors.eq(errors.lookup_valid),
                engine.eq(Mux(errors.lookup_valid, position, registers.inspect_engine)),
                kind.eq(Mux(errors.lookup_valid, InspectKind.OLDEST, registers.inspect_kind)),
                number.eq(Mux(errors.lookup_valid, errors.lookup_number, 0)),
            ]

    def _count(self, m: Module, registers: Registers, scheduler: Scheduler, cycle: Signal) -> Value:
        """Performance counters, in the order of the registers. Returns whether an engine was busy, or words moved or
        were written, in the cycle that is counted."""
        increments: list = []
        moves: list[int] = []  # which of them show that something moves
        parameters = self.parameters
        words = parameters.words_per_cycle.bit_length()
        # Whatever leads to an increment ends in a register of its own.
        time = Signal(32, name="counted_cycle")
        m.d.sync += time.eq(cycle)
        macs = (parameters.rows * parameters.columns).bit_length() if parameters.systolic else None
        for e, engine in enumerate(self.engines):
            strobes = getattr(self, f"engine_{e}").strobes
            # Of PEs each makes one multiply-add, but those that a row-stationary machine shows as useful come in one
            # go.
            limits = {"words": words, **dict.fromkeys(MACS, macs if engine is Engine.MATRIX else 0)}
            moves += [len(increments) + STROBES.index(name) for name in ("busy", "words")]
            increments += [*(getattr(strobes, name)[:limits.get(name)] for name in STROBES), scheduler.completed[e]]
            m.submodules[f"busy_{e}"] = period = BusyPeriod()
            busy = Signal(name=f"counted_busy_{e}")
            m.d.sync += busy.eq(strobes.busy)
            m.d.comb += [
                period.busy.eq(busy), period.clear.eq(registers.clear_counters), period.cycle.eq(time),
                getattr(registers, f"first_busy_{e}").eq(period.first),
                getattr(registers, f"last_busy_{e}").eq(period.last),
            ]
        if parameters.ports:
            increments += [self.injected_words, self.transit_words]
        increments += [self.words_read, self.words_written]
        moves.append(len(increments) - 1)
        if isinstance(parameters.multiply_format, Fixed):
            increments += [self.sums_at_ends, self.results_beyond]
        increments += [*(self.port_words[port] for port in range(self.parameters.ports))]
        if parameters.link_phits:
            increments += [*self.bad_frames, *self.replays]
        assert len(increments) == counter_count(parameters)
        # An engine is in one state, and one task completes at a time.
        engines = len(self.engines)
        exclusive = [range(first, first + STATES) for first in range(0, ENGINE_COUNTERS * engines, ENGINE_COUNTERS)]
        if engines > 1:
            exclusive.append(range(len(STROBES), ENGINE_COUNTERS * engines, ENGINE_COUNTERS))
        m.submodules.counters = counters = PerformanceCounters([len(Cat(i)) for i in increments], exclusive)
        moved: list[Value] = []
        for i, value in enumerate(increments):
            if counters.bits[i]:
                counted = Signal(counters.bits[i], name=f"counted_{i}")
                m.d.sync += counted.eq(value)
                m.d.comb += getattr(counters, f"increment_{i}").eq(counted)
                if i in moves:
                    moved.append(counted)
        m.d.comb += [
            counters.clear.eq(registers.clear_counters),
            counters.read_valid.eq(registers.read_valid), counters.read_index.eq(registers.read_index),
            registers.read_ready.eq(counters.read_ready), registers.read_data.eq(counters.read_data),
        ]
        return Cat(moved).any()
