"""Every kind of layer of a network has a class that builds its operations."""

from dataclasses import replace

import pytest
from tests.support.networks import CONCATENATED, DOUBLED

from plinth.network.layers import (
    KINDS,
    Affine,
    Convolution,
    Dense,
    Embedding,
    Flatten,
    Layer,
    MeanSquaredError,
    Shape,
    SoftmaxCrossEntropy,
    Tanh,
)
from plinth.network.network import Network
from plinth.network.winograd import with_tiles
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import LOSS, chain, from_network
from plinth.plan.planners.simple import data
from plinth.sharding import Sharding
from plinth.step.layers.junction import AddLayer, JoinLayer
from plinth.step.layers.kinds import EPILOGUES, NODES, layers_of, node_kind
from plinth.step.layers.loss import SoftmaxLayer, SquaresLayer
from plinth.step.layers.products import ProductLayer
from plinth.step.layers.winograd import WinogradLayer
from plinth.step.step import Step
from plinth_hw.isa.parameters import preset


def test_every_kind_has_one_place() -> None:
    """But those that no die does anything for, and a convolution, which has two."""
    assert sorted([*NODES, *EPILOGUES]) == sorted({*KINDS, "winograd"} - {Flatten.kind})


def test_nodes_have_the_class_of_their_kind() -> None:
    def kinds(network: Network) -> list[type]:
        return [node_kind(node) for node in from_network(network).nodes]

    assert kinds(NETWORKS["digits-cnn"]) == [ProductLayer] * 4 + [SoftmaxLayer]
    assert kinds(with_tiles(NETWORKS["digits-cnn"], 2, None)) == [WinogradLayer] * 2 + [ProductLayer] * 2 + [
        SoftmaxLayer]
    assert kinds(NETWORKS["mpt-early"]) == [ProductLayer, SquaresLayer]
    assert {AddLayer, JoinLayer} <= set(kinds(DOUBLED))
    # Of a graph that planners are tested with nothing says what the loss is.
    graph = chain("bare", from_network(NETWORKS["digits-mlp"]).nodes[:-1])
    assert graph.nodes[-1].kind == LOSS and node_kind(graph.nodes[-1]) is SoftmaxLayer


def test_the_first_activation_goes_with_the_sum() -> None:
    graph = from_network(CONCATENATED)
    layers = layers_of(Step(Sharding(graph=graph, splits=data(graph, 0), batch=2), preset("ndp-tiny")))
    epilogues = {layer.node.name: ([member.name for member in layer.epilogue],
                                   layer.activation and layer.activation.name, layer.images) for layer in layers}
    assert epilogues["conv1"] == ([], "relu1", False)
    assert epilogues["concat1"] == (["pool"], "gelu", True)
    assert epilogues["conv3"] == ([], None, False)
    assert epilogues[LOSS] == ([], None, False)


DENSE, CONVOLUTION = Dense(name="one", outputs=4), Convolution(name="one", channels=3, kernel=(1, 1))
SQUARES, SOFTMAX, MAP = MeanSquaredError(name="loss"), SoftmaxCrossEntropy(name="loss"), Shape((2, 2, 2))


@pytest.mark.parametrize(("shape", "layers", "split", "finished"), [
    (Shape((3,)), (DENSE, SOFTMAX), "dp", True), (Shape((3,)), (DENSE, SQUARES), "mp", False),
    (Shape((3,)), (DENSE, SQUARES), "op", False), (Shape((3,)), (DENSE, Tanh(name="tanh"), SQUARES), "dp", False),
    (Shape((3,)), (DENSE, Affine(name="scale"), SQUARES), "dp", False),
    (Shape((3,)), (Embedding(name="one", inputs=("input",), rows=5, width=4), SQUARES), "dp", True),
    (MAP, (CONVOLUTION, SQUARES), "dp", True),
    # One row a sample, and a bias of several positions.
    (MAP, (CONVOLUTION, Flatten(name="flat"), SOFTMAX), "dp", False),
    (MAP, (replace(CONVOLUTION, bias=False), Flatten(name="flat"), SOFTMAX), "dp", True)])
def test_the_loss_finishes_products_whose_parts_are_whole(shape: Shape, layers: tuple[Layer, ...], split: str,
                                                          finished: bool) -> None:
    graph = from_network(Network(name="last", input=shape, layers=layers))
    step_layers = layers_of(Step(Sharding(graph=graph, splits=((split,), *[("dp",)] * (len(graph.nodes) - 1)), batch=4,
                                          factors=(2,)), preset("ndp-tiny")))
    assert step_layers[-2].finished is finished and not step_layers[-1].finished
