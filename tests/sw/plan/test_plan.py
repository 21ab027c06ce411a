"""Plans as files: what they state, and what is refused."""

import copy
import json
import random
from dataclasses import replace
from itertools import chain as joined
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.lookups import language_model, with_rows
from tests.support.partitions import random_lists
from tests.support.plan_graphs import random_graph, random_splits

import plinth
from plinth import cli
from plinth.array.array import ring, torus
from plinth.errors import UserError
from plinth.files.documents import parse_yaml
from plinth.network.layers import Convolution, Dense, Flatten, Shape, SoftmaxCrossEntropy
from plinth.network.network import Network
from plinth.network.winograd import with_tiles
from plinth.network.zoo import NETWORKS
from plinth.partition.cuts import ranges_of, runs_of
from plinth.partition.graph import SPLITS, from_network
from plinth.partition.groups import RING, ProcessGroups
from plinth.partition.regions import Lists
from plinth.plan.plan import Plan
from plinth.plan.plan_file import load_plan, plan_from_data, plan_schema, save_plan
from plinth.plan.planning import data_parallel, predicted_seconds
from plinth.sharding import Gathered, Local, Ring, Server, Sharding
from plinth.step.between import Reduce
from plinth.step.build import step_of
from plinth.step.tasks import Reduction
from plinth.update.rule import FORMS, PLAIN, UpdateRule
from plinth_hw.isa.parameters import preset

GRAPH = from_network(NETWORKS["digits-cnn"])


def random_plan(levels: int = 2, seed: int = 1, batch: int = 10) -> Plan:
    return Plan(sharding=Sharding(graph=GRAPH, splits=random_splits(random.Random(seed), GRAPH, levels, SPLITS),
                                  batch=batch),
                planner="joint", model="exact", array={2: "ring-4", 10: "hypar-1024"}[levels], predicted_seconds=0.25)


def test_a_plan_comes_back_from_yaml_and_json(tmp_path) -> None:
    for seed in range(5):
        plan = random_plan(seed=seed).resharded(rule=FORMS[("sgd", "momentum", "adagrad-printed")[seed % 3]])
        for name, text in (("plan.yaml", plan.to_yaml()), ("plan.json", json.dumps(plan.to_data()))):
            (tmp_path / name).write_text(text)
            assert load_plan(tmp_path / name, NETWORKS["digits-cnn"]) == plan


def test_words_add_up_and_every_transfer_is_listed() -> None:
    rng = random.Random(5)
    for _ in range(10):
        graph = random_graph(rng, 2, (5, 8))
        plan = Plan(sharding=Sharding(graph=graph, splits=random_splits(rng, graph, 3, SPLITS), batch=7),
                    planner="joint", model="exact", array="ring-8")
        data = plan.to_data()
        for transfer in data["transfers"]:
            assert sum(words for _, _, words in transfer["pairs"]) == transfer["words"]
        for reduction in data["reductions"]:
            rings = data["rings"][reduction["rings"]]
            assert sum(2 * (len(members) - 1) * words
                       for members, words in zip(rings, reduction["ring_words"], strict=True)) == reduction["words"]
            assert sorted(joined.from_iterable(rings)) == list(range(8))
        assert data["words"] == sum(movement["words"] for movement in (*data["transfers"], *data["reductions"]))
        assert [layer["name"] for layer in data["layers"]] == [node.name for node in graph.nodes[:-1]]


def test_a_data_parallel_plan_only_reduces_weights() -> None:
    plan = Plan(sharding=Sharding(graph=GRAPH, splits=(("dp", "dp"),) * len(GRAPH.nodes), batch=8), planner="data",
                model="exact", array="ring-4")
    assert not plan.transfers
    assert {ring.members for reduction in plan.reductions for ring in plan.ring_messages(reduction)} == {(0, 1, 2, 3)}
    assert plan.words == 6 * NETWORKS["digits-cnn"].parameters


def test_large_arrays_state_regions_only() -> None:
    plan = random_plan(levels=10, batch=256)
    text = plan.to_yaml()
    assert len(text) < 1 << 16
    data = parse_yaml(text, "plan")
    assert not any("pairs" in transfer for transfer in data["transfers"])
    assert plan_from_data(data, GRAPH, "plan") == plan


