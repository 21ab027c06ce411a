"""Test-bench AXI4 memory for Amaranth's simulator, one instance a port; checks the master's rules.

Checked: INCR, full width, at most 256 beats, no 4 KB crossing, VALID that does not fall and payloads that
hold while stalled, and WLAST on the last beat of each burst only. W is taken once its AW was.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from tests.support.amaranth_sim import always, randomly

INCR = 1
SLVERR = 2


class AXIMemory:
    """Byte-addressed memory of one port. ``contents`` is a bytearray; ``bad`` a byte range whose
    accesses answer SLVERR."""

    def __init__(self, port: Any, size: int, *, latency: int = 3, seed: int | None = None,
                 availability: float = 0.5, bad: range = range(0)):
        self.port = port
        self.contents = bytearray(size)
        self.latency = latency
        self.seed = seed
        self.availability = availability
        self.bad = bad
        self.read_bursts: list[tuple[int, int]] = []
        self.write_bursts: list[tuple[int, int]] = []

    def benches(self) -> list[Callable[[Any], Any]]:
        """Background test benches of the read and the write side."""
        return [self._read, self._write]

    def _pattern(self, index: int) -> Iterator[bool]:
        return always() if self.seed is None else randomly(self.seed * 100 + index, self.availability)

    def _burst(self, prefix: str) -> list[Any]:
        return [getattr(self.port, prefix + name)
                for name in ("valid", "addr", "len", "size", "burst", "id", "cache", "prot")]

    def _take(self, prefix: str, held: tuple | None, sampled: list[int]) -> tuple[int, int] | None:
        """Checks an address channel; the burst (address, beats) if VALID."""
        valid, address, length, size, burst, *_ = sampled
        if held is not None:
            assert valid and held == tuple(sampled), f"{prefix} changed while stalled"
        if not valid:
            return None
        bytes_a_beat = len(self.port.wdata) // 8
        assert burst == INCR and 1 << size == bytes_a_beat, (prefix, burst, size)
        assert address % bytes_a_beat == 0, f"{prefix}addr {address:#x} is not aligned"
        end = address + (length + 1) * bytes_a_beat
        assert address // 4096 == (end - 1) // 4096, f"{prefix} burst {address:#x}+{length + 1} crosses 4 KB"
        assert end <= len(self.contents), f"{prefix} burst {address:#x}+{length + 1} beyond the memory"
        return address, length + 1

    async def _read(self, ctx: Any) -> None:
        port = self.port
        size = len(port.wdata) // 8
        take, give = self._pattern(0), self._pattern(1)
        queue: deque[tuple[int, int, bool]] = deque()
        offering, cycle, held = False, 0, None
        while True:
            taking = next(take)
            if not offering and queue and queue[0][0] <= cycle and next(give):
                _, address, last = queue[0]
                ctx.set(port.rdata, int.from_bytes(self.contents[address:address + size], "little"))
                ctx.set(port.rlast, last)
                ctx.set(port.rresp, SLVERR if address in self.bad else 0)
                offering = True
            ctx.set(port.rvalid, offering)
            ctx.set(port.arready, taking)
            _, _, ready, valid, address, length, *rest = await ctx.tick().sample(
                port.rready, *self._burst("ar"))
            sampled = [valid, address, length, *rest]
            if offering and ready:
                queue.popleft()
                offering = False
            burst = self._take("ar", held, sampled)
            held = tuple(sampled) if valid and not taking else None
            if burst and taking:
                self.read_bursts.append(burst)
                start, beats = burst
                queue.extend((cycle + self.latency, start + beat * size, beat == beats - 1)
                             for beat in range(beats))
            cycle += 1

    async def _write(self, ctx: Any) -> None:
        port = self.port
        size = len(port.wdata) // 8
        take, accept, answer = self._pattern(2), self._pattern(3), self._pattern(4)
        queue: deque[tuple[int, bool]] = deque()
        responses: deque[tuple[int, int]] = deque()
        held: tuple | None = None
        held_data: tuple | None = None
        responding, cycle, error = False, 0, False
        while True:
            taking = next(take)
            accepting = bool(queue) and next(accept)
            if not responding and responses and responses[0][0] <= cycle and next(answer):
                ctx.set(port.bresp, responses[0][1])
                responding = True
            ctx.set(port.bvalid, responding)
            ctx.set(port.awready, taking)
            ctx.set(port.wready, accepting)
            _, _, b_ready, w_valid, data, strobe, last, valid, address, length, *rest = \
                await ctx.tick().sample(port.bready, port.wvalid, port.wdata, port.wstrb, port.wlast,
                                        *self._burst("aw"))
            if responding and b_ready:
                responses.popleft()
                responding = False
            if held_data is not None:
                assert w_valid and held_data == (data, strobe, last), "W changed while stalled"
            held_data = (data, strobe, last) if w_valid and not accepting else None
            if w_valid and accepting:
                start, expected_last = queue.popleft()
                assert bool(last) == expected_last, f"wlast {last} at {start:#x}"
                error |= start in self.bad
                for byte in range(size):
                    if strobe >> byte & 1:
                        self.contents[start + byte] = data >> (8 * byte) & 0xFF
                if last:
                    responses.append((cycle + self.latency, SLVERR if error else 0))
                    error = False
            sampled = [valid, address, length, *rest]
            burst = self._take("aw", held, sampled)
            held = tuple(sampled) if valid and not taking else None
            if burst and taking:
                self.write_bursts.append(burst)
                start, beats = burst
                queue.extend((start + beat * size, beat == beats - 1) for beat in range(beats))
            cycle += 1
