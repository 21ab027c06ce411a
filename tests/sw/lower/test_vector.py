"""Vector programs: the direction of lanes, what clears a place, and what they claim to touch."""

import numpy as np
import pytest

from plinth.driver.program import Buffer
from plinth.lower.builder import GraphBuilder
from plinth.lower.step import StepBuilder
from plinth.lower.vector import VectorProgram
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.tasks import Engine, TransferOperation, VectorOp
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
    assert program.instructions[-1]["lanes_along_rows"] == along_rows


@pytest.mark.parametrize("dst", ["row", "column"])
def test_lanes_of_a_reduction_lie_along_what_is_left(dst: str) -> None:
    for op in (VectorOp.SUM, VectorOp.MAXIMUM):
        program = VectorProgram(TINY, 8, 8)
        program.load("a", Buffer("a", 0, 8, 8, 8))
        program.run(op, "dst", "a", shape=dst)
        assert program.instructions[-1]["lanes_along_rows"] == (dst == "column")


def _step() -> tuple[StepBuilder, GraphBuilder, list[Buffer]]:
    step = StepBuilder(TINY, 1, False)
    before, place, after = (step.place(name, [(3, 700)])[0] for name in ("before", "place", "after"))
    return step, step.builders[0], [before, place, after]


def test_a_place_is_cleared_whatever_lies_there_and_nothing_beside_it() -> None:
    step, builder, (before, place, after) = _step()
    step.zero(builder, "clear", place)
    memory = np.full(after.address + after.words + 8, 0x7FC12345, dtype=np.uint32)
    for task in builder.finish(record=False):
        vector.execute(memory, task.words[8:], [0] * 16, beat_words=TINY.beat_words,
                       buffer_words=TINY.vector_buffer_words)
    changed = np.flatnonzero(memory != 0x7FC12345)
    assert changed.tolist() == list(range(place.address, place.address + place.words))
    assert not memory[changed].any()
    assert before.address + before.words <= place.address and place.address + place.words <= after.address


def test_clearing_waits_for_readers_of_what_it_clears() -> None:
    """A copy reads the last word: of the tasks that clear the place the last one waits for it."""
    step, builder, (before, place, _) = _step()
    for buffer in (before, place.part("end", place.words - 1, 1, 1)):
        builder.add("copy", Engine.TRANSFER, TransferOperation.COPY, {}, reads=[buffer], writes=[])
    first = len(builder._pending)
    step.zero(builder, "clear", place)
    waits = [header["wait_enable"] for _, _, header, _ in builder._pending[first:]]
    assert len(waits) > 2 and waits == [0] * (len(waits) - 1) + [1]


def test_the_place_that_tasks_join_in_is_their_own() -> None:
    step = StepBuilder(TINY, 2, False)
    for builder in step.builders:
        join = builder.buffers["join"]
        assert join.words == 2
        other = builder.allocate("other", 1, 5)
        assert other.address >= join.address + join.words