def edit(data, path, value) -> None:
    for key in path[:-1]:
        data = data[key]
    data[path[-1]] = value


@pytest.mark.parametrize(("path", "value", "message"), [
    (["version"], 3, "version must be 4, not 3; make the plan again with `plinth plan digits-cnn --array ring-4 "
                     "--planner joint --model exact --batch 10 --out FILE`"),
    (["planner"], "best", "planner 'best' is unknown"),
    (["model"], "guess", "model 'guess' is unknown"),
    (["chunk_words"], 63, "chunk_words is 63, but dies of preset 'ndp-demo' have 64"),
    (["factors"], [4], "factors must be a list of 2"),
    (["factors"], [2, 3], r"factors are \[2, 3\], but array 'ring-4' has \[2, 2\]"),
    (["hardware"], None, "hardware must be the array in full"),
    (["hardware", "dies"], 8, r"factors are \[2, 2\], but array 'ring-4' has \[2, 2, 2\]"),
    (["hardware", "name"], "full-4", "for array 'ring-4', but hardware is 'full-4'"),
    (["hardware", "preset"], "best", "hardware: .*best"),
    (["rings", 0], [[0, 0, 2, 3]], r"rings\[0\] are no partition of 4 dies into lists: die 0 is in two"),
    (["rings", 0], [0, 1, 2, 3], r"rings\[0\] are no partition of 4 dies into lists: one is no list"),
    (["rings"], {}, "rings must be a list of 1 to 5 sets"),
    (["rings"], [], "rings must be a list of 1 to 5 sets"),
    (["layers", 0, "more"], 1, "unknown key 'more'"),
    (["reductions", 0, "more"], 1, r"reductions\[0\] has an entry 'more', but none follows from the splits"),
    (["rings", 0], [[0, 3], [1, 2]], "rings of layer '.*' are not those of the dies"),
    (["reductions", 0, "rings"], 9, "the reduction of layer 'fc2' must name its rings, 0 to "),
    (["reductions", 0, "pieces"], 5, "the gradient of layer 'fc2' goes in 1 to 4 pieces, not 5"),
    (["reductions", 0, "pieces"], True, "the gradient of layer 'fc2' goes in 1 to 4 pieces, not true"),
    (["reductions", 3, "pieces"], 2, "the gradient of layer 'conv1' goes in 1 piece, not 2"),
    (["reductions", 0, "elements"], True, "layer 'fc2' has no Winograd tiles that are trained, whose elements"),
    (["reductions", 0, "elements"], 1, "elements must be true or false, not 1"),
    (["reductions", 0, "layer"], "fc1", "reductions must be those of the 4 layers with weights, the last one first"),
    (["reductions"], [], "reductions must be those of the 4 layers"),
    (["network"], "vgg-a", "for network .*vgg-a.*, not 'digits-cnn'"),
    (["fingerprint"], "0", "another network called 'digits-cnn'"),
    (["layers", 0, "splits", 0], "xp", "unknown split"),
    (["layers", 0, "splits"], ["dp"], "list of 2"),
    (["layers", 0, "name"], "other", "in its place"),
    (["layers", 0, "kind"], "dense", "kind must be convolution, not the text 'dense'"),
    (["layers"], [], "list of the 4 layers"),
    (["transfers", 0, "words"], 1, r"transfers\[0\].words is 1, but"),
    (["transfers", 0, "pairs", 0, 2], 1, r"transfers\[0\].pairs\[0\]\[2\] is 1, but"),
    (["transfers", 0, "pairs", 0, 0], 3, r"transfers\[0\].pairs\[0\]\[0\]"),
    (["transfers"], [], "transfers has 0 entries"),
    (["rings", 0], [[9]], r"rings\[0\] are no partition of 4 dies"),
    (["words"], True, "words is true"),
    (["dies"], 8, "dies is 8, but 4"),
    (["batch"], 1 << 40, "batch must be"),
    (["batch"], 11, "follows from the splits"),
    (["levels"], 99, "levels must be"),
    (["predicted_seconds"], "1e3", "predicted_seconds"),
    (["array"], 4, "array must be a name"),
    (["update"], "lars", "update must be one of sgd, "),
    (["update"], "adagrad wide", "compute in fp32, without wide weights"),
    (["plannr"], 1, "unknown key 'plannr'"),
])
def test_a_plan_that_was_edited_is_refused_in_one_line(path, value, message) -> None:
    data = copy.deepcopy(random_plan().to_data())
    edit(data, path, value)
    with pytest.raises(UserError, match=message) as error:
        plan_from_data(data, GRAPH, "plan.yaml")
    assert "\n" not in str(error.value) and str(error.value).startswith("plan.yaml: ")


