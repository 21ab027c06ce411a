"""A lowered step whose tiles all go round a ring one way, and its chunks the shorter way, on RTL."""

from dataclasses import replace

import numpy as np
import pytest

from plinth.array.array import ring
from plinth.driver.driver import Driver
from plinth.lower.training import lower_training
from plinth.network.parameters import initial_parameters
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.plan.planning import given_plan
from plinth.runtime.arrays import cosim_array, golden_array
from plinth.train.data import digits
from plinth.train.session import Session
from plinth.update.rule import UpdateRule
from plinth_hw.isa import layout
from plinth_hw.isa.descriptors import HEADER_WORDS
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.transfer_bodies import TransferBody
from plinth_hw.isa.update_bodies import CollectiveBody

pytestmark = pytest.mark.long

DIES, BATCH, MEMORY_WORDS = 4, 16, 1 << 20


def test_tiles_and_chunks_of_a_step_take_their_own_routes() -> None:
    array = ring(DIES, preset="ndp-tiny-routes")
    array = replace(array, tile_routes=tuple(
        tuple(None if die == other else 1 for other in range(DIES)) for die in range(DIES)))
    network, parameters = NETWORKS["digits-mlp"], array.die_parameters()
    graph = from_network(network)
    splits = tuple(("mp" if node.weighted else "dp", "dp") for node in graph.nodes)
    plan = given_plan(graph, array, splits, BATCH)
    program = lower_training(network, plan, parameters, rule=UpdateRule(rate=0.1), steps=1, memory_words=MEMORY_WORDS)
    driver, golden = (Driver(dies, program, memory_words=MEMORY_WORDS, links=array) for dies in (
        cosim_array(parameters, DIES, MEMORY_WORDS, links=array.directed())[0],
        golden_array(parameters, DIES, MEMORY_WORDS)))
    session = Session(network, digits(), program, driver, golden, None, BATCH, 0)
    session.load_parameters(initial_parameters(network, 0))
    driver.clear_counters()
    next(iter(session.epoch(0)))
    assert session.equal
    words = np.zeros((DIES, 2), dtype=int)
    for die, step in enumerate(program.step):
        for task in step.tasks:
            body = task.words[HEADER_WORDS:]
            if task.engine is Engine.TRANSFER and (tile := layout.unpack(TransferBody, body)).remote:
                for hop in range((die - tile.destination_die) % DIES):
                    words[(die - hop) % DIES, 1] += tile.columns * tile.rows * tile.planes
            if task.engine is Engine.COLLECTIVE:
                # Rings of two, of neighbours: a member sends as many words as the message has, the shorter way.
                words[die, die % 2] += layout.unpack(CollectiveBody, body).words
    counted = np.array([driver.link_words(die) for die in range(DIES)])
    assert (counted == words).all() and words[:, 1].all() and words[::2, 0].all()
