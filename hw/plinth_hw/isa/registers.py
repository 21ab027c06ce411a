"""Register map of a die (AXI4-Lite, 32-bit registers, byte addresses).

``Register`` holds single registers; ``ARRAYS`` says where arrays of them lie. Counters of 64 bits take two registers,
low word first. Reading the low word of a 64-bit counter latches its high word. Each register says who may access it and
what it holds; what each can hold is in :mod:`~plinth_hw.isa.limits`, which of them a die has in
:mod:`~plinth_hw.isa.register_map`.
"""

from dataclasses import dataclass
from enum import Enum, IntEnum, IntFlag
from typing import Any

from plinth_hw.isa.layout import WORD_BITS, Struct, unsigned
from plinth_hw.isa.machine import ArraySize, Formats, MachineInfo, Ports
from plinth_hw.isa.operations import Engine, ErrorCode

#: Value of Register.ID: "PLIN".
IDENTITY = 0x504C494E
#: Version of descriptors and registers.
ISA_VERSION = 2


class Access(Enum):
    """What a host does with a register."""

    RO = "RO"
    RW = "RW"
    WO = "WO"


class ControlBits(IntFlag):
    """Bits of register CONTROL."""

    START = 1
    CLEAR_ERROR = 2
    CLEAR_COUNTERS = 4
    STOP = 8


class Status(IntFlag):
    """Bits of register STATUS."""

    BUSY = 1
    DONE = 2
    ERROR = 4
    STOPPED = 8


class EngineState(IntFlag):
    """Bits of register STATE of an engine."""

    RUNS = 1
    WAITS = 2


class ErrorInfo(Struct):
    """Register ERROR_INFO."""

    #: Number of the engine, or 255 if accesses of the scheduler, or of the host's window, are to blame.
    engine: unsigned(8)
    #: Counter.
    counter: unsigned(8)
    #: Other die.
    die: unsigned(10)
    #: Port of the router.
    port: unsigned(6)


class LinkRate(Struct):
    """Register LINK_RATE: flits a cycle."""

    numerator: unsigned(8)
    denominator: unsigned(8)


class WaitCounter(Struct):
    """Register WAIT_COUNTER of an engine."""

    #: Counter that the head task waits for.
    counter: unsigned(8)
    reserved: unsigned(23)
    #: It waits.
    waits: unsigned(1)


class CounterSteps(Struct):
    """What an engine's counters may go on by in a cycle."""

    #: Payload words.
    words: unsigned(12)
    #: Useful and issued multiply-adds; of the matrix engine only.
    useful_macs: unsigned(16)
    issued_macs: unsigned(16)


class _Register(IntEnum):
    """Addresses of registers; a register has ``access``, and ``holds``: a number of so many bits (64 take two
    registers), the fields of a layout, the bits of flags, a code, or a bit for each of the engines."""

    access: Access
    holds: Any

    def __new__(cls, address: int, access: Access = Access.RO, holds: Any = WORD_BITS) -> "_Register":
        self = int.__new__(cls, address)
        self._value_ = address
        self.access, self.holds = access, holds
        return self


