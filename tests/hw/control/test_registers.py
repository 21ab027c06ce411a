"""Register file: the whole map against a table, AXI4-Lite's rules, pulses and latches."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import simulate
from tests.support.axi_lite import Master, monitor, pause

from plinth_hw.control.inspection import InspectKind
from plinth_hw.control.registers import ENGINE_COUNTERS, Registers, counter_count
from plinth_hw.isa import registers as regs
from plinth_hw.isa.formats import Q3_12
from plinth_hw.isa.identity import identity
from plinth_hw.isa.limits import rate_word
from plinth_hw.isa.operations import Engine, ErrorCode
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.isa.registers import EngineRegister, ErrorInfo, Register
from plinth_hw.shapes import shape_of

OKAY, SLVERR = 0, 2
TINY = preset("ndp-tiny")
FEW = preset("ndp-tiny", engines=frozenset({Engine.VECTOR, Engine.TRANSFER}), counters=16, die_bits=4,
             ports=1)
FIXED = replace(FEW, multiply_format=Q3_12)
ALONE = replace(FIXED, engines=frozenset({Engine.VECTOR, Engine.OPTIMISER}), ports=0)
RATES = replace(TINY, port_rates=True)
ONES = (1 << 32) - 1
CYCLE = 0x123456789ABCDEF0
DIGEST = 0x89ABCDEF


class Surroundings:
    """What the register file asks: update counters, performance counters and the sequencer."""

    def __init__(self, dut: Registers, rng: np.random.Generator) -> None:
        self.dut = dut
        self.rng = rng
        self.update = {(is_base, index): int(rng.integers(1 << 32))
                       for is_base in (0, 1) for index in range(dut.parameters.counters)}
        self.performance = [int(value) for value in
                            rng.integers(0, 1 << 63, counter_count(dut.parameters), dtype=np.uint64)]
        self.inspected = {(engine, kind): int(rng.integers(1 << 32))
                          for engine in range(len(dut.engines)) for kind in range(4)}

    def benches(self) -> list[Callable[[Any], Any]]:
        """Background benches, one for each of the three."""
        dut = self.dut

        def counter(ctx: Any) -> int:
            key = (ctx.get(dut.host_is_base), ctx.get(dut.host_index))
            value = self.update[key]
            if ctx.get(dut.host_write):
                self.update[key] = ctx.get(dut.host_write_data)
            return value

        return [self._answer(dut.host_valid, dut.host_ready, dut.host_read_data, counter),
                self._answer(dut.read_valid, dut.read_ready, dut.read_data,
                             lambda ctx: self.performance[ctx.get(dut.read_index)]),
                self._answer(dut.inspect_valid, dut.inspect_ready, dut.inspect_data,
                             lambda ctx: self.inspected[ctx.get(dut.inspect_engine),
                                                        ctx.get(dut.inspect_kind)])]

    def _answer(self, valid: Any, ready: Any, result: Any,
                value: Callable[[Any], int]) -> Callable[[Any], Any]:
        async def bench(ctx: Any) -> None:
            while True:  # no until(): that one complains when it is abandoned
                *_, wanted = await ctx.tick().sample(valid)
                if not wanted:
                    continue
                await pause(ctx, int(self.rng.integers(0, 4)))
                assert ctx.get(valid), "a request was withdrawn"
                ctx.set(result, value(ctx))
                ctx.set(ready, 1)
                await ctx.tick()
                ctx.set(ready, 0)
                ctx.set(result, int(self.rng.integers(1 << 32)))

        return bench


def set_inputs(ctx: Any, dut: Registers) -> None:
    """States and errors that tell every field from every other."""
    for signal, value in ((dut.running, 1), (dut.done, 0), (dut.error, 1), (dut.code, ErrorCode.BAD_COUNTER),
                          (dut.task, 0xABCD0123), (dut.record_count, 0x777), (dut.cycle, CYCLE),
                          (dut.verilog_digest, DIGEST)):
        ctx.set(signal, value)
    ctx.set(dut.info, shape_of(ErrorInfo).const({"engine": 3, "counter": 0x5A, "die": 0x2C1}))
    for position in range(len(dut.engines)):
        ctx.set(getattr(dut, f"status_{position}"),
                {"runs": position & 1, "waits": position != 1})
        ctx.set(getattr(dut, f"first_busy_{position}"), 0x1000 + position)
        ctx.set(getattr(dut, f"last_busy_{position}"), 0x2000 + position)


class Map:
    """The register map as a table: what a read must give, and what a write changes."""

    def __init__(self, parameters: DieParameters, around: Surroundings) -> None:
        self.parameters = parameters
        self.around = around
        self.high = 0
        bits = parameters.address_bits
        self.port_rates = range(regs.LINK_RATES,
                                regs.LINK_RATES + (4 * parameters.ports if parameters.port_rates else 0), 4)
        self.routes = range(regs.ROUTES, regs.ROUTES + (4 << parameters.die_bits if parameters.ports else 0), 4)
        #: Widths and values of registers that are read and written.
        self.widths: dict[int, int] = {
            Register.TASK_BASE: bits, Register.RECORD_BASE: bits, Register.WATCHDOG: 32,
            Register.DIE: parameters.die_bits, Register.DIES: parameters.die_bits + 1, Register.MEMORY_WORDS: 32,
            **({Register.LINK_RATE: 16} if parameters.ports else {}),
            **dict.fromkeys(self.port_rates, 16),
            **{regs.BASES + 4 * base: bits for base in range(regs.BASE_COUNT)},
            **dict.fromkeys(self.routes, max(1, (parameters.ports - 1).bit_length()))}
        self.values: dict[int, int] = dict.fromkeys(self.widths, 0)
        self.values[Register.WATCHDOG], self.values[Register.MEMORY_WORDS] = 100_000_000, ONES
        self.values[Register.DIES] = 1 << parameters.die_bits
        for rate in (*([Register.LINK_RATE] if parameters.ports else []), *self.port_rates):
            self.values[rate] = rate_word(parameters.link_rate)
        self.fixed: dict[int, int] = {
            Register.ID: regs.IDENTITY, Register.VERSION: regs.ISA_VERSION, Register.CONTROL: 0,
            Register.STATUS: 0b101, Register.ERROR_CODE: ErrorCode.BAD_COUNTER.value,
            Register.ERROR_TASK: 0xABCD0123, Register.ERROR_INFO: 0x02C15A03, Register.RECORD_COUNT: 0x777,
            **identity(parameters, DIGEST)}
        #: 64-bit registers.
        self.long: dict[int, int] = {Register.CYCLE: CYCLE}
        engines = sorted(parameters.engines, key=lambda engine: engine.value)
        for position, engine in enumerate(engines):
            block = regs.ENGINES + regs.ENGINE_SPAN * engine.value
            runs, waits = position & 1, int(position != 1)
            self.fixed |= {
                block + EngineRegister.STATE: runs | waits << 1,
                block + EngineRegister.WAIT_COUNTER: around.inspected[position, InspectKind.COUNTER.value],
                block + EngineRegister.FIRST_BUSY: 0x1000 + position,
                block + EngineRegister.LAST_BUSY: 0x2000 + position,
                block + EngineRegister.TASK: around.inspected[position, InspectKind.TASK.value],
                block + EngineRegister.WAIT_VALUE: around.inspected[position, InspectKind.WAIT.value]}
            self.long |= {block + EngineRegister.BUSY + 8 * index:
                          around.performance[ENGINE_COUNTERS * position + index]
                          for index in range(ENGINE_COUNTERS)}
        rest: list[int] = [
            *((Register.WORDS_INJECTED, Register.WORDS_TRANSIT) if parameters.ports else ()),
            Register.WORDS_READ, Register.WORDS_WRITTEN,
            *((Register.SUMS_AT_ENDS, Register.RESULTS_BEYOND) if parameters.number_format == "fixed" else ()),
            *(regs.LINK_WORDS + 8 * port for port in range(parameters.ports))]
        self.long |= dict(zip(rest, around.performance[ENGINE_COUNTERS * len(engines):], strict=True))
        self.update = {start + 4 * index: (is_base, index)
                       for is_base, start in enumerate((regs.COUNTERS, regs.COUNTER_BASES))
                       for index in range(parameters.counters)}

    def addresses(self) -> list[int]:
        """Every register's address."""
        return [*self.values, *self.fixed, *self.long, *(address + 4 for address in self.long), *self.update]

    def read(self, address: int) -> tuple[int, int]:
        """Data and response."""
        for table in (self.values, self.fixed):
            if address in table:
                return table[address], OKAY
        if address in self.update:
            return self.around.update[self.update[address]], OKAY
        if address in self.long:
            self.high = self.long[address] >> 32
            return self.long[address] & ONES, OKAY
        return (self.high, OKAY) if address - 4 in self.long else (0, SLVERR)

    def refuses(self, address: int, value: int) -> bool:
        """Whether a write would be to the route of a die, or to a port, that does not exist."""
        number = (address - regs.ROUTES) // 4
        ports = self.parameters.ports
        return ports > 0 and 0 <= number < 1024 and (number >= self.values[Register.DIES] or value >= ports)

    def write(self, address: int, value: int, strobe: int) -> int:
        """Response."""
        if strobe != 0xF or address % 4:
            return SLVERR
        _, response = self.read(address)
        if self.refuses(address, value):
            return response
        if address in self.values:
            for stored in (address, *(self.port_rates if address == Register.LINK_RATE else ())):
                self.values[stored] = value & ((1 << self.widths[address]) - 1)
        return response


