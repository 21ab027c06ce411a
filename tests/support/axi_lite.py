"""AXI4-Lite master for Amaranth's simulator, and a monitor of what the slave must keep."""

from collections.abc import Callable, Sequence
from typing import Any


async def pause(ctx: Any, cycles: int) -> None:
    """Let cycles pass, or none."""
    for _ in range(cycles):
        await ctx.tick()


class Master:
    """Reads and writes through ``port``; reads and writes may run in different test benches at once."""

    def __init__(self, port: Any):
        self.port = port

    async def write(self, ctx: Any, address: int, value: int, strobe: int = 0xF,
                    waits: Sequence[int] = (0, 0, 0)) -> int:
        """One write; returns its response. ``waits``: cycles before AW, W and BREADY."""
        port = self.port
        ctx.set(port.awaddr, address)
        ctx.set(port.wdata, value)
        ctx.set(port.wstrb, strobe)
        sent = {"aw": False, "w": False}
        cycle = 0
        while not all(sent.values()):
            for channel, wait in zip(sent, waits, strict=False):
                ctx.set(getattr(port, f"{channel}valid"), not sent[channel] and cycle >= wait)
            *_, aw, w = await ctx.tick().sample(port.awvalid & port.awready, port.wvalid & port.wready)
            sent = {"aw": sent["aw"] or aw, "w": sent["w"] or w}
            cycle += 1
        ctx.set(port.awvalid, 0)
        ctx.set(port.wvalid, 0)
        await pause(ctx, waits[2])
        ctx.set(port.bready, 1)
        (response,) = await ctx.tick().sample(port.bresp).until(port.bvalid)
        ctx.set(port.bready, 0)
        return int(response)

    async def read(self, ctx: Any, address: int, waits: Sequence[int] = (0, 0)) -> tuple[int, int]:
        """One read; returns data and response. ``waits``: cycles before AR and RREADY."""
        port = self.port
        await pause(ctx, waits[0])
        ctx.set(port.araddr, address)
        ctx.set(port.arvalid, 1)
        await ctx.tick().until(port.arready)
        ctx.set(port.arvalid, 0)
        await pause(ctx, waits[1])
        ctx.set(port.rready, 1)
        data, response = await ctx.tick().sample(port.rdata, port.rresp).until(port.rvalid)
        ctx.set(port.rready, 0)
        return int(data), int(response)

    async def get(self, ctx: Any, address: int) -> int:
        """Value of a register that must exist."""
        data, response = await self.read(ctx, address)
        assert not response, f"no register at {address:#x}"
        return data

    async def put(self, ctx: Any, address: int, value: int) -> None:
        """Write a register that must exist."""
        response = await self.write(ctx, address, value)
        assert not response, f"no register at {address:#x}"


def monitor(port: Any) -> Callable[[Any], Any]:
    """Background bench: a response comes only for an access, one for each, and holds until it is taken."""
    async def bench(ctx: Any) -> None:
        open_writes = open_reads = 0
        held: list[tuple[int, ...] | None] = [None, None]
        sampled = (port.awvalid & port.awready, port.arvalid & port.arready, port.bvalid, port.bready, port.bresp,
                   port.rvalid, port.rready, port.rresp, port.rdata)
        while True:
            *_, aw, ar, bvalid, bready, bresp, rvalid, rready, rresp, rdata = await ctx.tick().sample(*sampled)
            for index, (valid, ready, payload) in enumerate(((bvalid, bready, (bresp,)),
                                                             (rvalid, rready, (rresp, rdata)))):
                assert held[index] is None or (valid and held[index] == payload), "a response changed"
                held[index] = payload if valid and not ready else None
            assert bvalid <= open_writes and rvalid <= open_reads, "a response without an access"
            open_writes += int(aw) - int(bvalid and bready)
            open_reads += int(ar) - int(rvalid and rready)

    return bench
