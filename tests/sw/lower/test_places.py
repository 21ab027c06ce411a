"""What the host writes into die memories and reads from them: tensors, variables, gradients, states, generators."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.networks import random_plan
from tests.support.sessions import MEMORY_WORDS

from plinth.buffers import Buffer
from plinth.errors import UserError
from plinth.lower.places import _sum_rounding
from plinth.lower.tensors import RowNumbers
from plinth.lower.training import TrainingProgram, lower_training
from plinth.network.network import Network, perceptron
from plinth.partition.cuts import ranges_of
from plinth.partition.regions import Lists
from plinth.step.tensors import Part
from plinth.step.weights import WeightSlice
from plinth.update.rule import FORMS, UpdateRule
from plinth_hw.isa.formats import FP32, Q3_12
from plinth_hw.isa.parameters import preset

NETWORK = perceptron("places", (6, 9, 5))


class Memories:
    """What dies hold, by the place's address and base: numbers or words as they are given."""

    def __init__(self, dies: Sequence[int]) -> None:
        self.numbers = dies
        self.held: dict[tuple[int, int, int, int], NDArray[Any]] = {}

    def write(self, die: int, buffer: Buffer, values: NDArray[Any], place: int = 0) -> None:
        assert die in self.numbers and values.shape == (buffer.rows, buffer.columns)
        self.held[die, buffer.base, buffer.address, place] = values.copy()

    write_floats = write

    def collect(self, pieces: Sequence[tuple[int, Buffer]]) -> list[NDArray[Any]]:
        return [self.held.get((die, buffer.base, buffer.address, 0), np.zeros((buffer.rows, buffer.columns)))
                for die, buffer in pieces]

    collect_floats = collect


def lowered(splits: str, die: str = "ndp-tiny", rule: UpdateRule | None = None, batch: int = 7,
            network: Network = NETWORK, **changes: Any) -> TrainingProgram:
    """All layers split alike, on as many dies as that takes."""
    levels = tuple(splits.split())
    plan = random_plan(network, 2 ** len(levels), batch, np.random.default_rng(0))
    allowed = [tuple(level if level in plan.graph.choices(number) else "dp" for level in levels)
               for number in range(len(plan.graph.nodes))]
    return lower_training(network, plan.resharded(splits=tuple(allowed), **changes), preset(die),
                          rule=rule or UpdateRule(), steps=2, memory_words=MEMORY_WORDS)


def variables(program: TrainingProgram) -> dict[str, NDArray[np.float32]]:
    rng = np.random.default_rng(1)
    return {variable.qualified(layer.vector.layer): rng.normal(size=variable.shape).astype(np.float32)
            for layer in program.weights.values() for variable in layer.vector.variables}


@pytest.mark.parametrize(("splits", "copies"), [("", 1), ("dp", 2), ("mp", 1), ("op", 1), ("dp mp", 2), ("op dp", 2)])
def test_variables_are_read_as_they_were_written(splits: str, copies: int) -> None:
    program = lowered(splits)
    memories, values = Memories(range(program.dies)), variables(program)
    program.load(memories, values)
    read = program.parameters_of(memories)
    assert read.keys() == values.keys()
    for name in values:
        np.testing.assert_array_equal(read[name], values[name])
    held = program.copies_of(memories)
    for layer, weights in program.weights.items():
        assert len(held[layer]) == copies
        for copy in held[layer]:
            np.testing.assert_array_equal(copy, weights.vector.join(values))
    # Each die's slice lies in a row; what is handed on to the next step is all of them.
    assert len(program.state_of(memories)) == sum(
        buffer.columns > 0 for weights in program.weights.values() for buffer in weights.buffers)


def test_a_copy_that_differs_is_read_as_it_is() -> None:
    program = lowered("dp")
    memories, values = Memories(range(2)), variables(program)
    program.load(memories, values)
    weights = program.weights["fc1"]
    memories.write(1, weights.buffers[1], np.full((1, weights.buffers[1].columns), 7.0))
    first, second = program.copies_of(memories)["fc1"]
    np.testing.assert_array_equal(first, weights.vector.join(values))
    assert (second == 7).all() and second.shape == first.shape
    np.testing.assert_array_equal(program.parameters_of(memories)["fc1.weights"], values["fc1.weights"])


def test_a_process_writes_its_own_dies_alone() -> None:
    program = lowered("dp mp")
    memories = Memories([2])
    program.load(memories, variables(program))
    program.write_batch(memories, np.ones((7, 6)), np.ones((7, 5)), 1)
    assert {die for die, *_ in memories.held} == {2} and {place for *_, place in memories.held} == {0, 1}


