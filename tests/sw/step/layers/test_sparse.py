"""Sparse layers: trained on golden dies and in numpy, against float64, with the words of their hypergraph."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import plinth
from plinth.array.array import ring
from plinth.errors import UserError
from plinth.network.layers import Dense, MeanSquaredError, Relu, Sigmoid, SoftmaxCrossEntropy, Sparse
from plinth.network.network import Network
from plinth.network.sparse.irregular import IrregularNet
from plinth.network.sparse.layers import write_sparse
from plinth.network.sparse.pattern import SparsePattern
from plinth.network.sparse.pattern_file import read_patterns, write_patterns
from plinth.network.sparse.radix_net import RadixNet
from plinth.partition.exchanges import exchange_words
from plinth.partition.hypergraph.owners import SparsePartition
from plinth.partition.hypergraph.volume import traffic
from plinth.report.step import operation_rows, step_of_plan, step_report
from plinth.simulate.step import check_memory
from plinth.step.build import step_of
from plinth.step.layers.sparse import SparseProducts
from plinth.step.pairs import words_between

#: Widths of the irregular networks.
WIDTHS = (40, 32, 24, 20)


def radix(layers: int = 3, neurons: int = 64) -> list[csr_array]:
    source = RadixNet(neurons=neurons, layers=layers, seed=1)
    return [source.rows(layer, np.arange(neurons)) for layer in range(layers)]


def irregular(density: float = 0.2) -> list[csr_array]:
    source = IrregularNet(widths=WIDTHS, density=density, seed=2)
    return [source.rows(layer, np.arange(rows)) for layer, rows in enumerate(WIDTHS[1:])]


def dense_parts(neurons: int = 128, layers: int = 2) -> list[csr_array]:
    """Dense parts of rows and columns at random, which overlap."""
    draws = np.random.default_rng(8)
    matrices = []
    for _ in range(layers):
        matrix = np.zeros((neurons, neurons), np.float32)
        for _ in range(neurons // 16):
            matrix[np.ix_(draws.permutation(neurons)[:16], draws.permutation(neurons)[:24])] = 0.25
        matrices.append(csr_array(matrix))
    return matrices


def with_gaps() -> list[csr_array]:
    """Rows and columns without entries, and a row of all."""
    first = irregular()
    first[1] = first[1].tolil()
    first[1][3] = 0
    first[1][:, 5] = 0
    first[1][7] = 0.25
    return [csr_array(matrix, dtype=np.float32) for matrix in first]


def network(patterns: Sequence[csr_array], *, bias: bool = True, classes: bool = False) -> Network:
    layers: list = []
    for number, pattern in enumerate(patterns):
        pattern.sum_duplicates()
        layers += [Sparse(name=f"fc{number}", pattern=SparsePattern.of(pattern), bias=bias),
                   (Relu if classes else Sigmoid)(name=f"act{number}")]
    if classes:
        layers += [Dense(name="out", outputs=5), SoftmaxCrossEntropy(name="loss")]
    else:
        layers.append(MeanSquaredError(name="loss"))
    return Network(name="sparse", input=(patterns[0].shape[1],), layers=tuple(layers))


def samples(definition: Network, count: int = 24) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(3)
    x = draws.random((count, definition.input.elements)).astype(np.float32)
    if definition.layers[-1].kind == "mean-squared-error":
        last = [layer for layer in definition.layers if isinstance(layer, Sparse)][-1].pattern.rows
        return x, draws.random((count, last)).astype(np.float32)
    return x, draws.integers(0, 5, count)


CASES = {"radix": network(radix()), "irregular": network(irregular()), "gaps": network(with_gaps(), bias=False),
         "classes": network(irregular(0.5), classes=True), "parts": network(dense_parts())}


@pytest.mark.parametrize("dies", [1, 2, 4])
@pytest.mark.parametrize("planner", ["hypergraph", "data", "random-rows", "model"])
@pytest.mark.parametrize("name", CASES)
def test_golden_dies_and_numpy_train_as_float64_does(name: str, planner: str, dies: int) -> None:
    definition = CASES[name]
    plan = plinth.plan(definition, f"ring-{dies}", planner=planner, batch=12)
    x, y = samples(definition)
    found = {device: plinth.train(plan, x, y, device=device, steps=3, rate=0.5) for device in ("golden", "numpy")}
    # Training compares each step with the float64 reference, and fails where it is off.
    for result in found.values():
        assert result.report["failure"] is None and result.report["checked_steps"] == 3
    for variable, values in found["golden"].parameters.items():
        np.testing.assert_allclose(values, found["numpy"].parameters[variable], rtol=0, atol=1e-5)


@pytest.mark.parametrize("planner", ["model", "random-rows"])
@pytest.mark.parametrize("layer", [0, 1])
def test_dies_without_entries_train(planner: str, layer: int) -> None:
    patterns = irregular()
    rows = patterns[layer].tolil()
    rows[:rows.shape[0] - 1] = 0  # the last row's owner has all entries
    patterns[layer] = csr_array(rows, dtype=np.float32)
    definition = network(patterns)
    plan = plinth.plan(definition, "ring-4", planner=planner, batch=12)
    for device in ("golden", "numpy"):
        report = plinth.train(plan, *samples(definition), device=device, steps=2, rate=0.5).report
        assert report["failure"] is None and report["checked_steps"] == 2


@pytest.mark.parametrize("planner", ["hypergraph", "random-rows"])
@pytest.mark.parametrize("name", ["radix", "irregular", "gaps"])
def test_words_are_those_of_the_hypergraph(name: str, planner: str) -> None:
    definition, dies, batch = CASES[name], 4, 12
    plan = plinth.plan(definition, f"ring-{dies}", planner=planner, batch=batch)
    sharding = plan.plan.sharding
    patterns = [layer.pattern.matrix() for layer in definition.layers if isinstance(layer, Sparse)]
    owners = [np.zeros(patterns[0].shape[1], np.int64)]
    for pattern, lists in zip(patterns, sharding.lists, strict=False):
        owner = np.full(pattern.shape[0], -1)
        for die, part in enumerate(lists.outputs):
            for first, end in part:
                owner[first:end] = die
        owners.append(owner)
    words = 0
    for number, pattern in enumerate(patterns[1:], 1):
        dense = pattern.toarray() != 0
        for column, owner in enumerate(owners[number]):
            words += 2 * batch * len(set(owners[number + 1][dense[:, column]].tolist()) - {owner})
    moved = sum(exchange_words(exchange, batch, sharding.factors) for exchange in sharding.exchanges)
    counted = traffic(patterns, SparsePartition(dies, owners[0], tuple(owners[1:])), first_layer="none")
    assert moved == words == batch * counted.words


@pytest.mark.parametrize("name", CASES)
def test_multiply_adds_of_entries_and_of_fill_are_told_apart(name: str) -> None:
    definition, batch = CASES[name], 12
    plan = plinth.plan(definition, "ring-4", planner="hypergraph", batch=batch)
    step = step_of_plan(plan.plan)
    report = step_report(plan.plan, step)
    for operation in (operation for operation in step.operations if isinstance(operation, SparseProducts)):
        (row,) = (row for row in report["operations"] if row["operation"] == operation.name)
        covers = [operation.weights.cover(die) for die in range(4)]
        assert row["useful_macs_range"] == [batch * some(cover.nonzeros for cover in covers) for some in (min, max)]
        assert row["macs_range"] == [batch * some(cover.packed for cover in covers) for some in (min, max)]
        for die, cover in enumerate(covers):
            assert operation.fill(die) == batch * (cover.packed - cover.nonzeros)
            for most in (1, 3):
                shares = [task.share for task in operation.tasks(die, most) if task.share is not None]
                assert len(shares) <= most and sum(share.useful for share in shares) == batch * cover.nonzeros
                issued = sum(share.samples * share.rows * share.outputs for share in shares)
                assert issued == pytest.approx(batch * cover.packed, rel=0.1)
    cells = {operation: macs for operation, *_, macs in operation_rows(report)}
    assert ("useful" in cells["fc1.fprop"]) == (name != "radix")


def test_blocks_of_layers_that_follow_each_other_read_rows_that_lie_in_a_row() -> None:
    """Of a base of 256 neurons on one die: blocks of offset d are in d chains, each of which is a ring that is cut at
    one place, but for the last layer, whose chains are two classes each."""
    plan = plinth.plan(network(radix(4, 256)), "ring-1", planner="data", batch=16)
    step = step_of_plan(plan.plan)
    gathers, scatters = {}, {}
    for operation in (operation for operation in step.operations if isinstance(operation, SparseProducts)):
        names = [task.name for task in operation.tasks(0)]
        gathers[operation.name] = sum(".gather[" in name for name in names)
        scatters[operation.name] = sum(".scatter[" in name for name in names)
    assert [gathers[f"fc{layer}.fprop"] for layer in range(4)] == [1, 2, 4, 0]
    assert not any(scatters[f"fc{layer}.fprop"] for layer in range(4))
    assert [scatters[f"fc{layer}.bprop"] for layer in (1, 2, 3)] == [2, 4, 0]
    assert not any(gathers[name] for name in gathers if not name.endswith("fprop"))


@pytest.mark.parametrize("layer", [0, 1, 2])
@pytest.mark.parametrize("most", [None, 4])
def test_rows_are_gathered_ahead_of_their_product(layer: int, most: int | None) -> None:
    plan = plinth.plan(network(radix(4, 256)), "ring-1", planner="data", batch=16)
    operations = {operation.name: operation for operation in step_of_plan(plan.plan).operations}
    operation = operations[f"fc{layer}.fprop"]
    names = [task.name for task in operation.tasks(0, most)]
    products = [name for name in names if "gather" not in name]
    assert len(products) == (most or 16)
    gathered = [name.partition("gather")[2] for name in names if "gather" in name]
    assert gathered
    if most is None:
        # Blocks that wait for rows come last, and these are there four products before.
        assert [name[len(f"fc{layer}.fprop"):] for name in products[-len(gathered):]] == gathered
        for place, block in enumerate(gathered):
            at = names.index(f"fc{layer}.fprop.gather{block}")
            before = sum("gather" not in name for name in names[:at])
            assert before == min(place * 16 // len(gathered), 16 - len(gathered) + place - 4)


@pytest.mark.parametrize("planner", ["data", "hypergraph", "model"])
@pytest.mark.parametrize("name", CASES)
def test_dies_send_the_words_of_the_plan(name: str, planner: str) -> None:
    plan = plinth.plan(CASES[name], "ring-4", planner=planner, batch=12)
    step = step_of(plan.plan.sharding, plan.array.die_parameters())
    assert words_between(step).sum() == plan.plan.words


def test_a_plan_in_a_file_trains_as_it_was_made(tmp_path: Path) -> None:
    definition = CASES["radix"]
    write_sparse(tmp_path / "net.yaml", definition)
    plan = plinth.plan(tmp_path / "net.yaml", "ring-4", planner="hypergraph", batch=12)
    plan.save(tmp_path / "plan.yaml")
    x, y = samples(definition)
    first, again = (plinth.train(of, x, y, device="numpy", steps=2, rate=0.5).parameters
                    for of in (plan, tmp_path / "plan.yaml"))
    assert {name: values.tobytes() for name, values in first.items()} == {
        name: values.tobytes() for name, values in again.items()}
    first_weights = definition.layers[0].pattern.first_values()
    assert not np.array_equal(first["fc0.weights"], first_weights)
    # Another pattern under the same name is told.
    matrices = read_patterns(tmp_path / "net.npz")
    matrices["fc1"].data[0] += 1
    write_patterns(tmp_path / "net.npz", matrices)
    with pytest.raises(UserError, match="another matrix than it was"):
        plinth.load_plan(tmp_path / "plan.yaml")



@pytest.mark.parametrize("preset", ["ndp-demo-mixed", "fpga-demo", "hypar-demo-mixed"])
def test_dies_of_16_bits_are_refused_in_one_line(preset: str) -> None:
    x, y = samples(CASES["radix"])
    plan = plinth.plan(CASES["radix"], ring(2, preset=preset), planner="hypergraph", batch=12)
    with pytest.raises(UserError, match=r"^layer 'fc0' \(sparse\) cannot be lowered to dies of format (mixed|fixed), "
                                        r"where a map of 16 bits has two samples to a word: .*; choose format=fp32$"):
        plinth.train(plan, x, y, device="golden", steps=1)


@pytest.mark.parametrize("name", ["radix", "irregular"])
@pytest.mark.parametrize("planner", ["hypergraph", "data"])
def test_row_stationary_dies_train_as_float64_does(name: str, planner: str) -> None:
    x, y = samples(CASES[name])
    plan = plinth.plan(CASES[name], ring(2, preset="hypar-tiny"), planner=planner, batch=12)
    report = plinth.train(plan, x, y, device="golden", steps=2, rate=0.5).report
    assert report["failure"] is None and report["checked_steps"] == 2


def test_blocks_that_do_not_fit_a_die_say_what_they_need() -> None:
    definition = network(radix(5, 1024))
    x = np.zeros((160, 1024), np.float32)
    plan = plinth.plan(definition, "ring-1", planner="data", batch=128)
    with pytest.raises(UserError, match=r"^the network needs [0-9]+ bytes of die memory but a die has 1048576: .*; "
                                        r"give memory_mib= at least 14 MiB$"):
        plinth.train(plan, x, x, device="golden", steps=1, memory_mib=1)
    message = "does not fit the dies' memory: a die needs .*memory_bytes of at least [0-9]+"
    with pytest.raises(UserError, match=message):
        check_memory(step_of_plan(plan.plan), replace(ring(1), memory_bytes=1 << 20))


def test_biases_of_many_channels_fit_the_scratchpad_beside_their_rows() -> None:
    x, y = (np.random.default_rng(0).random((40, 1024), dtype=np.float32) for _ in range(2))
    plan = plinth.plan(network(radix(1, 1024)), "ring-1", planner="data", batch=32)
    report = plinth.train(plan, x, y, device="golden", steps=1, rate=0.5).report
    assert report["failure"] is None and report["checked_steps"] == 1
