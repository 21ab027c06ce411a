"""What cannot be lowered is refused in a line that names it and what to do."""

from dataclasses import replace

import numpy as np
import pytest
from tests.support.networks import random_plan
from tests.support.refusal import refused
from tests.support.sessions import MEMORY_WORDS

from plinth.array.array import AT_LINKS, MAXIMUM_PORTS, Array, clusters, ring
from plinth.errors import UserError
from plinth.lower.builder import GraphBuilder, require_memory
from plinth.lower.stages import check_network
from plinth.lower.training import check_array, lower_training
from plinth.network.layers import (
    Add,
    Convolution,
    Dense,
    Flatten,
    Layer,
    MaxPool,
    MeanPool,
    Relu,
    Shape,
    SoftmaxCrossEntropy,
)
from plinth.network.network import Network, perceptron
from plinth.step.vector import VectorProgram
from plinth.update.rule import UpdateRule
from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.operations import CollectiveOperation, Engine, OptimiserOperation, TransferOperation
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.vector_body import (
    VECTOR_IMMEDIATES,
    VECTOR_INSTRUCTIONS,
    VECTOR_LOADS,
    VECTOR_REGIONS,
    VECTOR_STORES,
    VectorOp,
)

MIXED = preset("ndp-demo-mixed")


def network(*layers: Layer, shape: tuple[int, ...] = (4, 8, 8)) -> Network:
    """Of layers, with a classifier behind."""
    return Network(name="net", input=Shape(shape), layers=(*layers, Flatten(name="flat"), Dense(name="fc", outputs=3),
                                                           SoftmaxCrossEntropy(name="loss")))


@pytest.mark.parametrize(("layers", "message"), [
    ((Convolution(name="conv", channels=4, kernel=(3, 3), padding=(1, 1)), Relu(name="relu"),
      MaxPool(name="pool", inputs=("conv",), kernel=(3, 3), stride=(1, 1), padding=(1, 1)),
      Add(name="add", inputs=("relu", "pool"))),
     r"network 'net': layer 'pool' \(max-pool\) reads 'conv' beside another layer; activations, pools and flattens are "
     "lowered where nothing else reads their input; such a network can be planned but not lowered"),
    ((Convolution(name="conv", channels=4, kernel=(3, 3), padding=(1, 1)),
      Convolution(name="next", channels=4, kernel=(1, 1), inputs=("conv",)), Relu(name="relu", inputs=("conv",)),
      Add(name="add", inputs=("next", "relu"))), r"layer 'relu' \(relu\) reads 'conv' beside another layer"),
    ((Relu(name="relu"), Convolution(name="conv", channels=4, kernel=(3, 3))),
     r"layer 'relu' \(relu\) stands before the first layer with weights; put one before it; such"),
    ((Convolution(name="conv", channels=4, kernel=(3, 3), padding=(1, 1)), Relu(name="relu"),
      Add(name="add", inputs=("conv", "relu"))),
     r"layer 'add' \(add\) reads 'conv' beside an activation, a pool or a flatten of it; read what comes out of that")])
def test_networks(layers: tuple[Layer, ...], message: str) -> None:
    with refused(UserError, message):
        check_network(network(*layers))


def test_arrays() -> None:
    check_array(ring(4))
    with refused(UserError, "array 'ring-2' has codes: at-links, a model that no die follows: it can be planned for "
                            "and simulated, not lowered; choose codes: built"):
        check_array(replace(ring(2, preset="ndp-demo-winograd"), codes=AT_LINKS))
    with refused(UserError, "array 'tree' has topology h-tree, whose switches have no dies: it can be planned for and "
                            "simulated, not lowered; choose a ring, a torus or a full array"):
        check_array(Array(name="tree", topology="h-tree", dies=4, preset="ndp-demo"))
    check_array(clusters(64, 1))
    wide = clusters(128, 1)
    with refused(UserError, f"dies of array '{wide.name}' have {wide.ports} ports, and a router at most "
                            f"{MAXIMUM_PORTS}: it can be planned for and simulated, not lowered; choose fewer groups"):
        check_array(wide)
    # As many as a router has.
    full = Array(name="all", topology="full", dies=MAXIMUM_PORTS + 1, preset="ndp-demo")
    check_array(full)
    assert wide.ports > full.ports == MAXIMUM_PORTS