def test_another_split_needs_other_transfers() -> None:
    data = random_plan().to_data()
    for layer in data["layers"]:
        layer["splits"] = ["dp", "dp"]
    with pytest.raises(UserError, match=r"rings of layer '.*' are not those of the dies that have the same of its"):
        plan_from_data(data, GRAPH, "plan.yaml")
    # Whose rings are the same.
    data = random_plan().to_data()
    for layer in data["layers"]:
        layer["splits"] = [{"mp": "op", "op": "mp"}.get(split, split) for split in layer["splits"]]
    with pytest.raises(UserError, match="follows from the splits"):
        plan_from_data(data, GRAPH, "plan.yaml")


def test_what_may_be_left_out_of_a_reduction() -> None:
    data = random_plan().to_data()
    data["reductions"][0]["elements"] = False
    assert plan_from_data(data, GRAPH, "plan.yaml") == random_plan()
    del data["reductions"][0]["ring_words"]
    with pytest.raises(UserError, match=r"reductions\[0\] has no entry 'ring_words', but one follows"):
        plan_from_data(data, GRAPH, "plan.yaml")


def test_an_order_that_dies_cannot_send_is_refused() -> None:
    plan = data_parallel(NETWORKS["digits-mlp"], dies=8, batch=16)
    data = plan.to_data()
    data["rings"] = [[[0, 4, 1, 5, 2, 6, 3, 7]]]
    with pytest.raises(UserError, match=r"^plan.yaml: rings have an order in which two of dies 0, 4, 1, 5, 2, 6, 3, 7 "
                                        "send to the next one over the same link of array 'ring-8'; order them along"):
        plan_from_data(data, plan.graph, "plan.yaml")


@pytest.mark.parametrize(("tiles", "rule", "channels", "why"), [
    ((4, "winograd"), PLAIN, 7, "elements would be too short messages, or begin within a beat"),
    ((2, "winograd"), PLAIN, 64, "its elements have no learning rates of their own"),
    ((4, "winograd"), FORMS["adagrad"], 64, "its elements have no learning rates of their own"),
    ((4, "winograd"), FORMS["momentum"], 64, "dies keep states beside its weights"),
    ((4, "winograd"), PLAIN, 64, "")])
def test_pieces_of_elements_are_those_that_dies_send(tiles: tuple[int, str], rule: UpdateRule, channels: int,
                                                     why: str) -> None:
    network = with_tiles(Network(name="one", input=Shape((16, 8, 8)), layers=(
        Convolution(name="conv", channels=channels, kernel=(3, 3), padding=(1, 1)), Flatten(name="flat"),
        Dense(name="fc", outputs=3), SoftmaxCrossEntropy(name="loss"))), *tiles)
    graph = from_network(network)
    sharding = Sharding(graph=graph, splits=(("dp",),) * len(graph.nodes), batch=4, rule=rule,
                        array=ring(2, preset="ndp-demo-winograd"))
    plan = Plan(sharding=sharding, planner="data", model="exact", array="ring-2", definition=network)
    mine, _ = plan.sharding.syncs(0)
    assert isinstance(mine, Ring) and mine.elements == (not why)
    step = step_of(plan.sharding, preset("ndp-demo-winograd"))
    sent = [operation for operation in step.operations
            if isinstance(operation, Reduce) and operation.node.name == "conv"]
    assert (len(sent) == mine.pieces) if mine.elements else {reduction.piece.of for reduction in sent} == {1}
    data = plan.to_data()
    entry = next(reduction for reduction in data["reductions"] if reduction["layer"] == "conv")
    entry["pieces"], entry["elements"] = (37 if tiles[0] == 4 else 17), True
    if why:
        with pytest.raises(UserError, match=f"layer 'conv' cannot go in {entry['pieces']} pieces of elements: {why}"):
            plan_from_data(data, graph, "plan.yaml")
    else:
        assert plan_from_data(data, graph, "plan.yaml") == plan


