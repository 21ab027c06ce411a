"""What operations of a step are for, as pictures and traces tell it apart."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from plinth.array.array import ring
from plinth.network.layers import Dense, Embedding, Shape, SoftmaxCrossEntropy, Sparse
from plinth.network.network import Network
from plinth.network.sparse.pattern import SparsePattern
from plinth.network.winograd import with_tiles
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.sharding import Sharding
from plinth.simulate.phases import phase
from plinth.step.build import step_of
from plinth.update.rule import FORMS, PLAIN, UpdateRule
from plinth_hw.isa.parameters import preset

EMBEDDED = Network(name="embedded", input=Shape((5,)), layers=(
    Embedding(name="words", rows=20, width=4), Dense(name="fc", outputs=3), SoftmaxCrossEntropy(name="loss")))
SPARSE = Network(name="pattern", input=Shape((8,)), layers=(
    Sparse(name="first", pattern=SparsePattern.of(csr_array(np.eye(8)))),
    Sparse(name="blocks", pattern=SparsePattern.of(csr_array(np.ones((4, 8))))), SoftmaxCrossEntropy(name="loss")))


def phases(network: Network, die: str, rule: UpdateRule = PLAIN) -> dict[str, str]:
    """By name of an operation, on four dies in a ring."""
    graph = from_network(network)
    splits = tuple(("dp", "ep") if node.tiling else ("dp", "dp") for node in graph.nodes)
    step = step_of(Sharding(graph=graph, splits=splits, batch=8, array=ring(4), rule=rule), preset(die))
    return {operation.name: phase(step, number, operation) for number, operation in enumerate(step.operations)}


@pytest.mark.parametrize(("network", "die", "rule", "wanted"), [
    (NETWORKS["digits-cnn"], "ndp-demo", PLAIN, {
        "conv1.fprop": "fprop", "conv2.bprop": "bprop", "conv1.update_grad": "weight gradient"}),
    # Maps of errors are made of tiles by sums, as their windows overlap: no gradient of weights.
    (with_tiles(NETWORKS["digits-cnn"], 2, "winograd"), "ndp-demo-winograd", PLAIN, {
        "conv2.untile": "fprop", "conv2.error_untile": "bprop", "conv2.error_scatter": "transfer",
        "conv2.bprop": "bprop", "conv2.update_grad": "weight gradient"}),
    (with_tiles(NETWORKS["digits-cnn"], 2, None), "ndp-demo-winograd", PLAIN, {
        "conv2.elements": "fprop", "conv2.kernel_grad": "weight gradient"}),
    (SPARSE, "ndp-demo", PLAIN, {
        "blocks.fprop": "fprop", "blocks.bprop": "bprop", "blocks.update_grad": "weight gradient"}),
    (EMBEDDED, "ndp-demo", PLAIN, {"words.gather": "fprop", "words.scatter": "weight gradient"}),
    (EMBEDDED, "ndp-demo", FORMS["adagrad"], {"fc.update": "reduction", "fc.reduce_scatter": "reduction"})])
def test_operations_are_for_what_they_do(network: Network, die: str, rule: UpdateRule, wanted: dict[str, str]) -> None:
    by_operation = phases(network, die, rule)
    assert {name: by_operation.get(name) for name in wanted} == wanted, sorted(by_operation)
