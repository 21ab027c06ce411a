"""A hundred million random and adversarial tiles through prediction, of which no live neuron may be found dead; a
million through the RTL's engine, which codes, predicts and decodes them."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.hw.comm.test_codes import BASES, DECODE, ENCODE, PREDICT, fields, place
from tests.support.engine_bench import body_words
from tests.support.verilated_engine import VerilatedTransfer

from plinth.reproduce.sparsity import drops
from plinth_hw.isa.codes import shifts
from plinth_hw.isa.layout import WORD_BITS
from plinth_hw.isa.operations import ErrorCode, TransferOperation
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.transfer_bodies import CodeBody
from plinth_hw.isa.winograd import MATRICES, TRANSFORMS
from plinth_sim.golden import prediction

pytestmark = pytest.mark.long

TILES = 100_000_000
TILES_ON_RTL = 1_000_000
#: Tiles and channels of a task on the RTL; words of a run, of which each element has one, and of its mask.
ROWS, CHANNELS = 64, 32
COLUMNS = ROWS * CHANNELS
PITCH = COLUMNS // WORD_BITS
#: Where words, strings, what is made of them, masks and a bias lie: of at most so many elements.
ELEMENTS = 36
SOURCE = 1000
STRINGS = SOURCE + ELEMENTS * COLUMNS
MADE = STRINGS + 2 * ELEMENTS * COLUMNS
MASKS = MADE + ELEMENTS * COLUMNS
BIAS = MASKS + ELEMENTS * PITCH
WORDS = 1 << 19
#: How far the second round's level is below the first one's, and what codes: two rounds, the same before a max-pool,
#: MPT's regions.
STEP, SCHEMES = 3, ("rounds", "pooled", "regions")


@pytest.mark.parametrize("number", range(2 * len(TRANSFORMS)))
def test_a_hundred_million_tiles(number: int) -> None:
    tally = drops.dropped(-(-TILES // (2 * len(TRANSFORMS))), seed=number, which=drops.ways()[number:number + 1])
    print(tally)
    assert tally.tiles >= TILES // (2 * len(TRANSFORMS)) and tally.dropped == 0
    assert tally.live and tally.dead and tally.printed, "the printed bound fails on these tiles"


@cache
def engine() -> VerilatedTransfer:
    return VerilatedTransfer(preset("ndp-tiny-winograd", codes=True, flit_words=2))


def coded(elements: int, levels: list[tuple[int, int | None, int | None]], **others: Any) -> list[tuple[int, Any]]:
    """Tasks that code a run of each element, and those that decode them."""
    def body(operation: TransferOperation, number: int) -> dict[str, Any]:
        run, string = number * COLUMNS, place(STRINGS + 2 * number * COLUMNS)
        source, destination = (SOURCE, string) if operation is ENCODE else (MADE, place(MADE + run))
        return fields(operation, 1, COLUMNS, levels[number], source=place(source + run), destination=destination,
                      codes=string, mask=place(MASKS + number * PITCH), destination_row_stride=2 * COLUMNS,
                      codes_row_stride=2 * COLUMNS, **others)

    return [(operation.value, body(operation, number)) for operation in (ENCODE, DECODE) for number in range(elements)]


def through(way: prediction.Way, words: Any, bias: Any, scheme: str) -> Any:
    """What the engine has of words ``[T, T', COLUMNS]`` in the end."""
    numbers = [0 if matrix is None else MATRICES.index(matrix) for matrix in way]
    elements = words.shape[0] * words.shape[1]
    memory = np.zeros(WORDS, dtype=np.uint32)
    memory[SOURCE:][:words.size] = words.ravel()
    memory[BIAS:][:CHANNELS] = bias.view(np.uint32)
    side = 2 * (scheme == "pooled")

    def predicts(level: int, **others: int) -> tuple[int, Any]:
        return PREDICT.value, fields(PREDICT, ROWS, CHANNELS, (level, None, None), source=place(MADE),
                                     source_row_stride=CHANNELS, source_plane_stride=COLUMNS, codes=place(BIAS),
                                     destination=place(MASKS), destination_row_stride=PITCH, down=numbers[0],
                                     across=numbers[1], destination_row_step=side, destination_column_step=side,
                                     **others)

    if scheme == "regions":
        code = {"regions": drops.BITS[way[0] is None] - 3}
        scale = [(drops.SCALE, None, None)] * elements
        tasks = [*coded(elements, scale, **code), predicts(drops.SCALE, **code),
                 *coded(elements, scale, **code, follows=1, exact=1)]
    else:
        levels = [int(level) for level in (drops.LEVEL - np.array(shifts(*way))).ravel()]
        tasks = [*coded(elements, [(level, None, None) for level in levels]), predicts(drops.LEVEL),
                 *coded(elements, [(level, level, level - STEP) for level in levels]), predicts(drops.LEVEL - STEP),
                 *coded(elements, [(level - STEP, level - STEP, None) for level in levels])]
    outcome = engine().run([(operation, body_words(CodeBody, body)) for operation, body in tasks], BASES, memory,
                           limit=1 << 30)
    assert {done.error for done in outcome.done} == {ErrorCode.NONE}
    return memory[MADE:][:words.size].reshape(words.shape)


@pytest.mark.parametrize("number", range(2 * len(TRANSFORMS)))
def test_a_million_tiles_on_the_rtl(number: int) -> None:
    """Neurons of what it has in the end are those of all words behind the ReLU, and behind the max-pool: as numbers and
    in what wins, none is dropped."""
    way, rng, done = drops.ways()[number], np.random.default_rng(number), 0
    # No line has the whole of a window that is pooled.
    dead = {scheme: 0 for scheme in SCHEMES if way[0] is not None or scheme != "pooled"}
    while done < TILES_ON_RTL // (2 * len(TRANSFORMS)):
        for kind in drops.KINDS:
            for scheme in dead:
                words = drops.drawn(way, kind, COLUMNS, rng)
                if way[0] is None:
                    # A line is a tile of its own.
                    words = np.ascontiguousarray(words[int(rng.integers(len(words)))][None])
                bias = rng.standard_normal(CHANNELS).astype(np.float32) * np.float32(rng.random() < 0.5)
                kept = through(way, words.view(np.uint32), bias, scheme).view(np.float32)
                neurons, kept_neurons = (prediction.plus((sums, sums), np.tile(bias, ROWS))[1] for sums in (
                    prediction.neurons(way, elements) for elements in (words, kept)))
                wanted, computed = np.maximum(neurons, 0), np.maximum(kept_neurons, 0)
                if scheme == "pooled":
                    tops = prediction.largest(wanted), prediction.largest(computed)
                    np.testing.assert_array_equal(*tops)
                    wins = (wanted == tops[0]) & (wanted > 0)
                    np.testing.assert_array_equal(wins, (computed == tops[1]) & (computed > 0))
                else:
                    np.testing.assert_array_equal(wanted, computed)
                dead[scheme] += int((neurons != kept_neurons).sum())
                done += COLUMNS
    print(f"{done:,} tiles; neurons of other words, all dead: {dead}")
    assert all(dead.values())
