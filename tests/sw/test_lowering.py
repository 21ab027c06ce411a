"""The graph builder's dependencies, and the lowered training step."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.networks import random_data
from tests.support.sessions import MEMORY_WORDS, session

from plinth import cli
from plinth.errors import UserError
from plinth.lower.builder import GraphBuilder
from plinth.lower.stages import check_network
from plinth.lower.training import lower_training
from plinth.machine.tiles import interleave_m_log2
from plinth.network.layers import (
    Add,
    Convolution,
    Dense,
    Flatten,
    Layer,
    MaxPool,
    MeanPool,
    MeanSquaredError,
    Relu,
    Shape,
    SoftmaxCrossEntropy,
)
from plinth.network.network import Network, perceptron
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.plan.plan import Plan
from plinth.plan.planning import data_parallel
from plinth.sharding import Sharding
from plinth.update.rule import UpdateRule
from plinth_hw.isa.descriptors import TaskHeader
from plinth_hw.isa.layout import unpack
from plinth_hw.isa.operations import Engine, TransferOperation
from plinth_hw.isa.parameters import preset

DEMO = preset("ndp-demo")


def header(task):
    return unpack(TaskHeader, task.words)


def waits(task) -> dict[int, int]:
    fields = header(task)
    return {fields.wait_counter[index]: fields.wait_value[index] for index in range(4)
            if fields.wait_enable >> index & 1}


def test_waits_follow_from_reads_and_writes() -> None:
    builder = GraphBuilder(DEMO)
    a, b, c = (builder.allocate(name, 1, 8) for name in "abc")
    body = {"columns": 8, "rows": 1, "planes": 1}

    def add(name, engine, reads, writes):
        builder.add(name, engine, TransferOperation.COPY, body if engine is Engine.TRANSFER else {},
                    reads=reads, writes=writes)

    add("first", Engine.TRANSFER, [a], [b])
    add("read after write", Engine.MATRIX, [b], [c])
    add("write after read", Engine.VECTOR, [], [b])
    add("write after write", Engine.TRANSFER, [], [c])
    add("independent", Engine.MATRIX, [a], [])
    tasks = builder.finish(record=False)
    assert waits(tasks[0]) == {}
    assert waits(tasks[1]) == {Engine.TRANSFER.value: 1}
    assert waits(tasks[2]) == {Engine.TRANSFER.value: 1, Engine.MATRIX.value: 1}
    assert waits(tasks[3]) == {Engine.MATRIX.value: 1}
    assert waits(tasks[4]) == {}
    assert [header(task).last for task in tasks] == [0, 0, 0, 0, 1]
    assert builder.advances == {Engine.TRANSFER.value: 2, Engine.MATRIX.value: 2, Engine.VECTOR.value: 1}


def test_allocated_buffers_are_aligned_and_apart() -> None:
    builder = GraphBuilder(DEMO)
    first, second = builder.allocate("one", 3, 10), builder.allocate("two", 1, 1)
    assert first.stride == 16
    assert first.address % 16 == second.address % 16 == 0
    assert second.address >= first.address + 2 * first.stride + first.columns


@pytest.mark.parametrize("dies", [1, 2, 4, 8])
def test_every_die_gets_the_same_step_but_its_own_place_in_the_ring(dies: int) -> None:
    network = NETWORKS["digits-mlp"]
    plan = data_parallel(network, dies=dies, batch=128)
    program = lower_training(network, plan, DEMO, rule=UpdateRule(), steps=11, memory_words=1 << 20)
    assert len({graph.tasks for graph in program.step}) == 1
    assert len({graph.tasks for graph in program.setup}) == dies
    names = [task.name for task in program.step[0].tasks]
    assert len(set(names)) == len(names)
    assert [name for name in names if "all_reduce" in name] == ["fc3.all_reduce", *(
        f"{layer}.all_reduce" + f"[{piece}]" * (dies > 1) for layer in ("fc2", "fc1")
        for piece in range(4 if dies > 1 else 1))]
    places = sorted((buffer.address, buffer.rows * buffer.stride) for buffer in program.buffers.values()
                    if buffer.base == 0)
    for (address, words), (following, _) in itertools.pairwise(places):
        assert address + words - 16 < following


def test_the_weights_are_not_updated_before_bprop_has_read_them() -> None:
    network = perceptron("two", (8, 8, 8))
    plan = data_parallel(network, dies=2, batch=16)
    program = lower_training(network, plan, DEMO, rule=UpdateRule(), steps=1, memory_words=1 << 20)
    tasks = program.step[0].tasks
    matrix = [task.name for task in tasks if task.engine is Engine.MATRIX]
    reduce = next(task for task in tasks if task.name == "fc2.all_reduce")
    readers = max(matrix.index(name) for name in matrix if name.startswith(("fc1.bprop", "fc2.update")))
    assert waits(reduce)[Engine.MATRIX.value] >= readers + 1


def test_too_small_a_memory_is_said_with_the_size_that_would_do() -> None:
    network = NETWORKS["digits-mlp"]
    plan = data_parallel(network, dies=1, batch=128)
    with pytest.raises(UserError, match=r"memory_mib= at least \d+ MiB"):
        lower_training(network, plan, DEMO, rule=UpdateRule(), steps=11, memory_words=1000)


def test_too_little_block_ram_is_said_with_what_there_is() -> None:
    parameters = preset("ndp-tiny", block_ram_words=1024, axi_ports=0)
    network = NETWORKS["digits-mlp"]
    with pytest.raises(UserError, match=r"needs \d{5,} bytes of die memory .* has 4096: fc1.*; block RAM has no"):
        lower_training(network, data_parallel(network, dies=1, batch=8), parameters,
                       rule=UpdateRule(), steps=1, memory_words=parameters.most_memory_words)


@pytest.mark.parametrize(("dies", "batch"), [(0, 128), (2048, 128), (4, 0)])
def test_a_plan_needs_sizes_in_range(dies: int, batch: int) -> None:
    with pytest.raises(UserError):
        data_parallel(NETWORKS["digits-mlp"], dies=dies, batch=batch)


def test_a_die_without_samples_has_zeros_for_its_gradient() -> None:
    network = NETWORKS["digits-mlp"]
    program = lower_training(network, data_parallel(network, dies=4, batch=3), DEMO, rule=UpdateRule(), steps=1,
                             memory_words=1 << 20)
    assert [part.samples for part in program.predictions.parts] == [1, 1, 1, 0]
    zeros = [[task.name for task in graph.tasks if ".gradients.zero" in task.name] for graph in program.setup]
    assert not any(zeros[:3]) and {name.split("[")[0] for name in zeros[3]} == {
        f"{layer.name}.gradients.zero" for layer in network.weighted}
    assert not any(task.engine is Engine.MATRIX for task in program.step[3].tasks)


def test_a_die_without_anything_to_do_is_refused() -> None:
    network = Network(name="one", input=Shape((1, 4, 4)), layers=(
        Convolution(name="conv", channels=1, kernel=(3, 3)), MeanSquaredError(name="loss")))
    plan = Plan(sharding=Sharding(graph=from_network(network), splits=(("op",), ("dp",)), batch=1, factors=(2,)),
                planner="model", model="exact", array="ring-2")
    with pytest.raises(UserError, match=r"die 1 of 2 has nothing to do in a step of batch 1: .* choose a larger batch"):
        lower_training(network, plan, preset("ndp-tiny"), rule=UpdateRule(), steps=1, memory_words=MEMORY_WORDS)


def test_mixed_precision_takes_data_parallel_plans_only() -> None:
    network = NETWORKS["digits-mlp"]
    plan = data_parallel(network, dies=2, batch=16)
    plan = replace(plan, planner="mine").resharded(splits=(*plan.splits[:1], ("mp",), *plan.splits[2:]))
    with pytest.raises(UserError, match=r"'fc2' .* operands of 16 bits"):
        lower_training(network, plan, preset("ndp-demo-mixed"), rule=UpdateRule(), steps=1, memory_words=1 << 20)


@pytest.mark.parametrize(("layers", "name"), [
    ((Convolution(name="conv", channels=5, kernel=(3, 3)), MaxPool(name="pool", kernel=(2, 2), stride=(2, 2)),
      Flatten(name="flatten"), Dense(name="out", outputs=3)), "conv"),
    ((Convolution(name="conv", channels=5, kernel=(3, 3)), Flatten(name="flatten"), Dense(name="out", outputs=3)),
     "out")])
def test_mixed_precision_takes_maps_of_even_channels(layers: tuple[Layer, ...], name: str) -> None:
    network = Network(name="odd", input=Shape((1, 8, 8)), layers=(*layers, SoftmaxCrossEntropy(name="loss")))
    with pytest.raises(UserError, match=f"'{name}' .* even number of channels"):
        lower_training(network, data_parallel(network, dies=1, batch=4), preset("hypar-demo-mixed"), rule=UpdateRule(),
                       steps=1, memory_words=1 << 20)


def test_wide_means_of_mixed_precision_have_nowhere_for_their_sums() -> None:
    network = Network(name="wide", input=Shape((2, 8, 8)), layers=(
        Convolution(name="conv", channels=4, kernel=(3, 3)), MeanPool(name="mean", kernel=(2, 5), stride=(2, 1)),
        Flatten(name="flatten"), Dense(name="out", outputs=3), SoftmaxCrossEntropy(name="loss")))
    with pytest.raises(UserError, match=r"'mean' .* windows of 5 columns that overlap"):
        lower_training(network, data_parallel(network, dies=1, batch=4), preset("hypar-demo-mixed"), rule=UpdateRule(),
                       steps=1, memory_words=1 << 20)


def test_means_of_whole_maps_of_mixed_precision_are_added_up_in_place() -> None:
    network = Network(name="whole", input=Shape((2, 8, 8)), layers=(
        Convolution(name="conv", channels=4, kernel=(3, 3)), MeanPool(name="mean", kernel=(6, 6), stride=(1, 1)),
        Flatten(name="flatten"), Dense(name="out", outputs=3), SoftmaxCrossEntropy(name="loss")))
    plan = data_parallel(network, dies=1, batch=4)
    program = lower_training(network, plan, preset("ndp-demo-mixed"), rule=UpdateRule(), steps=1,
                             memory_words=MEMORY_WORDS)
    run = session(network, plan, random_data(network, 4, np.random.default_rng(1)), program)
    next(iter(run.epoch(0)))
    assert run.checks is not None and run.checks.failure is None


@pytest.mark.parametrize(("number_format", "machine"), [
    ("mixed", "ndp"), ("mixed", "hypar"), ("fixed", "fpga"), ("fixed", "hypar")])
@pytest.mark.parametrize("pool", ["mean-pool, kernel: 3", "max-pool, kernel: 3"])
def test_convolutions_of_16_bits(number_format: str, machine: str, pool: str, tmp_path: Path) -> None:
    """A step on golden dies: gradients are those of float64, but for what 16 bits round (and which of near numbers is
    the largest); a convolution without an activation, odd channels between convolutions."""
    network, samples = tmp_path / "my.yaml", tmp_path / "my.npz"
    network.write_text(f"""version: 2
