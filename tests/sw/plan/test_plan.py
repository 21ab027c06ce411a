"""Plans as files: what they state, and what is refused."""

import copy
import json
import random
from itertools import chain as joined

import pytest
from tests.support.plan_graphs import random_graph, random_splits

from plinth.errors import UserError
from plinth.model.files import parse_yaml
from plinth.model.zoo import NETWORKS
from plinth.partition.graph import SPLITS, from_network
from plinth.plan.plan import Plan
from plinth.plan.plan_file import load_plan, plan_from_data, plan_schema

GRAPH = from_network(NETWORKS["digits-cnn"])


def made(levels: int = 2, seed: int = 1, batch: int = 10) -> Plan:
    return Plan(graph=GRAPH, planner="joint", model="exact", array={2: "ring-4", 10: "hypar-1024"}[levels],
                batch=batch, chunk_words=64,
                splits=random_splits(random.Random(seed), GRAPH, levels, SPLITS), predicted_seconds=0.25)


def test_a_plan_comes_back_from_yaml_and_json(tmp_path) -> None:
    for seed in range(5):
        plan = made(seed=seed)
        for name, text in (("plan.yaml", plan.to_yaml()), ("plan.json", json.dumps(plan.to_data()))):
            (tmp_path / name).write_text(text)
            assert load_plan(tmp_path / name, NETWORKS["digits-cnn"]) == plan


def test_words_add_up_and_every_transfer_is_listed() -> None:
    rng = random.Random(5)
    for _ in range(10):
        graph = random_graph(rng, 2, (5, 8))
        plan = Plan(graph=graph, planner="joint", model="exact", array="ring-8", batch=7, chunk_words=64,
                    splits=random_splits(rng, graph, 3, SPLITS))
        data = plan.to_data()
        for transfer in data["transfers"]:
            assert sum(words for _, _, words in transfer["pairs"]) == transfer["words"]
        for reduction in data["reductions"]:
            assert sum(2 * (len(ring["members"]) - 1) * ring["words"]
                       for ring in reduction["rings"]) == reduction["words"]
            assert sorted(joined.from_iterable(ring["members"] for ring in reduction["rings"])) == list(range(8))
        assert data["words"] == sum(one["words"] for one in (*data["transfers"], *data["reductions"]))
        assert [layer["name"] for layer in data["layers"]] == [node.name for node in graph.nodes[:-1]]


def test_a_data_parallel_plan_only_reduces_weights() -> None:
    plan = Plan(graph=GRAPH, planner="data", model="exact", array="ring-4", batch=8, chunk_words=64,
                splits=(("dp", "dp"),) * len(GRAPH.nodes))
    assert not plan.transfers
    assert {ring.members for one in plan.reductions for ring in plan.rings(one)} == {(0, 1, 2, 3)}
    assert plan.words == 6 * NETWORKS["digits-cnn"].parameters


def test_large_arrays_state_regions_only() -> None:
    plan = made(levels=10, batch=256)
    text = plan.to_yaml()
    assert len(text) < 1 << 16
    data = parse_yaml(text, "plan")
    assert not any("pairs" in one for one in data["transfers"])
    assert plan_from_data(data, GRAPH, "plan") == plan


def edit(data, path, value) -> None:
    for key in path[:-1]:
        data = data[key]
    data[path[-1]] = value


@pytest.mark.parametrize(("path", "value", "message"), [
    (["version"], 2, "version must be 3, not 2; make the plan again with `plinth plan digits-cnn --array ring-4 "
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
    (["reductions", 0, "rings", 0, "members"], [0, 0, 2, 3], "no partition of 4 dies: 0 is in two"),
    (["network"], "vgg-a", "for network .*vgg-a.*, not 'digits-cnn'"),
    (["fingerprint"], "0", "another network called 'digits-cnn'"),
    (["layers", 0, "splits", 0], "xp", "unknown split"),
    (["layers", 0, "splits"], ["dp"], "list of 2"),
    (["layers", 0, "name"], "other", "in its place"),
    (["layers"], [], "list of the 4 layers"),
    (["transfers", 0, "words"], 1, r"transfers\[0\].words is 1, but"),
    (["transfers", 0, "pairs", 0, 2], 1, r"transfers\[0\].pairs\[0\]\[2\] is 1, but"),
    (["transfers", 0, "pairs", 0, 0], 3, r"transfers\[0\].pairs\[0\]\[0\]"),
    (["transfers"], [], "transfers has 0 entries"),
    (["reductions", 0, "rings", 0, "members"], [9], "rings of reduction .* are no partition of 4 dies"),
    (["words"], True, "words is True"),
    (["dies"], 8, "dies is 8, but 4"),
    (["batch"], 1 << 40, "batch must be"),
    (["batch"], 11, "follows from the splits"),
    (["levels"], 99, "levels must be"),
    (["predicted_seconds"], "1e3", "predicted_seconds"),
    (["array"], 4, "array must be a name"),
    (["plannr"], 1, "unknown key 'plannr'"),
])
def test_a_plan_that_was_edited_is_refused_in_one_line(path, value, message) -> None:
    data = copy.deepcopy(made().to_data())
    edit(data, path, value)
    with pytest.raises(UserError, match=message) as error:
        plan_from_data(data, GRAPH, "plan.yaml")
    assert "\n" not in str(error.value) and str(error.value).startswith("plan.yaml: ")


def test_another_split_needs_other_transfers() -> None:
    data = made().to_data()
    for layer in data["layers"]:
        layer["splits"] = ["dp", "dp"]
    with pytest.raises(UserError, match="follows from the splits"):
        plan_from_data(data, GRAPH, "plan.yaml")


def test_a_split_that_a_junction_cannot_take_is_refused() -> None:
    graph = from_network(NETWORKS["wrn-40-10"])
    number = next(number for number, node in enumerate(graph.nodes) if node.junction)
    splits = [("dp",)] * len(graph.nodes)
    splits[number] = ("op",)
    with pytest.raises(UserError, match="'op'"):
        Plan(graph=graph, planner="joint", model="exact", array="ring-2", batch=4, chunk_words=64,
             splits=tuple(splits))


def test_the_schema_names_every_key() -> None:
    schema, data = plan_schema(), made().to_data()
    assert list(schema["properties"]) == list(data)
    for key in ("layers", "transfers", "reductions"):
        assert list(schema["properties"][key]["items"]["properties"]) == list(data[key][0])