def test_another_order_is_predicted_as_it_is(tmp_path: Path) -> None:
    """By the library, by commands, and by the step that both build."""
    array = torus(2, 4)
    graph = from_network(NETWORKS["digits-mlp"])
    data = Plan(sharding=Sharding(graph=graph, splits=(("dp",) * 3,) * len(graph.nodes), batch=64, factors=(2, 2, 2),
                                  array=array), planner="data", model="exact", array="torus-2x4").to_data()
    data["rings"] = [[[0, 1, 2, 3, 4, 5, 6, 7]]]
    (tmp_path / "plan.json").write_text(json.dumps(data))
    loaded = plinth.load_plan(tmp_path / "plan.json")
    assert loaded.plan.predicted_seconds == predicted_seconds(loaded.plan, array)
    usual = loaded.plan.resharded(copies=())
    assert predicted_seconds(usual, array) < predicted_seconds(loaded.plan, array)
    assert loaded.simulate().seconds > 0


def test_the_order_of_sums_is_the_files(tmp_path) -> None:
    """Members of rings, and pieces, whatever would be chosen today."""
    plan = data_parallel(NETWORKS["digits-mlp"], dies=4, batch=16)
    data = plan.to_data()
    assert data["rings"] == [[[0, 1, 2, 3]]] and [reduction["pieces"] for reduction in data["reductions"]] == [1, 4, 4]
    data["rings"], data["reductions"][1]["pieces"] = [[[0, 3, 2, 1]]], 3
    reordered = plan_from_data(data, plan.graph, "plan.yaml")
    assert reordered != plan and reordered.to_data() == data
    step = step_of(reordered.sharding, preset("ndp-demo"))
    reductions = [item.work for item in step.tasks(2) if isinstance(getattr(item, "work", None), Reduction)]
    assert {reduction.ring for reduction in reductions} == {(0, 3, 2, 1)} and len(reductions) == 1 + 3 + 4


def kept() -> Plan:
    """Digits on four dies, with variables in rings of their own, at servers, and local."""
    plan = data_parallel(NETWORKS["digits-mlp"], dies=4, batch=16)
    usual = dict(plan.sharding.copies)
    lists = tuple(runs_of(range(first, 128, 3)) for first in range(3))
    copies = {**usual, "fc1.weights": Server((0, 1, 2, 3, 0), 5), "fc2.weights": Server((3, 1, 1), lists),
              "fc2.bias": Local(), "fc3.bias": Ring(ProcessGroups(RING, ((0, 3, 2, 1),)), 1, 64)}
    return plan.resharded(copies=tuple(copies.items()))


def test_copies_of_variables_come_back_from_files(tmp_path: Path) -> None:
    plan, keys = kept(), set(plan_schema()["properties"]["reductions"]["items"]["properties"])
    for path, text in ((tmp_path / "plan.yaml", plan.to_yaml()), (tmp_path / "plan.json", json.dumps(plan.to_data()))):
        path.write_text(text)
        assert load_plan(path) == plan
    data = plan.to_data()
    entries = {(reduction["layer"], reduction.get("variable")): reduction for reduction in data["reductions"]}
    assert list(entries) == [(layer, variable) for layer in ("fc3", "fc2", "fc1") for variable in ("weights", "bias")]
    assert set().union(*entries.values()) <= keys
    assert entries["fc1", "weights"]["server"] == {"owners": [0, 1, 2, 3, 0], "pieces": 5}
    # All rows go to three other dies, and come back.
    assert entries["fc1", "weights"]["words"] == 6 * 64 * 128 and "rings" not in entries["fc1", "weights"]
    assert entries["fc2", "bias"]["local"] is True and entries["fc2", "bias"]["words"] == 0
    assert data["rings"] == [[[0, 1, 2, 3]], [[0, 3, 2, 1]]] and entries["fc3", "bias"]["rings"] == 1
    # Of three variables in rings: 64 x 10 weights, 10 and 128 biases.
    assert [entries[key]["ring_words"] for key in (("fc3", "weights"), ("fc3", "bias"), ("fc1", "bias"))] == [
        [640], [10], [128]]
    assert plan.words == 6 * (640 + 10 + 128 + 64 * 128 + 128 * 64) == data["words"]
    # Alike and no servers, they are one entry; and a plan may have no rings.
    names = plan.sharding.graph.variables
    assert [reduction["local"] for reduction in plan.resharded(
        copies=tuple((name, Local()) for name in names)).to_data()["reductions"]] == [True] * 3
    served = plan.resharded(copies=tuple((name, Server((0,), 1)) for name in names))
    assert plan_from_data(served.to_data(), plan.graph, "plan") == served and served.to_data()["rings"] == []
    assert [reduction["variable"] for reduction in served.to_data()["reductions"]] == ["weights", "bias"] * 3


