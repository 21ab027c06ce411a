"""Transfers in MPT's codes of regions: golden equals RTL word by word; what is behind the ReLU is the same; forged
strings, and bodies that are none."""

from math import prod
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from tests.hw.comm.test_codes import (
    BASES,
    DECODE,
    ENCODE,
    MADE,
    MASKS,
    PARAMETERS,
    PITCH,
    PREDICT,
    ROOM,
    SOURCE,
    STRINGS,
    WORDS,
    check,
    engine,
    fields,
    masks,
    memory_of,
    namespace,
)
from tests.sim.golden.test_codes import SPECIAL
from tests.support.amaranth_sim import randomly, receive, send, simulate
from tests.support.engine_bench import body_words

from plinth_hw.comm.codes.bits import WORD, BitPacker, BitReader
from plinth_hw.comm.codes.block import run_flit_layout
from plinth_hw.comm.codes.regions import NUMBER, RegionDecoder, RegionEncoder
from plinth_hw.isa.codes import REGION_BITS, SCALES, region_words
from plinth_hw.isa.operations import ErrorCode
from plinth_hw.isa.transfer_bodies import CodeBody
from plinth_hw.isa.winograd import MATRICES
from plinth_sim.golden import prediction, regions, transfer
from plinth_sim.golden.vector import BadOperandError

SCALES_TRIED = (SCALES[0], -3, SCALES[-1])


def body(operation: Any, rows: int, columns: int, bits: int, scale: int, follows: bool = False,
         **others: Any) -> dict[str, Any]:
    return fields(operation, rows, columns, (scale, 0 if follows else None, None), regions=bits - 3, **others)


def words_about(scale: int, bits: int, count: int, rng: Any) -> Any:
    """Words of all regions and beyond, on edges of steps and next to them, below a step, and special ones."""
    n = 1 << bits - 3
    edges = [n * (2**region - 1) + step * 2**region for region in range(4) for step in range(n)] + [15 * n, 16 * n]
    sizes = np.where(rng.random(count) < 0.5, rng.choice(edges, count), 2.0**rng.uniform(-4, 9, count))
    words = np.ldexp(sizes * rng.choice([1, -1], count), scale).astype(np.float32).view(np.uint32)
    words = (words.astype(np.int64) + rng.integers(-1, 2, count)).clip(0, 0xFFFFFFFF).astype(np.uint32)
    return np.where(rng.random(count) < 0.1, rng.choice(SPECIAL, count), words)


@pytest.mark.parametrize("flit_words", [2, *(
    pytest.param(flit, marks=pytest.mark.long) for flit in (1, 4, 16))])
def test_parts(flit_words):
    """A first part and words as they are, there and back, of lengths about flits and words."""
    rng = np.random.default_rng(flit_words)
    for number, columns in enumerate((1, 2, 15, 16, 17, 31, 33, 64, 100, 263)):
        for bits in REGION_BITS:
            scale = SCALES_TRIED[number % 3]
            memory = memory_of(words_about(scale, bits, columns, rng), 1 + number % 3, number)
            check(flit_words, memory, [(operation, body(operation, 1 + number % 3, columns, bits, scale, follows))
                                       for follows in (False, True) for operation in (ENCODE, DECODE)], number)


