"""Task sequencer: from a task's header to its start, and from its completion to its consequences.

::

    header words --> HeaderStore: 8 places of 16 words for each engine
                         | one word a cycle
          +--------+-----+-----+-----------+
          v        v           v           v
        LOAD    WaitPoll     DONE       Inspection
      waits of  counter -    advance,   for registers
      the next  (base +      remote     and errors
      task      value)       advance,
          |        |         record <-- ResultWords
          v        v
        TaskRing of each engine: no wait pending and body delivered --> start

One machine serves all engines. It does one of four things at a time, DONE before INSPECT before LOAD, and polls when
there is nothing else to do, engines in turn and the pending waits of each in turn.

What LOAD and DONE begin upon comes from registers, so between two LOADs, and between two DONEs, lies a cycle of
something else. Latency, in cycles: from the write of a counter to ``start.valid`` 5, plus one for each other pending
wait, plus at most 9 for a LOAD or DONE under way. LOAD takes 6. DONE takes 6 from ``done.valid`` to ``done.ready``,
15 with a record (of which polls wait for 8).
"""

from typing import NamedTuple

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from plinth_hw.control.dispatch import ADDRESS_WORD, STARTED_WORD, engine_order
from plinth_hw.control.engine import Done
from plinth_hw.control.errors import Cause
from plinth_hw.control.fetch import header_word
from plinth_hw.control.header_store import STORED_BITS, HeaderStore
from plinth_hw.control.inspection import Inspection, InspectKind
from plinth_hw.control.result_words import ResultWords
from plinth_hw.control.task_ring import EngineStatus, TaskRing
from plinth_hw.control.wait_poll import WaitPoll
from plinth_hw.isa.descriptors import TaskHeader
from plinth_hw.isa.limits import field_bits
from plinth_hw.isa.operations import ErrorCode
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.arbiter import RoundRobin
from plinth_hw.lib.choice import select
from plinth_hw.memory.port import TASK_BITS
from plinth_hw.shapes import shape_of

#: Step of LOAD and DONE in which they read word 0; step 0 follows.
_FIRST = 7


class RemoteAdvance(data.Struct):
    """Advance of a counter on another die."""

    die: field_bits(TaskHeader, "remote_die")
    counter: field_bits(TaskHeader, "remote_counter")


class _Parts(NamedTuple):
    """What the machine directs."""

    rings: list[TaskRing]
    store: HeaderStore
    poll: WaitPoll
    inspection: Inspection
    results: ResultWords