name: mine
input: [3, 13, 13]
layers:
  - {{name: one, kind: convolution, channels: 5, kernel: 3, padding: 1, stride: 2}}
  - {{name: relu, kind: relu}}
  - {{name: two, kind: convolution, channels: 4, kernel: 2}}
  - {{name: three, kind: convolution, channels: 6, kernel: 1}}
  - {{name: tanh, kind: tanh}}
  - {{name: pool, kind: {pool}, stride: 1}}
  - {{name: sigmoid, kind: sigmoid}}
  - {{name: flatten, kind: flatten}}
  - {{name: out, kind: dense, outputs: 3}}
  - {{name: loss, kind: mean-squared-error}}
""")
    generator = np.random.default_rng(5)
    np.savez(samples, x=generator.standard_normal((16, 3, 13, 13)), y=generator.standard_normal((16, 3)))
    cli.main(["train", str(network), "--data", str(samples), "--machine", machine, "--format", number_format,
              "--dies", "2", "--batch", "8", "--steps", "1", "--device", "golden", "--update", "sgd",
              "--out", str(tmp_path / "out")])
    most = 0.005 if number_format == "mixed" and "mean" in pool else 0.1
    assert json.loads((tmp_path / "out" / "report.json").read_text())["gradient_error"] < most


@pytest.mark.parametrize(("layers", "message"), [
    ((Relu(name="early"), Dense(name="fc", outputs=3)), r"'early' \(relu\) stands before"),
    ((Dense(name="one", outputs=3), Relu(name="relu"), Add(name="sum", inputs=("one", "relu"))), "beside"),
])
def test_a_network_without_a_lowering_names_the_layer(layers: tuple[Layer, ...], message: str) -> None:
    network = Network(name="odd", input=Shape((4,)), layers=(*layers, SoftmaxCrossEntropy(name="loss")))
    with pytest.raises(UserError, match=message):
        lower_training(network, data_parallel(network, dies=2, batch=16), DEMO, rule=UpdateRule(), steps=1,
                       memory_words=1 << 20)


@pytest.mark.parametrize(("m", "n", "expected"), [(32, 128, 1), (32, 10, 2), (1, 1000, 0), (1000, 1, 3)])
def test_interleave_shape_needs_the_fewest_tiles(m: int, n: int, expected: int) -> None:
    assert interleave_m_log2(DEMO, m, n) == expected


@pytest.mark.parametrize("layers", [
    (Dense(name="a", outputs=4), Dense(name="b", outputs=4, inputs=("a",)), Relu(name="ra", inputs=("a",)),
     Add(name="s", inputs=("b", "ra"))),
    (Dense(name="a", outputs=4), Relu(name="ra", inputs=("a",)), Dense(name="b", outputs=4, inputs=("a",)),
     Add(name="s", inputs=("b", "ra")))], ids=["before", "behind"])
def test_what_is_read_beside_its_activation_is_refused_in_either_order(layers: tuple[Layer, ...]) -> None:
    """The other reader would get what comes out of the activation."""
    network = Network(name="two", input=Shape((3,)), layers=(*layers, SoftmaxCrossEntropy(name="loss")))
    with pytest.raises(UserError, match="reads 'a' beside"):
        check_network(network)
