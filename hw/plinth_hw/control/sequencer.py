"""Sequencer: from a task's header to its start, and from its completion to its consequences.

::

    header words --> header store: 8 slots of 16 words for each engine
                         | one word a cycle
          +--------+-----+----+-----------+
          v        v          v           v
        LOAD     POLL       DONE       INSPECT
      waits of  counter -   advance,   for registers
      the next  (base +     remote     and errors
      task      value)      advance,
          |        |        record
          v        v
        no wait pending and body delivered --> start

The slots of an engine form a ring: tasks from ``old`` to ``head`` are started, from ``head`` to ``tail``
they wait. One machine serves all engines. It does one of four things at a time, DONE before INSPECT before
LOAD, and polls when there is nothing else to do, engines in turn and the pending waits of each in turn; a wait
once met is not polled again.

Latency, in cycles: from the write of a counter to ``start.valid`` 5, plus one for each other pending wait,
plus at most 8 for a LOAD or DONE under way. LOAD takes 5. DONE takes 4 from ``done.valid`` to ``done.ready``,
13 with a record (of which polls wait for 7).
"""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from plinth_hw.control.dispatch import ADDRESS_WORD, STARTED_WORD, STORED_WORDS, engine_order
from plinth_hw.control.engine import Done
from plinth_hw.control.errors import Cause
from plinth_hw.control.fetch import header_word
from plinth_hw.isa.limits import field_bits
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.tasks import HEADER_WORDS, WAITS, Engine, ErrorCode, TaskHeader
from plinth_hw.lib.arbiter import RoundRobin, in_turn
from plinth_hw.lib.choice import index_of, one_registered, select
from plinth_hw.lib.ram import UNCHECKED
from plinth_hw.shapes import shape_of

#: Tasks of one engine between fetch and completion.
SLOTS = 8
_SLOT_BITS = exact_log2(SLOTS)
_WORD_BITS = exact_log2(STORED_WORDS)


class RemoteAdvance(data.Struct):
    """Advance of a counter on another die."""

    die: field_bits(TaskHeader, "remote_die")
    counter: field_bits(TaskHeader, "remote_counter")


class EngineStatus(data.Struct):
    """What the status registers of an engine show."""

    #: A started task has not completed.
    runs: 1
    #: The next task waits for a counter.
    waits: 1


