"""Writes the tables of the programmer's guide from the declarations: ``python -m plinth_hw.isa FILE``.

Everything between ``<!-- isa begin -->`` and ``<!-- isa end -->`` is replaced; with ``--check`` nothing is
written and the exit code is 1 if the file is out of date. ``python -m plinth_hw.isa --rdl PRESET FILE`` writes the
register map of a die as SystemRDL (:mod:`~plinth_hw.isa.rdl`).
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from plinth_hw.isa import machine, registers, worked_example
from plinth_hw.isa.comments import comments, shared_comments
from plinth_hw.isa.descriptors import BODY_WORDS, DESCRIPTOR_WORDS, HEADER_WORDS, Pointer, Record, TaskHeader
from plinth_hw.isa.formats import Factor
from plinth_hw.isa.layout import WORD_BITS, Code, Repeat, Struct, width
from plinth_hw.isa.limits import PARAMETERS
from plinth_hw.isa.matrix_bodies import MatrixBody, RowStationaryBody
from plinth_hw.isa.operations import (
    CollectiveOperation,
    Engine,
    ErrorCode,
    MatrixOperation,
    OptimiserOperation,
    Traffic,
    TransferOperation,
    UpdateOperation,
    VectorOperation,
)
from plinth_hw.isa.parameters import PRESETS
from plinth_hw.isa.rdl import rdl
from plinth_hw.isa.register_map import register_map
from plinth_hw.isa.transfer_bodies import CodeBody, TransferBody, TransformBody
from plinth_hw.isa.update_bodies import CollectiveBody, OptimiserBody, RouteBody
from plinth_hw.isa.vector_body import VectorBody, VectorFunction, VectorInstruction, VectorMove, VectorOp, VectorRegion
from plinth_hw.isa.winograd import MATRICES, PLAIN, TRANSFORMS
from plinth_hw.terminal.files import write_text
from plinth_hw.terminal.program import program

BEGIN, END = "<!-- isa begin -->\n", "<!-- isa end -->\n"
#: The preset whose registers after reset the guide shows.
RESETS_OF = "ndp-demo"


def _fields(layout: type[Struct], first: int = 0, prefix: str = "") -> Iterator[tuple[int, int, str]]:
    """(first bit, bits, name) of every field, nested structures named with dots."""
    for name, field in layout.FIELDS.items():
        start, shape, label = first + field.offset, field.shape, f"{prefix}{name}"
        if name.startswith("reserved"):
            continue
        if isinstance(shape, Repeat):
            yield start, shape.bits, f"{label}[{shape.length}]"
        elif isinstance(shape, type) and issubclass(shape, Struct) and shape is not Pointer:
            yield from _fields(shape, start, f"{label}.")
        else:
            yield start, width(shape), label


def _layout_table(layout: type[Struct]) -> Iterator[str]:
    """Of a layout that has another one's fields first, those behind."""
    texts, base = comments(layout), layout.__bases__[0]
    first = getattr(base, "BITS", 0)
    if first:
        yield f"Behind the fields of `{base.__name__}`:"
        yield ""
    yield "| word | bits | field | meaning |"
    yield "| ---: | ---: | --- | --- |"
    for start, bits, name in _fields(layout):
        if start < first:
            continue
        word, low = divmod(start, WORD_BITS)
        high = low + bits - 1
        words = str(word) if high < WORD_BITS else f"{word} to {(start + bits - 1) // WORD_BITS}"
        place = f"{high}:{low}" if high < WORD_BITS else "all"
        yield f"| {words} | {place} | `{name}` | {texts.get(name.split('[')[0].split('.')[0], '')} |"


def _enum_table(enum: type[Enum]) -> Iterator[str]:
    texts = comments(enum)
    yield "| value | name | meaning |"
    yield "| ---: | --- | --- |"
    for member in enum:
        yield f"| {member.value} | `{member.name}` | {texts.get(member.name, '')} |"


def _register_table(enum: type[Any], width: int, resets: Mapping[str, str] | None = None) -> Iterator[str]:
    texts = shared_comments(enum)
    yield f"| address | register | {'after reset | ' if resets is not None else ''}meaning |"
    yield f"| ---: | --- | {'---: | ' if resets is not None else ''}--- |"
    for member in enum:
        reset = "" if resets is None else f" {resets.get(member.name, '')} |"
        yield (f"| `{member.value:#0{width + 2}x}` | `{member.name}` |{reset} {member.access.value}: "
               f"{texts[member.name]} |")


def _resets() -> dict[str, str]:
    """What registers hold after reset: constants and what hosts write, of :data:`RESETS_OF`."""
    return {entry.name: f"`{entry.reset:#x}`" for entry in register_map(PRESETS[RESETS_OF])
            if entry.engine is None and entry.reset is not None}


def _matrices() -> Iterator[str]:
    """The matrices that transforms name."""
    names = ["1", *(f"{name} of F({outputs}, {taps})" for outputs, taps in TRANSFORMS
                    for name in ("B^T", "A", "B", "A^T")), *(f"1, of {side}" for side in PLAIN)]
    yield "| number | matrix | rows |"
    yield "| ---: | --- | --- |"
    for number, (name, matrix) in enumerate(zip(names, MATRICES, strict=True)):
        rows = "; ".join(" ".join(map(str, row)) for row in matrix)
        yield f"| {number} | {name} | `{rows}` |"