class Register(_Register):
    """Byte addresses of the single registers."""

    #: IDENTITY
    ID = 0x000
    #: ISA_VERSION
    VERSION = 0x004
    #: bit 0 start the graph at TASK_BASE (unless busy, stopped or in error); bit 1 clear the sticky error, and let
    #: go a stopped die (unless busy, as it is from an error of its graph until it is stopped; LINK needs a stop, too);
    #: bit 2 clear performance counters; bit 3 stop: throw away all that is under way
    CONTROL = 0x008, Access.WO, ControlBits
    #: bit 0 busy, bit 1 done (last task completed; cleared by start and stop), bit 2 error, bit 3 stopped
    STATUS = 0x00C, Access.RO, Status
    #: word address of the first descriptor
    TASK_BASE = 0x010, Access.RW
    #: word address where completion records go, one after another
    RECORD_BASE = 0x014, Access.RW
    #: records written so far; the next goes to RECORD_BASE + RECORD_WORDS * RECORD_COUNT
    RECORD_COUNT = 0x018, Access.RW
    #: ErrorCode
    ERROR_CODE = 0x01C, Access.RO, ErrorCode
    #: word address of the descriptor that caused the error
    ERROR_TASK = 0x020
    #: engine number (bits 7:0), counter (15:8), other die (25:16), port (31:26)
    ERROR_INFO = 0x024, Access.RO, ErrorInfo
    #: cycles without progress before TIMEOUT; 0 switches the watchdog off; 10^8 after reset
    WATCHDOG = 0x028, Access.RW
    #: this die's number
    DIE = 0x02C, Access.RW
    #: memory size in words; accesses beyond it are BAD_ADDRESS
    MEMORY_WORDS = 0x030, Access.RW
    #: link rate, numerator (bits 7:0) and denominator (15:8), in flits a cycle
    LINK_RATE = 0x034, Access.RW, LinkRate
    #: dies of the array; a task that names a die number from this one on is BAD_DIE
    DIES = 0x038, Access.RW
    #: cycles since reset (64 bits)
    CYCLE = 0x040, Access.RO, 64
    #: payload words that entered the network here (64 bits)
    WORDS_INJECTED = 0x048, Access.RO, 64
    #: payload words that passed through on their way elsewhere (64 bits)
    WORDS_TRANSIT = 0x050, Access.RO, 64
    #: words read from and written to memory (64 bits each)
    WORDS_READ = 0x058, Access.RO, 64
    WORDS_WRITTEN = 0x060, Access.RO, 64
    #: least and largest numbers that matrix tasks stored as sums; fixed-point dies only (64 bits)
    SUMS_AT_ENDS = 0x068, Access.RO, 64
    #: results of all other engines that were beyond the format; fixed-point dies only (64 bits)
    RESULTS_BEYOND = 0x070, Access.RO, 64
    #: bit p: the link of port p is up; dies with a link layer only
    LINKS_UP = 0x078
    #: word address of the next access of WINDOW_DATA; a multiple of 32 bits (bit 0 is 0 where words have 16); dies
    #: with a memory window only
    WINDOW_ADDRESS = 0x080, Access.RW
    #: 32 bits of memory (one word, or two words of 16 bits, the first one low) at WINDOW_ADDRESS, which moves on by
    #: 32 bits with each access; SLVERR, and nothing else, beyond MEMORY_WORDS; dies with a memory window only
    WINDOW_DATA = 0x084, Access.RW
    #: what the matrix engine is, and the format of its sums
    MACHINE = 0x0C0, Access.RO, MachineInfo
    #: formats of numbers in memory and of operands of products
    FORMATS = 0x0C4, Access.RO, Formats
    #: PEs of the matrix engine
    ARRAY = 0x0C8, Access.RO, ArraySize
    #: words of a beat, AXI4 ports, links
    PORTS = 0x0CC, Access.RO, Ports
    #: bit e: engine e is present, and its status at ENGINES + ENGINE_SPAN * e
    ENGINES_PRESENT = 0x0D0, Access.RO, Engine
    #: words of memory on the chip, from address 0 on
    BLOCK_RAM_WORDS = 0x0D4
    #: the first 32 bits of the SHA-256 of all parameters that shape the die
    PARAMETERS_DIGEST = 0x0D8
    #: the first 32 bits of the SHA-256 of the Verilog without the module that holds them; 0 if it was not made as
    #: Verilog
    VERILOG_DIGEST = 0x0DC


