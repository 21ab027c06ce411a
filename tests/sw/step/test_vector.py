"""Vector programs: the direction of lanes, what clears a place, and what they claim to touch."""

from dataclasses import dataclass

import numpy as np
import pytest

from plinth.buffers import Buffer
from plinth.lower.builder import GraphBuilder
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.plan.planners.simple import data
from plinth.sharding import Sharding
from plinth.step.build import step_of
from plinth.step.granularity import zero_step
from plinth.step.operations import Clear
from plinth.step.tasks import Vector
from plinth.step.vector import VectorProgram
from plinth_hw.isa.operations import Engine, TransferOperation, VectorOperation
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.vector_body import VectorOp
from plinth_sim.golden import vector

TINY = preset("ndp-tiny")


@pytest.mark.parametrize("rows, columns, dst, a, along_rows", [
    (8, 40, "full", "full", False), (40, 2, "full", "full", True), (8, 9, "full", "full", True),
    (8, 40, "column", "element", True), (8, 40, "element", "column", True), (8, 40, "column", "column", True),
    (8, 40, "row", "element", False), (40, 2, "row", "row", False), (40, 2, "element", "row", False),
    (40, 2, "row", "full", True), (8, 40, "element", "element", False)])
def test_lanes_run_where_fewer_groups_are_needed(rows: int, columns: int, dst: str, a: str, along_rows: bool) -> None:
    program = VectorProgram(TINY, rows, columns)
    program.load("a", Buffer("a", 0, rows, columns, columns), a)
    program.run(VectorOp.COPY, "dst", "a", shape=dst)
    assert program.body()["program"][-1]["lanes_along_rows"] == along_rows


@pytest.mark.parametrize("dst", ["row", "column"])
def test_lanes_of_a_reduction_lie_along_what_is_left(dst: str) -> None:
    for op in (VectorOp.SUM, VectorOp.MAXIMUM):
        program = VectorProgram(TINY, 8, 8)
        program.load("a", Buffer("a", 0, 8, 8, 8))
        program.run(op, "dst", "a", shape=dst)
        assert program.body()["program"][-1]["lanes_along_rows"] == (dst == "column")


def _places() -> tuple[GraphBuilder, list[Buffer]]:
    builder = GraphBuilder(TINY)
    return builder, [builder.allocate(name, 3, 700, dense=True) for name in ("before", "place", "after")]


@dataclass(frozen=True)
class Here:
    """A place of every die."""

    place: Buffer
    packed = False

    def buffer(self, die: int) -> Buffer:
        return self.place


def _clear(builder: GraphBuilder, place: Buffer) -> None:
    join = builder.buffers.get("join") or builder.allocate("join", 1, 2)
    for task in Clear("clear", None, TINY, Here(place), join).tasks(0):
        assert isinstance(task.work, Vector)
        builder.add(task.name, task.engine, VectorOperation.PROGRAM, task.work.program.body(), reads=task.reads,
                    writes=task.writes)


def test_a_place_is_cleared_whatever_lies_there_and_nothing_beside_it() -> None:
    builder, (before, place, after) = _places()
    _clear(builder, place)
    memory = np.full(builder.end + 8, 0x7FC12345, dtype=np.uint32)
    for task in builder.finish(record=False):
        vector.execute(memory, task.words[8:], [0] * 16, beat_words=TINY.beat_words,
                       buffer_words=TINY.vector_buffer_words)
    changed = np.flatnonzero(memory != 0x7FC12345)
    assert changed.tolist() == list(range(place.address, place.address + place.words))
    assert not memory[changed].any()
    assert before.address + before.words <= place.address and place.address + place.words <= after.address


def test_clearing_waits_for_readers_of_what_it_clears() -> None:
    """A copy reads the last word: of the tasks that clear the place the last one waits for it."""
    builder, (before, place, _) = _places()
    for buffer in (before, place.part("end", place.words - 1, 1, 1)):
        builder.add("copy", Engine.TRANSFER, TransferOperation.COPY, {}, reads=[buffer], writes=[])
    first = len(builder._pending)
    _clear(builder, place)
    waits = [header["wait_enable"] for _, _, header, _ in builder._pending[first:]]
    assert len(waits) > 2 and waits == [0] * (len(waits) - 1) + [1]


def test_the_place_that_tasks_join_in_is_their_own() -> None:
    graph = from_network(NETWORKS["digits-mlp"])
    step = step_of(Sharding(graph=graph, splits=data(graph, 1), batch=8), TINY)
    assert step.places[0].name == step.any.place == "join" and step.places[0].words == 2
    assert all(place.name != "join" for place in step.places[1:])


@pytest.mark.parametrize("name", ["ndp-tiny", "ndp-demo", "ndp-paper"])
def test_zeros_fill_the_scratchpad_or_the_fields_of_a_task(name: str) -> None:
    """A half of the scratchpad but for a beat, or as many whole beats as 16 bits count."""
    parameters = preset(name)
    beat = parameters.beat_words
    assert zero_step(parameters) == min(parameters.vector_buffer_words - beat, 65535 // beat * beat)
