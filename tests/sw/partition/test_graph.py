"""What planners see of a network."""

import pytest

from plinth.errors import UserError
from plinth.network.layers import (
    Add,
    Concat,
    Convolution,
    Dense,
    Embedding,
    Flatten,
    Join,
    MaxPool,
    MeanSquaredError,
    Relu,
    Shape,
    SoftmaxCrossEntropy,
)
from plinth.network.network import Network
from plinth.network.variables import weights
from plinth.network.zoo import NETWORKS
from plinth.partition.exchanges import total_words
from plinth.partition.graph import Edge, Node, PlanGraph, from_network
from plinth.plan.plan import fingerprint
from plinth.plan.planners.simple import model
from plinth.predict.exact import ExactWords


@pytest.mark.parametrize("name", NETWORKS)
def test_nothing_of_a_network_is_lost(name: str) -> None:
    network = NETWORKS[name]
    graph = from_network(network)
    assert [graph.nodes[number].name for number in graph.weighted] == [layer.name for layer in network.weighted]
    assert sum(node.weights for node in graph.nodes) == network.weights
    assert sum(node.weights + node.bias for node in graph.nodes) == network.parameters
    assert sum(node.macs for node in graph.nodes) == network.macs
    assert sum(node.taps * node.raw_elements for node in graph.nodes) == network.macs
    assert all(graph.outputs[number] for number in graph.planned)
    splits = model(graph, 4)
    assert 4 * total_words(graph, splits, 10) == ExactWords(graph, 10).total_bytes(splits)


def test_pooling_and_flatten_belong_to_the_node_before() -> None:
    graph = from_network(Network(name="net", input=Shape((3, 8, 8)), layers=(
        Convolution(name="conv", channels=6, kernel=(3, 3), padding=(1, 1)), Relu(name="relu"),
        MaxPool(name="pool", kernel=(2, 2), stride=(2, 2)), Flatten(name="flat"), Dense(name="fc", outputs=10),
        SoftmaxCrossEntropy(name="loss"))))
    conv, fc, loss = graph.nodes
    assert (conv.raw_elements, conv.map_elements, conv.output_channels) == (6 * 64, 6 * 16, 6)
    assert (fc.input_elements, fc.input_channels, fc.taps) == (96, 6, 96)
    assert (loss.kind, loss.input_elements) == ("loss", 10)
    assert graph.edges == (Edge(0, 1, 96, 6), Edge(1, 2, 10, 10))


def test_a_shortcut_from_the_input_and_one_behind_a_pool() -> None:
    graph = from_network(Network(name="net", input=Shape((4, 4, 4)), layers=(
        Convolution(name="conv", channels=4, kernel=(3, 3), padding=(1, 1)),
        Add(name="add", inputs=("conv", "input")), MaxPool(name="pool", kernel=(2, 2), stride=(2, 2)),
        Convolution(name="last", channels=4, kernel=(1, 1)), Add(name="end", inputs=("last", "pool")),
        MeanSquaredError(name="loss"))))
    assert graph.edges == (Edge(0, 1, 64, 4), Edge(1, 2, 16, 4), Edge(2, 3, 16, 4), Edge(1, 3, 16, 4),
                           Edge(3, 4, 16, 4))
    assert graph.outputs[1] == (1, 3)


def test_what_is_read_twice_is_one_edge() -> None:
    """Of a layer; the network's input is there at each place."""
    def graph(*inputs: str) -> PlanGraph:
        return from_network(Network(name="net", input=Shape((4, 4, 4)), layers=(
            Convolution(name="one", channels=4, kernel=(1, 1)), Convolution(name="two", channels=4, kernel=(1, 1)),
            Join(name="join", inputs=("one", "two", *inputs)), MeanSquaredError(name="loss"))))

    repeated = graph("one", "input", "two", "one", "input")
    assert repeated.edges == (Edge(0, 1, 64, 4), Edge(0, 2, 64, 4), Edge(1, 2, 64, 4), Edge(2, 3, 64, 4))
    assert repeated.feeds(2) == (1, 2, 1, None, 2, 1, None)
    assert repeated.outputs[:2] == ((0, 1), (2,))
    splits = (("mp",), ("op",), ("dp",), ("dp",))
    assert total_words(repeated, splits, 10) == total_words(graph(), splits, 10)
    further: list[tuple[str, ...]] = [(), ("one",), ("two",), ("one", "one"), ("one", "two")]
    assert len({fingerprint(graph(*inputs)) for inputs in further}) == len(further)


