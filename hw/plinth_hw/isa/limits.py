"""What fields hold: the one table of the limits that a die's parameters, registers and tasks have.

Every width comes from a layout or from the register map; nothing is typed here twice. :data:`PARAMETERS` bounds what
shapes a die, :func:`register_most` what a register takes; what a field of a task takes,
:func:`~plinth_hw.isa.layout.pack` checks by its layout. DieParameters, RTL, golden model and driver check by these.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from plinth_hw.isa import registers as regs
from plinth_hw.isa.descriptors import Record, TaskHeader
from plinth_hw.isa.layout import WORD_BITS, Repeat, Struct, pack, width
from plinth_hw.isa.machine import Ports
from plinth_hw.isa.matrix_bodies import MatrixBody, RowStationaryBody
from plinth_hw.isa.packets import Sideband
from plinth_hw.isa.registers import CounterSteps, ErrorInfo, LinkRate, Register, WaitCounter
from plinth_hw.isa.transfer_bodies import TransferBody
from plinth_hw.isa.update_bodies import CollectiveBody, RouteBody
from plinth_hw.isa.vector_body import VectorRegion


@dataclass(frozen=True)
class Limit:
    """The most that a field allows of a parameter of a die."""

    #: The parameter, or what follows from some.
    what: str
    #: That of a die, given its parameters.
    of: Callable[[Any], int]
    #: Layout and field, or register.
    field: str
    #: The field's width.
    bits: int
    #: The largest value.
    most: int

    def check(self, parameters: Any) -> None:
        """Raise ``ValueError`` if a die's parameter is beyond the limit."""
        if self.of(parameters) > self.most:
            raise ValueError(f"{self.what} must be at most {self.most} for {self.field} of {self.bits} bits, not "
                             f"{self.of(parameters)}")


def field_bits(layout: type[Struct], field: str) -> int:
    """Width of a field; of a repeated one that of each."""
    shape = layout.FIELDS[field].shape
    return width(shape.shape if isinstance(shape, Repeat) else shape)


def field_most(layout: type[Struct], field: str) -> int:
    """The largest number of an unsigned field."""
    return (1 << field_bits(layout, field)) - 1


def _fields(*fields: tuple[type[Struct], str]) -> list[tuple[str, int]]:
    return [(f"{layout.__name__}.{field}", field_bits(layout, field)) for layout, field in fields]


def _numbered(*arrays: str) -> list[tuple[str, int]]:
    """Register arrays as fields as wide as their largest number."""
    return [(name, (regs.ARRAYS[name].count - 1).bit_length()) for name in arrays]


def _attribute(name: str) -> Callable[[Any], int]:
    return lambda parameters: int(getattr(parameters, name))


def _numbers(name: str, fields: list[tuple[str, int]]) -> list[Limit]:
    """A parameter says how many there are; the fields hold their numbers, from 0 on."""
    return [Limit(name, _attribute(name), field, bits, 1 << bits) for field, bits in fields]


def _widths(name: str, fields: list[tuple[str, int]]) -> list[Limit]:
    """A parameter says how wide numbers are; the fields hold them."""
    return [Limit(name, _attribute(name), field, bits, bits) for field, bits in fields]


def _values(what: str, of: Callable[[Any], int], layout: type[Struct], field: str) -> Limit:
    """Fields hold what there can be."""
    return Limit(what, of, *_fields((layout, field))[0], field_most(layout, field))


#: Fields of tasks that name a die.
TASK_DIES: tuple[tuple[type[Struct], str], ...] = (
    (TaskHeader, "remote_die"), (TransferBody, "destination_die"), (CollectiveBody, "next_die"),
    (RouteBody, "first_die"))
#: All fields that do.
DIES = _fields(*TASK_DIES, (ErrorInfo, "die"), (Sideband, "chunk"))
#: Fields that name an update counter.
COUNTERS = _fields((TaskHeader, "advance"), (TaskHeader, "remote_counter"), (TaskHeader, "wait_counter"),
                   (TransferBody, "arrival"), (ErrorInfo, "counter"), (WaitCounter, "counter"), (Sideband, "message"))
