"""What plans send forms no circle, or is refused."""

import pytest

from plinth.array.array import Array
from plinth.errors import UserError
from plinth.lower.builder import GraphBuilder
from plinth.lower.program import ring_setup
from plinth.lower.traffic import traffic
from plinth.lower.training import lower_training
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.partition.regions import Splits
from plinth.plan.planning import given_plan
from plinth.update.rule import UpdateRule
from plinth_hw.isa.operations import CollectiveOperation, Engine, TransferOperation
from plinth_hw.isa.parameters import preset

#: A ring whose ports do not pair: who sends further than to a neighbour turns.
TURNING = Array(name="turning", topology="links", dies=6, preset="ndp-tiny",
                wiring=tuple((die, 0, (die + 1) % 6, 1 if die % 2 else 2) for die in range(6)))


def lower(array: Array, *splits: str) -> None:
    """The digits perceptron on an array, all layers split alike."""
    graph = from_network(NETWORKS["digits-mlp"])
    vectors: Splits = tuple(tuple(splits) if node.weighted else ("dp",) * len(splits) for node in graph.nodes)
    lower_training(NETWORKS["digits-mlp"], given_plan(graph, array, vectors, 12), array.die_parameters(),
                   rule=UpdateRule(), steps=1, memory_words=1 << 20)


def test_a_plan_whose_packets_form_a_circle_is_refused_with_the_circle() -> None:
    """Rings of neighbours send over one link each; tiles to all others go round."""
    lower(TURNING, "dp", "dp")
    with pytest.raises(UserError, match=r"^array 'turning' cannot run this plan: packets of class 3 would wait for "
                                        r"each other for ever: die \d by port \d, .*, back to die \d; give routes"):
        lower(TURNING, "mp", "mp")
    lower(Array(name="turning", topology="links", dies=6, preset="ndp-tiny",
                wiring=tuple((die, 0, (die + 1) % 6, 1) for die in range(6))), "mp", "mp")


def test_traffic_is_that_of_the_descriptors() -> None:
    """Advances, chunks by block and by the ring as it stands then, tiles and what several dies get."""
    parameters = preset("ndp-tiny-winograd")
    setup, step = ring_setup(parameters, [0, 2], 0, 1), GraphBuilder(parameters)
    place = step.allocate("place", 1, 64)
    copy = {"source": place.pointer, "destination": place.pointer, "columns": 1, "rows": 1, "planes": 1}
    reduce = {"source": place.pointer, "destination": place.pointer, "words": 8, "group": 1}
    step.add("sum", Engine.COLLECTIVE, CollectiveOperation.REDUCE_SCATTER, reduce | {"message": 3})
    ring_setup(parameters, [0, 5], 0, 1, step)
    step.add("gather", Engine.COLLECTIVE, CollectiveOperation.ALL_GATHER, reduce | {"message": 4})
    step.add("own", Engine.TRANSFER, TransferOperation.COPY, copy, remote=(7, 1))
    step.add("tile", Engine.TRANSFER, TransferOperation.ADD, copy | {"remote": 1, "destination_die": 3})
    step.add("tiles", Engine.TRANSFER, TransferOperation.TRANSFORM, {
        "remote": 1, "destination_die": 1, "members": 3, "member_step": 4})
    assert traffic([[setup, step]]) == {
        2: {(0, 2)}, 1: {(0, 5)}, 0: {(0, 7)}, 3: {(0, 3), (0, 1), (0, 5), (0, 9)}}
