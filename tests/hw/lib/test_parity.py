"""Parities of sets of bits: those of the rows, with fewer XORs than they take one by one."""

from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from tests.support.amaranth_sim import simulate

from plinth_hw.lib.parity import parities, shared


class Unit(wiring.Component):
    """Parities of a word, a cycle later."""

    def __init__(self, bits: int, rows: list[frozenset[int]]) -> None:
        self.rows = rows
        super().__init__({"i": In(bits), "o": Out(len(rows))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.d.sync += self.o.eq(Cat(parities(m, "term", self.i, self.rows)))
        return m


def random_rows(rng: np.random.Generator, rows: int, bits: int) -> list[frozenset[int]]:
    """Sets of bits, none empty."""
    found = [frozenset(np.flatnonzero(rng.random(bits) < 0.5).tolist()) for _ in range(rows)]
    return [row or frozenset([0]) for row in found]


@pytest.mark.parametrize(("rows", "bits"), [(1, 1), (1, 9), (5, 6), (12, 40)])
def test_parities_are_those_of_the_rows(rows: int, bits: int) -> None:
    rng = np.random.default_rng(rows)
    dut = Unit(bits, random_rows(rng, rows, bits))

    async def bench(ctx: Any) -> None:
        for _ in range(60):
            word = rng.integers(0, 2, bits)
            ctx.set(dut.i, int("".join(map(str, word[::-1])), 2))
            await ctx.tick()
            wanted = [int(sum(word[bit] for bit in row) % 2) for row in dut.rows]
            assert [ctx.get(dut.o) >> number & 1 for number in range(rows)] == wanted

    simulate(dut, bench)


def test_pairs_that_rows_have_in_common_are_added_once() -> None:
    pairs, left = shared((frozenset({0, 1, 2}), frozenset({0, 1, 3}), frozenset({3})), 4)
    assert pairs == [(0, 1)] and left == [[2, 4], [3, 4], [3]]
    rows = tuple(random_rows(np.random.default_rng(3), 24, 139))
    pairs, left = shared(rows, 139)
    alone, together = sum(len(row) - 1 for row in rows), len(pairs) + sum(len(row) - 1 for row in left)
    assert together < 0.45 * alone
