"""Operations of batches by kinds: those of the steps that devices run, each once; and which networks are measured."""

import pytest

from plinth.errors import UserError
from plinth.network.layers import (
    Convolution,
    Dense,
    Flatten,
    Gelu,
    MaxPool,
    MeanPool,
    MeanSquaredError,
    Relu,
    Sigmoid,
    SoftmaxCrossEntropy,
    Tanh,
)
from plinth.network.network import Network
from plinth.network.shape import Shape
from plinth.network.zoo import NETWORKS
from plinth.profile.batches import operation_of
from plinth.profile.die_device import lowered
from plinth.profile.fits import FAMILIES
from plinth.profile.networks import DIE, HOST, benchmark_networks
from plinth.profile.numpy_device import NumpyDevice
from plinth.profile.works import batch_works
from plinth_hw.isa.parameters import preset

LAYERED = Network(name="layered", input=Shape((2, 8, 8)), layers=(
    Convolution(name="one", channels=4, kernel=(3, 3), padding=(1, 1)), Relu(name="relu"),
    MaxPool(name="max", kernel=(2, 2), stride=(2, 2)),
    Convolution(name="two", channels=6, kernel=(3, 3)), Sigmoid(name="sigmoid"),
    MeanPool(name="mean", kernel=(2, 2), stride=(2, 2)), Flatten(name="flat"),
    Dense(name="bare", outputs=8), Dense(name="unbiased", outputs=12, bias=False), Tanh(name="tanh"),
    Dense(name="output", outputs=4), MeanSquaredError(name="error")))
NETS = {"layered": LAYERED, "digits-mlp": NETWORKS["digits-mlp"]}


@pytest.mark.parametrize("name", NETS)
def test_operations_are_those_of_numpy_and_of_dies(name: str) -> None:
    network = NETS[name]
    works = batch_works(network, 6)
    names = [work.operation for work in works]
    assert len(set(names)) == len(names)
    measured = NumpyDevice().batch(network, 6)
    assert set(names) == set(measured.operations)
    tasks = {operation_of(task.name) for task in lowered(network, 6, preset("fpga-tiny"), 1 << 20).step[0].tasks}
    assert set(names) == tasks
    assert {work.kind for work in works} <= FAMILIES.keys()
    assert all(len(work.sizes) == len(FAMILIES[work.kind].sizes) for work in works)
    assert 0 < measured.forward_seconds < measured.seconds < 2 * sum(measured.operations.values()) + 1


def test_sizes_are_those_of_the_layers() -> None:
    sizes = {work.operation: work.sizes for work in batch_works(LAYERED, 5)}
    assert sizes["one.fprop"] == (5 * 64, 9 * 2, 4, 5 * 64 * 2, 9)
    assert sizes["two.bprop"] == (5 * 4, 9 * 4, 6, 5 * 16 * 4, 9)
    assert sizes["max.backward"] == (5 * 64 * 4, 5 * 16 * 4, 4, 4)
    assert sizes["bare.update_grad"] == (5, 6, 8) and sizes["one.output"] == (5 * 64, 4)
    assert sizes["unbiased.update"] == (8 * 12,) and sizes["error"] == (5, 4)
    assert "one.bprop" not in sizes


@pytest.mark.parametrize(("layers", "reason"), [
    ((Dense(name="a", outputs=4), Gelu(name="odd")), r"layer 'odd' \(gelu\) has no micro-benchmark"),
    ((Dense(name="a", outputs=4), Relu(name="b"), Tanh(name="odd")), "layer 'odd' is a second function behind")])
def test_layers_that_are_not_measured_are_named(layers: tuple, reason: str) -> None:
    network = Network(name="odd", input=Shape((4,)), layers=(
        *layers, Dense(name="out", outputs=2), SoftmaxCrossEntropy(name="loss")))
    with pytest.raises(UserError, match=reason):
        batch_works(network, 2)


@pytest.mark.parametrize("bounds", [HOST, DIE], ids=["host", "die"])
def test_networks_that_check_are_others(bounds) -> None:
    fitted, checking = (benchmark_networks(bounds, checking=checking) for checking in (False, True))
    assert len(fitted) == bounds.perceptrons + bounds.convolutional == 2 * len(checking)
    assert not set(map(repr, fitted)) & set(map(repr, checking))
    assert benchmark_networks(bounds, checking=True) == checking
    covered = bounds.covering(NETWORKS["sfc"], 999)
    assert covered.batches[1] == 999 and covered.widths[1] >= 8192
    assert all(batch * network.macs <= bounds.most_macs for network, batch in benchmark_networks(covered, checking=True)
               if network.name == "perceptron")