def _narrow(made: Network, splits: tuple[str, ...] = ()) -> None:
    """Lower it to dies of 16 bits: data in parallel on two dies, unless it is said."""
    plan = random_plan(made, 2, 8, np.random.default_rng(0))
    plan = plan.resharded(splits=tuple((split,) for split in splits) or (("dp",),) * len(plan.graph.nodes))
    lower_training(made, plan, MIXED, rule=UpdateRule(), steps=1, memory_words=MEMORY_WORDS)


def _convolution(channels: int) -> Convolution:
    return Convolution(name="conv", channels=channels, kernel=(3, 3), padding=(1, 1))


def test_operands_of_16_bits() -> None:
    mean = MeanPool(name="pool", kernel=(2, 9), stride=(1, 1))
    _narrow(network(_convolution(4), MaxPool(name="pool", kernel=(2, 2), stride=(2, 2))))
    for odd in (network(_convolution(5), MaxPool(name="pool", kernel=(2, 2), stride=(2, 2))), network(_convolution(5))):
        with refused(UserError, "layer '(conv|fc)' cannot be lowered with operands of 16 bits: a map that is pooled or "
                                "flattened needs an even number of channels; choose format=fp32"):
            _narrow(odd)
    with refused(UserError, "layer 'pool' cannot be lowered with operands of 16 bits: it adds up windows of 9 columns "
                            "that overlap; choose format=fp32"):
        _narrow(network(_convolution(4), mean, shape=(4, 8, 12)))
    # Windows beside each other, or of a single column of them, go in parts.
    _narrow(network(_convolution(4), replace(mean, stride=(1, 9)), shape=(4, 8, 18)))
    _narrow(network(_convolution(4), replace(mean, kernel=(2, 12)), shape=(4, 8, 12)))
    with refused(UserError, "layer 'fc1' cannot be lowered with operands of 16 bits: it is neither convolution nor "
                            "fully connected layer, or its batch is not split, nor elements of its tiles; choose "
                            "format=fp32 or planner data"):
        _narrow(perceptron("net", (8, 6, 4)), ("mp", "dp", "dp"))


def test_counters() -> None:
    made = perceptron("net", (8, 6, 4))
    plan = random_plan(made, 2, 8, np.random.default_rng(0)).resharded(splits=(("mp",), ("op",), ("dp",)))
    with refused(UserError, "the plan needs more than the 8 update counters of preset 'ndp-tiny' for its transfers; "
                            "choose a plan with fewer transfers"):
        lower_training(made, plan, replace(preset("ndp-tiny"), counters=8), rule=UpdateRule(), steps=1,
                       memory_words=MEMORY_WORDS)


def test_graphs() -> None:
    builder = GraphBuilder(preset("ndp-demo"))
    with refused(ValueError, "A graph needs at least one task"):
        builder.finish(record=True)
    with refused(UserError, "dies of preset 'ndp-demo' have no optimiser engine for task 'update'; choose another "
                            "network, or a preset that has one, such as fpga-demo"):
        builder.add("update", Engine.OPTIMISER, OptimiserOperation.SGD, {})
    place = builder.allocate("place", 4, 4)
    copy = {"source": place.pointer, "destination": place.pointer, "columns": 4, "rows": 4, "planes": 1}
    builder.add("copy", Engine.TRANSFER, TransferOperation.COPY, copy | {"remote": 1, "destination_die": 3})
    builder.add("told", Engine.TRANSFER, TransferOperation.COPY, copy, remote=(2, 9))
    builder.check_dies(0, 4)
    for dies, message in ((3, "task 'copy' of die 1 has die 3 as its destination_die, but the array has dies 0 to 2; "
                              "make the plan anew for this array"), (2, "as its")):
        with refused(UserError, message):
            builder.check_dies(1, dies)
    other = GraphBuilder(preset("ndp-demo"))
    other.add("told", Engine.TRANSFER, TransferOperation.COPY, copy, remote=(2, 9))
    with refused(UserError, "task 'told' of die 0 has die 2 as its remote_die, but the array has dies 0 to 1"):
        other.check_dies(0, 2)
    builder.add("ring", Engine.COLLECTIVE, CollectiveOperation.SET_GROUP, {
        "group": 0, "members": 1 << 20, "index": 0, "next_die": 0})
    with refused(UserError, "task 'ring' does not fit its descriptor: .*; choose a smaller network or batch, or more "
                            "dies"):
        builder.finish(record=True)