@pytest.mark.parametrize("parameters", [TINY, FEW, FIXED, ALONE, RATES],
                         ids=["all", "few", "fixed", "alone", "rates"])
def test_every_register_and_hole(parameters: DieParameters) -> None:
    """Reads and writes of all registers, of what lies beside them, and of addresses and strobes that must answer SLVERR
    and do nothing, in random order, with every channel at random."""
    rng = np.random.default_rng(len(parameters.engines))
    dut = Registers(parameters)
    around = Surroundings(dut, rng)
    table = Map(parameters, around)
    host = Master(dut.axil)
    singles = [address for address in table.addresses() if not regs.ROUTES <= address < regs.LINK_WORDS]
    routes: list[tuple[int, int]] = []
    cleared: list[int] = []
    expected_routes: list[tuple[int, int]] = []
    refused: list[int] = []
    expected_refused: list[int] = []

    async def bench(ctx: Any) -> None:
        set_inputs(ctx, dut)
        for address in singles:
            assert await host.read(ctx, address) == table.read(address), hex(address)
        known = set(table.addresses())
        edges = {address + step for address in known for step in (-4, 4)} - known
        for address in sorted(edges & set(range(1 << 16))):
            assert await host.read(ctx, address) == table.read(address), hex(address)
        for _ in range(900):
            kind = rng.random()
            if kind < 0.45:
                address = int(rng.choice(singles))
            elif kind < 0.7:
                address = int(rng.choice(table.addresses()))
            elif kind < 0.8:
                address = int(rng.choice(table.addresses())) + int(rng.integers(1, 4))
            else:
                address = int(rng.integers(1 << 14)) * 4
            waits = tuple(int(wait) for wait in rng.integers(0, 3, 3) * (rng.random() < 0.5))
            if rng.random() < 0.5:
                got = await host.read(ctx, address, waits)
                assert got == (table.read(address) if address % 4 == 0 else (0, SLVERR)), hex(address)
                continue
            value = int(rng.integers(1 << 32))
            if address == Register.DIES:
                value = int(rng.integers(1 << parameters.die_bits - 1, 1 << parameters.die_bits + 1))
            if regs.ROUTES <= address < regs.COUNTERS and rng.random() < 0.8:
                value = int(rng.integers(2 * max(1, parameters.ports)))
            strobe = 0xF if rng.random() < 0.8 else int(rng.integers(0, 15))
            before = around.update.copy()
            assert await host.write(ctx, address, value, strobe, waits) == table.write(address, value, strobe)
            if address in table.update and strobe == 0xF:
                before[table.update[address]] = value
            assert around.update == before, hex(address)
            number = (address - regs.ROUTES) // 4
            if strobe == 0xF and address % 4 == 0 and table.refuses(address, value):
                expected_refused.append(number)
            elif address in table.routes and strobe == 0xF:
                expected_routes.append((number, table.values[address]))
        for name, register in (("task_base", Register.TASK_BASE), ("record_base", Register.RECORD_BASE),
                               ("watchdog", Register.WATCHDOG), ("die", Register.DIE), ("dies", Register.DIES),
                               ("memory_words", Register.MEMORY_WORDS),
                               *([("link_rate", Register.LINK_RATE)] if parameters.ports else [])):
            assert ctx.get(getattr(dut, name)) == table.values[register]
        for port in range(parameters.ports):
            rate = table.values[regs.LINK_RATES + 4 * port if parameters.port_rates else Register.LINK_RATE]
            assert ctx.get(dut.rates.as_value()) >> 16 * port & 0xFFFF == rate
        for base in range(regs.BASE_COUNT):
            ctx.set(dut.base_number, base)
            assert ctx.get(dut.base_address) == table.values[regs.BASES + 4 * base]
        assert cleared == (list(range(1 << parameters.die_bits)) if parameters.ports else [])
        assert routes == expected_routes and bool(routes) == bool(parameters.ports)
        assert refused == expected_refused and bool(refused) == bool(parameters.ports)

    async def watch_routes(ctx: Any) -> None:
        while True:
            *_, write, bad = await ctx.tick().sample(dut.route_write, dut.bad_route)
            if write.clears:
                assert write.valid and not routes
                cleared.append(write.destination)
            elif write.valid:
                routes.append((write.destination, write.port))
            if bad.valid:
                refused.append(bad.die)

    simulate(dut, bench, background=[*around.benches(), monitor(dut.axil),
                                     *([watch_routes] if parameters.ports else [])])


