"""Runs of strings that follow each other: what they become, and how many bits of each string are taken, by golden."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.hw.comm.test_codes import PARAMETERS
from tests.support.amaranth_sim import simulate

from plinth_hw.comm.codes.run_code import PART, RunDecoder
from plinth_sim.golden import codes, regions

LEVEL, LOWER, COLUMNS = 3, -4, 43


@dataclass(frozen=True)
class Run:
    """A string of so many bits, what is masked of its run, the fills there are of it, and what it becomes."""

    string: Any
    bits: int
    mask: Any
    fills: Any
    words: Any


def run_words(seed: int) -> Any:
    """Words far below and above the level, whole blocks of the former, special ones, zeros."""
    rng = np.random.default_rng(seed)
    exponents = rng.integers(-8, 8, COLUMNS) + np.repeat(rng.choice([-20, 0, 0, 30 if seed % 5 == 4 else 4], 3), 16)[
        :COLUMNS] + LEVEL + 127
    words = rng.integers(0, 2, COLUMNS) << 31 | exponents << 23 | rng.integers(0, 1 << 23, COLUMNS)
    words[rng.random(COLUMNS) < 0.1] = 0
    return words.astype(np.uint32)


def masks(seed: int) -> Any:
    """Of no words, few, half, and all; the last flit's too."""
    return np.random.default_rng(seed).random(COLUMNS) < (0, 0.1, 0.5, 1, 0)[seed % 5]


def coded_runs(kind: str) -> Iterator[Run]:
    """Runs of a kind."""
    for seed in range(15):
        words, mask = run_words(seed), masks(seed)
        fills = codes.filled(words, LEVEL)
        if kind == "first":
            coded = codes.first(words, LEVEL).coded()
            yield Run(coded.words, coded.bits, mask, None, fills)
        elif kind in ("lower", "exact"):
            lower = LOWER if kind == "lower" else None
            coded = codes.following(words, fills, mask, LEVEL, lower).coded()
            better = words if lower is None else codes.refined(words, fills, LEVEL, LOWER)
            yield Run(coded.words, coded.bits, mask, fills, np.where(mask, better, fills))
        elif kind == "regions":
            numbers = regions.quantised(words, 5, LEVEL - 4)
            coded = regions.Regions(5, LEVEL - 4, False).string(words)
            yield Run(coded, 5 * COLUMNS, mask, None, regions.filled(numbers, 5, LEVEL - 4))
        elif kind == "whole":
            yield Run(words[mask], 32 * int(mask.sum()), mask, fills, np.where(mask, words, fills))
        else:
            string = codes.skipped(words, mask, kind == "sent")
            yield Run(string, 32 * len(string), mask, None, np.where(mask, words, 0).astype(np.uint32))


#: The part of a code that each kind is.
PARTS = {
    "first": {"first": LEVEL}, "lower": {"first": LEVEL, "known": LEVEL, "lower": LOWER, "follows": 1},
    "exact": {"first": LEVEL, "known": LEVEL, "exact": 1, "follows": 1}, "regions": {"first": LEVEL - 4, "regions": 2},
    "whole": {"first": LEVEL - 4, "regions": 2, "follows": 1, "exact": 1}, "sent": {"skips": 1, "sent": 1},
    "given": {"skips": 1, "given": 1}}


@pytest.mark.parametrize("flit_words", PARAMETERS)
@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize("availability", [1, 0.6])
def test_runs_that_follow_each_other(kind: str, flit_words: int, availability: float) -> None:
    """The next run's fills and masks are offered while the former one's string goes on with zeros; a string comes a
    while after the former run's last flit, whose bits have all been taken by then."""
    dut, rng = RunDecoder(PARAMETERS[flit_words]), np.random.default_rng(3)
    runs = list(coded_runs(kind))
    follows = PARTS[kind].get("follows", 0)
    flits = [{"data": [*map(int, run.fills[at:at + flit_words]), *[0] * (at + flit_words - COLUMNS)],
              "words": min(flit_words, COLUMNS - at), "ends": int(at + flit_words >= COLUMNS),
              "mask": sum(int(bit) << lane for lane, bit in enumerate(run.mask[at:at + flit_words]))}
             for run in runs for at in range(0, COLUMNS, flit_words)] if follows else []
    mask_words = [int(word) for run in runs for word in codes.packed(run.mask)] if kind == "given" else []

    def now() -> int:
        return int(rng.random() < availability)

    async def decode(ctx: Any) -> None:
        for name, value in PARTS[kind].items():
            ctx.set(dut.part[name], value)
        assert set(PARTS[kind]) <= {name for name, _ in PART}
        await ctx.tick()
        ctx.set(dut.run.payload, COLUMNS)
        ctx.set(dut.map.ready, 1)
        for number, run in enumerate(runs):
            string, at, came, taken, words, wanted = run.string.tolist(), 0, 0, 0, [], not follows
            string += [0] * (40 + flit_words)
            known = -int(rng.integers(3, 20))
            while True:
                # Words come a few at a time.
                known, came = known + 1, came + (int(rng.integers(flit_words + 1)) if availability < 1 else flit_words)
                count = min(flit_words, came, len(string) - at) if known >= 0 else 0
                came = min(came, flit_words) if known >= 0 else 0
                ctx.set(dut.words.count, count)
                for lane in range(flit_words):
                    ctx.set(dut.words.peek[lane], int(string[min(at + lane, len(string) - 1)]))
                ctx.set(dut.run.valid, wanted)
                ctx.set(dut.i.valid, bool(flits) and (now() or ctx.get(dut.i.valid)))
                if flits:
                    ctx.set(dut.i.payload, flits[0])
                ctx.set(dut.mask.valid, bool(mask_words) and (now() or ctx.get(dut.mask.valid)))
                if mask_words:
                    ctx.set(dut.mask.payload, mask_words[0])
                ctx.set(dut.o.ready, known >= 0 and now())
                gives = ctx.get(dut.o.valid) and ctx.get(dut.o.ready)
                ends = gives and ctx.get(dut.o.payload.ends)
                ctx.set(dut.clear, ends)
                if gives:
                    flit = dut.o.payload
                    words += [ctx.get(flit.data[lane]) for lane in range(ctx.get(flit.words))]
                if ends:
                    assert taken == run.bits, number
                taken += ctx.get(dut.taken)
                take = ctx.get(dut.words.take)
                assert take <= count
                if flits and ctx.get(dut.i.valid) and ctx.get(dut.i.ready):
                    del flits[0]
                if mask_words and ctx.get(dut.mask.valid) and ctx.get(dut.mask.ready):
                    del mask_words[0]
                if ctx.get(dut.run.valid) and ctx.get(dut.run.ready):
                    wanted = False
                await ctx.tick()
                at, came = at + take, came - take
                ctx.set(dut.clear, 0)
                if ends:
                    break
            assert words == run.words.tolist(), number
            assert not ctx.get(dut.beyond)
            # Nothing more is taken of it.
            ctx.set(dut.words.count, 0)
            assert not ctx.get(dut.taken)

    simulate(dut, decode, limit_cycles=40_000)
    assert not flits and not mask_words
