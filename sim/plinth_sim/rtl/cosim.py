"""Compiled co-simulation: N Verilated dies with memories and links, as an array of devices.

The harness (``harness.cpp``) is compiled with the Verilated die into one shared library; Python moves
memory without copies (each die's memory is a numpy array that the harness works on), queues register
accesses and asks for runs. Time stands still between calls. Results, cycle counts included, depend neither on the
number of threads nor on that of the processes that share the dies (:mod:`plinth_sim.rtl.remote_links`).
"""

import ctypes
import os
import time
import uuid
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plinth_hw.isa.formats import as_words, word_type
from plinth_hw.isa.frames import BYTE_BITS, BridgeParameters
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.registers import Register
from plinth_hw.isa.window import WindowMemory
from plinth_sim.rtl import pins, verilator
from plinth_sim.rtl.elaborate import die_verilog, module_name
from plinth_sim.rtl.power_up import PowerUp, without_initial_values
from plinth_sim.rtl.remote_links import Agreed, Aim, Lockstep, RemoteLinks

Words = npt.NDArray[np.unsignedinteger]
#: A link: (die, its output port, other die, its input port), and its own latency where it has one.
Link = tuple[int, int, int, int] | tuple[int, int, int, int, int]

#: Cycles between looks at pending signals (Ctrl-C).
SLICE_CYCLES = 100_000
_HARNESS = Path(__file__).with_name("harness.cpp")
_HEADERS = ("crew.h", "memory_model.h", "pins.h", "register_master.h", "remote.h", "serial_line.h", "wires.h")
#: ``Until`` of harness.cpp.
_UNTIL = {Aim.RUN: 0, Aim.WAIT: 1, Aim.ACCESS: 2}
#: ``ELSEWHERE`` of harness.cpp.
_ELSEWHERE = (1 << 32) - 1


class CosimError(Exception):
    """The die broke a protocol (AXI4, AXI4-Lite), or answered a register access with an error."""


@dataclass(frozen=True)
class Waves:
    """A window of one die's signals, written as VCD."""

    die: int
    #: First cycle, and the cycle after the last.
    start: int
    stop: int
    path: Path

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop:
            raise ValueError(f"waves need 0 <= start < stop, not start = {self.start}, stop = {self.stop}")


@dataclass(frozen=True)
class Faults:
    """What goes wrong on the wires of links with a link layer, each time at random: on each link by its own draw from
    ``seed``.

    Raises
    ------
    ValueError
        If a probability is not from 0 to 1, or a length not positive.
    """

    seed: int = 0
    #: Probability that a bit is flipped.
    flip: float = 0.0
    #: Probabilities, in each cycle, that up to ``burst_bits`` neighbouring wires are at random; that what is on the
    #: wires is lost; that what was there a cycle before comes again; that a wire is stuck for up to ``stuck_cycles``.
    burst: float = 0.0
    lose: float = 0.0
    repeat: float = 0.0
    stick: float = 0.0
    burst_bits: int = 24
    stuck_cycles: int = 100

    def __post_init__(self) -> None:
        for name in ("flip", "burst", "lose", "repeat", "stick"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be a probability from 0 to 1, not {getattr(self, name)!r}")
        for name in ("burst_bits", "stuck_cycles"):
            if not 0 < getattr(self, name) < 1 << 32:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)!r}")


class _Faults(ctypes.Structure):
    """``Faults`` of wires.h."""

    _fields_ = [("seed", ctypes.c_uint64),
                *((name, ctypes.c_double) for name in ("flip", "burst", "lose", "repeat", "stick")),
                ("burst_bits", ctypes.c_uint32), ("stuck_cycles", ctypes.c_uint32)]


