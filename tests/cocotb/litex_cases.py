"""cocotb tests of a die in a LiteX SoC: all that the driver does goes over the SoC's bus."""

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from cocotb.clock import Clock
from cocotb.task import bridge, resume
from cocotb.triggers import ClockCycles, First, RisingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp
from tests.support.back_ends import check_equal, images
from tests.support.graphs import RandomGraph
from tests.support.litex_soc import DIE, MEMORY, MEMORY_WORDS, REGISTERS

import cocotb
from plinth.driver.device import Words
from plinth.lower.program import assemble
from plinth_hw.isa import registers as regs
from plinth_hw.isa.formats import as_words
from plinth_hw.isa.registers import Register
from plinth_sim.golden.array import GoldenArray

ENABLE = int(os.environ["ENABLE"])


class HostedDie:
    """The SoC as an array of one die (:class:`plinth.driver.device.DeviceArray` and ``Device``)."""

    size, numbers = 1, range(1)

    def __init__(self, dut: Any):
        self._dut = dut
        self._host = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "host"), dut.clk, dut.rst)

    async def start(self) -> None:
        """Clock, reset, and the interrupt."""
        self._dut.rst.value = 1
        Clock(self._dut.clk, 10, unit="ns").start()
        await ClockCycles(self._dut.clk, 4)
        self._dut.rst.value = 0
        await self.write(ENABLE, (1).to_bytes(4, "little"))

    @property
    def dies(self) -> list["HostedDie"]:
        """The one die."""
        return [self]

    async def read(self, address: int, size: int) -> bytes:
        """Bytes from a byte address of the SoC."""
        answer = await self._host.read(address, size)
        assert answer.resp == AxiResp.OKAY, hex(address)
        return bytes(answer.data)

    async def write(self, address: int, data: bytes) -> None:
        """Bytes to a byte address of the SoC."""
        assert (await self._host.write(address, data)).resp == AxiResp.OKAY, hex(address)

    def read_memory(self, address: int, count: int) -> Words:
        return np.frombuffer(resume(self.read)(MEMORY + 4 * address, 4 * count), np.uint32).copy()

    def write_memory(self, address: int, words: Words) -> None:
        resume(self.write)(MEMORY + 4 * address, as_words(words, np.dtype(np.uint32)).tobytes())

    def read_register(self, address: int) -> int:
        return int.from_bytes(resume(self.read)(REGISTERS + address, 4), "little")

    def write_register(self, address: int, value: int) -> None:
        resume(self.write)(REGISTERS + address, (value & 0xFFFF_FFFF).to_bytes(4, "little"))

    def meet(self, told: Any = None) -> list[Any]:
        """There are no other processes to meet."""
        return [told]

    def wait(self, limit_cycles: int, dies: Iterable[int] | None = None) -> int:
        """Run until the interrupt, or for so many cycles."""
        # A bridge may answer the write that starts before it is made; the read comes behind it, when DONE is gone.
        self.read_register(Register.STATUS)
        resume(self._wait)(limit_cycles)
        return limit_cycles

    async def _wait(self, limit_cycles: int) -> None:
        if not self._dut.irq.value:
            await First(RisingEdge(self._dut.irq), ClockCycles(self._dut.clk, limit_cycles))


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def gemm_over_the_bus(dut: Any) -> None:
    """A register, memory, and a product by the driver, which leaves what the golden model leaves."""
    hosted = HostedDie(dut)
    await hosted.start()
    assert not dut.irq.value
    # A graph that sets up has a task, too: the same, when memory is still zero.
    setup, step = (RandomGraph(DIE, cocotb.RANDOM_SEED, size=9, buffers=3) for _ in range(2))
    for graph in (setup, step):
        graph.gemm("gemm")
    program = assemble([setup.builder], [step.builder], memory_words=MEMORY_WORDS)
    buffers = list(step.builder.buffers.values())

    def drive() -> None:
        assert hosted.read_register(Register.ID) == regs.IDENTITY
        words = np.random.default_rng(1).integers(0, 1 << 32, 17, np.uint32)
        hosted.write_memory(MEMORY_WORDS - len(words), words)
        np.testing.assert_array_equal(hosted.read_memory(MEMORY_WORDS - len(words), len(words)), words)
        hosted.write_memory(0, np.zeros(MEMORY_WORDS, np.uint32))
        golden = GoldenArray(DIE, 1, MEMORY_WORDS)
        both = [images(array, program, buffers, cocotb.RANDOM_SEED, memory_words=MEMORY_WORDS, steps=1)
                for array in (hosted, golden)]
        for image, wanted in zip(*both, strict=True):
            check_equal(image, wanted, program)
            assert any(image[0, buffer.address:buffer.address + buffer.words].any() for buffer in buffers)

    await bridge(drive)()
