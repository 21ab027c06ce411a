"""Strided loads and stores against numpy, over random alignments, strides and stalls."""

from functools import cache

import numpy as np
import pytest
from amaranth.utils import exact_log2
from tests.support.amaranth_sim import always, every, randomly, receive, send, simulate
from tests.support.memory_model import MemoryModel
from tests.support.refusal import refused
from tests.support.verilated import Verilated

from plinth_hw.isa.parameters import preset
from plinth_hw.memory.channel import RowLoad, StridedLoad, StridedStore

PARAMETERS = preset("ndp-tiny")
WORDS = 4096
ON_CHIP = preset("ndp-tiny", axi_ports=0, block_ram_words=WORDS, address_bits=12)
DIES = pytest.mark.parametrize("parameters", [PARAMETERS, ON_CHIP], ids=["axi", "chip"])
B = PARAMETERS.beat_words


def _commands(rng, count, longest=40):
    commands = []
    for _ in range(count):
        rows = int(rng.integers(1, 7))
        columns = int(rng.integers(1, longest))
        stride = columns + int(rng.integers(0, 9))
        address = int(rng.integers(0, WORDS - rows * stride - B))
        commands.append({"address": address, "stride": stride, "rows": rows, "columns": columns})
    return commands


def _beats(command):
    """Reference walk: (row, column of lane 0, mask, words, row_last, last) of every beat."""
    beats = []
    for row in range(command["rows"]):
        offset = (command["address"] + row * command["stride"]) % B
        for column in range(-offset, command["columns"], B):
            valid = [0 <= column + lane < command["columns"] for lane in range(B)]
            beats.append([row, column, sum(bit << lane for lane, bit in enumerate(valid)), sum(valid),
                          int(column + B >= command["columns"]), 0])
    beats[-1][5] = 1
    return [tuple(beat) for beat in beats]


def _told(column, lanes=B, far=False):
    """The column that a beat tells: unless it is far, that of the row's second beat in those behind it."""
    return column if far or column <= 0 else column % lanes or lanes


def _position(payload):
    return (payload.row, payload.column, payload.mask, payload.words, payload.row_last, payload.last)


PATTERNS = {"always": always, "every3": lambda: every(3), "random": lambda: randomly(11, 0.6)}


@cache
def _built(channel, parameters, **depths):
    return Verilated(channel(parameters, row_bits=6, column_bits=11, **depths))