class _Config(ctypes.Structure):
    """``Config`` of harness.cpp."""

    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("dies", "threads", "unrest", "epoch", "link_count",
                                               "peer_count")),
        *((name, ctypes.c_void_p) for name in ("numbers", "links", "faults", "memories")),
        ("memory_words", ctypes.c_uint64),
        *((name, ctypes.c_uint32) for name in ("read_latency", "write_latency", "rate_numerator",
                                               "rate_denominator", "outstanding", "status_register",
                                               "settle", "bit_numerator", "bit_denominator", "wave_die")),
        ("wave_start", ctypes.c_uint64), ("wave_stop", ctypes.c_uint64), ("wave_path", ctypes.c_char_p),
        ("power_up", ctypes.c_uint32), ("power_up_seed", ctypes.c_uint32),
    ]


def ring(dies: int) -> list[tuple[int, int, int, int]]:
    """Links of a ring: port 0 leads to the next die's port 1, port 1 to the previous die's port 0."""
    if dies < 2:
        return []
    return ([(die, 0, (die + 1) % dies, 1) for die in range(dies)]
            + [(die, 1, (die - 1) % dies, 0) for die in range(dies)])


#: Variable that names a folder, into which each array then writes what of its dies' Verilog has run.
COVERAGE = "PLINTH_COVERAGE"


def build(verilog: Mapping[str, str], top: str, *, trace: bool = False, compile_flags: Sequence[str] = (),
          flags: Sequence[str] = verilator.FAST_FLAGS) -> Path:
    """The harness compiled with a die (cached), with tracing and with further flags for the compiler on demand, or
    other flags for Verilator; where :data:`COVERAGE` is set, with counts of what runs.

    Raises
    ------
    SimulatorError
        If a tool is missing or fails.
    ValueError
        If the die lacks a port that the harness needs.
    """
    headers = {name: _HARNESS.with_name(name).read_text() for name in _HEADERS}
    coverage = COVERAGE in os.environ
    headers["ports.h"] = pins.accessors(pins.module_ports("\n".join(verilog.values()), top))
    return verilator.build_library(verilog, top, cpp=[_HARNESS], headers=headers, trace=trace,
                                   coverage=coverage, compile_flags=compile_flags, flags=flags)


def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    u32, u64, array = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p
    for name, result, arguments in (
            ("plinth_new", array, [ctypes.POINTER(_Config)]), ("plinth_free", None, [array]),
            ("plinth_run", ctypes.c_int, [array, u64, u32]), ("plinth_arm", None, [array, ctypes.c_char_p]),
            ("plinth_now", u64, [array]), ("plinth_finished_at", u64, [array, u32]),
            ("plinth_failed", ctypes.c_int, [array, u32]), ("plinth_fault", ctypes.c_char_p, [array]),
            ("plinth_peer_puts", u64, [array, u32]), ("plinth_peer_takes", u64, [array, u32]),
            ("plinth_peer_buffers", None, [array, u32, array, array]), ("plinth_join", None, [array, array]),
            ("plinth_leave", None, [array]), ("plinth_moves", u64, [array]),
            ("plinth_asleep", ctypes.c_double, [array]),
            ("plinth_reset", None, [array, u32]), ("plinth_cover", None, [array, u32, ctypes.c_char_p]),
            ("plinth_access", None, [array, u32, ctypes.c_int, u32, u32]),
            ("plinth_answer", ctypes.c_int, [array, u32, ctypes.POINTER(u32), ctypes.POINTER(u32)]),
            ("plinth_serial_send", None, [array, u32, ctypes.c_char_p, u64]),
            ("plinth_serial_take", u64, [array, u32, ctypes.c_char_p, u64]),
            ("plinth_serial_quiet", ctypes.c_int, [array, u32]),
            ("plinth_bare", ctypes.c_double, [ctypes.POINTER(_Config), u64])):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class _Ran(NamedTuple):
    """What a slice of a run has done: whether it was what its caller asked for, and then, its cycles, and whether what
    they were to end for holds."""

    served: bool
    cycles: int
    met: bool


