"""Dies behind serial lines, one a line, as an array of devices.

::

    SerialDevice -> SerialLine (line.py) -> SystemPort (pyserial) -> host bridge -> registers, window of memory

Memory is reached by its window (:mod:`plinth_hw.isa.window`): neighbouring accesses of one register, or of registers
one behind the other, share requests.
"""

import select
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import serial

from plinth.driver.device import Words
from plinth.driver.line import BAUD, LineError, Port, Request, SerialLine
from plinth_hw.isa.frames import BYTE_BITS, RequestKind
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.registers import Register, Status
from plinth_hw.isa.window import WindowMemory

#: Seconds after which bytes that cannot be sent are given up.
WRITE_SECONDS = 10.0
#: Seconds between looks at a die that runs: the first, and the most.
FIRST_LOOK, LAST_LOOK = 0.0005, 0.02
_REGISTER_BYTES = 4


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
        """Send bytes over the port.

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
        """Read the bytes that have come; wait for the first of them, up to a time.

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


class SerialDevice:
    """One die behind a serial line, as a :class:`~plinth.driver.device.Device`.

    Parameters
    ----------
    line : SerialLine
    parameters : DieParameters
        Of the die.

    Raises
    ------
    ValueError
        If the die has no memory window.
    """

    def __init__(self, line: SerialLine, parameters: DieParameters) -> None:
        self.line = line
        self._window = WindowMemory(parameters, self.read_registers, self._posted_write)
        self._posted: list[Request] = []

    def read_memory(self, address: int, count: int) -> Words:
        """``count`` words from word address ``address``; a copy."""
        return self._window.read(address, count)

    def write_memory(self, address: int, words: Words) -> None:
        """Store words at word address ``address``; what is wider than a word as its words, low one first."""
        self._window.write(address, words)
        self.flush()

    def read_register(self, address: int) -> int:
        """Value of the register at a byte address."""
        return self.read_registers([address])[0]

    def read_registers(self, addresses: Sequence[int]) -> list[int]:
        """Values of registers at byte addresses, in their order."""
        words = b"".join(self.flush([Request(RequestKind.READ, run.address, count=run.count, fixed=run.fixed)
                                     for run in _runs(addresses, self.line.words)]))
        return np.frombuffer(words, "<u4").tolist()

    def write_register(self, address: int, value: int) -> None:
        """Write the register at a byte address, at the latest before the next access of another kind."""
        self._posted_write([(address, value)])

    def cycle(self) -> int:
        """Cycles of the die since its reset."""
        low, high = self.read_registers([Register.CYCLE, Register.CYCLE + _REGISTER_BYTES])
        return low | high << 32

    def flush(self, requests: Sequence[Request] = ()) -> list[bytes]:
        """Have all writes done, and then requests; data of these."""
        posted, self._posted = self._posted, []
        return self.line.exchange([*posted, *requests])[len(posted):]

    def _posted_write(self, writes: Sequence[tuple[int, int]]) -> None:
        values = np.array([value & 0xFFFF_FFFF for _, value in writes], "<u4")
        place = 0
        for run in _runs([address for address, _ in writes], self.line.words):
            self._posted.append(Request(RequestKind.WRITE, run.address, fixed=run.fixed,
                                        data=values[place:place + run.count].tobytes()))
            place += run.count


@dataclass
class _RegisterRun:
    """Registers that one request reaches: all at one address, or each behind the one before."""

    address: int
    fixed: bool
    count: int


def _runs(addresses: Sequence[int], most: int) -> list[_RegisterRun]:
    """Addresses in their order, as few runs of at most so many as will do."""
    runs: list[_RegisterRun] = []
    for address in addresses:
        last = runs[-1] if runs else None
        if last is not None and last.count < most:
            if address == last.address and (last.fixed or last.count == 1):
                last.fixed, last.count = True, last.count + 1
                continue
            if address == last.address + _REGISTER_BYTES * last.count and not last.fixed:
                last.count += 1
                continue
        runs.append(_RegisterRun(address, False, 1))
    return runs


class SerialArray:
    """Dies behind serial lines, as a :class:`~plinth.driver.device.DeviceArray`.

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
        """The number of dies of the array."""
        return len(self._dies)

    @property
    def numbers(self) -> Sequence[int]:
        """Numbers of the dies, which are all here."""
        return range(len(self._dies))

    @property
    def in_step(self) -> bool:
        """False: boards run on between calls."""
        return False

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

    def meet(self, told: Any = None) -> list[Any]:
        """There are no other processes to meet."""
        return [told]

    def close(self) -> None:
        """Give the ports back."""
        for die in self._dies:
            die.line.port.close()
