"""Block RAM behind the memory ports."""

import numpy as np
import pytest
from tests.support.amaranth_sim import always, every, randomly, simulate
from tests.support.memory_clients import beat_words, random_beats, random_requests, reader, writer
from tests.support.refusal import refused

from plinth_hw import emit
from plinth_hw.isa.parameters import preset
from plinth_hw.memory import block_ram
from plinth_hw.memory.block_ram import BlockMemory

PARAMETERS = preset("ndp-tiny", address_bits=20)
B = PARAMETERS.beat_words
BEATS = 64
PATTERNS = {"always": always, "every3": lambda: every(3), "random": lambda: randomly(13, 0.6)}


@pytest.mark.parametrize("data_pattern", PATTERNS)
@pytest.mark.parametrize("request_pattern", PATTERNS)
@pytest.mark.parametrize("slice_bits", [4, 32])
def test_write_then_read(slice_bits, request_pattern, data_pattern, monkeypatch):
    monkeypatch.setattr(block_ram, "BLOCK_BITS", slice_bits * BEATS)
    rng = np.random.default_rng(4)
    words = np.zeros(BEATS * B, np.uint32)
    dut = BlockMemory(PARAMETERS, BEATS)
    requests = random_requests(rng, 60, 0, BEATS, 8)
    beats = random_beats(rng, requests, words, B)
    patterns = PATTERNS[request_pattern], PATTERNS[data_pattern]
    ask, give, wait = writer(dut.write, requests, beats, *patterns)
    reads = [*random_requests(rng, 30, 0, BEATS, 8), (0, BEATS)]
    got = []
    read_ask, read_take = reader(dut.read, reads, got, *patterns)

    async def wait_then_ask(ctx):
        await wait(ctx)
        await read_ask(ctx)

    simulate(dut, ask, give, wait_then_ask, read_take, limit_cycles=10_000)
    assert got == [beat_words(words, address + beat, B) for address, count in reads for beat in range(count)]


def test_rate():
    """Requests back to back: a beat a cycle."""
    dut = BlockMemory(PARAMETERS, BEATS)
    got, times = [], []
    ask, _ = reader(dut.read, [(0, 1), (3, 2), (1, 1), (9, 4)], got, always, always)

    async def watch(ctx):
        ctx.set(dut.read.data.ready, 1)
        cycle = 0
        while len(times) < 8:
            *_, valid = await ctx.tick().sample(dut.read.data.valid)
            if valid:
                times.append(cycle)
            cycle += 1

    simulate(dut, ask, watch, limit_cycles=100)
    assert times == list(range(4, 12))


@pytest.mark.parametrize(("beats", "error"), [(0, ValueError), (1.5, TypeError), (True, TypeError)])
def test_bad_parameters(beats, error):
    with refused(error, "not"):
        BlockMemory(PARAMETERS, beats)


def test_zeros_are_not_written_out_for_an_fpga():
    """Of a large memory they would be millions of cells for synthesis."""
    whole, short = (emit.verilog(BlockMemory(PARAMETERS, BEATS), "memory", family=family) for family in (None, "ecp5"))
    assert "memory[63] = 128'h0" in whole
    assert "initial" not in short and "reg [127:0] memory [63:0];" in short
