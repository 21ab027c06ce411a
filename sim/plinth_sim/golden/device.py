"""The golden model as an array of devices: descriptors in, memory images out, no notion of time.

Each die keeps the contract of the scheduler: tasks of one engine run in program order, a task runs when its
waits are met, completion advances counters here and elsewhere. Collectives run when every member of the ring
has reached them. Whatever order that leaves open cannot show in memory, because tasks that touch the same
words are ordered by their waits; a graph without an order that ends is reported as TIMEOUT.
"""

from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth_hw.isa import layout
from plinth_hw.isa import registers as regs
from plinth_hw.isa.parameters import ROW_STATIONARY, DieParameters
from plinth_hw.isa.registers import EngineRegister, Register
from plinth_hw.isa.tasks import (
    BODIES,
    DESCRIPTOR_WORDS,
    HEADER_WORDS,
    OPERATIONS,
    RECORD_WORDS,
    CollectiveBody,
    CollectiveOperation,
    Engine,
    ErrorCode,
    MatrixOperation,
    Pointer,
    Record,
    TaskHeader,
    TransferOperation,
    UpdateOperation,
)
from plinth_sim.golden import collective, convolution, matrix, row_stationary, transfer, vector

Words = NDArray[np.uint32]

CONTROL_START, CONTROL_CLEAR_ERROR, CONTROL_CLEAR_COUNTERS = 1, 2, 4


class _DescriptorError(Exception):
    """A task cannot run."""

    def __init__(self, code: ErrorCode):
        super().__init__(code.name)
        self.code = code


@dataclass(frozen=True)
class _Task:
    address: int
    header: Any
    engine: Engine
    operation: Any
    body: Any


@dataclass(frozen=True)
class _Membership:
    """A row of the group table."""

    members: int
    index: int
    next_die: int


@lru_cache(maxsize=4096)
def _decode(descriptor: bytes) -> tuple[Any, Engine, Any, Any]:
    """Header, engine, operation and body of a descriptor.

    Raises
    ------
    _DescriptorError
        If engine or operation is unknown.
    """
    words = np.frombuffer(descriptor, dtype="<u4")
    header = layout.unpack(TaskHeader, words)
    try:
        engine = Engine(header.engine)
    except ValueError as error:
        raise _DescriptorError(ErrorCode.BAD_ENGINE) from error
    try:
        operation = OPERATIONS[engine](header.operation)
    except ValueError as error:
        raise _DescriptorError(ErrorCode.BAD_OPERATION) from error
    body = words[HEADER_WORDS:]
    return header, engine, operation, body if engine is Engine.VECTOR else layout.unpack(BODIES[operation], body)