#: 16 base registers (words).
BASES = 0x100
BASE_COUNT = 16
#: status of engine e at ENGINES + ENGINE_SPAN * e, see EngineRegister; of the engines that are present.
ENGINES = 0x800
ENGINE_SPAN = 0x80
ENGINE_COUNT = 1 << Engine.bits
#: output port of each destination die (route table), one register a die; without a write none leads there.
ROUTES = 0x1000
#: update counters.
COUNTERS = 0x2000
#: epoch base of each update counter.
COUNTER_BASES = 0x2400
#: payload words sent on each link port (64 bits each).
LINK_WORDS = 0x2800
#: frames of each link port that came with a wrong check; dies with a link layer only (64 bits each).
LINK_BAD_FRAMES = 0x2A00
#: how often each link port has sent flits again; dies with a link layer only (64 bits each).
LINK_REPLAYS = 0x2C00
#: as LINK_RATE, of each port; a write to LINK_RATE is one to all; dies with a link layer or port_rates only.
LINK_RATES = 0x2E00
#: Registers are decoded in pages of so many bytes; each array of ports has one, four engines share one.
PAGE_BYTES = 0x200


@dataclass(frozen=True)
class RegisterArray:
    """Registers that are numbered: those of number n lie at ``first + step * n``, n below ``count``."""

    first: int
    step: int
    count: int
    access: Access = Access.RO
    holds: Any = WORD_BITS

    def __contains__(self, address: int) -> bool:
        return 0 <= self.number(address) < self.count

    def number(self, address: int) -> int:
        """Whose register lies at a byte address."""
        return (address - self.first) // self.step


#: Where numbered registers lie, and how many there is room for.
ARRAYS = {
    "BASES": RegisterArray(BASES, 4, BASE_COUNT, Access.RW),
    "ENGINES": RegisterArray(ENGINES, ENGINE_SPAN, ENGINE_COUNT),
    "ROUTES": RegisterArray(ROUTES, 4, (COUNTERS - ROUTES) // 4, Access.RW),
    "COUNTERS": RegisterArray(COUNTERS, 4, (COUNTER_BASES - COUNTERS) // 4, Access.RW),
    "COUNTER_BASES": RegisterArray(COUNTER_BASES, 4, (LINK_WORDS - COUNTER_BASES) // 4, Access.RW),
    "LINK_WORDS": RegisterArray(LINK_WORDS, 8, PAGE_BYTES // 8, Access.RO, 64),
    "LINK_BAD_FRAMES": RegisterArray(LINK_BAD_FRAMES, 8, PAGE_BYTES // 8, Access.RO, 64),
    "LINK_REPLAYS": RegisterArray(LINK_REPLAYS, 8, PAGE_BYTES // 8, Access.RO, 64),
    "LINK_RATES": RegisterArray(LINK_RATES, 4, PAGE_BYTES // 8, Access.RW, LinkRate),
}


class EngineRegister(_Register):
    """Offsets within an engine's status block. 64-bit counters take two registers."""

    #: bit 0 a task runs, bit 1 a task waits
    STATE = 0x00, Access.RO, EngineState
    #: word address of the task at the head of this engine's queue
    TASK = 0x04
    #: counter that the head task waits for (bits 7:0), bit 31 set when it waits
    WAIT_COUNTER = 0x08, Access.RO, WaitCounter
    #: counter value that would satisfy it
    WAIT_VALUE = 0x0C
    #: cycles with useful work (64 bits, as those up to TASKS)
    BUSY = 0x10, Access.RO, 64
    #: cycles that waited for operands
    STALL_INPUT = 0x18, Access.RO, 64
    #: cycles that waited for room for results
    STALL_OUTPUT = 0x20, Access.RO, 64
    #: cycles that waited for a memory response
    STALL_MEMORY = 0x28, Access.RO, 64
    #: payload words moved
    WORDS = 0x30, Access.RO, 64
    #: useful multiply-adds
    USEFUL_MACS = 0x38, Access.RO, 64
    #: issued multiply-adds, padding included
    ISSUED_MACS = 0x40, Access.RO, 64
    #: tasks completed
    TASKS = 0x48, Access.RO, 64
    #: low 32 bits of the cycle of the first busy cycle since the counters were cleared
    FIRST_BUSY = 0x50
    #: low 32 bits of the cycle of the last busy cycle
    LAST_BUSY = 0x54