class CosimDevice:
    """One die of a :class:`CosimArray`; see ``plinth.driver.device.Device``.

    Members: ``memory``, the memory behind the die's AXI4 ports as a numpy array, shared with the simulation; words at
    addresses on the chip are not used.
    """

    def __init__(self, array: "CosimArray", die: int, memory: Words, memory_words: int):
        self._array = array
        self._die = die
        self._memory_words = memory_words
        self._chip_words = array.parameters.block_ram_words
        self.memory = memory
        if self._chip_words:
            self._window = WindowMemory(array.parameters, lambda addresses: array.read_registers(die, addresses),
                                        self._write_registers)

    def _on_chip(self, address: int, count: int) -> int:
        """Of so many words, those on the chip, which come first."""
        if address < 0 or count < 0 or address + count > self._memory_words:
            raise ValueError(f"words {address} to {address + count} are outside die {self._die}'s memory of "
                             f"{self._memory_words} words")
        return max(0, min(count, self._chip_words - address))

    def read_memory(self, address: int, count: int) -> Words:
        """``count`` words from word address ``address``; a copy. Words on the chip are read by registers, which takes
        the array some 10 cycles for 32 bits."""
        chip = self._on_chip(address, count)
        rest = self.memory[address + chip:address + count]
        return np.concatenate([self._window.read(address, chip), rest]) if chip else rest.copy()

    def write_memory(self, address: int, words: Words) -> None:
        """Store words at word address ``address``; what is wider than a word as its words, low one first. Words on the
        chip are written by registers, and the array runs until they are."""
        flat = as_words(words, self.memory.dtype)
        chip = self._on_chip(address, flat.size)
        if chip:
            self._window.write(address, flat[:chip])
            self._array.read_registers(self._die, [])
        self.memory[address + chip:address + flat.size] = flat[chip:]

    def _write_registers(self, writes: Iterable[tuple[int, int]]) -> None:
        for address, value in writes:
            self.write_register(address, value)

    def read_register(self, address: int) -> int:
        """Value of the register at a byte address; runs the array until the die has answered."""
        return self._array.read_registers(self._die, [address])[0]

    def write_register(self, address: int, value: int) -> None:
        """Queue a register write; it is played when the array runs next."""
        self._array.queue_write(self._die, address, value)


def default_threads() -> int:
    """Threads of a simulation that are not asked for: ``PLINTH_THREADS``, else as many as there are processors.

    Raises
    ------
    SimulatorError
        If the variable holds something else than a number from 1 on.
    """
    wanted = os.environ.get("PLINTH_THREADS", "")
    if not wanted:
        return len(os.sched_getaffinity(0))
    if not (wanted.isascii() and wanted.isdecimal() and 0 < int(wanted) <= 1024):
        raise verilator.SimulatorError(f"PLINTH_THREADS is {wanted!r}",
                                       "set it to a number from 1 to 1024, or unset it")
    return int(wanted)