def test_reads_and_writes_at_once_take_turns() -> None:
    """A master that always wants both gets them in turn; no access is lost or answered twice."""
    dut = Registers(TINY)
    host = Master(dut.axil)
    order: list[str] = []
    count = 30

    async def writer(ctx: Any) -> None:
        for number in range(count):
            assert await host.write(ctx, regs.BASES, number) == OKAY

    async def reader(ctx: Any) -> None:
        seen = []
        for _ in range(count):
            seen.append(await host.get(ctx, regs.BASES))
        # Between two reads lies one write.
        assert seen == list(range(seen[0], seen[0] + count)) and seen[0] in (0, ONES)

    async def watch(ctx: Any) -> None:
        while True:
            *_, write, read = await ctx.tick().sample(dut.axil.awvalid & dut.axil.awready,
                                                      dut.axil.arvalid & dut.axil.arready)
            assert not (write and read)
            order.extend(["write"] * write + ["read"] * read)

    simulate(dut, writer, reader, background=[monitor(dut.axil), watch])
    assert order == ["write", "read"] * count


def test_write_waits_for_address_and_data() -> None:
    """Neither is taken without the other, and reads go on meanwhile."""
    dut = Registers(TINY)
    host = Master(dut.axil)

    async def bench(ctx: Any) -> None:
        for first, second in (("aw", "w"), ("w", "aw")):
            ctx.set(dut.axil.awaddr, Register.WATCHDOG)
            ctx.set(dut.axil.wstrb, 0xF)
            ctx.set(getattr(dut.axil, f"{first}valid"), 1)
            for _ in range(3):
                *_, ready = await ctx.tick().sample(getattr(dut.axil, f"{first}ready"))
                assert not ready
            assert await host.get(ctx, Register.ID) == regs.IDENTITY
            ctx.set(getattr(dut.axil, f"{second}valid"), 1)
            *_, address, word = await ctx.tick().sample(dut.axil.awready, dut.axil.wready)
            assert address and word
            ctx.set(dut.axil.awvalid, 0)
            ctx.set(dut.axil.wvalid, 0)
            ctx.set(dut.axil.bready, 1)
            await ctx.tick().until(dut.axil.bvalid)
            ctx.set(dut.axil.bready, 0)

    simulate(dut, bench, background=[monitor(dut.axil)])


