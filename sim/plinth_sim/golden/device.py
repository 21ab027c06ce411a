"""A die of the golden model: descriptors in, memory images out, no notion of time.

It keeps the contract of the scheduler: tasks of one engine run in program order, a task runs when its waits are met,
completion advances counters here and elsewhere. :mod:`plinth_sim.golden.array` lets several dies run.
"""

from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth_hw.isa import layout, limits
from plinth_hw.isa import registers as regs
from plinth_hw.isa.descriptors import DESCRIPTOR_WORDS, HEADER_WORDS, RECORD_WORDS, Pointer, Record, TaskHeader
from plinth_hw.isa.formats import as_words
from plinth_hw.isa.identity import IDENTITY_REGISTERS, identity
from plinth_hw.isa.operations import (
    OPERATIONS,
    CollectiveOperation,
    Engine,
    ErrorCode,
    MatrixOperation,
    Traffic,
    TransferOperation,
)
from plinth_hw.isa.parameters import ROW_STATIONARY, DieParameters
from plinth_hw.isa.registers import ControlBits, EngineRegister, ErrorInfo, Register, Status
from plinth_hw.isa.tasks import BODIES
from plinth_hw.isa.update_bodies import ROUTES_SET
from plinth_sim.golden import convolution, matrix, optimiser, row_stationary, transfer, vector
from plinth_sim.golden.blocks import window
from plinth_sim.golden.collective import Member
from plinth_sim.golden.transport import Advance, Failure, Message, PendingArrivals, RingChunks, Tile

Words = NDArray[np.unsignedinteger]

#: What ERROR_INFO says in place of an engine where none is to blame.
SCHEDULER = limits.field_most(ErrorInfo, "engine")


class DescriptorError(Exception):
    """A task cannot run; ``counter``: the one that is to blame, if one is."""

    def __init__(self, code: ErrorCode, counter: int = 0):
        super().__init__(code.name)
        self.code = code
        self.counter = counter


@dataclass(frozen=True)
class FetchedTask:
    """A descriptor and what it says."""

    address: int
    header: Any
    engine: Engine
    operation: Any
    body: Any


@dataclass(frozen=True)
class Membership:
    """A row of the group table."""

    members: int
    index: int
    next_die: int


@lru_cache(maxsize=4096)
def _decode(descriptor: bytes) -> tuple[Any, Engine, Any, Any]:
    """Header, engine, operation and body of a descriptor.

    Raises
    ------
    DescriptorError
        If engine or operation is unknown.
    """
    words = np.frombuffer(descriptor, dtype="<u4")
    header = layout.unpack(TaskHeader, words)
    try:
        engine = Engine(header.engine)
    except ValueError as error:
        raise DescriptorError(ErrorCode.BAD_ENGINE) from error
    try:
        operation = OPERATIONS[engine](header.operation)
    except ValueError as error:
        raise DescriptorError(ErrorCode.BAD_OPERATION) from error
    body = words[HEADER_WORDS:]
    return header, engine, operation, body if engine is Engine.VECTOR else layout.unpack(BODIES[operation], body)