@dataclass
class GoldenDevice:
    """One die: its memory, registers and pending tasks."""

    parameters: DieParameters
    memory: Words
    registers: dict[int, int] = field(default_factory=dict)
    counters: list[int] = field(default_factory=list)
    groups: dict[int, _Membership] = field(default_factory=dict)
    queues: dict[Engine, deque[_Task]] = field(default_factory=dict)
    running: bool = False
    done: bool = False

    def read_memory(self, address: int, count: int) -> Words:
        """Copy of ``count`` words from word address ``address``."""
        return self.memory[address:address + count].copy()

    def write_memory(self, address: int, words: Words) -> None:
        """Store words at word address ``address``."""
        self.memory[address:address + len(words)] = words

    def read_register(self, address: int) -> int:
        """Value of a register; those that only hardware has (cycles, stalls) read 0."""
        if address == Register.ID:
            return regs.IDENTITY
        if address == Register.VERSION:
            return regs.ISA_VERSION
        if address == Register.STATUS:
            failed = self.registers.get(Register.ERROR_CODE, 0) != 0
            return int(self.running) | int(self.done) << 1 | int(failed) << 2
        if regs.COUNTERS <= address < regs.COUNTERS + 4 * len(self.counters):
            return self.counters[(address - regs.COUNTERS) // 4]
        return self.registers.get(address, 0)

    def write_register(self, address: int, value: int) -> None:
        """Write a register; CONTROL starts the graph."""
        if address == Register.CONTROL:
            if value & CONTROL_START:
                self.running, self.done = True, False
                self.queues = self._fetch()
        elif regs.COUNTERS <= address < regs.COUNTERS + 4 * len(self.counters):
            self.counters[(address - regs.COUNTERS) // 4] = value
        else:
            self.registers[address] = value

    def fail(self, code: ErrorCode, task: int, info: int = 0) -> None:
        """Sticky error, as the hardware keeps it: the first one stays."""
        if not self.registers.get(Register.ERROR_CODE):
            self.registers[Register.ERROR_CODE] = code.value
            self.registers[Register.ERROR_TASK] = task
            self.registers[Register.ERROR_INFO] = info
        self.running = False

    def _fetch(self) -> dict[Engine, deque[_Task]]:
        queues: dict[Engine, deque[_Task]] = {engine: deque() for engine in Engine}
        address = self.registers.get(Register.TASK_BASE, 0)
        while address + DESCRIPTOR_WORDS <= len(self.memory):
            try:
                task = _Task(address, *_decode(self.memory[address:address + DESCRIPTOR_WORDS].tobytes()))
                if task.engine not in self.parameters.engines:
                    raise _DescriptorError(ErrorCode.BAD_ENGINE)
                used = [counter for index, counter in enumerate(task.header.wait_counter)
                        if task.header.wait_enable >> index & 1]
                used += [task.header.advance] if task.header.advance_enable else []
                if any(counter >= len(self.counters) for counter in used):
                    raise _DescriptorError(ErrorCode.BAD_COUNTER)
            except _DescriptorError as error:
                self.fail(error.code, address)
                return queues
            queues[task.engine].append(task)
            if task.header.last:
                return queues
            address += DESCRIPTOR_WORDS
        self.fail(ErrorCode.BAD_ADDRESS, address)
        return queues

    def ready(self, task: _Task) -> bool:
        """Whether all waits of a task are met."""
        for index in range(4):
            if task.header.wait_enable >> index & 1:
                counter = task.header.wait_counter[index]
                goal = self.registers.get(regs.COUNTER_BASES + 4 * counter, 0) + task.header.wait_value[index]
                if (self.counters[counter] - goal) & 0x80000000:
                    return False
        return True

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
        _DescriptorError
            BAD_ADDRESS if it leaves the memory.
        """
        if address + (rows - 1) * stride + columns > len(self.memory):
            raise _DescriptorError(ErrorCode.BAD_ADDRESS)
        item = self.memory.itemsize
        return np.lib.stride_tricks.as_strided(self.memory[address:], (rows, columns), (stride * item, item))

    def run(self, task: _Task) -> None:
        """Run a task that needs no other die.

        Raises
        ------
        _DescriptorError
            With the error code that the hardware reports.
        """
        try:
            if task.engine is Engine.MATRIX:
                self._multiply(task.operation, task.body)
            elif task.engine is Engine.VECTOR:
                vector.execute(self.memory, task.body, self.bases, beat_words=self.parameters.beat_words,
                               buffer_words=self.parameters.vector_buffer_words,
                               narrow=self.parameters.narrow_format)
            else:
                self.groups[task.body.group] = _Membership(task.body.members, task.body.index,
                                                           task.body.next_die)
        except vector.BadOperandError as error:
            raise _DescriptorError(ErrorCode.BAD_OPERAND) from error
        except IndexError as error:
            raise _DescriptorError(ErrorCode.BAD_ADDRESS) from error

    def _multiply(self, operation: MatrixOperation, body: Any) -> None:
        if (operation is MatrixOperation.ROW_STATIONARY) != (self.parameters.machine == ROW_STATIONARY):
            raise _DescriptorError(ErrorCode.BAD_OPERATION)
        if operation is MatrixOperation.ROW_STATIONARY:
            row_stationary.execute(self.memory, body, self.bases, self.parameters)
            return
        depth = self.parameters.interleave.bit_length() - 1
        if not (body.m and body.n and body.k) or body.interleave_m_log2 > depth:
            raise _DescriptorError(ErrorCode.BAD_OPERAND)
        if operation is MatrixOperation.CONVOLUTION:
            convolution.execute(self.memory, body, self.bases, self.parameters.multiply_format)
            return
        a_shape = (body.k, body.m) if body.transpose_a else (body.m, body.k)
        b_shape = (body.n, body.k) if body.transpose_b else (body.k, body.n)
        a = self._operand(body.a, body.a_stride, *a_shape)
        b = self._operand(body.b, body.b_stride, *b_shape)
        c = self.block(self.address(body.c), body.m, body.n, body.c_stride)
        result = matrix.multiply(self.parameters.multiply_format, a.T if body.transpose_a else a,
                                 b.T if body.transpose_b else b,
                                 np.array(c).view(np.float32) if body.accumulate else None)
        c[...] = result.view(np.uint32)

    def _operand(self, pointer: Pointer, stride: int, rows: int, columns: int) -> NDArray[Any]:
        words = np.array(self.block(self.address(pointer), rows, -(-columns // self.parameters.packing), stride))
        return words.view(matrix.storage(self.parameters.multiply_format))[:, :columns]


class GoldenArray:
    """Dies that run on the golden model.

    Parameters
    ----------
    parameters : DieParameters
        Of every die.
    dies : int
        Number of dies.
    memory_words : int
        Memory of each die.
    """

    def __init__(self, parameters: DieParameters, dies: int, memory_words: int):
        self.parameters = parameters
        self.dies = [GoldenDevice(parameters, np.zeros(memory_words, dtype=np.uint32),
                                  counters=[0] * parameters.counters) for _ in range(dies)]

    def wait(self, limit_cycles: int) -> int:
        """Run all started graphs to their end; returns 0, for there are no cycles here."""
        while self._advance():
            pass
        for die in self.dies:
            if die.running and not any(die.queues.values()):
                die.running, die.done = False, True
        failed = [number for number, die in enumerate(self.dies) if die.read_register(Register.ERROR_CODE)]
        for die in self.dies:
            if die.running and failed:
                die.fail(ErrorCode.REMOTE, 0, failed[0] << 16)
            elif die.running:
                self._hang(die)
        return 0

    def _hang(self, die: GoldenDevice) -> None:
        heads = [queue[0] for queue in die.queues.values() if queue]
        for task in heads:
            for index in range(4):
                counter, value = task.header.wait_counter[index], task.header.wait_value[index]
                goal = die.registers.get(regs.COUNTER_BASES + 4 * counter, 0) + value
                if task.header.wait_enable >> index & 1 and (die.counters[counter] - goal) & 0x80000000:
                    block = regs.ENGINES + regs.ENGINE_SPAN * task.engine.value
                    die.registers[block + EngineRegister.TASK] = task.address
                    die.registers[block + EngineRegister.WAIT_COUNTER] = counter | 1 << 31
                    die.registers[block + EngineRegister.WAIT_VALUE] = goal & 0xFFFFFFFF
                    break
        die.fail(ErrorCode.TIMEOUT, heads[0].address)

    def _advance(self) -> bool:
        """Run what can run once over; whether anything ran."""
        moved = False
        for die in self.dies:
            for engine in Engine:
                while die.running and die.queues[engine] and die.ready(die.queues[engine][0]):
                    task = die.queues[engine][0]
                    if engine is Engine.COLLECTIVE and task.operation is not CollectiveOperation.SET_GROUP:
                        break
                    try:
                        if engine is Engine.TRANSFER:
                            self._transfer(die, task)
                        else:
                            die.run(task)
                    except _DescriptorError as error:
                        die.fail(error.code, task.address, engine.value)
                        break
                    self._complete(die, task)
                    moved = True
        return self._collectives() or moved

    def _open(self, die: GoldenDevice) -> list[_Task]:
        """Collectives that a die has started: as many as it has reduce blocks, one a block, in order."""
        tasks: list[_Task] = []
        blocks: set[int] = set()
        if not die.running:
            return tasks
        for task in list(die.queues[Engine.COLLECTIVE])[:self.parameters.reduce_blocks]:
            block = task.body.message % self.parameters.reduce_blocks
            if task.operation is CollectiveOperation.SET_GROUP or block in blocks or not die.ready(task):
                break
            blocks.add(block)
            tasks.append(task)
        return tasks

    def _collectives(self) -> bool:
        moved = False
        for first in self.dies:
            for task in self._open(first):
                body = task.body
                members, tasks = [first], [task]
                try:
                    if body.group not in first.groups:
                        raise _DescriptorError(ErrorCode.BAD_OPERAND)
                    group = first.groups[body.group]
                    following = group.next_die
                    while len(members) < group.members:
                        member = self.dies[following]
                        match = [other for other in self._open(member)
                                 if (other.body.group, other.body.message) == (body.group, body.message)]
                        if not match:
                            break
                        members.append(member)
                        tasks.append(match[0])
                        following = member.groups[body.group].next_die
                    else:
                        self._reduce(members, tasks)
                        moved = True
                except _DescriptorError as error:
                    first.fail(error.code, task.address, Engine.COLLECTIVE.value)
        return moved

    def _reduce(self, members: list[GoldenDevice], tasks: list[_Task]) -> None:
        body: CollectiveBody = tasks[0].body
        # The chain starts at any member: member 0 of the group comes first.
        order = sorted(range(len(members)), key=lambda place: members[place].groups[body.group].index)
        members, tasks = [members[place] for place in order], [tasks[place] for place in order]
        chunk, update = self.parameters.chunk_words, UpdateOperation(body.update)
        rate = float(np.array([body.rate], dtype=np.uint32).view(np.float32)[0])
        sources: list[Words] = []
        targets: list[Words] = []
        for die, task in zip(members, tasks, strict=True):
            words = task.body.words
            for pointer, found in ((task.body.source, sources), (task.body.destination, targets)):
                address = die.address(pointer)
                if not words or address % self.parameters.beat_words:
                    raise _DescriptorError(ErrorCode.BAD_OPERAND)
                found.append(die.block(address, 1, words, words)[0])
        gradients = [np.array(source).view(np.float32) for source in sources]
        weights = [np.array(target).view(np.float32) for target in targets]
        if tasks[0].operation is CollectiveOperation.ALL_REDUCE:
            results = collective.all_reduce(gradients, weights, rate, chunk, update)
        elif tasks[0].operation is CollectiveOperation.REDUCE_SCATTER:
            results = collective.reduce_scatter(gradients, weights, rate, chunk, update)
        else:
            results = collective.all_gather(gradients, chunk)
        for target, result in zip(targets, results, strict=True):
            target[...] = result.view(np.uint32)
        for die, task in zip(members, tasks, strict=True):
            die.queues[Engine.COLLECTIVE].remove(task)
            self._count(die, task)

    def _transfer(self, die: GoldenDevice, task: _Task) -> None:
        """Move a tile to this or another die.

        Raises
        ------
        _DescriptorError
            If the task is to blame; a tile that does not fit another die's memory is that die's error.
        """
        body = task.body
        own = next(number for number, other in enumerate(self.dies) if other is die)
        arrival = body.arrival if body.arrival_enable else 0
        if (not (body.columns and body.rows and body.planes) or (body.gather and body.scatter)
                or arrival >= self.parameters.counters):
            raise _DescriptorError(ErrorCode.BAD_OPERAND)
        number = body.destination_die if body.remote else own
        if body.remote and number >= min(len(self.dies), die.registers.get(Register.DIES, len(self.dies))):
            raise _DescriptorError(ErrorCode.BAD_DIE)
        other = self.dies[number]
        try:
            transfer.move(die.memory, other.memory, body, die.bases,
                          adds=task.operation is TransferOperation.ADD)
        except vector.BadOperandError as error:
            raise _DescriptorError(ErrorCode.BAD_OPERAND) from error
        except IndexError as error:
            raise _DescriptorError(ErrorCode.BAD_ADDRESS) from error
        except transfer.LandingError as error:
            if other is die:
                raise _DescriptorError(ErrorCode.BAD_ADDRESS) from error
            other.fail(ErrorCode.BAD_PACKET, 0, Engine.TRANSFER.value)
            return
        if body.arrival_enable:
            other.counters[arrival] = (other.counters[arrival] + 1) & 0xFFFFFFFF

    def _complete(self, die: GoldenDevice, task: _Task) -> None:
        die.queues[task.engine].popleft()
        self._count(die, task)

    def _count(self, die: GoldenDevice, task: _Task) -> None:
        """Counters and completion record of a finished task."""
        header = task.header
        if header.advance_enable:
            die.counters[header.advance] = (die.counters[header.advance] + 1) & 0xFFFFFFFF
        if header.remote_enable:
            other = self.dies[header.remote_die]
            other.counters[header.remote_counter] = (other.counters[header.remote_counter] + 1) & 0xFFFFFFFF
        if header.record:
            count = die.registers.get(Register.RECORD_COUNT, 0)
            record = {"task": task.address, "tag": header.tag, "engine": task.engine}
            die.write_memory(die.registers.get(Register.RECORD_BASE, 0) + RECORD_WORDS * count,
                             np.array(layout.pack(Record, record), dtype=np.uint32))
            die.registers[Register.RECORD_COUNT] = count + 1
