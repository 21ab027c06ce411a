"""Runs lowered programs on an array of devices. Knows no back end: see :mod:`plinth.driver.device`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from plinth.buffers import Buffer
from plinth.driver.device import Device, DeviceArray, Words
from plinth.driver.diagnosis import Diagnosis
from plinth.driver.executor import Piece, check_dies, check_digests, check_piece
from plinth.driver.program import DieGraph, Program, descriptor_words, program_digest
from plinth.driver.statistics import DieStatistics, EngineCounters, TaskRecord
from plinth.driver.wiring import Wiring, wiring_registers
from plinth.errors import UserError
from plinth_hw.isa import layout
from plinth_hw.isa import registers as regs
from plinth_hw.isa.descriptors import RECORD_WORDS, Record
from plinth_hw.isa.formats import Fixed, word_type
from plinth_hw.isa.identity import IDENTITY_REGISTERS, described, differences, identity
from plinth_hw.isa.limits import check_register
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.registers import ControlBits, EngineRegister, Register, Status

Floats = NDArray[np.float32]
Found = TypeVar("Found")

#: Cycles without progress after which a die reports a hang: longer than one waits for the tiles of all others.
WATCHDOG_CYCLES = 2_000_000
#: Cycles after which the driver gives up on a graph that neither ends nor fails.
GRAPH_LIMIT_CYCLES = 200_000_000
#: Looks at its status after which the driver gives up on a die that does not stop.
STOP_LOOKS = 10_000


class DieError(UserError):
    """A die stopped with an error, or hangs; the message names the die, the task and the cause."""


class RemoteDieError(DieError):
    """Dies of this process have ended for an error of another process, which says more of it."""


class Driver:
    """The host's side of one program on one array, an :class:`~plinth.driver.executor.Executor`.

    Of an array whose dies live in several processes each process has a driver of its own dies. All of them run the
    same program, and the same host code: what is asked of a single die is asked where it lives, what is asked of dies
    together by all.

    Dies that have run before, for another driver or another host, are recovered first, as by :meth:`recover`.

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
    links : plinth.array.array.Array, or sequence of (die, port out, die, port in), or None
        How the dies are joined: the array whose links, routes and rates they have, or links alone; default: a ring, as
        :func:`plinth.array.array.ring`.
    verilog_digest : int or None
        VERILOG_DIGEST of the bitstream that the dies are to hold; default: of any.
    lead : int
        How many steps a process may be ahead of another; 0: none begins a step before all have ended the one before.
        A step has no barrier of its own: it writes each place once, and counts on its runner for the rest.

    Raises
    ------
    DieError
        If a device is not a Plinth die of this version, not of the program's parameters, or of other Verilog; does not
        stop; or has run before, where dies live in other processes; or a process of other dies is gone.
    UserError
        If links name dies or ports that there are not, a register cannot hold what it is to hold, other processes run
        another program, or these dies can have no lead.
    """

    def __init__(self, array: DeviceArray, program: Program, *, memory_words: int,
                 watchdog_cycles: int = WATCHDOG_CYCLES, links: Wiring | None = None,
                 verilog_digest: int | None = None, lead: int = 0):
        self.array = array
        self.program = program
        self.cycles = 0
        self._devices: dict[int, Device] = dict(zip(array.numbers, array.dies, strict=True))
        self._epoch: dict[int, dict[int, int]] = {number: {} for number in array.numbers}
        self._written: dict[int, dict[int, int]] = {number: {} for number in array.numbers}
        #: Graphs that have been started and not awaited.
        self._running: dict[int, DieGraph] = {}
        self._diagnosis = Diagnosis(self._devices, self._running, self._written, memory_words, array.size,
                                    program.parameters.engines)
        if array.size != program.dies:
            raise ValueError(f"The program is for {program.dies} dies, not {array.size}")
        try:
            self._wiring = wiring_registers(links, program)
        except ValueError as error:
            raise UserError(f"the dies cannot be set up: {error}; choose another link_rate") from None
        self._memory_words, self._watchdog_cycles = memory_words, watchdog_cycles
        self._verilog_digest = verilog_digest
        self._lead = lead
        #: Steps that were started since all processes met.
        self._ahead = 0
        self._check_lead()
        if not self._has_all:
            self._compare_programs()
        self._set_up()

    @property
    def numbers(self) -> Sequence[int]:
        """Numbers of the dies that live in this process, ascending."""
        return self.array.numbers

    @property
    def _has_all(self) -> bool:
        return len(self._devices) == self.array.size

    def _check_lead(self) -> None:
        """Refuse a lead that dies cannot have: nothing tells when a place, or a counter, is free for the next step."""
        if self._lead < 0:
            raise UserError(f"a lead must be 0 steps or more, not {self._lead}")
        if self._lead and self._has_all:
            raise UserError(f"a lead of {self._lead} steps is for processes, and all dies live in this one, which "
                            "starts and awaits them together; choose 0")
        if self._lead and self.program.tiles_between_dies:
            raise UserError(f"dies cannot lead by {self._lead} steps in this plan: they send each other tiles, which "
                            "in the next step would meet what others are still to read; choose 0, or planner data")

    def _compare_programs(self) -> None:
        """Refuse to run with processes that run another program."""
        check_digests(self.told("program", program_digest(self.program)))

    def _set_up(self) -> None:
        """Registers, routes and descriptors of all dies of this process; then the graph that sets them up."""
        program = self.program
        for number, die in self._devices.items():
            self._identify(number, die)
            if die.read_register(Register.STATUS):
                self._take_back(number)
            for register, value in ((Register.DIE, number), (Register.DIES, program.dies),
                                    (Register.MEMORY_WORDS, self._memory_words),
                                    (Register.WATCHDOG, self._watchdog_cycles), *self._wiring[number]):
                self._write(number, register, value)
            for graphs in filter(None, (program.setup, program.step)):
                die.write_memory(graphs[number].address, descriptor_words(graphs[number].tasks))
        # No die starts before all have been written.
        self.told("set-up")
        if program.setup:
            self.run(program.setup, {})

    def _identify(self, number: int, die: Device) -> None:
        """Refuse a die that is not what the program is for."""
        plain = die.read_register(Register.ID), die.read_register(Register.VERSION)
        if plain != (regs.IDENTITY, regs.ISA_VERSION):
            raise DieError(f"die {number}: identity {plain[0]:#x} version {plain[1]} is not a "
                           f"Plinth die of version {regs.ISA_VERSION}; rebuild the Verilog")
        registers = {register: die.read_register(register) for register in IDENTITY_REGISTERS}
        wanted = identity(self.program.parameters)
        texts = differences(registers, wanted)
        if texts:
            raise DieError(f"die {number} is a {described(registers)}, the plan is for a {described(wanted)}: "
                           f"{', '.join(texts)}; take the bitstream or Verilog of {self.program.parameters.name}, or "
                           f"plan for this die")
        verilog = registers[Register.VERILOG_DIGEST]
        if self._verilog_digest not in (None, verilog):
            raise DieError(f"die {number} was made of Verilog {verilog:08x}, the bitstream of "
                           f"{self._verilog_digest:08x}; load that bitstream, or name the one that is loaded")

    def recover(self) -> None:
        """Bring all dies back after an error, or after the reset of one, without a reset of all.

        All are stopped, then all are cleared and set up anew. Memories keep what they hold, of what was under way any
        part of its results: write the operands of the next graph again, weights and all.

        Raises
        ------
        DieError
            If a die does not stop: its memory does not answer.
        UserError
            If dies live in other processes, which may still send what is of before.
        """
        if not self._has_all:
            raise UserError("dies of other processes cannot be stopped from here; end all processes and begin anew")
        self._stop_all()
        self._set_up()

    def _take_back(self, number: int) -> None:
        """Stop dies that another driver has left: with its update counters tasks would not wait."""
        if not self._has_all:
            raise DieError(f"die {number} has run before, and dies of other processes cannot be stopped from here; "
                           "reset all dies")
        self._stop_all()

    def _stop_all(self) -> None:
        """Stop all dies, then clear them: none runs, and counters are 0."""
        for die in self._devices.values():
            die.write_register(Register.CONTROL, ControlBits.STOP)
        for number, die in self._devices.items():
            if not any(die.read_register(Register.STATUS) & Status.STOPPED for _ in range(STOP_LOOKS)):
                raise DieError(f"die {number} does not stop: its memory owes it an answer; reset the array")
        for die in self._devices.values():
            die.write_register(Register.CONTROL, ControlBits.CLEAR_ERROR)
        self._running.clear()
        for number in self._devices:
            self._epoch[number].clear()
            self._written[number].clear()

    def _write(self, number: int, register: int, value: int) -> None:
        """Write a register unless it holds the value already.

        Raises
        ------
        UserError
            If it cannot hold the value.
        """
        try:
            check_register(register, value, self.program.parameters)
        except ValueError as error:
            raise UserError(f"die {number} cannot be set up: {error}") from None
        written = self._written[number]
        if written.get(register) != value:
            written[register] = value
            self._devices[number].write_register(register, value)

    def rewrite(self, number: int, task: int, word: int, value: int) -> None:
        """Put a value in place of a word of a descriptor: of a task of a die's step graph, until :meth:`recover`."""
        graph = self.program.step[number]
        self.device(number).write_memory(graph.address + task * graph.spacing + word,
                                         np.array([value], dtype=np.uint32).view(self._word_type))

    def device(self, number: int) -> Device:
        """A die of this process.

        Raises
        ------
        UserError
            If there is no such die.
        ValueError
            If it lives in another one.
        """
        check_dies((number,), self.program.dies)
        if number not in self._devices:
            raise ValueError(f"die {number} is none of this process's, which are {sorted(self._devices)}")
        return self._devices[number]

    def step(self, place: int) -> int:
        """Run the training step on the batch at a place of the moving buffers; returns its cycles."""
        self.start(place=place)
        return self.wait()

    def start(self, number: int | None = None, place: int = 0) -> None:
        """Start the training step of one die, or of all of this process, on the batch at a place; see :meth:`wait`.

        Raises
        ------
        ValueError
            If the die lives in another process, or has been started and not awaited.
        """
        bases = {base: first + place * words for base, (first, words) in self.program.moving.items()}
        if number is None:
            self._ahead += 1
        for die in self._devices if number is None else [number]:
            self._start(die, self.program.step[die], bases)

    def run(self, graphs: Sequence[DieGraph], bases: Mapping[int, int]) -> int:
        """Run one graph of every die's on each to its end; returns the cycles it took.

        Raises
        ------
        DieError
            As :meth:`wait`.
        """
        for number in self._devices:
            self._start(number, graphs[number], bases)
        self._ahead = 0
        return self.wait()

    def _start(self, number: int, graph: DieGraph, bases: Mapping[int, int]) -> None:
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
        die.write_register(Register.CONTROL, ControlBits.START)
        self._running[number] = graph

    def wait(self, number: int | None = None) -> int:
        """Await the graph of one die, or of all that were started; returns the cycles until then.

        All together includes the dies of other processes: unless this one may still lead, it ends when every process
        has come to it, with what their dies have sent.

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
            if number is None and not 0 < self._ahead <= self._lead:
                self.told("end of a run")
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
            raise RemoteDieError(f"{error}; {self._diagnosis.waits(numbers)}") from error
        except TimeoutError as error:
            raise DieError(str(error)) from error
        self.cycles += cycles
        states = self._check()
        stuck = [number for number in numbers if not states[number] & Status.DONE]
        if stuck:
            raise DieError(f"die {stuck[0]}: the graph did not end within {cycles} cycles; "
                           f"{self._diagnosis.waits(stuck)}")
        return cycles

    def told(self, point: str, value: Any = None) -> list[Any]:
        """Come to a point of the host's code that all processes come to; what each has told there.

        Raises
        ------
        DieError
            If a die of this process has failed, or been told of another's failure; if another process is gone, does
            not come, or is at another point.
        """
        if self._has_all:
            return [value]
        try:
            told = self.array.meet((point, value))
        except ConnectionError as error:
            raise RemoteDieError(str(error)) from error
        except TimeoutError as error:
            # Who does not come says nothing of it.
            raise DieError(str(error)) from error
        if not self.array.in_step:
            self._check()
        self._ahead = 0
        for other, _ in told:
            if other != point:
                raise DieError(f"processes are at different points of their runs, {point!r} here and {other!r} "
                               "elsewhere; run the same program with the same options in all")
        return [value for _, value in told]

    def _of_all(self, dies: Sequence[int], ask: Callable[[int], Found]) -> list[Found]:
        """What ``ask`` finds for each place of a list of dies, asked where that die lives, in every process."""
        check_dies(dies, self.program.dies)
        own = {place: ask(place) for place, die in enumerate(dies) if die in self._devices}
        answers = {place: value for values in self.told(f"read of {len(dies)}", own)
                   for place, value in values.items()}
        return [answers[place] for place in range(len(dies))]

    def _check(self) -> dict[int, int]:
        """The status of every die of this process; raises ``DieError`` if one has failed."""
        states = {number: die.read_register(Register.STATUS) for number, die in self._devices.items()}
        if any(state & Status.ERROR for state in states.values()):
            text, elsewhere = self._diagnosis.error(states)
            raise RemoteDieError(text) if elsewhere else DieError(text)
        return states

    def collect(self, pieces: Sequence[Piece]) -> list[Words]:
        """Read the words of pieces ``[rows, row_words]`` of any dies. Collective."""
        return self._of_all([die for die, _ in pieces], lambda place: self.read(*pieces[place]))

    def collect_floats(self, pieces: Sequence[Piece]) -> list[Floats]:
        """Read the elements of pieces of any dies as FP32 ``[rows, columns]``. Collective."""
        return self._of_all([die for die, _ in pieces], lambda place: self.read_floats(*pieces[place]))

    def read(self, die: int, buffer: Buffer, place: int = 0) -> Words:
        """Read the words of a buffer of a die of this process as ``[rows, row_words]``."""
        words = np.zeros(buffer.rows * buffer.stride, dtype=self._word_type)
        words[:buffer.words] = self.device(die).read_memory(self._address(buffer, place), buffer.words)
        return words.reshape(buffer.rows, buffer.stride)[:, :buffer.row_words].copy()

    def read_floats(self, die: int, buffer: Buffer, place: int = 0) -> Floats:
        """Read the elements of a buffer of a die of this process as FP32 ``[rows, columns]``."""
        words = self.read(die, buffer, place)
        fmt = self.program.parameters.memory_format
        if isinstance(fmt, Fixed):
            return fmt.decode(words.view(np.int16)[:, :buffer.columns])
        return words.view(np.float16)[:, :buffer.columns].astype(np.float32) if buffer.packed else words.view(
            np.float32)

    @property
    def _word_type(self) -> np.dtype[np.unsignedinteger]:
        return word_type(self.program.parameters.memory_format)

    def write(self, die: int, buffer: Buffer, values: Words, place: int = 0) -> None:
        """Store ``[rows, row_words]`` words; the padding between rows is written as zeros.

        Raises
        ------
        UserError
            If there is no such die, or the words do not fit the buffer.
        """
        check_piece(die, buffer, values, "words")
        padded = np.zeros((buffer.rows, buffer.stride), dtype=self._word_type)
        padded[:, :buffer.row_words] = values
        self.device(die).write_memory(self._address(buffer, place), padded.reshape(-1)[:buffer.words])

    def write_floats(self, die: int, buffer: Buffer, values: Floats, place: int = 0) -> None:
        """Store FP32 ``[rows, columns]``, rounded to the format of the buffer's elements: that of memory, or, of a
        packed one, FP16.

        Raises
        ------
        UserError
            If there is no such die, or the numbers do not fit the buffer.
        """
        check_piece(die, buffer, values, "numbers")
        fmt = self.program.parameters.memory_format
        if isinstance(fmt, Fixed):
            elements: Any = fmt.encode(values).astype(np.int16)
        else:
            elements = np.ascontiguousarray(values, dtype=np.float16 if buffer.packed else np.float32)
        per_word = self._word_type.itemsize // elements.itemsize
        padded = np.zeros((buffer.rows, per_word * buffer.row_words), dtype=elements.dtype)
        padded[:, :buffer.columns] = elements
        self.write(die, buffer, padded.view(self._word_type), place)

    def _address(self, buffer: Buffer, place: int) -> int:
        if buffer.base in self.program.moving:
            first, words = self.program.moving[buffer.base]
            return first + place * words + buffer.address
        return buffer.address

    def records(self, die: int) -> list[TaskRecord]:
        """Read the completion records of the last step of a die."""
        device = self.device(die)
        count = device.read_register(Register.RECORD_COUNT)
        size = self.program.parameters.words_of(RECORD_WORDS)
        words = device.read_memory(self.program.records, size * count).view(np.uint32).reshape(count, RECORD_WORDS)
        records = []
        for row in words:
            record = layout.unpack(Record, row)
            task = self.program.step[die].task_at(record.task)
            records.append(TaskRecord(task.name if task else hex(record.task), record.engine, record.start,
                                      record.end, record.stall_cycles, record.payload_words,
                                      record.useful_macs))
        return records

    def counters(self, die: int) -> dict[Engine, EngineCounters]:
        """Read the performance counters of a die's engines."""
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
        """Read the payload words that a die has sent on each of its ports."""
        device = self.device(die)
        return [device.read_register(regs.LINK_WORDS + 8 * port)
                | device.read_register(regs.LINK_WORDS + 8 * port + 4) << 32
                for port in range(self.program.parameters.ports)]

    def memory_words_moved(self, die: int) -> int:
        """Read how many words of beats a die's memory has read and written."""
        device = self.device(die)
        return sum(device.read_register(register) | device.read_register(register + 4) << 32
                   for register in (Register.WORDS_READ, Register.WORDS_WRITTEN))

    def injected_words(self, die: int) -> int:
        """Read the payload words that a die has sent of its own, those in transit through it apart."""
        device = self.device(die)
        if not self.program.parameters.ports:
            return 0
        return (device.read_register(Register.WORDS_INJECTED)
                | device.read_register(Register.WORDS_INJECTED + 4) << 32)

    def statistics(self) -> list[DieStatistics]:
        """Read what each die has counted, those of other processes too."""
        return self._of_all(range(self.array.size), lambda die: DieStatistics(
            self.counters(die), self.link_words(die), self.injected_words(die), self.records(die)))

    def saturated(self) -> list[dict[str, int]] | None:
        """Read :meth:`saturations` of each die, those of other processes too; None of dies that are not of fixed
        point."""
        if not isinstance(self.program.parameters.multiply_format, Fixed):
            return None
        return self._of_all(range(self.array.size), lambda die: self.saturations(die) or {})

    def saturations(self, die: int) -> dict[str, int] | None:
        """Count on a fixed-point die the sums that matrix tasks stored at an end of the format, and the results of
        other engines that were beyond it; None of other dies."""
        if not isinstance(self.program.parameters.multiply_format, Fixed):
            return None
        device = self.device(die)
        return {name: device.read_register(register) | device.read_register(register + 4) << 32 for name, register in (
            ("sums", Register.SUMS_AT_ENDS), ("results", Register.RESULTS_BEYOND))}

    def clear_counters(self) -> None:
        """Clear performance counters on every die of this process."""
        for die in self._devices.values():
            die.write_register(Register.CONTROL, ControlBits.CLEAR_COUNTERS)
