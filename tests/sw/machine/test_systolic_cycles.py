"""Cycles and beats of products on the systolic array.

Beats follow from what stays in the operand buffers (docs/matrix.md). Cycles are held against products that were counted
on the RTL, five in a row. Those of the walk are pinned besides: one that takes others has to be counted anew
(tests/sw/predict/test_counted_tasks.py, docs/agreement.md).
"""

from dataclasses import replace

import numpy as np
import pytest

from plinth.machine.systolic_cycles import cost, exposed, matrix_formula, matrix_memory, shape
from plinth.machine.systolic_walk import ProductShape, ProductWalk
from plinth_hw.isa.parameters import preset

#: Preset, product, m, n, k and run, then cycles alone and in a row, beats read and written: within a tile and at its
#: edges, one panel, two and more, loops longer than are walked, runs and rows that divide beats and do not.
WALKS = [
    ("ndp-demo", "fprop", 8, 8, 8, 0, (328.0, 84.1, 16.0, 8.0, 8.0)),
    ("ndp-demo", "fprop", 1, 1, 1, 0, (251.0, 68.0, 2.0, 1.0, 1.0)),
    ("ndp-demo", "fprop", 20, 30, 40, 0, (958.0, 640.0, 280.0, 90.0, 51.0)),
    ("ndp-demo", "fprop", 64, 64, 200, 0, (13330.8, 13022.4, 8000.0, 512.0, 1600.0)),
    ("ndp-demo", "fprop", 33, 65, 300, 0, (23527.25, 22963.6, 13647.375, 354.75, 2700.0)),
    ("ndp-demo", "bprop", 33, 40, 130, 0, (7862.55, 7663.75, 4702.75, 165.0, 1020.0)),
    ("ndp-demo", "update", 40, 33, 130, 0, (5786.0, 5570.0, 3900.0, 200.0, 650.0)),
    ("ndp-demo", "update", 64, 128, 64, 0, (8504.0, 8192.0, 4608.0, 1024.0, 1024.0)),
    ("ndp-demo", "fprop", 100, 10, 257, 0, (10717.8442, 10547.8442, 5968.5, 200.0, 1220.0)),
    ("ndp-demo", "fprop", 40, 200, 100, 0, (16455.2, 16000.0, 13060.0, 1000.0, 2000.0)),
    ("ndp-demo", "bprop", 10, 150, 16, 0, (991.0, 696.2, 320.0, 225.0, 222.0)),
    ("ndp-demo", "convolution-fprop", 70, 20, 27, 9, (1425.0, 1080.0, 508.0, 210.0, 218.0)),
    ("ndp-demo", "convolution-bprop", 70, 9, 50, 10, (1607.25, 1200.0, 774.0625, 140.0, 358.0)),
    ("ndp-demo", "convolution-update", 27, 20, 70, 9, (1400.75, 1120.0, 691.25, 81.0, 140.0)),
    ("ndp-demo", "convolution-fprop", 128, 40, 144, 48, (16212.4, 15916.0, 12960.0, 640.0, 3936.0)),
    ("ndp-demo", "convolution-update", 150, 16, 33, 24, (1613.75, 1320.0, 693.0, 300.0, 165.0)),
    ("ndp-tiny", "fprop", 13, 7, 50, 0, (759.5, 400.0, 307.0, 32.5, 57.5)),
    ("ndp-tiny", "fprop", 40, 40, 70, 0, (10314.0, 10314.0, 4280.0, 400.0, 1100.0)),
    ("ndp-tiny", "convolution-fprop", 50, 6, 18, 6, (840.0, 584.4, 340.0, 100.0, 158.0)),
    ("ndp-tiny", "update", 20, 9, 33, 0, (1010.0, 792.0, 264.0, 60.0, 99.0)),
    ("ndp-demo-mixed", "fprop", 33, 65, 300, 0, (22131.6, 22131.6, 6802.3125, 354.75, 2700.0)),
    ("ndp-demo-mixed", "bprop", 20, 50, 70, 0, (2073.5, 1680.0, 407.3125, 140.0, 101.5)),
    ("ndp-demo-mixed", "convolution-fprop", 70, 20, 27, 3, (1578.0, 1195.8182, 684.0, 210.0, 630.0)),
    ("ndp-demo-mixed", "update", 31, 16, 48, 0, (690.0, 384.0, 144.0, 62.0, 48.0)),
    ("fpga-ulx3s", "fprop", 30, 20, 100, 0, (1974.0, 1702.5, 1446.0, 105.0, 600.0)),
    ("fpga-ulx3s", "update", 25, 9, 17, 0, (391.25, 220.375, 131.75, 50.0, 51.0)),
    ("fpga-ulx3s", "convolution-bprop", 60, 8, 36, 12, (682.0, 471.0, 421.0, 60.0, 216.0)),
    ("ndp-paper", "fprop", 128, 256, 64, 0, (2080.0, 1167.0, 384.0, 512.0, 128.0)),
    ("ndp-paper", "convolution-fprop", 300, 64, 300, 192, (4264.5, 2858.5104, 1800.0, 300.0, 1500.0)),
    ("ndp-paper-mixed", "bprop", 200, 700, 90, 0, (6390.0, 4277.0898, 1209.375, 1287.5, 804.0)),
    ("ndp-demo", "fprop", 300, 300, 600, 0, (942000.0, 912000.0, 709500.0, 12750.0, 114000.0)),
    ("ndp-demo", "convolution-fprop", 1000, 16, 900, 90, (252922.4114, 252922.4114, 184398.0, 2000.0, 30168.0)),
    ("ndp-tiny", "update", 7, 500, 9, 0, (2702.875, 2496.9375, 1147.5, 875.0, 288.0)),
]
#: Products of odd and even sizes, alone and one more in a row, as counted.
COUNTED = [
    ("ndp-demo-winograd", ProductShape(128, 24, 27, 3, False, False, 0, 1, 0, 0), 2163, 1813.5),
    ("ndp-demo-winograd", ProductShape(512, 15, 34, 2, False, True, 0, 2, 2, 1), 5019, 4537.5),
    ("ndp-demo-winograd", ProductShape(784, 17, 40, 3, False, True, 0, 0, 0, 0), 14979, 14621.5),
    ("ndp-demo-winograd", ProductShape(128, 21, 26, 3, False, False, 0, 2, 1, 1), 2262, 1952.0),
    ("ndp-demo-winograd", ProductShape(392, 23, 34, 3, False, True, 0, 2, 2, 1), 8169, 7725.5),
    ("ndp-demo-winograd", ProductShape(256, 24, 27, 3, False, True, 0, 0, 0, 0), 3899, 3605.5),
    ("ndp-demo-winograd", ProductShape(50, 5, 37, 3, False, False, 0, 1, 1, 1), 858, 407.5),
    ("ndp-demo-winograd", ProductShape(392, 37, 9, 3, False, False, 0, 1, 1, 1), 4958, 4710.0),
    ("ndp-demo-winograd", ProductShape(576, 16, 3, 2, False, False, 0, 1, 0, 0), 1913, 1611.0),
    ("ndp-demo-winograd", ProductShape(19, 23, 50, 1, True, False, 0, 0, 0, 0), 1023, 800.0),
    ("ndp-tiny", ProductShape(24, 26, 26, 1, False, False, 0, 2, 2, 2), 1543, 1244.0),
    ("ndp-tiny", ProductShape(12, 33, 784, 2, True, False, 0, 0, 0, 0), 31551, 31358.0),
    ("ndp-tiny", ProductShape(784, 13, 20, 1, False, True, 0, 0, 0, 0), 15914, 15714.5),
    ("ndp-tiny", ProductShape(24, 26, 4, 1, False, False, 0, 0, 2, 2), 602, 424.5),
    ("ndp-tiny", ProductShape(576, 4, 38, 3, False, True, 0, 0, 0, 0), 11042, 10970.5),
    ("ndp-tiny", ProductShape(38, 14, 64, 1, True, False, 0, 2, 2, 2), 2775, 2556.0),
    ("ndp-demo-mixed", ProductShape(21, 29, 256, 1, True, False, 0, 1, 1, 1), 4342, 4092.0),
    ("ndp-demo-mixed", ProductShape(8, 25, 392, 1, True, False, 0, 0, 0, 0), 3394, 3130.5),
    ("ndp-demo-mixed", ProductShape(512, 11, 37, 2, False, False, 0, 1, 1, 1), 5151, 4724.0),
    ("ndp-demo-mixed", ProductShape(9, 16, 512, 1, True, False, 0, 1, 0, 0), 4327, 4093.0),
    ("ndp-demo-mixed", ProductShape(128, 40, 23, 3, False, True, 0, 1, 1, 0), 2394, 2062.5),
    ("ndp-demo-mixed", ProductShape(256, 32, 27, 1, False, False, 0, 0, 0, 0), 3775, 3456.0),
]


