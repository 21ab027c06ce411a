"""``plinth simulate``: the table, the JSON, the trace, the picture, and what is refused."""

import json
import re
from pathlib import Path

import pytest
import yaml
from matplotlib.figure import Figure

from plinth import cli
from plinth.array.array import ARRAYS, ring
from plinth.bench.rows import BENCHES
from plinth.cli import names
from plinth.network.zoo import NETWORKS
from plinth.simulate import step
from plinth.simulate.costs import COSTS

PNG = b"\x89PNG\r\n\x1a\n"
#: Quick, and without a table of the RTL.
QUICK = ("digits-mlp", "--array", "torus-2x4", "--batch", "64", "--cost", "paper")


def run(capsys, *arguments: str) -> str:
    cli.main(["simulate", *arguments])
    return capsys.readouterr().out


def refused(capsys, *arguments: str) -> str:
    with pytest.raises(SystemExit) as stop:
        cli.main(["simulate", *arguments])
    captured = capsys.readouterr()
    assert stop.value.code == 2 and captured.out == ""
    assert captured.err.startswith("plinth: error: ") and captured.err.count("\n") == 1
    return captured.err


@pytest.fixture
def plan(capsys, tmp_path) -> Path:
    path = tmp_path / "plan.yaml"
    cli.main(["plan", "digits-mlp", "--array", "full-4", "--planner", "model", "--batch", "32", "--out", str(path)])
    capsys.readouterr()
    return path


def test_names_are_those_of_the_tables() -> None:
    assert tuple(COSTS) == names.COST_NAMES
    assert {"simulate_vgg_e_16_seconds", "simulate_vgg_e_1024_seconds"} <= BENCHES.keys()


def test_json_is_one_object_with_what_the_step_took(capsys) -> None:
    report = json.loads(run(capsys, *QUICK, "--json", "--slow", "3=2"))
    assert {key: report[key] for key in ("network", "array", "dies", "batch", "planner", "cost", "slow")} == {
        "network": "digits-mlp", "array": "torus-2x4", "dies": 8, "batch": 64, "planner": "joint", "cost": "paper",
        "slow": {"3": 2.0}}
    assert (report["simulated"], report["grouped_because"]) == (
        "in groups of tasks", "costs are those of HyPar's paper")
    assert report["seconds"] > 0 and report["energy_joules"] == pytest.approx(
        sum(report["energy_joules_by_kind"].values()))
    assert [row["die"] for row in report["per_die"]] == list(range(8))
    for row in report["per_die"]:
        for spent in row["engine_seconds"].values():
            assert sum(spent.values()) == pytest.approx(report["seconds"])
    assert report["per_die"][3]["speed"] == 0.5
    assert len(report["links"]) == 2 * len(ARRAYS["torus-2x4"].links)
    assert all(0 <= row["utilisation"] <= 1 for row in report["links"])


def test_the_table_names_what_matters(capsys) -> None:
    text = run(capsys, *QUICK)
    for word in ("a step:", "matrix", "waits for others", "utilisation", "die 0 to die 1", "DRAM", "cycles from"):
        assert word in text
    assert "…" not in text and max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(("arguments", "why"), [
    (("digits-mlp",), ""), (("digits-mlp", "--array", "hypar-16"), ""),
    (("digits-mlp", "--cost", "paper"), "costs are those of HyPar's paper"),
    (("alexnet", "--array", "ring-4", "--planner", "data", "--batch", "256"), "it has more than 80,000 tasks")])
def test_which_model_it_was_is_said(capsys, arguments: tuple[str, ...], why: str) -> None:
    report = json.loads(run(capsys, *arguments, "--json"))
    assert report["simulated"] == ("in groups of tasks" if why else "task by task")
    assert report.get("grouped_because", "").startswith(why) and bool(why) == ("grouped_because" in report)
    assert ("in groups of tasks, as" if why else "task by task") in " ".join(run(capsys, *arguments).split())


def test_one_die_has_no_links(capsys) -> None:
    text = run(capsys, "digits-mlp", "--array", "ring-1", "--cost", "paper")
    assert "utilisation" not in text and "mean" not in text