def _limit_table() -> Iterator[str]:
    """Of each parameter the fields that bound it, the narrowest first."""
    yield "| parameter | at most | fields (bits) |"
    yield "| --- | ---: | --- |"
    for what in dict.fromkeys(limit.what for limit in PARAMETERS):
        limits = sorted((limit for limit in PARAMETERS if limit.what == what), key=lambda limit: limit.most)
        fields = ", ".join(f"`{limit.field}` ({limit.bits})" for limit in limits)
        yield f"| {what} | {limits[0].most} | {fields} |"


def tables() -> str:
    """All tables as Markdown."""
    lines: list[str] = ["## Descriptors", "",
                        f"A descriptor has {DESCRIPTOR_WORDS} words and is aligned to its own size: "
                        f"{HEADER_WORDS} words of header, {BODY_WORDS} words of body.", ""]
    parts: list[tuple[str, type[Struct]]] = [
        ("Header", TaskHeader), ("Pointer", Pointer), ("Matrix body", MatrixBody),
        ("Row-stationary body", RowStationaryBody), ("Vector body", VectorBody),
        ("Region of a vector body", VectorRegion),
        ("Move of a vector body", VectorMove),
        ("Instruction of a vector body", VectorInstruction),
        ("Collective body", CollectiveBody), ("Route body", RouteBody),
        ("Transfer body", TransferBody),
        ("Transform body", TransformBody), ("Code body", CodeBody), ("Optimiser body", OptimiserBody),
        ("Factor", Factor), ("Completion record", Record)]
    for title, layout in parts:
        lines += [f"### {title}", "", *_layout_table(layout), ""]
    enums: list[type[Code]] = [Engine, MatrixOperation, VectorOperation, VectorOp,
                              VectorFunction, CollectiveOperation, UpdateOperation, Traffic,
                              TransferOperation, OptimiserOperation, ErrorCode, machine.Machine]
    for enum in enums:
        lines += [f"### {enum.__name__}", "", *_enum_table(enum), ""]
    lines += ["### Matrices of transforms", "", "`TransformBody.down` and `across` name them; a row has the "
              "coefficients of a result.", "", *_matrices(), ""]
    lines += ["## Registers", "", f"After reset: constants, and what hosts write, of `{RESETS_OF}`.", "",
              *_register_table(registers.Register, 3, _resets()), ""]
    lines += ["Arrays of registers:", "", "| address | register | at most | meaning |", "| ---: | --- | ---: | --- |"]
    texts = comments(registers)
    for name, array in registers.ARRAYS.items():
        lines.append(f"| `{array.first:#06x}` | `{name}` | {array.count} | {array.access.value}: {texts[name]} |")
    for layout in (registers.ErrorInfo, registers.WaitCounter, registers.LinkRate, machine.MachineInfo, machine.Formats,
                   machine.NumberFormat, machine.ArraySize, machine.Ports):
        lines += ["", f"Fields of `{layout.__name__}`:", "", *_layout_table(layout)]
    lines += ["", "Offsets within an engine's status block:", "",
              *_register_table(registers.EngineRegister, 2), "", "## Limits of a die's parameters", "",
              *_limit_table(), "", "## Presets", "",
              "| preset | array | products | interleave | beat | memory | operand buffers | output buffer "
              "| vector scratchpad | link |",
              "| --- | --- | --- | ---: | ---: | --- | --- | --- | --- | --- |"]
    for preset in PRESETS.values():
        systolic = preset.systolic
        kib = preset.word_bits / 8 / 1024
        sum_kib = kib if systolic else preset.sum_format.bits / 8 / 1024
        lines.append(
            f"| `{preset.name}` | {preset.machine}, {preset.rows}x{preset.columns} | {preset.multiply_format} "
            f"| {preset.interleave if systolic else f'to {preset.psum_words}'} | {preset.beat_words} words "
            f"| {float(preset.memory_words_per_cycle):g} words a cycle "
            f"| 2 x {'2 x ' if systolic else ''}{preset.operand_buffer_words * kib:g} KiB "
            f"| {preset.output_buffer_words * sum_kib:g} KiB "
            f"| 2 x {preset.vector_buffer_words * kib:g} KiB "
            + (f"| {preset.flit_words} words x {preset.link_rate} a cycle |" if preset.ports else "| none |"))
    lines += ["", "## A product, in numbers", "",
              f"C = A B, {worked_example.SIZE} x {worked_example.SIZE}, on `{worked_example.PRESET}`: what a host "
              "writes. Words that are left out of the descriptor are 0.", "", *worked_example.table()]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Bring a file up to date, or check that it is; 2 if that cannot be."""
    parser = argparse.ArgumentParser(prog="python -m plinth_hw.isa", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("file", type=Path)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="write nothing; 1 if the tables are out of date")
    what.add_argument("--rdl", choices=list(PRESETS), metavar="PRESET", help="write a die's registers as SystemRDL")
    options = parser.parse_args(arguments)
    try:
        if options.rdl:
            write_text(options.file, rdl(PRESETS[options.rdl]))
            return 0
        old = options.file.read_text(encoding="utf-8")
        head, _, rest = old.partition(BEGIN)
        _, _, tail = rest.partition(END)
        new = f"{head}{BEGIN}\n{tables()}{END}{tail}"
        if options.check:
            return int(new != old)
        write_text(options.file, new)
    except OSError as error:
        print(f"plinth_hw.isa: error: {options.file}: {error.strerror}; name another file", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    with program("plinth_hw.isa"):
        sys.exit(main(sys.argv[1:]))