class _Tasks:
    """Registers of one engine."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.tail = Signal(_SLOT_BITS + 1, name=f"tail_{position}")
        self.head = Signal(_SLOT_BITS + 1, name=f"head_{position}")
        self.old = Signal(_SLOT_BITS + 1, name=f"old_{position}")
        #: The waits of the task at ``head`` are in the wait store and in ``pending``.
        self.loaded = Signal(name=f"loaded_{position}")
        self.pending = Signal(WAITS, name=f"pending_{position}")
        #: Wait that was polled last.
        self.polled = Signal(range(WAITS), name=f"polled_{position}")
        self.operation = Signal(4, name=f"operation_{position}")
        #: Bodies delivered to tasks that have not started.
        self.staged = Signal(_SLOT_BITS + 1, name=f"staged_{position}")
        self.offer = Signal(name=f"offer_{position}")
        #: ``started_at`` of the youngest started task is still to be written to the store.
        self.stamp = Signal(name=f"stamp_{position}")
        self.started_at = Signal(32, name=f"started_at_{position}")


class Sequencer(wiring.Component):
    """Starts and completes the tasks of all engines.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    header_valid, header_ready, header_index, header_word, position, commit
        From :class:`Dispatch`.
    room : Out(engines)
        That engine has a free slot.
    delivered : In(engines)
        Pulse: the engine has taken a whole body.
    start_0, operation_0, done_0 ... : Out(stream), Out(4), In(stream of Done)
        The seams of the engines; ``operation`` is valid with ``start``.
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
        Held until ready, see the kinds below.
    inspect_counter : Out(8)
        Counter that the next task of ``inspect_engine`` waits for, or else 0; valid with ``inspect_ready``.
    cause : Out(Cause)
        An engine rejected its task.
    """

    #: ``inspect_kind``: address of the task that waits, or else of the oldest started one, or else 0.
    INSPECT_TASK = 0
    #: ``inspect_kind``: counter value that the next task waits for.
    INSPECT_WAIT = 1
    #: ``inspect_kind``: address of the oldest unfinished task, or 0.
    INSPECT_OLDEST = 2
    #: ``inspect_kind``: counter that the next task waits for, with bit 31, or 0.
    INSPECT_COUNTER = 3

    def __init__(self, parameters: DieParameters) -> None:
        self.parameters = parameters
        self.engines = engine_order(parameters)
        self.count = len(self.engines)
        position = range(max(2, self.count))
        counter = range(parameters.counters)
        members: dict[str, wiring.Member] = {}
        for e in range(self.count):
            members |= {
                f"start_{e}": Out(stream.Signature(1)),
                f"operation_{e}": Out(4),
                f"done_{e}": In(stream.Signature(Done)),
                f"status_{e}": Out(EngineStatus),
            }
        super().__init__({
            **members,
            "header_valid": In(1),
            "header_ready": Out(1),
            "header_index": In(_WORD_BITS),
            "header_word": In(32),
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
            "inspect_ready": Out(1),
            "inspect_data": Out(32),
            "inspect_counter": Out(8),
            "cause": Out(Cause),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        tasks = [_Tasks(e) for e in range(self.count)]
        position_bits = ceil_log2(self.count)
        # What is read for use has been written in an earlier cycle: a task is known after its last word, and completes
        # after its stamp.
        m.submodules.headers = headers = memory.Memory(
            shape=32, depth=(SLOTS * STORED_WORDS) << position_bits, init=[], attrs=UNCHECKED)
        self._store(m, headers.write_port(), tasks)
        for task in tasks:
            self._slots(m, task)
        self._serve(m, headers.read_port(), tasks)
        m.d.comb += self.empty.eq(Cat(task.old == task.tail for task in tasks).all()
                                  & ~self.local.valid & ~self.record_valid)
        return m

    def _location(self, position: Value, slot: Value, word: Value) -> Value:
        """Address in the header store."""
        return Cat(word[:_WORD_BITS], slot[:_SLOT_BITS], position[:ceil_log2(self.count)])

    def _store(self, m: Module, write: memory.WritePort, tasks: list[_Tasks]) -> None:
        """Header words as they come; the stamps of started tasks go first."""
        stamps = Cat(task.stamp for task in tasks)
        tail = select([task.tail for task in tasks], self.position)
        m.d.comb += self.header_ready.eq(~stamps.any())
        with m.If(stamps.any()):
            m.d.comb += write.en.eq(1)
            for task in reversed(tasks):
                earlier = stamps[:task.position].any() if task.position else Const(0)
                with m.If(task.stamp & ~earlier):
                    m.d.comb += [
                        write.addr.eq(self._location(Const(task.position, 4), task.head - 1,
                                                     Const(STARTED_WORD, _WORD_BITS))),
                        write.data.eq(task.started_at),
                    ]
                    m.d.sync += task.stamp.eq(0)
        with m.Else():
            m.d.comb += [
                write.en.eq(self.header_valid),
                write.addr.eq(self._location(self.position, tail, self.header_index)),
                write.data.eq(self.header_word),
            ]

    def _slots(self, m: Module, task: _Tasks) -> None:
        """Ring pointers and start of one engine."""
        e = task.position
        start, status = getattr(self, f"start_{e}"), getattr(self, f"status_{e}")
        m.d.comb += [
            self.room[e].eq((task.tail - task.old)[:_SLOT_BITS + 1] != SLOTS),
            start.valid.eq(task.offer),
            getattr(self, f"operation_{e}").eq(task.operation),
            self.started[e].eq(task.offer & start.ready),
            status.runs.eq(task.old != task.head),
            status.waits.eq(task.loaded & task.pending.any()),
        ]
        m.d.sync += task.staged.eq(task.staged + self.delivered[e] - self.started[e])
        with m.If(self.commit & (self.position == e)):
            m.d.sync += task.tail.eq(task.tail + 1)
        with m.If(self.started[e]):
            m.d.sync += [
                task.offer.eq(0),
                task.loaded.eq(0),
                task.head.eq(task.head + 1),
                task.stamp.eq(1),
                task.started_at.eq(self.cycle),
            ]
        with m.Elif(task.loaded & (task.pending == 0) & (task.staged != 0) & ~self.halted):
            m.d.sync += task.offer.eq(1)

    def _serve(self, m: Module, read: memory.ReadPort, tasks: list[_Tasks]) -> None:
        """The machine. A word of the store is in ``word`` two cycles after its address."""
        position = Signal(range(max(2, self.count)))  # engine that is served
        step = Signal(3)
        word = Signal(32)
        m.d.comb += read.en.eq(1)
        m.d.sync += [word.eq(read.data), step.eq(step + 1)]

        def fetch(engine: Value, slot: Value, index: int | Value) -> list:
            return [read.addr.eq(self._location(engine, slot, Value.cast(index)))]

        old = select([task.old for task in tasks], position)
        head = select([task.head for task in tasks], position)
        m.submodules.waits = waits = memory.Memory(shape=data.ArrayLayout(8, WAITS), depth=1 << len(position), init=[])
        keep, recall = waits.write_port(), waits.read_port(domain="comb")
        m.d.comb += [keep.addr.eq(position), keep.data.eq(word)]
        poll = self._polls(m, tasks, word)
        collecting = Signal()
        collected_engine = Signal.like(position)
        done_wants, load_wants = Signal(self.count), Signal(self.count)
        m.d.comb += [
            done_wants.eq(Cat(getattr(self, f"done_{task.position}").valid & ~task.stamp
                              & (task.old != task.head) for task in tasks)),
            load_wants.eq(Cat((task.head != task.tail) & ~task.loaded & ~self.halted for task in tasks)),
        ]
        done_grant, load_grant = Signal(), Signal()
        m.submodules.done_turn = done_turn = RoundRobin(self.count)
        m.submodules.load_turn = load_turn = RoundRobin(self.count)
        m.d.comb += [done_turn.requests.eq(done_wants), done_turn.taken.eq(done_grant),
                     load_turn.requests.eq(load_wants), load_turn.taken.eq(load_grant)]
        done_any, done_engine = done_wants.any(), done_turn.index
        load_any, load_engine = load_wants.any(), load_turn.index
        results = [getattr(self, f"done_{e}").payload for e in range(self.count)]
        error = Signal(shape_of(ErrorCode))
        m.d.comb += error.eq(select([Value.cast(result.error) for result in results], position))
        accept, completed = Signal(self.count), Signal()
        failed = Signal()  # an engine rejected its task
        for task in tasks:
            m.d.comb += getattr(self, f"done_{task.position}").ready.eq(accept[task.position])
            with m.If(accept[task.position]):
                m.d.sync += task.old.eq(task.old + 1)
        m.d.comb += self.completed.eq(Mux(completed, accept, 0))
        with m.If(self.local.ready):
            m.d.sync += self.local.valid.eq(0)

        base = Signal(32)  # what an inspection adds
        ended_at = Signal(32)
        flags = Signal(data.StructLayout({"record": 1, "remote": 1}))
        inspected = self._inspected(m, tasks)
        # An inspection comes before polls.
        m.d.comb += [
            recall.addr.eq(Mux(self.inspect_valid, self.inspect_engine, poll.engine)),
            self.poll_index.eq(select([recall.data[wait] for wait in range(WAITS)],
                                      Mux(self.inspect_valid, inspected.wait, poll.wait))),
            self.inspect_counter.eq(Mux(inspected.waits, self.poll_index, 0)),
        ]

        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += step.eq(0)
                with m.If(done_any & ~collecting & self.record_ready & self.remote.ready):
                    m.d.comb += [
                        done_grant.eq(1),
                        *fetch(done_engine, select([task.old for task in tasks], done_engine), Const(0, 4)),
                    ]
                    m.d.sync += [position.eq(done_engine), ended_at.eq(self.cycle)]
                    m.next = "DONE"
                with m.Elif(self.inspect_valid):
                    m.d.comb += [
                        *fetch(self.inspect_engine, inspected.slot, inspected.word),
                        self.poll_valid.eq(1),
                    ]
                    with m.If(self.poll_ready):
                        m.next = "INSPECT"
                with m.Elif(load_any):
                    m.d.comb += [
                        load_grant.eq(1),
                        *fetch(load_engine, select([task.head for task in tasks], load_engine), Const(0, 4)),
                    ]
                    m.d.sync += position.eq(load_engine)
                    m.next = "LOAD"
                with m.Else():
                    m.d.comb += [
                        *fetch(poll.engine, select([task.head for task in tasks], poll.engine),
                               Cat(poll.wait, Const(1, _WORD_BITS - 2))),
                        self.poll_valid.eq(poll.any),
                        poll.grant.eq(poll.any & self.poll_ready),
                    ]
            with m.State("LOAD"):
                m.d.comb += keep.en.eq(step == 2)
                m.d.comb += fetch(position, head, Mux(step == 0, Const(2, 4), Const(3, 4)))
                for task in tasks:
                    with m.If(position == task.position):
                        with m.If(step == 1):
                            m.d.sync += task.operation.eq(header_word(word, 0).operation)
                        with m.If(step == 3):
                            m.d.sync += [task.pending.eq(header_word(word, 3).wait_enable),
                                         task.loaded.eq(1)]
                with m.If(step == 3):
                    m.next = "IDLE"
            with m.State("DONE"):
                first, second = header_word(word, 0), header_word(word, 1)
                order = [Const(n, _WORD_BITS) for n in (1, ADDRESS_WORD, 3, STARTED_WORD)]
                m.d.comb += fetch(position, old, Array(order)[step[:2]])
                with m.If(step == 1):
                    m.d.sync += [flags.record.eq(first.record), flags.remote.eq(first.remote_enable)]
                    with m.If(error == ErrorCode.NONE):
                        m.d.sync += [self.local.valid.eq(first.advance_enable),
                                     self.local.payload.eq(first.advance)]
                with m.If((step == 2) & (error == ErrorCode.NONE)):
                    m.d.comb += self.remote.valid.eq(flags.remote)
                    with m.If(~flags.record):
                        m.d.comb += [accept.bit_select(position, 1).eq(1), completed.eq(1)]
                        m.next = "IDLE"
                m.d.comb += [self.remote.payload.die.eq(second.remote_die),
                             self.remote.payload.counter.eq(second.remote_counter)]
                with m.If(step == 3):
                    with m.If(error != ErrorCode.NONE):
                        m.d.comb += [failed.eq(1), accept.bit_select(position, 1).eq(1)]
                        m.next = "IDLE"
                    with m.Else():
                        m.d.comb += [self.record_valid.eq(1), self.record_word.eq(word)]
                with m.If(step == 4):
                    tag_and_engine = Cat(
                        header_word(word, 3).tag,
                        select([Const(engine.value, 16) for engine in self.engines], position))
                    m.d.comb += [self.record_valid.eq(1), self.record_word.eq(tag_and_engine)]
                with m.If(step == 5):
                    m.d.comb += [self.record_valid.eq(1), self.record_word.eq(word)]
                    m.d.sync += [collecting.eq(1), collected_engine.eq(position)]
                    m.next = "IDLE"
            with m.State("INSPECT"):
                with m.If(step == 0):
                    m.d.sync += base.eq(Mux(inspected.add_base, self.poll_base, 0))
                with m.Else():
                    m.d.comb += self.inspect_ready.eq(1)
                    m.next = "IDLE"
        m.d.comb += self.inspect_data.eq(Mux(
            self.inspect_kind == self.INSPECT_COUNTER, Cat(self.inspect_counter, Const(0, 23), inspected.waits),
            Mux(inspected.none, 0, base + word)))

        # The rest of a record comes from the engine, beside whatever else happens.
        part = Signal(3, init=7)  # 7 is the time, then follow the four words of the engine
        following = Signal.like(part)
        wanted: list[Value] = []
        sources: list[Value] = []
        m.d.comb += following.eq(part + 1)
        for engine, result in zip(self.engines, results, strict=True):
            words = [result.stall_cycles, result.payload_words]
            if engine is Engine.MATRIX:  # others have no multiply-adds
                words += [result.useful_macs[:32], result.useful_macs[32:]]
            for number, source in enumerate(words):
                wanted.append(collecting & (following == number) & (collected_engine == self.engines.index(engine)))
                sources.append(source)
        with m.If(collecting):
            m.d.comb += [self.record_valid.eq(1),
                         self.record_word.eq(Mux(part[2], ended_at, 0) | one_registered(m, "held", wanted, sources))]
            m.d.sync += part.eq(following)
            with m.If(part == 3):
                m.d.comb += [accept.bit_select(collected_engine, 1).eq(1), completed.eq(1)]
                m.d.sync += [collecting.eq(0), part.eq(7)]

        numbers: list[Value] = [Const(engine.value, 8) for engine in self.engines]
        m.d.comb += [
            self.cause.valid.eq(failed), self.cause.code.eq(error),
            self.cause.engine.eq(select(numbers, position)),
            self.cause.task.eq(word),
        ]

    def _polls(self, m: Module, tasks: list[_Tasks], word: Signal) -> "_Poll":
        """Choice of the wait to poll, made a cycle ahead, and what follows from the answer two cycles after the
        poll (when the engine's next LOAD cannot have ended yet). By then the wait may be another task's: whatever
        is polled is what lies at the head of that engine's queue."""
        poll = _Poll(self.count)
        wants = Signal(self.count)
        m.d.comb += wants.eq(Cat(task.loaded & task.pending.any() for task in tasks))
        free = ~poll.any | poll.grant
        m.submodules.poll_turn = turn = RoundRobin(self.count)
        m.d.comb += [turn.requests.eq(wants), turn.taken.eq(free)]
        engine = turn.index
        last = (Const(1, WAITS) << select([task.polled for task in tasks], engine))[:WAITS]
        wait = index_of(in_turn(m, "wait", select([task.pending for task in tasks], engine), last))
        with m.If(free):
            m.d.sync += [poll.any.eq(wants.any()), poll.engine.eq(engine), poll.wait.eq(wait)]
            for task in tasks:
                with m.If(engine == task.position):
                    m.d.sync += task.polled.eq(wait)
        chosen = Cat(poll.wait, poll.engine)
        asked, asked_choice = Signal(2), [Signal.like(chosen, name=f"asked_{i}") for i in range(2)]
        shortfall = Signal(32)
        m.d.comb += shortfall.eq(self.slack - word)
        m.d.sync += [
            asked.eq(Cat(poll.grant, asked[0])),
            asked_choice[0].eq(chosen),
            asked_choice[1].eq(asked_choice[0]),
        ]
        with m.If(asked[1] & ~shortfall[31]):
            for task in tasks:
                for wait in range(WAITS):
                    with m.If(asked_choice[1] == task.position * WAITS + wait):
                        m.d.sync += task.pending[wait].eq(0)
        return poll

    def _inspected(self, m: Module, tasks: list[_Tasks]) -> "_Inspected":
        """What an inspection reads."""
        choice = _Inspected()
        engine = self.inspect_engine
        loaded, old, head, tail = (select([getattr(task, name) for task in tasks], engine)
                                   for name in ("loaded", "old", "head", "tail"))
        pending = select([task.pending for task in tasks], engine)
        wait = self.inspect_kind == self.INSPECT_WAIT
        for index in reversed(range(WAITS)):
            with m.If(pending[index]):
                m.d.comb += choice.wait.eq(index)
        m.d.comb += [
            choice.slot.eq(Mux(loaded & (self.inspect_kind != self.INSPECT_OLDEST), head, old)),
            choice.word.eq(Mux(wait, HEADER_WORDS - WAITS + choice.wait, ADDRESS_WORD)),
            choice.waits.eq(loaded & pending.any()),
            choice.add_base.eq(wait),
            choice.none.eq((old == tail) | (wait & ~choice.waits)),
        ]
        return choice


class _Poll:
    def __init__(self, engines: int) -> None:
        self.any = Signal(name="poll_any")
        self.wait = Signal(range(WAITS), name="poll_wait")
        self.engine = Signal(range(max(2, engines)), name="poll_engine")
        self.grant = Signal(name="poll_grant")


class _Inspected:
    def __init__(self) -> None:
        self.slot = Signal(_SLOT_BITS, name="inspected_slot")
        self.word = Signal(_WORD_BITS, name="inspected_word")
        self.wait = Signal(range(WAITS), name="inspected_wait")
        self.waits = Signal(name="inspected_waits")
        self.add_base = Signal(name="inspected_add_base")
        self.none = Signal(name="inspected_none")