@dataclass
class GoldenDevice:
    """One die: its memory, registers, pending tasks, and what others have sent.

    ``number`` is its own, of ``dies`` in the array.
    """

    number: int
    dies: int
    parameters: DieParameters
    memory: Words
    registers: dict[int, int] = field(default_factory=dict)
    counters: list[int] = field(default_factory=list)
    arrivals: PendingArrivals = field(default_factory=PendingArrivals)
    #: Chunks from the member before, by group and message.
    chunks: dict[tuple[int, int], deque[Words]] = field(default_factory=dict)
    groups: dict[int, Membership] = field(default_factory=dict)
    #: Members of rings under way by the address of their task; None: it has all that it needs.
    members: dict[int, Member | None] = field(default_factory=dict)
    queues: dict[Engine, deque[FetchedTask]] = field(default_factory=dict)
    running: bool = False
    done: bool = False
    stopped: bool = False
    #: An error came while it was running: busy until it is stopped.
    broken: bool = False
    #: As the registers of the same names.
    sums_at_ends: int = 0
    results_beyond: int = 0

    def __post_init__(self) -> None:
        self._identity: dict[int, int] = {int(register): value for register, value in identity(self.parameters).items()}

    def count_beyond(self, ends: int) -> None:
        """So many results were beyond the die's format."""
        self.results_beyond += ends

    def read_memory(self, address: int, count: int) -> Words:
        """Copy of ``count`` words from word address ``address``."""
        return self.memory[address:address + count].copy()

    def write_memory(self, address: int, words: Words) -> None:
        """Store words at word address ``address``; what is wider than a word as its words, low one first."""
        words = as_words(words, self.memory.dtype)
        self.memory[address:address + len(words)] = words

    def read_register(self, address: int) -> int:
        """Value of a register; those that only hardware has (cycles, stalls) read 0."""
        if address == Register.ID:
            return regs.IDENTITY
        if address == Register.VERSION:
            return regs.ISA_VERSION
        if address in IDENTITY_REGISTERS:
            return self._identity[address]
        if address == Register.WINDOW_DATA and self.parameters.has_window:
            (word,) = self.memory[self._window()].view(np.uint32)
            return int(word)
        if address == Register.STATUS:
            flags = ((self.running or self.broken, Status.BUSY), (self.done, Status.DONE), (self.failed, Status.ERROR),
                     (self.stopped, Status.STOPPED))
            return sum(bit.value for flag, bit in flags if flag)
        if regs.COUNTERS <= address < regs.COUNTERS + 4 * len(self.counters):
            return self.counters[(address - regs.COUNTERS) // 4]
        for register, counter in ((Register.SUMS_AT_ENDS, self.sums_at_ends),
                                  (Register.RESULTS_BEYOND, self.results_beyond)):
            if register <= address < register + 8:
                return counter >> 8 * (address - register) & 0xFFFFFFFF
        return self.registers.get(address, limits.reset_value(address, self.parameters))

    def write_register(self, address: int, value: int) -> None:
        """Write a register; CONTROL starts the graph, and stops it.

        Raises
        ------
        ValueError
            If the register cannot hold the value.
        """
        routes = regs.ARRAYS["ROUTES"]
        if address in routes:
            if routes.number(address) >= self.known_dies or value > limits.register_most(address, self.parameters):
                self.fail(ErrorCode.BAD_ROUTE, 0, SCHEDULER, die=routes.number(address))
            else:
                self.registers[address] = value
            return
        limits.check_register(address, value, self.parameters)
        if address == Register.WINDOW_DATA and self.parameters.has_window:
            self.memory[self._window()] = as_words(np.array([value], dtype=np.uint32), self.memory.dtype)
            return
        if address == Register.CONTROL:
            if value & ControlBits.CLEAR_COUNTERS:
                self.sums_at_ends = self.results_beyond = 0
            busy, stopped = self.running or self.broken, self.stopped
            if value & ControlBits.START and not (busy or self.failed or stopped):
                self.running, self.done = True, False
                self._forget("ENGINES")
                self.queues = self._fetch()
            if value & ControlBits.CLEAR_ERROR and not busy:
                self.stopped = False
                for register in (Register.ERROR_CODE, Register.ERROR_TASK, Register.ERROR_INFO):
                    self.registers.pop(register, None)
            if value & ControlBits.STOP and not stopped:
                self._stop()
        elif regs.COUNTERS <= address < regs.COUNTERS + 4 * len(self.counters):
            self.counters[(address - regs.COUNTERS) // 4] = value
        else:
            self.registers[address] = value

    def _window(self) -> slice:
        """The words of an access of WINDOW_DATA, which moves on.

        Raises
        ------
        ValueError
            If they are beyond the memory.
        """
        words = self.parameters.words_of(1)
        first = self.registers.get(Register.WINDOW_ADDRESS, 0) // words * words
        if first + words > len(self.memory):
            raise ValueError(f"WINDOW_ADDRESS is {first}, beyond the memory of {len(self.memory)} words")
        self.registers[Register.WINDOW_ADDRESS] = first + words
        return slice(first, first + words)

    def _stop(self) -> None:
        """Throw away all that is under way; counters and their bases become 0, rows of the group table unset."""
        self.running = self.broken = self.done = False
        self.stopped = True
        self.queues.clear()
        self.chunks.clear()
        self.members.clear()
        self.groups.clear()
        self.arrivals = PendingArrivals()
        self.counters = [0] * len(self.counters)
        self._forget("COUNTER_BASES", "ENGINES")
        self.registers.pop(Register.RECORD_COUNT, None)

    def _forget(self, *arrays: str) -> None:
        """Registers of some arrays are as after reset."""
        for register in [register for register in self.registers
                         if any(register in regs.ARRAYS[array] for array in arrays)]:
            del self.registers[register]

    @property
    def failed(self) -> bool:
        """There is a sticky error."""
        return self.registers.get(Register.ERROR_CODE, 0) != 0

    @property
    def known_dies(self) -> int:
        """Register DIES: tasks that name a die from this number on are refused."""
        return self.read_register(Register.DIES)

    def fail(self, code: ErrorCode, task: int, engine: int, *, counter: int = 0, die: int = 0) -> None:
        """Sticky error, as the hardware keeps it: the first one stays. ``engine``, ``counter`` and ``die`` are those of
        ERROR_INFO."""
        if not self.failed:
            self.registers[Register.ERROR_CODE] = code.value
            self.registers[Register.ERROR_TASK] = task
            (self.registers[Register.ERROR_INFO],) = layout.pack(ErrorInfo, {"engine": engine, "counter": counter,
                                                                            "die": die})
        self.broken |= self.running
        self.running = False

    def lose(self, die: int) -> None:
        """A packet for a die that the array does not have finds no route; no task of that is known."""
        self.fail(ErrorCode.NO_ROUTE, 0, SCHEDULER, die=die)

    def _fetch(self) -> dict[Engine, deque[FetchedTask]]:
        queues: dict[Engine, deque[FetchedTask]] = {engine: deque() for engine in Engine}
        address, size = self.registers.get(Register.TASK_BASE, 0), self.parameters.words_of(DESCRIPTOR_WORDS)
        while address + size <= len(self.memory):
            try:
                task = FetchedTask(address, *_decode(self.memory[address:address + size].tobytes()))
                if task.operation not in self.parameters.operations(task.engine):
                    raise DescriptorError(ErrorCode.BAD_OPERATION)
                if task.engine not in self.parameters.engines:
                    raise DescriptorError(ErrorCode.BAD_ENGINE)
                used = [task.header.advance] if task.header.advance_enable else []
                used += [task.header.remote_counter] if task.header.remote_enable else []
                used += [counter for index, counter in enumerate(task.header.wait_counter)
                         if task.header.wait_enable >> index & 1]
                beyond = [counter for counter in used if counter >= len(self.counters)]
                if beyond:
                    raise DescriptorError(ErrorCode.BAD_COUNTER, beyond[0])
                if task.header.remote_enable and task.header.remote_die >= self.known_dies:
                    raise DescriptorError(ErrorCode.BAD_DIE)
            except DescriptorError as error:
                self.fail(error.code, address, int(self.memory[address]) & limits.field_most(TaskHeader, "engine"),
                          counter=error.counter)
                return queues
            queues[task.engine].append(task)
            if task.header.last:
                return queues
            address += size
        self.fail(ErrorCode.BAD_ADDRESS, address, SCHEDULER)
        return queues

    def ready(self, task: FetchedTask) -> bool:
        """Whether all waits of a task are met; what it waits for takes effect if it has arrived."""
        missing: dict[int, int] = {}
        for counter, goal in self.waits(task):
            if (self.counters[counter] - goal) & 0x80000000:
                missing[counter] = max(missing.get(counter, 0), (goal - self.counters[counter]) & 0xFFFFFFFF)
        if not missing:
            return True
        needed = self.arrivals.needed(missing)
        for message in needed:
            self.apply(message)
        return bool(needed)

    def waits(self, task: FetchedTask) -> list[tuple[int, int]]:
        """Counters that a task waits for, and the values that they are to reach."""
        header = task.header
        return [(counter, (self.registers.get(regs.COUNTER_BASES + 4 * counter, 0) + value) & 0xFFFFFFFF)
                for index, (counter, value) in enumerate(zip(header.wait_counter, header.wait_value, strict=True))
                if header.wait_enable >> index & 1]

    def deliver(self, message: Message) -> None:
        """Take what a die, this one or another, has sent to this one; a stopped one throws it away."""
        if self.stopped:
            return
        if isinstance(message, Failure):
            self.fail(ErrorCode.REMOTE, 0, SCHEDULER, die=message.source)
        elif isinstance(message, RingChunks):
            self.chunks.setdefault((message.group, message.message), deque()).append(message.words)
        elif isinstance(message, Tile | Advance):
            if isinstance(message, Tile):
                try:
                    transfer.check(self.memory, message.rows)
                except transfer.ReceiveError:
                    self.fail(ErrorCode.BAD_PACKET, 0, Engine.TRANSFER.value)
                    return
            if message.source == self.number or self.arrivals.take(message):
                self.apply(message)

    def apply(self, message: Tile | Advance) -> None:
        """A tile goes to memory, a counter advances."""
        if isinstance(message, Tile):
            self.count_beyond(transfer.write(self.memory, message.rows, self.parameters.memory_format))
        counter = message.arrival if isinstance(message, Tile) else message.counter
        if counter is not None:
            self.counters[counter] = (self.counters[counter] + 1) & 0xFFFFFFFF

    def settle(self) -> None:
        """What has arrived and nothing has needed takes effect."""
        for message in self.arrivals.rest():
            self.apply(message)

    def tiles(self, task: FetchedTask) -> list[Tile]:
        """What a transfer task sends, to other dies or to this one.

        Raises
        ------
        DescriptorError
            If the task is to blame; a tile that does not fit another die's memory is that die's error.
        """
        body, arrival = task.body, task.body.arrival if task.body.arrival_enable else None
        if (not (body.columns and body.rows and body.planes) or (body.gather and body.scatter)
                or (arrival or 0) >= self.parameters.counters):
            raise DescriptorError(ErrorCode.BAD_OPERAND)
        destination = body.destination_die if body.remote else self.number
        transforms = task.operation in (TransferOperation.TRANSFORM, TransferOperation.TRANSFORM_ADD)
        members = body.members if transforms else 0
        dies = [destination + number * body.member_step for number in range(members)] or [destination]
        if body.remote and dies[-1] >= self.known_dies:
            raise DescriptorError(ErrorCode.BAD_DIE)
        try:
            rows = transfer.rows(task.operation, self.memory, body, self.bases, self.parameters.transforms,
                                 self.parameters.within.flit_words)
            tiles = [Tile(self.number, die, rows.of_member(number) if members else rows, arrival)
                     for number, die in enumerate(dies)]
            for tile in tiles:
                if tile.destination == self.number:
                    transfer.check(self.memory, tile.rows)
        except vector.BadOperandError as error:
            raise DescriptorError(ErrorCode.BAD_OPERAND) from error
        except transfer.CodeError as error:
            raise DescriptorError(ErrorCode.BAD_CODE) from error
        except (IndexError, transfer.ReceiveError) as error:
            raise DescriptorError(ErrorCode.BAD_ADDRESS) from error
        return tiles

    def complete(self, task: FetchedTask) -> Advance | None:
        """Take the first task of its engine off: its counter, its record; what it tells another die."""
        self.queues[task.engine].popleft()
        header = task.header
        if header.advance_enable:
            self.counters[header.advance] = (self.counters[header.advance] + 1) & 0xFFFFFFFF
        if header.record:
            count = self.registers.get(Register.RECORD_COUNT, 0)
            record = {"task": task.address, "tag": header.tag, "engine": task.engine}
            self.write_memory(self.registers.get(Register.RECORD_BASE, 0)
                              + self.parameters.words_of(RECORD_WORDS) * count,
                              np.array(layout.pack(Record, record), dtype=np.uint32))
            self.registers[Register.RECORD_COUNT] = count + 1
        if header.remote_enable:
            return Advance(self.number, header.remote_die, header.remote_counter)
        return None

    def hang(self) -> None:
        """Report a time-out, and what each engine waits for in spite of all that has come."""
        self.settle()
        heads = [queue[0] for queue in self.queues.values() if queue]
        missing: dict[Engine, int] = {}
        for task in heads:
            for counter, goal in self.waits(task):
                if (self.counters[counter] - goal) & 0x80000000:
                    missing[task.engine] = counter
                    block = regs.ENGINES + regs.ENGINE_SPAN * task.engine.value
                    self.registers[block + EngineRegister.TASK] = task.address
                    self.registers[block + EngineRegister.WAIT_COUNTER] = counter | 1 << 31
                    self.registers[block + EngineRegister.WAIT_VALUE] = goal
                    break
        engine = heads[0].engine
        self.fail(ErrorCode.TIMEOUT, heads[0].address, engine.value, counter=missing.get(engine, 0))

    def address(self, pointer: Pointer) -> int:
        """Word address of a descriptor's pointer."""
        return self.bases[pointer.base] + pointer.offset

    @property
    def bases(self) -> list[int]:
        """The base registers."""
        return [self.registers.get(regs.BASES + 4 * base, 0) for base in range(regs.BASE_COUNT)]

    def block(self, address: int, rows: int, columns: int, stride: int) -> Words:
        """View of a strided block.

        Raises
        ------
        DescriptorError
            BAD_ADDRESS if it leaves the memory.
        """
        try:
            return window(self.memory, address, stride, rows, columns)
        except IndexError as error:
            raise DescriptorError(ErrorCode.BAD_ADDRESS) from error

    def run(self, task: FetchedTask) -> None:
        """Run a task that needs no other die.

        Raises
        ------
        DescriptorError
            With the error code that the hardware reports.
        """
        try:
            if task.engine is Engine.MATRIX:
                self.sums_at_ends += matrix.at_ends(
                    self.parameters.multiply_format, self._multiply(task.operation, task.body))
            elif task.engine is Engine.VECTOR:
                self.count_beyond(vector.execute(
                    self.memory, task.body, self.bases, beat_words=self.parameters.beat_words,
                    buffer_words=self.parameters.vector_buffer_words, fmt=self.parameters.memory_format))
            elif task.engine is Engine.OPTIMISER:
                self.count_beyond(optimiser.execute(self.memory, task.operation, task.body, self.bases,
                                                    self.parameters.beat_words))
            elif task.operation is CollectiveOperation.SET_ROUTE:
                self._set_route(task.body)
            else:
                self._set_group(task.body)
        except vector.BadOperandError as error:
            raise DescriptorError(ErrorCode.BAD_OPERAND) from error
        except IndexError as error:
            raise DescriptorError(ErrorCode.BAD_ADDRESS) from error

    def _set_group(self, body: Any) -> None:
        """Rewrite a row of the group table."""
        if body.index >= body.members:
            raise DescriptorError(ErrorCode.BAD_OPERAND)
        if body.members > self.known_dies or body.next_die >= self.known_dies:
            raise DescriptorError(ErrorCode.BAD_DIE)
        self.groups[body.group] = Membership(body.members, body.index, body.next_die)

    def _set_route(self, body: Any) -> None:
        """Check routes; by which way packets go does not show here."""
        if not 0 < body.dies <= ROUTES_SET or not isinstance(body.traffic, Traffic):
            raise DescriptorError(ErrorCode.BAD_OPERAND)
        if body.first_die + body.dies > self.known_dies or max(body.ports[:body.dies]) >= self.parameters.ports:
            raise DescriptorError(ErrorCode.BAD_ROUTE)

    def _multiply(self, operation: MatrixOperation, body: Any) -> NDArray[Any]:
        """Run a matrix task; returns the sums that it stored."""
        fmt = self.parameters.multiply_format
        stored = matrix.stored(fmt)
        if (operation is MatrixOperation.ROW_STATIONARY) != (self.parameters.machine == ROW_STATIONARY):
            raise DescriptorError(ErrorCode.BAD_OPERATION)
        if operation is MatrixOperation.ROW_STATIONARY:
            rows = row_stationary.execute(self.memory, body, self.bases, self.parameters).c
            return self.memory[rows[:, None] + np.arange(body.filters)].view(stored)
        depth = self.parameters.interleave.bit_length() - 1
        if not (body.m and body.n and body.k) or body.interleave_m_log2 > depth:
            raise DescriptorError(ErrorCode.BAD_OPERAND)
        if operation is MatrixOperation.CONVOLUTION:
            rows = convolution.execute(self.memory, body, self.bases, fmt).c
            return self.memory[rows[:, None] + np.arange(body.n)].view(stored)
        a_shape = (body.k, body.m) if body.transpose_a else (body.m, body.k)
        b_shape = (body.n, body.k) if body.transpose_b else (body.k, body.n)
        a = self._operand(body.a, body.a_stride, *a_shape)
        b = self._operand(body.b, body.b_stride, *b_shape)
        c = self.block(self.address(body.c), body.m, body.n, body.c_stride)
        result = matrix.multiply(fmt, a.T if body.transpose_a else a, b.T if body.transpose_b else b,
                                 np.array(c).view(stored) if body.accumulate else None)
        c[...] = result.view(self.memory.dtype)
        return result

    def _operand(self, pointer: Pointer, stride: int, rows: int, columns: int) -> NDArray[Any]:
        words = np.array(self.block(self.address(pointer), rows, -(-columns // self.parameters.packing), stride))
        return words.view(matrix.storage(self.parameters.multiply_format))[:, :columns]
