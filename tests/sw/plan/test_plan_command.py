"""``plinth plan``: the table, the JSON, the files, and what is refused."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import plinth
from plinth import cli, names
from plinth.cli import commands
from plinth.errors import UserError
from plinth.network.zoo import NETWORKS
from plinth.plan.plan_file import load_plan, plan_schema
from plinth.plan.planning import PLANNERS, SPLITTERS
from plinth.predict.models import MODELS


def run(capsys, *arguments: str) -> str:
    cli.main(["plan", *arguments])
    return capsys.readouterr().out


def refused(capsys, *arguments: str) -> str:
    with pytest.raises(SystemExit) as stop:
        cli.main(["plan", *arguments])
    captured = capsys.readouterr()
    assert stop.value.code == 2 and captured.out == ""
    assert captured.err.startswith("plinth: error: ") and captured.err.count("\n") == 1
    return captured.err


def test_json_is_one_object_with_the_promised_keys(capsys) -> None:
    report = json.loads(run(capsys, "vgg-a", "--array", "hypar-16", "--planner", "hypar", "--model", "published",
                            "--batch", "256", "--json"))
    assert {key: report[key] for key in ("network", "planner", "model", "levels", "batch")} == {
        "network": "vgg-a", "planner": "hypar", "model": "published", "levels": 4, "batch": 256}
    assert [len(row["splits"]) for row in report["layers"]] == [4] * 11
    assert {row["layer"]: row["splits"] for row in report["layers"]}["conv5_2"] == ["dp", "dp", "dp", "mp"]
    assert f"{4 * report['predicted_injected_words'] / 1e9:.3g}" == "1.47"
    assert f"{4 * report['baselines']['data']['predicted_injected_words'] / 1e9:.3g}" == "15.9"
    parts = report["predicted_cycles_by_part"]
    assert report["predicted_cycles"] == parts["compute"] + parts["transfers"] + parts["exposed_reductions"]
    assert report["predicted_seconds"] > 0 and set(report["baselines"]) == {"data", "model"}


def test_a_plan_beyond_the_memory_of_a_die_is_warned_of(capsys, tmp_path) -> None:
    array = tmp_path / "array.yaml"
    arguments = ("digits-mlp", "--planner", "data", "--batch", "32", "--array", str(array))
    array.write_text("{version: 1, name: small, topology: ring, dies: 4, preset: ndp-demo}\n")
    report = json.loads(run(capsys, *arguments, "--json"))
    need = report["needed_memory_bytes"]
    assert report["fits_memory"] and 0 < need <= report["memory_bytes"] == 8 * 10**9
    for have, fits in ((need, True), (need - 1, False)):
        array.write_text("{version: 1, name: small, topology: ring, dies: 4, preset: ndp-demo, "
                         f"memory_bytes: {have}}}\n")
        report = json.loads(run(capsys, *arguments, "--json"))
        assert (report["needed_memory_bytes"], report["memory_bytes"], report["fits_memory"]) == (need, have, fits)
        text = run(capsys, *arguments)
        assert text.count("warning: the fullest die needs") == (not fits)
        assert bool(re.search(r"warning: .*: \w+\.\w+ [\d.]+ \wB, .* others", text)) == (not fits)
    assert "of memory, a die of small has" in text


@pytest.mark.parametrize("arguments", [
    "digits-mlp --dies 2 --planner data --batch 16", "digits-mlp --dies 2 --machine hypar --planner data --batch 16",
    "digits-mlp --format mixed --dies 2 --batch 16", "digits-mlp --array full-2 --planner data --update momentum",
    "digits-mlp --machine fpga --dies 2 --batch 16", "digits-mlp --machine fpga --dies 2 --update sgd --batch 16",
    "digits-mlp --machine fpga --dies 2 --update adagrad --narrow --stochastic --batch 16"])
def test_a_plan_of_before_is_refused_with_the_command_that_makes_it_anew(capsys, tmp_path, arguments: str) -> None:
    """The command that the message names makes the same plan."""
    path, anew = tmp_path / "plan.yaml", tmp_path / "anew.yaml"
    run(capsys, *arguments.split(), "--out", str(path))
    whole = path.read_text()
    path.write_text(whole.replace("version: 4", "version: 3", 1))
    with pytest.raises(UserError, match="version must be 4, not 3; make the plan again with `plinth plan ") as error:
        load_plan(path)
    command = re.search("`plinth plan (.*) FILE`", str(error.value))
    assert command is not None
    run(capsys, *command[1].split(), str(anew))
    assert anew.read_text() == whole


def test_files_in_a_command_that_makes_a_plan_anew_are_placeholders(capsys, tmp_path) -> None:
    """Names of networks and arrays in files of their own name nothing by themselves."""
    (tmp_path / "array.yaml").write_text("{version: 1, name: pair, topology: ring, dies: 2, preset: hypar-demo}\n")
    (tmp_path / "network.yaml").write_text("{version: 2, name: small, input: [4], layers: [{name: fc1, kind: dense, "
                                           "outputs: 3}, {name: loss, kind: softmax-cross-entropy}]}\n")
    (tmp_path / "parts.yaml").write_text("fc1: {samples: {sizes: [20, 12]}}\n")
    path = tmp_path / "plan.yaml"
    run(capsys, str(tmp_path / "network.yaml"), "--array", str(tmp_path / "array.yaml"), "--planner", "data",
        "--batch", "32", "--parts", str(tmp_path / "parts.yaml"), "--out", str(path))
    path.write_text(path.read_text().replace("version: 4", "version: 3", 1))
    with pytest.raises(UserError, match=r"`plinth plan NETWORK --array ARRAY --planner data --model exact --batch 32 "
                                        r"--parts PARTS --out FILE`$"):
        load_plan(path)


PARTS = """fc1: {samples: {sizes: [20, 12, 0]}}
fc2: {samples: {lists: [[0, [8, 31]], [[1, 4]], [[5, 7]]]}, owners: [1, 2, 0]}
"""


def test_lists_of_parts_are_planned_written_trained_and_simulated(capsys, tmp_path) -> None:
    (tmp_path / "parts.yaml").write_text(PARTS)
    path = tmp_path / "plan.yaml"
    text = run(capsys, "digits-mlp", "--array", "ring-3", "--planner", "data", "--batch", "32", "--parts",
               str(tmp_path / "parts.yaml"), "--out", str(path))
    assert "fc2 by list: samples, other owners" in text and "levels are the factors of 3 dies: H1 in 3" in text
    assert "data by list" in text
    plan = load_plan(path)
    assert plan.lists[0] is not None and plan.lists[1] is not None and plan.lists[1].owners == (1, 2, 0)
    cli.main(["simulate", str(path), "--json"])
    assert json.loads(capsys.readouterr().out)["injected_words"] == plan.words
    cli.main(["train", str(path), "--device", "golden", "--steps", "1", "--out", str(tmp_path)])
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["failure"] is None and report["plan"] == plan.to_data()


@pytest.mark.parametrize(("parts", "message"), [
    ("fc9: {}", "unknown key 'fc9'"), ("[]", "a file of parts is a mapping"),
    ("fc1: {samples: {sizes: [20, 12]}}", "layer 'fc1': samples: the list has 2 parts; give 3, as the splits cut it"),
    ("fc1: {inputs: {sizes: [64]}}", "inputs: the list has 1 parts; no level splits this axis: leave the list out"),
    ("fc1: {owners: [0, 0, 1]}", "owners are no partition of 3 dies: die 0 is in two; give each die one seat")])
def test_lists_that_do_not_fit_are_refused(parts, message, capsys, tmp_path) -> None:
    (tmp_path / "parts.yaml").write_text(parts)
    assert message in refused(capsys, "digits-mlp", "--array", "ring-3", "--planner", "data", "--batch", "32",
                              "--parts", str(tmp_path / "parts.yaml"))


def test_what_a_plan_predicts_is_compared_where_it_is_used(capsys, tmp_path) -> None:
    path = tmp_path / "plan.json"
    run(capsys, "digits-mlp", "--array", "ring-2", "--batch", "32", "--out", str(path))
    data = json.loads(path.read_text())
    seconds = data["predicted_seconds"]
    for wrong, ends in ((seconds * (1 + 1e-9), False), (seconds * 1.001, True)):
        path.write_text(json.dumps(data | {"predicted_seconds": wrong}))
        for command in (["simulate", str(path)], ["train", str(path), "--device", "golden", "--steps", "1", "--out",
                                                  str(tmp_path)]):
            if not ends:
                cli.main(command)
                capsys.readouterr()
                continue
            with pytest.raises(SystemExit):
                cli.main(command)
            error = capsys.readouterr().err
            assert f"predicted_seconds is {wrong:.9g}, but a step of this plan is predicted to take" in error
            assert f"{seconds:.9g}; make the plan again with `plinth plan`" in error


def test_junctions_have_splits_of_their_own(capsys) -> None:
    report = json.loads(run(capsys, "resnet-34", "--array", "hypar-16", "--planner", "hypar", "--json"))
    kinds = [row["kind"] for row in report["layers"]]
    assert kinds.count("add") == 16 and len(kinds) == 16 + len(NETWORKS["resnet-34"].weighted)
    assert {len(row["splits"]) for row in report["layers"]} == {4}


@pytest.mark.parametrize("planner", SPLITTERS)
def test_every_planner_prints_a_table_and_writes_a_plan(planner, capsys, tmp_path) -> None:
    out = tmp_path / "folder" / "plan.yaml"
    text = run(capsys, "digits-mlp", "--array", "ring-4", "--planner", planner, "--batch", "30", "--out", str(out))
    for word in ("fc1", "H1", "H2", "data", "model", "cycles from"):
        assert word in text
    plan = load_plan(out, NETWORKS["digits-mlp"])
    assert (plan.planner, plan.dies, plan.batch) == (planner, 4, 30)


def test_a_plan_is_written_as_json_and_drawn(capsys, tmp_path) -> None:
    out, picture = tmp_path / "plan.json", tmp_path / "plan.png"
    run(capsys, "lenet-c", "--planner", "data", "--array", "ring-1", "--out", str(out), "--picture", str(picture))
    assert json.loads(out.read_text())["levels"] == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.json", "plan.png"]


def test_names_of_planners_and_models_are_said_once() -> None:
    """Commands, plan files, their schema and the tables of functions take them from one place."""
    options = {option.name: vars(option.type) for option in commands.cli.commands["plan"].params}
    fields = plan_schema()["properties"]
    root = Path(plinth.__file__).parent
    texts = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*.py")}
    for option, known, table in (("planner", names.PLANNER_NAMES, PLANNERS), ("model", names.MODEL_NAMES, MODELS)):
        assert tuple(table) == known
        assert tuple(options[option]["choices"]) == known
        assert fields[option]["enum"] == list(known)
        said = r",\s+".join(f'"{name}"' for name in known)
        assert [name for name, text in texts.items() if re.search(rf"[(=]\s*{said}[)\n]", text)] == ["names.py"]


def test_what_cannot_be_planned_is_refused_in_one_line(capsys, tmp_path) -> None:
    assert "65,536" in refused(capsys, "vgg-a", "--planner", "exhaustive")
    assert "nosuch" in refused(capsys, "nosuch")
    assert "nosuch" in refused(capsys, "lenet-c", "--array", "nosuch")
    assert "--batch" in refused(capsys, "lenet-c", "--batch", "0")
    assert ".yaml" in refused(capsys, "lenet-c", "--out", str(tmp_path / "plan.txt"))
    assert ".png" in refused(capsys, "lenet-c", "--picture", str(tmp_path / "plan.jpg"))
    array = tmp_path / "three.yaml"
    array.write_text("{version: 1, name: three, topology: ring, dies: 3, preset: ndp-tiny}\n")
    assert "choose --model exact" in refused(capsys, "lenet-c", "--array", str(array), "--model", "published")
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert "cannot be written" in refused(capsys, "lenet-c", "--planner", "data", "--out", str(blocked / "plan.yaml"))
    plan_file = tmp_path / "plan.yaml"
    run(capsys, "lenet-c", "--planner", "data", "--out", str(plan_file))
    assert "plan.yaml: a plan, where a network is wanted; give the network" in refused(capsys, str(plan_file))


def test_the_schema_is_printed(capsys) -> None:
    cli.main(["schema", "plan"])
    assert json.loads(capsys.readouterr().out)["title"] == "Plan"


def test_mpt_says_where_joint_is_shorter(capsys) -> None:
    """It is told from 5 % on; less communication is not always less time."""
    def planned(planner: str, array: str, batch: int) -> tuple[dict[str, Any], str]:
        cli.main(["plan", "digits-cnn", "--winograd", "2", "--planner", planner, "--json", "--array", array, "--batch",
                  str(batch)])
        captured = capsys.readouterr()
        return json.loads(captured.out), captured.err

    (data, told), (other, nothing) = (planned(planner, "ring-8", 16) for planner in ("mpt", "joint"))
    less = 1 - other["predicted_seconds"] / data["predicted_seconds"]
    assert less > 0.05 and f"joint is predicted to take {less:.0%} less time" in data["notes"][0]
    assert told == f"note: {data['notes'][0]}\n" and "notes" not in other and nothing == ""
    data, told = planned("mpt", "ring-2", 64)
    assert "notes" not in data and told == ""