def test_a_plan_is_simulated_on_its_own_array(capsys, plan) -> None:
    report = json.loads(run(capsys, "--plan", str(plan), "--cost", "paper", "--json"))
    assert (report["array"], report["planner"], report["batch"]) == ("full-4", "model", 32)
    assert "the plan is for topology 'full' of array 'full-4', not 'ring' of array 'ring-4'" in refused(
        capsys, "--plan", str(plan), "--array", "ring-4", "--cost", "paper")
    for same in (("digits-mlp", "--plan", str(plan)), (str(plan),)):
        assert json.loads(run(capsys, *same, "--cost", "paper", "--json")) == report


def test_the_trace_has_every_task_and_opens_as_json(capsys, plan, tmp_path) -> None:
    path = tmp_path / "folder" / "trace.json"
    report = json.loads(run(capsys, "--plan", str(plan), "--cost", "paper", "--json", "--trace", str(path)))
    events = json.loads(path.read_text())["traceEvents"]
    tracks = {(event["pid"], event["args"]["name"]) for event in events if event["name"] == "thread_name"}
    assert {(die, "matrix") for die in range(4)} <= tracks
    used = {row["link"] for row in report["links"] if row["link_words"]}
    assert {name for process, name in tracks if process == 4} == used
    last = max(event["ts"] + event["dur"] for event in events if event["ph"] == "X")
    assert last == pytest.approx(report["seconds"] * 1e6, rel=0.05)


def test_the_picture_has_engines_that_work(capsys, tmp_path, monkeypatch) -> None:
    """Those that make tiles as well."""
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(
        {label.get_text() for label in figure.axes[0].get_yticklabels()}))
    for more in ((), ("--winograd", "2")):
        run(capsys, "digits-cnn", "--array", "ring-2", "--planner", "data", "--batch", "8", *more, "--picture",
            str(tmp_path / "p.png"))
    direct, tiles = ({label for label in labels if label.endswith(("matrix", "vector", "transfer"))}
                     for labels in drawn)
    assert {"die 0 matrix", "die 0 vector"} <= direct and "die 0 transfer" not in direct
    assert tiles == direct | {"die 0 transfer", "die 1 transfer"}


def test_the_picture_is_drawn(capsys, tmp_path) -> None:
    alone = ("digits-mlp", "--array", "ring-1", "--cost", "paper")
    for name, arguments in (("links.png", QUICK), ("alone.png", alone)):
        run(capsys, *arguments, "--picture", str(tmp_path / name))
        assert (tmp_path / name).read_bytes().startswith(PNG)


@pytest.mark.parametrize(("arguments", "needle"), [
    (("nope",), "digits-mlp"),
    (("digits-mlp", "--array", "nope"), "array 'nope' is unknown"),
    (("digits-mlp", "--array", "ring-4", "--slow", "x"), "--slow 'x' is not a die"),
    (("digits-mlp", "--array", "ring-4", "--slow", "1=0"), "factor from 0.001"),
    (("digits-mlp", "--array", "ring-4", "--slow", "1=2", "--slow", "1=3"), "once"),
    (("digits-mlp", "--array", "ring-4", "--slow", "9=2", "--cost", "paper"), "die 9 cannot be slow"),
    (("digits-mlp", "--trace", "trace.txt"), "--trace trace.txt must end in .json"),
    (("digits-mlp", "--picture", "p.jpg"), "--picture p.jpg must end in .png"),
    (("digits-mlp", "--cost", "free"), "paper"),
    (("--plan", "nowhere.yaml"), "nowhere.yaml"),
    (("--plan", "nowhere.yaml", "--planner", "data"), "--planner and a plan both"),
    (("--plan", "nowhere.yaml", "--batch", "3"), "--batch and a plan both"),
])
def test_bad_input_is_one_line(capsys, arguments, needle) -> None:
    assert needle in refused(capsys, *arguments)


def test_a_plan_for_more_dies_than_the_array_has(capsys, tmp_path) -> None:
    path = tmp_path / "plan.yaml"
    cli.main(["plan", "digits-mlp", "--planner", "data", "--out", str(path)])
    capsys.readouterr()
    text = refused(capsys, "--plan", str(path), "--array", "torus-2x4", "--cost", "paper")
    assert "the plan is for dies 4 of array 'ring-4', not 8 of array 'torus-2x4'" in text


