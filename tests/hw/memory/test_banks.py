"""Banks: each word where it was written and nowhere else, read a cycle later, and kept while reads are not enabled."""

from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import simulate

from plinth_hw.memory.banks import Bank, BankArray, SharedBank

LINES, WIDTH, CYCLES = 5, 8, 600


def test_a_bank() -> None:
    dut, rng, held = Bank(LINES, WIDTH), np.random.default_rng(1), [0] * LINES

    async def bench(ctx: Any) -> None:
        read = 0
        for _ in range(CYCLES):
            writes, reads = rng.integers(2, size=2).tolist()
            line, other = rng.permutation(LINES)[:2].tolist()
            word = int(rng.integers(1 << WIDTH))
            for signal, value in ((dut.write_enable, writes), (dut.write_line, line), (dut.write_data, word),
                                  (dut.read_enable, reads), (dut.read_line, other)):
                ctx.set(signal, value)
            _, _, seen = await ctx.tick().sample(dut.read_data)
            assert seen == read
            read = held[other] if reads else read
            held[line] = word if writes else held[line]

    simulate(dut, bench, limit_cycles=CYCLES + 10)


@pytest.mark.parametrize("banks", [1, 4])
def test_an_array_of_banks(banks: int) -> None:
    """Each has its line; ``mask`` says which are written, ``enable`` whether any is, and whether all are read."""
    dut, rng = BankArray(banks, LINES, WIDTH), np.random.default_rng(2)
    held = [[0] * LINES for _ in range(banks)]

    async def bench(ctx: Any) -> None:
        read = [0] * banks
        for _ in range(CYCLES):
            writes, reads = rng.integers(2, size=2).tolist()
            mask = int(rng.integers(1 << banks))
            places = [rng.permutation(LINES)[:2].tolist() for _ in range(banks)]
            words = rng.integers(1 << WIDTH, size=banks).tolist()
            ctx.set(dut.write.enable, writes)
            ctx.set(dut.write.mask, mask)
            ctx.set(dut.read.enable, reads)
            for number, ((line, other), word) in enumerate(zip(places, words, strict=True)):
                ctx.set(dut.write.line[number], line)
                ctx.set(dut.write.data[number], word)
                ctx.set(dut.read.line[number], other)
            _, _, *seen = await ctx.tick().sample(*(dut.read.data[number] for number in range(banks)))
            assert seen == read
            for number, (line, other) in enumerate(places):
                read[number] = held[number][other] if reads else read[number]
                if writes and mask >> number & 1:
                    held[number][line] = words[number]

    simulate(dut, bench, limit_cycles=CYCLES + 10)


def test_a_shared_bank() -> None:
    """One port writes or reads, the other writes, another word."""
    dut, rng, held = SharedBank(LINES, WIDTH), np.random.default_rng(3), [0] * LINES

    async def bench(ctx: Any) -> None:
        read = 0
        for _ in range(CYCLES):
            kind, other_writes = int(rng.integers(3)), int(rng.integers(2))
            line, other = rng.permutation(LINES)[:2].tolist()
            word, other_word = rng.integers(1 << WIDTH, size=2).tolist()
            for signal, value in ((dut.line, line), (dut.write_enable, kind == 1), (dut.write_data, word),
                                  (dut.read_enable, kind == 2), (dut.other_enable, other_writes),
                                  (dut.other_line, other), (dut.other_data, other_word)):
                ctx.set(signal, value)
            _, _, seen = await ctx.tick().sample(dut.read_data)
            assert seen == read
            read = held[line] if kind == 2 else read
            held[line] = word if kind == 1 else held[line]
            held[other] = other_word if other_writes else held[other]

    simulate(dut, bench, limit_cycles=CYCLES + 10)
