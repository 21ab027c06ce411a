"""Descriptors, random task graphs and stand-in engines for the tests of the control block."""

from collections import deque
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import numpy as np

from plinth_hw.control.task_ring import RING_TASKS
from plinth_hw.isa.descriptors import BODY_WORDS, Record, TaskHeader
from plinth_hw.isa.layout import pack
from plinth_hw.isa.operations import Engine, ErrorCode


def descriptor(body: list[int] | None = None, **header: Any) -> list[int]:
    """The 64 words of a descriptor."""
    return [*pack(TaskHeader, header), *(body if body is not None else [0] * BODY_WORDS)]


@dataclass
class Task:
    """A task of a test graph."""

    address: int
    engine: Engine
    operation: int
    body: list[int]
    waits: list[tuple[int, int]]
    header: dict[str, Any]
    started: int = -1
    ended: int = -1
    #: Stall cycles, payload words and useful multiply-adds that the stand-in reports.
    figures: tuple[int, int, int] = (0, 0, 0)

    def words(self) -> list[int]:
        """Descriptor."""
        return descriptor(self.body, engine=self.engine, operation=self.operation, **self.header)


def random_graph(rng: np.random.Generator, address: int, engines: list[Engine], count: int, *,
                 counters: int = 64, dies: int = 256, record_probability: float = 0.4) -> list[Task]:
    """Tasks whose waits name only counters that earlier tasks advance; the last has ``last``."""
    tasks: list[Task] = []
    advances = dict.fromkeys(range(counters), 0)
    for number in range(count):
        engine = engines[int(rng.integers(len(engines)))]
        used = [counter for counter, value in advances.items() if value]
        waits = []
        for _ in range(min(int(rng.integers(0, 5)), len(used))):
            counter = used[int(rng.integers(len(used)))]
            waits.append((counter, int(rng.integers(1, advances[counter] + 1))))
        slots = sorted(int(slot) for slot in rng.permutation(4)[:len(waits)])
        header: dict[str, Any] = {
            "record": int(rng.random() < record_probability), "last": int(number == count - 1),
            "tag": int(rng.integers(1 << 16)), "wait_enable": sum(1 << slot for slot in slots),
            "wait_counter": [255] * 4, "wait_value": [12345] * 4,
        }
        for slot, (counter, value) in zip(slots, waits, strict=True):
            header["wait_counter"][slot], header["wait_value"][slot] = counter, value
        if rng.random() < 0.7:
            header["advance_enable"], header["advance"] = 1, int(rng.integers(0, 8))
            advances[header["advance"]] += 1
        if rng.random() < 0.3:
            header |= {"remote_enable": 1, "remote_die": int(rng.integers(dies)),
                       "remote_counter": int(rng.integers(counters))}
        tasks.append(Task(
            address=address + 64 * number, engine=engine,
            operation=int(rng.integers(4)) if engine is Engine.COLLECTIVE else 0,
            body=[int(word) for word in rng.integers(0, 1 << 32, BODY_WORDS, dtype=np.uint64)],
            waits=waits, header=header))
    return tasks


def record_words(task: Task) -> list[int]:
    """Record of a finished task but for its two times (words 2 and 3)."""
    stall, payload, macs = task.figures
    macs *= task.engine is Engine.MATRIX
    return list(pack(Record, {"task": task.address, "tag": task.header["tag"], "engine": task.engine,
                              "stall_cycles": stall, "payload_words": payload, "useful_macs": macs}))


@dataclass
class StandIn:
    """Engine that takes bodies, holds up to ``depth`` started tasks, and ends them after random times.

    ``staged`` collects body words; ``on_start(body, operation, cycle)`` and ``on_end(cycle)`` are told of
    every task and return nothing and what ``done`` says.
    """

    port: Any
    rng: np.random.Generator
    on_start: Any
    on_end: Any
    #: Words of a body that the engine gets.
    words: int
    depth: int = 2
    longest: int = 150
    staged: list[list[int]] = field(default_factory=list)

    async def bench(self, ctx: Any) -> None:
        """Background test bench."""
        # Looked up once: members of an interface take longer to find than a cycle to simulate.
        body_in, start_in, done = self.port.body, self.port.start, self.port.done
        body_ready, start_ready = body_in.ready, start_in.ready
        done_valid, done_payload = done.valid, done.payload
        sampled = (body_in.valid, body_in.payload, start_in.valid, start_in.payload, self.port.operation, done.ready)
        now = 0
        body: list[int] = []
        staged = False
        running: deque[int] = deque()  # cycle from which the task may end
        numbers = cycle(range(RING_TASKS, 2 * RING_TASKS))  # places in turn, with a bit that is set
        while True:
            taking = not staged and self.rng.random() < 0.8
            starting = staged and len(running) < self.depth and self.rng.random() < 0.7
            ending = bool(running) and running[0] <= now
            ctx.set(body_ready, taking)
            ctx.set(start_ready, starting)
            if ending:
                ctx.set(done_payload, self.on_end(now))
            ctx.set(done_valid, ending)
            _, _, body_valid, payload, start_valid, number, operation, done_ready = await ctx.tick().sample(*sampled)
            if taking and body_valid:
                assert payload.index == len(body)
                assert payload.last == (len(body) == self.words - 1)
                body.append(payload.word)
                if payload.last:
                    staged = True
            if starting and start_valid:
                assert number == next(numbers)
                self.on_start(body, operation, now)
                body, staged = [], False
                running.append(now + int(self.rng.integers(1, self.longest)))
            elif start_valid:
                assert staged, "start is offered before the body is complete"
            if ending and done_ready:
                running.popleft()
                self.on_end(None)
            now += 1


def no_error(figures: tuple[int, int, int]) -> dict[str, Any]:
    """Payload of ``done`` for a task that ran."""
    return {"error": ErrorCode.NONE, "stall_cycles": figures[0], "payload_words": figures[1],
            "useful_macs": figures[2]}