def test_latency() -> None:
    """The response comes in the third cycle after the handshake, to a bad access in the first."""
    dut = Registers(TINY)

    async def bench(ctx: Any) -> None:
        for address, cycles in ((Register.ID, 3), (0x7FC, 3), (regs.ROUTES, 3), (Register.ID + 1, 1)):
            ctx.set(dut.axil.araddr, address)
            ctx.set(dut.axil.arvalid, 1)
            ctx.set(dut.axil.rready, 1)
            await ctx.tick().until(dut.axil.arready)
            ctx.set(dut.axil.arvalid, 0)
            taken = 1
            while not ctx.get(dut.axil.rvalid):
                await ctx.tick()
                taken += 1
            assert taken == cycles
            await ctx.tick()

    simulate(dut, bench)


@pytest.mark.parametrize(("running", "error", "stopped"), [
    (0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0), (0, 0, 1), (0, 1, 1)])
def test_control_pulses(running: int, error: int, stopped: int) -> None:
    """Each bit of CONTROL gives one pulse, where the die's state allows it; so does RECORD_COUNT."""
    dut = Registers(TINY)
    host = Master(dut.axil)
    pulses: list[tuple[int, ...]] = []

    async def bench(ctx: Any) -> None:
        ctx.set(dut.running, running)
        ctx.set(dut.error, error)
        ctx.set(dut.stopped, stopped)
        for value in range(16):
            pulses.clear()
            await host.put(ctx, Register.CONTROL, value)
            wanted = (value & 1 and not (running or error or stopped), value & 2 and not running, value & 4, 0,
                      value & 8)
            assert pulses == ([tuple(map(bool, wanted))] if any(wanted) else [])
        pulses.clear()
        await host.get(ctx, Register.CONTROL)
        assert await host.write(ctx, Register.CONTROL, 7, 0b0111) == SLVERR
        assert not pulses
        await host.put(ctx, Register.RECORD_COUNT, 55)
        assert pulses == ([] if running else [(0, 0, 0, 1, 0)])
        assert running or ctx.get(dut.record_data) == 55

    async def watch(ctx: Any) -> None:
        while True:
            *_, start, error_, counters, record, stop = await ctx.tick().sample(
                dut.start, dut.clear_error, dut.clear_counters, dut.record_write, dut.stop)
            if start or error_ or counters or record or stop:
                pulses.append((start, error_, counters, record, stop))

    simulate(dut, bench, background=[watch])


def test_low_word_latches_the_high_word() -> None:
    """Both words of a counter that moves on belong together; the latch is shared by all counters."""
    dut = Registers(TINY)
    host = Master(dut.axil)
    around = Surroundings(dut, np.random.default_rng(1))
    busy = regs.ENGINES + EngineRegister.BUSY

    async def bench(ctx: Any) -> None:
        ctx.set(dut.cycle, 0x7_FFFFFFFF)
        assert await host.get(ctx, Register.CYCLE) == ONES
        ctx.set(dut.cycle, 0x8_00000000)
        assert await host.get(ctx, Register.CYCLE + 4) == 7
        around.performance[0] = 0x9_FFFFFFFF
        assert await host.get(ctx, busy) == ONES
        around.performance[0] = 0xA_00000000
        assert await host.get(ctx, busy + 4) == 9
        assert await host.get(ctx, Register.CYCLE + 4) == 9
        assert await host.get(ctx, Register.CYCLE) == 0
        assert await host.get(ctx, busy + 4) == 8

    simulate(dut, bench, background=around.benches())