class Both(wiring.Component):
    """What is coded is decoded."""

    def __init__(self, flit_words: int):
        self.coders = [coder(PARAMETERS[flit_words]) for coder in (RegionEncoder, RegionDecoder)]
        flit = stream.Signature(run_flit_layout(PARAMETERS[flit_words]))
        super().__init__({"scale": In(8), "number": In(NUMBER), "run": In(stream.Signature(WORD)),
                          "i": In(flit), "o": Out(flit)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.encoder, m.submodules.decoder = encoder, decoder = self.coders
        m.submodules.packer = packer = BitPacker()
        m.submodules.reader = reader = BitReader()
        wiring.connect(m, wiring.flipped(self.i), encoder.i)
        wiring.connect(m, encoder.o, packer.i)
        wiring.connect(m, decoder.o, wiring.flipped(self.o))
        wiring.connect(m, wiring.flipped(self.run), decoder.run)
        for coder in self.coders:
            m.d.comb += [coder.scale.eq(self.scale), coder.number.eq(self.number)]
        # Behind a run's string come zeros.
        behind, packed = Signal(), packer.o.payload
        m.d.comb += [
            reader.i.payload.eq(Mux(behind, 0, packed.word)),
            reader.i.valid.eq(behind | (packer.o.valid & packed.there)),
            packer.o.ready.eq(~behind & (reader.i.ready | ~packed.there)), reader.take.eq(decoder.bits.take),
            decoder.bits.peek.eq(reader.peek), decoder.bits.there.eq(reader.there),
            reader.clear.eq(self.o.valid & self.o.ready & self.o.payload.ends),
        ]
        with m.If(packer.o.valid & packer.o.ready & packed.last):
            m.d.sync += behind.eq(1)
        with m.If(reader.clear):
            m.d.sync += behind.eq(0)
        return m


@pytest.mark.parametrize("flit_words", PARAMETERS)
def test_flits_of_any_width(flit_words):
    """Fills of runs of several lengths, with idle cycles and stalls: of more words than codes come a cycle as well."""
    rng, dut, fills = np.random.default_rng(flit_words), Both(flit_words), []
    cases = [(columns, bits, SCALES_TRIED[(columns + bits) % 3]) for columns in (1, 3, 4, 5, 16, 17, 39)
             for bits in REGION_BITS]
    runs = [words_about(scale, bits, columns, rng) for columns, bits, scale in cases]

    async def sink(ctx):
        for words, (columns, bits, scale) in zip(runs, cases, strict=True):
            ctx.set(dut.scale, scale & 0xFF)
            ctx.set(dut.number, bits - 3)
            await ctx.tick()
            flits = [words[at:at + flit_words].tolist() for at in range(0, columns, flit_words)]
            flits_now.append([{"data": flit + [0] * (flit_words - len(flit)), "words": len(flit),
                               "ends": int(number == len(flits) - 1)} for number, flit in enumerate(flits)])
            runs_now.append([columns])
            run_fills = []
            for flit in await receive(ctx, dut.o, len(flits), randomly(columns, 0.7)):
                run_fills += [int(flit.data[lane]) for lane in range(flit.words)]
            fills.append(run_fills)

    flits_now, runs_now = [], []

    def source(port, queue):
        async def bench(ctx):
            while True:
                await (send(ctx, port, queue.pop(0), randomly(len(fills), 0.7)) if queue else ctx.tick())
        return bench

    simulate(dut, sink, background=[source(dut.i, flits_now), source(dut.run, runs_now)], limit_cycles=20_000)
    for run_fills, words, (_, bits, scale) in zip(fills, runs, cases, strict=True):
        assert run_fills == regions.filled(regions.quantised(words, bits, scale), bits, scale).tolist()


def test_what_lies_there():
    """Lengths and fills as one counts them; what a mask names comes exact, the rest stays."""
    words = np.array([0.0, -0.0, 1.5, -7.9, 8.0, 9.9, -23.9, 55.9, 103.9, 112, -104, np.nan], dtype=np.float32)
    memory = memory_of(words.view(np.uint32), 1, 0)
    memory[MASKS] = 0b1010
    tasks = [(operation.value, body_words(CodeBody, body(operation, 1, 12, 6, 0))) for operation in (ENCODE, DECODE)]
    engine(2).run(tasks, BASES, memory)
    codes = [0, 32, 1, 32 + 7, 8, 8, 32 + 15, 23, 29, 31, 62, 63]
    string = sum(code << 6 * place for place, code in enumerate(codes))
    assert memory[STRINGS:STRINGS + 4].tolist() == [3, *(string >> 32 * word & 0xFFFFFFFF for word in range(3))]
    fills = np.array([0.0, -0.0, 1, -7, 8, 8, -22, 52, 96, 112, -104, np.nan], dtype=np.float32).view(np.uint32)
    np.testing.assert_array_equal(memory[MADE:MADE + 12], fills)
    tasks = [(operation.value, body_words(CodeBody, body(operation, 1, 12, 6, 0, True)))
             for operation in (ENCODE, DECODE)]
    engine(2).run(tasks, BASES, memory)
    assert memory[STRINGS:STRINGS + 3].tolist() == [2, *words.view(np.uint32)[[1, 3]]]
    fills[[1, 3]] = words.view(np.uint32)[[1, 3]]
    np.testing.assert_array_equal(memory[MADE:MADE + 12], fills)


@pytest.mark.parametrize(("flit_words", "ways"), [
    (2, (4, 4)), (2, (0, 4)), (2, (8, 8)), pytest.param(16, (4, 4), marks=pytest.mark.long)])
def test_predictions(flit_words, ways):
    """Masks of tiles and lines, of fills and words of any kind."""
    rng = np.random.default_rng(7)
    elements = prod(len(MATRICES[way][0]) for way in ways)
    densities = []
    for number in range(12):
        channels = flit_words * int(rng.integers(1, 1 + 32 // flit_words))
        tiles, bits = int(rng.integers(1, 1 + PITCH // channels)), REGION_BITS[number % 3]
        scale = SCALES_TRIED[number // 3 % 3]
        memory = rng.integers(0, 1 << 32, WORDS, dtype=np.uint32)
        for element in range(elements):
            run = memory[SOURCE + element * PITCH:][:PITCH]
            words = np.ldexp(rng.standard_normal(PITCH) * 5 - 1, scale).astype(np.float32).view(np.uint32)
            if number % 4 == 3:
                words = words_about(scale, bits, PITCH, rng)
            # Own words among fills.
            run[:] = regions.filled(regions.quantised(words, bits, scale), bits, scale)
            run[:PITCH // 4] = words[:PITCH // 4]
        bias = np.ldexp(rng.standard_normal(channels) * 50 - 50, scale).astype(np.float32).view(np.uint32)
        memory[STRINGS + 9000:][:channels] = bias
        place = {"offset": STRINGS + 9000 - BASES[3], "base": 3}
        target = {"offset": 12000 + number - BASES[3], "base": 3}
        code_body = masks(tiles, channels, ways, scale, codes=place, destination=target, regions=bits - 3)
        check(flit_words, memory, [(PREDICT, code_body)], number)
        rows = transfer.rows(PREDICT, memory, namespace(code_body), BASES, PARAMETERS[flit_words].transforms,
                             flit_words)
        densities.append(np.unpackbits(rows.words.view(np.uint8)).mean())
        np.testing.assert_array_equal(rows.words, rows.words[:1].repeat(elements, axis=0))
    assert min(densities) < 0.9 and np.mean(densities) > 0.1


@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.parametrize(("forge", "error"), [
    (lambda length: ROOM, ErrorCode.BAD_CODE), (lambda length: length + 1, ErrorCode.BAD_CODE),
    (lambda length: length - 1, ErrorCode.BAD_CODE), (lambda length: 0, ErrorCode.BAD_CODE),
    (lambda length: 0xFFFFFFFF, ErrorCode.BAD_CODE), (lambda length: length, ErrorCode.NONE)])
def test_forged_strings(forge, error, follows):
    """A length beyond the room, or not what the codes, or the words that are named, take."""
    words = np.random.default_rng(2).standard_normal(100).astype(np.float32).view(np.uint32)
    memory = memory_of(words, 1, 1)
    code_bodies = [body(operation, 1, 100, 5, -3, follows) for operation in (ENCODE, DECODE)]
    engine(2).run([(ENCODE.value, body_words(CodeBody, code_bodies[0]))], BASES, memory)
    memory[STRINGS] = forge(int(memory[STRINGS]))
    if error is not ErrorCode.NONE:
        with pytest.raises(transfer.CodeError):
            transfer.move(DECODE, memory, memory.copy(), namespace(code_bodies[1]), BASES)
    kept = memory.copy()
    (done,) = engine(2).run([(DECODE.value, body_words(CodeBody, code_bodies[1]))], BASES, memory).done
    assert done.error == error
    kept[MADE:MADE + 100] = memory[MADE:MADE + 100]
    np.testing.assert_array_equal(memory, kept)


def test_string_without_room():
    """Nothing is written beyond the place."""
    memory = memory_of(np.arange(100, dtype=np.uint32), 1, 1)
    code_body = body(ENCODE, 1, 100, 6, 0, destination_row_stride=region_words(100, 6))
    kept = memory.copy()
    (done,) = engine(2).run([(ENCODE.value, body_words(CodeBody, code_body))], BASES, memory).done
    assert done.error == ErrorCode.BAD_CODE
    kept[STRINGS:STRINGS + 19] = memory[STRINGS:STRINGS + 19]
    np.testing.assert_array_equal(memory, kept)


@pytest.mark.parametrize(("operation", "change"), [
    *((operation, change) for operation in (ENCODE, PREDICT) for change in (
        {"first": SCALES[0] - 1}, {"first": SCALES[-1] + 1}, {"planes": 2}, {"gather": 1})),
    (ENCODE, {"skips": 1, "sent": 1}), (ENCODE, {"follows": 1, "exact": 0})])
def test_bodies_that_are_none(operation, change):
    """BAD_OPERAND, of both."""
    code_body = body(ENCODE, 1, 40, 4, 0) if operation is ENCODE else masks(2, 4, (4, 4), 0, regions=1)
    code_body |= change
    memory = memory_of(np.zeros(40, dtype=np.uint32), 1, 1)
    with pytest.raises(BadOperandError):
        transfer.move(operation, memory, memory.copy(), namespace(code_body), BASES,
                      transforms=PARAMETERS[2].transforms, lanes=2)
    (done,) = engine(2).run([(operation.value, body_words(CodeBody, code_body))], BASES, memory).done
    assert done.error == ErrorCode.BAD_OPERAND


@pytest.mark.parametrize("ways", [(4, 4), (0, 4)])
def test_neurons_behind_the_relu_are_the_same(ways):
    """Of all that dies do: codes, fills, masks, words; NaN, infinities and a bias above 0 among them."""
    way, rng = (MATRICES[ways[0]], MATRICES[ways[1]]), np.random.default_rng(9)
    sizes, channels, tiles = (len(way[0][0]), len(way[1][0])), 4, 40
    rows, run = prod(sizes), channels * tiles
    words = (rng.standard_normal((rows, run)) * 3 - 1).astype(np.float32)
    at = rng.random(words.shape) < 0.01
    words[at] = rng.choice(SPECIAL, int(at.sum())).view(np.float32)
    bias = np.array([0.5, -1, 2, -4], dtype=np.float32)
    memory = np.zeros(WORDS, dtype=np.uint32)
    source, strings, fills, named = 300, 4000, 12000, 16000
    memory[100:104] = bias.view(np.uint32)
    memory[source:source + rows * run] = words.view(np.uint32).ravel()

    def place(at: int) -> dict[str, int]:
        return {"offset": at - BASES[3], "base": 3}

    common = {"mask": place(named), "mask_row_stride": 9, "codes_row_stride": 300}
    encode = {"source": place(source), "source_row_stride": run, "destination": place(strings),
              "destination_row_stride": 300, **common}
    decode = {"source": place(fills), "source_row_stride": run, "destination": place(fills),
              "destination_row_stride": run, "codes": place(strings), **common}
    predict = masks(tiles, channels, ways, -2, codes=place(100), source=place(fills), source_plane_stride=run,
                    destination=place(named), regions=3)
    outcome = engine(2).run([(operation.value, body_words(CodeBody, code_body)) for operation, code_body in (
        (ENCODE, body(ENCODE, rows, run, 6, -2, **encode)), (DECODE, body(DECODE, rows, run, 6, -2, **decode)),
        (PREDICT, predict), (ENCODE, body(ENCODE, rows, run, 6, -2, True, **encode)),
        (DECODE, body(DECODE, rows, run, 6, -2, True, **decode)))], BASES, memory)
    assert [done.error for done in outcome.done] == [ErrorCode.NONE] * 5
    decoded = memory[fills:fills + rows * run].view(np.float32).reshape(rows, run)
    assert 0.1 < np.isin(decoded.view(np.uint32), words.view(np.uint32)).mean() < 0.9

    def relu(elements: Any) -> Any:
        shaped = elements.reshape(*sizes, tiles, channels)
        with np.errstate(all="ignore"):
            neurons = prediction.neurons(way, shaped) + bias
        return np.where(neurons <= 0, np.float32(0), neurons)

    np.testing.assert_array_equal(relu(decoded), relu(words))
