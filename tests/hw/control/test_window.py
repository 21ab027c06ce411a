"""The host's window to memory: through the register file to a memory, in order, and never beyond it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from tests.support.amaranth_sim import simulate
from tests.support.axi_lite import Master, monitor
from tests.support.memory_model import MemoryModel

from plinth_hw.control.registers import AXI4LiteSignature, Registers
from plinth_hw.control.window import MOST_POSTED, MemoryWindow
from plinth_hw.isa.formats import Q3_12
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.isa.registers import ControlBits, Register
from plinth_hw.memory.block_ram import BlockMemory
from plinth_hw.memory.crossbar import MemoryCrossbar
from plinth_hw.memory.port import ReadPort, WritePort

OKAY, SLVERR = 0, 2
WHOLE = preset("ndp-tiny", block_ram_words=1024, axi_ports=0)
HALF = replace(WHOLE, multiply_format=Q3_12)


class Shell(wiring.Component):
    """Registers and window on memory ports."""

    def __init__(self, parameters: DieParameters) -> None:
        self.parameters = parameters
        super().__init__({"axil": In(AXI4LiteSignature()), "read": Out(ReadPort(parameters)),
                          "write": Out(WritePort(parameters)), "start": Out(1), "hold": In(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.registers = registers = Registers(self.parameters)
        m.submodules.window = window = MemoryWindow(self.parameters)
        connect(m, flipped(self.axil), registers.axil)
        connect(m, window.read, flipped(self.read))
        connect(m, window.store, flipped(self.write))
        m.d.comb += [window.limit.eq(registers.memory_words >> (self.parameters.beat_words.bit_length() - 1)),
                     window.hold.eq(self.hold), self.start.eq(registers.start)]
        for name in ("set", "reads", "valid", "write", "data", "strobe"):
            m.d.comb += getattr(window, name).eq(getattr(registers, f"window_{name}"))
        for name in ("address", "ready", "failed", "found", "idle"):
            m.d.comb += getattr(registers, f"window_{name}").eq(getattr(window, name))
        return m


class OnChip(wiring.Component):
    """The same with a crossbar and block RAM behind it."""

    def __init__(self, parameters: DieParameters) -> None:
        self.parameters = parameters
        super().__init__({"axil": In(AXI4LiteSignature())})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.shell = shell = Shell(self.parameters)
        beats = self.parameters.block_ram_words // self.parameters.beat_words
        m.submodules.crossbar = crossbar = MemoryCrossbar(self.parameters, ["read"], ["write"])
        m.submodules.memory = memory = BlockMemory(self.parameters, beats)
        connect(m, flipped(self.axil), shell.axil)
        connect(m, shell.read, crossbar.read)
        connect(m, shell.write, crossbar.write)
        connect(m, crossbar.memory_read, memory.read)
        connect(m, crossbar.memory_write, memory.write)
        m.d.comb += crossbar.limit.eq(beats)
        return m


@pytest.mark.parametrize(("die", "seed"), [(WHOLE, 7), (HALF, None)], ids=["32 bits", "16 bits"])
def test_random_accesses(die: DieParameters, seed: int | None) -> None:
    """Addresses, strobes, reads and writes at random, against an array of words."""
    rng = np.random.default_rng(5)
    dut, memory = Shell(die), MemoryModel(die, die.block_ram_words)
    host, step = Master(dut.axil), die.words_of(1)
    memory.words[:] = rng.integers(0, 1 << die.word_bits, die.block_ram_words)
    words, bits = memory.words.copy(), die.word_bits

    async def bench(ctx: Any) -> None:
        address = 0
        for _ in range(120):
            kind = rng.random()
            if kind < 0.2:
                address = int(rng.integers(die.block_ram_words + 8) if rng.random() < 0.8 else rng.integers(1 << 32))
                await host.put(ctx, Register.WINDOW_ADDRESS, address)
                address -= address % step
                assert await host.get(ctx, Register.WINDOW_ADDRESS) == address
                continue
            inside = address + step <= len(words)
            if kind < 0.6:
                strobe, value = int(rng.choice([15, 15, 12, 3, 1, 14, 0])), int(rng.integers(1 << 32))
                whole = strobe in ((15,) if step == 1 else (15, 12, 3))
                response = await host.write(ctx, Register.WINDOW_DATA, value, strobe)
                assert response == (OKAY if inside and whole else SLVERR)
                if response == OKAY:
                    for word in range(step):
                        if strobe >> word * 4 // step & 1:
                            words[address + word] = value >> word * bits & (1 << bits) - 1
                    address += step
                continue
            value, response = await host.read(ctx, Register.WINDOW_DATA)
            if inside:
                expected = sum(int(words[address + word]) << word * bits for word in range(step))
                assert (value, response) == (expected, OKAY)
                address += step
            else:
                assert response == SLVERR
        await host.put(ctx, Register.TASK_BASE, 0)  # waits for what was posted

    simulate(dut, bench, background=[monitor(dut.axil), *memory.benches(
        [dut.read], [dut.write], seed=seed, response_delay=9)])
    assert (memory.words == words).all()


def test_rate() -> None:
    """On block RAM: at most 6 cycles a write, 13 a read."""
    dut = OnChip(HALF)
    host = Master(dut.axil)
    cycle = [0]
    values = [int(value) for value in np.random.default_rng(1).integers(0, 1 << 32, 40)]

    async def clock(ctx: Any) -> None:
        while True:
            await ctx.tick()
            cycle[0] += 1

    async def bench(ctx: Any) -> None:
        await host.put(ctx, Register.WINDOW_ADDRESS, 0)
        start = cycle[0]
        for value in values:
            await host.put(ctx, Register.WINDOW_DATA, value)
        assert cycle[0] - start <= 6 * len(values)
        await host.put(ctx, Register.WINDOW_ADDRESS, 0)
        start = cycle[0]
        assert [await host.get(ctx, Register.WINDOW_DATA) for _ in values] == values
        assert cycle[0] - start <= 13 * len(values)

    simulate(dut, bench, background=[clock])


def test_what_a_host_sets_off_finds_what_it_wrote() -> None:
    """CONTROL, and any other write, waits for posted writes; reads of registers do not; at most 15 are under way."""
    dut, memory = Shell(WHOLE), MemoryModel(WHOLE, WHOLE.block_ram_words)
    host = Master(dut.axil)
    seen: list[bool] = []

    async def bench(ctx: Any) -> None:
        for value in range(MOST_POSTED):
            await host.put(ctx, Register.WINDOW_DATA, value + 1)
        assert not memory.words.all() and await host.get(ctx, Register.STATUS) == 0
        await host.put(ctx, Register.CONTROL, ControlBits.START)
        assert seen == [True]
        await host.put(ctx, Register.WINDOW_DATA, 99)
        await host.put(ctx, Register.WINDOW_ADDRESS, MOST_POSTED)
        assert await host.get(ctx, Register.WINDOW_DATA) == 99

    async def watch(ctx: Any) -> None:
        while True:
            *_, pulse = await ctx.tick().sample(dut.start)
            if pulse:
                seen.append(list(memory.words[:MOST_POSTED]) == list(range(1, MOST_POSTED + 1)))

    simulate(dut, bench, background=[watch, *memory.benches([dut.read], [dut.write], response_delay=300)])


def test_nothing_is_asked_while_memory_forgets() -> None:
    """Under ``hold`` accesses wait, and are made after it."""
    dut, memory = Shell(WHOLE), MemoryModel(WHOLE, WHOLE.block_ram_words)
    host, done = Master(dut.axil), []

    async def bench(ctx: Any) -> None:
        await host.put(ctx, Register.WINDOW_DATA, 5)
        done.append("write")
        await host.put(ctx, Register.WINDOW_ADDRESS, 0)
        assert await host.get(ctx, Register.WINDOW_DATA) == 5
        done.append("read")

    async def hold(ctx: Any) -> None:
        for finished in ([], ["write"]):
            ctx.set(dut.hold, 1)
            for _ in range(60):
                *_, read, write = await ctx.tick().sample(dut.read.request.valid, dut.write.request.valid)
                assert not (read or write)
            assert done == finished
            ctx.set(dut.hold, 0)
            while done == finished:
                await ctx.tick()

    simulate(dut, bench, hold, background=memory.benches([dut.read], [dut.write], response_delay=1))


def test_memory_on_the_chip_limits_memory_words() -> None:
    dut = Registers(WHOLE)
    host = Master(dut.axil)

    async def bench(ctx: Any) -> None:
        assert await host.get(ctx, Register.MEMORY_WORDS) == 1024
        for value, held in ((5, 5), (1024, 1024), (1025, 1024), (1, 1), ((1 << 32) - 1, 1024)):
            await host.put(ctx, Register.MEMORY_WORDS, value)
            assert await host.get(ctx, Register.MEMORY_WORDS) == held == ctx.get(dut.memory_words)

    async def idle(ctx: Any) -> None:
        ctx.set(dut.window_idle, 1)

    simulate(dut, idle, bench)
