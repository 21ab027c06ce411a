"""Cycles and beats of products on the systolic array.

Beats follow from what stays in the operand buffers (docs/matrix.md). Cycles of the walk are pinned as they were when
they were last held against tasks counted on the RTL (tests/sw/predict/test_counted_tasks.py, docs/agreement.md): a
walk that takes others has to be counted anew.
"""

from dataclasses import replace

import numpy as np
import pytest

from plinth.machine.systolic_cycles import WALKED, ProductShape, cost, matrix_formula, matrix_memory, shape
from plinth_hw.isa.parameters import preset

#: Preset, product, m, n, k and run, then cycles alone and in a row, beats read and written: within a tile and at its
#: edges, one panel, two and more, loops longer than are walked, runs and rows that divide beats and do not.
WALKS = [
    ("ndp-demo", "fprop", 8, 8, 8, 0, (322.0, 72.0, 16.0, 8.0)),
    ("ndp-demo", "fprop", 1, 1, 1, 0, (253.75, 68.0, 2.0, 1.0)),
    ("ndp-demo", "fprop", 20, 30, 40, 0, (1005.0, 640.0, 285.0, 92.5)),
    ("ndp-demo", "fprop", 64, 64, 200, 0, (13335.0, 12800.0, 8000.0, 512.0)),
    ("ndp-demo", "fprop", 33, 65, 300, 0, (22169.0, 21600.0, 13666.041666666666, 354.75)),
    ("ndp-demo", "bprop", 33, 40, 130, 0, (7739.75, 7520.75, 4929.875, 165.0)),
    ("ndp-demo", "update", 40, 33, 130, 0, (6223.0, 6025.0, 3900.0, 200.0)),
    ("ndp-demo", "update", 64, 128, 64, 0, (8571.0, 8192.0, 4608.0, 1024.0)),
    ("ndp-demo", "fprop", 100, 10, 257, 0, (10425.5, 10123.5, 5696.833333333333, 212.5)),
    ("ndp-demo", "fprop", 40, 200, 100, 0, (16385.0, 16000.0, 13077.0, 1000.0)),
    ("ndp-demo", "bprop", 10, 150, 16, 0, (979.5, 640.0, 320.0, 231.25)),
    ("ndp-demo", "convolution-fprop", 70, 20, 27, 9, (1447.0, 1080.0, 515.7916666666667, 236.25)),
    ("ndp-demo", "convolution-bprop", 70, 9, 50, 10, (1850.875, 1264.125, 825.0833333333334, 140.0)),
    ("ndp-demo", "convolution-update", 27, 20, 70, 9, (1634.25, 1120.0, 717.5, 91.125)),
    ("ndp-demo", "convolution-fprop", 128, 40, 144, 48, (17600.0, 17170.0, 12960.0, 640.0)),
    ("ndp-demo", "convolution-update", 150, 16, 33, 24, (1723.875, 1320.0, 693.0, 300.0)),
    ("ndp-tiny", "fprop", 13, 7, 50, 0, (826.0, 400.0, 310.25, 32.5)),
    ("ndp-tiny", "fprop", 40, 40, 70, 0, (9481.0, 9265.0, 4268.0, 400.0)),
    ("ndp-tiny", "convolution-fprop", 50, 6, 18, 6, (911.0, 601.0, 382.0, 112.5)),
    ("ndp-tiny", "update", 20, 9, 33, 0, (1061.0, 792.0, 264.0, 60.0)),
    ("ndp-demo-mixed", "fprop", 33, 65, 300, 0, (22174.0, 21600.0, 6888.125, 354.75)),
    ("ndp-demo-mixed", "bprop", 20, 50, 70, 0, (2088.375, 1680.0, 426.25, 142.5)),
    ("ndp-demo-mixed", "convolution-fprop", 70, 20, 27, 3, (1593.0, 1195.0, 767.8125, 236.25)),
    ("ndp-demo-mixed", "update", 31, 16, 48, 0, (729.0, 384.0, 144.0, 62.0)),
    ("fpga-ulx3s", "fprop", 30, 20, 100, 0, (2088.75, 1826.25, 1690.25, 127.5)),
    ("fpga-ulx3s", "update", 25, 9, 17, 0, (377.375, 176.75, 131.75, 50.0)),
    ("fpga-ulx3s", "convolution-bprop", 60, 8, 36, 12, (758.5, 495.5, 498.5, 60.0)),
    ("ndp-paper", "fprop", 128, 256, 64, 0, (1563.0, 716.8, 384.0, 512.0)),
    ("ndp-paper", "convolution-fprop", 300, 64, 300, 192, (5453.0, 3571.5, 1800.0, 300.0)),
    ("ndp-paper-mixed", "bprop", 200, 700, 90, 0, (5296.5, 4008.125, 1212.890625, 1292.1875)),
    ("ndp-demo", "fprop", 300, 300, 600, 0, (912527.0, 912000.0, 752250.0, 13875.0)),
    ("ndp-demo", "convolution-fprop", 1000, 16, 900, 90, (249404.0, 249078.0, 187637.33333333346, 2000.0)),
    ("ndp-tiny", "update", 7, 500, 9, 0, (2529.5, 2304.0, 1147.5, 875.0)),
]


@pytest.mark.parametrize(("name", "product", "m", "n", "k", "run", "expected"), WALKS)
def test_walks(name: str, product: str, m: int, n: int, k: int, run: int,
               expected: tuple[float, float, float, float]) -> None:
    die = preset(name)
    walked = cost(die, shape(die, product, m, n, k, run))
    assert walked == pytest.approx(expected, rel=1e-12)
    assert matrix_formula(die, m, n, k, run, product) == walked[:2]
    words = die.beat_words * (walked.reads + walked.writes)
    share = max(words / float(die.memory_words_per_cycle), walked.reads) / walked.row
    assert matrix_memory(die, m, n, k, run, product) == (words, share)