def test_products_take_what_was_counted() -> None:
    errors = np.array([[walked.alone / alone - 1, walked.row / row - 1] for name, product, alone, row in COUNTED
                       for walked in (cost(preset(name), product),)])
    assert np.abs(errors).max() < 0.16 and np.abs(errors).mean() < 0.03, errors


@pytest.mark.parametrize(("name", "product", "m", "n", "k", "run", "expected"), WALKS)
def test_walks(name: str, product: str, m: int, n: int, k: int, run: int,
               expected: tuple[float, ...]) -> None:
    die = preset(name)
    walked = cost(die, shape(die, product, m, n, k, run))
    assert walked == pytest.approx(expected, abs=1e-3)
    assert matrix_formula(die, m, n, k, run, product) == walked[:2]
    words = die.beat_words * (walked.reads + walked.writes)
    share = max(words / float(die.memory_words_per_cycle), walked.reads) / walked.row
    assert matrix_memory(die, m, n, k, run, product) == (words, share)


def test_a_tile_by_hand() -> None:
    """8 x 8 x 8 on 8 x 8 PEs of 8 slots; beats of 8 words, 32 rows under way for 60 cycles."""
    alone, row, reads, writes, turns = cost(preset("ndp-demo"), shape(preset("ndp-demo"), "fprop", 8, 8, 8, 0))
    # From 27 + 4 cycles on the channel has the 16 rows, a beat each, which come 60 cycles behind; they are taken up
    # half a step later.
    begin = 31 + 16 + 60 + 4
    # 64 products of a slot, the drain of 64 slots and the way through the array, eight beats, their response.
    assert alone == begin + 8 * 8 + 64 + (8 + 8 + 13) + 8 + 2 + 50
    # A row of them waits for what it loads, but two are under way.
    assert 8 * 8 < row < (31 + 16 + 60 + 8 * 8) / 2 and (reads, writes, turns) == (16, 8, 8)


