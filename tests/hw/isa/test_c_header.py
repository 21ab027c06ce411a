"""The C header: compiled as C and as C++, and its fields against :func:`pack` and :func:`unpack`."""

import ctypes
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plinth_hw.isa.c_header import BODIES, CODES, LAYOUTS, c_header, fields, layout_name
from plinth_hw.isa.descriptors import HEADER_WORDS, Pointer
from plinth_hw.isa.layout import Repeat, Struct, pack, unpack
from plinth_hw.isa.parameters import PRESETS, preset
from plinth_hw.isa.registers import ARRAYS, EngineRegister, Register

HEADER = c_header(preset("ndp-tiny"))
#: Values of the preprocessor's names, arguments left out.
VALUES = dict(re.findall(r"^#define (PLINTH_\w+) (\S.*?)(?: /\*.*)?$", HEADER, re.MULTILINE))


def number(text: str) -> int:
    return int(text.rstrip("u"), 0)


def leaves(shape: Any, value: Any) -> list[int]:
    """Numbers of all fields but reserved ones, in the order of the header's, each with all of its numbers."""
    if isinstance(shape, type) and issubclass(shape, Struct) and shape is not Pointer:
        found: list[int] = []
        for name, field in shape.FIELDS.items():
            if not name.startswith("reserved"):
                found += leaves(field.shape, getattr(value, name))
        return found
    if isinstance(shape, Repeat):
        return [item for own in value for item in leaves(shape.shape, own)]
    if shape is Pointer:
        return [pack(Pointer, value)[0]]
    return [getattr(value, "value", value) & (1 << 64) - 1]


