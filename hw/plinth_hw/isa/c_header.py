"""A die's registers, descriptors, records and codes as a C header (C99, C++11), for software without a driver.

A field is a macro of two numbers, its lowest bit and its width, which three functions take::

    uint32_t task[PLINTH_DESCRIPTOR_WORDS] = {0};
    plinth_put(task, PLINTH_FIELD_TASK_ENGINE, PLINTH_ENGINE_MATRIX);
    plinth_put(task, PLINTH_FIELD_MATRIX_A, PLINTH_POINTER(2, 0x100));

Bits are counted from the descriptor's first word, of bodies too. Fields of which there are several have their number as
an argument. Nothing is checked as the program runs: a value keeps the bits that its field has.
"""

import re
from collections.abc import Iterator
from enum import IntFlag
from typing import Any, NamedTuple

from plinth_hw.isa import machine, registers, tasks
from plinth_hw.isa.comments import comments, shared_comments
from plinth_hw.isa.descriptors import DESCRIPTOR_WORDS, HEADER_WORDS, RECORD_WORDS, Pointer, Record, TaskHeader
from plinth_hw.isa.layout import WORD_BITS, Code, Number, Repeat, Struct, width
from plinth_hw.isa.machine import Machine
from plinth_hw.isa.operations import OPERATIONS, Engine, ErrorCode, Traffic, UpdateOperation
from plinth_hw.isa.parameters import RESET_CYCLES, DieParameters
from plinth_hw.isa.register_map import register_map
from plinth_hw.isa.registers import Access, ControlBits, EngineRegister, EngineState, Register, Status
from plinth_hw.isa.vector_body import VectorFunction, VectorOp

PREFIX, FIELD = "PLINTH_", "PLINTH_FIELD_"
#: What stands behind the header of a descriptor.
BODIES: tuple[type[Struct], ...] = tuple(dict.fromkeys(tasks.BODIES.values()))
#: What stands by itself: at the beginning of a descriptor, of a record, in a register.
LAYOUTS: tuple[type[Struct], ...] = (TaskHeader, Record, registers.ErrorInfo, registers.LinkRate,
                                     registers.WaitCounter, machine.MachineInfo, machine.Formats, machine.ArraySize,
                                     machine.Ports)
CODES: tuple[type[Code], ...] = (Engine, *OPERATIONS.values(), VectorOp, VectorFunction, UpdateOperation, Traffic,
                                 ErrorCode, Machine)
FLAGS: tuple[type[IntFlag], ...] = (ControlBits, Status, EngineState)

_FUNCTIONS = """\
/* Put a value into a field of words, low word first; the field's macro is its lowest bit and its width. */
static inline void plinth_put(uint32_t *words, unsigned first, unsigned bits, uint64_t value)
{
    while (bits) {
        const unsigned low = first % 32, here = bits < 32 - low ? bits : 32 - low;
        const uint32_t mask = (uint32_t)(0xffffffffu >> (32 - here)) << low;
        words[first / 32] = (words[first / 32] & ~mask) | ((uint32_t)(value << low) & mask);
        value >>= here;
        first += here;
        bits -= here;
    }
}

/* The value of a field of words; of a signed one plinth_get_signed() is. */
static inline uint64_t plinth_get(const uint32_t *words, unsigned first, unsigned bits)
{
    uint64_t value = 0;
    for (unsigned taken = 0; taken < bits;) {
        const unsigned low = (first + taken) % 32, left = bits - taken, here = left < 32 - low ? left : 32 - low;
        const uint32_t part = (words[(first + taken) / 32] >> low) & (0xffffffffu >> (32 - here));
        value |= (uint64_t)part << taken;
        taken += here;
    }
    return value;
}

/* The value of a field in two's complement. */
static inline int64_t plinth_get_signed(const uint32_t *words, unsigned first, unsigned bits)
{
    const uint64_t value = plinth_get(words, first, bits), sign = (uint64_t)1 << (bits - 1);
    return (int64_t)((value ^ sign) - sign);
}
"""


def _upper(name: str) -> str:
    """``MatrixOperation`` as ``MATRIX_OPERATION``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def layout_name(layout: type[Struct]) -> str:
    """What the macros of a layout's fields begin with: ``PLINTH_FIELD_MATRIX`` of MatrixBody."""
    return FIELD + _upper(layout.__name__.removesuffix("Body").removesuffix("Header").removesuffix("Info"))


class HeaderField(NamedTuple):
    """A field as the header has it.

    Attributes
    ----------
    name : str
        With those of layouts that it is in in front.
    first, bits : int
        Lowest bit, and width.
    repeats : tuple of (int, int)
        Of each number that it has the bits from one to the next, and how many there are.
    signed : bool
    comment : str
    """

    name: str
    first: int
    bits: int
    repeats: tuple[tuple[int, int], ...]
    signed: bool
    comment: str


def fields(layout: type[Struct], first: int = 0, prefix: str = "", repeats: tuple[tuple[int, int], ...] = ()
           ) -> Iterator[HeaderField]:
    """All fields of a layout whose lowest bit is ``first``, reserved ones left out."""
    texts = {name: text for base in reversed(layout.__mro__) if issubclass(base, Struct) and base is not Struct
             for name, text in comments(base).items()}
    for name, field in layout.FIELDS.items():
        if name.startswith("reserved"):
            continue
        shape, own = field.shape, repeats
        if isinstance(shape, Repeat):
            shape, own = shape.shape, (*repeats, (width(shape.shape), shape.length))
        start, label = first + field.offset, f"{prefix}{name}"
        if isinstance(shape, type) and issubclass(shape, Struct) and shape is not Pointer:
            yield from fields(shape, start, f"{label}_", own)
        else:
            signed = isinstance(shape, Number) and shape.signed
            yield HeaderField(label, start, width(shape), own, signed, texts.get(name, ""))


