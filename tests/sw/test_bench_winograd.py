"""Rows of Winograd layers: what bounds a layer, and which tasks of a step count."""

import pytest

from plinth.bench import winograd
from plinth.driver.statistics import TaskRecord
from plinth_hw.isa.operations import Engine


@pytest.mark.parametrize(("network", "images", "macs", "words"), [
    # 14 x 14 tiles of 36 elements, 128 channels to 128, on maps of 56 x 56; 256 PEs, 20 words a cycle.
    ("mpt-early", 1, 36 * 196 * 128 * 128, 2 * 56 * 56 * 128 + 4 * 36 * 196 * 128 + 36 * 128 * 128),
    # 2 x 2 tiles of each of four images, 640 channels to 640, on maps of 8 x 8.
    ("mpt-late-2", 4, 36 * 16 * 640 * 640, 2 * 4 * 64 * 640 + 4 * 36 * 16 * 640 + 36 * 640 * 640)])
def test_bound_is_of_products_and_words(network: str, images: int, macs: int, words: int) -> None:
    terms = winograd.bound(network, images)
    assert terms["multiply_adds / PEs"] == macs / 256
    assert terms["words / memory rate"] == pytest.approx(words / 20)


def test_rows_are_of_the_layers_own_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands before, behind and beside them does not count."""
    def records(network: str, images: int, winograd: int | str) -> list[TaskRecord]:
        tiles = 0 if winograd == "off" else 1
        times = {"before.fprop": (0, 90), "conv.fprop[0]": (100, 1_000_000), "loss": (1_000_000, 1_000_500),
                 "conv.bprop[0]": (1_000_600, 3_000_000), "conv.update_grad[0]": (2_000_000, 4_000_600),
                 "conv.all_reduce": (4_000_600, 4_100_000)}
        if tiles:
            times |= {"conv.scatter.own.0": (95, 300), "conv.untile.0": (900, 500_095), "conv.fprop[0]": (300, 900),
                      "conv.error_scatter.own.0": (1_000_550, 1_000_600), "conv.bprop[0]": (1_000_600, 1_500_000),
                      "conv.update_grad[0]": (1_500_000, 2_000_550), "conv.all_reduce[0]": (2_000_550, 2_050_550),
                      "conv.all_reduce[1]": (2_050_550, 2_100_000)}
            times.pop("conv.all_reduce")
        return [TaskRecord(name, Engine.MATRIX, start, end, 0, 0, 0) for name, (start, end) in times.items()]

    monkeypatch.setattr(winograd, "_records", records)
    utilisation, speedup, backward = winograd.winograd_rows("early", lambda network, images: 999_000)
    assert utilisation.value == 451_584 / 500_000
    assert speedup.value == 999_000 / 500_000
    assert backward.value == 3_000_000 / 1_000_000
    assert backward.detail["cycles_with_updates"] == 1_099_450
    assert backward.detail["cycles_direct_with_updates"] == 3_099_400
    assert {utilisation.name, speedup.name, backward.name} <= set(winograd.benches(lambda network, images: 1))
