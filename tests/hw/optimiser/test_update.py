"""Update pipeline against the golden model, bit for bit, over rules, halves and rounding."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.support.amaranth_sim import simulate
from tests.support.updates import factor, halves, squares

from plinth_hw.isa.formats import Factor
from plinth_hw.isa.layout import unpack
from plinth_hw.isa.operations import OptimiserOperation
from plinth_hw.optimiser.update import LATENCY, STATE_LATENCY, WEIGHT_CYCLES, UpdatePipeline
from plinth_sim.golden import optimiser
from plinth_sim.golden.optimiser import StoredNumbers

WORDS = 200


def number(columns: dict[str, np.ndarray], name: str, wide: bool) -> StoredNumbers:
    return StoredNumbers(columns[f"{name}_high"].copy(), columns[f"{name}_low"].copy() if wide else None)


@pytest.mark.parametrize("operation", OptimiserOperation)
def test_words_are_those_of_the_golden_model(operation: OptimiserOperation) -> None:
    """Words come with gaps; from task to task the generator goes on."""
    rng = np.random.default_rng(operation.value)
    dut = UpdatePipeline()

    async def bench(ctx: Any) -> None:
        generator = int(rng.integers(1, 1 << 32))
        ctx.set(dut.seeded, 1)
        ctx.set(dut.seed, generator)
        await ctx.tick()
        ctx.set(dut.seeded, 0)
        for wide_weights, wide_state, stochastic in product((0, 1), repeat=3):
            flags = {"wide_weights": wide_weights, "wide_state": wide_state, "stochastic": stochastic}
            rule = {"rate": factor(rng), "decay": factor(rng),
                    "epsilon": max(1, int(rng.integers(1 << 32)) >> int(rng.integers(32)))}
            columns = {name: halves(rng, WORDS) for name in ("gradient", "state_high", "state_low", "weight_high",
                                                             "weight_low")}
            if operation in optimiser.SQUARES:
                columns["state_high"] = squares(rng, columns["state_high"])
            ctx.set(dut.rule, {**flags, "sgd": operation is OptimiserOperation.SGD,
                               "momentum": operation is OptimiserOperation.MOMENTUM,
                               "printed": operation is OptimiserOperation.ADAGRAD_PRINTED, "epsilon": rule["epsilon"],
                               **{name: vars(unpack(Factor, [rule[name]])) for name in ("rate", "decay")}})
            outputs, ends = await run(ctx, dut, columns, rng)
            weights, state = number(columns, "weight", bool(wide_weights)), number(columns, "state", bool(wide_state))
            sgd = operation is OptimiserOperation.SGD
            taken = {"weights": weights, "state": None if sgd else state}
            counts = optimiser.update(operation, columns["gradient"], **taken, **rule,
                                      generator=generator if stochastic else None)
            generator = counts.generator if stochastic else int(optimiser.random_words(generator, WORDS)[-1])
            for name, expected in (("weight", weights), ("state", state))[:1 if sgd else 2]:
                np.testing.assert_array_equal(outputs[f"{name}_high"], expected.high)
                if expected.low is not None:
                    np.testing.assert_array_equal(outputs[f"{name}_low"], expected.low)
            assert ctx.get(dut.generator) == generator
            assert ends == counts.saturated

    simulate(dut, bench)


async def run(ctx: Any, dut: UpdatePipeline, columns: dict[str, np.ndarray], rng: np.random.Generator
              ) -> tuple[dict[str, np.ndarray], int]:
    """Words through the pipeline, some cycles apart; the halves that come out, and how many sums were at ends."""
    begins = np.cumsum(rng.choice([1, 1, 1, 2, 5], WORDS))
    outputs: dict[str, list[int]] = {name: [] for name in columns if name != "gradient"}
    ends = 0
    for cycle in range(int(begins[-1]) + LATENCY + 1):
        words = {age: int(np.searchsorted(begins, cycle - age)) for age in (0, WEIGHT_CYCLES, STATE_LATENCY, LATENCY)}
        there = {age: word for age, word in words.items() if word < WORDS and begins[word] == cycle - age}
        ctx.set(dut.word, 0 in there)
        for name, column in columns.items():
            age = WEIGHT_CYCLES if name.startswith("weight") else 0
            ctx.set(getattr(dut, name), int(column[there[age]]) if age in there else 0x5A5A)
        for name, age in (("state", STATE_LATENCY), ("weight", LATENCY)):
            if age in there:
                for half in ("high", "low"):
                    outputs[f"{name}_{half}"].append(ctx.get(getattr(dut, f"new_{name}_{half}")))
        ends += ctx.get(dut.ends)
        await ctx.tick()
    return {name: np.array(column, np.uint16) for name, column in outputs.items()}, ends
