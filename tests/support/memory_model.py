"""Test-bench model of a memory behind lists of read and write ports.

    memory = MemoryModel(parameters, words=4096)
    memory.words[:] = ...
    simulate(dut, bench, background=memory.benches(read_ports=[dut.a_port], write_ports=[dut.c_port],
                                                   latency=7, seed=3, availability=0.5))

It serves each port on its own, one beat a cycle at most, and checks what a client must keep: request
sizes, addresses, and payloads that hold while stalled. ``reads`` and ``writes`` list (port index,
address in beats, beats) as requested.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from tests.support.amaranth_sim import always, randomly

from plinth_hw.isa.formats import word_type
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.memory.port import MAX_BEATS


class MemoryModel:
    """Memory of ``words`` words (a multiple of the beat), shared by all ports.

    ``words`` is an array of unsigned numbers as wide as the die's words that the test may read and write at will.
    ``response_delay`` counts cycles from the last data beat of a write to its response; reads see written data from
    the cycle of the last beat on.
    """

    def __init__(self, parameters: DieParameters, words: int):
        if words % parameters.beat_words:
            raise ValueError(f"words must be a multiple of {parameters.beat_words}, not {words}")
        self.beat_words = parameters.beat_words
        self.word_bits = parameters.word_bits
        self.words = np.zeros(words, dtype=word_type(parameters.memory_format))
        self.reads: list[tuple[int, int, int]] = []
        self.writes: list[tuple[int, int, int]] = []

    def benches(self, read_ports: Iterable[Any] = (), write_ports: Iterable[Any] = (), *,
                latency: int = 4, response_delay: int = 4, seed: int | None = None,
                availability: float = 0.5) -> list[Callable[[Any], Any]]:
        """Background test benches, one a port. Without ``seed`` the memory takes and gives something
        in every cycle; with it, each handshake is offered with the given probability."""
        def pattern(index: int) -> Iterator[bool]:
            return always() if seed is None else randomly(seed * 1000 + index, availability)

        benches: list[Callable[[Any], Any]] = []
        for index, port in enumerate(read_ports):
            benches.append(self._read_bench(index, port, latency, pattern(4 * index), pattern(4 * index + 1)))
        for index, port in enumerate(write_ports):
            benches.append(self._write_bench(index, port, response_delay, pattern(4 * index + 2),
                                             pattern(4 * index + 3)))
        return benches

    def _check(self, kind: str, index: int, address: int, beats: int) -> None:
        assert 1 <= beats <= MAX_BEATS, f"{kind} port {index}: a request for {beats} beats"
        end = (address + beats) * self.beat_words
        assert end <= len(self.words), f"{kind} port {index}: beats {address}+{beats} beyond the memory"

    def _read_bench(self, index: int, port: Any, latency: int, take: Iterator[bool],
                    give: Iterator[bool]) -> Callable[[Any], Any]:
        beat_words = self.beat_words
        # Looked up once: members of an interface take longer to find than a cycle to simulate.
        payload, data_valid, request_ready = port.data.payload.as_value(), port.data.valid, port.request.ready
        request = port.request.payload
        sampled = port.request.valid, request.address, request.beats, port.data.ready

        async def bench(ctx: Any) -> None:
            queue: deque[tuple[int, int]] = deque()  # (cycle from which it is ready, beat address)
            stalled: tuple[int, int] | None = None
            cycle = 0
            offering = False
            while True:
                taking = next(take)
                if not offering and queue and queue[0][0] <= cycle and next(give):
                    beat = queue[0][1] * beat_words
                    ctx.set(payload, int.from_bytes(
                        self.words[beat:beat + beat_words].tobytes(), "little"))
                    offering = True
                ctx.set(data_valid, offering)
                ctx.set(request_ready, taking)
                *_, valid, address, beats, ready = await ctx.tick().sample(*sampled)
                if offering and ready:
                    queue.popleft()
                    offering = False
                if stalled is not None:
                    assert valid and stalled == (address, beats), f"read port {index}: request changed"
                stalled = (address, beats) if valid and not taking else None
                if valid and taking:
                    self._check("read", index, address, beats)
                    self.reads.append((index, address, beats))
                    queue.extend((cycle + latency, address + beat) for beat in range(beats))
                cycle += 1

        return bench

    def _write_bench(self, index: int, port: Any, response_delay: int, take: Iterator[bool],
                     accept: Iterator[bool]) -> Callable[[Any], Any]:
        beat_words = self.beat_words
        payload, data_ready, request_ready, response = (
            port.data.payload.as_value(), port.data.ready, port.request.ready, port.response)
        request = port.request.payload
        sampled = port.request.valid, request.address, request.beats, port.data.valid, payload

        async def bench(ctx: Any) -> None:
            queue: deque[tuple[int, bool]] = deque()  # (beat address, last of its request)
            responses: deque[int] = deque()           # cycle of each response
            held_request: tuple[int, int] | None = None
            held_data: int | None = None
            cycle = 0
            while True:
                taking = next(take)
                accepting = bool(queue) and next(accept)
                responding = bool(responses) and responses[0] <= cycle
                if responding:
                    responses.popleft()
                ctx.set(request_ready, taking)
                ctx.set(data_ready, accepting)
                ctx.set(response, responding)
                *_, valid, address, beats, data_valid, data = await ctx.tick().sample(*sampled)
                if held_request is not None:
                    assert valid and held_request == (address, beats), f"write port {index}: request changed"
                held_request = (address, beats) if valid and not taking else None
                if held_data is not None:
                    assert data_valid and held_data == data, f"write port {index}: data changed"
                held_data = data if data_valid and not accepting else None
                if data_valid and accepting:
                    beat, last = queue.popleft()
                    for word in range(beat_words):
                        if data >> (self.word_bits * beat_words + word) & 1:
                            self.words[beat * beat_words + word] = (
                                data >> (self.word_bits * word) & (1 << self.word_bits) - 1)
                    if last:
                        responses.append(cycle + response_delay)
                if valid and taking:
                    self._check("write", index, address, beats)
                    self.writes.append((index, address, beats))
                    queue.extend((address + beat, beat == beats - 1) for beat in range(beats))
                cycle += 1

        return bench
