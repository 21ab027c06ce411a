"""Kinds of layers, and what builds the operations of each: those of nodes, and those behind a node's sum."""

from plinth.partition.graph import LOSS, Node
from plinth.step.layers.activation import GeluLayer, LeakyReluLayer, Relu6Layer, ReluLayer, SigmoidLayer, TanhLayer
from plinth.step.layers.affine import AffineLayer
from plinth.step.layers.concat import ConcatLayer
from plinth.step.layers.embedding import EmbeddingLayer
from plinth.step.layers.epilogue import EpilogueLayer, narrow_map
from plinth.step.layers.junction import AddLayer, JoinLayer
from plinth.step.layers.loss import SoftmaxLayer, SquaresLayer
from plinth.step.layers.node import NodeLayer
from plinth.step.layers.pool import MaxPoolLayer, MeanPoolLayer
from plinth.step.layers.products import ProductLayer
from plinth.step.layers.served_embedding import ServedEmbedding
from plinth.step.layers.sparse import SparseLayer
from plinth.step.layers.winograd import WinogradLayer
from plinth.step.step import Step

#: By kind of layer what builds the operations of a node; ``winograd`` is a convolution by Winograd tiles.
NODES: dict[str, type[NodeLayer]] = {
    "dense": ProductLayer, "sparse": SparseLayer, "convolution": ProductLayer, "winograd": WinogradLayer,
    "embedding": EmbeddingLayer, "affine": AffineLayer, "add": AddLayer, "join": JoinLayer, "concat": ConcatLayer,
    "softmax-cross-entropy": SoftmaxLayer, "mean-squared-error": SquaresLayer}
#: By kind of layer what builds the operations of one behind a node's sum.
EPILOGUES: dict[str, type[EpilogueLayer]] = {
    "relu": ReluLayer, "leaky-relu": LeakyReluLayer, "relu6": Relu6Layer, "gelu": GeluLayer, "tanh": TanhLayer,
    "sigmoid": SigmoidLayer, "max-pool": MaxPoolLayer, "mean-pool": MeanPoolLayer}


def node_kind(node: Node) -> type[NodeLayer]:
    """What builds the operations of a node."""
    if node.kind == LOSS:
        return NODES[node.epilogue[0].kind] if node.epilogue else SoftmaxLayer
    return NODES[node.kind if node.tiling is None else "winograd"]


def accumulates(node: Node) -> bool:
    """Whether a node's gradient can be added to that of the micro-batches before."""
    return not node.weighted or node_kind(node).accumulates


def epilogue_of(step: Step, number: int) -> list[EpilogueLayer]:
    """What builds the operations of layers behind a node's sum."""
    node, packed = step.graph.nodes[number], narrow_map(step, number)
    kinds = [EPILOGUES[layer.kind] for layer in node.epilogue if node.kind != LOSS]
    images = any(kind.by_images for kind in kinds)
    return [kind(step, node, layer, packed, images) for kind, layer in zip(kinds, node.epilogue, strict=False)]


def layers_of(step: Step) -> list[NodeLayer]:
    """What builds the operations of each node, by number."""
    layers: list[NodeLayer] = []
    for number, node in enumerate(step.graph.nodes):
        kind = node_kind(node) if step.sharding.row_sync(number) is None else ServedEmbedding
        layers.append(kind(step, number, layers, epilogue_of(step, number)))
    return layers
