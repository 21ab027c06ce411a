"""The zoo against the numbers that its sources publish."""

import pytest

from plinth.network.layers import Convolution, Join
from plinth.network.zoo import NETWORKS


@pytest.mark.parametrize(("name", "weights"), [
    # HyPar Figure 8: the data-parallel totals are 120 bytes a weight; Table 3 and the Caffe examples agree.
    ("sfc", 784 * 8192 + 2 * 8192 * 8192 + 8192 * 10),
    ("sconv", 100_500),
    ("lenet-c", 430_500),
    ("cifar-c", 145_376),
    ("alexnet-tower", 16_624_656),
    # MPT Table II: kernels of 3x3 over I x J channels.
    ("mpt-early", 9 * 128 * 128),
    ("mpt-mid-1", 9 * 256 * 256),
    ("mpt-late-1", 9 * 512 * 512),
    ("mpt-mid-2", 9 * 320 * 320),
    ("mpt-late-2", 9 * 640 * 640),
])
def test_weights_without_biases(name: str, weights: int) -> None:
    assert NETWORKS[name].weights == weights


@pytest.mark.parametrize(("name", "gigabytes"), [
    # HyPar Figure 8, Data Parallelism, to the digits that are printed.
    ("sconv", 0.0121), ("lenet-c", 0.0517), ("cifar-c", 0.0174), ("alexnet-tower", 2.0),
    ("vgg-a", 15.9), ("vgg-b", 16.0), ("vgg-c", 16.0), ("vgg-d", 16.6), ("vgg-e", 17.2),
])
def test_weights_give_the_data_parallel_totals_of_hypar(name: str, gigabytes: float) -> None:
    assert 2 * 4 * 15 * NETWORKS[name].weights / 1e9 == pytest.approx(gigabytes, rel=0.005)


@pytest.mark.parametrize(("name", "parameters"), [
    # Krizhevsky's network without groups, as it is commonly counted.
    ("alexnet", 62_378_344),
    # torchvision's vgg11, vgg13, vgg16 and vgg19; the paper's Table 2 rounds them to 133, 133, 138 and 144 million.
    ("vgg-a", 132_863_336),
    ("vgg-b", 133_047_848),
    ("vgg-d", 138_357_544),
    ("vgg-e", 143_667_240),
    # torchvision's resnet34 has 21,797,672, of which batch normalisation has 17,024.
    ("resnet-34", 21_797_672 - 17_024),
])
def test_parameters_with_biases(name: str, parameters: int) -> None:
    assert NETWORKS[name].parameters == parameters


def test_vgg_c_has_134_million_parameters() -> None:
    assert round(NETWORKS["vgg-c"].parameters / 1e6) == 134


@pytest.mark.parametrize(("name", "total", "of_3x3", "projections"), [
    # MPT Table I, in millions; it counts no projections.
    ("resnet-34", 21.6, 21.1, 172_032), ("wrn-40-10", 55.6, 55.5, 258_560), ("fractalnet-4-4", 164, 163, 0)])
def test_parameters_of_mpt_table_1(name: str, total: float, of_3x3: float, projections: int) -> None:
    network = NETWORKS[name]
    digits = 1 if total < 100 else 0
    kernels = {1: 0, 3: 0, 7: 0}
    for layer in network.weighted:
        if isinstance(layer, Convolution):
            kernels[layer.kernel[0]] += network.layer_weights(layer.name)
    assert round(kernels[3] / 1e6, digits) == of_3x3
    assert kernels[1] == projections
    assert round((network.parameters - projections) / 1e6, digits) == total


@pytest.mark.parametrize(("name", "positions_times_weights"), [
    # What HyPar's Figure 6 implies: weights times positions of the layer's input map.
    ("sconv", 21.5e6), ("lenet-c", 4.40e6), ("alexnet-tower", 1.609e9)])
def test_input_maps_of_hypar(name: str, positions_times_weights: float) -> None:
    network = NETWORKS[name]
    assert sum(network.layer_weights(layer.name) * network.shapes[layer.name].inputs[0].positions
               for layer in network.weighted) == pytest.approx(positions_times_weights, rel=2e-3)


def test_multiply_adds_as_published() -> None:
    # VGG-E and ResNet-34 as torchvision counts them (19.63 and 3.66 thousand million).
    assert NETWORKS["vgg-e"].macs / 1e9 == pytest.approx(19.63, abs=0.01)
    assert NETWORKS["resnet-34"].macs / 1e9 == pytest.approx(3.66, abs=0.01)


def test_fractal_blocks_have_fifteen_convolutions_and_join_their_columns() -> None:
    network = NETWORKS["fractalnet-4-4"]
    for block in range(1, 5):
        assert sum(layer.name.startswith(f"conv{block}_") for layer in network.layers) == 15
        joins = [len(layer.inputs) for layer in network.layers
                 if isinstance(layer, Join) and layer.name.startswith(f"join{block}_")]
        assert sorted(joins) == [2, 2, 3, 4]


def test_names_are_lower_case_with_hyphens() -> None:
    assert all(name == network.name and name == name.lower() and "_" not in name
               for name, network in NETWORKS.items())


def test_the_digits_networks_fit_the_digits() -> None:
    for name in ("digits-mlp", "digits-cnn"):
        assert NETWORKS[name].input.elements == 64
        assert NETWORKS[name].output == (10,)
    assert NETWORKS["digits-cnn"].parameters >= 30_000
