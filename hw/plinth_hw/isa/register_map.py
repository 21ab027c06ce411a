"""The registers that a die has, as data: which, where, how wide, for whom, and of what fields.

What :mod:`~plinth_hw.isa.registers` declares of all dies, for one. The SystemRDL text of a die
(:mod:`~plinth_hw.isa.rdl`) says the same.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntFlag
from typing import Any

from plinth_hw.isa import registers as regs
from plinth_hw.isa.comments import comments, shared_comments
from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.identity import identity
from plinth_hw.isa.layout import WORD_BITS, Code, Struct, width
from plinth_hw.isa.limits import register_most, reset_value
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.registers import Access, EngineRegister, Register, RegisterArray


@dataclass(frozen=True)
class RegisterField:
    """Bits of a register."""

    name: str
    low: int
    bits: int
    #: What its values are called, if they have names.
    codes: type[Code] | None = None
    comment: str = ""


@dataclass(frozen=True)
class Entry:
    """A register, or several of a kind, ``step`` bytes apart."""

    name: str
    address: int
    access: Access
    #: 32, or 64: then the high word is that of the last low word that was read, of whatever register.
    bits: int
    fields: tuple[RegisterField, ...]
    comment: str
    #: After reset, if that is known: of what a host writes, and of constants.
    reset: int | None = None
    count: int = 1
    step: int = 4
    #: Whose status it is part of.
    engine: Engine | None = None


def _fixed(die: DieParameters) -> bool:
    return isinstance(die.multiply_format, Fixed)


def _networked(die: DieParameters) -> bool:
    return die.ports > 0


def _linked(die: DieParameters) -> bool:
    return die.link_phits > 0


def _windowed(die: DieParameters) -> bool:
    return die.has_window


#: Registers and arrays that some dies have.
_SOME: dict[str, Callable[[DieParameters], bool]] = {
    "SUMS_AT_ENDS": _fixed, "RESULTS_BEYOND": _fixed,
    **dict.fromkeys(("LINK_RATE", "WORDS_INJECTED", "WORDS_TRANSIT", "ROUTES", "LINK_WORDS"), _networked),
    "LINKS_UP": _linked, "LINK_BAD_FRAMES": _linked, "LINK_REPLAYS": _linked,
    "LINK_RATES": lambda die: die.has_port_rates,
    "WINDOW_ADDRESS": _windowed, "WINDOW_DATA": _windowed,
}
#: How many there are of each array.
_COUNTS: dict[str, Callable[[DieParameters], int]] = {
    "BASES": lambda die: regs.BASE_COUNT, "ROUTES": lambda die: 1 << die.die_bits,
    "COUNTERS": lambda die: die.counters, "COUNTER_BASES": lambda die: die.counters,
    **dict.fromkeys(("LINK_WORDS", "LINK_BAD_FRAMES", "LINK_REPLAYS", "LINK_RATES"), lambda die: die.ports),
}


def _struct_fields(layout: type[Struct], first: int = 0, prefix: str = "") -> Iterator[RegisterField]:
    texts = comments(layout)
    for name, field in layout.FIELDS.items():
        low, shape = first + field.offset, field.shape
        if name.startswith("reserved"):
            continue
        if isinstance(shape, type) and issubclass(shape, Struct):
            yield from _struct_fields(shape, low, f"{prefix}{name}_")
        else:
            codes = shape if isinstance(shape, type) and issubclass(shape, Code) else None
            yield RegisterField(prefix + name, low, width(shape), codes, texts.get(name, ""))


def _fields(holds: Any, low: int, bits: int) -> tuple[RegisterField, ...]:
    """Of what a register holds; ``low``, ``bits``: the place and width of a plain number."""
    if holds is Engine:
        return tuple(RegisterField(engine.name.lower(), engine.value, 1) for engine in Engine)
    if isinstance(holds, type) and issubclass(holds, Struct):
        return tuple(_struct_fields(holds))
    if isinstance(holds, type) and issubclass(holds, IntFlag):
        return tuple(RegisterField(str(flag.name).lower(), flag.bit_length() - 1, 1) for flag in holds)
    if isinstance(holds, type) and issubclass(holds, Code):
        return (RegisterField("code", 0, holds.bits, holds),)
    return (RegisterField("value", low, bits - low),)


def _entry(name: str, where: int, access: Access, holds: Any, comment: str, die: DieParameters, **more: Any) -> Entry:
    bits = holds if isinstance(holds, int) else WORD_BITS
    plain = die.ports if where == Register.LINKS_UP else bits
    if access is Access.RW:
        plain = max(1, register_most(where, die).bit_length())
    # Units of 32 bits.
    low = die.words_of(1).bit_length() - 1 if where == Register.WINDOW_ADDRESS else 0
    return Entry(name, where, access, bits, _fields(holds, low, plain), comment, **more)


def register_map(die: DieParameters) -> list[Entry]:
    """All registers of a die, by address; where engines' status blocks are, one block after the other."""
    constants = {Register.ID: regs.IDENTITY, Register.VERSION: regs.ISA_VERSION, **identity(die)}
    del constants[Register.VERILOG_DIGEST]
    entries = []
    texts = shared_comments(Register)
    for register in Register:
        if _SOME.get(register.name, lambda _: True)(die):
            reset = constants.get(register)
            if register.access is Access.RW and register is not Register.WINDOW_DATA:
                reset = reset_value(register, die)
            entries.append(_entry(register.name, register, register.access, register.holds, texts[register.name], die,
                                  reset=reset))
    array_texts = comments(regs)
    for name, count in _COUNTS.items():
        array: RegisterArray = regs.ARRAYS[name]
        if _SOME.get(name, lambda _: True)(die):
            # The route table is a memory, and no write to it is needed before all of it has a meaning.
            reset = reset_value(Register.LINK_RATE if name == "LINK_RATES" else array.first, die)
            entries.append(_entry(name, array.first, array.access, array.holds, array_texts[name], die,
            count=count(die),
                                  step=array.step,
                                  reset=reset if array.access is Access.RW and name != "ROUTES" else None))
    engine_texts = shared_comments(EngineRegister)
    for engine in sorted(die.engines, key=lambda engine: engine.value):
        for offset in EngineRegister:
            entries.append(_entry(offset.name, regs.ENGINES + regs.ENGINE_SPAN * engine.value + offset, offset.access,
                                  offset.holds, engine_texts[offset.name], die, engine=engine))
    return sorted(entries, key=lambda entry: entry.address)