def test_tables_come_back_from_files(tmp_path: Path) -> None:
    """Whose rows servers own in turn, or all gather; with the share that samples touch, of rings as well."""
    network = language_model(rows=40, width=6)
    plan = data_parallel(network, dies=4, batch=12)
    for sync, key in ((Server((0, 1, 2, 3), 4, interleaved=True), "server"), (Gathered(), "gathered"), (None, "rings")):
        some = plan if sync is None else with_rows(plan, table=sync)
        some = replace(some, sharding=replace(some.sharding, touched=(("table.weights", 0.1),)), definition=network)
        path = tmp_path / "plan.yaml"
        save_plan(path, some)
        assert load_plan(path) == some
        entry = some.to_data()["reductions"][-1]
        assert key in entry and entry["touched"] == 0.1 and entry["weights"] == {"input": [], "output": []}
        if sync is not None:
            assert (entry["least"], entry["most"]) == dict(zip(("server", "gathered"), (
                (2 * 12 * 6, 2 * 12 * 10 * 6), (12 * 6, 12 * 12 * 6)), strict=True))[key]
    for change, message in (({"touched": "many"}, "touched of layer 'table' must be a share, not 'many'"),
                            ({"touched": 1.5}, "that samples touch must be above 0 and at most 1, not 1.5"),
                            ({"gathered": 3}, "gathered is true or left out, not 3")):
        data = with_rows(plan, table=Gathered()).to_data()
        data["reductions"][-1].update(change)
        with pytest.raises(UserError) as error:
            plan_from_data(data, plan.graph, "plan.yaml")
        assert message in str(error.value) and "\n" not in str(error.value)
    data = with_rows(plan, table=Server((0,), 1)).to_data()
    data["reductions"][-1]["server"]["interleaved"] = "yes"
    with pytest.raises(UserError, match="interleaved must be true or false, not 'yes'"):
        plan_from_data(data, plan.graph, "plan.yaml")


def test_rows_of_servers_are_read_however_they_are_written() -> None:
    plan = kept()
    data = plan.to_data()
    data["reductions"][2]["server"]["pieces"]["lists"][0] = [*range(126, -1, -3)]
    assert plan_from_data(data, plan.graph, "plan") == plan


@pytest.mark.parametrize(("path", "value", "message"), [
    (["owners"], [0, 1, 2, 3], "the servers of variable 'fc1.weights' have 5 pieces, but 4 owners; give each piece"),
    (["owners"], [0, 1, 2, 3, 4], "the owner of piece 4 is a die from 0 to 3, not 4"),
    (["owners"], [0, 1, 2, 3, [0]], "the owner of piece 4 is a die from 0 to 3, not "),
    (["owners"], {"0": 1}, "owners must be a list with the die of each piece, 1024 at most, not "),
    (["owners"], [0] * 1025, "owners must be a list with the die of each piece, 1024 at most, not 1025 of them"),
    (["pieces"], 65, "64 rows are cut in 1 to 64 pieces, not 65"),
    (["pieces"], 1 << 40, "pieces must be an integer from 1 to 1024, or lists of rows, not "),
    (["pieces"], "all", "pieces must be an integer from 1 to 1024, or lists of rows, not the text 'all'"),
    (["pieces"], {"sizes": [60, 1, 1, 1]}, "rows: index 63 is in no part"),
    (["pieces"], {"sizes": [1] * 1025}, "sizes must be a list with the length of each part, 1024 at most, not 1025 of"),
    (["more"], 1, "server: unknown key 'more'"),
    ([], 7, "a server's entry is a mapping")])
