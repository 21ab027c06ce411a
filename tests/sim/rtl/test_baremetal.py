"""The example in C, ``examples/baremetal/gemm.c``, on golden and on co-simulated dies: its accesses are those of the
programmer's guide, and its product is right."""

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plinth_hw.isa import worked_example
from plinth_hw.isa.c_header import c_header
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.registers import ErrorCode, Register
from plinth_hw.isa.worked_example import MEMORY_WORDS, PRESET, SIZE, TASK, C, Write, descriptor, result, writes
from plinth_sim.golden.array import GoldenArray
from plinth_sim.rtl.cosim import CosimArray

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "baremetal"
_PLATFORM = """
#include <stdint.h>
extern void (*write_access)(int, uint32_t, uint32_t);
extern uint32_t (*read_access)(int, uint32_t);
static inline void register_write(uint32_t address, uint32_t value) { write_access(1, address, value); }
static inline uint32_t register_read(uint32_t address) { return read_access(1, address); }
static inline void memory_write(uint32_t word, uint32_t value) { write_access(0, word, value); }
static inline uint32_t memory_read(uint32_t word) { return read_access(0, word); }
static inline void memory_barrier(void) { }
"""
_HOST = """
#include <stdint.h>
void (*write_access)(int, uint32_t, uint32_t);
uint32_t (*read_access)(int, uint32_t);
#define PLATFORM "hosted.h"
#define main example_main
#include "gemm.c"
int run(void (*write)(int, uint32_t, uint32_t), uint32_t (*read)(int, uint32_t))
{
    write_access = write;
    read_access = read;
    return example_main();
}
"""
_WRITE = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_uint32, ctypes.c_uint32)
_READ = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_int, ctypes.c_uint32)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The example as a library, whose accesses are functions' of this process."""
    folder = tmp_path_factory.mktemp("example")
    (folder / "die.h").write_text(c_header(preset(PRESET)))
    (folder / "hosted.h").write_text(_PLATFORM)
    (folder / "host.c").write_text(_HOST)
    compiler = ("g++", "-x", "c", "-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", f"-I{folder}", f"-I{EXAMPLE}")
    subprocess.run([*compiler, "-shared", "-fPIC", "host.c", "-o", "example.so"], cwd=folder, check=True)
    # As it is, with accesses of the processor's own.
    subprocess.run([*compiler, "-ffreestanding", "-c", str(EXAMPLE / "gemm.c"), "-o", "a.o"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "example.so")).run


def run(example: Any, array: Any, change: Any = lambda write: write) -> tuple[int, list[Write]]:
    """The example on the first die of an array: what it returns, and its writes."""
    (die,), word, done = array.dies, np.dtype("<u4"), []

    def write(register: int, address: int, value: int) -> None:
        done.append(Write(bool(register), address, value))
        own = change(done[-1])
        if register:
            die.write_register(own.address, own.value)
        else:
            die.write_memory(own.address, np.array([own.value], word))

    def read(register: int, address: int) -> int:
        if register and address == Register.STATUS:
            array.wait(10_000)
        return int(die.read_register(address) if register else die.read_memory(address, 1)[0])

    return example(_WRITE(write), _READ(read)), done


@pytest.mark.parametrize("make", [GoldenArray, pytest.param(CosimArray, marks=pytest.mark.slow)])
def test_the_example_multiplies_and_the_guide_shows_how(make: Any, example: Any) -> None:
    array = make(preset(PRESET), 1, MEMORY_WORDS)
    code, done = run(example, array)
    assert code == 0 and done == list(writes())
    found = array.dies[0].read_memory(C, SIZE * SIZE).view(np.float32)
    assert found.tolist() == result()
    a, b = (np.array(values).reshape(SIZE, SIZE) for values in worked_example.operands())
    assert np.array_equal(found.reshape(SIZE, SIZE), a @ b)


def test_errors_are_what_it_returns(example: Any) -> None:
    def beyond(write: Write) -> Write:
        """An operation that there is not."""
        return write._replace(value=write.value | 0xF0) if (write.register, write.address) == (False, TASK) else write

    assert run(example, GoldenArray(preset(PRESET), 1, MEMORY_WORDS), beyond)[0] == ErrorCode.BAD_OPERATION.value
    wrong = run(example, GoldenArray(preset(PRESET), 1, MEMORY_WORDS), lambda write: write._replace(
        value=0) if not write.register and write.address == 0 else write)[0]
    assert wrong > 1000
    assert run(example, GoldenArray(preset("ndp-demo"), 1, MEMORY_WORDS))[0] == -1


def test_the_descriptor_is_a_whole_one() -> None:
    assert len(descriptor()) == 64 and TASK % 64 == 0
