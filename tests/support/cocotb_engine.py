"""Drives an engine through its own ports in cocotb: scheduler's side, memory, and flits to a ring.

Every port is looked at once a cycle: inputs change at the falling edge, and what has settled then is what
the next rising edge takes. A pattern (see :mod:`tests.support.amaranth_sim`) says in which cycles a side
offers or accepts.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly
from numpy.typing import NDArray
from tests.support.amaranth_sim import Pattern, always, every, randomly
from tests.support.engine_bench import resolved
from tests.support.graphs import task_header

from plinth.driver.program import NamedDescriptor
from plinth_hw.control.engine import Done
from plinth_hw.isa.descriptors import BODY_WORDS, HEADER_WORDS, WAITS
from plinth_hw.isa.operations import OPERATIONS, ErrorCode
from plinth_hw.isa.parameters import RESET_CYCLES, DieParameters
from plinth_hw.isa.registers import BASE_COUNT
from plinth_hw.isa.tasks import BODIES
from plinth_hw.memory.port import MAX_BEATS

#: Cycles without a completion after which an engine is taken to hang.
PATIENCE_CYCLES = 10_000
#: Idle and backpressure patterns by name: a function of a seed.
PATTERNS: dict[str, Callable[[int], Pattern]] = {
    "always": lambda seed: always(),
    "every third": lambda seed: every(3),
    "half": lambda seed: randomly(seed, 0.5),
    "rarely": lambda seed: randomly(seed, 0.15),
}


class Source:
    """Offers what ``following`` gives, None for nothing yet; a payload holds until it is taken."""

    def __init__(self, dut: Any, name: str, pattern: Pattern, following: Callable[[], int | None]):
        self._valid, self._payload, self._ready = (getattr(dut, f"{name}_{pin}")
                                                   for pin in ("valid", "payload", "ready"))
        self._gate = iter(pattern)
        self._following = following
        self._offered = False
        self._valid.value = 0
        #: What the pin was last set to: each access of a pin takes long.
        self._shown = False

    def drive(self) -> None:
        """Before the settled values are sampled."""
        if next(self._gate) and not self._offered and (payload := self._following()) is not None:
            self._offered = True
            self._payload.value = payload
        if self._shown != self._offered:
            self._shown = self._offered
            self._valid.value = self._shown

    def sample(self) -> None:
        """With the settled values."""
        if self._offered and self._ready.value:
            self._offered = False


class Sink:
    """Gives what it takes to ``take``; checks that valid and payload hold while it stalls.

    ``open`` says whether it may take anything at all.
    """

    def __init__(self, dut: Any, name: str, pattern: Pattern, take: Callable[[int], None],
                 is_open: Callable[[], bool] = lambda: True):
        self._valid, self._payload, self._ready = (getattr(dut, f"{name}_{pin}")
                                                   for pin in ("valid", "payload", "ready"))
        self._name = name
        self._gate = iter(pattern)
        self._take = take
        self._is_open = is_open
        self._accepting = False
        self._held: int | None = None
        self._ready.value = 0

    def drive(self) -> None:
        """Before the settled values are sampled."""
        accepting = next(self._gate) and self._is_open()
        if accepting != self._accepting:
            self._accepting = accepting
            self._ready.value = accepting

    def sample(self) -> None:
        """With the settled values."""
        if not self._valid.value:
            assert self._held is None, f"{self._name}: valid was withdrawn before ready"
            return
        payload = self._payload.value.to_unsigned()
        assert self._held in (None, payload), f"{self._name}: the payload changed before ready"
        self._held = None if self._accepting else payload
        if self._accepting:
            self._take(payload)


class Requests(ABC):
    """What a read and a write port have in common: the stream of requests."""

    def __init__(self, dut: Any, name: str, parameters: DieParameters, memory: NDArray[np.unsignedinteger],
                 pattern: Pattern):
        self.name = name
        self.beats = memory.reshape(-1, parameters.beat_words)
        self.address_bits = parameters.address_bits - (parameters.beat_words - 1).bit_length()
        self.requests = Sink(dut, f"{name}_request", pattern, self._request)

    def _request(self, payload: int) -> None:
        first, beats = payload & ((1 << self.address_bits) - 1), payload >> self.address_bits
        assert 1 <= beats <= MAX_BEATS, f"{self.name}: a request for {beats} beats"
        assert first + beats <= len(self.beats), f"{self.name}: beats {first}+{beats} beyond the memory"
        self.accept(range(first, first + beats))

    @abstractmethod
    def accept(self, beats: range) -> None:
        """A request has been taken."""


class ReadMemory(Requests):
    """Memory behind a read port; a beat is read ``latency`` cycles after its request at the earliest."""

    def __init__(self, dut: Any, name: str, parameters: DieParameters, memory: NDArray[np.unsignedinteger],
                 patterns: Iterator[Pattern], latency: int):
        super().__init__(dut, name, parameters, memory, next(patterns))
        self._latency = latency
        self._cycle = 0
        self._queue: deque[tuple[int, int]] = deque()
        self._data = Source(dut, f"{name}_data", next(patterns), self._following)

    def accept(self, beats: range) -> None:
        """Queue the beats of a request."""
        self._queue.extend((self._cycle + self._latency, beat) for beat in beats)

    def _following(self) -> int | None:
        if not self._queue or self._queue[0][0] > self._cycle:
            return None
        return int.from_bytes(self.beats[self._queue.popleft()[1]].tobytes(), "little")

    def drive(self) -> None:
        """Before the settled values are sampled."""
        self._cycle += 1
        self.requests.drive()
        self._data.drive()

    def sample(self) -> None:
        """With the settled values."""
        self._data.sample()
        self.requests.sample()


class WriteMemory(Requests):
    """Memory behind a write port; a response comes ``latency`` cycles after a request's last beat."""

    def __init__(self, dut: Any, name: str, parameters: DieParameters, memory: NDArray[np.unsignedinteger],
                 patterns: Iterator[Pattern], latency: int):
        super().__init__(dut, name, parameters, memory, next(patterns))
        self._latency = latency
        self._cycle = 0
        self._queue: deque[tuple[int, bool]] = deque()  # beat, last of its request
        self._due: deque[int] = deque()
        self._response = getattr(dut, f"{name}_response")
        self._response.value = self._responds = False
        self._data = Sink(dut, f"{name}_data", next(patterns), self._store, lambda: bool(self._queue))

    def accept(self, beats: range) -> None:
        """Expect the beats of a request."""
        self._queue.extend((beat, beat == beats[-1]) for beat in beats)

    def _store(self, payload: int) -> None:
        (beat, last), words, size = self._queue.popleft(), self.beats.shape[1], self.beats[0].nbytes
        data = np.frombuffer(payload.to_bytes(size + -(-words // 8), "little"), np.uint8)
        strobe = np.unpackbits(data[size:], count=words, bitorder="little").astype(bool)
        self.beats[beat][strobe] = data[:size].view(self.beats.dtype)[strobe]
        if last:
            self._due.append(self._cycle + self._latency)

    def drive(self) -> None:
        """Before the settled values are sampled."""
        self._cycle += 1
        responds = bool(self._due) and self._due[0] <= self._cycle
        if responds:
            self._due.popleft()
        if responds != self._responds:
            self._responds = responds
            self._response.value = responds
        self.requests.drive()
        self._data.drive()

    def sample(self) -> None:
        """With the settled values."""
        self._data.sample()
        self.requests.sample()


class Scheduler:
    """The scheduler's side of an engine: bodies as early as they are taken, a start when the task's waits
    are met, counters that go up with completions. Graphs run one after another."""

    def __init__(self, dut: Any, name: str, graphs: Sequence[Sequence[NamedDescriptor]], patterns: Iterator[Pattern]):
        self._graphs = deque(graphs)
        self._operation = getattr(dut, f"{name}_operation")
        self._strobes = getattr(dut, f"{name}_strobes")
        self._load()
        self._streams = [Source(dut, f"{name}_body", next(patterns), self._body),
                         Source(dut, f"{name}_start", next(patterns), self._start),
                         Sink(dut, f"{name}_done", next(patterns), self._done)]
        self.finished = 0

    def _load(self) -> None:
        self._tasks = self._graphs.popleft()
        self._headers = [task_header(task) for task in self._tasks]
        # All base registers are 0.
        self._bodies = [resolved(BODIES[OPERATIONS[header.engine](header.operation)], task.words[HEADER_WORDS:],
                                 [0] * BASE_COUNT) for task, header in zip(self._tasks, self._headers, strict=True)]
        self._counters: dict[int, int] = {}
        self._sent = self._started = self._ended = 0

    @property
    def ended(self) -> bool:
        """Whether every task of every graph has completed."""
        return not self._graphs and self._ended == len(self._tasks)

    def _body(self) -> int | None:
        task, index = divmod(self._sent, BODY_WORDS)
        if task == len(self._tasks):
            return None
        self._sent += 1
        return index | self._bodies[task][index] << 6 | (index == BODY_WORDS - 1) << 38

    def _start(self) -> int | None:
        header = self._headers[self._started] if self._started < len(self._tasks) else None
        if header is None or self._sent < BODY_WORDS * (self._started + 1):
            return None
        for slot in range(WAITS):
            reached = self._counters.get(header.wait_counter[slot], 0) >= header.wait_value[slot]
            if header.wait_enable >> slot & 1 and not reached:
                return None
        self._started += 1
        self._operation.value = header.operation
        return 0

    def _done(self, payload: int) -> None:
        error = Done.from_bits(payload).error
        name = self._tasks[self._ended].name
        assert error is ErrorCode.NONE, f"{name}: {error}"
        assert self._ended < self._started, "a task ended that had not been started"
        counter = self._headers[self._ended].advance
        self._counters[counter] = self._counters.get(counter, 0) + 1
        self._ended += 1
        self.finished += 1
        if self._ended == len(self._tasks) and self._graphs:
            self._load()

    def drive(self) -> None:
        """Before the settled values are sampled."""
        for stream in self._streams:
            stream.drive()

    def sample(self) -> None:
        """With the settled values."""
        for stream in self._streams:
            stream.sample()
        states = self._strobes.value.to_unsigned() & 0xF
        assert states & (states - 1) == 0, f"strobes of more than one state: {states:#x}"


class Wire:
    """Takes a stream of one instance to another, after at least a cycle; ``depth`` flits find room."""

    def __init__(self, dut: Any, source: str, target: str, patterns: Iterator[Pattern], depth: int):
        self._queue: deque[int] = deque()
        self._ends = [Sink(dut, source, next(patterns), self._queue.append, lambda: len(self._queue) < depth),
                      Source(dut, target, next(patterns),
                             lambda: self._queue.popleft() if self._queue else None)]

    def drive(self) -> None:
        """Before the settled values are sampled."""
        for end in self._ends:
            end.drive()

    def sample(self) -> None:
        """With the settled values."""
        for end in self._ends:
            end.sample()


async def reset(dut: Any) -> None:
    """Start the clock and reset the design."""
    dut.rst.value = 1
    Clock(dut.clk, 10, unit="ns").start()
    await ClockCycles(dut.clk, RESET_CYCLES)
    dut.rst.value = 0


async def run(dut: Any, schedulers: Sequence[Scheduler], others: Sequence[Any]) -> int:
    """Run until the tasks of all schedulers have completed; returns the cycles.

    Raises
    ------
    AssertionError
        If an engine breaks a rule of its ports, reports an error or hangs.
    """
    ports = [*schedulers, *others]
    cycles = finished = finished_at = 0
    while not all(scheduler.ended for scheduler in schedulers):
        await FallingEdge(dut.clk)
        for port in ports:
            port.drive()
        await ReadOnly()
        for port in ports:
            port.sample()
        cycles += 1
        if (now := sum(scheduler.finished for scheduler in schedulers)) != finished:
            finished, finished_at = now, cycles
        assert cycles - finished_at < PATIENCE_CYCLES, f"hangs after {finished} tasks"
    return cycles