def _comment(text: str) -> str:
    """For people without our pages: roles of documentation give way to names."""
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"\1", text).replace("``", "").replace("*/", "")
    return f" /* {text} */" if text else ""


def _layout(layout: type[Struct], first: int = 0) -> Iterator[str]:
    yield f"/* {layout.__name__} */"
    for field in fields(layout, first):
        numbers = "ij"[:len(field.repeats)]
        arguments = f"({', '.join(numbers)})" if numbers else ""
        repeats = list(zip(numbers, field.repeats, strict=True))
        place = " + ".join([str(field.first), *(f"{stride} * ({number})" for number, (stride, _) in repeats)])
        notes = [*(f"{number}: 0 to {count - 1}" for number, (_, count) in repeats), *["signed"] * field.signed,
                 *filter(None, [field.comment])]
        yield (f"#define {layout_name(layout)}_{field.name.upper()}{arguments} {place}, {field.bits}"
               f"{_comment('; '.join(notes))}")
    yield ""


def _codes(code: type[Code]) -> Iterator[str]:
    texts, name = comments(code), PREFIX + _upper(code.__name__)
    yield f"/* {code.__name__} */"
    yield from (f"#define {name}_{member.name} {member.value}{_comment(texts.get(member.name, ''))}" for member in code)
    yield ""


def _flags(flags: type[IntFlag]) -> Iterator[str]:
    name = _upper(flags.__name__.removesuffix("Bits"))
    yield from (f"#define {PREFIX}{name}_{flag.name} {flag.value:#x}u" for flag in flags)
    yield ""


def _registers() -> Iterator[str]:
    yield ("/* Byte addresses of registers. Of those of 64 bits read the low word first: that latches the high word, "
           "which is at the next address, in one latch for all */")
    texts = shared_comments(Register)
    for register in Register:
        yield (f"#define {PREFIX}REG_{register.name} {register.value:#05x}u"
               f"{_comment(f'{register.access.value}: {texts[register.name]}')}")
    array_texts = comments(registers)
    for name, array in registers.ARRAYS.items():
        yield (f"#define {PREFIX}REG_{name}(n) ({array.first:#06x}u + {array.step}u * (n))"
               f"{_comment(f'{array.access.value}: {array_texts[name]}')}")
    yield "/* Behind PLINTH_REG_ENGINES(engine) */"
    engine_texts = shared_comments(EngineRegister)
    for offset in EngineRegister:
        yield f"#define {PREFIX}ENGINE_REG_{offset.name} {offset.value:#04x}u{_comment(engine_texts[offset.name])}"
    yield ""


def _die(die: DieParameters) -> Iterator[str]:
    numbers: dict[str, Any] = {
        "WORD_BITS": die.word_bits, "BEAT_WORDS": die.beat_words, "ROWS": die.rows, "COLUMNS": die.columns,
        "INTERLEAVE": die.interleave, "COUNTERS": die.counters, "PORTS": die.ports, "AXI_PORTS": die.axi_ports,
        "CHUNK_WORDS": die.chunk_words, "BLOCK_RAM_WORDS": die.block_ram_words,
        "DESCRIPTOR_WORDS": DESCRIPTOR_WORDS, "RECORD_WORDS": RECORD_WORDS, "RESET_CYCLES": RESET_CYCLES}
    yield "/* The die; descriptors and records have units of 32 bits, whatever the words of memory are */"
    yield f'#define {PREFIX}PRESET "{die.name}"'
    yield from (f"#define {PREFIX}{name} {value}" for name, value in numbers.items())
    yield "/* What its identity registers hold; VERILOG_DIGEST is the text's */"
    yield from (f"#define {PREFIX}VALUE_{entry.name} {entry.reset:#010x}u" for entry in register_map(die)
                if entry.access is Access.RO and entry.reset is not None)
    yield ""


def c_header(die: DieParameters) -> str:
    """The header of a die, byte for byte the same from run to run.

    Parameters
    ----------
    die : DieParameters
    """
    guard = f"{PREFIX}{die.name.upper().replace('-', '_')}_H"
    lines = [f"/* Registers, descriptors, records and codes of {die.name}, a die of Plinth; `plinth header {die.name}` "
             "writes it. */", f"#ifndef {guard}", f"#define {guard}", "#ifdef PLINTH_PRESET",
             '#error "this is the header of another kind of die: give each kind a source file of its own"', "#endif",
             "", "#include <stdint.h>", "", *_die(die),
             *_registers(), *(line for flags in FLAGS for line in _flags(flags)),
             *(line for code in CODES for line in _codes(code)),
             "/* A pointer in a descriptor: words beyond base register `base` */",
             f"#define {PREFIX}POINTER(base, offset) ((uint32_t)(base) << {Pointer.FIELDS['base'].offset} "
             f"| ((uint32_t)(offset) & {(1 << Pointer.FIELDS['base'].offset) - 1:#x}u))", "",
             "/* Fields: lowest bit, width. Of a descriptor, header and body, both from its first word */",
             *(line for layout in LAYOUTS for line in _layout(layout)),
             *(line for body in BODIES for line in _layout(body, HEADER_WORDS * WORD_BITS)), _FUNCTIONS,
             f"#endif /* {guard} */", ""]
    return "\n".join(lines)
