"""The register map of a die as SystemRDL 2.0, from which other tools make C headers, pages and register models.

::

    python -m plinth_hw.isa --rdl ndp-demo die.rdl
    peakrdl c-header die.rdl -o die.h
    peakrdl html die.rdl -o die/
"""

from collections.abc import Iterable, Iterator

from plinth_hw.isa import registers as regs
from plinth_hw.isa.comments import comments
from plinth_hw.isa.layout import Code
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.register_map import Entry, RegisterField, register_map
from plinth_hw.isa.registers import Access, Register

_LATCHED = "Reading the low word latches the high word, of whatever register."
_SOFTWARE = {Access.RO: "r", Access.RW: "rw", Access.WO: "w"}


def _quoted(text: str) -> str:
    """A string; quotation marks are all that ends one."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)


def _enum(code: type[Code]) -> Iterator[str]:
    texts = comments(code)
    yield f"enum {_type(code)} {{"
    for member in code:
        text = f" {{ desc = {_quoted(texts[member.name])}; }}" if member.name in texts else ""
        yield f"    {member.name} = {code.bits}'d{member.value}{text};"
    yield "};"


def _type(code: type[Code]) -> str:
    return f"{code.__name__}_e"


def _field(field: RegisterField, entry: Entry) -> str:
    properties = [f"sw = {_SOFTWARE[entry.access]}"]
    hardware = {Access.RO: "w", Access.RW: "r", Access.WO: "r"}[entry.access]
    if entry.access is Access.RO and entry.reset is not None:
        hardware = "na"
    if entry.address in (Register.WINDOW_ADDRESS, Register.WINDOW_DATA, Register.RECORD_COUNT) or (
            entry.name in ("COUNTERS", "COUNTER_BASES")):
        hardware = "rw"
    properties.append(f"hw = {hardware}")
    if entry.access is Access.WO:
        properties.append("singlepulse")
    if entry.address == Register.WINDOW_DATA:
        properties += ["onread = ruser", "onwrite = wuser"]
    if field.comment:
        properties.append(f"desc = {_quoted(field.comment)}")
    if field.codes:
        properties.append(f"encode = {_type(field.codes)}")
    reset = 0 if entry.access is Access.WO else entry.reset
    if reset is not None:
        value = reset >> field.low & (1 << field.bits) - 1
        properties.append(f"reset = {field.bits}'h{value:x}")
    return f"field {{ {'; '.join(properties)}; }} {field.name}[{field.low + field.bits - 1}:{field.low}];"


def _register(entry: Entry, first: int = 0) -> Iterator[str]:
    """A register, or an array of them; its address is from ``first`` on."""
    text = f"{entry.comment[:1].upper()}{entry.comment[1:].rstrip('.')}." + (f" {_LATCHED}" if entry.bits > 32 else "")
    place = f"[{entry.count}] @ {entry.address - first:#x} += {entry.step:#x}" if entry.name in regs.ARRAYS else (
        f" @ {entry.address - first:#x}")
    yield "external reg {" if entry.address == Register.WINDOW_DATA else "reg {"
    yield f"    regwidth = {entry.bits};"
    yield f"    desc = {_quoted(text)};"
    yield from _indented(_field(field, entry) for field in entry.fields)
    yield f"}} {entry.name}{place};"


def rdl(parameters: DieParameters) -> str:
    """The register map of a die; its top is ``plinth_`` and the die's name, with underscores."""
    entries = register_map(parameters)
    codes = dict.fromkeys(field.codes for entry in entries for field in entry.fields if field.codes)
    lines = [line for code in codes for line in [*_enum(code), ""]]
    lines += [f"addrmap plinth_{parameters.name.replace('-', '_')} {{",
              f"    name = {_quoted(f'Registers of {parameters.name}')};",
              "    desc = \"AXI4-Lite, byte addresses. Addresses without a register answer SLVERR.\";",
              "    default accesswidth = 32;", "    littleendian;", ""]
    for entry in entries:
        if entry.engine is None:
            lines += _indented(_register(entry))
    for engine in Engine:
        block = [entry for entry in entries if entry.engine is engine]
        if block:
            first = regs.ENGINES + regs.ENGINE_SPAN * engine.value
            lines += ["    regfile {", f"        desc = {_quoted(f'Status of the {engine.name.lower()} engine.')};",
                      *(line for entry in block for line in _indented(_indented(_register(entry, first)))),
                      f"    }} ENGINE_{engine.name} @ {first:#x};"]
    return "\n".join([*lines, "};", ""])