class CosimArray:
    """N dies, their memories and the links between them; of dies shared with other processes, those of this one.

    Parameters
    ----------
    parameters : DieParameters
        Of every die.
    dies : int
        Number of dies, those of other processes too.
    memory_words : int
        Memory of each die, on the chip and behind AXI4 ports together; pages that are never touched cost nothing.
    links : iterable of (die, port out, die, port in) or (die, port out, die, port in, latency), or None
        Default: a ring.
    memory_latency, write_latency : int
        Cycles from an accepted read to its first beat; from a burst's last write to its response.
    memory_rate : Fraction or None
        Words a cycle, reads and writes together; default from ``parameters``.
    link_latency : int
        Cycles from a die's pins to the other's, for flits and for credits, of links without a latency of their
        own.
    faults : Faults or None
        What goes wrong on the links.
    outstanding : int
        Bursts that each AXI4 port takes before the first is answered, reads and writes each.
    threads : int or None
        At most one a die; default: ``PLINTH_THREADS``, else as many as there are processors.
    unrest : int
        For tests: unless it is 0, threads sit out of meetings and swap dies, another choice for every number.
    verilog : mapping of file name to text, or None
        The die; default: elaborated from ``parameters`` (cached).
    top : str or None
        Its top module.
    waves : Waves or None
        Makes a build with tracing.
    bridge : BridgeParameters or None
        Of a host bridge in front of each die, if it has one: bytes of its line go through :meth:`send_bytes` and
        :meth:`take_bytes`, and there are no other accesses of registers, :meth:`wait` among them.
    power_up : PowerUp or None
        What registers and memories of the dies hold before reset; default: their initial values, in a faster build.
    lockstep : Lockstep or None
        The way to the dies of other processes, which says whose they are; every process makes an array of the same
        arguments. Default: all dies live in this one. ``threads`` and ``waves`` are this process's; ``waves`` of a die
        that lives in another have no effect.

    Raises
    ------
    SimulatorError
        If the build fails, or ``PLINTH_THREADS`` is no number.
    ValueError
        If a size or a link is impossible, a die without AXI4 ports has less memory, there are faults on links that
        have no link layer, or processes do not own each die once, or have dies with host bridges.
    """

    def __init__(self, parameters: DieParameters, dies: int, memory_words: int, *,
                 links: Iterable[Link] | None = None, memory_latency: int = 50, write_latency: int = 20,
                 memory_rate: Fraction | None = None, link_latency: int = 5,
                 faults: Faults | None = None, outstanding: int = 64,
                 threads: int | None = None, unrest: int = 0,
                 verilog: Mapping[str, str] | None = None, top: str | None = None, waves: Waves | None = None,
                 bridge: BridgeParameters | None = None, power_up: PowerUp | None = None,
                 lockstep: Lockstep | None = None):
        links = ring(dies) if links is None else list(links)
        rate = Fraction(parameters.memory_words_per_cycle if memory_rate is None else memory_rate)
        for name, value in (("dies", dies), ("memory_words", memory_words), ("memory_rate", rate),
                            ("memory_latency", memory_latency), ("link_latency", link_latency),
                            ("outstanding", outstanding), ("threads", 1 if threads is None else threads)):
            if value <= 0:
                raise ValueError(f"{name} must be positive, not {value!r}")
        if memory_words > parameters.most_memory_words:
            raise ValueError(f"memory_words must be at most the {parameters.most_memory_words} words on the chip of "
                             f"{parameters.name}, not {memory_words}")
        links = [link if len(link) == 5 else (*link, link_latency) for link in links]
        _check_links(links, dies, parameters.ports)
        if waves and not waves.die < dies:
            raise ValueError(f"waves.die must be below dies = {dies}, not {waves.die}")
        if faults and not parameters.link_phits:
            raise ValueError(f"links of {parameters.name} have no link layer: a fault would be a wrong word; choose "
                             "link_phits from 1 on")
        processes = [list(range(dies))] if lockstep is None else [sorted(own) for own in lockstep.processes]
        if sorted(die for own in processes for die in own) != list(range(dies)) or not all(processes):
            raise ValueError(f"Processes must own dies 0 to {dies - 1}, each die once and each process at least one, "
                             f"not {processes!r}")
        if lockstep is not None and bridge is not None:
            raise ValueError("dies with host bridges must all live in one process")
        self._size, self._numbers = dies, processes[lockstep.own if lockstep else 0]
        if waves and waves.die not in self._numbers:
            waves = None
        if verilog is None:
            verilog = die_verilog(parameters, bridge=bridge)
        flags = verilator.FAST_FLAGS
        if power_up is not None:
            verilog, flags = without_initial_values(verilog), power_up.FLAGS
        library = build(verilog, top or module_name(parameters, bridge), trace=waves is not None, flags=flags)
        self.parameters = parameters
        self.bridge = bridge
        self.threads = min(len(self._numbers), threads or default_threads())
        self._seconds = 0.0
        self._handle: int | None = None
        self._library, self._build = _load(library), library.parent.name
        outside = memory_words if parameters.axi_ports else 0
        memories = [np.zeros(outside, dtype=word_type(parameters.memory_format)) for _ in self._numbers]
        self._queued: dict[int, deque[int]] = {die: deque() for die in self._numbers}
        #: Accesses that the harness does not have yet: (die, is a write, address, value).
        self._held: list[tuple[int, bool, int, int]] = []
        pointers = (ctypes.c_void_p * len(memories))(*(memory.ctypes.data for memory in memories))
        numbers = (ctypes.c_uint32 * len(memories))(*self._numbers)
        # What dies send within an epoch arrives after it.
        epoch = min((link[-1] for link in links), default=link_latency)
        own_links = _own_links(links, processes, lockstep.own if lockstep else 0)
        flat = (ctypes.c_uint32 * max(1, 6 * len(own_links)))(*(value for link in own_links.values() for value in link))
        noise = (_Faults * len(own_links))(*(
            _Faults(number << 32 ^ faults.seed, faults.flip, faults.burst, faults.lose, faults.repeat, faults.stick,
                    faults.burst_bits, faults.stuck_cycles)
            for number in own_links)) if faults else None
        # The harness counts units of 32 bits.
        per_unit = parameters.words_of(1)
        unit_rate = rate / per_unit
        if waves:
            waves.path.parent.mkdir(parents=True, exist_ok=True)
        self._config = _Config(
            len(memories), self.threads, unrest, epoch, len(own_links), len(processes) - 1,
            ctypes.addressof(numbers), ctypes.addressof(flat),
            None if noise is None else ctypes.addressof(noise), ctypes.addressof(pointers),
            outside // per_unit, memory_latency, write_latency, unit_rate.numerator, unit_rate.denominator,
            outstanding,
            Register.STATUS, 64 + 32 * dies, *Fraction(bridge.cycles_per_bit if bridge else 1).as_integer_ratio(),
            self._numbers.index(waves.die) if waves else 0, waves.start if waves else 0,
            waves.stop if waves else 0, str(waves.path).encode() if waves else None,
            *(power_up.state if power_up else (0, 0)))
        # The structure holds plain addresses: keep what they point to.
        self._pointees = (numbers, flat, noise, pointers)
        self._remote: RemoteLinks | None = None
        self._handle = self._library.plinth_new(ctypes.byref(self._config))
        if lockstep is not None and len(processes) > 1:
            self._remote = RemoteLinks(self._library, self._open(), lockstep)
        self._indices = {die: index for index, die in enumerate(self._numbers)}
        self._dies = [CosimDevice(self, die, memory, memory_words)
                      for die, memory in zip(self._numbers, memories, strict=True)]

    @property
    def size(self) -> int:
        """Number of dies, those of other processes too."""
        return self._size

    @property
    def numbers(self) -> Sequence[int]:
        """Numbers of the dies that live in this process, ascending."""
        return self._numbers

    @property
    def in_step(self) -> bool:
        """All dies run in one time, which stands still between calls."""
        return True

    def meet(self, told: Any = None) -> list[Any]:
        """What each process has told, in their order, once all have come; takes no simulated time.

        Raises
        ------
        ConnectionError, TimeoutError
            If another process is gone, or does not come.
        """
        if self._remote is None:
            return [told]
        while not self._slice(Aim.MEET, 0).served:
            pass
        return self._remote.meet(told)

    @property
    def dies(self) -> Sequence[CosimDevice]:
        """The dies of ``numbers``, in their order."""
        return self._dies

    @property
    def cycle(self) -> int:
        """Cycles since reset."""
        return int(self._library.plinth_now(self._open()))

    def close(self) -> None:
        """Free the dies and close the waves."""
        if self._handle is not None:
            if folder := os.environ.get(COVERAGE):
                for index in range(len(self._numbers)):
                    name = f"{self._build}-{uuid.uuid4().hex}.dat"
                    self._library.plinth_cover(self._handle, index, str(Path(folder) / name).encode())
            self._library.plinth_free(self._handle)
            self._handle = None

    def __enter__(self) -> "CosimArray":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def _open(self) -> int:
        if self._handle is None:
            raise ValueError("the array is closed")
        return self._handle

    def queue_write(self, die: int, address: int, value: int) -> None:
        """Queue a register write of a die."""
        self._queue(die, True, address, value & 0xFFFFFFFF)

    def _queue(self, die: int, is_write: bool, address: int, value: int = 0) -> None:
        self._queued[die].append(address)
        self._held.append((die, is_write, address, value))

    def read_registers(self, die: int, addresses: Iterable[int]) -> list[int]:
        """Values of several registers, after all queued writes; cheaper than one by one.

        Raises
        ------
        CosimError
            If the die answers an access with an error, or one of this process breaks a protocol.
        """
        addresses = list(addresses)
        for address in addresses:
            self._queue(die, False, address)
        while not self._slice(Aim.ACCESS, SLICE_CYCLES).met:
            pass
        values = self._collect(die)
        return values[len(values) - len(addresses):] if addresses else []

    def run(self, cycles: int) -> None:
        """Run for so many cycles.

        Raises
        ------
        CosimError
            If a die breaks a protocol.
        ConnectionError, TimeoutError
            If another process is gone, or does not come.
        """
        while cycles > 0:
            cycles -= self._slice(Aim.RUN, min(cycles, SLICE_CYCLES)).cycles

    def wait(self, limit_cycles: int, dies: Iterable[int] | None = None) -> int:
        """Run until every die of this process (or each of ``dies``) raises its interrupt, or one of them reports an
        error and the others have had time to hear of it, or ``limit_cycles`` have passed; returns the cycles run.
        Waits of several processes at once end together.

        Raises
        ------
        CosimError
            If a die breaks a protocol.
        ConnectionError, TimeoutError
            If another process is gone, or does not come.
        """
        watched = set(self._numbers if dies is None else dies)
        passed, begins = 0, True
        while passed < limit_cycles:
            ran = self._slice(Aim.WAIT, min(limit_cycles - passed, SLICE_CYCLES), watched, begins)
            passed += ran.cycles
            if ran.met:
                break
            begins = begins and not ran.served
        for die in self._numbers:
            self._collect(die)
        return passed

    def _slice(self, aim: Aim, cycles: int, watched: Collection[int] = (), begins: bool = False) -> "_Ran":
        """Run up to so many cycles, for ``aim`` or for what another process needs first: a wait for dies ``watched``,
        which ``begins`` or goes on. Accesses are played alone once the other processes are lost."""
        agreed = Agreed(aim, cycles, begins)
        if self._remote is not None and not (aim is Aim.ACCESS and self._remote.failure):
            try:
                agreed = self._remote.agree(aim, cycles, begins)
                return self._run_for(agreed, aim, watched, begins)
            except (ConnectionError, TimeoutError):
                if aim is Aim.ACCESS:
                    return _Ran(False, 0, False)
                raise
        return self._run_for(agreed, aim, watched, begins)

    def _run_for(self, agreed: Agreed, aim: Aim, watched: Collection[int], begins: bool) -> "_Ran":
        """Run for what has been agreed on."""
        if agreed.queued:
            for die, is_write, address, value in self._held:
                self._library.plinth_access(self._open(), self._indices[die], is_write, address, value)
            self._held.clear()
        if agreed.begins:
            goes_on = aim is Aim.WAIT and not begins
            self._library.plinth_arm(self._open(), None if goes_on else bytes(die in watched for die in self._numbers))
        start = self.cycle
        met = agreed.aim is not Aim.MEET and self._run(agreed.cycles, _UNTIL[agreed.aim])
        served = agreed.own
        return _Ran(served, self.cycle - start if served else 0, served and met)

    def send_bytes(self, die: int, line: bytes) -> None:
        """Bytes that go over a die's serial line when the array runs."""
        self._library.plinth_serial_send(self._open(), self._indices[die], line, len(line))

    def take_bytes(self, die: int, most: int = 1 << 16) -> bytes:
        """Bytes that a die has sent over its serial line."""
        buffer = ctypes.create_string_buffer(most)
        count = self._library.plinth_serial_take(self._open(), self._indices[die], buffer, most)
        return buffer.raw[:count]

    @property
    def cycles_per_byte(self) -> Fraction:
        """What a byte takes on the serial lines of dies that have one."""
        assert self.bridge is not None
        return Fraction(BYTE_BITS * self.bridge.cycles_per_bit)

    def is_quiet(self, die: int) -> bool:
        """Whether nothing is under way on a die's serial line, either way."""
        return bool(self._library.plinth_serial_quiet(self._open(), self._indices[die]))

    def reset_die(self, die: int) -> None:
        """Reset one die alone, with its memory ports; its memory stays. Queued accesses to it are played first; bytes
        on the line of a host bridge stay on it."""
        if self.bridge is None:
            self.read_registers(die, [Register.ID])
        self._library.plinth_reset(self._open(), self._indices[die])

    def finished_at(self, die: int) -> int:
        """Cycle in which a die's interrupt ended the last :meth:`wait`; 0 if it has not."""
        return int(self._library.plinth_finished_at(self._open(), self._indices[die]))

    def stats(self) -> dict[str, float]:
        """Of the dies of this process: ``die_cycles``, ``seconds`` spent in the harness, ``die_cycles_per_second``;
        ``asleep_seconds`` of all threads together, and ``moves``: epochs of dies that ran on another thread than they
        were dealt to."""
        die_cycles = self.cycle * len(self._dies)
        return {"die_cycles": die_cycles, "seconds": self._seconds,
                "asleep_seconds": self._library.plinth_asleep(self._open()),
                "moves": self._library.plinth_moves(self._open()),
                "die_cycles_per_second": die_cycles / self._seconds if self._seconds else 0.0}

    def bare_eval(self, cycles: int) -> float:
        """Cycles a second of one fresh die with constant inputs and nothing around it."""
        return cycles / float(self._library.plinth_bare(ctypes.byref(self._config), cycles))

    def _run(self, cycles: int, until: int) -> bool:
        together = self._remote is not None and self._remote.failure is None
        start = time.perf_counter()
        met = self._library.plinth_run(self._open(), cycles, until)
        self._seconds += time.perf_counter() - start
        fault = self._library.plinth_fault(self._open()).decode()
        if fault:
            raise CosimError(fault)
        if together:
            assert self._remote is not None
            self._remote.check()
        return bool(met)

    def _collect(self, die: int) -> list[int]:
        """Answers of the accesses that have been played, oldest first."""
        data, response = ctypes.c_uint32(), ctypes.c_uint32()
        values = []
        while self._library.plinth_answer(self._open(), self._indices[die], ctypes.byref(data), ctypes.byref(response)):
            address = self._queued[die].popleft()
            if response.value:
                raise CosimError(f"die {die}: the access of register {address:#x} was answered with response "
                                 f"{response.value}")
            values.append(data.value)
        return values


