"""cocotb tests of whole dies: random task graphs by the driver, memory compared with the golden model's.

``DIES`` says how many dies the top has: one by itself, or a ring.
"""

import os
from typing import Any

import numpy as np
from cocotb.task import bridge
from tests.support.back_ends import check_equal, images
from tests.support.die_tops import ON_CHIP
from tests.support.graphs import random_program, tangled

import cocotb
from plinth_hw.isa.parameters import preset
from plinth_sim.golden.array import GoldenArray
from plinth_sim.rtl.cocotb_device import CocotbArray

TINY = preset("ndp-tiny")
MEMORY_WORDS = 1 << 15
DIES = int(os.environ["DIES"])


async def compare(dut: Any, program: Any, buffers: Any, seed: int, *, stalls: float, steps: int = 2,
                  words: int = MEMORY_WORDS) -> None:
    """Run a program in the testbench and on the golden model; the whole memory is equal after each step."""
    array = await CocotbArray.start(dut, program.parameters, dies=DIES, memory_words=words)
    array.stall(stalls, seed)
    golden = GoldenArray(program.parameters, DIES, words)

    def drive() -> None:
        both = [images(array, program, buffers, seed, memory_words=words, steps=steps)
                for array in (array, golden)]
        for image, wanted in zip(*both, strict=True):
            check_equal(image, wanted, program)

    await bridge(drive)()


@cocotb.test(timeout_time=3, timeout_unit="ms")
@cocotb.parametrize(stalls=[0.0, 0.3, 0.7])
async def random_graphs(dut: Any, stalls: float) -> None:
    """All engines, with random valid and ready on registers and memory."""
    seed = cocotb.RANDOM_SEED + round(10 * stalls)
    program, buffers = random_program(TINY, DIES, seed, 30, MEMORY_WORDS)
    await compare(dut, program, buffers, seed, stalls=stalls)


@cocotb.test(timeout_time=3, timeout_unit="ms")
@cocotb.parametrize(stalls=[0.0, 0.5])
async def dependencies(dut: Any, stalls: float) -> None:
    """Small tasks on few buffers, each with as many waits as it can name, and advances of other dies."""
    seed = cocotb.RANDOM_SEED + 100 + round(10 * stalls)
    program, buffers = random_program(TINY, DIES, seed, 60, MEMORY_WORDS, size=4, buffers=4)
    await compare(dut, tangled(program, seed), buffers, seed, stalls=stalls)


@cocotb.test(timeout_time=3, timeout_unit="ms", skip="CHIP" not in os.environ)
async def memory_on_the_chip(dut: Any) -> None:
    """Of :data:`ON_CHIP`: all memory is written and read by registers."""
    seed, words = cocotb.RANDOM_SEED, ON_CHIP.block_ram_words
    program, buffers = random_program(ON_CHIP, DIES, seed, 10, words)
    await compare(dut, program, buffers, seed, stalls=0.3, steps=1, words=words)


@cocotb.test(timeout_time=3, timeout_unit="ms", skip="IMAGES" not in os.environ)
async def images_for_comparison(dut: Any) -> None:
    """Leaves the images of the program that ``SEED`` decides in the file that ``IMAGES`` names."""
    seed = int(os.environ["SEED"])
    array = await CocotbArray.start(dut, TINY, dies=DIES, memory_words=MEMORY_WORDS)
    program, buffers = random_program(TINY, DIES, seed, 40, MEMORY_WORDS)

    def drive() -> None:
        memories = images(array, program, buffers, seed, memory_words=MEMORY_WORDS, steps=2)
        np.save(os.environ["IMAGES"], np.stack(list(memories)))

    await bridge(drive)()
