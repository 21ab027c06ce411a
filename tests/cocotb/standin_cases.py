"""cocotb tests of the CocotbDevice adaptor on the stand-in die, and one that fails on purpose."""

import os
from fractions import Fraction
from typing import Any

import numpy as np
from cocotb.task import bridge
from cocotb.triggers import ClockCycles
from tests.support.standin import Standin

import cocotb
from plinth_hw.isa.parameters import preset
from plinth_sim.rtl.cocotb_device import CocotbArray

WORDS = 1 << 14


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def copies_and_sends(dut: Any) -> None:
    """What a driver does: registers, memory, start, wait; in a thread."""
    dies, axi_ports = int(os.environ["DIES"]), int(os.environ["AXI_PORTS"])
    parameters = preset("ndp-tiny", beat_words=4 * axi_ports, axi_ports=axi_ports,
                        memory_words_per_cycle=Fraction(4))
    array = await CocotbArray.start(dut, parameters, dies=dies, memory_words=WORDS)
    data = np.random.default_rng(cocotb.RANDOM_SEED).integers(0, 2**32, 64 * 4 * axi_ports, dtype=np.uint32)

    def drive() -> int:
        flits = 50 if dies > 1 else 0
        for number, die in enumerate(array.dies):
            assert die.read_register(Standin.ID) == 0x5354414E
            die.write_memory(0, data + np.uint32(number))
            for register, value in ((Standin.TARGET, 100), (Standin.BEATS, 64), (Standin.BURST, 16),
                                    (Standin.FLITS, flits), (Standin.EXPECT, flits)):
                die.write_register(register, value)
        # Flits that come before a die's own start would not be counted: start from the last die on.
        for die in array.dies[::-1]:
            die.write_register(Standin.CONTROL, 1)
        return array.wait(20_000)

    cycles = await bridge(drive)()
    assert 0 < cycles < 20_000

    def check() -> None:
        for number, die in enumerate(array.dies):
            assert die.read_register(Standin.STATUS) == 2
            words = die.read_memory(100 * 4 * axi_ports, data.size)
            assert np.array_equal(words, data + np.uint32(number + 1))

    await bridge(check)()


@cocotb.test(timeout_time=1, timeout_unit="ms", skip="FAIL" not in os.environ)
async def fails(dut: Any) -> None:
    """Shows that a failure is seen and leaves waves."""
    await CocotbArray.start(dut, preset("ndp-tiny"), dies=1, memory_words=WORDS)
    await ClockCycles(dut.clk, 10)
    raise AssertionError("on purpose")