@pytest.mark.parametrize(("splits", "members"), [("", 1), ("dp", 2), ("mp dp", 2), ("dp dp", 4)])
@pytest.mark.parametrize("die", ["ndp-tiny", "fpga-tiny"])
def test_gradients_are_sums_over_rings(splits: str, members: int, die: str) -> None:
    program = lowered(splits, die)
    memories, rng, fmt = Memories(range(program.dies)), np.random.default_rng(2), program.parameters.memory_format
    for layer, gradients in program.gradients.items():
        whole = rng.normal(size=(program.dies, gradients.vector.elements)) * 4
        for number, buffer in enumerate(gradients.buffers):
            if buffer.columns:
                memories.write(number, buffer, gradients.cut(whole[number], number)[None])
        terms = [gradients.cut(whole[number], number) for number in range(program.dies)]
        sums = program.gradients_of(memories)[layer]
        values = gradients.join([np.sum([terms[number] for number in ring], axis=0) for ring in gradients.rings],
                                np.float64)
        sizes = gradients.join([np.sum([np.abs(terms[number]) for number in ring], axis=0)
                                for ring in gradients.rings], np.float64)
        assert {len(ring) for ring in gradients.rings} == {members}
        np.testing.assert_allclose(sums.values, values / program.gradient_scale, rtol=1e-12)
        rounding = (0 * sizes if members == 1 else members * 2.0 ** -24 * sizes if fmt == FP32 else
                    np.maximum(0, sizes - (8 - 2.0 ** -12)))
        np.testing.assert_allclose(sums.rounding, rounding / program.gradient_scale, rtol=1e-12)


def test_sums_of_one_round_nothing() -> None:
    sizes = np.array([0.0, 7.0, 9.0])
    assert (_sum_rounding(FP32, sizes, 1) == 0).all() and (_sum_rounding(Q3_12, sizes, 1) == 0).all()
    assert _sum_rounding(FP32, sizes, 3).tolist() == (3 * 2.0 ** -24 * sizes).tolist()
    assert _sum_rounding(Q3_12, sizes, 2).tolist() == [0, 0, 1 + 2.0 ** -12]


@pytest.mark.parametrize("splits", ["", "dp", "mp", "dp op"])
def test_batches_lie_where_their_dies_have_them(splits: str) -> None:
    program = lowered(splits)
    memories, rng = Memories(range(program.dies)), np.random.default_rng(3)
    x, targets = rng.normal(size=(7, 6)), rng.normal(size=(7, 5))
    program.write_batch(memories, x, targets)
    for tensor in program.inputs:
        np.testing.assert_array_equal(tensor.gather(memories)[:, 0], x.astype(np.float32))
    np.testing.assert_array_equal(program.targets.gather(memories)[:, 0], targets.astype(np.float32))
    for name, tensor in program.maps.items():
        tensor.spread(rng.normal(size=(tensor.samples, tensor.positions, tensor.channels)), memories)
        assert np.abs(program.maps_of(memories)[name]).min() > 0
    # Dies without samples have nothing.
    few = lowered("dp", batch=4, lists=(Lists(samples=ranges_of((0, 4))),) * 3)
    memories = Memories(range(2))
    few.write_batch(memories, x[:4], targets[:4])
    assert {die for die, *_ in memories.held} == {1}


@pytest.mark.parametrize(("x", "targets", "place", "reason"), [
    ((7, 5), (7, 5), 0, "input must be real numbers of shape [7, 1, 6], not float64 [7, 5]"),
    ((6, 7), (7, 5), 0, "input must be real numbers of shape [7, 1, 6], not float64 [6, 7]"),
    ((7, 6), (7,), 0, "target must be real numbers of shape [7, 1, 5], not float64 [7]"),
    ((7, 6), (7, 5), 2, "there is no place 2 of a batch; give one from 0 to 1")])
def test_batches_of_other_shapes_are_refused(x: tuple[int, ...], targets: tuple[int, ...], place: int, reason: str
                                             ) -> None:
    program = lowered("dp")
    with pytest.raises(UserError, match=re.escape(reason)):
        program.write_batch(Memories(range(2)), np.ones(x), np.ones(targets), place)


def test_batches_of_no_numbers_are_refused() -> None:
    program, targets = lowered(""), np.ones((7, 5))
    for x, there in ((np.full((7, 6), "1"), "<U1"), (np.ones((7, 6), complex), "complex128"),
                     ([[1.0] * 6, [1.0]], "rows of different lengths"), (None, "object []")):
        with pytest.raises(UserError, match=rf"^input must be real numbers .*, not {re.escape(there)}"):
            program.write_batch(Memories(range(1)), x, targets)  # type: ignore[arg-type]


