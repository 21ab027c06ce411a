"""cocotb tests of one engine as its own top, with random tasks, against the golden model.

``ENGINE`` names the engine, ``DIE`` one of the smallest dies, ``INSTANCES`` how many engines the top has: of collective
ones two, whose flits go from one to the other.
"""

import os
from itertools import count
from typing import Any

import numpy as np
from tests.support import cocotb_engine
from tests.support.cocotb_engine import PATTERNS, ReadMemory, Scheduler, Wire, WriteMemory
from tests.support.die_tops import TINY_DIES
from tests.support.graphs import RandomGraph

import cocotb
from plinth.driver.driver import Driver
from plinth.lower.program import assemble, ring_setup
from plinth_hw.isa.parameters import ROW_STATIONARY
from plinth_sim.golden.array import GoldenArray

MEMORY_WORDS = 1 << 14
BLOCKS = range(TINY_DIES["ndp"].reduce_blocks)
#: Read and write ports of each engine.
PORTS = {
    "matrix": (["a_memory", "b_memory", "c_memory"], ["store_memory"]),
    "vector": (["load_memory"], ["store_memory"]),
    "collective": ([f"read_{block}" for block in BLOCKS], [f"write_{block}" for block in BLOCKS]),
    "transfer": (["read", "add_read"], ["write"]),
    "optimiser": (["read"], ["write"]),
}
ROW_PORTS = (["x_memory", "w_memory", "c_memory"], ["store_memory"])
#: Random tasks of a run, and rows and columns of their buffers (which must fit the vector scratchpad).
TASKS = {"matrix": (16, 19), "vector": (20, 12), "collective": (10, 19), "transfer": (60, 19),
         "optimiser": (30, 19)}


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(pattern=list(PATTERNS), latency=[1, 20])
async def random_tasks(dut: Any, pattern: str, latency: int) -> None:
    """Memory after random tasks is the golden model's, whatever the stalls on any port."""
    engine, tiny, dies = os.environ["ENGINE"], TINY_DIES[os.environ["DIE"]], int(os.environ["INSTANCES"])
    ports = ROW_PORTS if engine == "matrix" and tiny.machine == ROW_STATIONARY else PORTS[engine]
    seed = cocotb.RANDOM_SEED + list(PATTERNS).index(pattern)
    tasks, size = TASKS[engine]
    graphs = [RandomGraph(tiny, seed, size=size, buffers=6) for _ in range(dies)]
    for graph in graphs:
        for index in range(tasks):
            if engine == "collective":
                graph.collective(f"{index}.{engine}", index)
            else:
                getattr(graph, "gemm" if engine == "matrix" else engine)(f"{index}.{engine}")
    setup = [ring_setup(tiny, range(dies), die, 0) for die in range(dies)]
    program = assemble(setup, [graph.builder for graph in graphs], memory_words=MEMORY_WORDS)
    golden = GoldenArray(tiny, dies, MEMORY_WORDS)
    driver = Driver(golden, program, memory_words=MEMORY_WORDS)
    rng = np.random.default_rng(seed)
    for die in range(dies):
        for buffer in graphs[0].builder.buffers.values():
            values = rng.standard_normal((buffer.rows, buffer.columns)).astype(np.float32)
            driver.write_floats(die, buffer, values)
    memories = [die.memory.copy() for die in golden.dies]
    driver.step(0)

    seeds = count(1000 * seed)
    patterns = (PATTERNS[pattern](number) for number in seeds)
    if engine == "transfer":
        dut.die.value, dut.dies.value = 0, 1
        dut.limit.value = MEMORY_WORDS // tiny.beat_words
        dut.send_ready.value, dut.receive_valid.value, dut.tile_advance_ready.value = 0, 0, 1
    if engine == "collective":
        for die in range(dies):
            getattr(dut, f"die_{die}_dies").value = dies
    await cocotb_engine.reset(dut)
    schedulers, others = [], []
    for die, memory in enumerate(memories):
        prefix = f"die_{die}_" if dies > 1 else ""
        runs = [program.step[die].tasks]
        if engine == "collective":
            runs.insert(0, program.setup[die].tasks)
        schedulers.append(Scheduler(dut, f"{prefix}engine", runs, patterns))
        for kind, names in zip((ReadMemory, WriteMemory), ports, strict=True):
            others += [kind(dut, prefix + name, tiny, memory, patterns, latency) for name in names]
        if engine == "collective":
            others += [Wire(dut, f"{prefix}send_{block}", f"die_{(die + 1) % dies}_receive_{block}", patterns,
                            tiny.link_buffer_flits) for block in BLOCKS]
    cycles = await cocotb_engine.run(dut, schedulers, others)
    cocotb.log.info("%d cycles", cycles)
    for die, memory in enumerate(memories):
        wanted = golden.dies[die].memory[:program.records]
        wrong = np.flatnonzero(memory[:program.records] != wanted)
        assert not len(wrong), f"die {die}: {len(wrong)} words differ, the first at word {wrong[0]}"
