"""Runs lowered programs on an array of devices. Knows no back end: see :mod:`plinth.driver.device`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plinth.driver.device import Array, Device, Words
from plinth.driver.program import Buffer, Graph, Program, Task, descriptor_words
from plinth.errors import UserError
from plinth.model.array import ring
from plinth.model.routes import Link, routes
from plinth_hw.isa import layout
from plinth_hw.isa import registers as regs
from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.registers import EngineRegister, Register
from plinth_hw.isa.tasks import HEADER_WORDS, RECORD_WORDS, Engine, ErrorCode, Record, TransferBody

Floats = NDArray[np.float32]

#: Cycles without progress after which a die reports a hang: longer than one waits for the tiles of all others.
WATCHDOG_CYCLES = 2_000_000
#: Cycles after which the driver gives up on a graph that neither ends nor fails.
GRAPH_LIMIT_CYCLES = 200_000_000

CONTROL_START, CONTROL_CLEAR_ERROR, CONTROL_CLEAR_COUNTERS = 1, 2, 4
STATUS_DONE, STATUS_ERROR = 2, 4


class DieError(UserError):
    """A die stopped with an error, or hangs; the message names the die, the task and the cause."""


@dataclass(frozen=True)
class EngineCounters:
    """Counters of one engine since they were cleared: cycles, then what was done in them.

    ``first_busy`` and ``last_busy`` are cycle numbers modulo 2^32.
    """

    busy: int
    stall_input: int
    stall_output: int
    stall_memory: int
    words: int
    useful_macs: int
    issued_macs: int
    tasks: int
    first_busy: int
    last_busy: int


@dataclass(frozen=True)
class TaskRecord:
    """One completion record: when a task ran, by the die's own cycle counter."""

    task: str
    engine: Engine
    start: int
    end: int
    stall_cycles: int
    payload_words: int
    useful_macs: int