def test_a_tile_by_hand() -> None:
    """8 x 8 x 8 on 8 x 8 PEs of 8 slots; beats of 8 words, 32 rows under way for 60 cycles."""
    alone, row, reads, writes = cost(preset("ndp-demo"), shape(preset("ndp-demo"), "fprop", 8, 8, 8, 0))
    # Eight rows of A begin after 27 + 4 cycles and hold the channel for 15; the first of B comes 60 cycles behind.
    begin = 31 + 15 + 60 + 1
    # 64 products of a slot, the way through the array, the store of a tile of 64 slots, its response.
    assert alone == begin + 8 * 8 + (8 + 8 + 21) + 64 + 50
    # The second task's loads begin 64 + 4 cycles behind the first one's, the third one's when its half is free again.
    assert row == (begin + 8 * 8) - (31 + 64 + 4) and (reads, writes) == (16, 8)


@pytest.mark.parametrize("product", ["fprop", "bprop", "update"])
@pytest.mark.parametrize(("m", "n", "k"), [(8, 32, 16), (40, 72, 64), (32, 40, 128), (96, 32, 256), (32, 96, 264),
                                           (64, 64, 304), (16, 32, 512), (16, 32, 520), (96, 32, 512), (96, 32, 520)])
def test_beats_are_those_of_what_does_not_stay(product: str, m: int, n: int, k: int) -> None:
    """A stays while n advances, and B over a single n block, where k is of at most two panels; rows of whole beats."""
    die = preset("ndp-demo")
    product_shape = shape(die, product, m, n, k, 0)
    down, across = (die.rows << product_shape.interleave_m_log2,
                    die.columns * die.interleave >> product_shape.interleave_m_log2)
    stays = k <= 2 * (die.operand_buffer_words // max(down, across))
    tiles_m, tiles_n = -(-m // down), -(-n // across)
    walked = cost(die, product_shape)
    assert walked.reads == pytest.approx((m * k * (1 if stays else tiles_n)
                                          + k * n * (1 if stays and tiles_n == 1 else tiles_m)) / 8)
    assert walked.writes == m * n / 8


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("sides", ["m", "n", "k", "mnk"])
def test_long_loops_go_on_as_their_last_turn(sides: str, transposed: tuple[bool, bool]) -> None:
    """What is beyond four turns takes what the fourth did, in each direction and in all."""
    die = preset("ndp-demo")
    # Tiles of 16 x 32, panels of 128; the last of each is a part of one.
    spans = {"m": 16, "n": 32, "k": 128}
    turns = {side: 9 if side in sides else 2 for side in spans}

    def walked(**of: int) -> np.ndarray:
        m, n, k = (spans[side] * (of[side] - 1) + spans[side] // 2 for side in spans)
        return np.array(cost(die, ProductShape(m, n, k, 1, *transposed, c_aligned=False)))

    def extended(known: dict[str, int]) -> np.ndarray:
        for side, count in turns.items():
            if side not in known:
                if count <= WALKED:
                    return extended(known | {side: count})
                fourth, third = extended(known | {side: 4}), extended(known | {side: 3})
                return fourth + (count - 4) * (fourth - third)
        return walked(**known)

    assert walked(**turns) == pytest.approx(extended({}))
    # Nothing is walked in another way for a turn fewer.
    assert WALKED == 4


def test_operands_as_lowering_lays_them() -> None:
    demo, mixed = preset("ndp-demo"), preset("ndp-demo-mixed")
    # m x k and k x n, row behind row: beats of 8 words hold 8 numbers, or 16 of 16 bits; results are words.
    assert shape(demo, "fprop", 5, 16, 24, 0) == ProductShape(5, 16, 24, 1)
    assert shape(demo, "fprop", 5, 12, 20, 0) == ProductShape(5, 12, 20, 1, False, False, 0, False, False, False)
    assert shape(mixed, "fprop", 5, 24, 32, 0) == ProductShape(5, 24, 32, 1, b_aligned=False)
    assert shape(mixed, "fprop", 5, 31, 31, 0) == ProductShape(5, 31, 31, 1, c_aligned=False)
    assert shape(demo, "bprop", 5, 12, 24, 0) == ProductShape(5, 12, 24, 1, False, True, c_aligned=False)
    assert shape(demo, "update", 20, 8, 5, 0) == ProductShape(20, 8, 5, 2, True, a_aligned=False)
    # Runs of windows, and tiles by what they take to load.
    assert shape(demo, "convolution-fprop", 72, 64, 36, 12) == ProductShape(72, 64, 36, 1, False, False, 12, False)
    assert shape(demo, "convolution-update", 36, 8, 72, 16) == ProductShape(36, 8, 72, 3, True, False, 16)


def test_nothing_moves_nothing() -> None:
    assert [matrix_memory(preset("ndp-demo"), *sizes) for sizes in ((0, 1, 1), (1, 0, 1), (1, 1, 0))] == [(0, 0)] * 3


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 32), (32, 64, 16), (64, 64, 100)])
def test_tiles_that_begin_with_what_is_there_take_its_exchange(m: int, n: int, k: int) -> None:
    """D = K + R + 1 from tile to tile (docs/matrix.md), and C is read once."""
    die = preset("ndp-demo")
    plain = ProductShape(m, n, k, 1)
    added, tiles = cost(die, replace(plain, accumulate=True)), m * n // (die.rows * die.columns * die.interleave)
    assert added.row == tiles * (k + die.rows + 1) * die.interleave
    assert added.reads == cost(die, plain).reads + m * n / die.beat_words
    assert added.writes == cost(die, plain).writes
