"""Test-bench AXI4 memory for Amaranth's simulator, one instance a port; checks the master's rules.

Checked: INCR, full width, at most 256 beats, no 4 KB crossing, VALID that does not fall and payloads that
hold while stalled, and WLAST on the last beat of each burst only. Data may be taken before their address; what
AWREADY and WREADY wait for is an argument, of all that AXI4 (A3.3.1) allows a slave.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from tests.support.amaranth_sim import always, randomly

INCR = 1
SLVERR, DECERR = 2, 3

#: What AWREADY may wait for: nothing, AWVALID, WVALID, both, or that all data of the burst have been taken.
AW_WAITS = ("", "aw", "w", "both", "data")
#: What WREADY may wait for: nothing, AWVALID, WVALID, both, or that the burst's address has been taken.
W_WAITS = ("", "aw", "w", "both", "address")
#: All that a slave may do with both; it must not wait for the data to take the address and the other way round.
WRITE_ORDERS = [(aw, w) for aw in AW_WAITS for w in W_WAITS if (aw, w) != ("data", "address")]


class AXIMemory:
    """Byte-addressed memory of one port.

    Parameters
    ----------
    port : AXI4Signature
    size : int
        Bytes.
    latency : int
        Cycles from a burst to its first beat, and from its last beat to its response.
    seed, availability
        Of random READY and VALID; without a seed they are given whenever they may be.
    bad, answer
        A byte range whose accesses answer so.
    orders : (str, str)
        What AWREADY and WREADY wait for, of :data:`WRITE_ORDERS`.
    pauses : int
        Cycles between the beats of a read burst.
    """

    def __init__(self, port: Any, size: int, *, latency: int = 3, seed: int | None = None,
                 availability: float = 0.5, bad: range = range(0), answer: int = SLVERR,
                 orders: tuple[str, str] = ("", "address"), pauses: int = 0):
        self.port = port
        self.contents = bytearray(size)
        self.latency = latency
        self.seed = seed
        self.availability = availability
        self.bad = bad
        self.answer = answer
        self.orders = orders
        self.pauses = pauses
        self.read_bursts: list[tuple[int, int]] = []
        self.write_bursts: list[tuple[int, int]] = []
        #: Write bursts whose data had all been taken when their address was.
        self.early_bursts = 0

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
        # Looked up once: members of an interface take longer to find than a cycle to simulate.
        rdata, rlast, rresp, rvalid, arready = port.rdata, port.rlast, port.rresp, port.rvalid, port.arready
        asked = port.rready, *self._burst("ar")
        size = len(port.wdata) // 8
        take, give = self._pattern(0), self._pattern(1)
        queue: deque[tuple[int, int, bool]] = deque()
        offering, cycle, held = False, 0, None
        while True:
            taking = next(take)
            if not offering and queue and queue[0][0] <= cycle and next(give):
                _, address, last = queue[0]
                ctx.set(rdata, int.from_bytes(self.contents[address:address + size], "little"))
                ctx.set(rlast, last)
                ctx.set(rresp, self.answer if address in self.bad else 0)
                offering = True
            ctx.set(rvalid, offering)
            ctx.set(arready, taking)
            _, _, ready, valid, address, length, *rest = await ctx.tick().sample(*asked)
            sampled = [valid, address, length, *rest]
            if offering and ready:
                queue.popleft()
                offering = False
            burst = self._take("ar", held, sampled)
            held = tuple(sampled) if valid and not taking else None
            if burst and taking:
                self.read_bursts.append(burst)
                start, beats = burst
                queue.extend((cycle + self.latency + beat * self.pauses, start + beat * size, beat == beats - 1)
                             for beat in range(beats))
            cycle += 1

    def _valid(self, ctx: Any, what: str) -> bool:
        """Whether the VALIDs are there that a READY waits for."""
        address, data = bool(ctx.get(self.port.awvalid)), bool(ctx.get(self.port.wvalid))
        return {"": True, "aw": address, "w": data, "both": address and data}[what]

    async def _write(self, ctx: Any) -> None:
        port = self.port
        bresp, bvalid, awready, wready = port.bresp, port.bvalid, port.awready, port.wready
        given = port.bready, port.wvalid, port.wdata, port.wstrb, port.wlast, *self._burst("aw")
        size = len(port.wdata) // 8
        take, accept, answer = self._pattern(2), self._pattern(3), self._pattern(4)
        beats: deque[tuple[int, bool]] = deque()
        data: deque[tuple[int, int, bool]] = deque()
        responses: deque[tuple[int, int]] = deque()
        held: tuple | None = None
        held_data: tuple | None = None
        responding, cycle, error, ends = False, 0, False, 0
        aw_waits, w_waits = self.orders
        while True:
            taking, accepting = next(take), next(accept)
            # Here ``beats`` have their address only, ``data`` come before it: of one burst at most.
            taking &= bool(ends) if aw_waits == "data" else bool(data) or self._valid(ctx, aw_waits)
            accepting &= bool(beats) or (w_waits != "address" and not ends and self._valid(ctx, w_waits))
            if not responding and responses and responses[0][0] <= cycle and next(answer):
                ctx.set(bresp, responses[0][1])
                responding = True
            ctx.set(bvalid, responding)
            ctx.set(awready, taking)
            ctx.set(wready, accepting)
            _, _, b_ready, w_valid, word, strobe, last, valid, address, length, *rest = \
                await ctx.tick().sample(*given)
            if responding and b_ready:
                responses.popleft()
                responding = False
            if held_data is not None:
                assert w_valid and held_data == (word, strobe, last), "W changed while stalled"
            held_data = (word, strobe, last) if w_valid and not accepting else None
            if w_valid and accepting:
                data.append((word, strobe, bool(last)))
                ends += last
            sampled = [valid, address, length, *rest]
            burst = self._take("aw", held, sampled)
            held = tuple(sampled) if valid and not taking else None
            if burst and taking:
                self.write_bursts.append(burst)
                beats.extend((burst[0] + beat * size, beat == burst[1] - 1) for beat in range(burst[1]))
                self.early_bursts += ends > 0
            while beats and data:
                (start, expected_last), (word, strobe, last) = beats.popleft(), data.popleft()
                assert last == expected_last, f"wlast {last} at {start:#x}"
                error |= start in self.bad
                for byte in range(size):
                    if strobe >> byte & 1:
                        self.contents[start + byte] = word >> (8 * byte) & 0xFF
                if last:
                    ends -= 1
                    responses.append((cycle + self.latency, self.answer if error else 0))
                    error = False
            cycle += 1