class TaskSequencer(wiring.Component):
    """Starts and completes the tasks of all engines.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    header_valid, header_index, header_word, position, commit
        From :class:`Dispatch`.
    header_address : In(32)
        Address of that descriptor.
    room : Out(engines)
        That engine has a free place.
    delivered : In(engines)
        Pulse: the engine has taken a whole body.
    start_0, operation_0, done_0 ... : Out(stream), Out(4), In(stream of Done)
        The seams of the engines; ``operation`` is valid with ``start``, whose payload is the task's number: its slot,
        and a bit that is set.
    status_0 ... : Out(EngineStatus)
        State of each engine.
    halted : In(1)
        Start nothing more. A ``start`` already offered may still be taken.
    cycle : In(32)
        Time for records.
    empty : Out(1)
        No task is held.
    completed : Out(engines)
        Pulse for each completed task.
    started : Out(engines)
        Pulse for each started task.
    poll_valid, poll_index, poll_ready, poll_base, slack
        To :class:`UpdateCounters`.
    local : Out(stream of counter number)
        Advances by completed tasks.
    remote : Out(stream of RemoteAdvance)
        The same on other dies. DONE does not begin before ``remote.ready``, which must then stay.
    record_ready, record_valid, record_word : In, Out, Out
        To :class:`RecordWriter`.
    inspect_valid, inspect_engine, inspect_kind, inspect_ready, inspect_data
        An :class:`~plinth_hw.control.inspection.InspectKind` of question, held until ready.
    inspect_number : In
        With OLDEST: number of the task that is meant, or else 0.
    inspect_counter : Out(8)
        Counter that the next task of ``inspect_engine`` waits for, or else 0; valid with ``inspect_ready``.
    cause : Out(Cause)
        An engine rejected its task.
    """

    def __init__(self, parameters: DieParameters) -> None:
        self.parameters = parameters
        self.engines = engine_order(parameters)
        self.count = len(self.engines)
        position = range(max(2, self.count))
        counter = range(parameters.counters)
        members: dict[str, wiring.Member] = {}
        for e in range(self.count):
            members |= {
                f"start_{e}": Out(stream.Signature(unsigned(TASK_BITS))),
                f"operation_{e}": Out(4),
                f"done_{e}": In(stream.Signature(Done)),
                f"status_{e}": Out(EngineStatus),
            }
        super().__init__({
            **members,
            "header_valid": In(1),
            "header_index": In(STORED_BITS),
            "header_word": In(32),
            "header_address": In(32),
            "position": In(position),
            "commit": In(1),
            "room": Out(self.count),
            "delivered": In(self.count),
            "halted": In(1),
            "cycle": In(32),
            "empty": Out(1),
            "completed": Out(self.count),
            "started": Out(self.count),
            "poll_valid": Out(1),
            "poll_index": Out(counter),
            "poll_ready": In(1),
            "poll_base": In(32),
            "slack": In(32),
            "local": Out(stream.Signature(counter)),
            "remote": Out(stream.Signature(RemoteAdvance)),
            "record_ready": In(1),
            "record_valid": Out(1),
            "record_word": Out(32),
            "inspect_valid": In(1),
            "inspect_engine": In(position),
            "inspect_kind": In(2),
            "inspect_number": In(TASK_BITS),
            "inspect_ready": Out(1),
            "inspect_data": Out(32),
            "inspect_counter": Out(8),
            "cause": Out(Cause),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parts = _Parts([TaskRing() for _ in self.engines], HeaderStore(self.count),
                       WaitPoll(self.count, self.parameters.counters), Inspection(self.count),
                       ResultWords(self.engines))
        for e, ring in enumerate(parts.rings):
            m.submodules[f"ring_{e}"] = ring
        m.submodules.store, m.submodules.poll, m.submodules.inspection, m.submodules.results = parts[1:]
        self._tasks(m, parts)
        self._asked(m, parts)
        self._serve(m, parts)
        m.d.comb += self.empty.eq(Cat(ring.old == ring.tail for ring in parts.rings).all()
                                  & ~self.local.valid & ~self.record_valid)
        return m

    def _tasks(self, m: Module, parts: _Parts) -> None:
        """The rings of the engines, and the store behind them."""
        store = parts.store
        for e, ring in enumerate(parts.rings):
            connect(m, ring.start, flipped(getattr(self, f"start_{e}")))
            m.d.comb += [
                ring.delivered.eq(self.delivered[e]),
                ring.halted.eq(self.halted), ring.cycle.eq(self.cycle),
                ring.met.eq(parts.poll.met[e]), ring.stamped.eq(store.stamped[e]),
                store.stamp[e].eq(ring.stamp), store.stamp_place[e].eq(ring.head - 1),
                store.started_at[e].eq(ring.started_at),
                self.room[e].eq(ring.room), self.started[e].eq(ring.started),
                getattr(self, f"operation_{e}").eq(ring.operation), getattr(self, f"status_{e}").eq(ring.status),
            ]
        # A task is known when the store has its last word.
        m.d.sync += [ring.commit.eq(self.commit & (self.position == e)) for e, ring in enumerate(parts.rings)]
        m.d.comb += [
            store.valid.eq(self.header_valid),
            store.engine.eq(self.position), store.place.eq(select([ring.tail for ring in parts.rings], self.position)),
            store.index.eq(self.header_index), store.word.eq(self.header_word),
            store.address.eq(self.header_address),
        ]

    def _asked(self, m: Module, parts: _Parts) -> None:
        """What inspections and polls ask. An inspection comes before polls."""
        poll, inspection = parts.poll, parts.inspection
        for e, ring in enumerate(parts.rings):
            m.d.comb += [
                poll.waits[e].eq(ring.status.waits), poll.pending[e].eq(ring.pending),
                inspection.loaded[e].eq(ring.loaded), inspection.pending[e].eq(ring.pending),
                *(getattr(inspection, name)[e].eq(getattr(ring, name)) for name in ("tail", "head", "old")),
            ]
        m.d.comb += [
            inspection.engine.eq(self.inspect_engine), inspection.kind.eq(self.inspect_kind),
            inspection.number.eq(self.inspect_number),
            poll.look.eq(self.inspect_valid), poll.look_engine.eq(self.inspect_engine),
            poll.look_wait.eq(inspection.wait),
            self.poll_index.eq(poll.counter), poll.slack.eq(self.slack), poll.awaited.eq(parts.store.read_word),
        ]

    def _serve(self, m: Module, parts: _Parts) -> None:
        """The machine. A word of the store is in ``word`` two cycles after its address."""
        store, poll, inspection, results = parts.store, parts.poll, parts.inspection, parts.results
        position = Signal(range(max(2, self.count)), name="served")
        step = Signal(3, name="step")
        word = store.read_word
        m.d.sync += step.eq(step + 1)

        def fetch(engine: Value, place: Value, index: Value) -> list:
            return [store.read_engine.eq(engine), store.read_place.eq(place), store.read_index.eq(index)]

        olds, heads = [ring.old for ring in parts.rings], [ring.head for ring in parts.rings]
        old, head = select(olds, position), select(heads, position)
        done = [getattr(self, f"done_{e}") for e in range(self.count)]
        done_grant, load_grant = Signal(name="done_grant"), Signal(name="load_grant")
        # A task is over, and not accepted. Engines are far: ``valid`` goes to a register, and ``ready`` comes from one.
        ended = Signal(self.count, name="ended")
        m.d.sync += ended.eq(Cat(result.valid & ~ring.stamp & ring.status.runs & ~ring.complete
                                 for result, ring in zip(done, parts.rings, strict=True)))
        m.submodules.done_turn = done_turn = RoundRobin(self.count)
        m.submodules.load_turn = load_turn = RoundRobin(self.count)
        # Tasks to be loaded, and whether there is room for what a task's end leads to: what it was a cycle ago, but for
        # the last LOAD or DONE.
        loads, may_end = Signal(self.count, name="loads"), Signal(name="may_end")
        m.d.comb += [
            done_turn.requests.eq(ended), done_turn.taken.eq(done_grant),
            load_turn.requests.eq(loads), load_turn.taken.eq(load_grant),
        ]
        error = Signal(shape_of(ErrorCode), name="error")
        accept = Signal(self.count, name="accept")
        failed = Signal(name="failed")  # ``accept``, for the engine rejected its task
        # What an engine offers stays until it is accepted.
        m.d.sync += error.eq(select([Value.cast(result.payload.error) for result in done], position))
        m.d.comb += self.completed.eq(Mux(failed, 0, accept))
        m.d.sync += [accept.eq(results.accept), failed.eq(0)]
        for e, (result, ring) in enumerate(zip(done, parts.rings, strict=True)):
            m.d.comb += [
                ring.complete.eq(accept[e]), result.ready.eq(accept[e]),
                getattr(results, f"done_{e}").eq(result.payload),
                ring.new_operation.eq(header_word(word, 0).operation),
                ring.new_waits.eq(header_word(word, 3).wait_enable),
            ]
        with m.If(self.local.ready):
            m.d.sync += self.local.valid.eq(0)

        base = Signal(32, name="base")  # what an inspection adds
        flags = Signal(data.StructLayout({"record": 1, "remote": 1}), name="flags")
        first, second = header_word(word, 0), header_word(word, 1)
        m.d.comb += [
            poll.keep_engine.eq(position), poll.keep_counters.eq(word), results.engine.eq(position),
            results.word.eq(word), self.record_valid.eq(results.valid), self.record_word.eq(results.o),
            self.remote.payload.die.eq(second.remote_die), self.remote.payload.counter.eq(second.remote_counter),
        ]
        m.d.sync += [
            loads.eq(Cat(ring.loads for ring in parts.rings)),
            may_end.eq(~results.busy & ~results.valid & self.record_ready & self.remote.ready),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += step.eq(_FIRST)
                # What is read matters to an inspection and a poll alone.
                with m.If(self.inspect_valid):
                    m.d.comb += fetch(self.inspect_engine, inspection.place, inspection.index)
                with m.Else():
                    m.d.comb += fetch(poll.engine, select(heads, poll.engine),
                                      Cat(poll.wait, Const(1, STORED_BITS - 2)))
                with m.If(done_turn.requests.any() & may_end):
                    m.d.comb += done_grant.eq(1)
                    m.d.sync += [position.eq(done_turn.index), results.ended_at.eq(self.cycle)]
                    m.next = "DONE"
                with m.Elif(self.inspect_valid):
                    m.d.comb += self.poll_valid.eq(1)
                    with m.If(self.poll_ready):
                        m.d.sync += step.eq(0)
                        m.next = "INSPECT"
                with m.Elif(load_turn.requests.any()):
                    m.d.comb += load_grant.eq(1)
                    m.d.sync += position.eq(load_turn.index)
                    m.next = "LOAD"
                with m.Else():
                    m.d.comb += [self.poll_valid.eq(poll.valid), poll.taken.eq(poll.valid & self.poll_ready)]
            with m.State("LOAD"):
                m.d.sync += loads.eq(0)
                m.d.comb += [poll.keep.eq(step == 2), *fetch(position, head, Mux(
                    step == _FIRST, Const(0, 4), Mux(step == 0, Const(2, 4), Const(3, 4))))]
                for e, ring in enumerate(parts.rings):
                    m.d.comb += [ring.set_operation.eq((position == e) & (step == 1)),
                                 ring.set_waits.eq((position == e) & (step == 3))]
                with m.If(step == 3):
                    m.next = "IDLE"
            with m.State("DONE"):
                order = [Const(n, STORED_BITS) for n in (1, ADDRESS_WORD, 3, STARTED_WORD)]
                m.d.comb += fetch(position, old, Mux(step == _FIRST, 0, Array(order)[step[:2]]))
                m.d.sync += may_end.eq(0)
                with m.If(step == 1):
                    m.d.sync += [flags.record.eq(first.record), flags.remote.eq(first.remote_enable)]
                    with m.If(error == ErrorCode.NONE):
                        with m.If(~first.record):
                            m.d.sync += accept.bit_select(position, 1).eq(1)
                        m.d.sync += [self.local.valid.eq(first.advance_enable), self.local.payload.eq(first.advance)]
                with m.If(step == 2):
                    with m.If(error != ErrorCode.NONE):
                        m.d.sync += [failed.eq(1), accept.bit_select(position, 1).eq(1)]
                    with m.Else():
                        m.d.comb += self.remote.valid.eq(flags.remote)
                        with m.If(~flags.record):
                            m.next = "IDLE"
                with m.If(step == 3):
                    m.d.comb += results.hand.eq(~failed)
                    with m.If(failed):
                        m.next = "IDLE"
                with m.If(step == 4):
                    m.d.comb += results.hand_tag.eq(1)
                with m.If(step == 5):
                    # The rest comes from the engine, beside whatever else happens.
                    m.d.comb += [results.hand.eq(1), results.begin.eq(1)]
                    m.next = "IDLE"
            with m.State("INSPECT"):
                with m.If(step == 0):
                    m.d.sync += base.eq(Mux(inspection.adds_base, self.poll_base, 0))
                with m.If(step == 1):
                    waited = Signal.like(self.inspect_counter, name="waited")
                    m.d.comb += waited.eq(Mux(inspection.waits, poll.counter, 0))
                    m.d.sync += [
                        self.inspect_counter.eq(waited),
                        self.inspect_data.eq(Mux(
                            self.inspect_kind == InspectKind.COUNTER, Cat(waited, Const(0, 23), inspection.waits),
                            Mux(inspection.none, 0, base + word))),
                    ]
                with m.If(step == 2):
                    m.d.comb += self.inspect_ready.eq(1)
                    m.next = "IDLE"
        m.d.comb += [
            self.cause.valid.eq(failed), self.cause.code.eq(error), self.cause.task.eq(word),
            self.cause.engine.eq(select([Const(engine.value, 8) for engine in self.engines], position)),
        ]