def test_a_c_compiler_and_a_c_plus_plus_compiler_take_it(tmp_path: Path) -> None:
    for name in PRESETS:
        (tmp_path / f"{name}.h").write_text(c_header(preset(name)))
    for language, standard in (("c", "c99"), ("c++", "c++11")):
        for name in ("ndp-tiny", "fpga-ulx3s", "hypar-tiny"):
            subprocess.run(["g++", "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                            "-fsyntax-only", "-"], input=f'#include "{name}.h"\n', cwd=tmp_path, text=True, check=True)


def test_what_is_shown_of_fields() -> None:
    assert "#define PLINTH_FIELD_VECTOR_LOAD_STRIDE(i) 608 + 96 * (i), 32 /* i: 0 to 3; Words between" in HEADER
    assert re.search(r"#define PLINTH_FIELD_MATRIX_WINDOW_ROW \d+, 16 /\* signed; Row of the map", HEADER)
    # Of a layout with another one's fields first.
    assert re.search(r"#define PLINTH_FIELD_CODE_MARKS \d+, 1 /\* Results of 0 are -0", HEADER)
    assert ":data:" not in HEADER and ":class:" not in HEADER


def test_headers_of_two_kinds_do_not_meet(tmp_path: Path) -> None:
    for name in ("ndp-tiny", "fpga-tiny"):
        (tmp_path / f"{name}.h").write_text(c_header(preset(name)))
    run = subprocess.run(["g++", "-fsyntax-only", "-x", "c++", "-"], cwd=tmp_path, text=True, capture_output=True,
                         input='#include "ndp-tiny.h"\n#include "ndp-tiny.h"\n#include "fpga-tiny.h"\n')
    assert run.returncode and "give each kind a source file of its own" in run.stderr


def test_names_are_each_there_once() -> None:
    names = re.findall(r"^#define (\w+)", HEADER, re.MULTILINE)
    assert len(set(names)) == len(names) and all(name.startswith("PLINTH_") for name in names)


def test_registers_and_codes_are_those_declared() -> None:
    assert {name: number(VALUES[f"PLINTH_REG_{name}"]) for name in Register.__members__} == dict(Register.__members__)
    for name, offset in EngineRegister.__members__.items():
        assert number(VALUES[f"PLINTH_ENGINE_REG_{name}"]) == offset
    for name, array in ARRAYS.items():
        assert f"#define PLINTH_REG_{name}(n) ({array.first:#06x}u + {array.step}u * (n))" in HEADER
    for code in CODES:
        prefix = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", code.__name__).upper()
        assert {member.name: number(VALUES[f"PLINTH_{prefix}_{member.name}"]) for member in code} == {
            member.name: member.value for member in code}
    assert number(VALUES["PLINTH_VALUE_ID"]) == 0x504C494E and VALUES["PLINTH_ROWS"] == "4"


@pytest.mark.parametrize("layouts, first", [(LAYOUTS, 0), (BODIES, HEADER_WORDS)], ids=["others", "bodies"])
def test_fields_are_put_where_software_reads_them(layouts: tuple[type[Struct], ...], first: int, tmp_path: Path
                                                  ) -> None:
    """All fields of random words, by a C program's functions: taken from the words, and put into others."""
    (tmp_path / "die.h").write_text(HEADER)
    source, per_layout = ['#include "die.h"'], []
    for place, layout in enumerate(layouts):
        accesses = []
        for field in fields(layout):
            counts = _counts(layout, field.name, len(field.repeats))
            assert counts == [count for _, count in field.repeats]
            for numbers in np.ndindex(*counts):
                macro = f"{layout_name(layout)}_{field.name.upper()}"
                accesses.append((field.signed, f"{macro}({', '.join(map(str, numbers))})" if numbers else macro))
        per_layout.append(len(accesses))
        source += [f"void take{place}(const uint32_t *words, uint64_t *values) {{", *(
            f"values[{index}] = (uint64_t)plinth_get{'_signed' * signed}(words, {access});"
            for index, (signed, access) in enumerate(accesses)), "}",
            f"void put{place}(uint32_t *words, const uint64_t *values) {{", *(
            f"plinth_put(words, {access}, values[{index}]);" for index, (_, access) in enumerate(accesses)), "}"]
    (tmp_path / "fields.c").write_text("\n".join(source))
    subprocess.run(["g++", "-x", "c", "-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "fields.c",
                    "-o", "fields.so"], cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "fields.so"))
    generator = np.random.default_rng(1)
    for place, layout in enumerate(layouts):
        words = generator.integers(0, 1 << 32, first + -(-layout.BITS // 32), dtype=np.uint32)
        wanted = _in_order(layout, unpack(layout, words[first:]))
        values = np.zeros(per_layout[place], np.uint64)
        getattr(library, f"take{place}")(ctypes.c_void_p(words.ctypes.data), ctypes.c_void_p(values.ctypes.data))
        assert values.tolist() == wanted, layout
        mended = np.zeros_like(words)
        getattr(library, f"put{place}")(ctypes.c_void_p(mended.ctypes.data), ctypes.c_void_p(values.ctypes.data))
        again = unpack(layout, mended[first:])
        assert _in_order(layout, again) == wanted and not mended[:first].any()
        assert pack(layout, again) == tuple(mended[first:].tolist())


def _counts(layout: type[Struct], name: str, dimensions: int) -> list[int]:
    """How many of a field there are in each of its dimensions, by its name in the header."""
    if not dimensions:
        return []
    for own, field in layout.FIELDS.items():
        shape = field.shape
        if isinstance(shape, Repeat) and (name == own or name.startswith(f"{own}_")):
            inner = shape.shape
            rest = [] if name == own else _counts(inner, name.removeprefix(f"{own}_"), dimensions - 1)
            return [shape.length, *rest]
        if isinstance(shape, type) and issubclass(shape, Struct) and name.startswith(f"{own}_"):
            return _counts(shape, name.removeprefix(f"{own}_"), dimensions)
    raise AssertionError(f"{layout.__name__} has no {name}")


def _in_order(layout: type[Struct], value: Any) -> list[int]:
    """Numbers of fields in the order of the header: each field's numbers together."""
    found: list[int] = []
    for name, field in layout.FIELDS.items():
        shape, own = field.shape, getattr(value, name)
        if name.startswith("reserved"):
            continue
        if isinstance(shape, Repeat) and isinstance(shape.shape, type) and issubclass(shape.shape, Struct) and (
                shape.shape is not Pointer):
            columns = [leaves(shape.shape, item) for item in own]
            found += [column[index] for index in range(len(columns[0])) for column in columns]
        else:
            found += leaves(shape, own)
    return found
