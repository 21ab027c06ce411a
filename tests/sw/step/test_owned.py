"""What members of a ring own of a message, and where what they keep of it lies."""

import numpy as np
import pytest

from plinth.array.array import ring
from plinth.buffers import Buffer
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.plan.planners.simple import data
from plinth.sharding import Sharding
from plinth.step.build import step_of
from plinth.step.owned import _blocks
from plinth.step.updates import StateUpdate
from plinth.update.kinds import ADAGRAD, MOMENTUM
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import preset
from plinth_sim.golden.collective import owners


@pytest.mark.parametrize("words", [1, 63, 64, 65, 128, 200, 513, 1000])
@pytest.mark.parametrize("members", [1, 2, 3, 8])
def test_members_own_what_the_collective_says(words: int, members: int) -> None:
    """Every word once, by its owner; what is kept lies dense."""
    chunk, first = 64, 32
    who = owners(words, members, chunk)
    seen = np.full(first + words, -1)
    for index in range(members):
        kept = np.zeros(words + chunk, dtype=bool)
        for block in _blocks(first, words, index, members, chunk, 0):
            block.view(seen)[...] = index
            lies = block.beside(Buffer("state", 0, 1, len(kept), len(kept)))
            assert not kept[lies.address:lies.end].any()
            kept[lies.address:lies.end] = True
            assert block.of(Buffer("w", 0, 1, first + words, first + words)).words == (
                (block.rows - 1) * block.stride + block.columns)
        assert kept[:int((who == index).sum())].all() and kept.sum() == (who == index).sum()
    assert (seen[:first] == -1).all()
    np.testing.assert_array_equal(seen[first:], who)


@pytest.mark.parametrize("dies", [1, 2, 3, 8])
@pytest.mark.parametrize(("name", "rule"), [("ndp-demo", UpdateRule(MOMENTUM)), ("fpga-demo", UpdateRule(ADAGRAD))])
def test_what_is_kept_begins_with_beats_from_the_first_word_on(name: str, rule: UpdateRule, dies: int) -> None:
    """Of all pieces of a layer, one behind the other, within the room for it."""
    array, parameters, graph = ring(dies, preset=name), preset(name), from_network(NETWORKS["digits-cnn"])
    step = step_of(Sharding(graph=graph, splits=data(graph, array.levels), batch=16, factors=array.factors, array=array,
                            rule=rule), parameters)
    updates = {operation.node.name: operation.owned for operation in step.operations
               if isinstance(operation, StateUpdate)}
    assert len(updates) == len(graph.weighted)
    for owned in updates.values():
        for die in range(dies):
            ends = [0]
            for _, block in owned.blocks(die):
                assert block.kept % parameters.beat_words == 0 and 0 <= block.kept - ends[-1] < parameters.beat_words
                ends.append(block.kept + block.rows * block.columns)
            assert ends[-1] <= owned.words()
            assert any(block.kept == 0 for _, block in owned.blocks(die)) or len(ends) == 1
