"""One product of matrices as a host's accesses, in numbers: what the programmer's guide shows, and
``examples/baremetal/gemm.c`` does."""

from collections.abc import Iterator
from typing import NamedTuple

from plinth_hw.isa.descriptors import DESCRIPTOR_WORDS, HEADER_WORDS, TaskHeader
from plinth_hw.isa.formats import FP32, number_word
from plinth_hw.isa.layout import pack
from plinth_hw.isa.matrix_bodies import MatrixBody
from plinth_hw.isa.operations import Engine, MatrixOperation
from plinth_hw.isa.registers import BASES, ControlBits, Register

#: The die: FP32, words of 32 bits.
PRESET = "ndp-tiny"
#: Rows and columns of the matrices, and where they and the descriptor begin, in words.
SIZE, A, B, C, TASK, MEMORY_WORDS = 4, 0x000, 0x100, 0x200, 0x400, 0x1000
#: Words of a line of the guide's table.
_LINE = 8


class Write(NamedTuple):
    """A write: to registers of a byte address, or to memory of a word address."""

    register: bool
    address: int
    value: int


def operands() -> tuple[list[float], list[float]]:
    """A and B, row after row."""
    places = range(SIZE)
    return ([float(SIZE * row + column + 1) for row in places for column in places],
            [float(row - column) for row in places for column in places])


def descriptor() -> tuple[int, ...]:
    """The one task: C = A B."""
    header = pack(TaskHeader, {"engine": Engine.MATRIX, "operation": MatrixOperation.GEMM.value, "last": 1})
    body = pack(MatrixBody, {
        "a": {"offset": A}, "a_stride": SIZE, "b": {"offset": B}, "b_stride": SIZE, "c": {"offset": C},
        "c_stride": SIZE, "m": SIZE, "n": SIZE, "k": SIZE})
    return (*header, *body, *[0] * (DESCRIPTOR_WORDS - HEADER_WORDS - len(body)))


def writes() -> Iterator[Write]:
    """All writes, in their order; the last one starts the die."""
    for place, pair in enumerate(zip(*operands(), strict=True)):
        for first, value in zip((A, B), pair, strict=True):
            yield Write(False, first + place, number_word(FP32, value))
    yield from (Write(False, TASK + place, word) for place, word in enumerate(descriptor()))
    for address, value in ((Register.DIE, 0), (Register.DIES, 1), (Register.MEMORY_WORDS, MEMORY_WORDS), (BASES, 0),
                           (Register.TASK_BASE, TASK), (Register.CONTROL, ControlBits.START)):
        yield Write(True, int(address), int(value))


def result() -> list[float]:
    """C, row after row; exact."""
    a, b = operands()
    return [sum(a[SIZE * row + term] * b[SIZE * term + column] for term in range(SIZE))
            for row in range(SIZE) for column in range(SIZE)]


def table() -> Iterator[str]:
    """The writes as Markdown: those of memory in lines of neighbours, then those of registers in their order. Words of
    the descriptor that are 0 are left out."""
    memory = {write.address: write.value for write in writes() if not write.register}
    yield "| words of memory | values |"
    yield "| --- | --- |"
    for what, first, count in (("A", A, SIZE * SIZE), ("B", B, SIZE * SIZE), ("descriptor", TASK, DESCRIPTOR_WORDS)):
        for start in range(first, first + count, _LINE):
            values = [memory[address] for address in range(start, min(start + _LINE, first + count))]
            if any(values):
                yield f"| `{start:#05x}` ({what}) | `{' '.join(f'{value:08x}' for value in values)}` |"
    yield ""
    yield "| register | address | value |"
    yield "| --- | --- | --- |"
    names = {int(register): register.name for register in Register} | {BASES: "BASES[0]"}
    for write in writes():
        if write.register:
            yield f"| `{names[write.address]}` | `{write.address:#05x}` | `{write.value:08x}` |"
    yield ""
    values = [number_word(FP32, value) for value in result()]
    yield "| words of C | values |"
    yield "| --- | --- |"
    for start in range(0, SIZE * SIZE, _LINE):
        yield f"| `{C + start:#05x}` | `{' '.join(f'{value:08x}' for value in values[start:start + _LINE])}` |"
