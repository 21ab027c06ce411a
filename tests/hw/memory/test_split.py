"""Two memories as one: cut at the bound, in order, with errors where they belong."""

import numpy as np
import pytest
from tests.support.amaranth_sim import always, randomly, simulate
from tests.support.memory_clients import beat_words, random_beats, random_requests, reader, writer
from tests.support.memory_model import MemoryModel
from tests.support.refusal import refused

from plinth_hw.isa.parameters import MAX_BEATS, preset
from plinth_hw.memory.split import AddressSplit

PARAMETERS = preset("ndp-tiny", address_bits=20)
B = PARAMETERS.beat_words
BOUND, BEATS = 2 * MAX_BEATS, 4 * MAX_BEATS
PATTERNS = {"always": always, "random": lambda: randomly(12, 0.6)}


def memories(words: np.ndarray) -> tuple[MemoryModel, MemoryModel]:
    """A memory for each side, with the same addresses."""
    low, high = MemoryModel(PARAMETERS, BOUND * B), MemoryModel(PARAMETERS, BEATS * B)
    low.words[:], high.words[:] = words[:BOUND * B], words
    return low, high


@pytest.mark.parametrize("latencies", [(1, 40), (40, 1)], ids=["low first", "high first"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_two_are_one(pattern: str, latencies: tuple[int, int]) -> None:
    """Reads and writes around the bound, with one side faster than the other."""
    rng = np.random.default_rng(3)
    words = rng.integers(0, 1 << 32, BEATS * B, dtype=np.uint64).astype(np.uint32)
    low, high = memories(words)
    dut = AddressSplit(PARAMETERS, BOUND, outstanding=8)
    make = PATTERNS[pattern]
    quarter = MAX_BEATS // 2
    # Writers around the bound, readers of what they do not touch, and of all that is read across it.
    writes = random_requests(rng, 12, BOUND - quarter, BOUND + quarter, MAX_BEATS)
    writes.append((BOUND - quarter, MAX_BEATS))
    reads = random_requests(rng, 20, 0, BOUND - quarter, 9) + random_requests(rng, 20, BOUND + quarter, BEATS, 9)
    reads = [reads[index] for index in rng.permutation(len(reads))]
    across = [(BOUND - quarter, MAX_BEATS), (BOUND - 1, 2), (BOUND - 1, 1), (BOUND, 1),
              *random_requests(rng, 8, BOUND - quarter, BOUND + quarter, MAX_BEATS)]
    expected = words.copy()
    beats = random_beats(rng, writes, expected, B)
    first: list[list[int]] = []
    second: list[list[int]] = []
    ask, give, wait = writer(dut.write, writes, beats, make, make)
    first_ask, first_take = reader(dut.read, reads, first, make, make)
    then_ask, then_take = reader(dut.read, across, second, make, make)

    written: list[bool] = []

    async def waits(ctx) -> None:
        await wait(ctx)
        written.append(True)

    async def asks(ctx) -> None:
        await first_ask(ctx)
        while not written:
            await ctx.tick()
        await then_ask(ctx)

    async def takes(ctx) -> None:
        await first_take(ctx)
        await then_take(ctx)

    simulate(dut, ask, give, waits, asks, takes, limit_cycles=10_000, background=[
        *low.benches([dut.low_read], [dut.low_write], latency=latencies[0], response_delay=latencies[0], seed=1),
        *high.benches([dut.high_read], [dut.high_write], latency=latencies[1], response_delay=latencies[1], seed=2)])
    for got, requests in ((first, reads), (second, across)):
        assert got == [beat_words(expected, address + beat, B) for address, count in requests for beat in range(count)]
    assert (low.words == expected[:BOUND * B]).all() and (high.words[BOUND * B:] == expected[BOUND * B:]).all()
    assert all(address >= BOUND for _, address, _ in high.reads + high.writes)


def test_rate() -> None:
    """Requests of single beats flow one a cycle, from one side or from both in turn."""
    low, high = memories(np.zeros(BEATS * B, np.uint32))
    dut = AddressSplit(PARAMETERS, BOUND)
    times: list[int] = []
    ask, _ = reader(dut.read, [(BOUND * (index & 1) + index, 1) for index in range(20)], [], always, always)

    async def watch(ctx) -> None:
        ctx.set(dut.read.data.ready, 1)
        cycle = 0
        while len(times) < 20:
            *_, valid = await ctx.tick().sample(dut.read.data.valid)
            times.extend([cycle] * valid)
            cycle += 1

    simulate(dut, ask, watch, limit_cycles=200, background=[*low.benches([dut.low_read], [dut.low_write]),
                                                            *high.benches([dut.high_read], [dut.high_write])])
    assert times == list(range(times[0], times[0] + 20))


@pytest.mark.parametrize("slow", ["low", "high"])
def test_errors_come_with_what_they_are_of(slow: str) -> None:
    """However long the other side takes for what comes before."""
    dut = AddressSplit(PARAMETERS, BOUND)
    reads: list[tuple[int, int]] = []
    writes: list[tuple[int, int]] = []
    requests = [(0, 1), (BOUND, 1), (1, 1), (BOUND + 1, 1), (BOUND + 2, 1), (BOUND - 1, 2)]
    #: The second request to the high side, and the part of the last one there.
    bad = (1, 3)
    wanted = [index in (3, 5) for index in range(len(requests))]
    ask_read, _ = reader(dut.read, requests, [], always, always)
    ask_write, give, _ = writer(dut.write, requests, [([0] * B, 0)] * 7, always, always)

    def server(side: str, delay: int):
        """Answers reads and writes of a side, in order, ``delay`` cycles after they came."""
        read, write = getattr(dut, f"{side}_read"), getattr(dut, f"{side}_write")

        async def serve_read(ctx) -> None:
            queue: list[int] = []
            cycle = done = 0
            while True:
                offered = bool(queue) and queue[0] <= cycle
                ctx.set(read.request.ready, 1)
                ctx.set(read.data.valid, offered)
                if side == "high":
                    ctx.set(dut.high_read_error, offered and done in bad)
                *_, asked, taken = await ctx.tick().sample(read.request.valid, read.data.ready)
                if offered and taken:
                    queue.pop(0)
                    done += 1
                if asked:
                    queue.append(cycle + delay)
                cycle += 1

        async def serve_write(ctx) -> None:
            queue: list[int] = []
            cycle = done = 0
            while True:
                ready = bool(queue) and queue[0] <= cycle
                if ready:
                    queue.pop(0)
                ctx.set(write.request.ready, 1)
                ctx.set(write.data.ready, 1)
                ctx.set(write.response, ready)
                if side == "high":
                    ctx.set(dut.high_write_error, ready and done in bad)
                done += ready
                *_, taken = await ctx.tick().sample(write.data.valid)
                if taken:
                    queue.append(cycle + delay)
                cycle += 1

        return serve_read, serve_write

    async def watch_reads(ctx) -> None:
        ctx.set(dut.read.data.ready, 1)
        error = 0
        while len(reads) < 7:
            *_, valid, failed = await ctx.tick().sample(dut.read.data.valid, dut.read_error)
            error |= failed
            assert not failed or valid
            if valid:
                reads.append(error)
                error = 0

    async def watch_writes(ctx) -> None:
        error = 0
        while len(writes) < len(requests):
            *_, response, failed = await ctx.tick().sample(dut.write.response, dut.write_error)
            error |= failed
            if response:
                writes.append(error)
                error = 0

    delays = {"low": (30, 1), "high": (1, 30)}[slow]
    simulate(dut, ask_read, ask_write, give, watch_reads, watch_writes, limit_cycles=2000,
             background=[*server("low", delays[0]), *server("high", delays[1])])
    assert reads == [*wanted[:5], False, True] and writes == wanted


def test_bad_sizes() -> None:
    for beats in (0, MAX_BEATS + 1):
        with refused(ValueError, "positive multiple of 64"):
            AddressSplit(PARAMETERS, beats)