#: Limits of a die's parameters, field by field.
PARAMETERS: tuple[Limit, ...] = (
    *_widths("die_bits", [*DIES, *_numbered("ROUTES")]),
    *_numbers("counters", [*COUNTERS, *_numbered("COUNTERS", "COUNTER_BASES")]),
    *_widths("address_bits", [*((register.name, WORD_BITS) for register in (
        Register.TASK_BASE, Register.RECORD_BASE, Register.ERROR_TASK)), ("BASES", WORD_BITS),
        *_fields((Record, "task")), ("Sideband", Sideband.BITS)]),
    *_numbers("ports", [*_numbered("LINK_WORDS", "LINK_RATES"), ("LINKS_UP", 5), *_fields(
        (ErrorInfo, "port"), (RouteBody, "ports"), (Sideband, "message"))]),
    *_numbers("reduce_blocks", _fields((CollectiveBody, "message"))),
    _values("log2 of interleave", lambda die: die.interleave.bit_length() - 1, MatrixBody, "interleave_m_log2"),
    _values("rows of a row-stationary machine", lambda die: 0 if die.systolic else die.rows, RowStationaryBody,
            "set_rows"),
    _values("columns of a row-stationary machine", lambda die: 0 if die.systolic else die.columns, RowStationaryBody,
            "images"),
    _values("rows x columns", lambda die: die.rows * die.columns, CounterSteps, "issued_macs"),
    _values("words that an engine moves in a cycle", lambda die: die.words_per_cycle, CounterSteps, "words"),
    _values("axi_ports", _attribute("axi_ports"), Ports, "axi_ports"),
    Limit("block_ram_words", _attribute("block_ram_words"), Register.BLOCK_RAM_WORDS.name, WORD_BITS,
          (1 << WORD_BITS) - 1),
    *[Limit("lines of a half of the vector scratchpad", lambda die: die.vector_buffer_words // die.beat_words, field,
            bits, 1 << bits) for field, bits in _fields((VectorRegion, "line"))],
)
#: Rows of the group table.
GROUPS = 1 << field_bits(CollectiveBody, "group")


#: Registers that a host writes and that hold less than a word.
_NARROW: dict[int, Callable[[Any], int]] = {
    Register.DIE: lambda die: (1 << die.die_bits) - 1,
    Register.DIES: lambda die: 1 << die.die_bits,
    Register.TASK_BASE: lambda die: (1 << die.address_bits) - 1,
    Register.RECORD_BASE: lambda die: (1 << die.address_bits) - 1,
    Register.LINK_RATE: lambda die: (1 << LinkRate.BITS) - 1,
    Register.MEMORY_WORDS: lambda die: die.most_memory_words,
    Register.WINDOW_ADDRESS: lambda die: (1 << die.address_bits) - die.words_of(1),
}
_NARROW_ARRAYS: dict[str, Callable[[Any], int]] = {
    "BASES": lambda die: (1 << die.address_bits) - 1,
    "ROUTES": lambda die: die.ports - 1,
    "LINK_RATES": lambda die: (1 << LinkRate.BITS) - 1,
}


#: The watchdog's limit after reset: a second at 100 MHz, the clock that constraints are made for.
WATCHDOG_AFTER_RESET = 100_000_000

#: Registers that do not hold 0 after reset.
_RESETS: dict[int, Callable[[Any], int]] = {
    Register.WATCHDOG: lambda die: WATCHDOG_AFTER_RESET,
    Register.MEMORY_WORDS: lambda die: die.most_memory_words,
    Register.DIES: lambda die: 1 << die.die_bits,
    Register.LINK_RATE: lambda die: rate_word(die.link_rate),
}


def reset_value(address: int, parameters: Any) -> int:
    """What a register that the host writes holds after reset."""
    return _RESETS[address](parameters) if address in _RESETS else 0


def register_name(address: int) -> str:
    """What messages call a register: ``DIES``, ``ROUTES[3]``."""
    for name, array in regs.ARRAYS.items():
        if address in array:
            return f"{name}[{array.number(address)}]"
    return Register(address).name if address in frozenset(Register) else f"register {address:#x}"


def register_most(address: int, parameters: Any) -> int:
    """The largest value of a register, by its byte address, that the host writes."""
    for name, most in _NARROW_ARRAYS.items():
        if address in regs.ARRAYS[name]:
            return most(parameters)
    return _NARROW[address](parameters) if address in _NARROW else (1 << WORD_BITS) - 1


def check_register(address: int, value: int, parameters: Any) -> None:
    """Raise ``ValueError`` if a register of a die cannot hold a value."""
    most = register_most(address, parameters)
    if not 0 <= value <= most:
        raise ValueError(f"{register_name(address)} must be from 0 to {most} ({most.bit_length()} bits), not {value}")


def rate_word(rate: Fraction) -> int:
    """Value of LINK_RATE.

    Raises
    ------
    ValueError
        If numerator or denominator does not fit.
    """
    try:
        (word,) = pack(LinkRate, {"numerator": rate.numerator, "denominator": rate.denominator})
    except ValueError as error:
        raise ValueError(f"link_rate cannot be {rate}: {error}") from None
    return word