def _check_links(links: Sequence[tuple[int, ...]], dies: int, ports: int) -> None:
    outs: set[tuple[int, int]] = set()
    ins: set[tuple[int, int]] = set()
    for link in links:
        from_die, from_port, to_die, to_port, latency = link
        if not (0 <= from_die < dies and 0 <= to_die < dies and 0 <= from_port < ports
                and 0 <= to_port < ports):
            raise ValueError(f"link {link} names a die or port that does not exist: there are {dies} dies "
                             f"with {ports} ports")
        if (from_die, from_port) in outs or (to_die, to_port) in ins:
            raise ValueError(f"link {link} uses a port that is already taken")
        if latency <= 0:
            raise ValueError(f"link {link} must have a positive latency")
        outs.add((from_die, from_port))
        ins.add((to_die, to_port))


def _own_links(links: Sequence[tuple[int, ...]], processes: Sequence[Sequence[int]], own: int
               ) -> dict[int, tuple[int, ...]]:
    """Links to or from a process's dies as the harness takes them, by their places among all."""
    process_of = {die: process for process, dies in enumerate(processes) for die in dies}
    index = {die: place for place, die in enumerate(processes[own])}
    result: dict[int, tuple[int, ...]] = {}
    for number, (from_die, from_port, to_die, to_port, latency) in enumerate(links):
        ends = {process_of[from_die], process_of[to_die]}
        if own in ends:
            # Peers are the other processes, in their order.
            peer = sum(other - (other > own) for other in ends - {own})
            result[number] = (index.get(from_die, _ELSEWHERE), from_port, index.get(to_die, _ELSEWHERE), to_port,
                              latency, peer)
    return result