def test_vectors_beside_weights_of_other_shapes_are_refused() -> None:
    program = lowered("dp", "fpga-tiny", FORMS["momentum wide"])
    kept = {name: dict.fromkeys(program.kept["fc1"], values) for name, values in variables(program).items()}
    program.load_kept(Memories(range(2)), kept)
    vector = next(iter(program.kept["fc1"]))
    for wrong, there in (({}, "missing"), ({vector: np.ones(3)}, r"of shape \[3\]")):
        with pytest.raises(UserError, match=rf"variable 'fc1.weights' is {there}; give an array of shape \[6, 9\]"):
            program.load_kept(Memories(range(2)), kept | {"fc1.weights": wrong})


@pytest.mark.parametrize(("name", "splits"), [("sgd wide", ""), ("momentum wide", "dp"), ("adagrad", "dp dp")])
def test_states_are_read_as_they_were_written(name: str, splits: str) -> None:
    """Each die has what it owns, once in a ring."""
    program = lowered(splits, "fpga-tiny", FORMS[name])
    memories, rng = Memories(range(program.dies)), np.random.default_rng(4)
    kept = {variable: {vector: rng.integers(-99, 99, values.shape).astype(np.float32)
                       for vector in program.kept["fc1"]} for variable, values in variables(program).items()}
    program.load_kept(memories, kept)
    read = program.kept_of(memories)
    assert read.keys() == kept.keys()
    for variable, vectors in kept.items():
        assert read[variable].keys() == vectors.keys()
        for vector, values in vectors.items():
            np.testing.assert_array_equal(read[variable][vector], values)
    pieces = [piece for vectors in program.kept.values() for place in vectors.values() for piece in place.pieces()]
    assert sum(buffer.rows * buffer.columns for _, buffer in pieces) == sum(
        values.size for vectors in kept.values() for values in vectors.values())
    assert len(program.state_of(memories)) == len(pieces) + sum(
        buffer.columns > 0 for weights in program.weights.values() for buffer in weights.buffers)


def test_generators_have_their_dies_states() -> None:
    program = lowered("dp", "fpga-tiny", FORMS["sgd stochastic"])
    memories, states = Memories(range(2)), (0x12345678, 0xFEDCBA98)
    program.write_generators(memories, states)
    assert program.generators_of(memories) == states and len(memories.held) == 2
    # Low halves come first, of words of 16 bits.
    assert memories.held[0, program.generators[0].base, program.generators[0].address, 0].view(np.uint16).tolist() == [
        [0x5678, 0x1234]]
    without = lowered("dp", "fpga-tiny")
    without.write_generators(memories, states)
    assert without.generators_of(memories) == () and len(memories.held) == 2


def test_constants_are_on_every_die() -> None:
    program = lowered("dp")
    place = Buffer("ones", 900, 2, 3, 3)
    program = replace(program, constants=[(place, ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0)))])
    memories = Memories(range(2))
    program.load(memories, variables(program))
    for die in range(2):
        assert memories.held[die, 0, 900, 0].tolist() == [[1, 2, 3], [4, 5, 6]]


def test_rows_of_other_dies_are_spare_ones_in_turn() -> None:
    """Of a table of ten rows the second die has those from 4 to 6, and two spare ones behind them."""
    part = Part(0, 6, 0, 1, 1)
    slices = [WeightSlice(1, first, count, 0, 5, bias=False, spare=spare) for first, count, spare in (
        (0, 10, 0), (4, 3, 2))]
    buffers = [Buffer("rows", die * 100, 6, 1, 1) for die in range(2)]
    tensor = RowNumbers("rows", 6, 1, 1, [part, part], buffers, slices=slices, rows=10)
    memories = Memories(range(2))
    tensor.spread(np.array([4, 3, 6, 7, 5, 0]), memories)
    assert memories.held[1, 0, 100, 0].ravel().tolist() == [0, 4, 2, 4, 1, 4]
    assert memories.held[0, 0, 0, 0].ravel().tolist() == [4, 3, 6, 7, 5, 0]
    assert memories.held[0, 0, 0, 0].dtype == np.uint32
    with pytest.raises(UserError, match=r"^rows must be row numbers from 0 to 9, not 10, which stands at posi.* 0 "):
        tensor.spread(np.array([4, 3, 10, 7, -1, 0]), memories)