@pytest.mark.parametrize(("key", "value", "needle"), [
    ("links", [[0, 0, 1, 0], [2, 0, 3, 0]], "die 2 cannot be reached from die 0"),
    ("link_rate", -1, "link_rate must be above 0, not -1"),
    ("link_rate", "1/0", "link_rate must be a number above 0"),
    ("topology", "mesh", "unknown topology"),
    ("topology", [1], "unknown topology"),
    ("speeds", [1, 1, 0, 1], "speed of die 2 must be above 0"),
    ("dies", 6, "die 4 cannot be reached"),
    ("dies", 3, "dies are 0 to 2"),
])
def test_a_bad_array_is_refused(capsys, tmp_path, key, value, needle) -> None:
    array = {"version": 1, "name": "mine", "topology": "links", "dies": 4, "preset": "ndp-demo",
             "links": [[0, 0, 1, 0], [1, 1, 2, 0], [2, 1, 3, 0]]}
    path = tmp_path / "array.yaml"
    path.write_text(yaml.safe_dump(array | {key: value}))
    assert needle in refused(capsys, "digits-mlp", "--array", str(path), "--cost", "paper")


def test_a_plan_beyond_the_memory_of_a_die_is_refused(capsys, tmp_path) -> None:
    path = tmp_path / "array.yaml"
    array = {"version": 1, "name": "small", "topology": "ring", "dies": 4, "preset": "ndp-demo"}
    path.write_text(yaml.safe_dump(array))
    arguments = ("digits-mlp", "--array", str(path), "--planner", "data", "--batch", "32", "--cost", "paper")
    need = json.loads(run(capsys, *arguments, "--json"))["needed_memory_bytes"]
    path.write_text(yaml.safe_dump(array | {"memory_bytes": need - 1}))
    text = refused(capsys, *arguments)
    assert "does not fit the dies' memory" in text and "array 'small'" in text and text.endswith(f"at least {need}\n")
    assert re.search(r"\(\w+\.\w+ [\d.]+ \wB, .* others\); choose", text)
    path.write_text(yaml.safe_dump(array | {"memory_bytes": need}))
    report = json.loads(run(capsys, *arguments, "--json"))
    assert report["needed_memory_bytes"] == report["memory_bytes"] == need


@pytest.mark.parametrize(("text", "needle"), [
    ("version: 2\nnetwork: digits-mlp\n", "`plinth plan digits-mlp --out FILE`"),
    ("[1, 2]", "a plan is a mapping"),
    ("version: 4\nnetwork: nowhere\n", "network 'nowhere' is not in the zoo"),
    ("network: [1]\n", "version must be"),
    ("{", "plan.yaml"),
])
def test_a_bad_plan_is_refused(capsys, tmp_path, text, needle) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    assert needle in refused(capsys, "--plan", str(path), "--cost", "paper")


def test_a_changed_plan_is_refused(capsys, plan) -> None:
    data = yaml.safe_load(plan.read_text())
    data["transfers"][0]["words"] += 1
    plan.write_text(yaml.safe_dump(data))
    assert "transfers[0].words" in refused(capsys, "--plan", str(plan), "--cost", "paper")


def test_what_cycles_come_from_is_said(capsys) -> None:
    assert "cycles from formulas of the engines of preset ndp-demo" in run(
        capsys, "digits-mlp", "--array", "ring-4", "--batch", "64").replace("\n", " ")


def test_the_border_between_the_models_counts_the_tasks_that_are_shown() -> None:
    """On dies that do not all have as many; a step of as many tasks as the border goes task by task."""
    array = ring(3)
    plan, built = step.planned(NETWORKS["digits-cnn"], array, planner="model", model="exact", batch=16)
    tasks = sum(step.simulated(plan, array, step=built).work.tasks)
    assert len(built.classes()) > 1
    assert not step.simulated(plan, array, step=built, most_tasks=tasks).work.grouped
    assert step.simulated(plan, array, step=built, most_tasks=tasks - 1).work.grouped == (
        f"it has more than {tasks - 1} tasks, over all dies")
