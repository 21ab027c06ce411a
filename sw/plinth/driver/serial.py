"""Dies behind serial lines, one a line, as an array of devices.

::

    SerialDevice -> SerialLine (line.py) -> SystemPort (pyserial) -> host bridge -> registers, window of memory

Memory is reached through registers WINDOW_ADDRESS and WINDOW_DATA: an access is one write and as many frames as the
words need.
"""

import select
import time
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import serial

from plinth.driver.device import Words
from plinth.driver.line import LineError, Port, Request, SerialLine
from plinth_hw.isa.formats import as_words, word_type
from plinth_hw.isa.frames import BYTE_BITS, Operation
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.registers import Register, Status

#: Rate of a line that nobody asked for another one.
BAUD = 3_000_000
#: Seconds after which bytes that cannot be sent are given up.
WRITE_SECONDS = 10.0
#: Seconds between looks at a die that runs: the first, and the most.
FIRST_LOOK, LAST_LOOK = 0.0005, 0.02
_UNIT_BYTES = 4


class SystemPort:
    """A serial port of the system, for this process alone; a :class:`~plinth.driver.line.Port`.

    Raises
    ------
    LineError
        If it does not exist, is busy, or cannot be used.
    """

    def __init__(self, name: str, baud: int = BAUD) -> None:
        self.name, self.byte_seconds = name, BYTE_BITS / baud
        try:
            self._port = serial.Serial(name, baud, timeout=0, write_timeout=WRITE_SECONDS, exclusive=True)
        except (OSError, ValueError) as error:
            raise LineError(f"{name}: {_why(error)}") from error

    def write(self, line: bytes) -> None:
        """Send bytes.

        Raises
        ------
        LineError
            If the line is cut, or takes none for too long.
        """
        try:
            self._port.write(line)
        except OSError as error:
            raise self._cut(error) from error

    def read(self, seconds: float) -> bytes:
        """Bytes that have come; waits so long for the first of them.

        Raises
        ------
        LineError
            If the line is cut.
        """
        try:
            if not select.select([self._port.fileno()], [], [], seconds)[0]:
                return b""
            return bytes(self._port.read(max(1, self._port.in_waiting)))
        except OSError as error:
            raise self._cut(error) from error

    def close(self) -> None:
        """Give the port back."""
        self._port.close()

    def _cut(self, error: OSError) -> LineError:
        return LineError(f"{self.name}: the line is cut ({error.strerror or error}); check the cable and begin anew")


def _why(error: OSError | ValueError) -> str:
    """Why a port cannot be opened, and the remedy."""
    text = str(error)
    if "lock" in text or "busy" in text.lower():
        return "is busy; end the program that uses it, or name another port"
    if "No such file" in text:
        return "does not exist; connect the board, or name another port"
    if "Permission" in text:
        return "may not be used by you; ask for access, or name another port"
    return f"cannot be used as a serial port ({text}); name another port"


def _read(register: int, count: int = 1) -> Request:
    return Request(Operation.READ, register, count=count)


def _write(register: int, value: int) -> Request:
    return Request(Operation.WRITE, register, data=(value & 0xFFFF_FFFF).to_bytes(_UNIT_BYTES, "little"))


def _parts(units: int, before: int, behind: int, most: int) -> Iterator[tuple[int, int, int]]:
    """Units of 32 bits in runs of at most so many, as start, stop, and which bytes of each are written: all but so many
    of the first unit and of the last one."""
    if units == 1:
        yield 0, 1, 0xF << before & 0xF >> behind
        return
    whole = range(bool(before), units - bool(behind))
    if before:
        yield 0, 1, 0xF << before & 0xF
    for start in whole[::most]:
        yield start, min(start + most, whole.stop), 0xF
    if behind:
        yield units - 1, units, 0xF >> behind