def test_loads_and_stores_share_the_rate_of_memory() -> None:
    """k steps that take as many cycles as beats: stores hold the loads up, each beat for 2 x 8 / 10 - 1 cycles."""
    die = preset("ndp-demo")
    # Tiles of 64 x 8: eight beats of A a step of eight cycles, and B stays.
    walked = cost(die, ProductShape(512, 8, 64, 3, transpose_a=True))
    assert walked.row == pytest.approx(8 * (64 * 8 + 0.6 * 64), rel=0.05)


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
def test_long_loops_go_on_as_their_last_turns(sides: str, transposed: tuple[bool, bool]) -> None:
    """What is not walked takes what was walked last, in each direction and in all; a walk to the end about the same."""
    die = preset("ndp-demo")
    # Tiles of 16 x 32, panels of 128; the last of each is a part of one.
    spans = {"m": 16, "n": 32, "k": 128}

    def product(turns: int) -> ProductShape:
        m, n, k = (span * ((turns if side in sides else 2) - 1) + span // 2 for side, span in spans.items())
        return ProductShape(m, n, k, 1, *transposed, c_step=4)

    costs = [np.array(cost(die, product(turns))) for turns in (9, 11, 13)]
    if len(sides) == 1:
        assert costs[2] - costs[1] == pytest.approx(costs[1] - costs[0])
    # Of strips, which differ as the array waits or not, there may be some more.
    *cycles, turns = ProductWalk(die, product(13), 1.0).cost()
    assert costs[2][:4] == pytest.approx(np.array(cycles), rel=0.02) and costs[2][4] == pytest.approx(turns, rel=0.1)


def test_operands_as_lowering_lays_them() -> None:
    demo, mixed = preset("ndp-demo"), preset("ndp-demo-mixed")
    # m x k and k x n, row behind row: beats of 8 words hold 8 numbers, or 16 of 16 bits; results are words.
    assert shape(demo, "fprop", 5, 16, 24, 0) == ProductShape(5, 16, 24, 1)
    assert shape(demo, "fprop", 5, 12, 20, 0) == ProductShape(5, 12, 20, 1, False, False, 0, 4, 4, 4)
    assert shape(mixed, "fprop", 5, 24, 32, 0) == ProductShape(5, 24, 32, 1, b_step=4)
    assert shape(mixed, "fprop", 5, 31, 31, 0) == ProductShape(5, 31, 31, 1, c_step=1)
    assert shape(demo, "bprop", 5, 12, 24, 0) == ProductShape(5, 12, 24, 1, False, True, c_step=4)
    assert shape(demo, "update", 20, 8, 5, 0) == ProductShape(20, 8, 5, 2, True, a_step=4)
    # Runs of windows, and tiles by what they take to load.
    assert shape(demo, "convolution-fprop", 72, 64, 36, 12) == ProductShape(72, 64, 36, 1, False, False, 12, 4)
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


def test_what_memory_that_serves_others_costs() -> None:
    """Of k steps that are multiplied in eight cycles, reads of four beats hide in them, of nine none."""
    die = preset("ndp-demo")
    hidden, bare = ProductShape(32, 16, 1024, 2, transpose_a=True), ProductShape(64, 8, 1024, 3, transpose_a=True)
    assert exposed(die, hidden) == pytest.approx(2 * 6 * 1024 - 8 * 1024, rel=0.02)
    assert exposed(die, bare) == pytest.approx(9 * 1024, rel=0.02)
    few = ProductShape(8, 8, 1024, 0, transpose_a=True)
    assert exposed(die, few) < 0.01 * cost(die, few).row
