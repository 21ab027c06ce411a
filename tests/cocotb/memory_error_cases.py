"""cocotb tests of a whole die whose memory answers with errors: at every kind of access, at any beat.

Each ends with the error MEMORY, which names the task that asked, also where a later task of an engine reads ahead of
the one before; after the host has stopped and cleared the die, the same graph runs to its end.
"""

from copy import copy
from typing import Any

import numpy as np
import pytest
from cocotb.task import bridge, resume
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiResp
from tests.support.back_ends import check_equal

import cocotb
from plinth.buffers import Buffer
from plinth.driver.driver import DieError, Driver
from plinth.driver.program import Program
from plinth.lower.builder import GraphBuilder
from plinth.lower.program import assemble, ring_setup
from plinth.step.vector import VectorProgram
from plinth_hw.isa.descriptors import DESCRIPTOR_WORDS, RECORD_WORDS
from plinth_hw.isa.layout import unpack
from plinth_hw.isa.operations import (
    CollectiveOperation,
    Engine,
    ErrorCode,
    MatrixOperation,
    TransferOperation,
    UpdateOperation,
    VectorOperation,
)
from plinth_hw.isa.parameters import RESET_CYCLES, preset
from plinth_hw.isa.registers import ErrorInfo, Register
from plinth_sim.golden.array import GoldenArray
from plinth_sim.rtl.cocotb_device import CocotbArray

TINY = preset("ndp-tiny")
MEMORY_WORDS = 1 << 13
SIZE = 12
SCHEDULER = 255
#: Task, buffers that it alone reads, and the one that it alone writes. Both products may run at once.
TASKS = {"product": ("abc", "c"), "next product": ("de", "f"), "vector": ("g", "h"), "copy": ("i", "j"),
         "reduction": ("k", "l")}


def graph() -> tuple[Program, dict[str, Buffer]]:
    """A task of each engine, and one more product; each with buffers of its own."""
    builder = GraphBuilder(TINY)
    place = {name: builder.allocate(name, SIZE, SIZE) for name in "abcdefghijkl"}
    for name, operands, accumulate in (("product", "abc", 1), ("next product", "def", 0)):
        a, b, c = (place[operand] for operand in operands)
        builder.add(name, Engine.MATRIX, MatrixOperation.GEMM, {
            "a": a.pointer, "a_stride": a.stride, "b": b.pointer, "b_stride": b.stride, "c": c.pointer,
            "c_stride": c.stride, "m": SIZE, "n": SIZE, "k": SIZE, "accumulate": accumulate}, reads=[a, b, c],
            writes=[c])
    vector = VectorProgram(TINY, SIZE, SIZE)
    vector.load("x", place["g"])
    vector.store("x", place["h"])
    builder.add("vector", Engine.VECTOR, VectorOperation.PROGRAM, vector.body(), reads=[place["g"]],
                writes=[place["h"]])
    source, target = place["i"], place["j"]
    builder.add("copy", Engine.TRANSFER, TransferOperation.COPY, {
        "source": source.pointer, "destination": target.pointer, "columns": SIZE, "rows": SIZE, "planes": 1,
        "source_row_stride": source.stride, "destination_row_stride": target.stride}, reads=[source], writes=[target])
    builder.add("reduction", Engine.COLLECTIVE, CollectiveOperation.ALL_REDUCE, {
        "source": place["k"].pointer, "destination": place["l"].pointer, "words": place["k"].words, "group": 0,
        "update": UpdateOperation.NONE, "message": 0, "rate": 0}, reads=[place["k"]], writes=[place["l"]])
    return assemble([ring_setup(TINY, range(1), 0, 0)], [builder], memory_words=MEMORY_WORDS), place