class Driver:
    """The host's side of one program on one array: of those dies that live in this process.

    Parameters
    ----------
    array : Array
        As many dies as the program has, here and in other processes.
    program : Program
        From :mod:`plinth.lower`.
    memory_words : int
        Memory of each die.
    watchdog_cycles : int
        Cycles without progress after which a die reports a hang.
    links : iterable of (die, port out, die, port in) or None
        How the dies are joined; default: a ring, as :func:`plinth.model.array.ring`.

    Raises
    ------
    DieError
        If a device is not a Plinth die of this version.
    """

    def __init__(self, array: Array, program: Program, *, memory_words: int,
                 watchdog_cycles: int = WATCHDOG_CYCLES, links: Iterable[Link] | None = None):
        self.array = array
        self.program = program
        self.cycles = 0
        self._devices: dict[int, Device] = dict(zip(array.numbers, array.dies, strict=True))
        self._epoch: dict[int, dict[int, int]] = {number: {} for number in array.numbers}
        self._written: dict[int, dict[int, int]] = {number: {} for number in array.numbers}
        #: Graphs that have been started and not awaited.
        self._running: dict[int, Graph] = {}
        if array.size != program.dies:
            raise ValueError(f"The program is for {program.dies} dies, not {array.size}")
        self._memory_words = memory_words
        ports = routes(ring(program.dies).directed() if links is None else links, program.dies)
        rate = program.parameters.link_rate
        for number, die in self._devices.items():
            identity = die.read_register(Register.ID), die.read_register(Register.VERSION)
            if identity != (regs.IDENTITY, regs.ISA_VERSION):
                raise DieError(f"die {number}: identity {identity[0]:#x} version {identity[1]} is not a "
                               f"Plinth die of version {regs.ISA_VERSION}; rebuild the Verilog")
            for register, value in ((Register.DIE, number), (Register.DIES, program.dies),
                                    (Register.MEMORY_WORDS, memory_words),
                                    (Register.WATCHDOG, watchdog_cycles),
                                    (Register.LINK_RATE, rate.numerator | rate.denominator << 8)):
                self._write(number, register, value)
            for other, port in enumerate(ports[number]):
                if port is not None:
                    self._write(number, regs.ROUTES + 4 * other, port)
            for graph in (program.setup[number], program.step[number]):
                die.write_memory(graph.address, descriptor_words(graph.tasks))
        self.run(program.setup, {})

    def _write(self, number: int, register: int, value: int) -> None:
        """Write a register unless it holds the value already."""
        written = self._written[number]
        if written.get(register) != value:
            written[register] = value
            self._devices[number].write_register(register, value & 0xFFFFFFFF)

    def device(self, number: int) -> Device:
        """A die of this process.

        Raises
        ------
        ValueError
            If it lives in another one.
        """
        if number not in self._devices:
            raise ValueError(f"die {number} is none of this process's, which are {sorted(self._devices)}")
        return self._devices[number]

    def step(self, index: int) -> int:
        """Run the training step on the batch at place ``index`` of the moving buffers; returns its cycles."""
        for number in self._devices:
            self.start(number, index)
        return self.wait()

    def start(self, number: int, index: int) -> None:
        """Start the training step of one die, on the batch at place ``index``; see :meth:`wait`.

        Raises
        ------
        ValueError
            If the die lives in another process, or has been started and not awaited.
        """
        bases = {base: first + index * words for base, (first, words) in self.program.moving.items()}
        self._start(number, self.program.step[number], bases)

    def run(self, graphs: Sequence[Graph], bases: Mapping[int, int]) -> int:
        """Run one graph of every die's on each to its end; returns the cycles it took.

        Raises
        ------
        DieError
            As :meth:`wait`.
        """
        for number in self._devices:
            self._start(number, graphs[number], bases)
        return self.wait()

    def _start(self, number: int, graph: Graph, bases: Mapping[int, int]) -> None:
        die, epoch = self.device(number), self._epoch[number]
        if number in self._running:
            raise ValueError(f"die {number} runs graph {self._running[number].name!r}, which nobody has awaited")
        for counter in graph.advances:
            self._write(number, regs.COUNTER_BASES + 4 * counter, epoch.get(counter, 0))
        for base, address in bases.items():
            self._write(number, regs.BASES + 4 * base, address)
        self._write(number, Register.TASK_BASE, graph.address)
        self._write(number, Register.RECORD_BASE, self.program.records)
        die.write_register(Register.RECORD_COUNT, 0)
        die.write_register(Register.CONTROL, CONTROL_START)
        self._running[number] = graph

    def wait(self, number: int | None = None) -> int:
        """Await the graph of one die, or of all that were started; returns the cycles until then.

        Raises
        ------
        DieError
            If a die reports an error, a graph that was awaited does not end, or another process is gone.
        ValueError
            If the die was not started.
        """
        if number is not None and number not in self._running:
            raise ValueError(f"die {number} was not started")
        awaited = list(self._running) if number is None else [number]
        try:
            cycles = self._await(awaited)
        except DieError:
            self._running.clear()
            raise
        for number in awaited:
            for counter, advance in self._running.pop(number).advances.items():
                self._epoch[number][counter] = (self._epoch[number].get(counter, 0) + advance) & 0xFFFFFFFF
        return cycles

    def _await(self, numbers: Sequence[int]) -> int:
        try:
            cycles = self.array.wait(GRAPH_LIMIT_CYCLES, numbers)
        except ConnectionError as error:
            raise DieError(f"{error}; {self._waiting_all(numbers)}") from error
        self.cycles += cycles
        states = {number: die.read_register(Register.STATUS) for number, die in self._devices.items()}
        if any(state & STATUS_ERROR for state in states.values()):
            raise DieError(self._explain_error(states))
        stuck = [number for number in numbers if not states[number] & STATUS_DONE]
        if stuck:
            raise DieError(f"die {stuck[0]}: the graph did not end within {cycles} cycles; {self._waiting_all(stuck)}")
        return cycles

    def _explain_error(self, states: Mapping[int, int]) -> str:
        """The first cause, not the dies that were only told of it."""
        found = []
        for number, state in states.items():
            if state & STATUS_ERROR:
                die = self._devices[number]
                code = ErrorCode(die.read_register(Register.ERROR_CODE))
                address = die.read_register(Register.ERROR_TASK)
                task = self._task_at(number, address)
                name = f"task {task.name!r}" if task else "a task"
                name += f" at word {address:#x}"
                text = f"die {number}: {name} stopped with {code.name}"
                if code is ErrorCode.BAD_PACKET:
                    text = self._explain_packet(number)
                if code is ErrorCode.TIMEOUT:
                    text += f"; {self._waiting_all([number])}"
                if code is ErrorCode.REMOTE:
                    cause = die.read_register(Register.ERROR_INFO) >> 16
                    text = f"die {number} was stopped by an error of die {cause}"
                    if cause not in self._devices:
                        text += ", whose process says more"
                found.append((code is ErrorCode.REMOTE, number, text))
        return min(found)[2]

    def _explain_packet(self, number: int) -> str:
        """A tile from another die does not fit this one's memory: which tasks of which dies may have sent it."""
        text = f"die {number} stopped with {ErrorCode.BAD_PACKET.name}: a tile from another die goes beyond its memory"
        senders = []
        for source, graph in self._running.items():
            names = self._beyond(graph, source, number)
            if names:
                senders.append(f"{', '.join(names)} of die {source}")
        return f"{text}; see {'; '.join(senders)}" if senders else text

    def _beyond(self, graph: Graph, source: int, number: int) -> list[str]:
        """Tasks of die ``source`` whose tiles may end beyond the memory of die ``number``."""
        bases = [self._written[source].get(regs.BASES + 4 * base, 0) for base in range(regs.BASE_COUNT)]
        names = []
        for task in graph.tasks:
            if task.engine is not Engine.TRANSFER:
                continue
            body = layout.unpack(TransferBody, task.words[HEADER_WORDS:])
            end = (bases[body.destination.base] + body.destination.offset + body.columns
                   + (body.planes - 1) * body.destination_plane_stride
                   + (body.rows - 1) * body.destination_row_stride)
            if (body.remote and body.destination_die == number != source
                    and (body.scatter or end > self._memory_words)):
                names.append(repr(task.name))
        return names

    def _task_at(self, number: int, address: int) -> Task | None:
        """The task of a die's graph that is under way, if it is one of it."""
        return self._running[number].task_at(address) if number in self._running else None

    def _waiting_all(self, numbers: Iterable[int]) -> str:
        """What dies wait for, and which processes know more."""
        texts = [text for number in numbers if (text := self._waiting(number))] or ["no engine waits"]
        if len(self._devices) < self.array.size:
            texts.append("other dies live in other processes")
        return "; ".join(texts)

    def _waiting(self, number: int) -> str:
        """Which engine of a die waits for which counter."""
        texts = []
        for engine in Engine:
            block = regs.ENGINES + regs.ENGINE_SPAN * engine.value
            die = self._devices[number]
            wait = die.read_register(block + EngineRegister.WAIT_COUNTER)
            if wait >> 31:
                counter = wait & 0xFF
                task = self._task_at(number, die.read_register(block + EngineRegister.TASK))
                name = task.name if task else "unknown task"
                texts.append(f"{engine.name.lower()} engine of die {number} ({name}) waits for counter "
                             f"{counter} to reach "
                             f"{die.read_register(block + EngineRegister.WAIT_VALUE)}, it is "
                             f"{die.read_register(regs.COUNTERS + 4 * counter)}")
        return "; ".join(texts)

    def read(self, die: int, buffer: Buffer, place: int = 0) -> Words:
        """The words of a buffer as ``[rows, row_words]``."""
        words = np.zeros(buffer.rows * buffer.stride, dtype=np.uint32)
        words[:buffer.words] = self.device(die).read_memory(self._address(buffer, place), buffer.words)
        return words.reshape(buffer.rows, buffer.stride)[:, :buffer.row_words].copy()

    def read_floats(self, die: int, buffer: Buffer, place: int = 0) -> Floats:
        """The elements of a buffer as FP32 ``[rows, columns]``."""
        words = self.read(die, buffer, place)
        if buffer.packed:
            fmt, halves = self.program.parameters.narrow_format, words.view(np.uint16)[:, :buffer.columns]
            if isinstance(fmt, Fixed):
                return fmt.decode(halves.view(np.int16))
            return halves.view(np.float16).astype(np.float32)
        return words.view(np.float32)

    def write(self, die: int, buffer: Buffer, values: Words, place: int = 0) -> None:
        """Store ``[rows, row_words]`` words; the padding between rows is written as zeros."""
        padded = np.zeros((buffer.rows, buffer.stride), dtype=np.uint32)
        padded[:, :buffer.row_words] = values
        self.device(die).write_memory(self._address(buffer, place), padded.reshape(-1)[:buffer.words])

    def write_floats(self, die: int, buffer: Buffer, values: Floats, place: int = 0) -> None:
        """Store FP32 ``[rows, columns]``; a packed buffer takes them rounded to the die's narrow format."""
        if buffer.packed:
            fmt = self.program.parameters.narrow_format
            halves = np.zeros((buffer.rows, 2 * buffer.row_words), dtype=np.uint16)
            narrow = fmt.encode(values).astype(np.int16) if isinstance(fmt, Fixed) else values.astype(np.float16)
            halves[:, :buffer.columns] = narrow.view(np.uint16)
            self.write(die, buffer, halves.view(np.uint32), place)
        else:
            self.write(die, buffer, np.ascontiguousarray(values).view(np.uint32), place)

    def _address(self, buffer: Buffer, place: int) -> int:
        if buffer.base in self.program.moving:
            first, words = self.program.moving[buffer.base]
            return first + place * words + buffer.address
        return buffer.address

    def records(self, die: int) -> list[TaskRecord]:
        """Completion records of the last step."""
        device = self.device(die)
        count = device.read_register(Register.RECORD_COUNT)
        words = device.read_memory(self.program.records, RECORD_WORDS * count).reshape(count, RECORD_WORDS)
        found = []
        for row in words:
            record = layout.unpack(Record, row)
            task = self.program.step[die].task_at(record.task)
            found.append(TaskRecord(task.name if task else hex(record.task), record.engine, record.start,
                                    record.end, record.stall_cycles, record.payload_words,
                                    record.useful_macs))
        return found

    def counters(self, die: int) -> dict[Engine, EngineCounters]:
        """Performance counters of the engines."""
        device = self.device(die)

        def wide(address: int) -> int:
            return device.read_register(address) | device.read_register(address + 4) << 32

        result = {}
        for engine in sorted(self.program.parameters.engines, key=lambda engine: engine.value):
            block = regs.ENGINES + regs.ENGINE_SPAN * engine.value
            result[engine] = EngineCounters(*(wide(block + register) for register in (
                EngineRegister.BUSY, EngineRegister.STALL_INPUT, EngineRegister.STALL_OUTPUT,
                EngineRegister.STALL_MEMORY, EngineRegister.WORDS, EngineRegister.USEFUL_MACS,
                EngineRegister.ISSUED_MACS, EngineRegister.TASKS)),
                *(device.read_register(block + register) for register in (
                    EngineRegister.FIRST_BUSY, EngineRegister.LAST_BUSY)))
        return result

    def link_words(self, die: int) -> list[int]:
        """Payload words sent on each port of a die."""
        device = self.device(die)
        return [device.read_register(regs.LINK_WORDS + 8 * port)
                | device.read_register(regs.LINK_WORDS + 8 * port + 4) << 32
                for port in range(self.program.parameters.ports)]

    def memory_words_moved(self, die: int) -> int:
        """Words of the beats that a die's memory has read and written."""
        device = self.device(die)
        return sum(device.read_register(register) | device.read_register(register + 4) << 32
                   for register in (Register.WORDS_READ, Register.WORDS_WRITTEN))

    def injected_words(self, die: int) -> int:
        """Payload words that a die has sent of its own, those in transit through it apart."""
        device = self.device(die)
        return (device.read_register(Register.WORDS_INJECTED)
                | device.read_register(Register.WORDS_INJECTED + 4) << 32)

    def clear_counters(self) -> None:
        """Clear performance counters on every die of this process."""
        for die in self._devices.values():
            die.write_register(Register.CONTROL, CONTROL_CLEAR_COUNTERS)
