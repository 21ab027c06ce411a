"""The control block as the host sees it, over AXI4-Lite, with stand-ins for engines, memory and network."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.support.axi_lite import Master, monitor, pause
from tests.support.control import StandIn, descriptor, no_error
from tests.support.memory_model import MemoryModel
from tests.support.verilated import Verilated

from plinth_hw.control.control import MACS, STATES, STROBES, Control
from plinth_hw.control.dispatch import engine_order
from plinth_hw.control.errors import SCHEDULER
from plinth_hw.isa import registers as regs
from plinth_hw.isa.descriptors import BODY_WORDS
from plinth_hw.isa.operations import Engine, ErrorCode
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.registers import EngineRegister, Register

TINY = preset("ndp-tiny")
TASKS, RECORDS = 1024, 2048
#: Number of the die.
DIE = 5
BUSY, DONE, ERROR = 1, 2, 4
READERS = [None, Engine.MATRIX, Engine.MATRIX, Engine.VECTOR]
WRITERS = [None, Engine.TRANSFER]
CYCLES = {"busy": EngineRegister.BUSY, "stall_input": EngineRegister.STALL_INPUT,
          "stall_output": EngineRegister.STALL_OUTPUT, "stall_memory": EngineRegister.STALL_MEMORY,
          "words": EngineRegister.WORDS, "useful_macs": EngineRegister.USEFUL_MACS,
          "issued_macs": EngineRegister.ISSUED_MACS}


@cache
def control() -> Verilated:
    """Built once for all tests."""
    return Verilated(Control(TINY, READERS, WRITERS))


class System:
    """A control block, its surroundings, and a host."""

    def __init__(self, graph: list[list[int]], longest: int = 60, error: ErrorCode = ErrorCode.NONE) -> None:
        rng = np.random.default_rng(len(graph))
        self.built = control()
        self.dut = self.built.component
        self.host = Master(self.dut.axil)
        self.memory = MemoryModel(TINY, 4096)
        self.memory.words[TASKS:TASKS + 64 * len(graph)] = np.array(graph, np.uint32).reshape(-1)
        self.started = 0
        self.told: list[int] = []

        def start(*_: Any) -> None:
            self.started += 1

        def end(_: int | None) -> dict[str, Any]:
            return no_error((0, 0, 0)) | {"error": error}

        self.engines = [StandIn(getattr(self.dut, f"engine_{position}"), rng, start, end, TINY.body_words(engine),
                                longest=longest) for position, engine in enumerate(self.dut.engines)]

    async def _watch(self, ctx: Any) -> None:
        sampled = self.dut.error_out, self.dut.error_source
        while True:
            *_, pulse, source = await ctx.tick().sample(*sampled)
            self.told += [source] * pulse

    async def launch(self, ctx: Any, watchdog: int = 0) -> None:
        """Start the graph."""
        for register, value in ((Register.TASK_BASE, TASKS), (Register.RECORD_BASE, RECORDS),
                                (Register.WATCHDOG, watchdog), (Register.DIE, DIE),
                                (Register.CONTROL, 1)):
            await self.host.put(ctx, register, value)

    async def read_long(self, ctx: Any, address: int) -> int:
        """A 64-bit register."""
        low = await self.host.get(ctx, address)
        return low | await self.host.get(ctx, address + 4) << 32

    def run(self, bench: Callable[[Any], Any], *background: Callable[[Any], Any]) -> None:
        """Simulate."""
        self.built.simulate(bench, limit_cycles=8_000, background=[
            monitor(self.dut.axil), self._watch, *(engine.bench for engine in self.engines), *background,
            *self.memory.benches([self.dut.fetch_memory], [self.dut.record_memory])])


def task(engine: Engine, **header: Any) -> list[int]:
    return descriptor([0] * BODY_WORDS, engine=engine, operation=0, **header)


def test_a_graph_through_registers() -> None:
    """Start, interrupt, states, records, counters of tasks; a second run of the same graph."""
    graph = [task(engine, record=1, advance_enable=1, advance=engine.value, tag=number, last=number == 11)
             for number, engine in enumerate(engine_order(TINY) * 3)]
    system = System(graph)
    dut, host = system.dut, system.host

    async def bench(ctx: Any) -> None:
        assert await host.get(ctx, Register.STATUS) == 0
        for count in (1, 2):
            await system.launch(ctx)
            assert await host.get(ctx, Register.STATUS) == BUSY
            assert not ctx.get(dut.irq)
            await host.put(ctx, Register.CONTROL, 1)  # ignored while it runs
            await ctx.tick().until(dut.irq)
            assert await host.get(ctx, Register.STATUS) == DONE
            assert await host.get(ctx, Register.RECORD_COUNT) == 12 * count
            assert system.started == 12 * count
            records = system.memory.words[RECORDS + 96 * (count - 1):RECORDS + 96 * count].reshape(12, 8)
            assert sorted(records[:, 1] & 0xFFFF) == list(range(12))
            for engine in engine_order(TINY):
                assert await host.get(ctx, regs.COUNTERS + 4 * engine.value) == 3 * count
                block = regs.ENGINES + regs.ENGINE_SPAN * engine.value
                assert await system.read_long(ctx, block + EngineRegister.TASKS) == 3 * count
                assert await host.get(ctx, block + EngineRegister.STATE) == 0
        assert ctx.get(dut.die) == DIE

    system.run(bench)
    assert not system.told


@pytest.mark.parametrize(("engines", "cycles"), [
    ([Engine.MATRIX.value], 40), pytest.param([0, 1, 2, 3], 300, marks=pytest.mark.slow)])
def test_strobes_reach_their_counters(engines: list[int], cycles: int) -> None:
    """Every strobe of engines, and the words of memory and links, are summed in their own register."""
    system = System([])
    dut, host = system.dut, system.host
    rng = np.random.default_rng(3)
    cycle = [0]
    strobes = [(signal[name], regs.ENGINES + regs.ENGINE_SPAN * engine + CYCLES[name])
               for engine in engines for name in STROBES if engine == Engine.MATRIX.value or name not in MACS
               for signal in [getattr(dut, f"engine_{engine}").strobes]]
    counted = [*strobes, (dut.injected_words, Register.WORDS_INJECTED),
               (dut.transit_words, Register.WORDS_TRANSIT), (dut.words_read, Register.WORDS_READ),
               (dut.words_written, Register.WORDS_WRITTEN),
               *((dut.port_words[port], regs.LINK_WORDS + 8 * port) for port in range(TINY.ports))]

    async def bench(ctx: Any) -> None:
        await pause(ctx, 200)  # counters are cleared after reset
        most = {address: 2 * TINY.beat_words for signal, address in counted if len(signal) == 12}
        most |= {address: TINY.rows * TINY.columns for signal, address in strobes if len(signal) == 16}
        for engine in engine_order(TINY):
            if engine is not Engine.MATRIX and engine.value in engines:
                block = regs.ENGINES + regs.ENGINE_SPAN * engine.value
                for name in MACS:
                    assert await system.read_long(ctx, block + CYCLES[name]) == 0
        for _ in range(2):
            totals = dict.fromkeys((address for _, address in counted), 0)
            windows: dict[int, list[int]] = {address: [] for _, address in counted}
            for _ in range(cycles):
                # An engine is in one state.
                states = [STROBES[int(rng.integers(STATES))] for _ in range(4)]
                others = {regs.ENGINES + regs.ENGINE_SPAN * engine + CYCLES[name]
                          for engine, state in enumerate(states) for name in STROBES[:STATES] if name != state}
                for signal, address in counted:
                    value = int(rng.integers(most.get(address, (1 << len(signal)) - 1) + 1)) * int(rng.random() < 0.3)
                    value *= address not in others
                    ctx.set(signal, value)
                    totals[address] += value
                    if value:
                        windows[address].append(cycle[0] + 1)  # ``clock`` comes after this bench
                await ctx.tick()
            for signal, _ in counted:
                ctx.set(signal, 0)
            assert cycles < await system.read_long(ctx, Register.CYCLE) <= cycle[0] + 1
            for address, total in totals.items():
                assert await system.read_long(ctx, address) == total > 0, hex(address)
            for engine in engines:
                block = regs.ENGINES + regs.ENGINE_SPAN * engine
                busy = windows[block + EngineRegister.BUSY]
                assert await host.get(ctx, block + EngineRegister.FIRST_BUSY) == busy[0]
                assert await host.get(ctx, block + EngineRegister.LAST_BUSY) == busy[-1]
            await host.put(ctx, Register.CONTROL, 4)
            await pause(ctx, 200)

    async def clock(ctx: Any) -> None:
        while True:
            await ctx.tick()
            cycle[0] += 1

    system.run(bench, clock)


def waiting(engine: Engine, counter: int) -> list[int]:
    """A task that waits for what never comes."""
    return task(engine, wait_enable=2, wait_counter=[0, counter, 0, 0], wait_value=[0, 9, 0, 0], last=1)


#: How memory refuses: index of the client, and the number in its request.
SIDES = ("read_fault", "write_fault", "read_failed", "write_failed")
GOOD = task(Engine.MATRIX)
BAD_ENGINE = [*GOOD]
BAD_ENGINE[0] = 0xE
#: Graph; what goes wrong; what the registers must say: code, task (None: any), engine, counter.
ERRORS: dict[str, tuple[list[list[int]], dict[str, Any], ErrorCode, int | None, int, int]] = {
    "unknown engine": ([GOOD, BAD_ENGINE], {}, ErrorCode.BAD_ENGINE, TASKS + 64, 0xE, 0),
    "unknown operation": ([GOOD, GOOD, [Engine.VECTOR.value | 7 << 4, *GOOD[1:]]], {},
                          ErrorCode.BAD_OPERATION, TASKS + 128, Engine.VECTOR.value, 0),
    "unknown counter": ([GOOD, waiting(Engine.TRANSFER, 64)], {}, ErrorCode.BAD_COUNTER, TASKS + 64,
                        Engine.TRANSFER.value, 64),
    "refused by the engine": ([task(Engine.VECTOR, advance_enable=1), waiting(Engine.MATRIX, 3)],
                              {"error": ErrorCode.BAD_OPERAND}, ErrorCode.BAD_OPERAND, TASKS,
                              Engine.VECTOR.value, 0),
    "read beyond memory": ([task(Engine.VECTOR), GOOD, task(Engine.MATRIX, last=1)],
                           {"read_fault": (2, 8)}, ErrorCode.BAD_ADDRESS, TASKS + 64, Engine.MATRIX.value, 0),
    "write beyond memory": ([GOOD, task(Engine.TRANSFER, last=1)], {"write_fault": (1, 8)},
                            ErrorCode.BAD_ADDRESS, TASKS + 64, Engine.TRANSFER.value, 0),
    "fetch beyond memory": ([GOOD, waiting(Engine.MATRIX, 1)], {"read_fault": (0, 1)}, ErrorCode.BAD_ADDRESS,
                            TASKS + 64, SCHEDULER, 0),
    "memory's answer to the oldest task": ([task(Engine.VECTOR), GOOD, task(Engine.MATRIX, last=1)],
                                           {"read_failed": (1, 8)}, ErrorCode.MEMORY, TASKS + 64,
                                           Engine.MATRIX.value, 0),
    "memory's answer to a later one": ([task(Engine.VECTOR), GOOD, task(Engine.MATRIX, last=1)],
                                       {"read_failed": (1, 9)}, ErrorCode.MEMORY, TASKS + 128,
                                       Engine.MATRIX.value, 0),
    "memory's answer to a write": ([GOOD, task(Engine.TRANSFER, last=1)], {"write_failed": (1, 8)}, ErrorCode.MEMORY,
                                   TASKS + 64, Engine.TRANSFER.value, 0),
    "memory's answer to another die's tile": ([GOOD, task(Engine.TRANSFER, last=1)], {"write_failed": (1, 0)},
                                              ErrorCode.MEMORY, 0, Engine.TRANSFER.value, 0),
    "memory's answer to the last fetch": ([GOOD, waiting(Engine.MATRIX, 1)], {"read_failed": (0, 1)},
                                          ErrorCode.MEMORY, TASKS + 64, SCHEDULER, 0),
    "memory's answer to the fetch before": ([GOOD, waiting(Engine.MATRIX, 1)], {"read_failed": (0, 0)},
                                            ErrorCode.MEMORY, TASKS, SCHEDULER, 0),
    "a wait without end": ([waiting(Engine.COLLECTIVE, 11)], {"watchdog": 150}, ErrorCode.TIMEOUT, TASKS,
                           Engine.COLLECTIVE.value, 11),
    "an engine without end": ([task(Engine.VECTOR, last=1)], {"watchdog": 150}, ErrorCode.TIMEOUT, TASKS,
                              Engine.VECTOR.value, 0),
    "a packet beyond memory": ([GOOD, waiting(Engine.MATRIX, 1)], {"receive_fault": 0}, ErrorCode.BAD_PACKET, None,
                               Engine.TRANSFER.value, 0),
    "own tile beyond memory": ([GOOD, task(Engine.TRANSFER, last=1)], {"receive_fault": 1},
                               ErrorCode.BAD_ADDRESS, TASKS + 64, Engine.TRANSFER.value, 0),
    "a remote advance to a die that does not exist": (
        [GOOD, *(task(Engine.TRANSFER, remote_enable=1, remote_die=die) for die in (6, 7))],
        {"dies": 7}, ErrorCode.BAD_DIE, TASKS + 128, Engine.TRANSFER.value, 0),
    "a packet without a route": ([GOOD, waiting(Engine.MATRIX, 1)], {"lost": 200}, ErrorCode.NO_ROUTE, None, SCHEDULER,
                                 0),
    "a route to a die that does not exist": ([GOOD, waiting(Engine.MATRIX, 1)], {"dies": 7, "route": (7, 0)},
                                             ErrorCode.BAD_ROUTE, None, SCHEDULER, 0),
    "a route to a die beyond those of the table": (
        [GOOD, waiting(Engine.MATRIX, 1)], {"route": (900, 0)}, ErrorCode.BAD_ROUTE, None, SCHEDULER, 0),
    "a route by a port that does not exist": ([GOOD, waiting(Engine.MATRIX, 1)], {"route": (3, 2)},
                                              ErrorCode.BAD_ROUTE, None, SCHEDULER, 0),
    "another die": ([GOOD, waiting(Engine.MATRIX, 1)], {"error_in": 77}, ErrorCode.REMOTE, None, SCHEDULER,
                    0),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    """Code, task and who are told; the interrupt rises; other dies hear of it, once."""
    graph, event, code, address, engine, counter = ERRORS[name]
    unending = 100_000 if set(event) & {*SIDES, "receive_fault", "watchdog"} else 30
    system = System(graph, longest=unending, error=event.get("error", ErrorCode.NONE))
    dut, host = system.dut, system.host
    for stand_in in system.engines:
        stand_in.depth = 1

    async def bench(ctx: Any) -> None:
        if "dies" in event:
            await host.put(ctx, Register.DIES, event["dies"])
        await system.launch(ctx, event.get("watchdog", 0))
        if set(event) - {"error", "watchdog", "dies"}:
            await pause(ctx, 400)  # all is fetched and started
            assert not ctx.get(dut.irq)
        for side in SIDES:
            if side in event:
                index, number = event[side]
                ctx.set(getattr(dut, side), {"valid": 1, "index": index, "task": number})
        if "receive_fault" in event:
            ctx.set(dut.receive_fault, {"valid": 1, "own": event["receive_fault"]})
        if "error_in" in event:
            ctx.set(dut.error_in.payload, event["error_in"])
            ctx.set(dut.error_in.valid, 1)
        if "lost" in event:
            ctx.set(dut.lost, {"valid": 1, "die": event["lost"]})
        if "route" in event:
            await host.write(ctx, regs.ROUTES + 4 * event["route"][0], event["route"][1])
        await ctx.tick()
        ctx.set(dut.lost, {"valid": 0, "die": 0})
        for side in SIDES:
            ctx.set(getattr(dut, side), {"valid": 0, "index": 0, "task": 0})
        ctx.set(dut.error_in.valid, 0)
        ctx.set(dut.receive_fault, {"valid": 0, "own": 0})
        if not ctx.get(dut.irq):
            await ctx.tick().until(dut.irq)
        started = system.started
        other = event.get("error_in", event.get("lost", event.get("route", (0,))[0]))
        assert await host.get(ctx, Register.STATUS) == BUSY | ERROR
        assert await host.get(ctx, Register.ERROR_CODE) == code.value
        if address is not None:
            assert await host.get(ctx, Register.ERROR_TASK) == address
        assert await host.get(ctx, Register.ERROR_INFO) == (
            engine | counter << 8 | other << 16)
        assert system.told == [event.get("error_in", DIE)]
        # Nothing more starts, and the error stays.
        await host.put(ctx, regs.COUNTERS + 4, 100)
        await host.put(ctx, Register.CONTROL, 3)
        await pause(ctx, 300)
        assert await host.get(ctx, Register.STATUS) == BUSY | ERROR
        assert system.started == started

    system.run(bench)


def test_waiting_task_is_shown() -> None:
    """The status block of an engine says what it waits for."""
    system = System([task(Engine.MATRIX, advance_enable=1, advance=2), waiting(Engine.VECTOR, 2)])
    host = system.host
    block = regs.ENGINES + regs.ENGINE_SPAN * Engine.VECTOR.value

    async def bench(ctx: Any) -> None:
        await host.put(ctx, regs.COUNTER_BASES + 8, 1000)
        await host.put(ctx, regs.COUNTERS + 8, 1007)
        await system.launch(ctx)
        await pause(ctx, 400)
        shown = {EngineRegister.STATE: 2, EngineRegister.TASK: TASKS + 64,
                 EngineRegister.WAIT_COUNTER: 1 << 31 | 2, EngineRegister.WAIT_VALUE: 1009}
        for register, value in shown.items():
            assert await host.get(ctx, block + register) == value
        assert await host.get(ctx, regs.COUNTERS + 8) == 1008
        await host.put(ctx, regs.COUNTERS + 8, 1009)
        await ctx.tick().until(system.dut.irq)
        assert await host.get(ctx, Register.STATUS) == DONE

    system.run(bench)


def test_error_is_cleared_while_nothing_runs() -> None:
    """An error of another die that comes between two graphs."""
    system = System([task(Engine.MATRIX, last=1)])
    dut, host = system.dut, system.host

    async def bench(ctx: Any) -> None:
        ctx.set(dut.error_in.payload, 3)
        ctx.set(dut.error_in.valid, 1)
        await ctx.tick()
        ctx.set(dut.error_in.valid, 0)
        await host.put(ctx, Register.CONTROL, 1)
        assert await host.get(ctx, Register.STATUS) == ERROR
        await host.put(ctx, Register.CONTROL, 2)
        assert await host.get(ctx, Register.STATUS) == 0 == await host.get(ctx, Register.ERROR_INFO)
        await system.launch(ctx)
        await ctx.tick().until(dut.irq)
        assert await host.get(ctx, Register.STATUS) == DONE and system.started == 1

    system.run(bench)