def test_servers_that_were_edited_are_refused_in_one_line(path: list[str], value: object, message: str) -> None:
    plan = kept()
    data = plan.to_data()
    edit(data["reductions"][4], ["server", *path], value)
    with pytest.raises(UserError, match=message) as error:
        plan_from_data(data, plan.graph, "plan.yaml")
    assert "\n" not in str(error.value) and str(error.value).startswith("plan.yaml: ")


@pytest.mark.parametrize(("number", "key", "value", "message"), [
    (0, "variable", "bias", "reductions must be those of the 3 layers with weights, the last one first, each whole or"),
    (0, "variable", None, "reductions must be those of the 3 layers with weights, the last one first, each whole or"),
    (0, "variable", ["weights"], "reductions must be those of the 3 layers with weights, the last one first, each"),
    (1, "rings", 7, "the reduction of variable 'bias' of layer 'fc3' must name its rings, 0 to 1, not 7"),
    (2, "local", True, "variable 'weights' of layer 'fc2' has server and local, of which each stands in the place"),
    (3, "local", False, "the reduction of variable 'bias' of layer 'fc2': local is true or left out, not false"),
    (3, "server", {"owners": [0], "pieces": 1}, "layer 'fc2' has server and local, of which each stands"),
    (2, "server", None, "variable 'weights' of layer 'fc2': server: a server's entry is a mapping, not nothing"),
    (5, "local", True, "the reduction of variable 'bias' of layer 'fc1' has rings and local, of which each stands"),
    (3, "pieces", 1, r"reductions\[3\] has an entry 'pieces', but none follows from the splits")])
def test_copies_of_variables_that_were_edited_are_refused_in_one_line(number: int, key: str, value: object,
                                                                      message: str) -> None:
    plan = kept()
    data = plan.to_data()
    data["reductions"][number][key] = value
    with pytest.raises(UserError, match=message) as error:
        plan_from_data(data, plan.graph, "plan.yaml")
    assert "\n" not in str(error.value) and str(error.value).startswith("plan.yaml: ")


def test_a_plan_with_other_copies_is_written_read_and_predicted_anew(tmp_path: Path) -> None:
    planned = plinth.plan("digits-mlp", planner="data")
    rings = planned.plan.sharding.copies
    whole = planned.plan.resharded(copies=tuple(
        (name, replace(variable_ring, pieces=1)) for name, variable_ring in rings))
    (tmp_path / "plan.yaml").write_text(whole.to_yaml())
    again = plinth.load_plan(tmp_path / "plan.yaml")
    assert whole.predicted_seconds is None and again.plan.sharding == whole.sharding != planned.plan.sharding
    assert again.totals.predicted_seconds > planned.totals.predicted_seconds


def test_the_first_of_several_unknown_keys_is_named() -> None:
    data = random_plan().to_data()
    data["reductions"][0].update(dict.fromkeys(map("more{}".format, range(64)), 1))
    with pytest.raises(UserError, match=r"reductions\[0\] has an entry 'more0', but none follows from the splits"):
        plan_from_data(data, GRAPH, "plan.yaml")


def test_an_entry_that_says_no_way_is_refused_in_one_line() -> None:
    plan = kept()
    data = plan.resharded(copies=tuple((name, Server((0,), 1)) for name in plan.graph.variables)).to_data()
    del data["reductions"][1]["server"]
    with pytest.raises(UserError, match=r"^plan.yaml: the reduction of variable 'bias' of layer 'fc3' must have rings, "
                                        "server, gathered or local; make the plan again with `plinth plan`$"):
        plan_from_data(data, plan.graph, "plan.yaml")


def test_commands_refuse_what_dies_cannot_keep_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(kept().to_yaml())
    for command in (["step"], ["simulate"], ["train", "--device", "golden"], ["train", "--device", "numpy"]):
        with pytest.raises(SystemExit) as stop:
            cli.main([command[0], str(path), *command[1:]])
        captured = capsys.readouterr()
        assert stop.value.code == 2 and captured.err.count("\n") == 1
        assert "variable 'fc1.weights' is kept by servers, as dies keep tables of embeddings alone" in captured.err
    with pytest.raises(UserError, match=r"variable 'fc1\.weights' is kept by servers"):
        plinth.load_plan(path)