def test_a_concatenation_splits_its_batch_alone() -> None:
    graph = from_network(Network(name="net", input=Shape((4, 4, 4)), layers=(
        Convolution(name="one", channels=3, kernel=(1, 1)), Convolution(name="two", channels=2, kernel=(1, 1)),
        Concat(name="both", inputs=("two", "one", "input", "two")), MeanSquaredError(name="loss"))))
    assert graph.edges == (Edge(0, 1, 48, 3), Edge(1, 2, 32, 2), Edge(0, 2, 48, 3), Edge(1, 2, 32, 2),
                           Edge(2, 3, 176, 11))
    assert graph.feeds(2) == (1, 2, None, 3)
    node = graph.nodes[2]
    assert (node.input_channels, node.output_channels, node.input_elements, node.raw_elements) == (11, 11, 176, 176)
    assert graph.choices(2) == ("dp",)
    assert model(graph, 1) == (("mp",), ("mp",), ("dp",), ("dp",))
    with pytest.raises(UserError, match=r"layer 'both' \(concat\) cannot be split as 'mp'; choose dp"):
        total_words(graph, (("dp",), ("dp",), ("mp",), ("dp",)), 10)


def test_flattened_maps_are_not_concatenated() -> None:
    """Their channels lie at every position; features and a map of one position do not."""
    def network(side: int) -> Network:
        return Network(name="net", input=Shape((2, side, side)), layers=(
            Flatten(name="flat"), Dense(name="fc", outputs=8), Concat(name="both", inputs=("fc", "flat")),
            SoftmaxCrossEntropy(name="loss")))

    with pytest.raises(UserError, match=r"layer 'both' concatenates 'flat', a flattened map; flatten behind it"):
        from_network(network(2))
    assert from_network(network(1)).nodes[1].output_channels == 10


def test_rows_of_an_embedding_split_by_columns() -> None:
    graph = from_network(Network(name="net", input=Shape((5,)), layers=(
        Embedding(name="table", rows=100, width=8), Dense(name="fc", outputs=3), SoftmaxCrossEntropy(name="loss"))))
    table, fc, _ = graph.nodes
    assert (table.input_channels, table.output_channels, table.raw_elements) == (100, 8, 40)
    assert (fc.input_channels, fc.input_elements) == (8, 40)


def test_channels_that_do_not_match_are_refused() -> None:
    network = Network(name="net", input=Shape((2, 2, 2)), layers=(
        Flatten(name="flat"), Dense(name="fc", outputs=8), Add(name="add", inputs=("fc", "flat")),
        SoftmaxCrossEntropy(name="loss")))
    with pytest.raises(UserError, match=r"'fc' has 8 and 'flat' has 2"):
        from_network(network)


def test_a_graph_is_checked() -> None:
    node = Node(name="one", kind="dense", variables=(weights(2, 2),), input_channels=2, output_channels=2,
                input_elements=2, raw_elements=2, map_elements=2)
    with pytest.raises(ValueError, match="loss"):
        PlanGraph(name="net", nodes=(node,), edges=())
    loss = Node(name="loss", kind="loss", input_channels=3, output_channels=3, input_elements=3, raw_elements=3,
                map_elements=3)
    with pytest.raises(ValueError, match="2 channels"):
        PlanGraph(name="net", nodes=(node, loss), edges=(Edge(0, 1, 2, 2),))
    with pytest.raises(ValueError, match="before"):
        PlanGraph(name="net", nodes=(node, node, loss), edges=(Edge(1, 0, 2, 2),))