class SerialDevice:
    """One die; see ``plinth.driver.device.Device``.

    Parameters
    ----------
    line : SerialLine
    parameters : DieParameters
        Of the die.
    """

    def __init__(self, line: SerialLine, parameters: DieParameters) -> None:
        self.line = line
        self._type = word_type(parameters.memory_format)
        self._posted: list[Request] = []

    def read_memory(self, address: int, count: int) -> Words:
        """``count`` words from word address ``address``; a copy."""
        first, units, skipped = self._units(address, count)
        requests = [_write(Register.WINDOW_ADDRESS, first)]
        for start in range(0, units, self.line.words):
            requests.append(Request(Operation.READ, Register.WINDOW_DATA, count=min(self.line.words, units - start),
                                    fixed=True))
        found = b"".join(self._ask(requests)[1:]) if count else b""
        return np.frombuffer(found, self._type)[skipped:skipped + count].copy()

    def write_memory(self, address: int, words: Words) -> None:
        """Store words at word address ``address``; what is wider than a word as its words, low one first."""
        flat = as_words(words, self._type)
        if not flat.size:
            return
        first, units, skipped = self._units(address, flat.size)
        size = self._type.itemsize
        padded = np.zeros(units * _UNIT_BYTES // size, self._type)
        padded[skipped:skipped + flat.size] = flat
        line = padded.tobytes()
        behind = len(line) - (skipped + flat.size) * size
        self._ask([_write(Register.WINDOW_ADDRESS, first), *(
            Request(Operation.WRITE, Register.WINDOW_DATA, fixed=True, strobe=strobe,
                    data=line[start * _UNIT_BYTES:stop * _UNIT_BYTES])
            for start, stop, strobe in _parts(units, skipped * size, behind, self.line.words))])

    def read_register(self, address: int) -> int:
        """Value of the register at a byte address."""
        return self.read_registers(address, 1)[0]

    def read_registers(self, address: int, count: int) -> list[int]:
        """Values of neighbouring registers from a byte address on."""
        found = self._ask([_read(address, count)])[0]
        return [int.from_bytes(found[place:place + _UNIT_BYTES], "little")
                for place in range(0, len(found), _UNIT_BYTES)]

    def write_register(self, address: int, value: int) -> None:
        """Write the register at a byte address, at the latest before the next other access."""
        self._posted.append(_write(address, value))

    def cycle(self) -> int:
        """Cycles of the die since its reset."""
        low, high = self.read_registers(Register.CYCLE, 2)
        return low | high << 32

    def _ask(self, requests: Sequence[Request]) -> list[bytes]:
        """Data of the answers to requests, behind all posted writes."""
        posted, self._posted = self._posted, []
        return self.line.exchange([*posted, *requests])[len(posted):]

    def _units(self, address: int, count: int) -> tuple[int, int, int]:
        """Word address of the unit of 32 bits that words begin in, units that they lie in, words before them."""
        words = _UNIT_BYTES // self._type.itemsize
        skipped = address % words
        return address - skipped, -(-(skipped + count) // words), skipped


class SerialArray:
    """Dies behind serial lines; see ``plinth.driver.device.Array``.

    Parameters
    ----------
    parameters : DieParameters
        Of every die.
    ports : iterable of Port
        In order of the dies' numbers.

    Raises
    ------
    LineError
        If a port has no host bridge behind it.
    """

    def __init__(self, parameters: DieParameters, ports: Iterable[Port]) -> None:
        self._dies = [SerialDevice(SerialLine(port), parameters) for port in ports]

    @property
    def size(self) -> int:
        """Number of dies."""
        return len(self._dies)

    @property
    def numbers(self) -> Sequence[int]:
        """Numbers of the dies, which are all here."""
        return range(len(self._dies))

    @property
    def dies(self) -> Sequence[SerialDevice]:
        """The dies, in order of their numbers."""
        return self._dies

    def wait(self, limit_cycles: int, dies: Iterable[int] | None = None) -> int:
        """Look at the dies until each (of ``dies``) has ended its graph, or one reports an error, or so many cycles
        have passed; returns the cycles that were seen to pass.

        Raises
        ------
        LineError
            If a line is cut.
        """
        left = set(self.numbers if dies is None else dies)
        starts = [die.cycle() for die in self._dies]
        passed, pause = 0, FIRST_LOOK
        while left and passed < limit_cycles:
            for number, die in enumerate(self._dies):
                state = die.read_register(Register.STATUS)
                passed = max(passed, die.cycle() - starts[number])
                if state & Status.ERROR:
                    return passed
                if not state & Status.BUSY:
                    left.discard(number)
            if left:
                time.sleep(pause)
                pause = min(2 * pause, LAST_LOOK)
        return passed

    def meet(self) -> None:
        """There are no other processes to meet."""

    def close(self) -> None:
        """Give the ports back."""
        for die in self._dies:
            die.line.port.close()