def test_a_split_that_a_junction_cannot_take_is_refused() -> None:
    graph = from_network(NETWORKS["wrn-40-10"])
    number = next(number for number, node in enumerate(graph.nodes) if node.junction)
    splits = [("dp",)] * len(graph.nodes)
    splits[number] = ("op",)
    with pytest.raises(UserError, match="'op'"):
        Plan(sharding=Sharding(graph=graph, splits=tuple(splits), batch=4), planner="joint", model="exact",
             array="ring-2")


def test_the_schema_names_every_key() -> None:
    schema, data = plan_schema(), listed().resharded(rule=UpdateRule("momentum")).to_data()
    # Plans of several micro-batches say so.
    assert [key for key in schema["properties"] if key != "micro_batches"] == list(data)
    for key in ("layers", "transfers", "reductions"):
        keys = schema["properties"][key]["items"]["properties"]
        # Those of Winograd tiles stand in plans that split them, and rings in the place of others.
        assert [key for key in keys if key not in ("elements", "copies", "rows", "coded", "variable", "server", "least",
                                                   "most", "gathered", "touched", "local")] == list(data[key][0])
    parts = schema["properties"]["layers"]["items"]["properties"]["parts"]["properties"]
    assert list(parts) == ["samples", "inputs", "outputs", "owners"]


#: Lists of each kind: sizes, index sets, owners.
UNEVEN = Lists(samples=ranges_of((7, 0, 1, 2)), owners=(3, 1, 0, 2))


def listed(batch: int = 10) -> Plan:
    lists = (UNEVEN, Lists(inputs=tuple(map(runs_of, ([0, 3, 4, 5], [1, 2, 6, 7])))),
             Lists(outputs=tuple(map(runs_of, (range(0, 384, 3), [x for x in range(384) if x % 3])))), None, UNEVEN)
    return random_plan(batch=batch).resharded(
        splits=(("dp", "dp"), ("mp", "op"), ("op", "mp"), ("dp", "mp"), ("dp", "dp")), lists=lists)


def test_plans_of_tiles_come_back_from_files(tmp_path) -> None:
    network = with_tiles(NETWORKS["digits-cnn"], 2, "winograd")
    graph = from_network(network)
    splits = (("mp", "ep"), ("ep", "op"), ("dp", "dp"), ("dp", "dp"), ("dp", "dp"))
    plan = Plan(sharding=Sharding(graph=graph, splits=splits, batch=8, factors=(2, 2)), planner="joint", model="exact",
                array="ring-4", definition=network)
    path, schema = tmp_path / "plan.yaml", plan_schema()["properties"]
    path.write_text(plan.to_yaml())
    assert load_plan(path) == plan
    data = plan.to_data()
    assert {transfer["kind"] for transfer in data["transfers"]} >= {"scatter", "gather", "bias"}
    for key in ("transfers", "reductions"):
        assert set().union(*data[key]) <= set(schema[key]["items"]["properties"])
    for end in ("from", "to"):
        known = schema["transfers"]["items"]["properties"][end]["properties"]
        assert set().union(*(transfer[end] for transfer in data["transfers"])) <= set(known)
    first = data["transfers"][0]
    path.write_text(plan.to_yaml().replace(f"words: {first['words']}\n", f"words: {first['words'] + 1}\n", 1))
    with pytest.raises(UserError, match="follows from the splits"):
        load_plan(path)
    # Kernels of the zoo are another network.
    path.write_text(plan.to_yaml())
    with pytest.raises(UserError, match="the plan is for another network called 'digits-cnn'"):
        load_plan(path, NETWORKS["digits-cnn"])


def test_a_file_with_more_groups_than_elements_is_named(tmp_path) -> None:
    """32 groups of 16 elements: a plan that cannot be made, so what a file may hold is written into another's."""
    network = with_tiles(NETWORKS["digits-cnn"], 2, "winograd")
    graph = from_network(network)
    data = Plan(sharding=Sharding(graph=graph, splits=(("dp",) * 5,) * len(graph.nodes), batch=64, factors=(2,) * 5,
                                  array=ring(32)),
                planner="joint", model="exact", array="ring-32", definition=network).to_data()
    data["layers"][0]["splits"] = ["ep"] * 5
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(data))
    with pytest.raises(UserError, match=rf"^{path}: layer 'conv1' splits its tiles over 32 groups of dies, but a tile "
                                        "has 16 elements; split fewer levels by 'ep'$"):
        load_plan(path)


