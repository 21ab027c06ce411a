"""Rows of the row-stationary machine, on a small layer and small dies."""

import pytest

from plinth.bench import row_stationary
from plinth.machine.convolution import ConvolutionShape

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tiny-dies")]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = {"conv1": (ConvolutionShape(height=9, width=9, inputs=6, outputs=16, kernel=(3, 3), padding=(1, 1)), 2)}
    monkeypatch.setattr(row_stationary, "ALEXNET", layers)
    monkeypatch.setattr(row_stationary, "LAYERS", layers)
    monkeypatch.setattr(row_stationary, "ROW_STATIONARY", "hypar-tiny")


def test_utilisation_comes_near_the_bound_of_the_mapping() -> None:
    (row,) = row_stationary.rs_utilisation("conv1")
    assert row.name == "rs_utilisation_conv1"
    for direction in ("fprop", "bprop", "update"):
        utilisation = row.detail[direction]
        assert 0 < utilisation["useful"] < utilisation["with_padding"] < 1
        assert utilisation["with_padding"] == pytest.approx(utilisation["bound_with_padding"], rel=0.15)
    assert row.value == row.detail["fprop"]["useful"]


def test_memory_traffic_of_both_machines() -> None:
    (stationary,) = row_stationary.dram_words_per_mac("hypar-tiny", "rs_dram_words_per_mac")
    (systolic,) = row_stationary.dram_words_per_mac("ndp-tiny", "systolic_dram_words_per_mac")
    # A multiply-add needs at least a share of each operand and result.
    for row in (stationary, systolic):
        assert 0.05 < row.value < 2, row
        assert row.detail["conv1"] == row.value