@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("pattern", PATTERNS)
@DIES
def test_load(pattern, seed, parameters):
    rng = np.random.default_rng(1)
    memory = MemoryModel(parameters, WORDS)
    memory.words[:] = rng.integers(0, 1 << 32, WORDS, dtype=np.uint64).astype(np.uint32)
    model = _built(StridedLoad, parameters, row_depth=4)
    dut = model.component
    commands = [{"address": 13, "stride": 0, "rows": 1, "columns": 1203},
                {"address": 2 * B, "stride": 0, "rows": 1, "columns": 128 * B}, *_commands(rng, 12)]
    expected = [(row, _told(column), *rest) for command in commands for row, column, *rest in _beats(command)]

    async def drive(ctx):
        await send(ctx, dut.command, commands, PATTERNS[pattern]())

    async def check(ctx):
        got = await receive(ctx, dut.o, len(expected), PATTERNS[pattern](),
                            lambda beat: (_position(beat), list(beat.data)))
        assert [position for position, _ in got] == expected
        beats = iter(got)
        for command in commands:
            for row in range(command["rows"]):
                start = command["address"] + row * command["stride"]
                words = []
                for _ in range(-(-(start % B + command["columns"]) // B)):
                    position, lanes = next(beats)
                    words += [lanes[lane] for lane in range(B) if position[2] >> lane & 1]
                assert words == memory.words[start:start + command["columns"]].tolist()

    model.simulate(drive, check, limit_cycles=20_000,
                   background=memory.benches([dut.port], seed=seed, latency=6))


@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("bits, far", [(32, False), (16, True), (8, False), (8, True)])
def test_clipped_rows(pattern, seed, bits, far):
    """Of each row only a part, or nothing, is read: beats are those of the whole row, requests those of the part. The
    same where elements of 16 or 8 bits are counted in place of words."""
    rng = np.random.default_rng(2)
    size = B * 32 // bits  # elements of a beat
    memory = MemoryModel(PARAMETERS, WORDS)
    memory.words[:] = rng.integers(0, 1 << 32, WORDS, dtype=np.uint64).astype(np.uint32)
    elements = memory.words.view({32: np.uint32, 16: np.uint16, 8: np.uint8}[bits])
    addresses = 1 << PARAMETERS.address_bits + exact_log2(32 // bits)
    dut = RowLoad(PARAMETERS, row_bits=6, column_bits=8, row_depth=4, clipped=True, packing=32 // bits,
                  far=far)
    rows, expected = [], []
    for _ in range(60):
        columns = int(rng.integers(1, 40))
        low = int(rng.integers(0, columns))
        row = {"columns": columns, "low": low, "high": int(rng.integers(low, columns)),
               "any": int(rng.integers(0, 4) > 0), "last": int(rng.integers(0, 3) == 0)}
        # What is not read may lie outside the memory, on either side.
        row["address"] = (int(rng.integers(-low, len(elements) - row["high"])) if row["any"] else -7) % addresses
        rows.append(row)
    number = 0
    for row in rows:
        offset = row["address"] % size
        for column in range(-offset, row["columns"], size):
            places = [column + lane for lane in range(size)]
            mask = [0 <= place < row["columns"] for place in places]
            real = [bool(row["any"]) and row["low"] <= place <= row["high"] for place in places]
            words = [int(elements[(row["address"] + place) % addresses]) if read else None
                     for place, read in zip(places, real, strict=True)]
            last = column + size >= row["columns"]
            expected.append((number, _told(column, size, far), mask, real, sum(real), last, last and row["last"],
                             words))
        number = 0 if row["last"] else number + 1

    async def drive(ctx):
        await send(ctx, dut.i, rows, PATTERNS[pattern]())

    def lanes(bits):
        return [bool(bits >> lane & 1) for lane in range(size)]

    async def check(ctx):
        got = await receive(ctx, dut.o, len(expected), PATTERNS[pattern](), lambda beat: (
            beat.row, beat.column, lanes(beat.mask), lanes(beat.real), beat.words, beat.row_last, beat.last,
            [element if real else None for element, real in zip(beat.data, lanes(beat.real), strict=True)]))
        assert got == expected

    simulate(dut, drive, check, limit_cycles=20_000,
             background=memory.benches([dut.port], seed=seed, latency=6))


@DIES
def test_load_rate(parameters):
    """Rows of one beat each: no gap between rows or commands once data flow."""
    memory = MemoryModel(parameters, WORDS)
    dut = StridedLoad(parameters, row_bits=16, column_bits=16)
    commands = [{"address": 0, "stride": 3 * B, "rows": 20, "columns": B}] * 2
    cycles = []

    async def drive(ctx):
        await send(ctx, dut.command, commands)

    async def check(ctx):
        ctx.set(dut.o.ready, 1)
        cycle = 0
        while len(cycles) < 40:
            *_, valid = await ctx.tick().sample(dut.o.valid)
            if valid:
                cycles.append(cycle)
            cycle += 1

    simulate(dut, drive, check, limit_cycles=500, background=memory.benches([dut.port], latency=5))
    assert cycles[-1] - cycles[0] == 39


@pytest.mark.parametrize("seed", [None, 6])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_store(pattern, seed):
    rng = np.random.default_rng(2)
    memory = MemoryModel(PARAMETERS, WORDS)
    memory.words[:] = rng.integers(0, 1 << 32, WORDS, dtype=np.uint64).astype(np.uint32)
    reference = memory.words.copy()
    model = _built(StridedStore, PARAMETERS, fetch_depth=4, request_depth=4)
    dut = model.component
    commands = [{"address": 13, "stride": 0, "rows": 1, "columns": 1203},
                {"address": 2 * B, "stride": 0, "rows": 1, "columns": 128 * B}, *_commands(rng, 12)]
    sources = []
    for command in commands:
        source = rng.integers(0, 1 << 32, (command["rows"], command["columns"]), dtype=np.uint64)
        sources.append(source)
        for row in range(command["rows"]):
            start = command["address"] + row * command["stride"]
            reference[start:start + command["columns"]] = source[row]
    total = sum(command["rows"] * command["columns"] for command in commands)
    moved = []

    async def drive(ctx):
        await send(ctx, dut.command, commands, PATTERNS[pattern]())

    async def client(ctx):
        for command, source in zip(commands, sources, strict=True):
            for expected in _beats(command):
                (got,) = await receive(ctx, dut.fetch, 1, PATTERNS[pattern](), _position)
                row, column, *rest = expected
                assert got == (row, _told(column), *rest)
                lanes = [int(source[row, column + lane]) if 0 <= column + lane < command["columns"]
                         else int(rng.integers(1 << 32)) for lane in range(B)]
                await send(ctx, dut.i, [lanes], PATTERNS[pattern]())

    async def finish(ctx):
        for _ in commands:
            done = False
            while not done:
                *_, done, words = await ctx.tick().sample(dut.done, dut.words)
                moved.append(words)
        assert (memory.words == reference).all()
        assert sum(moved) == total

    model.simulate(drive, client, finish, limit_cycles=30_000,
                   background=memory.benches([], [dut.port], seed=seed, response_delay=9))


@pytest.mark.parametrize("channel", [StridedLoad, StridedStore])
@pytest.mark.parametrize("beats", [0, 65])
def test_bad_request_length(channel, beats):
    with refused(ValueError, f"not {beats}"):
        channel(PARAMETERS, 16, 16, 16, max_beats=beats)