def test_lists_come_back_from_files_however_they_are_written(tmp_path) -> None:
    plan = listed()
    for name, text in (("plan.yaml", plan.to_yaml()), ("plan.json", json.dumps(plan.to_data()))):
        (tmp_path / name).write_text(text)
        assert load_plan(tmp_path / name, NETWORKS["digits-cnn"]) == plan
    data = plan.to_data()
    assert data["layers"][0]["parts"] == {"samples": {"sizes": [7, 0, 1, 2]}, "owners": [3, 1, 0, 2]}
    assert data["layers"][1]["parts"]["inputs"]["lists"] == [[0, [3, 5]], [[1, 2], [6, 7]]]
    data["layers"][0]["parts"]["samples"] = {"lists": [[6, [0, 5]], [], [7], [9, 8]]}
    assert plan_from_data(data, GRAPH, "plan") == plan


@pytest.mark.parametrize(("path", "value", "message"), [
    (["layers", 0, "parts", "samples"], {"sizes": [7, 0, 1, 3]}, "index 10 of part 3 is out of range; indices go from"),
    (["layers", 0, "parts", "samples"], {"sizes": [7, 0, 1, 1]}, "index 9 is in no part; give each index to one part"),
    (["layers", 0, "parts", "samples"], {"sizes": [7, 3, 0]}, "the list has 3 parts; give 2 or 4, as the splits cut"),
    (["layers", 0, "parts", "samples"], {"lists": [[[0, 6]], [3], [7], [8, 9]]}, "index 3 is in parts 0 and 1"),
    (["layers", 0, "parts", "samples"], {"lists": [[[6, 0]]]}, "part 0: an index is an integer or .first, last., not"),
    (["layers", 0, "parts", "samples"], {"lists": [7]}, "part 0 must be a list of indices"),
    (["layers", 0, "parts", "samples"], {}, "give either sizes or lists"),
    (["layers", 0, "parts", "samples"], {"sizes": [True, 9, 0, 0]}, "sizes must be integers from 0 on"),
    (["layers", 0, "parts", "samples"], {"sizes": 7}, "sizes must be a list with the length of each part"),
    (["layers", 0, "parts", "outputs"], {"sizes": [8]}, "layer 'conv1': outputs: the list has 1 parts; no level"),
    (["layers", 0, "parts", "owners"], [3, 1, 0, 1], "owners are no partition of 4 dies: die 1 is in two; give each"),
    (["layers", 0, "parts", "owners"], [3, 1, 0], "owners are no partition of 4 dies: die 2 is in none"),
    (["layers", 0, "parts", "owners"], [3, 1, 0, 4], "owners are no partition of 4 dies: 4 is no die"),
    (["layers", 0, "parts", "owners"], ["x"], "owners must be numbers of dies"),
    (["layers", 0, "parts", "owner"], [3], "unknown key 'owner'"),
    (["layers", 0, "parts", "owners"], [0, 1, 2, 3], "follows from the splits"),
    (["loss"], {"parts": {"outputs": {"sizes": [1]}}}, "layer 'loss': outputs: the list has 1 parts"),
    (["loss"], 7, "an entry of the loss is a mapping"),
    (["transfers", 0, "from", "parts", "owners", 0], 9, r"transfers\[0\].from.parts.owners\[0\] is 9, but 3 follows"),
])
def test_lists_that_were_edited_are_refused_in_one_line(path, value, message) -> None:
    data = copy.deepcopy(listed().to_data())
    edit(data, path, value)
    with pytest.raises(UserError, match=message) as error:
        plan_from_data(data, GRAPH, "plan.yaml")
    assert "\n" not in str(error.value) and str(error.value).startswith("plan.yaml: ")


@settings(deadline=None, max_examples=25, derandomize=True)
@given(st.randoms(use_true_random=False), st.integers(0, 9))
def test_any_lists_come_back(rng, seed) -> None:
    plan = random_plan(seed=seed)
    plan = plan.resharded(lists=random_lists(rng, plan.graph, plan.splits, plan.batch, plan.factors))
    assert plan_from_data(json.loads(json.dumps(plan.to_data())), GRAPH, "plan") == plan