def faults(program: Program, place: dict[str, Buffer]) -> list[tuple[str, bool, int, int, int | None]]:
    """What is refused: a name, whether writes are, word address; engine and task that the die is to name. Of records,
    which come in the order of completions, the task is the one that is written there."""
    accesses = []
    step = program.step[0]
    for number, task in enumerate(step.tasks):
        address, beat = step.address + number * DESCRIPTOR_WORDS, TINY.beat_words
        reads, write = TASKS[task.name]
        spans = [(f"operand {name} of the {task.name}", False, place[name].address, place[name].words,
                  task.engine.value) for name in reads]
        spans.append((f"result of the {task.name}", True, place[write].address, place[write].words, task.engine.value))
        spans.append((f"descriptor of the {task.name}", False, address, DESCRIPTOR_WORDS, SCHEDULER))
        for name, writes, first, words, engine in spans:
            accesses += [(f"beat {at} of {name}", writes, first + at * beat, engine, address)
                         for at in (0, words // beat // 2, words // beat - 1)]
        accesses += [(f"beat {at} of record {number}", True, program.records + number * RECORD_WORDS + at * beat,
                      SCHEDULER, None) for at in range(RECORD_WORDS // beat)]
    return accesses


def fill(driver: Driver, place: dict[str, Buffer]) -> None:
    """The same operands every time; results begin as zeros."""
    rng = np.random.default_rng(1)
    for buffer in place.values():
        driver.write_floats(0, buffer, rng.standard_normal((SIZE, SIZE)).astype(np.float32))


def image(array: Any, program: Program) -> np.ndarray:
    """Memory but for the records, which hold times."""
    words = array.dies[0].read_memory(0, MEMORY_WORDS)
    words[program.records:program.records + RECORD_WORDS * len(program.step[0].tasks)] = 0
    return words[None]


def wanted(program: Program, place: dict[str, Buffer]) -> np.ndarray:
    """What the golden model leaves."""
    golden = GoldenArray(TINY, 1, MEMORY_WORDS)
    driver = Driver(golden, program, memory_words=MEMORY_WORDS)
    fill(driver, place)
    driver.step(0)
    return image(golden, program)


def changed(name: str, bits: int, ends: bool = False) -> Any:
    """A transfer with other bits in a field; ``ends``: one that ends a burst."""
    def change(transfer: Any) -> list[Any] | None:
        if ends and not transfer.rlast:
            return None
        setattr(transfer, name, int(getattr(transfer, name)) ^ bits)
        return [transfer]

    return change


#: Answers that AXI4 does not allow: a channel, and what becomes of one of its transfers.
OUT_OF_TURN: dict[str, tuple[str, Any]] = {
    "a beat twice": ("r", lambda transfer: [transfer, copy(transfer)]),
    "a beat with another ID": ("r", changed("rid", 1)),
    "a last beat that is not said to be": ("r", changed("rlast", 1, ends=True)),
    "no beat": ("r", lambda transfer: []),
    "a response twice": ("b", lambda transfer: [transfer, copy(transfer)]),
    "a response with another ID": ("b", changed("bid", 1)),
    "no response": ("b", lambda transfer: []),
}


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def answers_out_of_turn(dut: Any) -> None:
    """The die names MEMORY, or TIMEOUT if an answer is missing, at whatever transfer; once it is stopped it goes on."""
    program, place = graph()
    array = await CocotbArray.start(dut, TINY, dies=1, memory_words=MEMORY_WORDS)
    die = array.dies[0]

    def drive() -> None:
        driver = Driver(array, program, memory_words=MEMORY_WORDS)
        for name, (channel, change) in OUT_OF_TURN.items():
            for after in (0, 1, 2, 7, 12, 30):
                fill(driver, place)
                die.write_register(Register.WATCHDOG, 3000)
                die.disturb(channel, after, change)
                # A beat that is missing is missed where its request ends, if others follow, and else for ever.
                codes = {ErrorCode.MEMORY} | ({ErrorCode.TIMEOUT} if name.startswith("no ") else set())
                try:
                    driver.step(0)
                except DieError:
                    pass
                else:
                    raise AssertionError(f"{name}, behind {after} others: the die said nothing")
                assert die.read_register(Register.ERROR_CODE) in {code.value for code in codes}, (name, after)
                if name.startswith("no "):
                    # Memory still owes what the die waits for: nothing but a reset ends that.
                    dut.rst.value = 1
                    resume(ClockCycles)(dut.clk, RESET_CYCLES)
                    dut.rst.value = 0
                    driver = Driver(array, program, memory_words=MEMORY_WORDS)
                else:
                    driver.recover()
        fill(driver, place)
        driver.step(0)
        check_equal(image(array, program), wanted(program, place), program)

    await bridge(drive)()


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(stalls=[0.0, 0.5])
async def errors(dut: Any, stalls: float) -> None:
    """SLVERR and DECERR in turn; which one is answered to what changes with ``stalls``."""
    program, place = graph()
    array = await CocotbArray.start(dut, TINY, dies=1, memory_words=MEMORY_WORDS)
    array.stall(stalls, cocotb.RANDOM_SEED)
    die = array.dies[0]

    def drive() -> None:
        driver = Driver(array, program, memory_words=MEMORY_WORDS)
        for number, (name, writes, address, engine, task) in enumerate(faults(program, place)):
            beats = {address // TINY.beat_words}
            answer = AxiResp.DECERR if (number + bool(stalls)) % 2 else AxiResp.SLVERR
            fill(driver, place)
            die.refuse(() if writes else beats, beats if writes else (), answer)
            with pytest.raises(DieError, match=ErrorCode.MEMORY.name):
                driver.step(0)
            assert die.read_register(Register.ERROR_CODE) == ErrorCode.MEMORY.value, name
            if task is None:
                record = (address - program.records) // RECORD_WORDS
                task = int(die.read_memory(program.records + RECORD_WORDS * record, 1)[0])
                assert program.step[0].task_at(task), name
            assert die.read_register(Register.ERROR_TASK) == task, name
            assert unpack(ErrorInfo, [die.read_register(Register.ERROR_INFO)]).engine == engine, name
            die.refuse((), ())
            driver.recover()
        fill(driver, place)
        driver.step(0)
        check_equal(image(array, program), wanted(program, place), program)

    await bridge(drive)()
