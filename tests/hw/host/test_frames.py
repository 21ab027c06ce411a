"""Frames: what goes over the line, from words and back, in software and in the bridge's two halves."""

import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from tests.support.amaranth_sim import randomly, receive, send, simulate
from tests.support.refusal import refused

from plinth_hw.host.answers import AnswerStore
from plinth_hw.host.requests import RequestReader
from plinth_hw.isa.frames import BridgeParameters, decode, encode, line_bytes

#: Payloads that code bytes are about: runs around 254 bytes, zeros in all places.
CORNERS = [bytes(8), bytes(range(1, 253)), b"\1" * 252, b"\1" * 256, b"\0" + b"\1" * 255, b"\1" * 255 + b"\0",
           b"\2" * 508, bytes(508), b"\3" * 248 + bytes(8), b"\xff" * 64]


def cobs(line: bytes) -> bytes:
    """Words and check of a line, by the definition of COBS; nothing of ours takes part."""
    assert line[-1] == 0 and 0 not in line[:-1]
    decoded, place = b"", 0
    while line[place]:
        code = line[place]
        decoded += line[place + 1:place + code] + (b"\0" if code < 255 else b"")
        place += code
    return decoded[:-1] if code < 255 else decoded


@pytest.mark.parametrize("words", CORNERS)
def test_corners(words: bytes) -> None:
    line = encode(words)
    assert cobs(line) == words + zlib.crc32(words).to_bytes(4, "little")
    assert decode(line[:-1]) == words
    assert len(line) <= line_bytes(len(words) // 4 + 1)


@settings(max_examples=100, deadline=None)
@given(some.binary(min_size=4, max_size=600).map(lambda data: data[:len(data) // 4 * 4]))
def test_any_words(words: bytes) -> None:
    line = encode(words)
    assert cobs(line) == words + zlib.crc32(words).to_bytes(4, "little")
    assert decode(line[:-1]) == words
    assert len(line) <= line_bytes(len(words) // 4 + 1)


@settings(max_examples=200, deadline=None)
@given(some.binary(max_size=60))
def test_garbage_is_no_frame(line: bytes) -> None:
    assert decode(line) is None


def test_one_wrong_bit_or_byte_shows() -> None:
    line = encode(np.random.default_rng(2).bytes(40))
    for place in range(len(line) - 1):
        for bit in range(8):
            wrong = bytearray(line[:-1])
            wrong[place] ^= 1 << bit
            assert decode(bytes(wrong)) is None
        assert decode(line[:place] + line[place + 1:-1]) is None
        assert decode(line[:place] + line[place:place + 1] + line[place:-1]) is None


def test_sizes() -> None:
    """All that one may ask for fits, and not a word more."""
    for slot_bytes in (64, 128, 256, 512, 1024, 4096):
        parameters = BridgeParameters(cycles_per_bit=8, slot_bytes=slot_bytes)
        assert line_bytes(parameters.words + 2) <= slot_bytes
        assert parameters.words + 3 <= slot_bytes // 4
        assert line_bytes(parameters.words + 3) > slot_bytes or parameters.words + 4 > slot_bytes // 4
    assert BridgeParameters(cycles_per_bit=8).words == 125
    for changes, message in (({"slots": 3}, "slots must be a power of two from 2 to 64, not 3"),
                             ({"slot_bytes": 8192}, "slot_bytes must be a power of two from 2 to 4096, not 8192"),
                             ({"slot_bytes": 8}, "slot_bytes must have room for two words of data, not 8"),
                             ({"cycles_per_bit": 2}, "Cycles of a bit must be at least 4, not 2")):
        with pytest.raises(ValueError, match=message):
            BridgeParameters(**({"cycles_per_bit": 8} | changes))
    with pytest.raises(TypeError, match=r"slots must be an integer, not 4\.0"):
        BridgeParameters(cycles_per_bit=8, slots=4.0)  # type: ignore[arg-type]


def _words(data: bytes) -> list[int]:
    return np.frombuffer(data, "<u4").tolist()


def test_the_bridge_reads_frames_among_garbage() -> None:
    """Whatever is on the line, of each frame behind a delimiter all words come, of anything else none."""
    rng, dut = np.random.default_rng(4), RequestReader(64)
    line: list[tuple[int, bool]] = []
    wanted: list[tuple[int, bool]] = []

    def bad(data: bytes, broken: int = -1) -> None:
        line.extend((byte, place == broken) for place, byte in enumerate(data))

    for words in (bytes(8), b"\1" * 252, *(rng.bytes(4 * int(size)) for size in rng.integers(2, 10, 6))):
        good = encode(words)
        damage = bytearray(good)
        damage[rng.integers(len(good) - 1)] ^= 1 << int(rng.integers(8))
        place = int(rng.integers(len(good) - 1))
        bad(bytes(damage) + b"\0")
        bad(good[:place] + good[place + 1:])
        bad(good, broken=place)
        bad(rng.bytes(int(rng.integers(20))) + b"\0")
        bad(good)
        checked = [*_words(words), zlib.crc32(words)]
        wanted += [(word, place == len(checked) - 1) for place, word in enumerate(checked)]
    bad(encode(bytes(4 * 66)))  # more than the ring has
    bad(encode(b"last"))
    wanted += [(_words(b"last")[0], False), (zlib.crc32(b"last"), True)]

    async def source(ctx: Any) -> None:
        for byte, broken in line:
            ctx.set(dut.byte, byte)
            ctx.set(dut.broken if broken else dut.valid, 1)
            await ctx.tick()
            ctx.set(dut.broken, 0)
            ctx.set(dut.valid, 0)
            await ctx.tick().repeat(10)

    async def sink(ctx: Any) -> None:
        received = await receive(ctx, dut.o, len(wanted), randomly(1, 0.3), lambda word: (word.word, bool(word.last)))
        assert received == wanted

    simulate(dut, source, sink)


def test_a_full_ring_loses_a_frame_as_a_whole() -> None:
    dut = RequestReader(16)
    frames = [bytes([number]) * 24 for number in range(1, 5)]  # seven words each, two have room

    async def source(ctx: Any) -> None:
        for byte in b"".join(encode(frame) for frame in frames[:3]):
            ctx.set(dut.byte, byte)
            ctx.set(dut.valid, 1)
            await ctx.tick()
            ctx.set(dut.valid, 0)
            await ctx.tick().repeat(10)

    async def sink(ctx: Any) -> None:
        await ctx.tick().repeat(1200)
        received = await receive(ctx, dut.o, 14, None, lambda word: word.word)
        assert received == [*_words(frames[0]), zlib.crc32(frames[0]), *_words(frames[1]), zlib.crc32(frames[1])]
        await ctx.tick().repeat(50)
        assert not ctx.get(dut.o.valid)

    simulate(dut, source, sink)


def test_the_bridge_writes_frames() -> None:
    """Byte for byte what the software's encoder gives; sent as often as asked for."""
    dut = AnswerStore(4, 1024)
    answers = [bytes(8), bytes(range(1, 253)), b"\1" * 255 + b"\0", b"\3" * 24 + bytes(8), b"\xff" * 64]

    async def bench(ctx: Any) -> None:
        ctx.set(dut.o.ready, 0)
        for number, words in enumerate(answers):
            ctx.set(dut.slot, number % 4)
            payloads = [{"word": word, "last": 0} for word in _words(words)]
            payloads[-1]["last"] = 1
            await send(ctx, dut.i, payloads, randomly(number, 0.5))
            await ctx.tick().until(dut.done)
            for _ in range(1 + number % 2):
                await send(ctx, dut.send, [number % 4])
                line = encode(words)
                assert bytes(await receive(ctx, dut.o, len(line), randomly(number, 0.7))) == line
        for place in range(3):  # the earlier ones are still there
            await send(ctx, dut.send, [(len(answers) - 1 - place) % 4])
            line = encode(answers[-1 - place])
            assert bytes(await receive(ctx, dut.o, len(line))) == line

    simulate(dut, bench)


def test_sizes_of_blocks() -> None:
    with refused(ValueError, match="power"):
        RequestReader(100)
    with refused(ValueError, match="power"):
        AnswerStore(4, 500)