def test_memory() -> None:
    die, chip = preset("ndp-demo"), replace(preset("fpga-tiny"), axi_ports=0, block_ram_words=1 << 12)
    sizes = {"weights": 300, "maps": 700}
    require_memory(die, 1000, 1000, sizes)
    with refused(UserError, "the network needs 4004 bytes of die memory but a die has 4000: .*maps.*; give memory_mib= "
                            "at least 1 MiB"):
        require_memory(die, 1001, 1000, sizes)
    with refused(UserError, f"needs {4 * (1 << 18) + 4} bytes .* at least 2 MiB"):
        require_memory(die, (1 << 18) + 1, 1 << 18, sizes)
    with refused(UserError, "at least 1 MiB"):
        require_memory(die, 1 << 18, 1000, sizes)
    with refused(UserError, "the network needs 2002 bytes of die memory but a die has 2000: .*; block RAM has no more; "
                            "take a smaller batch or network, or more dies"):
        require_memory(chip, 1001, 1000, sizes)


@pytest.mark.parametrize(("what", "limit"), [
    ("regions", VECTOR_REGIONS), ("loads", VECTOR_LOADS), ("stores", VECTOR_STORES),
    ("immediates", VECTOR_IMMEDIATES), ("instructions", VECTOR_INSTRUCTIONS)])
def test_vector_programs(what: str, limit: int) -> None:
    die = preset("ndp-demo")
    place = GraphBuilder(die).allocate("place", 2, 8)

    def body(count: int) -> dict:
        program = VectorProgram(die, 2, 8)
        program.load("a", place)
        for number in range(count - 1):
            if what == "loads":
                program.load("a", place)
            elif what == "regions":
                program.run(VectorOp.ADD, f"r{number}", "a", "a")
            elif what == "instructions":
                program.run(VectorOp.ADD, "a", "a", "a")
        for number in range(count):
            if what == "stores":
                program.store("a", place)
            elif what == "immediates":
                program.run(VectorOp.ADD_IMMEDIATE, "a", "a", immediate=float(number))
        if what == "instructions":
            program.run(VectorOp.ADD, "a", "a", "a")
        return program.body()

    assert body(limit)
    with refused(ValueError, f"A vector program has at most {limit} {what}, not {limit + 1}"):
        body(limit + 1)


def test_rows_of_vector_programs() -> None:
    die = preset("ndp-tiny", vector_buffer_words=64)
    place = GraphBuilder(die).allocate("place", 1, 64)
    for columns, fits in ((64, True), (65, False)):
        program = VectorProgram(die, 1, columns)
        program.load("a", place)
        if fits:
            assert program.body()
            continue
        with refused(UserError, "a row of 65 words does not fit the vector scratchpad of preset 'ndp-tiny'; choose a "
                                "larger preset or a narrower layer"):
            program.body()


def test_long_sums_are_told_of_each_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs of a window, outputs of its taps, positions of all samples; those that a sum holds are not told."""
    made = network(_convolution(5), Relu(name="relu"), shape=(3, 4, 4))
    plan = random_plan(made, 1, 7, np.random.default_rng(0))
    for most in (0, 44):
        monkeypatch.setattr(Fixed, "most_products", property(lambda self, most=most: most))
        program = lower_training(made, plan, preset("fpga-tiny"), rule=UpdateRule(), steps=1,
                                 memory_words=MEMORY_WORDS)
        sums = [("conv", 9 * 3, "fprop"), ("fc", 5 * 16, "fprop"), ("fc", 3, "bprop"), ("fc", 7, "update"),
                ("conv", 16 * 7, "update")]
        assert [note.split(" may leave ")[0] for note in program.notes] == [
            f"layer '{layer}': sums of {count} products in its {direction}" for layer, count, direction in sums
            if count > most]


@pytest.mark.parametrize(("most", "told"), [(44, True), (45, False)])
def test_as_many_products_as_a_sum_holds_are_not_told(most: int, told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made = network(_convolution(5), Relu(name="relu1"), replace(_convolution(2), name="next"), shape=(3, 4, 4))
    plan = random_plan(made, 1, 1, np.random.default_rng(0))
    monkeypatch.setattr(Fixed, "most_products", property(lambda self: most))
    program = lower_training(made, plan, preset("fpga-tiny"), rule=UpdateRule(), steps=1, memory_words=MEMORY_WORDS)
    # Forward 9 taps of 5 channels; backward 9 of 2.
    assert any("'next': sums of 45 products in its fprop" in note for note in program.notes) == told
    assert not any("bprop" in note for note in program.notes)
